//! `weft show`

use super::Target;
use crate::output::{self, Wide};
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
    wide: Wide,
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
        false => print(&args.what, &value, args.wide),
    }
    Ok(ExitCode::SUCCESS)
}

/// What was shown, as a table.
pub fn print(what: &str, value: &Value, wide: Wide) {
    let rows = value.as_array().map(Vec::as_slice).unwrap_or_default();
    match what {
        "counters" => output::table(&flatten_counters(rows), wide),
        "generations" => output::table(&without_counters(rows), wide),
        "mptcp" => output::table(&subflows(rows), wide),
        _ => output::table(rows, wide),
    }
}

/// One row a subflow, each beside what its connection is; a connection without one has a row, too.
fn subflows(connections: &[Value]) -> Vec<Value> {
    let mut rows = Vec::new();
    for connection in connections {
        let state = if connection["waits_for_subflow"] == true { &json!("waits for a subflow") } else { &connection["stage"] };
        let common = json!({"connection": format!("{:08x}", connection["token"].as_u64().unwrap_or_default()), "state": state, "scheduler": connection["scheduler"]});
        let paths = connection["paths"].as_array().map(Vec::as_slice).unwrap_or_default();
        for path in paths {
            let mut row = common.clone();
            for (name, shown) in [
                ("local", "local"),
                ("remote", "remote"),
                ("use", "use"),
                ("sent_bytes", "sent"),
                ("sent_again_bytes", "again"),
                ("received_bytes", "received"),
                ("rtt_us", "rtt_us"),
                ("cwnd_bytes", "cwnd"),
            ] {
                row[shown] = path[name].clone();
            }
            rows.push(row);
        }
        if paths.is_empty() {
            rows.push(common);
        }
    }
    rows
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_subflow_has_a_row_and_so_has_a_connection_without_one() {
        let path = |local: &str| json!({"local": local, "remote": "10.0.0.2:80", "use": "active", "sent_bytes": 7, "sent_again_bytes": 1, "rtt_us": null});
        let connections = [
            json!({"token": 255, "stage": "open", "scheduler": "ecf", "paths": [path("10.0.0.1:1"), path("10.1.0.1:2")], "waits_for_subflow": false}),
            json!({"token": 1, "stage": "open", "scheduler": "ecf", "paths": [], "waits_for_subflow": true}),
        ];
        let rows = subflows(&connections);
        let shown = |row: &Value| format!("{} {} {} {}", row["connection"].as_str().unwrap(), row["state"], row["local"], row["again"]);
        assert_eq!(
            rows.iter().map(shown).collect::<Vec<_>>(),
            ["000000ff \"open\" \"10.0.0.1:1\" 1", "000000ff \"open\" \"10.1.0.1:2\" 1", "00000001 \"waits for a subflow\" null null",]
        );
    }
}
