//! `weft run`

use super::StackArgs;
use std::ffi::OsString;
use std::path::PathBuf;
use std::process::ExitCode;
use weft_host::control::{Client, default_path};
use weft_host::run;
use weft_host::world::Options;

/// Run a program on weft: on a running daemon if there is one, else on a stack of its own, for the life of the program and of the
/// processes that it leaves behind.
/// The exit status is the program's.
#[derive(clap::Args, Debug)]
pub struct Args {
    #[command(flatten)]
    stack: StackArgs,
    /// Join the daemon with this control socket
    #[arg(long, value_name = "PATH", conflicts_with_all = ["stack", "set", "tap", "seed", "capture"])]
    control: Option<PathBuf>,
    /// The program and its arguments
    #[arg(required = true, trailing_var_arg = true, allow_hyphen_values = true)]
    program: Vec<OsString>,
}

pub fn run(args: Args) -> anyhow::Result<ExitCode> {
    let status = match &args.control {
        Some(path) => run::join(Client::connect(path)?, &args.program)?,
        None => match Client::connect(&default_path()) {
            Ok(client) if !args.stack.is_given() => run::join(client, &args.program)?,
            _ => {
                let options = Options { seed: super::up::seed(args.stack.seed), control: None, capture: args.stack.capture.clone() };
                run::alone(args.stack.read()?, options, &args.program)?
            }
        },
    };
    Ok(ExitCode::from(status))
}
