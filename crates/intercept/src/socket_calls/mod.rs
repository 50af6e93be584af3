//! Calls on sockets, each once for all adapters. An adapter is a [`Carrier`]: it has the socket that a call is about and the memory of its
//! program, and it knows how a call ends and waits.
//!
//! What a call means stands here: the order in which Linux looks at its arguments, what it copies, when it waits and what it says then. Where
//! adapters truly differ the carrier has a method, and its documentation says why. docs/architecture/calls.md lists those.

mod arp;
mod carrier;
pub mod connection;
pub mod data;
mod ethtool;
pub mod interface;
pub mod message;
pub mod option;
pub(crate) mod procedure;
mod route;

pub use carrier::{Carrier, Limit};
pub use message::{Message, Taken};

use crate::sys::Errno;
use weft_loader::calls::{self, Call as _};

/// The bits of socket(2)'s type that are not flags (SOCK_TYPE_MASK).
const TYPE_MASK: i32 = 0xf;

/// What socket(2) is asked for.
pub struct Kind {
    /// AF_INET, ….
    pub domain: i32,
    /// SOCK_STREAM, ….
    pub kind: i32,
    /// IPPROTO_TCP, ….
    pub protocol: i32,
    /// SOCK_NONBLOCK, SOCK_CLOEXEC.
    pub flags: i32,
}

impl Kind {
    /// # Errors
    /// EINVAL: there are no such flags.
    pub fn asked(call: calls::Socket) -> Result<Kind, Errno> {
        let (domain, kind, protocol) = (call.family.get(), call.kind.get() & TYPE_MASK, call.protocol.get());
        let flags = call.kind.get() & !TYPE_MASK;
        if flags & !(libc::SOCK_NONBLOCK | libc::SOCK_CLOEXEC) != 0 {
            return Err(Errno(libc::EINVAL));
        }
        Ok(Kind { domain, kind, protocol, flags })
    }

    /// What sockets of a family that weft has none of fail with: EPERM, EAFNOSUPPORT.
    pub fn no_such_family(&self) -> Errno {
        // packet_create: "if (!ns_capable(net->user_ns, CAP_NET_RAW)) return -EPERM;"
        Errno(if self.domain == libc::AF_PACKET { libc::EPERM } else { libc::EAFNOSUPPORT })
    }
}

/// Answers a call on a socket, by number: for adapters to which all of them come.
pub fn answer<C: Carrier>(c: &mut C, number: i64, words: &[usize; 6]) -> Result<C::Outcome, Errno> {
    match number {
        libc::SYS_bind => connection::bind(c, calls::Bind::of(words)),
        libc::SYS_listen => connection::listen(c, calls::Listen::of(words)),
        libc::SYS_shutdown => connection::shutdown(c, calls::Shutdown::of(words)),
        libc::SYS_getsockname => connection::getsockname(c, calls::Getsockname::of(words)),
        libc::SYS_getpeername => connection::getpeername(c, calls::Getpeername::of(words)),
        libc::SYS_connect => connection::connect(c, calls::Connect::of(words)),
        libc::SYS_accept => connection::accept(c, calls::Accept::of(words)),
        libc::SYS_accept4 => connection::accept4(c, calls::Accept4::of(words)),
        libc::SYS_getsockopt => option::getsockopt(c, calls::Getsockopt::of(words)),
        libc::SYS_setsockopt => option::setsockopt(c, calls::Setsockopt::of(words)),
        libc::SYS_ioctl => option::ioctl(c, calls::Ioctl::of(words)),
        libc::SYS_read => data::read(c, calls::Read::of(words)),
        libc::SYS_write => data::write(c, calls::Write::of(words)),
        libc::SYS_readv => data::readv(c, calls::Readv::of(words)),
        libc::SYS_writev => data::writev(c, calls::Writev::of(words)),
        libc::SYS_sendto => data::sendto(c, calls::Sendto::of(words)),
        libc::SYS_recvfrom => data::recvfrom(c, calls::Recvfrom::of(words)),
        libc::SYS_sendmsg => data::sendmsg(c, calls::Sendmsg::of(words)),
        libc::SYS_recvmsg => data::recvmsg(c, calls::Recvmsg::of(words)),
        libc::SYS_sendmmsg => data::sendmmsg(c, calls::Sendmmsg::of(words)),
        libc::SYS_recvmmsg => data::recvmmsg(c, calls::Recvmmsg::of(words)),
        _ => Err(Errno(libc::ENOSYS)),
    }
}
