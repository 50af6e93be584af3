//! One of the nodes and wires that `count`, a template or a pattern makes: `[nodes.leaf3]` and `[wires.tree2]` say what of it differs.
//!
//! Nodes are made complete here, in the document, where a table lies over another whatever is in it. Wires are made in [`super::wire`], where each
//! property lies over another's anyway.

use super::names::{counted, matches};
use super::template::Shape;
use crate::limits::NODES_MAX;
use std::collections::{BTreeMap, BTreeSet};
use toml::Spanned;
use toml::de::{DeString, DeTable, DeValue};

/// What is more is refused by those who read it.
const WIRES_MAX: usize = 4 * NODES_MAX;

/// What a node is made from.
#[derive(Clone, PartialEq, Eq, Debug)]
enum Origin {
    /// A section of `nodes` with `count`.
    Count(String),
    /// What a template says of its nodes.
    Template(String),
    /// Nothing: a template's switch.
    Switch,
}

/// What a document makes without naming it.
#[derive(Default, Debug)]
pub(super) struct Made {
    nodes: BTreeMap<String, Origin>,
    /// Those of them that have no stack.
    switches: BTreeSet<String>,
    /// With the section of `wires` that makes it; None: a template does.
    wires: BTreeMap<String, Option<String>>,
}

impl Made {
    /// What is wrong in the document makes nothing here, and is told by those who read it.
    pub fn of(document: &DeTable<'_>) -> Made {
        let mut made = Made::default();
        let mut names: Vec<String> = Vec::new();
        for (name, section) in sections(document, "nodes") {
            if section.get("count").is_none() {
                names.push(name.to_owned());
                continue;
            }
            let all = counted(name, number(section, "count").unwrap_or(0)).map(|one| (one, Origin::Count(name.to_owned())));
            made.add(all, is_switch(section));
        }
        for (name, section) in sections(document, "templates") {
            let Some(shape) = shape(section) else { continue };
            let (switches, hosts): (Vec<_>, Vec<_>) = shape.nodes(name).into_iter().partition(|node| node.switch);
            let are_switches = section.get("node").and_then(|node| node.get_ref().as_table()).is_some_and(is_switch);
            made.add(hosts.into_iter().map(|node| (node.name, Origin::Template(name.to_owned()))), are_switches);
            made.add(switches.into_iter().map(|node| (node.name, Origin::Switch)), true);
            let room = WIRES_MAX.saturating_sub(made.wires.len());
            made.wires.extend((1..).zip(shape.wires()).map(|(number, wire)| (wire.name(name, number), None)).take(room));
        }
        names.retain(|name| !made.nodes.contains_key(name));
        let ends = |end: &str| match end.split_once(':').map_or(end, |(node, _)| node) {
            pattern if pattern.contains('*') => names.iter().chain(made.nodes.keys()).filter(|name| matches(pattern, name)).count(),
            _ => 1,
        };
        for (name, section) in sections(document, "wires") {
            let between = section.get("between").and_then(|between| between.get_ref().as_array());
            let ends = between.into_iter().flatten().filter_map(|end| end.get_ref().as_str()).map(ends);
            let count = ends.fold(1, usize::saturating_mul);
            if count > 1 {
                let room = WIRES_MAX.saturating_sub(made.wires.len());
                let count = u32::try_from(count.min(room)).unwrap_or(u32::MAX);
                made.wires.extend(counted(name, count).map(|one| (one, Some(name.to_owned()))));
            }
        }
        made
    }

    fn add(&mut self, all: impl Iterator<Item = (String, Origin)>, are_switches: bool) {
        let room = NODES_MAX.saturating_sub(self.nodes.len());
        for (name, origin) in all.take(room) {
            if are_switches {
                self.switches.insert(name.clone());
            }
            self.nodes.insert(name, origin);
        }
    }

    /// Names of a kind of section that are made.
    pub fn names(&self, kind: &str) -> Box<dyn Iterator<Item = &str> + '_> {
        match kind {
            "nodes" => Box::new(self.nodes.keys().map(String::as_str)),
            "wires" => Box::new(self.wires.keys().map(String::as_str)),
            _ => Box::new(std::iter::empty()),
        }
    }

    /// The section that one is made from, where that is of the same kind.
    pub fn origin(&self, kind: &str, name: &str) -> Option<&str> {
        match (kind, self.nodes.get(name), self.wires.get(name)) {
            ("nodes", Some(Origin::Count(section)), _) | ("wires", _, Some(Some(section))) => Some(section),
            _ => None,
        }
    }

    pub fn is_switch(&self, name: &str) -> bool {
        self.switches.contains(name)
    }
}

/// Sections of nodes that are made become all that is said of them.
pub(super) fn nodes(document: &mut DeTable<'_>) {
    let made = Made::of(document);
    let own = sections(document, "nodes").filter(|(_, section)| section.get("count").is_none());
    let refined: Vec<(String, &Origin)> = own.filter_map(|(name, _)| Some((name.to_owned(), made.nodes.get(name)?))).collect();
    for (name, origin) in refined {
        let base = base(document, origin);
        let Some(DeValue::Table(all)) = document.get_mut("nodes").map(Spanned::get_mut) else { return };
        if let Some(DeValue::Table(section)) = all.get_mut(name.as_str()).map(Spanned::get_mut) {
            let over = std::mem::replace(section, base);
            lay(section, over);
        }
    }
}

/// What a node is without a section of its own.
fn base<'t>(document: &DeTable<'t>, origin: &Origin) -> DeTable<'t> {
    let section = |kind, name: &str| document.get(kind)?.get_ref().as_table()?.get(name)?.get_ref().as_table();
    match origin {
        Origin::Count(name) => {
            let mut base = section("nodes", name).cloned().unwrap_or_default();
            base.remove("count");
            base
        }
        Origin::Template(name) => {
            section("templates", name).and_then(|section| section.get("node")?.get_ref().as_table()).cloned().unwrap_or_default()
        }
        Origin::Switch => {
            let kind = DeValue::String(DeString::Borrowed("switch"));
            DeTable::from_iter([(Spanned::new(0..0, DeString::Borrowed("kind")), Spanned::new(0..0, kind))])
        }
    }
}

/// A table over another: tables in it lie over those below.
fn lay<'t>(below: &mut DeTable<'t>, over: DeTable<'t>) {
    for (key, value) in over {
        if let (Some(DeValue::Table(below)), DeValue::Table(_)) =
            (below.get_mut(key.get_ref().as_ref()).map(Spanned::get_mut), value.get_ref())
        {
            if let DeValue::Table(over) = value.into_inner() {
                lay(below, over);
            }
            continue;
        }
        below.remove(key.get_ref().as_ref());
        below.insert(key, value);
    }
}

/// Has a node that a section describes no stack?
pub(super) fn is_switch(section: &DeTable<'_>) -> bool {
    let kind = section.get("kind").and_then(|kind| kind.get_ref().as_str());
    matches!(kind, Some("switch" | "segment"))
}

/// The sections of a kind, with their names.
fn sections<'d, 't>(document: &'d DeTable<'t>, kind: &str) -> impl Iterator<Item = (&'d str, &'d DeTable<'t>)> + use<'d, 't> {
    let all = document.get(kind).and_then(|all| all.get_ref().as_table());
    all.into_iter().flatten().filter_map(|(name, section)| Some((name.get_ref().as_ref(), section.get_ref().as_table()?)))
}

fn number(section: &DeTable<'_>, key: &str) -> Option<u32> {
    let number = section.get(key)?.get_ref().as_integer()?;
    u32::from_str_radix(number.as_str(), number.radix()).ok().filter(|number| *number as usize <= NODES_MAX)
}

fn shape(section: &DeTable<'_>) -> Option<Shape> {
    let kind = section.get("kind")?.get_ref().as_str()?;
    Shape::sized(kind, |key, least| number(section, key).filter(|number| *number >= least).ok_or(())).ok()?.filter(Shape::fits)
}
