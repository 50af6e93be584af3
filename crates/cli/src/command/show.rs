//! `weft show`

use super::Target;
use crate::output;
use clap::builder::PossibleValuesParser;
use serde_json::{Value, json};
use std::process::ExitCode;
use weft_core::command;
use weft_core::control::Show;
use weft_host::protocol::Ask;

/// Show what a node is and what it has counted.
#[derive(clap::Args, Debug)]
pub struct Args {
    /// What to show
    #[arg(value_parser = words())]
    what: String,
    #[command(flatten)]
    target: Target,
}

/// What only a daemon can show, beside what every node can.
pub const OF_THE_DAEMON: [(&str, Ask); 2] = [("calls", Ask::Calls), ("published", Ask::Published)];

/// The words for what can be shown.
fn words() -> PossibleValuesParser {
    let of_nodes = Show::ALL.iter().map(|(name, _)| *name);
    PossibleValuesParser::new(of_nodes.chain(OF_THE_DAEMON.iter().map(|(name, _)| *name)))
}

pub fn run(args: Args) -> anyhow::Result<ExitCode> {
    let mut client = args.target.connect()?;
    let ask = match OF_THE_DAEMON.into_iter().find(|(name, _)| *name == args.what) {
        Some((_, ask)) => ask,
        None => Ask::Node(command::read(&["show", &args.what])?),
    };
    let value = client.ask(ask)?;
    match args.target.json {
        true => output::json(&value),
        false => print(&args.what, &value),
    }
    Ok(ExitCode::SUCCESS)
}

/// What was shown, as a table.
pub fn print(what: &str, value: &Value) {
    let rows = value.as_array().map(Vec::as_slice).unwrap_or_default();
    match what {
        "counters" => output::table(&flatten_counters(rows)),
        "generations" => output::table(&without_counters(rows)),
        _ => output::table(rows),
    }
}

/// What a table has no room for, `--json` has.
fn without_counters(generations: &[Value]) -> Vec<Value> {
    let mut rows = generations.to_vec();
    for row in rows.iter_mut().filter_map(Value::as_object_mut) {
        row.shift_remove("counters");
        let drops = row.shift_remove("drops").unwrap_or_default();
        let frames: u64 = drops.as_object().into_iter().flatten().filter_map(|(_, count)| count.as_u64()).sum();
        row.insert("drops".to_owned(), frames.into());
    }
    rows
}

/// One row a counter that is not zero.
fn flatten_counters(blocks: &[Value]) -> Vec<Value> {
    let mut rows = Vec::new();
    for block in blocks {
        rows.push(json!({"block": block["block"], "counter": "frames", "value": block["frames"]}));
        for (name, value) in block["counters"].as_object().into_iter().flatten() {
            if value.as_u64() != Some(0) {
                rows.push(json!({"block": block["block"], "counter": name, "value": value}));
            }
        }
    }
    rows
}
