//! What the section of a node says in the same way whatever the node is.

use super::draft::NodeDraft;
use super::raw::{self, Raw};
use super::source::Source;
use crate::plan::{Capture, ClockPlan, PER_CALL_DEFAULT, START_DEFAULT_SECONDS};
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

/// The furthest that a clock can be wrong: ten years.
const OFFSET_MOST: Duration = BOOT_MOST;
/// And the most that a crystal can be, in parts of a thousand million: what Linux, too, thinks possible ("if the quartz is off by more than 10% then something
/// is VERY wrong!").
const DRIFT_MOST_PPB: i128 = 100_000_000;
/// Digits behind the point that a drift can have.
const DRIFT_DIGITS: u32 = 9;

/// What is wrong with a clock: what a node says goes before what stands at the top.
pub(super) fn clock(source: &Source<'_>, raw: &Raw, own: Option<&weft_node::Spanned<raw::Clock>>) -> Result<ClockPlan, StackError> {
    let both = [own, raw.clock.as_ref()];
    let find = |key: fn(&raw::Clock) -> Option<&weft_node::Spanned<String>>| both.iter().flatten().find_map(|clock| key(clock.get_ref()));
    let mut plan = ClockPlan::default();
    if let Some(text) = find(|clock| clock.offset.as_ref()) {
        plan.offset_ns = offset(source, raw, text)?;
    }
    if let Some(text) = find(|clock| clock.drift.as_ref()) {
        plan.drift = drift(source, text)?;
    }
    Ok(plan)
}

fn offset(source: &Source<'_>, raw: &Raw, text: &weft_node::Spanned<String>) -> Result<i64, StackError> {
    let wrong = |why: String| source.error(text.span(), why, "write it as \"250ms\", \"-1.5s\" or \"2h\"");
    let word = text.get_ref().trim();
    let (sign, span) = word.strip_prefix('-').map_or((1, word), |span| (-1, span));
    if span.starts_with(['-', '+']) && sign < 0 {
        return Err(wrong(format!("'{word}' is no time span")));
    }
    let span = weft_core::parameter::parse_duration(span).map_err(wrong)?;
    if span > OFFSET_MOST {
        return Err(source.error(
            text.span(),
            format!("no clock is wrong by {word}"),
            "write ten years at most: \"87600h\"; `start` is the world's date",
        ));
    }
    let offset = sign * i64::try_from(span.as_nanos()).unwrap_or(i64::MAX);
    let start = match &raw.start {
        Some(start) => super::expect::point_in_time(start.get_ref()),
        None => Some(Duration::from_secs(START_DEFAULT_SECONDS)),
    };
    // Linux has no date before the machine's boot, which is ten years ago at most.
    if start.is_some_and(|start| start.as_nanos() as i128 + i128::from(offset) < BOOT_MOST.as_nanos() as i128) {
        return Err(source.error(
            text.span(),
            format!("with {word} its date would be before 1980"),
            "make `start` later, or the offset smaller",
        ));
    }
    Ok(offset)
}

fn drift(source: &Source<'_>, text: &weft_node::Spanned<String>) -> Result<i64, StackError> {
    let word = text.get_ref().trim();
    let wrong = || source.error(text.span(), format!("'{word}' is no drift"), "write it as \"40ppm\", \"-1.5ppm\" or \"5ppb\"");
    let (number, parts) = match (word.strip_suffix("ppm"), word.strip_suffix("ppb")) {
        (Some(number), _) => (number, 1000),
        (_, Some(number)) => (number, 1),
        _ => return Err(wrong()),
    };
    let number = number.trim();
    let (sign, digits) = match number.strip_prefix('-') {
        Some(rest) => (-1, rest),
        None => (1, number.strip_prefix('+').unwrap_or(number)),
    };
    let (whole, behind) = digits.split_once('.').unwrap_or((digits, ""));
    let all = format!("{whole}{behind}");
    if all.is_empty() || all.len() > 24 || behind.len() > DRIFT_DIGITS as usize || !all.bytes().all(|byte| byte.is_ascii_digit()) {
        return Err(wrong());
    }
    // Parts of a thousand million, with DRIFT_DIGITS behind the point.
    let value = all.parse::<i128>().map_err(|_| wrong())? * 10_i128.pow(DRIFT_DIGITS - behind.len() as u32) * parts;
    if value > DRIFT_MOST_PPB * 10_i128.pow(DRIFT_DIGITS) {
        let help = "write 100000ppm at most, which is a tenth: a crystal that is further off is broken";
        return Err(source.error(text.span(), format!("no crystal is wrong by {word}"), help));
    }
    // Rounded up: what comes to a whole number of nanoseconds is that, and not one less.
    let rate = -(-sign * value * i128::from(weft_process::RATE_ONE)).div_euclid(10_i128.pow(9 + DRIFT_DIGITS));
    Ok(rate as i64)
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
