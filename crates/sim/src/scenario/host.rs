//! A host's stack: from its stack file, or made of what the scenario says.

use super::address::Hop;
use super::draft::{NodeDraft, WireDraft};
use super::files::{collected, own_files};
use super::raw::{NextHop, Raw};
use super::section::{boot, capture, clock, line, per_call};
use super::source::Source;
use crate::plan::{NodeKind, NodePlan, PER_CALL_DEFAULT};
use std::fmt::Write as _;
use std::ops::Range;
use weft_node::Spanned;
use weft_node::{Stack, StackError};
use weft_process::{Files, Limits, settings};

/// The node of a host's draft.
pub(super) fn plan(source: &Source<'_>, raw: &Raw, draft: &NodeDraft, wires: &[WireDraft], routes: &[Hop]) -> Result<NodePlan, StackError> {
    let files = own_files(source, draft)?;
    let (per_call, limits, boot) =
        (per_call(source, draft)?, limits(source, draft)?, boot(source, draft.section.boot.as_ref().or(raw.boot.as_ref()))?);
    let clock = clock(source, raw, draft.section.clock.as_ref())?;
    let mut stack = match &draft.section.stack {
        Some(file) => {
            let text = source
                .read_text(file.get_ref())
                .map_err(|why| source.error(file.span(), format!("cannot read '{}': {why}", file.get_ref()), "name a stack file"))?;
            let mut stack = Stack::parse(file.get_ref(), &text).map_err(|error| error.at(file.span()))?;
            stack.rename(&draft.name);
            for interface in stack.interfaces_mut() {
                interface.backend = "wire:scenario".to_owned();
            }
            stack
        }
        None => Stack::parse(&format!("node {}", draft.name), &text(source, draft, wires, routes)?)?,
    };
    stack.set_loader(source.loader.clone());
    if draft.section.forward.is_some() && draft.section.stack.is_some() {
        set(source, &mut stack, &[format!("ip4.forward={}", draft.forwards())], &draft.span)?;
    }
    if let Some(mptcp) = &draft.section.mptcp {
        stack.set_mptcp(*mptcp.get_ref());
    }
    for (name, value) in &draft.section.sysctls {
        set(source, &mut stack, &sysctl(source, name, value)?, &name.span())?;
    }
    for (name, value) in &draft.section.parameters {
        set(source, &mut stack, &[format!("{}={}", name.get_ref(), value.get_ref())], &name.span())?;
    }
    let collect = collected(source, &draft.section.collect)?;
    // Everything that can be wrong with parameters and addresses is found here, with the place of the node.
    let section = &draft.section;
    let plain = section.stack.is_none()
        && section.mptcp.is_none()
        && section.parameters.is_empty()
        && section.sysctls.is_empty()
        && section.own_routes().is_empty();
    if plain && section.addresses.is_empty() {
        // Made of parts that fit; a thousand nodes need not be built twice.
        return Ok(NodePlan { files, collect, per_call, limits, boot, clock, ..host(draft, raw, stack) });
    }
    weft_node::Node::check(&stack).map_err(|error| match &draft.section.stack {
        Some(file) => error.at(file.span()),
        None => source.error(draft.span.clone(), format!("node '{}': {}", draft.name, error.what), error.help),
    })?;
    Ok(NodePlan { files, collect, per_call, limits, boot, clock, ..host(draft, raw, stack) })
}

fn host(draft: &NodeDraft, raw: &Raw, stack: Stack) -> NodePlan {
    let large_frames = draft.section.large_frames.unwrap_or(true);
    let kind = NodeKind::Host(Box::new(stack));
    let (capture, files) = (capture(raw, &draft.section), Files::default());
    NodePlan {
        name: draft.name.clone(),
        kind,
        large_frames,
        capture,
        files,
        collect: Vec::new(),
        per_call: PER_CALL_DEFAULT,
        limits: Limits::default(),
        boot: None,
        clock: Default::default(),
    }
}

/// What its programs may have at most.
fn limits(source: &Source<'_>, draft: &NodeDraft) -> Result<Limits, StackError> {
    let memory = match &draft.section.memory {
        Some(text) => Some(source.bytes(text, MEMORY_LEAST..=MEMORY_MOST)?),
        None => None,
    };
    let descriptors = match &draft.section.descriptors {
        Some(count) if !(DESCRIPTORS_LEAST..=DESCRIPTORS_MOST).contains(count.get_ref()) => {
            let what = format!("{} descriptors", count.get_ref());
            return Err(source.error(count.span(), what, format!("allow {DESCRIPTORS_LEAST} to {DESCRIPTORS_MOST}")));
        }
        other => other.as_ref().map(|count| *count.get_ref()),
    };
    Ok(Limits { memory, descriptors })
}

/// What a small program with its libraries, and what loads it, needs.
const MEMORY_LEAST: u64 = 4 << 20;
const MEMORY_MOST: u64 = 1 << 40;
/// Standard input, output and error, and a few more: what starts programs needs some itself.
const DESCRIPTORS_LEAST: u32 = 16;
const DESCRIPTORS_MOST: u32 = 65_536;

/// The assignments to parameters that a sysctl stands for: the table is that of /proc/sys/net inside of nodes.
fn sysctl(source: &Source<'_>, name: &Spanned<String>, value: &Spanned<toml::Value>) -> Result<Vec<String>, StackError> {
    let unknown = || {
        let known: Vec<String> = settings::names().map(|known| format!("net.{}", known.replace('/', "."))).collect();
        let help = format!("there are: {}; the rest are parameters of blocks: `weft help block tcp`", known.join(", "));
        source.error(name.span(), format!("a node has no sysctl '{}'", name.get_ref()), help)
    };
    let path = name.get_ref().replace('.', "/");
    let row = path.strip_prefix("net/").and_then(settings::find).ok_or_else(unknown)?;
    let line = line(value.get_ref());
    let assignments = line.as_ref().and_then(|line| row.assignments(line));
    assignments.ok_or_else(|| {
        let what = format!("'{}' cannot be {}", name.get_ref(), value.get_ref());
        source.error(value.span(), what, format!("write it as `sysctl -w` takes it: {}", row.takes()))
    })
}

/// Assignments, `tcp.sack=false`; what is wrong with them stands at their place and not at the node's.
fn set(source: &Source<'_>, stack: &mut Stack, assignments: &[String], span: &Range<usize>) -> Result<(), StackError> {
    let at = |error: StackError| source.error(span.clone(), error.what, error.help);
    assignments.iter().try_for_each(|assignment| stack.set(assignment)).map_err(at)?;
    weft_node::Node::check(stack).map(drop).map_err(at)
}

/// A stack file for a host that has none.
fn text(source: &Source<'_>, draft: &NodeDraft, wires: &[WireDraft], routes: &[Hop]) -> Result<String, StackError> {
    let mut text = format!("[node]\nname = \"{}\"\n", draft.name);
    for interface in &draft.interfaces {
        let wire = &wires[interface.wire].plan.name;
        let _ = write!(text, "[[interface]]\nname = \"{}\"\nbackend = \"wire:{wire}\"\n", interface.name);
        if let Some(mtu) = interface.mtu {
            let _ = writeln!(text, "mtu = {mtu}");
        }
        if interface.dhcp {
            text += "dhcp = true\n";
        }
        for (address, bits) in &interface.addresses {
            let _ = write!(text, "[[address]]\ninterface = \"{}\"\naddress = \"{address}/{bits}\"\n", interface.name);
        }
    }
    for route in draft.section.own_routes() {
        let route = route.get_ref();
        let _ = writeln!(text, "[[route]]\ndestination = {}", quoted(route.destination.get_ref()));
        for (field, value) in [("gateway", &route.gateway), ("interface", &route.interface)] {
            if let Some(value) = value {
                let _ = writeln!(text, "{field} = {}", quoted(value.get_ref()));
            }
        }
        if route.metric > 0 {
            let _ = writeln!(text, "metric = {}", route.metric);
        }
        if !route.nexthops.is_empty() {
            let hops: Vec<String> = route.nexthops.iter().map(hop_text).collect();
            let _ = writeln!(text, "nexthops = [{}]", hops.join(", "));
        }
        if route.gateway.is_none() && route.interface.is_none() && route.nexthops.is_empty() {
            return Err(source.error(route.destination.span(), "the route leads nowhere", "give it a gateway, an interface or nexthops"));
        }
    }
    let own: Vec<&str> = draft.section.own_routes().iter().map(|route| route.get_ref().destination.get_ref().as_str()).collect();
    for Hop { destination: (network, bits), gateway, metric } in routes {
        let destination = if *bits == 0 { "default".to_owned() } else { format!("{network}/{bits}") };
        if own.contains(&destination.as_str()) {
            continue;
        }
        let _ = write!(text, "[[route]]\ndestination = \"{destination}\"\ngateway = \"{gateway}\"\n");
        if *metric > 0 {
            let _ = writeln!(text, "metric = {metric}");
        }
    }
    if draft.forwards() {
        text += "[block.ip4]\nforward = true\n[block.ip6]\nforward = true\n";
    }
    Ok(text)
}

fn hop_text(hop: &NextHop) -> String {
    let named = [("gateway", &hop.gateway), ("interface", &hop.interface)];
    let fields = named.into_iter().filter_map(|(name, value)| Some(format!("{name} = {}", quoted(value.as_ref()?.get_ref()))));
    let weight = hop.weight.map(|weight| format!("weight = {weight}"));
    format!("{{ {} }}", fields.chain(weight).collect::<Vec<_>>().join(", "))
}

fn quoted(text: &str) -> String {
    toml::Value::String(text.to_owned()).to_string()
}
