//! The node's tables, read from the rows that their owners give to people (`weft show`).

use crate::face::Stack;
use serde_json::Value;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};
use weft_core::table::{Address, Family, LinkType, RouteKind};
use weft_core::{Answer, Query, Table};

/// What programs may know of an interface.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct InterfaceRow {
    /// ifindex.
    pub index: u32,
    /// Name.
    pub name: String,
    /// Link-layer address.
    pub mac: [u8; 6],
    /// MTU, bytes.
    pub mtu: u32,
    /// IFF_UP.
    pub up: bool,
    /// Largest frame that segmentation is left to the backend with, bytes; 0: none is.
    pub gso_max_bytes: u32,
    /// The backend completes checksums.
    pub checksum_offload: bool,
    /// IFF_RUNNING of one that is up.
    pub carrier: bool,
    /// Framing.
    pub link: LinkType,
    /// Group.
    pub group: u32,
    /// Queue length, packets.
    pub tx_queue_packets: u32,
    /// IFF_NOARP, IFF_PROMISC, IFF_ALLMULTI and IFF_DYNAMIC, as programs set them.
    pub set_flags: i32,
    /// IFF_MULTICAST, if a program said so.
    pub multicast: Option<bool>,
}

/// A route.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct RouteRow {
    /// In table "local", which follows from addresses.
    pub local_table: bool,
    /// What it does.
    pub kind: RouteKind,
    /// Destination and its bits.
    pub destination: (IpAddr, u8),
    /// Next hop.
    pub gateway: Option<IpAddr>,
    /// ifindex.
    pub interface: u32,
    /// Preferred source.
    pub source: Option<IpAddr>,
    /// Metric.
    pub metric: u32,
}

/// A neighbour.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct NeighbourRow {
    /// ifindex.
    pub interface: u32,
    /// Address.
    pub address: IpAddr,
    /// Link-layer address.
    pub mac: Option<[u8; 6]>,
    /// NUD state by name.
    pub state: String,
    /// It says that it is a router (IPv6).
    pub router: bool,
}

/// The node's interfaces.
pub fn interfaces(stack: &mut dyn Stack) -> Vec<InterfaceRow> {
    stack.table(Table::Interfaces).iter().filter_map(interface).collect()
}

/// The node's addresses of a family.
pub fn addresses(stack: &mut dyn Stack, family: Family) -> Vec<Address> {
    match stack.ask(Table::Addresses(family), &Query::Addresses) {
        Answer::Addresses(rows) => rows,
        _ => Vec::new(),
    }
}

/// The node's routes of a family.
pub fn routes(stack: &mut dyn Stack, family: Family) -> Vec<RouteRow> {
    stack.table(Table::Routes(family)).iter().filter_map(|row| route(row, family).map(|route| each(row, route, family))).flatten().collect()
}

/// /proc/net/route has the first of several next hops, /proc/net/ipv6_route a line for each.
fn each(row: &Value, route: RouteRow, family: Family) -> Vec<RouteRow> {
    let gateway = |hop: &Value| text(hop, "gateway").and_then(|text| text.parse().ok());
    let one = |hop: &Value| Some(RouteRow { gateway: gateway(hop), interface: number(hop, "interface")?, ..route.clone() });
    match row.get("nexthops").and_then(Value::as_array).filter(|_| family == Family::V6) {
        Some(hops) => hops.iter().filter_map(one).collect(),
        None => vec![route],
    }
}

/// The node's neighbours of a family.
pub fn neighbours(stack: &mut dyn Stack, family: Family) -> Vec<NeighbourRow> {
    stack.table(Table::Neighbours(family)).iter().filter_map(neighbour).collect()
}

fn number(row: &Value, field: &str) -> Option<u32> {
    row.get(field)?.as_u64()?.try_into().ok()
}

fn text<'a>(row: &'a Value, field: &str) -> Option<&'a str> {
    row.get(field)?.as_str()
}

fn mac(value: &Value) -> Option<[u8; 6]> {
    if let Ok(mac) = serde_json::from_value(value.clone()) {
        return Some(mac);
    }
    let mut mac = [0; 6];
    let mut parts = value.as_str()?.split(':');
    for byte in &mut mac {
        *byte = u8::from_str_radix(parts.next()?, 16).ok()?;
    }
    parts.next().is_none().then_some(mac)
}

fn interface(row: &Value) -> Option<InterfaceRow> {
    Some(InterfaceRow {
        index: number(row, "index")?,
        name: text(row, "name")?.to_owned(),
        mac: row.get("mac").and_then(mac).unwrap_or_default(),
        mtu: number(row, "mtu")?,
        up: row.get("up")?.as_bool()?,
        gso_max_bytes: number(row, "gso_max_bytes").unwrap_or(0),
        checksum_offload: row.get("checksum_offload").and_then(Value::as_bool).unwrap_or(false),
        carrier: row.get("carrier").and_then(Value::as_bool).unwrap_or(true),
        link: serde_json::from_value(row.get("link")?.clone()).ok()?,
        group: number(row, "group").unwrap_or(0),
        tx_queue_packets: number(row, "tx_queue_packets").unwrap_or(1000),
        set_flags: [
            ("arp", false, libc::IFF_NOARP),
            ("promiscuous", true, libc::IFF_PROMISC),
            ("all_multicast", true, libc::IFF_ALLMULTI),
            ("dynamic", true, libc::IFF_DYNAMIC),
        ]
        .into_iter()
        .filter(|(field, means, _)| row.get(*field).and_then(Value::as_bool) == Some(*means))
        .fold(0, |flags, (_, _, flag)| flags | flag),
        multicast: row.get("multicast").and_then(Value::as_bool),
    })
}

fn prefix(text: &str, family: Family) -> Option<(IpAddr, u8)> {
    if text == "default" {
        return Some(match family {
            Family::V4 => (Ipv4Addr::UNSPECIFIED.into(), 0),
            Family::V6 => (Ipv6Addr::UNSPECIFIED.into(), 0),
        });
    }
    let (address, bits) = text.split_once('/').map_or((text, None), |(address, bits)| (address, Some(bits)));
    let address: IpAddr = address.parse().ok()?;
    let all = bits_of(address);
    Some((address, bits.map_or(Some(all), |bits| bits.parse().ok().filter(|bits| *bits <= all))?))
}

fn bits_of(address: IpAddr) -> u8 {
    if address.is_ipv6() { 128 } else { 32 }
}

fn route(row: &Value, family: Family) -> Option<RouteRow> {
    // Nothing looks at the others.
    text(row, "table").filter(|table| matches!(*table, "main" | "local"))?;
    let address = |field| text(row, field).and_then(|text| text.parse().ok());
    Some(RouteRow {
        local_table: text(row, "table") == Some("local"),
        kind: serde_json::from_value(row.get("kind")?.clone()).ok()?,
        destination: prefix(text(row, "destination")?, family)?,
        gateway: address("gateway"),
        interface: number(row, "interface")?,
        source: address("source"),
        metric: number(row, "metric").unwrap_or(0),
    })
}

fn neighbour(row: &Value) -> Option<NeighbourRow> {
    Some(NeighbourRow {
        interface: number(row, "interface")?,
        address: text(row, "address")?.parse().ok()?,
        mac: row.get("mac").and_then(mac),
        state: text(row, "state")?.to_owned(),
        router: row.get("router").and_then(Value::as_bool).unwrap_or(false),
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rows_are_read_as_their_owners_write_them() {
        let row = serde_json::json!({"index": 2, "name": "weft0", "mac": "02:00:00:00:00:0a", "mtu": 1500, "up": true, "link": "ethernet", "group": 0, "rx_frames": 5});
        let read = interface(&row).unwrap();
        assert_eq!((read.index, read.mac, read.link), (2, [2, 0, 0, 0, 0, 10], LinkType::Ethernet));
        let row = serde_json::json!({"table": "main", "kind": "unicast", "destination": "10.0.0.0/8", "gateway": "10.1.1.1", "interface": 2, "source": null, "metric": 5});
        let read = route(&row, Family::V4).unwrap();
        assert_eq!(
            (read.destination, read.gateway, read.metric),
            ((Ipv4Addr::new(10, 0, 0, 0).into(), 8), Some(Ipv4Addr::new(10, 1, 1, 1).into()), 5)
        );
        assert!(route(&serde_json::json!({"kind": "unicast"}), Family::V4).is_none());
    }
}
