//! Which end inside stands behind which port outside, towards whom, and how long.

use super::packet::Flow;
use crate::middlebox::aging::Aging;
use std::collections::BTreeMap;
use std::net::SocketAddr;
use std::ops::RangeInclusive;
use weft_core::state::{Damage, Reader, Writer};
use weft_core::{Duration, Instant, Rng};
use weft_wire::Protocol;
use weft_wire::tcp::Flags;

/// Ports that are tried before a packet is given up.
const PORTS_TRIED_MAX: u32 = 1024;

/// Protocol, port, and who is talked to.
type Outside = (u8, u16, SocketAddr);
/// Protocol, who talks, and who is talked to.
type Inside = (u8, SocketAddr, SocketAddr);

/// How long a mapping that is not used stays.
#[derive(Clone, Copy, Debug)]
pub(super) struct Timeouts {
    pub established: Duration,
    pub transitory: Duration,
    pub udp: Duration,
    pub icmp: Duration,
}

/// One end inside, and how its TCP connection is doing: indices are 0 for what leaves, 1 for what arrives.
#[derive(Debug)]
struct Mapping {
    inside: SocketAddr,
    /// A segment with ACK was seen.
    heard: [bool; 2],
    ended: [bool; 2],
}

weft_core::fields!(struct Mapping { inside, heard, ended });

impl Mapping {
    fn sees(&mut self, flags: Flags, arriving: bool) {
        let side = usize::from(arriving);
        if flags.contains(Flags::SYN) && !arriving {
            (self.heard, self.ended) = ([false; 2], [false; 2]);
        }
        self.heard[side] |= flags.contains(Flags::ACK);
        self.ended[side] |= flags.contains(Flags::FIN);
        if flags.contains(Flags::RST) {
            self.ended = [true; 2];
        }
    }

    fn stays(&self, protocol: u8, timeouts: &Timeouts) -> Duration {
        match Protocol(protocol) {
            // RFC 5382 §5: "established" is between the handshake and the FINs of both.
            Protocol::TCP if self.heard == [true; 2] && self.ended != [true; 2] => timeouts.established,
            Protocol::TCP => timeouts.transitory,
            Protocol::ICMP => timeouts.icmp,
            _ => timeouts.udp,
        }
    }
}

/// The table.
#[derive(Debug)]
pub(super) struct Mappings {
    outside: Aging<Outside, Mapping>,
    /// The ports of those that are inside.
    inside: BTreeMap<Inside, u16>,
}

impl Mappings {
    pub fn new(most: u64) -> Mappings {
        Mappings { outside: Aging::new(most), inside: BTreeMap::new() }
    }

    pub fn len(&self) -> usize {
        self.outside.len()
    }

    pub fn most(&self) -> u64 {
        self.outside.most()
    }

    pub fn set_most(&mut self, most: u64) {
        self.outside.set_most(most);
    }

    pub fn clear(&mut self) {
        self.outside.clear();
        self.inside.clear();
    }

    /// The port of what leaves, if it has one.
    pub fn port(&self, flow: &Flow, now: Instant) -> Option<u16> {
        let port = *self.inside.get(&(flow.protocol, flow.local, flow.remote))?;
        (!self.outside.is_over(&(flow.protocol, port, flow.remote), now)).then_some(port)
    }

    /// Who stands behind the port to which something arrives.
    pub fn inside(&self, flow: &Flow, now: Instant) -> Option<SocketAddr> {
        let key = (flow.protocol, flow.local.port(), flow.remote);
        let mapping = self.outside.get(&key)?;
        (!self.outside.is_over(&key, now)).then_some(mapping.inside)
    }

    /// Finds a port for what leaves and has none: its own if that is free. `None`: there is no place, or no port.
    pub fn open(&mut self, flow: &Flow, ports: &RangeInclusive<u16>, rng: &mut Rng, now: Instant) -> Option<u16> {
        let Flow { protocol, local, remote } = *flow;
        if let Some(old) = self.inside.get(&(protocol, local, remote)).copied() {
            self.remove(&(protocol, old, remote));
        }
        let inside = &mut self.inside;
        // Those whose time is over go.
        let forget = |key: Outside, gone: Mapping| {
            inside.remove(&(key.0, gone.inside, key.2));
        };
        if !self.outside.has_room(now, forget) {
            return None;
        }
        let count = u32::from(ports.end().saturating_sub(*ports.start())) + 1;
        let first = rng.below(u64::from(count)) as u32;
        let others = (0..count.min(PORTS_TRIED_MAX)).map(|step| (u32::from(*ports.start()) + (first + step) % count) as u16);
        let port = std::iter::once(local.port()).chain(others).find(|port| {
            let key = (protocol, *port, remote);
            !self.outside.has(&key) || self.outside.is_over(&key, now)
        })?;
        self.remove(&(protocol, port, remote));
        self.inside.insert((protocol, local, remote), port);
        self.outside.insert((protocol, port, remote), Mapping { inside: local, heard: [false; 2], ended: [false; 2] }, now);
        Some(port)
    }

    /// A mapping is used: it stays.
    pub fn used(&mut self, flow: &Flow, port: u16, flags: Flags, arriving: bool, timeouts: &Timeouts, now: Instant) {
        let key = (flow.protocol, port, flow.remote);
        let Some(mapping) = self.outside.get_mut(&key) else { return };
        mapping.sees(flags, arriving);
        let stays = mapping.stays(flow.protocol, timeouts);
        self.outside.keep(&key, now + stays);
    }

    fn remove(&mut self, key: &Outside) {
        if let Some(mapping) = self.outside.remove(key) {
            self.inside.remove(&(key.0, mapping.inside, key.2));
        }
    }

    pub fn export(&self, out: &mut Writer) {
        self.outside.export(out);
    }

    /// Reads what another table has written, for one of this size.
    ///
    /// # Errors
    /// Damage, more mappings than it may hold, or two of one end inside.
    pub fn import(most: u64, from: &mut Reader<'_>) -> Result<Mappings, Damage> {
        let outside: Aging<Outside, Mapping> = Aging::import(most, from)?;
        let inside: BTreeMap<Inside, u16> =
            outside.iter().map(|((protocol, port, remote), mapping)| ((*protocol, mapping.inside, *remote), *port)).collect();
        match inside.len() == outside.len() {
            true => Ok(Mappings { outside, inside }),
            false => Err(Damage::new("an end inside has two ports")),
        }
    }
}
