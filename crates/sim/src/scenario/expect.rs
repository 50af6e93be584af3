//! What must have come of a run, and whether it has.

use super::event::LATE;
use super::program::called;
use super::raw::{self, Raw};
use super::source::Source;
use crate::figures::GOODPUT;
use crate::life;
use crate::limits::EVENTS_PER_INSTANT_MAX;
use crate::plan::{Expect, NodeKind, Plan, ProgramPlan, Run};
use crate::report::Status;
use crate::world::{Reason, RunEnd, World};
use regex::Regex;
use std::cell::OnceCell;
use std::collections::BTreeMap;
use std::time::Duration;
use toml::Spanned;
use toml::value::{Datetime, Offset};
use weft_core::Instant;
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

impl Check {
    fn name(&self, plan: &Plan) -> String {
        let of = |program: &usize| plan.programs.get(*program).map_or("?", |program| program.name.as_str());
        match self {
            Check::Status(program, status) => format!("{} ends with exit status {status}", of(program)),
            Check::Output(program, text) => format!("{} writes {text:?}", of(program)),
            Check::Absent(program, text) => format!("{} does not write {text:?}", of(program)),
            Check::Matches(program, pattern) => format!("{} writes what /{pattern}/ fits", of(program)),
            Check::End { program, min, max: Instant::FAR_FUTURE } => format!("{} ends at {min} or later", of(program)),
            Check::End { program, min: Instant::ZERO, max } => format!("{} ends by {max}", of(program)),
            Check::End { program, min, max } => format!("{} ends from {min} to {max}", of(program)),
            Check::Figure { program, name, min: 0, max: u64::MAX } => format!("{} reports {name}", of(program)),
            Check::Figure { program, name, min: 0, max } => format!("{}: {name} is at most {max}", of(program)),
            Check::Figure { program, name, min, max: u64::MAX } => format!("{}: {name} is at least {min}", of(program)),
            Check::Figure { program, name, min, max } => format!("{}: {name} is from {min} to {max}", of(program)),
            Check::Hash(hash) => format!("the hash is {hash:032x}"),
        }
    }

    /// Why it does not hold.
    fn failure(&self, world: &World, waits: &Waits<'_>) -> Option<String> {
        match self {
            Check::Status(program, status) => match ended(world, waits, *program) {
                Ok(Status::Exited(got)) if got == *status => None,
                Ok(got) => Some(got.to_string()),
                Err(why) => Some(why),
            },
            Check::Output(program, text) => {
                let wrote = written(world, *program);
                (!wrote.contains(text)).then(|| without(world, *program, &wrote))
            }
            Check::Matches(program, pattern) => {
                let wrote = written(world, *program);
                let fits = Regex::new(pattern).is_ok_and(|pattern| pattern.is_match(&wrote));
                (!fits).then(|| without(world, *program, &wrote))
            }
            Check::Absent(program, text) => {
                let wrote = written(world, *program);
                let line = wrote.split('\n').zip(1..).find(|(line, _)| text.lines().next().is_some_and(|first| line.contains(first)));
                let lost = world.program(*program).map_or(0, |state| state.output_lost);
                if lost > 0 && !wrote.contains(text) {
                    return Some(format!("nobody can say: {lost} bytes of its output are lost"));
                }
                wrote
                    .contains(text)
                    .then(|| line.map_or("it did".to_owned(), |(line, number)| format!("line {number} is {:?}", tail(line))))
            }
            Check::End { program, min, max } => match world.program(*program).and_then(|state| state.ended) {
                Some((at, _)) if (*min..=*max).contains(&at) => None,
                Some((at, status)) => Some(format!("{status} at {at}")),
                None => ended(world, waits, *program).err(),
            },
            Check::Figure { program, name, min, max } => {
                let figures = world.program(*program).map(|state| &state.figures);
                match figures.and_then(|figures| figures.get(name.as_str())) {
                    Some(value) if (min..=max).contains(&value) => None,
                    Some(value) => Some(format!("it is {value}")),
                    None if name == GOODPUT => Some(format!("it cannot be computed: {}", without_goodput(world, *program))),
                    None => Some(format!("it was not reported; {}", reported(world, *program))),
                }
            }
            Check::Hash(hash) => (world.hash() != *hash).then(|| format!("it is {:032x}", world.hash())),
        }
    }
}

/// All that a program wrote, in all of its lives.
fn written(world: &World, program: usize) -> String {
    let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
    world.program(program).map_or(String::new(), |state| text(&state.output) + &text(&state.error))
}

/// Most characters of what was written that a message shows.
const EXCERPT: usize = 200;

fn tail(text: &str) -> String {
    let count = text.chars().count();
    match count > EXCERPT {
        true => format!("…{}", text.chars().skip(count - EXCERPT).collect::<String>()),
        false => text.to_owned(),
    }
}

/// What a program wrote in place of what was expected.
fn without(world: &World, program: usize, wrote: &str) -> String {
    if !wrote.is_empty() {
        let lost = world.program(program).map_or(0, |state| state.output_lost);
        let more = if lost > 0 { format!(" ({lost} bytes more are lost)") } else { String::new() };
        return format!("it wrote {} bytes without it{more}: {:?}", wrote.len(), tail(wrote));
    }
    let state = world.program(program);
    if state.is_none_or(|state| state.started.is_none()) {
        return "it never started".to_owned();
    }
    let killed = state.is_some_and(|state| matches!(state.ended, None | Some((_, Status::Killed(_)))));
    let unmodified = world.plan().programs.get(program).is_some_and(|program| matches!(program.run, Run::Process(_)));
    match killed && unmodified {
        // stdio keeps what is written to a file until there is much of it, or the program ends by itself.
        true => "it wrote 0 bytes. Its standard output is a file: what it prints may still wait in a buffer of its own. For python write \
                 environment = { PYTHONUNBUFFERED = \"1\" }, or print(…, flush=True)"
            .to_owned(),
        false => "it wrote 0 bytes".to_owned(),
    }
}

/// Why a program has no goodput.
fn without_goodput(world: &World, program: usize) -> String {
    let Some(state) = world.program(program).filter(|state| state.started.is_some()) else { return "the program never started".to_owned() };
    let plan = world.plan();
    let unmodified = plan.programs.get(program).is_some_and(|program| matches!(program.run, Run::Process(_)));
    let node = plan.programs.get(program).and_then(|program| plan.nodes.get(program.node));
    if node.is_some_and(|node| matches!(node.kind, NodeKind::Guest(_))) {
        return "the program runs on a Linux kernel, whose sockets weft does not see (what it prints can be expected: output = …)"
            .to_owned();
    }
    let figure = |name: &str| state.figures.get(name).copied().unwrap_or(0);
    match figure("received_bytes").max(figure("received")) {
        0 if unmodified && !state.figures.contains_key("received_bytes") => "the program made no socket".to_owned(),
        0 if unmodified => {
            format!("the program received nothing (it sent {} bytes; goodput is that of who receives)", figure("sent_bytes"))
        }
        0 => "the program received nothing".to_owned(),
        _ => "all that the program received came at one instant, and a rate needs two".to_owned(),
    }
}

/// The figures that a program has, for people.
fn reported(world: &World, program: usize) -> String {
    let names: Vec<&str> = world.program(program).into_iter().flat_map(|state| state.figures.keys().copied()).collect();
    let unmodified = world.plan().programs.get(program).is_some_and(|program| matches!(program.run, Run::Process(_)));
    match (names.is_empty(), unmodified) {
        (false, _) => format!("there are: {}", names.join(", ")),
        (true, true) => {
            format!(
                "unmodified programs have sent_bytes, received_bytes and {GOODPUT} once they made a socket (otherwise write output or matches)"
            )
        }
        (true, false) => "the program has reported none yet".to_owned(),
    }
}

/// Who waits for what. Asked once, when somebody wants to know: every program of the world is.
struct Waits<'w> {
    world: &'w World,
    found: OnceCell<BTreeMap<usize, String>>,
}

impl Waits<'_> {
    fn of(&self, program: usize) -> Option<&str> {
        // Of several lines of one program the first.
        let found = self.found.get_or_init(|| self.world.waits().into_iter().rev().collect());
        found.get(&program).map(String::as_str)
    }
}

fn ended(world: &World, waits: &Waits<'_>, program: usize) -> Result<Status, String> {
    match world.program(program) {
        Some(state) => match (state.ended, state.started) {
            (Some((_, status)), _) => Ok(status),
            (None, Some(_)) => {
                let waits = waits.of(program).map_or(String::new(), |what| format!(": {}", life::state(what)));
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
    let waits = Waits { world, found: OnceCell::new() };
    let mut verdicts = Vec::new();
    for (number, program) in plan.programs.iter().enumerate() {
        let name = |what: &str| format!("{} {what}", program.name);
        let verdict = match program.expect {
            Expect::Any => continue,
            Expect::Status(status) => {
                let check = Check::Status(number, status);
                Verdict { name: check.name(plan), failure: check.failure(world, &waits) }
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
        verdicts.push(Verdict { name, failure: expectation.check.failure(world, &waits) });
    }
    for failure in &end.failures {
        verdicts.push(Verdict { name: "every event is taken".to_owned(), failure: Some(failure.clone()) });
    }
    if let Some(why) = &end.broken {
        verdicts.push(Verdict { name: "every machine goes on".to_owned(), failure: Some(why.clone()) });
    }
    if end.reason == Reason::Stuck {
        let failure = format!("more than {EVENTS_PER_INSTANT_MAX} events at {}", end.at);
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
