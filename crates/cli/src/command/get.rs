//! `weft get`

use super::Target;
use crate::output;
use serde_json::Value;
use std::process::ExitCode;
use weft_core::Selector;
use weft_core::control::Op;

/// Read parameters: `weft get tcp.mss`, `weft get tcp`, `weft get '*'`.
#[derive(clap::Args, Debug)]
pub struct Args {
    /// Block, or block.parameter; the block may be a pattern
    name: String,
    #[command(flatten)]
    target: Target,
}

pub fn run(args: Args) -> anyhow::Result<ExitCode> {
    let (block, parameter) = match args.name.split_once('.') {
        Some((block, parameter)) => (block, Some(parameter.to_owned())),
        None => (args.name.as_str(), None),
    };
    let value = args.target.connect()?.node(Op::Get { target: Selector::parse(block), name: parameter.clone() })?;
    if args.target.json {
        output::json(&nested(value, parameter.as_deref()));
        return Ok(ExitCode::SUCCESS);
    }
    for (block, value) in value.as_object().into_iter().flatten() {
        match (value.as_object(), &parameter) {
            (Some(all), None) => all.iter().for_each(|(name, value)| output::line(&format!("{block}.{name} = {}", output::text(value)))),
            (_, Some(name)) => output::line(&format!("{block}.{name} = {}", output::text(value))),
            _ => {}
        }
    }
    Ok(ExitCode::SUCCESS)
}

/// One parameter in the same form as all of a block: `{"tcp":{"mss":536}}`.
fn nested(value: Value, parameter: Option<&str>) -> Value {
    match (value, parameter) {
        (Value::Object(blocks), Some(name)) => {
            Value::Object(blocks.into_iter().map(|(block, value)| (block, serde_json::json!({name: value}))).collect())
        }
        (value, _) => value,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn one_parameter_has_the_form_of_all() {
        assert_eq!(nested(json!({"tcp": 536, "udp": 1}), Some("mss")), json!({"tcp": {"mss": 536}, "udp": {"mss": 1}}));
        assert_eq!(nested(json!({"tcp": {"mss": 536}}), None), json!({"tcp": {"mss": 536}}));
    }
}
