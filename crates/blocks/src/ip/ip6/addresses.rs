//! The node's IPv6 addresses, and what any address is to it.

use smallvec::SmallVec;
use std::collections::{BTreeMap, BTreeSet};
use std::net::{IpAddr, Ipv6Addr};
use weft_core::table::{Address, AddressKind, AddressState};
use weft_core::{InterfaceIndex, KeyedHasher, Map};

/// The mask of a prefix of `bits` bits (at most 128).
pub(super) const fn mask(bits: u8) -> u128 {
    match bits {
        0 => 0,
        bits => u128::MAX << (128 - bits as u32),
    }
}

/// Are two addresses in the same prefix?
pub(super) const fn same_prefix(a: Ipv6Addr, b: Ipv6Addr, bits: u8) -> bool {
    (a.to_bits() ^ b.to_bits()) & mask(bits) == 0
}

/// fe80::/10 (RFC 4291 §2.5.6).
pub(super) const fn is_link_local(ip: Ipv6Addr) -> bool {
    ip.segments()[0] & 0xffc0 == 0xfe80
}

/// An address, or a group, that means something on its link only (RFC 4007 §4): it needs an interface.
pub(super) const fn is_of_link(ip: Ipv6Addr) -> bool {
    is_link_local(ip) || (ip.is_multicast() && ip.octets()[1] & 0xf <= 2)
}

/// RFC 4291 §2.7.1: "Solicited-Node multicast address are computed as a function of a node's unicast and anycast addresses. A Solicited-Node
/// multicast address is formed by taking the low-order 24 bits of an address (unicast or anycast) and appending those bits to the prefix
/// FF02:0:0:0:0:1:FF00::/104".
pub(super) const fn solicited_node(ip: Ipv6Addr) -> Ipv6Addr {
    Ipv6Addr::from_bits(0xff02_0000_0000_0000_0000_0001_ff00_0000 | ip.to_bits() & 0xff_ffff)
}

/// RFC 4291 §2.7.1: all nodes of this node (ff01::1), and of the link (ff02::1).
pub(super) const ALL_NODES: [Ipv6Addr; 2] = [Ipv6Addr::new(0xff01, 0, 0, 0, 0, 0, 0, 1), Ipv6Addr::new(0xff02, 0, 0, 0, 0, 0, 0, 1)];

/// May it be sent from and received at (RFC 4862 §5.4)?
pub(super) const fn is_usable(state: AddressState) -> bool {
    matches!(state, AddressState::Preferred | AddressState::Deprecated)
}

type Owners = SmallVec<[InterfaceIndex; 1]>;

/// Addresses in the order in which they were added. Adding, changing and removing one looks at no other.
#[derive(Debug)]
pub(super) struct Addresses {
    /// By the order in which they were added.
    all: BTreeMap<u64, Address>,
    next: u64,
    /// The places in that order of an interface's addresses.
    of: BTreeMap<InterfaceIndex, BTreeSet<u64>>,
    places: Map<(InterfaceIndex, Ipv6Addr), u64>,
    /// Usable ones.
    local: Map<Ipv6Addr, Owners>,
    /// Solicited-node groups, of tentative ones too (RFC 4862 §5.4.2): an entry an address.
    groups: Map<Ipv6Addr, Owners>,
}

impl Addresses {
    /// ::1/128 on `lo`, as Linux has once `lo` is up.
    pub(super) fn new(hasher: KeyedHasher) -> Addresses {
        let mut addresses = Addresses::empty(hasher);
        // Cannot fail: it is an IPv6 address.
        let _ = addresses.put(Address::permanent(InterfaceIndex::LOOPBACK, Ipv6Addr::LOCALHOST.into(), 128));
        addresses
    }

    fn empty(hasher: KeyedHasher) -> Addresses {
        Addresses {
            all: BTreeMap::new(),
            next: 0,
            of: BTreeMap::new(),
            places: Map::with_hasher(hasher),
            local: Map::with_hasher(hasher),
            groups: Map::with_hasher(hasher),
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

    /// The same with their addresses as IPv6.
    pub(super) fn of(&self, interface: InterfaceIndex) -> impl Iterator<Item = (Ipv6Addr, &Address)> {
        self.of_interface(interface).filter_map(|address| Some((v6(address)?, address)))
    }

    /// Adds an address, or changes what is known of it. Tells what was there before; an error: no IPv6.
    pub(super) fn put(&mut self, address: Address) -> Result<Option<Address>, ()> {
        let Some(ip) = v6(&address).filter(|_| address.prefix_bits <= 128) else { return Err(()) };
        let place = match self.places.get(&(address.interface, ip)) {
            Some(place) => *place,
            None => {
                let place = self.next;
                self.next += 1;
                self.of.entry(address.interface).or_default().insert(place);
                self.places.insert((address.interface, ip), place);
                place
            }
        };
        let before = self.all.insert(place, address);
        self.index(ip, address.interface, before.as_ref(), Some(&address));
        Ok(before)
    }

    pub(super) fn find(&self, interface: InterfaceIndex, ip: Ipv6Addr) -> Option<Address> {
        self.places.get(&(interface, ip)).and_then(|place| self.all.get(place)).copied()
    }

    pub(super) fn remove(&mut self, interface: InterfaceIndex, ip: Ipv6Addr) -> Option<Address> {
        let place = self.places.swap_remove(&(interface, ip))?;
        let address = self.all.remove(&place)?;
        if let Some(places) = self.of.get_mut(&interface) {
            places.remove(&place);
            if places.is_empty() {
                self.of.remove(&interface);
            }
        }
        self.index(ip, interface, Some(&address), None);
        Some(address)
    }

    pub(super) fn remove_where(&mut self, goes: impl Fn(&Address) -> bool) -> Vec<Address> {
        let gone: Vec<Address> = self.iter().filter(|address| goes(address)).copied().collect();
        gone.into_iter().filter_map(|address| self.remove(address.interface, v6(&address)?)).collect()
    }

    /// Takes other addresses instead. False, and no change: one is there twice or not IPv6.
    pub(super) fn replace(&mut self, list: Vec<Address>) -> bool {
        let mut fresh = Addresses::empty(*self.local.hasher());
        if !list.into_iter().all(|address| fresh.put(address) == Ok(None)) {
            return false;
        }
        *self = fresh;
        true
    }

    /// An address was one thing and is another.
    fn index(&mut self, ip: Ipv6Addr, interface: InterfaceIndex, before: Option<&Address>, now: Option<&Address>) {
        let usable = |address: Option<&Address>| address.is_some_and(|address| is_usable(address.state));
        match (usable(before), usable(now)) {
            (false, true) => self.add_owner(ip, interface),
            (true, false) => forget(&mut self.local, ip, interface),
            _ => {}
        }
        let heard = |address: Option<&Address>| {
            interface != InterfaceIndex::LOOPBACK && address.is_some_and(|address| address.state != AddressState::Duplicated)
        };
        match (heard(before), heard(now)) {
            (false, true) => self.groups.entry(solicited_node(ip)).or_default().push(interface),
            (true, false) => forget(&mut self.groups, solicited_node(ip), interface),
            _ => {}
        }
    }

    /// The owners of an address stand in the order in which it was added to them.
    fn add_owner(&mut self, ip: Ipv6Addr, interface: InterfaceIndex) {
        let place = |owner: InterfaceIndex| self.places.get(&(owner, ip)).copied().unwrap_or(u64::MAX);
        let own = place(interface);
        let owners = self.local.entry(ip).or_default();
        let at = owners.iter().position(|owner| place(*owner) > own).unwrap_or(owners.len());
        owners.insert(at, interface);
    }

    /// The interfaces that have this address and may use it.
    pub(super) fn owners(&self, ip: Ipv6Addr) -> &[InterfaceIndex] {
        self.local.get(&ip).map_or(&[], |owners| owners)
    }

    /// Does an interface listen to this group because of its addresses?
    pub(super) fn hears(&self, interface: InterfaceIndex, group: Ipv6Addr) -> bool {
        ALL_NODES.contains(&group) || self.groups.get(&group).is_some_and(|owners| owners.contains(&interface))
    }

    /// What an address is to this node.
    pub(super) fn kind(&self, ip: Ipv6Addr) -> AddressKind {
        if ip.is_unspecified() {
            AddressKind::Unspecified
        } else if ip.is_multicast() {
            AddressKind::Multicast
        } else if let Some(owner) = self.owners(ip).first() {
            AddressKind::Local(*owner)
        } else {
            AddressKind::Other
        }
    }
}

/// Takes an interface's first entry out; the order of the others stays.
fn forget(owners: &mut Map<Ipv6Addr, Owners>, ip: Ipv6Addr, interface: InterfaceIndex) {
    let Some(list) = owners.get_mut(&ip) else { return };
    if let Some(at) = list.iter().position(|owner| *owner == interface) {
        list.remove(at);
    }
    if list.is_empty() {
        owners.swap_remove(&ip);
    }
}

/// The address as IPv6.
pub(super) fn v6(address: &Address) -> Option<Ipv6Addr> {
    match address.address {
        IpAddr::V6(ip) => Some(ip),
        IpAddr::V4(_) => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn tentative_addresses_are_not_ours_yet_but_their_group_is_heard() {
        let eth = InterfaceIndex(2);
        let ip: Ipv6Addr = "2001:db8::1:800:200e:8c6c".parse().unwrap();
        let mut addresses = Addresses::new(KeyedHasher::default());
        let mut address = Address { state: AddressState::Tentative, ..Address::permanent(eth, ip.into(), 64) };
        assert_eq!(addresses.put(address), Ok(None));
        // RFC 4291 §2.7.1's example.
        let group: Ipv6Addr = "ff02::1:ff0e:8c6c".parse().unwrap();
        assert_eq!((addresses.kind(ip), addresses.hears(eth, group)), (AddressKind::Other, true));
        assert!(!addresses.hears(InterfaceIndex(3), group));
        address.state = AddressState::Preferred;
        assert!(addresses.put(address).unwrap().is_some());
        assert_eq!(addresses.kind(ip), AddressKind::Local(eth));
        address.state = AddressState::Duplicated;
        assert!(addresses.put(address).unwrap().is_some());
        assert_eq!((addresses.kind(ip), addresses.hears(eth, group)), (AddressKind::Other, false));
        assert_eq!(addresses.remove_where(|other| other.interface == eth), [address]);
        assert_eq!((addresses.len(), addresses.kind(Ipv6Addr::LOCALHOST)), (1, AddressKind::Local(InterfaceIndex::LOOPBACK)));
    }

    #[test]
    fn scopes_are_recognised() {
        let ip = |text: &str| text.parse::<Ipv6Addr>().unwrap();
        for (text, of_link) in [
            ("fe80::1", true),
            ("febf::1", true),
            ("fec0::1", false),
            ("fd77::2", false),
            ("ff02::1", true),
            ("ff05::2", false),
            ("ff01::1", true),
        ] {
            assert_eq!(is_of_link(ip(text)), of_link, "{text}");
        }
    }
}
