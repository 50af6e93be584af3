//! How the receive buffer follows the program (dynamic right-sizing, as Linux), and what options say of it.

use super::bounds::{buffer_for, wanted_clamp};
use super::opening::Opening;
use super::receiver::Receiver;
use crate::Config;
use crate::counters::Counter;
use crate::outbox::Env;
use weft_core::{Duration, Instant, StreamOptions};

impl Receiver {
    /// The window opens with the data that comes, so that a peer cannot fill the buffer with tiny segments, and the peer hears of it at once
    /// (tcp_grow_window: "inet_csk(sk)->icsk_ack.quick |= 1").
    #[inline]
    pub(super) fn grow_window(&mut self, arrived: u32) {
        let room = self.clamp.min(self.free_space()).saturating_sub(self.slow_start);
        if room > 0 && arrived >= self.mss / 2 {
            self.slow_start += room.min(2 * self.announced_mss).min(arrived.max(self.announced_mss) * 2);
            self.ack.quick |= 1;
        }
    }

    /// Whoever has several flows to one peer has tuned the buffer of all of them (mptcp_rcv_space_adjust: "Make subflows follow along").
    pub(super) fn follow(&mut self, window: u32) {
        let buffer = window.saturating_mul(2);
        if buffer > self.buffer {
            self.buffer = buffer;
            self.clamp = self.clamp.max(window);
        }
    }

    /// The round trip as the receiver sees it: by timestamps (tcp_rcv_rtt_measure_ts), else a window's worth of data takes one.
    #[inline]
    pub(super) fn measure_rtt(&mut self, opening: &Opening, now: Instant, echo: Option<u32>, length: u32) {
        if length < self.mss {
            return;
        }
        match echo.filter(|_| opening.agreed.timestamps) {
            Some(echo) => {
                if echo == 0 || echo == self.last_echo {
                    return;
                }
                self.last_echo = echo;
                let millis = u64::from(opening.timestamp(now).wrapping_sub(echo));
                if millis < 600_000 {
                    self.note_rtt(Duration::from_millis(millis.max(1)), false);
                }
            }
            None => match self.rtt_mark {
                Some((until, _)) if self.next < until => {}
                mark => {
                    if let Some((_, since)) = mark {
                        self.note_rtt(now - since, true);
                    }
                    self.rtt_mark = Some((self.next + u64::from(self.window), now));
                }
            },
        }
    }

    fn note_rtt(&mut self, sample: Duration, only_lower: bool) {
        let old = self.rtt;
        self.rtt = Some(match old {
            None => sample,
            Some(old) if only_lower => old.min(sample),
            Some(old) => (old * 7 + sample) / 8,
        });
    }

    /// tcp_rcv_space_adjust: once a round trip, the buffer becomes twice what the program took in it.
    #[inline]
    pub(super) fn tune_buffer(&mut self, options: &StreamOptions, scaling: bool, env: &mut Env<'_>) {
        let most = env.config.receive_buffer[2];
        let mss = u64::from(self.announced_mss);
        let Some(rtt) = self.rtt else { return };
        if env.now - self.tuning_since < rtt {
            return;
        }
        let taken = self.taken - self.tuning_from;
        let space = u64::from(self.tuning_space);
        self.tuning_since = env.now;
        self.tuning_from = self.taken;
        if taken <= space {
            return;
        }
        self.tuning_space = taken.min(u64::from(u32::MAX)) as u32;
        if !env.config.moderate_receive_buffer || self.buffer_fixed || env.out.memory.is_under_pressure() {
            return;
        }
        let mut window = 2 * taken + 16 * mss;
        window += 2 * (window * (taken - space) / space.max(1));
        let buffer = (2 * window).min(u64::from(most)) as u32;
        if buffer > self.buffer {
            self.buffer = buffer;
            self.clamp = (buffer / 2).min(wanted_clamp(options));
            if !scaling {
                self.clamp = self.clamp.min(u32::from(u16::MAX));
            }
            env.count(Counter::TCPAutoTuned);
        }
    }

    /// The largest window that the buffer may come to give.
    pub(super) fn most(&self, config: &Config, options: &StreamOptions) -> u32 {
        let grows = config.moderate_receive_buffer && !self.buffer_fixed;
        // Not what it is now: that may be what others have tuned it to.
        let buffer = if grows { config.receive_buffer[1].max(config.receive_buffer[2]) } else { self.buffer };
        let clamp = if grows { wanted_clamp(options) } else { self.clamp };
        (buffer / 2).min(clamp)
    }

    /// SO_RCVBUF of a connection that lives.
    pub(super) fn apply_buffer(&mut self, options: &StreamOptions) {
        let Some(buffer) = options.receive_buffer else { return };
        // sock_setsockopt knows nothing of the clamp.
        self.buffer = buffer;
        self.buffer_fixed = true;
    }

    /// SO_RCVLOWAT of a connection that lives (tcp_set_rcvlowat): "if (space > sk->sk_rcvbuf) { WRITE_ONCE(sk->sk_rcvbuf, space); if
    /// (tp->window_clamp && tp->window_clamp < val) WRITE_ONCE(tp->window_clamp, val); }".
    pub(super) fn apply_low_water(&mut self, options: &StreamOptions, config: &Config) {
        let low_water = options.receive_low_water;
        let space = buffer_for(low_water, config.receive_buffer[2]);
        if !self.buffer_fixed && space > self.buffer {
            self.buffer = space;
            self.clamp = self.clamp.max(low_water.min(space / 2));
        }
    }

    /// TCP_WINDOW_CLAMP of a connection that lives (tcp_set_window_clamp): what was promised already stays.
    pub(super) fn apply_clamp(&mut self, options: &StreamOptions) {
        let (old, new) = (self.clamp, options.window_clamp);
        if new == 0 {
            return;
        }
        self.clamp = new;
        self.slow_start = if new < old { self.slow_start.min(new) } else { self.slow_start.max(self.window_left().min(new)) };
    }
}
