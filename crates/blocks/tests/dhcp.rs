//! A DHCP client beside a scripted server: what it says and when, what becomes addresses and routes, and what it does not take.

use crate::common;

use common::*;
use proptest::prelude::*;
use serde_json::json;
use std::net::Ipv4Addr;
use std::time::Duration;
use weft_core::control::End;
use weft_core::table::Family;
use weft_core::*;
use weft_wire::dhcp::{self, CLIENT_PORT, Header, MessageType, SERVER_PORT, code, op};
use weft_wire::ethernet::{EtherType, Mac};
use weft_wire::{Protocol, checksum, udp};

const SERVER: Ipv4Addr = PEER_IP;
const OTHER: Ipv4Addr = Ipv4Addr::new(10, 0, 0, 3);
const GIVEN: Ipv4Addr = Ipv4Addr::new(10, 0, 0, 77);

/// A message of the client: its fixed part, and its options as they stand.
struct Said {
    to_mac: Mac,
    src: Ipv4Addr,
    dst: Ipv4Addr,
    header: Header,
    options: Vec<(u8, Vec<u8>)>,
}

impl Said {
    fn read(frame: &[u8]) -> Option<Said> {
        let (ether, _) = weft_wire::ethernet::Header::parse(frame).unwrap();
        if ether.ether_type != EtherType::IPV4 {
            return None;
        }
        let (ether, ip, datagram) = parse_ip(frame);
        if ip.protocol != Protocol::UDP {
            return None;
        }
        let (ports, at) = udp::Header::parse(&datagram).unwrap();
        assert_eq!((ports.src_port, ports.dst_port, usize::from(ports.length)), (CLIENT_PORT, SERVER_PORT, datagram.len()));
        let sum = checksum::pseudo_v4(ip.src, ip.dst, Protocol::UDP.0, datagram.len() as u32).add_bytes(&datagram);
        assert_eq!(sum.fold(), 0xffff, "the checksum holds");
        let message = &datagram[at..];
        assert!(message.len() >= dhcp::MESSAGE_LEN_MIN);
        let (header, _) = Header::parse(message).unwrap();
        let options = dhcp::Options::parse(message).unwrap().iter().map(|(code, value)| (code, value.to_vec())).collect();
        Some(Said { to_mac: ether.dst, src: ip.src, dst: ip.dst, header, options })
    }

    fn option(&self, code: u8) -> Option<&[u8]> {
        self.options.iter().find(|(found, _)| *found == code).map(|(_, value)| &value[..])
    }

    fn address(&self, code: u8) -> Option<Ipv4Addr> {
        self.option(code).map(|value| Ipv4Addr::from(<[u8; 4]>::try_from(value).unwrap()))
    }

    /// In words: type, way, and what stands in it.
    fn words(&self) -> String {
        let kind = MessageType::try_from(self.option(code::MESSAGE_TYPE).unwrap()[0]).unwrap();
        let mut words = format!("{kind:?} {} > {}", self.src, self.dst);
        for (name, address) in [
            ("own", Some(self.header.client).filter(|own| !own.is_unspecified())),
            ("wanted", self.address(code::REQUESTED_ADDRESS)),
            ("server", self.address(code::SERVER_IDENTIFIER)),
        ] {
            if let Some(address) = address {
                words += &format!(" {name} {address}");
            }
        }
        words
    }
}

/// An answer: its fixed part, and options.
struct Answer {
    header: Header,
    from: Ipv4Addr,
    to: Ipv4Addr,
    options: Vec<(u8, Vec<u8>)>,
}

impl Answer {
    /// As a usual server answers: 1000 s, a mask of 24 bits.
    fn to(said: &Said, kind: MessageType) -> Answer {
        let yours = if kind == MessageType::Nak { Ipv4Addr::UNSPECIFIED } else { GIVEN };
        let header = Header { op: op::REPLY, yours, client: Ipv4Addr::UNSPECIFIED, secs: 0, ..said.header };
        let mut options = vec![(code::MESSAGE_TYPE, vec![kind as u8]), (code::SERVER_IDENTIFIER, SERVER.octets().to_vec())];
        if kind != MessageType::Nak {
            options.push((code::LEASE_TIME, 1000u32.to_be_bytes().to_vec()));
            options.push((code::SUBNET_MASK, vec![255, 255, 255, 0]));
        }
        Answer { header, from: SERVER, to: Ipv4Addr::BROADCAST, options }
    }

    fn with(mut self, code: u8, value: &[u8]) -> Answer {
        self.options.retain(|(other, _)| *other != code);
        self.options.push((code, value.to_vec()));
        self
    }

    fn without(mut self, code: u8) -> Answer {
        self.options.retain(|(other, _)| *other != code);
        self
    }

    fn message(&self) -> Vec<u8> {
        let mut bytes = vec![0; 1400];
        self.header.emit(&mut bytes);
        let mut writer = dhcp::Writer::new(&mut bytes[dhcp::HEADER_LEN..]);
        for (code, value) in &self.options {
            writer.put(*code, value).unwrap();
        }
        let end = dhcp::HEADER_LEN + writer.end();
        bytes.truncate(end);
        bytes
    }

    fn frame(&self) -> Vec<u8> {
        frame_of(&self.message(), self.from, self.to)
    }
}

fn frame_of(message: &[u8], from: Ipv4Addr, to: Ipv4Addr) -> Vec<u8> {
    let datagram = udp_segment(from, SERVER_PORT, to, CLIENT_PORT, message);
    let mac = if to.is_broadcast() { Mac::BROADCAST } else { OUR_MAC };
    ethernet(mac, PEER_MAC, EtherType::IPV4, &ip_packet(header(from, to, Protocol::UDP), &datagram))
}

/// A node whose graph has the block, and eth0 without an address.
fn bare() -> Node {
    let mut node = Node::bare(Mode::Inline);
    let parameters = [("interfaces".to_owned(), json!(["eth0"])), ("host_name".to_owned(), json!("lab-1"))];
    let bind = |from, to| Op::Bind { from: End::parse(from), to: End::parse(to) };
    let ops = vec![
        Op::Add { name: "dhcp".to_owned(), kind: "dhcp".to_owned(), parameters: parameters.into_iter().collect() },
        Op::Unbind { from: End::parse("ether:ip4"), to: Some(End::parse("ip4:lower")) },
        bind("ether:ip4", "dhcp:lower"),
        bind("dhcp:upper", "ip4:lower"),
        bind("dhcp:out", "arp:upper"),
    ];
    node.control(Op::All(ops)).unwrap();
    node
}

fn up(node: &mut Node) -> Vec<Said> {
    node.exec("interfaces", "add", json!({"name": "eth0", "mac": OUR_MAC.to_string()})).unwrap();
    said(node.wire())
}

fn said(frames: Vec<Vec<u8>>) -> Vec<Said> {
    frames.iter().filter_map(|frame| Said::read(frame)).collect()
}

fn answer(node: &mut Node, answer: &Answer) -> Vec<Said> {
    said(node.receive(&answer.frame()))
}

fn words(said: &[Said]) -> Vec<String> {
    said.iter().map(Said::words).collect()
}

/// Takes a lease; both answers are changed so.
fn lease(change: impl Fn(Answer) -> Answer) -> (Node, Vec<Said>) {
    let mut node = bare();
    let discover = up(&mut node);
    let request = answer(&mut node, &change(Answer::to(&discover[0], MessageType::Offer)));
    let ack = request.first().map(|request| change(Answer::to(request, MessageType::Ack)));
    let rest = ack.map(|ack| answer(&mut node, &ack)).unwrap_or_default();
    (node, rest)
}

fn bound() -> Node {
    lease(|answer| answer).0
}

fn addresses(node: &mut Node) -> Vec<String> {
    let rows = node.list(Table::Addresses(Family::V4));
    rows.iter()
        .filter(|row| row["interface"] == 2)
        .map(|row| format!("{}/{}", row["address"].as_str().unwrap(), row["prefix_bits"]))
        .collect()
}

/// Those of the lease: the metric says which.
fn routes(node: &mut Node) -> Vec<String> {
    let rows = node.list(Table::Routes(Family::V4));
    let of = |row: &Value| format!("{} {} 1002", row["destination"].as_str().unwrap(), row["gateway"].as_str().unwrap_or("link"));
    rows.iter().filter(|row| row["metric"] == 1002).map(of).collect()
}

fn state(node: &mut Node) -> String {
    let rows = node.exec("dhcp", "leases", Value::Null).unwrap();
    rows[0]["state"].as_str().unwrap_or("none").to_owned()
}

/// What is said while time passes, each with its second.
fn over(node: &mut Node, seconds: u64) -> Vec<(u64, String)> {
    let mut all = Vec::new();
    for _ in 0..seconds * 2 {
        let new = said(node.advance(Duration::from_millis(500)));
        let second = node.now.as_millis() / 1000;
        all.extend(new.iter().map(|said| (second, said.words())));
    }
    all
}

#[test]
fn a_lease_is_asked_for_offered_requested_and_granted() {
    let mut node = bare();
    let discover = up(&mut node);
    assert_eq!(words(&discover), ["Discover 0.0.0.0 > 255.255.255.255"]);
    let first = &discover[0];
    assert_eq!((first.to_mac, first.header.flags, first.header.hardware()), (Mac::BROADCAST, dhcp::BROADCAST, &OUR_MAC.0[..]));
    assert_eq!(first.option(code::CLIENT_IDENTIFIER), Some(&[1, 2, 0, 0, 0, 0, 1][..]));
    assert_eq!(first.option(code::HOST_NAME), Some(&b"lab-1"[..]));
    assert_eq!(first.option(code::MESSAGE_LEN_MAX), Some(&1500u16.to_be_bytes()[..]));
    assert!(first.option(code::PARAMETERS).unwrap().contains(&code::CLASSLESS_ROUTES));
    let offer = Answer::to(first, MessageType::Offer).with(code::ROUTERS, &[10, 0, 0, 254]);
    let request = answer(&mut node, &offer);
    assert_eq!(words(&request), ["Request 0.0.0.0 > 255.255.255.255 wanted 10.0.0.77 server 10.0.0.2"]);
    // RFC 2131 §4.4.1: a request has the transaction of the offer that it takes.
    assert_eq!((request[0].header.xid, request[0].header.secs), (first.header.xid, first.header.secs));
    assert_eq!((addresses(&mut node), state(&mut node)), (Vec::new(), "REQUESTING".to_owned()));
    let ack = Answer::to(&request[0], MessageType::Ack)
        .with(code::ROUTERS, &[10, 0, 0, 254, 10, 0, 0, 253])
        .with(code::NAME_SERVERS, &[10, 0, 0, 53, 0, 0, 0, 0, 224, 0, 0, 1, 9, 9, 9, 9])
        .with(code::DOMAIN_NAME, b"lab.example");
    assert_eq!(answer(&mut node, &ack).len(), 0);
    assert_eq!((addresses(&mut node), routes(&mut node)), (vec!["10.0.0.77/24".to_owned()], vec!["default 10.0.0.254 1002".to_owned()]));
    let alerts = node.engine.take_alerts();
    // RTPROT_DHCP.
    assert!(alerts.iter().any(|alert| alert.value["destination"] == "default" && alert.value["protocol"] == 16));
    let alerts: Vec<Value> = alerts.into_iter().filter(|alert| alert.name == "bound").map(|alert| alert.value).collect();
    let told = json!({"interface": "eth0", "index": 2, "address": "10.0.0.77/24", "server": "10.0.0.2", "router": "10.0.0.254",
        "name_servers": ["10.0.0.53", "9.9.9.9"], "domain": "lab.example", "seconds": 1000});
    assert_eq!(alerts, [told]);
    node.advance(Duration::from_secs(100));
    let row = node.exec("dhcp", "leases", Value::Null).unwrap();
    assert_eq!((&row[0]["seconds"], &row[0]["state"]), (&json!(900), &json!("BOUND")));
}

#[test]
fn a_server_may_answer_to_the_address_that_it_offers() {
    // As passt does, whatever the flag says; ip4 would not take what is for nobody's address.
    let (mut node, _) = lease(|answer| Answer { to: GIVEN, ..answer });
    assert_eq!(addresses(&mut node), ["10.0.0.77/24"]);
}

#[test]
fn silence_is_answered_by_repeating_ever_more_rarely() {
    let mut node = bare();
    up(&mut node);
    let all = over(&mut node, 400);
    assert!(all.iter().all(|(_, words)| words == "Discover 0.0.0.0 > 255.255.255.255"));
    let times: Vec<u64> = std::iter::once(0).chain(all.iter().map(|(second, _)| *second)).collect();
    let gaps: Vec<u64> = times.windows(2).map(|pair| pair[1] - pair[0]).collect();
    // RFC 2131 §4.1: 4, 8, 16, 32, 64 s, each a second more or less; steps of half a second are looked at.
    for (gap, usual) in gaps.iter().zip([4, 8, 16, 32, 64, 64, 64, 64]) {
        assert!(gap.abs_diff(usual) <= 2, "{gaps:?}");
    }
    assert!((7..=9).contains(&gaps.len()), "{gaps:?}");
}

#[test]
fn a_request_that_nobody_answers_begins_again() {
    let mut node = bare();
    let discover = up(&mut node);
    answer(&mut node, &Answer::to(&discover[0], MessageType::Offer));
    let all = over(&mut node, 80);
    let kinds: Vec<&str> = all.iter().map(|(_, words)| words.split(' ').next().unwrap()).collect();
    assert_eq!(kinds[..4], ["Request", "Request", "Request", "Discover"], "{all:?}");
}

#[test]
fn a_lease_is_renewed_by_its_server_then_by_any_and_ends() {
    let mut node = bound();
    // The server's link-layer address is known: what goes to it needs no ARP.
    node.exec("arp", "add", json!({"interface": "eth0", "address": SERVER.to_string(), "mac": PEER_MAC.to_string()})).unwrap();
    let all = over(&mut node, 999);
    let renewing = "Request 10.0.0.77 > 10.0.0.2 own 10.0.0.77".to_owned();
    let rebinding = "Request 10.0.0.77 > 255.255.255.255 own 10.0.0.77".to_owned();
    // T1 at 500 s, then at half of what is left until T2 at 875 s, but after 60 s; then of what is left until the end.
    let right = [500, 687, 781, 841].map(|at| (at, renewing.clone()));
    assert_eq!(all[..4], right);
    assert_eq!(all[4..], [875, 937, 997].map(|at| (at, rebinding.clone())));
    assert_eq!(addresses(&mut node), ["10.0.0.77/24"]);
    let after = over(&mut node, 2);
    assert_eq!(after, [(1000, "Discover 0.0.0.0 > 255.255.255.255".to_owned())]);
    assert_eq!((addresses(&mut node), node.counter("dhcp", "Lost")), (Vec::new(), 1));
    assert!(node.engine.take_alerts().iter().any(|alert| alert.name == "lost" && alert.value["why"] == "nobody renewed it"));
}

#[test]
fn an_answer_to_a_renewal_begins_the_lease_anew() {
    let mut node = lease(|answer| answer.with(code::ROUTERS, &[10, 0, 0, 254])).0;
    node.exec("arp", "add", json!({"interface": "eth0", "address": SERVER.to_string(), "mac": PEER_MAC.to_string()})).unwrap();
    let asked = said(node.advance(Duration::from_secs(501)));
    assert_eq!(asked[0].header.flags, 0, "it has an address to be answered at");
    let others = Answer { from: OTHER, ..Answer::to(&asked[0], MessageType::Ack) }.with(code::SERVER_IDENTIFIER, &OTHER.octets());
    answer(&mut node, &others);
    assert_eq!((state(&mut node), node.counter("dhcp", "InRefused")), ("RENEWING".to_owned(), 1), "only its server was asked");
    let ack = Answer { to: GIVEN, ..Answer::to(&asked[0], MessageType::Ack) }.with(code::ROUTERS, &[10, 0, 0, 253]);
    answer(&mut node, &ack);
    let row = node.exec("dhcp", "leases", Value::Null).unwrap();
    assert_eq!((&row[0]["state"], &row[0]["seconds"]), (&json!("BOUND"), &json!(999)), "it counts from the question");
    assert_eq!((addresses(&mut node), routes(&mut node)), (vec!["10.0.0.77/24".to_owned()], vec!["default 10.0.0.253 1002".to_owned()]));
}

#[test]
fn a_server_says_when() {
    let times = |answer: Answer| answer.with(code::RENEWAL_TIME, &20u32.to_be_bytes()).with(code::REBINDING_TIME, &30u32.to_be_bytes());
    let mut node = lease(times).0;
    node.exec("arp", "add", json!({"interface": "eth0", "address": SERVER.to_string(), "mac": PEER_MAC.to_string()})).unwrap();
    let all = over(&mut node, 32);
    assert_eq!(all.iter().map(|(at, words)| (*at, words.contains("> 255."))).collect::<Vec<_>>(), [(20, false), (30, true)]);
}

#[test]
fn a_lease_for_ever_is_never_asked_for_again() {
    let mut node = lease(|answer| answer.with(code::LEASE_TIME, &[255; 4])).0;
    assert_eq!(over(&mut node, 100), []);
    let row = node.exec("dhcp", "leases", Value::Null).unwrap();
    assert_eq!((&row[0]["state"], &row[0]["seconds"], node.engine.next_timer()), (&json!("BOUND"), &Value::Null, None));
}

#[test]
fn a_refusal_takes_the_lease_and_is_not_answered_without_end() {
    let mut node = bound();
    let asked = said(node.advance(Duration::from_secs(880)));
    let rebinding = asked.last().unwrap();
    assert_eq!(rebinding.dst, Ipv4Addr::BROADCAST);
    let mut discover = answer(&mut node, &Answer::to(rebinding, MessageType::Nak));
    assert_eq!((words(&discover), addresses(&mut node)), (vec!["Discover 0.0.0.0 > 255.255.255.255".to_owned()], Vec::new()));
    // A server that refuses what it offers: the pauses grow.
    let mut pauses = Vec::new();
    for _ in 0..4 {
        let request = answer(&mut node, &Answer::to(&discover[0], MessageType::Offer));
        let before = node.now;
        assert_eq!(answer(&mut node, &Answer::to(&request[0], MessageType::Nak)).len(), 0);
        discover.clear();
        while discover.is_empty() {
            discover = said(node.advance(Duration::from_millis(100)));
        }
        pauses.push(node.now.since(before).as_secs());
    }
    for (pause, usual) in pauses.iter().zip([4u64, 8, 16, 32]) {
        assert!(pause.abs_diff(usual) <= 1, "{pauses:?}");
    }
    assert_eq!(node.counter("dhcp", "InNaks"), 5);
}

#[test]
fn options_121_and_3_become_routes() {
    let of = |options: &[(u8, &[u8])]| {
        let mut node = lease(|answer| options.iter().fold(answer, |answer, (code, value)| answer.with(*code, value))).0;
        routes(&mut node)
    };
    assert_eq!(of(&[]), [""; 0]);
    // Groups, loopback, nobody and itself are no routers; the first that can be one is.
    let odd = [224, 0, 0, 1, 127, 0, 0, 1, 0, 0, 0, 0, 10, 0, 0, 77, 10, 0, 0, 253];
    assert_eq!(of(&[(code::ROUTERS, &odd)]), ["default 10.0.0.253 1002"]);
    let classless = [0, 10, 0, 0, 252, 16, 172, 16, 10, 0, 0, 251, 24, 192, 0, 2, 0, 0, 0, 0, 8, 127, 10, 0, 0, 251];
    let mut all = of(&[(code::CLASSLESS_ROUTES, &classless), (code::ROUTERS, &[10, 0, 0, 254])]);
    all.sort();
    assert_eq!(all, ["172.16.0.0/16 10.0.0.251 1002", "192.0.2.0/24 link 1002", "default 10.0.0.252 1002"]);
    let many: Vec<u8> = (0..60).flat_map(|host| [32, 198, 51, 100, host, 10, 0, 0, 251]).collect();
    assert_eq!(of(&[(code::CLASSLESS_ROUTES, &many)]).len(), 32);
    // A single address, and a router beside it.
    assert_eq!(of(&[(code::SUBNET_MASK, &[255; 4]), (code::ROUTERS, &[10, 9, 9, 9])]), ["default 10.9.9.9 1002"]);
}

#[test]
fn packets_go_by_the_leased_routes() {
    let mut node = lease(|answer| answer.with(code::SUBNET_MASK, &[255; 4]).with(code::ROUTERS, &[10, 9, 9, 9])).0;
    node.exec("arp", "add", json!({"interface": "eth0", "address": "10.9.9.9", "mac": PEER_MAC.to_string()})).unwrap();
    let sent = node.send(b"hello", Ipv4Addr::UNSPECIFIED, 4000, Ipv4Addr::new(192, 0, 2, 1), 53);
    let (ether, ip, _) = parse_ip(&sent[0]);
    assert_eq!((ether.dst, ip.src), (PEER_MAC, GIVEN));
}

#[test]
fn a_smaller_mtu_is_set_and_no_other() {
    let mtu = |told: u16| {
        let mut node = lease(|answer| answer.with(code::INTERFACE_MTU, &told.to_be_bytes())).0;
        node.list(Table::Interfaces).iter().find(|row| row["name"] == "eth0").unwrap()["mtu"].as_u64().unwrap()
    };
    assert_eq!([1400, 1280, 1279, 68, 0, 9000].map(mtu), [1400, 1280, 1500, 1500, 1500, 1500]);
}

#[test]
fn what_no_host_can_have_is_refused() {
    let with = |code: u8, value: &'static [u8]| move |answer: Answer| answer.with(code, value);
    let yours = |octets: [u8; 4]| move |answer: Answer| Answer { header: Header { yours: octets.into(), ..answer.header }, ..answer };
    let refused = |change: &dyn Fn(Answer) -> Answer| {
        let (mut node, _) = lease(change);
        assert_eq!((addresses(&mut node), state(&mut node)), (Vec::new(), "SELECTING".to_owned()));
        node.counter("dhcp", "InRefused")
    };
    let all: [&dyn Fn(Answer) -> Answer; 14] = [
        &yours([0, 0, 0, 0]),
        &yours([127, 0, 0, 1]),
        &yours([224, 0, 0, 1]),
        &yours([255, 255, 255, 255]),
        &yours([0, 1, 2, 3]),
        &yours([10, 0, 0, 0]),
        &yours([10, 0, 0, 255]),
        &with(code::SUBNET_MASK, &[255, 0, 255, 0]),
        &with(code::LEASE_TIME, &[0; 4]),
        &with(code::LEASE_TIME, &[1; 3]),
        &|answer| answer.without(code::LEASE_TIME),
        &|answer| answer.without(code::SERVER_IDENTIFIER),
        &with(code::SERVER_IDENTIFIER, &[0; 4]),
        &with(code::SERVER_IDENTIFIER, &[224, 0, 0, 1]),
    ];
    for (number, change) in all.iter().enumerate() {
        assert_eq!(refused(change), 1, "number {number}");
    }
    // Without a mask the class of the address says how large its network is.
    let (mut node, _) = lease(|answer| answer.without(code::SUBNET_MASK));
    assert_eq!(addresses(&mut node), ["10.0.0.77/8"]);
}

#[test]
fn what_is_for_others_is_left_alone() {
    let mut node = bare();
    let discover = up(&mut node);
    let offer = || Answer::to(&discover[0], MessageType::Offer);
    let mut other_mac = offer();
    other_mac.header.hardware[5] = 9;
    let mut other_transaction = offer();
    other_transaction.header.xid ^= 1;
    let identifier = offer().with(code::CLIENT_IDENTIFIER, &[1, 2, 0, 0, 0, 0, 9]);
    for ignored in [other_mac, other_transaction, identifier, Answer::to(&discover[0], MessageType::Ack)] {
        assert_eq!(answer(&mut node, &ignored).len(), 0);
    }
    let mut question = offer();
    question.header.op = op::REQUEST;
    assert_eq!(answer(&mut node, &question).len(), 0);
    let (ignored, errors) = (node.counter("dhcp", "InIgnored"), node.counter("dhcp", "InErrors"));
    assert_eq!((ignored, errors, state(&mut node)), (4, 1, "SELECTING".to_owned()));
    // Its own identifier comes back from servers that know RFC 6842.
    assert_eq!(answer(&mut node, &offer().with(code::CLIENT_IDENTIFIER, &[1, 2, 0, 0, 0, 0, 1])).len(), 1);
    // What is damaged on the way, and what goes to other ports.
    let mut damaged = offer().frame();
    *damaged.last_mut().unwrap() ^= 1;
    node.receive(&damaged);
    assert_eq!(node.drops("dhcp", Reason::BadChecksum), 1);
    let datagram = udp_segment(SERVER, 53, Ipv4Addr::BROADCAST, 4000, b"to a program");
    let packet = ip_packet(header(SERVER, Ipv4Addr::BROADCAST, Protocol::UDP), &datagram);
    node.receive(&ethernet(Mac::BROADCAST, PEER_MAC, EtherType::IPV4, &packet));
    assert_eq!(node.seen("sockets").len(), 1);
}

#[test]
fn interfaces_go_down_and_come_up_again() {
    let mut node = lease(|answer| answer.with(code::ROUTERS, &[10, 0, 0, 254])).0;
    let set = |node: &mut Node, up: bool| {
        node.exec("interfaces", "set", json!({"name": "eth0", "up": up})).unwrap();
        node.exec("ip4", "interface_set", json!({"interface": "eth0", "up": up})).unwrap();
        said(node.wire())
    };
    assert_eq!((set(&mut node, false).len(), routes(&mut node)), (0, Vec::new()));
    assert_eq!(over(&mut node, 600), []);
    let asked = set(&mut node, true);
    // RFC 2131 §3.2: it asks every server whether the address is still its own.
    assert_eq!(words(&asked), ["Request 0.0.0.0 > 255.255.255.255 wanted 10.0.0.77"]);
    assert_eq!(state(&mut node), "REBOOTING");
    answer(&mut node, &Answer::to(&asked[0], MessageType::Ack).with(code::ROUTERS, &[10, 0, 0, 254]));
    assert_eq!((state(&mut node), routes(&mut node).len(), addresses(&mut node).len()), ("BOUND".to_owned(), 1, 1));
    // Nobody answers: what is left of the lease holds.
    set(&mut node, false);
    set(&mut node, true);
    assert_eq!(over(&mut node, 60).len(), 2);
    assert_eq!((state(&mut node), addresses(&mut node).len()), ("BOUND".to_owned(), 1));
    // It ends while the interface is down.
    set(&mut node, false);
    node.advance(Duration::from_secs(1100));
    assert_eq!((addresses(&mut node), words(&set(&mut node, true))), (Vec::new(), vec!["Discover 0.0.0.0 > 255.255.255.255".to_owned()]));
}

#[test]
fn a_lease_is_given_back_and_taken_again_upon_request() {
    let mut node = bound();
    node.exec("arp", "add", json!({"interface": "eth0", "address": SERVER.to_string(), "mac": PEER_MAC.to_string()})).unwrap();
    node.exec("dhcp", "release", json!({"interface": "eth0"})).unwrap();
    assert_eq!(words(&said(node.wire())), ["Release 10.0.0.77 > 10.0.0.2 own 10.0.0.77 server 10.0.0.2"]);
    assert_eq!((addresses(&mut node), state(&mut node), over(&mut node, 100)), (Vec::new(), "RELEASED".to_owned(), Vec::new()));
    node.exec("dhcp", "renew", Value::Null).unwrap();
    assert_eq!(words(&said(node.wire())), ["Discover 0.0.0.0 > 255.255.255.255"]);
    let error = node.exec("dhcp", "renew", json!({"interface": "lo"})).unwrap_err().to_string();
    assert!(error.contains("gets no address by DHCP"), "{error}");
    // Out of the list: the same, and it passes then.
    let mut node = bound();
    node.exec("arp", "add", json!({"interface": "eth0", "address": SERVER.to_string(), "mac": PEER_MAC.to_string()})).unwrap();
    node.set("dhcp", "interfaces", json!([]));
    assert_eq!((words(&said(node.wire())).len(), addresses(&mut node)), (1, Vec::new()));
    assert_eq!(node.exec("dhcp", "leases", Value::Null).unwrap(), json!([]));
    for (name, bad) in [("interfaces", json!(["", 5])), ("interfaces", json!(["far-too-long-a-name"])), ("host_name", json!("a b"))] {
        let op = Op::Set { target: Selector::parse("dhcp"), name: name.to_owned(), value: bad };
        assert!(matches!(node.control(op), Err(ControlError::BadValue { .. })));
    }
}

#[test]
fn a_successor_has_the_lease_and_goes_on() {
    let mut node = bound();
    let before = node.exec("dhcp", "leases", Value::Null).unwrap();
    let (name, kind) = ("dhcp".to_owned(), "dhcp".to_owned());
    node.control(Op::Replace { name, kind, parameters: Default::default(), drop_state: false }).unwrap();
    assert_eq!((node.exec("dhcp", "leases", Value::Null).unwrap(), said(node.wire()).len()), (before, 0));
    node.exec("arp", "add", json!({"interface": "eth0", "address": SERVER.to_string(), "mac": PEER_MAC.to_string()})).unwrap();
    assert_eq!(over(&mut node, 510), [(500, "Request 10.0.0.77 > 10.0.0.2 own 10.0.0.77".to_owned())]);
    let id = node.id("dhcp");
    let state = node.engine.graph().block(id).unwrap().export(node.now).unwrap();
    for cut in 0..state.bytes.len() {
        let cut = State { bytes: state.bytes[..cut].to_vec(), ..state.clone() };
        let now = node.now;
        let refused = node.engine.with(now, id, |block, _| block.import(&cut, now).is_err()).unwrap();
        assert!(refused);
    }
}

#[test]
fn who_was_put_back_asks_whether_the_lease_still_holds() {
    let mut node = bound();
    let id = node.id("dhcp");
    let now = node.now;
    node.engine.with(now, id, |block, cx| block.went_back(cx)).unwrap();
    let asked = said(node.advance(Duration::from_millis(1)));
    assert_eq!(words(&asked), ["Request 0.0.0.0 > 255.255.255.255 wanted 10.0.0.77"]);
    answer(&mut node, &Answer::to(&asked[0], MessageType::Nak));
    assert_eq!((addresses(&mut node), state(&mut node)), (Vec::new(), "SELECTING".to_owned()));
}

/// Options of a message as a liar writes them.
fn hostile_options() -> impl Strategy<Value = Vec<(u8, Vec<u8>)>> {
    let known = [1u8, 3, 6, 12, 15, 26, 28, 50, 51, 52, 53, 54, 55, 58, 59, 61, 121];
    let code = prop_oneof![9 => proptest::sample::select(known.to_vec()), 1 => 1u8..255];
    let value = prop_oneof![
        3 => proptest::collection::vec(any::<u8>(), 0..20),
        1 => proptest::collection::vec(any::<u8>(), 200..300),
        3 => any::<[u8; 4]>().prop_map(|octets| octets.to_vec()),
        2 => prop_oneof![Just([0u8, 0, 0, 1]), Just([255; 4]), Just([10, 0, 0, 9]), Just([255, 255, 255, 0])].prop_map(|octets| octets.to_vec()),
        2 => (1u8..9).prop_map(|byte| vec![byte]),
    ];
    proptest::collection::vec((code, value), 0..6)
}

#[derive(Clone, Debug)]
enum Event {
    Answer { kind: u8, yours: [u8; 4], options: Vec<(u8, Vec<u8>)>, cut: usize, flip: usize, unicast: bool },
    Wait(u32),
    Up(bool),
    Renew,
    Release,
}

fn event() -> impl Strategy<Value = Event> {
    let yours = prop_oneof![4 => Just([10, 0, 0, 77]), 1 => Just([10, 0, 0, 78]), 1 => any::<[u8; 4]>()];
    let damage = (prop_oneof![8 => Just(0usize), 1 => 1usize..300], prop_oneof![8 => Just(usize::MAX), 1 => 0usize..300], any::<bool>());
    let kind = prop_oneof![3 => Just(2u8), 5 => Just(5), 1 => Just(6), 1 => any::<u8>()];
    prop_oneof![
        8 => (kind, yours, hostile_options(), damage)
            .prop_map(|(kind, yours, options, (cut, flip, unicast))| Event::Answer { kind, yours, options, cut, flip, unicast }),
        4 => (0u32..1200).prop_map(Event::Wait),
        1 => any::<bool>().prop_map(Event::Up),
        1 => Just(Event::Renew),
        1 => Just(Event::Release),
    ]
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 200, ..ProptestConfig::default() })]

    /// Whatever servers say: there is one address at most, one that a host can have; tables stay bounded; it talks no more than its times allow.
    #[test]
    fn no_server_leads_it_astray(events in proptest::collection::vec(event(), 1..40)) {
        let mut node = bare();
        let mut last = up(&mut node);
        let (mut sent, mut answers, mut seconds) = (0, 0, 0);
        for event in events {
            let new = match event {
                Event::Answer { kind, yours, options, cut, flip, unicast } => {
                    let Some(said) = last.last() else { continue };
                    let mut answer = Answer::to(said, MessageType::Offer).with(code::MESSAGE_TYPE, &[kind]);
                    answer.header.yours = yours.into();
                    answer.options.extend(options);
                    let mut message = answer.message();
                    message.truncate(message.len() - cut.min(message.len()));
                    if let Some(byte) = message.get_mut(flip) {
                        *byte ^= 0x55;
                    }
                    answers += 1;
                    let to = if unicast { GIVEN } else { Ipv4Addr::BROADCAST };
                    node.receive(&frame_of(&message, SERVER, to))
                }
                Event::Wait(time) => {
                    seconds += u64::from(time);
                    node.advance(Duration::from_secs(u64::from(time)))
                }
                Event::Up(up) => {
                    answers += 1;
                    node.exec("interfaces", "set", json!({"name": "eth0", "up": up})).unwrap();
                    node.wire()
                }
                Event::Renew | Event::Release => {
                    answers += 1;
                    let procedure = if matches!(event, Event::Renew) { "renew" } else { "release" };
                    node.exec("dhcp", procedure, Value::Null).unwrap();
                    node.wire()
                }
            };
            let new = said(new);
            sent += new.len() as u64;
            if !new.is_empty() {
                last = new;
            }
            let own = node.list(Table::Addresses(Family::V4));
            let own: Vec<&str> = own.iter().filter(|row| row["interface"] == 2).filter_map(|row| row["address"].as_str()).collect();
            prop_assert!(own.len() <= 1, "{own:?}");
            for address in own {
                let address: Ipv4Addr = address.parse().unwrap();
                prop_assert!(!address.is_loopback() && !address.is_multicast() && !address.is_broadcast() && address.octets()[0] != 0);
            }
            prop_assert!(node.list(Table::Routes(Family::V4)).len() <= 40);
        }
        // Two for each thing that happens; and one in 3 s, which is the shortest that is waited for an answer.
        prop_assert!(sent <= 2 * answers + 2 * (seconds / 3 + 1), "{sent} in {seconds} s after {answers} answers");
        let id = node.id("dhcp");
        let state = node.engine.graph().block(id).unwrap().export(node.now).unwrap();
        let now = node.now;
        prop_assert!(node.engine.with(now, id, |block, _| block.import(&state, now).is_ok()).unwrap());
    }
}
