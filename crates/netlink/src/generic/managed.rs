//! The commands of a path manager in user space (mptcpd): what a program wants of one connection, by its token.
//!
//! Which of several mistakes is told, and in which words, is as of Linux 6.18: first what is missing, then the token, then addresses.

use super::words::{
    ANNOUNCE, ATTR_ADDR, ATTR_LOCAL_ID, ATTR_REMOTE, ATTR_TOKEN, BACKUP, CREATE, FLAGS, ID, INTERFACE, PORT, REMOVE, SIGNAL, address, byte,
    not_found, run, short, shown,
};
use crate::Tables;
use crate::errno::{EINVAL, Refusal, number_of};
use crate::message::Attributes;
use crate::packet::Reply;
use serde_json::json;
use std::net::{IpAddr, Ipv4Addr, SocketAddr};
use weft_core::control::Value;
use weft_core::multipath::MultipathEndpoint;

/// The connection's token, and its addresses (mptcp_userspace_pm_get_sock).
fn connection(attributes: &Attributes<'_>, tables: &mut dyn Tables) -> Result<(u32, Vec<Value>), Refusal> {
    let token = attributes.u32(ATTR_TOKEN).ok_or(Refusal::without(ATTR_TOKEN))?;
    let answer = tables.exec("mptcp", "path_addresses", json!({ "token": token })).map_err(|error| {
        let (errno, sentence) = number_of(&error);
        Refusal::said(errno, sentence)
    })?;
    let list = answer.get("mptcp").unwrap_or(&answer).as_array().cloned().unwrap_or_default();
    Ok((token, list))
}

/// An address that has to be there, IPv4 in IPv6 as what it is.
fn wanted(asked: &Attributes<'_>) -> Result<IpAddr, Refusal> {
    Ok(address(asked, true)?.unwrap_or(Ipv4Addr::UNSPECIFIED.into()).to_canonical())
}

/// The same, with its port.
fn end(asked: &Attributes<'_>) -> Result<SocketAddr, Refusal> {
    Ok(SocketAddr::new(wanted(asked)?, short(asked, PORT).unwrap_or(0)))
}

/// What the path_… procedures take of the address of this side.
fn entry(token: u32, asked: &Attributes<'_>) -> Result<Value, Refusal> {
    let end = end(asked)?;
    Ok(json!({
        "token": token, "address": end.ip().to_string(), "port": end.port(), "id": byte(asked, ID).unwrap_or(0),
        "flags": asked.u32(FLAGS).unwrap_or(0), "interface": asked.u32(INTERFACE).unwrap_or(0),
    }))
}

/// MPTCP_PM_CMD_ANNOUNCE, _REMOVE, _SUBFLOW_CREATE and _SUBFLOW_DESTROY.
pub(super) fn command(command: u8, attributes: &Attributes<'_>, tables: &mut dyn Tables) -> Result<Reply, Refusal> {
    if command == REMOVE {
        let id = byte(attributes, ATTR_LOCAL_ID).ok_or(Refusal::without(ATTR_LOCAL_ID))?;
        let (token, _) = connection(attributes, tables)?;
        return run("path_remove", json!({ "token": token, "id": id }), tables);
    }
    let local = attributes.nested(ATTR_ADDR).ok_or(Refusal::without(ATTR_ADDR))?;
    if command == ANNOUNCE {
        let (token, _) = connection(attributes, tables)?;
        return run("path_announce", entry(token, &local)?, tables);
    }
    let remote = attributes.nested(ATTR_REMOTE).ok_or(Refusal::without(ATTR_REMOTE))?;
    let (token, _) = connection(attributes, tables)?;
    if command == CREATE { create(token, &local, &remote, tables) } else { destroy(token, &local, &remote, tables) }
}

fn create(token: u32, local: &Attributes<'_>, remote: &Attributes<'_>, tables: &mut dyn Tables) -> Result<Reply, Refusal> {
    let mut arguments = entry(token, local)?;
    if local.u32(FLAGS).is_some_and(|flags| flags & SIGNAL != 0) {
        return Err(Refusal::said(EINVAL, "invalid addr flags"));
    }
    (arguments["remote"], arguments["remote_id"]) = (end(remote)?.to_string().into(), byte(remote, ID).unwrap_or(0).into());
    run("path_create", arguments, tables)
}

fn destroy(token: u32, local: &Attributes<'_>, remote: &Attributes<'_>, tables: &mut dyn Tables) -> Result<Reply, Refusal> {
    let (local, remote) = (end(local)?, end(remote)?);
    if local.is_ipv4() != remote.is_ipv4() {
        return Err(Refusal::said(EINVAL, "address families do not match"));
    }
    for (end, which) in [(local, "local"), (remote, "remote")] {
        if end.port() == 0 {
            return Err(Refusal::said(EINVAL, format!("missing {which} port")));
        }
    }
    run("path_destroy", json!({ "token": token, "local": local.to_string(), "remote": remote.to_string() }), tables)
}

/// MPTCP_PM_CMD_SET_FLAGS (mptcp_userspace_pm_set_flags).
pub(super) fn change(attributes: &Attributes<'_>, local: &Attributes<'_>, tables: &mut dyn Tables) -> Result<Reply, Refusal> {
    let here = address(local, false)?;
    let remote = attributes.nested(ATTR_REMOTE).ok_or(Refusal::without(ATTR_REMOTE))?;
    let (token, _) = connection(attributes, tables)?;
    if here.is_none() {
        return Err(Refusal::said(EINVAL, "invalid local address family"));
    }
    let (local, remote, flags) = (end(local)?, end(&remote)?, local.u32(FLAGS).unwrap_or(0));
    let arguments = json!({ "token": token, "local": local.to_string(), "remote": remote.to_string(), "backup": flags & BACKUP != 0 });
    run("path_change", arguments, tables)
}

fn told(entry: &Value, version: u8) -> Option<(u8, crate::message::Message)> {
    let number = |field: &str| entry.get(field).and_then(Value::as_u64);
    let endpoint = MultipathEndpoint {
        id: u8::try_from(number("id")?).ok()?,
        address: entry.get("address")?.as_str()?.parse().ok()?,
        port: u16::try_from(number("port")?).ok()?,
        dev: None,
        flags: u32::try_from(number("flags")?).ok()?,
    };
    let interface = number("interface").and_then(|index| u32::try_from(index).ok()).filter(|index| *index > 0);
    Some((endpoint.id, shown(&endpoint, interface, version)))
}

/// MPTCP_PM_CMD_GET_ADDR of one connection: its address of an identifier.
pub(super) fn one(attributes: &Attributes<'_>, asked: &Attributes<'_>, version: u8, tables: &mut dyn Tables) -> Result<Reply, Refusal> {
    address(asked, false)?;
    // mptcp_pm_nl_get_addr_doit says so of a wrong token, too.
    let (_, list) = connection(attributes, tables).map_err(|_| not_found())?;
    let mut known = list.iter().filter_map(|entry| told(entry, version));
    known.find(|(id, _)| *id == byte(asked, ID).unwrap_or(0)).map(|(_, message)| Reply::One(message)).ok_or_else(not_found)
}

/// The same as a dump: all of them.
pub(super) fn list(attributes: &Attributes<'_>, version: u8, tables: &mut dyn Tables) -> Result<Reply, Refusal> {
    match connection(attributes, tables) {
        Ok((_, list)) => Ok(Reply::Dump(list.iter().filter_map(|entry| told(entry, version)).map(|(_, message)| message).collect(), false)),
        Err(refusal) => Ok(Reply::DumpFailed(refusal)),
    }
}
