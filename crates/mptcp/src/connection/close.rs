//! The end of a connection: in order, by MP_FASTCLOSE, and because its subflows are gone.

use super::{Connection, Stage};
use crate::counters::Counter;
use crate::out::Out;
use crate::word::{Down, Why};
use weft_core::{Duration, StreamCall, StreamError, StreamEvent};

impl Connection {
    /// The program lets go of the connection.
    pub(super) fn close(&mut self, unread: bool, linger: Option<Duration>, out: &mut Out<'_, '_>) {
        self.closed = true;
        if self.stage == Stage::Opening {
            return out.call(self.flow, StreamCall::Close { unread, linger });
        }
        // mptcp_close: "If the msk has read data, or the caller explicitly ask it, do the MPTCP equivalent of TCP reset, aka MPTCP fastclose".
        if unread || linger == Some(Duration::ZERO) {
            return self.fast_close(out);
        }
        self.send.end_wanted = true;
        self.push(out);
        if self.stage == Stage::Open {
            self.gives_up_at = Some(out.now() + out.settings.close_timeout);
        }
    }

    /// Ends it at once: every subflow is reset, and the resets say that all of it is over (RFC 8684 §3.5).
    pub(super) fn fast_close(&mut self, out: &mut Out<'_, '_>) {
        self.abort_paths(Why::FastClose, out);
        self.finish(Stage::Failed, out);
    }

    fn abort_paths(&mut self, why: Why, out: &mut Out<'_, '_>) {
        for path in self.paths.iter_mut().filter(|path| !path.released) {
            path.closed = true;
            out.word(path.flow, &Down::Reset(why));
            out.call(path.flow, StreamCall::Abort);
        }
    }

    /// The peer has ended it at once.
    pub(super) fn fast_closed(&mut self, out: &mut Out<'_, '_>) {
        if self.stage == Stage::Failed {
            return;
        }
        self.fail(StreamError::Reset, out);
        self.abort_paths(Why::Reason { transient: false, reason: 0 }, out);
    }

    /// It has failed; sockets hear of it once.
    fn fail(&mut self, error: StreamError, out: &mut Out<'_, '_>) {
        self.finish(Stage::Failed, out);
        if !self.closed && !self.told_failed {
            self.told_failed = true;
            out.event(self.flow, StreamEvent::Failed(error));
        }
    }

    fn finish(&mut self, stage: Stage, out: &mut Out<'_, '_>) {
        if self.stage == Stage::Open {
            out.counters.less(Counter::MPCurrEstab);
        }
        self.stage = self.stage.max(stage);
        (self.send.again_at, self.gives_up_at) = (None, None);
    }

    /// Both streams have ended: so do the subflows. Each still takes what its peer sends (data that went twice), for as long as that sends: a reset in
    /// answer to it could outrun the acknowledgment of the peer's last data (Linux: mptcp_shutdown_subflows).
    pub(super) fn end_if_over(&mut self, out: &mut Out<'_, '_>) {
        if self.stage != Stage::Open || !self.send.end_heard || !self.receive.ended {
            return;
        }
        self.finish(Stage::Ending, out);
        self.gives_up_at = Some(out.now() + out.settings.close_timeout);
        for path in self.paths.iter_mut().filter(|path| !path.closed && !path.released) {
            path.closed = true;
            let end = if path.half_closed { StreamCall::Close { unread: false, linger: None } } else { StreamCall::ShutdownWrite };
            out.call(path.flow, end);
        }
    }

    /// The peer sends nothing more on a subflow.
    pub(super) fn path_half_closed(&mut self, index: usize, out: &mut Out<'_, '_>) {
        let path = &mut self.paths[index];
        path.half_closed = true;
        if self.stage == Stage::Ending {
            out.call(path.flow, StreamCall::Close { unread: false, linger: None });
        }
        if self.stage != Stage::Open {
            return;
        }
        let others = self.paths.iter().any(|path| path.may_send() && !path.half_closed);
        if others {
            let path = &mut self.paths[index];
            path.closed = true;
            return out.call(path.flow, StreamCall::Close { unread: false, linger: None });
        }
        // A peer, or a box, that ends the last subflow without a word about the stream: nothing can follow (Linux: mptcp_subflow_eof).
        if !self.receive.ended && self.receive.end.is_none() && !self.receive.has_gap() {
            self.receive.end = Some(self.receive.next);
            self.receive.ended = true;
            out.event(self.flow, StreamEvent::HalfClosed);
            self.end_if_over(out);
        }
    }

    /// A subflow is over by a reset, or because nobody answers.
    pub(super) fn path_failed(&mut self, index: usize, error: StreamError, out: &mut Out<'_, '_>) {
        self.paths[index].closed = true;
        if self.paths.iter().any(|path| !path.closed && !path.released) || matches!(self.stage, Stage::Ending | Stage::Failed) {
            self.reinject(index);
            return self.push(out);
        }
        self.fail(error, out);
    }

    /// Nothing is left of a subflow.
    pub(super) fn path_released(&mut self, index: usize, out: &mut Out<'_, '_>) {
        let path = &mut self.paths[index];
        (path.released, path.closed) = (true, true);
        path.credit = 0;
        if self.paths.iter().all(|path| path.released) {
            if self.stage == Stage::Open && !self.closed {
                self.fail(StreamError::Reset, out);
            }
            self.finish(Stage::Ending, out);
            return out.event(self.flow, StreamEvent::Released);
        }
        if self.stage == Stage::Open {
            self.reinject(index);
            self.push(out);
            self.offer_again(out);
            self.open_others(out);
        }
        self.tell_time_wait(out);
    }

    /// Sockets hear that only TIME-WAIT is left, when that is so of all subflows.
    pub(super) fn tell_time_wait(&mut self, out: &mut Out<'_, '_>) {
        let waits = self.paths.iter().all(|path| path.released || path.time_wait) && self.paths.iter().any(|path| !path.released);
        if waits && !std::mem::replace(&mut self.told_time_wait, true) {
            out.event(self.flow, StreamEvent::TimeWait);
        }
    }
}
