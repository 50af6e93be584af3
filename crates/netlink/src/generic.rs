//! NETLINK_GENERIC: `nlctrl`, which says what families there are, and `mptcp_pm`, by which `ip mptcp` sees and changes endpoints and limits.
//!
//! The block mptcp has both: its parameters are what is changed, so `weft get mptcp` shows what `ip mptcp` has set. Without that block there is no family
//! but `nlctrl`. Numbers of families and groups are Linux's to choose; here they are fixed.

mod event;
mod managed;
mod words;

use crate::errno::{EINVAL, ENOENT, EOPNOTSUPP, EPERM, Refusal};
use crate::message::{Attributes, CONTROL, MPTCP_PM, Message, put};
use crate::packet::{Reply, Request};
use crate::{Tables, interfaces};
use serde_json::json;
use weft_core::control::Value;
use weft_core::multipath::MultipathEndpoint;
use weft_core::table::{Answer, Query, Table, Which};
use weft_core::{InterfaceIndex, MultipathNode};

use words::{
    ADD, ANNOUNCE, ATTR_ACCEPTED, ATTR_ADDR, ATTR_SUBFLOWS, ATTR_TOKEN, BACKUP, CREATE, DELETE, DESTROY, FAMILY_ID, FAMILY_NAME, FLAGS,
    FLUSH, FULLMESH, GET, GET_FAMILY, GET_LIMITS, GROUP_COMMANDS, GROUP_EVENTS, GROUP_NOTIFY, HEADER_BYTES, ID, IMPLICIT, INTERFACE,
    LIMIT_MAX, NEW_FAMILY, PORT, REMOVE, SET_FLAGS, SET_LIMITS, SIGNAL, SUBFLOW, address, byte, message, not_found, run, short, shown,
};

pub(crate) use event::event;

/// What mptcp_pm's commands are to nlctrl (GENL_*): for whom, and how.
const FOR_ADMINISTRATORS: u32 = 0x1a;
const OPERATIONS: [(u8, u32); 11] = [
    (ADD, FOR_ADMINISTRATORS),
    (DELETE, FOR_ADMINISTRATORS),
    (GET, 0x0e),
    (FLUSH, FOR_ADMINISTRATORS),
    (SET_LIMITS, FOR_ADMINISTRATORS),
    (GET_LIMITS, 0x0a),
    (SET_FLAGS, FOR_ADMINISTRATORS),
    (ANNOUNCE, FOR_ADMINISTRATORS),
    (REMOVE, FOR_ADMINISTRATORS),
    (CREATE, FOR_ADMINISTRATORS),
    (DESTROY, FOR_ADMINISTRATORS),
];

/// genl_rcv_msg.
pub(crate) fn answer(request: &Request<'_>, manages: bool, tables: &mut dyn Tables) -> Result<Reply, Refusal> {
    let node = match tables.ask(Table::Multipath, &Query::Multipath) {
        Answer::Multipath(node) => Some(*node),
        _ => None,
    };
    let known = request.kind == CONTROL || request.kind == MPTCP_PM && node.is_some();
    if !known {
        return Err(Refusal::plain(ENOENT));
    }
    let Some(&[command, version, ..]) = request.body.get(..HEADER_BYTES) else { return Err(Refusal::plain(EINVAL)) };
    match (request.kind, node) {
        (MPTCP_PM, Some(node)) => of_mptcp(request, (command, version), &node, manages, tables),
        (_, node) => of_control(request, command, node.is_some()),
    }
}

/// One of the families that nlctrl tells of.
struct Family {
    id: u16,
    name: &'static str,
    version: u32,
    operations: &'static [(u8, u32)],
    groups: &'static [(u32, &'static str)],
}

const FAMILIES: [Family; 2] = [
    Family { id: CONTROL, name: "nlctrl", version: 2, operations: &[(GET_FAMILY, 0x0e)], groups: &[(GROUP_NOTIFY, "notify")] },
    Family {
        id: MPTCP_PM,
        name: "mptcp_pm",
        version: 1,
        operations: &OPERATIONS,
        groups: &[(GROUP_COMMANDS, "mptcp_pm_cmds"), (GROUP_EVENTS, "mptcp_pm_events")],
    },
];

fn of_control(request: &Request<'_>, command: u8, multipath: bool) -> Result<Reply, Refusal> {
    let there = FAMILIES.iter().filter(|family| family.id == CONTROL || multipath);
    if command != GET_FAMILY {
        return Err(Refusal::plain(EOPNOTSUPP));
    }
    if request.is_dump() {
        return Ok(Reply::Dump(there.map(described).collect(), false));
    }
    let asked = Attributes::of(request.body, HEADER_BYTES);
    let id = asked.get(FAMILY_ID).and_then(|bytes| bytes.first_chunk::<2>()).map(|bytes| u16::from_ne_bytes(*bytes));
    let name = asked.text(FAMILY_NAME);
    if id.is_none() && name.is_none() {
        return Err(Refusal::plain(EINVAL));
    }
    let is_it = |family: &&Family| id.is_none_or(|id| id == family.id) && name.is_none_or(|name| name == family.name);
    there.into_iter().find(is_it).map(|family| Reply::One(described(family))).ok_or(Refusal::plain(ENOENT))
}

/// ctrl_fill_info.
fn described(family: &Family) -> Message {
    const HEADER_SIZE: u16 = 4;
    const VERSION: u16 = 3;
    const ATTRIBUTES_MAX: u16 = 5;
    const OPERATIONS: u16 = 6;
    const GROUPS: u16 = 7;
    let list = |entries: Vec<Vec<u8>>| {
        let mut inside = Vec::new();
        entries.iter().zip(1..).for_each(|(entry, number)| put(&mut inside, number, entry));
        inside
    };
    let pair = |first: (u16, &[u8]), second: (u16, &[u8])| {
        let mut inside = Vec::new();
        put(&mut inside, first.0, first.1);
        put(&mut inside, second.0, second.1);
        inside
    };
    let mut out = message(CONTROL, NEW_FAMILY, 2);
    out.text(FAMILY_NAME, family.name);
    out.bytes(FAMILY_ID, &family.id.to_ne_bytes());
    out.u32(VERSION, family.version);
    out.u32(HEADER_SIZE, 0);
    out.u32(ATTRIBUTES_MAX, 0);
    let operation = |(command, flags): &(u8, u32)| pair((1, &u32::from(*command).to_ne_bytes()), (2, &flags.to_ne_bytes()));
    out.bytes(OPERATIONS, &list(family.operations.iter().map(operation).collect()));
    let group = |(id, name): &(u32, &str)| pair((2, &id.to_ne_bytes()), (1, &[name.as_bytes(), &[0]].concat()));
    out.bytes(GROUPS, &list(family.groups.iter().map(group).collect()));
    out
}

/// The commands of net/mptcp/pm_netlink.c and pm_kernel.c.
fn of_mptcp(
    request: &Request<'_>,
    (command, version): (u8, u8),
    node: &MultipathNode,
    manages: bool,
    tables: &mut dyn Tables,
) -> Result<Reply, Refusal> {
    let flags = OPERATIONS.iter().find(|(number, _)| *number == command).ok_or(Refusal::plain(EOPNOTSUPP))?.1;
    if flags == FOR_ADMINISTRATORS && !manages {
        return Err(Refusal::plain(EPERM));
    }
    if request.is_dump() {
        if command == GET && Attributes::of(request.body, HEADER_BYTES).has(ATTR_TOKEN) {
            return managed::list(&Attributes::of(request.body, HEADER_BYTES), version, tables);
        }
        // genl_family_rcv_msg: "if ((nlh->nlmsg_flags & NLM_F_DUMP) == NLM_F_DUMP) return genl_family_rcv_msg_dumpit(…)", of a command that has one.
        return match command {
            GET => Ok(Reply::Dump(node.endpoints.iter().map(|endpoint| told(endpoint, version, tables)).collect(), false)),
            _ => Err(Refusal::plain(EOPNOTSUPP)),
        };
    }
    let attributes = Attributes::of(request.body, HEADER_BYTES);
    match command {
        GET_LIMITS => {
            let mut out = message(MPTCP_PM, GET_LIMITS, version);
            out.u32(ATTR_ACCEPTED, node.limits.add_addr_accepted.into());
            out.u32(ATTR_SUBFLOWS, node.limits.subflows.into());
            Ok(Reply::One(out))
        }
        SET_LIMITS => set_limits(&attributes, tables),
        FLUSH => run("endpoints_flush", json!({}), tables),
        ANNOUNCE | REMOVE | CREATE | DESTROY => managed::command(command, &attributes, tables),
        _ => of_address(command, version, &attributes, node, tables),
    }
}

/// Commands about one address: an endpoint's or, with a token, a connection's.
fn of_address(
    command: u8,
    version: u8,
    attributes: &Attributes<'_>,
    node: &MultipathNode,
    tables: &mut dyn Tables,
) -> Result<Reply, Refusal> {
    let asked = attributes.nested(ATTR_ADDR).ok_or(Refusal::without(ATTR_ADDR))?;
    match command {
        GET if attributes.has(ATTR_TOKEN) => managed::one(attributes, &asked, version, tables),
        GET => {
            address(&asked, false)?;
            let known = node.endpoints.iter().find(|endpoint| Some(endpoint.id) == byte(&asked, ID)).ok_or_else(not_found)?;
            Ok(Reply::One(told(known, version, tables)))
        }
        ADD => add(&asked, tables),
        DELETE => match byte(&asked, ID).unwrap_or(0) {
            // mptcp_nl_remove_id_zero_address: of the first subflow, which is no endpoint.
            0 => Ok(Reply::Done),
            id => run("endpoint_delete", json!({ "id": id }), tables).map_err(|refusal| refusal_of(refusal, EINVAL)),
        },
        _ if attributes.has(ATTR_TOKEN) => managed::change(attributes, &asked, tables),
        _ => change(&asked, node, tables),
    }
}

/// What the block says is not there is EINVAL to these commands.
fn refusal_of(refusal: Refusal, errno: i32) -> Refusal {
    if refusal.errno == ENOENT { Refusal::said(errno, "address not found") } else { refusal }
}

/// mptcp_pm_nl_add_addr_doit.
fn add(asked: &Attributes<'_>, tables: &mut dyn Tables) -> Result<Reply, Refusal> {
    let address = address(asked, true)?;
    let (flags, port) = (asked.u32(FLAGS).unwrap_or(0), short(asked, PORT).unwrap_or(0));
    if port != 0 && (flags & SIGNAL == 0 || flags & SUBFLOW != 0) {
        return Err(Refusal::said(EINVAL, "flags must have signal and not subflow when using port"));
    }
    if flags & SIGNAL != 0 && flags & FULLMESH != 0 {
        return Err(Refusal::said(EINVAL, "flags mustn't have both signal and fullmesh"));
    }
    if flags & IMPLICIT != 0 {
        return Err(Refusal::said(EINVAL, "can't create IMPLICIT endpoint"));
    }
    let index = asked.u32(INTERFACE).filter(|index| *index != 0);
    let dev = match index.map(|index| interfaces(tables, Which::Index(InterfaceIndex(index)))) {
        None => Value::Null,
        Some(rows) => match rows.into_iter().next() {
            Some(row) => row.interface.name.into(),
            None => return Err(Refusal::said(EINVAL, "weft has no interface of that number")),
        },
    };
    let has = |flag: u32| flags & flag != 0;
    let arguments = json!({
        "address": address.map(|address| address.to_string()), "id": byte(asked, ID).unwrap_or(0), "port": port, "dev": dev,
        "signal": has(SIGNAL), "subflow": has(SUBFLOW), "backup": has(BACKUP), "fullmesh": has(FULLMESH),
    });
    run("endpoint_add", arguments, tables).map_err(|refusal| match refusal.errno {
        // mptcp_pm_nl_append_new_local_addr: its result is in the sentence.
        errno if errno != EINVAL => Refusal::said(errno, format!("too many addresses or duplicate one: -{errno}")),
        _ => refusal,
    })
}

/// mptcp_pm_nl_set_flags.
fn change(asked: &Attributes<'_>, node: &MultipathNode, tables: &mut dyn Tables) -> Result<Reply, Refusal> {
    let (id, flags) = (byte(asked, ID).unwrap_or(0), asked.u32(FLAGS).unwrap_or(0));
    let address = address(asked, false)?;
    if id == 0 && address.is_none() {
        return Err(Refusal::said(EOPNOTSUPP, "missing address ID"));
    }
    let is_it = |endpoint: &&MultipathEndpoint| if id == 0 { Some(endpoint.address) == address } else { endpoint.id == id };
    let known = node.endpoints.iter().find(is_it).ok_or_else(not_found)?;
    if known.flags & SIGNAL != 0 && (known.flags ^ flags) & FULLMESH != 0 {
        return Err(Refusal::said(EINVAL, "invalid addr flags"));
    }
    let arguments = json!({ "id": known.id, "backup": flags & BACKUP != 0, "fullmesh": flags & FULLMESH != 0 });
    run("endpoint_change", arguments, tables)
}

/// mptcp_pm_nl_set_limits_doit.
fn set_limits(attributes: &Attributes<'_>, tables: &mut dyn Tables) -> Result<Reply, Refusal> {
    let (accepted, subflows) = (attributes.u32(ATTR_ACCEPTED), attributes.u32(ATTR_SUBFLOWS));
    if [accepted, subflows].into_iter().flatten().any(|limit| limit > LIMIT_MAX) {
        return Err(Refusal::said(EINVAL, format!("limit greater than maximum ({LIMIT_MAX})")));
    }
    run("limits_set", json!({ "subflows": subflows, "add_addr_accepted": accepted }), tables)
}

/// mptcp_nl_fill_addr.
fn told(endpoint: &MultipathEndpoint, version: u8, tables: &mut dyn Tables) -> Message {
    let dev = endpoint.dev.as_ref().and_then(|dev| interfaces(tables, Which::Named(dev.clone())).into_iter().next());
    shown(endpoint, dev.map(|row| row.interface.index.0), version)
}
