//! Longest-prefix match: a hash table for each prefix length that occurs. A look-up asks at most 33 of them, from long to short; adding
//! and deleting touch one. 100,000 routes take 100,000 entries and nothing else.

use super::addresses::mask;
use smallvec::SmallVec;
use std::net::{IpAddr, Ipv4Addr};
use weft_core::table::Route;
use weft_core::{InterfaceIndex, Map};

/// Routes of one prefix, the lowest metric first.
type Alternatives = SmallVec<[Route; 1]>;

/// All routes.
#[derive(Debug)]
pub(super) struct Routes {
    by_length: [Map<u32, Alternatives>; 33],
    /// Bit n: there are routes with n bits.
    lengths: u64,
    count: usize,
}

pub(in crate::ip) use crate::ip::request::Place;

/// Why a route was not added.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum InsertError {
    /// Same prefix and metric.
    Exists,
    /// Not IPv4, or bits set behind the prefix.
    Invalid,
}

impl Default for Routes {
    fn default() -> Routes {
        Routes { by_length: std::array::from_fn(|_| Map::default()), lengths: 0, count: 0 }
    }
}

impl Routes {
    pub(super) fn len(&self) -> usize {
        self.count
    }

    /// Adds a route with a prefix and metric that no other has.
    pub(super) fn insert(&mut self, route: Route) -> Result<(), InsertError> {
        self.insert_at(route, Place::Alone)
    }

    /// Adds a route. Linux too has one route for each prefix and metric, unless somebody appends or prepends others.
    pub(super) fn insert_at(&mut self, route: Route, place: Place) -> Result<(), InsertError> {
        let IpAddr::V4(destination) = route.destination else { return Err(InsertError::Invalid) };
        if route.prefix_bits > 32 || destination.to_bits() & !mask(route.prefix_bits) != 0 {
            return Err(InsertError::Invalid);
        }
        let alternatives = self.by_length[usize::from(route.prefix_bits)].entry(destination.to_bits()).or_default();
        let same = alternatives.iter().filter(|other| other.metric == route.metric);
        // fib_table_insert: "if (fa_match) goto out;", which is -EEXIST.
        if same.clone().any(|other| place == Place::Alone || *other == route) {
            return Err(InsertError::Exists);
        }
        let at = match place {
            Place::Last => alternatives.partition_point(|other| other.metric <= route.metric),
            Place::Alone | Place::First => alternatives.partition_point(|other| other.metric < route.metric),
        };
        alternatives.insert(at, route);
        self.lengths |= 1 << route.prefix_bits;
        self.count += 1;
        Ok(())
    }

    /// Removes and returns the first route of a prefix that fits.
    pub(super) fn remove(&mut self, destination: Ipv4Addr, bits: u8, fits: impl Fn(&Route) -> bool) -> Option<Route> {
        let table = self.by_length.get_mut(usize::from(bits))?;
        let alternatives = table.get_mut(&destination.to_bits())?;
        let at = alternatives.iter().position(fits)?;
        let route = alternatives.remove(at);
        if alternatives.is_empty() {
            table.swap_remove(&destination.to_bits());
        }
        if table.is_empty() {
            self.lengths &= !(1 << bits);
        }
        self.count -= 1;
        Some(route)
    }

    /// Removes every route that fits.
    pub(super) fn remove_where(&mut self, goes: impl Fn(&Route) -> bool) -> Vec<Route> {
        let gone: Vec<Route> =
            self.by_length.iter().flat_map(|table| table.values()).flatten().copied().filter(|route| goes(route)).collect();
        for route in &gone {
            if let IpAddr::V4(destination) = route.destination {
                self.remove(destination, route.prefix_bits, |other| other == route);
            }
        }
        gone
    }

    /// The route with the longest prefix, then the lowest metric, among those that are usable.
    pub(super) fn lookup(&self, destination: Ipv4Addr, usable: impl Fn(&Route) -> bool) -> Option<&Route> {
        let mut lengths = self.lengths;
        while lengths != 0 {
            let bits = 63 - lengths.leading_zeros() as u8;
            lengths &= !(1 << bits);
            let prefix = destination.to_bits() & mask(bits);
            let found =
                self.by_length[usize::from(bits)].get(&prefix).and_then(|alternatives| alternatives.iter().find(|route| usable(route)));
            if found.is_some() {
                return found;
            }
        }
        None
    }

    /// The routes with the same prefix as this one.
    pub(super) fn of_prefix(&self, route: &Route) -> impl Iterator<Item = &Route> {
        let bits = match route.destination {
            IpAddr::V4(destination) => destination.to_bits(),
            IpAddr::V6(_) => 0,
        };
        self.by_length.get(usize::from(route.prefix_bits)).and_then(|table| table.get(&bits)).into_iter().flatten()
    }

    /// The interfaces that routes leave through, with repetitions of neighbouring ones left out.
    pub(super) fn interfaces(&self) -> Vec<InterfaceIndex> {
        let mut all: Vec<InterfaceIndex> = Vec::new();
        for route in self.by_length.iter().flat_map(|table| table.values()).flatten() {
            if all.last() != Some(&route.interface) {
                all.push(route.interface);
            }
        }
        all
    }

    /// All routes by destination, length and metric.
    pub(super) fn sorted(&self) -> Vec<Route> {
        let mut all: Vec<Route> = self.by_length.iter().flat_map(|table| table.values()).flatten().copied().collect();
        all.sort_by_key(|route| (route.destination, route.prefix_bits, route.metric));
        all
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;
    use weft_core::table::RouteKind;

    fn route(destination: u32, prefix_bits: u8, metric: u32, interface: u32) -> Route {
        Route {
            destination: Ipv4Addr::from_bits(destination & mask(prefix_bits)).into(),
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
            inserted in proptest::collection::vec((any::<u32>(), 0u8..=32, 0u32..3, 2u32..5), 0..60),
            removed in proptest::collection::vec(any::<proptest::sample::Index>(), 0..20),
            asked in proptest::collection::vec((any::<u32>(), any::<proptest::sample::Index>()), 30),
        ) {
            // Few distinct high bits, so that prefixes nest.
            let squeeze = |ip: u32| ip & 0x0300_03ff;
            let mut routes = Routes::default();
            let mut plain: Vec<Route> = Vec::new();
            for (ip, bits, metric, interface) in inserted {
                let one = route(squeeze(ip), bits, metric, interface);
                let new = !plain.iter().any(|other| (other.destination, other.prefix_bits, other.metric) == (one.destination, bits, metric));
                prop_assert_eq!(routes.insert(one).is_ok(), new);
                if new { plain.push(one); }
            }
            for index in removed {
                if plain.is_empty() { break; }
                let one = plain.swap_remove(index.index(plain.len()));
                let IpAddr::V4(ip) = one.destination else { unreachable!() };
                prop_assert_eq!(routes.remove(ip, one.prefix_bits, |other| other.metric == one.metric), Some(one));
            }
            prop_assert_eq!(routes.len(), plain.len());
            for (ip, index) in asked {
                let ip = Ipv4Addr::from_bits(squeeze(ip));
                let only = InterfaceIndex(2 + index.index(3) as u32);
                let covers = |one: &&Route| one.interface == only && {
                    let IpAddr::V4(net) = one.destination else { unreachable!() };
                    super::super::addresses::same_prefix(net, ip, one.prefix_bits)
                };
                let best = plain.iter().filter(covers).max_by_key(|one| (one.prefix_bits, std::cmp::Reverse(one.metric)));
                prop_assert_eq!(routes.lookup(ip, |one| one.interface == only), best);
            }
        }
    }

    #[test]
    fn a_hundred_thousand_routes_are_found_again() {
        let mut routes = Routes::default();
        for number in 0..100_000u32 {
            routes.insert(route(number << 12, 20 + (number % 5) as u8, 0, 2)).unwrap();
        }
        assert_eq!(routes.len(), 100_000);
        for number in (0..100_000u32).step_by(97) {
            let found = routes.lookup(Ipv4Addr::from_bits(number << 12), |_| true).unwrap();
            assert_eq!(found.destination, IpAddr::V4(Ipv4Addr::from_bits(number << 12)));
        }
        assert!(routes.insert(route(0, 20, 0, 3)) == Err(InsertError::Exists));
    }
}
