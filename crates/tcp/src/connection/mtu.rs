//! Path MTU: what routers tell (RFC 1191, RFC 8201), and what the transport finds out where they tell nothing (RFC 4821, as Linux's
//! tcp_mtu_probing): a path that swallows large segments is noticed by timeouts, segments become small, and probes look for the size that fits.

use super::bounds::TIMESTAMPS_BYTES;
use super::path_mtu::Judgement;
use super::{Connection, Phase, State};
use crate::config::Config;
use crate::counters::Counter;
use crate::outbox::Env;

/// A probe needs so many segments of window, so that its loss is found by those behind it.
const WINDOW_SEGMENTS_MIN: u32 = 11;

impl Connection {
    /// Where the search would begin.
    pub(super) fn begin_path_mtu(&mut self, config: &Config) {
        let (header, may_probe) = (self.header_bytes(), self.may_probe());
        self.path_mtu.begin(config, self.path.mtu, header, self.send.peer_mss, may_probe);
    }

    /// The path MTU that an error told this connection of, bytes.
    pub fn learned_mtu(&self) -> Option<u32> {
        self.path_mtu.told()
    }

    /// SND.UNA has moved, `full`: over a segment of full size that was sent once.
    pub(super) fn judge_black_hole(&mut self, env: &mut Env<'_>, full: bool) {
        match self.path_mtu.judge(env.now, full) {
            Judgement::None => {}
            Judgement::Chance => self.update_mss(env),
            Judgement::BlackHole => env.count(Counter::TCPMTUPBlackHole),
        }
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
        if self.state == State::SynSent && self.remote.is_ipv6() && !self.opening.fast_open.has_syn_data() {
            return;
        }
        let mtu = mtu.max(least);
        if mtu >= self.path_mtu.usable(self.path.mtu) {
            return;
        }
        env.count(Counter::TCPMTUReduced);
        self.path_mtu.learn(env.now, mtu);
        self.update_mss(env);
        if self.state.is_synchronised() {
            let (recovery, mut lent) = self.parts();
            if recovery.retransmit_narrower(&mut lent) {
                self.transmit(env);
            }
        } else if self.state == State::SynSent && self.opening.fast_open.has_syn_data() {
            self.resend_bare_syn(env);
        }
    }

    /// What a router told long ago may have changed.
    pub(super) fn forget_old_mtu(&mut self, env: &mut Env<'_>) {
        if self.path_mtu.forget_old(env.now, self.path.mtu) {
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
        self.path_mtu.shrink(env.config, header);
        self.update_mss(env);
    }

    /// A probe for a larger size, where the search goes on and there is enough behind it (tcp_mtu_probe). Returns the bytes sent.
    pub(super) fn send_mtu_probe(&mut self, env: &mut Env<'_>) -> Option<u32> {
        let size = self.path_mtu.next_probe()?;
        if self.recovery.phase != Phase::Open || self.send.outstanding.sacked > 0 {
            return None;
        }
        // "tp->rx_opt.num_sacks || tp->rx_opt.dsack": with blocks it would be cut in two.
        if self.opening.agreed.sack && self.receive.has_sack_blocks() {
            return None;
        }
        if self.control.window.cwnd_bytes < WINDOW_SEGMENTS_MIN * self.send.mss {
            return None;
        }
        if self.path_mtu.is_narrow(env.now, self.path.mtu) {
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
        if mapped < length || self.within_frame(length) < length {
            return None;
        }
        self.send_whole(env, length, mapping);
        self.path_mtu.probe_sent(size, start, self.send.next);
        env.count(Counter::TCPMTUPSent);
        Some(length)
    }

    /// SND.UNA has moved: did the probe arrive (tcp_mtup_probe_success)?
    pub(super) fn take_mtu_probe_ack(&mut self, env: &mut Env<'_>) {
        if !self.path_mtu.probe_arrived(self.send.una) {
            return;
        }
        env.count(Counter::TCPMTUPSuccess);
        // "tp->snd_cwnd * tcp_mss_to_mtu(sk, tp->mss_cache) / icsk->icsk_mtup.probe_size": as many bytes as before, which they are here.
        self.update_mss(env);
    }
}
