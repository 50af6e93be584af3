//! RTM_*ADDR: addresses of interfaces.

use crate::errno::{EACCES, EADDRNOTAVAIL, EEXIST, EINVAL, ENODEV, EOPNOTSUPP, Refusal, number_of};
use crate::message::{Attributes, INET, INET6, Message, byte, families_or_all, word};
use crate::packet::{NLM_F_EXCL, NLM_F_REPLACE, Options, Reply, Request};
use crate::{Tables, interfaces};
use serde_json::json;
use std::collections::BTreeMap;
use std::net::{IpAddr, Ipv6Addr};
use weft_core::table::{Address, AddressState, Answer, Family, Query, SCOPE_HOST, SCOPE_LINK, Table, Which};
use weft_core::{Instant, InterfaceIndex};

pub(crate) const NEWADDR: u16 = 20;
pub(crate) const DELADDR: u16 = 21;
/// Bytes of `struct ifaddrmsg`.
const FIXED_BYTES: usize = 8;

const IFA_ADDRESS: u16 = 1;
const IFA_LOCAL: u16 = 2;
const IFA_LABEL: u16 = 3;
const IFA_BROADCAST: u16 = 4;
const IFA_CACHEINFO: u16 = 6;
const IFA_FLAGS: u16 = 8;
const IFA_RT_PRIORITY: u16 = 9;
const IFA_F_SECONDARY: u32 = 0x01;
const IFA_F_NODAD: u32 = 0x02;
const IFA_F_DADFAILED: u32 = 0x08;
const IFA_F_DEPRECATED: u32 = 0x20;
const IFA_F_TENTATIVE: u32 = 0x40;
const IFA_F_PERMANENT: u32 = 0x80;
/// Those that a program sets and gets back: NODAD, HOMEADDRESS, MANAGETEMPADDR, NOPREFIXROUTE, MCAUTOJOIN.
const FLAGS_KEPT: u32 = 0x02 | 0x10 | 0x100 | 0x200 | 0x400;

/// Every address of a family.
pub(crate) fn all(family: Family, tables: &mut dyn Tables) -> Vec<Address> {
    match tables.ask(Table::Addresses(family), &Query::Addresses) {
        Answer::Addresses(rows) => rows,
        _ => Vec::new(),
    }
}

pub(crate) fn answer(request: &Request<'_>, options: &Options, tables: &mut dyn Tables) -> Result<Reply, Refusal> {
    let attributes = Attributes::of(request.body, FIXED_BYTES);
    match request.kind {
        NEWADDR => add(request, &attributes, tables),
        DELADDR => delete(request, &attributes, tables),
        _ if request.is_dump() => dump(request, options, tables),
        _ => Err(Refusal::lacking("answers dumps of addresses only")),
    }
}

fn dump(request: &Request<'_>, options: &Options, tables: &mut dyn Tables) -> Result<Reply, Refusal> {
    let only = Some(InterfaceIndex(word(request.body, 4))).filter(|index| options.strict && *index != InterfaceIndex::NONE);
    let mut names = BTreeMap::new();
    for row in interfaces(tables, only.map_or(Which::All, Which::Index)) {
        names.insert(row.interface.index, row.interface.name);
    }
    if only.is_some() && names.is_empty() {
        return Err(Refusal::plain(ENODEV));
    }
    let now = tables.now();
    let mut messages = Vec::new();
    for family in families_or_all(byte(request.body, 0)) {
        let mut by_interface: BTreeMap<InterfaceIndex, Vec<Address>> = BTreeMap::new();
        for address in all(*family, tables).into_iter().filter(|address| names.contains_key(&address.interface)) {
            by_interface.entry(address.interface).or_default().push(address);
        }
        for (index, addresses) in by_interface {
            let name = names.get(&index).map_or("", String::as_str);
            messages.extend(in_order(addresses).iter().map(|(address, secondary)| message(address, *secondary, name, NEWADDR, now)));
        }
    }
    Ok(Reply::Dump(messages, only.is_some()))
}

/// An interface's addresses as the kernel lists them, each with whether it is secondary. IPv4 (__inet_insert_ifa): the wider the scope the later, those
/// whose network another has at the end. IPv6 (ipv6_link_dev_addr): the latest of the widest scope first.
pub(crate) fn in_order(addresses: Vec<Address>) -> Vec<(Address, bool)> {
    let v6 = addresses.first().is_some_and(|address| address.address.is_ipv6());
    if v6 {
        let mut rows: Vec<(Address, bool)> = addresses.into_iter().rev().map(|address| (address, false)).collect();
        rows.sort_by_key(|(address, _)| scope(address));
        return rows;
    }
    let (mut first, mut second): (Vec<Address>, Vec<Address>) = (Vec::new(), Vec::new());
    for address in addresses {
        let heads = |other: &Address| other.prefix_bits == address.prefix_bits && network(other) == network(&address);
        if first.iter().any(heads) { second.push(address) } else { first.push(address) }
    }
    first.sort_by_key(|address| std::cmp::Reverse(address.scope));
    first.into_iter().map(|address| (address, false)).chain(second.into_iter().map(|address| (address, true))).collect()
}

fn network(address: &Address) -> u128 {
    crate::local::masked(address.on_link(), address.prefix_bits)
}

/// RT_SCOPE_*: of IPv6 it follows from the address.
fn scope(address: &Address) -> u8 {
    match address.address {
        IpAddr::V4(_) => address.scope,
        IpAddr::V6(ip) if ip.is_loopback() => SCOPE_HOST,
        IpAddr::V6(ip) if ip.is_unicast_link_local() => SCOPE_LINK,
        IpAddr::V6(_) => 0,
    }
}

/// inet_fill_ifaddr, inet6_fill_ifaddr.
pub(crate) fn message(address: &Address, secondary: bool, interface: &str, kind: u16, now: Instant) -> Message {
    let v6 = address.address.is_ipv6();
    let own = match address.address {
        IpAddr::V6(ip) => address.dynamic && ip.is_unicast_link_local(),
        IpAddr::V4(_) => false,
    };
    let permanent = address.valid_until.is_none() && (!address.dynamic || own);
    let on = |flag: u32, on: bool| if on { flag } else { 0 };
    let flags = address.flags & FLAGS_KEPT
        | on(IFA_F_SECONDARY, secondary)
        | on(IFA_F_PERMANENT, permanent)
        | match address.state {
            AddressState::Preferred => 0,
            AddressState::Deprecated => IFA_F_DEPRECATED,
            AddressState::Tentative => IFA_F_TENTATIVE,
            // The kernel leaves IFA_F_TENTATIVE on an address that turned out to be another's.
            AddressState::Duplicated => IFA_F_TENTATIVE | IFA_F_DADFAILED,
        };
    let mut fixed = vec![if v6 { INET6 } else { INET }, address.prefix_bits, flags as u8, scope(address)];
    fixed.extend(address.interface.0.to_ne_bytes());
    let mut message = Message::new(kind, &fixed);
    match (address.peer, v6) {
        (Some(peer), true) => {
            message.address(IFA_LOCAL, address.address);
            message.address(IFA_ADDRESS, peer);
        }
        // inet6_fill_ifaddr: IFA_LOCAL only where there is a peer; no broadcast, no label.
        (None, true) => message.address(IFA_ADDRESS, address.address),
        (_, false) => {
            message.address(IFA_ADDRESS, address.on_link());
            message.address(IFA_LOCAL, address.address);
            if let Some(broadcast) = address.broadcast {
                message.address(IFA_BROADCAST, broadcast.into());
            }
            message.text(IFA_LABEL, address.label.text().unwrap_or(interface));
        }
    }
    message.u32(IFA_FLAGS, flags);
    if address.metric != 0 {
        message.u32(IFA_RT_PRIORITY, address.metric);
    }
    let left = |until: Option<Instant>| until.map_or(u32::MAX, |until| until.since(now).as_secs_f64().ceil() as u32);
    let cache = [left(address.preferred_until), left(address.valid_until), 0, 0];
    message.bytes(IFA_CACHEINFO, &cache.iter().flat_map(|number| number.to_ne_bytes()).collect::<Vec<_>>());
    message
}

/// What both changes begin with: family, its name in sentences, prefix length.
fn head(request: &Request<'_>) -> Result<(Family, &'static str, u8), Refusal> {
    let bits = byte(request.body, 1);
    match byte(request.body, 0) {
        INET if bits > 32 => Err(Refusal::said(EINVAL, "ipv4: Invalid prefix length")),
        INET6 if bits > 128 => Err(Refusal::said(EINVAL, "ipv6: Invalid prefix length")),
        INET => Ok((Family::V4, "ip4", bits)),
        INET6 => Ok((Family::V6, "ip6", bits)),
        // rtnetlink_rcv_msg: nobody has registered for it.
        _ => Err(Refusal::plain(EOPNOTSUPP)),
    }
}

fn add(request: &Request<'_>, attributes: &Attributes<'_>, tables: &mut dyn Tables) -> Result<Reply, Refusal> {
    let (family, block, bits) = head(request)?;
    let v4 = family == Family::V4;
    let (local, other) = (attributes.address(IFA_LOCAL), attributes.address(IFA_ADDRESS));
    let address = match (local, other) {
        (None, _) if v4 => return Err(Refusal::said(EINVAL, "ipv4: Local address is not supplied")),
        (Some(address), _) | (None, Some(address)) => address,
        (None, None) => return Err(Refusal::plain(EINVAL)),
    };
    let index = InterfaceIndex(word(request.body, 4));
    if interfaces(tables, Which::Index(index)).is_empty() {
        return Err(Refusal::said(ENODEV, if v4 { "ipv4: Device not found" } else { "ipv6: Unable to find the interface" }));
    }
    let lifetime = attributes.get(IFA_CACHEINFO).filter(|bytes| bytes.len() >= 8).map(|bytes| (word(bytes, 0), word(bytes, 4)));
    if lifetime.is_some_and(|(preferred, valid)| valid == 0 || preferred > valid) {
        let what = if v4 { "ipv4: address lifetime invalid" } else { "ipv6: address lifetime invalid" };
        return Err(Refusal::said(EINVAL, what));
    }
    let flags = attributes.u32(IFA_FLAGS).unwrap_or_else(|| byte(request.body, 2).into());
    let mut arguments = json!({
        "interface": index.0,
        "address": address.to_string(),
        "prefix_bits": bits,
        "flags": flags & FLAGS_KEPT,
        "metric": attributes.u32(IFA_RT_PRIORITY).unwrap_or(0),
        "replace": request.has(NLM_F_REPLACE) && !request.has(NLM_F_EXCL),
    });
    if let Some(peer) = other.filter(|other| *other != address) {
        arguments["peer"] = peer.to_string().into();
    }
    if let Some((preferred, valid)) = lifetime {
        arguments["preferred_lft"] = preferred.into();
        arguments["valid_lft"] = valid.into();
    }
    if v4 {
        arguments["scope"] = byte(request.body, 3).into();
        arguments["broadcast"] = attributes.address(IFA_BROADCAST).map_or("none".to_owned(), |address| address.to_string()).into();
        if let Some(label) = attributes.text(IFA_LABEL) {
            arguments["label"] = label.into();
        }
    } else {
        arguments["dad"] = (flags & IFA_F_NODAD == 0).into();
    }
    tables.exec(block, "address_add", arguments).map_err(|error| add_refusal(&number_of(&error), address))?;
    Ok(Reply::Done)
}

fn add_refusal((errno, why): &(i32, String), address: IpAddr) -> Refusal {
    let text = match (*errno, address) {
        (EEXIST, IpAddr::V4(_)) => "ipv4: Address already assigned".to_owned(),
        (EEXIST, IpAddr::V6(_)) => "ipv6: address already assigned".to_owned(),
        (EACCES, IpAddr::V6(_)) => "ipv6: IPv6 is disabled on this device".to_owned(),
        (EINVAL, IpAddr::V6(ip)) if ip.is_multicast() => {
            "ipv6: Cannot assign multicast address without \"IFA_F_MCAUTOJOIN\" flag".to_owned()
        }
        (EINVAL, IpAddr::V6(Ipv6Addr::UNSPECIFIED)) => "ipv6: Invalid address".to_owned(),
        _ => format!("weft: {why}"),
    };
    Refusal::said(*errno, text)
}

fn delete(request: &Request<'_>, attributes: &Attributes<'_>, tables: &mut dyn Tables) -> Result<Reply, Refusal> {
    let (family, block, bits) = head(request)?;
    let v4 = family == Family::V4;
    let index = InterfaceIndex(word(request.body, 4));
    let Some(interface) = interfaces(tables, Which::Index(index)).pop() else {
        return Err(Refusal::said(ENODEV, if v4 { "ipv4: Device not found" } else { "ipv6: Unable to find the interface" }));
    };
    let absent = || Refusal::said(EADDRNOTAVAIL, if v4 { "ipv4: Address not found" } else { "ipv6: address not found" });
    let (local, other, label) = (attributes.address(IFA_LOCAL), attributes.address(IFA_ADDRESS), attributes.text(IFA_LABEL));
    // inet_rtm_deladdr: whatever is said must fit; the prefix length is said with IFA_ADDRESS.
    let fits = |one: &&Address| {
        let name = one.label.text().unwrap_or(&interface.interface.name);
        one.interface == index
            && match (v4, local, other) {
                (true, ..) => {
                    local.is_none_or(|local| one.address == local)
                        && label.is_none_or(|label| name == label)
                        && other.is_none_or(|_| one.prefix_bits == bits)
                        && other.is_none_or(|other| network(one) == crate::local::masked(other, bits))
                }
                (false, Some(own), _) | (false, None, Some(own)) => one.address == own && one.prefix_bits == bits,
                (false, None, None) => false,
            }
    };
    let found = all(family, tables).iter().find(fits).copied().ok_or_else(absent)?;
    let arguments = json!({"interface": index.0, "address": found.address.to_string()});
    tables.exec(block, "address_delete", arguments).map_err(|error| Refusal::plain(number_of(&error).0))?;
    Ok(Reply::Done)
}
