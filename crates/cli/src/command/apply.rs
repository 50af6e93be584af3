//! `weft apply`

use super::{Target, read_stack};
use crate::{complete, output};
use anyhow::Context as _;
use serde_json::Value;
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use weft_host::protocol::Ask;
use weft_node::{Shape, Wiring};

/// Bring the running graph and its interfaces to those of a stack file, with the fewest changes, all of them in one step or none.
///
/// Blocks that are in both stay, with connections and all other state; what the file leaves out goes. Parameters become what they are when the file's
/// stack comes up. Files of blocks that it names are loaded first, unless the stack has these builds already; blocks of another build take over from theirs.
/// Interfaces of the file that the stack does not have are opened, with the file's addresses and routes; those that the file does not name are closed.
/// A file without [[interface]] changes none. What stays keeps its addresses and routes, and the engine stays as it is
#[derive(clap::Args, Debug)]
pub struct Args {
    /// The stack file (TOML); `weft help stack` shows what to write into one
    #[arg(value_name = "STACK.toml", add = complete::of_toml_files())]
    file: PathBuf,
    /// Change nothing: check, and print what would be done, in the words of the commands
    #[arg(long)]
    dry_run: bool,
    #[command(flatten)]
    target: Target,
}

pub fn run(args: Args) -> anyhow::Result<ExitCode> {
    let mut stack = read_stack(&args.file, &|_| Ok(()))?;
    stack.compile_filters(crate::groups::compile)?;
    let mut shape = Shape::of(&stack)?;
    // Files that a stack file names lie beside it, not where the daemon is.
    let folder = args.file.parent().unwrap_or(Path::new(""));
    for load in shape.loads.values_mut() {
        load.file = std::path::absolute(folder.join(&load.file)).context("the current folder")?.display().to_string();
    }
    let answer = args.target.connect()?.ask(Ask::Apply { shape, wiring: Wiring::of(&stack), dry_run: args.dry_run })?;
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
