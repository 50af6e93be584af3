//! Scenario files: a world as TOML. Reading, expanding templates, giving addresses and routes, and errors that name file, line and what to do.
//!
//! `weft help scenario` prints [`HELP`], which is the format's documentation.

mod address;
mod beside;
mod event;
mod expect;
mod host;
mod kinds;
mod linux;
mod program;
mod raw;
mod rehearsal;
mod set;
mod template;
mod twin;
mod wire;

pub use crate::limits::NODES_MAX;
pub use expect::{Check, Expectation, Verdict, judge};

use crate::limits::{NAMES_TOLD, RATE_MAX};
use crate::plan::{Capture, Hosts, NodeKind, NodePlan, PER_CALL_DEFAULT, Plan, SwitchPlan, WirePlan};
use indexmap::IndexMap;
use raw::Raw;
use std::cell::RefCell;
use std::collections::BTreeMap;
use std::net::IpAddr;
use std::ops::Range;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;
use toml::Spanned;
use toml::de::DeTable;
use weft_core::Instant;
use weft_core::parameter::{parse_duration, parse_rate};
use weft_node::StackError;
use weft_plugin::Files;

/// What a scenario file may hold, for `weft help scenario`.
pub const HELP: &str = include_str!("scenario/help.txt");

/// How long a run lasts that does not say so.
const DURATION_DEFAULT: Duration = Duration::from_secs(3600);
/// A scenario, ready to run.
#[derive(Clone, Debug)]
pub struct Scenario {
    /// Name of the file.
    pub file: String,
    /// The world.
    pub plan: Plan,
    /// What must have come of it.
    pub expectations: Vec<Expectation>,
    /// What is probably meant otherwise, and does not keep it from running: a line each, with its place.
    pub remarks: Vec<String>,
    /// Which node has which address at first.
    pub owners: BTreeMap<IpAddr, String>,
    /// More variants for `weft twin`.
    pub twins: Vec<Twin>,
}

/// The scenario with some of its hosts on Linux kernels, and the others on weft's stack.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Twin {
    /// What it is called.
    pub name: String,
    /// Names of nodes, or patterns of them.
    pub linux: Vec<String>,
    /// Assignments over the file.
    pub sets: Vec<String>,
}

impl Twin {
    /// Those that there always are: all hosts with weft's stack, and all with Linux.
    pub fn usual() -> [Twin; 2] {
        let twin = |name: &str, linux| Twin { name: name.to_owned(), linux, sets: Vec::new() };
        [twin("weft", Vec::new()), twin("linux", vec!["*".to_owned()])]
    }
}

/// What a host or switch is called, and what is known of it before it has addresses.
#[derive(Clone, Debug)]
pub(crate) struct NodeDraft {
    pub name: String,
    pub span: Range<usize>,
    pub section: raw::Node,
    /// Interface, wire (its place), and address with prefix if one was given.
    pub interfaces: Vec<InterfaceDraft>,
}

#[derive(Clone, Debug)]
pub(crate) struct InterfaceDraft {
    pub name: String,
    pub wire: usize,
    pub addresses: Vec<(std::net::IpAddr, u8)>,
    pub mtu: Option<u32>,
}

/// A file's text, for messages about places in it.
pub(crate) struct Source<'a> {
    pub file: &'a str,
    pub text: &'a str,
    /// What the command line says over it.
    pub sets: &'a [String],
    /// Reads the files that it names.
    pub read: ReadFile<'a>,
    /// Reads blocks beside it, each file once: the nodes and all events of a world see the same.
    pub loader: Arc<Files>,
    /// [`Scenario::remarks`]
    pub remarks: RefCell<Vec<String>>,
}

impl Source<'_> {
    /// A path that the file names: what is not absolute lies beside it.
    pub fn beside(&self, name: &str) -> PathBuf {
        Path::new(self.file).parent().unwrap_or(Path::new("")).join(name)
    }

    pub fn error(&self, span: Range<usize>, what: impl AsRef<str>, help: impl AsRef<str>) -> StackError {
        // What was set on the command line stands behind the text.
        if let Some(number) = span.start.checked_sub(self.text.len() + 1) {
            let assignment = self.sets.get(number).map_or("--set".to_owned(), |assignment| format!("--set {assignment}"));
            return set::error(&assignment, what.as_ref(), help.as_ref());
        }
        weft_node::locate(self.file, self.text, span, what.as_ref(), help.as_ref())
    }

    /// Something that is no error, but probably meant otherwise.
    pub fn remark(&self, span: Range<usize>, what: &str, help: &str) {
        let StackError { file, line, .. } = self.error(span, what, help);
        let place = if line == 0 { file } else { format!("{file}:{line}") };
        self.remarks.borrow_mut().push(format!("{place}: {what}: {help}"));
    }

    pub fn duration(&self, value: &Spanned<String>) -> Result<Duration, StackError> {
        parse_duration(value.get_ref())
            .map_err(|why| self.error(value.span(), why, "write it as \"20ms\", \"1.5s\", \"250us\" or \"30ns\""))
    }

    pub fn rate(&self, value: &Spanned<String>) -> Result<u64, StackError> {
        match parse_rate(value.get_ref()) {
            Ok(0) => Err(self.error(value.span(), "a rate of zero sends nothing, ever", "to cut a wire use an event: down = \"WIRE\"")),
            Ok(rate) if rate > RATE_MAX => {
                Err(self.error(value.span(), format!("no wire has a rate of {}", value.get_ref()), "use a rate from 1bit to 1000tbit"))
            }
            Ok(rate) => Ok(rate),
            Err(why) => Err(self.error(value.span(), why, "write it as \"100mbit\", \"1gbit\" or \"64kbit\"")),
        }
    }

    /// A size in bytes: "512MiB", "64KiB", "1GiB".
    pub fn bytes(&self, value: &Spanned<String>, range: std::ops::RangeInclusive<u64>) -> Result<u64, StackError> {
        let text = value.get_ref();
        let unit = [("KiB", 10), ("MiB", 20), ("GiB", 30)].into_iter().find_map(|(unit, shift)| Some((text.strip_suffix(unit)?, shift)));
        let Some((number, shift)) = unit.and_then(|(number, shift)| Some((number.trim().parse::<u64>().ok()?, shift))) else {
            return Err(self.error(value.span(), format!("'{text}' is no size"), "write it as \"512MiB\", \"64KiB\" or \"1GiB\""));
        };
        let bytes = number.checked_mul(1 << shift).filter(|bytes| range.contains(bytes));
        bytes.ok_or_else(|| {
            let help = format!("give {} MiB to {} GiB", range.start() >> 20, range.end() >> 30);
            self.error(value.span(), format!("{text} is too little or too much"), help)
        })
    }

    pub fn probability(&self, value: &Spanned<f64>) -> Result<f64, StackError> {
        let number = *value.get_ref();
        match (0.0..=1.0).contains(&number) {
            true => Ok(number),
            false => {
                Err(self.error(value.span(), format!("{number} is no probability"), "use a number from 0 to 1: 0.01 is one in a hundred"))
            }
        }
    }

    /// The place of a name in a list, or what there is.
    pub fn find<'n>(&self, name: &Spanned<String>, what: &str, known: impl Iterator<Item = &'n str>) -> Result<usize, StackError> {
        let mut all = Vec::new();
        for (index, candidate) in known.enumerate() {
            if candidate == name.get_ref() {
                return Ok(index);
            }
            all.push(candidate);
        }
        let near = weft_core::nearest::hint(name.get_ref(), &all.join(", "));
        if all.len() > NAMES_TOLD {
            all.truncate(NAMES_TOLD);
            all.push("…");
        }
        let known =
            if all.is_empty() { format!("the scenario has no {what}s") } else { format!("{near}the scenario has: {}", all.join(", ")) };
        Err(self.error(name.span(), format!("there is no {what} '{}'", name.get_ref()), known))
    }
}

/// What a scenario needs of the world outside: files that it names.
pub type ReadFile<'a> = &'a dyn Fn(&str) -> Result<String, String>;

impl Scenario {
    /// Reads a scenario. `file` is its name in messages; `sets` are assignments over it (`wires.ab.loss=0.01`); `read` reads the files that it
    /// names, relative to it.
    ///
    /// # Errors
    /// What is wrong, where, and what to do.
    pub fn parse(file: &str, text: &str, sets: &[String], read: ReadFile<'_>) -> Result<Scenario, StackError> {
        Scenario::read(file, text, sets, read, None)
    }

    /// Reads a variant of it: hosts are on the stacks that it says, whatever the file does.
    ///
    /// # Errors
    /// As [`Scenario::parse`].
    pub fn parse_twin(file: &str, text: &str, sets: &[String], read: ReadFile<'_>, twin: &Twin) -> Result<Scenario, StackError> {
        let sets = [sets, &twin.sets].concat();
        Scenario::read(file, text, &sets, read, Some(&twin.linux))
    }

    fn read(file: &str, text: &str, sets: &[String], read: ReadFile<'_>, linux: Option<&[String]>) -> Result<Scenario, StackError> {
        let loader = Arc::new(Files::kept(Path::new(file).parent().unwrap_or(Path::new(""))));
        let source = Source { file, text, sets, read, loader, remarks: RefCell::default() };
        let at = |error: toml::de::Error| {
            let span = error.span().unwrap_or(0..0);
            let by_key = || kinds::explain(error.message(), text.get(..span.start).unwrap_or_default());
            let (what, help) =
                weft_node::other_kind(text, "scenario").or_else(by_key).unwrap_or_else(|| weft_node::explain(error.message(), "scenario"));
            source.error(span, what, help)
        };
        let mut document = DeTable::parse(text).map_err(at)?;
        set::all(document.get_mut(), sets, text.len())?;
        let raw: Raw = serde::Deserialize::deserialize(toml::Deserializer::from(document)).map_err(at)?;
        build(&source, raw, linux)
    }
}

/// Everything in its order: names, wires, addresses, hosts, programs, events, expectations.
fn build(source: &Source<'_>, raw: Raw, linux: Option<&[String]>) -> Result<Scenario, StackError> {
    let mut drafts = template::nodes(source, &raw)?;
    let twins = twin::all(source, &raw, &drafts)?;
    if let Some(linux) = linux {
        twin::recast(&mut drafts, linux);
    }
    let mut wires = wire::all(source, &raw, &mut drafts)?;
    let subnets = address::assign(source, &raw, &mut drafts, &mut wires)?;
    address::check(source, &drafts, &subnets)?;
    let routes = address::routes(&drafts, &wires, &subnets);
    let hosts: Hosts = drafts
        .iter()
        .filter_map(|draft| Some((draft.name.clone(), draft.interfaces.iter().flat_map(|interface| &interface.addresses).next()?.0)))
        .collect();
    let hosts_also: Hosts = drafts
        .iter()
        .filter_map(|draft| {
            let first = hosts.get(&draft.name)?;
            let mut all = draft.interfaces.iter().flat_map(|interface| &interface.addresses);
            Some((draft.name.clone(), all.find(|(address, _)| address.is_ipv4() != first.is_ipv4())?.0))
        })
        .collect();
    let mut nodes = Vec::new();
    for (draft, routes) in drafts.iter().zip(routes) {
        nodes.push(host::plan(source, &raw, draft, &wires, &routes)?);
    }
    let mut plan = Plan { nodes, wires: wires.into_iter().map(|wire| wire.plan).collect(), hosts, hosts_also, ..Plan::default() };
    plan.seed = raw.seed.unwrap_or(1);
    plan.whole = raw.duration.is_some();
    plan.end = Instant::ZERO + raw.duration.as_ref().map_or(Ok(DURATION_DEFAULT), |text| source.duration(text))?;
    plan.sample = raw.sample.as_ref().map(|text| source.duration(text)).transpose()?;
    if let Some(start) = &raw.start {
        plan.start = expect::point_in_time(start.get_ref())
            .ok_or_else(|| source.error(start.span(), "that is no point in time", "write it as start = 2030-01-01T00:00:00Z"))?;
    }
    program::all(source, &raw, &mut plan, &drafts)?;
    beside::show(source, &mut plan, &drafts)?;
    event::all(source, &raw, &mut plan)?;
    let expectations = expect::all(source, &raw, &plan)?;
    if plan.nodes.is_empty() {
        return Err(source.error(0..0, "the scenario has no nodes", "write [nodes.NAME]; `weft help scenario` shows an example"));
    }
    let owned = |draft: &NodeDraft| {
        let addresses = draft.interfaces.iter().flat_map(|interface| &interface.addresses).map(|(address, _)| *address);
        addresses.map(|address| (address, draft.name.clone())).collect::<Vec<_>>()
    };
    let owners = drafts.iter().flat_map(owned).collect();
    Ok(Scenario { file: source.file.to_owned(), plan, expectations, remarks: source.remarks.take(), owners, twins })
}

/// What stands in `capture`: true, or names of interfaces.
pub(crate) fn capture(raw: &Raw, section: &raw::Node) -> Capture {
    match section.capture.as_ref().or(raw.capture.as_ref()) {
        Some(raw::Capture::Names(names)) => Capture::Named(names.clone()),
        Some(raw::Capture::All(true)) => Capture::All,
        Some(raw::Capture::All(false)) | None => Capture::None,
    }
}

/// A wire, before its nodes have addresses.
#[derive(Clone, Debug)]
pub(crate) struct WireDraft {
    pub plan: WirePlan,
}

/// A switch's node.
pub(crate) fn switch(draft: &NodeDraft, raw: &Raw, learns: bool) -> NodePlan {
    let kind = NodeKind::Switch(SwitchPlan { learns, ..SwitchPlan::default() });
    let capture = capture(raw, &draft.section);
    NodePlan {
        name: draft.name.clone(),
        kind,
        large_frames: true,
        capture,
        files: Default::default(),
        per_call: PER_CALL_DEFAULT,
        limits: Default::default(),
    }
}

/// Does `pattern` (with `*` for any text) stand for `name`?
pub(crate) fn matches(pattern: &str, name: &str) -> bool {
    match pattern.split_once('*') {
        None => pattern == name,
        Some((before, after)) => {
            let Some(rest) = name.strip_prefix(before) else { return false };
            (0..=rest.len()).filter(|at| rest.is_char_boundary(*at)).any(|at| matches(after, &rest[at..]))
        }
    }
}

/// Named things in the order in which they stand in the file.
pub(crate) fn in_order<T>(map: &IndexMap<Spanned<String>, T>) -> Vec<(&Spanned<String>, &T)> {
    let mut all: Vec<_> = map.iter().collect();
    all.sort_by_key(|(name, _)| name.span().start);
    all
}
