//! What must have come of a run, and whether it has.

use super::Source;
use super::raw::Raw;
use crate::actor::Status;
use crate::plan::{Expect, Plan};
use crate::world::{Reason, RunEnd, World};
use std::time::Duration;
use toml::value::{Datetime, Offset};
use weft_node::StackError;

/// What must be so.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Check {
    /// A program ended with this status.
    Status(usize, i32),
    /// A program wrote this, somewhere in its output.
    Output(usize, String),
    /// A number that a program reported lies within bounds.
    Figure {
        /// Which program.
        program: usize,
        /// Which number.
        name: String,
        /// At least.
        min: u64,
        /// At most.
        max: u64,
    },
    /// The world's hash.
    Hash(u128),
}

/// An `[[expect]]` and where it stands.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Expectation {
    /// Line of the file.
    pub line: usize,
    /// What must be so.
    pub check: Check,
}

/// An expectation and why it does not hold; none: it does.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Verdict {
    /// What was expected.
    pub name: String,
    /// Why it is not so.
    pub failure: Option<String>,
}

pub(super) fn all(source: &Source<'_>, raw: &Raw, plan: &Plan) -> Result<Vec<Expectation>, StackError> {
    let mut out = Vec::new();
    for section in &raw.expect {
        let expect = section.get_ref();
        let line = source.error(section.span(), "", "").line;
        let mut add = |check| out.push(Expectation { line, check });
        let before = expect.status.is_some() || expect.output.is_some() || expect.figure.is_some() || expect.goodput_min.is_some();
        if let Some(hash) = &expect.hash {
            let number = u128::from_str_radix(hash.get_ref(), 16);
            add(Check::Hash(number.map_err(|_| source.error(hash.span(), "that is no hash", "write the 32 digits of summary.json"))?));
        }
        let Some(name) = &expect.program else {
            if before || expect.hash.is_none() {
                return Err(source.error(section.span(), "expect what of whom?", "name a program, or give a hash"));
            }
            continue;
        };
        let program = source.find(name, "program", plan.programs.iter().map(|program| program.name.as_str()))?;
        if !before {
            return Err(source.error(name.span(), "expect what of the program?", "write status, output, figure or goodput_min"));
        }
        if let Some(status) = expect.status {
            add(Check::Status(program, status));
        }
        if let Some(output) = &expect.output {
            add(Check::Output(program, output.clone()));
        }
        if let Some(figure) = &expect.figure {
            let (min, max) = (expect.min.unwrap_or(0), expect.max.unwrap_or(u64::MAX));
            add(Check::Figure { program, name: figure.get_ref().clone(), min, max });
        }
        if let Some(rate) = &expect.goodput_min {
            let min = source.rate(rate)?;
            add(Check::Figure { program, name: "goodput_bits_per_second".to_owned(), min, max: u64::MAX });
        }
    }
    Ok(out)
}

impl Check {
    fn name(&self, plan: &Plan) -> String {
        let of = |program: &usize| plan.programs.get(*program).map_or("?", |program| program.name.as_str());
        match self {
            Check::Status(program, status) => format!("{} ends with exit status {status}", of(program)),
            Check::Output(program, text) => format!("{} writes {text:?}", of(program)),
            Check::Figure { program, name, min, max: u64::MAX } => format!("{}: {name} is at least {min}", of(program)),
            Check::Figure { program, name, min, max } => format!("{}: {name} is from {min} to {max}", of(program)),
            Check::Hash(hash) => format!("the hash is {hash:032x}"),
        }
    }

    /// Why it does not hold.
    fn failure(&self, world: &World) -> Option<String> {
        match self {
            Check::Status(program, status) => match ended(world, *program) {
                Ok(Status::Exited(got)) if got == *status => None,
                Ok(got) => Some(got.to_string()),
                Err(why) => Some(why),
            },
            Check::Output(program, text) => {
                let state = world.program(*program)?;
                let wrote = String::from_utf8_lossy(&state.output).into_owned() + &String::from_utf8_lossy(&state.error);
                (!wrote.contains(text)).then(|| format!("it wrote {} bytes without it", wrote.len()))
            }
            Check::Figure { program, name, min, max } => match world.program(*program).and_then(|state| state.figures.get(name.as_str())) {
                Some(value) if (min..=max).contains(&value) => None,
                Some(value) => Some(format!("it is {value}")),
                None => Some("it was not reported".to_owned()),
            },
            Check::Hash(hash) => (world.hash() != *hash).then(|| format!("it is {:032x}", world.hash())),
        }
    }
}

fn ended(world: &World, program: usize) -> Result<Status, String> {
    match world.program(program) {
        Some(state) => match (state.ended, state.started) {
            (Some((_, status)), _) => Ok(status),
            (None, Some(_)) => {
                let waits =
                    world.waits().into_iter().find(|(of, _)| *of == program).map_or(String::new(), |(_, what)| format!(", waits {what}"));
                Err(format!("still running{waits}"))
            }
            (None, None) => Err("never started".to_owned()),
        },
        None => Err("never started".to_owned()),
    }
}

/// Whether a run is what was expected: how programs were to end, the expectations of the file, and that every event was taken.
pub fn judge(world: &World, end: &RunEnd, expectations: &[Expectation]) -> Vec<Verdict> {
    let plan = world.plan();
    let mut verdicts = Vec::new();
    for (number, program) in plan.programs.iter().enumerate() {
        let name = |what: &str| format!("{} {what}", program.name);
        let verdict = match program.expect {
            Expect::Any => continue,
            Expect::Status(status) => {
                let check = Check::Status(number, status);
                Verdict { name: check.name(plan), failure: check.failure(world) }
            }
            Expect::Running => {
                let failure = match world.program(number).and_then(|state| state.ended) {
                    None | Some((_, Status::Exited(0))) => None,
                    Some((at, status)) => Some(format!("{status} at {at}")),
                };
                Verdict { name: name("runs to the end"), failure }
            }
        };
        verdicts.push(verdict);
    }
    for expectation in expectations {
        let name = format!("{} (line {})", expectation.check.name(plan), expectation.line);
        verdicts.push(Verdict { name, failure: expectation.check.failure(world) });
    }
    for failure in &end.failures {
        verdicts.push(Verdict { name: "every event is taken".to_owned(), failure: Some(failure.clone()) });
    }
    if end.reason == Reason::Stuck {
        let failure = format!("more than {} events at {}", crate::EVENTS_PER_INSTANT_MAX, end.at);
        verdicts.push(Verdict { name: "time goes on".to_owned(), failure: Some(failure) });
    }
    verdicts
}

/// Time since 1970 of a TOML date and time; without an offset it is UTC.
pub(super) fn point_in_time(value: &Datetime) -> Option<Duration> {
    let date = value.date?;
    let time = value.time;
    let (year, month, day) = (i64::from(date.year), i64::from(date.month), i64::from(date.day));
    // Days from 1970-01-01 in the proleptic Gregorian calendar; years begin in March, so that the leap day is the last.
    let shifted = if month <= 2 { year - 1 } else { year };
    let era = shifted.div_euclid(400);
    let year_of_era = shifted.rem_euclid(400);
    let day_of_year = (153 * ((month + 9) % 12) + 2) / 5 + day - 1;
    let days = era * 146_097 + year_of_era * 365 + year_of_era / 4 - year_of_era / 100 + day_of_year - 719_468;
    let (seconds, nanos) = time.map_or((0, 0), |time| {
        let clock = i64::from(time.hour) * 3600 + i64::from(time.minute) * 60 + i64::from(time.second.unwrap_or(0));
        (clock, time.nanosecond.unwrap_or(0))
    });
    let offset = match value.offset {
        Some(Offset::Custom { minutes }) => i64::from(minutes) * 60,
        Some(Offset::Z) | None => 0,
    };
    let total = u64::try_from(days * 86_400 + seconds - offset).ok()?;
    Some(Duration::new(total, nanos))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn dates_are_seconds_since_1970() {
        let of = |text: &str| point_in_time(&text.parse().unwrap()).map(|span| (span.as_secs(), span.subsec_nanos()));
        assert_eq!(of("1970-01-01T00:00:00Z"), Some((0, 0)));
        assert_eq!(of("2030-01-01T00:00:00Z"), Some((crate::plan::START_DEFAULT_SECONDS, 0)));
        assert_eq!(of("2024-02-29T12:30:01.5+01:00"), Some((1_709_206_201, 500_000_000)));
        assert_eq!(of("1969-01-01T00:00:00Z"), None);
    }
}
