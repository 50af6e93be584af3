//! Groups and windows: who may run without asking whom.
//!
//! Machines that are joined by a wire without look-ahead form one *group*, which executes its events one after the other, in the order (time, name
//! of the node). All others are groups of their own. Groups run in *windows* [T, T + L): T is the world's next event, L the least
//! look-ahead of the wires between groups, so that nothing that one of them sends in a window can reach another in the same. At the end of
//! the window the frames are handed over; the receiver orders them by (time of arrival, interface, sequence on the wire), which does not depend on
//! who ran when. One thread executes the very same windows.
//!
//! A [`Lane`] is the share of one thread: some groups, and the order of their next events.

use crate::cell::{Cell, Handover, Place};
use std::collections::BTreeSet;
use std::sync::atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering};
use std::sync::{Condvar, Mutex};
use std::time::Duration;
use weft_core::Instant;
use weft_intercept::process::processor::{Claim, Pinned, with_clock};

/// Events of one group at one instant after which the world is taken for a loop.
pub const EVENTS_PER_INSTANT_MAX: u64 = 10_000_000;

/// Machines without look-ahead between them, in the order of their names.
pub(crate) struct Group {
    pub number: u32,
    pub cells: Vec<Cell>,
    due: BTreeSet<(Instant, u32)>,
    instant: (Instant, u64),
}

impl Group {
    pub fn new(number: u32, cells: Vec<Cell>) -> Group {
        Group { number, cells, due: BTreeSet::new(), instant: (Instant::ZERO, 0) }
    }

    /// Looks anew when everybody has something to do: after a change from outside.
    fn refresh(&mut self) -> Instant {
        if let [only] = &self.cells[..] {
            return only.next();
        }
        self.due = self.cells.iter().enumerate().map(|(index, cell)| (cell.next(), index as u32)).collect();
        self.due.first().map_or(Instant::FAR_FUTURE, |(at, _)| *at)
    }

    /// Executes what is due before `end`. Returns when something is due next. Frames for others are in the cells' `out`.
    fn run(&mut self, end: Instant, out: &mut Vec<Handover>) -> Result<Instant, Instant> {
        if let [only] = &mut self.cells[..] {
            loop {
                let at = only.next();
                if at >= end {
                    out.append(&mut only.core.out);
                    return Ok(at);
                }
                count(&mut self.instant, at)?;
                only.wake(at, end);
            }
        }
        loop {
            let Some((at, index)) = self.due.first().copied().filter(|(at, _)| *at < end) else {
                return Ok(self.due.first().map_or(Instant::FAR_FUTURE, |(at, _)| *at));
            };
            count(&mut self.instant, at)?;
            let Some(cell) = self.cells.get_mut(index as usize) else { return Ok(Instant::FAR_FUTURE) };
            // Without look-ahead a reply may come at once: nobody runs ahead.
            cell.wake(at, at + Duration::from_nanos(1));
            self.due.remove(&(at, index));
            self.due.insert((cell.next(), index));
            for handover in std::mem::take(&mut cell.core.out) {
                match handover.to.group == self.number {
                    true => self.accept(handover),
                    false => out.push(handover),
                }
            }
        }
    }

    fn accept(&mut self, handover: Handover) {
        let Place { cell: index, .. } = handover.to;
        let alone = self.cells.len() == 1;
        let Some(cell) = self.cells.get_mut(index as usize) else { return };
        if alone {
            return cell.core.deliver(handover.port, handover.arrival);
        }
        self.due.remove(&(cell.next(), index));
        cell.core.deliver(handover.port, handover.arrival);
        self.due.insert((cell.next(), index));
    }

    fn left(&self) -> usize {
        self.cells.iter().map(|cell| cell.core.left).sum()
    }

    fn last_end(&self) -> Instant {
        self.cells.iter().map(|cell| cell.core.last_end).max().unwrap_or(Instant::ZERO)
    }

    fn next(&self) -> Instant {
        match &self.cells[..] {
            [only] => only.next(),
            _ => self.due.first().map_or(Instant::FAR_FUTURE, |(at, _)| *at),
        }
    }
}

fn count(instant: &mut (Instant, u64), at: Instant) -> Result<(), Instant> {
    if instant.0 != at {
        *instant = (at, 0);
    }
    instant.1 += 1;
    if instant.1 > EVENTS_PER_INSTANT_MAX { Err(at) } else { Ok(()) }
}

/// The groups of one thread.
pub(crate) struct Lane {
    pub groups: Vec<Group>,
    /// When each has something to do.
    order: BTreeSet<(Instant, u32)>,
    next: Vec<Instant>,
    /// A group whose time does not go on.
    pub stuck: Option<Instant>,
    lanes: u32,
    /// Programs whose end is waited for, by group and in all.
    left_of: Vec<usize>,
    left: usize,
    last_end: Instant,
}

impl Lane {
    pub fn new(groups: Vec<Group>, lanes: u32) -> Lane {
        let (order, next, left_of) = (BTreeSet::new(), Vec::new(), Vec::new());
        Lane { groups, order, next, stuck: None, lanes, left_of, left: 0, last_end: Instant::ZERO }
    }

    /// Looks anew when everybody has something to do.
    pub fn refresh(&mut self) {
        self.next = self.groups.iter_mut().map(Group::refresh).collect();
        self.order = self.next.iter().enumerate().map(|(index, at)| (*at, index as u32)).collect();
        self.left_of = self.groups.iter().map(Group::left).collect();
        self.left = self.left_of.iter().sum();
        self.last_end = self.groups.iter().map(Group::last_end).max().unwrap_or(Instant::ZERO);
    }

    fn next(&self) -> Instant {
        self.order.first().map_or(Instant::FAR_FUTURE, |(at, _)| *at)
    }

    fn reorder(&mut self, index: u32, at: Instant) {
        if let Some(old) = self.next.get_mut(index as usize)
            && *old != at
        {
            self.order.remove(&(*old, index));
            self.order.insert((at, index));
            *old = at;
        }
    }

    fn run_window(&mut self, end: Instant, out: &mut Vec<Handover>) {
        while let Some((at, index)) = self.order.first().copied()
            && at < end
        {
            let Some(group) = self.groups.get_mut(index as usize) else { return };
            let result = group.run(end, out);
            let left = group.left();
            if let Some(before) = self.left_of.get_mut(index as usize)
                && *before != left
            {
                self.left = self.left + left - *before;
                *before = left;
                self.last_end = self.last_end.max(group.last_end());
            }
            match result {
                Ok(next) => self.reorder(index, next),
                Err(at) => {
                    self.stuck = Some(at);
                    return;
                }
            }
        }
    }

    fn accept(&mut self, handover: Handover) {
        let index = handover.to.group / self.lanes;
        let Some(group) = self.groups.get_mut(index as usize) else { return };
        group.accept(handover);
        let next = group.next();
        self.reorder(index, next);
    }
}

/// How windows go on.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Epoch<'a> {
    /// Nothing at or after this.
    pub until: Instant,
    /// Least time between groups; zero: there is only one.
    pub look_ahead: Duration,
    /// End this long after the last program that is waited for has ended; none: do not.
    pub linger: Option<Duration>,
    /// Somebody outside wants to look at the time before each window.
    pub eager: bool,
    /// Set when the run is to end: asked before each window.
    pub interrupt: Option<&'a AtomicBool>,
}

/// No window is longer, however far groups may run ahead of each other: now and then somebody has to look whether the run was interrupted.
const WINDOW_MAX: Duration = Duration::from_millis(10);

impl Epoch<'_> {
    fn window_end(&self, from: Instant, until: Instant) -> Instant {
        (from + self.window()).min(until)
    }

    /// How long a window is.
    pub fn window(&self) -> Duration {
        match self.look_ahead {
            Duration::ZERO => WINDOW_MAX,
            span => span.min(WINDOW_MAX),
        }
    }

    fn is_watched(&self, window: u64) -> bool {
        self.eager || window.is_multiple_of(WINDOWS_PER_WATCH) || self.interrupt.is_some_and(|flag| flag.load(Ordering::Relaxed))
    }
}

/// What came of an epoch.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Ended {
    /// Nothing is due before this, which may have come nearer than `Epoch::until`.
    pub until: Instant,
    /// Nothing is due at all.
    pub idle: bool,
    /// Interrupted by `stop`.
    pub stopped: bool,
}

/// How often somebody outside may look at the time.
const WINDOWS_PER_WATCH: u64 = 256;

/// Called with the virtual time now and then, by one thread; false: stop.
pub(crate) type Watch<'a> = &'a mut (dyn FnMut(Instant) -> bool + Send);

/// Runs windows until the epoch ends. With processors every thread stays on its own, and with it the programs of its nodes.
pub(crate) fn run(lanes: &mut [Lane], epoch: Epoch<'_>, watch: Watch<'_>, processors: Option<&Claim>) -> Ended {
    lanes.iter_mut().for_each(Lane::refresh);
    match lanes {
        [only] => {
            let _pinned = processors.and_then(|claim| claim.of(0)).map(Pinned::new);
            run_alone(only, epoch, watch)
        }
        several => run_together(several, epoch, watch, processors),
    }
}

/// When the epoch ends now that so many programs are left.
fn shortened(epoch: &Epoch<'_>, until: Instant, left: usize, last_end: Instant) -> Instant {
    match epoch.linger {
        Some(linger) if left == 0 => until.min(last_end + linger),
        _ => until,
    }
}

fn run_alone(lane: &mut Lane, epoch: Epoch<'_>, watch: Watch<'_>) -> Ended {
    let (mut out, mut until, mut window) = (Vec::new(), epoch.until, 0u64);
    loop {
        until = shortened(&epoch, until, lane.left, lane.last_end);
        if epoch.is_watched(window) && !with_clock(|| watch(lane.next().min(until))) {
            return Ended { until: lane.next(), idle: false, stopped: true };
        }
        window += 1;
        let from = lane.next();
        if from >= until || lane.stuck.is_some() {
            return Ended { until, idle: from == Instant::FAR_FUTURE, stopped: false };
        }
        lane.run_window(epoch.window_end(from, until), &mut out);
        for handover in out.drain(..) {
            lane.accept(handover);
        }
    }
}

/// What threads tell each other.
struct Board {
    next: Vec<AtomicU64>,
    left: Vec<AtomicUsize>,
    last_end: Vec<AtomicU64>,
    stopped: AtomicUsize,
    /// `mail[to][from]`.
    mail: Vec<Vec<Mutex<Vec<Handover>>>>,
    arrived: AtomicUsize,
    generation: AtomicUsize,
    /// Threads that have given up spinning.
    sleepers: AtomicUsize,
    sleep: Mutex<()>,
    wake: Condvar,
    threads: usize,
}

/// Turns of a waiting loop before the thread sleeps: about as long as falling asleep and waking takes.
const SPINS: u32 = 20_000;

impl Board {
    fn new(threads: usize) -> Board {
        let mail = (0..threads).map(|_| (0..threads).map(|_| Mutex::default()).collect()).collect();
        Board {
            next: (0..threads).map(|_| AtomicU64::new(0)).collect(),
            left: (0..threads).map(|_| AtomicUsize::new(0)).collect(),
            last_end: (0..threads).map(|_| AtomicU64::new(0)).collect(),
            stopped: AtomicUsize::new(0),
            mail,
            arrived: AtomicUsize::new(0),
            generation: AtomicUsize::new(0),
            sleepers: AtomicUsize::new(0),
            sleep: Mutex::new(()),
            wake: Condvar::new(),
            threads,
        }
    }

    /// Waits until every thread is here.
    fn meet(&self) {
        let generation = self.generation.load(Ordering::SeqCst);
        if self.arrived.fetch_add(1, Ordering::SeqCst) + 1 == self.threads {
            self.arrived.store(0, Ordering::SeqCst);
            self.generation.fetch_add(1, Ordering::SeqCst);
            if self.sleepers.load(Ordering::SeqCst) > 0 {
                // Who counted as asleep before holds the lock until it waits, or sees the new generation.
                drop(self.sleep.lock());
                self.wake.notify_all();
            }
            return;
        }
        for _ in 0..SPINS {
            if self.generation.load(Ordering::SeqCst) != generation {
                return;
            }
            std::hint::spin_loop();
        }
        self.sleepers.fetch_add(1, Ordering::SeqCst);
        let mut asleep = self.sleep.lock().unwrap_or_else(std::sync::PoisonError::into_inner);
        while self.generation.load(Ordering::SeqCst) == generation {
            asleep = self.wake.wait(asleep).unwrap_or_else(std::sync::PoisonError::into_inner);
        }
        drop(asleep);
        self.sleepers.fetch_sub(1, Ordering::SeqCst);
    }

    fn min_next(&self) -> Instant {
        Instant::from_nanos(self.next.iter().map(|next| next.load(Ordering::Acquire)).min().unwrap_or(u64::MAX))
    }
}

fn run_together(lanes: &mut [Lane], epoch: Epoch<'_>, watch: Watch<'_>, processors: Option<&Claim>) -> Ended {
    let board = Board::new(lanes.len());
    let mut watch = Some(watch);
    std::thread::scope(|scope| {
        let board = &board;
        let threads: Vec<_> = lanes
            .iter_mut()
            .enumerate()
            .map(|(index, lane)| {
                let watch = watch.take();
                let cpu = processors.and_then(|claim| claim.of(index));
                // Debuggers know threads by their names.
                let named = std::thread::Builder::new().name(format!("weft-lane-{index}"));
                let thread = named.spawn_scoped(scope, move || {
                    let _pinned = cpu.map(Pinned::new);
                    lane_thread(index, lane, epoch, board, watch)
                });
                thread.unwrap_or_else(|error| panic!("cannot start a thread: {error}"))
            })
            .collect();
        let ends: Vec<Ended> = threads.into_iter().filter_map(|thread| thread.join().ok()).collect();
        ends.first().copied().unwrap_or(Ended { until: epoch.until, idle: true, stopped: true })
    })
}

fn lane_thread(index: usize, lane: &mut Lane, epoch: Epoch<'_>, board: &Board, mut watch: Option<Watch<'_>>) -> Ended {
    let lanes = board.threads as u32;
    let (mut out, mut until, mut window) = (Vec::new(), epoch.until, 0u64);
    loop {
        board.left[index].store(lane.left, Ordering::Release);
        board.last_end[index].store(lane.last_end.as_nanos(), Ordering::Release);
        if let Some(watch) = watch.as_mut().filter(|_| epoch.is_watched(window))
            && !with_clock(|| watch(lane.next().min(until)))
        {
            board.stopped.store(1, Ordering::Release);
        }
        let next = if lane.stuck.is_some() { Instant::ZERO } else { lane.next() };
        board.next[index].store(next.as_nanos(), Ordering::Release);
        board.meet();
        {
            let left = board.left.iter().map(|left| left.load(Ordering::Acquire)).sum();
            let last = board.last_end.iter().map(|last| last.load(Ordering::Acquire)).max().unwrap_or(0);
            until = shortened(&epoch, until, left, Instant::from_nanos(last));
        }
        let from = board.min_next();
        let stopped = board.stopped.load(Ordering::Acquire) != 0;
        // Time zero after the first window: a lane is stuck.
        if stopped || from >= until || (from == Instant::ZERO && window > 0) {
            return Ended { until: if stopped { from } else { until }, idle: from == Instant::FAR_FUTURE, stopped };
        }
        window += 1;
        lane.run_window(epoch.window_end(from, until), &mut out);
        for handover in out.drain(..) {
            let to = (handover.to.group % lanes) as usize;
            if to == index {
                lane.accept(handover);
            } else if let Ok(mut mail) = board.mail[to][index].lock() {
                mail.push(handover);
            }
        }
        board.meet();
        for mail in &board.mail[index] {
            let Ok(mut mail) = mail.lock() else { continue };
            for handover in mail.drain(..) {
                lane.accept(handover);
            }
        }
    }
}
