//! What is counted of one connection, for TCP_INFO, and what keeps it from sending.

use weft_core::{Duration, Instant};

/// Totals for TCP_INFO.
#[derive(Debug, Default, Clone, Copy)]
pub(super) struct Totals {
    pub bytes_acked: u64,
    pub bytes_received: u64,
    pub bytes_sent: u64,
    pub bytes_retransmitted: u64,
    pub segments_in: u32,
    pub segments_out: u32,
    pub data_segments_in: u32,
    pub data_segments_out: u32,
    pub retransmitted: u32,
    pub dsack_duplicates: u32,
    pub out_of_order: u32,
    pub timeouts: u32,
    pub timeout_recoveries: u32,
    pub delivered_ce: u32,
    pub last_ack_in: Instant,
    pub last_data_in: Instant,
    pub busy_since: Option<Instant>,
    pub busy: Duration,
    /// What keeps it from sending more, since when, and how long each did (tcp_chrono).
    limited_by: Option<(Limit, Instant)>,
    window_limited: Duration,
    buffer_limited: Duration,
}
weft_core::fields!(struct Totals {
    bytes_acked, bytes_received, bytes_sent, bytes_retransmitted, segments_in, segments_out, data_segments_in, data_segments_out, retransmitted,
    dsack_duplicates, out_of_order, timeouts, timeout_recoveries, delivered_ce, last_ack_in, last_data_in, busy_since, busy, limited_by,
    window_limited, buffer_limited,
});

/// What keeps a busy connection from sending.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Limit {
    /// The peer's window.
    Window,
    /// The send buffer: the program would write more.
    Buffer,
}
weft_core::fields!(
    enum Limit {
        Window = 0,
        Buffer = 1,
    }
);

impl Totals {
    /// Nothing was counted yet.
    pub(super) fn new(now: Instant) -> Totals {
        Totals { last_ack_in: now, last_data_in: now, ..Totals::default() }
    }

    /// From now on this keeps it from sending, or nothing does (tcp_chrono).
    #[inline]
    pub(super) fn limit(&mut self, now: Instant, limit: Option<Limit>) {
        if self.limited_by.map(|(by, _)| by) == limit {
            return;
        }
        match self.limited_by {
            Some((Limit::Window, since)) => self.window_limited += now - since,
            Some((Limit::Buffer, since)) => self.buffer_limited += now - since,
            None => {}
        }
        self.limited_by = limit.map(|limit| (limit, now));
    }

    /// How long this has kept it from sending.
    pub(super) fn limited_for(&self, limit: Limit, now: Instant) -> Duration {
        let before = match limit {
            Limit::Window => self.window_limited,
            Limit::Buffer => self.buffer_limited,
        };
        before + self.limited_by.filter(|(by, _)| *by == limit).map_or(Duration::ZERO, |(_, since)| now - since)
    }
}
