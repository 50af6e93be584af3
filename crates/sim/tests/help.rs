//! Every example of `weft help scenario` is one: each line of it, in a world that has what it speaks of.

use crate::support;

use std::path::Path;
use support::Folder;
use toml::{Table, Value};
use weft_core::{Instant, Snapshot, TimeKind};
use weft_sim::scenario::{HELP, Scenario};

/// What the examples speak of.
const BASE: &str = r#"
[nodes.client]
[nodes.router]
[nodes.server]
addresses = { eth0 = "10.9.0.1/24" }
[nodes.leaf]
count = 2
[nodes.lan]
kind = "switch"
[wires.access]
between = ["client", "router"]
[wires.core]
between = ["router:core", "server"]
[wires.leaves]
between = ["leaf*", "lan"]
[wires.up]
between = ["lan", "router:lan"]
[programs.load]
node = "client"
builtin = "tcp-send"
to = "server:5001"
bytes = 1000
[programs.sink]
node = "server"
builtin = "tcp-sink"
port = 5001
[programs.fetch]
node = "client"
command = ["true"]
"#;
const STACK: &str = "[[interface]]\nname = \"eth0\"\nbackend = \"wire:x\"\n[[address]]\ninterface = \"eth0\"\naddress = \"10.0.0.9/24\"\n";

/// With the files that the examples speak of.
fn folder(test: &str) -> Folder {
    let folder = Folder::new(test);
    std::fs::create_dir(folder.0.join("image")).unwrap();
    std::fs::create_dir(folder.0.join("data")).unwrap();
    std::fs::write(folder.0.join("server.toml"), STACK).unwrap();
    std::fs::write(folder.0.join("x.conf"), "a line\n").unwrap();
    let (weft, node, time, at) = ("0".to_owned(), "client".to_owned(), TimeKind::Virtual, Instant::ZERO);
    let snapshot = Snapshot { weft, node, time, at, boot_epoch_ns: 0, blocks: Vec::new() };
    std::fs::write(folder.0.join("early.snapshot"), snapshot.to_bytes().unwrap()).unwrap();
    folder
}

fn merge(into: &mut Table, from: Table) {
    for (key, value) in from {
        match (into.get_mut(&key), value) {
            (Some(Value::Table(old)), Value::Table(new)) => merge(old, new),
            (Some(Value::Array(old)), Value::Array(new)) if key == "events" || key == "expect" => old.extend(new),
            (_, value) => {
                into.insert(key, value);
            }
        }
    }
}

fn parse(folder: &Path, snippet: &str) -> Result<Scenario, String> {
    let mut document: Table = BASE.parse().unwrap();
    let more: Table = snippet.parse().map_err(|error| format!("{snippet}\n{error}"))?;
    if more.get("nodes").and_then(|nodes| nodes.get("leaf")).is_some() {
        document["wires"].as_table_mut().unwrap().remove("leaves");
    }
    let server = more.get("nodes").and_then(|nodes| nodes.get("server"));
    if server.is_some_and(|server| server.get("stack").is_some()) {
        document["nodes"]["server"].as_table_mut().unwrap().clear();
    }
    merge(&mut document, more);
    let read = |name: &str| std::fs::read(folder.join(name)).map_err(|error| error.to_string());
    let file = folder.join("s.toml").display().to_string();
    Scenario::parse(&file, &document.to_string(), &[], &read).map_err(|error| format!("{snippet}\n{error}"))
}

/// A line without its comment.
fn bare(line: &str) -> &str {
    let mut quote = None;
    for (at, c) in line.char_indices() {
        match quote {
            None if c == '#' => return line[..at].trim_end(),
            None if matches!(c, '"' | '\'') => quote = Some(c),
            Some(open) if open == c => quote = None,
            _ => {}
        }
    }
    line.trim_end()
}

/// The examples: lines by their sections; those that mean nothing alone come together.
fn examples() -> Vec<String> {
    let (mut header, mut whole, mut out) = (String::new(), String::new(), Vec::new());
    for line in HELP.lines() {
        let text = bare(line);
        let together = header.starts_with("[[") || header.starts_with("[templates");
        let is_value = |(key, _): (&str, &str)| key.bytes().all(|byte| byte.is_ascii_lowercase() || byte == b'_');
        if text.starts_with('[') {
            out.push(std::mem::take(&mut whole));
            header = text.to_owned();
            whole = format!("{header}\n");
        } else if text.split_once(" = ").is_some_and(is_value) {
            match together {
                true => whole += &format!("{text}\n"),
                false => out.push(format!("{header}\n{text}\n")),
            }
        }
        // What an event may do is in comments.
        for one in line
            .strip_prefix("# ")
            .filter(|rest| header == "[[events]]" && !rest.starts_with(' '))
            .into_iter()
            .flat_map(|rest| rest.split(" | "))
        {
            let one = one.split(" (").next().unwrap_or_default();
            let fields: Table = format!("x = {{ {one} }}").parse().unwrap_or_else(|error| panic!("{one}: {error}"));
            out.push(format!("[[events]]\nat = \"5s\"\n{}", fields["x"].as_table().unwrap()));
        }
    }
    out.push(whole);
    out.extend(expectations());
    out.retain(|example| !example.trim().is_empty());
    out
}

/// What may be expected is in comments, too, up to the figures' names: each `key = value` there is an example of its own.
fn expectations() -> Vec<String> {
    let lines = HELP.lines().skip_while(|line| *line != "[[expect]]").take_while(|line| !line.contains("figure ="));
    let comments: Vec<&str> = lines.filter_map(|line| Some(line[bare(line).len()..].trim().strip_prefix('#')?.trim())).collect();
    let comments = comments.join(" ");
    let field = |(at, equals): (usize, &str)| {
        let key = comments[..at].rsplit(' ').next().unwrap_or_default();
        let rest = &comments[at + equals.len()..];
        let length = match rest.chars().next().filter(|first| matches!(first, '"' | '\'')) {
            Some(quote) => rest[1..].find(quote).map(|end| end + 2),
            None => rest.find([';', ',', ' ']),
        };
        format!("[[expect]]\nprogram = \"sink\"\n{key} = {}\n", &rest[..length.unwrap_or(rest.len())])
    };
    comments.match_indices(" = ").map(field).collect()
}

#[test]
fn every_example_of_the_help_is_a_scenario() {
    let folder = folder("help");
    let examples = examples();
    let wrong: Vec<String> = examples.iter().filter_map(|example| parse(&folder.0, example).err()).collect();
    assert!(wrong.is_empty(), "{}", wrong.join("\n\n"));
    // The lines that people tripped over are among them.
    for part in [
        "from = \"x.conf\"",
        "tcp_congestion_control",
        "partition",
        "signal",
        "goodput_min",
        "status = 0",
        "output = ",
        "absent = ",
        "matches = ",
        "end_min",
        "end_max",
        "[templates.n]",
        "PYTHONUNBUFFERED",
    ] {
        assert!(examples.iter().any(|example| example.contains(part)), "{part}");
    }
    assert!(examples.len() > 60, "{} examples", examples.len());
}

#[test]
fn a_file_beside_the_scenario_is_in_the_node_and_a_missing_one_is_named() {
    let folder = folder("files");
    let scenario = parse(&folder.0, "[nodes.server]\nfiles = { \"/etc/x.conf\" = { from = \"x.conf\" } }\n").unwrap();
    let node = scenario.plan.nodes.iter().find(|node| node.name == "server").unwrap();
    assert_eq!(&node.files.own[0].contents[..], b"a line\n");
    let error = parse(&folder.0, "[nodes.server]\nfiles = { \"/etc/x.conf\" = { from = \"y.conf\" } }\n").unwrap_err();
    assert!(error.contains("cannot read 'y.conf'") && error.contains("beside the scenario"), "{error}");
}
