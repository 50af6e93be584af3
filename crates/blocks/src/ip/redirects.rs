//! How often a router tells a host of a better first hop (Linux ip_rt_send_redirect): at growing intervals, and no more to one that does not listen.

use std::net::IpAddr;
use weft_core::state::{Damage, Reader, Writer};
use weft_core::{Duration, Instant, KeyedHasher, Map};

/// Most hosts that are remembered; the one added first makes room.
pub(super) const HOSTS_MAX: usize = 1024;
/// Linux ip_rt_redirect_number: "Too many ignored redirects; do not send anything".
const IGNORED_MAX: u32 = 9;
/// Linux ip_rt_redirect_load: the first interval; each is twice the one before.
const INTERVAL: Duration = Duration::from_millis(20);
/// Linux ip_rt_redirect_silence: "No redirected packets during ip_rt_redirect_silence; reset the algorithm."
const SILENCE: Duration = INTERVAL.saturating_mul(1 << 10);

/// Who was told how often, and when last; or, if it was told enough, when it last needed to be.
#[derive(Debug)]
pub(super) struct Redirects {
    hosts: Map<IpAddr, (u32, Instant)>,
}

impl Redirects {
    pub(super) fn new(hasher: KeyedHasher) -> Redirects {
        Redirects { hosts: Map::with_hasher(hasher) }
    }

    pub(super) fn write(&self, out: &mut Writer) {
        out.number(self.hosts.len() as u64);
        for (host, (told, last)) in &self.hosts {
            out.put(host);
            out.put(told);
            out.put(last);
        }
    }

    /// What a predecessor has told, under the keys of this one's map; nothing, if its state knew nothing of it: it is of the version `without` or older.
    pub(super) fn read(&self, from: &mut Reader<'_>, without: u32) -> Result<Redirects, Damage> {
        let mut redirects = Redirects::new(*self.hosts.hasher());
        let count = if from.version() <= without { 0 } else { from.count(HOSTS_MAX)? };
        for _ in 0..count {
            let (host, told, last) = (from.take()?, from.take()?, from.take()?);
            redirects.hosts.insert(host, (told, last));
        }
        Ok(redirects)
    }

    /// May the host be told now? Then it counts as told.
    pub(super) fn take(&mut self, host: IpAddr, now: Instant) -> bool {
        if self.hosts.len() >= HOSTS_MAX && !self.hosts.contains_key(&host) {
            self.hosts.swap_remove_index(0);
        }
        let (told, last) = self.hosts.entry(host).or_insert((0, now));
        if now.since(*last) > SILENCE {
            *told = 0;
        }
        if *told >= IGNORED_MAX {
            *last = now;
            return false;
        }
        if *told > 0 && now.since(*last) <= INTERVAL * (1 << *told) {
            return false;
        }
        (*told, *last) = (*told + 1, now);
        true
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn nine_times_at_growing_intervals_and_again_after_a_silence() {
        let mut redirects = Redirects::new(KeyedHasher::default());
        let host = IpAddr::from([10, 0, 0, 1]);
        // A packet every millisecond for a minute.
        let told: Vec<u64> = (0..60_000).filter(|at| redirects.take(host, Instant::from_millis(*at))).collect();
        // 20 ms times two to the power of how many there were, and then as long as the packets go on no more.
        assert_eq!(told, [0, 41, 122, 283, 604, 1245, 2526, 5087, 10208]);
        assert!(!redirects.take(host, Instant::from_millis(60_000 + 20_400)));
        assert!(redirects.take(host, Instant::from_millis(60_000 + 20_400 + 20_481)), "nothing for 20.48 s");
    }

    #[test]
    fn hosts_are_bounded() {
        let mut redirects = Redirects::new(KeyedHasher::default());
        for number in 0..3 * HOSTS_MAX as u32 {
            assert!(redirects.take(IpAddr::from(number.to_be_bytes()), Instant::from_millis(1)));
        }
        assert_eq!(redirects.hosts.len(), HOSTS_MAX);
    }
}
