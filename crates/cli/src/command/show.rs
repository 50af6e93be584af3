//! `weft show`

use super::Target;
use crate::output;
use clap::ValueEnum;
use serde_json::{Value, json};
use std::process::ExitCode;
use weft_core::control::{Op, Show};
use weft_core::table::{Family, Table};
use weft_host::protocol::Ask;

/// Show what a node is and what it has counted.
#[derive(clap::Args, Debug)]
pub struct Args {
    /// What to show
    what: What,
    #[command(flatten)]
    target: Target,
}

#[derive(ValueEnum, Clone, Copy, Debug)]
enum What {
    Blocks,
    Edges,
    Interfaces,
    Addresses,
    Routes,
    Neighbours,
    Groups,
    Sockets,
    Counters,
    Drops,
    Calls,
    Published,
}

pub fn run(args: Args) -> anyhow::Result<ExitCode> {
    let mut client = args.target.connect()?;
    let mut list = |tables: &[Table]| -> anyhow::Result<Value> {
        let mut rows = Vec::new();
        for table in tables {
            if let Value::Array(more) = client.node(Op::List(*table))? {
                rows.extend(more);
            }
        }
        Ok(rows.into())
    };
    let both = |of: fn(Family) -> Table| [of(Family::V4), of(Family::V6)];
    let value = match args.what {
        What::Interfaces => list(&[Table::Interfaces])?,
        What::Addresses => list(&both(Table::Addresses))?,
        What::Routes => list(&both(Table::Routes))?,
        What::Neighbours => list(&both(Table::Neighbours))?,
        What::Groups => list(&both(Table::Groups))?,
        What::Sockets => list(&[Table::Sockets])?,
        What::Blocks => client.node(Op::Show(Show::Blocks))?,
        What::Edges => client.node(Op::Show(Show::Edges))?,
        What::Counters => client.node(Op::Show(Show::Counters))?,
        What::Drops => client.node(Op::Show(Show::Drops))?,
        What::Calls => client.ask(Ask::Calls)?,
        What::Published => client.ask(Ask::Published)?,
    };
    if args.target.json {
        output::json(&value);
        return Ok(ExitCode::SUCCESS);
    }
    let rows = value.as_array().cloned().unwrap_or_default();
    match args.what {
        What::Counters => output::table(&flatten_counters(&rows)),
        _ => output::table(&rows),
    }
    Ok(ExitCode::SUCCESS)
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
