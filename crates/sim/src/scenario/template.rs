//! Nodes of a file: those that it names, `count` of them, and those of templates. The wires of templates are made in [`super::wire`].

use super::draft::NodeDraft;
use super::names::in_order;
use super::raw::{Node, Raw, Template};
use super::source::Source;
use crate::limits::NODES_MAX;
use std::collections::BTreeSet;
use weft_node::Spanned;
use weft_node::StackError;

/// Every node, in the order of the file; those of templates after those that have names.
pub(super) fn nodes(source: &Source<'_>, raw: &Raw) -> Result<Vec<NodeDraft>, StackError> {
    let mut drafts: Vec<NodeDraft> = Vec::new();
    let mut seen: BTreeSet<String> = BTreeSet::new();
    let mut add = |name: String, number: u32, span: std::ops::Range<usize>, section: &Node, drafts: &mut Vec<NodeDraft>| {
        check_name(source, &name, &span)?;
        if !seen.insert(name.clone()) {
            return Err(source.error(span, format!("there is a node '{name}' already"), "give each node a name of its own"));
        }
        if drafts.len() >= NODES_MAX {
            return Err(source.error(span, format!("more than {NODES_MAX} nodes"), "make the scenario smaller"));
        }
        drafts.push(NodeDraft { name, number, span, section: section.clone(), interfaces: Vec::new() });
        Ok(())
    };
    for (name, section) in in_order(&raw.nodes) {
        match &section.get_ref().count {
            None => add(name.get_ref().clone(), 1, name.span(), section.get_ref(), &mut drafts)?,
            Some(count) => {
                for number in 1..=*count.get_ref() {
                    add(format!("{}{number}", name.get_ref()), number, name.span(), section.get_ref(), &mut drafts)?;
                }
            }
        }
    }
    for (name, template) in in_order(&raw.templates) {
        let shape = Shape::of(source, template)?;
        for (number, node) in (1..).zip(shape.nodes(name.get_ref())) {
            let mut section = template.get_ref().node.clone();
            if node.switch {
                section = Node { kind: Some(Spanned::new(name.span(), "switch".to_owned())), ..Node::default() };
            }
            add(node.name, number, name.span(), &section, &mut drafts)?;
        }
    }
    Ok(drafts)
}

fn check_name(source: &Source<'_>, name: &str, span: &std::ops::Range<usize>) -> Result<(), StackError> {
    let fits = (1..=63).contains(&name.len()) && name.bytes().all(|byte| byte.is_ascii_alphanumeric() || b"-_".contains(&byte));
    match fits && !name.starts_with('-') {
        true => Ok(()),
        false => Err(source.error(span.clone(), format!("'{name}' is no name of a node"), "use up to 63 letters, digits, '-' and '_'")),
    }
}

/// What a template makes.
pub(super) enum Shape {
    Chain(u32),
    Ring(u32),
    Star(u32),
    Grid(u32, u32),
    Dumbbell(u32, u32),
    /// Of switches with so many ports, even.
    FatTree(u32),
}

pub(super) struct Made {
    pub name: String,
    pub switch: bool,
}

/// A wire of a template: its ends' places among [`Shape::nodes`], and whether it is the bottleneck.
pub(super) struct MadeWire {
    pub ends: (usize, usize),
    pub bottleneck: bool,
}

/// Ports of a fat tree's switches.
const ARITY_MAX: u32 = 64;

/// How many ports the switches of a fat tree have.
fn arity(source: &Source<'_>, section: &Template) -> Result<u32, StackError> {
    let Some(arity) = &section.arity else {
        let help = "write arity = 4: 4 pods, 16 hosts";
        return Err(source.error(section.kind.span(), "a fat-tree needs arity, the number of ports of its switches", help));
    };
    match *arity.get_ref() {
        number if number % 2 == 0 && (2..=ARITY_MAX).contains(&number) => Ok(number),
        number => {
            let what = format!("no fat-tree is of switches with {number} ports");
            Err(source.error(arity.span(), what, format!("use an even number from 2 to {ARITY_MAX}; it has arity³ / 4 hosts")))
        }
    }
}

impl Shape {
    pub fn of(source: &Source<'_>, template: &Spanned<Template>) -> Result<Shape, StackError> {
        let section = template.get_ref();
        let need = |value: &Option<Spanned<u32>>, name: &str, least: u32| match value {
            Some(number) if *number.get_ref() < least => {
                Err(source.error(number.span(), format!("{name} must be at least {least} here"), "`weft help scenario` shows an example"))
            }
            Some(number) if *number.get_ref() as usize > NODES_MAX => {
                Err(source.error(number.span(), format!("more than {NODES_MAX} nodes"), "make the scenario smaller"))
            }
            Some(number) => Ok(*number.get_ref()),
            None => {
                let what = format!("a {} needs {name}", section.kind.get_ref());
                Err(source.error(section.kind.span(), what, format!("write {name} = {}", least.max(4))))
            }
        };
        Ok(match section.kind.get_ref().as_str() {
            "chain" => Shape::Chain(need(&section.count, "count", 2)?),
            "ring" => Shape::Ring(need(&section.count, "count", 3)?),
            "star" => Shape::Star(need(&section.count, "count", 1)?),
            "grid" => Shape::Grid(need(&section.width, "width", 1)?, need(&section.height, "height", 1)?),
            "dumbbell" => Shape::Dumbbell(need(&section.left, "left", 1)?, need(&section.right, "right", 1)?),
            "fat-tree" => Shape::FatTree(arity(source, section)?),
            other => {
                let what = format!("there is no template '{other}'");
                return Err(source.error(section.kind.span(), what, "use chain, ring, star, grid, dumbbell or fat-tree"));
            }
        })
    }

    pub fn nodes(&self, name: &str) -> Vec<Made> {
        let host = |name: String| Made { name, switch: false };
        match self {
            Shape::Chain(count) | Shape::Ring(count) => (1..=*count).map(|number| host(format!("{name}{number}"))).collect(),
            Shape::Star(count) => {
                let center = Made { name: format!("{name}-switch"), switch: true };
                std::iter::once(center).chain((1..=*count).map(|number| host(format!("{name}{number}")))).collect()
            }
            Shape::Grid(width, height) => {
                (1..=*height).flat_map(|y| (1..=*width).map(move |x| (x, y))).map(|(x, y)| host(format!("{name}{x}-{y}"))).collect()
            }
            Shape::FatTree(arity) => {
                let half = arity / 2;
                let layer = |what: &'static str| {
                    (1..=*arity).flat_map(move |pod| (1..=half).map(move |number| format!("{name}-{what}{pod}-{number}")))
                };
                let hosts = (1..=arity * half * half).map(|number| format!("{name}{number}"));
                let cores = (1..=half * half).map(|number| format!("{name}-core{number}"));
                hosts.chain(layer("edge")).chain(layer("aggregation")).chain(cores).map(host).collect()
            }
            Shape::Dumbbell(left, right) => ["router-left", "router-right"]
                .into_iter()
                .map(|side| host(format!("{name}-{side}")))
                .chain((1..=*left).map(|number| host(format!("{name}-left{number}"))))
                .chain((1..=*right).map(|number| host(format!("{name}-right{number}"))))
                .collect(),
        }
    }

    pub fn wires(&self) -> Vec<MadeWire> {
        let wire = |a: u32, b: u32| MadeWire { ends: (a as usize, b as usize), bottleneck: false };
        match *self {
            Shape::Chain(count) => (1..count).map(|next| wire(next - 1, next)).collect(),
            Shape::Ring(count) => (0..count).map(|this| wire(this, (this + 1) % count)).collect(),
            Shape::Star(count) => (1..=count).map(|leaf| wire(leaf, 0)).collect(),
            Shape::Grid(width, height) => {
                let right = (0..height).flat_map(|y| (1..width).map(move |x| (y * width + x - 1, y * width + x)));
                let down = (1..height).flat_map(|y| (0..width).map(move |x| ((y - 1) * width + x, y * width + x)));
                right.chain(down).map(|(a, b)| wire(a, b)).collect()
            }
            Shape::FatTree(arity) => {
                // Al-Fares, Loukissas, Vahdat (2008) §3.1: "there are k pods, each containing two layers of k/2 switches".
                let half = arity / 2;
                let (hosts, layer) = (arity * half * half, arity * half);
                let leaves = (0..hosts).map(|host| (host, hosts + host / half));
                let inside = (0..layer).flat_map(|edge| (0..half).map(move |up| (hosts + edge, hosts + layer + edge / half * half + up)));
                let above =
                    (0..layer).flat_map(|up| (0..half).map(move |core| (hosts + layer + up, hosts + 2 * layer + up % half * half + core)));
                leaves.chain(inside).chain(above).map(|(a, b)| wire(a, b)).collect()
            }
            Shape::Dumbbell(left, right) => {
                let bottleneck = MadeWire { ends: (0, 1), bottleneck: true };
                let sides = (0..left).map(|number| wire(2 + number, 0)).chain((0..right).map(|number| wire(2 + left + number, 1)));
                std::iter::once(bottleneck).chain(sides).collect()
            }
        }
    }
}
