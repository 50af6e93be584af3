//! Membership in multicast groups on the host's side, as IGMP and MLD share it: who wants what, what routers are told of it, and when
//! (RFC 3376 §5 and §7, RFC 3810 §6 and §8; RFC 2236 and RFC 2710 where a querier of theirs is present).
//!
//! A [`Membership`] knows no packet format: it is told of queries and reports that came in, of wishes that change, of time that passes, and
//! gives out [`Outgoing`] messages for its block to write.
//!
//! A change is reported at once, and `robustness` - 1 times more at random intervals up to `unsolicited_interval`; all that is pending on an
//! interface goes into the same repetition. Queries are answered after a random part of the time they allow. A querier of an older version
//! makes its interface speak that version until it has been silent for long enough.

mod filter;
mod group;
mod settings;

use filter::Filter;
use group::Group;
pub(super) use settings::{COUNTERS, PARAMETERS, Settings, count};

use crate::facts::FactsCache;
use std::collections::{BTreeMap, BTreeSet};
use std::net::{IpAddr, Ipv4Addr};
use weft_core::state::{Damage, Reader, Writer};
use weft_core::table::{Family, LinkType};
use weft_core::*;
pub(super) use weft_wire::igmp::RecordKind;

/// RFC 3376 §8.2, RFC 3810 §9.2: Query Interval, "Default: 125 seconds".
const QUERY_INTERVAL: Duration = Duration::from_secs(125);
/// RFC 3376 §8.3: Query Response Interval, in force until a querier tells another.
const QUERY_RESPONSE_INTERVAL: Duration = Duration::from_secs(10);
/// RFC 2236 §4: a query of version 1 allows this time.
pub(super) const RESPONSE_V1: Duration = Duration::from_secs(10);

/// Versions by what they can do: MLD has the latter two, as its versions 1 and 2.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub(super) enum Version {
    /// IGMPv1: reports only.
    Reports,
    /// IGMPv2, MLDv1: leaves too.
    Leaves,
    /// IGMPv3, MLDv2: sources too.
    Sources,
}

/// What distinguishes the two families here.
#[derive(Debug)]
pub(super) struct Traits {
    /// Every host listens to it, and nobody says so.
    pub all_hosts: IpAddr,
    /// Bytes of an address in a record.
    pub address_bytes: usize,
    /// Bytes of a record without its sources.
    pub record_bytes: usize,
    /// Bytes of a report and the IP headers in front of it, without records.
    pub overhead_bytes: usize,
    /// Is membership in this group nobody's business?
    pub is_silent: fn(IpAddr) -> bool,
    /// A carrier that comes back may be that of another link: everything is said again.
    pub roams: bool,
}

/// A record of a report.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(super) struct Record {
    pub kind: RecordKind,
    pub group: IpAddr,
    pub sources: Vec<IpAddr>,
}

/// A message for the block to write.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(super) enum Outgoing {
    /// A report with records, which fit into one packet.
    Report(InterfaceIndex, Vec<Record>),
    /// A report of an older version.
    OldReport(InterfaceIndex, IpAddr, Version),
    /// The group is left.
    Leave(InterfaceIndex, IpAddr),
}

/// A query that came in.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(super) struct IncomingQuery {
    pub interface: InterfaceIndex,
    pub version: Version,
    /// None: every group.
    pub group: Option<IpAddr>,
    pub sources: BTreeSet<IpAddr>,
    pub max_response: Duration,
    /// What the querier says of itself; 0: nothing.
    pub robustness: u8,
    /// Likewise.
    pub query_interval: Duration,
}

type Key = (InterfaceIndex, IpAddr);

/// What is known of an interface's querier, and what is to be sent to it.
#[derive(Debug, Default)]
struct Link {
    /// A querier of IGMPv1, of IGMPv2 or MLDv1, counts as present until then.
    reports_until: Option<Instant>,
    leaves_until: Option<Instant>,
    robustness: Option<u32>,
    query_interval: Option<Duration>,
    /// The answer to a general query.
    general_at: Option<Instant>,
    /// The next repetition of changes.
    change_at: Option<Instant>,
}

/// Who wants what on which interface, and what is to be told of it.
#[derive(Debug)]
pub(super) struct Membership {
    traits: &'static Traits,
    pub settings: Settings,
    pub facts: FactsCache,
    pub counters: [u64; count::ALL],
    groups: BTreeMap<Key, Group>,
    links: BTreeMap<InterfaceIndex, Link>,
    /// Interfaces that were up when last looked at.
    up: BTreeSet<InterfaceIndex>,
    memberships: usize,
}

impl Membership {
    /// Nobody wants anything.
    pub(super) fn new(config: &Config, traits: &'static Traits) -> Membership {
        Membership {
            traits,
            settings: Settings::new(config),
            facts: FactsCache::default(),
            counters: [0; count::ALL],
            groups: BTreeMap::new(),
            links: BTreeMap::new(),
            up: BTreeSet::new(),
            memberships: 0,
        }
    }

    /// Does an interface listen to packets of this group from this source?
    pub(super) fn wants(&self, interface: InterfaceIndex, group: IpAddr, source: IpAddr) -> bool {
        group == self.traits.all_hosts || self.groups.get(&(interface, group)).is_some_and(|group| group.current.wants(source))
    }

    /// Which version an interface speaks now.
    fn version(&self, interface: InterfaceIndex, now: Instant) -> Version {
        let oldest_is_one = self.traits.address_bytes == 4;
        match (self.settings.force_version, oldest_is_one) {
            (1, true) => return Version::Reports,
            (2, true) | (1, false) => return Version::Leaves,
            (3, true) | (2, false) => return Version::Sources,
            _ => {}
        }
        let Some(link) = self.links.get(&interface) else { return Version::Sources };
        let present = |until: Option<Instant>| until.is_some_and(|until| now < until);
        match (present(link.reports_until), present(link.leaves_until)) {
            (true, _) => Version::Reports,
            (false, true) => Version::Leaves,
            (false, false) => Version::Sources,
        }
    }

    fn robustness(&self, interface: InterfaceIndex) -> u32 {
        self.links.get(&interface).and_then(|link| link.robustness).unwrap_or(self.settings.robustness)
    }

    /// Is anything to be told of a group on this interface?
    fn is_told(&mut self, interface: InterfaceIndex, group: IpAddr, cx: &Context<'_>) -> bool {
        let outside = self.facts.get(interface, cx).is_some_and(|facts| facts.up && facts.link != LinkType::Loopback);
        outside && !self.is_silent(group)
    }

    fn is_silent(&self, group: IpAddr) -> bool {
        group == self.traits.all_hosts || (self.traits.is_silent)(group)
    }

    /// A holder wants something else of a group. `None`: nothing any more.
    pub(super) fn wish(
        &mut self,
        interface: InterfaceIndex,
        group: IpAddr,
        holder: u64,
        filter: Option<SourceFilter>,
        cx: &mut Context<'_>,
    ) -> Vec<Outgoing> {
        let filter = filter.map(Filter::from).filter(|filter| !filter.is_nothing());
        let known = self.groups.get(&(interface, group)).is_some_and(|group| group.holders.contains_key(&holder));
        let same_family = group.is_ipv4() == self.traits.all_hosts.is_ipv4();
        if let Some(filter) = &filter {
            let fits = known || self.memberships < self.settings.memberships_max;
            let sound = group.is_multicast() && same_family && filter.sources().len() <= self.settings.sources_max;
            if !fits || !sound || self.facts.get(interface, cx).is_none() {
                self.counters[count::REFUSED] += 1;
                return Vec::new();
            }
        } else if !known {
            return Vec::new();
        }
        if self.facts.get(interface, cx).is_some_and(|facts| facts.up) {
            self.up.insert(interface);
        }
        let entry = self.groups.entry((interface, group)).or_default();
        match filter {
            Some(filter) => {
                self.memberships += usize::from(entry.holders.insert(holder, filter).is_none());
            }
            None => {
                self.memberships -= usize::from(entry.holders.remove(&holder).is_some());
            }
        }
        let merged = Filter::merge(entry.holders.values());
        let before = std::mem::replace(&mut entry.current, merged);
        let changed = before != entry.current;
        let out = if changed && self.is_told(interface, group, cx) { self.tell((interface, group), &before, cx) } else { Vec::new() };
        self.tidy((interface, group));
        if changed {
            cx.table_changed(if group.is_ipv4() { Table::Groups(Family::V4) } else { Table::Groups(Family::V6) });
        }
        out
    }

    /// Forgets a group that nobody wants and of which nothing is left to say.
    fn tidy(&mut self, key: Key) {
        if self.groups.get(&key).is_some_and(|group| group.holders.is_empty() && !group.is_pending()) {
            self.groups.remove(&key);
        }
    }

    /// The state of a group has changed: says so at once, and plans to repeat it.
    fn tell(&mut self, key: Key, before: &Filter, cx: &mut Context<'_>) -> Vec<Outgoing> {
        let version = self.version(key.0, cx.now);
        let robustness = self.robustness(key.0);
        let Some(group) = self.groups.get_mut(&key) else { return Vec::new() };
        if version != Version::Sources {
            return self.tell_old(key, before, version, cx);
        }
        group.changed(before, robustness);
        if !group.is_pending() {
            return Vec::new();
        }
        let mut records = Vec::new();
        group.change_records(key.1, &mut records);
        self.plan_change(key.0, cx);
        self.pack(key.0, records, cx)
    }

    /// RFC 2236 §3, RFC 2710 §4: joining is reported, leaving is said by whoever reported last.
    fn tell_old(&mut self, key: Key, before: &Filter, version: Version, cx: &mut Context<'_>) -> Vec<Outgoing> {
        let robustness = self.robustness(key.0);
        let interval = self.settings.unsolicited_interval_old;
        let Some(group) = self.groups.get_mut(&key) else { return Vec::new() };
        match (before.is_nothing(), group.current.is_nothing()) {
            (true, false) => {
                group.old_left = robustness - 1;
                group.last_reporter = true;
                group.response = (group.old_left > 0).then(|| (cx.now + interval.mul_f64(cx.rng.unit()), BTreeSet::new()));
                vec![Outgoing::OldReport(key.0, key.1, version)]
            }
            (false, true) => {
                group.response = None;
                group.old_left = 0;
                let says = group.last_reporter && version == Version::Leaves;
                if says { vec![Outgoing::Leave(key.0, key.1)] } else { Vec::new() }
            }
            _ => Vec::new(),
        }
    }

    /// Plans the next repetition of what is pending on an interface.
    fn plan_change(&mut self, interface: InterfaceIndex, cx: &mut Context<'_>) {
        let pending = self.of(interface).any(|(_, group)| group.is_pending());
        // RFC 3376 §5.1: "at intervals chosen at random from the range (0, [Unsolicited Report Interval])".
        let at = pending.then(|| cx.now + self.settings.unsolicited_interval.mul_f64(cx.rng.unit()));
        self.links.entry(interface).or_default().change_at = at;
    }

    fn of(&self, interface: InterfaceIndex) -> impl Iterator<Item = (IpAddr, &Group)> {
        let first = (interface, IpAddr::V4(Ipv4Addr::UNSPECIFIED));
        self.groups.range(first..).take_while(move |((of, _), _)| *of == interface).map(|((_, ip), group)| (*ip, group))
    }

    fn keys_of(&self, interface: InterfaceIndex) -> Vec<Key> {
        self.of(interface).map(|(ip, _)| (interface, ip)).collect()
    }

    /// Spreads records over reports that fit the interface's MTU.
    fn pack(&mut self, interface: InterfaceIndex, records: Vec<Record>, cx: &Context<'_>) -> Vec<Outgoing> {
        let mtu = self.facts.get(interface, cx).map_or(1280, |facts| facts.mtu as usize);
        let room = mtu.saturating_sub(self.traits.overhead_bytes).max(self.traits.record_bytes + self.traits.address_bytes);
        let sources_max = (room - self.traits.record_bytes) / self.traits.address_bytes;
        let mut parts: Vec<Record> = Vec::new();
        for mut record in records {
            // RFC 3376 §4.2.16: records that exclude cannot be split; sources that do not fit are left out. Others become several records.
            if matches!(record.kind, RecordKind::IsExclude | RecordKind::ToExclude) {
                self.counters[count::SOURCES_CUT] += u64::from(record.sources.len() > sources_max);
                record.sources.truncate(sources_max);
            }
            while record.sources.len() > sources_max {
                let rest = record.sources.split_off(sources_max);
                let rest = Record { kind: record.kind, group: record.group, sources: rest };
                parts.push(std::mem::replace(&mut record, rest));
            }
            parts.push(record);
        }
        let mut out: Vec<Outgoing> = Vec::new();
        let mut left = 0;
        for record in parts {
            let bytes = self.traits.record_bytes + record.sources.len() * self.traits.address_bytes;
            match out.last_mut() {
                Some(Outgoing::Report(_, records)) if bytes <= left => {
                    records.push(record);
                    left -= bytes;
                }
                _ => {
                    out.push(Outgoing::Report(interface, vec![record]));
                    left = room.saturating_sub(bytes);
                }
            }
        }
        out
    }

    /// A query came in.
    pub(super) fn query(&mut self, query: &IncomingQuery, cx: &mut Context<'_>) {
        self.counters[count::IN_QUERIES] += 1;
        let interface = query.interface;
        self.note_querier(query, cx);
        let version = self.version(interface, cx.now);
        let delay = query.max_response.mul_f64(cx.rng.unit());
        let at = cx.now + delay;
        if version != Version::Sources {
            return self.query_old(query, cx);
        }
        // RFC 3376 §5.2, rule 1: "If there is a pending response to a previous General Query scheduled sooner than the selected delay, no
        // additional response needs to be scheduled."
        let link = self.links.entry(interface).or_default();
        if link.general_at.is_some_and(|general_at| general_at <= at) {
            return;
        }
        let Some(group) = query.group else {
            // Rule 2: "the interface timer is used to schedule a response to the General Query after the selected delay."
            link.general_at = Some(at);
            return;
        };
        let Some(entry) = self.groups.get_mut(&(interface, group)).filter(|entry| !entry.current.is_nothing()) else { return };
        let asked = &query.sources;
        entry.response = Some(match entry.response.take() {
            // Rule 3.
            None => (at, asked.clone()),
            // Rule 5: the group's and the query's sources are both to be answered about, at the earliest of both times.
            Some((pending_at, before)) if !before.is_empty() && !asked.is_empty() => {
                (pending_at.min(at), before.union(asked).copied().take(self.settings.sources_max.max(1)).collect())
            }
            // Rule 4: the whole group.
            Some((pending_at, _)) => (pending_at.min(at), BTreeSet::new()),
        });
    }

    /// RFC 2236 §3: each group gets a timer of its own, unless it has one that ends sooner.
    fn query_old(&mut self, query: &IncomingQuery, cx: &mut Context<'_>) {
        for key in self.keys_of(query.interface) {
            if query.group.is_some_and(|asked| asked != key.1) || !self.is_told(key.0, key.1, cx) {
                continue;
            }
            let at = cx.now + query.max_response.mul_f64(cx.rng.unit());
            let latest = cx.now + query.max_response;
            if let Some(group) = self.groups.get_mut(&key).filter(|group| !group.current.is_nothing())
                && group.response.as_ref().is_none_or(|(pending_at, _)| *pending_at > latest)
            {
                group.response = Some((at, BTreeSet::new()));
            }
        }
    }

    /// What a query says of the querier.
    fn note_querier(&mut self, query: &IncomingQuery, cx: &Context<'_>) {
        let before = self.version(query.interface, cx.now);
        let robustness = self.robustness(query.interface);
        let link = self.links.entry(query.interface).or_default();
        // RFC 3376 §8.12: "This value MUST be ((the Robustness Variable) times (the Query Interval in the last Query received)) plus (one Query
        // Response Interval)."
        let response = query.max_response.max(QUERY_RESPONSE_INTERVAL);
        let until = cx.now + link.query_interval.unwrap_or(QUERY_INTERVAL) * robustness + response;
        match query.version {
            Version::Reports => link.reports_until = Some(until),
            Version::Leaves => link.leaves_until = Some(until),
            Version::Sources => {
                // §4.1.6: a robustness of zero means that the querier does not tell; so is the interval here.
                link.robustness = (query.robustness > 0).then_some(u32::from(query.robustness));
                link.query_interval = (query.query_interval > Duration::ZERO).then_some(query.query_interval);
            }
        }
        // §7.2.1: "Whenever a host changes its compatibility mode, it cancels all its pending response and retransmission timers."
        if self.version(query.interface, cx.now) != before {
            self.forget_pending(query.interface);
        }
    }

    fn forget_pending(&mut self, interface: InterfaceIndex) {
        if let Some(link) = self.links.get_mut(&interface) {
            (link.general_at, link.change_at) = (None, None);
        }
        for key in self.keys_of(interface) {
            if let Some(group) = self.groups.get_mut(&key) {
                (group.mode_left, group.old_left, group.response) = (0, 0, None);
                group.sources_left.clear();
            }
            self.tidy(key);
        }
    }

    /// Another host reported a group with a message of an older version: what it said need not be said again (RFC 2236 §3, RFC 2710 §4).
    pub(super) fn reported(&mut self, interface: InterfaceIndex, group: IpAddr, now: Instant) {
        self.counters[count::IN_REPORTS] += 1;
        if self.version(interface, now) == Version::Sources {
            return;
        }
        if let Some(group) = self.groups.get_mut(&(interface, group)) {
            group.response = None;
            group.old_left = 0;
            group.last_reporter = false;
        }
    }

    /// When the next message is due.
    pub(super) fn due(&self) -> Option<Instant> {
        let links = self.links.values().flat_map(|link| [link.general_at, link.change_at]).flatten();
        let responses = self.groups.values().filter_map(|group| group.response.as_ref().map(|(at, _)| *at));
        links.chain(responses).min()
    }

    /// When the next message about a group is due: all that a wish can have brought forward.
    pub(super) fn due_of(&self, interface: InterfaceIndex, group: IpAddr) -> Option<Instant> {
        let link = self.links.get(&interface).and_then(|link| link.change_at);
        let response = self.groups.get(&(interface, group)).and_then(|group| group.response.as_ref().map(|(at, _)| *at));
        link.into_iter().chain(response).min()
    }

    /// What is due now.
    pub(super) fn run(&mut self, cx: &mut Context<'_>) -> Vec<Outgoing> {
        let now = cx.now;
        let is_due = |at: Option<Instant>| at.is_some_and(|at| at <= now);
        let mut out = Vec::new();
        let interfaces: Vec<InterfaceIndex> = self.links.keys().copied().collect();
        for interface in interfaces {
            let Some(link) = self.links.get_mut(&interface) else { continue };
            let (general, change) = (is_due(link.general_at), is_due(link.change_at));
            if general {
                link.general_at = None;
                out.extend(self.answer_general(interface, cx));
            }
            if change {
                out.extend(self.repeat_changes(interface, cx));
            }
        }
        let due: Vec<Key> =
            self.groups.iter().filter(|(_, group)| is_due(group.response.as_ref().map(|(at, _)| *at))).map(|(key, _)| *key).collect();
        for key in due {
            out.extend(self.answer_group(key, cx));
        }
        out
    }

    fn answer_general(&mut self, interface: InterfaceIndex, cx: &Context<'_>) -> Vec<Outgoing> {
        let none = BTreeSet::new();
        let told = self.of(interface).filter(|(group, _)| !self.is_silent(*group));
        let records: Vec<Record> = told.filter_map(|(ip, group)| group.state_record(ip, &none)).collect();
        if records.is_empty() { Vec::new() } else { self.pack(interface, records, cx) }
    }

    fn repeat_changes(&mut self, interface: InterfaceIndex, cx: &mut Context<'_>) -> Vec<Outgoing> {
        let mut records = Vec::new();
        for key in self.keys_of(interface) {
            if let Some(group) = self.groups.get_mut(&key).filter(|group| group.is_pending()) {
                group.change_records(key.1, &mut records);
            }
            self.tidy(key);
        }
        self.plan_change(interface, cx);
        self.pack(interface, records, cx)
    }

    /// The answer for one group, in the version that is spoken now.
    fn answer_group(&mut self, key: Key, cx: &mut Context<'_>) -> Vec<Outgoing> {
        let version = self.version(key.0, cx.now);
        let told = self.is_told(key.0, key.1, cx);
        let again = cx.now + self.settings.unsolicited_interval_old.mul_f64(cx.rng.unit());
        let Some(group) = self.groups.get_mut(&key) else { return Vec::new() };
        let Some((_, asked)) = group.response.take() else { return Vec::new() };
        if !told {
            return Vec::new();
        }
        if version == Version::Sources {
            let record = group.state_record(key.1, &asked);
            return record.map_or(Vec::new(), |record| self.pack(key.0, vec![record], cx));
        }
        group.last_reporter = true;
        group.old_left = group.old_left.saturating_sub(1);
        if group.old_left > 0 {
            group.response = Some((again, BTreeSet::new()));
        }
        vec![Outgoing::OldReport(key.0, key.1, version)]
    }

    /// Everything wanted on an interface is said again as if it were new: it came up, or its reports have a valid source from now on.
    pub(super) fn say_again(&mut self, interface: InterfaceIndex, cx: &mut Context<'_>) -> Vec<Outgoing> {
        let mut out = Vec::new();
        for key in self.keys_of(interface) {
            let wanted = self.groups.get(&key).is_some_and(|group| !group.current.is_nothing());
            if wanted && self.is_told(key.0, key.1, cx) {
                out.extend(self.tell(key, &Filter::NOTHING, cx));
            }
        }
        out
    }

    /// Interfaces came, went, or changed.
    pub(super) fn interfaces_changed(&mut self, cx: &mut Context<'_>) -> Vec<Outgoing> {
        if !self.facts.refresh(cx) {
            return Vec::new();
        }
        let named: BTreeSet<InterfaceIndex> =
            self.groups.keys().map(|(interface, _)| *interface).chain(self.links.keys().copied()).collect();
        named.into_iter().flat_map(|interface| self.look_at(interface, cx)).collect()
    }

    /// One interface came, went, or changed.
    pub(super) fn interface_changed(&mut self, interface: InterfaceIndex, cx: &mut Context<'_>) -> Vec<Outgoing> {
        let was_dark = self.facts.peek(interface).is_some_and(|facts| facts.up && !facts.carrier);
        let has_interfaces = self.facts.refresh_one(interface, cx);
        let named = self.links.contains_key(&interface) || self.of(interface).next().is_some();
        let mut out = if has_interfaces && named { self.look_at(interface, cx) } else { Vec::new() };
        if named && was_dark && self.traits.roams && self.facts.get(interface, cx).is_some_and(|facts| facts.up && facts.carrier) {
            out.extend(self.say_again(interface, cx));
        }
        out
    }

    fn look_at(&mut self, interface: InterfaceIndex, cx: &mut Context<'_>) -> Vec<Outgoing> {
        let mut out = Vec::new();
        let state = self.facts.get(interface, cx).map(|facts| facts.up);
        match (state, self.up.contains(&interface)) {
            (Some(true), false) => {
                self.up.insert(interface);
                out = self.say_again(interface, cx);
            }
            (Some(false), true) => {
                self.forget_pending(interface);
                self.links.remove(&interface);
            }
            (None, _) => {
                self.links.remove(&interface);
                for key in self.keys_of(interface) {
                    let holders = self.groups.remove(&key).map_or(0, |group| group.holders.len());
                    self.memberships -= holders;
                }
            }
            _ => {}
        }
        if state != Some(true) {
            self.up.remove(&interface);
        }
        out
    }

    /// Rows for people.
    pub(super) fn rows(&self, now: Instant) -> Vec<Value> {
        let row = |((interface, group), entry): (&Key, &Group)| {
            serde_json::json!({
                "interface": interface.0,
                "group": group.to_string(),
                "mode": if entry.current.is_exclude() { "exclude" } else { "include" },
                "sources": entry.current.sources().iter().map(IpAddr::to_string).collect::<Vec<_>>(),
                "holders": entry.holders.len(),
                "version": match (self.version(*interface, now), self.traits.address_bytes) {
                    (Version::Reports, _) | (Version::Leaves, 16) => 1,
                    (Version::Leaves, _) | (Version::Sources, 16) => 2,
                    (Version::Sources, _) => 3,
                },
            })
        };
        self.groups.iter().filter(|(_, entry)| !entry.current.is_nothing()).map(row).collect()
    }

    /// Writes all of it: wishes, and what is still to be said and when.
    pub(super) fn export(&self, out: &mut Writer) {
        let Membership { traits: _, settings: _, facts: _, memberships: _, counters, groups, links, up } = self;
        out.put(counters);
        out.put(groups);
        out.put(links);
        out.put(up);
    }

    /// What was said by the block before this one is not said again, and what it was about to say is said when it would have been.
    pub(super) fn take_over(&mut self, read: Read) {
        let Read { counters, groups, links, up } = read;
        self.memberships = groups.values().map(|group| group.holders.len()).sum();
        (self.counters, self.groups, self.links, self.up) = (counters, groups, links, up);
    }

    /// Reads what [`Membership::export`] wrote.
    pub(super) fn read(&self, from: &mut Reader<'_>) -> Result<Read, Damage> {
        let read = Read { counters: from.take()?, groups: from.take()?, links: from.take()?, up: from.take()? };
        let memberships: usize = read.groups.values().map(|group| group.holders.len()).sum();
        if memberships > self.settings.memberships_max {
            return Err(Damage::new("more memberships than memberships_max"));
        }
        let v4 = self.traits.all_hosts.is_ipv4();
        match read.groups.iter().all(|((_, ip), group)| ip.is_ipv4() == v4 && ip.is_multicast() && group.is_sound()) {
            true => Ok(read),
            false => Err(Damage::new("a group that cannot be")),
        }
    }
}

/// The parts of exported state.
pub(super) struct Read {
    counters: [u64; count::ALL],
    groups: BTreeMap<Key, Group>,
    links: BTreeMap<InterfaceIndex, Link>,
    up: BTreeSet<InterfaceIndex>,
}

weft_core::fields!(struct Link { reports_until, leaves_until, robustness, query_interval, general_at, change_at });
