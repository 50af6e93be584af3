//! Executes a graph: *inline* (run to completion, depth first, vectors of frames) or *queued* (one thread, a queue per block).
//!
//! Both carry the same frames along the same edges; they differ in the order in which blocks take turns. Frames of one edge never
//! overtake each other, nor do stream messages of one block (`behind`). A frame that visits more than [`DEPTH_MAX`] blocks is dropped, and so is what is left when one event has caused more
//! than [`VISITS_MAX`] visits: a graph that loops, or copies in a loop, cannot hang a node.

mod behind;
mod orders;
mod questions;

use crate::block::{Block, BlockId, InPort, OutPort};
use crate::change::Change;
use crate::context::{Context, Outbox};
use crate::control::{ControlError, Message, Op, Reply, Value};
use crate::frame::{Completion, Frame};
use crate::graph::{BlockTable, Slots};
use crate::order::{Obeyed, Order};
use crate::reason::Reason;
use crate::rng::Rng;
use crate::selector::Selector;
use crate::snapshot::SnapshotError;
use crate::solo::Solo;
use crate::state::State;
use crate::stream::StreamMessage;
use crate::table::Table;
use crate::time::Instant;
use crate::timer::Timers;
use crate::transaction::{self, Plan};
use crate::vector::{VECTOR_FRAMES_MAX, Vector, Verdict};
use behind::Behind;
use std::collections::VecDeque;

/// Most blocks that a frame, and what it causes at once, passes in one go.
pub const DEPTH_MAX: u16 = 512;
/// Most visits of blocks by vectors that follow from one event (a vector that came in, a timer, a call): copies of copies in a loop are as
/// many as two to the power of [`DEPTH_MAX`]. The most that honest work takes is a few visits for each segment of a full send buffer.
pub const VISITS_MAX: u32 = 1 << 18;
/// Most frames that wait in front of one block of a queued engine.
pub const QUEUE_FRAMES_MAX: usize = 8192;
/// Most frames that a paused graph holds, all edges together.
pub const HELD_FRAMES_MAX: usize = 8192;
/// Most alerts that wait to be fetched; older ones are dropped and counted.
pub const ALERTS_MAX: usize = 1024;
/// Most timers that fire in one [`Engine::run`]; the rest are due at the next.
const TIMERS_PER_RUN: usize = 65_536;

/// How an engine takes turns.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default, serde::Serialize, serde::Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Mode {
    /// Run to completion.
    #[default]
    Inline,
    /// A queue in front of every block, served in turn.
    Queued,
}

/// An alert that a block raised.
#[derive(Clone, Debug, PartialEq)]
pub struct Alert {
    /// When.
    pub at: Instant,
    /// Which block.
    pub block: String,
    /// Which alert.
    pub name: &'static str,
    /// Its fields.
    pub value: Value,
}

/// A frame that left the graph.
#[derive(Debug)]
pub struct Outgoing {
    /// Through which block.
    pub block: BlockId,
    /// Through which port.
    pub port: OutPort,
    /// The frame.
    pub frame: Frame,
}

/// What can be brought to a block.
#[derive(Debug)]
pub enum Item {
    /// Frames, to an input.
    Frames(InPort, Vector),
    /// A stream message, to an input, and who says it.
    Message(InPort, StreamMessage, BlockId),
    /// Frames have left or were dropped: token, bytes.
    Completed(u64, u32),
    /// A table has changed, or one row of it.
    Changed(crate::table::Table, Option<crate::table::Row>),
    /// A table of the block's is to be changed.
    Change(crate::table::Table, Box<Change>),
}

/// Something that is to be brought to a block.
#[derive(Debug)]
pub struct Work {
    /// To which.
    pub block: BlockId,
    /// How many blocks it, and what caused it at once, has passed.
    pub depth: u16,
    /// What.
    pub item: Item,
}

// Work is moved several times between blocks, bulk data's as well: what is rare and large in it is boxed.
const _: () = assert!(size_of::<Work>() <= 80);

impl Work {
    /// Frames in it.
    pub fn frames(&self) -> usize {
        match &self.item {
            Item::Frames(_, vector) => vector.len(),
            _ => 0,
        }
    }
}

/// A running graph.
#[derive(Debug)]
pub struct Engine {
    slots: Slots,
    table: BlockTable,
    mode: Mode,
    now: Instant,
    rng: Rng,
    /// For blocks that replace others: a replacement changes nothing of what the rest draws.
    successors: Rng,
    timers: Timers,
    /// Inline: a stack, the next at the end.
    stack: Vec<Work>,
    behind: Behind<Work>,
    /// Queued: one queue a block, and who is next.
    queues: Vec<VecDeque<Work>>,
    queued_frames: Vec<usize>,
    turn: VecDeque<BlockId>,
    outgoing: Vec<Outgoing>,
    alerts: VecDeque<Alert>,
    alerts_lost: u64,
    /// What blocks have ordered, until everything is at rest.
    orders: VecDeque<Order>,
    obeyed: VecDeque<Obeyed>,
    obeyed_lost: u64,
    /// How often blocks or edges have become others.
    changes: u64,
    /// How often interfaces have become others.
    interface_changes: u64,
    /// The engine that runs the blocks cannot hold frames.
    never_pauses: bool,
    /// Frames stay where they are, in `held`.
    paused: bool,
    held: VecDeque<Work>,
    held_frames: usize,
    /// Taken while what is in it becomes work: eight lists need not be moved for that.
    outbox: Option<Box<Outbox>>,
    /// Visits of blocks since the event that is being worked off.
    visits: u32,
    spare: Vec<Vector>,
    fresh: Vec<Work>,
}

impl Engine {
    /// An engine with an empty graph that can make the blocks of `table`.
    pub fn new(mode: Mode, table: BlockTable, rng: Rng) -> Engine {
        Engine {
            slots: Slots::default(),
            table,
            mode,
            now: Instant::ZERO,
            successors: rng.clone().fork("successors"),
            rng,
            timers: Timers::default(),
            stack: Vec::new(),
            behind: Behind::default(),
            queues: Vec::new(),
            queued_frames: Vec::new(),
            turn: VecDeque::new(),
            outgoing: Vec::new(),
            alerts: VecDeque::new(),
            alerts_lost: 0,
            orders: VecDeque::new(),
            obeyed: VecDeque::new(),
            obeyed_lost: 0,
            changes: 0,
            interface_changes: 0,
            never_pauses: false,
            paused: false,
            held: VecDeque::new(),
            held_frames: 0,
            outbox: None,
            visits: 0,
            spare: Vec::new(),
            fresh: Vec::new(),
        }
    }

    /// The running graph.
    pub fn graph(&self) -> &Slots {
        &self.slots
    }
    /// The kinds of block it can make.
    pub fn kinds(&self) -> &BlockTable {
        &self.table
    }
    /// The time of the last call.
    pub fn now(&self) -> Instant {
        self.now
    }
    /// When [`Engine::run`] should be called next, if nothing else happens.
    pub fn next_timer(&self) -> Option<Instant> {
        self.timers.next()
    }
    /// How many timers are set.
    pub fn timers(&self) -> usize {
        self.timers.len()
    }
    /// Frames that left the graph since the last call, in order.
    pub fn take_outgoing(&mut self) -> Vec<Outgoing> {
        std::mem::take(&mut self.outgoing)
    }
    /// Has anything left the graph?
    pub fn has_outgoing(&self) -> bool {
        !self.outgoing.is_empty()
    }
    /// Alerts since the last call, in order.
    pub fn take_alerts(&mut self) -> Vec<Alert> {
        self.alerts.drain(..).collect()
    }
    /// Alerts that nobody fetched in time.
    pub fn alerts_lost(&self) -> u64 {
        self.alerts_lost
    }

    /// Puts frames into a block's input and runs everything that follows.
    pub fn inject(&mut self, now: Instant, block: BlockId, port: InPort, frames: impl IntoIterator<Item = Frame>) {
        self.advance(now);
        let mut vector = self.spare.pop().unwrap_or_default();
        for frame in frames {
            vector.push(frame);
            if vector.len() == VECTOR_FRAMES_MAX {
                let full = std::mem::replace(&mut vector, self.spare.pop().unwrap_or_default());
                self.work(Work { block, depth: 0, item: Item::Frames(port, full) });
                self.settle();
            }
        }
        if !vector.is_empty() {
            self.work(Work { block, depth: 0, item: Item::Frames(port, vector) });
            self.settle();
        }
    }

    /// Fires the timers that are due and runs everything that follows.
    pub fn run(&mut self, now: Instant) {
        self.advance(now);
        self.settle();
        for _ in 0..TIMERS_PER_RUN {
            let Some((block, token)) = self.timers.pop(self.now) else { return };
            self.call(block, 0, |block, cx| block.timer(token, cx));
            self.settle();
        }
    }

    /// Calls into one block, then runs everything that follows. `None`: there is no such block.
    pub fn with<R>(&mut self, now: Instant, block: BlockId, f: impl FnOnce(&mut dyn Block, &mut Context<'_>) -> R) -> Option<R> {
        self.advance(now);
        let mut result = None;
        self.call(block, 0, |block, cx| result = Some(f(block, cx)));
        self.settle();
        result
    }

    /// Gives back memory that a burst needed: for quiet times, when nothing is on its way. See [`Block::give_back_memory`].
    pub fn give_back_memory(&mut self) {
        (self.spare, self.stack, self.fresh, self.outgoing) = Default::default();
        self.queues.iter_mut().for_each(VecDeque::shrink_to_fit);
        let ids: Vec<BlockId> = self.slots.ids().collect();
        for id in ids {
            self.block(id).map(Block::give_back_memory);
        }
    }

    /// A block, to be looked at: nothing is carried on afterwards, so nothing may come of it.
    pub fn block(&mut self, block: BlockId) -> Option<&mut dyn Block> {
        self.slots.slot_mut(block)?.block.as_deref_mut()
    }

    /// Reports that a frame has left the world's side, and runs what follows.
    pub fn completed(&mut self, now: Instant, completion: Completion) {
        self.advance(now);
        let Completion { block, token, bytes } = completion;
        self.work(Work { block, depth: 0, item: Item::Completed(token, bytes) });
        self.settle();
    }

    /// Takes every block out, with its edges, timers and a random stream of its own, for an engine that runs each by itself. Until they are back
    /// ([`Engine::take_back`]) this engine knows the graph, but can run nothing.
    pub fn lend(&mut self) -> Vec<Solo> {
        let ids: Vec<BlockId> = self.slots.ids().collect();
        let mut out = Vec::with_capacity(ids.len());
        for id in ids {
            let rng = self.rng.fork(self.slots.name(id));
            let timers = self.timers.take_all(id);
            let Some(slot) = self.slots.slot_mut(id) else { continue };
            out.push(Solo::new(id, slot.name.clone(), slot.kind, slot.block.take(), rng, timers));
        }
        out
    }

    /// Takes a lent block back, with what it counted and its timers.
    pub fn take_back(&mut self, solo: Solo) {
        let solo = solo.into_parts();
        self.advance(solo.now);
        let Some(slot) = self.slots.slot_mut(solo.id) else { return };
        slot.block = solo.block;
        slot.frames_in += solo.frames_in;
        slot.orders[1] += solo.orders_refused;
        slot.drops.iter_mut().zip(solo.drops.iter()).for_each(|(sum, count)| *sum += count);
        for (token, at) in solo.timers {
            self.timers.set(solo.id, token, at);
        }
    }

    /// Does the work that another engine had left, and what follows from it. Queued, what waited for a block comes before what follows from work
    /// for others, so that frames of one edge do not overtake each other.
    pub fn carry(&mut self, now: Instant, work: impl IntoIterator<Item = Work>) {
        self.advance(now);
        work.into_iter().for_each(|work| self.work(work));
        self.settle();
    }

    /// Answers a control message. Every message gets exactly one reply.
    pub fn control(&mut self, now: Instant, message: &Message) -> Reply {
        self.advance(now);
        let result = self.operate(&message.op);
        self.settle();
        Reply { serial: message.serial, result }
    }

    /// Checks a change without making it.
    pub fn prepare(&mut self, ops: &[Op]) -> Result<Plan, ControlError> {
        transaction::prepare(&self.slots, &self.table, ops, self.now, &mut self.rng, &mut self.successors)
    }

    /// Checks that a snapshot's states fit this graph, and makes the blocks that will hold them, without changing anything.
    ///
    /// # Errors
    /// What does not fit, with the block.
    pub fn prepare_restore(&mut self, now: Instant, blocks: &[(String, State)]) -> Result<Plan, SnapshotError> {
        self.advance(now);
        transaction::prepare_restore(&self.slots, &self.table, blocks, self.now, &mut self.rng, &mut self.successors)
    }

    /// Makes a change that was prepared, at a frame boundary. Returns what changed.
    pub fn commit(&mut self, plan: Plan) -> Vec<String> {
        let summary = self.change(plan);
        self.settle();
        summary
    }

    fn change(&mut self, plan: Plan) -> Vec<String> {
        self.changes += u64::from(plan.rebuilds());
        let done = transaction::commit(&mut self.slots, plan, self.now);
        if let Some(kinds) = done.kinds {
            self.table = kinds;
        }
        for id in done.replaced {
            self.timers.cancel_all(id);
        }
        self.queues.resize_with(self.slots.slots.len(), VecDeque::new);
        self.queued_frames.resize(self.slots.slots.len(), 0);
        for mut frame in done.given_up {
            self.finish(&mut frame);
        }
        // Together: what the first of them lets go is not overtaken by what the next one does.
        for (id, name, value) in done.sets {
            self.call_only(id, 0, |block, cx| block.set(&name, value, cx));
        }
        for table in done.lost {
            let others: Vec<BlockId> = self.slots.ids().filter(|id| self.asks(*id, table)).collect();
            for id in others {
                self.call_only(id, 0, |block, cx| block.owner_lost(table, cx));
            }
        }
        for id in done.started {
            self.call_only(id, 0, |block, cx| block.started(cx));
        }
        self.flush();
        self.drain();
        done.summary
    }

    fn asks(&self, id: BlockId, table: Table) -> bool {
        self.slots.kind(id).is_some_and(|kind| kind.asks.contains(&table)) && self.slots.owner(table) != Some(id)
    }

    fn advance(&mut self, now: Instant) {
        self.now = self.now.max(now);
    }

    fn operate(&mut self, op: &Op) -> Result<Value, ControlError> {
        match op {
            Op::Get { target, name } => self.get(target, name.as_deref()),
            Op::Exec { target, procedure, arguments } => self.exec(target, procedure, arguments),
            Op::Subscribe { target, .. } => self.select(target).map(|ids| ids.iter().map(|id| Value::from(self.slots.name(*id))).collect()),
            Op::List(table) => Ok(self.list(*table)),
            Op::Show(show) => Ok(self.show(*show)),
            Op::Pause | Op::Unpause if self.never_pauses => {
                let why = "the threaded engine cannot hold frames: pause a stack with engine = \"inline\" or \"queued\"";
                Err(ControlError::World { why: why.into() })
            }
            Op::Pause => Ok(self.pause().into()),
            Op::Unpause => Ok(self.unpause().into()),
            Op::Snapshot { .. } | Op::Restore { .. } => {
                Err(ControlError::World { why: "this node has nobody who reads and writes files for it".into() })
            }
            change => {
                let plan = self.prepare(std::slice::from_ref(change))?;
                Ok(self.change(plan).into())
            }
        }
    }

    /// From now on nobody can pause the graph: its blocks are lent to an engine that cannot hold frames.
    pub fn refuse_pauses(&mut self) {
        self.never_pauses = true;
    }

    /// Are frames held?
    pub fn is_paused(&self) -> bool {
        self.paused
    }

    fn pause(&mut self) -> Vec<String> {
        let was = std::mem::replace(&mut self.paused, true);
        if was { Vec::new() } else { vec!["pause".to_owned()] }
    }

    /// What was held goes on one by one, so that nothing of it is overtaken by what follows from it.
    fn unpause(&mut self) -> Vec<String> {
        if !std::mem::replace(&mut self.paused, false) {
            return Vec::new();
        }
        let frames = std::mem::take(&mut self.held_frames);
        for work in std::mem::take(&mut self.held) {
            // The block may be one of another kind by now.
            let has_port = match (&work.item, self.slots.kind(work.block)) {
                (Item::Frames(port, _), Some(kind)) => usize::from(port.0) < kind.inputs.len(),
                _ => true,
            };
            match has_port {
                true => self.work(work),
                false => self.drop_work(work, Reason::NotBound),
            }
            self.drain();
        }
        vec![format!("unpause: {frames} frames go on")]
    }

    fn hold(&mut self, work: Work) {
        let frames = work.frames();
        if self.held_frames + frames > HELD_FRAMES_MAX {
            self.drop_work(work, Reason::Paused);
            return self.flush();
        }
        self.held_frames += frames;
        self.held.push_back(work);
    }

    /// Expands a selector to blocks, once.
    fn select(&self, target: &Selector) -> Result<Vec<BlockId>, ControlError> {
        let found: Vec<BlockId> = self.slots.names.iter().filter(|(name, _)| target.matches(name, None)).map(|(_, id)| *id).collect();
        match (found.is_empty(), target) {
            (false, _) => Ok(found),
            (true, Selector::Name(name)) => {
                Err(ControlError::NoBlock { name: name.clone(), known: self.slots.names.keys().cloned().collect::<Vec<_>>().join(", ") })
            }
            (true, other) => Err(ControlError::NoMatch { selector: other.to_string() }),
        }
    }

    fn exec(&mut self, target: &Selector, procedure: &str, arguments: &Value) -> Result<Value, ControlError> {
        let ids = self.select(target)?;
        let mut out = serde_json::Map::new();
        for id in ids {
            let mut result = Ok(Value::Null);
            self.call(id, 0, |block, cx| result = block.exec(procedure, arguments, cx));
            self.drain();
            out.insert(self.slots.name(id).to_owned(), result?);
        }
        Ok(out.into())
    }

    /// Hands a piece of work to the engine's order.
    fn work(&mut self, work: Work) {
        match self.mode {
            Mode::Inline => self.stack.push(work),
            Mode::Queued => self.enqueue(work),
        }
    }

    fn enqueue(&mut self, work: Work) {
        let index = work.block.0 as usize;
        let frames = work.frames();
        let Some(queue) = self.queues.get_mut(index) else { return self.drop_work(work, Reason::BlockGone) };
        if frames > 0 && self.queued_frames[index] + frames > QUEUE_FRAMES_MAX {
            self.drop_work(work, Reason::QueueFull);
            return;
        }
        if queue.is_empty() {
            self.turn.push_back(work.block);
        }
        self.queued_frames[index] += frames;
        queue.push_back(work);
    }

    fn drain(&mut self) {
        self.visits = 0;
        self.flush();
        match self.mode {
            Mode::Inline => {
                while let Some(work) = self.stack.pop() {
                    self.step(work);
                }
            }
            Mode::Queued => {
                while let Some(block) = self.turn.pop_front() {
                    let index = block.0 as usize;
                    let mut batch = std::mem::take(&mut self.queues[index]);
                    self.queued_frames[index] = 0;
                    while let Some(work) = batch.pop_front() {
                        self.step(work);
                    }
                    if self.queues[index].is_empty() {
                        self.queues[index] = batch;
                    }
                }
            }
        }
    }

    fn step(&mut self, work: Work) {
        self.visits += 1;
        if let Item::Message(_, _, from) = work.item {
            self.behind.arrives(from.0, &mut self.stack);
        }
        if work.depth > DEPTH_MAX || (self.visits > VISITS_MAX && matches!(work.item, Item::Frames(..))) {
            self.drop_work(work, Reason::Loop);
            return self.flush();
        }
        let (id, depth) = (work.block, work.depth);
        match work.item {
            Item::Frames(..) if self.paused => self.hold(work),
            Item::Frames(port, vector) => self.step_frames(id, depth, port, vector),
            Item::Message(port, message, _) => self.call(id, depth, |block, cx| block.stream(port, message, cx)),
            Item::Completed(token, bytes) => self.call(id, depth, |block, cx| block.completed(token, bytes, cx)),
            Item::Changed(table, None) => self.call(id, depth, |block, cx| block.table_changed(table, cx)),
            Item::Changed(table, Some(row)) => self.call(id, depth, |block, cx| block.row_changed(table, row, cx)),
            Item::Change(table, change) => self.call(id, depth, |block, cx| block.change(table, *change, cx)),
        }
    }

    fn drop_work(&mut self, work: Work, reason: Reason) {
        let Item::Frames(_, mut vector) = work.item else { return };
        let frames = vector.iter().count() as u64;
        self.slots.count_drops(work.block, reason, frames);
        for mut frame in vector.drain() {
            self.finish(&mut frame);
        }
        self.spare.push(vector);
    }

    /// A frame has come to its end inside the graph: its sender hears of it.
    fn finish(&mut self, frame: &mut Frame) {
        if let Some(Completion { block, token, bytes }) = frame.take_completion() {
            self.fresh.push(Work { block, depth: 0, item: Item::Completed(token, bytes) });
        }
    }

    fn step_frames(&mut self, mut id: BlockId, mut depth: u16, mut port: InPort, mut vector: Vector) {
        loop {
            let Some(mut block) = self.slots.slot_mut(id).and_then(|slot| {
                slot.frames_in += vector.len() as u64;
                slot.block.take()
            }) else {
                self.drop_work(Work { block: id, depth, item: Item::Frames(port, vector) }, Reason::BlockGone);
                return self.flush();
            };
            vector.set_all(Verdict::Consumed);
            let mut cx =
                Context { now: self.now, rng: &mut self.rng, me: id, out: self.outbox.get_or_insert_default(), around: &self.slots };
            block.process(port, &mut vector, &mut cx);
            // The usual case, without a detour over the stack: the whole vector goes on, and nothing else happened. What was fresh
            // would be the next item anyway.
            let onward = match vector.uniform() {
                Some(Verdict::Forward(out)) if self.mode == Mode::Inline && depth < DEPTH_MAX && self.has_nothing_out() => Some(out),
                _ => None,
            };
            let mut edge = None;
            if let Some(slot) = self.slots.slot_mut(id) {
                slot.block = Some(block);
                edge = onward.and_then(|out| slot.edge(out));
            }
            if let Some((next, input)) = edge
                && !vector.is_empty()
            {
                (id, port) = (next, input);
                depth += 1;
                self.visits += 1;
                continue;
            }
            self.collect_outbox(id, depth);
            self.distribute(id, depth, vector);
            return self.flush();
        }
    }

    fn collect_outbox(&mut self, id: BlockId, depth: u16) {
        if !self.has_nothing_out()
            && let Some(mut out) = self.outbox.take()
        {
            self.collect(id, depth, &mut out);
            self.outbox = Some(out);
        }
    }

    fn has_nothing_out(&self) -> bool {
        self.outbox.as_ref().is_none_or(|out| out.is_empty())
    }

    fn call(&mut self, id: BlockId, depth: u16, f: impl FnOnce(&mut dyn Block, &mut Context<'_>)) {
        self.call_only(id, depth, f);
        self.flush();
    }

    /// The same, and what follows from it is fresh work still.
    fn call_only(&mut self, id: BlockId, depth: u16, f: impl FnOnce(&mut dyn Block, &mut Context<'_>)) {
        let Some(mut block) = self.slots.slot_mut(id).and_then(|slot| slot.block.take()) else { return };
        f(
            &mut *block,
            &mut Context { now: self.now, rng: &mut self.rng, me: id, out: self.outbox.get_or_insert_default(), around: &self.slots },
        );
        if let Some(slot) = self.slots.slot_mut(id) {
            slot.block = Some(block);
        }
        self.collect_outbox(id, depth);
    }

    /// What a block gave out becomes work, in order: frames, then messages, then the rest.
    fn collect(&mut self, id: BlockId, depth: u16, out: &mut Outbox) {
        for (token, at) in out.timers.drain(..) {
            match at {
                Some(at) => self.timers.set(id, token, at),
                None => self.timers.cancel(id, token),
            }
        }
        let mut open: Option<(OutPort, Vector)> = None;
        for (port, frame) in out.frames.drain(..) {
            if let Some((current, vector)) = &mut open {
                if *current == port && vector.len() < VECTOR_FRAMES_MAX {
                    vector.push(frame);
                    continue;
                }
                let vector = std::mem::take(vector);
                self.forward(id, depth, *current, vector);
            }
            let mut vector = self.spare.pop().unwrap_or_default();
            vector.push(frame);
            open = Some((port, vector));
        }
        if let Some((port, vector)) = open {
            self.forward(id, depth, port, vector);
        }
        let late = self.mode == Mode::Inline && self.behind.waits(id.0);
        for (port, message) in out.messages.drain(..) {
            let Some((block, input)) = self.slots.edge(id, port) else { continue };
            // Messages do not deepen what they come of: two blocks of a stream answer each other for each piece of a full send buffer, and a message that
            // is lost is a hole in somebody's data.
            let work = Work { block, depth, item: Item::Message(input, message, id) };
            match late {
                true => self.behind.add(id.0, work),
                false => {
                    self.behind.sets_out(id.0);
                    self.fresh.push(work);
                }
            }
        }
        for (reason, completion) in out.drops.drain(..) {
            if let Some(slot) = self.slots.slot_mut(id) {
                slot.drops[reason as usize] += 1;
            }
            out.completions.extend(completion);
        }
        for Completion { block, token, bytes } in out.completions.drain(..) {
            self.fresh.push(Work { block, depth: depth + 1, item: Item::Completed(token, bytes) });
        }
        for (table, change) in out.changes.drain(..) {
            if let Some(block) = self.slots.owner(table) {
                self.fresh.push(Work { block, depth: depth + 1, item: Item::Change(table, Box::new(change)) });
            }
        }
        for (table, row, back) in out.changed.drain(..) {
            self.interface_changes += u64::from(table == Table::Interfaces);
            let others: Vec<BlockId> = self.slots.ids().filter(|other| *other != id).collect();
            for block in others.into_iter().chain(back.then_some(id)) {
                self.fresh.push(Work { block, depth: depth + 1, item: Item::Changed(table, row) });
            }
        }
        self.orders.extend(out.orders.drain(..).map(|(serial, op)| Order { block: id, serial, op }));
        if let (refused @ 1.., Some(slot)) = (std::mem::take(&mut out.orders_refused), self.slots.slot_mut(id)) {
            slot.orders[1] += refused;
        }
        for (name, value) in out.alerts.drain(..) {
            if self.alerts.len() == ALERTS_MAX {
                self.alerts.pop_front();
                self.alerts_lost += 1;
            }
            self.alerts.push_back(Alert { at: self.now, block: self.slots.name(id).to_owned(), name, value });
        }
    }

    /// Sends the frames of a vector where their verdicts say; a vector with one verdict travels whole.
    fn distribute(&mut self, id: BlockId, depth: u16, mut vector: Vector) {
        match vector.uniform() {
            Some(Verdict::Forward(port)) if !vector.is_empty() => return self.forward(id, depth, port, vector),
            Some(Verdict::Drop(reason)) => return self.drop_work(Work { block: id, depth, item: Item::Frames(InPort(0), vector) }, reason),
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
                Verdict::Consumed => self.finish(&mut frame),
                Verdict::Drop(reason) => {
                    if let Some(slot) = self.slots.slot_mut(id) {
                        slot.drops[reason as usize] += 1;
                    }
                    self.finish(&mut frame);
                }
            }
        }
        drop(vector.drain());
        self.spare.push(vector);
        for (port, part) in parts {
            self.forward(id, depth, port, part);
        }
    }

    fn forward(&mut self, id: BlockId, depth: u16, port: OutPort, mut vector: Vector) {
        if let Some((block, input)) = self.slots.edge(id, port) {
            self.fresh.push(Work { block, depth: depth + 1, item: Item::Frames(input, vector) });
            return;
        }
        let outside = self.slots.kind(id).and_then(|kind| kind.outputs.get(usize::from(port.0))).is_some_and(|port| port.outside);
        if outside {
            self.outgoing.extend(vector.drain().map(|frame| Outgoing { block: id, port, frame }));
            self.spare.push(vector);
            return;
        }
        self.drop_work(Work { block: id, depth, item: Item::Frames(InPort(0), vector) }, Reason::NotBound);
    }

    /// Fresh work joins the order. The stack gets it reversed, so that it comes out in the order it was made.
    fn flush(&mut self) {
        match self.mode {
            Mode::Inline => {
                while let Some(work) = self.fresh.pop() {
                    self.stack.push(work);
                }
            }
            // What finds a queue full may have a completion to report, which is fresh again.
            Mode::Queued => {
                while !self.fresh.is_empty() {
                    let mut fresh = std::mem::take(&mut self.fresh);
                    for work in fresh.drain(..) {
                        self.enqueue(work);
                    }
                    if self.fresh.is_empty() {
                        self.fresh = fresh;
                        return;
                    }
                }
            }
        }
    }
}
