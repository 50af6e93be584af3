//! One block by itself: what an engine needs that does not run blocks one after the other in one place.
//!
//! [`Engine::lend`](crate::Engine::lend) takes the blocks of a graph out as [`Solo`]s. Each is run with work that is brought to it, and gives out
//! work for others ([`Given`]); how it gets there, and when, is the borrowing engine's affair. What a block may see of the rest is an
//! [`Around`]. The alternative, blocks behind locks in the graph itself, was rejected: every vector of the inline engine would pay for it.

use crate::block::{Block, BlockId, InPort, Kind, OutPort};
use crate::context::{Context, Outbox};
use crate::engine::{Alert, DEPTH_MAX, Item, Outgoing, Work};
use crate::frame::{Completion, Frame};
use crate::graph::{Edge, Slots};
use crate::order::Order;
use crate::reason::Reason;
use crate::rng::Rng;
use crate::table::{Answer, Query, Table};
use crate::time::Instant;
use crate::timer::Timers;
use crate::vector::{VECTOR_FRAMES_MAX, Vector, Verdict};
use std::fmt;

/// Most empty vectors that a block keeps for the next ones.
const SPARE_MAX: usize = 64;

/// What a running block sees of the graph.
pub trait Around: fmt::Debug {
    /// Where an output leads.
    fn edge(&self, from: BlockId, port: OutPort) -> Option<Edge>;
    /// The owner of a table.
    fn owner(&self, table: Table) -> Option<BlockId>;
    /// Does the kind of this block declare that it asks about this table?
    fn asks(&self, block: BlockId, table: Table) -> bool;
    /// Puts a question to a table's owner, which is another block than the one that asks.
    fn query(&self, asker: BlockId, owner: BlockId, query: &Query, now: Instant) -> Answer;
    /// Every block but this one.
    fn others(&self, than: BlockId) -> Vec<BlockId>;
    /// Takes one of the places that there are for orders of blocks. False: there is none left.
    fn admits_order(&self) -> bool;
}

impl Around for Slots {
    fn edge(&self, from: BlockId, port: OutPort) -> Option<Edge> {
        Slots::edge(self, from, port)
    }
    fn owner(&self, table: Table) -> Option<BlockId> {
        Slots::owner(self, table)
    }
    fn asks(&self, block: BlockId, table: Table) -> bool {
        self.kind(block).is_some_and(|kind| kind.asks.contains(&table))
    }
    fn query(&self, _asker: BlockId, owner: BlockId, query: &Query, now: Instant) -> Answer {
        self.block(owner).map_or(Answer::None, |block| block.query(query, now))
    }
    fn others(&self, than: BlockId) -> Vec<BlockId> {
        self.ids().filter(|id| *id != than).collect()
    }
    fn admits_order(&self) -> bool {
        self.take_order_place()
    }
}

/// What came of running a block. Reused from call to call.
#[derive(Debug, Default)]
pub struct Given {
    /// For other blocks (and, for completions, itself), in order.
    pub work: Vec<Work>,
    /// Frames that leave the graph, in order.
    pub outgoing: Vec<Outgoing>,
    /// Alerts that it raised.
    pub alerts: Vec<Alert>,
    /// Operations that it ordered.
    pub orders: Vec<Order>,
}

/// A block that has been taken out of a graph to be run by itself.
#[derive(Debug)]
pub struct Solo {
    id: BlockId,
    name: Box<str>,
    kind: &'static Kind,
    block: Option<Box<dyn Block>>,
    rng: Rng,
    timers: Timers,
    now: Instant,
    frames_in: u64,
    drops: Box<[u64; Reason::COUNT]>,
    orders_refused: u64,
    outbox: Outbox,
    spare: Vec<Vector>,
}

/// What goes back into the graph.
pub(crate) struct Parts {
    pub id: BlockId,
    pub block: Option<Box<dyn Block>>,
    pub now: Instant,
    pub frames_in: u64,
    pub drops: Box<[u64; Reason::COUNT]>,
    pub timers: Vec<(u64, Instant)>,
    pub orders_refused: u64,
}

impl Solo {
    pub(crate) fn new(
        id: BlockId,
        name: Box<str>,
        kind: &'static Kind,
        block: Option<Box<dyn Block>>,
        rng: Rng,
        set: Vec<(u64, Instant)>,
    ) -> Solo {
        let mut timers = Timers::default();
        for (token, at) in set {
            timers.set(id, token, at);
        }
        Solo {
            id,
            name,
            kind,
            block,
            rng,
            timers,
            now: Instant::ZERO,
            frames_in: 0,
            drops: Box::new([0; Reason::COUNT]),
            orders_refused: 0,
            outbox: Outbox::default(),
            spare: Vec::new(),
        }
    }

    pub(crate) fn into_parts(mut self) -> Parts {
        let timers = self.timers.take_all(self.id);
        Parts {
            id: self.id,
            block: self.block,
            now: self.now,
            frames_in: self.frames_in,
            drops: self.drops,
            timers,
            orders_refused: self.orders_refused,
        }
    }

    /// Its number in the graph.
    pub fn id(&self) -> BlockId {
        self.id
    }
    /// Its name in the graph.
    pub fn name(&self) -> &str {
        &self.name
    }
    /// Its kind.
    pub fn kind(&self) -> &'static Kind {
        self.kind
    }
    /// When its first timer is due.
    pub fn next_timer(&self) -> Option<Instant> {
        self.timers.next()
    }
    /// False once it has panicked while it ran (and somebody caught that): it is gone, and frames for it are dropped.
    pub fn is_alive(&self) -> bool {
        self.block.is_some()
    }

    /// Answers a question about a table that it owns. Time does not run backwards for it, whoever asks.
    pub fn query(&self, query: &Query, now: Instant) -> Answer {
        self.block.as_ref().map_or(Answer::None, |block| block.query(query, self.now.max(now)))
    }

    /// Takes a piece of work. Work that has come too deep ends here ([`DEPTH_MAX`]).
    pub fn step(&mut self, now: Instant, work: Work, around: &dyn Around, given: &mut Given) {
        if work.depth > DEPTH_MAX {
            return self.refuse(work, Reason::Loop, given);
        }
        let depth = work.depth;
        match work.item {
            Item::Frames(port, vector) => self.frames(now, depth, port, vector, around, given),
            Item::Message(port, message, _) => self.call(now, depth, around, given, |block, cx| block.stream(port, message, cx)),
            Item::Completed(token, bytes) => self.call(now, depth, around, given, |block, cx| block.completed(token, bytes, cx)),
            Item::Changed(table, None) => self.call(now, depth, around, given, |block, cx| block.table_changed(table, cx)),
            Item::Changed(table, Some(row)) => self.call(now, depth, around, given, |block, cx| block.row_changed(table, row, cx)),
            Item::Change(table, change) => self.call(now, depth, around, given, |block, cx| block.change(table, *change, cx)),
        }
    }

    /// Fires one timer that is due. False: there is none.
    pub fn fire(&mut self, now: Instant, around: &dyn Around, given: &mut Given) -> bool {
        let Some((_, token)) = self.timers.pop(now) else { return false };
        self.call(now, 0, around, given, |block, cx| block.timer(token, cx));
        true
    }

    /// Calls into the block; nothing happens when it is gone. `depth` is 0 for what comes from outside the graph.
    pub fn call(
        &mut self,
        now: Instant,
        depth: u16,
        around: &dyn Around,
        given: &mut Given,
        f: impl FnOnce(&mut dyn Block, &mut Context<'_>),
    ) {
        self.now = self.now.max(now);
        let Some(mut block) = self.block.take() else { return };
        f(&mut *block, &mut Context { now: self.now, rng: &mut self.rng, me: self.id, out: &mut self.outbox, around });
        self.block = Some(block);
        self.collect(depth, around, given);
    }

    /// Drops work for this block, counted as dropped by it; whoever wants to know is told.
    pub fn refuse(&mut self, work: Work, reason: Reason, given: &mut Given) {
        if let Item::Frames(_, vector) = work.item {
            self.drop_vector(vector, reason, given);
        }
    }

    /// Counts frames that were dropped in front of this block, or behind it where the graph ends.
    pub fn count_drops(&mut self, reason: Reason, frames: u64) {
        self.drops[reason as usize] += frames;
    }

    fn drop_vector(&mut self, mut vector: Vector, reason: Reason, given: &mut Given) {
        self.drops[reason as usize] += vector.iter().count() as u64;
        for mut frame in vector.drain() {
            finish(&mut frame, 0, given);
        }
        self.keep(vector);
    }

    fn keep(&mut self, vector: Vector) {
        if self.spare.len() < SPARE_MAX {
            self.spare.push(vector);
        }
    }

    fn frames(&mut self, now: Instant, depth: u16, port: InPort, mut vector: Vector, around: &dyn Around, given: &mut Given) {
        self.now = self.now.max(now);
        self.frames_in += vector.len() as u64;
        let Some(mut block) = self.block.take() else { return self.drop_vector(vector, Reason::BlockGone, given) };
        vector.set_all(Verdict::Consumed);
        block.process(port, &mut vector, &mut Context { now: self.now, rng: &mut self.rng, me: self.id, out: &mut self.outbox, around });
        self.block = Some(block);
        self.collect(depth, around, given);
        self.distribute(depth, vector, around, given);
    }

    /// As the engine does it: frames, then messages, then the rest.
    fn collect(&mut self, depth: u16, around: &dyn Around, given: &mut Given) {
        if self.outbox.is_empty() {
            return;
        }
        let mut out = std::mem::take(&mut self.outbox);
        for (token, at) in out.timers.drain(..) {
            match at {
                Some(at) => self.timers.set(self.id, token, at),
                None => self.timers.cancel(self.id, token),
            }
        }
        self.emitted(&mut out, depth, around, given);
        for (port, message) in out.messages.drain(..) {
            if let Some((block, input)) = around.edge(self.id, port) {
                given.work.push(Work { block, depth, item: Item::Message(input, message, self.id) });
            }
        }
        for (reason, completion) in out.drops.drain(..) {
            self.drops[reason as usize] += 1;
            out.completions.extend(completion);
        }
        for Completion { block, token, bytes } in out.completions.drain(..) {
            given.work.push(Work { block, depth: depth + 1, item: Item::Completed(token, bytes) });
        }
        for (table, change) in out.changes.drain(..) {
            if let Some(block) = around.owner(table) {
                given.work.push(Work { block, depth: depth + 1, item: Item::Change(table, Box::new(change)) });
            }
        }
        for (table, row, back) in out.changed.drain(..) {
            let tell = |block| Work { block, depth: depth + 1, item: Item::Changed(table, row) };
            given.work.extend(around.others(self.id).into_iter().chain(back.then_some(self.id)).map(tell));
        }
        let alert = |(name, value)| Alert { at: self.now, block: self.name.to_string(), name, value };
        given.alerts.extend(out.alerts.drain(..).map(alert));
        given.orders.extend(out.orders.drain(..).map(|(serial, op)| Order { block: self.id, serial, op }));
        self.orders_refused += std::mem::take(&mut out.orders_refused);
        self.outbox = out;
    }

    /// Emitted frames, those that follow each other through one port in one vector.
    fn emitted(&mut self, out: &mut Outbox, depth: u16, around: &dyn Around, given: &mut Given) {
        let mut open: Option<(OutPort, Vector)> = None;
        for (port, frame) in out.frames.drain(..) {
            match &mut open {
                Some((current, vector)) if *current == port && vector.len() < VECTOR_FRAMES_MAX => vector.push(frame),
                _ => {
                    let mut vector = self.spare.pop().unwrap_or_default();
                    vector.push(frame);
                    if let Some((port, full)) = open.replace((port, vector)) {
                        self.forward(depth, port, full, around, given);
                    }
                }
            }
        }
        if let Some((port, vector)) = open {
            self.forward(depth, port, vector, around, given);
        }
    }

    /// Sends the frames of a vector where their verdicts say; a vector with one verdict travels whole.
    fn distribute(&mut self, depth: u16, mut vector: Vector, around: &dyn Around, given: &mut Given) {
        match vector.uniform() {
            Some(Verdict::Forward(port)) if !vector.is_empty() => return self.forward(depth, port, vector, around, given),
            Some(Verdict::Drop(reason)) => return self.drop_vector(vector, reason, given),
            _ => {}
        }
        let mut parts: Vec<(OutPort, Vector)> = Vec::new();
        for index in 0..vector.len() {
            let verdict = vector.verdict(index);
            let Some(mut frame) = vector.take(index) else { continue };
            match verdict {
                Verdict::Forward(port) => match parts.iter_mut().find(|(of, _)| *of == port) {
                    Some((_, part)) => part.push(frame),
                    None => {
                        let mut part = self.spare.pop().unwrap_or_default();
                        part.push(frame);
                        parts.push((port, part));
                    }
                },
                Verdict::Consumed => finish(&mut frame, 0, given),
                Verdict::Drop(reason) => {
                    self.drops[reason as usize] += 1;
                    finish(&mut frame, 0, given);
                }
            }
        }
        drop(vector.drain());
        self.keep(vector);
        for (port, part) in parts {
            self.forward(depth, port, part, around, given);
        }
    }

    fn forward(&mut self, depth: u16, port: OutPort, mut vector: Vector, around: &dyn Around, given: &mut Given) {
        if let Some((block, input)) = around.edge(self.id, port) {
            return given.work.push(Work { block, depth: depth + 1, item: Item::Frames(input, vector) });
        }
        if !self.kind.outputs.get(usize::from(port.0)).is_some_and(|port| port.outside) {
            return self.drop_vector(vector, Reason::NotBound, given);
        }
        given.outgoing.extend(vector.drain().map(|frame| Outgoing { block: self.id, port, frame }));
        self.keep(vector);
    }
}

/// A frame has come to its end inside the graph: its sender hears of it.
fn finish(frame: &mut Frame, depth: u16, given: &mut Given) {
    if let Some(Completion { block, token, bytes }) = frame.take_completion() {
        given.work.push(Work { block, depth, item: Item::Completed(token, bytes) });
    }
}
