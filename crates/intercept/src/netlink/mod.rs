//! AF_NETLINK sockets: what `weft_netlink` answers from a node's tables.

mod options;

use crate::calls::Calls;
use crate::face::{Errno, Stack};
use crate::memory::Memory;
use crate::socket_calls::{Message, data};
use bytes::Bytes;
use weft_core::control::Value;
use weft_core::{Answer, ControlError, Instant, Op, Query, Selector, Show, Table};
use weft_netlink::Tables;
use weft_socket::control_message;

pub use options::Options;
pub use weft_netlink::{Ports, Sender, Session};

/// Most packets that wait for room in a stand-in, or for a program in virtual time: what comes then is lost, as the kernel's is (ENOBUFS).
pub const PACKETS_MAX: usize = 65_536;
/// With more bytes of them than this the node's answers are lost, too: one answer may be a dump, which is there as a whole.
pub const PACKETS_BYTES_MAX: usize = 16 * 1024 * 1024;
/// netlink_sendmsg: "if (len > sk->sk_sndbuf - 32) goto out;"
const SEND_OVERHEAD_BYTES: usize = 32;

/// A netlink socket, but for what waits there.
#[derive(Debug)]
pub struct Socket {
    /// SOL_NETLINK, its number, its groups, and what is answered.
    pub session: Session,
    /// SOL_SOCKET.
    pub options: Options,
}

impl Socket {
    /// A fresh one among the others of a node.
    ///
    /// # Errors
    /// Those of [`Session::among`].
    pub fn new(kind: i32, protocol: i32, ports: &Ports, stack: &mut dyn Stack) -> Result<Socket, Errno> {
        let session = Session::among(kind, protocol, ports).map_err(Errno)?;
        Ok(Socket { session, options: Options::new(ports.next_cookie(), stack.buffers()) })
    }

    /// getsockopt(2). `queued`: the memory that unread packets take.
    ///
    /// # Errors
    /// EINVAL for a length that the option does not take; ENOPROTOOPT; others of SOL_SOCKET.
    pub fn option(&self, level: i32, name: i32, length: i32, queued: usize, stack: &mut dyn Stack) -> Result<Vec<u8>, Errno> {
        match self.session.option(level, name, length).map_err(Errno)? {
            Some(value) => Ok(value),
            None => self.options.get(name, length, queued, stack, &self.session.peer_name()),
        }
    }

    /// setsockopt(2).
    ///
    /// # Errors
    /// EINVAL for a length or value that the option does not take; ENOPROTOOPT; others of SOL_SOCKET.
    pub fn set_option(&mut self, level: i32, name: i32, value: &[u8], stack: &mut dyn Stack) -> Result<(), Errno> {
        if level == libc::SOL_SOCKET {
            return self.options.set(name, value, stack);
        }
        self.session.set_option(level, name, value).map_err(Errno)
    }

    /// scm_send of a packet, by whom: which credentials go with it. `may_be`: may it say that it is that one?
    ///
    /// # Errors
    /// EINVAL for other control messages, also such as go beside a packet of AF_UNIX; EPERM for somebody else's credentials.
    pub fn credentials(control: &[u8], own: [u32; 3], may_be: impl Fn([u32; 3]) -> bool) -> Result<[u32; 3], Errno> {
        let mut said = own;
        weft_socket::each_control(control, |level, kind, data| match (level, kind, <[u8; 12]>::try_from(data)) {
            (libc::SOL_SOCKET, libc::SCM_CREDENTIALS, Ok(words)) => {
                let word = |at: usize| u32::from_ne_bytes([words[at], words[at + 1], words[at + 2], words[at + 3]]);
                said = [word(0), word(4), word(8)];
                if said == own || may_be(said) { Ok(()) } else { Err(Errno(libc::EPERM)) }
            }
            // "case SCM_RIGHTS: if (!ops || ops->family != PF_UNIX) goto error;"
            (libc::SOL_SOCKET, ..) => Err(Errno(libc::EINVAL)),
            // "if (cmsg->cmsg_level != SOL_SOCKET) continue;"
            _ => Ok(()),
        })?;
        Ok(said)
    }

    /// The control messages beside a packet.
    pub fn control(&self, sender: &Sender) -> Vec<u8> {
        beside(sender, self.session.tells_group(), self.options.tells_credentials())
    }

    /// What a program sends, whole.
    ///
    /// # Errors
    /// EMSGSIZE for more than SO_SNDBUF holds, or `most`; EFAULT where a part cannot be read, or [`crate::memory::LATER`].
    pub fn gather(&self, memory: &impl Memory, message: &Message, most: usize) -> Result<Bytes, Errno> {
        let most = self.options.send_buffer().saturating_sub(SEND_OVERHEAD_BYTES).min(most);
        if message.total > most as u64 {
            return Err(Errno(libc::EMSGSIZE));
        }
        data::gather_whole(memory, message, most)
    }

    /// Is there room for a program's packet of so many bytes, with so much memory taken? netlink_attachskb: "if ((rmem == skb->truesize || rmem <=
    /// READ_ONCE(sk->sk_rcvbuf)) && …", of the sum with the packet: the first always has.
    pub fn has_room(&self, bytes: usize, queued: usize) -> bool {
        queued == 0 || queued + memory_of(bytes) <= self.options.receive_buffer()
    }
}

/// What a packet of so many bytes counts against a buffer (truesize). netlink_alloc_large_skb: alloc_skb up to NLMSG_GOODSIZE, which takes a small head
/// (skb_small_head_cache) or a power of two, and behind that what it needs; with `struct skb_shared_info` and `struct sk_buff`.
pub fn memory_of(bytes: usize) -> usize {
    const SHARED_INFO: usize = 320;
    const SK_BUFF: usize = 256;
    const SMALL_HEAD: usize = 576;
    const GOOD_SIZE: usize = 4096 - SHARED_INFO;
    let data = bytes.next_multiple_of(64) + SHARED_INFO;
    SK_BUFF
        + match data {
            ..=SMALL_HEAD => SMALL_HEAD,
            _ if bytes <= GOOD_SIZE => data.next_power_of_two(),
            _ => data,
        }
}

/// A node's tables, as the adapters have them.
pub struct Node<'a> {
    /// Whose tables.
    pub stack: &'a mut dyn Stack,
    /// Where it counts what is not supported.
    pub calls: &'a mut Calls,
}

impl Tables for Node<'_> {
    fn ask(&mut self, table: Table, query: &Query) -> Answer {
        self.stack.ask(table, query)
    }
    fn exec(&mut self, block: &str, procedure: &str, arguments: Value) -> Result<Value, ControlError> {
        let op = Op::Exec { target: Selector::Name(block.to_owned()), procedure: procedure.to_owned(), arguments };
        let value = self.stack.control(op)?;
        Ok(value.get(block).cloned().unwrap_or(Value::Null))
    }
    fn show(&mut self, what: Show) -> Value {
        self.stack.control(Op::Show(what)).unwrap_or_default()
    }
    fn now(&mut self) -> Instant {
        self.stack.now()
    }
    fn unsupported(&mut self, what: String, errno: i32) {
        self.calls.unsupported(what, Errno(errno));
    }
}

/// Control messages (netlink_recvmsg): "if (nlk_test_bit(RECV_PKTINFO, sk)) netlink_cmsg_recv_pktinfo(msg, skb);", then scm_recv.
fn beside(sender: &Sender, tells_group: bool, tells_credentials: bool) -> Vec<u8> {
    let mut out = Vec::new();
    if tells_group {
        out.extend(control_message(libc::SOL_NETLINK, libc::NETLINK_PKTINFO, &sender.group.to_ne_bytes()));
    }
    if tells_credentials {
        out.extend(control_message(libc::SOL_SOCKET, libc::SCM_CREDENTIALS, &sender.credentials.map(u32::to_ne_bytes).concat()));
    }
    out
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_was_not_asked_for_is_not_told() {
        let sender = Sender { number: 7, group: 5, credentials: [9, 1000, 1001] };
        assert_eq!(beside(&sender, false, false), Vec::<u8>::new());
        let both = beside(&sender, true, true);
        assert_eq!((both.len(), both[16], both[40]), (56, 5, 9));
        assert_eq!(beside(&sender, false, true), both[24..]);
    }

    #[test]
    fn memory_of_packets_is_what_the_kernel_counts() {
        // As SO_MEMINFO of a receiver on Linux 6.18 says it.
        let told = [
            (1, 832),
            (193, 832),
            (640, 1280),
            (704, 1280),
            (705, 2304),
            (1728, 2304),
            (1729, 4352),
            (3776, 4352),
            (3777, 4416),
            (3841, 4480),
        ];
        for (bytes, memory) in told.into_iter().chain([(20_000, 20_608), (60_000, 60_608), (200_000, 200_576), (212_960, 213_568)]) {
            assert_eq!(memory_of(bytes), memory, "{bytes}");
        }
    }
}
