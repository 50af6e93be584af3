//! What happens at deadlines: retransmission (RFC 6298), tail loss probe (RFC 8985 §7), persist, keepalive.

use super::bounds::rto_bounds;
use super::deadlines::{ALL, Timer};
use super::finished::Finished;
use super::retransmission::model_timeout;
use super::{Connection, State};
use crate::counters::Counter;
use crate::outbox::Env;
use weft_core::{Duration, Instant, StreamError};

impl Connection {
    /// When [`Connection::on_timer`] is to be called next; [`Instant::FAR_FUTURE`]: never.
    pub fn next_deadline(&self) -> Instant {
        self.timers.next()
    }

    /// Does whatever is due.
    pub fn on_timer(&mut self, env: &mut Env<'_>) {
        for timer in ALL {
            if self.timers.at(timer) > env.now || self.finished != Finished::No {
                continue;
            }
            self.timers.cancel(timer);
            match timer {
                Timer::Retransmit => self.on_retransmit_timer(env),
                Timer::Probe => self.on_probe_timer(env),
                Timer::Reorder => self.on_reorder_timer(env),
                Timer::Persist => self.on_persist_timer(env),
                Timer::DelayedAck => self.on_delayed_ack(env),
                Timer::CompressedAck => self.on_compressed_ack(env),
                Timer::Keepalive => self.on_keepalive_timer(env),
                Timer::FinWait2 => self.on_fin_wait_2_timer(env),
                Timer::Pacing => self.transmit(env),
                Timer::Cork => {
                    self.timers.note_cork();
                    // tcp_write_wakeup: "TCP_SKB_CB(skb)->tcp_flags |= TCPHDR_PSH".
                    self.send.pushed = self.send.queue.end();
                    self.transmit(env);
                    // Nothing schedules a tail probe for what a probe of the window has sent.
                    self.timers.cancel(Timer::Probe);
                }
            }
        }
    }

    /// The timers of retransmission, after something was sent or (`progress`) acknowledged.
    pub(super) fn arm_retransmission(&mut self, env: &mut Env<'_>, progress: bool) {
        let (recovery, mut lent) = self.parts();
        recovery.arm_retransmission(&mut lent, env, progress);
    }

    /// RACK's timer.
    fn on_reorder_timer(&mut self, env: &mut Env<'_>) {
        let (recovery, mut lent) = self.parts();
        if recovery.on_reorder_timer(&mut lent, env) {
            self.transmit(env);
        }
        self.arm_retransmission(env, true);
    }

    /// RFC 8985 §7.3: TLP_send_probe().
    fn on_probe_timer(&mut self, env: &mut Env<'_>) {
        if self.send.outstanding.is_empty() || self.recovery.tlp_high.is_some() {
            return;
        }
        let high = self.send.next;
        // "If unsent data exists in the send buffer and the receive window allows": the window of congestion does not count.
        let unsent = self.send.queue.end().saturating_sub(self.send.next);
        if unsent > 0 && self.send.next_fits() {
            let length = unsent.min(u64::from(self.send.mss)) as u32;
            let (length, mapping) = self.send.mapped(self.send.next, length);
            let length = self.within_frame(length);
            self.recovery.tlp_retransmitted = false;
            self.recovery.tlp_high = Some(self.send.next + u64::from(length));
            self.send_new(env, length, false, mapping);
        } else if let Some(last) = self.send.outstanding.back().copied() {
            // "else: Retransmit the highest-sequence segment sent so far".
            self.recovery.tlp_retransmitted = true;
            self.recovery.tlp_high = Some(high);
            self.retransmit(env, &last);
        }
        env.count(Counter::TCPLossProbes);
        let rto = self.recovery.rtt.rto();
        self.timers.set(Timer::Retransmit, env.now + rto);
        self.timers.cancel(Timer::Probe);
    }

    /// RFC 6298 §5.4 to §5.7.
    fn on_retransmit_timer(&mut self, env: &mut Env<'_>) {
        match self.state {
            State::SynSent | State::SynReceived => return self.on_syn_timer(env),
            State::Closed | State::TimeWait => return,
            _ => {}
        }
        if self.send.outstanding.is_empty() {
            return;
        }
        if self.is_too_costly(env) {
            return self.reset_for_memory(env);
        }
        if self.has_timed_out(env) {
            env.count(Counter::TCPAbortOnTimeout);
            let error = self.soft_error.unwrap_or(StreamError::TimedOut);
            self.extension.on_reset(None);
            return self.fail(env, error);
        }
        env.count(Counter::TCPTimeouts);
        self.totals.timeouts = self.totals.timeouts.wrapping_add(1);
        // tcp_retransmit_skb: "Save stamp of the first (attempted) retransmit."
        self.recovery.timeouts_since.get_or_insert(env.now);
        let (recovery, mut lent) = self.parts();
        recovery.enter_loss(&mut lent, env);
        self.recovery.timeouts = self.recovery.timeouts.saturating_add(1);
        // RFC 9293 §3.8.3 R1: "pass negative advice … to the IP layer": the way to the peer is asked for again.
        if self.recovery.timeouts == env.config.retries1 {
            self.path.epoch = 0;
        }
        if self.recovery.silent_for(&self.options, env, env.config.retries1) {
            self.suspect_black_hole(env);
        }
        // §5.4: "Retransmit the earliest segment that has not been acknowledged by the TCP receiver."
        if let Some(first) = self.send.outstanding.front().copied() {
            env.count(Counter::TCPSlowStartRetrans);
            self.retransmit(env, &first);
        }
        // §5.5: "The host MUST set RTO <- RTO * 2 ("back off the timer")."
        self.recovery.rtt.back_off();
        let rto = self.recovery.clamp_to_user_timeout(&self.options, env, self.recovery.rtt.rto());
        self.timers.set(Timer::Retransmit, env.now + rto);
    }

    /// RFC 9293 §3.8.3 R2, as the time that so many retransmissions would take (tcp_write_timeout, tcp_model_timeout).
    fn has_timed_out(&self, env: &Env<'_>) -> bool {
        let Some(since) = self.recovery.timeouts_since else { return false };
        let elapsed = env.now - since;
        // tcp_retransmit_timer: "Receiver dastardly shrinks window. Our retransmits become zero probes, but we should not timeout this
        // connection", as long as it answers (tcp_rtx_probe0_timed_out).
        if self.send.window == 0 && !self.orphan && env.now - self.totals.last_ack_in <= rto_bounds(env.config, &self.options).max * 2 {
            return false;
        }
        if let Some(timeout) = self.options.user_timeout.filter(|timeout| !timeout.is_zero()) {
            return elapsed >= timeout;
        }
        let retries = match (self.orphan, env.config.orphan_retries) {
            (false, _) => env.config.retries2,
            (true, 0) => 8,
            (true, retries) => retries,
        };
        self.recovery.timeouts > 0 && elapsed >= model_timeout(retries, env.config.rto_min, rto_bounds(env.config, &self.options).max)
    }

    /// SYN or SYN|ACK was not answered.
    fn on_syn_timer(&mut self, env: &mut Env<'_>) {
        let config = env.config;
        let (retries, linear) = match self.state {
            State::SynSent => (self.options.syn_retries.unwrap_or(config.syn_retries), config.syn_linear_timeouts),
            _ => (config.synack_retries, 0),
        };
        let first = self.recovery.timeouts_since;
        let user = self.options.user_timeout.filter(|timeout| !timeout.is_zero());
        let timed_out = user.zip(first).is_some_and(|(timeout, first)| env.now - first >= timeout);
        if self.opening.retransmitted >= retries + linear || timed_out {
            env.count(Counter::TCPAbortOnTimeout);
            env.count(Counter::AttemptFails);
            let error = self.soft_error.unwrap_or(StreamError::TimedOut);
            return self.fail(env, error);
        }
        self.opening.retransmitted += 1;
        if self.state == State::SynSent {
            self.recovery.timeouts_since.get_or_insert(env.now);
        }
        env.count(Counter::TCPSynRetrans);
        env.count(Counter::RetransSegs);
        env.count(Counter::TCPTimeouts);
        self.totals.retransmitted = self.totals.retransmitted.wrapping_add(1);
        self.send_syn(env);
        if self.opening.retransmitted > linear {
            self.recovery.rtt.back_off();
        }
        let rto = self.recovery.clamp_to_user_timeout(&self.options, env, self.recovery.rtt.rto());
        self.timers.set(Timer::Retransmit, env.now + rto);
    }

    /// The window is closed, or too small for what waits: probes, with the retransmission timer's intervals.
    pub(super) fn arm_persist(&mut self, env: &mut Env<'_>) {
        let rto = self.recovery.rtt.rto().max(env.config.rto_min);
        self.timers.set_if_unset(Timer::Persist, env.now + rto);
    }

    /// RFC 9293 §3.8.6.1: "The sending TCP peer must regularly transmit at least one octet of new data (if available), or retransmit to the
    /// receiving TCP peer even if the send window is zero".
    fn on_persist_timer(&mut self, env: &mut Env<'_>) {
        let unsent = self.send.queue.end().saturating_sub(self.send.next);
        if !self.send.outstanding.is_empty() || (unsent == 0 && !self.send.fin_due()) || !self.state.is_synchronised() {
            return;
        }
        let user = self.options.user_timeout.filter(|timeout| !timeout.is_zero());
        // tcp_probe_timer: "if the socket is orphaned or the user specifies TCP_USER_TIMEOUT, we kill the socket when the retry count and the time
        // exceeds the corresponding system limit", whether the probes are answered or not.
        let since = *self.send.probing_since.get_or_insert(env.now);
        let too_long = user.is_some_and(|timeout| env.now - since >= timeout);
        let retries = if self.orphan && env.config.orphan_retries == 0 { 8 } else { env.config.retries2 };
        // "A TCP implementation MUST … keep the connection open as long as the receiving peer sends acknowledgments in response to the probes":
        // answers set `probes_unanswered` back.
        if too_long || self.send.probes_unanswered >= retries {
            env.count(Counter::TCPAbortOnTimeout);
            let error = self.soft_error.unwrap_or(StreamError::TimedOut);
            return self.fail(env, error);
        }
        env.count(Counter::TCPWinProbe);
        self.send.probes_unanswered += 1;
        let room = self.send.window_room();
        if room > 0 && unsent > 0 {
            // The override timeout of RFC 9293 §3.8.6.2.1: what fits goes.
            let length = unsent.min(u64::from(room.min(self.send.mss))) as u32;
            let (length, mapping) = self.send.queue.mapped(self.send.next, length);
            let length = self.within_frame(length);
            self.send.probing_since = None;
            self.send_new(env, length, false, mapping);
            return;
        }
        self.send_reminder(env);
        self.recovery.rtt.back_off();
        // tcp_clamp_probe0_to_user_timeout
        let most = rto_bounds(env.config, &self.options).max;
        let left = user.map_or(most, |timeout| (since + timeout).since(env.now).max(Duration::from_millis(1)));
        self.timers.set(Timer::Persist, env.now + self.recovery.rtt.rto().min(most).min(left));
    }

    /// SO_KEEPALIVE is on: when to look next.
    pub(super) fn arm_keepalive(&mut self, env: &mut Env<'_>) {
        if !self.options.keepalive || !self.state.is_synchronised() || self.finished != Finished::No {
            return self.timers.cancel(Timer::Keepalive);
        }
        let idle = self.options.keepalive_idle.unwrap_or(env.config.keepalive_time);
        let last = self.totals.last_ack_in.max(self.totals.last_data_in);
        self.timers.set(Timer::Keepalive, (last + idle).max(env.now));
    }

    /// RFC 9293 §3.8.4: "Keep-alive packets MUST only be sent when no sent data is outstanding, and no data or acknowledgment packets have been
    /// received for the connection within an interval".
    fn on_keepalive_timer(&mut self, env: &mut Env<'_>) {
        if !self.options.keepalive || !self.state.is_synchronised() {
            return;
        }
        let idle = self.options.keepalive_idle.unwrap_or(env.config.keepalive_time);
        let interval = self.options.keepalive_interval.unwrap_or(env.config.keepalive_interval);
        let probes = self.options.keepalive_probes.unwrap_or(env.config.keepalive_probes);
        let waits = !self.send.outstanding.is_empty() || self.send.queue.end() > self.send.next;
        let last = self.totals.last_ack_in.max(self.totals.last_data_in);
        let silence = env.now - last;
        if waits || silence < idle {
            let from = if waits { env.now } else { last };
            return self.timers.set(Timer::Keepalive, from + idle);
        }
        let user = self.options.user_timeout.filter(|timeout| !timeout.is_zero());
        let dead = match user {
            Some(timeout) => silence >= timeout && self.keepalive_unanswered > 0,
            None => self.keepalive_unanswered >= probes,
        };
        if dead {
            env.count(Counter::TCPAbortOnTimeout);
            return self.reset(env, StreamError::TimedOut);
        }
        env.count(Counter::TCPKeepAlive);
        self.keepalive_unanswered += 1;
        self.send_reminder(env);
        self.timers.set(Timer::Keepalive, env.now + interval);
    }
}
