//! The first event in which two recorded runs differ.

use super::calls;
use super::read::{Event, Events, Index, NodeIndex, RecordError, What};
use crate::hash::Way;
use crate::report::{ProgramId, Stream};
use serde::Serialize;
use std::path::Path;
use weft_process::{INSIDE, call_name, call_result};

/// What two records have to do with each other.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Comparison {
    /// All events are equal.
    Same {
        /// How many there are.
        events: u64,
    },
    /// Nodes of one are not in the other.
    Nodes {
        /// Only in the first.
        first: Vec<String>,
        /// Only in the second.
        second: Vec<String>,
    },
    /// They differ.
    Differ(Box<Difference>),
}

/// The first event that differs.
#[derive(Clone, PartialEq, Eq, Debug, Serialize)]
pub struct Difference {
    /// When: the earlier of the two.
    pub at_ns: u64,
    /// On which node.
    pub node: String,
    /// Interface or program.
    pub place: String,
    /// It is a program.
    pub of_program: bool,
    /// What differs.
    pub what: String,
    /// How many events of this node were equal before.
    pub equal_before: u64,
    /// What happened in the first run; none: nothing more on this node.
    pub first: Option<String>,
    /// What happened in the second.
    pub second: Option<String>,
    /// The first lines that differ of what programs asked the kernel, where both folders have logs of calls (`weft sim --calls`).
    pub calls: Option<[String; 2]>,
    /// Both folders have such logs.
    pub has_calls: bool,
}

/// Compares two folders of results. Of the first differences of all nodes, the earliest is told, and of those at one time the first by name: what differs
/// later may be its consequence.
///
/// # Errors
/// One of them holds no complete record.
pub fn compare(first: &Path, second: &Path) -> Result<Comparison, RecordError> {
    let (one, other) = (Index::read(first)?, Index::read(second)?);
    let missing = |of: &Index, from: &Index| -> Vec<String> {
        let lacks = |node: &&NodeIndex| !from.nodes.iter().any(|other| other.name == node.name);
        of.nodes.iter().filter(lacks).map(|node| node.name.clone()).collect()
    };
    let (only_first, only_second) = (missing(&one, &other), missing(&other, &one));
    if !only_first.is_empty() || !only_second.is_empty() {
        return Ok(Comparison::Nodes { first: only_first, second: only_second });
    }
    let (mut least, mut events): (Option<Difference>, u64) = (None, 0);
    for node in &one.nodes {
        let names = [Names { index: &one, node }, Names { index: &other, node: other.node(&node.name).unwrap_or(node) }];
        let (found, count) = in_node(first, second, &names)?;
        events += count;
        if let Some(found) = found
            && least.as_ref().is_none_or(|least| (found.at_ns, &found.node) < (least.at_ns, &least.node))
        {
            least = Some(found);
        }
    }
    let Some(mut found) = least else { return Ok(Comparison::Same { events }) };
    found.has_calls = calls::are_there(first, second, &one.programs);
    if let Some(calls) = calls::first_difference(first, second, &one.programs) {
        found.calls =
            Some([calls.first, calls.second].map(|line| format!("{}: {}", calls.program, line.as_deref().unwrap_or("nothing more"))));
    }
    Ok(Comparison::Differ(Box::new(found)))
}

impl Index {
    fn node(&self, name: &str) -> Option<&NodeIndex> {
        self.nodes.iter().find(|node| node.name == name)
    }
}

/// The first difference on a node, and how many events were equal before it.
fn in_node(first: &Path, second: &Path, names: &[Names<'_>; 2]) -> Result<(Option<Difference>, u64), RecordError> {
    let name = &names[0].node.name;
    let (mut ones, mut others) = (Events::open(first, name)?, Events::open(second, name)?);
    let mut equal = 0;
    loop {
        let (one, other) = (ones.next().transpose()?, others.next().transpose()?);
        let Some(at) = [&one, &other].into_iter().flatten().map(|event| event.at).min() else {
            return Ok((None, equal));
        };
        if one == other && one.as_ref().is_some_and(|event| names[0].place(event) == names[1].place(event)) {
            equal += 1;
            continue;
        }
        // Where both go on, the earlier one is what the other run lacks.
        let earlier = match (&one, &other) {
            (Some(one), Some(other)) if other.at < one.at => Some((&names[1], other)),
            (Some(one), _) => Some((&names[0], one)),
            (None, other) => other.as_ref().map(|other| (&names[1], other)),
        };
        let tell = |event: &Option<Event>, names: &Names<'_>| event.as_ref().map(|event| names.tell(event));
        let difference = Difference {
            at_ns: at.as_nanos(),
            node: name.clone(),
            place: earlier.map_or(String::new(), |(names, event)| names.place(event)),
            of_program: earlier.is_some_and(|(_, event)| !matches!(event.what, What::Frame { .. } | What::Control { .. })),
            what: what(&one, &other),
            equal_before: equal,
            first: tell(&one, &names[0]),
            second: tell(&other, &names[1]),
            calls: None,
            has_calls: false,
        };
        return Ok((Some(difference), equal));
    }
}

/// In what two events differ that should be one.
fn what(one: &Option<Event>, other: &Option<Event>) -> String {
    let (Some(one), Some(other)) = (one, other) else {
        return "there is nothing more on this node in one of the runs".to_owned();
    };
    if one.what != other.what {
        return match (one.what, other.what) {
            (What::Call { number: INSIDE, .. }, What::Call { number: INSIDE, .. }) => {
                "programs were answered otherwise by calls that do not concern the world (files, memory, random numbers …)".to_owned()
            }
            (What::Call { number: a, result: x, .. }, What::Call { number: b, result: y, .. }) if a == b && x != y => {
                format!("{} returned {} and {}", call(a), call_result(x), call_result(y))
            }
            (What::Call { number: a, .. }, What::Call { number: b, .. }) if a != b && a != INSIDE && b != INSIDE => {
                format!("{} and {} were called", call(a), call(b))
            }
            (What::End { status: a, .. }, What::End { status: b, .. }) if a != b => format!("{a} and {b}"),
            _ => "something else happened".to_owned(),
        };
    }
    if one.bytes != other.bytes {
        return bytes(&one.bytes, &other.bytes);
    }
    match one.at == other.at {
        true => "the name of the place".to_owned(),
        false => format!(
            "the same, {} ns {}",
            one.at.as_nanos().abs_diff(other.at.as_nanos()),
            if one.at < other.at { "later" } else { "earlier" }
        ),
    }
}

fn bytes(one: &[u8], other: &[u8]) -> String {
    match one.iter().zip(other).position(|(a, b)| a != b) {
        Some(at) => format!("byte {at} is 0x{:02x} and 0x{:02x}", one[at], other[at]),
        None => format!("{} bytes and {}", one.len(), other.len()),
    }
}

/// What the numbers of a record mean.
struct Names<'a> {
    index: &'a Index,
    node: &'a NodeIndex,
}

impl Names<'_> {
    fn program(&self, program: ProgramId) -> String {
        if program == ProgramId(u32::MAX) {
            return "its programs".to_owned();
        }
        let name = self.index.programs.get(program.0 as usize);
        format!("program {}", name.map_or_else(|| format!("number {}", program.0), Clone::clone))
    }

    fn place(&self, event: &Event) -> String {
        match event.what {
            What::Frame { interface, .. } => {
                let name = self.node.interfaces.get(&interface.0);
                format!("interface {}", name.map_or_else(|| format!("number {}", interface.0), Clone::clone))
            }
            What::Call { program, .. } | What::Output { program, .. } | What::End { program, .. } => self.program(program),
            What::Control { .. } => "control".to_owned(),
        }
    }

    fn tell(&self, event: &Event) -> String {
        let (place, length) = (self.place(event), event.bytes.len());
        let what = match event.what {
            What::Frame { way: Way::In, .. } => format!("a frame of {length} bytes arrived"),
            What::Frame { way: Way::Out, .. } => format!("a frame of {length} bytes left"),
            What::Call { number: INSIDE, result, .. } => {
                format!("a digest of the answers to calls that do not concern the world: {result:016x}")
            }
            What::Call { process, thread, number, result, .. } => {
                let thread = if thread == process { String::new() } else { format!(", thread {thread}") };
                format!("process {process}{thread}: {} returned {} and gave {length} bytes", call(number), call_result(result))
            }
            What::Output { stream, .. } => {
                let stream = if stream == Stream::Output { "output" } else { "error" };
                format!("wrote {length} bytes to standard {stream}: {:?}", excerpt(&event.bytes))
            }
            What::End { status, .. } => format!("ended: {status}"),
            What::Control { refused } => {
                let answer = if refused { "was told and refused" } else { "was told" };
                format!("{answer}: {}", excerpt(&event.bytes).replace('\n', "; "))
            }
        };
        format!("{}: {place}: {what}", event.at)
    }
}

/// A call by its name.
fn call(number: u32) -> String {
    call_name(number).map_or_else(|| format!("call {number}"), str::to_owned)
}

/// The beginning of what was written.
fn excerpt(bytes: &[u8]) -> String {
    String::from_utf8_lossy(bytes).chars().take(80).collect()
}
