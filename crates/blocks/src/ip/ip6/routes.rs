//! Longest-prefix match: a hash table for each prefix length that occurs, asked from long to short; adding and deleting touch one. 100,000
//! routes take 100,000 entries and nothing else.

use super::addresses::mask;
use smallvec::SmallVec;
use std::cmp::Reverse;
use std::net::{IpAddr, Ipv6Addr};
use weft_core::table::Route;
use weft_core::{InterfaceIndex, Map};

/// Routes of one prefix, the lowest metric first, then the one that was added first.
type Alternatives = SmallVec<[Route; 1]>;

/// All routes.
#[derive(Debug, Default)]
pub(super) struct Routes {
    /// By prefix length, the longest first.
    tables: Vec<(u8, Map<u128, Alternatives>)>,
    count: usize,
}

pub(in crate::ip) use crate::ip::request::Place;

/// Why a route was not added.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum InsertError {
    /// Same prefix, metric, gateway and interface.
    Exists,
    /// Not IPv6, or bits set behind the prefix.
    Invalid,
}

impl Routes {
    pub(super) fn len(&self) -> usize {
        self.count
    }

    /// Adds a route behind those with the same prefix and metric. Linux too has several, if they lead elsewhere.
    pub(super) fn insert(&mut self, route: Route) -> Result<(), InsertError> {
        self.insert_at(route, Place::Last)
    }

    /// Adds a route.
    pub(super) fn insert_at(&mut self, route: Route, place: Place) -> Result<(), InsertError> {
        let IpAddr::V6(destination) = route.destination else { return Err(InsertError::Invalid) };
        if route.prefix_bits > 128 || destination.to_bits() & !mask(route.prefix_bits) != 0 {
            return Err(InsertError::Invalid);
        }
        let exists = |other: &Route| is_same(other, &route) || place == Place::Alone && other.metric == route.metric;
        if self.of_prefix(&route).any(exists) {
            return Err(InsertError::Exists);
        }
        let at = match self.tables.binary_search_by_key(&Reverse(route.prefix_bits), |(bits, _)| Reverse(*bits)) {
            Ok(at) => at,
            Err(at) => {
                self.tables.insert(at, (route.prefix_bits, Map::default()));
                at
            }
        };
        let alternatives = self.tables[at].1.entry(destination.to_bits()).or_default();
        let at = alternatives.partition_point(|other| other.metric < route.metric || place == Place::Last && other.metric == route.metric);
        alternatives.insert(at, route);
        self.count += 1;
        Ok(())
    }

    /// Removes and returns the first route of a prefix that fits.
    pub(super) fn remove(&mut self, destination: Ipv6Addr, bits: u8, fits: impl Fn(&Route) -> bool) -> Option<Route> {
        let of_length = self.tables.binary_search_by_key(&Reverse(bits), |(bits, _)| Reverse(*bits)).ok()?;
        let table = &mut self.tables[of_length].1;
        let alternatives = table.get_mut(&destination.to_bits())?;
        let at = alternatives.iter().position(fits)?;
        let route = alternatives.remove(at);
        if alternatives.is_empty() {
            table.swap_remove(&destination.to_bits());
        }
        if table.is_empty() {
            self.tables.remove(of_length);
        }
        self.count -= 1;
        Some(route)
    }

    /// Removes every route that fits.
    pub(super) fn remove_where(&mut self, goes: impl Fn(&Route) -> bool) -> Vec<Route> {
        let gone: Vec<Route> = self.all().copied().filter(|route| goes(route)).collect();
        for route in &gone {
            if let IpAddr::V6(destination) = route.destination {
                self.remove(destination, route.prefix_bits, |other| is_same(other, route));
            }
        }
        gone
    }

    /// The route with the longest prefix, then the lowest metric, among those that are usable.
    #[inline]
    pub(super) fn lookup(&self, destination: Ipv6Addr, usable: impl Fn(&Route) -> bool) -> Option<&Route> {
        self.tables.iter().find_map(|(bits, table)| table.get(&(destination.to_bits() & mask(*bits)))?.iter().find(|route| usable(route)))
    }

    /// The routes with the same prefix as this one.
    pub(super) fn of_prefix(&self, route: &Route) -> impl Iterator<Item = &Route> {
        let destination = match route.destination {
            IpAddr::V6(destination) => destination.to_bits(),
            IpAddr::V4(_) => 0,
        };
        let table = self.tables.iter().find(|(bits, _)| *bits == route.prefix_bits);
        table.and_then(|(_, table)| table.get(&destination)).into_iter().flatten()
    }

    fn all(&self) -> impl Iterator<Item = &Route> {
        self.tables.iter().flat_map(|(_, table)| table.values()).flatten()
    }

    /// The interfaces that routes leave through, with repetitions of neighbouring ones left out.
    pub(super) fn interfaces(&self) -> Vec<InterfaceIndex> {
        let mut all: Vec<InterfaceIndex> = self.all().map(|route| route.interface).collect();
        all.dedup();
        all
    }

    /// All routes by destination, length and metric.
    pub(super) fn sorted(&self) -> Vec<Route> {
        let mut all: Vec<Route> = self.all().copied().collect();
        all.sort_by_key(|route| (route.destination, route.prefix_bits, route.metric));
        all
    }
}

/// Do two routes of one prefix stand for the same?
pub(super) fn is_same(a: &Route, b: &Route) -> bool {
    (a.metric, a.gateway, a.interface) == (b.metric, b.gateway, b.interface)
}

#[cfg(test)]
mod tests {
    use super::super::addresses::same_prefix;
    use super::*;
    use proptest::prelude::*;
    use weft_core::table::RouteKind;

    fn route(destination: u128, prefix_bits: u8, metric: u32, interface: u32) -> Route {
        Route {
            destination: Ipv6Addr::from_bits(destination & mask(prefix_bits)).into(),
            prefix_bits,
            gateway: None,
            interface: InterfaceIndex(interface),
            source: None,
            metric,
            mtu: None,
            kind: RouteKind::Unicast,
            ..Route::PLAIN
        }
    }

    proptest! {
        #[test]
        fn lookup_agrees_with_a_search_through_all(
            inserted in proptest::collection::vec((any::<u128>(), 0u8..=128, 0u32..3, 2u32..5), 0..60),
            removed in proptest::collection::vec(any::<proptest::sample::Index>(), 0..20),
            asked in proptest::collection::vec((any::<u128>(), any::<proptest::sample::Index>()), 30),
        ) {
            // Few distinct bits, so that prefixes nest.
            let squeeze = |ip: u128| ip & (3 << 126 | 7 << 62 | 0x3f);
            let mut routes = Routes::default();
            let mut plain: Vec<Route> = Vec::new();
            for (ip, bits, metric, interface) in inserted {
                let one = route(squeeze(ip), bits, metric, interface);
                let new = !plain.iter().any(|other| (other.destination, other.prefix_bits) == (one.destination, bits) && is_same(other, &one));
                prop_assert_eq!(routes.insert(one).is_ok(), new);
                if new { plain.push(one); }
            }
            for index in removed {
                if plain.is_empty() { break; }
                let one = plain.remove(index.index(plain.len()));
                let IpAddr::V6(ip) = one.destination else { unreachable!() };
                prop_assert_eq!(routes.remove(ip, one.prefix_bits, |other| is_same(other, &one)), Some(one));
            }
            prop_assert_eq!(routes.len(), plain.len());
            for (ip, index) in asked {
                let ip = Ipv6Addr::from_bits(squeeze(ip));
                let only = InterfaceIndex(2 + index.index(3) as u32);
                let covers = |one: &&Route| one.interface == only && {
                    let IpAddr::V6(net) = one.destination else { unreachable!() };
                    same_prefix(net, ip, one.prefix_bits)
                };
                let best = plain.iter().filter(covers).max_by_key(|one| (one.prefix_bits, Reverse(one.metric)));
                prop_assert_eq!(routes.lookup(ip, |one| one.interface == only), best);
            }
        }
    }

    #[test]
    fn a_hundred_thousand_routes_are_found_again() {
        let mut routes = Routes::default();
        for number in 0..100_000u128 {
            routes.insert(route(number << 80, 48 + (number % 5) as u8, 0, 2)).unwrap();
        }
        assert_eq!(routes.len(), 100_000);
        for number in (0..100_000u128).step_by(97) {
            let found = routes.lookup(Ipv6Addr::from_bits(number << 80), |_| true).unwrap();
            assert_eq!(found.destination, IpAddr::V6(Ipv6Addr::from_bits(number << 80)));
        }
        assert_eq!(routes.insert(route(0, 48, 0, 2)), Err(InsertError::Exists));
        assert_eq!(routes.insert(route(0, 48, 0, 3)), Ok(()), "another way to the same prefix");
    }
}
