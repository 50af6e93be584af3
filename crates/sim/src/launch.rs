//! Programs get onto nodes: built-in ones as actors, and one tree of processes for the unmodified ones.

use crate::boot::{Booted, boot, ports_of_switches};
use crate::cell::{Cell, Place};
use crate::early::Shared;
use crate::error::WorldError;
use crate::plan::{NodeKind, Plan, ProgramPlan, Run};
use crate::process::{Common, ProcessTree};
use crate::report::ProgramId;
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

/// Groups by number, and the cluster of each: thread `t` of `n` runs the groups t, t + n, t + 2n … Some have no members, so that every thread has
/// a number for each of its own.
pub(crate) struct Arranged {
    pub groups: Vec<Vec<usize>>,
    pub clusters: Vec<u32>,
    /// How many clusters there are.
    pub count: usize,
}

/// Numbers groups so that those which are joined by wires run on one thread, as far as all threads get about as many.
pub(crate) fn arrange(plan: &Plan, groups: Vec<Vec<usize>>, threads: usize) -> Arranged {
    let count = groups.len();
    let mut group_of = vec![0; plan.nodes.len()];
    groups.iter().enumerate().for_each(|(group, members)| members.iter().for_each(|node| group_of[*node] = group));
    let mut joined: Vec<Vec<usize>> = vec![Vec::new(); count];
    for wire in &plan.wires {
        let [a, b] = [group_of[wire.ends[0].0], group_of[wire.ends[1].0]];
        if a != b {
            joined[a].push(b);
            joined[b].push(a);
        }
    }
    // Depth first, beginning at the ends of chains and trees: what is near stays near.
    let mut starts: Vec<usize> = (0..count).collect();
    starts.sort_by_key(|group| joined[*group].len());
    let mut seen = vec![false; count];
    let mut clusters: Vec<Vec<usize>> = Vec::new();
    for start in starts {
        let (mut stack, mut walk) = (vec![start], Vec::new());
        while let Some(group) = stack.pop() {
            if !std::mem::replace(&mut seen[group], true) {
                walk.push(group);
                stack.extend(joined[group].iter().rev().filter(|next| !seen[**next]));
            }
        }
        if !walk.is_empty() {
            clusters.push(walk);
        }
    }
    // The largest first; one that is more than a thread's share is cut.
    clusters.sort_by_key(|walk| std::cmp::Reverse(walk.len()));
    let share = count.div_ceil(threads.max(1));
    let mut lanes: Vec<Vec<(u32, usize)>> = vec![Vec::new(); threads.max(1)];
    for (number, walk) in clusters.iter().enumerate() {
        let mut rest = &walk[..];
        while !rest.is_empty() {
            let Some(lane) = lanes.iter_mut().min_by_key(|lane| lane.len()) else { break };
            let some = if walk.len() <= share { rest.len() } else { share.saturating_sub(lane.len()).clamp(1, rest.len()) };
            let (these, others) = rest.split_at(some);
            lane.extend(these.iter().map(|group| (number as u32, *group)));
            rest = others;
        }
    }
    let mut groups: Vec<Option<Vec<usize>>> = groups.into_iter().map(Some).collect();
    let most = lanes.iter().map(Vec::len).max().unwrap_or(0);
    let mut arranged = Arranged { groups: Vec::new(), clusters: Vec::new(), count: clusters.len() };
    for (place, lane) in (0..most).flat_map(|place| lanes.iter().map(move |lane| (place, lane))) {
        // Nobody's: a cluster without members, which is the last.
        let (number, group) = lane.get(place).map_or((clusters.len() as u32, None), |(number, group)| (*number, Some(*group)));
        arranged.groups.push(group.and_then(|group| groups[group].take()).unwrap_or_default());
        arranged.clusters.push(number);
    }
    arranged
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
        places.zip(streams).map(|(place, stream)| boot(plan, place, ports.get(&place), stream, Instant::ZERO, cpu_of(place))).collect()
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

/// On which thread a node runs.
pub(crate) fn lane_of(places: &[Place], node: usize, threads: usize) -> usize {
    places.get(node).map_or(0, |place| place.group as usize % threads.max(1))
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
            let tree = ProcessTree::launch(plan, *node, programs, common, cpu_of(*node), None);
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
        let tree = ProcessTree::launch(plan, node, &processes, common, cpu, cell.disk.take()).map_err(WorldError::Stack)?;
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

#[cfg(test)]
mod tests {
    use super::*;
    use crate::scenario::Scenario;

    #[test]
    fn what_is_joined_runs_on_one_thread() {
        let mut text = String::new();
        for pair in 0..6 {
            text += &format!("[nodes.a{pair}]\n[nodes.b{pair}]\n[wires.w{pair}]\nbetween = [\"a{pair}\", \"b{pair}\"]\ndelay = \"1ms\"\n");
        }
        let plan = Scenario::parse("x.toml", &text, &[], &|_| Err(String::new())).unwrap().plan;
        let groups: Vec<Vec<usize>> = (0..plan.nodes.len()).map(|node| vec![node]).collect();
        for threads in 1..4 {
            let Arranged { groups: arranged, clusters, count } = arrange(&plan, groups.clone(), threads);
            let mut all: Vec<usize> = arranged.iter().flatten().copied().collect();
            all.sort_unstable();
            assert_eq!(all, (0..12).collect::<Vec<_>>());
            assert_eq!((arranged.len(), count), (12, 6));
            let place = |node: usize| arranged.iter().position(|group| group.contains(&node)).unwrap();
            assert!(plan.wires.iter().all(|wire| place(wire.ends[0].0) % threads == place(wire.ends[1].0) % threads), "{threads}");
            assert!(plan.wires.iter().all(|wire| clusters[place(wire.ends[0].0)] == clusters[place(wire.ends[1].0)]), "{threads}");
        }
    }
}
