//! The expressions of a stack file's filters and classes.

use super::Stack;
use crate::error::StackError;
use crate::spanned::Spanned;
use weft_core::bpf::Program;
use weft_core::control::Value;

/// What has become of an expression.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Compiled {
    /// Blocks understand it: itself, with numbers for the names of groups.
    Expression(String),
    /// A program as `tcpdump -ddd` prints it.
    Program(String),
}

impl Stack {
    /// Has the expressions of filters and classes compiled: `compile` gets an expression and what frames begin with ("ethernet" or "ip").
    ///
    /// # Errors
    /// What is wrong with an expression, and where it stands.
    pub fn compile_filters(&mut self, compile: impl Fn(&str, &str) -> Result<Compiled, String>) -> Result<(), StackError> {
        let mut changes = Vec::new();
        for entry in self.blocks() {
            let kind = entry.kind.as_deref().unwrap_or(&entry.name);
            let text = |name: &str| entry.parameters.get(name).and_then(Value::as_str);
            let link = text("link").unwrap_or(if kind == "classify" { "ip" } else { "ethernet" });
            for name in entry.parameters.keys() {
                let takes = kind == "filter" && name == "expression" && text("program").is_none()
                    || kind == "classify" && name.starts_with("class");
                let Some(expression) = text(name).filter(|text| takes && !text.trim().is_empty() && Program::parse(text).is_err()) else {
                    continue;
                };
                let span = entry.spans.get(name).cloned().unwrap_or_else(|| entry.span.clone());
                let compiled = compile(expression, link)
                    .map_err(|why| self.error(span.clone(), &format!("{name}: {why}"), "pcap-filter(7) describes expressions"))?;
                let (becomes, text) = match compiled {
                    Compiled::Expression(text) => (name.clone(), text),
                    Compiled::Program(program) if kind == "filter" => ("program".to_owned(), format!("{program} # {expression}")),
                    Compiled::Program(program) => (name.clone(), program),
                };
                changes.push((entry.name.clone(), name.clone(), becomes, span, text));
            }
        }
        for (block, name, becomes, span, text) in changes {
            if let Some((_, fields)) = self.raw.block.iter_mut().find(|(of, _)| *of.get_ref() == block) {
                fields.retain(|field, _| *field.get_ref() != name);
                fields.insert(Spanned::new(span.clone(), becomes), Spanned::new(span, toml::Value::String(text)));
            }
        }
        Ok(())
    }
}
