//! Programs get onto nodes: built-in ones as actors, and one tree of processes for the unmodified ones.

use crate::boot::{Booted, boot, ports_of_switches};
use crate::cell::Cell;
use crate::early::Shared;
use crate::error::WorldError;
use crate::plan::{NodeKind, Plan, ProgramPlan, Run};
use crate::process::{Common, ProcessTree};
use crate::report::ProgramId;
use std::collections::BTreeSet;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Mutex, PoisonError};
use weft_core::{Instant, Rng};

/// Fewer nodes are not worth a thread.
pub(crate) const NODES_PER_THREAD_MIN: usize = 32;

/// Processes 1 that are made at a time, for each processor: who makes one waits for the kernel, too.
const LAUNCHES_PER_PROCESSOR: usize = 6;

/// How many of this machine's processors weft may use.
pub(crate) fn threads() -> usize {
    std::thread::available_parallelism().map_or(1, usize::from)
}

/// Boots all nodes, on all processors: each has a random stream of its own.
pub(crate) fn boot_all(
    plan: &Plan,
    streams: &mut [Rng],
    cpu_of: &(dyn Fn(usize) -> Option<usize> + Sync),
) -> Vec<Result<Booted, WorldError>> {
    let threads = threads();
    let share = streams.len().div_ceil(threads).max(NODES_PER_THREAD_MIN);
    let ports = ports_of_switches(plan);
    let boot_some = |first: usize, streams: &mut [Rng]| -> Vec<_> {
        let places = first..plan.nodes.len();
        places
            .zip(streams)
            .map(|(place, stream)| boot(plan, place, ports.get(&place), &BTreeSet::new(), stream, Instant::ZERO, cpu_of(place)))
            .collect()
    };
    if streams.len() <= share {
        return boot_some(0, streams);
    }
    std::thread::scope(|scope| {
        let parts = streams.chunks_mut(share).enumerate();
        let parts: Vec<_> = parts.map(|(part, streams)| scope.spawn(move || boot_some(part * share, streams))).collect();
        parts.into_iter().flat_map(|part| part.join().unwrap_or_else(|panic| std::panic::resume_unwind(panic))).collect()
    })
}

/// The programs of each node, in the order of the plan.
pub(crate) fn programs_of(plan: &Plan) -> Vec<Vec<ProgramId>> {
    let mut nodes = vec![Vec::new(); plan.nodes.len()];
    for (number, program) in plan.programs.iter().enumerate() {
        if let Some(programs) = nodes.get_mut(program.node) {
            programs.push(ProgramId(number as u32));
        }
    }
    nodes
}

/// What is planned for these programs.
pub(crate) fn planned<'p>(plan: &'p Plan, programs: &[ProgramId]) -> impl Iterator<Item = (ProgramId, &'p ProgramPlan)> {
    programs.iter().filter_map(|id| Some((*id, plan.programs.get(id.0 as usize)?)))
}

/// The unmodified ones of these programs that weft runs: a kernel starts its own.
pub(crate) fn processes<'p>(plan: &'p Plan, programs: &[ProgramId]) -> Vec<(ProgramId, &'p ProgramPlan)> {
    let is_guest = |node: usize| plan.nodes.get(node).is_some_and(|node| matches!(node.kind, NodeKind::Guest(_)));
    planned(plan, programs).filter(|(_, program)| matches!(program.run, Run::Process(_)) && !is_guest(program.node)).collect()
}

/// Process 1 of every node that has unmodified programs, several at a time: most of it is the kernel's work.
pub(crate) fn launch_all(
    plan: &Plan,
    programs: &[Vec<ProgramId>],
    common: &Common,
    cpu_of: &(dyn Fn(usize) -> Option<usize> + Sync),
) -> Result<Vec<(usize, ProcessTree)>, WorldError> {
    let of_nodes = programs.iter().map(|programs| processes(plan, programs)).enumerate();
    let nodes: Vec<_> = of_nodes.filter(|(_, programs)| !programs.is_empty()).collect();
    let (next, done) = (AtomicUsize::new(0), Mutex::new(Vec::with_capacity(nodes.len())));
    let work = || {
        while let Some((node, programs)) = nodes.get(next.fetch_add(1, Ordering::Relaxed)) {
            let tree = ProcessTree::launch(plan, *node, programs, common, cpu_of(*node), None, Instant::ZERO);
            done.lock().unwrap_or_else(PoisonError::into_inner).push((*node, tree));
        }
    };
    let threads = (LAUNCHES_PER_PROCESSOR * threads()).min(nodes.len() / 2);
    std::thread::scope(|scope| {
        for _ in 1..threads {
            scope.spawn(work);
        }
        work();
    });
    let mut done = done.into_inner().unwrap_or_else(PoisonError::into_inner);
    done.sort_by_key(|(node, _)| *node);
    done.into_iter().map(|(node, tree)| Ok((node, tree.map_err(WorldError::Stack)?))).collect()
}

/// Makes the actors of a node's programs that start by time.
pub(crate) fn start_programs(
    plan: &Plan,
    node: usize,
    programs: &[ProgramId],
    common: &Common,
    cell: &mut Cell,
    now: Instant,
    cpu: Option<usize>,
) -> Result<(), WorldError> {
    start_builtins(plan, programs, cell, now);
    let processes = processes(plan, programs);
    if !processes.is_empty() {
        let tree = ProcessTree::launch(plan, node, &processes, common, cpu, cell.disk.take(), now).map_err(WorldError::Stack)?;
        add_tree(&processes, cell, now, tree);
    }
    Ok(())
}

pub(crate) fn start_builtins(plan: &Plan, programs: &[ProgramId], cell: &mut Cell, now: Instant) {
    for (id, program) in planned(plan, programs) {
        if let (Run::Builtin(builtin), Some(start)) = (&program.run, program.start) {
            cell.add_actor(builtin.actor(id), start.max(now), vec![id]);
        }
    }
}

/// Returns when the first of them starts.
pub(crate) fn add_tree(processes: &[(ProgramId, &ProgramPlan)], cell: &mut Cell, now: Instant, tree: ProcessTree) -> (Instant, Shared) {
    let first = processes.iter().filter_map(|(_, program)| program.start).min().unwrap_or(Instant::FAR_FUTURE);
    processes.iter().filter(|(_, program)| program.start.is_some()).for_each(|(id, _)| cell.core.await_again(*id));
    let tree = Shared::new(tree);
    cell.add_actor(Box::new(tree.clone()), first.max(now), processes.iter().map(|(id, _)| *id).collect());
    (first, tree)
}
