//! `weft hash`

use crate::output;
use anyhow::Context as _;
use serde_json::{Value, json};
use std::path::PathBuf;
use std::process::ExitCode;
use weft_sim::record::{self, Rehash};

/// Compute the hash of a run again, from its record (`weft sim --record full`). Exit status 1: the summary beside it says otherwise
#[derive(clap::Args, Debug)]
pub struct Args {
    /// The folder of results
    folder: PathBuf,
    /// Print JSON
    #[arg(long)]
    json: bool,
}

pub fn run(args: &Args) -> anyhow::Result<ExitCode> {
    let found = record::rehash(&args.folder)?;
    let path = args.folder.join("summary.json");
    let text = std::fs::read_to_string(&path).with_context(|| format!("cannot read {}", path.display()))?;
    let summary: Value = serde_json::from_str(&text).with_context(|| format!("{} is no summary of a run", path.display()))?;
    let hash = format!("{:032x}", found.hash);
    let agrees = summary["hash"].as_str() == Some(&hash);
    match args.json {
        true => output::json(&json!({"hash": hash, "summary": summary["hash"], "agrees": agrees, "events": found.events})),
        false => output::line(&hash),
    }
    if agrees {
        return Ok(ExitCode::SUCCESS);
    }
    tell!("weft: {} says {}: its record is another run's, or one of both was changed", path.display(), output::text(&summary["hash"]));
    let others = differing(&found, &summary);
    if !others.is_empty() {
        tell!("weft: the nodes that differ: {}", others.join(", "));
    }
    Ok(ExitCode::from(1))
}

/// Nodes that the summary gives another hash, or none.
fn differing<'a>(found: &'a Rehash, summary: &Value) -> Vec<&'a str> {
    let nodes = summary["nodes"].as_array().map(Vec::as_slice).unwrap_or_default();
    let same = |name: &str, hash: u128| {
        nodes.iter().any(|node| node["name"].as_str() == Some(name) && node["hash"].as_str() == Some(&format!("{hash:032x}")))
    };
    found.nodes.iter().filter(|(name, hash)| !same(name, *hash)).map(|(name, _)| name.as_str()).collect()
}
