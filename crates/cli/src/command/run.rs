//! `weft run`

use super::StackArgs;
use std::ffi::OsString;
use std::path::PathBuf;
use std::process::ExitCode;
use weft_host::control::{Client, default_path};
use weft_host::run::{self, RunError};
use weft_host::world::WorldError;

/// Run a program on weft: on a running daemon if there is one, else on a stack of its own, for the life of the program and of the
/// processes that it leaves behind.
/// The exit status is the program's.
#[derive(clap::Args, Debug)]
pub struct Args {
    #[command(flatten)]
    stack: StackArgs,
    /// Join the daemon with this control socket
    #[arg(long, value_name = "PATH", conflicts_with_all = ["stack", "set", "tap", "seed", "capture", "nat", "publish"])]
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
            _ => alone(&args)?,
        },
    };
    Ok(ExitCode::from(status))
}

/// On a stack of its own. The default stack's TAP and network move out of the way of another weft's.
fn alone(args: &Args) -> anyhow::Result<u8> {
    let last = if args.stack.is_numbered() { weft_node::DEFAULT_STACKS_MAX - 1 } else { 0 };
    for number in 0..=last {
        let stack = args.stack.read(number)?;
        let told = stack.interfaces().next().zip(stack.addresses().next()).map(|(one, address)| {
            format!(
                "weft: weft0 is in use; this stack is on {} with {}, the host's side {}",
                one.name,
                address.address,
                if one.host_address.is_empty() { "-".to_owned() } else { one.host_address.join(", ") }
            )
        });
        match run::alone(stack, args.stack.options(), &args.program, told.filter(|_| number > 0).as_deref()) {
            Err(RunError::World(WorldError::Busy { .. })) if number < last => {}
            result => return Ok(result?),
        }
    }
    unreachable!("the last number's result is returned, whatever it is")
}
