//! `weft down`

use super::Target;
use std::process::ExitCode;
use weft_host::protocol::Ask;

/// End a daemon. Programs on it lose their connections.
#[derive(clap::Args, Debug)]
pub struct Args {
    #[command(flatten)]
    target: Target,
}

pub fn run(args: Args) -> anyhow::Result<ExitCode> {
    args.target.connect()?.ask(Ask::Down)?;
    Ok(ExitCode::SUCCESS)
}
