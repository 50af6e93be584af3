//! What must have come of a run. `judge.rs` says whether it has.

use super::event::LATE;
use super::program::called;
use super::raw::{self, Raw};
use super::source::Source;
use crate::figures::GOODPUT;
use crate::plan::{Plan, ProgramPlan, Run};
use regex::Regex;
use std::time::Duration;
use toml::value::{Datetime, Offset};
use weft_core::Instant;
use weft_node::Spanned;
use weft_node::StackError;

/// What must be so.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Check {
    /// A program ended with this status.
    Status(usize, i32),
    /// A program wrote this, somewhere in its output.
    Output(usize, String),
    /// A program wrote this nowhere in its output.
    Absent(usize, String),
    /// This regular expression fits somewhere in a program's output.
    Matches(usize, String),
    /// A program ended, for the last time, within these bounds.
    End {
        /// Which program.
        program: usize,
        /// Not earlier.
        min: Instant,
        /// Not later.
        max: Instant,
    },
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

pub(super) fn all(source: &Source<'_>, raw: &Raw, plan: &Plan) -> Result<Vec<Expectation>, StackError> {
    let mut out = Vec::new();
    for section in &raw.expect {
        let expect = section.get_ref();
        let line = source.error(section.span(), "", "").line;
        let mut add = |check| out.push(Expectation { line, check });
        let texts = [expect.output.is_some(), expect.absent.is_some(), expect.matches.is_some()];
        let numbers = [
            expect.status.is_some(),
            expect.figure.is_some(),
            expect.goodput_min.is_some(),
            expect.goodput_max.is_some(),
            expect.end_min.is_some(),
            expect.end_max.is_some(),
        ];
        let before = texts.into_iter().chain(numbers).any(|given| given);
        if let Some(hash) = &expect.hash {
            let number = u128::from_str_radix(hash.get_ref(), 16).ok().filter(|_| hash.get_ref().len() == HASH_DIGITS);
            add(Check::Hash(number.ok_or_else(|| source.error(hash.span(), "that is no hash", "write the 32 digits of summary.json"))?));
        }
        let Some(name) = &expect.program else {
            if before || expect.hash.is_none() {
                return Err(source.error(section.span(), "expect what of whom?", "name a program, or give a hash"));
            }
            continue;
        };
        if !before {
            let help = "write status, output, absent, matches, end_min, end_max, figure, goodput_min or goodput_max";
            return Err(source.error(name.span(), "expect what of the program?", help));
        }
        let programs = called(source, name, plan)?;
        can_have_goodput(source, expect, plan, &programs)?;
        for program in programs {
            of_program(source, expect, program, plan.end)?.into_iter().for_each(&mut add);
        }
    }
    Ok(out)
}

/// Of a hash as summary.json has it.
const HASH_DIGITS: usize = 32;

/// What a section expects of one program, in a run that is over at this time.
fn of_program(source: &Source<'_>, expect: &raw::Expect, program: usize, over: Instant) -> Result<Vec<Check>, StackError> {
    let mut out = Vec::new();
    out.extend(expect.status.map(|status| Check::Status(program, status)));
    out.extend(expect.output.as_ref().map(|text| Check::Output(program, text.clone())));
    out.extend(expect.absent.as_ref().map(|text| Check::Absent(program, text.clone())));
    if let Some(pattern) = &expect.matches {
        if let Err(why) = Regex::new(pattern.get_ref()) {
            let last = why.to_string().lines().last().unwrap_or_default().trim().to_owned();
            let help = "write it as matches = 'term \\d+: [a-z]+ leads', between single quotes";
            return Err(source.error(pattern.span(), format!("that is no regular expression: {last}"), help));
        }
        out.push(Check::Matches(program, pattern.get_ref().clone()));
    }
    out.extend(end(source, expect, program, over)?);
    let bound = |bound: &Option<Spanned<u64>>, otherwise: u64| bound.as_ref().map_or(otherwise, |bound| *bound.get_ref());
    let (min, max) = (bound(&expect.min, 0), bound(&expect.max, u64::MAX));
    match (&expect.figure, expect.min.as_ref().or(expect.max.as_ref())) {
        (Some(figure), _) => out.push(Check::Figure { program, name: figure.get_ref().clone(), min, max }),
        (None, Some(bound)) => {
            let help =
                "write figure = \"received_bytes\" with it, or goodput_min, goodput_max, end_min and end_max, which are bounds themselves";
            return Err(source.error(bound.span(), "a bound of what?", help));
        }
        (None, None) => {}
    }
    if let (Some(most), true) = (&expect.max, min > max) {
        return Err(source.error(most.span(), format!("no number is at least {min} and at most {max}"), "make max the larger one"));
    }
    if expect.goodput_min.is_some() || expect.goodput_max.is_some() {
        let rate = |rate: &Option<Spanned<String>>, otherwise: u64| rate.as_ref().map_or(Ok(otherwise), |rate| source.rate(rate));
        let (min, max) = (rate(&expect.goodput_min, 0)?, rate(&expect.goodput_max, u64::MAX)?);
        if let (Some(most), true) = (&expect.goodput_max, min > max) {
            let what = format!("no goodput is at least {min} and at most {max} bit/s");
            return Err(source.error(most.span(), what, "make goodput_max the larger one"));
        }
        out.push(Check::Figure { program, name: GOODPUT.to_owned(), min, max });
    }
    Ok(out)
}

/// Between which times a program is to end.
fn end(source: &Source<'_>, expect: &raw::Expect, program: usize, over: Instant) -> Result<Option<Check>, StackError> {
    let time = |text: &Option<Spanned<String>>| text.as_ref().map(|text| Ok(Instant::ZERO + source.duration(text)?)).transpose();
    let (min, max) = (time(&expect.end_min)?, time(&expect.end_max)?);
    if let (Some(at), Some(text)) = (min.filter(|at| *at > over), &expect.end_min) {
        return Err(source.error(text.span(), format!("at {at} the run is over: it lasts {over}"), LATE));
    }
    if let (Some(least), Some(most), Some(text)) = (min, max, &expect.end_max)
        && least > most
    {
        return Err(source.error(text.span(), format!("nothing ends at {least} or later and by {most}"), "make end_max the later one"));
    }
    let given = min.is_some() || max.is_some();
    Ok(given.then(|| Check::End { program, min: min.unwrap_or(Instant::ZERO), max: max.unwrap_or(Instant::FAR_FUTURE) }))
}

/// Goodput is that of who receives: the other built-in programs have none.
fn can_have_goodput(source: &Source<'_>, expect: &raw::Expect, plan: &Plan, programs: &[usize]) -> Result<(), StackError> {
    let Some(rate) = expect.goodput_min.as_ref().or(expect.goodput_max.as_ref()) else { return Ok(()) };
    let without = |program: &&ProgramPlan| matches!(&program.run, Run::Builtin(builtin) if !builtin.has_goodput());
    match programs.iter().filter_map(|program| plan.programs.get(*program)).find(without) {
        Some(program) => {
            let what = format!("'{}' tells no goodput: it is no program that receives", program.name);
            Err(source.error(rate.span(), what, "name the tcp-sink, udp-sink or unmodified program at the other end"))
        }
        None => Ok(()),
    }
}

/// Time since 1970 of a TOML date and time; without an offset it is UTC.
pub fn point_in_time(value: &Datetime) -> Option<Duration> {
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
