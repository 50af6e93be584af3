//! Nodes of a file: those that it names, `count` of them, and those of templates. The wires of templates are made in [`super::wire`].

use super::draft::NodeDraft;
use super::names::{counted, in_order};
use super::raw::{Node, Raw, Template};
use super::source::Source;
use crate::limits::NODES_MAX;
use std::collections::{BTreeMap, BTreeSet};
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
    let shapes = in_order(&raw.templates).into_iter().map(|(name, template)| Ok((name, template.get_ref(), Shape::of(source, template)?)));
    let shapes = shapes.collect::<Result<Vec<_>, StackError>>()?;
    let own = own_sections(raw, &shapes);
    for (name, section) in in_order(&raw.nodes) {
        match &section.get_ref().count {
            None if own.contains_key(name.get_ref()) => {}
            None => add(name.get_ref().clone(), 1, name.span(), section.get_ref(), &mut drafts)?,
            Some(count) => {
                for (number, node) in (1..).zip(counted(name.get_ref(), *count.get_ref())) {
                    let (name, section) = own.get(&node).copied().unwrap_or((name, section));
                    add(node, number, name.span(), section.get_ref(), &mut drafts)?;
                }
            }
        }
    }
    for (name, template, shape) in shapes {
        for (number, node) in (1..).zip(shape.nodes(name.get_ref())) {
            match own.get(&node.name) {
                Some((name, section)) => add(node.name, number, name.span(), section.get_ref(), &mut drafts)?,
                None if node.switch => {
                    let switch = Node { kind: Some(Spanned::new(name.span(), "switch".to_owned())), ..Node::default() };
                    add(node.name, number, name.span(), &switch, &mut drafts)?;
                }
                None => add(node.name, number, name.span(), &template.node, &mut drafts)?,
            }
        }
    }
    Ok(drafts)
}

type Section<'a, T> = (&'a Spanned<String>, &'a Spanned<T>);

/// Sections of nodes that `count` or a template makes. [`super::refine`] has made them complete.
fn own_sections<'a>(raw: &'a Raw, shapes: &[(&Spanned<String>, &Template, Shape)]) -> BTreeMap<String, Section<'a, Node>> {
    let several = raw.nodes.iter().flat_map(|(name, section)| {
        let count = section.get_ref().count.as_ref().map_or(0, |count| *count.get_ref());
        counted(name.get_ref(), count.min(NODES_MAX as u32))
    });
    let shaped = shapes.iter().flat_map(|(name, _, shape)| shape.nodes(name.get_ref())).map(|node| node.name);
    let named = raw.nodes.iter().filter(|(_, section)| section.get_ref().count.is_none());
    let named: BTreeMap<&str, Section<'a, Node>> = named.map(|section| (section.0.get_ref().as_str(), section)).collect();
    // More are refused where they are made.
    several.chain(shaped).take(NODES_MAX).filter_map(|name| named.get(name.as_str()).copied().map(|section| (name, section))).collect()
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

impl MadeWire {
    /// What it is called, of the template of this name; the wires of a template are numbered from 1.
    pub fn name(&self, template: &str, number: usize) -> String {
        if self.bottleneck { format!("{template}-bottleneck") } else { format!("{template}{number}") }
    }
}

/// Ports of a fat tree's switches.
const ARITY_MAX: u32 = 64;

fn is_arity(number: u32) -> bool {
    number.is_multiple_of(2) && (2..=ARITY_MAX).contains(&number)
}

/// How many ports the switches of a fat tree have.
fn arity(source: &Source<'_>, section: &Template) -> Result<u32, StackError> {
    let Some(arity) = &section.arity else {
        let help = "write arity = 4: 4 pods, 16 hosts";
        return Err(source.error(section.kind.span(), "a fat-tree needs arity, the number of ports of its switches", help));
    };
    match *arity.get_ref() {
        number if is_arity(number) => Ok(number),
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
        let size = |name: &str, least: u32| match name {
            "count" => need(&section.count, name, least),
            "width" => need(&section.width, name, least),
            "height" => need(&section.height, name, least),
            "left" => need(&section.left, name, least),
            "right" => need(&section.right, name, least),
            _ => arity(source, section),
        };
        let kind = section.kind.get_ref();
        let shape = Shape::sized(kind, size)?.ok_or_else(|| {
            let what = format!("there is no template '{kind}'");
            source.error(section.kind.span(), what, "use chain, ring, star, grid, dumbbell or fat-tree")
        })?;
        match shape.fits() {
            true => Ok(shape),
            false => Err(source.error(section.kind.span(), format!("more than {NODES_MAX} nodes"), "make the scenario smaller")),
        }
    }

    /// Is it one that a world can hold? To be asked before it is made.
    pub fn fits(&self) -> bool {
        let nodes = match *self {
            Shape::Chain(count) | Shape::Ring(count) | Shape::Star(count) => u64::from(count),
            Shape::Grid(width, height) => u64::from(width) * u64::from(height),
            Shape::Dumbbell(left, right) => u64::from(left) + u64::from(right),
            Shape::FatTree(arity) if !is_arity(arity) => return false,
            Shape::FatTree(arity) => u64::from(arity).pow(3) / 4,
        };
        nodes <= NODES_MAX as u64
    }

    /// A shape by its name; None: there is none. `size`: what the template says of one of its sizes, by key, which is at least so much.
    pub fn sized<E>(kind: &str, size: impl Fn(&str, u32) -> Result<u32, E>) -> Result<Option<Shape>, E> {
        Ok(Some(match kind {
            "chain" => Shape::Chain(size("count", 2)?),
            "ring" => Shape::Ring(size("count", 3)?),
            "star" => Shape::Star(size("count", 1)?),
            "grid" => Shape::Grid(size("width", 1)?, size("height", 1)?),
            "dumbbell" => Shape::Dumbbell(size("left", 1)?, size("right", 1)?),
            "fat-tree" => Shape::FatTree(size("arity", 2)?),
            _ => return Ok(None),
        }))
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
