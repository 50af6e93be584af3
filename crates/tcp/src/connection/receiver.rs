//! Receiving: the variables of RFC 9293, what is delivered and what is kept, and what is owed to the peer.
//!
//! It needs nothing of the sender; what was agreed on it is told. Its methods stand in `receiver_window.rs` (what is announced),
//! `receiver_tuning.rs` (how the buffer follows the program), `receiver_acks.rs` (when is acknowledged) and `receiver_stamps.rs`.

use super::compression::Compression;
use super::ranges::Ranges;
use super::reassembly::Reassembly;
use crate::Config;
use crate::position::{START, Space};
use weft_core::{Duration, Frame, Instant, StreamOptions};
use weft_wire::tcp::Seq;

/// SACK blocks remembered, newest first. A header holds three beside timestamps, four without.
const SACK_RECENT_MAX: usize = 4;
/// Acknowledgments that are not delayed after the start and after trouble, segments (TCP_MAX_QUICKACKS).
const QUICK_ACKS_MAX: u32 = 16;
/// Segment size that is assumed of a peer that names none (TCP_MSS_DEFAULT), and the least that Linux believes in (TCP_MIN_MSS), bytes.
const MSS_DEFAULT: u32 = 536;
const MSS_MIN: u32 = 88;

/// Where a segment lies, seen from the window.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Place {
    /// All of it was acknowledged before.
    Before,
    Within,
    Beyond,
}

/// Delayed acknowledgments.
#[derive(Debug, Default)]
pub(super) struct Acks {
    /// Something is to be acknowledged.
    pub wanted: bool,
    /// At once.
    pub now: bool,
    /// Out-of-order data lies in the queue: at once, or compressed with others (`compression.rs`).
    pub gap: bool,
    /// What came was dropped for want of memory: the next acknowledgment closes the window (ICSK_ACK_NOMEM).
    pub no_memory: bool,
    /// Segments that are still to be acknowledged at once.
    pub quick: u32,
    /// The program answers quickly: acknowledgments ride on its data.
    pub interactive: bool,
    /// Delay, learned from the distance of arrivals (icsk_ack.ato).
    pub timeout: Duration,
    /// Last arrival of data.
    pub last_data: Option<Instant>,
    /// Ends of what the peer wrote that are not acknowledged, none, one or more (ICSK_ACK_PUSHED, ICSK_ACK_PUSHED2): when the program has taken
    /// all that came, the peer hears of it.
    pub pushed: u8,
    /// Size of the last segment that was smaller than the largest (icsk_ack.last_seg_size).
    pub last_size: u32,
}
weft_core::fields!(struct Acks { wanted, now, gap, no_memory, quick, interactive, timeout, last_data, pushed, last_size });

/// Receiver's variables of RFC 9293 §3.3.1 and what belongs to them.
#[derive(Debug)]
pub(super) struct Receiver {
    pub space: Space,
    /// RCV.NXT
    pub next: u64,
    /// RCV.NXT as the last window was announced.
    pub window_base: u64,
    /// The window announced then, bytes.
    pub window: u32,
    /// Our shift.
    pub scale: u8,
    /// Receive buffer, bytes; half of it is window (tcp_win_from_space with the default ratio).
    pub buffer: u32,
    /// The program has fixed it.
    pub buffer_fixed: bool,
    /// Largest window to announce.
    pub clamp: u32,
    /// The window opens up to here, and opens further as data comes (rcv_ssthresh).
    pub slow_start: u32,
    /// Delivered to the sockets, and taken by the program, bytes.
    pub delivered: u64,
    pub taken: u64,
    pub queue: Reassembly,
    /// Starts of the ranges that changed last.
    pub recent: Vec<u64>,
    /// RFC 2883: the duplicate to report.
    pub duplicate: Option<(u64, u64)>,
    pub fin_taken: bool,
    /// Largest segment of the peer (rcv_mss).
    pub mss: u32,
    pub ack: Acks,
    /// TS.Recent and when it was set; Last.ACK.sent.
    pub timestamp: u32,
    pub timestamp_at: Instant,
    pub last_ack_sent: u64,
    /// TSecr of the last segment.
    pub last_echo_seen: u32,
    /// Urgent byte of the peer.
    pub urgent: Option<u64>,
    /// Dynamic right-sizing: round trip as the receiver sees it, and bytes taken in the present one.
    pub rtt: Option<Duration>,
    pub rtt_mark: Option<(u64, Instant)>,
    pub last_echo: u32,
    pub tuning_since: Instant,
    pub tuning_from: u64,
    pub tuning_space: u32,
    /// Acknowledgments of out-of-order data that wait to leave as one.
    pub compression: Compression,
    /// The MSS we announced.
    pub announced_mss: u32,
    /// A mark of congestion was received: echo it until the peer says CWR (RFC 3168 §6.1.3).
    pub ecn_echo: bool,
    /// A packet came that could have been marked (TCP_ECN_SEEN).
    pub ecn_seen: bool,
}

impl Receiver {
    pub(super) fn new(config: &Config, options: &StreamOptions, mss: u32) -> Receiver {
        // A program may have less than tcp_rmem[0] (sock_setsockopt: SOCK_MIN_RCVBUF is the floor).
        let buffer = super::bounds::receive_buffer(config, options);
        let clamp = if options.window_clamp > 0 { options.window_clamp } else { u32::MAX };
        Receiver {
            space: Space::default(),
            next: START,
            window_base: START,
            window: 0,
            scale: 0,
            buffer,
            buffer_fixed: options.receive_buffer.is_some(),
            clamp: (buffer / 2).min(clamp),
            slow_start: 0,
            delivered: 0,
            taken: 0,
            queue: Reassembly::default(),
            recent: Vec::new(),
            duplicate: None,
            fin_taken: false,
            mss: mss.clamp(1, 536),
            ack: Acks { timeout: config.delayed_ack_min, ..Acks::default() },
            timestamp: 0,
            timestamp_at: Instant::ZERO,
            last_ack_sent: START,
            last_echo_seen: 0,
            urgent: None,
            rtt: None,
            rtt_mark: None,
            last_echo: 0,
            tuning_since: Instant::ZERO,
            tuning_from: 0,
            tuning_space: 0,
            compression: Compression::default(),
            announced_mss: mss,
            ecn_echo: false,
            ecn_seen: false,
        }
    }

    /// What our SYN announces.
    pub(super) fn prepare_syn(&mut self, config: &Config, options: &StreamOptions, mss: u32) {
        self.scale = if config.window_scaling { super::bounds::window_shift(config, options) } else { 0 };
        self.window = super::bounds::initial_receive_window(config, options, mss);
    }

    /// The peer's SYN is known.
    pub(super) fn begin(&mut self, initial: Seq, window: u32, scale: u8, timestamp: Option<u32>, now: Instant) {
        self.space = Space { initial };
        self.next = START + 1;
        self.window_base = self.next;
        self.last_ack_sent = self.next;
        self.window = window;
        self.slow_start = window;
        self.scale = scale;
        self.timestamp = timestamp.unwrap_or(0);
        self.timestamp_at = now;
    }

    pub(super) fn acknowledged(&mut self) {
        self.ack.wanted = false;
    }

    /// Bytes of the announced window that are still free.
    pub(super) fn window_left(&self) -> u32 {
        (self.window_base + u64::from(self.window)).saturating_sub(self.next) as u32
    }

    /// The right edge of the announced window; RCV.NXT, where more has been taken.
    pub(super) fn edge(&self) -> u64 {
        self.next + u64::from(self.window_left())
    }

    /// RFC 9293 §3.10.7.4, the four cases of acceptability in Linux's form (tcp_sequence): it ends behind what our last acknowledgment said,
    /// and begins within the window. Old bytes are cut off later. Bytes behind the right edge are taken while nothing waits to be read
    /// (`unread`): "Only accept this packet if receive queue is empty". The RFC would cut them off. A FIN alone may lie behind the edge.
    pub(super) fn place(&self, start: u64, end: u64, has_fin: bool, unread: u64) -> Place {
        let edge = self.edge();
        if end < self.window_base {
            Place::Before
        } else if start > edge || (end - u64::from(has_fin) > edge && unread > 0) {
            Place::Beyond
        } else {
            Place::Within
        }
    }

    pub(super) fn highest_out_of_order(&self) -> Option<u64> {
        self.queue.ranges.last_end()
    }

    /// Remembers which range to report first (RFC 2018 §4: "the first SACK block … MUST specify the contiguous block of data containing the
    /// segment which triggered this ACK").
    pub(super) fn remember_range(&mut self, range: (u64, u64)) {
        self.recent.retain(|start| !(range.0..range.1).contains(start));
        self.recent.insert(0, range.0);
        self.recent.truncate(SACK_RECENT_MAX);
    }

    /// Which of the blocks, newest first, a new range touches; beyond the last: none of them.
    pub(super) fn place_among_reported(&self, start: u64, end: u64) -> usize {
        let touches = |of: &u64| self.queue.ranges.covering(*of).is_some_and(|(first, last)| first <= end && start <= last);
        self.recent.iter().position(touches).unwrap_or(self.recent.len())
    }

    /// The SACK blocks to report, newest first, at most `room`, after the duplicate if there is one.
    pub(super) fn sack_blocks(&mut self, room: usize, mut with: impl FnMut(Seq, Seq)) {
        let mut left = room;
        if let Some((start, end)) = self.duplicate.take().filter(|_| left > 0) {
            with(self.space.seq(start), self.space.seq(end));
            left -= 1;
        }
        let ranges: &Ranges = &self.queue.ranges;
        self.recent.retain(|start| ranges.covering(*start).is_some());
        for (start, end) in self.recent.iter().filter_map(|start| ranges.covering(*start)).take(left) {
            with(self.space.seq(start), self.space.seq(end));
        }
    }

    pub(super) fn has_sack_blocks(&self) -> bool {
        self.duplicate.is_some() || !self.queue.ranges.is_empty()
    }

    /// Learns from the size of a segment (tcp_measure_rcv_mss).
    #[inline]
    pub(super) fn measure_segment(&mut self, segment: u32, push: bool) {
        if segment >= self.mss {
            self.mss = segment;
            // "If the skb has a len of exactly 1*MSS and has the PSH bit set then it is likely the end of an application write. So more data may
            // not be arriving soon, and yet the data sender may be waiting for an ACK if cwnd-bound or using TX zero copy."
            if push {
                self.ack.pushed = self.ack.pushed.max(1);
            }
            return;
        }
        // Small ones tell the peer's segment size only when two in a row are equal, and when they are no ends.
        let tells = segment >= MSS_DEFAULT || (segment >= MSS_MIN && !push);
        if tells && std::mem::replace(&mut self.ack.last_size, segment) == segment {
            self.mss = segment;
            return;
        }
        self.ack.pushed = (self.ack.pushed + 1).min(2);
    }

    /// The next acknowledgments are not delayed (tcp_enter_quickack_mode).
    pub(super) fn enter_quick_ack(&mut self, config: &Config) {
        self.add_quick_acks();
        self.ack.interactive = false;
        self.ack.timeout = config.delayed_ack_min;
    }

    /// tcp_incr_quickack: "quickacks = tcp_sk(sk)->rcv_wnd / (2 * icsk->icsk_ack.rcv_mss); if (quickacks == 0) quickacks = 2;"
    pub(super) fn add_quick_acks(&mut self) {
        let segments = self.window / (2 * self.mss.max(1));
        let acks = if segments == 0 { 2 } else { segments.min(QUICK_ACKS_MAX) };
        self.ack.quick = self.ack.quick.max(acks);
    }
}

/// How many segments a (large) frame stands for.
#[inline]
pub(super) fn segments_of(frame: &Frame, mss: u32) -> u32 {
    let length = frame.len() as u32;
    let each = frame.meta().gso.map_or(mss.max(536), |gso| u32::from(gso.segment_bytes)).max(1);
    length.div_ceil(each).max(1)
}

#[cfg(test)]
mod tests;
