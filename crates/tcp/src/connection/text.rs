//! Receiving text: what is delivered, what is kept, and when it is acknowledged.

use super::deadlines::Timer;
use super::{Connection, State};
use crate::counters::Counter;
use crate::outbox::Env;
use weft_core::{DataFlags, Frame, Reason, StreamMessage};
use weft_wire::tcp::Flags;

impl Connection {
    /// Text that begins at `start`, with FIN behind it or not. In order it is delivered, ahead of a gap it is kept.
    pub(super) fn receive_text(&mut self, env: &mut Env<'_>, start: u64, mut frame: Frame, flags: Flags) {
        let fin = flags.contains(Flags::FIN);
        let end = start + frame.len() as u64;
        let next = self.receive.next;
        if end < next || (end == next && !fin && start < next) {
            // All of it is known: RFC 2883 §4.1.
            self.receive.note_duplicate(env, self.opening.agreed.sack, start, end, Counter::TCPDSACKOldSent);
            env.refuse(Reason::TcpOldAck);
            return;
        }
        let is_bare_fin = frame.is_empty();
        if start < next {
            // tcp_data_queue: "Partial packet, seq < rcv_next < end_seq".
            self.receive.report_duplicate(env, self.opening.agreed.sack, start, next, Counter::TCPDSACKOldSent);
            // Cannot fail: end >= next.
            let _ = frame.pull((next - start) as usize);
        }
        let start = start.max(next);
        if start >= self.receive.edge() && !(start == next && is_bare_fin) {
            // tcp_data_queue: "Out of window. F.e. zero window probe."
            if start == next {
                env.count(Counter::TCPZeroWindowDrop);
            }
            self.receive.ack.now = true;
            return env.refuse(Reason::TcpUnacceptable);
        }
        if start > next {
            return self.keep_out_of_order(env, start, end, &frame, fin);
        }
        if !self.has_memory(env, frame.len() as u64) && self.unread() > 0 && !frame.is_empty() {
            // tcp_data_queue: "inet_csk(sk)->icsk_ack.pending |= (ICSK_ACK_NOMEM | ICSK_ACK_NOW); … if (skb_queue_len(&sk->sk_receive_queue) &&
            // skb->len) { … NET_INC_STATS(sock_net(sk), LINUX_MIB_TCPRCVQDROP); goto drop; }"
            (self.receive.ack.no_memory, self.receive.ack.now) = (true, true);
            env.count(Counter::TCPRcvQDrop);
            return env.refuse(Reason::TcpMemory);
        }
        self.receive.measure(env, &self.recovery.rtt, &frame, flags.contains(Flags::PSH));
        self.deliver(env, frame, end);
        if let Some((first, last)) = self.receive.queue.known(next, end) {
            // tcp_ofo_queue: "tcp_dsack_extend(sk, TCP_SKB_CB(skb)->seq, dsack)", of what the gap's filling brought once more.
            self.receive.extend_duplicate(env, self.opening.agreed.sack, first, last);
        }
        let gap = !self.receive.queue.is_empty();
        let more = self.receive.queue.take(&mut self.receive.next);
        for bytes in more {
            env.count(Counter::TCPRcvCoalesce);
            self.receive.ack.now = true;
            self.hand_up(env, bytes);
        }
        if fin || self.receive.queue.fin == Some(self.receive.next) {
            self.receive.queue.clear();
            // FIN counts one.
            self.receive.next += 1;
            self.receive.fin_taken = true;
        }
        // RFC 5681 §4.2: "a TCP receiver SHOULD send an immediate ACK when the incoming segment fills in all or part of a gap". tcp_data_queue: "If gap is
        // filled, an immediate ACK is to be sent.", though all that waited behind it came once more.
        self.receive.ack.now |= gap && self.receive.queue.is_empty();
        self.receive.ack.gap |= !self.receive.queue.is_empty();
    }

    fn deliver(&mut self, env: &mut Env<'_>, frame: Frame, end: u64) {
        self.receive.next = end;
        for bytes in frame.into_payload() {
            self.hand_up(env, bytes);
        }
    }

    fn hand_up(&mut self, env: &mut Env<'_>, bytes: weft_core::Bytes) {
        let length = bytes.len() as u64;
        let offset = self.receive.delivered;
        self.totals.bytes_received += length;
        self.totals.last_data_in = env.now;
        // RFC 4861 §7.3.1: "Likewise, the arrival of new (non-duplicate) data indicates that earlier acknowledgments are being delivered".
        self.progress = true;
        self.receive.delivered += length;
        if self.read_closed || self.orphan {
            // Acknowledged and thrown away.
            self.receive.taken += length;
            return;
        }
        // tcp_epollin_ready: "tcp_receive_window(tp) <= inet_csk(sk)->icsk_ack.rcv_mss"
        let window_is_small = self.receive.window_left() <= self.receive.mss;
        let flags = DataFlags { window_is_small, ..DataFlags::default() };
        if self.extension.is_plain() {
            env.out.messages.push(StreamMessage::Data { flow: self.flow, bytes, flags, mapping: 0 });
        } else {
            self.hand_up_mapped(env, offset, bytes, flags);
        }
    }

    fn keep_out_of_order(&mut self, env: &mut Env<'_>, start: u64, end: u64, frame: &Frame, fin: bool) {
        // RFC 5681 §4.2: "A TCP receiver SHOULD send an immediate duplicate ACK when an out-of-order segment arrives."
        self.receive.ack.gap = true;
        if self.receive.queue.fin.is_some_and(|known| end > known || fin && end != known) {
            // A stream ends once, and nothing follows (row `tcp-behind-fin`).
            self.receive.ack.now = true;
            return env.refuse(Reason::TcpUnacceptable);
        }
        let own_room = self.receive.queue.cost() + frame.len() as u64 <= u64::from(self.receive.buffer);
        if !own_room || !self.has_memory(env, frame.len() as u64) {
            env.count(Counter::TCPOFODrop);
            self.receive.ack.now = true;
            env.refuse(Reason::TcpOutOfOrderFull);
            return;
        }
        self.totals.out_of_order = self.totals.out_of_order.wrapping_add(1);
        env.count(Counter::TCPOFOQueue);
        let last = end + u64::from(fin);
        if self.receive.place_among_reported(start, last) >= super::compression::BLOCKS_EXPECTED {
            self.send_compressed_now(env);
        }
        match self.receive.queue.known(start, last) {
            // tcp_data_queue_ofo: "All the bits are present."
            Some((first, known)) if (first, known) == (start, last) => {
                self.receive.note_duplicate(env, self.opening.agreed.sack, start, last, Counter::TCPDSACKOfoSent);
            }
            // "Partial overlap."
            Some((first, known)) => self.receive.report_duplicate(env, self.opening.agreed.sack, first, known, Counter::TCPDSACKOfoSent),
            None => {}
        }
        let mut range = (start, last);
        if start < end {
            range = self.receive.queue.insert(start, frame);
        }
        if fin {
            range = self.receive.queue.keep_fin(end);
        }
        self.receive.remember_range(range);
    }

    /// Bytes that were delivered and that no program has taken.
    pub(crate) fn unread(&self) -> u64 {
        if self.orphan { 0 } else { self.receive.delivered - self.receive.taken }
    }

    /// Bytes that this connection holds, as far as the node's bound is concerned.
    pub(crate) fn memory(&self) -> u64 {
        self.unread() + self.receive.queue.cost() + self.send.queue.len()
    }

    /// Is there memory for a segment (tcp_try_rmem_schedule)? What waits out of order gives way to it.
    fn has_memory(&mut self, env: &mut Env<'_>, more: u64) -> bool {
        let admits =
            |own: u64, unread: u64, freed: u64, env: &Env<'_>| env.out.memory.admits(env.config, own, unread, more.saturating_sub(freed));
        let (own, unread) = (self.memory(), self.unread() + self.receive.queue.cost());
        if admits(own, unread, 0, env) {
            return true;
        }
        env.count(Counter::PruneCalled);
        // tcp_prune_queue: "else if (tcp_under_memory_pressure(sk)) tcp_adjust_rcv_ssthresh(sk);"
        self.receive.slow_start = self.receive.slow_start.min(4 * self.receive.announced_mss);
        let freed = self.receive.queue.cost();
        if freed == 0 {
            return false;
        }
        // tcp_prune_ofo_queue: "Reset SACK state. A conforming SACK implementation will do the same at a timeout based retransmit."
        env.count(Counter::OfoPruned);
        self.receive.queue.clear();
        admits(own - freed, unread - freed, freed, env)
    }

    /// RFC 9293 §3.8.6.3: "an ACK SHOULD be generated for at least every second full-sized segment … and MUST be generated within 0.5 seconds".
    pub(super) fn acknowledge_if_due(&mut self, env: &mut Env<'_>) {
        if self.waits_for_word(env) {
            return;
        }
        let gap = std::mem::take(&mut self.receive.ack.gap);
        if !self.receive.ack.wanted && !self.receive.ack.now && !gap {
            return;
        }
        let unacknowledged = self.receive.next - self.receive.last_ack_sent;
        let quick = self.receive.ack.quick > 0 && !self.receive.ack.interactive || self.options.quickack == Some(true);
        // __tcp_ack_snd_check: "… and right edge of window advances far enough. (tcp_recvmsg() will send ACK otherwise). If application uses SO_RCVLOWAT, we
        // want send ack now if we have not received enough bytes to satisfy the condition."
        let two_segments = unacknowledged > u64::from(self.receive.mss)
            && (self.unread() < u64::from(self.options.receive_low_water) || self.receive.select_window() >= self.receive.window);
        if self.receive.ack.now || quick || two_segments || self.state == State::Closed {
            return self.send_ack(env);
        }
        if gap {
            return self.acknowledge_or_compress(env);
        }
        self.timers.set_earlier(Timer::DelayedAck, env.now + self.receive.ack_delay(env.config, &self.options));
    }

    /// The delayed-ACK timer.
    pub(super) fn on_delayed_ack(&mut self, env: &mut Env<'_>) {
        if !self.receive.ack.wanted && !self.receive.ack.now {
            return;
        }
        self.receive.delay_ends(env.config, self.recovery.rtt.rto());
        env.count(Counter::DelayedACKs);
        self.send_ack(env);
    }
}
