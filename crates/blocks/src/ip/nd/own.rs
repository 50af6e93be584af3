//! The node's own addresses, as their owner tells them, and the detection of duplicates among them (RFC 4862 §5.4, RFC 7527).
//!
//! An address that enters the table as tentative is detected: `dad_transmits` solicitations from `::`, `retransmit_time` apart, the first
//! one after a random delay. Whoever answers, or detects the same address, makes it a duplicate; silence makes it preferred. Either is told
//! to the owner of addresses. Addresses that enter as preferred are not detected.

use super::message::{NONCE_BYTES, is_link_local, packet, solicited_node};
use super::{Nd, count};
use std::collections::{BTreeMap, BTreeSet};
use std::net::{IpAddr, Ipv6Addr};
use weft_core::state::{Damage, Field, Reader, Writer};
use weft_core::table::{Address, AddressState, Family, LinkType};
use weft_core::*;
use weft_wire::icmpv6::nd;

/// RFC 7527 §4.1: how many solicitations more are sent after one's own came back. (Linux has no bound of its own; the RFC's is 3.)
const LOOPED_BACK_MAX: u32 = 3;

type Key = (InterfaceIndex, Ipv6Addr);

/// One address under detection.
#[derive(Debug)]
struct Detection {
    sent: u32,
    /// One's own solicitations that came back.
    looped: u32,
    due: Instant,
    nonce: [u8; NONCE_BYTES],
}

/// The addresses under detection, also by when they are next due.
#[derive(Debug, Default)]
struct Detections {
    all: BTreeMap<Key, Detection>,
    by_due: BTreeSet<(Instant, Key)>,
}

impl Detections {
    fn insert(&mut self, key: Key, detection: Detection) {
        self.remove(&key);
        self.by_due.insert((detection.due, key));
        self.all.insert(key, detection);
    }
    fn remove(&mut self, key: &Key) {
        if let Some(detection) = self.all.remove(key) {
            self.by_due.remove(&(detection.due, *key));
        }
    }
    /// All of it may be changed but when it is due.
    fn get_mut(&mut self, key: &Key) -> Option<&mut Detection> {
        self.all.get_mut(key)
    }
    fn put_off(&mut self, key: &Key, due: Instant) {
        if let Some(detection) = self.all.get_mut(key) {
            self.by_due.remove(&(std::mem::replace(&mut detection.due, due), *key));
            self.by_due.insert((due, *key));
        }
    }
    fn due(&self) -> Option<Instant> {
        self.by_due.first().map(|(due, _)| *due)
    }
    fn due_by(&self, now: Instant) -> Vec<Key> {
        self.by_due.iter().take_while(|(due, _)| *due <= now).map(|(_, key)| *key).collect()
    }
}

/// What nd knows of the table of addresses.
#[derive(Debug, Default)]
pub(super) struct Own {
    list: BTreeMap<Key, Address>,
    /// Solicited-node groups, and for how many addresses.
    groups: BTreeMap<Key, u32>,
    detections: Detections,
}

weft_core::fields!(struct Detection { sent, looped, due, nonce });
weft_core::fields!(struct Own { list, groups, detections });

impl Field for Detections {
    fn write(&self, out: &mut Writer) {
        out.put(&self.all);
    }
    fn read(from: &mut Reader<'_>) -> Result<Detections, Damage> {
        let all: BTreeMap<Key, Detection> = from.take()?;
        Ok(Detections { by_due: all.iter().map(|(key, detection)| (detection.due, *key)).collect(), all })
    }
}

impl Own {
    pub(super) fn get(&self, interface: InterfaceIndex, address: Ipv6Addr) -> Option<&Address> {
        self.list.get(&(interface, address))
    }

    /// May packets carry this address as their source?
    pub(super) fn is_usable(&self, interface: InterfaceIndex, address: Ipv6Addr) -> bool {
        self.get(interface, address).is_some_and(usable)
    }

    /// The first usable link-local address of an interface.
    pub(super) fn link_local(&self, interface: InterfaceIndex) -> Option<Ipv6Addr> {
        self.usable_of(interface).find(|address| is_link_local(*address))
    }

    /// The usable addresses of an interface.
    pub(super) fn usable_of(&self, interface: InterfaceIndex) -> impl Iterator<Item = Ipv6Addr> {
        let all = (interface, Ipv6Addr::UNSPECIFIED)..=(interface, Ipv6Addr::from_bits(u128::MAX));
        self.list.range(all).filter(|(_, address)| usable(address)).map(|((_, ip), _)| *ip)
    }

    /// All of an interface.
    pub(super) fn of(&self, interface: InterfaceIndex) -> impl Iterator<Item = &Address> {
        let all = (interface, Ipv6Addr::UNSPECIFIED)..=(interface, Ipv6Addr::from_bits(u128::MAX));
        self.list.range(all).map(|(_, address)| address)
    }

    /// When the next detection has something to do.
    pub(super) fn due(&self) -> Option<Instant> {
        self.detections.due()
    }
}

const fn usable(address: &Address) -> bool {
    matches!(address.state, AddressState::Preferred | AddressState::Deprecated)
}

impl Nd {
    /// The owner of addresses says that they have changed.
    pub(super) fn look_at_addresses(&mut self, cx: &mut Context<'_>) {
        let Answer::Addresses(list) = cx.ask(Table::Addresses(Family::V6), &Query::Addresses) else { return };
        let mut now = BTreeMap::new();
        for address in list {
            if let IpAddr::V6(ip) = address.address
                && address.interface != InterfaceIndex::LOOPBACK
            {
                now.insert((address.interface, ip), address);
            }
        }
        let before = std::mem::replace(&mut self.own.list, now);
        let gone: Vec<Key> = before.keys().filter(|key| !self.own.list.contains_key(key)).copied().collect();
        for key in gone {
            self.own.detections.remove(&key);
            self.leave(key, cx);
        }
        let fresh: Vec<(Key, Address, Option<AddressState>)> = self
            .own
            .list
            .iter()
            .map(|(key, address)| (*key, *address, before.get(key).map(|before| before.state)))
            .filter(|(_, address, before)| *before != Some(address.state))
            .collect();
        for (key, address, before) in fresh {
            self.address_is(key, &address, before, cx);
        }
    }

    /// The same for one address that came, went or is in another state.
    pub(super) fn look_at_address(&mut self, key: Key, cx: &mut Context<'_>) {
        if key.0 == InterfaceIndex::LOOPBACK {
            return;
        }
        let Answer::Addresses(list) = cx.ask(Table::Addresses(Family::V6), &Query::Address(key.0, key.1.into())) else { return };
        let Some(address) = list.first() else {
            if self.own.list.remove(&key).is_some() {
                self.own.detections.remove(&key);
                self.leave(key, cx);
            }
            return;
        };
        let before = self.own.list.insert(key, *address).map(|before| before.state);
        if before != Some(address.state) {
            self.address_is(key, address, before, cx);
        }
    }

    fn address_is(&mut self, key: Key, address: &Address, before: Option<AddressState>, cx: &mut Context<'_>) {
        if before.is_none() {
            self.join(key, cx);
        }
        match address.state {
            AddressState::Tentative => self.detect(key, cx),
            AddressState::Preferred | AddressState::Deprecated if is_link_local(key.1) => self.link_local_usable(key.0, cx),
            AddressState::Preferred | AddressState::Deprecated | AddressState::Duplicated => {}
        }
    }

    /// RFC 4861 §7.2.1: a node joins the solicited-node group of each of its addresses.
    fn join(&mut self, (interface, ip): Key, cx: &mut Context<'_>) {
        let group = solicited_node(ip);
        let users = self.own.groups.entry((interface, group)).or_default();
        *users += 1;
        if *users == 1 {
            let filter = Some(SourceFilter::Exclude(Vec::new()));
            cx.tell(Table::Groups(Family::V6), Change::Group { interface, group: group.into(), holder: HOLDER_NODE, filter });
        }
    }

    fn leave(&mut self, (interface, ip): Key, cx: &mut Context<'_>) {
        let group = solicited_node(ip);
        let Some(users) = self.own.groups.get_mut(&(interface, group)) else { return };
        *users -= 1;
        if *users == 0 {
            self.own.groups.remove(&(interface, group));
            cx.tell(Table::Groups(Family::V6), Change::Group { interface, group: group.into(), holder: HOLDER_NODE, filter: None });
        }
    }

    /// The link is ready: addresses that waited for that are detected (Linux addrconf_dad_run).
    pub(super) fn detect_waiting(&mut self, interface: InterfaceIndex, cx: &mut Context<'_>) {
        let all = (interface, Ipv6Addr::UNSPECIFIED)..=(interface, Ipv6Addr::from_bits(u128::MAX));
        let waits = |key: &Key| !self.own.detections.all.contains_key(key);
        let tentative = self.own.list.range(all).filter(|(_, address)| address.state == AddressState::Tentative);
        let waiting: Vec<Key> = tentative.map(|(key, _)| *key).filter(waits).collect();
        for key in waiting {
            self.detect(key, cx);
        }
    }

    /// Starts the detection of a tentative address. Linux addrconf_dad_begin: "If the device is not ready: keep it tentative".
    fn detect(&mut self, key: Key, cx: &mut Context<'_>) {
        let (by_ethernet, carrier) =
            self.facts.get(key.0, cx).map_or((false, true), |facts| (facts.link == LinkType::Ethernet, facts.carrier));
        if !carrier && !self.routers.up.contains(&key.0) {
            return;
        }
        // RFC 4862 §5.1: "A value of zero indicates that Duplicate Address Detection is not performed on tentative addresses."
        if self.settings.dad_transmits == 0 || !by_ethernet {
            return self.settle(key, AddressState::Preferred, cx);
        }
        // RFC 4862 §5.4.2: the first solicitation is delayed "by a random delay between 0 and MAX_RTR_SOLICITATION_DELAY".
        let due = cx.now + self.settings.solicitation_delay.mul_f64(cx.rng.unit());
        self.own.detections.insert(key, Detection { sent: 0, looped: 0, due, nonce: [0; NONCE_BYTES] });
    }

    /// Does what is due of detections.
    pub(super) fn run_detections(&mut self, cx: &mut Context<'_>) {
        for key in self.own.detections.due_by(cx.now) {
            let again = cx.now + self.resolver.retransmit_time(key.0);
            let Some(detection) = self.own.detections.get_mut(&key) else { continue };
            if detection.sent >= self.settings.dad_transmits.saturating_add(detection.looped) {
                self.own.detections.remove(&key);
                self.settle(key, AddressState::Preferred, cx);
            } else {
                cx.rng.fill(&mut detection.nonce);
                detection.sent += 1;
                let nonce = detection.nonce;
                self.own.detections.put_off(&key, again);
                let message = nd::Message::NeighborSolicitation { target: key.1 };
                // RFC 7527 §4.1: each solicitation of a detection has a fresh nonce.
                let probe = packet(key.0, Ipv6Addr::UNSPECIFIED, solicited_node(key.1), message, &[nd::Opt::Nonce(&nonce)]);
                self.resolver.counters[count::OUT_NEIGHBOR_SOLICITS] += 1;
                self.transmit(probe, cx);
            }
        }
    }

    /// A solicitation from `::` for a tentative address: another station detects it too, or one's own came back.
    pub(super) fn detected_by_another(&mut self, key: Key, nonce: Option<[u8; NONCE_BYTES]>, cx: &mut Context<'_>) {
        let Some(detection) = self.own.detections.get_mut(&key) else { return };
        // RFC 7527 §4.2: a solicitation with one's own nonce is looped back, and no sign of a duplicate.
        if detection.sent > 0 && nonce == Some(detection.nonce) {
            self.resolver.counters[count::LOOPED_BACK] += 1;
            detection.looped = (detection.looped + 1).min(LOOPED_BACK_MAX);
            return;
        }
        self.duplicate(key, cx);
    }

    /// Somebody else has a tentative address.
    pub(super) fn duplicate(&mut self, key: Key, cx: &mut Context<'_>) {
        self.own.detections.remove(&key);
        self.resolver.counters[count::DUPLICATES] += 1;
        cx.alert("duplicate", serde_json::json!({"interface": key.0.0, "address": key.1.to_string()}));
        self.settle(key, AddressState::Duplicated, cx);
    }

    /// Tells the owner what has become of a tentative address.
    fn settle(&mut self, key: Key, state: AddressState, cx: &mut Context<'_>) {
        let Some(address) = self.own.list.get(&key) else { return };
        let over = state == AddressState::Preferred && address.preferred_until.is_some_and(|until| until <= cx.now);
        let state = if over { AddressState::Deprecated } else { state };
        cx.tell(Table::Addresses(Family::V6), Change::AddAddress(Address { state, ..*address }));
    }
}
