//! Sending: data of the [`Sender`](super::sender::Sender) is handed to subflows, and let go of when the peer has it.

use super::sender::Sender;
use super::{Connection, Path, Stage};
use crate::counters::Counter;
use crate::endpoint::Locals;
use crate::out::Out;
use crate::scheduler::{Asked, Choice, View};
use crate::word::Down;
use weft_core::{Advice, DataFlags, Duration, FlowId, StreamCall, StreamEvent, StreamMessage, StreamOption};

/// The first wait before the end is said again, and the longest (Linux's TCP_RTO_MIN and TCP_RTO_MAX).
const AGAIN_MIN: Duration = Duration::from_millis(200);
const AGAIN_MAX: Duration = Duration::from_secs(120);
/// Most choices upon one event: what a scheduler divides more finely goes on with the next acknowledgment.
const CHOICES_MAX: usize = 4096;
/// Segments that a subflow gets ahead of its window where so much follows, or always more: a mapping for the two that an acknowledgment makes room for
/// takes 0.8 % of a path; at the end they would wait for nothing.
const SEGMENTS_AHEAD: u64 = 4;
const MUCH_BYTES: u64 = 1 << 17;

/// Who writes for a scheduler that fills every path hears of so much room at least: of this part of the buffer, and of so many bytes. To be woken for
/// each acknowledgment costs more than sending what it makes room for.
const LENT_PART: u64 = 16;
const LENT_BYTES_MAX: u64 = 1 << 16;

impl Connection {
    /// DATA_ACK and window of the peer.
    pub(super) fn heard(&mut self, ack: u64, window_bytes: u32, out: &mut Out<'_, '_>) {
        let send = &mut self.send;
        let most = send.next + u64::from(send.end_said);
        if ack > most {
            // Of data that was never sent: of an earlier number it is, or nonsense (RFC 8684 §3.3.5 leaves the window where it was).
            return;
        }
        // "…the receive window is only updated if the largest sequence number allowed (i.e., DATA_ACK + receive window) increases".
        send.edge = send.edge.max(ack + u64::from(window_bytes));
        let progress = ack > send.una;
        if progress {
            send.una = ack.min(send.end);
            send.release();
            self.paths.iter_mut().for_each(|path| path.unmap(send.una));
        }
        if send.end_said && !send.end_heard && ack > send.end {
            send.end_heard = true;
            send.again_at = None;
            self.end_was_heard(out);
        }
        if progress {
            self.repair();
        }
        self.wait_for_ack(progress, out);
        self.grant(out);
        self.push(out);
    }

    /// The send buffer is as large as those of the subflows together, and never becomes smaller. Data that is on the longest path holds up what the others
    /// carry meanwhile, so it becomes "2 * sum(BW_i) * RTT_max" (RFC 6182 §5.3) if the subflows' may become as large; not for Linux's scheduler, as in Linux.
    /// With SO_SNDBUF it is that, of however many subflows (__mptcp_sync_sndbuf: "if (sk->sk_userlocks & SOCK_SNDBUF_LOCK) return").
    pub(super) fn measure_buffer(&mut self, out: &mut Out<'_, '_>) {
        if let Some(asked) = self.options.send_buffer {
            self.send.buffer = asked.into();
            return;
        }
        let paths = || self.paths.iter().filter(|path| path.may_send());
        let all: u64 = paths().map(Path::send_buffer).sum();
        let mut wanted = 0;
        if self.paths.len() > 1 && out.scheduler().lends() {
            let views = || paths().filter(|path| !path.suspect && path.room.rtt.is_some()).map(|path| path.view(self.checksum));
            let (rate, longest_s) = (views().map(|view| view.rate()).sum::<f64>(), views().map(|view| view.rtt_s()).fold(0.0, f64::max));
            let most: u64 = paths().map(|path| u64::from(path.room.send_bytes_max)).sum();
            wanted = ((2.0 * rate * longest_s) as u64).min(most);
        }
        self.send.buffer = self.send.buffer.max(all).max(wanted);
    }

    /// Sockets get as much credit as there is room for.
    pub(super) fn grant(&mut self, out: &mut Out<'_, '_>) {
        let send = &mut self.send;
        let allowed = send.una + send.buffer;
        if self.stage != Stage::Open || self.fallen_back || allowed <= send.granted || send.end_wanted {
            return;
        }
        let bytes = u32::try_from(allowed - send.granted).unwrap_or(u32::MAX);
        // sk_stream_is_writeable, as in tcp: who waits goes on when a third of the buffer is free, and who writes hears of a third at a time.
        let (queued, credit) = (send.end - send.una, send.granted - send.end);
        let writable = send.buffer.saturating_sub(queued) >= queued / 2;
        let worth = match out.scheduler().lends() {
            true => u64::from(bytes) >= (send.buffer / LENT_PART).min(LENT_BYTES_MAX),
            false => writable && (credit < send.buffer / 3 || u64::from(bytes) * 3 >= send.buffer),
        };
        if !worth {
            return;
        }
        send.granted += u64::from(bytes);
        out.up(StreamMessage::Credit { flow: self.flow, bytes, enough: send.enough });
    }

    /// Subflows leave their windows alone while the program waits for room in the connection's buffer (sk_stream_write_space takes SOCK_NOSPACE back).
    fn tell_writer_waits(&mut self, out: &mut Out<'_, '_>) {
        let waits = !self.fallen_back && self.send.end >= self.send.granted;
        for path in self.paths.iter_mut().filter(|path| path.may_send() && path.told_waits != waits) {
            path.told_waits = waits;
            out.down(StreamMessage::Advice { flow: path.flow, advice: Box::new(Advice::WriterWaits(waits)) });
        }
    }

    /// Credit for a subflow.
    pub(crate) fn on_credit(&mut self, index: usize, bytes: u32, enough: u32, out: &mut Out<'_, '_>) {
        self.paths[index].credit += u64::from(bytes);
        self.send.enough = enough;
        if self.fallen_back {
            return self.push_plain(out);
        }
        self.measure_buffer(out);
        self.grant(out);
        self.push(out);
    }

    /// Hands data to subflows.
    pub(super) fn push(&mut self, out: &mut Out<'_, '_>) {
        self.tell_writer_waits(out);
        if self.fallen_back {
            return self.push_plain(out);
        }
        if self.stage != Stage::Open {
            return;
        }
        self.push_lost(out);
        for _ in 0..CHOICES_MAX {
            let Some(Choice { index, from, bytes }) = self.choose_for_new(out) else { break };
            let most = self.edge_for_new().min(self.send.end);
            let from = from.clamp(self.send.una, self.send.next);
            let bytes = most.saturating_sub(from).min(bytes).min(self.paths[index].credit);
            if bytes == 0 {
                break;
            }
            if from < self.send.next {
                out.count(Counter::CopiesTx);
            }
            self.hand_down(index, from, bytes, out);
        }
        self.help_the_slow(out);
        self.wait_for_ack(false, out);
        if self.send.end_wanted && !self.send.end_said && self.send.unsent() == 0 {
            self.say_end(out);
        }
    }

    /// What is to go again goes first. With another subflow than the one that has it, if there is one.
    fn push_lost(&mut self, out: &mut Out<'_, '_>) {
        while let Some((start, end, holder)) = self.send.first_lost() {
            let Some(Choice { index, .. }) = self.choose_again(holder, (start, end), out) else { break };
            let bytes = (end - start).min(self.paths[index].credit);
            if bytes == 0 {
                break;
            }
            out.count(Counter::MPTCPRetrans);
            self.hand_down(index, start, bytes, out);
            self.send.found(start + bytes);
        }
    }

    /// New data may go up to here.
    fn edge_for_new(&self) -> u64 {
        // Nothing is out whose acknowledgment could open the window: one byte goes to tcp, which probes (RFC 9293 §3.8.6.1).
        let probe = self.send.edge <= self.send.next && self.send.una == self.send.next;
        if probe { self.send.next + 1 } else { self.send.edge }
    }

    /// The subflow that gets the next data, and which and how much of it.
    fn choose_for_new(&mut self, out: &mut Out<'_, '_>) -> Option<Choice> {
        if self.send.unsent() == 0 && !out.scheduler().repeats() || self.send.una == self.send.end {
            return None;
        }
        let mut paths = self.views(None, out.locals);
        if self.send.end >= self.send.granted || self.send.unsent() >= MUCH_BYTES {
            paths.iter_mut().for_each(|(_, view)| view.ahead_segments = SEGMENTS_AHEAD);
        }
        let edge = self.edge_for_new();
        match paths[..] {
            [] => None,
            // tcp knows best how to cut what has one way only. Where another may be there soon it gets no more than its scheduler says.
            [(index, _)] if self.confirmed && self.paths.len() == 1 => Some(Choice { index, from: self.send.next, bytes: u64::MAX }),
            _ => {
                let Sender { una, next, end, granted, .. } = self.send;
                let asked = Asked { paths: &paths, una, next, end, more: end >= granted, edge, again: false };
                out.choose(&asked, &mut self.scheduled)
            }
        }
    }

    /// The subflow that gets what is to go again. Not its holder.
    fn choose_again(&mut self, holder: Option<FlowId>, (next, end): (u64, u64), out: &mut Out<'_, '_>) -> Option<Choice> {
        let paths = self.views(holder, out.locals);
        match paths[..] {
            [] => None,
            [(index, _)] => Some(Choice { index, from: next, bytes: u64::MAX }),
            _ => {
                let asked = Asked { paths: &paths, una: self.send.una, next, end, more: false, edge: end, again: true };
                out.choose(&asked, &mut self.scheduled)
            }
        }
    }

    /// The subflows that may send, as a scheduler sees them: those whose tcp does not wait in vain, if there are any. Not `but`.
    fn views(&self, but: Option<FlowId>, locals: &Locals) -> Vec<(usize, View)> {
        let usable = |path: &Path| path.may_send() && Some(path.flow) != but;
        let any_good = self.paths.iter().any(|path| usable(path) && !path.suspect);
        let paths = self.paths.iter().enumerate().filter(|(_, path)| usable(path) && path.suspect != any_good);
        let view = |path: &Path| View { interface: locals.interface(path.local.ip()).0, ..path.view(self.checksum) };
        paths.map(|(index, path)| (index, view(path))).collect()
    }

    /// Data from `from` on to a subflow.
    pub(super) fn hand_down(&mut self, index: usize, from: u64, bytes: u64, out: &mut Out<'_, '_>) {
        out.uses(self.paths[index].local.ip(), bytes);
        if from < self.send.next {
            let again = bytes.min(self.send.next - from);
            self.paths[index].again += again;
            self.again += again;
        }
        let (path, send) = (&mut self.paths[index], &mut self.send);
        let slices = send.slices(from, bytes);
        let last = slices.len().saturating_sub(1);
        let mut next = from;
        for (at, bytes) in slices.into_iter().enumerate() {
            let length = bytes.len() as u64;
            let mapping = if self.fallen_back { 0 } else { next.wrapping_sub(path.sent) };
            path.map(next, next + length);
            (path.sent, path.credit, next) = (path.sent + length, path.credit - length, next + length);
            path.room.unsent_bytes += length;
            send.next = send.next.max(next);
            let is_end = at == last && next == send.end;
            let flags = DataFlags {
                more: if is_end { send.flags.0 && !send.end_wanted } else { at < last },
                record_end: is_end && send.flags.1,
                ..DataFlags::default()
            };
            out.down(StreamMessage::Data { flow: path.flow, bytes, flags, mapping });
        }
    }

    /// Hands data to the one subflow of a connection that has fallen back.
    pub(super) fn push_plain(&mut self, out: &mut Out<'_, '_>) {
        let bytes = self.send.unsent().min(self.paths[0].credit);
        if bytes > 0 {
            self.hand_down(0, self.send.next, bytes, out);
        }
        // tcp keeps it.
        self.send.una = self.send.next;
        self.send.release();
        self.level(out);
    }

    /// Nothing waits for more on a subflow: no FIN tells its tcp that all is there (tcp_nagle_test lets the last segment go with FIN), and the rest of the
    /// data would come a round trip later.
    fn let_all_go(&mut self, out: &mut Out<'_, '_>) {
        for flow in self.paths.iter().filter(|path| path.may_send() && path.room.unsent_bytes > 0).map(|path| path.flow) {
            if self.options.cork {
                out.call(flow, StreamCall::Set(StreamOption::Cork(false)));
            }
            if !self.options.nodelay {
                out.call(flow, StreamCall::Set(StreamOption::Nodelay(true)));
            }
        }
    }

    /// The stream ends: DATA_FIN.
    fn say_end(&mut self, out: &mut Out<'_, '_>) {
        self.let_all_go(out);
        self.send.end_said = true;
        self.send.again = 0;
        self.say_end_again(out);
    }

    pub(super) fn say_end_again(&mut self, out: &mut Out<'_, '_>) {
        let wait = AGAIN_MIN.saturating_mul(1 << self.send.again.min(16)).min(AGAIN_MAX);
        self.send.again += 1;
        self.send.again_at = Some(out.now() + wait);
        // By another subflow each time, should one be cut.
        let usable: Vec<usize> = (0..self.paths.len()).filter(|index| self.paths[*index].may_send()).collect();
        if let Some(index) = usable.get((self.send.again as usize - 1) % usable.len().max(1)) {
            out.word(self.paths[*index].flow, &Down::End(self.send.end));
        }
    }

    /// The peer has everything, and knows that it is all.
    fn end_was_heard(&mut self, out: &mut Out<'_, '_>) {
        out.event(self.flow, StreamEvent::SendQueueEmpty);
        self.end_if_over(out);
    }
}
