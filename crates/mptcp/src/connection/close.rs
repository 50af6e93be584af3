//! The end of a connection: in order, by MP_FASTCLOSE, and because its subflows are gone.

use super::bare::Bare;
use super::{Connection, Stage};
use crate::counters::Counter;
use crate::out::Out;
use crate::word::{Down, Why};
use weft_core::{Duration, StreamCall, StreamError, StreamEvent};

/// How long it waits between attempts to get a subflow, and how often that doubles.
const BARE_AGAIN: Duration = Duration::from_millis(500);
const BARE_DOUBLINGS: u32 = 4;

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
        if self.bare.is_some() {
            self.release_if_over(out);
        }
    }

    /// It is over for the program, and its subflows are reset.
    pub(super) fn break_off(&mut self, why: Why, out: &mut Out<'_, '_>) {
        self.fail(StreamError::Reset, out);
        self.abort_paths(why, out);
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
        self.break_off(Why::Reason { transient: false, reason: 0 }, out);
    }

    /// It has failed; sockets hear of it once.
    fn fail(&mut self, error: StreamError, out: &mut Out<'_, '_>) {
        let send = &self.send;
        if self.receive.ended && send.end_said && send.una == send.end {
            // Both sides have everything, and the peer is gone: all that was not heard is that it has heard the end.
            return self.finish(Stage::Ending, out);
        }
        self.finish(Stage::Failed, out);
        if !self.closed && !self.told_failed {
            self.told_failed = true;
            out.event(self.flow, StreamEvent::Failed(error));
        }
    }

    fn finish(&mut self, stage: Stage, out: &mut Out<'_, '_>) {
        if self.stage == Stage::Open {
            out.counters.less(Counter::MPCurrEstab);
            self.tell_closed(out);
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
        for index in 0..self.paths.len() {
            if !self.paths[index].closed && !self.paths[index].released {
                // Each of them says that all has come: a box may take it from one.
                self.have(index, false, out);
                self.end_path(index, out);
            }
        }
    }

    /// Nothing more is sent on a subflow.
    pub(super) fn end_path(&mut self, index: usize, out: &mut Out<'_, '_>) {
        let path = &mut self.paths[index];
        path.closed = true;
        // Nobody has answered a subflow that is not up, and nobody need any more (mptcp_subflow_shutdown disconnects what is in SYN-SENT).
        let end = if !path.up {
            StreamCall::Abort
        } else if path.half_closed {
            StreamCall::Close { unread: false, linger: None }
        } else {
            StreamCall::ShutdownWrite
        };
        out.call(path.flow, end);
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
        let path = &mut self.paths[index];
        (path.closed, path.error) = (true, Some(error));
        // The peer no longer knows the connection, if it answers at all.
        let unknown = path.joined && !path.up && matches!(error, StreamError::Refused | StreamError::Reset);
        if self.paths.iter().any(|path| !path.closed && !path.released) || matches!(self.stage, Stage::Ending | Stage::Failed) {
            self.reinject(index);
            self.follow_policy(out);
            self.open_others(out);
            return self.push(out);
        }
        match self.bare {
            Some(_) if !unknown => {}
            None if self.may_wait_bare(out) => {}
            bare => return self.fail(bare.map_or(error, |bare| bare.error), out),
        }
        self.reinject(index);
    }

    /// May it live without a subflow for a time? Not before both sides know the keys.
    fn may_wait_bare(&self, out: &Out<'_, '_>) -> bool {
        self.stage == Stage::Open && self.confirmed && self.remote.is_some() && !out.settings.close_timeout.is_zero()
    }

    /// Nothing is left of a subflow.
    pub(super) fn path_released(&mut self, index: usize, out: &mut Out<'_, '_>) {
        let path = &mut self.paths[index];
        (path.released, path.closed) = (true, true);
        path.credit = 0;
        let error = path.error.unwrap_or(StreamError::Reset);
        if self.stage == Stage::Open {
            self.reinject(index);
        }
        if self.paths.iter().all(|path| path.released) {
            match self.bare {
                Some(_) => {}
                None if self.may_wait_bare(out) => self.become_bare(error, out),
                None => {
                    if self.stage == Stage::Open && !self.closed {
                        self.fail(error, out);
                    }
                    self.finish(Stage::Ending, out);
                }
            }
            return self.release_if_over(out);
        }
        if self.stage == Stage::Open {
            self.push(out);
            self.offer_again(out);
            self.open_others(out);
        }
        self.tell_time_wait(out);
    }

    /// Its last subflow is gone: it waits for another, as long as `close_timeout` says ("break before make").
    fn become_bare(&mut self, error: StreamError, out: &mut Out<'_, '_>) {
        let bare = Bare { error, until: out.now() + out.settings.close_timeout, tries: 0, again_at: Some(out.now()) };
        self.bare = Some(bare);
        out.count(Counter::LastSubflowGone);
        self.offer_again(out);
        self.try_again(out);
    }

    /// Looks for a way that was tried before.
    pub(super) fn try_again(&mut self, out: &mut Out<'_, '_>) {
        let Some(bare) = &mut self.bare else { return };
        bare.again_at = Some(out.now() + BARE_AGAIN.saturating_mul(1 << bare.tries.min(BARE_DOUBLINGS)));
        bare.tries += 1;
        self.tried.clone_from(&self.barred);
        self.ports_tried = 0;
        self.open_others(out);
    }

    /// It has a subflow again.
    pub(super) fn is_bare_no_more(&mut self, out: &mut Out<'_, '_>) {
        if self.bare.take().is_some() {
            out.count(Counter::SubflowAgain);
            if self.closed {
                self.gives_up_at = Some(out.now() + out.settings.close_timeout);
            }
        }
    }

    /// It has waited long enough for a subflow.
    pub(super) fn give_up_bare(&mut self, out: &mut Out<'_, '_>) {
        let Some(bare) = self.bare.take() else { return };
        self.abort_paths(Why::Reason { transient: false, reason: 0 }, out);
        self.fail(bare.error, out);
        self.release_if_over(out);
    }

    /// Nothing is left of it, if that is so.
    pub(super) fn release_if_over(&mut self, out: &mut Out<'_, '_>) {
        if self.stage >= Stage::Ending {
            self.bare = None;
        }
        if self.bare.is_none() && self.paths.iter().all(|path| path.released) {
            out.event(self.flow, StreamEvent::Released);
        }
    }

    /// Sockets hear that only TIME-WAIT is left, when that is so of all subflows.
    pub(super) fn tell_time_wait(&mut self, out: &mut Out<'_, '_>) {
        let waits = self.paths.iter().all(|path| path.released || path.time_wait) && self.paths.iter().any(|path| !path.released);
        if waits && !std::mem::replace(&mut self.told_time_wait, true) {
            out.event(self.flow, StreamEvent::TimeWait);
        }
    }
}
