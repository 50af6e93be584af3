//! Nodes whose stack files let an interface ask a DHCP server: the block is in the graph then, and only then; leases become addresses, routes and names.

use std::net::Ipv4Addr;
use weft_core::control::Value;
use weft_core::table::Family;
use weft_core::{Frame, Instant, InterfaceIndex, Message, Op, Table};
use weft_node::{Lease, Node, Shape, Stack};
use weft_wire::dhcp::{self, CLIENT_PORT, Header, MessageType, SERVER_PORT, code, op};
use weft_wire::ethernet::{self, EtherType, Mac};
use weft_wire::{Protocol, checksum, ipv4, udp};

pub const FILE: &str = "[node]\nname = \"lab\"\n[[interface]]\nname = \"wan0\"\nbackend = \"memory:wan0\"\ndhcp = true\n";
const SERVER: Ipv4Addr = Ipv4Addr::new(192, 0, 2, 1);
const GIVEN: Ipv4Addr = Ipv4Addr::new(192, 0, 2, 77);
const WAN0: InterfaceIndex = InterfaceIndex(2);

fn stack(text: &str) -> Stack {
    Stack::parse("leases.toml", text).unwrap_or_else(|error| panic!("{error}"))
}

/// The messages that left, as bytes from the DHCP header on.
fn said(node: &mut Node) -> Vec<Vec<u8>> {
    let start = ethernet::HEADER_LEN + ipv4::HEADER_LEN + udp::LEN;
    let frames: Vec<Vec<u8>> = node.take_transmit().map(|frame| frame.to_vec()).collect();
    frames.iter().filter(|frame| frame.get(23) == Some(&Protocol::UDP.0)).map(|frame| frame[start..].to_vec()).collect()
}

/// A server's answer to a message, as a frame.
fn answer(said: &[u8], kind: MessageType) -> Frame {
    let (header, _) = Header::parse(said).unwrap();
    let mut message = vec![0; 300];
    Header { op: op::REPLY, yours: GIVEN, ..header }.emit(&mut message);
    let mut options = dhcp::Writer::new(&mut message[dhcp::HEADER_LEN..]);
    let told: [(u8, &[u8]); 7] = [
        (code::MESSAGE_TYPE, &[kind as u8]),
        (code::SERVER_IDENTIFIER, &SERVER.octets()),
        (code::LEASE_TIME, &[0, 0, 14, 16]),
        (code::SUBNET_MASK, &[255, 255, 255, 0]),
        (code::ROUTERS, &SERVER.octets()),
        (code::NAME_SERVERS, &[192, 0, 2, 53]),
        (code::DOMAIN_NAME, b"lab.example"),
    ];
    told.iter().for_each(|(code, value)| options.put(*code, value).unwrap());
    options.end();
    let length = (udp::LEN + message.len()) as u16;
    let mut header = udp::Header { src_port: SERVER_PORT, dst_port: CLIENT_PORT, length, checksum: 0 };
    let mut datagram = vec![0; udp::LEN];
    header.emit(&mut datagram);
    datagram.extend(message);
    header.checksum =
        checksum::pseudo_v4(SERVER, Ipv4Addr::BROADCAST, Protocol::UDP.0, u32::from(length)).add_bytes(&datagram).finish_udp();
    header.emit(&mut datagram);
    let total_len = ipv4::HEADER_LEN as u16 + length;
    let ip = ipv4::Header { total_len, src: SERVER, dst: Ipv4Addr::BROADCAST, protocol: Protocol::UDP, ..ipv4::Header::default() };
    let mut bytes = vec![0; ethernet::HEADER_LEN + ipv4::HEADER_LEN];
    ethernet::Header { dst: Mac::BROADCAST, src: Mac([2, 0, 0, 0, 0, 9]), vlan: None, ether_type: EtherType::IPV4 }.emit(&mut bytes);
    ip.emit(&mut bytes[ethernet::HEADER_LEN..]);
    bytes.extend(datagram);
    let mut frame = Frame::ingress(&bytes);
    frame.meta_mut().interface = WAN0;
    frame
}

fn up(text: &str) -> Node {
    let stack = stack(text);
    let mut node = Node::new(&stack, 1).unwrap();
    for (index, section) in stack.interfaces().enumerate() {
        let interface = node.describe(&stack, index, section).unwrap();
        node.add_interface(Instant::ZERO, &interface).unwrap();
    }
    node.configure(Instant::ZERO, &stack).unwrap();
    node
}

/// Answers what a node asks until it asks no more.
fn serve(node: &mut Node, now: Instant) {
    for kind in [MessageType::Offer, MessageType::Ack] {
        let asked = said(node);
        let asked = asked.last().expect("a question");
        node.receive(now, [answer(asked, kind)]);
    }
}

/// A node with a lease of an hour.
pub fn leased(now: Instant) -> Node {
    let mut node = up(FILE);
    serve(&mut node, now);
    node
}

fn rows(node: &mut Node, table: Table) -> Vec<Value> {
    node.control(Instant::ZERO, &Message { serial: 1, op: Op::List(table) }).result.unwrap().as_array().unwrap().clone()
}

#[test]
fn an_interface_gets_address_route_and_names_from_a_server() {
    let mut node = up(FILE);
    let without = Lease { interface: "wan0".to_owned(), address: None, router: None, name_servers: Vec::new(), domain: None };
    assert_eq!(node.leases(Instant::ZERO), [without]);
    serve(&mut node, Instant::ZERO);
    let leases = node.leases(Instant::ZERO);
    assert_eq!(leases[0].address.as_deref(), Some("192.0.2.77/24"));
    assert_eq!(leases[0].resolv_conf(), "search lab.example\nnameserver 192.0.2.53\n");
    let small = Lease { name_servers: Vec::new(), domain: None, ..leases[0].clone() };
    assert_eq!(small.resolv_conf(), "nameserver 192.0.2.1\n", "the router may know");
    assert!(rows(&mut node, Table::Addresses(Family::V4)).iter().any(|row| row["address"] == "192.0.2.77"));
    assert!(rows(&mut node, Table::Routes(Family::V4)).iter().any(|row| row["gateway"] == "192.0.2.1"));
    node.release_leases(Instant::ZERO);
    assert_eq!(node.leases(Instant::ZERO)[0].address, None);
}

#[test]
fn servers_are_told_a_name_that_says_something() {
    let name = |text: &str| {
        let asked = said(&mut up(text));
        let options = dhcp::Options::parse(&asked[0]).unwrap();
        options.iter().find(|(code, _)| *code == code::HOST_NAME).map(|(_, name)| String::from_utf8(name.to_vec()).unwrap())
    };
    assert_eq!(name(FILE), Some("lab".to_owned()));
    assert_eq!(name(&FILE.replace("\"lab\"", "\"no.host_name\"")), None);
    assert_eq!(name(&FILE.replace("name = \"lab\"\n", "")), None, "every stack is called weft");
    assert_eq!(name(&format!("{FILE}[block.dhcp]\nhost_name = \"other\"\n")), Some("other".to_owned()));
}

#[test]
fn the_block_is_there_where_somebody_asks() {
    let shape = |text: &str| Shape::of(&stack(text)).unwrap();
    let (with, without) = (shape(FILE), shape(&FILE.replace("dhcp = true\n", "")));
    assert!(with.blocks.contains_key("dhcp") && !without.blocks.contains_key("dhcp"));
    // A running node that lets an interface ask has the same graph.
    let mut node = up(&FILE.replace("dhcp = true\n", ""));
    assert_eq!(said(&mut node).len(), 0);
    node.ask_by_dhcp(Instant::ZERO, "wan0").unwrap();
    node.ask_by_dhcp(Instant::ZERO, "wan0").unwrap();
    assert_eq!((node.shape(Instant::ZERO).unwrap(), said(&mut node).len()), (with.clone(), 1));
    node.ask_by_dhcp(Instant::ZERO, "wan1").unwrap();
    node.ask_no_more(Instant::ZERO, "wan1");
    assert_eq!(node.shape(Instant::ZERO).unwrap(), with);
    let (ops, _) = node.apply(Instant::ZERO, &without, false).unwrap();
    assert!(!ops.is_empty() && node.shape(Instant::ZERO).unwrap() == without);
    let error = Node::check(&stack(&FILE.replace("[node]\n", "[node]\ngraph = \"empty\"\n"))).unwrap_err();
    assert_eq!((error.line, error.what.contains("only the default graph")), (7, true), "{error}");
}
