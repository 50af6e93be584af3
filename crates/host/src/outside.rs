//! The host around a node: what keeps its kernel out of the node's way, and what lets the node out (`--nat`).

use crate::error::WorldError;
use std::net::IpAddr;
use weft_backend::guard::Guard;
use weft_backend::nat::Nat;
use weft_backend::{Backend, innermost};
use weft_core::control::{Message, Op, Value};
use weft_core::table::Family;
use weft_core::{Instant, InterfaceIndex, Table};
use weft_node::{Node, Stack};

/// A guard for each interface that the host's kernel has, too: those of `packet:`. Where none can be set the user is told.
pub fn guards(stack: &Stack, backends: &[Box<dyn Backend>], notices: &mut Vec<String>) -> Vec<(InterfaceIndex, Guard)> {
    let mut guards = Vec::new();
    for (index, (section, backend)) in stack.interfaces().zip(backends).enumerate() {
        if innermost(&section.backend).is_none_or(|(scheme, _)| scheme != "packet") {
            continue;
        }
        match Guard::new(backend.name()) {
            Ok(guard) => guards.push((InterfaceIndex(2 + index as u32), guard)),
            Err(error) => notices.push(format!("the host's kernel may answer in weft's place on {}: {error}", backend.name())),
        }
    }
    guards
}

/// The addresses of one interface of the node.
pub fn addresses(node: &mut Node, now: Instant, interface: InterfaceIndex) -> Vec<IpAddr> {
    let mut addresses = Vec::new();
    for family in [Family::V4, Family::V6] {
        let list = Message { serial: 0, op: Op::List(Table::Addresses(family)) };
        // A graph without an owner of that table has no addresses of it.
        let Ok(Value::Array(rows)) = node.control(now, &list).result else { continue };
        let ours = rows.iter().filter(|row| row["interface"].as_u64() == Some(u64::from(interface.0)));
        addresses.extend(ours.filter_map(|row| row["address"].as_str()?.parse::<IpAddr>().ok()));
    }
    addresses
}

/// Masquerades the networks of the first interface, which must be a TAP or TUN device of the host, called `name` there.
///
/// # Errors
/// It is another kind of interface, or privileges are missing.
pub fn masquerade(stack: &Stack, name: Option<&str>, kept: bool, notices: &mut Vec<String>) -> Result<Nat, WorldError> {
    let refused = |why: String| WorldError::Option { option: "--nat".to_owned(), why };
    let section = stack.interfaces().next().ok_or_else(|| refused("the stack has no interface".to_owned()))?;
    if kept {
        let why =
            "the stack stands in a network namespace of its own, which leads nowhere: --nat needs root (CAP_NET_ADMIN and /dev/net/tun)";
        return Err(refused(why.to_owned()));
    }
    let (Some("tap" | "tun"), Some(name)) = (innermost(&section.backend).map(|(scheme, _)| scheme), name) else {
        let why =
            format!("the stack's first interface is {}: masquerading needs tap: or tun:, whose other side is the host", section.backend);
        return Err(refused(why));
    };
    let prefix = |text: &str| -> Option<(IpAddr, u8)> {
        let (address, bits) = text.split_once('/')?;
        Some((address.parse().ok()?, bits.parse().ok()?))
    };
    let networks: Vec<_> =
        stack.addresses().filter(|address| address.interface == section.name).filter_map(|address| prefix(&address.address)).collect();
    if networks.is_empty() {
        return Err(refused(format!("the interface {} has no address to masquerade: give it one with [[address]]", section.name)));
    }
    let nat = Nat::new(name, &networks).map_err(|error| refused(error.to_string()))?;
    let switched: Vec<String> = nat.switched().map(|path| path.display().to_string()).collect();
    if !switched.is_empty() {
        notices.push(format!(
            "--nat has switched forwarding on until weft ends; after kill -9 it stays on and `echo 0 >` each of these ends it: {}",
            switched.join(" ")
        ));
    }
    Ok(nat)
}

/// Name servers for programs: the stack file's; with `--nat` and none there those that the host uses, unless they listen on the host's own loopback
/// only; else the gateway.
pub fn nameservers(stack: &Stack, nat: bool) -> Vec<IpAddr> {
    if nat && stack.node().nameservers.is_empty() {
        // systemd-resolved keeps its upstream servers in the second.
        for file in ["/etc/resolv.conf", "/run/systemd/resolve/resolv.conf"] {
            let text = std::fs::read_to_string(file).unwrap_or_default();
            let servers = text.lines().filter_map(|line| line.strip_prefix("nameserver")?.trim().parse::<IpAddr>().ok());
            let servers: Vec<IpAddr> = servers.filter(|server| !server.is_loopback()).collect();
            if !servers.is_empty() {
                return servers;
            }
        }
    }
    stack.nameservers().collect()
}
