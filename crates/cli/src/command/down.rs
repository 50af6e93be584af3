//! `weft down`

use super::Socket;
use crate::output;
use std::process::ExitCode;
use std::time::Duration;
use weft_host::control::ClientError;
use weft_host::protocol::Ask;

/// How long a stack may need to end.
const ENDING_MAX: Duration = Duration::from_secs(10);
/// The same with programs on it. The process of `weft run` goes on until its program ends, which may be who waits here.
const ENDING_WITH_PROGRAMS_MAX: Duration = Duration::from_secs(1);

/// End a stack, and wait until it has ended. Programs on it lose their connections; it says how many there are.
#[derive(clap::Args, Debug)]
pub struct Args {
    #[command(flatten)]
    target: Socket,
}

pub fn run(args: Args) -> anyhow::Result<ExitCode> {
    let mut stack = args.target.connect()?;
    let ended = stack.ask(Ask::Down).map_err(|error| match error {
        // Somebody else has ended it.
        ClientError::Gone(_) => {
            stack.outlives(ENDING_MAX);
            anyhow::anyhow!("the stack at {} has ended meanwhile: there is none any more", stack.path().display())
        }
        error => error.into(),
    })?;
    // Who starts another one now finds neither its socket nor its devices.
    let programs = ended["programs"].as_u64().unwrap_or(0);
    let is_over = stack.outlives(if programs > 0 { ENDING_WITH_PROGRAMS_MAX } else { ENDING_MAX });
    if args.target.json {
        output::json(&ended);
    } else if programs > 0 {
        output::line(&match programs {
            1 => "one program is still on it: its sockets are dead".to_owned(),
            _ => format!("{programs} programs are still on it: their sockets are dead"),
        });
    }
    anyhow::ensure!(is_over || programs > 0, "the stack at {} takes longer than {} s to end", stack.path().display(), ENDING_MAX.as_secs());
    Ok(ExitCode::SUCCESS)
}
