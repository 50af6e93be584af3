//! Whether what was expected of a run has come of it.

use super::expect::{Check, Expectation};
use crate::figures::GOODPUT;
use crate::life;
use crate::limits::EVENTS_PER_INSTANT_MAX;
use crate::plan::{Expect, NodeKind, Plan, Run};
use crate::report::Status;
use crate::world::{Reason, RunEnd, World};
use regex::Regex;
use std::cell::OnceCell;
use std::collections::BTreeMap;
use weft_core::Instant;

/// An expectation and why it does not hold; none: it does.
#[derive(Clone, PartialEq, Eq, Debug, serde::Serialize, serde::Deserialize)]
pub struct Judged {
    /// What was expected.
    pub name: String,
    /// Why it is not so.
    pub failure: Option<String>,
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
                // As shells count.
                Ok(Status::Killed(signal)) if STATUS_OF_SIGNALS + signal == *status => None,
                Ok(got) => Some(told(got)),
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
                Some((at, status)) => Some(format!("{} at {at}", told(status))),
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

/// What a shell adds to the number of the signal that a program was killed by.
const STATUS_OF_SIGNALS: i32 = 128;

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
                Err(format!("it is still running{waits}"))
            }
            (None, None) => Err("it never started".to_owned()),
        },
        None => Err("it never started".to_owned()),
    }
}

/// How a program ended, in a sentence.
fn told(status: Status) -> String {
    match status {
        Status::Exited(status) => format!("it ended with exit status {status}"),
        Status::Killed(signal) => {
            let name = weft_process::signal_name(signal).map_or(String::new(), |name| format!(" ({name})"));
            format!("it was killed by signal {signal}{name}")
        }
    }
}

/// Whether a run is what was expected: how programs were to end, the expectations of the file, and that every event was taken.
pub fn judge(world: &World, end: &RunEnd, expectations: &[Expectation]) -> Vec<Judged> {
    let plan = world.plan();
    let waits = Waits { world, found: OnceCell::new() };
    let mut verdicts = Vec::new();
    for (number, program) in plan.programs.iter().enumerate() {
        let name = |what: &str| format!("{} {what}", program.name);
        let verdict = match program.expect {
            Expect::Any => continue,
            Expect::Status(status) => {
                let check = Check::Status(number, status);
                Judged { name: check.name(plan), failure: check.failure(world, &waits) }
            }
            Expect::Running => {
                let failure = match world.program(number).and_then(|state| state.ended) {
                    None | Some((_, Status::Exited(0))) => None,
                    Some((at, status)) => Some(format!("{} at {at}", told(status))),
                };
                Judged { name: name("runs to the end"), failure }
            }
        };
        verdicts.push(verdict);
    }
    for expectation in expectations {
        let name = format!("{} (line {})", expectation.check.name(plan), expectation.line);
        verdicts.push(Judged { name, failure: expectation.check.failure(world, &waits) });
    }
    for failure in &end.failures {
        verdicts.push(Judged { name: "every event is taken".to_owned(), failure: Some(failure.clone()) });
    }
    if let Some(why) = &end.broken {
        verdicts.push(Judged { name: "every machine goes on".to_owned(), failure: Some(why.clone()) });
    }
    for (number, node) in plan.nodes.iter().enumerate().filter(|_| !plan.blocks_may_fail) {
        let graph = world.graph(number);
        for (block, why) in graph.iter().flat_map(|graph| graph.ids().filter_map(|id| Some((graph.name(id), graph.block(id)?.failure()?))))
        {
            let name = format!("block '{block}' of '{}' does not fail", node.name);
            verdicts.push(Judged { name, failure: Some(why.to_owned()) });
        }
    }
    if end.reason == Reason::Stuck {
        let failure = format!("more than {EVENTS_PER_INSTANT_MAX} events at {}", end.at);
        verdicts.push(Judged { name: "time goes on".to_owned(), failure: Some(failure) });
    }
    verdicts
}
