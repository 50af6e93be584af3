//! Fast Open's cookies (RFC 7413 §4.1): those that servers gave to this node, in a bounded cache, and those that it gives as a server.

use super::TcpBlock;
use super::tables::Tuple;
use crate::connection::Learned;
use crate::counters::Counter;
use siphasher::sip::SipHasher24;
use std::hash::Hasher;
use std::net::IpAddr;
use weft_core::Instant;
use weft_wire::tcp::{FastOpen, Segment};

/// Bits of the setting `fastopen` (net.ipv4.tcp_fastopen).
const CLIENT: u32 = 1;
const SERVER: u32 = 2;
const CLIENT_NO_COOKIE: u32 = 4;
const SERVER_NO_COOKIE: u32 = 0x200;
const SERVER_ALWAYS: u32 = 0x400;
/// Room for options in a SYN with data (MAX_TCP_OPTION_SPACE), bytes.
const OPTIONS_BYTES: u32 = 40;

/// What becomes of a SYN at a listener.
#[derive(Debug, Default, PartialEq, Eq)]
pub(super) struct FastOpenVerdict {
    /// The connection begins now.
    pub early: bool,
    /// Goes into the SYN|ACK.
    pub option: Option<FastOpen>,
}

/// Sixteen bytes of a key as SipHash takes them.
fn halves(key: &[u8]) -> Option<(u64, u64)> {
    let (low, high) = (key.first_chunk::<8>()?, key.get(8..16)?.first_chunk::<8>()?);
    Some((u64::from_le_bytes(*low), u64::from_le_bytes(*high)))
}

/// The cookie of a client: SipHash-2-4 over its and this node's address (__tcp_fastopen_cookie_gen_cipher), so that servers that share a key
/// with Linux ones share cookies.
fn cookie(key: (u64, u64), tuple: &Tuple) -> FastOpen {
    let mut hasher = SipHasher24::new_with_keys(key.0, key.1);
    for ip in [tuple.remote.ip(), tuple.local.ip()] {
        match ip {
            IpAddr::V4(ip) => hasher.write(&ip.octets()),
            IpAddr::V6(ip) => hasher.write(&ip.octets()),
        }
    }
    let mut option = FastOpen::default();
    option.cookie.extend(hasher.finish().to_le_bytes());
    option
}

impl TcpBlock {
    /// The sockets ask how many bytes a SYN could carry: `None` when clients may not, 0 when there is no cookie.
    pub(super) fn fast_open_room(&self, tuple: &Tuple, no_cookie: bool, mtu: u32, now: Instant) -> Option<u32> {
        if self.settings.fastopen & CLIENT == 0 {
            return None;
        }
        let server = self.servers.find(tuple, now);
        let free = no_cookie || self.settings.fastopen & CLIENT_NO_COOKIE != 0;
        if !free && server.is_none_or(|server| server.option.cookie.is_empty()) {
            return Some(0);
        }
        // "space = __tcp_mtu_to_mss(sk, pmtu) - MAX_TCP_OPTION_SPACE", at most the size that the server announced.
        let header = if tuple.remote.is_ipv4() { 40 } else { 60 };
        let known = server.map(|server| u32::from(server.mss)).filter(|mss| *mss > 0).unwrap_or(u32::MAX);
        Some(mtu.saturating_sub(header).min(known).saturating_sub(OPTIONS_BYTES).max(1))
    }

    /// The option of a SYN: the cookie there is, or an empty one that asks; none where none is needed.
    pub(super) fn fast_open_option(&self, tuple: &Tuple, no_cookie: bool, now: Instant) -> Option<FastOpen> {
        if no_cookie || self.settings.fastopen & CLIENT_NO_COOKIE != 0 {
            return None;
        }
        Some(match self.servers.find(tuple, now) {
            Some(server) => server.option.clone(),
            None => FastOpen::default(),
        })
    }

    pub(super) fn fast_open_learned(&mut self, tuple: &Tuple, learned: Learned, now: Instant) {
        if self.servers.learn(tuple, learned, now) {
            self.out.counters.add(Counter::TCPFastOpenCacheEvict, 1);
        }
    }

    /// tcp_try_fastopen.
    pub(super) fn try_fast_open(&mut self, listener: u64, tuple: &Tuple, segment: &Segment, data: bool, now: Instant) -> FastOpenVerdict {
        let setting = self.settings.fastopen;
        let asked = segment.options.fast_open.as_ref();
        let out = &mut self.out;
        let Some(listener) = self.listeners.get_mut(listener).filter(|_| asked.is_some() || data) else {
            return FastOpenVerdict::default();
        };
        if asked.is_some_and(|option| option.cookie.is_empty()) {
            out.counters.add(Counter::TCPFastOpenCookieReqd, 1);
        }
        if setting & SERVER == 0 || !listener.takes_early(setting & SERVER_ALWAYS != 0, now, out) {
            return FastOpenVerdict::default();
        }
        if setting & SERVER_NO_COOKIE != 0 || listener.options.fast_open_no_cookie {
            return FastOpenVerdict { early: true, option: None };
        }
        let Some(asked) = asked else { return FastOpenVerdict::default() };
        let keys: Vec<(u64, u64)> = listener.options.fast_open_key.chunks(16).filter_map(halves).collect();
        let keys = if keys.is_empty() { vec![self.fast_open_key] } else { keys };
        let fresh = keys.first().map(|key| FastOpen { experimental: asked.experimental, ..cookie(*key, tuple) });
        if asked.cookie.is_empty() {
            return FastOpenVerdict { early: false, option: fresh };
        }
        match keys.iter().position(|key| cookie(*key, tuple).cookie == asked.cookie) {
            Some(0) => FastOpenVerdict { early: true, option: None },
            Some(_) => {
                out.counters.add(Counter::TCPFastOpenPassiveAltKey, 1);
                FastOpenVerdict { early: true, option: fresh }
            }
            None => {
                out.counters.add(Counter::TCPFastOpenPassiveFail, 1);
                FastOpenVerdict { early: false, option: fresh }
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Linux 6.18 with TCP_FASTOPEN_KEY 00112233445566778899aabbccddeeff, from 10.9.0.2 to 10.9.0.1 and from fd09::2 to fd09::1.
    #[test]
    fn cookies_are_the_kernels() {
        let key: Vec<u8> = (0..16).map(|at| at * 0x11).collect();
        let peer = Tuple { local: "10.9.0.1:80".parse().unwrap(), remote: "10.9.0.2:5000".parse().unwrap() };
        assert_eq!(cookie(halves(&key).unwrap(), &peer).cookie[..], [0xcf, 0x9a, 0xa7, 0x46, 0x05, 0x16, 0x18, 0xd0]);
        let peer = Tuple { local: "[fd09::1]:80".parse().unwrap(), remote: "[fd09::2]:5000".parse().unwrap() };
        assert_eq!(cookie(halves(&key).unwrap(), &peer).cookie[..], [0xe0, 0x5a, 0xd2, 0xcd, 0x46, 0x65, 0x9e, 0xb4]);
    }
}
