//! Manual pages of files that people write, section 5: the text of `weft help`, and every key with what its schema says.

use crate::page::{Part, fitted_line, parts};
use clap_mangen::roff::{Roff, bold, italic, roman};
use serde_json::Value;
use std::path::PathBuf;

/// Columns of an example: a terminal of 80 less what `man` moves it in.
const EXAMPLE_COLUMNS: usize = 72;

/// A kind of file.
struct Format {
    name: &'static str,
    summary: &'static str,
    help: &'static str,
    /// None: there is no schema of it.
    schema: Option<Value>,
    see_also: &'static [&'static str],
}

/// Every page: its path, and its text.
pub fn pages() -> Vec<(PathBuf, Vec<u8>)> {
    let formats = [
        Format {
            name: "weft-scenario",
            summary: "a world for weft sim: nodes, wires, programs and what must come of it",
            help: weft_sim::scenario::HELP,
            schema: Some(weft_sim::scenario::schema()),
            see_also: &["weft-sim(1)", "weft-test(1)", "weft-twin(1)", "weft-stack(5)", "weft-root(5)"],
        },
        Format {
            name: "weft-stack",
            summary: "a stack for weft up and weft run: interfaces, addresses, routes and blocks",
            help: weft_node::STACK_HELP,
            schema: Some(weft_node::stack_schema()),
            see_also: &["weft-up(1)", "weft-run(1)", "weft-check(1)", "weft-apply(1)", "weft-scenario(5)"],
        },
        Format {
            name: "weft-root",
            summary: "what is to be in a folder that is / for nodes",
            help: crate::command::root::HELP,
            schema: None,
            see_also: &["weft-root(1)", "weft-scenario(5)"],
        },
    ];
    formats.iter().map(|format| (PathBuf::from(format!("man/{}.5", format.name)), page(format).into_bytes())).collect()
}

fn page(format: &Format) -> String {
    let mut page = Roff::new();
    page.control("TH", [format.name, "5"]);
    page.control("SH", ["NAME"]).text([roman(format!("{} - {}", format.name, format.summary))]);
    page.control("SH", ["DESCRIPTION"]);
    let mut begins = true;
    for part in parts(format.help) {
        match part {
            Part::Prose(prose) => {
                if !std::mem::take(&mut begins) {
                    page.control("PP", []);
                }
                page.text([roman(prose)]);
            }
            Part::Lines(lines) => {
                page.control("PP", []).control("nf", []);
                for line in lines.into_iter().flat_map(|line| fitted_line(line, EXAMPLE_COLUMNS)) {
                    page.text([roman(line)]);
                }
                page.control("fi", []);
            }
        }
    }
    if let Some(schema) = &format.schema {
        page.control("SH", ["KEYS"]).text([roman("Keys that stand at the top of the file, and those of its sections.")]);
        let mut sections = Sections { schema, seen: Vec::new() };
        sections.keys(&mut page, "", schema);
    }
    page.control("SH", ["SEE ALSO"]);
    let last = format.see_also.len().saturating_sub(1);
    for (place, other) in format.see_also.iter().enumerate() {
        let (name, section) = other.split_once('(').unwrap_or((other, ""));
        let end = if place == last { "" } else { "," };
        page.text([bold(name), roman(format!("({section}{end}"))]);
    }
    page.render()
}

/// The sections of a file, each once.
struct Sections<'a> {
    schema: &'a Value,
    seen: Vec<&'a str>,
}

impl<'a> Sections<'a> {
    /// The keys of a section, and then the sections in it; `path` is what its heading is made of.
    fn keys(&mut self, page: &mut Roff, path: &str, section: &'a Value) {
        let mut below = Vec::new();
        for (name, key) in section["properties"].as_object().into_iter().flatten() {
            page.control("TP", []).text([bold(name), roman(" "), italic(self.value(key))]);
            page.text([roman(key["description"].as_str().unwrap_or_default())]);
            below.extend(self.section(path, name, key));
        }
        for (heading, path, definition) in below {
            if !self.seen.contains(&definition) {
                self.seen.push(definition);
                page.control("SS", [heading.as_str()]);
                self.keys(page, &path, &self.schema["$defs"][definition]);
            }
        }
    }

    /// The section that a key holds: its heading, the path of what is in it, and which definition it follows.
    fn section(&self, path: &str, name: &str, key: &'a Value) -> Option<(String, String, &'a str)> {
        let name = if path.is_empty() { name.to_owned() } else { format!("{path}.{name}") };
        let table = |path: String| (format!("[{path}]"), path);
        let ((heading, path), reference) = if let Some(one) = key["$ref"].as_str() {
            (table(name), one)
        } else if let Some(named) = key["additionalProperties"]["$ref"].as_str() {
            (table(format!("{name}.NAME")), named)
        } else {
            ((format!("[[{name}]]"), name), key["items"]["$ref"].as_str()?)
        };
        let definition = reference.strip_prefix("#/$defs/")?;
        self.schema["$defs"][definition]["properties"].is_object().then_some((heading, path, definition))
    }

    /// What a key takes, in a few words.
    fn value(&self, key: &Value) -> String {
        if let Some(words) = key["enum"].as_array().or_else(|| self.definition(key)?["enum"].as_array()) {
            return words.iter().map(Value::to_string).collect::<Vec<_>>().join(", ");
        }
        if let Some(choices) = self.definition(key).and_then(|of| of["oneOf"].as_array()) {
            return choices.iter().map(|choice| choice["const"].to_string()).collect::<Vec<_>>().join(", ");
        }
        if let Some(ways) = key["anyOf"].as_array().or_else(|| self.definition(key)?["anyOf"].as_array()) {
            return ways.iter().map(|way| self.value(way)).collect::<Vec<_>>().join(" or ");
        }
        let example = key["examples"][0].as_str().or_else(|| self.definition(key)?["examples"][0].as_str());
        match example {
            Some(example) => format!("\"{example}\""),
            None => match key["type"].as_str().or_else(|| self.definition(key)?["type"].as_str()) {
                Some("string") => "text",
                Some("integer") => "whole number",
                Some("number") => "number",
                Some("boolean") => "true or false",
                Some("array") => "list",
                Some("object") => "table",
                _ => "value",
            }
            .to_owned(),
        }
    }

    fn definition(&self, key: &Value) -> Option<&'a Value> {
        let name = key["$ref"].as_str()?.strip_prefix("#/$defs/")?;
        Some(&self.schema["$defs"][name])
    }
}
