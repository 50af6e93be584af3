//! What blocks alert of, as messages to multicast groups (RTNLGRP_*).

use crate::link::{self, DELLINK, NEWLINK};
use crate::message::Message;
use crate::neighbour::{self, DELNEIGH, NEWNEIGH};
use crate::route::{DELROUTE, NEWROUTE};
use crate::rule::{self, DELRULE, NEWRULE};
use crate::{Tables, address, interfaces, qdisc};
use std::net::{IpAddr, Ipv6Addr};
use weft_core::InterfaceIndex;
use weft_core::control::Value;
use weft_core::table::{
    Address, Family, Interface, InterfaceCounts, InterfaceRow, InterfaceSettings, LinkType, PROTOCOL_STATIC, Route, RouteRow, RuleRow,
    TABLE_MAIN, Which,
};

const RTNLGRP_LINK: u32 = 1;
const RTNLGRP_NEIGH: u32 = 3;
const RTNLGRP_TC: u32 = 4;
const RTNLGRP_IPV4_IFADDR: u32 = 5;
const RTNLGRP_IPV4_ROUTE: u32 = 7;
const RTNLGRP_IPV4_RULE: u32 = 8;
const RTNLGRP_IPV6_IFADDR: u32 = 9;
const RTNLGRP_IPV6_ROUTE: u32 = 11;
const RTNLGRP_IPV6_RULE: u32 = 19;

/// The messages that an alert of this name is, each with its group.
pub(crate) fn messages(name: &str, value: &Value, tables: &mut dyn Tables) -> Vec<(u32, Message)> {
    match name {
        "changed" => links(number(value, "index"), value, tables),
        "group_changed" => {
            let members = value.get("members").and_then(Value::as_array);
            let index = |member: &Value| member.as_u64().and_then(|index| u32::try_from(index).ok());
            links(members.into_iter().flatten().filter_map(index), value, tables)
        }
        "address" => of_address(value, tables).into_iter().collect(),
        "route" => of_route(value).into_iter().collect(),
        "rule" => of_rule(value).into_iter().collect(),
        "neighbour" => of_neighbour(value).into_iter().collect(),
        "queue" => qdisc::notifications(value).into_iter().map(|message| (RTNLGRP_TC, message)).collect(),
        _ => Vec::new(),
    }
}

fn number(value: &Value, field: &str) -> Option<u32> {
    value.get(field)?.as_u64()?.try_into().ok()
}

fn text<'a>(value: &'a Value, field: &str) -> Option<&'a str> {
    value.get(field)?.as_str()
}

fn is_gone(value: &Value) -> bool {
    matches!(text(value, "event"), Some("removed" | "deleted"))
}

fn links(of: impl IntoIterator<Item = u32>, value: &Value, tables: &mut dyn Tables) -> Vec<(u32, Message)> {
    let queues = qdisc::names(tables);
    let mut one = |index: u32| {
        let row = interfaces(tables, Which::Index(InterfaceIndex(index))).pop().filter(|_| !is_gone(value));
        let message = match row {
            Some(row) => link::message(&row, queues.get(&index).copied(), NEWLINK, true),
            None => link::message(&gone(index, text(value, "name").unwrap_or("")), None, DELLINK, false),
        };
        (RTNLGRP_LINK, message)
    };
    of.into_iter().map(&mut one).collect()
}

/// Of an interface that is no more, number and name are known.
fn gone(index: u32, name: &str) -> InterfaceRow {
    InterfaceRow {
        interface: Interface {
            index: InterfaceIndex(index),
            name: name.to_owned(),
            mac: [0; 6],
            mtu: 0,
            up: false,
            link: LinkType::Ethernet,
            group: 0,
            gso_max_bytes: 0,
            checksum_offload: false,
            backend: "gone".to_owned(),
        },
        settings: InterfaceSettings::default(),
        counts: InterfaceCounts::default(),
    }
}

fn of_address(value: &Value, tables: &mut dyn Tables) -> Option<(u32, Message)> {
    let index = InterfaceIndex(number(value, "interface")?);
    let ip: IpAddr = text(value, "address")?.parse().ok()?;
    let family = Family::of(ip);
    let name = interfaces(tables, Which::Index(index)).pop().map_or_else(String::new, |row| row.interface.name);
    let now = tables.now();
    let here: Vec<Address> = address::all(family, tables).into_iter().filter(|address| address.interface == index).collect();
    let row = address::in_order(here).into_iter().find(|(address, _)| address.address == ip).filter(|_| !is_gone(value));
    let group = if family == Family::V4 { RTNLGRP_IPV4_IFADDR } else { RTNLGRP_IPV6_IFADDR };
    Some((
        group,
        match row {
            Some((row, secondary)) => address::message(&row, secondary, &name, address::NEWADDR, now),
            None => {
                let bits = number(value, "prefix_bits").and_then(|bits| u8::try_from(bits).ok())?;
                address::message(&Address::permanent(index, ip, bits), false, &name, address::DELADDR, now)
            }
        },
    ))
}

fn of_neighbour(value: &Value) -> Option<(u32, Message)> {
    let kind = if is_gone(value) { DELNEIGH } else { NEWNEIGH };
    Some((RTNLGRP_NEIGH, neighbour::message(&neighbour::Row::read(value)?, kind)))
}

fn of_rule(value: &Value) -> Option<(u32, Message)> {
    let row: RuleRow = serde_json::from_value(value.clone()).ok()?;
    let v6 = value.get("v6").and_then(Value::as_bool)?;
    let (group, family) = if v6 { (RTNLGRP_IPV6_RULE, Family::V6) } else { (RTNLGRP_IPV4_RULE, Family::V4) };
    Some((group, rule::message(&row, family, if is_gone(value) { DELRULE } else { NEWRULE })))
}

fn of_route(value: &Value) -> Option<(u32, Message)> {
    let address = |field: &str| text(value, field).and_then(|text| text.parse::<IpAddr>().ok());
    let destination = text(value, "destination")?;
    let v6 = value.get("v6").and_then(Value::as_bool).unwrap_or(destination.contains(':'));
    let (ip, bits) = match destination.split_once('/') {
        Some((ip, bits)) => (ip.parse().ok()?, bits.parse().ok()?),
        None if destination == "default" && v6 => (Ipv6Addr::UNSPECIFIED.into(), 0),
        None if destination == "default" => (Route::PLAIN.destination, 0),
        None => (destination.parse().ok()?, if v6 { 128 } else { 32 }),
    };
    let byte = |field: &str| number(value, field).and_then(|number| u8::try_from(number).ok());
    let route = Route {
        destination: ip,
        prefix_bits: bits,
        gateway: address("gateway"),
        interface: InterfaceIndex(number(value, "interface").unwrap_or(0)),
        source: address("source"),
        metric: number(value, "metric").unwrap_or(0),
        mtu: number(value, "mtu"),
        kind: serde_json::from_value(value.get("kind")?.clone()).ok()?,
        protocol: byte("protocol").unwrap_or(PROTOCOL_STATIC),
        scope: byte("scope").unwrap_or(0),
        onlink: value.get("onlink").and_then(Value::as_bool).unwrap_or(false),
        table: text(value, "table").and_then(|table| table.parse().ok()).unwrap_or(TABLE_MAIN),
    };
    // Only the successor of a route that is replaced is told of.
    if text(value, "event") == Some("replaced") {
        return None;
    }
    let kind = if is_gone(value) { DELROUTE } else { NEWROUTE };
    let row = RouteRow { hops: crate::hops::of_row(value, route).into(), route };
    Some((if v6 { RTNLGRP_IPV6_ROUTE } else { RTNLGRP_IPV4_ROUTE }, crate::route::message(&row, kind)))
}
