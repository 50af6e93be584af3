//! Credit in both directions: what the program may write, as the send buffer grows and empties, and what it has taken of what came.

use super::Connection;
use crate::config::Config;
use crate::outbox::Env;
use weft_core::StreamMessage;

impl Connection {
    /// The sockets' program has taken `bytes`.
    pub fn on_credit(&mut self, env: &mut Env<'_>, bytes: u32) {
        let receive = &mut self.receive;
        receive.taken = (receive.taken + u64::from(bytes)).min(receive.delivered);
        self.receive.tune_buffer(&self.options, self.opening.agreed.scaling, env);
        // tcp_cleanup_rbuf: what was read up to a PSH is acknowledged after the peer's FIN, too.
        if bytes > 0 && self.state.is_synchronised() && self.receive.is_ack_due_after_read(self.unread()) {
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

    /// What both windows let out, in whole segments.
    pub(super) fn leaves_at_once(&self) -> u64 {
        let (room, mss) = (self.send_room().min(self.send.window_room()), self.send.mss.max(1));
        u64::from(room - room % mss)
    }

    /// TCP_NOTSENT_LOWAT of the socket, else of the node (tcp_notsent_lowat); `u32::MAX`: none.
    pub(super) fn low_water(&self, config: &Config) -> u32 {
        if self.options.unsent_low_water == u32::MAX { config.unsent_low_water } else { self.options.unsent_low_water }
    }

    /// How much the sockets may hand down, told when it changed.
    pub(super) fn grant_credit(&mut self, env: &mut Env<'_>) {
        let used = self.send.queue.len() + self.send.credit;
        let free = u64::from(self.send.buffer).saturating_sub(used).min(self.send.allowed_unsent(self.low_water(env.config)));
        if free > 0 && !self.orphan && !self.send.fin_wanted {
            self.give_credit(env, free);
        }
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
