//! What a node asks of an engine that is not the one of this crate.

use crate::block::{Block, BlockId, InPort};
use crate::context::Context;
use crate::control::{Message, Reply};
use crate::engine::{Alert, Engine, Outgoing};
use crate::frame::{Completion, Frame};
use crate::order::Obeyed;
use crate::time::Instant;

/// Runs a graph in another way than [`Engine`] does. The methods are those of [`Engine`]; but what follows from a call may go on after it has
/// returned.
pub trait Execute: std::fmt::Debug + Send {
    /// Knows the graph: names, kinds and edges. The blocks themselves are lent.
    fn engine(&self) -> &Engine;
    /// See [`Engine::inject`].
    fn inject(&mut self, now: Instant, block: BlockId, port: InPort, frames: &mut dyn Iterator<Item = Frame>);
    /// See [`Engine::run`].
    fn run(&mut self, now: Instant);
    /// As [`Execute::run`], after a call: what it has sent to the node itself has arrived when this returns, and so has the answer.
    fn settle(&mut self, now: Instant);
    /// When [`Execute::run`] should be called next; `None` when it minds its timers itself.
    fn next_timer(&self) -> Option<Instant>;
    /// See [`Engine::with`]. When there is no such block, `f` is not called.
    fn with(&mut self, now: Instant, block: BlockId, f: &mut dyn FnMut(&mut dyn Block, &mut Context<'_>));
    /// See [`Engine::completed`].
    fn completed(&mut self, now: Instant, completion: Completion);
    /// See [`Engine::control`]. What follows from a change has happened when it returns.
    fn control(&mut self, now: Instant, message: &Message) -> Reply;
    /// Stops the graph at a frame boundary, and calls `f` with the engine that has all of its blocks until then. True: `f` has put other blocks into
    /// their places.
    fn at_rest(&mut self, now: Instant, f: &mut dyn FnMut(&mut Engine) -> bool);
    /// See [`Engine::take_outgoing`].
    fn take_outgoing(&mut self) -> Vec<Outgoing>;
    /// See [`Engine::has_outgoing`].
    fn has_outgoing(&self) -> bool;
    /// See [`Engine::take_alerts`].
    fn take_alerts(&mut self) -> Vec<Alert>;
    /// See [`Engine::take_obeyed`].
    fn take_obeyed(&mut self) -> Vec<Obeyed>;
    /// Why it cannot go on as it should: a block has panicked.
    fn failure(&self) -> Option<String>;
}
