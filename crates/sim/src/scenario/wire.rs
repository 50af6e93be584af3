//! Wires: what their properties mean, and which interfaces they end at.

use super::draft::{InterfaceDraft, NodeDraft, WireDraft};
use super::names::{in_order, matches};
use super::raw::{self, Raw, Texts, Wire};
use super::source::Source;
use super::template::Shape;
use crate::limits::NODES_MAX;
use crate::plan::{DirectionPlan, Discipline, Jitter, Loss, WirePlan};
use crate::trace::RateTrace;
use std::collections::BTreeMap;
use std::net::IpAddr;
use std::sync::Arc;
use std::time::Duration;
use weft_node::Spanned;
use weft_node::StackError;

/// RFC 8289 §4.2, §4.3.
const CODEL_TARGET: Duration = Duration::from_millis(5);
const CODEL_INTERVAL: Duration = Duration::from_millis(100);
/// RFC 8033 §4.
const PIE_TARGET: Duration = Duration::from_millis(15);
const PIE_UPDATE: Duration = Duration::from_millis(15);
/// RFC 8290 §5.2.
const FQ_FLOWS: u32 = 1024;
const FQ_QUANTUM: u32 = 1514;

/// Every wire of the file; gives the nodes their interfaces.
pub(super) fn all(source: &Source<'_>, raw: &Raw, nodes: &mut [NodeDraft]) -> Result<Vec<WireDraft>, StackError> {
    let mut wires = Vec::new();
    let names: BTreeMap<String, usize> = nodes.iter().enumerate().map(|(index, node)| (node.name.clone(), index)).collect();
    let mut own = Own { source, sections: BTreeMap::new() };
    for (name, section) in &raw.wires {
        if section.get_ref().between.is_none() {
            own.sections.insert(name.get_ref(), (name, section.get_ref()));
        }
    }
    for (name, section) in in_order(&raw.wires) {
        source.check_name(name, "wire")?;
        let wire = section.get_ref();
        let ends = match &wire.between {
            Some(ends) if ends.get_ref().len() == 2 => ends,
            Some(ends) => {
                return Err(source.error(ends.span(), "a wire has two ends", "write between = [\"a\", \"b\"]; several meet at a switch"));
            }
            None => continue,
        };
        let both = directions(source, wire)?;
        let [first, second] = [&ends.get_ref()[0], &ends.get_ref()[1]];
        let (left, right) = (find_ends(source, first, nodes, &names)?, find_ends(source, second, nodes, &names)?);
        if let Some((a, _)) = left.iter().find(|(a, _)| right.iter().any(|(b, _)| a == b)) {
            let what = format!("both ends of the wire are at '{}'", nodes[*a].name);
            let pattern = [first, second].into_iter().find(|end| end.get_ref().contains('*'));
            let help = match pattern {
                Some(pattern) => format!("'{}' stands for it, too: give it a name that the pattern leaves out", pattern.get_ref()),
                None => "join two nodes; what a node sends to itself goes over its loopback".to_owned(),
            };
            return Err(source.error(ends.span(), what, help));
        }
        let single = left.len() == 1 && right.len() == 1;
        let mut number = 0;
        for (a, of_a) in &left {
            for (b, of_b) in &right {
                number += 1;
                let name = if single { name.get_ref().clone() } else { format!("{}{number}", name.get_ref()) };
                if wires.len() >= NODES_MAX * 4 {
                    return Err(source.error(ends.span(), "too many wires", "make the scenario smaller"));
                }
                let both = own.over(&name, &both)?;
                join(source, &mut wires, nodes, name, ends.span(), [(*a, of_a.as_deref()), (*b, of_b.as_deref())], both)?;
            }
        }
    }
    for (name, template) in in_order(&raw.templates) {
        let shape = Shape::of(source, template)?;
        let section = template.get_ref();
        let both = directions(source, &section.wire)?;
        let bottleneck = section.bottleneck.as_ref().map(|wire| directions(source, wire)).transpose()?;
        let first = shape.nodes(name.get_ref()).first().map(|made| made.name.clone()).unwrap_or_default();
        let base = nodes.iter().position(|node| node.name == first).unwrap_or(0);
        for (number, made) in shape.wires().into_iter().enumerate() {
            let plan = match (&bottleneck, made.bottleneck) {
                (Some(plan), true) => plan.clone(),
                _ => both.clone(),
            };
            let label = made.name(name.get_ref(), number + 1);
            let plan = own.over(&label, &plan)?;
            let ends = [(base + made.ends.0, None), (base + made.ends.1, None)];
            join(source, &mut wires, nodes, label, name.span(), ends, plan)?;
        }
    }
    own.check_used()?;
    Ok(wires)
}

/// Sections of wires that a template or a pattern makes: they say what differs, and not where the wires end.
struct Own<'a, 'r> {
    source: &'a Source<'a>,
    sections: BTreeMap<&'r str, (&'r Spanned<String>, &'r Wire)>,
}

impl Own<'_, '_> {
    /// What a wire is like that would be like this without a section of its own.
    fn over(&mut self, name: &str, made: &[DirectionPlan; 2]) -> Result<[DirectionPlan; 2], StackError> {
        match self.sections.remove(name) {
            Some((_, wire)) => over(self.source, wire, made.clone()),
            None => Ok(made.clone()),
        }
    }

    fn check_used(&self) -> Result<(), StackError> {
        match self.sections.values().min_by_key(|(name, _)| name.span().start) {
            Some((name, _)) => {
                let what = format!("the wire '{}' does not say where it ends", name.get_ref());
                let help = "write between = [\"a\", \"b\"]; only a wire that a template or a pattern makes has its ends already";
                Err(self.source.error(name.span(), what, help))
            }
            None => Ok(()),
        }
    }
}

/// The nodes that `a`, `a:eth1` or `client*` stands for, with the interface.
fn find_ends(
    source: &Source<'_>,
    end: &Spanned<String>,
    nodes: &[NodeDraft],
    names: &BTreeMap<String, usize>,
) -> Result<Vec<(usize, Option<String>)>, StackError> {
    let (pattern, interface) = match end.get_ref().split_once(':') {
        Some((node, interface)) => (node, Some(interface.to_owned())),
        None => (end.get_ref().as_str(), None),
    };
    let found: Vec<usize> = match pattern.contains('*') {
        false => names.get(pattern).copied().into_iter().collect(),
        true => nodes.iter().enumerate().filter(|(_, node)| matches(pattern, &node.name)).map(|(index, _)| index).collect(),
    };
    if found.is_empty() {
        let name = Spanned::new(end.span(), pattern.to_owned());
        source.find(&name, "node", nodes.iter().map(|node| node.name.as_str()))?;
    }
    Ok(found.into_iter().map(|index| (index, interface.clone())).collect())
}

fn join(
    source: &Source<'_>,
    wires: &mut Vec<WireDraft>,
    nodes: &mut [NodeDraft],
    name: String,
    span: std::ops::Range<usize>,
    ends: [(usize, Option<&str>); 2],
    directions: [DirectionPlan; 2],
) -> Result<(), StackError> {
    if wires.iter().any(|wire| wire.plan.name == name) {
        return Err(source.error(span, format!("there is a wire '{name}' already"), "give each wire a name of its own"));
    }
    let number = wires.len();
    let mut named = Vec::new();
    for (node, interface) in ends {
        let draft = &mut nodes[node];
        let interface = match interface {
            Some(interface) => interface.to_owned(),
            None => {
                let free = (0..).map(|number| format!("eth{number}")).find(|name| draft.interfaces.iter().all(|known| known.name != *name));
                free.unwrap_or_default()
            }
        };
        if !(1..=15).contains(&interface.len()) || interface == "lo" || interface.contains(['/', ' ', ':', '"', '\\']) {
            return Err(source.error(span, format!("'{interface}' is no name of an interface"), "use 1 to 15 letters and digits"));
        }
        if draft.interfaces.iter().any(|known| known.name == interface) {
            let what = format!("interface '{interface}' of node '{}' is on another wire already", draft.name);
            return Err(source.error(span, what, "name another interface, or put a switch between"));
        }
        let addresses = addresses(source, draft, &interface)?;
        let bare = draft.section.addresses.iter().any(|(name, texts)| *name.get_ref() == interface && texts.get_ref().all().is_empty());
        let dhcp = draft.section.dhcp.as_ref().is_some_and(|dhcp| dhcp.get_ref().has(&interface));
        draft.interfaces.push(InterfaceDraft { name: interface.clone(), wire: number, addresses, dhcp, bare, mtu: directions[0].mtu });
        named.push((node, interface));
    }
    let ends = [named[0].clone(), named[1].clone()];
    wires.push(WireDraft { plan: WirePlan { name, ends, directions } });
    Ok(())
}

/// The addresses that a node's section gives to an interface.
fn addresses(source: &Source<'_>, draft: &NodeDraft, interface: &str) -> Result<Vec<(IpAddr, u8)>, StackError> {
    let Some((_, texts)) = draft.section.addresses.iter().find(|(name, _)| name.get_ref() == interface) else { return Ok(Vec::new()) };
    let parse = |text: &String| {
        prefix(text).ok_or_else(|| {
            let what = format!("'{text}' is no address with prefix");
            source.error(texts.span(), what, "write it as \"10.1.0.1/24\" or \"fd00::1/64\"")
        })
    };
    let all: &Texts = texts.get_ref();
    all.all().iter().map(parse).collect()
}

/// `10.0.0.1/24`
pub(super) fn prefix(text: &str) -> Option<(IpAddr, u8)> {
    let (address, bits) = text.split_once('/')?;
    let (address, bits): (IpAddr, u8) = (address.parse().ok()?, bits.parse().ok()?);
    (bits <= if address.is_ipv4() { 32 } else { 128 }).then_some((address, bits))
}

/// Both directions of a wire: `back` over what is said for both.
fn directions(source: &Source<'_>, wire: &Wire) -> Result<[DirectionPlan; 2], StackError> {
    let forth = direction(source, wire, DirectionPlan::default())?;
    let back = match &wire.back {
        Some(back) => direction(source, back.get_ref(), forth.clone())?,
        None => forth.clone(),
    };
    Ok([forth, back])
}

/// Both directions of a wire that are `before` but for what is said.
fn over(source: &Source<'_>, wire: &Wire, before: [DirectionPlan; 2]) -> Result<[DirectionPlan; 2], StackError> {
    let [forth, back] = before;
    let (forth, back) = (direction(source, wire, forth)?, direction(source, wire, back)?);
    match &wire.back {
        Some(section) => Ok([forth, direction(source, section.get_ref(), back)?]),
        None => Ok([forth, back]),
    }
}

/// A direction that is `before` but for what is said.
pub(super) fn direction(source: &Source<'_>, wire: &Wire, before: DirectionPlan) -> Result<DirectionPlan, StackError> {
    let mut plan = before;
    if let Some(rate) = &wire.rate {
        plan.rate = Some(source.rate(rate)?);
        plan.trace = None;
    }
    if let Some(file) = &wire.trace {
        if wire.rate.is_some() {
            return Err(source.error(file.span(), "the wire has two rates", "use one of rate and trace"));
        }
        let text = source.read_text(file.get_ref()).map_err(|why| {
            source.error(file.span(), format!("cannot read '{}': {why}", file.get_ref()), "name a trace in Mahimahi's format")
        })?;
        let help = "each line is a time in milliseconds at which a packet of 1500 bytes can leave";
        let trace = RateTrace::parse(file.get_ref(), &text).map_err(|why| source.error(file.span(), why, help))?;
        (plan.trace, plan.rate) = (Some(Arc::new(trace)), None);
    }
    plan.overhead = wire.overhead.unwrap_or(plan.overhead);
    if let Some(delay) = &wire.delay {
        plan.delay = source.duration(delay)?;
    }
    plan.jitter = jitter(source, wire, plan.jitter)?;
    plan.loss = loss(source, wire, plan.loss)?;
    for (value, field) in [(&wire.corrupt, &mut plan.corrupt), (&wire.duplicate, &mut plan.duplicate), (&wire.reorder, &mut plan.reorder)] {
        if let Some(value) = value {
            *field = source.probability(value)?;
        }
    }
    if let Some(by) = &wire.reorder_by {
        plan.reorder_by = source.duration(by)?;
    }
    if let Some(mtu) = &wire.mtu {
        if !(68..=65_535).contains(mtu.get_ref()) {
            return Err(source.error(mtu.span(), format!("an MTU of {} bytes", mtu.get_ref()), "use 68 to 65535 bytes; IPv6 needs 1280"));
        }
        plan.mtu = Some(*mtu.get_ref());
    }
    if let Some(carrier) = &wire.carrier {
        plan.carrier = match carrier.get_ref() {
            raw::Carrier::Noticed(noticed) => noticed.then_some(Duration::ZERO),
            raw::Carrier::After(after) => Some(source.duration(&Spanned::new(carrier.span(), after.delay.clone()))?),
        };
    }
    queue(source, wire, &mut plan)?;
    Ok(plan)
}

fn jitter(source: &Source<'_>, wire: &Wire, before: Jitter) -> Result<Jitter, StackError> {
    let Some(text) = &wire.jitter else { return Ok(before) };
    let span = source.duration(text)?;
    Ok(match wire.jitter_shape.as_ref().map(|shape| (shape.get_ref().as_str(), shape)) {
        _ if span.is_zero() => Jitter::None,
        None | Some(("uniform", _)) => Jitter::Uniform(span),
        Some(("normal", _)) => Jitter::Normal(span),
        Some(("pareto", _)) => Jitter::Pareto(span),
        Some((other, at)) => return Err(source.error(at.span(), format!("no jitter is '{other}'"), "use uniform, normal or pareto")),
    })
}

fn loss(source: &Source<'_>, wire: &Wire, before: Loss) -> Result<Loss, StackError> {
    let given = usize::from(wire.loss.is_some()) + usize::from(wire.lose.is_some()) + usize::from(wire.gilbert.is_some());
    let span = || wire.loss.as_ref().map(Spanned::span).or(wire.gilbert.as_ref().map(Spanned::span)).unwrap_or(0..0);
    if given > 1 {
        return Err(source.error(span(), "the wire loses frames in two ways", "use one of loss, lose and gilbert"));
    }
    if let Some(loss) = &wire.loss {
        let probability = source.probability(loss)?;
        return Ok(if probability > 0.0 { Loss::Bernoulli(probability) } else { Loss::None });
    }
    if let Some(numbers) = &wire.lose {
        let mut numbers = numbers.clone();
        numbers.sort_unstable();
        return Ok(Loss::Listed(numbers));
    }
    let Some(gilbert) = &wire.gilbert else { return Ok(before) };
    let raw::Gilbert { to_bad, to_good, loss_good, loss_bad } = gilbert.get_ref();
    Ok(Loss::Gilbert {
        to_bad: source.probability(to_bad)?,
        to_good: source.probability(to_good)?,
        loss_good: loss_good.as_ref().map_or(Ok(0.0), |value| source.probability(value))?,
        loss_bad: loss_bad.as_ref().map_or(Ok(1.0), |value| source.probability(value))?,
    })
}

fn queue(source: &Source<'_>, wire: &Wire, plan: &mut DirectionPlan) -> Result<(), StackError> {
    if let Some(packets) = wire.queue_packets {
        plan.queue.packets_max = packets;
    }
    if let Some(bytes) = wire.queue_bytes {
        plan.queue.bytes_max = bytes;
        // Whoever counts bytes does not mean packets.
        plan.queue.packets_max = wire.queue_packets.unwrap_or(u32::MAX);
    }
    let Some(name) = &wire.queue else { return Ok(()) };
    let span = |text: &Option<Spanned<String>>, otherwise| text.as_ref().map_or(Ok(otherwise), |text| source.duration(text));
    let ecn = wire.ecn.unwrap_or(false);
    plan.queue.discipline = match name.get_ref().as_str() {
        "drop-tail" => Discipline::DropTail,
        "codel" => Discipline::CoDel { target: span(&wire.target, CODEL_TARGET)?, interval: span(&wire.interval, CODEL_INTERVAL)?, ecn },
        "fq-codel" => Discipline::FqCoDel {
            target: span(&wire.target, CODEL_TARGET)?,
            interval: span(&wire.interval, CODEL_INTERVAL)?,
            ecn: wire.ecn.unwrap_or(true),
            flows: FQ_FLOWS,
            quantum: FQ_QUANTUM,
        },
        "pie" => Discipline::Pie { target: span(&wire.target, PIE_TARGET)?, update: PIE_UPDATE, ecn },
        "red" => {
            let bytes = if plan.queue.bytes_max == u64::MAX { u64::from(plan.queue.packets_max) * 1514 } else { plan.queue.bytes_max };
            Discipline::Red { min: bytes / 12, max: bytes / 4, probability: 0.1, ecn }
        }
        other => {
            return Err(source.error(name.span(), format!("no queue is '{other}'"), "use drop-tail, red, codel, fq-codel or pie"));
        }
    };
    Ok(())
}
