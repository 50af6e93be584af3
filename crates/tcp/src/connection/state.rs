//! A connection as exported state: everything that it will act on, so that its successor sends what it would have sent.
//!
//! What can be told from the rest is not written but made anew (sums over segments, ranges), so that it cannot contradict it; what must hold
//! between the parts is checked before a connection is believed.

use super::bounds::SCALE_MAX;
use super::control::Control;
use super::opening::Opening;
use super::outstanding::{Outstanding, Sent};
use super::reassembly::Reassembly;
use super::receiver::Receiver;
use super::recovery::Recovery;
use super::send_queue::{Joined, SendQueue};
use super::sender::Sender;
use super::{Connection, Finished};
use crate::congestion;
use crate::extension::{Extension, Plain, Stored};
use crate::outbox::Env;
use crate::position::START;
use weft_core::state::{Damage, Field, Reader, Writer};
use weft_core::{Bytes, StreamError};

/// No position is beyond this: 4 EiB sent. Keeps sums of positions and lengths from overflowing.
const POSITION_MAX: u64 = 1 << 62;
/// No segment size, buffer or window is larger (RFC 7323 §2.3), bytes.
const BYTES_MAX: u32 = 1 << 30;

impl Connection {
    /// Is this the key that its frames name it by?
    pub(crate) fn is_known_by(&self, key: u64) -> bool {
        self.token == key
    }

    /// Can all of it be exported?
    pub(crate) fn is_exportable(&self) -> bool {
        self.finished == Finished::No
    }

    /// Its successor's settings name another congestion control, and its socket chose none: it goes on with that one, from the window that was.
    pub(crate) fn follow_default_control(&mut self, env: &mut Env<'_>) {
        if self.options.congestion.is_none() && self.control.algorithm.name() != env.config.congestion {
            let name = env.config.congestion.clone();
            // The parameter's check knows the names.
            let _ = self.change_control(env, &name);
        }
    }

    /// Another congestion control takes over.
    pub(super) fn change_control(&mut self, env: &mut Env<'_>, name: &str) -> Result<(), StreamError> {
        self.control.change(env.config, env.now, name, self.state.is_synchronised(), self.recovery.rtt.min_rtt())
    }

    fn check(&self) -> Result<(), Damage> {
        let (send, receive) = (&self.send, &self.receive);
        let positions = [
            send.una,
            send.next,
            send.window_seq,
            send.urgent,
            send.small,
            send.pushed,
            send.tail,
            self.send.queue.end(),
            receive.next,
            receive.window_base,
        ];
        let more = [receive.last_ack_sent, receive.urgent.unwrap_or(0), self.recovery.high, self.recovery.tlp_high.unwrap_or(0)];
        let counts = [
            send.credit,
            send.below,
            receive.delivered,
            self.send.delivery.bytes,
            self.send.delivery.round_end,
            self.send.delivery.app_limited,
        ];
        let sizes = [send.window, send.window_max, send.buffer, receive.window, receive.buffer, self.receive.announced_mss, self.path.mtu];
        let rules = [
            (positions.into_iter().chain(more).chain(counts).all(|at| at < POSITION_MAX), "a position beyond all"),
            (sizes.into_iter().all(|size| size <= BYTES_MAX), "a size beyond all"),
            ((START..=send.next).contains(&send.una), "more acknowledged than sent"),
            (send.next <= self.send.queue.end().max(START + 1) + 1, "more sent than there was"),
            (self.send.outstanding.back().is_none_or(|last| last.end() <= send.next), "a segment in flight that was never sent"),
            (self.send.outstanding.front().is_none_or(|first| first.start >= START), "a segment before the first"),
            (receive.window_base <= receive.next && receive.taken <= receive.delivered, "more taken than came"),
            (send.scale <= SCALE_MAX && receive.scale <= SCALE_MAX, "a window shift above 14"),
            ((1..=BYTES_MAX).contains(&self.send.mss) && (1..=BYTES_MAX).contains(&receive.mss), "a segment size of nothing"),
            (self.send.marks.is_sound() && self.send.marks.highest() <= self.send.queue.end(), "marks beyond what was written"),
            (self.local.is_ipv4() == self.remote.is_ipv4(), "addresses of two families"),
        ];
        rules
            .into_iter()
            .try_for_each(|(holds, why)| if holds { Ok(()) } else { Err(Damage::new(format_args!("a connection with {why}"))) })
    }
}

/// An extension as state within state; none for the plain one.
pub(crate) fn write_extension(extension: Option<&dyn Extension>, out: &mut Writer) {
    let now = out.now();
    out.put(&extension.filter(|one| !one.is_plain()).map(|one| one.export(now)));
}

/// The version of tcp's state in which no connection has an extension.
pub(crate) const STATE_WITHOUT_EXTENSIONS: u32 = 4;
/// The last in which a send queue does not say how much more it joins.
const STATE_WITHOUT_ROOM_TO_JOIN: u32 = 5;
/// The last in which a connection does not know whether a buffer above its own is full.
const STATE_WITHOUT_WRITERS: u32 = 7;

/// The same, until the block that reads it makes it what it is.
pub(crate) fn read_extension(from: &mut Reader<'_>) -> Result<Option<Box<dyn Extension>>, Damage> {
    if from.version() <= STATE_WITHOUT_EXTENSIONS {
        return Ok(None);
    }
    let state: Option<weft_core::State> = from.take()?;
    Ok(state.map(|state| Box::new(Stored(state)) as Box<dyn Extension>))
}

/// Writes and reads the fields: whose they are (the first list, a pattern and an expression in one), and in which order they are written (the
/// second), which is older than their owners.
///
/// The clock of timestamps is written as it stands: on another clock it goes on from there.
macro_rules! connection {
    (
        owners: $shape_of:ident { $($shape:tt)+ }
        by hand: $offset:ident, $extension:ident, $algorithm:ident, $finished:ident, $writer_waits:ident;
        order: $($field:ident),+ $(,)?
    ) => {
        impl Field for Connection {
            fn write(&self, out: &mut Writer) {
                // Whoever adds a field decides here whether it is state.
                let $shape_of { $($shape)+ } = self;
                let (_, _) = ($offset, $finished);
                out.put(&self.opening.timestamp(out.now()));
                $(out.put($field);)+
                out.content($algorithm.name().as_bytes());
                $algorithm.export(out);
                write_extension(Some(&**$extension), out);
                out.put($writer_waits);
            }
            fn read(from: &mut Reader<'_>) -> Result<Connection, Damage> {
                let stamp: u32 = from.take()?;
                let $offset = stamp.wrapping_sub(from.now().as_millis() as u32);
                $(let $field = from.take()?;)+
                let name = String::from_utf8_lossy(from.content()?);
                let mut $algorithm =
                    congestion::by_name(&name).ok_or_else(|| Damage::new(format_args!("there is no congestion control {name:?}")))?;
                $algorithm.import(from)?;
                let ($extension, $finished) = (read_extension(from)?.unwrap_or_else(|| Box::new(Plain)), Finished::No);
                let $writer_waits = from.version() > STATE_WITHOUT_WRITERS && from.take()?;
                let connection = $shape_of { $($shape)+ };
                connection.check()?;
                Ok(connection)
            }
        }
    };
}

connection!(
    owners: Connection {
        flow, token, local, remote, state, options, extension, path, path_mtu, timers, keepalive_unanswered, last_unacceptable,
        orphan, read_closed, failed, soft_error, finished, totals, progress,
        opening: Opening { agreed, timestamp_offset, sent_at, measured, retransmitted, fast_open, ecn_asked },
        send: Sender {
            space: send_space, una, next: send_next, window: send_window, window_max, window_seq, scale: send_scale, peer_mss,
            urgent: send_urgent, small, fin_wanted, fin_sent, credit, buffer: send_buffer, more, pushed, tail, last_data, below,
            below_blocked, queue, outstanding, marks, mss, delivery, probes_unanswered, probing_since,
            writer_waits,
        },
        receive: Receiver {
            space: receive_space, next: receive_next, window_base, window: receive_window, scale: receive_scale,
            buffer: receive_buffer, buffer_fixed, clamp, slow_start, delivered, taken, queue: receive_queue, recent, duplicate, fin_taken,
            mss: receive_mss, ack, timestamp, timestamp_at, last_ack_sent, last_echo_seen, urgent: receive_urgent,
            rtt: receive_rtt, rtt_mark, last_echo, tuning_since, tuning_from, tuning_space, compression, announced_mss, ecn_echo,
            ecn_seen,
        },
        recovery: Recovery {
            phase, high, duplicate_acks, undo_marker, undo_retransmissions, retransmit_stamp, frto, tlp_high, tlp_retransmitted,
            prr_allowed, rack, reordering, reordering_seen, timeouts, timeouts_since, prr, rtt,
        },
        control: Control { window, algorithm, seed, usage, pacer, cwr_due },
    }
    by hand: timestamp_offset, extension, algorithm, finished, writer_waits;
    order:
        flow, token, local, remote, state, options, path, path_mtu, agreed, send_space, una, send_next, send_window, window_max,
        window_seq, send_scale, peer_mss, send_urgent, small, fin_wanted, fin_sent, credit, send_buffer, more, pushed, tail,
        last_data, below, below_blocked, queue, outstanding, receive_space, receive_next, window_base, receive_window,
        receive_scale, receive_buffer, buffer_fixed, clamp, slow_start, delivered, taken, receive_queue, recent, duplicate,
        fin_taken, receive_mss, ack, timestamp, timestamp_at, last_ack_sent, last_echo_seen, receive_urgent, receive_rtt,
        rtt_mark, last_echo, tuning_since, tuning_from, tuning_space, compression, mss, announced_mss, rtt, window, seed, usage,
        prr, pacer, phase, high, duplicate_acks, undo_marker, undo_retransmissions, retransmit_stamp, frto, tlp_high,
        tlp_retransmitted, prr_allowed, rack, reordering, reordering_seen, timeouts, timeouts_since, delivery, ecn_asked,
        ecn_echo, cwr_due, ecn_seen, fast_open, timers, keepalive_unanswered, probes_unanswered, probing_since, last_unacceptable,
        orphan, read_closed, failed, soft_error, sent_at, measured, retransmitted, totals, marks, progress
);

/// The pieces follow each other without gaps: their positions are told by their lengths. What is still being joined is copied.
impl Field for SendQueue {
    fn write(&self, out: &mut Writer) {
        let (start, first, chunks, joined) = self.parts();
        out.number(start);
        out.number(first);
        out.number(chunks.len() as u64);
        for (bytes, mapping) in chunks {
            out.put(bytes);
            out.put(mapping);
        }
        out.content(joined.bytes);
        out.number(joined.mapping);
        out.number(joined.room as u64);
    }
    fn read(from: &mut Reader<'_>) -> Result<SendQueue, Damage> {
        let (start, first): (u64, u64) = from.take()?;
        let count = from.count(usize::MAX)?;
        let mut queue = SendQueue::new(first.min(POSITION_MAX));
        for _ in 0..count {
            let (bytes, mapping): (Bytes, u64) = from.take()?;
            if bytes.is_empty() {
                return Err(Damage::new("an empty piece in a send queue"));
            }
            queue.push_whole(bytes, mapping);
        }
        let (bytes, mapping) = (from.content()?, from.take()?);
        let joined = match from.version() <= STATE_WITHOUT_ROOM_TO_JOIN {
            true => Joined::without_room(bytes, mapping),
            false => Joined { bytes, mapping, room: from.take::<u32>()? as usize },
        };
        if !queue.reopen(joined) {
            return Err(Damage::new("a send queue that joins more than it can"));
        }
        if !(first..=queue.end()).contains(&start) {
            return Err(Damage::new("a send queue that begins elsewhere than its first piece"));
        }
        queue.begins_at(start);
        Ok(queue)
    }
}

/// Segments follow each other without gaps; flags are one byte; the order of transmissions is mostly theirs.
impl Field for Outstanding {
    fn write(&self, out: &mut Writer) {
        out.number(self.len() as u64);
        out.number(self.front().map_or(0, |first| first.start));
        for sent in self.iter() {
            out.number(sent.len.into());
            let flags = [sent.sacked, sent.lost, sent.retransmitted, sent.ever_retransmitted, sent.fin, sent.app_limited, sent.pushed];
            out.byte(flags.iter().enumerate().fold(0, |bits, (at, flag)| bits | u8::from(*flag) << at));
            out.put(&sent.sent_at);
            out.number(sent.mapping);
            out.number(sent.delivered);
            out.put(&sent.delivered_at);
            out.put(&sent.first_sent_at);
        }
        let order = self.order();
        let usual = order.len() == self.len() && order.iter().zip(self.iter()).all(|(at, sent)| *at == (sent.sent_at, sent.start));
        out.put(&!usual);
        if !usual {
            out.put(order);
        }
        out.number(self.duplicate_bytes);
        out.number(self.lost_ever);
    }
    fn read(from: &mut Reader<'_>) -> Result<Outstanding, Damage> {
        let count = from.count(usize::MAX)?;
        let mut start = from.number()?;
        let mut all = Outstanding::with_capacity(count);
        for _ in 0..count {
            let (len, flags): (u32, u8) = from.take()?;
            let flag = |at: u8| flags & 1 << at != 0;
            let sent = Sent {
                start,
                len,
                sacked: flag(0),
                lost: flag(1),
                retransmitted: flag(2),
                ever_retransmitted: flag(3),
                fin: flag(4),
                app_limited: flag(5),
                pushed: flag(6),
                sent_at: from.take()?,
                mapping: from.take()?,
                delivered: from.take()?,
                delivered_at: from.take()?,
                first_sent_at: from.take()?,
            };
            if len == 0 || len > BYTES_MAX || start > POSITION_MAX || flags >= 1 << 7 || sent.sacked && (sent.lost || sent.retransmitted) {
                return Err(Damage::new("a segment in flight that cannot be"));
            }
            start = sent.end();
            all.restore(sent);
        }
        if from.take()? {
            all.set_order(from.take()?);
        }
        (all.duplicate_bytes, all.lost_ever) = from.take()?;
        Ok(all)
    }
}

impl Field for Reassembly {
    fn write(&self, out: &mut Writer) {
        out.number(self.pieces().len() as u64);
        for (start, (bytes, _)) in self.pieces() {
            out.number(*start);
            out.put(bytes);
        }
        out.put(&self.fin);
    }
    fn read(from: &mut Reader<'_>) -> Result<Reassembly, Damage> {
        let mut queue = Reassembly::default();
        for _ in 0..from.count(usize::MAX)? {
            let (start, bytes): (u64, Bytes) = from.take()?;
            if bytes.is_empty() || start > POSITION_MAX || !queue.restore(start, bytes) {
                return Err(Damage::new("out-of-order data that is out of order itself"));
            }
        }
        queue.fin = from.take()?;
        if let Some(at) = queue.fin {
            queue.keep_fin(at.min(POSITION_MAX));
        }
        Ok(queue)
    }
}
