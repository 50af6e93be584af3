//! `weft apply`

use super::{Target, read_stack};
use crate::output;
use serde_json::Value;
use std::path::PathBuf;
use std::process::ExitCode;
use weft_host::protocol::Ask;
use weft_node::Shape;

/// Bring the running graph to the shape of a stack file, with the fewest changes, all of them in one step or none.
///
/// Blocks that are in both stay, with connections and all other state; what the file leaves out goes. Parameters become what they are when the file's
/// stack comes up. Interfaces, addresses, routes and the engine stay as they are
#[derive(clap::Args, Debug)]
pub struct Args {
    /// The stack file (TOML); `weft help stack` shows what to write into one
    #[arg(value_name = "STACK.toml")]
    file: PathBuf,
    /// Change nothing: check, and print what would be done, in the words of the commands
    #[arg(long)]
    dry_run: bool,
    #[command(flatten)]
    target: Target,
}

pub fn run(args: Args) -> anyhow::Result<ExitCode> {
    let mut stack = read_stack(&args.file)?;
    stack.compile_filters(crate::groups::compile)?;
    let shape = Shape::of(&stack)?;
    let answer = args.target.connect()?.ask(Ask::Apply { shape, dry_run: args.dry_run })?;
    if args.target.json {
        output::json(&answer);
        return Ok(ExitCode::SUCCESS);
    }
    let lines = &answer[if args.dry_run { "operations" } else { "changes" }];
    match lines.as_array().map_or(&[][..], Vec::as_slice) {
        [] => output::line("(nothing to change)"),
        lines => lines.iter().filter_map(Value::as_str).for_each(output::line),
    }
    Ok(ExitCode::SUCCESS)
}
