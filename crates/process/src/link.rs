//! Netlink sockets of programs.

use std::collections::{BTreeMap, VecDeque};
use std::time::Duration;
use weft_intercept::netlink::{PACKETS_MAX, Ports, Session};
use weft_intercept::sys::Errno;

/// net.core.rmem_default and wmem_default; SO_RCVBUF and SO_SNDBUF have no more.
const BUFFER_BYTES: i32 = 212_992;
/// SOCK_MIN_SNDBUF and SOCK_MIN_RCVBUF.
const SEND_BYTES_MIN: i32 = 4608;
const RECEIVE_BYTES_MIN: i32 = 2304;
const SO_RCVTIMEO_NEW: i32 = 66;
const SO_SNDTIMEO_NEW: i32 = 67;
/// Options of SOL_SOCKET that are read only.
const READ_ONLY: [i32; 6] = [libc::SO_TYPE, libc::SO_ERROR, libc::SO_SNDLOWAT, libc::SO_ACCEPTCONN, libc::SO_PROTOCOL, libc::SO_DOMAIN];

/// A netlink socket of a program.
#[derive(Debug)]
pub(super) struct Link {
    pub state: Session,
    /// What waits for the program, with the number of who has sent it; 0: the kernel.
    pub packets: VecDeque<(u32, Vec<u8>)>,
    /// Packets had to be dropped, which the program has not heard of.
    pub lost: bool,
    /// SO_RCVTIMEO and SO_SNDTIMEO. None: waits for ever.
    pub receive_limit: Option<Duration>,
    pub send_limit: Option<Duration>,
    /// Options of SOL_SOCKET that were set, as they read. There are not many numbers.
    kept: BTreeMap<i32, i32>,
}

impl Link {
    pub fn new(kind: i32, protocol: i32, ports: &Ports) -> Result<Link, Errno> {
        let state = Session::among(kind, protocol, ports).map_err(Errno)?;
        let (packets, kept) = (VecDeque::new(), BTreeMap::new());
        Ok(Link { state, packets, lost: false, receive_limit: None, send_limit: None, kept })
    }
    pub fn queue(&mut self, from: u32, packet: Vec<u8>) {
        if self.packets.len() < PACKETS_MAX {
            self.packets.push_back((from, packet));
        } else {
            self.lost = true;
        }
    }
    /// POLLIN, POLLOUT, POLLERR.
    pub fn readiness(&self) -> u32 {
        4 | u32::from(!self.packets.is_empty()) | if self.lost { 8 } else { 0 }
    }

    /// getsockopt(2) of SOL_SOCKET, but for what the session knows.
    pub fn option(&self, name: i32) -> Vec<u8> {
        let limit = match name {
            libc::SO_RCVTIMEO | SO_RCVTIMEO_NEW => Some(self.receive_limit),
            libc::SO_SNDTIMEO | SO_SNDTIMEO_NEW => Some(self.send_limit),
            _ => None,
        };
        if let Some(limit) = limit {
            let limit = limit.unwrap_or_default();
            return [limit.as_secs(), u64::from(limit.subsec_micros())].iter().flat_map(|part| part.to_ne_bytes()).collect();
        }
        let unset = match name {
            libc::SO_RCVBUF | libc::SO_SNDBUF => BUFFER_BYTES,
            libc::SO_RCVLOWAT | libc::SO_SNDLOWAT => 1,
            _ => 0,
        };
        self.kept.get(&name).copied().unwrap_or(unset).to_ne_bytes().to_vec()
    }

    /// setsockopt(2) of SOL_SOCKET. What is only kept changes nothing here.
    pub fn set_option(&mut self, name: i32, value: &[u8]) -> Result<(), Errno> {
        match name {
            libc::SO_RCVTIMEO | SO_RCVTIMEO_NEW => self.receive_limit = weft_socket::options::timeval(value)?,
            libc::SO_SNDTIMEO | SO_SNDTIMEO_NEW => self.send_limit = weft_socket::options::timeval(value)?,
            _ => {
                let number = value.first_chunk::<4>().map(|bytes| i32::from_ne_bytes(*bytes)).ok_or(Errno(libc::EINVAL))?;
                if READ_ONLY.contains(&name) {
                    return Err(Errno(libc::ENOPROTOOPT));
                }
                // sk_setsockopt: "val = min_t(u32, val, READ_ONCE(sysctl_rmem_max));", and twice of that.
                let twice = |least: i32| (number as u32).min(BUFFER_BYTES as u32).cast_signed().saturating_mul(2).max(least);
                let kept = match name {
                    libc::SO_RCVBUF => twice(RECEIVE_BYTES_MIN),
                    libc::SO_SNDBUF => twice(SEND_BYTES_MIN),
                    libc::SO_PRIORITY | libc::SO_MARK => number,
                    libc::SO_RCVLOWAT => number.max(1),
                    _ => i32::from(number != 0),
                };
                self.kept.insert(name, kept);
            }
        }
        Ok(())
    }
}
