//! Files of /proc/net as Linux writes them (proc_pid_net(5), net/ipv4/tcp_ipv4.c and others), from the node's tables.

use crate::face::Stack;
use crate::tables::{self, InterfaceRow};
use serde_json::Value;
use std::fmt::Write as _;
use std::net::{IpAddr, Ipv4Addr, SocketAddr};
use weft_core::table::{AddressState, Family, LinkType, RouteKind};
use weft_core::{Answer, FlowId, Query, Table};
use weft_netlink::diag::Socket;

/// Flags of routes: RTF_UP, RTF_GATEWAY, RTF_HOST, RTF_REJECT; RTF_LOCAL of IPv6.
const UP: u32 = 1;
const GATEWAY: u32 = 2;
const HOST: u32 = 4;
const REJECT: u32 = 0x200;
const LOCAL: u32 = 0x8000_0000;
/// RTF_NONEXTHOP of IPv6: leads to no neighbour.
const NO_NEXT_HOP: u32 = 0x0020_0000;
/// State of a socket without a connection.
const TCP_CLOSE: u8 = 7;

/// psched_show: nanoseconds a microsecond, nanoseconds a tick of queues, how many of the first a second has, and the resolution of timers. tc reckons with it.
const PSCHED: &str = "000003e8 00000040 000f4240 3b9aca00\n";

/// How a file is made.
type Make = fn(&str, &mut dyn Stack) -> String;

/// The files below /proc/net, by their names in order.
const FILES: [(&str, Make); 19] = [
    ("arp", |_, stack| neighbours(stack)),
    ("dev", |_, stack| devices(stack)),
    ("icmp", sockets),
    ("icmp6", sockets),
    ("if_inet6", |_, stack| addresses6(stack)),
    ("ipv6_route", |_, stack| routes6(stack)),
    ("packet", |_, stack| packets(stack)),
    ("psched", |_, _| PSCHED.to_owned()),
    ("raw", sockets),
    ("raw6", sockets),
    ("route", |_, stack| routes(stack)),
    ("sockstat", |_, stack| counts(stack, false)),
    ("sockstat6", |_, stack| counts(stack, true)),
    ("tcp", sockets),
    ("tcp6", sockets),
    ("udp", sockets),
    ("udp6", sockets),
    ("udplite", sockets),
    ("udplite6", sockets),
];

/// The names of the files.
pub fn names() -> impl Iterator<Item = &'static str> {
    FILES.iter().map(|(name, _)| *name)
}

/// The text of a file, by its name below /proc/net; None: it is none of these.
pub fn file(name: &str, stack: &mut dyn Stack) -> Option<String> {
    FILES.iter().find(|(known, _)| *known == name).map(|(_, make)| make(name, stack))
}

fn header(name: &str, v6: bool) -> String {
    let slot = if name.starts_with("tcp") || v6 { "  sl" } else { "   sl" };
    let tail = "st tx_queue rx_queue tr tm->when retrnsmt   uid  timeout inode";
    let addresses =
        if v6 { "local_address                         remote_address                        " } else { "local_address rem_address   " };
    let more = if name.starts_with("tcp") { "" } else { " ref pointer drops" };
    // Lines of the files over IPv4 are padded: TMPSZ 150, and 127 of udp4_seq_show.
    match (v6, name.starts_with("tcp")) {
        (false, true) => format!("{:149}\n", format!("{slot}  {addresses}{tail}")),
        (false, false) => format!("{:127}\n", format!("{slot}  {addresses}{tail}{more}")),
        (true, _) => format!("{slot}  {addresses}{tail}{more}\n"),
    }
}

fn sockets(name: &str, stack: &mut dyn Stack) -> String {
    let v6 = name.ends_with('6');
    let protocol = match name.trim_end_matches('6') {
        "tcp" => libc::IPPROTO_TCP,
        "udp" => libc::IPPROTO_UDP,
        "udplite" => libc::IPPROTO_UDPLITE,
        "raw" => libc::IPPROTO_RAW,
        _ => libc::IPPROTO_ICMP,
    };
    let tcp = protocol == libc::IPPROTO_TCP;
    let mut text = header(name, v6);
    let all = stack.table(Table::Sockets);
    // Linux's tables have no TCP socket that neither listens nor has a connection, and no UDP socket without a port.
    let listed = |one: &Socket| match protocol {
        libc::IPPROTO_TCP => one.state != TCP_CLOSE,
        libc::IPPROTO_UDP | libc::IPPROTO_UDPLITE => one.local.port() != 0,
        _ => true,
    };
    let of_file = |one: &Socket| i32::from(one.protocol) == protocol && one.local.is_ipv6() == v6 && listed(one);
    let chosen: Vec<Socket> = all.iter().flat_map(|row| each(row, stack)).filter(of_file).collect();
    for (number, one) in chosen.into_iter().enumerate() {
        let nobody = if v6 { SocketAddr::from(([0_u16; 8], 0)) } else { SocketAddr::from(([0_u8; 4], 0)) };
        let width = if tcp { 4 } else { 5 };
        let mut line = format!(
            "{number:width$}: {} {} {:02X} {:08X}:{:08X} 00:00000000 00000000 {:5} {:8} {} ",
            endpoint(one.local),
            endpoint(one.peer.unwrap_or(nobody)),
            one.state,
            one.queues[1],
            one.queues[0],
            0,
            0,
            one.inode
        );
        line += if tcp { "1 0000000000000000 20 4 30 10 -1" } else { "2 0000000000000000 0" };
        let _ = match (v6, tcp) {
            (false, true) => writeln!(text, "{line:149}"),
            (false, false) => writeln!(text, "{line:127}"),
            (true, _) => writeln!(text, "{line}"),
        };
    }
    text
}

/// `packet_seq_show`; `ss -0` reads it, too. A socket that hears is held by who hands it frames.
fn packets(stack: &mut dyn Stack) -> String {
    let mut text = format!("{:<17}RefCnt Type Proto  Iface R Rmem   User   Inode\n", "sk");
    let Answer::List(rows) = stack.ask(Table::Sockets, &Query::SocketDetails) else { return text };
    for row in rows {
        let Some(details) = row.get("details") else { continue };
        let number = |field: &str| details.get(field).and_then(Value::as_u64).unwrap_or(0);
        let Some(protocol) = details.get("ether_type").and_then(Value::as_u64) else { continue };
        let kind = if row.get("proto").and_then(Value::as_str) == Some("p_dgr") { libc::SOCK_DGRAM } else { libc::SOCK_RAW };
        let hears = number("hears");
        let _ = writeln!(
            text,
            "{:016x} {:<6} {kind:<4} {protocol:04x}   {:<5} {hears} {:<6} {:<6} {:<6}",
            0,
            2 + hears,
            number("link"),
            number("received_bytes"),
            number("uid"),
            row.get("inode").and_then(Value::as_u64).unwrap_or(0),
        );
    }
    text
}

/// The sockets of a row: it, or the subflows of its connection, where it has several.
fn each(row: &Value, stack: &mut dyn Stack) -> Vec<Socket> {
    let Some(socket) = Socket::read(row) else { return Vec::new() };
    let flow = row.get("flow").and_then(Value::as_u64).map(FlowId);
    match flow.map(|flow| stack.ask(Table::Multipath, &Query::Connection(flow))) {
        Some(Answer::Connection(info)) if !info.listens => socket.subflows(&info).into_iter().map(|(socket, _)| socket).collect(),
        _ => vec![socket],
    }
}

/// Words of the address as this machine reads them from memory, in hexadecimal; then the port.
fn endpoint(address: SocketAddr) -> String {
    let port = address.port();
    match address.ip() {
        IpAddr::V4(ip) => format!("{:08X}:{port:04X}", u32::from_ne_bytes(ip.octets())),
        IpAddr::V6(ip) => {
            let words: String = ip
                .octets()
                .chunks_exact(4)
                .map(|word| format!("{:08X}", u32::from_ne_bytes([word[0], word[1], word[2], word[3]])))
                .collect();
            format!("{words}:{port:04X}")
        }
    }
}

fn devices(stack: &mut dyn Stack) -> String {
    let mut text = "Inter-|   Receive                                                |  Transmit\n face |bytes    packets errs drop fifo frame compressed multicast|bytes    packets errs drop fifo colls carrier compressed\n".to_owned();
    for row in stack.table(Table::Interfaces) {
        let number = |field: &str| row.get(field).and_then(Value::as_u64).unwrap_or(0);
        let name = row.get("name").and_then(Value::as_str).unwrap_or_default();
        let _ = writeln!(
            text,
            "{name:>6}: {:7} {:7} {:4} {:4} {:4} {:5} {:10} {:9} {:8} {:7} {:4} {:4} {:4} {:5} {:7} {:10}",
            number("rx_bytes"),
            number("rx_packets"),
            0,
            number("rx_dropped"),
            0,
            0,
            0,
            0,
            number("tx_bytes"),
            number("tx_packets"),
            0,
            number("tx_dropped"),
            0,
            0,
            0,
            0
        );
    }
    text
}

fn name_of(interfaces: &[InterfaceRow], index: u32) -> &str {
    interfaces.iter().find(|one| one.index == index).map_or("*", |one| &one.name)
}

fn word(address: Option<IpAddr>) -> u32 {
    match address {
        Some(IpAddr::V4(address)) => u32::from_ne_bytes(address.octets()),
        _ => 0,
    }
}

/// fib_route_seq_show: the main table only, without broadcasts.
fn routes(stack: &mut dyn Stack) -> String {
    let interfaces = tables::interfaces(stack);
    let head = "Iface\tDestination\tGateway \tFlags\tRefCnt\tUse\tMetric\tMask\t\tMTU\tWindow\tIRTT";
    let mut text = format!("{head:127}\n");
    for route in tables::routes(stack, Family::V4).iter().filter(|route| !route.local_table) {
        let (destination, bits) = route.destination;
        let mask = u32::MAX.checked_shl(32 - u32::from(bits)).unwrap_or(0);
        let unicast = route.kind == RouteKind::Unicast;
        let flags =
            UP | if route.gateway.is_some() { GATEWAY } else { 0 } | if bits == 32 { HOST } else { 0 } | if unicast { 0 } else { REJECT };
        let line = format!(
            "{}\t{:08X}\t{:08X}\t{flags:04X}\t0\t0\t{}\t{:08X}\t0\t0\t0",
            name_of(&interfaces, route.interface),
            word(Some(destination)),
            word(route.gateway),
            route.metric,
            u32::from_ne_bytes(Ipv4Addr::from(mask).octets())
        );
        let _ = writeln!(text, "{line:127}");
    }
    text
}

fn hex(address: IpAddr) -> String {
    let octets = match address {
        IpAddr::V6(address) => address.octets(),
        IpAddr::V4(address) => address.to_ipv6_mapped().octets(),
    };
    octets.iter().map(|byte| format!("{byte:02x}")).collect()
}

/// rt6_info_route: all tables.
fn routes6(stack: &mut dyn Stack) -> String {
    let interfaces = tables::interfaces(stack);
    let nowhere = IpAddr::from([0_u8; 16]);
    let mut text = String::new();
    let routes = tables::routes(stack, Family::V6);
    // The root of a table without a default route is fib6_null_entry; the table local never has one.
    let defaults = routes.iter().any(|route| !route.local_table && route.destination == (nowhere, 0));
    for _ in 0..if defaults { 1 } else { 2 } {
        let nothing = hex(nowhere);
        let flags = REJECT | NO_NEXT_HOP;
        let _ = writeln!(text, "{nothing} 00 {nothing} 00 {nothing} ffffffff 00000001 00000000 {flags:08x} {:>8}", "lo");
    }
    for route in routes {
        let (destination, bits) = route.destination;
        let flags = match route.kind {
            RouteKind::Local => UP | LOCAL | NO_NEXT_HOP,
            RouteKind::Unreachable | RouteKind::Prohibit | RouteKind::Blackhole | RouteKind::Throw => REJECT | NO_NEXT_HOP,
            _ => UP | if route.gateway.is_some() { GATEWAY } else { 0 },
        };
        let device = if route.interface == 0 { 1 } else { route.interface };
        let _ = writeln!(
            text,
            "{} {bits:02x} {} 00 {} {:08x} 00000001 00000000 {flags:08x} {:>8}",
            hex(destination),
            hex(nowhere),
            hex(route.gateway.unwrap_or(nowhere)),
            route.metric,
            name_of(&interfaces, device)
        );
    }
    text
}

/// if6_seq_show
fn addresses6(stack: &mut dyn Stack) -> String {
    let interfaces = tables::interfaces(stack);
    let mut text = String::new();
    for one in tables::addresses(stack, Family::V6) {
        let IpAddr::V6(address) = one.address else { continue };
        // IPV6_ADDR_LOOPBACK, _LINKLOCAL, global; IFA_F_TENTATIVE, IFA_F_PERMANENT.
        let scope = if address.is_loopback() {
            0x10
        } else if address.is_unicast_link_local() {
            0x20
        } else {
            0
        };
        let flags = if one.state == AddressState::Tentative { 0x40 } else { 0 }
            | if one.dynamic && !address.is_unicast_link_local() { 0 } else { 0x80 };
        let _ = writeln!(
            text,
            "{} {:02x} {:02x} {scope:02x} {flags:02x} {:>8}",
            hex(one.address),
            one.interface.0,
            one.prefix_bits,
            name_of(&interfaces, one.interface.0)
        );
    }
    text
}

/// arp_format_neigh_entry
fn neighbours(stack: &mut dyn Stack) -> String {
    let interfaces = tables::interfaces(stack);
    let mut text = "IP address       HW type     Flags       HW address            Mask     Device\n".to_owned();
    for one in tables::neighbours(stack, Family::V4) {
        let Some(interface) = interfaces.iter().find(|interface| interface.index == one.interface && interface.link == LinkType::Ethernet)
        else {
            continue;
        };
        let mac: Vec<String> = one.mac.unwrap_or_default().iter().map(|byte| format!("{byte:02x}")).collect();
        // ATF_COM, ATF_PERM
        let flags = if one.mac.is_some() { 2 } else { 0 } | if one.state == "PERMANENT" { 4 } else { 0 };
        let _ = writeln!(
            text,
            "{:<16} 0x{:<10x}0x{flags:<10x}{:<17}     *        {}",
            one.address.to_string(),
            1,
            mac.join(":"),
            interface.name
        );
    }
    text
}

fn counts(stack: &mut dyn Stack, v6: bool) -> String {
    let mut all: Vec<Socket> = stack.table(Table::Sockets).iter().filter_map(Socket::read).collect();
    let before = all.len();
    all.retain(|one| one.state != weft_netlink::diag::TIME_WAIT);
    let tw = before - all.len();
    let count = |protocol: i32| all.iter().filter(|one| i32::from(one.protocol) == protocol && one.local.is_ipv6() == v6).count();
    let (tcp, udp, raw) = (count(libc::IPPROTO_TCP), count(libc::IPPROTO_UDP), count(libc::IPPROTO_RAW));
    let lite = count(libc::IPPROTO_UDPLITE);
    if v6 {
        return format!("TCP6: inuse {tcp}\nUDP6: inuse {udp}\nUDPLITE6: inuse {lite}\nRAW6: inuse {raw}\nFRAG6: inuse 0 memory 0\n");
    }
    // Of both families (tcp_sockets_allocated).
    let alloc = all.iter().filter(|one| i32::from(one.protocol) == libc::IPPROTO_TCP).count();
    let used = all.len();
    format!(
        "sockets: used {used}\nTCP: inuse {tcp} orphan 0 tw {tw} alloc {alloc} mem 0\nUDP: inuse {udp} mem 0\nUDPLITE: inuse {lite}\nRAW: inuse {raw}\nFRAG: inuse 0 memory 0\n"
    )
}
