//! What happens to the supervisor: a descriptor is ready, the stack has run, time has passed.

use super::foreign::Foreign;
use super::state::Supervisor;
use super::token::{KIND_STAND_IN, KIND_TIMER, KIND_TREE, KIND_WORKERS};
use super::turn::Turn;
use crate::netlink;
use crate::reactor::{Reactor, Readiness};
use crate::standin::{Body, StandIn};
use crate::sys;
use std::os::fd::AsFd;
use std::time::Instant;
use weft_core::engine::Alert;
use weft_intercept::face::{SocketId, Stack};

/// Notifications taken from one listener before others get a turn.
const NOTIFICATIONS_MAX: usize = 64;
/// Rounds of "the stack changed, so stand-ins move, so the stack changes" in one turn.
const ROUNDS_MAX: usize = 32;

impl Supervisor {
    /// A descriptor of the supervisor's is ready.
    pub fn on_event(&mut self, event: u64, readiness: Readiness, stack: &mut dyn Stack, reactor: &mut dyn Reactor) {
        let index = (event & 0xffff_ffff) as usize;
        let turn = &mut Turn { stack, reactor };
        match event >> 48 & 0xff {
            KIND_TREE => self.serve_tree(index, readiness, turn),
            KIND_STAND_IN => {
                let generation = (event >> 32) as u16;
                if let Some(one) = self.stand_ins.get_mut(index).filter(|one| one.generation == generation) {
                    one.readable |= readiness.readable || readiness.hang_up || readiness.error;
                    one.ends |= readiness.ended || readiness.hang_up || readiness.error;
                    one.writable |= readiness.writable;
                    self.move_and_retry(index, readiness.hang_up || readiness.error, turn);
                }
            }
            KIND_TIMER => {
                sys::clear_timer(self.timer.as_fd());
                self.timer_at = None;
                self.expire(turn);
            }
            KIND_WORKERS => self.workers_are_back(turn),
            _ => {}
        }
        self.settle(turn);
    }

    /// The node has run: frames came in, timers fired. Moves what the sockets that changed have for their programs.
    pub fn after_stack_ran(&mut self, stack: &mut dyn Stack, reactor: &mut dyn Reactor) {
        self.settle(&mut Turn { stack, reactor });
    }

    /// These sockets have changed; somebody else has taken the news.
    pub fn sockets_changed(&mut self, changed: &[SocketId], stack: &mut dyn Stack, reactor: &mut dyn Reactor) {
        let turn = &mut Turn { stack, reactor };
        for socket in changed {
            match self.by_socket.get(socket) {
                Some(&key) => self.move_and_retry(key, false, turn),
                None => turn.stack.not_a_programs(*socket),
            }
        }
        self.settle(turn);
    }

    /// Blocks have alerted of something: programs that listen to netlink's groups hear of it.
    pub fn alerted(&mut self, alerts: &[Alert], stack: &mut dyn Stack, reactor: &mut dyn Reactor) {
        let listens = |one: &StandIn| matches!(&one.body, Body::Netlink(link) if link.socket.session.listens());
        let keys: Vec<usize> = self.stand_ins.iter().filter(|(_, one)| listens(one)).map(|(key, _)| key).collect();
        let turn = &mut Turn { stack, reactor };
        for key in keys {
            let Supervisor { stand_ins, calls, .. } = self;
            if let Some(one) = stand_ins.get_mut(key) {
                netlink::tell(one, alerts, turn.stack, calls);
            }
            self.move_and_retry(key, false, turn);
        }
        self.retry_changed(turn);
    }

    fn settle(&mut self, turn: &mut Turn<'_>) {
        self.retry_changed(turn);
        self.carry_changes(turn);
        self.arm();
    }

    /// Moves what sockets that have changed have for their programs, until none has.
    pub(super) fn carry_changes(&mut self, turn: &mut Turn<'_>) {
        for _ in 0..ROUNDS_MAX {
            let changed = turn.stack.take_changed();
            if changed.is_empty() {
                break;
            }
            for socket in changed {
                match self.by_socket.get(&socket) {
                    Some(&key) => self.move_and_retry(key, false, turn),
                    None => turn.stack.not_a_programs(socket),
                }
            }
        }
    }

    fn serve_tree(&mut self, tree: usize, readiness: Readiness, turn: &mut Turn<'_>) {
        for _ in 0..NOTIFICATIONS_MAX {
            let Some(listener) = self.trees.get(tree) else { return };
            match self.held.receive(listener) {
                Ok(Some(notification)) => self.serve(tree, &notification, turn),
                Ok(None) => break,
                Err(errno) => {
                    tracing::warn!(errno = errno.0, "a seccomp listener failed; its program's network calls will fail");
                    self.end_tree(tree, turn);
                    return;
                }
            }
        }
        if readiness.hang_up || readiness.error {
            self.end_tree(tree, turn);
        }
    }

    /// No process of the tree is left.
    fn end_tree(&mut self, tree: usize, turn: &mut Turn<'_>) {
        for id in self.held.of_tree(tree) {
            self.forget_held(id);
        }
        self.forget_parked_of(tree, turn);
        self.by_workers.remove(&tree);
        if let Some(listener) = self.trees.try_remove(tree) {
            let _ = turn.reactor.remove(listener.as_fd());
        }
        if self.trees.is_empty() {
            self.pidfds.clear();
            self.windows.clear();
            self.replays.clear();
            self.limited.clear();
            self.foreign = Foreign::default();
        }
        self.look_for_closed(turn);
    }

    /// Moves what can move at a stand-in, mirrors its socket's state, and tries the calls that wait there again.
    pub(crate) fn move_and_retry(&mut self, key: usize, hung_up: bool, turn: &mut Turn<'_>) {
        self.pump(key, hung_up, turn);
        self.retry(key, turn);
    }

    fn expire(&mut self, turn: &mut Turn<'_>) {
        let now = Instant::now();
        for id in self.held.take_due(now) {
            self.retry_one(id, turn);
        }
        if self.errors_at.is_some_and(|at| at <= now) {
            self.look_at_errors(turn);
        }
        if self.look_at.is_some_and(|at| at <= now) {
            self.look_for_closed(turn);
        }
    }

    /// Sets the timer to the next thing that time brings.
    pub(crate) fn arm(&mut self) {
        let next = self.held.next_deadline().into_iter().chain(self.look_at).chain(self.errors_at).min();
        if next != self.timer_at {
            self.timer_at = next;
            let _ = sys::set_timer(self.timer.as_fd(), next.map(|at| at.saturating_duration_since(Instant::now())));
        }
    }
}
