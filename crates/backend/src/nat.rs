//! Masquerading: the node's network reaches what the host reaches, with the host's addresses.
//!
//! An inet table of this process ([`crate::nft`], gone with it also after `kill -9`) gives packets of the node's networks that leave through any other
//! interface than the node's the address of the one they leave through. Forwarding must be on for that: it is switched on where it is off, on the
//! node's interface and on those that lead on, and put back when [`Nat`] is dropped. **After `kill -9` it stays on**; it is a setting of the
//! kernel that belongs to no process. Of an interface whose forwarding was switched on here, only answers are forwarded: the host does
//! not become a router for others.
//!
//! It refuses to open the way in: connections from outside need `--publish`.

use crate::OpenError;
use crate::Prefix;
use crate::nft::{self, Batch, Hook, Meta, NFPROTO_INET, Owner};
use std::io;
use std::net::IpAddr;
use std::path::{Path, PathBuf};

const SOURCE_CHAIN: &str = "source";
const FORWARD_CHAIN: &str = "forward";
const NF_INET_FORWARD: u32 = 2;
const NF_INET_POST_ROUTING: u32 = 4;
/// NF_IP_PRI_NAT_SRC.
const PRIORITY_SOURCE: i32 = 100;
const PRIORITY_FILTER: i32 = 0;
const NFPROTO_IPV4: u8 = 2;
const NFPROTO_IPV6: u8 = 10;
const IPV4_SOURCE_AT: u32 = 12;
const IPV6_SOURCE_AT: u32 = 8;
/// Connection states whose packets are answers: established (1 << 1) and related (1 << 2).
const ANSWERS: u32 = 0b110;

/// Masquerading that is on. Off when dropped.
#[derive(Debug)]
pub struct Nat {
    _owner: Owner,
    switched: Vec<Switch>,
}

/// A setting of the kernel that was 0 before.
#[derive(Debug)]
struct Switch {
    path: PathBuf,
    /// Of this interface; none: of all.
    interface: Option<String>,
}

impl Nat {
    /// Masquerades these networks, which are behind `interface` of this network namespace.
    ///
    /// # Errors
    /// CAP_NET_ADMIN is missing, or the kernel has no nftables; nothing is changed then.
    pub fn new(interface: &str, networks: &[Prefix]) -> Result<Nat, OpenError> {
        let failed = |error| OpenError::from_io("--nat", "masquerading (nftables)", error);
        let owner = Owner::open().map_err(failed)?;
        let wanted = forwarding_wanted(interface, networks);
        let closed: Vec<&str> = wanted.iter().filter_map(|switch| switch.interface.as_deref()).filter(|name| *name != interface).collect();
        let table = format!("weft-nat-{}", owner.number());
        let mut batch = Batch::new(NFPROTO_INET, &table);
        batch.add_table();
        batch.add_chain(SOURCE_CHAIN, &Hook { kind: "nat", number: NF_INET_POST_ROUTING, priority: PRIORITY_SOURCE, device: None });
        for network in networks {
            batch.add_rule(SOURCE_CHAIN, masquerade_rule(interface, *network));
        }
        batch.add_chain(FORWARD_CHAIN, &Hook { kind: "filter", number: NF_INET_FORWARD, priority: PRIORITY_FILTER, device: None });
        for name in closed {
            batch.add_rule(
                FORWARD_CHAIN,
                vec![
                    nft::meta(Meta::InputName),
                    nft::is(&nft::name_bytes(name)),
                    nft::connection_state(),
                    nft::mask(&ANSWERS.to_ne_bytes()),
                    nft::is(&0u32.to_ne_bytes()),
                    nft::drop_it(),
                ],
            );
        }
        owner.commit(batch).map_err(failed)?;
        let mut nat = Nat { _owner: owner, switched: Vec::new() };
        for switch in wanted {
            let doing = format!("switching forwarding on (writing 1 to {})", switch.path.display());
            std::fs::write(&switch.path, "1").map_err(|error| OpenError::from_io("--nat", doing, error))?;
            nat.switched.push(switch);
        }
        Ok(nat)
    }

    /// The settings that were switched on, and stay on after `kill -9`.
    pub fn switched(&self) -> impl Iterator<Item = &Path> {
        self.switched.iter().map(|switch| switch.path.as_path())
    }
}

impl Drop for Nat {
    fn drop(&mut self) {
        for switch in &self.switched {
            // An interface that has gone took its setting along.
            let _ = std::fs::write(&switch.path, "0");
        }
    }
}

/// `saddr` in the network, leaving through another interface: masquerade.
fn masquerade_rule(interface: &str, (address, bits): Prefix) -> Vec<nft::Expression> {
    let (family, at, octets) = match address {
        IpAddr::V4(address) => (NFPROTO_IPV4, IPV4_SOURCE_AT, address.octets().to_vec()),
        IpAddr::V6(address) => (NFPROTO_IPV6, IPV6_SOURCE_AT, address.octets().to_vec()),
    };
    let mask: Vec<u8> = (0..octets.len()).map(|byte| byte_mask(u32::from(bits).saturating_sub(byte as u32 * 8))).collect();
    let network: Vec<u8> = octets.iter().zip(&mask).map(|(byte, mask)| byte & mask).collect();
    vec![
        nft::meta(Meta::Family),
        nft::is(&[family]),
        nft::network_bytes(at, octets.len() as u32),
        nft::mask(&mask),
        nft::is(&network),
        nft::meta(Meta::OutputName),
        nft::is_not(&nft::name_bytes(interface)),
        nft::masquerade(),
    ]
}

/// The first `bits` of a byte, eight at most.
fn byte_mask(bits: u32) -> u8 {
    match bits {
        0 => 0,
        1..8 => 0xff << (8 - bits),
        _ => 0xff,
    }
}

/// The settings that are 0 and have to be 1.
///
/// IPv4 asks the interface that a packet came in on. IPv6 asks the switch for all, which also ends router advertisements there; since Linux 6.17
/// an interface can be told apart (`force_forwarding`).
fn forwarding_wanted(interface: &str, networks: &[Prefix]) -> Vec<Switch> {
    let mut names = uplinks(interface);
    names.push(interface.to_owned());
    let mut switches = Vec::new();
    let is_off = |path: &Path| std::fs::read_to_string(path).is_ok_and(|text| text.trim() == "0");
    let conf = Path::new("/proc/sys/net");
    if networks.iter().any(|(address, _)| address.is_ipv4()) {
        let of = |name: &String| Switch { path: conf.join("ipv4/conf").join(name).join("forwarding"), interface: Some(name.clone()) };
        switches.extend(names.iter().map(of).filter(|switch| is_off(&switch.path)));
    }
    let all = conf.join("ipv6/conf/all/forwarding");
    if networks.iter().any(|(address, _)| address.is_ipv6()) && is_off(&all) {
        let of = |name: &String| Switch { path: conf.join("ipv6/conf").join(name).join("force_forwarding"), interface: Some(name.clone()) };
        let each: Vec<Switch> = names.iter().map(of).collect();
        match each.iter().all(|switch| switch.path.exists()) {
            true => switches.extend(each.into_iter().filter(|switch| is_off(&switch.path))),
            false => switches.push(Switch { path: all, interface: None }),
        }
    }
    switches
}

/// The interfaces through which default routes lead, of both families; without any, all but `interface` and lo.
fn uplinks(interface: &str) -> Vec<String> {
    let mut names: Vec<String> = Vec::new();
    let read = |file: &str| std::fs::read_to_string(Path::new("/proc/thread-self/net").join(file)).unwrap_or_default();
    // /proc/net/route: interface, destination, gateway, flags, …, mask; hexadecimal.
    for line in read("route").lines().skip(1) {
        let fields: Vec<&str> = line.split_whitespace().collect();
        if let [name, "00000000", _, _, _, _, _, "00000000", ..] = fields[..] {
            names.push(name.to_owned());
        }
    }
    // /proc/net/ipv6_route: destination, its prefix length, …; the interface is the tenth.
    for line in read("ipv6_route").lines() {
        let fields: Vec<&str> = line.split_whitespace().collect();
        if let [destination, "00", _, _, _, _, _, _, _, name] = fields[..]
            && destination.bytes().all(|byte| byte == b'0')
        {
            names.push(name.to_owned());
        }
    }
    let others = |name: &String| name != interface && name != "lo";
    names.retain(others);
    if names.is_empty() {
        let all = nix::net::if_::if_nameindex().map_err(io::Error::from);
        names.extend(all.iter().flatten().map(|one| one.name().to_string_lossy().into_owned()).filter(others));
    }
    names.sort();
    names.dedup();
    names
}
