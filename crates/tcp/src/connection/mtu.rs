//! Path MTU: what routers tell (RFC 1191, RFC 8201), and what the transport finds out where they tell nothing (RFC 4821, as Linux's
//! tcp_mtu_probing): a path that swallows large segments is noticed by timeouts, segments become small, and probes look for the size that fits.

use super::bounds::TIMESTAMPS_BYTES;
use super::{Connection, Phase, State};
use crate::config::Config;
use crate::counters::Counter;
use crate::outbox::Env;
use weft_core::Duration;

/// What a router told is believed for so long (net.ipv4.route.mtu_expires; RFC 1191 §6.3: "approximately ten minutes").
const TOLD_TIME: Duration = Duration::from_secs(600);
/// The search is over when it is this narrow, bytes (tcp_probe_threshold), …
const SEARCH_NARROW: u32 = 8;
/// … and begins anew after this time (tcp_probe_interval).
const SEARCH_AGAIN: Duration = Duration::from_secs(600);
/// Small segments stay when so many silences in a row were ended by them, and no full segment arrived in between. (Linux believes the first
/// silence; at 20 % of loss its segments shrink to 48 bytes and never grow again.)
const STRIKES: u32 = 3;
/// A probe needs so many segments of window, so that its loss is found by those behind it.
const WINDOW_SEGMENTS_MIN: u32 = 11;

impl Connection {
    /// Where the search would begin (tcp_mtup_init).
    pub(super) fn begin_path_mtu(&mut self, config: &Config) {
        let header = self.header_bytes();
        let peer = if self.send.peer_mss == 0 { u32::MAX } else { self.send.peer_mss.saturating_add(header) };
        self.path_mtu.searching = config.mtu_probing > 1 && self.may_probe();
        self.path_mtu.low = config.base_mss + header;
        self.path_mtu.high = self.path_mtu.told.map_or(self.path.mtu, |(mtu, _)| mtu.min(self.path.mtu)).min(peer);
    }

    /// The routes say something else.
    pub(super) fn path_mtu_follows(&mut self) {
        self.path_mtu.high = self.path_mtu.high.min(self.path.mtu);
    }

    /// Who lets routers cut packets needs no search.
    fn may_probe(&self) -> bool {
        self.options.mtu_discover != 0
    }

    /// An ICMP error says that a packet was too long (tcp_v4_mtu_reduced, tcp_v6_mtu_reduced). It was checked to be about data in flight.
    pub(super) fn on_too_big(&mut self, env: &mut Env<'_>, mtu: u32) {
        // ip_rt_min_pmtu, IPV6_MIN_MTU: nobody may talk a connection into dust.
        let least = if self.remote.is_ipv4() { 552 } else { 1280 };
        if self.options.mtu_discover == 0 {
            return;
        }
        // tcp_v6_mtu_reduced: "if (tcp_mtu_to_mss(sk, mtu) >= tp->mss_cache) return;", which before the handshake is the least of all segments.
        if self.state == State::SynSent && self.remote.is_ipv6() && !self.has_syn_data() {
            return;
        }
        let mtu = mtu.max(least);
        if mtu >= self.path_mtu.usable(self.path.mtu) {
            return;
        }
        env.count(Counter::TCPMTUReduced);
        self.path_mtu.told = Some((mtu, env.now + TOLD_TIME));
        self.path_mtu.high = self.path_mtu.high.min(mtu);
        self.update_mss(env);
        if self.state.is_synchronised() {
            let (recovery, mut lent) = self.parts();
            if recovery.retransmit_narrower(&mut lent) {
                self.transmit(env);
            }
        } else if self.state == State::SynSent && self.has_syn_data() {
            self.resend_bare_syn(env);
        }
    }

    /// The path MTU that an error told this connection of, bytes.
    pub fn learned_mtu(&self) -> Option<u32> {
        self.path_mtu.told.map(|(mtu, _)| mtu)
    }

    /// What a router told long ago may have changed.
    pub(super) fn forget_old_mtu(&mut self, env: &mut Env<'_>) {
        if self.path_mtu.told.is_some_and(|(_, until)| env.now >= until) {
            self.path_mtu.told = None;
            self.path_mtu.high = self.path.mtu;
            self.update_mss(env);
        }
    }

    /// Timeouts for longer than `retries1`: perhaps the path swallows what is long (tcp_mtu_probing). Small segments are tried, smaller ones at
    /// each further timeout.
    pub(super) fn suspect_black_hole(&mut self, env: &mut Env<'_>) {
        if env.config.mtu_probing == 0 || !self.may_probe() {
            return;
        }
        let header = self.header_bytes();
        let mtu = &mut self.path_mtu;
        let first = mtu.trial.is_none();
        mtu.trial = mtu.trial.or(Some((mtu.searching, mtu.low)));
        let half = mtu.low.saturating_sub(header) / 2;
        let mss = match mtu.searching {
            true => half.min(env.config.base_mss),
            false => env.config.base_mss,
        };
        mtu.searching = true;
        mtu.low = mss.max(env.config.mtu_probe_floor).max(env.config.mss_min) + header;
        if first && mtu.strikes > 0 {
            // What helped the last time.
            mtu.low = mtu.low.min(mtu.ended_by);
        }
        mtu.probe = None;
        self.update_mss(env);
    }

    /// SND.UNA has moved, `full`: over a segment of full size that was sent once.
    pub(super) fn judge_black_hole(&mut self, env: &mut Env<'_>, full: bool) {
        let Some((searching, low)) = self.path_mtu.trial.take() else {
            if full {
                self.path_mtu.strikes = 0;
            }
            return;
        };
        self.path_mtu.strikes += 1;
        self.path_mtu.ended_by = self.path_mtu.low;
        if self.path_mtu.strikes >= STRIKES {
            self.path_mtu.strikes = 0;
            self.path_mtu.searched_at = env.now;
            return env.count(Counter::TCPMTUPBlackHole);
        }
        // Was it chance? The next full segments will show.
        (self.path_mtu.searching, self.path_mtu.low) = (searching, low);
        self.update_mss(env);
    }

    /// A probe for a larger size, where the search goes on and there is enough behind it (tcp_mtu_probe). Returns the bytes sent.
    pub(super) fn send_mtu_probe(&mut self, env: &mut Env<'_>) -> Option<u32> {
        let mtu = &self.path_mtu;
        if !mtu.searching || mtu.probe.is_some() || self.recovery.phase != Phase::Open || self.send.outstanding.sacked > 0 {
            return None;
        }
        // "tp->rx_opt.num_sacks || tp->rx_opt.dsack": with blocks it would be cut in two.
        if self.opening.agreed.sack && self.receive.has_sack_blocks() {
            return None;
        }
        if self.control.window.cwnd_bytes < WINDOW_SEGMENTS_MIN * self.send.mss {
            return None;
        }
        let size = mtu.low.midpoint(mtu.high);
        if mtu.high < mtu.low + SEARCH_NARROW {
            self.search_again(env);
            return None;
        }
        let options = if self.opening.agreed.timestamps { TIMESTAMPS_BYTES } else { 0 } + self.extension.option_bytes();
        let length = size.saturating_sub(self.header_bytes() + options);
        // The probe, and segments behind it that show its loss.
        let needed = length + (self.recovery.reordering + 1) * self.send.mss;
        let in_flight = self.send.in_flight();
        let fits = self.send.unsent() >= u64::from(needed) && self.send.window_room() >= needed && self.send_room() >= length;
        if length <= self.send.mss || !fits || in_flight + 2 * self.send.mss > self.control.window.cwnd_bytes {
            return None;
        }
        let start = self.send.next;
        let (mapped, mapping) = self.send.mapped(start, length);
        if mapped < length {
            return None;
        }
        self.send_whole(env, length, mapping);
        self.path_mtu.probe = Some((size, start, self.send.next));
        env.count(Counter::TCPMTUPSent);
        Some(length)
    }

    /// The search has ended: once in a while the path may have become wider (tcp_mtu_check_reprobe).
    fn search_again(&mut self, env: &mut Env<'_>) {
        if env.now.since(self.path_mtu.searched_at) >= SEARCH_AGAIN {
            self.path_mtu.searched_at = env.now;
            self.path_mtu.high = self.path_mtu.told.map_or(self.path.mtu, |(mtu, _)| mtu.min(self.path.mtu));
        }
    }

    /// SND.UNA has moved: did the probe arrive (tcp_mtup_probe_success)?
    pub(super) fn take_mtu_probe_ack(&mut self, env: &mut Env<'_>) {
        let Some((size, _, end)) = self.path_mtu.probe.filter(|(_, _, end)| *end <= self.send.una) else { return };
        debug_assert!(end <= self.send.una);
        self.path_mtu.probe = None;
        self.path_mtu.low = size;
        env.count(Counter::TCPMTUPSuccess);
        // "tp->snd_cwnd * tcp_mss_to_mtu(sk, tp->mss_cache) / icsk->icsk_mtup.probe_size": as many bytes as before, which they are here.
        self.update_mss(env);
    }

    /// The probe was sent again, in pieces: nothing is learned (tcp_retransmit_skb: "Inconclusive MTU probe").
    pub(super) fn forget_mtu_probe(&mut self, start: u64) {
        if self.path_mtu.probe.is_some_and(|(_, from, end)| (from..end).contains(&start)) {
            self.path_mtu.probe = None;
        }
    }
}
