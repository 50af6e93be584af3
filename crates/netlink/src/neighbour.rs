//! RTM_*NEIGH: link-layer addresses of neighbours.

use crate::errno::{EEXIST, EINVAL, ENODEV, ENOENT, Refusal, number_of};
use crate::message::{Attributes, INET, INET6, Message, byte, families, mac_text, word};
use crate::packet::{NLM_F_CREATE, NLM_F_EXCL, Options, Reply, Request};
use crate::{Tables, interfaces};
use serde_json::json;
use std::net::IpAddr;
use weft_core::InterfaceIndex;
use weft_core::control::Value;
use weft_core::table::{Answer, Family, Query, Table, Which};

pub(crate) const NEWNEIGH: u16 = 28;
pub(crate) const DELNEIGH: u16 = 29;
/// Bytes of `struct ndmsg`.
const FIXED_BYTES: usize = 12;
const NDA_DST: u16 = 1;
const NDA_LLADDR: u16 = 2;
const NDA_CACHEINFO: u16 = 3;
const NDA_PROBES: u16 = 4;
const NDA_IFINDEX: u16 = 8;
const NTF_PROXY: u8 = 0x08;
const NTF_ROUTER: u8 = 0x80;
/// NUD_* by their names.
const STATES: [(&str, u16); 7] =
    [("INCOMPLETE", 1), ("REACHABLE", 2), ("STALE", 4), ("DELAY", 8), ("PROBE", 0x10), ("FAILED", 0x20), ("PERMANENT", 0x80)];
const NUD_NOARP: u16 = 0x40;
/// NUD_INCOMPLETE, NUD_REACHABLE, NUD_DELAY, NUD_PROBE.
const NUD_IN_TIMER: u16 = 0x1b;
/// A tick of USER_HZ.
const TICK_MS: u64 = 10;

/// A row as its owner tells it.
pub(crate) struct Row {
    pub(crate) interface: u32,
    address: IpAddr,
    mac: Option<Vec<u8>>,
    state: u16,
    router: bool,
    /// How long ago it was confirmed, used and updated, clock ticks.
    ages: [u32; 3],
    probes: u32,
}

impl Row {
    pub(crate) fn read(row: &Value) -> Option<Row> {
        let text = |field: &str| row.get(field)?.as_str();
        let number = |field: &str| row.get(field).and_then(Value::as_u64).unwrap_or(0);
        let byte = |part: &str| u8::from_str_radix(part, 16).ok();
        Some(Row {
            interface: row.get("interface")?.as_u64()?.try_into().ok()?,
            address: text("address")?.parse().ok()?,
            mac: text("mac").and_then(|mac| mac.split(':').map(byte).collect()),
            state: text("state").and_then(|name| STATES.iter().find(|(known, _)| *known == name)).map_or(0, |(_, number)| *number),
            router: row.get("router").and_then(Value::as_bool).unwrap_or(false),
            ages: ["confirmed_ms", "used_ms", "updated_ms"].map(|field| u32::try_from(number(field) / TICK_MS).unwrap_or(u32::MAX)),
            probes: u32::try_from(number("probes")).unwrap_or(u32::MAX),
        })
    }
}

fn all(family: Family, tables: &mut dyn Tables) -> Vec<Row> {
    match tables.ask(Table::Neighbours(family), &Query::List(Table::Neighbours(family))) {
        Answer::List(rows) => rows.iter().filter_map(Row::read).collect(),
        _ => Vec::new(),
    }
}

/// neigh_fill_info.
pub(crate) fn message(row: &Row, kind: u16) -> Message {
    let mut fixed = vec![if row.address.is_ipv6() { INET6 } else { INET }, 0, 0, 0];
    fixed.extend(row.interface.to_ne_bytes());
    fixed.extend(row.state.to_ne_bytes());
    // RTN_UNICAST
    fixed.extend([if row.router { NTF_ROUTER } else { 0 }, 1]);
    let mut message = Message::new(kind, &fixed);
    message.address(NDA_DST, row.address);
    if let Some(mac) = &row.mac {
        message.bytes(NDA_LLADDR, mac);
    }
    // neigh_fill_info: "ci.ndm_refcnt = refcount_read(&neigh->refcnt) - 1;", which is 1 where a timer is set (neigh_add_timer).
    let [confirmed, used, updated] = row.ages;
    let cache = [confirmed, used, updated, u32::from(row.state & NUD_IN_TIMER != 0)];
    message.bytes(NDA_CACHEINFO, &cache.iter().flat_map(|number| number.to_ne_bytes()).collect::<Vec<_>>());
    message.u32(NDA_PROBES, row.probes);
    message
}

pub(crate) fn answer(request: &Request<'_>, options: &Options, tables: &mut dyn Tables) -> Result<Reply, Refusal> {
    let attributes = Attributes::of(request.body, FIXED_BYTES);
    let proxies = byte(request.body, 10) & NTF_PROXY != 0;
    if request.is_dump() {
        let only = attributes.u32(NDA_IFINDEX).filter(|_| options.strict);
        if proxies {
            return Ok(Reply::Dump(Vec::new(), only.is_some()));
        }
        let rows: Vec<Row> = families(byte(request.body, 0)).iter().flat_map(|family| all(*family, tables)).collect();
        let wanted = |row: &&Row| only.is_none_or(|only| row.interface == only);
        return Ok(Reply::Dump(rows.iter().filter(wanted).map(|row| message(row, NEWNEIGH)).collect(), only.is_some()));
    }
    if proxies {
        return Err(Refusal::lacking("answers for nobody else: it has no proxy neighbours"));
    }
    let address = attributes.address(NDA_DST).ok_or_else(|| Refusal::said(EINVAL, "Network address not specified"))?;
    let index = word(request.body, 4);
    if interfaces(tables, Which::Index(InterfaceIndex(index))).is_empty() {
        return Err(Refusal::plain(ENODEV));
    }
    let (family, block) = if address.is_ipv4() { (Family::V4, "arp") } else { (Family::V6, "nd") };
    let target = json!({"interface": index, "address": address.to_string()});
    match request.kind {
        NEWNEIGH => set(request, &attributes, target, block, tables),
        DELNEIGH => {
            tables.exec(block, "delete", target).map_err(|error| Refusal::plain(number_of(&error).0))?;
            Ok(Reply::Done)
        }
        _ => {
            let found = all(family, tables).into_iter().find(|row| row.interface == index && row.address == address);
            found.map(|row| Reply::One(message(&row, NEWNEIGH))).ok_or_else(|| Refusal::said(ENOENT, "Neighbour entry not found"))
        }
    }
}

/// neigh_add.
fn set(
    request: &Request<'_>,
    attributes: &Attributes<'_>,
    mut target: Value,
    block: &str,
    tables: &mut dyn Tables,
) -> Result<Reply, Refusal> {
    let state = u16::from_ne_bytes([byte(request.body, 8), byte(request.body, 9)]);
    if state & NUD_NOARP != 0 {
        return Err(Refusal::lacking("has no neighbours of state noarp: interfaces without Ethernet ask nobody anyway"));
    }
    let name = STATES.iter().find(|(_, number)| state & number != 0).map_or("FAILED", |(name, _)| *name);
    if let Some(mac) = attributes.get(NDA_LLADDR) {
        let mac = mac.get(..6).ok_or_else(|| Refusal::said(EINVAL, "Invalid link address"))?;
        target["mac"] = mac_text(mac).into();
    }
    target["state"] = if name == "INCOMPLETE" { "FAILED" } else { name }.into();
    target["router"] = (byte(request.body, 10) & NTF_ROUTER != 0).into();
    match (request.has(NLM_F_CREATE), request.has(NLM_F_EXCL)) {
        (_, true) => target["mode"] = "new".into(),
        (false, false) => target["mode"] = "change".into(),
        (true, false) => {}
    }
    tables.exec(block, "add", target).map_err(|error| match number_of(&error) {
        (errno @ (EEXIST | ENOENT), _) => Refusal::plain(errno),
        (EINVAL, why) if why.contains("mac is missing") => Refusal::said(EINVAL, "No link layer address given"),
        (errno, why) => Refusal::said(errno, format!("weft: {why}")),
    })?;
    Ok(Reply::Done)
}
