//! What blocks alert of, as messages to multicast groups (RTNLGRP_*).

use crate::hops::Dark;
use crate::link::{self, DELLINK, NEWLINK};
use crate::message::Message;
use crate::neighbour::{self, DELNEIGH, NEWNEIGH};
use crate::route::{DELROUTE, NEWROUTE};
use crate::rule::{self, DELRULE, NEWRULE};
use crate::{Tables, address, interfaces, qdisc};
use serde::Deserialize as _;
use std::net::{IpAddr, Ipv6Addr};
use weft_core::InterfaceIndex;
use weft_core::control::Value;
use weft_core::table::{Address, Family, InterfaceRow, PROTOCOL_STATIC, Route, RouteRow, RuleRow, TABLE_MAIN, Which};

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
        "changed" | "group_changed" => links(value, tables),
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

/// One interface or the members of a group. Of those that go the alert has the rows; the others are as they are now.
fn links(value: &Value, tables: &mut dyn Tables) -> Vec<(u32, Message)> {
    let gone = is_gone(value);
    let told = [value.get("row").map(std::slice::from_ref), value.get("rows").and_then(Value::as_array).map(Vec::as_slice)];
    let told: Vec<&Value> = told.into_iter().flatten().flatten().collect();
    if gone || !told.is_empty() {
        let rows = told.into_iter().filter_map(|row| InterfaceRow::deserialize(row).ok());
        let message = |row: InterfaceRow| match gone {
            // dev_shutdown has taken its queue.
            true => link::message(&row, Some("noop"), DELLINK, true),
            false => link::message(&row, None, NEWLINK, true),
        };
        return rows.map(|row| (RTNLGRP_LINK, message(row))).collect();
    }
    let queues = qdisc::names(tables);
    let members = value.get("members").and_then(Value::as_array).into_iter().flatten();
    let members = members.filter_map(|member| member.as_u64().and_then(|index| u32::try_from(index).ok()));
    let rows: Vec<u32> = number(value, "index").into_iter().chain(members).collect();
    let rows = rows.into_iter().filter_map(|index| interfaces(tables, Which::Index(InterfaceIndex(index))).pop());
    let rises = value.get("rising").is_some();
    let message = |row: &InterfaceRow| match queues.get(&row.interface.index.0).copied() {
        queue if rises => link::rising(row, queue),
        queue => link::message(row, queue, NEWLINK, true),
    };
    rows.map(|row| (RTNLGRP_LINK, message(&row))).collect()
}

/// What is gone is told as it was; of what is there the alert says only which one.
fn of_address(value: &Value, tables: &mut dyn Tables) -> Option<(u32, Message)> {
    // What a node gives itself is told of when it is known to be its own.
    if value.get("early").is_some() {
        return None;
    }
    let index = InterfaceIndex(number(value, "interface")?);
    let ip: IpAddr = text(value, "address")?.parse().ok()?;
    let family = Family::of(ip);
    let now = tables.now();
    let group = if family == Family::V4 { RTNLGRP_IPV4_IFADDR } else { RTNLGRP_IPV6_IFADDR };
    if is_gone(value) {
        let row = Address::deserialize(value.get("row")?).ok()?;
        let secondary = value.get("secondary").and_then(Value::as_bool).unwrap_or(false);
        let name = text(value, "interface_name").unwrap_or("");
        return Some((group, address::message(&row, secondary, name, address::DELADDR, now)));
    }
    let name = interfaces(tables, Which::Index(index)).pop().map_or_else(String::new, |row| row.interface.name);
    let here: Vec<Address> = address::all(family, tables).into_iter().filter(|address| address.interface == index).collect();
    let (row, secondary) = address::in_order(here).into_iter().find(|(address, _)| address.address == ip)?;
    Some((group, address::message(&row, secondary, &name, address::NEWADDR, now)))
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
    // Only the successor of a route that is replaced is told of, and nothing of those that go with their interface (fib_table_flush).
    if text(value, "event") == Some("replaced") || value.get("flushed").is_some() {
        return None;
    }
    let kind = if is_gone(value) { DELROUTE } else { NEWROUTE };
    let row = RouteRow { hops: crate::hops::of_row(value, route).into(), route };
    let hops = value.get("nexthops").and_then(Value::as_array).into_iter().flatten().chain([value]);
    let is = |value: &Value, field: &str| value.get(field).and_then(Value::as_bool).unwrap_or(false);
    let interfaces = hops.filter(|hop| is(hop, "linkdown")).filter_map(|hop| number(hop, "interface")).map(InterfaceIndex).collect();
    let dark = Dark { interfaces, ignored: is(value, "ignores_linkdown") };
    Some((if v6 { RTNLGRP_IPV6_ROUTE } else { RTNLGRP_IPV4_ROUTE }, crate::route::message(&row, kind, &dark)))
}
