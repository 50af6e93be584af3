//! Programs that are started before their time, on processors that are idle: one whose node nobody can disturb needs nobody until its first call that
//! concerns others, and that is most of what starting takes. It waits there until its virtual time comes; results are the same with and without.
//!
//! A tree of processes is then used by two threads, one after the other: by whoever starts its first program, and by the thread of its node.

use crate::actor::{Actor, ActorContext, Next};
use crate::plan::ProcessPlan;
use crate::process::ProcessTree;
use crate::report::ProgramId;
use crate::ticket::{Room, Ticket};
use crate::visit::Visitor;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use weft_core::Instant;
use weft_intercept::calls::Unsupported;
use weft_process::Disk;
use weft_process::processor;
use weft_socket::SocketId;

/// So many programs wait for their time, for each processor.
const WAITING_PER_PROCESSOR: usize = 4;

/// A node's programs, as an actor that two threads know.
#[derive(Clone, Debug)]
pub(crate) struct Shared(Arc<Mutex<ProcessTree>>);

impl Shared {
    pub fn new(tree: ProcessTree) -> Shared {
        Shared(Arc::new(Mutex::new(tree)))
    }

    fn tree(&self) -> MutexGuard<'_, ProcessTree> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Actor for Shared {
    fn run(&mut self, cx: &mut dyn ActorContext, grant: Instant) -> Next {
        self.tree().run(cx, grant)
    }
    fn sockets_changed(&mut self, changed: &[SocketId]) {
        self.tree().sockets_changed(changed);
    }
    fn disturbed(&mut self) {
        self.tree().disturbed();
    }
    fn start(&mut self, program: ProgramId) {
        self.tree().start(program);
    }
    fn stop(&mut self, program: ProgramId) {
        self.tree().stop(program);
    }
    fn welcome(&mut self, program: ProgramId, plan: ProcessPlan, visitor: Visitor) {
        self.tree().welcome(program, plan, visitor);
    }
    fn signal(&mut self, program: ProgramId, signal: i32) {
        self.tree().signal(program, signal);
    }
    fn poke(&mut self) {
        self.tree().poke();
    }
    fn finish(&mut self, cx: &mut dyn ActorContext) {
        self.tree().finish(cx);
    }
    fn kill(&mut self) {
        self.tree().kill();
    }
    fn root(&self) -> Option<std::path::PathBuf> {
        self.tree().root()
    }
    fn take_disk(&mut self) -> Option<Disk> {
        self.tree().take_disk()
    }
    fn waits(&self) -> Vec<(ProgramId, String)> {
        self.tree().waits()
    }
    fn not_reproducible(&self) -> Vec<String> {
        self.tree().not_reproducible()
    }
    fn unsupported(&self) -> Vec<Unsupported> {
        self.tree().unsupported()
    }
    fn starts_programs(&self) -> bool {
        self.tree().starts_programs()
    }
}

/// How many threads start programs before their time, and how many processors there are for all. None where worlds take all of them.
pub(crate) fn threads() -> (usize, usize) {
    let (processors, claimed) = processor::counts();
    let wanted = std::env::var_os("WEFT_SIM_EARLY").is_none_or(|value| value != "0");
    let idle = processors.saturating_sub(claimed).max(1);
    (if wanted && processors > 1 && claimed <= processors { idle } else { 0 }, processors)
}

/// Trees with the time at which the first program of each starts.
#[derive(Debug, Default)]
pub(crate) struct Starters {
    trees: Vec<(Instant, Shared)>,
}

impl Starters {
    pub fn add(&mut self, tree: (Instant, Shared)) {
        self.trees.push(tree);
    }

    /// Calls `run` while so many threads start programs before their time, in the order of their times.
    pub fn during<R>(&mut self, threads: usize, processors: usize, run: impl FnOnce() -> R) -> R {
        let mut trees = std::mem::take(&mut self.trees);
        // Whoever starts at once is started by its own thread.
        trees.retain(|(at, _)| *at > Instant::ZERO && *at < Instant::FAR_FUTURE);
        if threads == 0 || trees.is_empty() {
            return run();
        }
        trees.sort_by_key(|(at, _)| *at);
        let (room, next) = (Arc::new(Room::default()), Mutex::new(trees.into_iter()));
        let work = || {
            while let Some(ticket) = Ticket::take(&room, WAITING_PER_PROCESSOR * processors) {
                let tree = next.lock().unwrap_or_else(PoisonError::into_inner).next();
                let Some((at, tree)) = tree else { return };
                tree.tree().start_early(at, ticket);
            }
        };
        std::thread::scope(|scope| {
            let _open = Open(&room);
            for _ in 0..threads {
                scope.spawn(work);
            }
            run()
        })
    }
}

/// Whatever happens, nobody waits for a place for ever.
struct Open<'a>(&'a Room);

impl Drop for Open<'_> {
    fn drop(&mut self) {
        self.0.close();
    }
}
