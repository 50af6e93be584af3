//! What acts on a node: built-in traffic programs, and the processes of unmodified programs. The one interface between them and the world.
//!
//! # Contract
//!
//! The world calls [`Actor::run`] with a *grant*: nothing can reach the node before it, so the actor may run ahead of the rest of the world up to
//! there. It moves its present with [`ActorContext::advance`]; each call into the stack happens at that present, and frames that it causes enter
//! their wires at that time. It gives the turn back when it has nothing to do before the grant. Within one instant a node handles, in this
//! order: events from outside, ends of serialisation, frames (by interface, then in order of arrival), timers, actors (in order of their names).
//!
//! The grant can shrink while the actor runs: when what it does changes the sockets of another actor of the same node, that one has its turn at
//! the same instant. [`ActorContext::grant`] always says the present one; `advance` never moves beyond it.

pub use crate::report::{CallRecord, ProgramId, Status, Stream};

use crate::plan::ProcessPlan;
use crate::report::CallLine;
use crate::visit::Visitor;
use weft_core::engine::Alert;
use weft_core::{Context, ControlError, Instant, Op, Refused};
use weft_node::Coming;
use weft_process::Usage;
use weft_socket::{SocketId, Sockets};

/// Something on a node that calls into its stack.
pub trait Actor: Send {
    /// Runs whoever is runnable from `cx.now()` on, until the grant at most. Each call into the stack happens at its own virtual time
    /// `now <= t < grant`.
    fn run(&mut self, cx: &mut dyn ActorContext, grant: Instant) -> Next;
    /// Sockets of this node have changed (readiness, state, error), this actor's or others': called before the `run` that follows.
    fn sockets_changed(&mut self, changed: &[SocketId]);
    /// The node was changed from outside.
    fn disturbed(&mut self) {}
    /// A program that does not start by time is to start. Followed by `run`.
    fn start(&mut self, program: ProgramId) {
        let _ = program;
    }
    /// A program is told to stop (SIGTERM for processes). Followed by `run`.
    fn stop(&mut self, program: ProgramId);
    /// Somebody from outside starts a program. Followed by `run`.
    fn welcome(&mut self, program: ProgramId, plan: ProcessPlan, visitor: Visitor) {
        let _ = (program, plan, visitor);
    }
    /// A signal from outside for a program and all that it has started.
    fn signal(&mut self, program: ProgramId, signal: i32) {
        let _ = (program, signal);
    }
    /// Descriptors of programs that lead outside may be ready.
    fn poke(&mut self) {}
    /// The world ends now: the last chance to write a report. The program does not count as ended for it.
    fn finish(&mut self, cx: &mut dyn ActorContext) {
        let _ = cx;
    }
    /// The world is given up: whatever outlives it is told to end, and not waited for yet.
    fn kill(&mut self) {}
    /// Where its programs' files are found from outside.
    fn root(&self) -> Option<std::path::PathBuf> {
        None
    }
    /// What its programs have written, for the node's next life.
    fn take_disk(&mut self) -> Option<weft_process::Disk> {
        None
    }
    /// Who waits for what, for people: one line a program that has not ended.
    fn waits(&self) -> Vec<(ProgramId, String)>;
    /// Why this run may not repeat, for people; empty: it does.
    fn not_reproducible(&self) -> Vec<String> {
        Vec::new()
    }
    /// What programs asked for in vain, with the errno that they got and how often.
    fn unsupported(&self) -> Vec<weft_intercept::calls::Unsupported> {
        Vec::new()
    }
    /// Is it the one actor of all unmodified programs of its node, which starts them itself?
    fn starts_programs(&self) -> bool {
        false
    }
}

/// The world, as an actor sees it.
pub trait ActorContext {
    /// The actor's present.
    fn now(&self) -> Instant;
    /// Up to where the actor may run now (exclusive).
    fn grant(&self) -> Instant;
    /// When the node itself has something to do next: a timer, or the end of a serialisation. It may change sockets.
    fn next_event(&self) -> Instant;
    /// No timer of the node's is due before this, and no other actor is on the node. None: one is.
    fn quiet_until(&self) -> Option<Instant>;
    /// What frames that are on their way to the node will bring to a socket, where that is sure: each with its time and the bytes, in order, for as long as
    /// `take` says that it goes on. The grant becomes that of the first frame that nothing is sure about, and [`ActorContext::advance`] lets the others
    /// arrive at their times. Only where [`ActorContext::quiet_until`] says something.
    fn foresee(&mut self, take: &mut dyn FnMut(SocketId, Instant, Coming<'_>) -> bool) {
        let _ = take;
    }
    /// The grant is that of the next arrival again.
    fn forget_foreseen(&mut self) {}
    /// Moves the present to `to`, at most to the grant: the node's own timers and ends of serialisation until then have happened.
    fn advance(&mut self, to: Instant);
    /// Calls into the node's sockets at the present; what follows (frames) is carried on. False: the node has no sockets (any more).
    fn sockets(&mut self, call: &mut dyn FnMut(&mut Sockets, &mut Context<'_>)) -> bool;
    /// The node's sockets, for what needs no context: nothing can follow from it. False: it has none.
    fn look(&mut self, look: &mut dyn FnMut(&mut Sockets)) -> bool {
        self.sockets(&mut |sockets, _| look(sockets))
    }
    /// The sockets that changed since the last time anybody asked, this actor's own calls included. Those that it does not take are told by
    /// [`Actor::sockets_changed`].
    fn take_changed(&mut self) -> Vec<SocketId>;
    /// A call's result becomes part of the node's hash.
    fn record(&mut self, record: &CallRecord<'_>);
    /// A call, for people who want to read them (`--calls`).
    fn called(&mut self, call: &CallLine<'_>) {
        let _ = call;
    }
    /// A program wrote something: becomes part of the node's hash, and of the results.
    fn output(&mut self, program: ProgramId, stream: Stream, bytes: &[u8]);
    /// A program wrote so many bytes more than anybody wants: they are counted.
    fn lost(&mut self, program: ProgramId, bytes: u64) {
        let _ = (program, bytes);
    }
    /// A program wrote something at this time, which [`ActorContext::output`] will bring: for people who want to know when.
    fn wrote(&mut self, at: Instant, program: ProgramId, stream: Stream, bytes: &[u8]) {
        let _ = (at, program, stream, bytes);
    }
    /// A program has started (for actors that start theirs at times of their own). What it wrote when it ran before is kept.
    fn started(&mut self, program: ProgramId);
    /// A number that a program reports, for summaries and expectations (`goodput_bits_per_second`).
    fn figure(&mut self, program: ProgramId, name: &'static str, value: u64);
    /// A control message to the node, as programs send them by writing settings and by netlink.
    ///
    /// # Errors
    /// The node's refusal.
    fn control(&mut self, op: Op) -> Result<serde_json::Value, ControlError> {
        let _ = op;
        Err(ControlError::World { why: Refused::unsupported("nobody is there to change") })
    }
    /// What the node's blocks have alerted of since the last call.
    fn take_alerts(&mut self) -> Vec<Alert> {
        Vec::new()
    }
    /// What an unmodified program has used so far, for its status.
    fn used(&mut self, program: ProgramId, usage: Usage) {
        let _ = (program, usage);
    }
    /// A program has ended.
    fn ended(&mut self, program: ProgramId, status: Status) {
        self.ended_at(program, self.now(), status);
    }
    /// A program has ended, not later than now.
    fn ended_at(&mut self, program: ProgramId, at: Instant, status: Status);
}

impl dyn ActorContext + '_ {
    /// [`ActorContext::sockets`] with a result. None: the node has no sockets.
    pub fn call<R>(&mut self, f: impl FnOnce(&mut Sockets, &mut Context<'_>) -> R) -> Option<R> {
        let mut f = Some(f);
        let mut result = None;
        self.sockets(&mut |sockets, cx| {
            if let Some(f) = f.take() {
                result = Some(f(sockets, cx));
            }
        });
        result
    }

    /// [`ActorContext::look`] with a result. None: the node has no sockets.
    pub fn see<R>(&mut self, f: impl FnOnce(&mut Sockets) -> R) -> Option<R> {
        let mut f = Some(f);
        let mut result = None;
        self.look(&mut |sockets| {
            if let Some(f) = f.take() {
                result = Some(f(sockets));
            }
        });
        result
    }

    /// Writes a line to a program's standard output.
    pub fn line(&mut self, program: ProgramId, line: &str) {
        let mut text = String::with_capacity(line.len() + 1);
        text.push_str(line);
        text.push('\n');
        self.output(program, Stream::Output, text.as_bytes());
    }
}

/// When an actor wants its next turn.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Next {
    /// At this time at the latest; [`Instant::FAR_FUTURE`]: only when sockets change.
    pub at: Instant,
    /// Never again.
    pub ended: bool,
}

impl Next {
    /// When sockets change.
    pub const WAIT: Next = Next { at: Instant::FAR_FUTURE, ended: false };
    /// Never.
    pub const ENDED: Next = Next { at: Instant::FAR_FUTURE, ended: true };
    /// At this time, or when sockets change before.
    pub const fn at(at: Instant) -> Next {
        Next { at, ended: false }
    }
}
