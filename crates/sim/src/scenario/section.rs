//! What the section of a node says in the same way whatever the node is.

use super::draft::NodeDraft;
use super::raw::{self, Raw};
use super::source::Source;
use crate::plan::{Capture, PER_CALL_DEFAULT};
use std::time::Duration;
use weft_node::StackError;

const PER_CALL_LEAST: Duration = Duration::from_nanos(1);
const PER_CALL_MOST: Duration = Duration::from_secs(1);

/// What stands in `capture`: true, or names of interfaces.
pub(super) fn capture(raw: &Raw, section: &raw::Node) -> Capture {
    match section.capture.as_ref().or(raw.capture.as_ref()) {
        Some(raw::Chosen::Names(names)) => Capture::Named(names.clone()),
        Some(raw::Chosen::All(true)) => Capture::All,
        Some(raw::Chosen::All(false)) | None => Capture::None,
    }
}

/// What a call costs on this node.
pub(super) fn per_call(source: &Source<'_>, draft: &NodeDraft) -> Result<Duration, StackError> {
    let Some(cpu) = &draft.section.cpu else { return Ok(PER_CALL_DEFAULT) };
    let base = match &cpu.get_ref().per_call {
        Some(text) => source.duration(text)?,
        None => PER_CALL_DEFAULT,
    };
    let factor = cpu.get_ref().factor.unwrap_or(1.0);
    let cost = base.as_secs_f64() * factor;
    if !(PER_CALL_LEAST.as_secs_f64()..=PER_CALL_MOST.as_secs_f64()).contains(&cost) {
        let what = format!("a call would cost {} s", cost);
        return Err(source.error(
            cpu.span(),
            what,
            "make per_call times factor 1ns to 1s: programs that wait by looking at the clock have to end",
        ));
    }
    Ok(base.mul_f64(factor))
}

/// The longest that a machine can have been up: ten years.
const BOOT_MOST: Duration = Duration::from_secs(10 * 365 * 86_400);

/// For how long it has been up; None: the seed says.
pub(super) fn boot(source: &Source<'_>, text: Option<&weft_node::Spanned<String>>) -> Result<Option<Duration>, StackError> {
    let Some(text) = text else { return Ok(None) };
    let up = source.duration(text)?;
    if up > BOOT_MOST {
        return Err(source.error(text.span(), format!("no machine is up for {}", text.get_ref()), "write ten years at most: \"87600h\""));
    }
    Ok(Some(up))
}

/// A value as `sysctl -w` takes it; None: nothing that a sysctl could be.
pub(super) fn line(value: &toml::Value) -> Option<String> {
    match value {
        toml::Value::String(text) => Some(text.clone()),
        toml::Value::Integer(number) => Some(number.to_string()),
        toml::Value::Boolean(is) => Some(u8::from(*is).to_string()),
        toml::Value::Array(several) => several.iter().map(line).collect::<Option<Vec<_>>>().map(|words| words.join(" ")),
        _ => None,
    }
}
