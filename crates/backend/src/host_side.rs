//! The kernel's side of a link: addresses, MTU, up; and veth pairs. By rtnetlink, in the caller's network namespace.

use crate::error::OpenError;
use crate::interface::Prefix;
use netlink_packet_core::{NLM_F_ACK, NLM_F_CREATE, NLM_F_EXCL, NLM_F_REPLACE, NLM_F_REQUEST, NetlinkMessage, NetlinkPayload};
use netlink_packet_route::address::{AddressAttribute, AddressHeaderFlags, AddressMessage};
use netlink_packet_route::link::{InfoData, InfoKind, InfoVeth, LinkAttribute, LinkFlags, LinkInfo, LinkMessage};
use netlink_packet_route::{AddressFamily, RouteNetlinkMessage};
use nix::sys::socket::{AddressFamily as Family, MsgFlags, NetlinkAddr, SockFlag, SockProtocol, SockType};
use std::io;
use std::net::IpAddr;
use std::os::fd::{AsRawFd, OwnedFd};

/// Gives the interface `name` these addresses and MTU and puts it up. An address that it has already stays. A kernel (or interface) without
/// IPv6 gets no IPv6 address.
///
/// # Errors
/// There is no such interface, or CAP_NET_ADMIN is missing.
pub fn configure(name: &str, addresses: &[Prefix], mtu: Option<u32>) -> Result<(), OpenError> {
    let failed = |doing: String, error: io::Error| OpenError::from_io(name, doing, error);
    let index = index_of(name).map_err(|error| failed(format!("looking for interface {name:?}"), error))?;
    let socket = Netlink::open().map_err(|error| failed("opening a netlink socket".into(), error))?;
    let mut link = LinkMessage::default();
    link.header.index = index;
    link.header.flags = LinkFlags::Up;
    link.header.change_mask = LinkFlags::Up;
    link.attributes.extend(mtu.map(LinkAttribute::Mtu));
    socket.call(RouteNetlinkMessage::SetLink(link), 0).map_err(|error| failed("setting the MTU and putting it up".into(), error))?;
    for &(address, prefix_len) in addresses {
        let mut message = AddressMessage::default();
        message.header.index = index;
        message.header.prefix_len = prefix_len;
        message.header.family = if address.is_ipv4() { AddressFamily::Inet } else { AddressFamily::Inet6 };
        message.attributes.push(AddressAttribute::Address(address));
        match address {
            IpAddr::V4(_) => message.attributes.push(AddressAttribute::Local(address)),
            // Nobody else is on this link: usable at once, without duplicate address detection.
            IpAddr::V6(_) => message.header.flags = AddressHeaderFlags::Nodad,
        }
        match socket.call(RouteNetlinkMessage::NewAddress(message), NLM_F_CREATE | NLM_F_REPLACE) {
            // What Linux says where disable_ipv6 is set, and where it was built without.
            Err(error)
                if address.is_ipv6() && matches!(error.raw_os_error(), Some(libc::EACCES | libc::EAFNOSUPPORT | libc::EOPNOTSUPP)) => {}
            Err(error) => return Err(failed(format!("adding the address {address}/{prefix_len}"), error)),
            Ok(()) => {}
        }
    }
    Ok(())
}

/// Makes a veth pair with both ends in this network namespace, down.
///
/// # Errors
/// A name is taken or too long, CAP_NET_ADMIN is missing, or the kernel has no veth.
pub fn create_veth(one: &str, other: &str) -> Result<(), OpenError> {
    let failed = |error| OpenError::from_io(one, format!("making the veth pair {one:?} and {other:?}"), error);
    let mut peer = LinkMessage::default();
    peer.attributes.push(LinkAttribute::IfName(other.into()));
    let mut link = LinkMessage::default();
    link.attributes.push(LinkAttribute::IfName(one.into()));
    let data = InfoData::Veth(InfoVeth::Peer(peer));
    link.attributes.push(LinkAttribute::LinkInfo(vec![LinkInfo::Kind(InfoKind::Veth), LinkInfo::Data(data)]));
    let socket = Netlink::open().map_err(failed)?;
    socket.call(RouteNetlinkMessage::NewLink(link), NLM_F_CREATE | NLM_F_EXCL).map_err(failed)
}

/// Deletes an interface; the other end of a veth pair goes with it.
///
/// # Errors
/// There is no such interface, or CAP_NET_ADMIN is missing.
pub fn delete(name: &str) -> Result<(), OpenError> {
    let failed = |error| OpenError::from_io(name, format!("deleting the interface {name:?}"), error);
    let mut link = LinkMessage::default();
    link.header.index = index_of(name).map_err(failed)?;
    Netlink::open().and_then(|socket| socket.call(RouteNetlinkMessage::DelLink(link), 0)).map_err(failed)
}

fn index_of(name: &str) -> io::Result<u32> {
    Ok(nix::net::if_::if_nametoindex(name)?)
}

struct Netlink(OwnedFd);

impl Netlink {
    fn open() -> io::Result<Netlink> {
        let fd = nix::sys::socket::socket(Family::Netlink, SockType::Raw, SockFlag::SOCK_CLOEXEC, SockProtocol::NetlinkRoute)?;
        nix::sys::socket::bind(fd.as_raw_fd(), &NetlinkAddr::new(0, 0))?;
        Ok(Netlink(fd))
    }

    /// Sends one request and waits for the kernel's answer, which is there when `send` returns.
    fn call(&self, message: RouteNetlinkMessage, flags: u16) -> io::Result<()> {
        let mut packet = NetlinkMessage::from(message);
        packet.header.flags = NLM_F_REQUEST | NLM_F_ACK | flags;
        packet.finalize();
        let mut bytes = vec![0; packet.buffer_len()];
        packet.serialize(&mut bytes);
        nix::sys::socket::sendto(self.0.as_raw_fd(), &bytes, &NetlinkAddr::new(0, 0), MsgFlags::empty())?;
        let mut answer = vec![0; 16 << 10];
        let got = nix::sys::socket::recv(self.0.as_raw_fd(), &mut answer, MsgFlags::empty())?;
        let parsed = NetlinkMessage::<RouteNetlinkMessage>::deserialize(&answer[..got])
            .map_err(|error| io::Error::new(io::ErrorKind::InvalidData, format!("the kernel's answer cannot be read: {error}")))?;
        match parsed.payload {
            NetlinkPayload::Error(error) => error.code.map_or(Ok(()), |code| Err(io::Error::from_raw_os_error(code.get().abs()))),
            _ => Err(io::Error::new(io::ErrorKind::InvalidData, "the kernel's answer is no acknowledgement")),
        }
    }
}
