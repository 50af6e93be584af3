//! The host around a node: what keeps its kernel out of the node's way, and what lets the node out (`--nat`).

use crate::error::WorldError;
use nix::ifaddrs::{InterfaceAddress, getifaddrs};
use nix::net::if_::InterfaceFlags;
use nix::sys::socket::SockaddrStorage;
use rustix::thread::CapabilitySet;
use std::net::IpAddr;
use weft_backend::guard::Guard;
use weft_backend::nat::Nat;
use weft_backend::{Backend, innermost, passt};
use weft_core::control::{Message, Op, Value};
use weft_core::table::Family;
use weft_core::{Instant, InterfaceIndex, Table};
use weft_node::{InterfaceSection, Node, Stack};
pub use weft_notify::caretaker::Caretaker;

/// Starts the caretaker of a stack: what is left to do if weft is killed. At the beginning of a command, while this process is one thread. Waits for the
/// caretakers of those that were killed a moment ago.
///
/// # Errors
/// No process can be made.
pub fn caretaker() -> Result<Caretaker, WorldError> {
    let carry_out = |will: &[u8]| weft_backend::nat::carry_out(&String::from_utf8_lossy(will));
    let why = |errno: weft_intercept::Errno| WorldError::System {
        what: "starting weft's caretaker",
        why: std::io::Error::from_raw_os_error(errno.0),
    };
    weft_notify::caretaker::wait_for_those_at_work();
    Caretaker::start(carry_out).map_err(why)
}

/// Refuses interfaces whose TAP or TUN device would get a network that the host has on another interface already: answers to either would leave by
/// one of the two, and traffic that was fine before would break in silence. Whoever may not make such a device gets namespaces of its own, where
/// nothing of the host is. Devices that this process has made already are others, but for those of the interfaces that leave.
///
/// # Errors
/// [`WorldError::Network`].
pub fn check_networks<'a>(
    coming: impl Iterator<Item = &'a InterfaceSection> + Clone,
    leaving: impl Iterator<Item = &'a InterfaceSection>,
) -> Result<(), WorldError> {
    let may = rustix::thread::capabilities(None).is_ok_and(|sets| sets.effective.contains(CapabilitySet::NET_ADMIN));
    if !may || coming.clone().all(|section| device(&section.backend).is_none()) {
        return Ok(());
    }
    let devices: Vec<&str> = coming.clone().chain(leaving).filter_map(|section| device(&section.backend)).collect();
    // What cannot be asked is not refused: opening the device will tell.
    let there: Vec<(String, Network)> = getifaddrs().map(|all| all.filter_map(|one| of_host(&one)).collect()).unwrap_or_default();
    for section in coming.filter(|section| device(&section.backend).is_some()) {
        for ours in section.host_address.iter().filter_map(|text| Network::parse(text)) {
            if let Some((name, found)) = there.iter().find(|(name, found)| !devices.contains(&&**name) && ours.meets(found)) {
                let what = format!("the host has {}/{} on {name} already", found.address, found.bits);
                let advice = "choose another network (host_address, and the addresses and routes with it) in a stack file";
                return Err(WorldError::Network { interface: section.name.clone(), what, advice });
            }
        }
    }
    Ok(())
}

/// The name of the TAP or TUN device of a backend.
pub(crate) fn device(backend: &str) -> Option<&str> {
    innermost(backend).filter(|(scheme, _)| matches!(*scheme, "tap" | "tun")).map(|(_, name)| name)
}

/// An address and how many bits of it are its network's.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
struct Network {
    address: IpAddr,
    bits: u8,
}

impl Network {
    fn parse(text: &str) -> Option<Network> {
        let (address, bits) = text.split_once('/')?;
        Some(Network { address: address.parse().ok()?, bits: bits.parse().ok()? })
    }

    /// The address as a number, and how many bits that has.
    fn number(self) -> (u128, u8) {
        match self.address {
            IpAddr::V4(address) => (u128::from(address.to_bits()), 32),
            IpAddr::V6(address) => (address.to_bits(), 128),
        }
    }

    /// Would the host, with both, send to the wrong one? A wider network of the host's is no harm, nor a single address; link-local ones are
    /// everywhere.
    fn meets(self, host: &Network) -> bool {
        let ((ours, width), (theirs, their_width)) = (self.number(), host.number());
        if width != their_width || matches!(self.address, IpAddr::V6(address) if address.is_unicast_link_local()) {
            return false;
        }
        let apart = u32::from(width - self.bits.min(width));
        let same = (ours ^ theirs).checked_shr(apart).unwrap_or(0) == 0;
        ours == theirs || (same && host.bits >= self.bits && host.bits < width)
    }
}

/// The name of an interface that is up, and an address of it.
fn of_host(one: &InterfaceAddress) -> Option<(String, Network)> {
    let address = |storage: &SockaddrStorage| -> Option<IpAddr> {
        let v4 = storage.as_sockaddr_in().map(|address| IpAddr::V4(address.ip()));
        v4.or_else(|| storage.as_sockaddr_in6().map(|address| IpAddr::V6(address.ip())))
    };
    let bits = match address(one.netmask.as_ref()?)? {
        IpAddr::V4(mask) => mask.to_bits().leading_ones(),
        IpAddr::V6(mask) => mask.to_bits().leading_ones(),
    };
    let network = Network { address: address(one.address.as_ref()?)?, bits: bits as u8 };
    one.flags.contains(InterfaceFlags::IFF_UP).then(|| (one.interface_name.clone(), network))
}

/// A guard for an interface that the host's kernel has, too: those of `packet:`. Where none can be set, why.
pub fn guard(section: &InterfaceSection, backend: &dyn Backend) -> Result<Option<Guard>, String> {
    if innermost(&section.backend).is_none_or(|(scheme, _)| scheme != "packet") {
        return Ok(None);
    }
    let told = |error| format!("the host's kernel may answer in weft's place on {}: {error}", backend.name());
    Guard::new(backend.name()).map(Some).map_err(told)
}

/// The addresses that a guard on one interface keeps, its own first. The node takes what is for any of them wherever it comes in, as the host's
/// kernel does; only a link-local address means something else on another link.
pub fn guarded(node: &mut Node, now: Instant, interface: InterfaceIndex) -> Vec<IpAddr> {
    let (mut own, mut others) = (Vec::new(), Vec::new());
    for family in [Family::V4, Family::V6] {
        let list = Message { serial: 0, op: Op::List(Table::Addresses(family)) };
        // A graph without an owner of that table has no addresses of it.
        let Ok(Value::Array(rows)) = node.control(now, &list).result else { continue };
        for row in &rows {
            let Some(address) = row["address"].as_str().and_then(|text| text.parse::<IpAddr>().ok()) else { continue };
            if row["interface"].as_u64() == Some(u64::from(interface.0)) {
                own.push(address);
            } else if !is_link_local(&address) {
                others.push(address);
            }
        }
    }
    own.extend(others);
    own
}

fn is_link_local(address: &IpAddr) -> bool {
    match address {
        IpAddr::V4(address) => address.is_link_local(),
        IpAddr::V6(address) => address.is_unicast_link_local(),
    }
}

/// Masquerades the networks of the first interface, which must be a TAP or TUN device of the host, called `name` there. What is switched on for that
/// is switched off by the caretaker when weft ends without doing so.
///
/// # Errors
/// It is another kind of interface, or privileges are missing.
pub fn masquerade(
    stack: &Stack,
    name: Option<&str>,
    kept: bool,
    caretaker: Option<&Caretaker>,
    notices: &mut Vec<String>,
) -> Result<Nat, WorldError> {
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
    let ledger = caretaker.map(Caretaker::ledger);
    // Without a caretaker (a world in somebody else's program) nothing is remembered, and the end must be an orderly one.
    let mut note = |line: &str| ledger.as_ref().is_none_or(|ledger| ledger.add_to_will(line.as_bytes()));
    let nat = Nat::new(name, &networks, &mut note).map_err(|error| refused(error.to_string()))?;
    // The node's own device goes with weft, and its settings with it.
    let outlives = |path: &&std::path::Path| !path.iter().any(|part| part == name);
    let switched: Vec<String> = nat.switched().filter(outlives).map(|path| path.display().to_string()).collect();
    if !switched.is_empty() {
        notices.push(format!("--nat has switched forwarding on until weft ends: {}", switched.join(" ")));
    }
    Ok(nat)
}

/// Puts passt behind the first interface of a stack: `--internet`. False: it has none.
pub fn through_passt(stack: &mut Stack) -> bool {
    let Some(first) = stack.interfaces_mut().next() else { return false };
    "passt:".clone_into(&mut first.backend);
    // What is there of the host's side is passt's.
    first.host_address.clear();
    // A stack without TCP has nothing to set.
    let _ = stack.set(&format!("tcp.rmem_max={}", passt::receive_buffer_bytes_max()));
    let _ = stack.set(&format!("tcp.rmem_default={}", passt::RECEIVE_BUFFER_BYTES_MIN));
    true
}

/// Does passt stand behind an interface?
pub(crate) fn is_through_passt(stack: &Stack) -> bool {
    stack.interfaces().any(|section| innermost(&section.backend).is_some_and(|(scheme, _)| scheme == "passt"))
}

/// Name servers for programs: the stack file's; with none there, those that the host uses: with `--nat`, unless they listen on the host's own loopback
/// only, and behind passt, which asks them; else the gateway.
pub fn nameservers(stack: &Stack, nat: bool) -> Vec<IpAddr> {
    if is_through_passt(stack) && stack.node().nameservers.is_empty() {
        return passt::NAME_SERVER.parse().into_iter().collect();
    }
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn networks_meet_where_traffic_would_go_astray() {
        let meets = |ours: &str, host: &str| Network::parse(ours).unwrap().meets(&Network::parse(host).unwrap());
        for (ours, host) in [
            ("10.77.0.1/24", "10.77.0.1/24"),
            ("10.77.0.1/24", "10.77.0.9/24"),
            ("10.77.0.1/24", "10.77.0.200/25"),
            ("10.77.0.1/24", "10.77.0.1/8"),
            ("fd77::1/64", "fd77::3/64"),
        ] {
            assert!(meets(ours, host), "{ours} {host}");
        }
        for (ours, host) in [
            ("10.77.0.1/24", "10.77.1.1/24"),
            ("10.77.0.1/24", "10.1.2.3/8"),
            ("10.77.0.1/24", "10.77.0.9/32"),
            ("10.77.0.1/24", "fd77::1/64"),
            ("fe80::1/64", "fe80::2/64"),
            ("fd77::1/64", "fd77:0:0:1::1/64"),
        ] {
            assert!(!meets(ours, host), "{ours} {host}");
        }
    }
}
