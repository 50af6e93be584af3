//! The routes of both families: rules say in which table, and in a table it is the longest prefix.
//!
//! Longest-prefix match: a hash table for each prefix length that occurs, asked from long to short; adding and deleting touch one. 100,000
//! routes take 100,000 entries and nothing else.

use crate::facts::FactsCache;
use crate::ip::hops::{self, Found, Multipath};
use crate::ip::request::{Adding, Place};
use crate::ip::rules::{Packet, Rules};
use smallvec::SmallVec;
use std::cmp::Reverse;
use std::collections::{BTreeMap, BTreeSet};
use std::fmt::Debug;
use std::hash::Hash;
use std::net::IpAddr;
use weft_core::state::Damage;
use weft_core::table::{Family, Hop, Route, RouteKind, RouteRow, RuleAction, TABLE_DEFAULT, TABLE_LOCAL, TABLE_MAIN};
use weft_core::{ControlError, InterfaceIndex, Map};

/// Routes of one prefix, the lowest metric first, then the one that was added first.
type Alternatives = SmallVec<[RouteRow; 1]>;

/// The bits of an address: u32 of IPv4, u128 of IPv6.
pub(in crate::ip) trait Bits: Copy + Ord + Hash + Debug {
    /// Whose they are.
    const FAMILY: Family;
    /// How many.
    const LENGTH: u8;
    /// None set.
    const ZERO: Self;
    /// The rules that every node has: priority and table.
    const RULES: &'static [(u32, u32)];
    /// Where a route goes among those with its prefix and metric, if nobody says it.
    const PLACE: Place;
    /// None: an address of the other family.
    fn of(address: IpAddr) -> Option<Self>;
    /// The first so many bits.
    fn prefix(self, bits: u8) -> Self;
    /// Do two routes of one prefix and metric stand for the same?
    fn is_same(a: &Route, b: &Route) -> bool;
    /// The same of routes that may have several next hops.
    fn is_same_row(a: &RouteRow, b: &RouteRow) -> bool;
}

impl Bits for u32 {
    const FAMILY: Family = Family::V4;
    const LENGTH: u8 = 32;
    const ZERO: u32 = 0;
    const RULES: &'static [(u32, u32)] = &[(0, TABLE_LOCAL), (32_766, TABLE_MAIN), (32_767, TABLE_DEFAULT)];
    /// Linux has one route for each prefix and metric, unless somebody appends or prepends others (fib_table_insert: "if (fa_match) goto out;", which is -EEXIST).
    const PLACE: Place = Place::Alone;

    #[inline]
    fn of(address: IpAddr) -> Option<u32> {
        if let IpAddr::V4(ip) = address { Some(ip.to_bits()) } else { None }
    }
    #[inline]
    fn prefix(self, bits: u8) -> u32 {
        self & u32::MAX.checked_shl(32 - u32::from(bits)).unwrap_or(0)
    }
    fn is_same(a: &Route, b: &Route) -> bool {
        a == b
    }
    /// fib_find_info: the same hops in the same order, dead or not.
    fn is_same_row(a: &RouteRow, b: &RouteRow) -> bool {
        let same = |(a, b): (&Hop, &Hop)| a.route == b.route && a.weight == b.weight;
        a.route == b.route && a.hops.len() == b.hops.len() && a.hops.iter().zip(&b.hops).all(same)
    }
}

impl Bits for u128 {
    const FAMILY: Family = Family::V6;
    const LENGTH: u8 = 128;
    const ZERO: u128 = 0;
    const RULES: &'static [(u32, u32)] = &[(0, TABLE_LOCAL), (32_766, TABLE_MAIN)];
    /// Linux has several, if they lead elsewhere.
    const PLACE: Place = Place::Last;

    #[inline]
    fn of(address: IpAddr) -> Option<u128> {
        if let IpAddr::V6(ip) = address { Some(ip.to_bits()) } else { None }
    }
    #[inline]
    fn prefix(self, bits: u8) -> u128 {
        self & u128::MAX.checked_shl(128 - u32::from(bits)).unwrap_or(0)
    }
    fn is_same(a: &Route, b: &Route) -> bool {
        (a.metric, a.gateway, a.interface) == (b.metric, b.gateway, b.interface)
    }
    /// rt6_duplicate_nexthop, of each sibling.
    fn is_same_row(a: &RouteRow, b: &RouteRow) -> bool {
        a.each().any(|a| b.each().any(|b| Self::is_same(a, b)))
    }
}

/// The routes of one table.
#[derive(Debug)]
pub(in crate::ip) struct Routes<B> {
    /// By prefix length, the longest first.
    by_length: Vec<(u8, Map<B, Alternatives>)>,
    /// Next hops of all of them: a route has one at least.
    ways: usize,
}

/// Why a route was not put into its table.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(in crate::ip) enum Refusal {
    /// There is such a route.
    Exists,
    /// Of the other family, or bits set behind the prefix.
    Invalid,
    /// There is none that it could replace.
    Absent,
    /// The route would have more than [`hops::HOPS_MAX`].
    TooManyHops,
}

impl<B> Default for Routes<B> {
    fn default() -> Routes<B> {
        Routes { by_length: Vec::new(), ways: 0 }
    }
}

impl<B: Bits> Routes<B> {
    /// How many next hops there are.
    pub fn ways(&self) -> usize {
        self.ways
    }

    fn at(&self, bits: u8) -> Result<usize, usize> {
        self.by_length.binary_search_by_key(&Reverse(bits), |(bits, _)| Reverse(*bits))
    }

    /// Adds a route where its family has it.
    pub fn insert(&mut self, route: Route) -> Result<(), Refusal> {
        self.insert_at(route.into(), B::PLACE)
    }

    /// Adds a route.
    pub fn insert_at(&mut self, row: RouteRow, place: Place) -> Result<(), Refusal> {
        let route = row.route;
        let destination = B::of(route.destination).filter(|bits| route.prefix_bits <= B::LENGTH && bits.prefix(route.prefix_bits) == *bits);
        let destination = destination.ok_or(Refusal::Invalid)?;
        let exists = |other: &RouteRow| other.route.metric == route.metric && (place == Place::Alone || B::is_same_row(other, &row));
        if self.of_prefix(&route).any(exists) {
            return Err(Refusal::Exists);
        }
        let at = self.at(route.prefix_bits).unwrap_or_else(|at| {
            self.by_length.insert(at, (route.prefix_bits, Map::default()));
            at
        });
        let alternatives = self.by_length[at].1.entry(destination).or_default();
        let before = |other: u32| other < route.metric || place == Place::Last && other == route.metric;
        let at = alternatives.partition_point(|other| before(other.route.metric));
        self.ways += row.each().count();
        alternatives.insert(at, row);
        Ok(())
    }

    /// Adds hops to the first route with their prefix and metric that may have several (Linux fib6_add_rt2node). `Ok(None)`: there is none.
    fn join(&mut self, row: &RouteRow) -> Result<Option<RouteRow>, Refusal> {
        let (Some(destination), Ok(at)) = (B::of(row.route.destination), self.at(row.route.prefix_bits)) else { return Ok(None) };
        let Some(alternatives) = self.by_length[at].1.get_mut(&destination) else { return Ok(None) };
        let of_metric = || alternatives.iter().filter(|other| other.route.metric == row.route.metric);
        if of_metric().any(|other| B::is_same_row(other, row)) {
            return Err(Refusal::Exists);
        }
        if of_metric().filter(|other| hops::may_join(other)).any(|other| other.each().count() + row.each().count() > hops::HOPS_MAX) {
            return Err(Refusal::TooManyHops);
        }
        let host = alternatives.iter_mut().find(|other| other.route.metric == row.route.metric && hops::may_join(other));
        let Some(host) = host else { return Ok(None) };
        self.ways += row.each().count();
        host.hops = host.all_hops().into_iter().chain(row.all_hops()).collect();
        Ok(Some(host.clone()))
    }

    /// Removes and returns the first route of a prefix that fits.
    pub fn remove(&mut self, destination: B, bits: u8, fits: impl Fn(&RouteRow) -> bool) -> Option<RouteRow> {
        let of_length = self.at(bits).ok()?;
        let table = &mut self.by_length[of_length].1;
        let alternatives = table.get_mut(&destination)?;
        let at = alternatives.iter().position(fits)?;
        let row = alternatives.remove(at);
        if alternatives.is_empty() {
            table.swap_remove(&destination);
        }
        if table.is_empty() {
            self.by_length.remove(of_length);
        }
        self.ways -= row.each().count();
        Some(row)
    }

    /// Removes every route that fits.
    pub fn remove_where(&mut self, goes: impl Fn(&RouteRow) -> bool) -> Vec<RouteRow> {
        let gone: Vec<RouteRow> = self.all().filter(|row| goes(row)).cloned().collect();
        for row in &gone {
            if let Some(destination) = B::of(row.route.destination) {
                self.remove(destination, row.route.prefix_bits, |other| other == row);
            }
        }
        gone
    }

    /// Removes and returns the first hop of a prefix that fits, alone or one of several.
    fn remove_hop(&mut self, destination: B, bits: u8, fits: impl Fn(&Route) -> bool) -> Option<Route> {
        let at = self.at(bits).ok()?;
        let row = self.by_length[at].1.get_mut(&destination)?.iter_mut().find(|row| row.each().any(&fits))?;
        let (found, mut rest) = (row.each().position(&fits)?, row.all_hops());
        let gone = rest.remove(found).route;
        match RouteRow::with(rest) {
            Some(rest) => {
                *row = rest;
                self.ways -= 1;
            }
            None => _ = self.remove(destination, bits, |row| row.route == gone),
        }
        Some(gone)
    }

    /// Removes the hops that fit, of routes that keep others, and tells them.
    fn remove_hops(&mut self, goes: &impl Fn(&Route) -> bool) -> Vec<Route> {
        let mut gone = Vec::new();
        for row in self.several_mut() {
            let (lost, kept): (Vec<Hop>, Vec<Hop>) = row.hops.iter().partition(|hop| goes(&hop.route));
            if let (false, Some(rest)) = (lost.is_empty(), RouteRow::with(kept)) {
                gone.extend(lost.iter().map(|hop| hop.route));
                *row = rest;
            }
        }
        self.ways -= gone.len();
        gone
    }

    /// Routes with several next hops.
    fn several_mut(&mut self) -> impl Iterator<Item = &mut RouteRow> {
        self.by_length.iter_mut().flat_map(|(_, table)| table.values_mut()).flatten().filter(|row| !row.hops.is_empty())
    }

    /// The first that a packet takes: of the longest prefix, then of the lowest metric.
    #[inline]
    pub fn lookup<'a>(&'a self, destination: B, take: impl Fn(&'a RouteRow) -> Option<Found<'a>>) -> Option<Found<'a>> {
        self.by_length.iter().find_map(|(bits, table)| table.get(&destination.prefix(*bits))?.iter().find_map(&take))
    }

    /// The routes with the same prefix as this one.
    pub fn of_prefix(&self, route: &Route) -> impl Iterator<Item = &RouteRow> {
        let table = self.at(route.prefix_bits).ok().map(|at| &self.by_length[at].1);
        let alternatives = table.zip(B::of(route.destination)).and_then(|(table, destination)| table.get(&destination));
        alternatives.into_iter().flatten()
    }

    fn all(&self) -> impl Iterator<Item = &RouteRow> {
        self.by_length.iter().flat_map(|(_, table)| table.values()).flatten()
    }

    /// All routes by destination, length and metric.
    fn sorted(&self) -> Vec<RouteRow> {
        let mut all: Vec<RouteRow> = self.all().cloned().collect();
        all.sort_by_key(|row| (row.route.destination, row.route.prefix_bits, row.route.metric));
        all
    }
}

/// All tables of a node, and the rules that lead to them.
#[derive(Debug)]
pub(in crate::ip) struct Tables<B> {
    /// In which table to look.
    pub rules: Rules<B>,
    /// By what one of several next hops is chosen.
    pub multipath: Multipath,
    /// TABLE_MAIN.
    pub main: Routes<B>,
    /// None of them is empty.
    others: BTreeMap<u32, Routes<B>>,
    /// Tables that somebody has meant to fill, empty or not: from then on they can be listed. Of no other use, and no part of the state.
    begun: BTreeSet<u32>,
}

/// A bound on next hops of all routes of a node: two million, twice a full table of the Internet.
pub const ROUTES_MAX: usize = 2_000_000;
/// A bound on tables of a node.
pub const TABLES_MAX: usize = 256;
/// A bound on tables that are remembered when they are empty: more than this are not there again when their last route goes.
const TABLES_BEGUN_MAX: usize = 65_536;

impl<B: Bits> Default for Tables<B> {
    fn default() -> Tables<B> {
        Tables {
            rules: Rules::default(),
            multipath: Multipath::default(),
            main: Routes::default(),
            others: BTreeMap::new(),
            begun: BTreeSet::new(),
        }
    }
}

/// What packets follow for which a rule says blackhole, and prohibit.
static BLACKHOLE: Route = Route { kind: RouteKind::Blackhole, ..Route::PLAIN };
static PROHIBIT: Route = Route { kind: RouteKind::Prohibit, ..Route::PLAIN };

impl<B: Bits> Tables<B> {
    fn table(&self, table: u32) -> Option<&Routes<B>> {
        if table == TABLE_MAIN { Some(&self.main) } else { self.others.get(&table) }
    }

    fn table_mut(&mut self, table: u32) -> &mut Routes<B> {
        if table == TABLE_MAIN { &mut self.main } else { self.others.entry(table).or_default() }
    }

    /// The route that a packet follows: through its interface, if it is bound to one, and one that is up. `suits`: would a packet that leaves so have the
    /// source that this one has?
    #[inline]
    pub fn lookup<'a>(&'a self, packet: &Packet<B>, facts: &FactsCache, suits: &dyn Fn(&Route) -> bool) -> Option<Found<'a>> {
        if !self.rules.are_usual() {
            return self.by_rules(packet, facts, suits);
        }
        let goes_on = |found: &Found<'a>| found.kind != RouteKind::Throw;
        let found = self.main.lookup(packet.destination, self.take(packet, facts, suits)).filter(goes_on);
        if found.is_some() || self.others.is_empty() {
            return found;
        }
        let last = B::RULES.last().and_then(|(_, table)| self.others.get(table));
        last.and_then(|table| table.lookup(packet.destination, self.take(packet, facts, suits))).filter(goes_on)
    }

    /// Does a packet take a route, and by which hop?
    fn take<'a>(
        &'a self,
        packet: &Packet<B>,
        facts: &FactsCache,
        suits: &dyn Fn(&Route) -> bool,
    ) -> impl Fn(&'a RouteRow) -> Option<Found<'a>> {
        let usable = usable(packet, facts);
        move |row| match row.hops.is_empty() {
            true => usable(&row.route).then(|| Found::alone(&row.route)),
            false => self.multipath.choose(row, packet, facts, suits),
        }
    }

    /// Linux fib_rules_lookup.
    fn by_rules<'a>(&'a self, packet: &Packet<B>, facts: &FactsCache, suits: &dyn Fn(&Route) -> bool) -> Option<Found<'a>> {
        let mut at = 0;
        while let Some(entry) = self.rules.get(at) {
            at += 1;
            if !entry.fits(packet) {
                continue;
            }
            let table = match entry.rule.action {
                // Its target is behind it.
                RuleAction::Goto(target) => {
                    at = self.rules.first_of(target).map_or(at, |target| target.max(at));
                    continue;
                }
                RuleAction::Nop => continue,
                RuleAction::Blackhole => return Some(Found::alone(&BLACKHOLE)),
                RuleAction::Prohibit => return Some(Found::alone(&PROHIBIT)),
                // fib4_rule_action: "case FR_ACT_UNREACHABLE: return -ENETUNREACH;", as if there were no route.
                RuleAction::Unreachable => return None,
                RuleAction::Table(table) => table,
            };
            let found = self.table(table).and_then(|table| table.lookup(packet.destination, self.take(packet, facts, suits)));
            // fib_rules_lookup: "if (err != -EAGAIN) …; goto out;", which is what RTN_THROW stands for.
            let counts = |route: &Found<'a>| route.kind != RouteKind::Throw && !entry.suppresses(route, facts);
            if let Some(route) = found.filter(counts) {
                return Some(route);
            }
        }
        None
    }

    /// The route of kind local to an address that somebody has set, if there is one.
    #[inline]
    pub fn inside(&self, destination: B) -> Option<Found<'_>> {
        self.others.get(&TABLE_LOCAL)?.lookup(destination, |row| (row.route.kind == RouteKind::Local).then(|| Found::alone(&row.route)))
    }

    /// The prefixes of all of them.
    pub fn insides(&self) -> impl Iterator<Item = (u8, B)> {
        let local = self.others.get(&TABLE_LOCAL).into_iter().flat_map(Routes::all).map(|row| &row.route);
        local.filter(|route| route.kind == RouteKind::Local).filter_map(|route| Some((route.prefix_bits, B::of(route.destination)?)))
    }

    /// The route to an address in one table alone.
    pub fn lookup_in<'a>(&'a self, table: u32, packet: &Packet<B>, facts: &FactsCache) -> Option<Found<'a>> {
        let found = self.table(table)?.lookup(packet.destination, self.take(packet, facts, &|_| false));
        found.filter(|route| route.kind != RouteKind::Throw)
    }

    /// Linux fib_new_table, fib6_new_table: a route, which may then be refused, is to go into this table.
    pub fn begin(&mut self, table: u32) {
        if self.begun.len() < TABLES_BEGUN_MAX {
            self.begun.insert(table);
        }
    }

    /// Linux fib_get_table, fib6_get_table.
    pub fn has(&self, table: u32) -> bool {
        matches!(table, TABLE_MAIN | TABLE_LOCAL) || self.others.contains_key(&table) || self.begun.contains(&table)
    }

    fn forget_empty(&mut self) {
        self.others.retain(|_, table| table.ways() != 0);
    }

    /// Is there room for so many more next hops in this table?
    ///
    /// # Errors
    /// The limit that is reached.
    pub fn room(&self, table: u32, ways: usize) -> Result<(), ControlError> {
        if self.main.ways() + self.others.values().map(Routes::ways).sum::<usize>() + ways > ROUTES_MAX {
            return Err(ControlError::Limit { what: "routes of one node".to_owned(), max: ROUTES_MAX as u64 });
        }
        if self.table(table).is_none() && self.others.len() >= TABLES_MAX {
            return Err(ControlError::Limit { what: "routing tables of one node".to_owned(), max: TABLES_MAX as u64 });
        }
        Ok(())
    }

    /// Puts a route where it belongs; tells which one it replaced.
    ///
    /// # Errors
    /// Why it cannot be there; all is as before.
    pub fn put(&mut self, row: RouteRow, adding: Adding) -> Result<Option<RouteRow>, Refusal> {
        let route = row.route;
        let destination = B::of(route.destination).ok_or(Refusal::Invalid)?;
        let twin = |other: &RouteRow| other.route.metric == route.metric;
        // fib6_add_rt2node: one that may have several next hops takes the place of one that may, if there is such a one.
        let alike = |other: &RouteRow| twin(other) && (B::FAMILY == Family::V4 || hops::may_join(other) == hops::may_join(&row));
        let known = |fits: &dyn Fn(&RouteRow) -> bool| self.table(route.table).is_some_and(|table| table.of_prefix(&route).any(fits));
        let (known, closer) = (known(&twin), known(&alike));
        if adding.must_exist && !known {
            return Err(Refusal::Absent);
        }
        let table = self.table_mut(route.table);
        let fits = |other: &RouteRow| if closer { alike(other) } else { twin(other) };
        let replaced = if adding.replace { table.remove(destination, route.prefix_bits, fits) } else { None };
        let put = table.insert_at(row.clone(), adding.place.unwrap_or(B::PLACE));
        if let (Err(_), Some(replaced)) = (put, &replaced) {
            // It was there a moment ago.
            let _ = table.insert_at(replaced.clone(), Place::First);
        }
        self.forget_empty();
        put.map(|()| replaced)
    }

    /// Makes hops of one route with those that are there, where there is one: see [`Routes::join`].
    ///
    /// # Errors
    /// Why they cannot be there; all is as before.
    pub fn join(&mut self, row: &RouteRow) -> Result<Option<RouteRow>, Refusal> {
        let known = self.table(row.route.table).is_some();
        if known { self.table_mut(row.route.table).join(row) } else { Ok(None) }
    }

    /// Removes and returns the first route of a table with this prefix that fits.
    pub fn remove(&mut self, table: u32, destination: B, bits: u8, fits: impl Fn(&RouteRow) -> bool) -> Option<RouteRow> {
        self.table(table)?;
        let gone = self.table_mut(table).remove(destination, bits, fits);
        self.forget_empty();
        gone
    }

    /// Removes and returns one hop that fits: of a route that has no other, the route.
    pub fn remove_hop(&mut self, table: u32, destination: B, bits: u8, fits: impl Fn(&Route) -> bool) -> Option<Route> {
        self.table(table)?;
        let gone = self.table_mut(table).remove_hop(destination, bits, fits);
        self.forget_empty();
        gone
    }

    /// Removes and returns the routes that fit, of every table.
    pub fn remove_where(&mut self, goes: impl Fn(&RouteRow) -> bool) -> Vec<RouteRow> {
        let mut gone = self.main.remove_where(&goes);
        gone.extend(self.others.values_mut().flat_map(|table| table.remove_where(&goes)));
        self.forget_empty();
        gone
    }

    /// Removes and returns the hops that fit, of routes that keep others.
    pub fn remove_hops(&mut self, goes: impl Fn(&Route) -> bool) -> Vec<Route> {
        let mut gone = self.main.remove_hops(&goes);
        gone.extend(self.others.values_mut().flat_map(|table| table.remove_hops(&goes)));
        gone
    }

    /// Linux fib_sync_down_dev, fib_sync_up: those of several hops that lead through an interface are dead from now on, or live again.
    pub fn mark(&mut self, interface: InterfaceIndex, dead: bool) {
        for row in std::iter::once(&mut self.main).chain(self.others.values_mut()).flat_map(Routes::several_mut) {
            row.hops.iter_mut().filter(|hop| hop.route.interface == interface).for_each(|hop| hop.dead = dead);
        }
    }

    /// Every route, by table, destination, length (the longer first, as Linux has them) and metric; the main table last.
    pub fn all(&self) -> Vec<RouteRow> {
        self.others.values().chain([&self.main]).flat_map(Routes::sorted).collect()
    }

    /// The interfaces that routes leave through, with repetitions of neighbouring ones left out.
    pub fn interfaces(&self) -> Vec<InterfaceIndex> {
        let mut all: Vec<_> =
            self.others.values().chain([&self.main]).flat_map(Routes::all).flat_map(RouteRow::each).map(|route| route.interface).collect();
        all.dedup();
        all
    }

    /// Tables with these routes, which [`Tables::all`] told, and rules.
    pub fn with(routes: Vec<RouteRow>, rules: Rules<B>) -> Result<Tables<B>, Damage> {
        if routes.iter().map(|row| row.hops.len().max(1)).sum::<usize>() > ROUTES_MAX {
            return Err(Damage::new("more routes than a node may have"));
        }
        let mut tables = Tables { rules, ..Tables::default() };
        for row in routes {
            hops::check(&row)?;
            let put = tables.table_mut(row.route.table).insert_at(row, Place::Last);
            put.map_err(|_| Damage::new("a route twice, or of another family"))?;
        }
        if tables.others.len() > TABLES_MAX {
            return Err(Damage::new("more routing tables than a node may have"));
        }
        Ok(tables)
    }
}

/// Does a route lead through the interface that a packet's sender is bound to, if any, and is that up?
fn usable<B>(packet: &Packet<B>, facts: &FactsCache) -> impl Fn(&Route) -> bool {
    // Routes that refuse name no interface.
    |route| {
        let bound = || packet.bound.is_none_or(|bound| bound == route.interface);
        route.interface == InterfaceIndex::NONE || (bound() && facts.leads(route.interface))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;
    use std::net::{Ipv4Addr, Ipv6Addr};

    fn route(destination: impl Into<IpAddr>, prefix_bits: u8, metric: u32, interface: u32) -> Route {
        Route { destination: destination.into(), prefix_bits, metric, interface: InterfaceIndex(interface), ..Route::PLAIN }
    }

    /// Whatever was put in and taken out, the best is found that a search through all finds.
    fn agrees<B: Bits>(
        inserted: &[(B, u8, u32, u32)],
        removed: &[proptest::sample::Index],
        asked: &[(B, u32)],
        address: fn(B) -> IpAddr,
    ) -> Result<(), TestCaseError> {
        let mut routes = Routes::<B>::default();
        let mut plain: Vec<Route> = Vec::new();
        for (ip, bits, metric, interface) in inserted {
            let one = route(address(ip.prefix(*bits)), *bits, *metric, *interface);
            let twin = |other: &Route| {
                let exists = B::PLACE == Place::Alone || B::is_same(other, &one);
                (other.destination, other.prefix_bits, other.metric) == (one.destination, one.prefix_bits, one.metric) && exists
            };
            let new = !plain.iter().any(twin);
            prop_assert_eq!(routes.insert(one).is_ok(), new);
            if new {
                plain.push(one);
            }
        }
        for index in removed.iter().take(plain.len()) {
            let one = plain.remove(index.index(plain.len()));
            let destination = B::of(one.destination).unwrap();
            prop_assert_eq!(routes.remove(destination, one.prefix_bits, |other| other.route == one), Some(one.into()));
        }
        prop_assert_eq!(routes.ways(), plain.len());
        for (ip, interface) in asked {
            let only = InterfaceIndex(*interface);
            let covers = |one: &&Route| one.interface == only && Some(ip.prefix(one.prefix_bits)) == B::of(one.destination);
            let best = plain.iter().filter(covers).min_by_key(|one| (Reverse(one.prefix_bits), one.metric));
            let take = |row: &'_ RouteRow| row.route.interface == only;
            let found = routes.lookup(*ip, |row| take(row).then(|| Found::alone(&row.route)));
            prop_assert_eq!(found.as_deref(), best);
        }
        Ok(())
    }

    proptest! {
        #[test]
        fn lookup_agrees_with_a_search_through_all(
            inserted in proptest::collection::vec((any::<u128>(), 0u8..=128, 0u32..3, 2u32..5), 0..60),
            removed in proptest::collection::vec(any::<proptest::sample::Index>(), 0..20),
            asked in proptest::collection::vec((any::<u128>(), 2u32..5), 30),
        ) {
            // Few distinct bits, so that prefixes nest.
            let six = |ip: u128| ip & (3 << 126 | 7 << 62 | 0x3f);
            let four = |ip: u128| ip as u32 & 0x0300_03ff;
            let of_six: Vec<_> = inserted.iter().map(|(ip, bits, metric, interface)| (six(*ip), *bits, *metric, *interface)).collect();
            let of_four: Vec<_> = inserted.iter().map(|(ip, bits, metric, interface)| (four(*ip), bits % 33, *metric, *interface)).collect();
            agrees(&of_six, &removed, &asked.iter().map(|(ip, only)| (six(*ip), *only)).collect::<Vec<_>>(), |bits| Ipv6Addr::from_bits(bits).into())?;
            agrees(&of_four, &removed, &asked.iter().map(|(ip, only)| (four(*ip), *only)).collect::<Vec<_>>(), |bits| Ipv4Addr::from_bits(bits).into())?;
        }
    }

    #[test]
    fn a_hundred_thousand_routes_are_found_again() {
        let address = |number: u32| Ipv4Addr::from_bits(number << 12);
        let mut routes = Routes::<u32>::default();
        for number in 0..100_000u32 {
            routes.insert(route(address(number), 20 + (number % 5) as u8, 0, 2)).unwrap();
        }
        assert_eq!(routes.ways(), 100_000);
        for number in (0..100_000u32).step_by(97) {
            let found = routes.lookup(number << 12, |row| Some(Found::alone(&row.route))).unwrap();
            assert_eq!(found.destination, IpAddr::V4(address(number)));
        }
        assert_eq!(routes.insert(route(address(0), 20, 0, 3)), Err(Refusal::Exists), "of IPv4 there is one");
        let mut routes = Routes::<u128>::default();
        routes.insert(route(Ipv6Addr::UNSPECIFIED, 48, 0, 2)).unwrap();
        assert_eq!(routes.insert(route(Ipv6Addr::UNSPECIFIED, 48, 0, 2)), Err(Refusal::Exists));
        assert_eq!(routes.insert(route(Ipv6Addr::UNSPECIFIED, 48, 0, 3)), Ok(()), "another way to the same prefix");
        assert_eq!(routes.insert(route(Ipv4Addr::UNSPECIFIED, 8, 0, 3)), Err(Refusal::Invalid), "another family");
        assert_eq!(routes.insert(route(Ipv6Addr::LOCALHOST, 64, 0, 3)), Err(Refusal::Invalid), "bits behind the prefix");
    }

    #[test]
    fn a_table_is_there_as_long_as_it_has_routes() {
        let plain = Adding { place: None, replace: false, must_exist: false };
        let of_table = |table: u32| RouteRow::from(Route { table, ..route(Ipv4Addr::new(10, 0, 0, 0), 8, 0, 2) });
        let mut tables = Tables::<u32>::default();
        for table in 1000..1000 + TABLES_MAX as u32 {
            tables.room(table, 1).unwrap();
            assert_eq!(tables.put(of_table(table), plain), Ok(None));
        }
        assert!(matches!(tables.room(7, 1), Err(ControlError::Limit { .. })));
        assert!(tables.room(TABLE_MAIN, 1).is_ok() && tables.room(1000, 1).is_ok());
        assert_eq!(tables.remove(1000, 10 << 24, 8, |_| true), Some(of_table(1000)));
        assert!(tables.room(7, 1).is_ok(), "one has gone");
        assert!(tables.room(7, ROUTES_MAX).is_err(), "next hops are counted, not routes");
        assert_eq!(tables.put(of_table(7), Adding { must_exist: true, replace: true, ..plain }), Err(Refusal::Absent));
        assert_eq!(tables.others.len(), TABLES_MAX - 1);
        let again = Tables::<u32>::with(tables.all(), Rules::default()).unwrap();
        assert_eq!(again.all(), tables.all());
        assert!(Tables::<u128>::with(tables.all(), Rules::default()).is_err());
        assert_eq!(tables.remove_where(|_| true).len(), TABLES_MAX - 1);
        assert!(tables.others.is_empty());
        tables.begin(5);
        assert!(tables.has(5) && tables.has(TABLE_MAIN) && !tables.has(6) && tables.all().is_empty());
        (0..=TABLES_BEGUN_MAX as u32).for_each(|table| tables.begin(table));
        assert_eq!(tables.begun.len(), TABLES_BEGUN_MAX);
    }

    #[test]
    fn next_hops_are_counted_and_what_a_route_cannot_have_is_not_read() {
        let base = route(Ipv6Addr::UNSPECIFIED, 64, 7, 2);
        let to = |last: u16| Route { gateway: Some(Ipv6Addr::new(0xfd00, 0, 0, 0, 0, 0, 0, last).into()), ..base };
        let hop = |last: u16, weight: u16| Hop { route: to(last), weight, dead: false };
        let row = |hops: &[Hop]| RouteRow::with(hops.to_vec()).unwrap();
        let mut tables = Tables::<u128>::default();
        let adding = Adding { place: Some(Place::Last), replace: false, must_exist: false };
        assert_eq!(tables.join(&row(&[hop(1, 1)])), Ok(None), "nothing to join");
        tables.put(row(&[hop(1, 1), hop(2, 3)]), adding).unwrap();
        assert_eq!(tables.join(&row(&[hop(3, 1)])), Ok(Some(row(&[hop(1, 1), hop(2, 3), hop(3, 1)]))));
        assert_eq!(tables.join(&row(&[hop(4, 1), hop(2, 1)])), Err(Refusal::Exists));
        assert_eq!(tables.main.ways(), 3);
        assert_eq!(tables.remove_hop(TABLE_MAIN, 0, 64, |one| one.gateway == to(2).gateway), Some(to(2)));
        assert_eq!((tables.all(), tables.main.ways()), (vec![row(&[hop(1, 1), hop(3, 1)])], 2));
        assert_eq!(tables.remove_hops(|one| one.gateway == to(1).gateway), [to(1)]);
        assert_eq!((tables.all(), tables.main.ways()), (vec![row(&[hop(3, 1)])], 1));
        assert_eq!(tables.remove_hop(TABLE_MAIN, 0, 64, |one| one.gateway == to(3).gateway), Some(to(3)));
        assert_eq!((tables.all(), tables.main.ways()), (vec![], 0));
        let several = |hops: Vec<Hop>| RouteRow { route: to(1), hops: hops.into() };
        let other = Hop { route: Route { metric: 8, ..to(2) }, ..hop(2, 1) };
        for wrong in
            [vec![hop(1, 1)], vec![hop(1, 0), hop(2, 1)], vec![hop(1, 257), hop(2, 1)], vec![hop(2, 1), hop(1, 1)], vec![hop(1, 1), other]]
        {
            assert!(Tables::<u128>::with(vec![several(wrong.clone())], Rules::default()).is_err(), "{wrong:?}");
        }
        assert!(Tables::<u128>::with(vec![several(vec![hop(1, 1); hops::HOPS_MAX + 1])], Rules::default()).is_err());
        let read = Tables::<u128>::with(vec![several(vec![hop(1, 1), hop(2, 256)])], Rules::default()).unwrap();
        assert_eq!(read.main.ways(), 2);
    }
}
