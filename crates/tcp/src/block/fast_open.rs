//! Fast Open's cookies (RFC 7413 §4.1): those that servers gave to this node, in a bounded cache, and those that it gives as a server.

use super::TcpBlock;
use super::listen::Listener;
use super::tables::Tuple;
use crate::connection::Learned;
use crate::counters::Counter;
use crate::outbox::Outbox;
use siphasher::sip::SipHasher24;
use std::hash::Hasher;
use std::net::IpAddr;
use weft_core::map::{KeyedHasher, Map};
use weft_core::state::{Damage, Reader, Writer};
use weft_core::{Duration, Instant};
use weft_wire::tcp::{FastOpen, Segment};

/// Servers whose cookies are kept; the one that was learned first gives way.
pub(super) const SERVERS_MAX: usize = 1024;
/// Bits of the setting `fastopen` (net.ipv4.tcp_fastopen).
const CLIENT: u32 = 1;
const SERVER: u32 = 2;
const CLIENT_NO_COOKIE: u32 = 4;
const SERVER_NO_COOKIE: u32 = 0x200;
const SERVER_ALWAYS: u32 = 0x400;
/// Room for options in a SYN with data (MAX_TCP_OPTION_SPACE), bytes.
const OPTIONS_BYTES: u32 = 40;
/// After a SYN with data was lost it is not tried for so long, doubled with each further one.
const PAUSE: Duration = Duration::from_secs(60);
const PAUSE_DOUBLINGS_MAX: u32 = 10;
/// A connection that was reset before its handshake ended takes its place for so long (RFC 7413 §5.1; Linux).
const RESET_HOLD: Duration = Duration::from_secs(60);

/// What is known of a server.
#[derive(Debug, Default, Clone)]
struct Server {
    option: FastOpen,
    mss: u16,
    losses: u32,
    lost_at: Instant,
}
weft_core::fields!(struct Server { option, mss, losses, lost_at });

/// The cookies that servers gave, by own and their address.
#[derive(Debug)]
pub(super) struct Cache(Map<(IpAddr, IpAddr), Server>);

impl Cache {
    pub(super) fn new(hasher: KeyedHasher) -> Cache {
        Cache(Map::with_hasher(hasher))
    }

    pub(super) fn write(&self, out: &mut Writer) {
        out.number(self.0.len() as u64);
        for (addresses, server) in &self.0 {
            out.put(addresses);
            out.put(server);
        }
    }

    /// In the order in which they were learned.
    pub(super) fn read(from: &mut Reader<'_>, hasher: KeyedHasher) -> Result<Cache, Damage> {
        let mut cache = Cache::new(hasher);
        for _ in 0..from.count(SERVERS_MAX)? {
            cache.0.insert(from.take()?, from.take()?);
        }
        Ok(cache)
    }

    /// The option for a SYN, and how many bytes may go with it. `None`: nothing is known, or it is better not tried now.
    fn find(&self, tuple: &Tuple, now: Instant) -> Option<&Server> {
        let server = self.0.get(&(tuple.local.ip(), tuple.remote.ip()))?;
        let pause = PAUSE * (1 << server.losses.saturating_sub(1).min(PAUSE_DOUBLINGS_MAX));
        (server.losses == 0 || now.since(server.lost_at) >= pause).then_some(server)
    }

    /// tcp_fastopen_cache_set. Returns whether another server had to give way.
    fn learn(&mut self, tuple: &Tuple, learned: Learned, now: Instant) -> bool {
        let key = (tuple.local.ip(), tuple.remote.ip());
        let makes_room = !self.0.contains_key(&key) && self.0.len() >= SERVERS_MAX;
        if makes_room {
            self.0.shift_remove_index(0);
        }
        let server = self.0.entry(key).or_default();
        if learned.mss > 0 {
            server.mss = learned.mss;
        }
        if let Some(option) = learned.cookie {
            server.option = option;
            server.losses = 0;
        } else if learned.refused {
            // Perhaps it speaks the earlier, experimental form; and back again.
            server.option.experimental = !server.option.experimental;
        }
        if learned.syn_lost {
            server.losses = server.losses.saturating_add(1);
            server.lost_at = now;
        }
        makes_room
    }
}

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

impl Listener {
    /// tcp_fastopen_queue_check.
    fn takes_early(&mut self, all: bool, now: Instant, out: &mut Outbox) -> bool {
        let most = if all { self.options.fast_open_queue.max(self.backlog) } else { self.options.fast_open_queue };
        while self.early_resets.front().is_some_and(|at| now.since(*at) >= RESET_HOLD) {
            self.early_resets.pop_front();
        }
        if most == 0 {
            return false;
        }
        let full = self.early as usize + self.early_resets.len() >= most as usize;
        if full {
            out.counters.add(Counter::TCPFastOpenListenOverflow, 1);
        }
        !full
    }

    /// An early connection's handshake has ended, well or not.
    pub(super) fn early_ended(&mut self, reset: bool, now: Instant) {
        self.early = self.early.saturating_sub(1);
        if reset {
            // Never more than `takes_early` let in: each was an early one before.
            self.early_resets.push_back(now);
        }
    }
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

    fn tuple(at: u32) -> Tuple {
        Tuple { local: "10.0.0.1:5".parse().unwrap(), remote: (std::net::Ipv4Addr::from(0x0b00_0000 + at), 80).into() }
    }
    fn learned(byte: u8) -> Learned {
        let mut option = FastOpen::default();
        option.cookie.extend([byte; 8]);
        Learned { cookie: Some(option), mss: 1460, syn_lost: false, refused: false }
    }

    #[test]
    fn the_cache_is_bounded_and_the_oldest_gives_way() {
        let mut cache = Cache::new(KeyedHasher::default());
        let evicted = (0..3000).filter(|at| cache.learn(&tuple(*at), learned(1), Instant::ZERO)).count();
        assert_eq!((cache.0.len(), evicted), (SERVERS_MAX, 3000 - SERVERS_MAX));
        assert!(cache.find(&tuple(0), Instant::ZERO).is_none());
        assert!(cache.find(&tuple(2999), Instant::ZERO).is_some());
        assert!(!cache.learn(&tuple(2999), learned(2), Instant::ZERO), "known already");
    }

    #[test]
    fn a_lost_syn_pauses_it_for_longer_each_time_until_a_cookie_comes() {
        let mut cache = Cache::new(KeyedHasher::default());
        let (peer, mut now) = (tuple(1), Instant::ZERO);
        cache.learn(&peer, learned(1), now);
        for pause in [60, 120, 240] {
            cache.learn(&peer, Learned { cookie: None, mss: 0, syn_lost: true, refused: false }, now);
            assert!(cache.find(&peer, now + Duration::from_secs(pause - 1)).is_none());
            now += Duration::from_secs(pause);
            assert!(cache.find(&peer, now).is_some());
        }
        assert_eq!(cache.find(&peer, now).unwrap().mss, 1460, "a loss says nothing of the segment size");
        cache.learn(&peer, learned(2), now);
        assert_eq!(cache.find(&peer, now).unwrap().option.cookie[..], [2; 8]);
    }

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
