//! What the families of generic netlink have in common: their numbers, and addresses of mptcp_pm read and written.

use crate::Tables;
use crate::errno::{EINVAL, Refusal, number_of};
use crate::message::{Attributes, INET, INET6, MPTCP_PM, Message, put};
use crate::packet::Reply;
use std::net::IpAddr;
use weft_core::control::Value;
use weft_core::multipath::MultipathEndpoint;

/// Groups: of nlctrl, of mptcp_pm's commands, of its events.
pub(super) const GROUP_NOTIFY: u32 = 16;
pub(super) const GROUP_COMMANDS: u32 = 8;
pub(super) const GROUP_EVENTS: u32 = 9;
/// NLA_F_NESTED.
pub(super) const NESTED: u16 = 0x8000;
/// Bytes of `struct genlmsghdr`.
pub(super) const HEADER_BYTES: usize = 4;
/// CTRL_CMD_NEWFAMILY, CTRL_CMD_GETFAMILY; CTRL_ATTR_*.
pub(super) const NEW_FAMILY: u8 = 1;
pub(super) const GET_FAMILY: u8 = 3;
pub(super) const FAMILY_ID: u16 = 1;
pub(super) const FAMILY_NAME: u16 = 2;
/// MPTCP_PM_CMD_*.
pub(super) const ADD: u8 = 1;
pub(super) const DELETE: u8 = 2;
pub(super) const GET: u8 = 3;
pub(super) const FLUSH: u8 = 4;
pub(super) const SET_LIMITS: u8 = 5;
pub(super) const GET_LIMITS: u8 = 6;
pub(super) const SET_FLAGS: u8 = 7;
pub(super) const ANNOUNCE: u8 = 8;
pub(super) const REMOVE: u8 = 9;
pub(super) const CREATE: u8 = 10;
pub(super) const DESTROY: u8 = 11;
/// MPTCP_PM_ATTR_*.
pub(super) const ATTR_ADDR: u16 = 1;
pub(super) const ATTR_ACCEPTED: u16 = 2;
pub(super) const ATTR_SUBFLOWS: u16 = 3;
pub(super) const ATTR_TOKEN: u16 = 4;
pub(super) const ATTR_LOCAL_ID: u16 = 5;
pub(super) const ATTR_REMOTE: u16 = 6;
/// MPTCP_PM_ADDR_ATTR_*.
pub(super) const FAMILY: u16 = 1;
pub(super) const ID: u16 = 2;
pub(super) const ADDR4: u16 = 3;
pub(super) const ADDR6: u16 = 4;
pub(super) const PORT: u16 = 5;
pub(super) const FLAGS: u16 = 6;
pub(super) const INTERFACE: u16 = 7;
/// MPTCP_PM_ADDR_FLAG_*.
pub(super) const SIGNAL: u32 = 1;
pub(super) const SUBFLOW: u32 = 2;
pub(super) const BACKUP: u32 = 4;
pub(super) const FULLMESH: u32 = 8;
pub(super) const IMPLICIT: u32 = 16;
/// MPTCP_PM_ADDR_MAX.
pub(super) const LIMIT_MAX: u32 = 8;
pub(super) fn message(kind: u16, command: u8, version: u8) -> Message {
    Message::new(kind, &[command, version, 0, 0])
}

pub(super) fn not_found() -> Refusal {
    Refusal::said(EINVAL, "address not found")
}

pub(super) fn run(procedure: &str, arguments: Value, tables: &mut dyn Tables) -> Result<Reply, Refusal> {
    match tables.exec("mptcp", procedure, arguments) {
        Ok(_) => Ok(Reply::Done),
        Err(error) => {
            let (errno, sentence) = number_of(&error);
            Err(Refusal::said(errno, sentence))
        }
    }
}

pub(super) fn byte(attributes: &Attributes<'_>, kind: u16) -> Option<u8> {
    attributes.get(kind)?.first().copied()
}

pub(super) fn short(attributes: &Attributes<'_>, kind: u16) -> Option<u16> {
    attributes.get(kind)?.first_chunk::<2>().map(|bytes| u16::from_ne_bytes(*bytes))
}

/// mptcp_pm_parse_pm_addr_attr: the address; None: there is none, and none is wanted.
pub(super) fn address(asked: &Attributes<'_>, wanted: bool) -> Result<Option<IpAddr>, Refusal> {
    let family = match short(asked, FAMILY) {
        None if wanted => return Err(Refusal::said(EINVAL, "missing family")),
        None => return Ok(None),
        Some(family) => family,
    };
    let kind = match u8::try_from(family) {
        Ok(INET) => ADDR4,
        Ok(INET6) => ADDR6,
        _ => return Err(Refusal::said(EINVAL, "unknown address family")),
    };
    let found = asked.address(kind).filter(|address| address.is_ipv4() == (kind == ADDR4));
    found.map(Some).ok_or_else(|| Refusal::said(EINVAL, "missing address data"))
}

/// An address, with the number of its interface (mptcp_nl_fill_addr).
pub(super) fn shown(endpoint: &MultipathEndpoint, interface: Option<u32>, version: u8) -> Message {
    let mut inside = Vec::new();
    let family = if endpoint.address.is_ipv4() { INET } else { INET6 };
    put(&mut inside, FAMILY, &u16::from(family).to_ne_bytes());
    put(&mut inside, PORT, &endpoint.port.to_ne_bytes());
    put(&mut inside, ID, &[endpoint.id]);
    put(&mut inside, FLAGS, &endpoint.flags.to_ne_bytes());
    if let Some(index) = interface {
        put(&mut inside, INTERFACE, &index.to_ne_bytes());
    }
    match endpoint.address {
        IpAddr::V4(address) => put(&mut inside, ADDR4, &address.octets()),
        IpAddr::V6(address) => put(&mut inside, ADDR6, &address.octets()),
    }
    let mut out = message(MPTCP_PM, GET, version);
    out.bytes(ATTR_ADDR | NESTED, &inside);
    out
}
