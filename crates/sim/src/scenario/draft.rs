//! Nodes and wires before they are whole: what is known of them until they have addresses.

use super::raw;
use crate::plan::WirePlan;
use std::net::IpAddr;
use std::ops::Range;

/// What a host or switch is called, and what is known of it before it has addresses.
#[derive(Clone, Debug)]
pub(super) struct NodeDraft {
    pub name: String,
    /// Counts the nodes of its section, from 1.
    pub number: u32,
    pub span: Range<usize>,
    pub section: raw::Node,
    /// Interface, wire (its place), and address with prefix if one was given.
    pub interfaces: Vec<InterfaceDraft>,
}

#[derive(Clone, Debug)]
pub(super) struct InterfaceDraft {
    pub name: String,
    pub wire: usize,
    pub addresses: Vec<(IpAddr, u8)>,
    /// A node of the scenario gives it its IPv4 address when it runs.
    pub dhcp: bool,
    /// It begins without an address, and is in no route: a program gives it one, or nobody.
    pub bare: bool,
    pub mtu: Option<u32>,
}

/// A wire, before its nodes have addresses.
#[derive(Clone, Debug)]
pub(super) struct WireDraft {
    pub plan: WirePlan,
}

impl NodeDraft {
    /// A text in which `{n}` and `{node}` are its number and its name.
    pub fn expand(&self, text: &str) -> String {
        text.replace("{n}", &self.number.to_string()).replace("{node}", &self.name)
    }

    pub fn is_switch(&self) -> bool {
        self.section.kind.as_ref().is_some_and(|kind| !matches!(kind.get_ref().as_str(), "host" | "linux"))
    }

    /// Does the node send packets of others on?
    pub fn forwards(&self) -> bool {
        self.section.forward.unwrap_or(self.interfaces.len() > 1 && !self.is_switch())
    }

    /// Does it use each of its interfaces for itself?
    pub fn has_ways_out(&self) -> bool {
        self.section.forward == Some(false) || self.section.mptcp.as_ref().is_some_and(|mptcp| *mptcp.get_ref())
    }
}
