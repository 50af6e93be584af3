//! The node's IPv4 addresses, and what any address is to it.

use smallvec::SmallVec;
use std::collections::{BTreeMap, BTreeSet};
use std::net::{IpAddr, Ipv4Addr};
use weft_core::table::{Address, AddressKind, NO_PREFIX_ROUTE};
use weft_core::{InterfaceIndex, KeyedHasher, Map};

/// The mask of a prefix of `bits` bits (at most 32).
pub(super) const fn mask(bits: u8) -> u32 {
    match bits {
        0 => 0,
        bits => u32::MAX << (32 - bits as u32),
    }
}

/// Are two addresses in the same prefix?
pub(super) const fn same_prefix(a: Ipv4Addr, b: Ipv4Addr, bits: u8) -> bool {
    (a.to_bits() ^ b.to_bits()) & mask(bits) == 0
}

type Owners = SmallVec<[InterfaceIndex; 1]>;

/// Addresses in the order in which they were added: the first of an interface is its primary one. Adding and removing one looks at no other.
#[derive(Debug)]
pub(super) struct Addresses {
    /// By the order in which they were added.
    all: BTreeMap<u64, Address>,
    next: u64,
    /// The places in that order of an interface's addresses.
    of: BTreeMap<InterfaceIndex, BTreeSet<u64>>,
    places: Map<(InterfaceIndex, Ipv4Addr), u64>,
    local: Map<Ipv4Addr, Owners>,
    broadcast: Map<Ipv4Addr, Owners>,
    /// Networks of which every address is the node's: those of the addresses of `lo`, by the length of the prefix, and how many addresses have each.
    inside: BTreeMap<(u8, u32), u32>,
    /// The same of routes of kind local that somebody has set, and how many have it.
    routed: BTreeMap<(u8, u32), u32>,
}

impl Addresses {
    /// 127.0.0.1/8 on `lo`, as Linux has once `lo` is up.
    pub(super) fn new(hasher: KeyedHasher) -> Addresses {
        let mut addresses = Addresses::empty(hasher);
        let loopback = Address::permanent(InterfaceIndex::LOOPBACK, Ipv4Addr::LOCALHOST.into(), 8);
        addresses.add(loopback);
        addresses
    }

    fn empty(hasher: KeyedHasher) -> Addresses {
        Addresses {
            all: BTreeMap::new(),
            next: 0,
            of: BTreeMap::new(),
            places: Map::with_hasher(hasher),
            local: Map::with_hasher(hasher),
            broadcast: Map::with_hasher(hasher),
            inside: BTreeMap::new(),
            routed: BTreeMap::new(),
        }
    }

    /// A route of kind local to this network is there from now on, or one is gone.
    pub(super) fn route(&mut self, bits: u8, network: u32, there: bool) {
        let count = self.routed.entry((bits, network)).or_default();
        *count = if there { count.saturating_add(1) } else { count.saturating_sub(1) };
        if *count == 0 {
            self.routed.remove(&(bits, network));
        }
    }

    pub(super) fn len(&self) -> usize {
        self.all.len()
    }

    pub(super) fn iter(&self) -> impl Iterator<Item = &Address> {
        self.all.values()
    }

    /// Those of one interface.
    pub(super) fn of_interface(&self, interface: InterfaceIndex) -> impl Iterator<Item = &Address> {
        self.of.get(&interface).into_iter().flatten().filter_map(|place| self.all.get(place))
    }

    /// The same with their addresses as IPv4.
    pub(super) fn of(&self, interface: InterfaceIndex) -> impl Iterator<Item = (Ipv4Addr, u8)> {
        self.of_interface(interface).filter_map(v4)
    }

    /// The same with what is on the link: the address itself, or its peer's.
    pub(super) fn links_of(&self, interface: InterfaceIndex) -> impl Iterator<Item = (Ipv4Addr, Ipv4Addr, u8)> {
        self.of_interface(interface).filter_map(|address| v4(address).map(|(ip, bits)| (ip, base(address, ip), bits)))
    }

    /// False: it is there already, or not IPv4.
    pub(super) fn add(&mut self, address: Address) -> bool {
        let Some((ip, bits)) = v4(&address) else { return false };
        if bits > 32 || self.places.contains_key(&(address.interface, ip)) {
            return false;
        }
        let place = self.next;
        self.next += 1;
        self.all.insert(place, address);
        if let Some(network) = network_inside(&address) {
            *self.inside.entry(network).or_default() += 1;
        }
        self.of.entry(address.interface).or_default().insert(place);
        self.places.insert((address.interface, ip), place);
        self.local.entry(ip).or_default().push(address.interface);
        if let Some(highest) = broadcast_of(base(&address, ip), bits) {
            self.broadcast.entry(highest).or_default().push(address.interface);
        }
        true
    }

    /// Gives an address that is there, with the same prefix, its new state and lifetimes. False: it is not there.
    pub(super) fn renew(&mut self, address: Address) -> bool {
        let Some((ip, bits)) = v4(&address) else { return false };
        let place = self.places.get(&(address.interface, ip)).and_then(|place| self.all.get_mut(place));
        place.filter(|there| there.prefix_bits == bits && there.peer == address.peer).map(|there| *there = address).is_some()
    }

    pub(super) fn find(&self, interface: InterfaceIndex, ip: Ipv4Addr) -> Option<Address> {
        self.places.get(&(interface, ip)).and_then(|place| self.all.get(place)).copied()
    }

    pub(super) fn remove(&mut self, interface: InterfaceIndex, ip: Ipv4Addr) -> Option<Address> {
        let place = self.places.swap_remove(&(interface, ip))?;
        let address = self.all.remove(&place)?;
        if let Some(places) = self.of.get_mut(&interface) {
            places.remove(&place);
            if places.is_empty() {
                self.of.remove(&interface);
            }
        }
        if let Some(network) = network_inside(&address)
            && let Some(many) = self.inside.get_mut(&network)
        {
            *many -= 1;
            if *many == 0 {
                self.inside.remove(&network);
            }
        }
        forget(&mut self.local, ip, interface);
        if let Some(highest) = broadcast_of(base(&address, ip), address.prefix_bits) {
            forget(&mut self.broadcast, highest, interface);
        }
        Some(address)
    }

    pub(super) fn remove_where(&mut self, goes: impl Fn(&Address) -> bool) -> Vec<Address> {
        let gone: Vec<Address> = self.iter().filter(|address| goes(address)).copied().collect();
        gone.into_iter().filter_map(|address| self.remove(address.interface, v4(&address)?.0)).collect()
    }

    /// Takes other addresses instead. False, and no change: one is there twice or not IPv4.
    pub(super) fn replace(&mut self, list: Vec<Address>) -> bool {
        let mut fresh = Addresses::empty(*self.local.hasher());
        if !list.into_iter().all(|address| fresh.add(address)) {
            return false;
        }
        *self = fresh;
        true
    }

    /// The interfaces that have this address.
    pub(super) fn owners(&self, ip: Ipv4Addr) -> &[InterfaceIndex] {
        match self.local.get(&ip) {
            Some(owners) => owners,
            // RFC 1122 §3.2.1.3 (g): "{ 127, <any> } Internal host loopback address."
            None if (ip.is_loopback() || self.inside(ip).is_some() || self.is_routed(ip)) && !self.broadcast.contains_key(&ip) => {
                &[InterfaceIndex::LOOPBACK]
            }
            None => &[],
        }
    }

    /// The length of the longest prefix of `lo` that an address has (fib_add_ifaddr: "fib_magic(RTM_NEWROUTE, dev->flags & IFF_LOOPBACK ? RTN_LOCAL :
    /// RTN_UNICAST, prefix, ifa->ifa_prefixlen, prim, ifa->ifa_rt_priority);").
    fn inside(&self, ip: Ipv4Addr) -> Option<u8> {
        // Each length that there is, not each network: packets are asked about, and `lo` may have thousands of addresses.
        let mut longest = self.inside.last_key_value().map(|((bits, _), _)| *bits);
        while let Some(bits) = longest {
            if self.inside.contains_key(&(bits, ip.to_bits() & mask(bits))) {
                return Some(bits);
            }
            longest = self.inside.range(..(bits, 0)).next_back().map(|((bits, _), _)| *bits);
        }
        None
    }

    /// Does no address, and no longer network of an address of `lo`, come before a route of kind local of this length?
    pub(super) fn is_routed_by(&self, ip: Ipv4Addr, bits: u8) -> bool {
        !self.local.contains_key(&ip) && self.inside(ip).is_none_or(|inside| inside <= bits)
    }

    fn is_routed(&self, ip: Ipv4Addr) -> bool {
        !self.routed.is_empty() && (0..=32).any(|bits| self.routed.contains_key(&(bits, ip.to_bits() & mask(bits))))
    }

    /// The interfaces for whose networks this is the broadcast address.
    pub(super) fn broadcast_on(&self, ip: Ipv4Addr) -> &[InterfaceIndex] {
        self.broadcast.get(&ip).map_or(&[], |owners| owners)
    }

    /// What an address is to this node.
    pub(super) fn kind(&self, ip: Ipv4Addr) -> AddressKind {
        if ip.is_unspecified() {
            AddressKind::Unspecified
        } else if ip.is_multicast() {
            AddressKind::Multicast
        } else if let Some(owner) = self.owners(ip).first() {
            AddressKind::Local(*owner)
        } else if ip.is_broadcast() || !self.broadcast_on(ip).is_empty() {
            AddressKind::Broadcast
        } else {
            AddressKind::Other
        }
    }

    /// The primary address of the network of an own address (Linux: the first one added; a secondary address has it as preferred
    /// source). Of other addresses in a network of `lo` it is that network's: 127.0.0.1 in 127.0.0.0/8.
    pub(super) fn primary_of(&self, interface: InterfaceIndex, ip: Ipv4Addr) -> Ipv4Addr {
        let bits = self.of(interface).find(|(own, _)| *own == ip).map(|(_, bits)| bits);
        let bits = bits.or_else(|| self.inside(ip)).or(ip.is_loopback().then_some(8)).unwrap_or(32);
        let primary = self.of(interface).find(|(own, other)| *other == bits && same_prefix(*own, ip, bits));
        primary.map_or(ip, |(own, _)| own)
    }

    /// The network of an address, as far as addresses share one: those of an interface with the same prefix (inet_ifa_match, ifa_mask).
    pub(super) fn of_network(&self, address: &Address) -> impl Iterator<Item = &Address> {
        let on_link = |address: &Address| v4(address).map(|(ip, bits)| base(address, ip).to_bits() & mask(bits));
        let (network, bits) = (on_link(address), address.prefix_bits);
        self.of_interface(address.interface).filter(move |other| other.prefix_bits == bits && on_link(other) == network)
    }

    /// Is another address of its network there that was before it (IFA_F_SECONDARY)?
    pub(super) fn is_secondary(&self, address: &Address) -> bool {
        self.of_network(address).next().is_some_and(|first| first.address != address.address)
    }

    /// The source of packets to a network's broadcast address: the address that made it one (the prefsrc of Linux's broadcast routes).
    pub(super) fn source_to_broadcast(&self, interface: InterfaceIndex, broadcast: Ipv4Addr) -> Option<Ipv4Addr> {
        self.links_of(interface).find(|(_, base, bits)| same_prefix(*base, broadcast, *bits)).map(|(ip, ..)| ip)
    }

    /// The source for packets that leave through `interface` to `next_hop` (Linux inet_select_addr): the first address of the interface in
    /// whose network the next hop is, else its first, else the first of any other interface but `lo`.
    pub(super) fn source_for(&self, interface: InterfaceIndex, next_hop: Ipv4Addr) -> Option<Ipv4Addr> {
        // The addresses of lo have host scope: nothing but local destinations may have them as source.
        let outside = interface != InterfaceIndex::LOOPBACK;
        let on_net = self.links_of(interface).filter(|_| outside).find(|(_, base, bits)| same_prefix(*base, next_hop, *bits));
        let any = || self.of(interface).find(|_| outside);
        let elsewhere = || self.iter().filter(|address| address.interface != InterfaceIndex::LOOPBACK).find_map(v4);
        on_net.map(|(ip, _, bits)| (ip, bits)).or_else(any).or_else(elsewhere).map(|(ip, _)| ip)
    }
}

/// RFC 3021: a 31-bit prefix has no broadcast address. Since Linux 5.14 the lowest address is none either. 127.255.255.255 is one on Linux as
/// well: `ip route show table local` has it as "broadcast … dev lo".
const fn broadcast_of(ip: Ipv4Addr, bits: u8) -> Option<Ipv4Addr> {
    if bits < 31 { Some(Ipv4Addr::from_bits(ip.to_bits() | !mask(bits))) } else { None }
}

/// Takes an interface's first entry out; the order of the others stays.
fn forget(owners: &mut Map<Ipv4Addr, Owners>, ip: Ipv4Addr, interface: InterfaceIndex) {
    let Some(list) = owners.get_mut(&ip) else { return };
    if let Some(at) = list.iter().position(|owner| *owner == interface) {
        list.remove(at);
    }
    if list.is_empty() {
        owners.swap_remove(&ip);
    }
}

/// The network of an address of `lo`, if it has one: "if (!ipv4_is_zeronet(prefix) && … (prefix != addr || ifa->ifa_prefixlen < 32))", and no
/// IFA_F_NOPREFIXROUTE.
fn network_inside(address: &Address) -> Option<(u8, u32)> {
    let (ip, bits) = v4(address).filter(|(_, bits)| *bits < 32)?;
    let network = base(address, ip).to_bits() & mask(bits);
    let has = address.interface == InterfaceIndex::LOOPBACK && address.flags & NO_PREFIX_ROUTE == 0 && network >> 24 != 0;
    has.then_some((bits, network))
}

/// What the prefix of an address is of.
pub(super) fn base(address: &Address, ip: Ipv4Addr) -> Ipv4Addr {
    match address.peer {
        Some(IpAddr::V4(peer)) => peer,
        _ => ip,
    }
}

pub(super) fn v4(address: &Address) -> Option<(Ipv4Addr, u8)> {
    match address.address {
        IpAddr::V4(ip) => Some((ip, address.prefix_bits)),
        IpAddr::V6(_) => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn address(interface: u32, ip: [u8; 4], prefix_bits: u8) -> Address {
        Address::permanent(InterfaceIndex(interface), IpAddr::from(ip), prefix_bits)
    }

    #[test]
    fn kinds_follow_from_the_addresses() {
        let mut addresses = Addresses::new(KeyedHasher::default());
        assert!(addresses.add(address(2, [10, 0, 0, 1], 24)) && addresses.add(address(3, [10, 0, 1, 0], 31)));
        assert!(!addresses.add(address(2, [10, 0, 0, 1], 16)), "the same address again");
        let kind = |ip: [u8; 4]| addresses.kind(ip.into());
        assert_eq!(kind([10, 0, 0, 1]), AddressKind::Local(InterfaceIndex(2)));
        assert_eq!(kind([10, 0, 0, 255]), AddressKind::Broadcast);
        assert_eq!(kind([10, 0, 0, 0]), AddressKind::Other, "the network's own address is none of ours");
        assert_eq!(kind([10, 0, 1, 1]), AddressKind::Other, "a 31-bit prefix has no broadcast");
        assert_eq!(kind([127, 9, 9, 9]), AddressKind::Local(InterfaceIndex::LOOPBACK));
        assert_eq!(kind([127, 255, 255, 255]), AddressKind::Broadcast);
        assert_eq!(kind([255; 4]), AddressKind::Broadcast);
        assert_eq!(kind([224, 0, 0, 1]), AddressKind::Multicast);
        assert_eq!(kind([0; 4]), AddressKind::Unspecified);
    }

    #[test]
    fn every_address_of_a_network_on_lo_is_the_nodes() {
        let mut addresses = Addresses::new(KeyedHasher::default());
        let inside = AddressKind::Local(InterfaceIndex::LOOPBACK);
        for one in
            [address(1, [10, 9, 0, 1], 16), address(1, [10, 9, 7, 3], 24), address(2, [10, 9, 8, 1], 24), address(1, [10, 9, 0, 2], 16)]
        {
            assert!(addresses.add(one));
        }
        let kinds = |addresses: &Addresses, list: &[[u8; 4]]| list.iter().map(|ip| addresses.kind((*ip).into())).collect::<Vec<_>>();
        assert_eq!(kinds(&addresses, &[[10, 9, 5, 5], [10, 9, 0, 0], [10, 9, 7, 9], [10, 9, 8, 9]]), [inside; 4]);
        assert_eq!(kinds(&addresses, &[[10, 9, 255, 255], [10, 9, 7, 255], [10, 9, 8, 255]]), [AddressKind::Broadcast; 3]);
        assert_eq!(addresses.kind([10, 9, 8, 1].into()), AddressKind::Local(InterfaceIndex(2)));
        let primary = |addresses: &Addresses, ip: [u8; 4]| addresses.primary_of(InterfaceIndex::LOOPBACK, ip.into()).octets();
        assert_eq!([[10, 9, 5, 5], [10, 9, 7, 9]].map(|ip| primary(&addresses, ip)), [[10, 9, 0, 1], [10, 9, 7, 3]]);
        // As long as one of the addresses that have it is there.
        addresses.remove(InterfaceIndex::LOOPBACK, [10, 9, 0, 1].into());
        assert_eq!((addresses.kind([10, 9, 5, 5].into()), primary(&addresses, [10, 9, 5, 5])), (inside, [10, 9, 0, 2]));
        addresses.remove(InterfaceIndex::LOOPBACK, [10, 9, 0, 2].into());
        assert_eq!(kinds(&addresses, &[[10, 9, 5, 5], [10, 9, 7, 9]]), [AddressKind::Other, inside]);
        assert!(addresses.add(address(1, [10, 8, 0, 1], 32)));
        assert_eq!(addresses.kind([10, 8, 0, 2].into()), AddressKind::Other);
    }

    #[test]
    fn a_network_on_lo_is_looked_at_once_however_many_addresses_have_it() {
        let mut addresses = Addresses::new(KeyedHasher::default());
        // 127.0.0.0/8 is there from the beginning.
        let before = addresses.inside.len();
        let all = (0..4).flat_map(|third| (1..=250).map(move |fourth| [10, 9, third, fourth]));
        for one in all.clone() {
            assert!(addresses.add(address(1, one, 22)));
        }
        assert_eq!(addresses.inside.len(), before + 1);
        assert_eq!(addresses.kind([10, 9, 3, 253].into()), AddressKind::Local(InterfaceIndex::LOOPBACK));
        for one in all {
            assert!(addresses.inside.len() == before + 1, "as long as one has it");
            addresses.remove(InterfaceIndex::LOOPBACK, one.into());
        }
        assert_eq!(addresses.inside.len(), before);
        assert_eq!(addresses.kind([10, 9, 3, 253].into()), AddressKind::Other);
    }

    #[test]
    fn the_source_is_on_the_network_of_the_next_hop() {
        let mut addresses = Addresses::new(KeyedHasher::default());
        for one in [address(2, [10, 0, 0, 1], 24), address(2, [10, 9, 0, 1], 24), address(3, [192, 0, 2, 1], 24)] {
            addresses.add(one);
        }
        let source = |interface, ip: [u8; 4]| addresses.source_for(InterfaceIndex(interface), ip.into()).unwrap().octets();
        assert_eq!(source(2, [10, 9, 0, 7]), [10, 9, 0, 1]);
        assert_eq!(source(2, [8, 8, 8, 8]), [10, 0, 0, 1]);
        assert_eq!(source(4, [8, 8, 8, 8]), [10, 0, 0, 1], "an interface without address borrows one");
    }
}
