//! Masquerading: the node's network reaches what the host reaches, with the host's addresses.
//!
//! An inet table of this process ([`crate::nft`], gone with it also after `kill -9`) gives packets of the node's networks that leave through any other
//! interface than the node's the address of the one they leave through. Forwarding must be on for that: it is switched on where it is off, on the
//! node's interface and on those that lead on, and put back when [`Nat`] is dropped. Of an interface whose forwarding was switched on here, only
//! answers are forwarded: the host does not become a router for others.
//!
//! **A setting belongs to no process**, so what was switched on is written down before ([`Nat::new`]'s `note`), and whoever outlives this process
//! carries that out ([`carry_out`]). Several processes may need the same setting: each that found it off, or switched on by another of them, says so by
//! a chain of its table that no packet comes to, named after the setting. The last one puts it back. Only who may change the host's network can make
//! such a chain, and the kernel takes it away with its process. They look and write one after the other: who does has made the table [`LOCK`].
//!
//! It refuses to open the way in: connections from outside need `--publish`.

use crate::error::OpenError;
use crate::interface::Prefix;
use crate::nft::{self, Batch, Hook, Meta, NFPROTO_INET, Owner};
use std::collections::BTreeSet;
use std::io;
use std::net::IpAddr;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

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

/// What the tables' names begin with.
const TABLE: &str = "weft-nat-";
/// The table of who is looking at settings or writing them.
const LOCK: &str = "weft-nat-lock";
/// So long somebody else may have it: looking and writing takes milliseconds.
const LOCK_WAIT: Duration = Duration::from_secs(2);
const LOCK_LOOK: Duration = Duration::from_millis(5);
/// What a line of the notes begins with.
const NOTE: &str = "forwarding";

/// Masquerading that is on. Off when dropped.
#[derive(Debug)]
pub struct Nat {
    owner: Owner,
    table: String,
    switched: Vec<Switch>,
}

/// A setting of the kernel that was 0 before any of us came.
#[derive(Debug)]
struct Switch {
    path: PathBuf,
    /// Of this interface; none: of all.
    interface: Option<String>,
}

impl Nat {
    /// Masquerades these networks, which are behind `interface` of this network namespace. `note` keeps a line for [`carry_out`], or says that it cannot.
    ///
    /// # Errors
    /// CAP_NET_ADMIN is missing, or the kernel has no nftables; nothing is changed then.
    pub fn new(interface: &str, networks: &[Prefix], note: &mut dyn FnMut(&str) -> bool) -> Result<Nat, OpenError> {
        let failed = |error| OpenError::from_io("--nat", "masquerading (nftables)", error);
        let owner = Owner::open().map_err(failed)?;
        let lock = lock().map_err(failed)?;
        let others = names_of_others(&owner, "").map_err(failed)?;
        let mut wanted = forwarding_needed(interface, networks);
        wanted.retain(|switch| is_off(&switch.path) || others.contains(&name_of(&switch.path)));
        let table = format!("{TABLE}{}", owner.number());
        owner.commit(rules(&table, interface, networks, &wanted)).map_err(failed)?;
        let mut nat = Nat { owner, table, switched: Vec::new() };
        for switch in wanted {
            let path = switch.path.display().to_string();
            // Before it is done: in between this process may end.
            if !note(&format!("{NOTE} {} {path}\n", nat.table)) {
                let why = format!("there are too many settings to remember for weft's end ({} so far)", nat.switched.len());
                return Err(OpenError::new("--nat", "switching forwarding on", why, "give the host one default route"));
            }
            let written = std::fs::write(&switch.path, "1");
            nat.switched.push(switch);
            written.map_err(|error| OpenError::from_io("--nat", format!("switching forwarding on (writing 1 to {path})"), error))?;
        }
        drop(lock);
        Ok(nat)
    }

    /// The settings that were switched on.
    pub fn switched(&self) -> impl Iterator<Item = &Path> {
        self.switched.iter().map(|switch| switch.path.as_path())
    }
}

impl Drop for Nat {
    fn drop(&mut self) {
        put_back(&self.owner, &self.table, self.switched());
    }
}

/// Puts back what the notes of a process say that has ended.
pub fn carry_out(notes: &str) {
    let mut settings: Vec<(&str, &Path)> = Vec::new();
    for line in notes.lines() {
        if let [NOTE, table, path] = line.split(' ').collect::<Vec<_>>()[..] {
            settings.push((table, Path::new(path)));
        }
    }
    let Some((table, _)) = settings.first().copied() else { return };
    match Owner::open() {
        Ok(owner) => put_back(&owner, table, settings.iter().map(|(_, path)| *path)),
        Err(error) => tracing::warn!("forwarding is switched off without asking whether another weft needs it: {error}"),
    }
}

/// Writes 0 where no other table needs a 1.
fn put_back<'a>(owner: &Owner, table: &str, settings: impl Iterator<Item = &'a Path>) {
    let settings: Vec<&Path> = settings.collect();
    if settings.is_empty() {
        return;
    }
    // Without the one or the other it is better to close than to leave open.
    let lock = lock();
    let others = names_of_others(owner, table).unwrap_or_default();
    for path in settings.iter().filter(|path| !others.contains(&name_of(path))) {
        // An interface that has gone took its setting along.
        let _ = std::fs::write(path, "0");
    }
    drop(lock);
}

/// Keeps others from looking at settings and writing them until it is dropped.
fn lock() -> io::Result<Owner> {
    let owner = Owner::open()?;
    let deadline = Instant::now() + LOCK_WAIT;
    loop {
        let mut batch = Batch::new(NFPROTO_INET, LOCK);
        batch.add_table();
        let Err(error) = owner.commit(batch) else { return Ok(owner) };
        // A table that belongs to another socket is EPERM, as everything is to who may not change the host's network.
        let is_taken = matches!(error.raw_os_error(), Some(libc::EPERM | libc::EEXIST)) && owner.tables(NFPROTO_INET).is_ok();
        if !is_taken {
            return Err(error);
        }
        if Instant::now() > deadline {
            return Err(io::Error::new(io::ErrorKind::TimedOut, format!("another process has the table {LOCK} and keeps it")));
        }
        std::thread::sleep(LOCK_LOOK);
    }
}

/// What a table calls a setting that it needs.
fn name_of(path: &Path) -> String {
    path.strip_prefix("/proc/sys/net").unwrap_or(path).display().to_string().replace('/', ".")
}

/// What the tables of others need.
fn names_of_others(owner: &Owner, own: &str) -> io::Result<BTreeSet<String>> {
    let chains = owner.chains(NFPROTO_INET)?;
    Ok(chains.into_iter().filter(|(table, _)| table.starts_with(TABLE) && table != own).map(|(_, chain)| chain).collect())
}

/// The table: what to masquerade, and what not to forward.
fn rules<'a>(table: &'a str, interface: &str, networks: &[Prefix], switched: &[Switch]) -> Batch<'a> {
    let mut batch = Batch::new(NFPROTO_INET, table);
    batch.add_table();
    batch.add_chain(SOURCE_CHAIN, &Hook { kind: "nat", number: NF_INET_POST_ROUTING, priority: PRIORITY_SOURCE, device: None });
    for network in networks {
        batch.add_rule(SOURCE_CHAIN, masquerade_rule(interface, *network));
    }
    batch.add_chain(FORWARD_CHAIN, &Hook { kind: "filter", number: NF_INET_FORWARD, priority: PRIORITY_FILTER, device: None });
    for name in switched.iter().filter_map(|switch| switch.interface.as_deref()).filter(|name| *name != interface) {
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
    switched.iter().for_each(|switch| batch.add_name(&name_of(&switch.path)));
    batch
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

fn is_off(path: &Path) -> bool {
    std::fs::read_to_string(path).is_ok_and(|text| text.trim() == "0")
}

/// The settings that have to be 1.
///
/// IPv4 asks the interface that a packet came in on. IPv6 asks the switch for all, which also ends router advertisements there; since Linux 6.17
/// an interface can be told apart (`force_forwarding`), which is of no use where the switch for all is on already.
fn forwarding_needed(interface: &str, networks: &[Prefix]) -> Vec<Switch> {
    let mut names = uplinks(interface);
    names.push(interface.to_owned());
    let mut switches = Vec::new();
    let conf = Path::new("/proc/sys/net");
    if networks.iter().any(|(address, _)| address.is_ipv4()) {
        let of = |name: &String| Switch { path: conf.join("ipv4/conf").join(name).join("forwarding"), interface: Some(name.clone()) };
        switches.extend(names.iter().map(of));
    }
    if networks.iter().any(|(address, _)| address.is_ipv6()) {
        let all = conf.join("ipv6/conf/all/forwarding");
        let of = |name: &String| Switch { path: conf.join("ipv6/conf").join(name).join("force_forwarding"), interface: Some(name.clone()) };
        let each: Vec<Switch> = names.iter().map(of).collect();
        match each.iter().all(|switch| switch.path.exists()) {
            true if is_off(&all) => switches.extend(each),
            true => {}
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
