//! A call's way: from its notification through its handler to its answer, or to where it waits.

use super::parked::Stage;
use super::replay::Replay;
use super::state::Supervisor;
use super::turn::Turn;
use crate::call::{self, Call, Outcome};
use crate::listener::{HELD_MAX, Notification};
use crate::remote::Stored;
use crate::standin::liveness;
use crate::sys::Errno;
use std::cell::Cell;
use std::time::{Duration, Instant};
use weft_intercept::memory::LATER;

impl Supervisor {
    pub(super) fn serve(&mut self, tree: usize, notification: &Notification, turn: &mut Turn<'_>) {
        let row = call::row_of(notification.architecture, notification.number);
        self.calls.of(row.name).seen += 1;
        let call = Call {
            tree,
            id: notification.id,
            tid: notification.tid,
            number: notification.number,
            arguments: notification.arguments,
            instruction: notification.instruction,
            row,
            since: Instant::now(),
            held: None,
            expired: false,
            remote: self.remote(tree, notification.tid),
            file: Cell::new(None),
            messages: Cell::new(0),
        };
        // What the program has written natively to netlink sockets came before this call.
        self.serve_links(turn);
        self.retry_changed(turn);
        if let Some(call) = self.take_up_parked(call, turn) {
            self.begin(call, turn);
        }
    }

    /// Answers a call, from the beginning.
    pub(super) fn begin(&mut self, call: Call, turn: &mut Turn<'_>) {
        drop((call.remote.take_stores(), call.remote.take_wanted()));
        if call.held.is_none() && call.messages.get() == 0 {
            match self.replays.take(&call) {
                Ok(Some(replay)) => return self.send_missed(&call, replay),
                Ok(None) => {}
                Err(_) => return self.park(call, Stage::Answer(Err(LATER)), turn),
            }
            match self.limited.comes_again(&call, || self.still_waits(&call)) {
                Ok(true) => return self.settle_call(call, Err(Errno(libc::EINTR)), turn),
                Ok(false) => {}
                Err(_) => return self.park(call, Stage::Answer(Err(LATER)), turn),
            }
        }
        let outcome = self.answer(&call, turn);
        if !matches!(outcome, Ok(Outcome::Hold { .. } | Outcome::Continue) | Err(LATER)) {
            // Over the loopback a packet and its answer arrive within the call that sends it (__netif_receive_skb before tcp_v4_connect returns).
            turn.stack.run();
            self.carry_changes(turn);
        }
        self.finish(call, outcome, turn);
    }

    /// Asks the call's handler, and tries those first that wait at what it has changed.
    fn answer(&mut self, call: &Call, turn: &mut Turn<'_>) -> Result<Outcome, Errno> {
        let outcome = self.with_descriptors(turn, |s, turn| call::answer(s, turn, call));
        self.retry_changed(turn);
        outcome
    }

    /// Tries the calls that wait where something has changed. One of them may change more, which is tried in the same loop.
    pub(super) fn retry_changed(&mut self, turn: &mut Turn<'_>) {
        if std::mem::replace(&mut self.retries, true) {
            return;
        }
        while let Some(key) = self.changed.pop_first() {
            if self.links.contains(&key) {
                // A packet that was written natively may wait for room, before those calls.
                self.pump(key, false, turn);
            }
            self.retry(key, turn);
        }
        self.retries = false;
    }

    /// Writes what the call writes, then sends its answer or keeps it.
    fn finish(&mut self, call: Call, outcome: Result<Outcome, Errno>, turn: &mut Turn<'_>) {
        let outcome = match outcome {
            Err(LATER) => return self.park(call, Stage::Answer(outcome), turn),
            Ok(Outcome::Done(_) | Outcome::DoneWithEffect(_) | Outcome::HandOver { .. }) => match call.remote.store() {
                Stored::All => outcome,
                Stored::Failed(otherwise) => self.instead(outcome, otherwise, turn),
                Stored::Later => return self.park(call, Stage::Answer(outcome), turn),
            },
            _ => outcome,
        };
        self.settle_call(call, outcome, turn);
    }

    /// What the call writes could not be written.
    pub(super) fn instead(
        &mut self,
        outcome: Result<Outcome, Errno>,
        otherwise: Result<i64, Errno>,
        turn: &mut Turn<'_>,
    ) -> Result<Outcome, Errno> {
        match (outcome, otherwise) {
            // What cannot be told its address is closed, as by the kernel.
            (Ok(Outcome::HandOver { child, .. }), Err(Errno(libc::EFAULT))) => turn.stack.close(child),
            (Ok(Outcome::HandOver { listener, child, .. }), _) => self.give_back(listener, child, turn),
            _ => {}
        }
        otherwise.map(Outcome::DoneWithEffect)
    }

    /// Sends the answer, or keeps the call.
    pub(super) fn settle_call(&mut self, call: Call, outcome: Result<Outcome, Errno>, turn: &mut Turn<'_>) {
        let outcome = match outcome {
            Ok(Outcome::HandOver { listener, child, flags }) => call::hand_over(self, turn, &call, listener, child, flags),
            other => other,
        };
        let Some(listener) = self.trees.get(call.tree) else { return };
        let counts = self.calls.of(call.row.name);
        let sent = match outcome {
            Ok(Outcome::Done(value) | Outcome::DoneWithEffect(value)) => {
                counts.answered += 1;
                listener.answer(call.id, value)
            }
            Ok(Outcome::Sent) => {
                counts.answered += 1;
                Ok(())
            }
            Ok(Outcome::Cancelled | Outcome::HandOver { .. }) => Err(Errno(libc::ENOENT)),
            Ok(Outcome::Continue) => {
                counts.continued += 1;
                listener.proceed(call.id)
            }
            Ok(Outcome::Hold { stand_in, limit, restarts }) => {
                if self.held.len() >= HELD_MAX {
                    let _ = listener.refuse(call.id, Errno(libc::ENOBUFS));
                    return;
                }
                counts.held += 1;
                self.limited.begin(&call, !restarts, || listener.is_valid(call.id));
                self.hold(call, stand_in, limit);
                return;
            }
            Err(errno) => {
                // Those say "later" and not "no".
                let later = errno == Errno(libc::EINPROGRESS) || errno == Errno(libc::EAGAIN);
                *(if later { &mut counts.answered } else { &mut counts.refused }) += 1;
                listener.refuse(call.id, errno)
            }
        };
        if sent.is_err() {
            counts.cancelled += 1;
            self.replays.cancelled(call.tid);
        } else {
            self.limited.answered(&call);
        }
        let answer = match outcome {
            Ok(Outcome::DoneWithEffect(value)) => Ok(value),
            // An errno may have been the only word of an error, or of a connection that has begun. That there is nothing now is no news.
            Err(errno) if errno.0 != libc::EAGAIN => Err(errno),
            _ => return,
        };
        match sent {
            Ok(()) => self.replays.sent(&call, answer),
            Err(_) => self.keep_missed(call, answer, turn),
        }
    }

    /// Keeps an answer that could not be sent.
    pub(super) fn keep_missed(&mut self, call: Call, answer: Result<i64, Errno>, turn: &mut Turn<'_>) {
        match Replay::of(&call, answer) {
            Ok(replay) => self.replays.keep(call.tid, replay),
            Err(_) => self.park(call, Stage::Missed(answer), turn),
        }
    }

    /// The call comes again, and what came of it was not told: tells it.
    fn send_missed(&mut self, call: &Call, replay: Replay) {
        let Some(listener) = self.trees.get(call.tree) else { return };
        let counts = self.calls.of(call.row.name);
        let sent = match replay.answer {
            Ok(value) => {
                counts.answered += 1;
                listener.answer(call.id, value)
            }
            Err(errno) => {
                counts.refused += 1;
                listener.refuse(call.id, errno)
            }
        };
        match sent {
            Ok(()) => {
                self.limited.answered(call);
                self.replays.sent_again(call, replay);
            }
            Err(_) => {
                counts.cancelled += 1;
                self.replays.cancelled(call.tid);
                self.replays.keep(call.tid, replay);
            }
        }
    }

    /// What a call on this stand-in fails with if weft ends.
    pub(super) fn errno_at_end(&self, stand_in: Option<usize>) -> Errno {
        Errno(if stand_in.is_some_and(|key| self.is_connected(key)) { libc::ECONNRESET } else { libc::ENETDOWN })
    }

    fn hold(&mut self, mut call: Call, stand_in: usize, limit: Option<Duration>) {
        call.held = Some(stand_in);
        call.remote.forget_looks();
        let end = self.borrow(stand_in).ok();
        let at_end = self.errno_at_end(Some(stand_in));
        let listener = self.trees.get(call.tree).map(|listener| &**listener);
        let id = self.held.add(call, stand_in, limit, end, at_end, listener);
        if let Some(one) = self.stand_ins.get_mut(stand_in) {
            one.held.push(id);
        }
        self.look_at.get_or_insert_with(|| Instant::now() + liveness::PERIOD);
    }

    /// Tries the calls that wait at a stand-in again, oldest first.
    pub(crate) fn retry(&mut self, key: usize, turn: &mut Turn<'_>) {
        let Some(one) = self.stand_ins.get(key) else { return };
        if one.held.is_empty() {
            return;
        }
        for id in one.held.clone() {
            self.retry_one(id, turn);
        }
    }

    pub(super) fn retry_one(&mut self, id: u64, turn: &mut Turn<'_>) {
        if self.forget_if_cancelled(id) {
            return;
        }
        let Some(held) = self.held.get(id) else { return };
        let call = held.call.clone();
        let outcome = self.answer(&call, turn);
        if !matches!(outcome, Ok(Outcome::Hold { .. })) {
            // Known to the caretaker until it has its answer.
            let held = self.forget_held(id);
            self.finish(call, outcome, turn);
            drop(held);
        }
    }
}
