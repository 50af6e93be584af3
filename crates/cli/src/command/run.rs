//! `weft run`

use super::StackArgs;
use std::ffi::OsString;
use std::os::unix::fs::PermissionsExt as _;
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use weft_host::control::Client;
use weft_host::place::default_path;
use weft_host::run;
use weft_host::world::Control;

/// Run a program on weft: on a running daemon if there is one, else on a stack of its own, for the life of the program and of the
/// processes that it leaves behind. --stack, --set, --engine, --mptcp, --tap, --seed, --capture, --nat, --internet and --publish ask for a stack of
/// its own. The exit status is the program's.
///
/// The program finds the control socket of its stack in WEFT_CONTROL: `weft show sockets` started by it shows its own. From elsewhere
/// `weft show sockets --control run-PID` does, with the process id of `weft run`.
#[derive(clap::Args, Debug)]
pub struct Args {
    #[command(flatten)]
    stack: StackArgs,
    /// Join the stack with this control socket: a path, or run-PID
    #[arg(long, value_name = "PATH", conflicts_with_all = ["stack", "set", "engine", "tap", "seed", "capture", "nat", "internet", "publish", "mptcp"])]
    control: Option<PathBuf>,
    /// Run the program by the loader of virtual time, in real time: its sockets are the model's own, without the differences that stand-ins make;
    /// a call on a socket costs more. What is different from Linux besides is in docs/compatibility.md
    #[arg(long)]
    strict: bool,
    /// The program and its arguments; `--` in front of a program whose name begins with '-'
    #[arg(required = true, trailing_var_arg = true)]
    program: Vec<OsString>,
}

pub fn run(args: Args) -> anyhow::Result<ExitCode> {
    anyhow::ensure!(!run::is_under_weft(), "already under weft: a stack inside a stack is not possible");
    if let Some((file, (kind, help))) = args.program.first().and_then(|word| Some((word, kind_of_file(word.as_ref())?))) {
        anyhow::bail!("{}: this is a {kind} file, and no program\nhelp: {help}", file.display());
    }
    let status = match &args.control {
        Some(path) => run::join(Client::connect(path)?, &args.program, args.strict)?,
        None => match Client::connect(&default_path()) {
            Ok(client) if !args.stack.is_given() => run::join(client, &args.program, args.strict)?,
            _ => run::alone(args.stack.bring_up(&Control::Private)?, &args.program, args.strict)?,
        },
    };
    Ok(ExitCode::from(status))
}

/// The kind of a file that weft takes and the kernel does not.
fn kind_of_file(path: &Path) -> Option<(&'static str, &'static str)> {
    let facts = path.metadata().ok().filter(|facts| facts.is_file() && path.extension().is_some_and(|end| end == "toml"))?;
    if facts.permissions().mode() & 0o111 != 0 {
        return None;
    }
    weft_node::kind_of(&super::read_text(path, "stack").ok()?)
}
