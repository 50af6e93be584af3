//! What an acknowledgment says of what was sent: SACK blocks (RFC 2018), duplicates (RFC 2883), round trips, reordering.

use super::ack::Ack;
use super::opening::Opening;
use super::outstanding::Sent;
use super::recovery::{Lent, Recovery};
use super::sender::Sender;
use crate::counters::Counter;
use crate::outbox::Env;
use weft_core::{Duration, Instant};
use weft_wire::tcp::Segment;

impl Recovery {
    /// RFC 2018, RFC 2883: the SACK blocks.
    pub(super) fn take_sacks(&mut self, lent: &mut Lent<'_>, env: &mut Env<'_>, segment: &Segment, ack_at: u64, ack: &mut Ack) {
        if !lent.opening.agreed.sack || segment.options.sack.is_empty() {
            return;
        }
        let space = lent.send.space;
        let (una, next) = (lent.send.una, lent.send.next);
        let blocks = segment.options.sack.iter().map(|(start, end)| (space.position(una, *start), space.position(una, *end)));
        let mut first: Option<(u64, u64)> = None;
        for (index, (start, end)) in blocks.enumerate() {
            if start >= end || end > next {
                continue;
            }
            if index == 0 {
                first = Some((start, end));
                // RFC 2883 §4: below the cumulative acknowledgment it is a DSACK.
                if start < ack_at {
                    self.take_duplicate(lent, env, start, end, false, ack);
                    continue;
                }
            }
            // Within the second block, too.
            if let (1, Some((from, to))) = (index, first)
                && from >= start
                && to <= end
                && from >= ack_at
            {
                self.take_duplicate(lent, env, from, to, true, ack);
            }
            if end <= ack_at {
                continue;
            }
            self.take_block(lent, env.now, start.max(ack_at), end, ack);
        }
    }

    fn take_duplicate(&mut self, lent: &mut Lent<'_>, env: &mut Env<'_>, start: u64, end: u64, out_of_order: bool, ack: &mut Ack) {
        // tcp_is_sackblock_valid: only of data that we did send twice, not longer ago than the largest window.
        if start + u64::from(lent.send.window_max) < lent.send.una {
            return;
        }
        env.count(if out_of_order { Counter::TCPDSACKOfoRecv } else { Counter::TCPDSACKRecv });
        let segments = ((end - start) as u32).div_ceil(lent.send.mss.max(1)).max(1);
        lent.totals.dsack_duplicates = lent.totals.dsack_duplicates.wrapping_add(segments);
        // More duplicates than retransmissions: the network makes them, and they say nothing of ours (tcp_dsack_seen).
        if lent.totals.dsack_duplicates > lent.totals.retransmitted {
            return;
        }
        ack.duplicate = true;
        self.rack.duplicate = true;
        if let Some(marker) = self.undo_marker
            && end > marker
        {
            self.undo_retransmissions = self.undo_retransmissions.map(|left| left.saturating_sub(segments));
        }
    }

    fn take_block(&mut self, lent: &mut Lent<'_>, now: Instant, start: u64, end: u64, ack: &mut Ack) {
        let min_rtt = self.rtt.min_rtt();
        let (rack, high) = (&mut self.rack, self.high);
        lent.send.outstanding.sack(start, end, |sent: &Sent| {
            ack.sacked = ack.sacked.saturating_add(sent.len);
            ack.segments += 1;
            ack.rate.note(sent);
            rack.update(now, sent, min_rtt);
            if sent.ever_retransmitted {
                return;
            }
            if sent.start < ack.prior_highest {
                ack.reordered_from = Some(ack.reordered_from.map_or(sent.start, |from| from.min(sent.start)));
            }
            if sent.end() <= high {
                ack.original_sacked = true;
            }
            ack.original = true;
            ack.first_sacked = ack.first_sacked.or(Some(sent.sent_at));
            ack.last_sacked = Some(sent.sent_at);
        });
    }

    /// SND.UNA moves on to `ack_at`: segments leave the retransmission queue. True: one of full size that was sent once is among them.
    pub(super) fn release(&mut self, send: &mut Sender, now: Instant, ack_at: u64, ack: &mut Ack) -> bool {
        let min_rtt = self.rtt.min_rtt();
        let highest = ack.prior_highest;
        let high = self.high;
        let before = send.outstanding.bytes - send.outstanding.sacked_bytes;
        let rack = &mut self.rack;
        let (mss, mut full) = (send.mss, false);
        send.outstanding.acknowledge(ack_at, |sent| {
            full |= sent.payload() >= mss && !sent.ever_retransmitted;
            if sent.ever_retransmitted {
                ack.retransmitted = true;
            } else {
                if !sent.sacked {
                    ack.original = true;
                    if sent.start < highest {
                        ack.reordered_from = Some(ack.reordered_from.map_or(sent.start, |from| from.min(sent.start)));
                    }
                    if sent.end() <= high {
                        ack.original_sacked = true;
                    }
                }
                ack.first_sent = ack.first_sent.or(Some(sent.sent_at));
                ack.last_sent = Some(sent.sent_at);
            }
            if !sent.sacked {
                ack.segments += 1;
                ack.rate.note(sent);
                rack.update(now, sent, min_rtt);
            }
        });
        let after = send.outstanding.bytes - send.outstanding.sacked_bytes;
        ack.acked = (before - after) as u32;
        full
    }

    /// tcp_check_sack_reordering: something arrived that was sent before what arrived earlier.
    pub(super) fn check_reordering(&mut self, send: &Sender, env: &mut Env<'_>, ack: &Ack) {
        let (Some(from), Some(highest)) = (ack.reordered_from, send.outstanding.highest_sacked().or(Some(send.una))) else {
            return;
        };
        if highest <= from {
            return;
        }
        let segments = ((highest - from) as u32).div_ceil(send.mss.max(1));
        self.reordering = self.reordering.max(segments.min(300));
        self.reordering_seen += 1;
        env.count(Counter::TCPSACKReorder);
    }

    /// RFC 6298 §3: "RTT samples MUST NOT be made using segments that were retransmitted", but by timestamps (RFC 7323 §4.1).
    pub(super) fn sample_rtt(&mut self, send: &Sender, opening: &Opening, now: Instant, segment: &Segment, ack: &Ack) -> Option<Duration> {
        let floor = Duration::from_micros(1);
        let acked = ack.first_sent.filter(|_| !ack.retransmitted).map(|at| (now - at).max(floor));
        let last = ack.last_sent.filter(|_| !ack.retransmitted).map(|at| (now - at).max(floor));
        let sacked = ack.first_sacked.map(|at| (now - at).max(floor));
        let stamped = || {
            // A duplicate does not move the peer's TS.Recent (RFC 7323 §4.3 takes acceptable segments only): its echo is as old as the loss of
            // the acknowledgment, and would make the timeout grow with every lost acknowledgment.
            let stamp = segment.options.timestamps.filter(|_| opening.agreed.timestamps && ack.advanced && !ack.duplicate)?;
            let millis = opening.timestamp(now).wrapping_sub(stamp.echo);
            (stamp.echo != 0 && opening.echo_is_plausible(now, stamp.echo)).then(|| Duration::from_millis(u64::from(millis.max(1))))
        };
        let sample = acked.or(sacked).or_else(stamped)?;
        let (una, next) = (send.una_seq(), send.next_seq());
        let delayed = ack.may_be_delayed(send.mss);
        self.rtt.on_sample(now, sample, una, next, delayed);
        // tcp_clean_rtx_queue: `ca_rtt_us` is of what was sent last, and of what was reported before what was acknowledged.
        let latest = ack.last_sacked.map(|at| (now - at).max(floor)).or(last).unwrap_or(sample);
        self.rtt.on_delay(now, latest, delayed);
        Some(latest)
    }

    /// What PRR allows after an acknowledgment. True: a reduction is under way.
    pub(super) fn allow(&mut self, send: &Sender, ack: &Ack) -> bool {
        let reducing = self.prr.is_active();
        if reducing {
            let delivered = ack.acked.saturating_add(ack.sacked);
            if delivered > 0 {
                self.prr_allowed = self.prr.on_ack(delivered, ack.lost, send.in_flight(), ack.advanced);
            } else {
                // tcp_cwnd_reduction does nothing then: the window stays, and what is lost is not in flight any more.
                self.prr_allowed = self.prr_allowed.saturating_add(ack.lost);
            }
        }
        reducing
    }
}
