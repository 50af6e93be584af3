//! What was sent and is not acknowledged: one entry a segment, in the order of the sequence space, with the counters that make up the pipe.
//!
//! Nothing here walks the whole queue for an acknowledgment. SACK blocks are looked up by bisection, and what was sacked before is
//! skipped through a map of ranges, so that a hostile peer gets no more work out of us than it sends. RACK's order by time of
//! transmission is a second queue to whose end every (re)transmission is added; stale entries are dropped when they reach its front.

use super::ranges::Ranges;
use std::collections::{BTreeSet, VecDeque};
use weft_core::Instant;

/// A segment that was sent.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Sent {
    /// Position of its first number.
    pub start: u64,
    /// Sequence numbers, SYN and FIN included.
    pub len: u32,
    /// The peer has it (SACK).
    pub sacked: bool,
    /// Thought to be lost.
    pub lost: bool,
    /// Its retransmission is in flight.
    pub retransmitted: bool,
    /// It was retransmitted at some time: no RTT sample (Karn).
    pub ever_retransmitted: bool,
    /// Carries FIN as its last number.
    pub fin: bool,
    /// Carries PSH, as the end of a write.
    pub pushed: bool,
    /// Last transmission.
    pub sent_at: Instant,
    /// Extension's mapping of its bytes.
    pub mapping: u64,
    /// For the delivery rate (tcp_rate.c): bytes delivered, and when, as it was sent.
    pub delivered: u64,
    /// When that was.
    pub delivered_at: Instant,
    /// When the first segment of the sample was sent.
    pub first_sent_at: Instant,
    /// The sender had nothing more to send.
    pub app_limited: bool,
}

impl Sent {
    /// Position after its last number.
    pub(crate) fn end(&self) -> u64 {
        self.start + u64::from(self.len)
    }
    /// Bytes of payload.
    pub(crate) fn payload(&self) -> u32 {
        self.len - u32::from(self.fin)
    }
}

/// The retransmission queue.
#[derive(Debug, Default)]
pub(crate) struct Outstanding {
    segments: VecDeque<Sent>,
    /// Every transmission, oldest first; entries whose time is not the segment's last are stale.
    order: VecDeque<(Instant, u64)>,
    /// Lost and not retransmitted.
    to_send: BTreeSet<u64>,
    /// Ranges of sacked segments: start to end.
    ranges: Ranges,
    /// Sequence numbers outstanding, sacked, lost, and retransmitted and still out.
    pub bytes: u64,
    pub sacked_bytes: u64,
    pub lost_bytes: u64,
    pub retransmitted_bytes: u64,
    /// Without SACK: what duplicate acknowledgments say has arrived.
    pub duplicate_bytes: u64,
    /// Ever declared lost, each as often as it was.
    pub lost_ever: u64,
    /// The same in segments.
    pub sacked: u32,
    pub lost: u32,
    pub retransmitted: u32,
}

impl Outstanding {
    pub(crate) fn is_empty(&self) -> bool {
        self.segments.is_empty()
    }
    pub(crate) fn len(&self) -> usize {
        self.segments.len()
    }
    pub(crate) fn front(&self) -> Option<&Sent> {
        self.segments.front()
    }
    pub(crate) fn back(&self) -> Option<&Sent> {
        self.segments.back()
    }
    /// RFC 6675 §4, "pipe": what is believed to be in the network, bytes.
    pub(crate) fn in_flight(&self) -> u32 {
        (self.bytes + self.retransmitted_bytes).saturating_sub(self.sacked_bytes + self.lost_bytes + self.duplicate_bytes) as u32
    }
    pub(crate) fn push(&mut self, sent: Sent) {
        self.bytes += u64::from(sent.len);
        self.order.push_back((sent.sent_at, sent.start));
        self.segments.push_back(sent);
    }
    /// All, in the order of the sequence space.
    pub(super) fn iter(&self) -> impl Iterator<Item = &Sent> {
        self.segments.iter()
    }
    /// The order of transmissions, with what is stale in it.
    pub(super) fn order(&self) -> &VecDeque<(Instant, u64)> {
        &self.order
    }
    pub(super) fn set_order(&mut self, order: VecDeque<(Instant, u64)>) {
        self.order = order;
    }
    /// Room for this many, but not on a mere promise for very many.
    pub(super) fn with_capacity(count: usize) -> Outstanding {
        let room = count.min(1024);
        Outstanding { segments: VecDeque::with_capacity(room), order: VecDeque::with_capacity(room), ..Outstanding::default() }
    }
    /// Adds a segment with what is known of it, behind all others.
    pub(super) fn restore(&mut self, sent: Sent) {
        let len = u64::from(sent.len);
        if sent.sacked {
            self.sacked_bytes += len;
            self.sacked += 1;
            self.ranges.add(sent.start, sent.end());
        }
        if sent.lost {
            self.lost_bytes += len;
            self.lost += 1;
            if !sent.retransmitted {
                self.to_send.insert(sent.start);
            }
        }
        if sent.retransmitted {
            self.retransmitted_bytes += len;
            self.retransmitted += 1;
        }
        self.push(sent);
    }
    /// Index of the segment that holds `position`.
    fn index(&self, position: u64) -> Option<usize> {
        let at = self.segments.partition_point(|sent| sent.end() <= position);
        (at < self.segments.len() && self.segments[at].start <= position).then_some(at)
    }
    pub(crate) fn get(&self, position: u64) -> Option<&Sent> {
        self.index(position).map(|at| &self.segments[at])
    }

    /// Removes what is acknowledged, calling `with` for each whole segment. A part of the next one may go too.
    pub(crate) fn acknowledge(&mut self, until: u64, mut with: impl FnMut(&Sent)) {
        while let Some(sent) = self.segments.front().copied() {
            if sent.end() > until {
                if sent.start < until {
                    self.trim_front(until);
                }
                break;
            }
            self.forget(&sent);
            with(&sent);
            self.segments.pop_front();
        }
        self.ranges.remove_until(until);
        self.clean_order(until);
    }
    /// Takes a segment's numbers out of the counters.
    fn forget(&mut self, sent: &Sent) {
        let len = u64::from(sent.len);
        self.bytes -= len;
        if sent.sacked {
            self.sacked_bytes -= len;
            self.sacked -= 1;
        }
        if sent.lost {
            self.lost_bytes -= len;
            self.lost -= 1;
            self.to_send.remove(&sent.start);
        }
        if sent.retransmitted {
            self.retransmitted_bytes -= len;
            self.retransmitted -= 1;
        }
    }
    fn trim_front(&mut self, until: u64) {
        let Some(mut sent) = self.segments.front().copied() else { return };
        self.forget(&sent);
        let listed = sent.lost && !sent.retransmitted;
        sent.len = (sent.end() - until) as u32;
        sent.start = until;
        self.bytes += u64::from(sent.len);
        if sent.sacked {
            self.sacked_bytes += u64::from(sent.len);
            self.sacked += 1;
        }
        if sent.lost {
            self.lost_bytes += u64::from(sent.len);
            self.lost += 1;
        }
        if sent.retransmitted {
            self.retransmitted_bytes += u64::from(sent.len);
            self.retransmitted += 1;
        }
        if listed {
            self.to_send.insert(sent.start);
        }
        self.order.push_front((sent.sent_at, sent.start));
        self.segments[0] = sent;
    }
    fn clean_order(&mut self, until: u64) {
        while self.order.front().is_some_and(|(_, start)| *start < until) {
            self.order.pop_front();
        }
        if self.segments.is_empty() {
            self.order.clear();
            self.ranges.clear();
        }
    }

    /// Marks the whole segments within a SACK block that were not sacked before, calling `with` for each as it was before.
    pub(crate) fn sack(&mut self, start: u64, end: u64, mut with: impl FnMut(&Sent)) {
        let mut at = start;
        while let Some((gap_start, gap_end)) = self.ranges.gap(at, end) {
            self.sack_gap(gap_start, gap_end, &mut with);
            at = gap_end;
        }
    }
    fn sack_gap(&mut self, start: u64, end: u64, with: &mut impl FnMut(&Sent)) {
        let first = self.segments.partition_point(|sent| sent.start < start);
        let mut marked: Option<(u64, u64)> = None;
        for at in first..self.segments.len() {
            let before = self.segments[at];
            if before.end() > end {
                break;
            }
            if before.sacked {
                continue;
            }
            with(&before);
            self.mark_sacked(at);
            marked = Some((marked.map_or(before.start, |(start, _)| start), before.end()));
        }
        if let Some((start, end)) = marked {
            self.ranges.add(start, end);
        }
    }
    fn mark_sacked(&mut self, at: usize) {
        let sent = &mut self.segments[at];
        let (start, len) = (sent.start, u64::from(sent.len));
        if sent.lost {
            sent.lost = false;
            self.lost_bytes -= len;
            self.lost -= 1;
            self.to_send.remove(&start);
        }
        if sent.retransmitted {
            sent.retransmitted = false;
            self.retransmitted_bytes -= len;
            self.retransmitted -= 1;
        }
        sent.sacked = true;
        self.sacked_bytes += len;
        self.sacked += 1;
    }
    /// Highest sacked position.
    pub(crate) fn highest_sacked(&self) -> Option<u64> {
        self.ranges.last_end()
    }
    /// Forgets all SACKs: the peer may discard what it reported (RFC 2018 §8).
    pub(crate) fn renege(&mut self) {
        self.segments.iter_mut().for_each(|sent| sent.sacked = false);
        self.sacked_bytes = 0;
        self.sacked = 0;
        self.ranges.clear();
    }

    fn mark_lost_at(&mut self, at: usize) -> u32 {
        let sent = &mut self.segments[at];
        let (start, len) = (sent.start, u64::from(sent.len));
        if sent.sacked || (sent.lost && !sent.retransmitted) {
            return 0;
        }
        let newly = sent.len;
        if !sent.lost {
            sent.lost = true;
            self.lost_bytes += len;
            self.lost += 1;
        }
        if sent.retransmitted {
            // The retransmission is lost too.
            sent.retransmitted = false;
            self.retransmitted_bytes -= len;
            self.retransmitted -= 1;
        }
        self.to_send.insert(start);
        self.lost_ever += len;
        newly
    }
    /// Marks the first segment lost. Returns the bytes newly thought lost.
    pub(crate) fn mark_front_lost(&mut self) -> u32 {
        if self.segments.is_empty() { 0 } else { self.mark_lost_at(0) }
    }
    /// Marks every segment that is not sacked lost, but those behind the first that are young: after a retransmission timeout.
    pub(crate) fn mark_timed_out(&mut self, is_young: impl Fn(&Sent) -> bool) -> u32 {
        let mut lost = 0_u32;
        for at in 0..self.segments.len() {
            if at == 0 || !is_young(&self.segments[at]) {
                lost = lost.saturating_add(self.mark_lost_at(at));
            }
        }
        lost
    }
    /// Marks segments lost that are longer than `payload` bytes: the path has become narrower.
    pub(crate) fn mark_longer_lost(&mut self, payload: u32) -> u32 {
        (0..self.segments.len())
            .map(|at| if self.segments[at].payload() > payload { self.mark_lost_at(at) } else { 0 })
            .fold(0, u32::saturating_add)
    }
    /// Takes all loss marks back (undo).
    pub(crate) fn unmark_lost(&mut self) {
        self.segments.iter_mut().for_each(|sent| sent.lost = false);
        self.lost_bytes = 0;
        self.lost = 0;
        self.to_send.clear();
        // Lost segments had left the order of transmissions; it is made anew.
        let mut order: Vec<_> = self.segments.iter().filter(|sent| !sent.sacked).map(|sent| (sent.sent_at, sent.start)).collect();
        order.sort_unstable();
        self.order = order.into();
    }

    /// The next segment to retransmit.
    pub(crate) fn next_lost(&self) -> Option<&Sent> {
        self.get(*self.to_send.first()?)
    }
    /// Notes a retransmission.
    pub(crate) fn retransmit(&mut self, start: u64, stamp: impl FnOnce(&mut Sent)) {
        let Some(at) = self.index(start) else { return };
        let sent = &mut self.segments[at];
        stamp(sent);
        sent.ever_retransmitted = true;
        if !sent.retransmitted && !sent.sacked {
            sent.retransmitted = true;
            self.retransmitted_bytes += u64::from(sent.len);
            self.retransmitted += 1;
        }
        self.to_send.remove(&sent.start);
        self.order.push_back((sent.sent_at, sent.start));
    }
    /// RFC 8985 §6.2 step 5, RACK_detect_loss: walks the transmissions in the order of time. `overdue` says of a segment whether it is
    /// lost (None), or when it would be. Returns newly lost bytes and the earliest of those times.
    pub(crate) fn detect_lost(
        &mut self,
        newest: (Instant, u64),
        overdue: impl Fn(&Sent) -> Option<Instant>,
        mut with: impl FnMut(&Sent),
    ) -> (u32, Option<Instant>) {
        let mut lost = 0u32;
        while let Some((sent_at, start)) = self.order.front().copied() {
            let at = self.index(start);
            let current = at.map(|at| self.segments[at]).filter(|sent| sent.start == start && sent.sent_at == sent_at);
            let (Some(at), Some(sent)) = (at, current) else {
                self.order.pop_front();
                continue;
            };
            if sent.sacked || (sent.lost && !sent.retransmitted) {
                self.order.pop_front();
                continue;
            }
            // RFC 8985 §6.2: RACK_sent_after(t1, seq1, t2, seq2)
            if (sent_at, sent.end()) >= newest {
                return (lost, None);
            }
            if let Some(at) = overdue(&sent) {
                return (lost, Some(at));
            }
            with(&sent);
            lost = lost.saturating_add(self.mark_lost_at(at));
            self.order.pop_front();
        }
        (lost, None)
    }
}
