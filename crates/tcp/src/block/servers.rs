//! The Fast Open cookies that servers gave to this node (RFC 7413 §4.1.3), in a bounded cache.

use super::tables::Tuple;
use crate::connection::Learned;
use std::net::IpAddr;
use weft_core::map::{KeyedHasher, Map};
use weft_core::state::{Damage, Reader, Writer};
use weft_core::{Duration, Instant};
use weft_wire::tcp::FastOpen;

/// Servers whose cookies are kept; the one that was learned first gives way.
pub(super) const SERVERS_MAX: usize = 1024;
/// After a SYN with data was lost it is not tried for so long, doubled with each further one.
const PAUSE: Duration = Duration::from_secs(60);
const PAUSE_DOUBLINGS_MAX: u32 = 10;

/// What is known of a server.
#[derive(Debug, Default, Clone)]
pub(super) struct Server {
    pub option: FastOpen,
    pub mss: u16,
    pub losses: u32,
    pub lost_at: Instant,
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
    pub(super) fn find(&self, tuple: &Tuple, now: Instant) -> Option<&Server> {
        let server = self.0.get(&(tuple.local.ip(), tuple.remote.ip()))?;
        let pause = PAUSE * (1 << server.losses.saturating_sub(1).min(PAUSE_DOUBLINGS_MAX));
        (server.losses == 0 || now.since(server.lost_at) >= pause).then_some(server)
    }

    /// tcp_fastopen_cache_set. Returns whether another server had to give way.
    pub(super) fn learn(&mut self, tuple: &Tuple, learned: Learned, now: Instant) -> bool {
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
}
