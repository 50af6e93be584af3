//! RTM_*LINK: interfaces.

use crate::errno::{EADDRNOTAVAIL, EEXIST, EINVAL, ENODEV, EOPNOTSUPP, Refusal, number_of};
use crate::message::{Attributes, INET6, Message, byte, mac_text, put, word};
use crate::packet::{NLM_F_CREATE, NLM_F_EXCL, Options, Reply, Request};
use crate::{Tables, interfaces, qdisc};
use serde_json::json;
use weft_core::InterfaceIndex;
use weft_core::table::{InterfaceRow, LinkType, Which};

/// RTM_NEWLINK, and what a link is told as.
pub(crate) const NEWLINK: u16 = 16;
pub(crate) const DELLINK: u16 = 17;
const GETLINK: u16 = 18;
/// AF_BRIDGE
const BRIDGE: u8 = 7;
/// Bytes of `struct ifinfomsg`.
const FIXED_BYTES: usize = 16;

const IFLA_ADDRESS: u16 = 1;
const IFLA_BROADCAST: u16 = 2;
const IFLA_IFNAME: u16 = 3;
const IFLA_MTU: u16 = 4;
const IFLA_QDISC: u16 = 6;
const IFLA_STATS: u16 = 7;
const IFLA_MASTER: u16 = 10;
const IFLA_TXQLEN: u16 = 13;
const IFLA_OPERSTATE: u16 = 16;
const IFLA_LINKMODE: u16 = 17;
const IFLA_LINKINFO: u16 = 18;
const IFLA_IFALIAS: u16 = 20;
const IFLA_STATS64: u16 = 23;
const IFLA_AF_SPEC: u16 = 26;
const IFLA_GROUP: u16 = 27;
const IFLA_EXT_MASK: u16 = 29;
const IFLA_PROMISCUITY: u16 = 30;
const IFLA_NUM_TX_QUEUES: u16 = 31;
const IFLA_NUM_RX_QUEUES: u16 = 32;
const IFLA_CARRIER: u16 = 33;
const IFLA_CARRIER_CHANGES: u16 = 35;
const IFLA_GSO_MAX_SEGS: u16 = 40;
const IFLA_GSO_MAX_SIZE: u16 = 41;
const IFLA_CARRIER_UP_COUNT: u16 = 47;
const IFLA_CARRIER_DOWN_COUNT: u16 = 48;
const IFLA_MIN_MTU: u16 = 50;
const IFLA_MAX_MTU: u16 = 51;
const IFLA_ALT_IFNAME: u16 = 53;
const IFLA_ALLMULTI: u16 = 61;
const IFLA_INFO_KIND: u16 = 1;
const IFLA_INET6_ADDR_GEN_MODE: u16 = 8;
/// RTEXT_FILTER_SKIP_STATS.
const SKIP_STATS: u32 = 8;

/// What can be asked of a link and is not here.
const LACKING: [(u16, &str); 10] = [
    (IFLA_LINKMODE, "has no link modes"),
    (19, "moves no interface to another network namespace (by process)"),
    (21, "has no virtual functions"),
    (22, "has no virtual functions"),
    (24, "has no virtual functions"),
    (28, "moves no interface to another network namespace (by descriptor)"),
    (IFLA_CARRIER, "sets no carrier: cut the wire instead"),
    (39, "has no protocol that puts an interface down"),
    (43, "has no XDP programs here: see `weft help block`"),
    (52, "has one name for an interface, and no others beside it"),
];

const IF_OPER_DOWN: u8 = 2;

const IFF_UP: u32 = 1;
const IFF_BROADCAST: u32 = 2;
const IFF_LOOPBACK: u32 = 8;
const IFF_POINTOPOINT: u32 = 0x10;
const IFF_RUNNING: u32 = 0x40;
const IFF_NOARP: u32 = 0x80;
const IFF_PROMISC: u32 = 0x100;
const IFF_ALLMULTI: u32 = 0x200;
const IFF_MULTICAST: u32 = 0x1000;
const IFF_DYNAMIC: u32 = 0x8000;
const IFF_LOWER_UP: u32 = 0x10000;

pub(crate) fn answer(request: &Request<'_>, options: &Options, tables: &mut dyn Tables) -> Result<Reply, Refusal> {
    let attributes = Attributes::of(request.body, FIXED_BYTES);
    match request.kind {
        GETLINK if request.is_dump() && byte(request.body, 0) == INET6 => Ok(dump_v6(tables)),
        // AF_BRIDGE: ports of bridges.
        GETLINK if request.is_dump() && byte(request.body, 0) == BRIDGE => Ok(Reply::Dump(Vec::new(), false)),
        GETLINK if request.is_dump() => Ok(dump(&attributes, options, tables)),
        GETLINK => {
            let row = find(request.body, &attributes, tables)?;
            let queue = qdisc::names(tables).remove(&row.interface.index.0);
            Ok(Reply::One(message(&row, queue, NEWLINK, attributes.u32(IFLA_EXT_MASK).unwrap_or(0) & SKIP_STATS == 0)))
        }
        DELLINK => delete(request, &attributes, tables),
        _ => new(request, &attributes, tables),
    }
}

fn dump(attributes: &Attributes<'_>, options: &Options, tables: &mut dyn Tables) -> Reply {
    let master = attributes.u32(IFLA_MASTER).filter(|_| options.strict);
    let kind = attributes.nested(IFLA_LINKINFO).and_then(|info| info.text(IFLA_INFO_KIND)).filter(|_| options.strict);
    let stats = attributes.u32(IFLA_EXT_MASK).unwrap_or(0) & SKIP_STATS == 0;
    let filtered = master.is_some() || kind.is_some();
    // No interface here is under another, or of a kind that has a name, but those that a program made.
    let rows = if master.is_some_and(|master| master != 0) { Vec::new() } else { interfaces(tables, Which::All) };
    let wanted = |row: &&InterfaceRow| kind.is_none_or(|kind| kind == "dummy" && is_dummy(row));
    let queues = qdisc::names(tables);
    let queue = |row: &InterfaceRow| queues.get(&row.interface.index.0).copied();
    Reply::Dump(rows.iter().filter(wanted).map(|row| message(row, queue(row), NEWLINK, stats)).collect(), filtered)
}

/// inet6_dump_ifinfo: what IPv6 knows of interfaces.
fn dump_v6(tables: &mut dyn Tables) -> Reply {
    let brief = |row: &InterfaceRow| {
        let mut message = Message::new(NEWLINK, &head(row, INET6, NEWLINK, false));
        message.text(IFLA_IFNAME, &row.interface.name);
        if row.interface.link != LinkType::Raw {
            message.bytes(IFLA_ADDRESS, &row.interface.mac);
        }
        message.u32(IFLA_MTU, row.interface.mtu);
        message.u8(IFLA_OPERSTATE, operational_state(row));
        message
    };
    Reply::Dump(interfaces(tables, Which::All).iter().map(brief).collect(), false)
}

/// Made by a program: nothing is behind it.
fn is_dummy(row: &InterfaceRow) -> bool {
    row.interface.backend.is_empty() && row.interface.link == LinkType::Ethernet
}

/// The interface of a request, by index or name.
fn find(body: &[u8], attributes: &Attributes<'_>, tables: &mut dyn Tables) -> Result<InterfaceRow, Refusal> {
    let index = word(body, 4);
    let name = attributes.text(IFLA_IFNAME).or(attributes.text(IFLA_ALT_IFNAME)).filter(|name| !name.is_empty());
    let which = match (index, name) {
        (0, None) => return Err(Refusal::plain(EINVAL)),
        (0, Some(name)) => Which::Named(name.to_owned()),
        (index, _) => Which::Index(InterfaceIndex(index)),
    };
    interfaces(tables, which).pop().ok_or(Refusal::plain(ENODEV))
}

/// IFF_*.
pub(crate) fn flags(row: &InterfaceRow) -> u32 {
    let (interface, settings) = (&row.interface, &row.settings);
    let on = |flag: u32, on: bool| if on { flag } else { 0 };
    let (kind, multicast) = match interface.link {
        LinkType::Loopback => (IFF_LOOPBACK, false),
        LinkType::Ethernet => (IFF_BROADCAST, true),
        LinkType::Raw => (IFF_POINTOPOINT | IFF_NOARP, false),
    };
    // dev_get_flags: without IFF_UP there is neither of the others.
    kind | on(IFF_UP, interface.up)
        | on(IFF_RUNNING | IFF_LOWER_UP, interface.is_running())
        | on(IFF_MULTICAST, settings.multicast.unwrap_or(multicast))
        | on(IFF_NOARP, !settings.arp)
        | on(IFF_PROMISC, settings.promiscuous)
        | on(IFF_ALLMULTI, settings.all_multicast)
        | on(IFF_DYNAMIC, settings.dynamic)
}

/// `struct ifinfomsg`.
fn head(row: &InterfaceRow, family: u8, kind: u16, rising: bool) -> Vec<u8> {
    let interface = &row.interface;
    // ARPHRD_LOOPBACK, ARPHRD_ETHER, ARPHRD_NONE.
    let hardware: u16 = match interface.link {
        LinkType::Loopback => 772,
        LinkType::Ethernet => 1,
        LinkType::Raw => 0xfffe,
    };
    let mut fixed = vec![family, 0];
    fixed.extend(hardware.to_ne_bytes());
    fixed.extend(interface.index.0.to_ne_bytes());
    fixed.extend((flags(row) & if rising { !IFF_RUNNING } else { u32::MAX }).to_ne_bytes());
    fixed.extend(if kind == DELLINK { u32::MAX } else { 0 }.to_ne_bytes());
    fixed
}

/// IF_OPER_UNKNOWN, IF_OPER_UP, or down.
fn operational_state(row: &InterfaceRow) -> u8 {
    match (row.interface.is_running(), row.interface.link) {
        (true, LinkType::Loopback) => 0,
        (true, _) => 6,
        (false, _) => IF_OPER_DOWN,
    }
}

/// rtnl_fill_ifinfo. `queue`: the name of the one that it has.
pub(crate) fn message(row: &InterfaceRow, queue: Option<&str>, kind: u16, stats: bool) -> Message {
    message_of(row, queue, kind, stats, false)
}

/// The same of one that was put up and has a carrier of which nobody has taken notice.
pub(crate) fn rising(row: &InterfaceRow, queue: Option<&str>) -> Message {
    message_of(row, queue, NEWLINK, true, true)
}

fn message_of(row: &InterfaceRow, queue: Option<&str>, kind: u16, stats: bool, rising: bool) -> Message {
    let (interface, settings) = (&row.interface, &row.settings);
    let mut message = Message::new(kind, &head(row, 0, kind, rising));
    message.text(IFLA_IFNAME, &interface.name);
    message.u32(IFLA_TXQLEN, settings.tx_queue_packets);
    message.u8(IFLA_OPERSTATE, if rising { IF_OPER_DOWN } else { operational_state(row) });
    message.u8(IFLA_LINKMODE, 0);
    message.u32(IFLA_MTU, interface.mtu);
    let (mtu_min, mtu_max) = if interface.link == LinkType::Loopback { (0, 0) } else { (68, 65_535) };
    message.u32(IFLA_MIN_MTU, mtu_min);
    message.u32(IFLA_MAX_MTU, mtu_max);
    message.u32(IFLA_GROUP, interface.group);
    message.u32(IFLA_PROMISCUITY, settings.promiscuous.into());
    message.u32(IFLA_ALLMULTI, settings.all_multicast.into());
    message.u32(IFLA_NUM_TX_QUEUES, 1);
    message.u32(IFLA_GSO_MAX_SEGS, 65_535);
    message.u32(IFLA_GSO_MAX_SIZE, 65_536);
    message.u32(IFLA_NUM_RX_QUEUES, 1);
    message.u8(IFLA_CARRIER, interface.carrier.into());
    let (ups, downs) = (row.counts.carrier_ups, row.counts.carrier_downs);
    message.u32(IFLA_CARRIER_CHANGES, ups.saturating_add(downs));
    message.u32(IFLA_CARRIER_UP_COUNT, ups);
    message.u32(IFLA_CARRIER_DOWN_COUNT, downs);
    message.text(IFLA_QDISC, queue.unwrap_or("noqueue"));
    if !settings.alias.is_empty() {
        message.text(IFLA_IFALIAS, &settings.alias);
    }
    if interface.link != LinkType::Raw {
        message.bytes(IFLA_ADDRESS, &interface.mac);
        message.bytes(IFLA_BROADCAST, &if interface.link == LinkType::Loopback { [0; 6] } else { [0xff; 6] });
    }
    if stats {
        let numbers = statistics(row);
        message.bytes(IFLA_STATS64, &numbers.iter().flat_map(|number| number.to_ne_bytes()).collect::<Vec<_>>());
        message.bytes(IFLA_STATS, &numbers[..24].iter().flat_map(|number| (*number as u32).to_ne_bytes()).collect::<Vec<_>>());
    }
    if is_dummy(row) {
        let mut info = Vec::new();
        put(&mut info, IFLA_INFO_KIND, b"dummy\0");
        message.bytes(IFLA_LINKINFO, &info);
    }
    let (mut mode, mut families) = (Vec::new(), Vec::new());
    put(&mut mode, IFLA_INET6_ADDR_GEN_MODE, &[0]);
    put(&mut families, INET6.into(), &mode);
    message.bytes(IFLA_AF_SPEC, &families);
    message
}

/// `struct rtnl_link_stats64`.
fn statistics(row: &InterfaceRow) -> [u64; 25] {
    let counts = &row.counts;
    let mut numbers = [0; 25];
    let known = [
        counts.rx_packets,
        counts.tx_packets,
        counts.rx_bytes,
        counts.tx_bytes,
        counts.rx_errors,
        counts.tx_errors,
        counts.rx_dropped,
        counts.tx_dropped,
    ];
    numbers[..known.len()].copy_from_slice(&known);
    numbers
}

/// RTM_DELLINK: an interface, or the members of a group.
fn delete(request: &Request<'_>, attributes: &Attributes<'_>, tables: &mut dyn Tables) -> Result<Reply, Refusal> {
    let named = word(request.body, 4) != 0 || attributes.has(IFLA_IFNAME) || attributes.has(IFLA_ALT_IFNAME);
    let arguments = match attributes.u32(IFLA_GROUP) {
        _ if named => json!({"index": find(request.body, attributes, tables)?.interface.index.0}),
        Some(group) => json!({"of_group": group}),
        None => return Err(Refusal::plain(EINVAL)),
    };
    // The kernel says no more than the errno.
    tables.exec("interfaces", "remove", arguments).map_err(|error| Refusal::plain(number_of(&error).0))?;
    Ok(Reply::Done)
}

/// RTM_NEWLINK and RTM_SETLINK (__rtnl_newlink).
fn new(request: &Request<'_>, attributes: &Attributes<'_>, tables: &mut dyn Tables) -> Result<Reply, Refusal> {
    let named = attributes.text(IFLA_IFNAME).filter(|name| !name.is_empty());
    let specified = word(request.body, 4) != 0 || named.is_some() || attributes.has(IFLA_ALT_IFNAME);
    if specified {
        match find(request.body, attributes, tables) {
            // "if (nlh->nlmsg_flags & NLM_F_EXCL) return -EEXIST;"
            Ok(_) if request.has(NLM_F_EXCL) => return Err(Refusal::plain(EEXIST)),
            Ok(row) => return set(request, attributes, &json!({"index": row.interface.index.0}), tables),
            Err(refusal) if !request.has(NLM_F_CREATE) => return Err(refusal),
            Err(_) => {}
        }
    }
    if !request.has(NLM_F_CREATE) {
        // "if (!link_specified && tb[IFLA_GROUP]) return rtnl_group_changelink(…); return -ENODEV;"
        let group = attributes.u32(IFLA_GROUP).filter(|_| !specified).ok_or(Refusal::plain(ENODEV))?;
        return set(request, attributes, &json!({"of_group": group}), tables);
    }
    create(request, attributes, named, tables)
}

/// What the attributes and flags of a request want, as arguments of `interfaces set`.
fn wishes(
    request: &Request<'_>,
    attributes: &Attributes<'_>,
    of_group: bool,
) -> Result<serde_json::Map<String, serde_json::Value>, Refusal> {
    if let Some(what) = attributes.any(&LACKING) {
        return Err(Refusal::lacking(what));
    }
    if attributes.u32(IFLA_MASTER).is_some_and(|master| master != 0) {
        return Err(Refusal::lacking("puts no interface under another: bind blocks instead"));
    }
    let mut wishes = serde_json::Map::new();
    if let Some(mac) = attributes.get(IFLA_ADDRESS) {
        // do_setlink: "if (nla_len(tb[IFLA_ADDRESS]) < len) return -EINVAL"
        let mac = mac.get(..6).ok_or(Refusal::plain(EINVAL))?;
        wishes.insert("mac".into(), mac_text(mac).into());
    }
    for (kind, name) in [(IFLA_MTU, "mtu"), (IFLA_TXQLEN, "tx_queue_packets")] {
        if let Some(number) = attributes.u32(kind) {
            wishes.insert(name.into(), number.into());
        }
    }
    // Of a group it says which.
    if let Some(group) = attributes.u32(IFLA_GROUP).filter(|_| !of_group) {
        wishes.insert("group".into(), group.into());
    }
    if let Some(name) = attributes.text(IFLA_IFNAME).filter(|name| !name.is_empty()) {
        wishes.insert("new_name".into(), name.into());
    }
    if let Some(alias) = attributes.text(IFLA_IFALIAS) {
        wishes.insert("alias".into(), alias.into());
    }
    let (value, change) = (word(request.body, 8), word(request.body, 12));
    // rtnl_dev_get_flags: "bugwards compatibility: ifi_change == 0 is treated as ~0", where flags are set at all.
    let change = if change == 0 && value != 0 { u32::MAX } else { change };
    let on_off = [
        (IFF_UP, "up", true),
        (IFF_NOARP, "arp", false),
        (IFF_MULTICAST, "multicast", true),
        (IFF_PROMISC, "promiscuous", true),
        (IFF_ALLMULTI, "all_multicast", true),
        (IFF_DYNAMIC, "dynamic", true),
    ];
    for (flag, name, meaning) in on_off.into_iter().filter(|(flag, ..)| change & flag != 0) {
        wishes.insert(name.into(), ((value & flag != 0) == meaning).into());
    }
    Ok(wishes)
}

/// Changes an interface, or all of a group: as a whole or not at all.
fn set(request: &Request<'_>, attributes: &Attributes<'_>, target: &serde_json::Value, tables: &mut dyn Tables) -> Result<Reply, Refusal> {
    let of_group = target.get("of_group").and_then(serde_json::Value::as_u64);
    let mut wishes = wishes(request, attributes, of_group.is_some())?;
    if wishes.is_empty() {
        return Ok(Reply::Done);
    }
    let up = wishes.get("up").and_then(serde_json::Value::as_bool);
    let mtu = attributes.u32(IFLA_MTU);
    if let serde_json::Value::Object(target) = target {
        wishes.extend(target.clone());
    }
    tables.exec("interfaces", "set", wishes.into()).map_err(|error| refusal(&number_of(&error), mtu, of_group))?;
    if let Some(up) = up {
        let interface = match of_group {
            Some(group) => format!("group:{group}").into(),
            None => target["index"].clone(),
        };
        for block in ["ip4", "ip6"] {
            // What is down has no routes and, of IPv6, no addresses. A graph without the block has neither, an empty group nobody.
            let _ = tables.exec(block, "interface_set", json!({"interface": interface, "up": up}));
        }
    }
    Ok(Reply::Done)
}

/// The kernel's sentence; of a group the member that cannot is named, which the kernel does not do.
fn refusal((errno, why): &(i32, String), mtu: Option<u32>, group: Option<u64>) -> Refusal {
    let culprit = why.find("member '").filter(|_| group.is_some()).map(|at| &why[at..]);
    let text = match (*errno, mtu) {
        // dev_validate_mtu
        (EINVAL, Some(mtu)) if why.contains("mtu") => {
            Some(if mtu < 68 { "mtu less than device minimum" } else { "mtu greater than device maximum" }.to_owned())
        }
        _ => None,
    };
    match (text, culprit) {
        (Some(text), Some(culprit)) => Refusal::said(*errno, format!("{text}: {culprit}")),
        (None, Some(culprit)) if *errno == EADDRNOTAVAIL => Refusal::said(*errno, format!("address not valid: {culprit}")),
        (None, Some(culprit)) => Refusal::said(*errno, format!("refused: {culprit}")),
        (Some(text), None) => Refusal::said(*errno, text),
        (None, None) => Refusal::plain(*errno),
    }
}

/// RTM_NEWLINK that makes one: `ip link add type dummy`. Nothing is behind it.
fn create(request: &Request<'_>, attributes: &Attributes<'_>, name: Option<&str>, tables: &mut dyn Tables) -> Result<Reply, Refusal> {
    let kind = attributes.nested(IFLA_LINKINFO).and_then(|info| info.text(IFLA_INFO_KIND)).unwrap_or("");
    if kind != "dummy" {
        // rtnl_newlink_create: "NL_SET_ERR_MSG(extack, "Unknown device type")".
        return Err(Refusal::said(EOPNOTSUPP, "Unknown device type"));
    }
    let mut wishes = wishes(request, attributes, false)?;
    let name = match name {
        Some(name) => name.to_owned(),
        // dev_alloc_name: the lowest number that is free.
        None => {
            let taken: Vec<String> = interfaces(tables, Which::All).into_iter().map(|row| row.interface.name).collect();
            (0..).map(|number: u32| format!("dummy{number}")).find(|name| !taken.contains(name)).unwrap_or_default()
        }
    };
    wishes.remove("new_name");
    // dummy_setup: "dev->flags |= IFF_NOARP; dev->flags &= ~IFF_MULTICAST;"
    wishes.entry("arp").or_insert(false.into());
    wishes.entry("multicast").or_insert(false.into());
    let mut making = json!({"name": name, "up": false});
    for field in ["mac", "mtu", "group"] {
        if let Some(value) = wishes.remove(field) {
            making[field] = value;
        }
    }
    let mtu = attributes.u32(IFLA_MTU);
    let made = tables.exec("interfaces", "add", making).map_err(|error| refusal(&number_of(&error), mtu, None))?;
    wishes.insert("index".into(), made["index"].clone());
    tables.exec("interfaces", "set", wishes.into()).map_err(|error| refusal(&number_of(&error), mtu, None))?;
    Ok(Reply::Done)
}
