//! Groups and windows: who may run without asking whom.
//!
//! Machines that are joined by a wire without look-ahead form one *group*, which executes its events one after the other, in the order (time, name
//! of the node). All others are groups of their own. Groups that wires join, however indirectly, form a *cluster*, and run in *windows* [T, T + L):
//! T is the cluster's next event, L the least look-ahead of the wires between its groups, so that nothing that one of them sends in a window can
//! reach another in the same. At the end of the window the frames are handed over; the receiver orders them by (time of arrival, interface, sequence
//! on the wire), which does not depend on who ran when. One thread executes the very same windows, and no cluster knows of another.
//!
//! A [`Lane`] is the share of one thread: some groups, and the order of their next events. A cluster of which one thread has all groups runs up to
//! [`AHEAD_MAX`] ahead of the others without asking anybody; one that several threads share has them meet for each window.

use crate::cell::{Cell, Handover, Place};
use crate::limits::{EVENTS_PER_INSTANT_MAX, LINGER};
use std::collections::{BTreeMap, BTreeSet};
use std::sync::atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering};
use std::sync::{Condvar, Mutex};
use std::time::Duration;
use weft_core::Instant;
use weft_process::processor::{Claim, Pinned, with_clock};

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
                if only.core.failed.is_some() {
                    return Err(at);
                }
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
            if cell.core.failed.is_some() {
                return Err(at);
            }
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
            return cell.core.deliver(handover.port, handover.load);
        }
        self.due.remove(&(cell.next(), index));
        cell.core.deliver(handover.port, handover.load);
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

/// The groups of one cluster that a lane has.
#[derive(Debug, Default)]
struct Cluster {
    /// Which, of the world's.
    number: u32,
    /// When each has something to do.
    order: BTreeSet<(Instant, u32)>,
    /// How long a window is.
    window: Duration,
    /// Other lanes have groups of it, too.
    shared: bool,
}

impl Cluster {
    fn next(&self) -> Instant {
        self.order.first().map_or(Instant::FAR_FUTURE, |(at, _)| *at)
    }
}

/// The groups of one thread.
pub(crate) struct Lane {
    pub groups: Vec<Group>,
    /// When each has something to do.
    next: Vec<Instant>,
    clusters: Vec<Cluster>,
    /// Which of `clusters` each group belongs to.
    cluster_of: Vec<u32>,
    /// When each cluster has something to do: those which nobody shares.
    due: BTreeSet<(Instant, u32)>,
    /// Those which other lanes share.
    shared: Vec<u32>,
    /// A group whose time does not go on.
    pub stuck: Option<Instant>,
    lanes: u32,
    /// Programs whose end is waited for, by group and in all.
    left_of: Vec<usize>,
    left: usize,
    last_end: Instant,
}

impl Lane {
    /// The groups of a thread, with the cluster of each. What other threads have of those stands in [`Lane::share`].
    pub fn new(groups: Vec<Group>, clusters_of: &[u32], lanes: u32) -> Lane {
        let mut clusters: Vec<Cluster> = Vec::new();
        let mut known = BTreeMap::new();
        let mut place = |number: u32| {
            *known.entry(number).or_insert_with(|| {
                clusters.push(Cluster { number, ..Cluster::default() });
                clusters.len() as u32 - 1
            })
        };
        let cluster_of = clusters_of.iter().map(|number| place(*number)).collect();
        let (next, left_of, due, shared) = (Vec::new(), Vec::new(), BTreeSet::new(), Vec::new());
        Lane { groups, next, clusters, cluster_of, due, shared, stuck: None, lanes, left_of, left: 0, last_end: Instant::ZERO }
    }

    /// Which of the world's clusters it has groups of.
    pub fn clusters(&self) -> impl Iterator<Item = u32> {
        self.clusters.iter().map(|cluster| cluster.number)
    }

    /// Says which clusters several lanes have groups of.
    pub fn share(&mut self, is_shared: impl Fn(u32) -> bool) {
        self.clusters.iter_mut().for_each(|cluster| cluster.shared = is_shared(cluster.number));
        self.shared = (0..self.clusters.len() as u32).filter(|index| self.clusters[*index as usize].shared).collect();
    }

    /// Looks anew when everybody has something to do. `windows`: how long those of each cluster are.
    fn refresh(&mut self, windows: &[Duration]) {
        self.next = self.groups.iter_mut().map(Group::refresh).collect();
        for cluster in &mut self.clusters {
            cluster.order.clear();
            cluster.window = windows.get(cluster.number as usize).copied().unwrap_or(WINDOW_MAX);
        }
        for (index, (at, cluster)) in self.next.iter().zip(&self.cluster_of).enumerate() {
            if let Some(cluster) = self.clusters.get_mut(*cluster as usize) {
                cluster.order.insert((*at, index as u32));
            }
        }
        let alone = self.clusters.iter().enumerate().filter(|(_, cluster)| !cluster.shared);
        self.due = alone.map(|(index, cluster)| (cluster.next(), index as u32)).collect();
        self.left_of = self.groups.iter().map(Group::left).collect();
        self.left = self.left_of.iter().sum();
        self.last_end = self.groups.iter().map(Group::last_end).max().unwrap_or(Instant::ZERO);
    }

    /// When something is due in a cluster that nobody shares.
    fn next_alone(&self) -> Instant {
        self.due.first().map_or(Instant::FAR_FUTURE, |(at, _)| *at)
    }

    /// When anything is due here.
    fn next(&self) -> Instant {
        self.shared.iter().map(|index| self.clusters[*index as usize].next()).fold(self.next_alone(), Instant::min)
    }

    fn reorder(&mut self, index: u32, at: Instant) {
        if let Some(old) = self.next.get_mut(index as usize)
            && *old != at
            && let Some(cluster) = self.cluster_of.get(index as usize).and_then(|cluster| self.clusters.get_mut(*cluster as usize))
        {
            cluster.order.remove(&(*old, index));
            cluster.order.insert((at, index));
            *old = at;
        }
    }

    /// Runs one window of a cluster.
    fn run_window(&mut self, cluster: u32, end: Instant, out: &mut Vec<Handover>) {
        while let Some((at, index)) = self.clusters.get(cluster as usize).and_then(|cluster| cluster.order.first().copied())
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

    /// Runs the clusters that nobody shares: all windows that begin before `horizon`; none reaches beyond `until`. `go_on` is asked before each.
    fn run_alone(&mut self, horizon: Instant, until: Instant, out: &mut Vec<Handover>, go_on: &mut dyn FnMut(Instant) -> bool) {
        let horizon = horizon.min(until);
        while let Some((from, index)) = self.due.first().copied()
            && from < horizon
        {
            let window = self.clusters[index as usize].window;
            let mut next = from;
            while next < horizon && self.stuck.is_none() {
                if !go_on(next) {
                    break;
                }
                self.run_window(index, (next + window).min(until), out);
                for handover in out.drain(..) {
                    self.accept(handover);
                }
                next = self.clusters[index as usize].next();
            }
            self.due.remove(&(from, index));
            self.due.insert((next, index));
            if next < horizon {
                return;
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
    /// How long windows are, by cluster.
    pub windows: &'a [Duration],
    /// End this long after the last program that is waited for has ended, and after `last_event`; none: do not.
    pub linger: Option<Duration>,
    /// When the last event of the world was.
    pub last_event: Instant,
    /// Somebody outside wants to look at the time before each window: no cluster runs ahead.
    pub eager: bool,
    /// Set when the run is to end: asked before each window.
    pub interrupt: Option<&'a AtomicBool>,
}

/// No window is longer, however far groups may run ahead of each other: now and then somebody has to look whether the run was interrupted.
const WINDOW_MAX: Duration = Duration::from_millis(10);
/// No cluster begins a window so much later than another's next event. When the last program has ended, all others have to stop within
/// [`LINGER`] after that: by then every thread must have heard of it.
const AHEAD_MAX: Duration = Duration::from_millis(500);
const _: () = assert!(AHEAD_MAX.as_nanos() + WINDOW_MAX.as_nanos() < LINGER.as_nanos());

/// How long the windows of a cluster are between whose groups a frame takes so long; none: there is no wire between them.
pub(crate) fn window(look_ahead: Option<Duration>) -> Duration {
    look_ahead.filter(|span| !span.is_zero()).map_or(WINDOW_MAX, |span| span.min(WINDOW_MAX))
}

/// Tells lanes which of so many clusters several of them have groups of.
pub(crate) fn share(lanes: &mut [Lane], clusters: usize) {
    let mut owners = vec![0_u32; clusters + 1];
    lanes.iter().flat_map(Lane::clusters).for_each(|number| owners[number as usize] += 1);
    // The last has no members.
    lanes.iter_mut().for_each(|lane| lane.share(|number| (number as usize) < clusters && owners[number as usize] > 1));
}

impl Epoch<'_> {
    /// How long the shortest window is.
    pub fn window(&self) -> Duration {
        self.windows.iter().copied().min().unwrap_or(WINDOW_MAX)
    }

    /// Who is eager has looked before the round.
    fn is_watched(&self, window: u64) -> bool {
        !self.eager && window.is_multiple_of(WINDOWS_PER_WATCH) || self.is_interrupted()
    }

    fn is_interrupted(&self) -> bool {
        self.interrupt.is_some_and(|flag| flag.load(Ordering::Relaxed))
    }

    /// Windows may begin before this when nothing is due before `from`.
    fn horizon(&self, from: Instant) -> Instant {
        from + if self.eager { Duration::from_nanos(1) } else { AHEAD_MAX }
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
    hand_over(lanes);
    lanes.iter_mut().for_each(|lane| lane.refresh(epoch.windows));
    match lanes {
        [only] => {
            let _pinned = processors.and_then(|claim| claim.of(0)).map(Pinned::new);
            run_alone(only, epoch, watch)
        }
        several => run_together(several, epoch, watch, processors),
    }
}

/// What machines have sent since the last epoch, as they booted or were changed from outside, goes to the other ends: a machine that has nothing to do by
/// itself before such a frame arrives would keep it.
fn hand_over(lanes: &mut [Lane]) {
    let cells = lanes.iter_mut().flat_map(|lane| &mut lane.groups).flat_map(|group| &mut group.cells);
    let sent: Vec<Handover> = cells.flat_map(|cell| std::mem::take(&mut cell.core.out)).collect();
    let count = lanes.len() as u32;
    for handover in sent {
        let Place { group, .. } = handover.to;
        let lane = lanes.get_mut((group % count) as usize);
        if let Some(group) = lane.and_then(|lane| lane.groups.get_mut((group / count) as usize)) {
            group.accept(handover);
        }
    }
}

/// When the epoch ends now that so many programs are left.
fn shortened(epoch: &Epoch<'_>, until: Instant, left: usize, last_end: Instant) -> Instant {
    match epoch.linger {
        Some(linger) if left == 0 => until.min(last_end.max(epoch.last_event) + linger),
        _ => until,
    }
}

fn run_alone(lane: &mut Lane, epoch: Epoch<'_>, watch: Watch<'_>) -> Ended {
    let (mut out, mut until, mut window, mut stopped) = (Vec::new(), epoch.until, 0u64, false);
    loop {
        until = shortened(&epoch, until, lane.left, lane.last_end);
        let from = lane.next();
        stopped |= (epoch.eager || epoch.is_interrupted()) && !with_clock(|| watch(from.min(until)));
        if stopped {
            return Ended { until: from, idle: false, stopped };
        }
        if from >= until || lane.stuck.is_some() {
            return Ended { until, idle: from == Instant::FAR_FUTURE, stopped: false };
        }
        lane.run_alone(epoch.horizon(from), until, &mut out, &mut |now| {
            stopped |= epoch.is_watched(window) && !with_clock(|| watch(now));
            window += 1;
            !stopped
        });
    }
}

/// What threads tell each other.
struct Board {
    /// When each thread has something to do by itself.
    next: Vec<AtomicU64>,
    /// When each has something to do in shared clusters: `shared[cluster][thread]`, and which of the world's they are.
    shared: Vec<Vec<AtomicU64>>,
    clusters: Vec<u32>,
    left: Vec<AtomicUsize>,
    last_end: Vec<AtomicU64>,
    /// Somebody wants it to stop, and all have been told.
    halt: AtomicBool,
    stopped: AtomicBool,
    /// One of the threads has panicked.
    abandoned: AtomicBool,
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
/// How often who watches does so while it waits for others.
const WATCH_PERIOD: Duration = Duration::from_millis(50);

impl Board {
    fn new(threads: usize, clusters: Vec<u32>) -> Board {
        let times = || (0..threads).map(|_| AtomicU64::new(u64::MAX)).collect::<Vec<_>>();
        let mail = (0..threads).map(|_| (0..threads).map(|_| Mutex::default()).collect()).collect();
        Board {
            next: times(),
            shared: clusters.iter().map(|_| times()).collect(),
            clusters,
            left: (0..threads).map(|_| AtomicUsize::new(0)).collect(),
            last_end: (0..threads).map(|_| AtomicU64::new(0)).collect(),
            halt: AtomicBool::new(false),
            stopped: AtomicBool::new(false),
            abandoned: AtomicBool::new(false),
            mail,
            arrived: AtomicUsize::new(0),
            generation: AtomicUsize::new(0),
            sleepers: AtomicUsize::new(0),
            sleep: Mutex::new(()),
            wake: Condvar::new(),
            threads,
        }
    }

    /// A thread has panicked: nobody is to wait for it.
    fn abandon(&self) {
        self.abandoned.store(true, Ordering::SeqCst);
        drop(self.sleep.lock());
        self.wake.notify_all();
    }

    fn unwind_if_abandoned(&self) {
        if self.abandoned.load(Ordering::SeqCst) {
            std::panic::resume_unwind(Box::new(Abandoned));
        }
    }

    /// Waits until every thread is here. Who watches does so while it waits. Unwinds when one of them will never come.
    fn meet(&self, mut watch: Option<&mut dyn FnMut()>) {
        self.unwind_if_abandoned();
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
        while self.generation.load(Ordering::SeqCst) == generation && !self.abandoned.load(Ordering::SeqCst) {
            asleep = match &mut watch {
                None => self.wake.wait(asleep).unwrap_or_else(std::sync::PoisonError::into_inner),
                Some(watch) => {
                    let waited = with_clock(|| self.wake.wait_timeout(asleep, WATCH_PERIOD));
                    let (guard, timeout) = waited.unwrap_or_else(std::sync::PoisonError::into_inner);
                    drop(guard);
                    if timeout.timed_out() {
                        watch();
                    }
                    self.sleep.lock().unwrap_or_else(std::sync::PoisonError::into_inner)
                }
            };
        }
        drop(asleep);
        self.sleepers.fetch_sub(1, Ordering::SeqCst);
        self.unwind_if_abandoned();
    }

    /// Tells the others when something is due here.
    fn tell(&self, index: usize, lane: &Lane) {
        self.left[index].store(lane.left, Ordering::Release);
        self.last_end[index].store(lane.last_end.as_nanos(), Ordering::Release);
        let next = if lane.stuck.is_some() { Instant::ZERO } else { lane.next_alone() };
        self.next[index].store(next.as_nanos(), Ordering::Release);
        for cluster in lane.shared.iter().filter_map(|cluster| lane.clusters.get(*cluster as usize)) {
            if let Ok(row) = self.clusters.binary_search(&cluster.number) {
                self.shared[row][index].store(cluster.next().as_nanos(), Ordering::Release);
            }
        }
    }

    /// Hands over what others' groups get.
    fn send(&self, index: usize, lane: &mut Lane, out: &mut Vec<Handover>) {
        for handover in out.drain(..) {
            let to = (handover.to.group % lane.lanes) as usize;
            if to == index {
                lane.accept(handover);
            } else if let Ok(mut mail) = self.mail[to][index].lock() {
                mail.push(handover);
            }
        }
    }

    /// When something is due in a shared cluster.
    fn shared_next(&self, number: u32) -> Instant {
        self.clusters.binary_search(&number).map_or(Instant::FAR_FUTURE, |row| least(&self.shared[row]))
    }

    fn min_next(&self) -> Instant {
        self.shared.iter().map(|row| least(row)).fold(least(&self.next), Instant::min)
    }
}

/// Why the threads of a world unwind when one of them has panicked.
struct Abandoned;

/// Says so when its thread panics.
struct Alarm<'a>(&'a Board);

impl Drop for Alarm<'_> {
    fn drop(&mut self) {
        if std::thread::panicking() {
            self.0.abandon();
        }
    }
}

fn least(times: &[AtomicU64]) -> Instant {
    Instant::from_nanos(times.iter().map(|next| next.load(Ordering::Acquire)).min().unwrap_or(u64::MAX))
}

fn run_together(lanes: &mut [Lane], epoch: Epoch<'_>, watch: Watch<'_>, processors: Option<&Claim>) -> Ended {
    let shared: BTreeSet<u32> =
        lanes.iter().flat_map(|lane| lane.shared.iter().filter_map(|index| Some(lane.clusters.get(*index as usize)?.number))).collect();
    let board = Board::new(lanes.len(), shared.into_iter().collect());
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
                    let (_pinned, _alarm) = (cpu.map(Pinned::new), Alarm(board));
                    lane_thread(index, lane, epoch, board, watch)
                });
                thread.unwrap_or_else(|error| panic!("cannot start a thread: {error}"))
            })
            .collect();
        let (mut ends, mut panics) = (Vec::new(), Vec::new());
        for thread in threads {
            match thread.join() {
                Ok(end) => ends.push(end),
                Err(panic) => panics.push(panic),
            }
        }
        // The one that panicked first, not those that then gave up.
        if let Some(panic) = panics.into_iter().find(|panic| !panic.is::<Abandoned>()) {
            std::panic::resume_unwind(panic);
        }
        ends.first().copied().unwrap_or(Ended { until: epoch.until, idle: true, stopped: true })
    })
}

fn lane_thread(index: usize, lane: &mut Lane, epoch: Epoch<'_>, board: &Board, mut watch: Option<Watch<'_>>) -> Ended {
    let (mut out, mut until, mut window, mut round) = (Vec::new(), epoch.until, 0u64, 0u64);
    let watches = watch.is_some();
    let mut look = |now: Instant| {
        if watch.as_mut().is_some_and(|watch| !with_clock(|| watch(now))) {
            board.halt.store(true, Ordering::Release);
        }
    };
    loop {
        board.tell(index, lane);
        if watches {
            if epoch.eager || epoch.is_interrupted() || round.is_multiple_of(WINDOWS_PER_WATCH) {
                look(lane.next().min(until));
            }
            // Not while somebody may read it: all must read the same.
            board.stopped.store(board.halt.load(Ordering::Acquire), Ordering::Release);
        }
        board.meet(None);
        let left = board.left.iter().map(|left| left.load(Ordering::Acquire)).sum();
        let last = board.last_end.iter().map(|last| last.load(Ordering::Acquire)).max().unwrap_or(0);
        until = shortened(&epoch, until, left, Instant::from_nanos(last));
        let from = board.min_next();
        let stopped = board.stopped.load(Ordering::Acquire);
        // Time zero after the first round: a lane is stuck.
        if stopped || from >= until || (from == Instant::ZERO && round > 0) {
            return Ended { until: if stopped { from } else { until }, idle: from == Instant::FAR_FUTURE, stopped };
        }
        round += 1;
        let horizon = epoch.horizon(from).min(until);
        for place in 0..lane.shared.len() {
            let place = lane.shared[place];
            let Some(Cluster { number, window, .. }) = lane.clusters.get(place as usize) else { continue };
            let (from, window) = (board.shared_next(*number), *window);
            if from < horizon {
                lane.run_window(place, (from + window).min(until), &mut out);
            }
        }
        board.send(index, lane, &mut out);
        lane.run_alone(horizon, until, &mut out, &mut |now| {
            if epoch.is_watched(window) {
                look(now);
            }
            window += 1;
            !board.halt.load(Ordering::Acquire)
        });
        board.meet(watches.then_some(&mut || look(from)));
        for mail in &board.mail[index] {
            let Ok(mut mail) = mail.lock() else { continue };
            for handover in mail.drain(..) {
                lane.accept(handover);
            }
        }
    }
}
