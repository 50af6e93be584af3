//! Packet filter expressions (pcap-filter(7)) to programs, by tcpdump: it is installed where people look at packets, and asks libpcap.

use crate::control::{Client, ClientError};
use indexmap::IndexMap;
use std::collections::BTreeSet;
use std::process::{Command, Stdio};
use weft_core::control::{ControlError, Op, Value};

/// Longest expression, bytes.
const EXPRESSION_BYTES_MAX: usize = 4096;

/// Compiles an expression for frames that begin with an Ethernet header (`link` "ethernet") or an IP header ("ip") to the text that the filter
/// block takes.
///
/// # Errors
/// What is wrong with the expression in libpcap's words, or that tcpdump is missing.
pub fn compile(expression: &str, link: &str) -> Result<String, String> {
    if expression.len() > EXPRESSION_BYTES_MAX {
        return Err(format!("an expression of {} bytes is too long: at most {EXPRESSION_BYTES_MAX}", expression.len()));
    }
    let framing = if link == "ip" { "RAW" } else { "EN10MB" };
    // "-d" and an expression alone: tcpdump opens no device and needs no rights.
    let run = Command::new("tcpdump").args(["-y", framing, "-ddd", "--", expression]).stdin(Stdio::null()).output();
    let output = run.map_err(|error| match error.kind() {
        std::io::ErrorKind::NotFound => {
            "tcpdump, which compiles expressions, is not installed (Debian: apt install tcpdump); give program = \"…\" instead".to_owned()
        }
        _ => format!("cannot start tcpdump: {error}"),
    })?;
    if !output.status.success() {
        let said = String::from_utf8_lossy(&output.stderr);
        let why = said.lines().rfind(|line| !line.trim().is_empty()).unwrap_or("it failed").trim();
        return Err(why.strip_prefix("tcpdump: ").unwrap_or(why).to_owned());
    }
    let program = weft_core::bpf::Program::parse(&String::from_utf8_lossy(&output.stdout)).map_err(|error| error.to_string())?;
    Ok(program.to_text())
}

/// A filter's program is what counts: gives each expression in a change its program. What the frames of a filter begin with, the daemon is asked.
///
/// # Errors
/// What is wrong with an expression, or that the filters of a pattern have different frames.
pub fn in_changes(op: Op, client: &mut Client) -> Result<Op, ClientError> {
    let bad = |block: &str, why: String| ControlError::BadValue { block: block.to_owned(), parameter: "expression".to_owned(), why };
    let program = |block: &str, expression: &str, link: &str| match expression {
        "" => Ok(String::new()),
        expression => compile(expression, link).map_err(|why| bad(block, why)),
    };
    match op {
        Op::Set { target, name, value: Value::String(expression) } if name == "expression" => {
            let block = target.to_string();
            let answer = client.node(Op::Get { target: target.clone(), name: Some("link".to_owned()) })?;
            let links: BTreeSet<&str> = answer.as_object().into_iter().flatten().filter_map(|(_, link)| link.as_str()).collect();
            let [link] = links.into_iter().collect::<Vec<_>>()[..] else {
                return Err(bad(&block, "these are filters of different links: set them one by one".to_owned()).into());
            };
            let program = program(&block, &expression, link)?;
            let set = |name: &str, value: String| Op::Set { target: target.clone(), name: name.to_owned(), value: value.into() };
            Ok(Op::All(vec![set("program", program), set("expression", expression)]))
        }
        Op::Add { name, kind, mut parameters } if kind == "filter" => {
            if let Some(expression) = lone_expression(&parameters) {
                let link = parameters.get("link").and_then(Value::as_str).unwrap_or("ethernet");
                let program = program(&name, &expression, link)?;
                parameters.insert("program".to_owned(), program.into());
            }
            Ok(Op::Add { name, kind, parameters })
        }
        Op::Replace { name, kind, mut parameters, drop_state } if kind == "filter" => {
            if let Some(expression) = lone_expression(&parameters) {
                let link = match parameters.get("link").and_then(Value::as_str) {
                    Some(link) => link.to_owned(),
                    None => {
                        let answer = client.node(Op::Get { target: weft_core::Selector::Name(name.clone()), name: None })?;
                        answer[&name]["link"].as_str().unwrap_or("ethernet").to_owned()
                    }
                };
                let program = program(&name, &expression, &link)?;
                parameters.insert("program".to_owned(), program.into());
            }
            Ok(Op::Replace { name, kind, parameters, drop_state })
        }
        Op::All(ops) => ops.into_iter().map(|op| in_changes(op, client)).collect::<Result<_, _>>().map(Op::All),
        other => Ok(other),
    }
}

/// The expression that comes without a program.
fn lone_expression(parameters: &IndexMap<String, Value>) -> Option<String> {
    let expression = parameters.get("expression").filter(|_| !parameters.contains_key("program"))?;
    expression.as_str().map(str::to_owned)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn expressions_become_programs_for_the_framing() {
        let (ethernet, ip) = (compile("tcp port 80", "ethernet").unwrap(), compile("tcp port 80", "ip").unwrap());
        assert_ne!(ethernet, ip);
        assert!(weft_core::bpf::Program::parse(&ip).is_ok());
        let wrong = compile("tcp prot 80", "ethernet").unwrap_err();
        assert!(wrong.contains("syntax error") || wrong.contains("unknown"), "{wrong}");
        assert!(compile("-w /tmp/file", "ip").is_err(), "an expression is never an option");
        assert!(compile(&"x".repeat(5000), "ip").unwrap_err().contains("too long"));
    }
}
