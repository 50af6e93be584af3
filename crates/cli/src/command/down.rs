//! `weft down`

use super::Target;
use crate::output;
use std::process::ExitCode;
use weft_host::protocol::Ask;

/// End a stack. Programs on it lose their connections; it says how many there are.
#[derive(clap::Args, Debug)]
pub struct Args {
    #[command(flatten)]
    target: Target,
}

pub fn run(args: Args) -> anyhow::Result<ExitCode> {
    let ended = args.target.connect()?.ask(Ask::Down)?;
    if args.target.json {
        output::json(&ended);
    } else if let Some(programs @ 1..) = ended["programs"].as_u64() {
        output::line(&match programs {
            1 => "one program is still on it: its sockets are dead".to_owned(),
            _ => format!("{programs} programs are still on it: their sockets are dead"),
        });
    }
    Ok(ExitCode::SUCCESS)
}
