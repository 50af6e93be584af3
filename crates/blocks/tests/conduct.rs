//! How IPv4 conducts itself, as a committed table: `tests/conduct.txt`.
//!
//! An operator, programs, peers and routers do what chance, from one seed, tells them. Of every life holds: what leaves is a sound packet, the tables
//! stay within their bounds, and the node answers a ping afterwards. Each row then says how many packets left and came up, the counters of the block,
//! and a digest of all packets with their times, of tables, answers and alerts. A change that changes what IPv4 sends, delivers or says
//! shows in the difference of that file; run with `WEFT_SNAPSHOT=write` to accept it.

use crate::common;
use common::*;
use serde_json::json;
use std::fmt::Write as _;
use std::net::Ipv4Addr;
use weft_core::table::{Address, AddressState, Family, Route, RouteKind};
use weft_core::*;
use weft_wire::Protocol;
use weft_wire::icmpv4::Message;
use weft_wire::ipv4::{self, Options};

const LIVES: u64 = 40;
const STEPS: usize = 150;
const ETH1: InterfaceIndex = InterfaceIndex(3);

/// A digest that any change changes (FNV-1a).
struct Digest(u64);

impl Digest {
    fn add(&mut self, bytes: &[u8]) {
        for byte in bytes {
            self.0 = (self.0 ^ u64::from(*byte)).wrapping_mul(0x100_0000_01b3);
        }
    }
}

impl std::fmt::Write for Digest {
    fn write_str(&mut self, text: &str) -> std::fmt::Result {
        self.add(text.as_bytes());
        Ok(())
    }
}

struct Life {
    node: Node,
    rng: Rng,
    digest: Digest,
    left: usize,
    came: usize,
    /// What left last, for those who complain.
    sent: Vec<Vec<u8>>,
}

impl Life {
    fn new(seed: u64) -> Life {
        let mut node = Node::with_peer();
        node.exec("interfaces", "add", json!({"name": "eth1", "mac": "02:00:00:00:00:77"})).unwrap();
        node.exec("ip4", "address_add", json!({"interface": "eth1", "address": "10.1.0.1/16"})).unwrap();
        for (interface, address) in [("eth1", "10.1.0.9"), ("eth0", "10.0.0.254"), ("eth0", "10.0.0.9")] {
            node.exec("arp", "add", json!({"interface": interface, "address": address, "mac": "02:00:00:00:00:99"})).unwrap();
        }
        node.set("ip4", "forward", (seed % 2 == 1).into());
        let digest = Digest(0xcbf2_9ce4_8422_2325);
        Life { node, rng: Rng::for_name(seed, "life"), digest, left: 0, came: 0, sent: Vec::new() }
    }

    fn pick<T: Clone>(&mut self, of: &[T]) -> T {
        of[self.rng.below(of.len() as u64) as usize].clone()
    }

    /// Own, neighbours', of other networks, broadcast, groups, loopback, and impossible ones.
    fn address(&mut self) -> Ipv4Addr {
        let last = self.rng.below(256) as u8;
        let of = [
            [10, 0, 0, 1],
            [10, 0, 0, 1],
            [10, 0, 0, 2],
            [10, 0, 0, 9],
            [10, 1, 0, 9],
            [10, 1, 0, 1],
            [10, 0, 0, 255],
            [10, 1, 255, 255],
            [198, 51, 100, last],
            [198, 51, 100, 7],
            [203, 0, 113, last],
            [192, 0, 2, 1],
            [224, 0, 0, 1],
            [239, 1, 2, 3],
            [255; 4],
            [127, 0, 0, 1],
            [0; 4],
            [240, 0, 0, 1],
        ];
        self.pick(&of).into()
    }

    fn step(&mut self) {
        match self.rng.below(16) {
            0 => self.addresses(),
            1 | 2 => self.routes(),
            3..=6 => self.receive(),
            7 => self.fragments(),
            8..=10 => self.send(),
            11 | 12 => self.complaint(),
            13 => self.tell(),
            14 => self.knobs(),
            _ => self.replace(),
        }
        let seconds = self.pick(&[0, 0, 0, 0, 1, 1, 40, 700]);
        let before = self.node.now;
        let late = self.node.advance(Duration::from_secs(seconds));
        self.note("time", &late);
        write!(self.digest, "{before:?}").unwrap();
        self.look();
    }

    /// Packets that left.
    fn note(&mut self, what: &str, packets: &[Vec<u8>]) {
        self.left += packets.len();
        write!(self.digest, "{what} {}", packets.len()).unwrap();
        packets.iter().for_each(|packet| self.digest.add(packet));
        for packet in packets.iter().filter(|packet| packet.get(12..14) == Some(&[8, 0])) {
            let (header, _) = ipv4::Header::parse(&packet[14..]).expect("what leaves is a packet");
            assert!(ipv4::verify_checksum(&packet[14..14 + header.header_len()]), "{header:?}");
            assert!(packet.len() >= 14 + usize::from(header.total_len), "{header:?}");
            self.sent.push(packet[14..].to_vec());
        }
        let many = self.sent.len().saturating_sub(20);
        self.sent.drain(..many);
    }

    /// What came up, the tables, and what was said.
    fn look(&mut self) {
        for block in ["sockets", "tcp"] {
            for frame in self.node.seen(block) {
                self.came += 1;
                let meta = frame.meta();
                let at = (meta.src, meta.dst, meta.protocol, meta.ttl, meta.tos, meta.interface, meta.error);
                write!(self.digest, "{at:?}").unwrap();
                self.digest.add(&frame.to_vec());
            }
        }
        for table in [Table::Addresses(Family::V4), Table::Routes(Family::V4)] {
            let rows = self.node.list(table);
            assert!(rows.len() < 400, "{table:?} has {} rows", rows.len());
            write!(self.digest, "{rows:?}").unwrap();
        }
        let (memory, paths) = (self.node.exec("ip4", "memory", json!({})).unwrap(), self.node.exec("ip4", "paths", json!({})).unwrap());
        // What arp says of neighbours is not IPv4's.
        let alerts = self.node.engine.take_alerts().into_iter().filter(|alert| alert.name != "neighbour");
        let alerts: Vec<_> = alerts.map(|alert| (alert.block, alert.name, alert.value)).collect();
        let drops = self.node.all_drops();
        write!(self.digest, "{memory} {paths} {alerts:?} {drops:?}").unwrap();
    }

    fn say(&mut self, answer: Result<Value, ControlError>) {
        let text = answer.map_or_else(|error| error.to_string(), |value| value.to_string());
        self.digest.write_str(&text).unwrap();
        let out = self.node.wire();
        self.note("said", &out);
    }

    fn addresses(&mut self) {
        let interface = self.pick(&["eth0", "eth1", "lo", "eth9"]);
        let address = self.pick(&[
            "10.0.0.1/24",
            "10.0.0.3/24",
            "10.0.0.3/32",
            "172.16.0.1/31",
            "192.0.2.1/30",
            "10.1.0.1/16",
            "224.0.0.1/4",
            "0.0.0.0/0",
        ]);
        let procedure = if self.rng.chance(0.6) { "address_add" } else { "address_delete" };
        let answer = self.node.exec("ip4", procedure, json!({"interface": interface, "address": address}));
        self.say(answer);
    }

    fn routes(&mut self) {
        let mut arguments = json!({"destination": self.pick(&["default", "198.51.100.0/24", "198.51.100.7/32", "203.0.113.0/25", "10.0.0.0/24", "198.51.100.1/24"])});
        let chosen = [
            ("gateway", json!(self.pick(&["10.0.0.2", "10.0.0.9", "10.1.0.9", "10.0.0.1", "192.0.2.9"])), 0.6),
            ("interface", json!(self.pick(&["eth0", "eth1", "lo"])), 0.4),
            ("metric", json!(self.pick(&[0, 5, 100])), 0.4),
            ("mtu", json!(self.pick(&[68, 576, 1300, 67])), 0.3),
            ("kind", json!(self.pick(&["unicast", "blackhole", "unreachable", "prohibit", "none"])), 0.3),
            ("source", json!(self.pick(&["10.0.0.1", "10.1.0.1", "10.9.9.9"])), 0.2),
        ];
        let adds = self.rng.chance(0.6);
        for (name, value, share) in chosen {
            if self.rng.chance(share) && (adds || name != "mtu" && name != "source") {
                arguments[name] = value;
            }
        }
        let answer = self.node.exec("ip4", if adds { "route_add" } else { "route_delete" }, arguments);
        self.say(answer);
    }

    fn header(&mut self) -> ipv4::Header {
        let protocol = self.pick(&[Protocol::UDP, Protocol::UDP, Protocol::TCP, Protocol::ICMP, Protocol::GRE, Protocol::IGMP]);
        let options: &[u8] = match self.rng.below(12) {
            0 => &[7, 7, 4, 0, 0, 0, 0, 0],
            1 => &[7, 7, 8, 1, 2, 3, 4, 0],
            2 => &[68, 12, 5, 1, 0, 0, 0, 0, 0, 0, 0, 0],
            3 => &[68, 8, 9, 0x10, 0, 0, 0, 0],
            4 => &[68, 12, 5, 3, 10, 0, 0, 1, 0, 0, 0, 0],
            5 => &[131, 7, 4, 10, 0, 0, 9, 0],
            6 => &[148, 4, 0, 0],
            7 => &[7, 3, 4, 0],
            8 => &[1, 1, 130, 2],
            _ => &[],
        };
        let (src, dst) = (self.address(), self.address());
        ipv4::Header {
            tos: self.pick(&[0, 0, 2, 3, 0xb8]),
            ttl: self.pick(&[64, 64, 1, 0, 2, 255]),
            dont_fragment: self.rng.chance(0.3),
            identification: self.rng.below(4) as u16,
            options: Options::from_bytes(options).unwrap_or_default(),
            ..header(if self.rng.chance(0.6) { PEER_IP } else { src }, dst, protocol)
        }
    }

    fn receive(&mut self) {
        let header = self.header();
        let length = self.pick(&[0, 20, 100, 1400]);
        let body = match header.protocol {
            Protocol::UDP => udp_segment(header.src, 1000, header.dst, 53, &vec![7; length]),
            Protocol::ICMP => ping(header.src, header.dst, &vec![3; length])[20..].to_vec(),
            _ => vec![9; length],
        };
        let mut bytes = from_peer(header, &body);
        if self.rng.chance(0.2) {
            let at = 14 + self.rng.below(20) as usize;
            bytes[at] = self.rng.u32() as u8;
        }
        if self.rng.chance(0.1) {
            bytes.truncate(14 + self.rng.below(40) as usize);
        }
        if self.rng.chance(0.2) {
            bytes[..6].copy_from_slice(&[0xff; 6]);
        }
        let mut frame = Frame::ingress(&bytes);
        frame.meta_mut().interface = self.pick(&[ETH0, ETH0, ETH0, ETH1]);
        let out = self.node.receive_frame(frame);
        self.note("received", &out);
    }

    /// A datagram in pieces: in order or not, whole or not, twice, overlapping.
    fn fragments(&mut self) {
        let header =
            ipv4::Header { dst: OUR_IP, src: PEER_IP, protocol: Protocol::UDP, ttl: 64, options: Options::default(), ..self.header() };
        let datagram = udp_segment(PEER_IP, 1000, OUR_IP, 53, &vec![5; self.pick(&[40, 300, 3000])]);
        let step = self.pick(&[8, 64, 800]);
        let mut pieces: Vec<(usize, usize)> = (0..datagram.len()).step_by(step).map(|at| (at, (at + step).min(datagram.len()))).collect();
        if self.rng.chance(0.5) {
            pieces.reverse();
        }
        let (lost, twice, over) = (self.rng.chance(0.3), self.rng.chance(0.3), self.rng.chance(0.2));
        if lost {
            pieces.remove(self.rng.below(pieces.len() as u64) as usize);
        }
        if twice && !pieces.is_empty() {
            pieces.push(pieces[0]);
        }
        for (from, to) in pieces {
            let more = to < datagram.len();
            let from = if over && from >= 8 { from - 8 } else { from };
            let piece = ipv4::Header { more_fragments: more, fragment_offset: from as u16, dont_fragment: false, ..header.clone() };
            let out = self.node.receive(&from_peer(piece, &datagram[from..to]));
            self.note("piece", &out);
        }
    }

    fn send(&mut self) {
        let (dst, src) =
            (self.address(), self.pick(&[Ipv4Addr::UNSPECIFIED, Ipv4Addr::UNSPECIFIED, OUR_IP, [10, 1, 0, 1].into(), PEER_IP]));
        let length = self.pick(&[10, 500, 1472, 1473, 4000, 65_507]);
        let mut frame = datagram(&vec![6; length], src, 2000, dst, 53);
        let (ttl, tos, broadcast) = (self.pick(&[0, 1, 7]), self.pick(&[0, 4]), self.rng.chance(0.5));
        let (interface, dont_fragment) = (self.pick(&[InterfaceIndex::NONE, InterfaceIndex::NONE, ETH0, ETH1]), self.rng.chance(0.3));
        let meta = frame.meta_mut();
        (meta.ttl, meta.tos, meta.interface, meta.dont_fragment) = (ttl, tos, interface, dont_fragment);
        meta.no_loop = broadcast;
        let out = self.node.send_frame(frame);
        self.note("sent", &out);
    }

    /// Routers complain of what was sent.
    fn complaint(&mut self) {
        if self.sent.is_empty() {
            return;
        }
        let mut quoted = self.pick(&self.sent.clone());
        quoted.truncate(self.pick(&[20, 28, 48, 548]));
        let mtu = self.pick(&[0, 68, 552, 1200, 1400, 9000]);
        let gateway = self.pick(&[Ipv4Addr::new(10, 0, 0, 9), PEER_IP, OUR_IP, Ipv4Addr::new(192, 0, 2, 77)]);
        let message = match self.rng.below(6) {
            0..=2 => Message::DestinationUnreachable { code: 4, mtu },
            3 => Message::DestinationUnreachable { code: self.pick(&[0, 1, 2, 3, 10, 13]), mtu: 0 },
            4 => Message::Redirect { code: self.pick(&[0, 1, 2]), gateway },
            _ => Message::TimeExceeded { code: self.pick(&[0, 1]) },
        };
        let from = self.pick(&[PEER_IP, Ipv4Addr::new(10, 0, 0, 254), Ipv4Addr::new(10, 0, 0, 9)]);
        let out = self.node.receive(&from_peer(header(from, OUR_IP, Protocol::ICMP), &icmp(message, &quoted)));
        self.note("complaint", &out);
    }

    /// Another block tells of addresses, routes and paths, as a client of DHCP or a transport does.
    fn tell(&mut self) {
        let ip = self.pick(&[Ipv4Addr::new(10, 0, 0, 50), Ipv4Addr::new(10, 0, 0, 51), Ipv4Addr::new(172, 20, 0, 1)]);
        let interface = self.pick(&[ETH0, ETH0, ETH1, InterfaceIndex(9)]);
        let seconds = self.pick(&[None, Some(30), Some(600)]);
        let until = seconds.map(|seconds| self.node.now + Duration::from_secs(seconds));
        let address = Address {
            interface,
            address: ip.into(),
            prefix_bits: self.pick(&[24, 32]),
            state: AddressState::Preferred,
            dynamic: true,
            preferred_until: until,
            valid_until: until,
            ..Address::permanent(interface, ip.into(), 24)
        };
        let route = Route {
            kind: RouteKind::Unicast,
            destination: self.pick(&[Ipv4Addr::UNSPECIFIED, Ipv4Addr::new(198, 51, 100, 0)]).into(),
            prefix_bits: self.pick(&[0, 24]),
            gateway: self.pick(&[None, Some(PEER_IP.into()), Some(Ipv4Addr::new(10, 0, 0, 9).into())]),
            interface,
            source: self.pick(&[None, Some(OUR_IP.into())]),
            metric: self.pick(&[0, 100]),
            mtu: self.pick(&[None, Some(1280)]),
            ..Route::PLAIN
        };
        let destination = self.address();
        let change = match self.rng.below(7) {
            0 | 1 => Change::AddAddress(address),
            2 => Change::DeleteAddress { interface, address: ip.into() },
            3 | 4 => Change::AddRoute(route),
            5 => Change::DeleteRoute(route),
            _ => Change::PathMtu { destination: destination.into(), mtu: self.pick(&[500, 1000, 1499, 1600]) },
        };
        let (now, arp) = (self.node.now, self.node.id("arp"));
        let table = if self.rng.chance(0.9) { Table::Routes(Family::V4) } else { Table::Addresses(Family::V4) };
        self.node.engine.with(now, arp, |_, cx| cx.tell(table, change));
        self.node.settle();
        let out = self.node.wire();
        self.note("told", &out);
    }

    fn knobs(&mut self) {
        let (name, value) = self.pick(&[
            ("forward", json!(true)),
            ("forward", json!(false)),
            ("forward_from", json!(["eth0"])),
            ("forward_from", json!([])),
            ("accept_redirects", json!(false)),
            ("accept_redirects", json!(true)),
            ("default_ttl", json!(33)),
            ("fragment_timeout", json!("5s")),
            ("fragment_memory_bytes", json!(3000)),
            ("fragment_memory_bytes", json!(4_194_304)),
        ]);
        self.node.set("ip4", name, value);
        if self.rng.chance(0.3) {
            let answer = self.node.exec("ip4", "paths_flush", json!({}));
            self.say(answer);
        }
        let (name, up) = (self.pick(&["eth0", "eth1"]), self.rng.chance(0.5));
        if self.rng.chance(0.5) {
            let answer = self.node.exec("interfaces", "set", json!({"name": name, "up": up}));
            self.say(answer);
        }
    }

    /// A new block takes the state over.
    fn replace(&mut self) {
        let (name, kind) = ("ip4".to_owned(), "ip4".to_owned());
        self.node.control(Op::Replace { name, kind, parameters: Default::default(), drop_state: false }).unwrap();
    }

    /// The interface is there again, and somebody asks.
    fn end(&mut self) {
        self.node.exec("interfaces", "set", json!({"name": "eth0", "up": true})).unwrap();
        for interface in ["lo", "eth0", "eth1"] {
            for address in ["10.0.0.1/24", "10.0.0.3/24", "10.0.0.3/32", "10.0.0.50/24", "10.0.0.50/32", "10.0.0.51/24", "10.0.0.51/32"] {
                let _ = self.node.exec("ip4", "address_delete", json!({"interface": interface, "address": address}));
            }
        }
        while self.node.exec("ip4", "route_delete", json!({"destination": "10.0.0.0/24"})).is_ok() {}
        self.node.exec("ip4", "address_add", json!({"interface": "eth0", "address": "10.0.0.1/24"})).unwrap();
        let peer = json!({"interface": "eth0", "address": PEER_IP.to_string(), "mac": PEER_MAC.to_string()});
        self.node.exec("arp", "add", peer).unwrap();
        self.node.advance(Duration::from_secs(100));
        self.node.wire();
        let request = from_peer(header(PEER_IP, OUR_IP, Protocol::ICMP), &ping(PEER_IP, OUR_IP, b"still there?")[20..]);
        assert_eq!(self.node.receive(&request).len(), 1, "an answer to a ping");
        let memory = self.node.exec("ip4", "memory", json!({})).unwrap();
        assert_eq!(memory["fragment_bytes"], 0, "nobody waits for these");
    }
}

#[test]
fn conduct_is_as_recorded() {
    let mut table = String::from(
        "Lives of a node: packets that left and that came up, digest of everything; then ip4's counters. See tests/conduct.rs.\n\n",
    );
    for seed in 0..LIVES {
        let mut life = Life::new(seed);
        (0..STEPS).for_each(|_| life.step());
        life.end();
        let id = life.node.id("ip4");
        let graph = life.node.engine.graph();
        let values = graph.block(id).unwrap().counters().to_vec();
        let counted = graph.kind(id).unwrap().counters.iter().zip(values).filter(|(_, value)| *value > 0);
        let counters: Vec<_> = counted.map(|(row, value)| format!("{} {value}", row.name)).collect();
        writeln!(table, "{seed}: {} left, {} came up, {:016x}\n  {}", life.left, life.came, life.digest.0, counters.join(", ")).unwrap();
    }
    let path = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/conduct.txt");
    if std::env::var("WEFT_SNAPSHOT").is_ok_and(|value| value == "write") {
        std::fs::write(path, &table).unwrap();
    }
    let recorded = std::fs::read_to_string(path).unwrap_or_default();
    let changed: Vec<&str> = table.lines().filter(|line| !recorded.lines().any(|known| known == *line)).collect();
    assert!(table == recorded, "conduct changed (if it is meant to: WEFT_SNAPSHOT=write); these lines are new:\n{}", changed.join("\n"));
}
