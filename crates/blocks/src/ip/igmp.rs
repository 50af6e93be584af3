//! IGMP on the host's side: tells routers which IPv4 groups the node's interfaces listen to.
//!
//! Owns the table of IPv4 groups: holders (sockets) tell what they want of a group on an interface (`Change::Group`), ip4 asks what to let in
//! (`Query::Wanted`). Queries and reports of others come in through `lower`; reports leave through `lower` as whole packets with a router
//! alert, a TTL of 1 and the group as next hop. When to say what is [`membership`]'s.
//!
//! It refuses: memberships beyond `memberships_max`, filters of more than `sources_max` sources; it is no router: reports of others matter only
//! beside a querier of version 1 or 2, where one host's report is enough.
//!
//! Standards: RFC 3376 (host), RFC 2236 and RFC 1112 where such a querier is present.

use super::membership::{self, IncomingQuery, Membership, Outgoing, PARAMETERS, RESPONSE_V1, Record, Traits, Version, count};
use std::any::Any;
use std::collections::BTreeSet;
use std::net::{IpAddr, Ipv4Addr};
use weft_core::table::Family;
use weft_core::*;
use weft_wire::ethernet::EtherType;
use weft_wire::igmp::{self, Message, max_response_ms};
use weft_wire::{Protocol, ipv4};

const OUT_LOWER: OutPort = OutPort(0);
const TOKEN: u64 = 0;

/// 224.0.0.1
const ALL_HOSTS: Ipv4Addr = Ipv4Addr::new(224, 0, 0, 1);
/// 224.0.0.2, where leaves go.
const ALL_ROUTERS: Ipv4Addr = Ipv4Addr::new(224, 0, 0, 2);
/// 224.0.0.22, where reports of version 3 go (RFC 3376 §4.2.14).
const ALL_V3_ROUTERS: Ipv4Addr = Ipv4Addr::new(224, 0, 0, 22);
/// RFC 2113: type 148, length 4, "Router shall examine packet".
const ROUTER_ALERT: [u8; 4] = [148, 4, 0, 0];
/// RFC 3376 §4: "Precedence of Internetwork Control (e.g., Type of Service 0xc0)".
const TOS: u8 = 0xc0;
const IP_HEADER_BYTES: usize = ipv4::HEADER_LEN + ROUTER_ALERT.len();

static TRAITS: Traits = Traits {
    all_hosts: IpAddr::V4(ALL_HOSTS),
    address_bytes: 4,
    record_bytes: 8,
    overhead_bytes: IP_HEADER_BYTES + igmp::HEADER_LEN,
    is_silent: |_| false,
    // Linux ip_mc_up: with the interface alone.
    roams: false,
};

/// What this kind declares.
pub static KIND: Kind = Kind {
    name: "igmp",
    summary: "tells routers which IPv4 groups the interfaces listen to (IGMP)",
    doc: "Joins the wishes of all holders into one filter a group and interface, and says which packets to groups are let in. Reports every change \
          at once and robustness - 1 times more; answers queries after a random part of the time they allow, all groups of an interface in one \
          report. Beside a querier of version 1 or 2 it speaks that version until the querier has been silent for robustness times its query \
          interval. 224.0.0.1 is listened to always and never reported; nothing is reported on lo.\n\
          Standards: RFC 3376 (host), RFC 2236, RFC 1112.\n\
          Example: bind igmp:lower arp:upper",
    inputs: &[Port::optional("lower", Carries::Transport, "received messages of protocol 2")],
    outputs: &[Port::optional("lower", Carries::Link, "whole packets with reports, routed to their group")],
    parameters: &[
        PARAMETERS[0],
        PARAMETERS[1],
        PARAMETERS[2],
        PARAMETERS[3],
        PARAMETERS[4],
        Parameter {
            name: "force_version",
            value: ParameterType::Unsigned { min: 0, max: 3 },
            default: "0",
            live: true,
            doc: "version to speak whatever the querier speaks, 0: by the querier (Linux force_igmp_version)",
        },
    ],
    counters: &membership::COUNTERS,
    owns: &[Table::Groups(Family::V4)],
    asks: &[Table::Interfaces, Table::Routes(Family::V4)],
    state_version: 2,
    ..Kind::EMPTY
};

/// How to make one.
pub const ROW: BlockRow = BlockRow { kind: &KIND, make: |config| Ok(Box::new(Igmp::new(config))) };

/// The block.
#[derive(Debug)]
pub struct Igmp {
    membership: Membership,
    /// When the timer is due.
    due: Option<Instant>,
}

impl Igmp {
    /// A block without groups.
    pub fn new(config: &mut Config) -> Igmp {
        Igmp { membership: Membership::new(config, &TRAITS), due: None }
    }

    fn receive(&mut self, frame: &mut Frame, cx: &mut Context<'_>) -> Verdict {
        let _ = frame.pull_up(frame.len());
        let interface = frame.meta().interface;
        if self.membership.facts.get(interface, cx).is_none() {
            return Verdict::Drop(Reason::UnknownInterface);
        }
        let bytes = frame.head();
        if !igmp::verify_checksum(bytes) {
            self.membership.counters[count::IN_ERRORS] += 1;
            return Verdict::Drop(Reason::BadChecksum);
        }
        match Message::parse(bytes) {
            Ok((Message::Query { max_response_code, group, v3 }, at)) => {
                let Some(query) = read_query(interface, max_response_code, group, v3, bytes.get(at..).unwrap_or_default()) else {
                    self.membership.counters[count::IN_ERRORS] += 1;
                    return Verdict::Drop(Reason::BadPacket);
                };
                self.membership.query(&query, cx);
            }
            Ok((Message::ReportV1 { group } | Message::ReportV2 { group }, _)) => self.membership.reported(interface, group.into(), cx.now),
            Ok((Message::ReportV3 { .. } | Message::Leave { .. }, _)) => self.membership.counters[count::IN_REPORTS] += 1,
            // RFC 3376 §4: "Unrecognized message types MUST be silently ignored."
            Ok((Message::Other { .. }, _)) => {}
            Err(_) => {
                self.membership.counters[count::IN_ERRORS] += 1;
                return Verdict::Drop(Reason::BadPacket);
            }
        }
        Verdict::Consumed
    }

    fn send(&mut self, messages: Vec<Outgoing>, cx: &mut Context<'_>) {
        self.write(messages, cx);
        self.schedule(cx);
    }

    fn write(&mut self, messages: Vec<Outgoing>, cx: &mut Context<'_>) {
        for message in messages {
            let (interface, to, bytes, counter) = match message {
                Outgoing::Report(interface, records) => (interface, ALL_V3_ROUTERS, write_report(&records), count::OUT_REPORTS),
                Outgoing::OldReport(interface, IpAddr::V4(group), version) => {
                    let report = if version == Version::Reports { Message::ReportV1 { group } } else { Message::ReportV2 { group } };
                    (interface, group, write(report), count::OUT_REPORTS)
                }
                Outgoing::Leave(interface, IpAddr::V4(group)) => {
                    (interface, ALL_ROUTERS, write(Message::Leave { group }), count::OUT_LEAVES)
                }
                Outgoing::OldReport(..) | Outgoing::Leave(..) => continue,
            };
            self.membership.counters[counter] += 1;
            cx.emit(OUT_LOWER, packet(interface, to, &bytes, cx));
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
}

/// `None`: malformed.
fn read_query(interface: InterfaceIndex, code: u8, group: Ipv4Addr, v3: Option<igmp::QueryV3>, rest: &[u8]) -> Option<IncomingQuery> {
    // RFC 3376 §4.1.9 (IP destinations of queries) is for routers; a query for something that is no group is nothing.
    if !group.is_unspecified() && !group.is_multicast() {
        return None;
    }
    let sources = match v3 {
        Some(v3) => igmp::sources(rest, v3.sources).ok()?.iter().map(IpAddr::V4).collect(),
        None => BTreeSet::new(),
    };
    let millis = |ms: u32| Duration::from_millis(u64::from(ms));
    // RFC 3376 §7.1: the version is told by length and, for the shorter ones, by the max response code.
    let (version, max_response) = match (v3, code) {
        (Some(_), code) => (Version::Sources, millis(max_response_ms(code))),
        (None, 0) => (Version::Reports, RESPONSE_V1),
        (None, code) => (Version::Leaves, millis(u32::from(code) * 100)),
    };
    let query_interval = v3.map_or(Duration::ZERO, |v3| millis(max_response_ms(v3.interval_code)) * 10);
    Some(IncomingQuery {
        interface,
        version,
        group: (!group.is_unspecified()).then_some(group.into()),
        sources,
        max_response,
        robustness: v3.map_or(0, |v3| v3.robustness),
        query_interval,
    })
}

fn write(message: Message) -> Vec<u8> {
    let mut bytes = vec![0; message.header_len()];
    message.emit(&mut bytes);
    bytes
}

fn write_report(records: &[Record]) -> Vec<u8> {
    let mut bytes = vec![0; igmp::HEADER_LEN];
    for record in records {
        let IpAddr::V4(group) = record.group else { continue };
        let sources: Vec<u8> =
            record.sources.iter().flat_map(|source| if let IpAddr::V4(ip) = source { ip.octets() } else { [0; 4] }).collect();
        let record = igmp::Record { kind: record.kind, group, sources: igmp::Sources::from_bytes(&sources), auxiliary: &[] };
        let at = bytes.len();
        bytes.resize(at + record.len(), 0);
        if record.emit(&mut bytes[at..]).is_err() {
            bytes.truncate(at);
        }
    }
    Message::ReportV3 { records: records.len() as u16 }.emit(&mut bytes);
    bytes
}

/// A whole packet with the source that routing would choose; without an address it is 0.0.0.0 (RFC 3376 §4.2.13).
fn packet(interface: InterfaceIndex, to: Ipv4Addr, message: &[u8], cx: &Context<'_>) -> Frame {
    let query =
        Query::Route { destination: to.into(), source: None, interface: Some(interface), traffic: weft_core::table::Traffic::default() };
    let src = match cx.route(&query, Family::V4).map(|answer| answer.source) {
        Some(IpAddr::V4(source)) => source,
        _ => Ipv4Addr::UNSPECIFIED,
    };
    let header = ipv4::Header {
        tos: TOS,
        total_len: (IP_HEADER_BYTES + message.len()) as u16,
        dont_fragment: true,
        ttl: 1,
        protocol: Protocol::IGMP,
        src,
        dst: to,
        options: ipv4::Options::from_bytes(&ROUTER_ALERT).unwrap_or_default(),
        ..ipv4::Header::default()
    };
    let mut frame = Frame::egress();
    frame.extend(message);
    header.emit(frame.push(IP_HEADER_BYTES));
    let network_at = frame.position();
    let meta = frame.meta_mut();
    meta.interface = interface;
    meta.ether_type = EtherType::IPV4;
    (meta.src, meta.dst, meta.next_hop) = (src.into(), to.into(), Some(to.into()));
    (meta.protocol, meta.ttl, meta.tos, meta.dont_fragment) = (Protocol::IGMP, 1, TOS, true);
    meta.network_at = network_at;
    meta.transport_at = network_at + IP_HEADER_BYTES as u16;
    frame
}

impl Block for Igmp {
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
    }

    fn table_changed(&mut self, table: Table, cx: &mut Context<'_>) {
        if table == Table::Interfaces {
            let out = self.membership.interfaces_changed(cx);
            self.send(out, cx);
        }
    }

    fn row_changed(&mut self, _table: Table, row: Row, cx: &mut Context<'_>) {
        if let Row::Interface(interface) = row {
            let out = self.membership.interface_changed(interface, cx);
            self.send(out, cx);
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
            Query::List(Table::Groups(Family::V4)) => Answer::List(self.membership.rows(now)),
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
        Ok(State::written(&KIND, now, |out| self.membership.export(out)))
    }

    fn import(&mut self, state: &State, now: Instant) -> Result<(), StateError> {
        let read = state.taken(&KIND, now, |from| self.membership.read(from))?;
        self.membership.take_over(read);
        Ok(())
    }

    fn as_any_mut(&mut self) -> &mut dyn Any {
        self
    }
}
