//! What the block holds: its interfaces with their clients, and what it counts.

use super::client::Client;
use std::collections::BTreeMap;
use weft_core::{Instant, InterfaceIndex};

/// Most interfaces that are served.
pub(super) const INTERFACES_MAX: usize = 64;
/// Longest name of an interface.
pub(super) const NAME_BYTES_MAX: usize = 15;

/// Positions in [`KIND`](super::KIND)'s counters.
pub(super) mod count {
    pub const OUT_DISCOVERS: usize = 0;
    pub const OUT_REQUESTS: usize = 1;
    pub const OUT_RELEASES: usize = 2;
    pub const IN_OFFERS: usize = 3;
    pub const IN_ACKS: usize = 4;
    pub const IN_NAKS: usize = 5;
    pub const IN_ERRORS: usize = 6;
    pub const IN_IGNORED: usize = 7;
    pub const IN_REFUSED: usize = 8;
    pub const LOST: usize = 9;
    pub const INTERFACES_REFUSED: usize = 10;
    pub const MTU_REFUSED: usize = 11;
    pub const ALL: usize = 12;
}

/// An interface that is served.
#[derive(Debug)]
pub(super) struct Served {
    pub name: String,
    pub mac: [u8; 6],
    pub mtu: u32,
    pub client: Client,
}

weft_core::fields!(struct Served { name, mac, mtu, client });

/// The block.
#[derive(Debug)]
pub struct Dhcp {
    pub(super) name: String,
    pub(super) interfaces: Vec<String>,
    pub(super) host_name: String,
    pub(super) clients: BTreeMap<InterfaceIndex, Served>,
    pub(super) counters: [u64; count::ALL],
    /// When the timer is due.
    pub(super) due: Option<Instant>,
    /// Orders given so far.
    pub(super) orders: u64,
}
