//! The receive window: what to announce (RFC 9293 §3.8.6.2.2).

use super::receiver::Receiver;
use crate::counters::Counter;
use crate::extension::Extension;
use crate::outbox::Env;
use weft_core::Instant;

impl Receiver {
    /// Window that the buffer gives when nothing waits in it.
    fn full_space(&self) -> u32 {
        (self.buffer / 2).min(self.clamp)
    }
    /// What is free of it.
    pub(super) fn free_space(&self) -> u32 {
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

    /// The window for the next segment: never less than what was promised (RFC 9293 §3.8.6: "a TCP receiver SHOULD NOT shrink the window").
    pub(super) fn announce_window(&mut self, env: &mut Env<'_>, scaling: bool, extension: &dyn Extension) -> u16 {
        let old = self.window;
        if std::mem::take(&mut self.ack.no_memory) {
            // tcp_select_window: "Make the window 0 if we failed to queue the data because we are out of memory. The window is temporary, so we
            // don't store it on the socket": the one case in which it shrinks.
            (self.window, self.window_base) = (0, self.next);
            env.count(if old == 0 { Counter::TCPWantZeroWindowAdv } else { Counter::TCPToZeroWindowAdv });
            return 0;
        }
        // __tcp_select_window: "if (free_space < (full_space >> 1)) { … if (tcp_under_memory_pressure(sk)) tcp_adjust_rcv_ssthresh(sk);"
        if env.out.memory.is_under_pressure() && self.is_half_full() {
            self.slow_start = self.slow_start.min(4 * self.announced_mss);
        }
        let promised = self.window_left();
        let mut new = extension.receive_window(self.select_window());
        if new < promised {
            if new == 0 {
                env.count(Counter::TCPWantZeroWindowAdv);
            }
            let unit = (1u32 << self.scale) - 1;
            new = promised.saturating_add(unit) & !unit;
        }
        let limit = if scaling { u32::from(u16::MAX) << self.scale } else { u32::from(u16::MAX) };
        new = new.min(limit);
        self.window = new;
        self.window_base = self.next;
        match (old, new) {
            (1.., 0) => env.count(Counter::TCPToZeroWindowAdv),
            (0, 1..) => env.count(Counter::TCPFromZeroWindowAdv),
            _ => {}
        }
        (new >> self.scale) as u16
    }
}
