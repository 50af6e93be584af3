//! `weft get`

use super::Target;
use crate::{complete, output};
use serde_json::Value;
use std::process::ExitCode;
use weft_core::command;
use weft_core::control::Op;

/// Read parameters: `weft get tcp.mss`, `weft get tcp`, `weft get '*'`.
///
/// Or what the interfaces of a group have carried, each and all together: `weft get group:wifi`, `weft get group:7.rx_bytes`; groups have
/// numbers, or names in /etc/iproute2/group.
#[derive(clap::Args, Debug)]
pub struct Args {
    /// Block, or block.parameter; the block may be a pattern. Or group:GROUP, or group:GROUP.FIGURE
    #[arg(add = complete::of_console())]
    name: String,
    #[command(flatten)]
    target: Target,
}

pub fn run(args: Args) -> anyhow::Result<ExitCode> {
    let op = command::read(&crate::groups::numbered(&["get".to_owned(), args.name]))?;
    let parameter = if let Op::Get { name, .. } = &op { name.clone() } else { None };
    let value = args.target.connect()?.node(op)?;
    match args.target.json {
        true => output::json(&nested(value, parameter.as_deref())),
        false => print(&value, parameter.as_deref()),
    }
    Ok(ExitCode::SUCCESS)
}

/// What a question for parameters was answered, a line each.
pub fn print(value: &Value, parameter: Option<&str>) {
    for (block, value) in value.as_object().into_iter().flatten() {
        match (value.as_object(), parameter) {
            (Some(all), None) => all.iter().for_each(|(name, value)| output::line(&format!("{block}.{name} = {}", output::text(value)))),
            (_, Some(name)) => output::line(&format!("{block}.{name} = {}", output::text(value))),
            _ => {}
        }
    }
}

/// One parameter in the same form as all of a block: `{"tcp":{"mss":536}}`.
pub fn nested(value: Value, parameter: Option<&str>) -> Value {
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
