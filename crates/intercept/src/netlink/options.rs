//! SOL_SOCKET of netlink sockets (linux/net/core/sock.c: sk_setsockopt, sk_getsockopt): what acts, what is only kept, and what they have not.
//!
//! What has no row here is ENOPROTOOPT in both directions. It refuses eBPF, as sockets do.

use crate::face::Stack;
use crate::sys::Errno;
use std::collections::BTreeMap;
use std::time::Duration;
use weft_core::bpf::{Program, Shared};
use weft_core::{Answer, Frame, InterfaceIndex, Query, Table};
use weft_socket::Buffers;
use weft_socket::abi::*;
use weft_socket::options::{is_timestamping, timeval, timeval_bytes};

/// SOCK_MIN_SNDBUF and SOCK_MIN_RCVBUF.
const SEND_BYTES_MIN: u32 = 4608;
const RECEIVE_BYTES_MIN: u32 = 2304;
/// SOCK_SNDBUF_LOCK and SOCK_RCVBUF_LOCK.
const SEND_LOCK: i32 = 1;
const RECEIVE_LOCK: i32 = 2;
/// MAX_SCHEDULE_TIMEOUT / HZ, the low half, seconds: what SO_LINGER shows of a negative time.
const LINGER_SECONDS_MAX: i32 = (i64::MAX / 250) as i32;
/// SOF_TXTIME_DEADLINE_MODE and SOF_TXTIME_REPORT_ERRORS; CLOCK_REALTIME, CLOCK_MONOTONIC, CLOCK_TAI.
const TXTIME_FLAGS: u32 = 3;
const TXTIME_CLOCKS: [i32; 3] = [0, 1, 11];
const IFNAMSIZ: usize = 16;

/// How a number is kept.
#[derive(Clone, Copy)]
enum Kept {
    /// 0, and 1 for everything else.
    Flag,
    /// As it is; outside of these it is EINVAL.
    Between(i32, i32),
}

/// The options that are numbers and, but for SO_PASSCRED, change nothing here: name, how it is kept, and what a fresh socket has.
const KEPT: [(i32, Kept, i32); 26] = [
    (SO_DEBUG, Kept::Flag, 0),
    (SO_REUSEADDR, Kept::Flag, 0),
    (SO_DONTROUTE, Kept::Flag, 0),
    (SO_BROADCAST, Kept::Flag, 0),
    (SO_KEEPALIVE, Kept::Flag, 0),
    (SO_OOBINLINE, Kept::Flag, 0),
    (SO_NO_CHECK, Kept::Flag, 0),
    (SO_PASSCRED, Kept::Flag, 0),
    (SO_PASSSEC, Kept::Flag, 0),
    (SO_RXQ_OVFL, Kept::Flag, 0),
    (SO_WIFI_STATUS, Kept::Flag, 0),
    (SO_NOFCS, Kept::Flag, 0),
    (SO_LOCK_FILTER, Kept::Flag, 0),
    (SO_SELECT_ERR_QUEUE, Kept::Flag, 0),
    (SO_PREFER_BUSY_POLL, Kept::Flag, 0),
    (SO_RCVMARK, Kept::Flag, 0),
    (SO_RCVPRIORITY, Kept::Flag, 0),
    (SO_PRIORITY, Kept::Between(i32::MIN, i32::MAX), 0),
    (SO_MARK, Kept::Between(i32::MIN, i32::MAX), 0),
    (SO_INCOMING_CPU, Kept::Between(i32::MIN, i32::MAX), -1),
    (SO_RCVLOWAT, Kept::Between(i32::MIN, i32::MAX), 1),
    (SO_BUSY_POLL, Kept::Between(0, i32::MAX), 0),
    (SO_BINDTOIFINDEX, Kept::Between(0, i32::MAX), 0),
    (SO_BUF_LOCK, Kept::Between(0, SEND_LOCK | RECEIVE_LOCK), 0),
    // "if (val && !sk_is_inet(sk)) ret = -EOPNOTSUPP;"
    (SO_REUSEPORT, Kept::Flag, 0),
    // "case SO_BSDCOMPAT: break;" in both directions.
    (SO_BSDCOMPAT, Kept::Flag, 0),
];

/// The same of times: SO_TIMESTAMP, SO_TIMESTAMPNS and SO_TIMESTAMPING. No packet of netlink's has one.
#[derive(Clone, Copy, Default, Debug)]
struct Times {
    /// SO_TIMESTAMP (false) or SO_TIMESTAMPNS (true: nanoseconds).
    nanos: Option<bool>,
    flags: u32,
    /// SOCK_TSTAMP_NEW: one was last asked for by a new number.
    new: bool,
}

/// What a program has set at SOL_SOCKET.
#[derive(Debug)]
pub struct Options {
    /// Those of [`KEPT`] that were set.
    numbers: BTreeMap<i32, i32>,
    send_buffer: u32,
    receive_buffer: u32,
    /// SO_RCVTIMEO and SO_SNDTIMEO. None: waits for ever.
    pub receive_limit: Option<Duration>,
    /// See above.
    pub send_limit: Option<Duration>,
    /// l_onoff and l_linger.
    linger: (i32, i32),
    times: Times,
    pacing_rate_max: u64,
    /// SO_TXTIME: clock and flags.
    transmit_time: (i32, u32),
    filter: Option<Shared>,
    /// SO_COOKIE.
    cookie: u64,
}

impl Options {
    /// Those of a fresh socket of a node that has these buffers. No other socket has its cookie.
    pub fn new(cookie: u64, buffers: Buffers) -> Options {
        Options {
            numbers: BTreeMap::new(),
            send_buffer: buffers.send.default,
            receive_buffer: buffers.receive.default,
            receive_limit: None,
            send_limit: None,
            linger: (0, 0),
            times: Times::default(),
            pacing_rate_max: u64::MAX,
            transmit_time: (0, 0),
            filter: None,
            cookie,
        }
    }

    /// SO_SNDBUF, bytes.
    pub fn send_buffer(&self) -> usize {
        self.send_buffer as usize
    }

    /// SO_PASSCRED.
    pub fn tells_credentials(&self) -> bool {
        self.number(SO_PASSCRED) != 0
    }

    /// SO_RCVBUF, bytes.
    pub fn receive_buffer(&self) -> usize {
        self.receive_buffer as usize
    }

    /// A packet as SO_ATTACH_FILTER lets it through; none: not at all. sk_filter_trim_cap: "pskb_trim(skb, max(cap, pkt_len))", of a cap of 1.
    pub fn filtered(&self, mut packet: Vec<u8>) -> Option<Vec<u8>> {
        let Some(filter) = &self.filter else { return Some(packet) };
        let wanted = filter.run(&Frame::ingress(&packet)) as usize;
        packet.truncate(wanted);
        (wanted != 0).then_some(packet)
    }

    fn number(&self, name: i32) -> i32 {
        let fresh = KEPT.iter().find(|row| row.0 == name).map_or(0, |row| row.2);
        self.numbers.get(&name).copied().unwrap_or(fresh)
    }

    /// getsockopt(2) of SOL_SOCKET, but for what the session knows. `queued`: memory that unread packets take. `peer`: the peer's
    /// name.
    ///
    /// # Errors
    /// EINVAL for a length that the option does not take; ENOPROTOOPT; EOPNOTSUPP, ENODATA, ENODEV.
    pub fn get(&self, name: i32, length: i32, queued: usize, stack: &mut dyn Stack, peer: &[u8]) -> Result<Vec<u8>, Errno> {
        // sk_getsockopt: "if (len < 0) return -EINVAL;"
        let length = usize::try_from(length).map_err(|_| Errno(libc::EINVAL))?;
        let words = |words: &[u32]| words.iter().flat_map(|word| word.to_ne_bytes()).collect();
        let int = |value: i32| Ok(value.to_ne_bytes().to_vec());
        match name {
            SO_SNDBUF => int(self.send_buffer.cast_signed()),
            SO_RCVBUF => int(self.receive_buffer.cast_signed()),
            SO_RCVTIMEO_OLD | SO_RCVTIMEO_NEW => Ok(timeval_bytes(self.receive_limit)),
            SO_SNDTIMEO_OLD | SO_SNDTIMEO_NEW => Ok(timeval_bytes(self.send_limit)),
            SO_ERROR | SO_ACCEPTCONN | SO_INCOMING_NAPI_ID | SO_ZEROCOPY | SO_RESERVE_MEM => int(0),
            SO_SNDLOWAT => int(1),
            SO_BPF_EXTENSIONS => int(64),
            SO_LINGER => Ok(words(&[self.linger.0, self.linger.1].map(i32::cast_unsigned))),
            // cred_to_ucred of no process: struct ucred { 0, -1, -1 }.
            SO_PEERCRED => Ok(words(&[0, u32::MAX, u32::MAX])),
            SO_BINDTODEVICE => self.device(length, stack),
            SO_ATTACH_FILTER => Ok(self.filter.as_ref().map_or_else(Vec::new, |filter| filter.to_bytes())),
            // "lv = sock->ops->getname(sock, (struct sockaddr *)&address, 2); … if (lv < len) return -EINVAL;"
            SO_PEERNAME if peer.len() < length => Err(Errno(libc::EINVAL)),
            SO_PEERNAME => Ok(peer.to_vec()),
            SO_TIMESTAMP_OLD | SO_TIMESTAMPNS_OLD | SO_TIMESTAMP_NEW | SO_TIMESTAMPNS_NEW => int(self.times.told(name).into()),
            // "if (optname == SO_TIMESTAMPING_OLD || sock_flag(sk, SOCK_TSTAMP_NEW))", else zeros.
            SO_TIMESTAMPING_OLD | SO_TIMESTAMPING_NEW => {
                let tells = name == SO_TIMESTAMPING_OLD || self.times.new;
                Ok(words(&[if tells { self.times.flags } else { 0 }, 0]))
            }
            SO_MAX_PACING_RATE if length >= 8 => Ok(self.pacing_rate_max.to_ne_bytes().to_vec()),
            SO_MAX_PACING_RATE => Ok(words(&[u32::try_from(self.pacing_rate_max).unwrap_or(u32::MAX)])),
            SO_TXTIME => Ok(words(&[self.transmit_time.0.cast_unsigned(), self.transmit_time.1])),
            // rmem_alloc, rcvbuf, wmem_alloc, sndbuf, fwd_alloc, wmem_queued, optmem, backlog, drops
            SO_MEMINFO => Ok(words(&[queued as u32, self.receive_buffer, 0, self.send_buffer, 0, 0, 0, 0, 0])),
            SO_COOKIE if length < 8 => Err(Errno(libc::EINVAL)),
            SO_NETNS_COOKIE if length != 8 => Err(Errno(libc::EINVAL)),
            SO_COOKIE => Ok(self.cookie.to_ne_bytes().to_vec()),
            // The node is the namespace, and there is no other.
            SO_NETNS_COOKIE => Ok(1_u64.to_ne_bytes().to_vec()),
            SO_PEERGROUPS | SO_PEERPIDFD => Err(Errno(libc::ENODATA)),
            SO_PEEK_OFF | SO_TXREHASH | SO_PASSPIDFD | SO_PASSRIGHTS => Err(Errno(libc::EOPNOTSUPP)),
            _ if KEPT.iter().any(|row| row.0 == name) => int(self.number(name)),
            _ => Err(Errno(libc::ENOPROTOOPT)),
        }
    }

    /// setsockopt(2) of SOL_SOCKET.
    ///
    /// # Errors
    /// EINVAL for a length or value that the option does not take; ENOPROTOOPT; EOPNOTSUPP, ENODEV, ENOENT, EDOM, EPERM.
    pub fn set(&mut self, name: i32, value: &[u8], stack: &mut dyn Stack) -> Result<(), Errno> {
        if name == SO_BINDTODEVICE {
            return self.bind_to_device(value, stack);
        }
        // sk_setsockopt: "if (optlen < sizeof(int)) return -EINVAL;"
        let number = value.first_chunk::<4>().map(|bytes| i32::from_ne_bytes(*bytes)).ok_or(Errno(libc::EINVAL))?;
        match name {
            SO_SNDBUF | SO_SNDBUFFORCE => {
                self.send_buffer = doubled(number, name == SO_SNDBUFFORCE, SEND_BYTES_MIN, stack.buffers().send.max);
                self.numbers.insert(SO_BUF_LOCK, self.number(SO_BUF_LOCK) | SEND_LOCK);
            }
            SO_RCVBUF | SO_RCVBUFFORCE => {
                self.receive_buffer = doubled(number, name == SO_RCVBUFFORCE, RECEIVE_BYTES_MIN, stack.buffers().receive.max);
                self.numbers.insert(SO_BUF_LOCK, self.number(SO_BUF_LOCK) | RECEIVE_LOCK);
            }
            SO_RCVTIMEO_OLD | SO_RCVTIMEO_NEW => self.receive_limit = timeval(value)?,
            SO_SNDTIMEO_OLD | SO_SNDTIMEO_NEW => self.send_limit = timeval(value)?,
            SO_ATTACH_FILTER => self.attach(value)?,
            SO_DETACH_FILTER if self.number(SO_LOCK_FILTER) != 0 => return Err(Errno(libc::EPERM)),
            SO_DETACH_FILTER => drop(self.filter.take().ok_or(Errno(libc::ENOENT))?),
            // "if (sock_flag(sk, SOCK_FILTER_LOCKED) && !valbool) ret = -EPERM;"
            SO_LOCK_FILTER if number == 0 && self.number(SO_LOCK_FILTER) != 0 => return Err(Errno(libc::EPERM)),
            SO_TIMESTAMP_OLD | SO_TIMESTAMPNS_OLD | SO_TIMESTAMP_NEW | SO_TIMESTAMPNS_NEW => self.times.set(name, number != 0),
            SO_LINGER | SO_TIMESTAMPING_OLD | SO_TIMESTAMPING_NEW | SO_MAX_PACING_RATE | SO_TXTIME => {
                self.set_structure(name, number, value)?;
            }
            SO_BUSY_POLL_BUDGET if !(0..=0xffff).contains(&number) => return Err(Errno(libc::EINVAL)),
            SO_BUSY_POLL_BUDGET | SO_CNX_ADVICE | SO_BSDCOMPAT => {}
            SO_RESERVE_MEM if number < 0 => return Err(Errno(libc::EINVAL)),
            // reuseport_detach_prog: "if (!rcu_access_pointer(sk->sk_reuseport_cb)) return sk->sk_reuseport ? -ENOENT : -EINVAL;"
            SO_DETACH_REUSEPORT_BPF => return Err(Errno(libc::EINVAL)),
            SO_REUSEPORT if number == 0 => {}
            SO_REUSEPORT | SO_RESERVE_MEM | SO_ZEROCOPY | SO_PEEK_OFF | SO_TXREHASH | SO_PASSPIDFD | SO_PASSRIGHTS => {
                return Err(Errno(libc::EOPNOTSUPP));
            }
            _ => self.keep(name, number)?,
        }
        Ok(())
    }

    /// What is a number, and changes nothing here.
    fn keep(&mut self, name: i32, number: i32) -> Result<(), Errno> {
        let (_, how, _) = KEPT.iter().find(|row| row.0 == name).ok_or(Errno(libc::ENOPROTOOPT))?;
        let kept = match how {
            // "if (val < 0) val = INT_MAX; … WRITE_ONCE(sk->sk_rcvlowat, val ? : 1);"
            _ if name == SO_RCVLOWAT && number < 0 => i32::MAX,
            _ if name == SO_RCVLOWAT => number.max(1),
            Kept::Flag => (number != 0).into(),
            Kept::Between(least, most) if (least..=most).contains(&&number) => number,
            Kept::Between(..) => return Err(Errno(libc::EINVAL)),
        };
        self.numbers.insert(name, kept);
        Ok(())
    }

    /// What may be more than a number, which it begins with.
    fn set_structure(&mut self, name: i32, number: i32, value: &[u8]) -> Result<(), Errno> {
        match name {
            SO_LINGER => {
                let time = value.get(4..8).and_then(|bytes| bytes.try_into().ok()).map(i32::from_ne_bytes).ok_or(Errno(libc::EINVAL))?;
                // The time stays when it is switched off; a negative one is the longest there is.
                let time = if number == 0 { self.linger.1 } else { time };
                self.linger = ((number != 0).into(), if time < 0 { LINGER_SECONDS_MAX } else { time });
            }
            SO_TIMESTAMPING_OLD | SO_TIMESTAMPING_NEW => {
                if !is_timestamping(number.cast_unsigned()) {
                    return Err(Errno(libc::EINVAL));
                }
                // No interface has a clock of its own: sock_timestamping_bind_phc.
                if number.cast_unsigned() & TIMESTAMPING_BIND_PHC != 0 {
                    return Err(Errno(if self.number(SO_BINDTOIFINDEX) == 0 { libc::EOPNOTSUPP } else { libc::EINVAL }));
                }
                (self.times.flags, self.times.new) = (number.cast_unsigned(), name == SO_TIMESTAMPING_NEW);
            }
            // "if (optlen == sizeof(ulval) …) … else ulval = (val == ~0U) ? ~0UL : (unsigned int)val"
            SO_MAX_PACING_RATE => {
                self.pacing_rate_max = match (<[u8; 8]>::try_from(value), number) {
                    (Ok(long), _) => u64::from_ne_bytes(long),
                    (_, -1) => u64::MAX,
                    (_, rate) => u64::from(rate.cast_unsigned()),
                };
            }
            // SO_TXTIME
            _ => {
                let flags = <[u8; 8]>::try_from(value).map(|bytes| u32::from_ne_bytes([bytes[4], bytes[5], bytes[6], bytes[7]]));
                let known = flags.ok().filter(|flags| flags & !TXTIME_FLAGS == 0 && TXTIME_CLOCKS.contains(&number));
                self.transmit_time = (number, known.ok_or(Errno(libc::EINVAL))?);
            }
        }
        Ok(())
    }

    /// `sk_attach_filter`: "if (sock_flag(sk, SOCK_FILTER_LOCKED)) return ERR_PTR(-EPERM); if (!bpf_check_basics_ok(…)) return ERR_PTR(-EINVAL);"
    fn attach(&mut self, program: &[u8]) -> Result<(), Errno> {
        if self.number(SO_LOCK_FILTER) != 0 {
            return Err(Errno(libc::EPERM));
        }
        self.filter = Some(Program::from_bytes(program).map_err(|_| Errno(libc::EINVAL))?.into());
        Ok(())
    }

    /// `sock_setbindtodevice`: "If optlen == 0 or devname[0] == '\0', then unbind".
    fn bind_to_device(&mut self, value: &[u8], stack: &mut dyn Stack) -> Result<(), Errno> {
        let value = &value[..value.len().min(IFNAMSIZ - 1)];
        let name = String::from_utf8_lossy(value.split(|byte| *byte == 0).next().unwrap_or_default()).into_owned();
        let index = match name.as_str() {
            "" => 0,
            _ => match stack.ask(Table::Interfaces, &Query::InterfaceNamed(name)) {
                Answer::Interface(interface) => interface.index.0,
                _ => return Err(Errno(libc::ENODEV)),
            },
        };
        self.numbers.insert(SO_BINDTOIFINDEX, index.cast_signed());
        Ok(())
    }

    /// `sock_getbindtodevice`: nothing when unbound; "if (len < IFNAMSIZ) ret = -EINVAL".
    fn device(&self, length: usize, stack: &mut dyn Stack) -> Result<Vec<u8>, Errno> {
        let index = self.number(SO_BINDTOIFINDEX).cast_unsigned();
        if index == 0 {
            return Ok(Vec::new());
        }
        if length < IFNAMSIZ {
            return Err(Errno(libc::EINVAL));
        }
        match stack.ask(Table::Interfaces, &Query::Interface(InterfaceIndex(index))) {
            Answer::Interface(interface) => Ok([interface.name.as_bytes(), &[0]].concat()),
            _ => Err(Errno(libc::ENODEV)),
        }
    }
}

impl Times {
    fn set(&mut self, name: i32, on: bool) {
        self.nanos = on.then_some(matches!(name, SO_TIMESTAMPNS_OLD | SO_TIMESTAMPNS_NEW));
        // __sock_set_timestamps: "if (val) { sock_valbool_flag(sk, SOCK_TSTAMP_NEW, new); …"
        if on {
            self.new = matches!(name, SO_TIMESTAMP_NEW | SO_TIMESTAMPNS_NEW);
        }
    }

    fn told(self, name: i32) -> bool {
        match (name, self.nanos) {
            (_, None) => false,
            // "case SO_TIMESTAMP_NEW: v.val = sock_flag(sk, SOCK_RCVTSTAMP) && sock_flag(sk, SOCK_TSTAMP_NEW);", of SO_TIMESTAMPNS_NEW, too.
            (SO_TIMESTAMP_NEW, _) => self.new,
            (SO_TIMESTAMPNS_NEW, Some(nanos)) => self.new && nanos,
            (SO_TIMESTAMPNS_OLD, Some(nanos)) => !self.new && nanos,
            (_, Some(nanos)) => !self.new && !nanos,
        }
    }
}

/// "val = min_t(u32, val, READ_ONCE(sysctl_rmem_max)); … We double it on the way in", which a privileged program may say in full.
fn doubled(bytes: i32, force: bool, least: u32, most: u32) -> u32 {
    let bytes = if force { bytes.max(0).cast_unsigned() } else { bytes.cast_unsigned().min(most) };
    bytes.min(i32::MAX.cast_unsigned() / 2).saturating_mul(2).max(least)
}
