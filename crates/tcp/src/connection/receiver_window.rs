//! The receive window: what to announce (RFC 9293 §3.8.6.2.2).

use super::receiver::Receiver;
use weft_core::Instant;

impl Receiver {
    /// Window that the buffer gives when nothing waits in it.
    fn full_space(&self) -> u32 {
        (self.buffer / 2).min(self.clamp)
    }
    /// What is free of it.
    fn free_space(&self) -> u32 {
        let held = (self.delivered - self.taken) + self.queue.bytes();
        u64::from(self.full_space()).saturating_sub(held) as u32
    }

    pub(super) fn is_half_full(&self) -> bool {
        self.free_space() < self.full_space() / 2
    }

    /// The window to announce (__tcp_select_window).
    pub(super) fn select_window(&self) -> u32 {
        let (full, mut free) = (self.full_space(), self.free_space());
        let mss = self.mss.min(full).max(1);
        // RFC 9293 §3.8.6.2.2: "The suggested SWS avoidance algorithm for the receiver is to keep RCV.NXT+RCV.WND fixed until the reduction
        // satisfies: RCV.BUFF - RCV.USER - RCV.WND >= min( Fr * RCV.BUFF, Eff.snd.MSS )".
        if free < full / 2 && (free < full / 16 || free < mss) {
            return 0;
        }
        free = free.min(self.slow_start.max(mss));
        let left = self.window_left();
        if self.scale > 0 {
            // Rounded up to what the field can say.
            let unit = 1u32 << self.scale;
            return free.saturating_add(unit - 1) & !(unit - 1);
        }
        if left <= free.saturating_sub(mss) || left > free { free - free % mss } else { left }
    }

    /// tcp_init_buffer_space: "Force reservation of one segment."
    pub(super) fn reserve_segment(&mut self, advertised_mss: u32) {
        let most = self.buffer / 2;
        if self.clamp > 2 * advertised_mss && self.clamp.saturating_add(advertised_mss) > most {
            self.clamp = (2 * advertised_mss).max(most.saturating_sub(advertised_mss));
        }
        self.slow_start = self.slow_start.min(self.clamp);
    }

    /// Sets up dynamic right-sizing as the connection opens.
    pub(super) fn start_tuning(&mut self, now: Instant, mss: u32) {
        self.tuning_since = now;
        self.tuning_from = self.taken;
        self.tuning_space = self.window.min(10 * mss.max(1));
        self.rtt_mark = Some((self.next + u64::from(self.window), now));
    }
}
