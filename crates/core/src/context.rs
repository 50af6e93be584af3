//! What a block sees of the rest while it runs: the time, randomness, and the way out.

use crate::block::{BlockId, OutPort};
use crate::change::Change;
use crate::control::{ControlError, Op, Value};
use crate::frame::{Completion, Frame};
use crate::order::ORDERS_MAX;
use crate::reason::Reason;
use crate::rng::Rng;
use crate::solo::Around;
use crate::stream::StreamMessage;
use crate::table::{Answer, Query, RouteAnswer, Row, Table};
use crate::time::Instant;

/// What a block gave out while it ran; the engine carries it on. Reused from call to call.
#[derive(Debug, Default)]
pub struct Outbox {
    pub(crate) frames: Vec<(OutPort, Frame)>,
    pub(crate) messages: Vec<(OutPort, StreamMessage)>,
    pub(crate) drops: Vec<(Reason, Option<Completion>)>,
    pub(crate) completions: Vec<Completion>,
    pub(crate) timers: Vec<(u64, Option<Instant>)>,
    pub(crate) alerts: Vec<(&'static str, Value)>,
    /// With whether the block itself is told, too.
    pub(crate) changed: Vec<(Table, Option<Row>, bool)>,
    pub(crate) changes: Vec<(Table, Change)>,
    pub(crate) orders: Vec<(u64, Op)>,
    pub(crate) orders_refused: u64,
}

impl Outbox {
    /// Nothing was given out: the usual case of a block that only passes frames on.
    #[inline]
    pub(crate) fn is_empty(&self) -> bool {
        self.frames.is_empty()
            && self.messages.is_empty()
            && self.drops.is_empty()
            && self.completions.is_empty()
            && self.timers.is_empty()
            && self.alerts.is_empty()
            && self.changed.is_empty()
            && self.changes.is_empty()
            && self.orders.is_empty()
            && self.orders_refused == 0
    }
}

/// Time, randomness and the way out, lent to a block for one call.
#[derive(Debug)]
pub struct Context<'a> {
    /// The node's time. Does not move within a call.
    pub now: Instant,
    /// The node's randomness.
    pub rng: &'a mut Rng,
    pub(crate) me: BlockId,
    pub(crate) out: &'a mut Outbox,
    pub(crate) around: &'a dyn Around,
}

impl Context<'_> {
    /// The block that is running.
    pub fn me(&self) -> BlockId {
        self.me
    }
    /// Gives out a frame. Emitted frames precede forwarded ones of the same call.
    pub fn emit(&mut self, port: OutPort, frame: Frame) {
        self.out.frames.push((port, frame));
    }
    /// Gives out a stream message.
    pub fn send(&mut self, port: OutPort, message: StreamMessage) {
        self.out.messages.push((port, message));
    }
    /// Drops a frame that the block had taken, and counts why.
    pub fn drop(&mut self, mut frame: Frame, reason: Reason) {
        self.out.drops.push((reason, frame.take_completion()));
    }
    /// Counts a drop whose frame is already gone.
    pub fn count_drop(&mut self, reason: Reason) {
        self.out.drops.push((reason, None));
    }
    /// Reports that a frame has left (for blocks and ports where frames end).
    pub fn complete(&mut self, completion: Completion) {
        self.out.completions.push(completion);
    }
    /// Sets the timer with this token; replaces an earlier setting.
    pub fn set_timer(&mut self, token: u64, at: Instant) {
        self.out.timers.push((token, Some(at)));
    }
    /// Takes a timer back.
    pub fn cancel_timer(&mut self, token: u64) {
        self.out.timers.push((token, None));
    }
    /// Tells subscribers.
    pub fn alert(&mut self, name: &'static str, value: Value) {
        self.out.alerts.push((name, value));
    }
    /// Tells every block that a table of this block has changed.
    pub fn table_changed(&mut self, table: Table) {
        self.out.changed.push((table, None, false));
    }
    /// Tells every block that one row of a table of this block came, went or is another.
    pub fn row_changed(&mut self, table: Table, row: Row) {
        self.out.changed.push((table, Some(row), false));
    }
    /// The same of one row, or of all, and this block is told, too, behind all others: what it then says of what is gone comes after what they say.
    pub fn changed_and_back(&mut self, table: Table, row: Option<Row>) {
        self.out.changed.push((table, row, true));
    }
    /// Asks the owner of a table to change it, after this call. Without an owner nothing happens.
    pub fn tell(&mut self, table: Table, change: Change) {
        self.out.changes.push((table, change));
    }
    /// Orders an operation: what `weft` does to a running stack, by the same code. It is carried out when everything that follows from the running event
    /// has come to rest, in the order of the orders; what came of it, with the `serial`, is brought to [`Block::answered`](crate::Block::answered). Words
    /// that nobody can be told over (`subscribe`, snapshots) are answered with an error.
    ///
    /// # Errors
    /// At most [`ORDERS_MAX`] orders follow from one event, those that answers give rise to among them; more are refused here and counted, so that a
    /// block which orders without end holds nobody up.
    pub fn order(&mut self, serial: u64, op: Op) -> Result<(), ControlError> {
        if !self.around.admits_order() {
            self.out.orders_refused += 1;
            return Err(ControlError::Limit { what: "operations that blocks order upon one event".to_owned(), max: u64::from(ORDERS_MAX) });
        }
        self.out.orders.push((serial, op));
        Ok(())
    }
    /// Does anybody own this table?
    pub fn has_owner(&self, table: Table) -> bool {
        self.around.owner(table).is_some()
    }
    /// Asks the owner of a table. `Answer::None` when there is no owner, it is the running block itself, or the block's kind does not declare
    /// that it asks about this table (`Kind::asks`; a mistake of the block, which a debug build refuses to go on with).
    pub fn ask(&self, table: Table, query: &Query) -> Answer {
        let declared = self.around.asks(self.me, table);
        debug_assert!(declared, "a block asks about {table:?}, which its kind does not declare in `asks`");
        match self.around.owner(table) {
            Some(owner) if declared && owner != self.me => self.around.query(self.me, owner, query, self.now),
            _ => Answer::None,
        }
    }
    /// Asks for a route.
    pub fn route(&self, query: &Query, family: crate::table::Family) -> Option<RouteAnswer> {
        match self.ask(Table::Routes(family), query) {
            Answer::Route(answer) => Some(answer),
            _ => None,
        }
    }
    /// Is this output bound to anything?
    pub fn is_bound(&self, port: OutPort) -> bool {
        self.around.edge(self.me, port).is_some()
    }
}
