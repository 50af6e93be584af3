//! `weft trace`

use super::Socket;
use crate::output;
use std::process::ExitCode;
use weft_host::protocol::{Ask, Line};

/// Print a line for every frame that enters or leaves a stack, until interrupted. In a world, `capture = true` writes them
#[derive(clap::Args, Debug)]
pub struct Args {
    /// Stop after this many frames
    #[arg(long, short = 'c', value_name = "FRAMES")]
    count: Option<u64>,
    #[command(flatten)]
    target: Socket,
}

pub fn run(args: Args) -> anyhow::Result<ExitCode> {
    let mut client = args.target.connect()?;
    client.ask(Ask::Trace)?;
    let mut left = args.count.unwrap_or(u64::MAX);
    while left > 0 {
        let Line::Event(event) = client.line()? else { continue };
        left -= 1;
        match args.target.json {
            true => output::json(&event),
            false => output::line(&format!(
                "{:>12} {} {:<3} {}",
                output::text(&event["time"]),
                output::text(&event["interface"]),
                output::text(&event["direction"]),
                output::text(&event["frame"])
            )),
        }
    }
    Ok(ExitCode::SUCCESS)
}
