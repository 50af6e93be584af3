//! What is known and sought of the largest packet on the way.

use crate::config::Config;
use weft_core::{Duration, Instant};

/// What a router told is believed for so long (net.ipv4.route.mtu_expires; RFC 1191 §6.3: "approximately ten minutes").
const TOLD_TIME: Duration = Duration::from_secs(600);
/// The search is over when it is this narrow, bytes (tcp_probe_threshold), …
const SEARCH_NARROW: u32 = 8;
/// … and begins anew after this time (tcp_probe_interval).
const SEARCH_AGAIN: Duration = Duration::from_secs(600);
/// Small segments stay when so many silences in a row were ended by them, and no full segment arrived in between. (Linux believes the first
/// silence; at 20 % of loss its segments shrink to 48 bytes and never grow again.)
const STRIKES: u32 = 3;
/// Path MTU of one connection. All sizes are whole IP packets.
#[derive(Debug, Default)]
pub(super) struct PathMtu {
    /// Told by a router, and until when it counts.
    told: Option<(u32, Instant)>,
    /// Sizes between `low` and `high` are to be tried.
    searching: bool,
    low: u32,
    high: u32,
    /// The probe under way: its size, and its first and last position.
    probe: Option<(u32, u64, u64)>,
    searched_at: Instant,
    /// While small segments are tried in a silence: what to go back to.
    trial: Option<(bool, u32)>,
    /// Silences that they have ended, and the size that ended the last.
    strikes: u32,
    ended_by: u32,
}
weft_core::fields!(struct PathMtu { told, searching, low, high, probe, searched_at, trial, strikes, ended_by });

impl PathMtu {
    /// The largest packet to send now, on a path whose interface takes `path` bytes.
    pub(super) fn usable(&self, path: u32) -> u32 {
        let told = self.told.map_or(path, |(mtu, _)| mtu.min(path));
        if self.searching { told.min(self.low) } else { told }
    }

    /// Where the search would begin (tcp_mtup_init): `header` bytes of a packet are no payload, the peer takes segments of `peer_mss` (0: it said nothing).
    pub(super) fn begin(&mut self, config: &Config, path: u32, header: u32, peer_mss: u32, may_probe: bool) {
        let peer = if peer_mss == 0 { u32::MAX } else { peer_mss.saturating_add(header) };
        self.searching = config.mtu_probing > 1 && may_probe;
        self.low = config.base_mss + header;
        self.high = self.widest(path).min(peer);
    }

    /// What may be looked for at most.
    fn widest(&self, path: u32) -> u32 {
        self.told.map_or(path, |(mtu, _)| mtu.min(path))
    }

    /// The routes say something else.
    pub(super) fn follow(&mut self, path: u32) {
        self.high = self.high.min(path);
    }

    /// What a router told, bytes.
    pub(super) fn told(&self) -> Option<u32> {
        self.told.map(|(mtu, _)| mtu)
    }

    /// A router tells that the way takes so much.
    pub(super) fn learn(&mut self, now: Instant, mtu: u32) {
        self.told = Some((mtu, now + TOLD_TIME));
        self.high = self.high.min(mtu);
    }

    /// What a router told long ago may have changed. True: it is forgotten.
    pub(super) fn forget_old(&mut self, now: Instant, path: u32) -> bool {
        let old = self.told.is_some_and(|(_, until)| now >= until);
        if old {
            self.told = None;
            self.high = path;
        }
        old
    }

    /// Perhaps the path swallows what is long (tcp_mtu_probing): small segments are tried, smaller ones each time.
    pub(super) fn shrink(&mut self, config: &Config, header: u32) {
        let first = self.trial.is_none();
        self.trial = self.trial.or(Some((self.searching, self.low)));
        let half = self.low.saturating_sub(header) / 2;
        let mss = match self.searching {
            true => half.min(config.base_mss),
            false => config.base_mss,
        };
        self.searching = true;
        self.low = mss.max(config.mtu_probe_floor).max(config.mss_min) + header;
        if first && self.strikes > 0 {
            // What helped the last time.
            self.low = self.low.min(self.ended_by);
        }
        self.probe = None;
    }

    /// SND.UNA has moved, `full`: over a segment of full size that was sent once.
    pub(super) fn judge(&mut self, now: Instant, full: bool) -> Judgement {
        let Some((searching, low)) = self.trial.take() else {
            if full {
                self.strikes = 0;
            }
            return Judgement::None;
        };
        self.strikes += 1;
        self.ended_by = self.low;
        if self.strikes >= STRIKES {
            self.strikes = 0;
            self.searched_at = now;
            return Judgement::BlackHole;
        }
        // Was it chance? The next full segments will show.
        (self.searching, self.low) = (searching, low);
        Judgement::Chance
    }

    /// The size that a probe would have now. None: no search goes on, or a probe is under way.
    pub(super) fn next_probe(&self) -> Option<u32> {
        (self.searching && self.probe.is_none()).then(|| self.low.midpoint(self.high))
    }

    /// The search is over. Once in a while the path may have become wider (tcp_mtu_check_reprobe).
    pub(super) fn is_narrow(&mut self, now: Instant, path: u32) -> bool {
        let narrow = self.high < self.low + SEARCH_NARROW;
        if narrow && now.since(self.searched_at) >= SEARCH_AGAIN {
            self.searched_at = now;
            self.high = self.widest(path);
        }
        narrow
    }

    /// A probe of `size` has left, from `start` to `end`.
    pub(super) fn probe_sent(&mut self, size: u32, start: u64, end: u64) {
        self.probe = Some((size, start, end));
    }

    /// SND.UNA has moved: did the probe arrive (tcp_mtup_probe_success)?
    pub(super) fn probe_arrived(&mut self, una: u64) -> bool {
        let Some((size, _, _)) = self.probe.filter(|(_, _, end)| *end <= una) else { return false };
        self.probe = None;
        self.low = size;
        true
    }

    /// Where the probe under way begins.
    pub(super) fn probe_start(&self) -> Option<u64> {
        self.probe.map(|(_, start, _)| start)
    }

    /// The probe was lost (tcp_mtup_probe_failed).
    pub(super) fn probe_lost(&mut self) {
        if let Some((size, _, _)) = self.probe.take() {
            self.high = size - 1;
        }
    }

    /// The probe was sent again, in pieces: nothing is learned (tcp_retransmit_skb: "Inconclusive MTU probe").
    pub(super) fn forget_probe(&mut self, start: u64) {
        if self.probe.is_some_and(|(_, from, end)| (from..end).contains(&start)) {
            self.probe = None;
        }
    }
}

/// What progress after a silence says of the small segments that were tried in it.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Judgement {
    /// None were.
    None,
    /// Perhaps it was chance: sizes are as before.
    Chance,
    /// The path swallows what is long; small ones stay.
    BlackHole,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn small_segments_stay_when_three_silences_were_ended_by_them() {
        let (config, now) = (Config::default(), Instant::ZERO);
        let mut mtu = PathMtu::default();
        mtu.begin(&config, 1500, 40, 1460, true);
        for _ in 0..2 {
            mtu.shrink(&config, 40);
            assert!(mtu.usable(1500) < 1500);
            assert_eq!(mtu.judge(now, false), Judgement::Chance);
            assert_eq!(mtu.usable(1500), 1500);
        }
        mtu.shrink(&config, 40);
        assert_eq!(mtu.judge(now, false), Judgement::BlackHole);
        assert!(mtu.usable(1500) < 1500);
    }

    #[test]
    fn a_search_halves_what_is_left_and_ends_where_it_is_narrow() {
        let config = Config { mtu_probing: 2, ..Config::default() };
        let mut mtu = PathMtu::default();
        mtu.begin(&config, 1500, 40, 1460, true);
        let mut position = 0;
        while !mtu.is_narrow(Instant::ZERO, 1500) {
            let size = mtu.next_probe().expect("a search goes on");
            mtu.probe_sent(size, position, position + u64::from(size));
            assert_eq!(mtu.next_probe(), None, "one at a time");
            if size <= 1400 {
                position += u64::from(size);
                assert!(mtu.probe_arrived(position));
            } else {
                mtu.probe_lost();
            }
        }
        assert!((1392..=1400).contains(&mtu.usable(1500)));
    }

    #[test]
    fn what_a_router_told_is_forgotten_in_time() {
        let mut mtu = PathMtu::default();
        mtu.learn(Instant::ZERO, 1280);
        assert_eq!((mtu.usable(1500), mtu.told()), (1280, Some(1280)));
        assert!(!mtu.forget_old(Instant::ZERO + Duration::from_secs(599), 1500));
        assert!(mtu.forget_old(Instant::ZERO + TOLD_TIME, 1500));
        assert_eq!(mtu.usable(1500), 1500);
    }
}
