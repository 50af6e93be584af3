//! The node of a draft: a host with weft's stack, a Linux kernel, a switch or a segment.

use super::address::Hop;
use super::draft::{NodeDraft, WireDraft};
use super::raw::{Chosen, Raw};
use super::section::capture;
use super::source::Source;
use super::{host, linux};
use crate::plan::{NodeKind, NodePlan, PER_CALL_DEFAULT, SwitchPlan};
use std::ops::Range;
use weft_node::StackError;

/// The node of a draft.
pub(super) fn plan(source: &Source<'_>, raw: &Raw, draft: &NodeDraft, wires: &[WireDraft], routes: &[Hop]) -> Result<NodePlan, StackError> {
    let kind = draft.section.kind.as_ref();
    asks_soundly(source, draft)?;
    if let (Some(kernel), false) = (&draft.section.kernel, kind.is_some_and(|kind| kind.get_ref() == "linux")) {
        return Err(source.error(kernel.span(), "only a Linux node has a kernel", "write kind = \"linux\", too"));
    }
    match kind.map(|kind| (kind.get_ref().as_str(), kind)) {
        None | Some(("host", _)) => {
            known_interfaces(source, draft)?;
            host::plan(source, raw, draft, wires, routes)
        }
        Some(("linux", _)) => {
            known_interfaces(source, draft)?;
            linux::plan(source, raw, draft, routes)
        }
        Some(("switch", _)) => Ok(switch(draft, raw, true)),
        Some(("segment", _)) => Ok(switch(draft, raw, false)),
        Some((other, kind)) => Err(source.error(kind.span(), format!("no node is a '{other}'"), "use host, linux, switch or segment")),
    }
}

/// A host that is made of what the scenario says may ask a DHCP server, by interfaces that it has.
fn asks_soundly(source: &Source<'_>, draft: &NodeDraft) -> Result<(), StackError> {
    let Some(dhcp) = &draft.section.dhcp else { return Ok(()) };
    if draft.section.kind.as_ref().is_some_and(|kind| kind.get_ref() != "host") {
        let what = format!("node '{}' asks no DHCP server: only hosts with weft's stack do by themselves", draft.name);
        return Err(source.error(dhcp.span(), what, "take dhcp away; a program of the node may be a client"));
    }
    if draft.section.stack.is_some() {
        return Err(source.error(
            dhcp.span(),
            "a stack file says itself which interfaces ask",
            "write dhcp = true under its [[interface]]",
        ));
    }
    let Chosen::Names(names) = dhcp.get_ref() else { return Ok(()) };
    match names.iter().find(|name| draft.interfaces.iter().all(|interface| interface.name != **name)) {
        Some(name) => Err(no_such_interface(source, draft, name, dhcp.span())),
        None => Ok(()),
    }
}

fn no_such_interface(source: &Source<'_>, draft: &NodeDraft, name: &str, span: Range<usize>) -> StackError {
    let what = format!("no wire ends at interface '{name}' of node '{}'", draft.name);
    let known: Vec<&str> = draft.interfaces.iter().map(|interface| interface.name.as_str()).collect();
    source.error(span, what, format!("the node has: {}", known.join(", ")))
}

/// Addresses are those of interfaces that wires end at.
fn known_interfaces(source: &Source<'_>, draft: &NodeDraft) -> Result<(), StackError> {
    for (name, _) in &draft.section.addresses {
        if draft.interfaces.iter().all(|interface| interface.name != *name.get_ref()) {
            return Err(no_such_interface(source, draft, name.get_ref(), name.span()));
        }
    }
    Ok(())
}

/// A switch's node.
fn switch(draft: &NodeDraft, raw: &Raw, learns: bool) -> NodePlan {
    let kind = NodeKind::Switch(SwitchPlan { learns, ..SwitchPlan::default() });
    let capture = capture(raw, &draft.section);
    NodePlan {
        name: draft.name.clone(),
        kind,
        large_frames: true,
        capture,
        files: Default::default(),
        collect: Vec::new(),
        per_call: PER_CALL_DEFAULT,
        limits: Default::default(),
        boot: None,
        clock: Default::default(),
    }
}
