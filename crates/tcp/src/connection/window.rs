//! The receive window: what to announce (RFC 9293 §3.8.6.2.2), and how the buffer follows the program (dynamic right-sizing, as Linux).

use super::Connection;
use crate::config::Config;
use crate::counters::Counter;
use crate::outbox::Env;
use weft_core::{Duration, Instant, StreamMessage};

impl Connection {
    /// The window for the next segment: never less than what was promised (RFC 9293 §3.8.6: "a TCP receiver SHOULD NOT shrink the window").
    pub(super) fn announce_window(&mut self, env: &mut Env<'_>) -> u16 {
        let old = self.receive.window;
        if std::mem::take(&mut self.receive.ack.no_memory) {
            // tcp_select_window: "Make the window 0 if we failed to queue the data because we are out of memory. The window is temporary, so we
            // don't store it on the socket": the one case in which it shrinks.
            (self.receive.window, self.receive.window_base) = (0, self.receive.next);
            env.count(if old == 0 { Counter::TCPWantZeroWindowAdv } else { Counter::TCPToZeroWindowAdv });
            return 0;
        }
        // __tcp_select_window: "if (free_space < (full_space >> 1)) { … if (tcp_under_memory_pressure(sk)) tcp_adjust_rcv_ssthresh(sk);"
        if env.out.memory.is_under_pressure() && self.receive.is_half_full() {
            self.receive.slow_start = self.receive.slow_start.min(4 * self.receive.announced_mss);
        }
        let promised = self.receive.window_left();
        let mut new = self.extension.receive_window(self.receive.select_window());
        if new < promised {
            if new == 0 {
                env.count(Counter::TCPWantZeroWindowAdv);
            }
            let unit = (1u32 << self.receive.scale) - 1;
            new = promised.saturating_add(unit) & !unit;
        }
        let limit = if self.opening.agreed.scaling { u32::from(u16::MAX) << self.receive.scale } else { u32::from(u16::MAX) };
        new = new.min(limit);
        self.receive.window = new;
        self.receive.window_base = self.receive.next;
        match (old, new) {
            (1.., 0) => env.count(Counter::TCPToZeroWindowAdv),
            (0, 1..) => env.count(Counter::TCPFromZeroWindowAdv),
            _ => {}
        }
        (new >> self.receive.scale) as u16
    }

    /// The sockets' program has taken `bytes`.
    pub fn on_credit(&mut self, env: &mut Env<'_>, bytes: u32) {
        let receive = &mut self.receive;
        receive.taken = (receive.taken + u64::from(bytes)).min(receive.delivered);
        self.tune_receive_buffer(env);
        // tcp_cleanup_rbuf: what was read up to a PSH is acknowledged after the peer's FIN, too.
        if bytes > 0 && self.state.is_synchronised() && self.is_ack_due_after_read() {
            return self.send_ack(env);
        }
        if self.state.peer_closed() || !self.state.is_synchronised() || self.read_closed {
            return;
        }
        // tcp_cleanup_rbuf: tell the peer when the window has become much larger than it knows.
        let left = self.receive.window_left();
        if u64::from(left) * 2 <= u64::from(self.receive.clamp) {
            let new = self.extension.receive_window(self.receive.select_window());
            if new > 0 && u64::from(new) >= 2 * u64::from(left) {
                self.send_ack(env);
            }
        }
    }

    /// The window opens with the data that comes, so that a peer cannot fill the buffer with tiny segments (tcp_grow_window).
    pub(super) fn grow_window(&mut self, arrived: u32) {
        let receive = &mut self.receive;
        let room = receive.clamp.saturating_sub(receive.slow_start);
        if room > 0 && arrived >= receive.mss / 2 {
            receive.slow_start += room.min(2 * receive.announced_mss).min(arrived.max(receive.announced_mss) * 2);
        }
    }

    /// The round trip as the receiver sees it: by timestamps (tcp_rcv_rtt_measure_ts), else a window's worth of data takes one.
    pub(super) fn measure_receiver_rtt(&mut self, now: Instant, echo: Option<u32>, length: u32) {
        if length < self.receive.mss {
            return;
        }
        match echo.filter(|_| self.opening.agreed.timestamps) {
            Some(echo) => {
                if echo == 0 || echo == self.receive.last_echo {
                    return;
                }
                self.receive.last_echo = echo;
                let millis = u64::from(self.opening.timestamp(now).wrapping_sub(echo));
                if millis < 600_000 {
                    self.note_receiver_rtt(Duration::from_millis(millis.max(1)), false);
                }
            }
            None => match self.receive.rtt_mark {
                Some((until, _)) if self.receive.next < until => {}
                mark => {
                    if let Some((_, since)) = mark {
                        self.note_receiver_rtt(now - since, true);
                    }
                    self.receive.rtt_mark = Some((self.receive.next + u64::from(self.receive.window), now));
                }
            },
        }
    }

    fn note_receiver_rtt(&mut self, sample: Duration, only_lower: bool) {
        let old = self.receive.rtt;
        self.receive.rtt = Some(match old {
            None => sample,
            Some(old) if only_lower => old.min(sample),
            Some(old) => (old * 7 + sample) / 8,
        });
    }

    /// tcp_rcv_space_adjust: once a round trip, the buffer becomes twice what the program took in it.
    fn tune_receive_buffer(&mut self, env: &mut Env<'_>) {
        let most = env.config.receive_buffer[2];
        let mss = u64::from(self.receive.announced_mss);
        let receive = &mut self.receive;
        let Some(rtt) = receive.rtt else { return };
        if env.now - receive.tuning_since < rtt {
            return;
        }
        let taken = receive.taken - receive.tuning_from;
        let space = u64::from(receive.tuning_space);
        receive.tuning_since = env.now;
        receive.tuning_from = receive.taken;
        if taken <= space {
            return;
        }
        receive.tuning_space = taken.min(u64::from(u32::MAX)) as u32;
        if !env.config.moderate_receive_buffer || receive.buffer_fixed || env.out.memory.is_under_pressure() {
            return;
        }
        let mut window = 2 * taken + 16 * mss;
        window += 2 * (window * (taken - space) / space.max(1));
        let buffer = (2 * window).min(u64::from(most)) as u32;
        if buffer > receive.buffer {
            receive.buffer = buffer;
            receive.clamp = (buffer / 2).min(super::bounds::wanted_clamp(&self.options));
            if !self.opening.agreed.scaling {
                receive.clamp = receive.clamp.min(u32::from(u16::MAX));
            }
            env.count(Counter::TCPAutoTuned);
        }
    }

    /// tcp_sndbuf_expand: room for twice the congestion window, so that the program can fill it while the last one is acknowledged.
    pub(super) fn grow_send_buffer(&mut self, env: &mut Env<'_>, opening: bool) {
        if self.options.send_buffer.is_some() || !opening && !env.out.memory.may_grow(env.config) {
            return;
        }
        let segments =
            u64::from(self.control.window.cwnd_bytes / self.send.mss.max(1)).max(10).max(u64::from(self.recovery.reordering) + 1);
        // tcp_sndbuf_expand: "per_mss = roundup_pow_of_two(per_mss) + SKB_DATA_ALIGN(sizeof(struct sk_buff))", with MAX_TCP_HEADER and the shared info.
        let each = (u64::from(self.send.mss) + 640).next_power_of_two() + 256;
        let wanted = (2 * segments * each).min(u64::from(env.config.send_buffer[2])) as u32;
        if wanted > self.send.buffer {
            self.send.buffer = wanted;
            if !opening {
                self.grant_credit(env);
            }
        }
    }

    /// SO_SNDBUF of a connection that lives.
    pub(super) fn apply_send_buffer(&mut self, env: &mut Env<'_>) {
        let Some(buffer) = self.options.send_buffer else { return };
        self.send.buffer = buffer;
        // "Wake up sending tasks if we upped the value."
        self.return_credit(env);
    }

    /// SO_RCVBUF of a connection that lives.
    pub(super) fn apply_receive_buffer(&mut self) {
        let Some(buffer) = self.options.receive_buffer else { return };
        // sock_setsockopt knows nothing of the clamp.
        self.receive.buffer = buffer;
        self.receive.buffer_fixed = true;
    }

    /// SO_RCVLOWAT of a connection that lives (tcp_set_rcvlowat): "if (space > sk->sk_rcvbuf) { WRITE_ONCE(sk->sk_rcvbuf, space); if
    /// (tp->window_clamp && tp->window_clamp < val) WRITE_ONCE(tp->window_clamp, val); }".
    pub(super) fn apply_receive_low_water(&mut self, config: &Config) {
        let low_water = self.options.receive_low_water;
        let space = super::bounds::buffer_for(low_water, config.receive_buffer[2]);
        let receive = &mut self.receive;
        if !receive.buffer_fixed && space > receive.buffer {
            receive.buffer = space;
            receive.clamp = receive.clamp.max(low_water.min(space / 2));
        }
    }

    /// TCP_WINDOW_CLAMP of a connection that lives (tcp_set_window_clamp): what was promised already stays.
    pub(super) fn apply_window_clamp(&mut self) {
        let receive = &mut self.receive;
        let (old, new) = (receive.clamp, self.options.window_clamp);
        if new == 0 {
            return;
        }
        receive.clamp = new;
        receive.slow_start = if new < old { receive.slow_start.min(new) } else { receive.slow_start.max(receive.window_left().min(new)) };
    }

    /// What the field of a header can say, bytes.
    pub(super) fn largest_field(&self) -> u32 {
        if self.opening.agreed.scaling { u32::MAX } else { u32::from(u16::MAX) }
    }

    /// What both windows let out, in whole segments.
    pub(super) fn leaves_at_once(&self) -> u64 {
        let (room, mss) = (self.send_room().min(self.send.window_room()), self.send.mss.max(1));
        u64::from(room - room % mss)
    }

    /// TCP_NOTSENT_LOWAT of the socket, else of the node (tcp_notsent_lowat); `u32::MAX`: none.
    pub(super) fn low_water(&self, config: &Config) -> u32 {
        if self.options.unsent_low_water == u32::MAX { config.unsent_low_water } else { self.options.unsent_low_water }
    }

    /// Gives the sockets so much more room, and says from how much on a program may be told of it.
    pub(super) fn give_credit(&mut self, env: &mut Env<'_>, bytes: u64) {
        self.send.credit += bytes;
        let enough = self.low_water(env.config) / 2;
        env.out.messages.push(StreamMessage::Credit { flow: self.flow, bytes: bytes as u32, enough });
    }

    /// Acknowledged bytes are credit again.
    pub(super) fn return_credit(&mut self, env: &mut Env<'_>) {
        if self.orphan || self.send.fin_wanted {
            return;
        }
        self.grow_send_buffer(env, true);
        let (buffer, queued, credit) = (u64::from(self.send.buffer), self.send.queue.len(), self.send.credit);
        let (unsent, low_water) = (self.send.unsent(), u64::from(self.low_water(env.config)));
        let grant = buffer.saturating_sub(queued + credit).min(self.send.allowed_unsent(self.low_water(env.config)));
        // sk_stream_write_space, as tcp_poll: "sk_stream_wspace(sk) >= sk_stream_min_wspace(sk) && __sk_stream_memory_free(sk, wake)", that is, a third of
        // the buffer is free, and less than half of what may be is unsent. Who waits is let go on by that, not by every acknowledgment.
        let writable = buffer.saturating_sub(queued) >= queued / 2 && unsent * 2 < low_water;
        let starved = credit == 0 || credit < (buffer / 3).min(low_water / 2);
        // Whoever has enough is told of a third at a time.
        let worth = writable && (starved || grant * 3 >= buffer) || env.out.memory.is_short();
        if grant > 0 && worth {
            self.give_credit(env, grant);
        }
    }
}
