//! Scenario files: a world as TOML. Reading, expanding templates, giving addresses and routes, and errors that name file, line and what to do.
//!
//! `weft help scenario` prints [`HELP`], which is the format's documentation.

mod address;
mod beside;
mod delay;
mod draft;
mod event;
mod expect;
mod files;
mod host;
mod judge;
mod kinds;
mod linux;
mod names;
mod node;
mod program;
mod raw;
mod refine;
mod rehearsal;
mod section;
mod set;
mod source;
mod template;
mod twin;
mod wire;

pub use crate::limits::NODES_MAX;
pub use expect::point_in_time;
pub use expect::{Check, Expectation};
pub use judge::{Judged, judge};
pub use source::ReadFile;
pub use twin::Twin;

use crate::plan::{Expect, Hosts, Plan, ProgramPlan};
use draft::NodeDraft;
use raw::Raw;
use source::Source;
use std::cell::RefCell;
use std::collections::BTreeMap;
use std::net::IpAddr;
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;
use weft_core::Instant;
use weft_node::{Spanned, StackError, several};
use weft_plugin::Files;

/// What a scenario file may hold, for `weft help scenario`.
pub const HELP: &str = include_str!("scenario/help.txt");

/// The JSON schema of scenarios, for editors.
pub fn schema() -> serde_json::Value {
    weft_node::schema::of::<Raw>("A scenario of weft")
}

/// Nobody looks at a world more often: each time everything is asked.
const SAMPLE_MIN: Duration = Duration::from_micros(100);
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

/// A scenario as a text, and where it stands.
#[derive(Clone, Copy)]
pub struct Text<'a> {
    /// The name of the file, for messages.
    pub file: &'a str,
    /// Where scripts and files that it names lie: mostly the file's.
    pub folder: &'a Path,
    /// What it says.
    pub text: &'a str,
    /// Assignments over it (`wires.ab.loss=0.01`).
    pub sets: &'a [String],
    /// Reads files that it names, relative to the folder.
    pub read: ReadFile<'a>,
}

impl Scenario {
    /// Reads a scenario. `file` is its name in messages; `sets` are assignments over it (`wires.ab.loss=0.01`); `read` reads the files that it
    /// names, relative to it.
    ///
    /// # Errors
    /// What is wrong, where, and what to do.
    pub fn parse(file: &str, text: &str, sets: &[String], read: ReadFile<'_>) -> Result<Scenario, StackError> {
        let folder = Path::new(file).parent().unwrap_or(Path::new(""));
        Scenario::read(&Text { file, folder, text, sets, read }, None)
    }

    /// Reads a scenario, or a variant of it: hosts are on the stacks that it says, whatever the file does.
    ///
    /// # Errors
    /// As [`Scenario::parse`].
    pub fn read(of: &Text<'_>, twin: Option<&Twin>) -> Result<Scenario, StackError> {
        let Text { file, folder, text, read, .. } = *of;
        let sets = &[of.sets, twin.map_or(&[][..], |twin| &twin.sets)].concat();
        let linux = twin.map(|twin| &twin.linux[..]);
        let loader = Arc::new(Files::kept(folder));
        let source = || Source { file, folder, text, sets, read, loader: loader.clone(), remarks: RefCell::default() };
        let misread = |error: &toml::de::Error| {
            let span = error.span().unwrap_or(0..0);
            // Of another kind of file all keys are wrong, which is one mistake.
            if let Some((what, help)) = weft_node::other_kind(text, "scenario") {
                return source().error(span, what, help).at(0..0);
            }
            // What was set on the command line stands behind the text.
            let set = span.start.checked_sub(text.len() + 1).and_then(|number| sets.get(number));
            let before = text.get(..span.start).unwrap_or_default();
            let place = set.map_or(kinds::Place::File(before), |set| kinds::Place::Set(set));
            let by_key = kinds::explain(error.message(), place);
            let (what, help) = by_key.unwrap_or_else(|| weft_node::explain(error.message(), "scenario"));
            source().error(span, what, help)
        };
        let mut document = several::parse(text, misread)?;
        set::all(document.get_mut(), sets, text.len())?;
        several::read(&document, |mut document| {
            refine::nodes(document.get_mut());
            let raw: Raw =
                serde::Deserialize::deserialize(toml::Deserializer::from(document)).map_err(|error| misread(&error).of_shape())?;
            build(&source(), raw, linux)
        })
    }
}

/// How often a world is sampled.
fn sampled(source: &Source<'_>, text: &Spanned<String>) -> Result<Duration, StackError> {
    let period = source.duration(text)?;
    if period < SAMPLE_MIN {
        let what = format!("{} is too often: everything is asked at every sample", text.get_ref());
        return Err(source.error(text.span(), what, "write 100us or more; sample = \"50ms\" makes good pictures"));
    }
    Ok(period)
}

/// Says so if a run without a duration has nobody whose end it could wait for.
fn nobody_ends(source: &Source<'_>, plan: &Plan) {
    let is_waited_for = |program: &ProgramPlan| matches!(program.expect, Expect::Status(_));
    if !plan.programs.is_empty() && !plan.programs.iter().any(is_waited_for) {
        let what = format!("no program is expected to end, so the run lasts {} s", DURATION_DEFAULT.as_secs());
        source.remark(0..0, &what, "write duration = \"60s\", or give a program that ends expect = 0");
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
    let routes = address::routes(source, &raw, &drafts, &wires, &subnets)?;
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
        nodes.push(node::plan(source, &raw, draft, &wires, &routes)?);
    }
    let mut plan = Plan { nodes, wires: wires.into_iter().map(|wire| wire.plan).collect(), hosts, hosts_also, ..Plan::default() };
    plan.seed = raw.seed.unwrap_or(1);
    plan.whole = raw.duration.is_some();
    plan.blocks_may_fail = raw.blocks_may_fail == Some(true);
    plan.end = Instant::ZERO + raw.duration.as_ref().map_or(Ok(DURATION_DEFAULT), |text| source.duration(text))?;
    // Also where no host has it.
    section::boot(source, raw.boot.as_ref())?;
    section::clock(source, &raw, None)?;
    plan.sample = raw.sample.as_ref().map(|text| sampled(source, text)).transpose()?;
    if let Some(start) = &raw.start {
        plan.start = expect::point_in_time(start.get_ref())
            .ok_or_else(|| source.error(start.span(), "that is no point in time", "write it as start = 2030-01-01T00:00:00Z"))?;
    }
    program::all(source, &raw, &mut plan, &drafts)?;
    beside::show(source, &mut plan, &drafts)?;
    if raw.duration.is_none() {
        nobody_ends(source, &plan);
    }
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

#[cfg(test)]
mod tests {
    use super::*;
    use regex::Regex;
    use serde_json::Value;

    /// The schema of a field.
    fn field(section: &str, name: &str) -> Value {
        schema()["$defs"][section]["properties"][name].clone()
    }

    #[test]
    fn the_schema_takes_the_texts_that_are_read() {
        let schema = schema();
        let fits = |text: &str| Regex::new(schema["$defs"][text]["pattern"].as_str().unwrap()).unwrap();
        let (span, rate, size) = (fits("TimeSpan"), fits("Rate"), fits("Size"));
        let source = Source {
            file: "",
            folder: Path::new(""),
            text: "",
            sets: &[],
            read: &|_| Err(String::new()),
            loader: Arc::new(Files::in_folder("")),
            remarks: RefCell::default(),
        };
        for number in ["1", "1.5", ".5", "1.", "+2", "", "-1", "1e3", "x", "1 000", " 7"] {
            for unit in [
                "ns", "us", "µs", "ms", "s", "m", "min", "h", " s ", "", "d", "S", "bit", "kbit", "MBit", "gbit", "tbit", "bps", "byte",
                "KiB", "MiB", "GiB", "Mbit/s", " kbit/S", "bps/s", "/s", "bit/",
            ] {
                let text = format!("{number}{unit}");
                assert_eq!(span.is_match(&text), weft_core::parameter::parse_duration(&text).is_ok(), "a time span: '{text}'");
                assert_eq!(rate.is_match(&text), weft_core::parameter::parse_rate(&text).is_ok(), "a rate: '{text}'");
                let bytes = source.bytes(&weft_node::Spanned::new(0..0, text.clone()), 0..=u64::MAX);
                assert_eq!(size.is_match(&text), bytes.is_ok(), "a size: '{text}'");
            }
        }
    }

    #[test]
    fn the_schema_has_the_words_that_are_read() {
        let wire = |line: &str| format!("[nodes.a]\n[nodes.b]\n[wires.ab]\nbetween = [\"a\", \"b\"]\njitter = \"1ms\"\n{line}\n");
        let others = "count = 4\nwidth = 3\nheight = 3\nleft = 2\nright = 2\narity = 4";
        let sends = "to = \"127.0.0.1\"\nport = 7\nrate = \"1mbit\"\nbytes = 10";
        let file = |section: &str, name: &str, word: &str| match (section, name) {
            ("Node", _) => format!("[nodes.a]\nkind = \"{word}\"\n"),
            ("Wire", _) => wire(&format!("{name} = \"{word}\"")),
            ("Template", _) => format!("[templates.t]\nkind = \"{word}\"\n{others}\n"),
            _ => format!("[nodes.a]\n[programs.p]\nnode = \"a\"\nbuiltin = \"{word}\"\n{sends}\n"),
        };
        let fields = [("Node", "kind"), ("Wire", "jitter_shape"), ("Wire", "queue"), ("Template", "kind"), ("Program", "builtin")];
        for (section, name) in fields {
            let parse = |word: &str| Scenario::parse("w.toml", &file(section, name, word), &[], &|_| Err(String::new()));
            let words = field(section, name)["enum"].as_array().unwrap().clone();
            for word in words.iter().filter_map(Value::as_str) {
                parse(word).unwrap_or_else(|error| panic!("{section}.{name}: {error}"));
            }
            // The message of a wrong word lists them all.
            let help = parse("wrong").unwrap_err().help;
            assert!(words.iter().filter_map(Value::as_str).all(|word| help.contains(word)), "{section}.{name}: {help}");
        }
    }

    const SOUND: &str = r#"duration = "10s"
[nodes.a]
memory = "64MiB"
[nodes.b]
forward = true
[nodes.c]
[wires.ab]
between = ["a", "b"]
delay = "1ms"
loss = 0.1
[wires.bc]
between = ["b", "c"]
rate = "1mbit"
[programs.ping]
node = "a"
builtin = "ping"
to = "c"
[programs.sink]
node = "c"
builtin = "tcp-sink"
port = 5001
[[events]]
at = "1s"
down = "bc"
[[events]]
at = "2s"
up = "ab"
[[expect]]
program = "ping"
status = 0
"#;
    /// Each is one mistake.
    const MISTAKES: [(&str, &str); 22] = [
        ("duration = \"10s\"", "duration = \"10\""),
        ("memory = \"64MiB\"", "memory = 64"),
        ("memory = \"64MiB\"", "memory = \"64\""),
        ("forward = true", "forwad = true"),
        ("forward = true", "forward = \"yes\""),
        ("between = [\"a\", \"b\"]", "between = [\"a\", \"zz\"]"),
        ("delay = \"1ms\"", "delay = \"1\""),
        ("loss = 0.1", "loss = 2.0"),
        ("loss = 0.1", "loss = \"some\""),
        ("between = [\"b\", \"c\"]", "betwen = [\"b\", \"c\"]"),
        ("rate = \"1mbit\"", "rate = \"fast\""),
        ("builtin = \"ping\"", "builtin = \"pong\""),
        ("to = \"c\"", "to = \"d\""),
        ("node = \"c\"", "node = \"cc\""),
        ("builtin = \"tcp-sink\"", "biultin = \"tcp-sink\""),
        ("port = 5001", "port = \"http\""),
        ("at = \"1s\"", "at = \"soon\""),
        ("down = \"bc\"", "down = \"cd\""),
        ("at = \"2s\"", "att = \"2s\""),
        ("up = \"ab\"", "up = \"xy\""),
        ("program = \"ping\"", "program = \"pign\""),
        ("status = 0", "status = \"good\""),
    ];

    /// Line and sentence of each mistake that is told of the file with these in it.
    fn told(mistakes: &[(&str, &str)]) -> Vec<(usize, String)> {
        let text = mistakes.iter().fold(SOUND.to_owned(), |text, (right, wrong)| text.replacen(right, wrong, 1));
        let error = Scenario::parse("w.toml", &text, &[], &|_| Err(String::new())).unwrap_err();
        error.all().map(|one| (one.line, one.what.clone())).collect()
    }

    #[test]
    fn several_mistakes_are_told_and_nothing_that_only_comes_of_them() {
        Scenario::parse("w.toml", SOUND, &[], &|_| Err(String::new())).unwrap();
        let (mut pairs, mut whole) = (0, 0);
        for (number, first) in MISTAKES.iter().enumerate() {
            let alone = told(&[*first]);
            assert_eq!(alone.len(), 1, "{first:?} is one mistake: {alone:?}");
            for second in MISTAKES[number + 1..].iter().filter(|second| second.0 != first.0) {
                let mut both: Vec<_> = [alone.clone(), told(&[*second])].concat();
                both.sort();
                let found = told(&[*first, *second]);
                assert!(!found.is_empty() && found.iter().all(|one| both.contains(one)) && found.is_sorted(), "{both:?}: {found:?}");
                (pairs, whole) = (pairs + 1, whole + usize::from(found == both));
            }
        }
        assert!(whole * 10 > pairs * 8, "both mistakes were told of {whole} of {pairs} pairs");
        let lines = |mistakes: &[usize]| {
            told(&mistakes.iter().map(|number| MISTAKES[*number]).collect::<Vec<_>>()).into_iter().map(|one| one.0).collect::<Vec<_>>()
        };
        assert_eq!((lines(&[1, 7, 19]), lines(&[20, 7, 6, 3, 0])), (vec![3, 10, 27], vec![1, 5, 9, 10, 29]));
    }
}
