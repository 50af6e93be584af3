//! `packet:INTERFACE`: a packet socket on an interface of the kernel (packet(7), Documentation/networking/packet_mmap.rst).
//!
//! Made for one end of a veth pair: large frames and unfinished checksums cross it in both directions. The kernel's own stack sees what is
//! received, too, and would answer it: [`crate::guard`] keeps it from doing so.
//!
//! On an interface that has no link-layer header (a TUN device, WireGuard, a modem) frames are IP packets of both versions ([`LinkType::Ip`]),
//! and each one that is sent says by its version what it is. The socket is a `SOCK_RAW` one there, too: a `SOCK_DGRAM` socket, which takes the
//! header off every kind of interface, has no PACKET_VNET_HDR.
//!
//! A tag that the kernel has taken out of a frame (VLAN acceleration) is put back, so that frames are as they were on the wire.
//! Small frames are received through a ring shared with the kernel, large ones by `recvmsg`: `crate::ring` says why.

use crate::device::Device;
use crate::error::OpenError;
use crate::interface::{Backend, Features, OpenOptions};
use crate::link_type::LinkType;
use crate::ring::{self, Ring};
use crate::scatter::Source;
use crate::sys;
use std::collections::VecDeque;
use std::io;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use weft_core::{Completion, Frame, Instant, InterfaceIndex};
use weft_wire::ethernet::Mac;

/// Bytes under way in each direction. The default of 208 KiB is three large frames.
const BUFFER_BYTES: libc::c_int = 64 << 20;
/// include/uapi/linux/if_arp.h: IP packets and nothing else (modems).
const ARPHRD_RAWIP: u16 = 519;
/// The largest frame that is written whole.
const GSO_BYTES_MAX: usize = 65535 + 18;

/// A packet socket.
pub struct Packet {
    device: Device,
    /// Frames the socket had no room for; the kernel's own counter forgets when it is read.
    receive_drops: u64,
}

impl Packet {
    /// Opens a socket on the interface `name` of this network namespace.
    ///
    /// Uses `interface`, `mtu`, `mac`, `offload` and `promiscuous` of the options. Without `mac` the node takes the interface's own address.
    ///
    /// # Errors
    /// The interface is missing or of another kind, or privileges are missing.
    pub fn open(name: &str, options: &OpenOptions) -> Result<Packet, OpenError> {
        let url = format!("packet:{name}");
        let failed = |doing: &str, error: io::Error| OpenError::from_io(&url, doing, error);
        let facts = sys::interface_facts(name).map_err(|error| failed(&format!("looking for interface {name:?}"), error))?;
        let link = match facts.hardware {
            libc::ARPHRD_ETHER => LinkType::Ethernet,
            libc::ARPHRD_NONE | ARPHRD_RAWIP => LinkType::Ip,
            other => {
                let why = format!("interface {name:?} carries neither Ethernet frames nor bare IP packets (hardware type {other})");
                return Err(OpenError::new(&url, "looking at the interface", why, "use a veth pair, a TAP or a TUN device"));
            }
        };
        let fd = sys::packet_socket(|fd| prepare(fd, facts.index, options.promiscuous), facts.index)
            .map_err(|error| failed("opening a packet socket", error))?;
        let features = Features {
            gso_bytes_max: if options.offload { GSO_BYTES_MAX } else { 0 },
            gso_udp: options.offload,
            checksum_offload: options.offload,
            link,
            mtu: options.mtu.unwrap_or(facts.mtu),
            mac: match link {
                LinkType::Ethernet => options.mac.unwrap_or(facts.mac),
                LinkType::Ip => Mac::ZERO,
            },
        };
        if !facts.up {
            tracing::warn!("interface {name} is down: nothing passes until it is up (ip link set {name} up)");
        }
        let mut packet = Packet::from_socket(fd, name, options.interface, features);
        packet.device.headerless = (link == LinkType::Ip).then_some(facts.index);
        Ok(packet)
    }

    /// Gives up the socket, for another process that makes it a backend again by [`Packet::from_socket`]: a packet socket works wherever it
    /// is held.
    pub fn into_socket(self) -> OwnedFd {
        self.device.fd
    }

    /// A backend over a socket that [`Packet::open`] made, in this process or in another, on the Ethernet interface `name` with these features.
    pub fn from_socket(fd: OwnedFd, name: &str, interface: InterfaceIndex, features: Features) -> Packet {
        let mut device = Device::new(fd, Source::Packet, name, interface, features);
        // Without it (no memory to be had in one piece) every frame is a system call.
        device.ring = Ring::of(device.fd.as_fd()).ok();
        Packet { device, receive_drops: 0 }
    }
}

/// Sets what must be set before the socket receives anything.
fn prepare(fd: BorrowedFd<'_>, index: i32, promiscuous: bool) -> io::Result<()> {
    for option in [libc::PACKET_VNET_HDR, libc::PACKET_AUXDATA, libc::PACKET_IGNORE_OUTGOING] {
        sys::set_option(fd, libc::SOL_PACKET, option, &1i32)?;
    }
    for (forced, limited) in [(libc::SO_RCVBUFFORCE, libc::SO_RCVBUF), (libc::SO_SNDBUFFORCE, libc::SO_SNDBUF)] {
        // Beyond net.core.rmem_max only with CAP_NET_ADMIN; the limit is better than the default.
        if sys::set_option(fd, libc::SOL_SOCKET, forced, &BUFFER_BYTES).is_err() {
            sys::set_option(fd, libc::SOL_SOCKET, limited, &BUFFER_BYTES)?;
        }
    }
    // It costs memory that the kernel may not have; see `from_socket`.
    if let Err(error) = ring::prepare(fd) {
        tracing::info!("packet socket without a ring: {error}");
    }
    if promiscuous {
        let request =
            libc::packet_mreq { mr_ifindex: index, mr_type: libc::PACKET_MR_PROMISC as libc::c_ushort, mr_alen: 0, mr_address: [0; 8] };
        sys::set_option(fd, libc::SOL_PACKET, libc::PACKET_ADD_MEMBERSHIP, &request)?;
    }
    Ok(())
}

impl Backend for Packet {
    fn name(&self) -> &str {
        &self.device.name
    }
    fn receive(&mut self, now: Instant, frames: &mut Vec<Frame>, limit: usize) -> io::Result<usize> {
        self.device.receive(now, frames, limit)
    }
    fn transmit(&mut self, _now: Instant, frames: &mut VecDeque<Frame>, done: &mut Vec<Completion>) -> io::Result<usize> {
        self.device.transmit(frames, done)
    }
    fn descriptor(&self) -> Option<BorrowedFd<'_>> {
        Some(self.device.fd.as_fd())
    }
    fn features(&self) -> Features {
        self.device.features
    }
    fn drops(&mut self) -> Vec<(&'static str, u64)> {
        self.receive_drops += sys::packet_drops(self.device.fd.as_fd()).unwrap_or(0);
        let mut rows = self.device.drops.rows();
        rows.push(("the socket's receive buffer is full", self.receive_drops));
        rows
    }
    fn give_back_memory(&mut self) {
        self.device.blocks.give_back_memory();
    }
}
