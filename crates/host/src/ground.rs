//! The ground a stack stands on: opening the backends of its interfaces, and what to do where no TAP may be opened.
//!
//! A user without privilege cannot open /dev/net/tun, but may make a user and network namespace. So weft starts itself once more as a
//! *ground keeper*: in namespaces of its own it makes a veth pair, opens a packet socket on the stack's end and hands that back. The socket works from anywhere;
//! the keeper stays to keep the namespaces alive and ends with the process it serves. weft itself stays where it was: from inside a namespace it
//! could not reach the programs outside.

use crate::error::WorldError;
use nix::sched::{CloneFlags, unshare};
use rustix::fd::{AsFd, OwnedFd};
use rustix::net::{RecvAncillaryBuffer, RecvAncillaryMessage, RecvFlags, SendAncillaryBuffer, SendAncillaryMessage, SendFlags};
use serde::{Deserialize, Serialize};
use std::io::{self, IoSlice, IoSliceMut, Read};
use std::mem::MaybeUninit;
use std::net::IpAddr;
use std::os::unix::net::UnixStream;
use std::path::PathBuf;
use std::process::{Child, Command, Stdio};
use weft_backend::packet::Packet;
use weft_backend::{Backend, Features, LinkType, OpenError, OpenOptions, host_side};
use weft_node::{InterfaceSection, Stack, StackError};
use weft_wire::ethernet::Mac;

/// Most interfaces with a backend of one stack: each is a descriptor, and is looked at in every turn.
pub const PORTS_MAX: usize = 1024;

/// The hidden command that runs a ground keeper.
pub const KEEPER_COMMAND: &str = "ground-keeper";

/// A started ground keeper. Ends when dropped.
#[derive(Debug)]
pub struct Keeper {
    child: Child,
    /// Held open: when we end, however we end, the keeper's read of it ends too.
    _line: UnixStream,
}

impl Drop for Keeper {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// What is behind an interface, and who keeps it there.
pub struct Opened {
    /// The backend.
    pub backend: Box<dyn Backend>,
    /// Keeps the namespaces under it.
    pub keeper: Option<Keeper>,
    /// What the user should know.
    pub notice: Option<String>,
}

/// Checks what a stack file says of its backends without opening any: their URLs, the addresses of the host's side, and framing that they decide
/// themselves.
pub fn check(stack: &Stack) -> Result<(), StackError> {
    if stack.interfaces().count() > PORTS_MAX {
        let what = format!("a stack has {PORTS_MAX} interfaces at most");
        return Err(stack.interface_error(PORTS_MAX, "name", &what, "take this one and those behind it away, or bring up several stacks"));
    }
    for (index, section) in stack.interfaces().enumerate() {
        check_section(section).map_err(|wrong| stack.interface_error(index, wrong.field, &wrong.what, &wrong.help))?;
        if let Some(other) = other_with_device(section, stack.interfaces().take(index)) {
            let what = format!("the interface '{}' has {} already", other.name, other.backend);
            return Err(stack.interface_error(index, "backend", &what, "give each interface a device of its own"));
        }
    }
    Ok(())
}

/// The one of these that has the TAP or TUN device that an interface asks for, of which only one can have it.
pub fn other_with_device<'a>(
    section: &InterfaceSection,
    mut others: impl Iterator<Item = &'a InterfaceSection>,
) -> Option<&'a InterfaceSection> {
    let device = crate::outside::device(&section.backend).filter(|name| !name.is_empty())?;
    others.find(|other| crate::outside::device(&other.backend) == Some(device))
}

/// What is wrong in an `[[interface]]`.
pub struct Wrong {
    /// In which field.
    pub field: &'static str,
    /// What.
    pub what: String,
    /// What to do.
    pub help: String,
}

/// As [`check`], one of them.
pub fn check_section(section: &InterfaceSection) -> Result<(), Wrong> {
    let wrong = |field, what: String, help: &str| Err(Wrong { field, what, help: help.to_owned() });
    if let Err(error) = weft_backend::check(&section.backend) {
        return wrong("backend", error.why, &error.advice);
    }
    let kind = weft_backend::innermost(&section.backend).map_or("", |(scheme, _)| scheme);
    if let Some(text) = section.host_address.iter().find(|text| parse_prefix(text).is_err()) {
        let help = "write it as \"10.77.0.1/24\" or \"fd77::1/64\"";
        return wrong("host_address", format!("'{text}' is no address with prefix length"), help);
    }
    if !section.host_address.is_empty() && !matches!(kind, "tap" | "tun") {
        let what = format!("{}: has no host's side that could get an address", section.backend);
        return wrong("host_address", what, "take host_address away, or use tap: or tun:");
    }
    if section.dhcp && (kind == "tun" || section.link == Some(weft_node::Framing::Raw)) {
        let what = format!("{}: DHCP needs Ethernet, and this carries IP alone", section.backend);
        return wrong("dhcp", what, "give it an [[address]] in place of dhcp = true");
    }
    if section.link.is_some() && kind != "memory" {
        let what = format!("{}: the backend itself says what its frames begin with", section.backend);
        return wrong("link", what, "take link away: it is for memory: only");
    }
    Ok(())
}

/// Must a veth pair do, because this process may not open a TAP, or the system has none? Any other error is one that its user can mend.
fn no_tap_here(error: &OpenError) -> bool {
    match error.source.as_ref().and_then(io::Error::raw_os_error).map(nix::errno::Errno::from_raw) {
        Some(nix::errno::Errno::EPERM | nix::errno::Errno::EACCES) => true,
        Some(nix::errno::Errno::ENOENT | nix::errno::Errno::ENODEV | nix::errno::Errno::ENXIO) => error.doing.contains("/dev/net/tun"),
        _ => false,
    }
}

/// Why a stack that comes up cannot have an interface, and what to do.
fn refusal(section: &InterfaceSection, refused: Refused) -> WorldError {
    let interface = section.name.clone();
    let errno = match &refused {
        Refused::Backend(error) => error.source.as_ref().and_then(io::Error::raw_os_error).map(nix::errno::Errno::from_raw),
        Refused::Other(_) => None,
    };
    match (section.backend.strip_prefix("tap:"), errno) {
        (Some(tap), Some(nix::errno::Errno::EBUSY)) => {
            let why = format!(
                "the TAP {tap} is in use, perhaps by another weft: choose another with --tap NAME; `weft run` joins a running weft unless an option asks for a stack of its own (--stack, --set, --engine, --tap, --seed, --capture, --nat, --internet, --publish, --mptcp)"
            );
            WorldError::Busy { interface, what: format!("{tap} is in use"), why }
        }
        _ => WorldError::Interface { interface, why: refused.to_string() },
    }
}

/// Why what is behind an interface could not be opened.
#[derive(Debug, thiserror::Error)]
pub enum Refused {
    /// Its backend says no.
    #[error(transparent)]
    Backend(#[from] OpenError),
    /// Something else.
    #[error("{0}")]
    Other(String),
}

/// Opens the backends of a stack's interfaces. The n-th gets interface number 2 + n.
pub fn open(stack: &Stack) -> Result<Vec<Opened>, WorldError> {
    stack.interfaces().map(|section| open_one(section).map_err(|refused| refusal(section, refused))).collect()
}

/// Opens what is behind one interface. Whoever plugs it in gives its frames their number.
pub fn open_one(section: &InterfaceSection) -> Result<Opened, Refused> {
    let options = options(section).map_err(Refused::Other)?;
    match weft_backend::open(&section.backend, &options) {
        Ok(backend) => Ok(Opened { backend, keeper: None, notice: None }),
        Err(error) if section.backend.starts_with("tap:") && no_tap_here(&error) => {
            let (backend, keeper) = keep_ground(section, &options)
                .map_err(|why| Refused::Other(format!("{error}\nneither can a veth pair be made in a namespace of its own: {why}")))?;
            let pid = keeper.child.id();
            tracing::info!("no TAP: {error}; a veth pair in a user and network namespace stands in (packet:)");
            let notice = format!(
                "no TAP: {} is in a namespace, its host side: nsenter --target={pid} --user --net --preserve-credentials",
                section.name
            );
            Ok(Opened { backend, keeper: Some(keeper), notice: Some(notice) })
        }
        Err(error) => Err(Refused::Backend(error)),
    }
}

fn options(section: &InterfaceSection) -> Result<OpenOptions, String> {
    let prefixes = section.host_address.iter().map(|text| parse_prefix(text)).collect::<Result<Vec<_>, _>>()?;
    let host_addresses = (!prefixes.is_empty()).then_some(prefixes);
    let mac = section.mac.as_deref().map(|text| text.parse().map_err(|_| format!("'{text}' is no MAC address"))).transpose()?;
    Ok(OpenOptions { mtu: section.mtu, mac, offload: section.offload, host_addresses, ..OpenOptions::default() })
}

fn parse_prefix(text: &str) -> Result<(IpAddr, u8), String> {
    let bad = || format!("host_address '{text}': write it as \"10.77.0.1/24\" or \"fd77::1/64\"");
    let (address, bits) = text.split_once('/').ok_or_else(bad)?;
    let (address, bits): (IpAddr, u8) = (address.parse().map_err(|_| bad())?, bits.parse().map_err(|_| bad())?);
    match bits <= if address.is_ipv4() { 32 } else { 128 } {
        true => Ok((address, bits)),
        false => Err(bad()),
    }
}

/// What a keeper is to make.
#[derive(Debug, Serialize, Deserialize)]
struct Wish {
    host: String,
    stack: String,
    mtu: Option<u32>,
    offload: bool,
    addresses: Vec<String>,
}

/// What it made: the features of the packet socket that comes along.
#[derive(Debug, Serialize, Deserialize)]
struct Made {
    mac: [u8; 6],
    mtu: u32,
    gso_bytes_max: usize,
    gso_udp: bool,
    checksum_offload: bool,
}

/// Starts a keeper and takes the packet socket from it.
fn keep_ground(section: &InterfaceSection, options: &OpenOptions) -> Result<(Box<dyn Backend>, Keeper), String> {
    let (ours, theirs) = UnixStream::pair().map_err(|error| error.to_string())?;
    let host = section.backend.trim_start_matches("tap:").to_owned();
    let stack = format!("{}-s", host.chars().filter(char::is_ascii).take(13).collect::<String>());
    let wish = Wish { host, stack: stack.clone(), mtu: section.mtu, offload: section.offload, addresses: section.host_address.clone() };
    let exe = std::env::current_exe().unwrap_or_else(|_| PathBuf::from("/proc/self/exe"));
    let child = Command::new(exe)
        .arg(KEEPER_COMMAND)
        .arg(serde_json::to_string(&wish).map_err(|error| error.to_string())?)
        .stdin(Stdio::from(OwnedFd::from(theirs)))
        .stdout(Stdio::null())
        .spawn()
        .map_err(|error| format!("cannot start weft once more: {error}"))?;
    let received = receive(&ours);
    let keeper = Keeper { child, _line: ours };
    let (text, socket) = received.map_err(|error| error.to_string())?;
    let (Some(socket), Ok(made)) = (socket, serde_json::from_str::<Made>(&text)) else { return Err(text) };
    let features = Features {
        gso_bytes_max: made.gso_bytes_max,
        gso_udp: made.gso_udp,
        checksum_offload: made.checksum_offload,
        link: LinkType::Ethernet,
        mtu: made.mtu,
        mac: options.mac.unwrap_or(Mac(made.mac)),
    };
    Ok((Box::new(Packet::from_socket(socket, &stack, options.interface, features)), keeper))
}

/// The life of a keeper: makes what is wished, hands the socket over standard input, waits for the end of whoever started it.
pub fn keep(wish: &str) -> Result<(), String> {
    let parent: OwnedFd = std::io::stdin().as_fd().try_clone_to_owned().map_err(|error| error.to_string())?;
    let parent = UnixStream::from(parent);
    let made = serde_json::from_str(wish).map_err(|error| error.to_string()).and_then(|wish| make(&wish));
    match made {
        Ok((made, socket)) => {
            send(&parent, &serde_json::to_string(&made).unwrap_or_default(), Some(&socket)).map_err(|error| error.to_string())?
        }
        Err(why) => return send(&parent, &why, None).map_err(|error| error.to_string()),
    }
    // Ends when the parent's end is closed.
    let _ = (&parent).read(&mut [0u8; 1]);
    Ok(())
}

fn make(wish: &Wish) -> Result<(Made, OwnedFd), String> {
    let (uid, gid) = (rustix::process::geteuid().as_raw(), rustix::process::getegid().as_raw());
    unshare(CloneFlags::CLONE_NEWUSER | CloneFlags::CLONE_NEWNET)
        .map_err(|error| format!("unshare(CLONE_NEWUSER|CLONE_NEWNET): {error}; are user namespaces allowed here?"))?;
    let write = |file: &str, text: String| {
        std::fs::write(format!("/proc/self/{file}"), text).map_err(|error| format!("/proc/self/{file}: {error}"))
    };
    write("setgroups", "deny".to_owned())?;
    // Root inside, so that a person who enters may configure and capture.
    write("uid_map", format!("0 {uid} 1"))?;
    write("gid_map", format!("0 {gid} 1"))?;
    let addresses = wish.addresses.iter().map(|text| parse_prefix(text)).collect::<Result<Vec<_>, _>>()?;
    host_side::create_veth(&wish.host, &wish.stack).map_err(|error| format!("veth pair: {error}"))?;
    host_side::configure(&wish.host, &addresses, wish.mtu).map_err(|error| format!("{}: {error}", wish.host))?;
    host_side::configure(&wish.stack, &[], wish.mtu).map_err(|error| format!("{}: {error}", wish.stack))?;
    host_side::configure("lo", &[], None).map_err(|error| format!("lo: {error}"))?;
    // The kernel's own IPv6 would answer on the stack's end, too. Where there is no IPv6 there is no such file.
    let _ = std::fs::write(format!("/proc/sys/net/ipv6/conf/{}/disable_ipv6", wish.stack), "1");
    let packet = Packet::open(&wish.stack, &OpenOptions { mtu: wish.mtu, offload: wish.offload, ..OpenOptions::default() })
        .map_err(|error| error.to_string())?;
    let Features { mac, mtu, gso_bytes_max, gso_udp, checksum_offload, .. } = packet.features();
    Ok((Made { mac: mac.0, mtu, gso_bytes_max, gso_udp, checksum_offload }, packet.into_socket()))
}

fn send(to: &UnixStream, text: &str, descriptor: Option<&OwnedFd>) -> io::Result<()> {
    let rights: Vec<_> = descriptor.iter().map(|fd| fd.as_fd()).collect();
    let mut space = [MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(1))];
    let mut ancillary = SendAncillaryBuffer::new(&mut space);
    if !rights.is_empty() {
        ancillary.push(SendAncillaryMessage::ScmRights(&rights));
    }
    rustix::net::sendmsg(to, &[IoSlice::new(text.as_bytes())], &mut ancillary, SendFlags::NOSIGNAL)?;
    Ok(())
}

fn receive(from: &UnixStream) -> io::Result<(String, Option<OwnedFd>)> {
    let mut buffer = [0u8; 4096];
    let mut space = [MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(1))];
    let mut ancillary = RecvAncillaryBuffer::new(&mut space);
    let got = rustix::net::recvmsg(from, &mut [IoSliceMut::new(&mut buffer)], &mut ancillary, RecvFlags::CMSG_CLOEXEC)?;
    let mut descriptor = None;
    for message in ancillary.drain() {
        if let RecvAncillaryMessage::ScmRights(mut rights) = message {
            descriptor = rights.next();
        }
    }
    match got.bytes {
        0 => Err(io::Error::new(io::ErrorKind::UnexpectedEof, "weft, started once more in its own namespaces, ended without a word")),
        bytes => Ok((String::from_utf8_lossy(&buffer[..bytes]).into_owned(), descriptor)),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn stack(backend: &str) -> Stack {
        Stack::parse("a.toml", &format!("[[interface]]\nname = \"weft0\"\nmtu = 1500\nbackend = \"{backend}\"\n")).unwrap()
    }

    #[test]
    fn backends_are_checked_with_file_and_line() {
        for good in ["tap:weft0", "tap:", "tun:weft0", "packet:eth0", "memory:x", "trace:fault:loss=0.1:tap:weft0"] {
            check(&stack(good)).unwrap();
        }
        for (backend, what, help) in [
            (
                "pigeon:1",
                "no kind of backend named 'pigeon'",
                "tap:NAME, tun:NAME, packet:INTERFACE, stream:PATH, passt:, fd:NUMBER, memory:NAME",
            ),
            ("weft0", "'weft0' has no kind", "tap:NAME, tun:NAME, packet:INTERFACE, stream:PATH, passt:, fd:NUMBER, memory:NAME"),
            ("tap:waytoolongforatap", "is no name for a TAP", "15 bytes"),
            ("trace:tun:waytoolongforatun", "is no name for a TUN", "15 bytes"),
            ("fault:loss=1:pigeon:1", "no kind of backend named 'pigeon'", "tun:NAME"),
        ] {
            let error = check(&stack(backend)).unwrap_err();
            assert_eq!(error.line, 4, "{error}");
            assert!(error.what.contains(what) && error.help.contains(help), "{error}");
        }
    }

    #[test]
    fn a_device_is_one_interfaces() {
        let text = |one: &str, other: &str| {
            format!("[[interface]]\nname = \"a\"\nbackend = \"{one}\"\n[[interface]]\nname = \"b\"\nbackend = \"{other}\"\n")
        };
        for (one, other) in [("tap:x", "tap:y"), ("tap:", "tap:"), ("memory:x", "memory:x"), ("packet:x", "packet:x")] {
            check(&Stack::parse("a.toml", &text(one, other)).unwrap()).unwrap();
        }
        for (one, other) in [("tap:x", "tap:x"), ("tun:x", "tun:x"), ("tap:x", "trace:fault:loss=0.1:tap:x")] {
            let error = check(&Stack::parse("a.toml", &text(one, other)).unwrap()).unwrap_err();
            assert_eq!((error.line, error.what), (6, format!("the interface 'a' has {one} already")));
        }
    }

    #[test]
    fn a_file_with_too_many_interfaces_is_refused_at_the_first_that_is_too_much() {
        let text =
            |count: usize| (0..count).map(|n| format!("[[interface]]\nname = \"m{n}\"\nbackend = \"memory:m{n}\"\n")).collect::<String>();
        check(&Stack::parse("a.toml", &text(PORTS_MAX)).unwrap()).unwrap();
        let error = check(&Stack::parse("a.toml", &text(PORTS_MAX + 1)).unwrap()).unwrap_err();
        assert_eq!((error.line, error.what.as_str()), (3 * PORTS_MAX + 2, "a stack has 1024 interfaces at most"));
    }

    #[test]
    fn a_veth_pair_stands_in_only_where_no_tap_may_be_opened() {
        let error = |doing: &str, errno: nix::errno::Errno| OpenError {
            url: "tap:weft0".to_owned(),
            doing: doing.to_owned(),
            why: String::new(),
            advice: String::new(),
            source: Some(errno.into()),
        };
        let (open, create) = ("opening /dev/net/tun", "creating the device");
        assert!(no_tap_here(&error(open, nix::errno::Errno::EACCES)) && no_tap_here(&error(create, nix::errno::Errno::EPERM)));
        assert!(no_tap_here(&error(open, nix::errno::Errno::ENOENT)));
        let busy = error(create, nix::errno::Errno::EBUSY);
        assert!(!no_tap_here(&busy) && !no_tap_here(&error(create, nix::errno::Errno::EINVAL)));
        let stack = stack("tap:weft0");
        let text = refusal(stack.interfaces().next().unwrap(), Refused::Backend(busy));
        assert!(matches!(text, WorldError::Busy { .. }));
        let text = text.to_string();
        assert!(text.contains("the TAP weft0 is in use") && text.contains("--tap NAME"), "{text}");
    }
}
