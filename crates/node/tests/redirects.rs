//! A router tells hosts on a link of a better first hop on the same link. What it says is what Linux 6.18 said in the same place, to the byte: one
//! interface with 10.0.0.1/24, fd77::1/64 and fe80::ff:fe00:1, routes to 9.9.9.0/24 by 10.0.0.2 and to 2001:db8:9::/48 by fe80::2, all
//! neighbours known; a host, 10.0.0.7 and fd77::7, sends datagrams into these networks (docs/linux-notes/ip.md).

use serde_json::json;
use std::time::Duration;
use weft_core::table::{Interface, LinkType};
use weft_core::{Frame, Instant, InterfaceIndex, Message, Op, Selector};
use weft_node::{Node, Stack};

const STACK: &str = "[node]\nname = \"router\"\n\
    [[interface]]\nname = \"eth0\"\nbackend = \"memory:eth0\"\n\
    [[address]]\ninterface = \"eth0\"\naddress = \"10.0.0.1/24\"\n\
    [[address]]\ninterface = \"eth0\"\naddress = \"fd77::1/64\"\n\
    [[route]]\ndestination = \"9.9.9.0/24\"\ngateway = \"10.0.0.2\"\n\
    [[route]]\ndestination = \"2001:db8:9::/48\"\ngateway = \"fe80::2\"\ninterface = \"eth0\"\n\
    [block.ip4]\nforward = true\n[block.ip6]\nforward = true\n";

/// From 02:00:00:00:00:07 to the router.
const V4: &str = "020000000001020000000007 0800 45000021123440004011 0c80 0a000007 09090909 13880007000d0000 68656c6c6f";
const V4_ON: &str = "020000000002020000000001 0800 45000021123440003f11 0d80 0a000007 09090909 13880007000d0000 68656c6c6f";
/// Linux's, but for identification and header checksum.
const V4_REDIRECT: &str = "020000000007020000000001 0800 45c0003d 0000 0000 4001 0000 0a000001 0a000007 0501998e 0a000002 \
    45000021123440003f11 0d80 0a000007 09090909 13880007000d0000 68656c6c6f";
const V6: &str = "020000000001020000000007 86dd 60000000000d1140 fd770000000000000000000000000007 20010db8000900000000000000000009 \
    13880007000d1111 68656c6c6f";
const V6_ON: &str = "020000000002020000000001 86dd 60000000000d113f fd770000000000000000000000000007 20010db8000900000000000000000009 \
    13880007000d1111 68656c6c6f";
const V6_REDIRECT: &str = "020000000007020000000001 86dd 6000000000683aff fe80000000000000000000fffe000001 fd770000000000000000000000000007 \
    890085bf00000000 fe800000000000000000000000000002 20010db8000900000000000000000009 0201020000000002 0407000000000000 \
    60000000000d1140 fd770000000000000000000000000007 20010db8000900000000000000000009 13880007000d1111";

fn hex(text: &str) -> Vec<u8> {
    let digits: Vec<u8> = text.bytes().filter(u8::is_ascii_hexdigit).collect();
    digits.chunks(2).map(|pair| u8::from_str_radix(std::str::from_utf8(pair).unwrap(), 16).unwrap()).collect()
}

struct Router {
    node: Node,
    now: Instant,
}

impl Router {
    fn new() -> Router {
        let stack = Stack::parse("test", STACK).unwrap();
        let mut node = Node::new(&stack, 1).unwrap();
        let interface = Interface {
            index: InterfaceIndex::NONE,
            name: "eth0".to_owned(),
            mac: [2, 0, 0, 0, 0, 1],
            mtu: 1500,
            up: true,
            carrier: true,
            link: LinkType::Ethernet,
            group: 0,
            gso_max_bytes: 0,
            checksum_offload: false,
            backend: "memory:eth0".to_owned(),
        };
        node.add_interface(Instant::ZERO, &interface).unwrap();
        node.configure(Instant::ZERO, &stack).unwrap();
        let mut router = Router { node, now: Instant::from_millis(1) };
        for (block, address, last) in [("arp", "10.0.0.2", 2), ("arp", "10.0.0.7", 7), ("nd", "fe80::2", 2), ("nd", "fd77::7", 7)] {
            let arguments = json!({"interface": "eth0", "address": address, "mac": format!("02:00:00:00:00:0{last}")});
            router.control(Op::Exec { target: Selector::Name(block.to_owned()), procedure: "add".to_owned(), arguments });
        }
        // The link-local address is proven unique.
        router.pass(Duration::from_secs(5));
        router
    }
    fn control(&mut self, op: Op) {
        self.node.control(self.now, &Message { serial: 1, op }).result.unwrap();
    }
    fn set(&mut self, block: &str, name: &str, value: bool) {
        self.control(Op::Set { target: Selector::Name(block.to_owned()), name: name.to_owned(), value: value.into() });
    }
    fn pass(&mut self, span: Duration) {
        let end = self.now + span;
        while let Some(at) = self.node.next_timer().filter(|at| *at <= end) {
            self.node.run(at);
            let _ = self.node.take_transmit().count();
        }
        self.now = end;
    }
    /// A frame comes in; what leaves.
    fn send(&mut self, frame: &str) -> Vec<Vec<u8>> {
        let mut frame = Frame::ingress(&hex(frame));
        frame.meta_mut().interface = InterfaceIndex(2);
        self.node.receive(self.now, [frame]);
        self.node.take_transmit().map(|frame| frame.to_vec()).collect()
    }
}

/// Without what differs between two routers: identification and header checksum of its own IPv4 packets.
fn plain(mut frame: Vec<u8>) -> Vec<u8> {
    if frame[12..14] == [8, 0] && frame[26..30] == [10, 0, 0, 1] {
        frame[18..20].fill(0);
        frame[24..26].fill(0);
    }
    frame
}

#[test]
fn the_sender_is_told_what_linux_tells_it() {
    let mut router = Router::new();
    for (sent, redirect, on) in [(V4, V4_REDIRECT, V4_ON), (V6, V6_REDIRECT, V6_ON)] {
        let mut left: Vec<Vec<u8>> = router.send(sent).into_iter().map(plain).collect();
        left.sort_by_key(|frame| frame == &hex(on));
        assert_eq!(left, [hex(redirect), hex(on)], "{sent}");
    }
    // As much of a long packet as fits 1280 bytes.
    let long = V6.replace("60000000000d", "600000000580").replace("000d1111", "05801111") + &"00".repeat(1395);
    let left = router.send(&long);
    assert!(left.iter().any(|frame| frame.len() == 14 + 1280), "{:?}", left.iter().map(Vec::len).collect::<Vec<_>>());
}

#[test]
fn no_redirect_where_it_is_switched_off_or_the_sender_is_not_on_the_link() {
    let mut router = Router::new();
    router.set("ip4", "send_redirects", false);
    assert_eq!(router.send(V4), [hex(V4_ON)]);
    router.set("ip4", "send_redirects", true);
    assert_eq!(router.send(V4).len(), 2);
    // 10.0.1.7 lives behind no network of ours (and the header's checksum says so).
    let stray = V4.replace("0c80", "0b80").replace("0a000007", "0a000107");
    assert_eq!(router.send(&stray).len(), 1, "a source that no route leads to");
    // fd78::7 likewise.
    assert_eq!(router.send(&V6.replace("fd77", "fd78")).len(), 1);
}

#[test]
fn redirects_are_limited() {
    // Linux: IPv4 at intervals from 20 ms on that double, nine in all; IPv6 six in a row, then one a second. A successor goes on with the same limits.
    let count = |router: &mut Router, packet: &str, replaced: Option<&str>| {
        let mut told = Vec::new();
        for number in 0..3000 {
            if let Some(line) = replaced.filter(|_| number % 7 == 3) {
                router.control(weft_core::command::parse(line).unwrap().unwrap());
            }
            if router.send(packet).len() > 1 {
                told.push(number);
            }
            router.pass(Duration::from_millis(10));
        }
        told
    };
    let (mut plain, mut replaced) = (Router::new(), Router::new());
    let told = count(&mut plain, V4, None);
    assert_eq!(told.len(), 9, "in half a minute");
    assert_eq!(count(&mut replaced, V4, Some("replace ip4 ip4")), told);
    let told = count(&mut plain, V6, None);
    assert!((35..=36).contains(&told.len()), "six, and one in each of 30 seconds: {told:?}");
    assert_eq!(count(&mut replaced, V6, Some("replace ip6 ip6")), told);
}

#[test]
fn a_node_that_forwards_says_that_it_is_a_router_and_listens_to_none() {
    let solicitation = "020000000001020000000007 86dd 6000000000203aff fd770000000000000000000000000007 fd770000000000000000000000000001 \
        8700 0000 00000000 fd770000000000000000000000000001 0101020000000007";
    let mut bytes = hex(solicitation);
    let source: std::net::Ipv6Addr = "fd77::7".parse().unwrap();
    let own: std::net::Ipv6Addr = "fd77::1".parse().unwrap();
    let sum = weft_wire::checksum::pseudo_v6(source, own, 58, 32).add_bytes(&bytes[54..]).finish();
    bytes[56..58].copy_from_slice(&sum.to_be_bytes());
    let text: String = bytes.iter().map(|byte| format!("{byte:02x}")).collect();
    let mut router = Router::new();
    // The flags follow the checksum: router, solicited; with forwarding off solicited alone.
    let flags = |router: &mut Router| router.send(&text).iter().find(|frame| frame[54] == 136).map(|frame| frame[58] >> 5);
    assert_eq!(flags(&mut router), Some(0b110));
    router.set("ip6", "forward", false);
    assert_eq!(flags(&mut router), Some(0b010));
}
