//! `weft check`

use super::read_stack;
use crate::output;
use std::path::PathBuf;
use std::process::ExitCode;
use weft_node::Node;

/// Check a stack file without bringing it up.
#[derive(clap::Args, Debug)]
pub struct Args {
    /// The stack file
    file: PathBuf,
    /// Print JSON
    #[arg(long)]
    json: bool,
}

pub fn run(args: Args) -> anyhow::Result<ExitCode> {
    let mut stack = read_stack(&args.file)?;
    stack.compile_filters(weft_host::expression::compile)?;
    weft_host::ground::check(&stack)?;
    let node = Node::check(&stack)?;
    let graph = node.engine().graph();
    let (blocks, edges) = (graph.ids().count(), graph.edges().count());
    match args.json {
        true => output::json(&serde_json::json!({"file": stack.file, "node": node.name(), "blocks": blocks, "edges": edges})),
        false => output::line(&format!("{}: node '{}', {blocks} blocks, {edges} edges: sound", stack.file, node.name())),
    }
    Ok(ExitCode::SUCCESS)
}
