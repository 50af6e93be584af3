//! `weft subscribe`

use super::Socket;
use crate::output;
use serde_json::Value;
use std::process::ExitCode;
use weft_core::command;
use weft_host::protocol::Line;

/// Print the alerts of a stack's blocks and the changes that are made to them, as they come, until interrupted.
///
/// With --json a line is {"time","block","alert","value"}, {"time","told","answer"} or, when more came than was read, {"lost"}
#[derive(clap::Args, Debug)]
pub struct Args {
    /// The block, or a pattern
    #[arg(default_value = "*")]
    block: String,
    /// Stop after this many lines
    #[arg(long, short = 'c', value_name = "LINES")]
    count: Option<u64>,
    #[command(flatten)]
    target: Socket,
}

pub fn run(args: Args) -> anyhow::Result<ExitCode> {
    let mut client = args.target.connect()?;
    client.node(command::read(&["subscribe", &args.block])?)?;
    let mut left = args.count.unwrap_or(u64::MAX);
    while left > 0 {
        let Line::Event(news) = client.line()? else { continue };
        left -= 1;
        match args.target.json {
            true => output::json(&news),
            false => output::line(&said(&news)),
        }
    }
    Ok(ExitCode::SUCCESS)
}

/// News as a person reads it.
pub fn said(news: &Value) -> String {
    if let Some(lost) = news["lost"].as_u64() {
        return format!("({lost} lines were lost here: they came faster than they were read)");
    }
    let time = output::text(&news["time"]);
    match (news["alert"].as_str(), news["answer"].as_array()) {
        (Some(alert), _) => format!("{time:>12} {} {alert} {}", output::text(&news["block"]), output::text(&news["value"])),
        (None, Some(changes)) => format!("{time:>12} {}", changes.iter().map(output::text).collect::<Vec<_>>().join("; ")),
        (None, None) => format!("{time:>12} {}", output::text(&news["told"])),
    }
}
