//! The threaded engine: a thread and a bounded queue for each block of a graph. For comparison with the engines of `weft_core`, in real time only.
//!
//! Frames, stream messages, completions, tells and news of tables reach a block through its queue; its timers it minds itself. A block runs in
//! its thread, or, for a call from outside ([`Execute::with`]), in the caller's, under a lock that it shares with as few others as
//! questions between blocks allow: `topology` says which, and why nobody can wait in a circle. Frames of one edge never overtake each other.
//!
//! **Nobody waits for room.** A full queue refuses frames, counted as `queue-full` in front of the block; so does the way out. What is not a frame is
//! never refused: it is bounded by what causes it (data by credit, completions by frames, calls and events by segments and by the world). So
//! that it stays bounded when a thread falls behind, nothing new is let into the graph while a queue holds more than [`MESSAGES_HIGH`] pieces
//! of work: frames from outside are refused, calls wait, which hold no lock meanwhile.
//!
//! **Control messages** stop the graph at a frame boundary: all locks are taken, all blocks go back into a `weft_core::Engine` (queued), which does what
//! is still in the queues, then the message and what follows from it, exactly as without threads; then the blocks are lent again. When the
//! graph itself has changed, the threads end and others begin. What blocks order waits at the exit, wakes the world, and is done in the same way.
//!
//! **A program's call** is followed by the same ([`Execute::settle`]), so that what it sends to the node itself is there when it returns.
//!
//! **A block that panics** is gone: its frames are dropped as `block-gone`, questions to it have no answer, [`Execute::failure`] says so, and the others
//! go on.

mod exit;
mod inbox;
mod lock;
mod topology;

pub use exit::OUTGOING_FRAMES_MAX;
pub use inbox::MESSAGES_HIGH;

use crate::clock::Clock;
use exit::Exit;
use rustix::fd::BorrowedFd;
use std::collections::VecDeque;
use std::io;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, MutexGuard};
use std::thread::JoinHandle;
use std::time::Duration;
use topology::{Member, Members, Seat, Surroundings, Topology};
use weft_core::context::Context;
use weft_core::engine::{Alert, Engine, Item, Outgoing, Work};
use weft_core::order::Obeyed;
use weft_core::solo::Given;
use weft_core::vector::VECTOR_FRAMES_MAX;
use weft_core::{Block, BlockId, Completion, ControlError, Execute, Frame, InPort, Instant, Message, Reason, Reply, Solo, Vector};

/// Most timers of a block that fire before it looks into its queue again.
const TIMERS_PER_TURN: usize = 1024;
/// How long a call from outside sleeps before it looks again whether it is let in.
const PRESSURE_WAIT: Duration = Duration::from_micros(200);

/// What the threads share while the graph is the same.
#[derive(Debug)]
struct Shared {
    topology: Topology,
    clock: Clock,
    exit: Arc<Exit>,
    /// How many queues are too long.
    pressure: AtomicUsize,
    /// The kind of block whose runs somebody outside wants to hear of.
    watched: Option<&'static str>,
}

/// A graph with a thread for each block. See the module's text.
#[derive(Debug)]
pub struct Threaded {
    engine: Engine,
    shared: Arc<Shared>,
    threads: Vec<JoinHandle<()>>,
}

impl Threaded {
    /// Takes an engine's graph over and starts a thread for each block. The engine should be queued: it goes on with what is under way when a
    /// control message comes. Whenever a block of the kind `watched` has run, [`Threaded::descriptor`] becomes readable.
    pub fn start(mut engine: Engine, clock: Clock, watched: Option<&'static str>) -> io::Result<Threaded> {
        engine.refuse_pauses();
        let exit = Arc::new(Exit::new()?);
        let shared = Arc::new(Shared::new(&engine, clock, exit, watched));
        let mut threaded = Threaded { engine, shared, threads: Vec::new() };
        threaded.lend();
        threaded.spawn()?;
        Ok(threaded)
    }

    /// Readable when frames or alerts are to be fetched, a watched block has run, or something failed. [`Execute::run`] makes it unreadable.
    pub fn descriptor(&self) -> BorrowedFd<'_> {
        self.shared.exit.descriptor()
    }
    /// Alerts that nobody fetched in time.
    pub fn alerts_lost(&self) -> u64 {
        self.shared.exit.alerts_lost()
    }

    /// Gives the blocks to the places of the topology.
    fn lend(&mut self) {
        let mut groups = self.shared.topology.enter_all();
        place(&self.shared, &mut groups, self.engine.lend());
    }

    fn spawn(&mut self) -> io::Result<()> {
        let ids: Vec<BlockId> = self.shared.topology.seats().map(|(id, _)| id).collect();
        for id in ids {
            let shared = Arc::clone(&self.shared);
            let name = self.engine.graph().name(id).chars().take(15).collect();
            self.threads.push(std::thread::Builder::new().name(name).spawn(move || shared.live(id))?);
        }
        Ok(())
    }

    /// Ends all threads and waits until they have.
    fn halt(&mut self) {
        self.shared.topology.seats().for_each(|(_, seat)| seat.inbox.stop());
        for thread in self.threads.drain(..) {
            if thread.join().is_err() {
                self.shared.exit.fail("a thread of the engine panicked".to_owned());
            }
        }
    }

    /// The graph has changed: places and threads are made anew.
    fn restart(&mut self) {
        self.halt();
        self.shared = Arc::new(Shared::new(&self.engine, self.shared.clock, Arc::clone(&self.shared.exit), self.shared.watched));
        self.lend();
        if let Err(error) = self.spawn() {
            self.shared.exit.fail(format!("no thread for a block: {error}; raise the limit of processes (ulimit -u)"));
        }
    }

    /// Hands out what the engine gave out while it had the blocks.
    fn publish(&mut self) {
        let (mut frames, mut alerts) = (self.engine.take_outgoing(), self.engine.take_alerts());
        self.shared.exit.put(&mut frames, &mut alerts);
        for outgoing in frames {
            self.shared.lost(outgoing, None);
        }
    }
}

impl Drop for Threaded {
    fn drop(&mut self) {
        self.halt();
    }
}

impl Execute for Threaded {
    fn engine(&self) -> &Engine {
        &self.engine
    }

    fn inject(&mut self, _now: Instant, block: BlockId, port: InPort, frames: &mut dyn Iterator<Item = Frame>) {
        loop {
            let mut vector = Vector::default();
            frames.take(VECTOR_FRAMES_MAX).for_each(|frame| vector.push(frame));
            if vector.is_empty() {
                return;
            }
            let work = Work { block, depth: 0, item: Item::Frames(port, vector) };
            match (self.shared.pressure.load(Ordering::Relaxed), self.shared.topology.seat(block)) {
                (1.., Some(seat)) => {
                    seat.inbox.refuse(work.frames() as u64);
                    self.shared.refused(work);
                }
                _ => self.shared.deliver(work),
            }
        }
    }

    fn run(&mut self, now: Instant) {
        self.shared.exit.awake();
        if self.shared.exit.has_orders() {
            self.at_rest(now, &mut |_| false);
        }
    }

    fn settle(&mut self, now: Instant) {
        self.shared.exit.awake();
        // The threads get to what a call has caused some time; at rest it is done here.
        self.at_rest(now, &mut |_| false);
    }

    fn next_timer(&self) -> Option<Instant> {
        None
    }

    fn with(&mut self, now: Instant, block: BlockId, f: &mut dyn FnMut(&mut dyn Block, &mut Context<'_>)) {
        while self.shared.pressure.load(Ordering::Relaxed) > 0 && self.failure().is_none() {
            std::thread::sleep(PRESSURE_WAIT);
        }
        let Some(seat) = self.shared.topology.seat(block) else { return };
        let mut members = self.shared.topology.groups[seat.group].enter();
        let Some(mut member) = members[seat.place].take() else { return };
        let mut given = Given::default();
        let around = Surroundings { topology: &self.shared.topology, group: seat.group, mates: &members };
        member.solo.call(now, 0, &around, &mut given, f);
        self.shared.give(&mut member.solo, &mut given);
        seat.inbox.set_wake(member.solo.next_timer());
        members[seat.place] = Some(member);
    }

    fn completed(&mut self, _now: Instant, completion: Completion) {
        let Completion { block, token, bytes } = completion;
        self.shared.deliver(Work { block, depth: 0, item: Item::Completed(token, bytes) });
    }

    fn control(&mut self, now: Instant, message: &Message) -> Reply {
        let mut result = Err(ControlError::World { why: "the engine did not answer".into() });
        self.at_rest(now, &mut |engine| {
            result = engine.control(now, message).result;
            false
        });
        Reply { serial: message.serial, result }
    }

    fn at_rest(&mut self, now: Instant, f: &mut dyn FnMut(&mut Engine) -> bool) {
        let shared = Arc::clone(&self.shared);
        let mut groups = shared.topology.enter_all();
        let work = collect(&shared, &mut groups, &mut self.engine);
        let changes = self.engine.changes();
        self.engine.carry(now, work);
        // Timers that are due have had no chance to fire.
        self.engine.run(now);
        // What blocks have ordered comes before what the world wants.
        shared.topology.order_places.free();
        self.engine.obey(shared.exit.take_orders());
        let is_other = f(&mut self.engine) || self.engine.changes() != changes;
        self.publish();
        match is_other {
            true => {
                drop(groups);
                self.restart();
            }
            false => place(&shared, &mut groups, self.engine.lend()),
        }
    }

    fn take_outgoing(&mut self) -> Vec<Outgoing> {
        self.shared.exit.take_frames()
    }
    fn has_outgoing(&self) -> bool {
        self.shared.exit.has_frames()
    }
    fn take_alerts(&mut self) -> Vec<Alert> {
        self.shared.exit.take_alerts()
    }
    fn take_obeyed(&mut self) -> Vec<Obeyed> {
        self.engine.take_obeyed()
    }
    fn failure(&self) -> Option<String> {
        self.shared.exit.failure()
    }
}

/// Puts blocks into their places; the groups' locks are held.
fn place(shared: &Shared, groups: &mut [MutexGuard<'_, Members>], solos: Vec<Solo>) {
    for solo in solos {
        let Some(seat) = shared.topology.seat(solo.id()) else { continue };
        seat.inbox.set_wake(solo.next_timer());
        groups[seat.group][seat.place] = Some(Box::new(Member { solo, batch: VecDeque::new() }));
    }
}

/// Takes blocks from their places back into the engine, and the work that waits for them; the groups' locks are held.
fn collect(shared: &Shared, groups: &mut [MutexGuard<'_, Members>], engine: &mut Engine) -> VecDeque<Work> {
    let mut all = VecDeque::new();
    for (_, seat) in shared.topology.seats() {
        let Some(mut member) = groups[seat.group][seat.place].take() else { continue };
        all.append(&mut member.batch);
        seat.inbox.take(&mut all, &shared.pressure);
        member.solo.count_drops(Reason::QueueFull, seat.inbox.take_refused());
        engine.take_back(member.solo);
    }
    all
}

impl Shared {
    fn new(engine: &Engine, clock: Clock, exit: Arc<Exit>, watched: Option<&'static str>) -> Shared {
        Shared { topology: Topology::new(engine.graph()), clock, exit, pressure: AtomicUsize::new(0), watched }
    }

    /// A block's thread.
    fn live(&self, id: BlockId) {
        let Some(seat) = self.topology.seat(id) else { return };
        let mut given = Given::default();
        while seat.inbox.wait(&self.clock) {
            self.turn(seat, &mut given);
            if self.watched == Some(seat.kind.name) {
                self.exit.wake();
            }
        }
    }

    /// Does what is in the queue and what timers are due.
    fn turn(&self, seat: &Seat, given: &mut Given) {
        let group = &self.topology.groups[seat.group];
        let mut members = group.enter();
        // Nobody is there only when it is over.
        let Some(mut member) = members[seat.place].take() else { return seat.inbox.stop() };
        seat.inbox.take(&mut member.batch, &self.pressure);
        while let Some(work) = member.batch.pop_front() {
            let around = Surroundings { topology: &self.topology, group: seat.group, mates: &members };
            self.guarded(&mut member.solo, given, |solo, given| solo.step(self.clock.now(), work, &around, given));
            if group.is_wanted() {
                members[seat.place] = Some(member);
                drop(members);
                group.step_back();
                members = group.enter();
                let Some(same) = members[seat.place].take() else { return seat.inbox.stop() };
                member = same;
            }
        }
        let now = self.clock.now();
        let around = Surroundings { topology: &self.topology, group: seat.group, mates: &members };
        let mut fired = true;
        for _ in 0..TIMERS_PER_TURN {
            if !std::mem::take(&mut fired) {
                break;
            }
            self.guarded(&mut member.solo, given, |solo, given| fired = solo.fire(now, &around, given));
        }
        seat.inbox.set_wake(member.solo.next_timer());
        members[seat.place] = Some(member);
    }

    /// Runs a block; a panic ends the block and nothing else.
    fn guarded(&self, solo: &mut Solo, given: &mut Given, f: impl FnOnce(&mut Solo, &mut Given)) {
        if let Err(panic) = catch_unwind(AssertUnwindSafe(|| f(solo, given))) {
            let text = panic.downcast_ref::<&str>().map(|text| (*text).to_owned());
            let text = text.or_else(|| panic.downcast_ref::<String>().cloned()).unwrap_or_default();
            self.exit.fail(format!("the block '{}' panicked: {text}", solo.name()));
        }
        self.give(solo, given);
    }

    /// Carries what a block gave out. Its group's lock is held, so that what it gives out next comes behind it.
    fn give(&self, solo: &mut Solo, given: &mut Given) {
        for work in given.work.drain(..) {
            self.deliver(work);
        }
        if !given.orders.is_empty() {
            self.exit.order(&mut given.orders);
        }
        if !given.outgoing.is_empty() || !given.alerts.is_empty() {
            self.exit.put(&mut given.outgoing, &mut given.alerts);
            for outgoing in given.outgoing.drain(..) {
                self.lost(outgoing, Some(solo));
            }
        }
    }

    /// A frame found no room at the exit.
    fn lost(&self, mut outgoing: Outgoing, solo: Option<&mut Solo>) {
        match solo {
            Some(solo) => solo.count_drops(Reason::QueueFull, 1),
            None => {
                if let Some(seat) = self.topology.seat(outgoing.block) {
                    seat.inbox.refuse(1);
                }
            }
        }
        if let Some(Completion { block, token, bytes }) = outgoing.frame.take_completion() {
            self.deliver(Work { block, depth: 0, item: Item::Completed(token, bytes) });
        }
    }

    /// Brings work to its block's queue.
    fn deliver(&self, work: Work) {
        let refused = match self.topology.seat(work.block) {
            Some(seat) => seat.inbox.push(work, &self.pressure),
            None => Some(work),
        };
        if let Some(work) = refused {
            self.refused(work);
        }
    }

    /// Ends frames that are not let in: their senders hear of it. What these hear is no frame, and never refused.
    fn refused(&self, work: Work) {
        let Item::Frames(_, mut vector) = work.item else { return };
        for mut frame in vector.drain() {
            if let Some(Completion { block, token, bytes }) = frame.take_completion() {
                self.deliver(Work { block, depth: 0, item: Item::Completed(token, bytes) });
            }
        }
    }
}
