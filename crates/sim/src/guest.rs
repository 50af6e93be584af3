//! A machine whose software is not weft's: a kernel in a process of its own, whose clock the world owns.
//!
//! # Contract
//!
//! The world wakes a guest when it has something to do, when a frame arrives and when one of its own has left. At each instant the order is that of all
//! machines: ends of serialisation, frames (by port, then in order of arrival), then the guest itself. [`Guest::run`] gets a *limit*: nothing can reach the
//! machine before. The guest moves its present with [`GuestContext::advance`], never to the limit or beyond; what it sends enters its wire at its present, and
//! may make the limit nearer, since the end of its serialisation is an event of the machine's.
//!
//! A guest that cannot go on says why by [`GuestContext::fail`]: the run ends there, and names the node.

use crate::report::{ProgramId, Status, Stream};
use std::path::PathBuf;
use weft_core::{Frame, Instant};
use weft_process::Usage;

/// A machine with a clock that the world owns.
pub trait Guest: Send {
    /// When it has something to do by itself.
    fn next(&self) -> Instant;
    /// A frame has arrived at a port, as the wire carried it.
    fn receive(&mut self, cx: &mut dyn GuestContext, port: usize, frame: &Frame);
    /// A frame that was sent with this token has left its port: its last bit is on the wire, or it was dropped.
    fn left(&mut self, cx: &mut dyn GuestContext, port: usize, token: u32);
    /// Does what is due, and all that follows before the limit.
    fn run(&mut self, cx: &mut dyn GuestContext);
    /// The world ends now, or the machine loses power: what programs have written by now is theirs.
    fn finish(&mut self, cx: &mut dyn GuestContext);
    /// Its processes are told to end, and not waited for yet.
    fn kill(&mut self) {}
    /// Who waits for what, for people: one line a program that has not ended.
    fn waits(&self) -> Vec<(ProgramId, String)>;
}

/// The world, as a guest sees it.
pub trait GuestContext {
    /// The machine's present.
    fn now(&self) -> Instant;
    /// The machine may not reach this time by itself: something happens to it then, or may.
    fn limit(&self) -> Instant;
    /// The present moves on, to before the limit at most.
    fn advance(&mut self, to: Instant);
    /// A frame with complete checksums enters the wire of a port. [`Guest::left`] gets the token.
    fn send(&mut self, port: usize, frame: Frame, token: u32);
    /// A program has started.
    fn started(&mut self, program: ProgramId);
    /// A program wrote something: becomes part of the node's hash, and of the results.
    fn output(&mut self, program: ProgramId, stream: Stream, bytes: &[u8]);
    /// What a program has used.
    fn used(&mut self, program: ProgramId, usage: Usage);
    /// A program has ended.
    fn ended(&mut self, program: ProgramId, status: Status);
    /// What one of its TCP connections was like at a time: a row of [`crate::FlowSample`].
    fn sampled(&mut self, at: Instant, row: serde_json::Value);
    /// A file for people, beside the results and no part of the hash: what it said, what a tool counted in it.
    fn leaves(&mut self, name: PathBuf, contents: Vec<u8>);
    /// Something about the machine that is part of its hash, beside what it sends: which kernel it is.
    fn told(&mut self, text: &str);
    /// The machine cannot go on: the run ends.
    fn fail(&mut self, why: String);
}
