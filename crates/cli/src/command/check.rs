//! `weft check`

use super::{read_stack, tell_mistakes};
use crate::{complete, output};
use serde_json::{Value, json};
use std::path::PathBuf;
use std::process::ExitCode;
use weft_node::{InterfaceSection, Node, Stack};

/// Check a stack file without bringing it up, and say which interfaces and addresses it would have.
#[derive(clap::Args, Debug)]
pub struct Args {
    /// The stack file
    #[arg(add = complete::of_toml_files())]
    file: PathBuf,
    /// Print JSON
    #[arg(long)]
    json: bool,
}

pub fn run(args: Args) -> anyhow::Result<ExitCode> {
    let mut stack =
        read_stack(&args.file, &|stack| weft_host::ground::check(stack)).inspect_err(|error| tell_mistakes(args.json, error))?;
    let is_completed = stack.is_incomplete();
    stack.complete(0);
    stack.compile_filters(crate::groups::compile)?;
    weft_host::ground::check(&stack)?;
    let node = Node::check(&stack)?;
    let graph = node.engine().graph();
    let (blocks, edges) = (graph.ids().count(), graph.edges().count());
    let interfaces: Vec<Value> = stack.interfaces().map(|interface| described(&stack, interface)).collect();
    if args.json {
        output::json(&json!({"file": stack.file, "node": node.name(), "blocks": blocks, "edges": edges, "interfaces": interfaces}));
        return Ok(ExitCode::SUCCESS);
    }
    output::line(&format!("{}: node '{}', {blocks} blocks, {edges} edges: sound", stack.file, node.name()));
    for (interface, row) in stack.interfaces().zip(&interfaces) {
        let or_none = |key: &str| Some(output::text(&row[key])).filter(|text| !text.is_empty()).unwrap_or_else(|| "none".to_owned());
        output::line(&format!("  {} ({}): addresses {}", interface.name, interface.backend, or_none("addresses")));
    }
    match (interfaces.is_empty(), is_completed) {
        (true, _) => output::line("  no interfaces: only the loopback"),
        (false, true) => output::line(
            "  interfaces, addresses and routes are the default stack's (interfaces = \"none\" under [node]: only the loopback)",
        ),
        (false, false) => {}
    }
    Ok(ExitCode::SUCCESS)
}

/// An interface as it would come up.
fn described(stack: &Stack, interface: &InterfaceSection) -> Value {
    let addresses: Vec<&str> =
        stack.addresses().filter(|address| address.interface == interface.name).map(|address| address.address.as_str()).collect();
    json!({"name": interface.name, "backend": interface.backend, "addresses": addresses, "host_addresses": interface.host_address})
}
