//! When what came is acknowledged: delays and what they are learned from, and the duplicates that are reported.

use super::bounds::delayed_ack_max;
use super::receiver::{Receiver, segments_of};
use crate::Config;
use crate::counters::Counter;
use crate::outbox::Env;
use crate::rtt::RttEstimator;
use weft_core::{Duration, Frame, StreamOptions};

impl Receiver {
    /// Learns from an arriving segment: its size, the distance to the last (tcp_event_data_recv, tcp_measure_rcv_mss).
    #[inline]
    pub(super) fn measure(&mut self, env: &Env<'_>, rtt: &RttEstimator, frame: &Frame, push: bool) {
        let now = env.now;
        let length = frame.len() as u32;
        if length == 0 {
            return;
        }
        let segment = frame.meta().gso.map_or(length, |gso| u32::from(gso.segment_bytes)).min(self.announced_mss.max(1));
        self.measure_segment(segment, push);
        let acks = &mut self.ack;
        acks.wanted = true;
        let (min, half) = (Duration::from_millis(40), Duration::from_millis(20));
        match acks.last_data {
            None => {
                acks.timeout = min;
                self.add_quick_acks();
            }
            Some(last) => {
                let distance = now - last;
                if distance <= half {
                    acks.timeout = acks.timeout / 2 + half;
                } else if distance < acks.timeout {
                    acks.timeout = (acks.timeout / 2 + distance).min(Duration::from_millis(200));
                } else if distance > rtt.rto() {
                    // A pause: the sender may have restarted its window.
                    self.add_quick_acks();
                }
            }
        }
        self.ack.last_data = Some(now);
        // tcp_grow_window: "if (room <= 0 || tcp_under_memory_pressure(sk)) return;"
        if !env.out.memory.is_under_pressure() {
            self.grow_window(segments_of(frame, self.mss) * self.mss);
        }
    }

    /// How long an acknowledgment may wait.
    pub(super) fn ack_delay(&self, config: &Config, options: &StreamOptions) -> Duration {
        self.ack.timeout.max(config.delayed_ack_min).min(delayed_ack_max(config, options))
    }

    /// The program has taken what came: is it time to acknowledge (tcp_cleanup_rbuf)? "If this read emptied read buffer, we send ACK, if
    /// connection is not bidirectional, user drained receive buffer and there was a small segment in queue."
    pub(super) fn is_ack_due_after_read(&self, unread: u64) -> bool {
        let (acks, unacknowledged) = (&self.ack, self.next - self.last_ack_sent);
        let pushed = acks.pushed > 1 || (acks.pushed == 1 && !acks.interactive);
        acks.wanted && (unacknowledged > u64::from(self.mss) || (pushed && unread == 0))
    }

    /// An acknowledgment has waited for as long as it may: the next one may wait for twice as long, up to the timeout.
    pub(super) fn delay_ends(&mut self, config: &Config, rto: Duration) {
        let acks = &mut self.ack;
        if acks.interactive {
            // The answer did not come: not interactive after all.
            acks.interactive = false;
            acks.timeout = config.delayed_ack_min;
        } else {
            acks.timeout = (acks.timeout * 2).min(rto);
        }
    }

    /// Whatever was to be acknowledged now is; `unanswered`: but for what the word will say of it.
    pub(super) fn acknowledgment_sent(&mut self, config: &Config, unanswered: bool) {
        self.last_ack_sent = self.next;
        let acks = &mut self.ack;
        // tcp_dec_quickack_mode: "const unsigned int pkts = inet_csk_ack_scheduled(sk) ? 1 : 0;" and "Leaving quickack mode we deflate ATO."
        let scheduled = std::mem::take(&mut acks.wanted);
        if scheduled && acks.quick > 0 {
            acks.quick -= 1;
            if acks.quick == 0 {
                acks.timeout = config.delayed_ack_min;
            }
        }
        acks.now = false;
        acks.pushed = 0;
        // What the word will say of the data is owed still.
        acks.wanted = unanswered;
    }

    /// RFC 2883 §4: "a D-SACK block is only used to report a duplicate contiguous sequence of data received by the receiver in the most recent packet".
    pub(super) fn note_duplicate(&mut self, env: &mut Env<'_>, sack: bool, start: u64, end: u64, counter: Counter) {
        self.ack.now = true;
        self.enter_quick_ack(env.config);
        self.report_duplicate(env, sack, start, end, counter);
    }

    /// The next acknowledgment says which data came twice.
    pub(super) fn report_duplicate(&mut self, env: &mut Env<'_>, sack: bool, start: u64, end: u64, counter: Counter) {
        if sack && env.config.dsack && start < end {
            env.count(counter);
            self.duplicate = Some((start, end));
        }
    }

    /// tcp_dsack_extend, of what is below RCV.NXT by now: what is reported already goes before, and becomes longer where they touch.
    pub(super) fn extend_duplicate(&mut self, env: &mut Env<'_>, sack: bool, start: u64, end: u64) {
        match &mut self.duplicate {
            Some((from, to)) if start <= *to && *from <= end => (*from, *to) = (start.min(*from), end.max(*to)),
            Some(_) => {}
            None => self.report_duplicate(env, sack, start, end, Counter::TCPDSACKOldSent),
        }
    }
}
