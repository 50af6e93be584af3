//! `weft set`

use super::Target;
use crate::output;
use anyhow::{Context as _, bail};
use serde_json::Value;
use std::process::ExitCode;
use weft_core::Selector;
use weft_core::control::Op;

/// Set a parameter while the node runs: `weft set tcp.mss 536`, or `weft set tcp.mss=536`.
#[derive(clap::Args, Debug)]
pub struct Args {
    /// block.parameter, or block.parameter=value; the block may be a pattern: then all that match are set, or none
    name: String,
    /// The value: a number, true, false, a word, 20ms, 100mbit
    #[arg(allow_hyphen_values = true)]
    value: Option<String>,
    #[command(flatten)]
    target: Target,
}

pub fn run(args: Args) -> anyhow::Result<ExitCode> {
    let (name, text) = match (&args.value, args.name.split_once('=')) {
        (Some(value), _) => (args.name.as_str(), value.as_str()),
        (None, Some(both)) => both,
        (None, None) => bail!("give a value, too: weft set {0} VALUE (`weft get {0}` tells the present one)", args.name),
    };
    let (block, parameter) = name.split_once('.').context("name the parameter as block.parameter, for example tcp.mss")?;
    // As it was written: the parameter's type decides what it is, and a bare number is no time span.
    let value = match serde_json::from_str(text) {
        Ok(value @ (Value::Array(_) | Value::Object(_) | Value::String(_))) => value,
        _ => text.into(),
    };
    let set = |name: &str, value: Value| Op::Set { target: Selector::parse(block), name: name.to_owned(), value };
    if let ("expression", Some(expression)) = (parameter, value.as_str()) {
        // A filter's: its program is what counts.
        let link = args.target.connect()?.node(Op::Get { target: Selector::parse(block), name: Some("link".to_owned()) })?;
        let links: std::collections::BTreeSet<&str> =
            link.as_object().into_iter().flatten().filter_map(|(_, link)| link.as_str()).collect();
        let [link] = links.into_iter().collect::<Vec<_>>()[..] else {
            bail!("'{block}' are filters of different links: set them one by one")
        };
        let program = match expression {
            "" => String::new(),
            expression => weft_host::expression::compile(expression, link).map_err(anyhow::Error::msg).context("the expression")?,
        };
        return changed(&args.target, Op::All(vec![set("program", program.into()), set("expression", value)]));
    }
    changed(&args.target, set(parameter, value))
}

/// Carries out a change and prints what changed.
pub fn changed(target: &Target, op: Op) -> anyhow::Result<ExitCode> {
    let summary = target.connect()?.node(op)?;
    match target.json {
        true => output::json(&summary),
        false => summary.as_array().into_iter().flatten().for_each(|line| output::line(&output::text(line))),
    }
    Ok(ExitCode::SUCCESS)
}
