//! Multicast listener discovery on the host's side: tells routers which IPv6 groups the node's interfaces listen to.
//!
//! Owns the table of IPv6 groups: holders (sockets, and nd for the solicited-node groups of the node's addresses) tell what they want of a
//! group on an interface (`Change::Group`), ip6 asks what to let in (`Query::Wanted`). Queries and reports of others come in through `lower`,
//! from the ICMPv6 header on, their checksum verified; reports leave through `lower` as whole packets with a router alert, a hop limit of 1
//! and the group as next hop. When to say what is [`membership`]'s.
//!
//! It refuses: memberships beyond `memberships_max`, filters of more than `sources_max` sources; messages that do not come from a link-local
//! address with a hop limit of 1; it is no router: reports of others matter only beside a querier of version 1.
//!
//! Standards: RFC 3810 (host), RFC 2710 where such a querier is present, RFC 3590 (sources of reports).

use super::membership::{self, IncomingQuery, Membership, Outgoing, PARAMETERS, Record, Traits, Version, count};
use std::any::Any;
use std::collections::{BTreeMap, BTreeSet};
use std::net::{IpAddr, Ipv6Addr};
use weft_core::table::{AddressState, Family};
use weft_core::*;
use weft_wire::ethernet::EtherType;
use weft_wire::icmpv6::mld::{self, Message, max_response_ms};
use weft_wire::icmpv6::{self};
use weft_wire::{Protocol, igmp, ipv6};

const OUT_LOWER: OutPort = OutPort(0);
const TOKEN: u64 = 0;

/// ff02::1
const ALL_NODES: Ipv6Addr = Ipv6Addr::new(0xff02, 0, 0, 0, 0, 0, 0, 1);
/// ff02::2, where the leaves of version 1 go.
const ALL_ROUTERS: Ipv6Addr = Ipv6Addr::new(0xff02, 0, 0, 0, 0, 0, 0, 2);
/// ff02::16, where reports of version 2 go (RFC 3810 §5.2.14).
const ALL_V2_ROUTERS: Ipv6Addr = Ipv6Addr::new(0xff02, 0, 0, 0, 0, 0, 0, 0x16);
/// A hop-by-hop header with a router alert for MLD (RFC 2711), padded to 8 bytes.
const ROUTER_ALERT: [u8; 8] = [Protocol::ICMPV6.0, 0, 5, 2, 0, 0, 1, 0];
const IP_HEADERS_BYTES: usize = ipv6::HEADER_LEN + ROUTER_ALERT.len();
/// Of a report of version 2, without records.
const REPORT_BYTES: usize = 8;

static TRAITS: Traits = Traits {
    all_hosts: IpAddr::V6(ALL_NODES),
    address_bytes: 16,
    record_bytes: 20,
    overhead_bytes: IP_HEADERS_BYTES + REPORT_BYTES,
    // RFC 3810 §6: nothing is said of ff02::1 and of groups of scope 0 (reserved) and 1 (node-local).
    is_silent: |group| matches!(group, IpAddr::V6(group) if group.octets()[1] & 0xf <= 1),
    // Linux addrconf_notify: "resend MLD reports, we might have roamed and need to update multicast snooping switches".
    roams: true,
};

/// What this kind declares.
pub static KIND: Kind = Kind {
    name: "mld",
    summary: "tells routers which IPv6 groups the interfaces listen to (multicast listener discovery)",
    doc: "Joins the wishes of all holders into one filter a group and interface, and says which packets to groups are let in. Reports every change \
          at once and robustness - 1 times more; answers queries after a random part of the time they allow, all groups of an interface in one \
          report. Beside a querier of version 1 it speaks that version until the querier has been silent for robustness times its query interval. \
          Reports come from the interface's link-local address, from :: while there is none yet, and are sent again once there is one. ff02::1 \
          is listened to always and never reported; nothing is reported on lo.\n\
          Standards: RFC 3810 (host), RFC 2710, RFC 3590.\n\
          Example: bind mld:lower nd:upper",
    inputs: &[Port::optional("lower", Carries::Transport, "received messages of multicast listener discovery, from the ICMPv6 header on")],
    outputs: &[Port::optional("lower", Carries::Link, "whole packets with reports, routed to their group")],
    parameters: &[
        PARAMETERS[0],
        PARAMETERS[1],
        PARAMETERS[2],
        PARAMETERS[3],
        PARAMETERS[4],
        Parameter {
            name: "force_version",
            value: ParameterType::Unsigned { min: 0, max: 2 },
            default: "0",
            live: true,
            doc: "version to speak whatever the querier speaks, 0: by the querier (Linux force_mld_version)",
        },
    ],
    counters: &membership::COUNTERS,
    owns: &[Table::Groups(Family::V6)],
    asks: &[Table::Interfaces, Table::Addresses(Family::V6)],
    state_version: 2,
    ..Kind::EMPTY
};

/// How to make one.
pub const ROW: BlockRow = BlockRow { kind: &KIND, make: |config| Ok(Box::new(Mld::new(config))) };

/// The block.
#[derive(Debug)]
pub struct Mld {
    membership: Membership,
    /// The usable link-local address of each interface that has one.
    sources: BTreeMap<InterfaceIndex, Ipv6Addr>,
    /// When the timer is due.
    due: Option<Instant>,
}

const fn is_link_local(address: Ipv6Addr) -> bool {
    address.segments()[0] & 0xffc0 == 0xfe80
}

impl Mld {
    /// A block without groups.
    pub fn new(config: &mut Config) -> Mld {
        Mld { membership: Membership::new(config, &TRAITS), sources: BTreeMap::new(), due: None }
    }

    fn receive(&mut self, frame: &mut Frame, cx: &mut Context<'_>) -> Verdict {
        let _ = frame.pull_up(frame.len());
        let meta = frame.meta();
        let interface = meta.interface;
        if self.membership.facts.get(interface, cx).is_none() {
            return Verdict::Drop(Reason::UnknownInterface);
        }
        // RFC 3810 §6.2: a query whose source is not link-local, or whose hop limit is not 1, is silently discarded; and reports that hosts hear
        // may come from ::.
        let from_link = matches!(meta.src, IpAddr::V6(src) if is_link_local(src) || src.is_unspecified()) && meta.ttl == 1;
        let message = icmpv6::Message::parse(frame.head());
        let Ok((icmpv6::Message::Mld(message), at)) = message else { return self.refuse() };
        match message {
            _ if !from_link => return self.refuse(),
            Message::Query { max_response_code, group, v2 } => {
                let unspecified = matches!(frame.meta().src, IpAddr::V6(src) if src.is_unspecified());
                let query = read_query(interface, max_response_code, group, v2, frame.head().get(at..).unwrap_or_default());
                let Some(query) = query.filter(|_| !unspecified) else { return self.refuse() };
                self.membership.query(&query, cx);
            }
            Message::Report { group } => self.membership.reported(interface, group.into(), cx.now),
            Message::Done { .. } | Message::ReportV2 { .. } => self.membership.counters[count::IN_REPORTS] += 1,
        }
        Verdict::Consumed
    }

    fn refuse(&mut self) -> Verdict {
        self.membership.counters[count::IN_ERRORS] += 1;
        Verdict::Drop(Reason::BadPacket)
    }

    fn send(&mut self, messages: Vec<Outgoing>, cx: &mut Context<'_>) {
        self.write(messages, cx);
        self.schedule(cx);
    }

    fn write(&mut self, messages: Vec<Outgoing>, cx: &mut Context<'_>) {
        for message in messages {
            let (interface, to, message, lists, counter) = match message {
                Outgoing::Report(interface, records) => {
                    let report = Message::ReportV2 { records: records.len() as u16 };
                    (interface, ALL_V2_ROUTERS, report, write_records(&records), count::OUT_REPORTS)
                }
                Outgoing::OldReport(interface, IpAddr::V6(group), _) => {
                    (interface, group, Message::Report { group }, Vec::new(), count::OUT_REPORTS)
                }
                Outgoing::Leave(interface, IpAddr::V6(group)) => {
                    (interface, ALL_ROUTERS, Message::Done { group }, Vec::new(), count::OUT_LEAVES)
                }
                Outgoing::OldReport(..) | Outgoing::Leave(..) => continue,
            };
            self.membership.counters[counter] += 1;
            // RFC 3590 §4: a report from an interface without a usable link-local address comes from the unspecified one.
            let source = self.sources.get(&interface).copied().unwrap_or(Ipv6Addr::UNSPECIFIED);
            cx.emit(OUT_LOWER, packet(interface, source, to, message, &lists));
        }
    }

    fn schedule(&mut self, cx: &mut Context<'_>) {
        let due = self.membership.due();
        if due != self.due {
            self.due = due;
            match due {
                Some(at) => cx.set_timer(TOKEN, at),
                None => cx.cancel_timer(TOKEN),
            }
        }
    }

    /// The same for one interface.
    fn look_at_addresses_of(&mut self, interface: InterfaceIndex, cx: &mut Context<'_>) {
        let Answer::Addresses(list) = cx.ask(Table::Addresses(Family::V6), &Query::AddressesOf(interface)) else { return };
        let Some((_, ip)) = list.iter().find_map(source) else {
            self.sources.remove(&interface);
            return;
        };
        if self.sources.insert(interface, ip).is_none() {
            let out = self.membership.say_again(interface, cx);
            self.send(out, cx);
        }
    }

    /// RFC 3590 §4: once an interface has a link-local address to report from, its groups are reported again: what came from :: before was for
    /// switches that snoop only.
    fn look_at_addresses(&mut self, cx: &mut Context<'_>) {
        let Answer::Addresses(list) = cx.ask(Table::Addresses(Family::V6), &Query::Addresses) else { return };
        let mut sources = BTreeMap::new();
        for (interface, ip) in list.iter().filter_map(source) {
            sources.entry(interface).or_insert(ip);
        }
        let before = std::mem::replace(&mut self.sources, sources);
        let fresh: Vec<InterfaceIndex> = self.sources.keys().filter(|interface| !before.contains_key(interface)).copied().collect();
        for interface in fresh {
            let out = self.membership.say_again(interface, cx);
            self.send(out, cx);
        }
    }
}

/// The interface and address that reports may come from.
fn source(address: &weft_core::table::Address) -> Option<(InterfaceIndex, Ipv6Addr)> {
    match (address.address, address.state) {
        (IpAddr::V6(ip), AddressState::Preferred | AddressState::Deprecated) if is_link_local(ip) => Some((address.interface, ip)),
        _ => None,
    }
}

/// `None`: malformed.
fn read_query(interface: InterfaceIndex, code: u16, group: Ipv6Addr, v2: Option<mld::QueryV2>, rest: &[u8]) -> Option<IncomingQuery> {
    if !group.is_unspecified() && !group.is_multicast() {
        return None;
    }
    let sources = match v2 {
        Some(v2) => mld::sources(rest, v2.sources).ok()?.iter().map(IpAddr::V6).collect(),
        None => BTreeSet::new(),
    };
    // RFC 2710 §3.4: version 1 has plain milliseconds.
    let max_response_ms = if v2.is_some() { max_response_ms(code) } else { u32::from(code) };
    Some(IncomingQuery {
        interface,
        version: if v2.is_some() { Version::Sources } else { Version::Leaves },
        group: (!group.is_unspecified()).then_some(group.into()),
        sources,
        max_response: Duration::from_millis(u64::from(max_response_ms)),
        robustness: v2.map_or(0, |v2| v2.robustness),
        // Seconds, in the floating format of IGMPv3, whose own unit is a tenth of a second.
        query_interval: v2.map_or(Duration::ZERO, |v2| Duration::from_millis(u64::from(igmp::max_response_ms(v2.interval_code))) * 10),
    })
}

fn write_records(records: &[Record]) -> Vec<u8> {
    let mut bytes = Vec::new();
    for record in records {
        let IpAddr::V6(group) = record.group else { continue };
        let sources: Vec<u8> =
            record.sources.iter().flat_map(|source| if let IpAddr::V6(ip) = source { ip.octets() } else { [0; 16] }).collect();
        let record = mld::Record { kind: record.kind, group, sources: mld::Sources::from_bytes(&sources), auxiliary: &[] };
        let at = bytes.len();
        bytes.resize(at + record.len(), 0);
        if record.emit(&mut bytes[at..]).is_err() {
            bytes.truncate(at);
        }
    }
    bytes
}

fn packet(interface: InterfaceIndex, src: Ipv6Addr, to: Ipv6Addr, message: Message, lists: &[u8]) -> Frame {
    let message = icmpv6::Message::Mld(message);
    let mut bytes = vec![0; message.header_len()];
    bytes.extend_from_slice(lists);
    message.emit(src, to, &mut bytes);
    let header = ipv6::Header {
        payload_len: (ROUTER_ALERT.len() + bytes.len()) as u16,
        next_header: Protocol::HOP_BY_HOP,
        hop_limit: 1,
        src,
        dst: to,
        ..ipv6::Header::default()
    };
    let mut frame = Frame::egress();
    frame.extend(&bytes);
    frame.push(ROUTER_ALERT.len()).copy_from_slice(&ROUTER_ALERT);
    header.emit(frame.push(ipv6::HEADER_LEN));
    let network_at = frame.position();
    let meta = frame.meta_mut();
    meta.interface = interface;
    meta.ether_type = EtherType::IPV6;
    (meta.src, meta.dst, meta.next_hop) = (src.into(), to.into(), Some(to.into()));
    (meta.protocol, meta.ttl) = (Protocol::ICMPV6, 1);
    meta.network_at = network_at;
    meta.transport_at = network_at + IP_HEADERS_BYTES as u16;
    frame
}

impl Block for Mld {
    fn kind(&self) -> &'static Kind {
        &KIND
    }

    fn process(&mut self, _port: InPort, vector: &mut Vector, cx: &mut Context<'_>) {
        vector.each(|frame| self.receive(frame, cx));
        self.schedule(cx);
    }

    fn timer(&mut self, _token: u64, cx: &mut Context<'_>) {
        self.due = None;
        let out = self.membership.run(cx);
        self.send(out, cx);
    }

    fn started(&mut self, cx: &mut Context<'_>) {
        let out = self.membership.interfaces_changed(cx);
        self.send(out, cx);
        self.look_at_addresses(cx);
    }

    fn table_changed(&mut self, table: Table, cx: &mut Context<'_>) {
        match table {
            Table::Interfaces => {
                let out = self.membership.interfaces_changed(cx);
                self.send(out, cx);
            }
            Table::Addresses(Family::V6) => self.look_at_addresses(cx),
            _ => {}
        }
    }

    fn row_changed(&mut self, table: Table, row: Row, cx: &mut Context<'_>) {
        match (table, row) {
            (_, Row::Interface(interface)) => {
                let out = self.membership.interface_changed(interface, cx);
                self.send(out, cx);
            }
            (Table::Addresses(Family::V6), Row::Address(interface, IpAddr::V6(ip))) if is_link_local(ip) => {
                self.look_at_addresses_of(interface, cx);
            }
            _ => {}
        }
    }

    fn change(&mut self, _table: Table, change: Change, cx: &mut Context<'_>) {
        if let Change::Group { interface, group, holder, filter } = change {
            let out = self.membership.wish(interface, group, holder, filter, cx);
            self.write(out, cx);
            // Not all groups need be looked at for one. A timer that is too early does nothing and looks at them.
            if let Some(at) = self.membership.due_of(interface, group).filter(|at| self.due.is_none_or(|due| *at < due)) {
                self.due = Some(at);
                cx.set_timer(TOKEN, at);
            }
        }
    }

    fn query(&self, query: &Query, now: Instant) -> Answer {
        match query {
            Query::Wanted { interface, group, source } => Answer::Wanted(self.membership.wants(*interface, *group, *source)),
            Query::List(Table::Groups(Family::V6)) => Answer::List(self.membership.rows(now)),
            _ => Answer::None,
        }
    }

    fn get(&self, name: &str, _now: Instant) -> Option<Value> {
        self.membership.settings.get(name)
    }

    fn set(&mut self, name: &str, value: Value, _cx: &mut Context<'_>) {
        if let Some(number) = value.as_u64() {
            self.membership.settings.set(name, number);
        }
    }

    fn counters(&self) -> &[u64] {
        &self.membership.counters
    }

    fn export(&self, now: Instant) -> Result<State, StateError> {
        Ok(State::written(&KIND, now, |out| {
            self.membership.export(out);
            out.put(&self.sources);
        }))
    }

    fn import(&mut self, state: &State, now: Instant) -> Result<(), StateError> {
        let (read, sources) = state.taken(&KIND, now, |from| Ok((self.membership.read(from)?, from.take()?)))?;
        self.membership.take_over(read);
        self.sources = sources;
        Ok(())
    }

    fn as_any_mut(&mut self) -> &mut dyn Any {
        self
    }
}
