//! Requests against tables that stand still: what is written is read by netlink-packet-route, whose idea of the messages is its own; nothing that a program
//! sends makes it panic.

use netlink_packet_core::{NetlinkMessage, NetlinkPayload};
use netlink_packet_route::RouteNetlinkMessage;
use netlink_packet_route::address::{AddressAttribute, AddressHeaderFlags};
use netlink_packet_route::link::{LinkAttribute, State};
use netlink_packet_route::neighbour::{NeighbourAttribute, NeighbourState};
use netlink_packet_route::route::{RouteAttribute, RouteProtocol, RouteType};
use serde_json::{Value, json};
use std::net::IpAddr;
use weft_core::table::{
    Address, AddressState, Answer, Family, Hop, Interface, InterfaceCounts, InterfaceRow, InterfaceSettings, LinkType, Query, Route,
    RouteKind, RouteRow, Table, Which,
};
use weft_core::{ControlError, Instant, InterfaceIndex, Refused};
use weft_netlink::{NETLINK_ROUTE, NETLINK_SOCK_DIAG, Ports, Sender, Session, Tables, named};

const REQUEST: u16 = 1;
const ACK: u16 = 4;
const DUMP: u16 = 0x300;
const SOL_NETLINK: i32 = 270;
const EXT_ACK: i32 = 11;
const STRICT: i32 = 12;

/// A node with lo, weft0 and as many others as one likes, which writes down what it is told.
#[derive(Default)]
struct Still {
    more: u32,
    told: Vec<(String, String, Value)>,
    refuses: Option<Refused>,
    unsupported: Vec<String>,
}

fn interface(index: u32, name: &str, link: LinkType, group: u32) -> InterfaceRow {
    let interface = Interface {
        index: InterfaceIndex(index),
        name: name.to_owned(),
        mac: [2, 0, 0, 0, 0, index as u8],
        mtu: 1500,
        up: true,
        carrier: true,
        link,
        group,
        gso_max_bytes: 0,
        checksum_offload: false,
        backend: "tap:x".to_owned(),
    };
    InterfaceRow {
        interface,
        settings: InterfaceSettings::default(),
        counts: InterfaceCounts { rx_packets: 7, ..InterfaceCounts::default() },
    }
}

fn ip(text: &str) -> IpAddr {
    text.parse().unwrap()
}

/// A route with two next hops of weights 2 and 256, of which the second is dead.
fn several(destination: &str, prefix_bits: u8, first: &str, second: &str) -> RouteRow {
    let of = |gateway: &str, onlink: bool| Route {
        destination: ip(destination),
        prefix_bits,
        gateway: Some(ip(gateway)),
        interface: InterfaceIndex(2),
        onlink,
        ..Route::PLAIN
    };
    let hops = vec![Hop { route: of(first, true), weight: 2, dead: false }, Hop { route: of(second, false), weight: 256, dead: true }];
    RouteRow::with(hops).unwrap()
}

impl Still {
    fn interfaces(&self, which: &Which) -> Vec<InterfaceRow> {
        let first = [interface(1, "lo", LinkType::Loopback, 0), interface(2, "weft0", LinkType::Ethernet, 7)];
        let rest = (3..3 + self.more).map(|index| interface(index, &format!("x{index}"), LinkType::Ethernet, 7));
        let all = first.into_iter().chain(rest);
        let wanted = |row: &InterfaceRow| match which {
            Which::All => true,
            Which::Index(index) => row.interface.index == *index,
            Which::Named(name) => row.interface.name == *name,
            Which::Group(group) => row.interface.group == *group,
        };
        all.filter(wanted).collect()
    }
}

impl Tables for Still {
    fn ask(&mut self, table: Table, query: &Query) -> Answer {
        let weft0 = InterfaceIndex(2);
        match query {
            Query::Interfaces(which) => Answer::Interfaces(self.interfaces(which)),
            Query::Addresses if table == Table::Addresses(Family::V6) => Answer::Addresses(vec![Address {
                state: AddressState::Tentative,
                dynamic: true,
                ..Address::permanent(weft0, ip("fe80::1"), 64)
            }]),
            Query::Addresses => Answer::Addresses(vec![
                Address::permanent(weft0, ip("10.0.0.1"), 24),
                Address { broadcast: Some("10.0.0.255".parse().unwrap()), ..Address::permanent(weft0, ip("10.0.0.2"), 24) },
            ]),
            Query::Routes if table == Table::Routes(Family::V4) => {
                let default = Route { gateway: Some(ip("10.0.0.254")), interface: weft0, ..Route::PLAIN };
                let refuses =
                    Route { destination: ip("10.9.0.0"), prefix_bits: 16, kind: RouteKind::Blackhole, table: 100, ..Route::PLAIN };
                Answer::Routes(vec![default.into(), refuses.into(), several("10.8.0.0", 16, "10.0.0.2", "10.0.0.3")])
            }
            Query::HasTable(table) => Answer::HasTable([100, 254, 255].contains(table)),
            Query::Routes => Answer::Routes(vec![several("fd09::", 64, "fd00::2", "fd00::3")]),
            Query::List(Table::Neighbours(Family::V6)) => Answer::List(vec![
                json!({"interface": 2, "address": "fe80::9", "mac": "02:00:00:00:00:99", "state": "REACHABLE", "router": true,
                    "used_ms": 5000, "confirmed_ms": 1230, "updated_ms": 70, "probes": 2}),
            ]),
            _ => Answer::None,
        }
    }
    fn exec(&mut self, block: &str, procedure: &str, arguments: Value) -> Result<Value, ControlError> {
        if let Some(why) = self.refuses.clone() {
            return Err(ControlError::ExecFailed { block: block.to_owned(), procedure: procedure.to_owned(), why });
        }
        self.told.push((block.to_owned(), procedure.to_owned(), arguments));
        Ok(json!({"index": 9}))
    }
    fn show(&mut self, _: weft_core::Show) -> Value {
        Value::Null
    }
    fn now(&mut self) -> Instant {
        Instant::ZERO
    }
    fn unsupported(&mut self, what: String, _: i32) {
        self.unsupported.push(what);
    }
}

fn request(kind: u16, flags: u16, body: &[u8]) -> Vec<u8> {
    let mut bytes = ((16 + body.len()) as u32).to_ne_bytes().to_vec();
    [kind, flags | REQUEST].iter().for_each(|half| bytes.extend(half.to_ne_bytes()));
    [7_u32, 0].iter().for_each(|word| bytes.extend(word.to_ne_bytes()));
    bytes.extend(body);
    bytes.resize(bytes.len().next_multiple_of(4), 0);
    bytes
}

fn attribute(kind: u16, value: &[u8]) -> Vec<u8> {
    let mut bytes = [(4 + value.len() as u16).to_ne_bytes(), kind.to_ne_bytes()].concat();
    bytes.extend(value);
    bytes.resize(bytes.len().next_multiple_of(4), 0);
    bytes
}

fn session(options: &[i32]) -> Session {
    let mut session = Session::among(3, NETLINK_ROUTE, &Ports::default()).unwrap();
    options.iter().for_each(|option| session.set_option(SOL_NETLINK, *option, &1_i32.to_ne_bytes()).unwrap());
    session
}

/// (type, flags, body) of every message in packets.
fn messages(packets: &[Vec<u8>]) -> Vec<(u16, u16, Vec<u8>)> {
    let mut found = Vec::new();
    for packet in packets {
        let mut rest = &packet[..];
        while rest.len() >= 16 {
            let length = u32::from_ne_bytes(rest[..4].try_into().unwrap()) as usize;
            let half = |at: usize| u16::from_ne_bytes(rest[at..at + 2].try_into().unwrap());
            found.push((half(4), half(6), rest[16..length].to_vec()));
            rest = rest.get(length.next_multiple_of(4)..).unwrap_or_default();
        }
    }
    found
}

/// The messages that netlink-packet-route makes of packets.
fn read(packets: &[Vec<u8>]) -> Vec<RouteNetlinkMessage> {
    let mut found = Vec::new();
    for packet in packets {
        let mut rest = &packet[..];
        while rest.len() >= 16 {
            let parsed = NetlinkMessage::<RouteNetlinkMessage>::deserialize(rest).unwrap();
            if let NetlinkPayload::InnerMessage(message) = parsed.payload {
                found.push(message);
            }
            rest = rest.get((parsed.header.length as usize).next_multiple_of(4)..).unwrap_or_default();
        }
    }
    found
}

/// The errno (positive) and the sentence of a refusal.
fn refusal(packets: &[Vec<u8>]) -> (i32, Option<String>) {
    let (kind, flags, body) = messages(packets).remove(0);
    assert_eq!(kind, 2, "NLMSG_ERROR");
    let errno = -i32::from_ne_bytes(body[..4].try_into().unwrap());
    let text = (flags & 0x200 != 0).then(|| {
        let length = u32::from_ne_bytes(body[4..8].try_into().unwrap()) as usize;
        let at = 4 + length.next_multiple_of(4);
        let end = usize::from(u16::from_ne_bytes(body[at..at + 2].try_into().unwrap()));
        String::from_utf8(body[at + 4..at + end - 1].to_vec()).unwrap()
    });
    (errno, text)
}

/// All packets of an answer, as a program reads them.
fn whole(mut one: Session, packet: &[u8], pid: u32, node: &mut Still) -> Vec<Vec<u8>> {
    let mut packets = one.answers(packet, pid, false, node);
    packets.extend(std::iter::from_fn(|| one.next_part()));
    packets
}

#[test]
fn a_dump_comes_part_by_part_and_another_one_waits_for_its_end() {
    let mut node = Still { more: 100, ..Still::default() };
    let mut one = session(&[]);
    let dump = request(18, DUMP, &[0; 16]);
    assert_eq!(one.answers(&dump, 99, false, &mut node).len(), 1);
    assert_eq!(refusal(&one.answers(&dump, 99, false, &mut node)), (16, None), "EBUSY");
    let rest = std::iter::from_fn(|| one.next_part()).count();
    assert!(rest > 1);
    assert_eq!(messages(&one.answers(&dump, 99, false, &mut node))[0].0, 16);
}

#[test]
fn a_dump_is_multi_part_ends_with_done_and_fits_pages() {
    let mut node = Still { more: 100, ..Still::default() };
    let packets = whole(session(&[]), &request(18, DUMP, &[0; 16]), 99, &mut node);
    assert!(packets.len() > 1 && packets.iter().all(|packet| packet.len() <= 3800));
    let found = messages(&packets);
    assert_eq!(found.len(), 103);
    assert!(found[..102].iter().all(|(kind, flags, _)| (*kind, *flags) == (16, 2)));
    assert_eq!((found[102].0, found[102].1, &found[102].2[..]), (3, 2, &[0; 4][..]));
    let RouteNetlinkMessage::NewLink(weft0) = &read(&packets)[1] else { panic!("not a link") };
    assert_eq!(weft0.header.index, 2);
    for expected in
        [LinkAttribute::IfName("weft0".to_owned()), LinkAttribute::Mtu(1500), LinkAttribute::OperState(State::Up), LinkAttribute::Group(7)]
    {
        assert!(weft0.attributes.contains(&expected), "{expected:?}");
    }
    assert!(weft0.attributes.iter().any(|one| matches!(one, LinkAttribute::Stats64(stats) if stats.rx_packets == 7)));
}

#[test]
fn addresses_routes_and_neighbours_are_what_others_read() {
    let mut node = Still::default();
    let mut ask = |kind: u16, body: &[u8]| read(&whole(session(&[]), &request(kind, DUMP, body), 1, &mut node));
    let addresses = ask(22, &[2, 0, 0, 0, 0, 0, 0, 0]);
    let RouteNetlinkMessage::NewAddress(second) = &addresses[1] else { panic!("not an address") };
    assert!(second.header.flags.contains(AddressHeaderFlags::Secondary | AddressHeaderFlags::Permanent));
    assert!(second.attributes.contains(&AddressAttribute::Broadcast("10.0.0.255".parse().unwrap())));
    assert!(second.attributes.contains(&AddressAttribute::Label("weft0".to_owned())));
    let routes = ask(26, &[2, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0]);
    let RouteNetlinkMessage::NewRoute(blackhole) = &routes[0] else { panic!("not a route") };
    assert_eq!((blackhole.header.kind, blackhole.header.table), (RouteType::BlackHole, 100));
    let RouteNetlinkMessage::NewRoute(default) = &routes[1] else { panic!("not a route") };
    assert_eq!((default.header.destination_prefix_length, default.header.protocol), (0, RouteProtocol::Static));
    assert!(default.attributes.contains(&RouteAttribute::Oif(2)));
    let neighbours = ask(30, &[10, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0]);
    let RouteNetlinkMessage::NewNeighbour(one) = &neighbours[0] else { panic!("not a neighbour") };
    assert_eq!(one.header.state, NeighbourState::Reachable);
    assert!(one.attributes.contains(&NeighbourAttribute::LinkLayerAddress(vec![2, 0, 0, 0, 0, 0x99])));
}

#[test]
fn strict_dumps_are_filtered_and_a_table_that_is_not_there_ends_the_dump() {
    let mut node = Still::default();
    let body = [&[2_u8, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0][..], &attribute(15, &100_u32.to_ne_bytes())].concat();
    let found = messages(&whole(session(&[STRICT]), &request(26, DUMP, &body), 1, &mut node));
    assert_eq!(found.len(), 2);
    assert!(found.iter().all(|(_, flags, _)| flags & 0x20 != 0), "NLM_F_DUMP_FILTERED");
    let body = [&[2_u8, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0][..], &attribute(15, &101_u32.to_ne_bytes())].concat();
    let found = messages(&whole(session(&[STRICT, EXT_ACK]), &request(26, DUMP, &body), 1, &mut node));
    let (kind, flags, body) = &found[0];
    assert_eq!((*kind, flags & 0x200), (3, 0x200), "NLMSG_DONE with NLM_F_ACK_TLVS");
    assert_eq!(i32::from_ne_bytes(body[..4].try_into().unwrap()), -2);
    assert!(String::from_utf8_lossy(body).contains("ipv4: FIB table does not exist"));
}

#[test]
fn a_link_is_set_by_one_procedure_and_acknowledged() {
    let mut node = Still::default();
    let mut body = [&[0_u8; 4][..], &2_u32.to_ne_bytes(), &1_u32.to_ne_bytes(), &1_u32.to_ne_bytes()].concat();
    body.extend(attribute(4, &1400_u32.to_ne_bytes()));
    body.extend(attribute(1, &[2, 0, 0, 0, 0, 9]));
    let packets = session(&[]).answers(&request(16, ACK, &body), 1, true, &mut node);
    assert_eq!(refusal(&packets), (0, None));
    let (block, procedure, arguments) = &node.told[0];
    assert_eq!((&block[..], &procedure[..]), ("interfaces", "set"));
    assert_eq!(*arguments, json!({"mac": "02:00:00:00:00:09", "mtu": 1400, "up": true, "index": 2}));
    // Without the right to it nothing is told.
    node.told.clear();
    let packets = session(&[]).answers(&request(16, ACK, &body), 1, false, &mut node);
    assert_eq!((refusal(&packets), node.told.len()), ((1, None), 0));
}

#[test]
fn a_group_is_set_by_one_procedure_and_the_member_that_cannot_is_named() {
    let mut node = Still::default();
    let mut body = vec![0; 16];
    body.extend(attribute(27, &7_u32.to_ne_bytes()));
    body.extend(attribute(4, &10_u32.to_ne_bytes()));
    assert_eq!(refusal(&session(&[]).answers(&request(16, ACK, &body), 1, true, &mut node)), (0, None));
    assert_eq!(node.told[0].2, json!({"mtu": 10, "of_group": 7}));
    let why = "mtu: 10 is no whole number from 68 to 65535: member 'weft0' of group 7; none is changed";
    node.refuses = Some(Refused::invalid(why));
    let said = refusal(&session(&[EXT_ACK]).answers(&request(16, ACK, &body), 1, true, &mut node));
    assert_eq!(said, (22, Some("mtu less than device minimum: member 'weft0' of group 7; none is changed".to_owned())));
    assert_eq!(refusal(&session(&[]).answers(&request(16, ACK, &body), 1, true, &mut node)), (22, None), "nobody asked for a sentence");
}

#[test]
fn what_is_not_there_is_refused_by_name_and_counted() {
    let mut node = Still::default();
    let route = [&[2_u8, 16, 0, 0, 254, 3, 0, 1, 0, 0, 0, 0][..], &attribute(1, &[10, 9, 0, 0]), &attribute(30, &[0; 4])].concat();
    let said = refusal(&session(&[EXT_ACK]).answers(&request(24, ACK | 0x600, &route), 1, true, &mut node));
    assert_eq!(said, (95, Some("weft has no next-hop objects".to_owned())));
    let rule = refusal(&session(&[EXT_ACK]).answers(&request(32, ACK, &[2; 12]), 1, true, &mut node));
    assert_eq!(rule.0, 95);
    assert_eq!(node.unsupported.len(), 2);
    assert!(node.told.is_empty());
}

/// `struct rtnexthop` with a length of one's own.
fn hop(length: u16, flags: u8, hops: u8, interface: u32, attributes: &[u8]) -> Vec<u8> {
    [&length.to_ne_bytes()[..], &[flags, hops], &interface.to_ne_bytes(), attributes].concat()
}

fn route_request(v4: bool, hops: &[u8]) -> Vec<u8> {
    let (head, destination): ([u8; 12], &[u8]) = match v4 {
        true => ([2, 16, 0, 0, 254, 3, 0, 1, 0, 0, 0, 0], &[10, 9, 0, 0]),
        false => ([10, 16, 0, 0, 254, 3, 0, 1, 0, 0, 0, 0], &[0xfd, 9, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0]),
    };
    let body = [&head[..], &attribute(1, destination), &attribute(9, hops)].concat();
    request(24, ACK | 0x600, &body)
}

#[test]
fn several_next_hops_are_what_others_read_and_what_is_asked_is_told() {
    let mut node = Still::default();
    for (family, addresses) in [(2, ["10.0.0.2", "10.0.0.3"]), (10, ["fd00::2", "fd00::3"])] {
        let body = [family, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0];
        let routes = read(&whole(session(&[]), &request(26, DUMP, &body), 1, &mut node));
        let hops = routes.iter().find_map(|message| match message {
            RouteNetlinkMessage::NewRoute(route) => route.attributes.iter().find_map(|one| match one {
                RouteAttribute::MultiPath(hops) => Some(hops.clone()),
                _ => None,
            }),
            _ => None,
        });
        let hops = hops.unwrap();
        assert_eq!(hops.iter().map(|hop| (hop.interface_index, hop.hops)).collect::<Vec<_>>(), [(2, 1), (2, 255)]);
        let flags: Vec<u8> = hops.iter().map(|hop| hop.flags.bits()).collect();
        assert_eq!(flags, [4, 1 | 16], "onlink; dead and linkdown");
        for (hop, address) in hops.iter().zip(addresses) {
            let gateway = match ip(address) {
                IpAddr::V4(address) => RouteAttribute::Gateway(netlink_packet_route::route::RouteAddress::Inet(address)),
                IpAddr::V6(address) => RouteAttribute::Gateway(netlink_packet_route::route::RouteAddress::Inet6(address)),
            };
            assert!(hop.attributes.contains(&gateway), "{hop:?}");
        }
    }
    let hops = [hop(16, 4, 2, 2, &attribute(5, &[10, 77, 0, 2])), hop(16, 0, 255, 0, &attribute(5, &[10, 0, 0, 3]))].concat();
    assert_eq!(refusal(&session(&[]).answers(&route_request(true, &hops), 1, true, &mut node)), (0, None));
    let told = &node.told.iter().find(|(_, procedure, _)| procedure == "route_add").unwrap().2["nexthops"];
    let wanted = json!([{"gateway": "10.77.0.2", "interface": 2, "weight": 3, "onlink": true}, {"gateway": "10.0.0.3", "weight": 256, "onlink": false}]);
    assert_eq!(*told, wanted);
}

#[test]
fn next_hops_that_make_no_sense_are_refused_in_the_kernels_words() {
    let mut node = Still::default();
    let gateway = attribute(5, &[10, 0, 0, 2]);
    let good = hop(16, 0, 0, 2, &gateway);
    let mut said = |v4: bool, hops: &[u8]| refusal(&session(&[EXT_ACK]).answers(&route_request(v4, hops), 1, true, &mut node));
    let words = |errno: i32, text: &str| (errno, Some(text.to_owned()));
    let extra = words(22, "Invalid nexthop configuration - extra data after nexthops");
    assert_eq!(said(true, &[]), (22, None));
    assert_eq!(said(false, &[]), words(22, "Invalid nexthop configuration - no valid nexthops"));
    // Lengths: shorter than the structure, longer than what is there, bytes behind the last.
    for (length, rest) in [(7, &gateway[..]), (0, &gateway), (17, &gateway), (u16::MAX, &gateway)] {
        assert_eq!(said(true, &[good.clone(), hop(length, 0, 0, 2, rest)].concat()), extra, "{length}");
        assert_eq!(said(false, &hop(length, 0, 0, 2, rest)).0, 22, "{length}");
    }
    assert_eq!(said(true, &[&good[..], &[0; 4]].concat()), extra);
    assert_eq!(said(true, &hop(16, 1, 0, 2, &gateway)), words(22, "Invalid flags for nexthop - can not contain DEAD or LINKDOWN"));
    assert_eq!(said(true, &hop(12, 0, 0, 2, &attribute(5, &[]))), words(22, "Invalid IPv4 address in RTA_GATEWAY"));
    assert_eq!(said(false, &hop(16, 0, 0, 2, &gateway)), words(22, "Invalid IPv6 address in RTA_GATEWAY"));
    let device_only = "Device only routes can not be added for IPv6 using the multipath API.";
    assert_eq!(said(false, &hop(8, 0, 0, 2, &[])), words(22, device_only));
    assert_eq!(said(true, &hop(16, 4, 0, 0, &gateway)), words(19, "Nexthop device required for onlink"));
    assert_eq!(said(true, &hop(16, 0, 0, 77, &gateway)), (19, None));
    assert_eq!(said(true, &hop(16, 0, 0, 2, &attribute(22, &[0; 4]))), words(95, "weft has no routes that encapsulate"));
    assert!(node.told.is_empty());
}

#[test]
fn no_next_hops_make_it_panic() {
    let mut node = Still::default();
    let mut rng = weft_core::Rng::for_name(7, "hops");
    for _ in 0..20_000 {
        let mut hops = Vec::new();
        for _ in 0..rng.u64() % 5 {
            let value: Vec<u8> = (0..rng.u64() % 20).map(|_| rng.u64() as u8).collect();
            let inside = attribute((rng.u64() % 32) as u16, &value);
            let length = if rng.u64().is_multiple_of(3) { rng.u64() as u16 } else { 8 + inside.len() as u16 };
            hops.extend(hop(length, rng.u64() as u8, rng.u64() as u8, (rng.u64() % 4) as u32, &inside));
        }
        hops.truncate(rng.u64() as usize % (hops.len() + 1));
        node.told.clear();
        let mut packet = route_request(rng.u64().is_multiple_of(2), &hops);
        packet[4] = 24 + (rng.u64() % 2) as u8;
        let answers = session(&[EXT_ACK]).answers(&packet, 1, true, &mut node);
        let (errno, _) = refusal(&answers);
        let whole = |told: &(String, String, Value)| told.2["nexthops"].as_array().is_none_or(|hops| !hops.is_empty());
        assert!(
            errno == 0 && node.told.len() == 1 && node.told.iter().all(whole) || errno > 0 && node.told.is_empty(),
            "{errno}: {hops:?}"
        );
    }
}

#[test]
fn groups_of_a_socket_hear_what_they_asked_for_and_one_packet_has_all_of_a_group() {
    let mut node = Still { more: 3, ..Still::default() };
    let mut listener = session(&[]);
    assert!(!listener.listens());
    listener.bind(&[16, 0, 0, 0, 0, 0, 0, 0, 1, 0, 0, 0], 7).unwrap();
    let value = json!({"group": 7, "event": "set", "members": [2, 3, 4, 5]});
    let (sender, packet) = listener.notification("group_changed", &value, &mut node).unwrap();
    assert_eq!(sender, Sender::kernel_to(1));
    assert_eq!(messages(&[packet]).iter().map(|(kind, ..)| *kind).collect::<Vec<_>>(), [16; 4]);
    let gone: Vec<Value> = [9, 10].map(|index| json!(interface(index, &format!("g{index}"), LinkType::Ethernet, 7))).to_vec();
    let value = json!({"group": 7, "event": "removed", "members": [9, 10], "rows": gone});
    let told = messages(&[listener.notification("group_changed", &value, &mut node).unwrap().1]);
    for ((kind, _, body), index) in told.iter().zip([9, 10_u32]) {
        // What is no more is told as it was: RTM_DELLINK with number, name and MAC address.
        assert_eq!((*kind, &body[4..8]), (17, &index.to_ne_bytes()[..]));
        let has = |bytes: &[u8]| body.windows(bytes.len()).any(|window| window == bytes);
        assert!(has(format!("g{index}\0").as_bytes()) && has(&[2, 0, 0, 0, 0, index as u8]) && has(b"noop\0"));
    }
    assert_eq!(told.len(), 2);
    let row = Address::permanent(InterfaceIndex(2), ip("10.0.0.1"), 24);
    let address = json!({"interface": 2, "address": "10.0.0.1", "prefix_bits": 24, "event": "deleted", "row": row});
    assert_eq!(listener.notification("address", &address, &mut node), None, "it did not ask for addresses");
    listener.set_option(SOL_NETLINK, 1, &5_u32.to_ne_bytes()).unwrap();
    let (sender, packet) = listener.notification("address", &address, &mut node).unwrap();
    assert_eq!(sender.name(), named(0, 16));
    assert_eq!(messages(&[packet])[0].0, 21, "RTM_DELADDR");
    assert_eq!(listener.set_option(SOL_NETLINK, 1, &0_u32.to_ne_bytes()), Err(22));
    assert_eq!(listener.set_option(SOL_NETLINK, 1, &[5]), Err(22), "a short value is 0");
    assert_eq!(listener.set_option(SOL_NETLINK, 77, &0_u32.to_ne_bytes()), Err(92));
}

#[test]
fn sessions_are_of_two_protocols_and_bind_as_the_kernel_does() {
    assert_eq!(Session::among(1, NETLINK_ROUTE, &Ports::default()).unwrap_err(), 94);
    assert_eq!(Session::among(3, 15, &Ports::default()).unwrap_err(), 93);
    let mut one = Session::among(2, NETLINK_SOCK_DIAG, &Ports::default()).unwrap();
    assert_eq!(one.bind(&[2, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0], 5), Err(22));
    assert_eq!(one.name()[4..8], [0; 4], "a name is none before it is bound");
    one.bind(&[16, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0], 5).unwrap();
    assert_eq!(one.name()[4..8], 5_u32.to_ne_bytes());
    assert_eq!(one.bind(&[16, 0, 0, 0, 6, 0, 0, 0, 0, 0, 0, 0], 5), Err(22), "it has a port already");
}

#[test]
fn whom_a_socket_may_send_to_and_from_whom_it_hears() {
    let ports = Ports::default();
    let mut one = Session::among(3, NETLINK_ROUTE, &ports).unwrap();
    for manages in [false, true] {
        let somebody = |refused: i32| if manages { Ok(()) } else { Err(refused) };
        // The first group is bit 0.
        for (port, groups) in [(0, 0), (9, 0), (0, 1), (9, 1)] {
            let name = named(port, groups);
            let allowed = if (port, groups) == (0, 0) { Ok(()) } else { somebody(1) };
            assert_eq!(one.connect(&name, 5, manages), allowed, "connect {port} {groups} {manages}");
            one.connect(&[0, 0], 5, manages).unwrap();
            let sent = one.destination(Some(&name), 0, 20, 5, manages);
            assert_eq!(sent, allowed.map(|()| (port, groups)), "send {port} {groups} {manages}");
        }
        // A connected socket sends without a name, whether there is no pointer to one or it has no length.
        one.connect(&named(9, 0), 5, true).unwrap();
        assert_eq!(one.destination(None, 0, 20, 5, manages), Ok((9, 0)));
        assert_eq!(one.destination(Some(&[]), 0, 20, 5, manages), Ok((9, 0)));
        assert_eq!(one.destination(Some(&[16, 0, 0]), 0, 20, 5, manages), Err(22));
    }
    assert_eq!((one.number(), one.peer_name()), (5, named(9, 0)));
    assert_eq!([9, 0, 8].map(|from| one.takes(NETLINK_ROUTE, 5, from)), [true, false, false], "it is connected to 9");
    assert!(!one.takes(NETLINK_SOCK_DIAG, 5, 9) && !one.takes(NETLINK_ROUTE, 6, 9));
    // The kernel's answers are packets from 0; a dump comes without a look at that.
    let mut node = Still::default();
    let link_of = |index: u8| [0, 0, 0, 0, index, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0];
    let asked = request(18, 4, &link_of(1));
    assert!(one.answers(&asked, 5, true, &mut node).is_empty());
    assert!(!one.answers(&request(18, 0x300, &link_of(0)), 5, true, &mut node).is_empty());
    one.connect(&[0, 0], 5, true).unwrap();
    assert_eq!([9, 0, 8].map(|from| one.takes(NETLINK_ROUTE, 5, from)), [true; 3]);
    assert!(!one.answers(&asked, 5, true, &mut node).is_empty());
    assert_eq!(one.peer_name(), named(0, 0));
}

#[test]
fn a_length_below_zero_is_none_of_an_option() {
    let one = session(&[]);
    for (level, name) in [(1, 3), (1, 8), (1, 38), (1, 39), (1, 1000), (SOL_NETLINK, 9), (SOL_NETLINK, 10), (SOL_NETLINK, 77)] {
        assert_eq!(one.option(level, name, -1), Err(22), "{level} {name}");
    }
    assert_eq!(one.option(6, 1, -1), Err(92), "the level comes first");
}

#[test]
fn no_bytes_make_it_panic() {
    let mut node = Still::default();
    let mut state = 0x2545_f491_4f6c_dd1d_u64;
    let mut random = move || {
        state ^= state << 13;
        state ^= state >> 7;
        state ^= state << 17;
        state
    };
    for _ in 0..40_000 {
        let kind = [16, 17, 18, 19, 20, 21, 22, 24, 25, 26, 28, 29, 30, 32, 34, 38][random() as usize % 16];
        let mut body: Vec<u8> = (0..random() % 24).map(|_| random() as u8).collect();
        for _ in 0..random() % 6 {
            let value: Vec<u8> = (0..random() % 20).map(|_| random() as u8).collect();
            body.extend(attribute((random() % 64) as u16, &value));
        }
        if let Some(first) = body.first_mut().filter(|_| random() % 4 != 0) {
            *first = [0, 2, 10][random() as usize % 3];
        }
        let mut packet = request(kind, random() as u16, &body);
        if random() % 8 == 0 {
            packet.truncate(random() as usize % (packet.len() + 1));
        }
        node.told.clear();
        node.refuses = (random() % 3 == 0).then(|| Refused::exists("it is there"));
        for protocol in [NETLINK_ROUTE, NETLINK_SOCK_DIAG] {
            let mut session = Session::among(3, protocol, &Ports::default()).unwrap();
            session.answers(&packet, 1, true, &mut node);
        }
    }
}
