//! TIME-WAIT as a compact record (RFC 9293 §3.6.1, RFC 6191, RFC 1337, as Linux's tcp_timewait_state_process).

use super::ingress::bare;
use super::record::Record;
use super::tables::{Kind, Tuple, token};
use super::{FlowOwner, Owner, TcpBlock, UPPER};
use crate::connection::{Finished, Headers};
use crate::counters::Counter;
use weft_core::table::{Answer, FlowTimer};
use weft_core::{Context, FlowId, Frame, Instant, Reason, StreamEvent, StreamMessage};
use weft_wire::tcp::{Flags, Segment, Seq, Timestamps};

impl TcpBlock {
    /// A connection is over but for TIME-WAIT.
    pub(super) fn begin_time_wait(&mut self, key: u64, wait: crate::connection::TimeWait, cx: &mut Context<'_>) {
        if self.time_waits.len() >= self.settings.time_wait_max as usize {
            self.out.counters.add(Counter::TCPTimeWaitOverflow, 1);
            return self.release(key, cx);
        }
        let Some(slot) = self.connections.remove(key) else { return };
        self.forget_memory(&slot, cx);
        if slot.timer != Instant::FAR_FUTURE {
            cx.cancel_timer(token(Kind::Connection, key));
        }
        debug_assert!(matches!(slot.connection.finished(), Finished::TimeWait(_)));
        let tuple = Tuple { local: slot.connection.local(), remote: slot.connection.remote() };
        let flow = slot.connection.flow();
        let until = cx.now + self.settings.time_wait;
        let record = self.time_waits.insert(Record { tuple, flow, wait, until, answered: None });
        self.tuples.insert(tuple, Owner::TimeWait(record));
        self.flows.insert(flow, FlowOwner::TimeWait(record));
        if self.ending.is_empty() {
            cx.set_timer(token(Kind::TimeWaits, 0), until);
        }
        self.ending.push_back((until, record));
        self.out.counters.add(Counter::TW, 1);
        self.out.counters.add(Counter::TCPTimeWaitNow, 1);
        cx.send(UPPER, StreamMessage::Event { flow, event: Box::new(StreamEvent::TimeWait) });
    }

    /// [`weft_core::Query::FlowTimer`].
    pub(super) fn flow_timer(&self, flow: FlowId, now: Instant) -> Answer {
        match self.flows.get(&flow) {
            Some(FlowOwner::Connection(key)) => {
                self.connections.get(*key).map_or(Answer::None, |slot| Answer::FlowTimer(slot.connection.shown_timer(now)))
            }
            Some(FlowOwner::TimeWait(key)) => self.time_waits.get(*key).map_or(Answer::None, |record| {
                let left = if record.until > now { (record.until - now).as_millis() } else { 0 };
                Answer::FlowTimer(FlowTimer { kind: 3, retransmits: 0, expires_ms: u32::try_from(left).unwrap_or(u32::MAX) })
            }),
            Some(FlowOwner::Listener(_)) | None => Answer::None,
        }
    }

    pub(super) fn end_time_wait(&mut self, key: u64, cx: &mut Context<'_>) -> Option<Record> {
        let record = self.time_waits.remove(key)?;
        self.tuples.swap_remove(&record.tuple);
        self.flows.swap_remove(&record.flow);
        self.out.counters.subtract(Counter::TCPTimeWaitNow, 1);
        self.tell_released(record.flow, cx);
        Some(record)
    }

    pub(super) fn on_time_wait_timer(&mut self, cx: &mut Context<'_>) {
        while let Some((at, key)) = self.ending.front().copied() {
            if at > cx.now {
                cx.set_timer(token(Kind::TimeWaits, 0), at);
                return;
            }
            self.ending.pop_front();
            match self.time_waits.get(key).map(|record| record.until) {
                Some(until) if until > cx.now => self.ending.push_back((until, key)),
                Some(_) => {
                    self.end_time_wait(key, cx);
                }
                None => {}
            }
        }
    }

    pub(super) fn on_time_wait_segment(&mut self, key: u64, segment: &Segment, frame: Frame, cx: &mut Context<'_>) {
        let (now, time_wait) = (cx.now, self.settings.time_wait);
        let rfc1337 = self.settings.rfc1337;
        let Some(record) = self.time_waits.get_mut(key) else { return };
        let stamp = segment.options.timestamps;
        let old = match (stamp, record.wait.timestamp) {
            (Some(stamp), Some(recent)) => (stamp.value.wrapping_sub(recent) as i32) < 0,
            _ => false,
        };
        let length = segment.sequence_len(frame.len() as u32);
        let (is_reset, is_ack) = (segment.flags.contains(Flags::RST), segment.flags.contains(Flags::ACK));
        if !old && segment.seq == record.wait.receive_next && (length == 0 || is_reset) {
            // "In window segment, it may be only reset or bare ack."
            if is_reset && !rfc1337 {
                self.end_time_wait(key, cx);
            } else {
                record.until = now + time_wait;
                if let (Some(stamp), Some(_)) = (stamp, record.wait.timestamp) {
                    record.wait.timestamp = Some(stamp.value);
                    record.wait.timestamp_at = now;
                }
            }
            return;
        }
        // RFC 9293 §3.6.1 and RFC 6191 §2: a new SYN above the old connection's numbers, or with a later timestamp, opens a new one.
        let newer_stamp =
            matches!((stamp, record.wait.timestamp), (Some(stamp), Some(recent)) if (recent.wrapping_sub(stamp.value) as i32) < 0);
        let is_syn = segment.flags.contains(Flags::SYN) && !is_reset && !is_ack;
        if is_syn && !old && (segment.seq.gt(record.wait.receive_next) || newer_stamp) {
            // Linux: tw_snd_nxt + 65535 + 2, so that the old connection's segments are below it.
            let (tuple, initial) = (record.tuple, record.wait.send_next + 65_537);
            if let Some(listener) = self.find_listener(&tuple, frame.meta().interface) {
                self.out.counters.add(Counter::TWRecycled, 1);
                self.end_time_wait(key, cx);
                return self.on_listener_segment(listener, &tuple, segment, frame, Some(initial), cx);
            }
        }
        if old {
            self.out.counters.add(Counter::PAWSEstab, 1);
        }
        if !is_reset {
            if let Some(record) = self.time_waits.get_mut(key).filter(|_| old || is_ack) {
                record.until = now + time_wait;
            }
            // tcp_oow_rate_limited: "Data packets without SYNs are not likely part of an ACK loop."
            self.answer_time_wait(key, length == 0 || segment.flags.contains(Flags::SYN), cx);
        }
        cx.drop(frame, if old { Reason::TcpPaws } else { Reason::TcpUnacceptable });
    }

    /// RFC 9293 §3.10.7.4: in TIME-WAIT, "acknowledge it, and restart the 2 MSL timeout".
    fn answer_time_wait(&mut self, key: u64, limited: bool, cx: &mut Context<'_>) {
        let Some(record) = self.time_waits.get_mut(key) else { return };
        if limited {
            if record.answered.is_some_and(|at| cx.now - at < self.settings.invalid_ratelimit) {
                return;
            }
            record.answered = Some(cx.now);
        }
        let wait = record.wait;
        let tuple = record.tuple;
        let mut ack = Segment {
            src_port: tuple.local.port(),
            dst_port: tuple.remote.port(),
            seq: wait.send_next,
            ack: wait.receive_next,
            flags: Flags::ACK,
            window: wait.window,
            ..Segment::default()
        };
        if let Some(recent) = wait.timestamp {
            let value = (cx.now.as_millis() as u32).wrapping_add(wait.timestamp_offset);
            ack.options.timestamps = Some(Timestamps { value, echo: recent });
        }
        let to = Headers { tos: wait.tos, ttl: wait.ttl, mark: wait.mark, ..bare(&tuple) };
        self.emit_bare(&ack, &to);
        self.flush(cx);
    }

    /// May a new connection from here take over the four-tuple? RFC 6191 §2 asks for timestamps that grow; how old it must be, and between
    /// which addresses (tcp_tw_reuse), the sockets have decided. Returns the number it must begin above.
    pub(super) fn reuse_time_wait(&mut self, key: u64, cx: &mut Context<'_>) -> Option<Seq> {
        let record = self.time_waits.get(key)?;
        record.wait.timestamp?;
        let initial = record.wait.send_next + 65_537;
        self.out.counters.add(Counter::TWRecycled, 1);
        self.end_time_wait(key, cx);
        Some(initial)
    }
}
