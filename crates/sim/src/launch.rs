//! Programs get onto nodes: built-in ones as actors, and one tree of processes for the unmodified ones.

use crate::actor::ProgramId;
use crate::cell::{Cell, Place};
use crate::plan::{Plan, ProgramPlan, Run};
use crate::process::ProcessTree;
use crate::world::WorldError;
use std::collections::BTreeMap;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Mutex, PoisonError};
use weft_core::Instant;

/// Numbers groups so that those which are joined by wires mostly run on one thread: thread `t` of `n` runs the groups t, t + n, t + 2n …
pub(crate) fn arrange(plan: &Plan, groups: Vec<Vec<usize>>, threads: usize) -> Vec<Vec<usize>> {
    if threads < 2 {
        return groups;
    }
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
    let (mut seen, mut walk) = (vec![false; count], Vec::with_capacity(count));
    for start in starts {
        let mut stack = vec![start];
        while let Some(group) = stack.pop() {
            if !std::mem::replace(&mut seen[group], true) {
                walk.push(group);
                stack.extend(joined[group].iter().rev().filter(|next| !seen[**next]));
            }
        }
    }
    let mut groups: Vec<Option<Vec<usize>>> = groups.into_iter().map(Some).collect();
    let mut arranged = vec![Vec::new(); count];
    let mut walk = walk.into_iter();
    for thread in 0..threads {
        for number in (thread..count).step_by(threads) {
            arranged[number] = walk.next().and_then(|group| groups[group].take()).unwrap_or_default();
        }
    }
    arranged
}

/// On which thread a node runs.
pub(crate) fn lane_of(places: &[Place], node: usize, threads: usize) -> usize {
    places.get(node).map_or(0, |place| place.group as usize % threads.max(1))
}

/// The unmodified programs of a node.
fn processes(plan: &Plan, node: usize) -> Vec<(ProgramId, &ProgramPlan)> {
    let numbered = plan.programs.iter().enumerate().filter(|(_, program)| program.node == node && matches!(program.run, Run::Process(_)));
    numbered.map(|(number, program)| (ProgramId(number as u32), program)).collect()
}

/// Process 1 of every node that has unmodified programs, several at a time: most of it is the kernel's work.
pub(crate) fn launch_all(plan: &Plan, cpu_of: &(dyn Fn(usize) -> Option<usize> + Sync)) -> Result<Vec<(usize, ProcessTree)>, WorldError> {
    let mut by_node: BTreeMap<usize, Vec<(ProgramId, &ProgramPlan)>> = BTreeMap::new();
    for (number, program) in plan.programs.iter().enumerate().filter(|(_, program)| matches!(program.run, Run::Process(_))) {
        by_node.entry(program.node).or_default().push((ProgramId(number as u32), program));
    }
    let nodes: Vec<usize> = by_node.keys().copied().collect();
    let common = ProcessTree::common(plan);
    let (next, done) = (AtomicUsize::new(0), Mutex::new(Vec::with_capacity(nodes.len())));
    let work = || {
        while let Some(node) = nodes.get(next.fetch_add(1, Ordering::Relaxed)).copied() {
            let tree = ProcessTree::launch(plan, &plan.nodes[node], &by_node[&node], &common, cpu_of(node));
            done.lock().unwrap_or_else(PoisonError::into_inner).push((node, tree));
        }
    };
    let threads = std::thread::available_parallelism().map_or(1, usize::from).min(nodes.len() / 2);
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

/// Makes the actors of the programs that start by time.
pub(crate) fn start_programs(plan: &Plan, node: usize, cell: &mut Cell, now: Instant, cpu: Option<usize>) -> Result<(), WorldError> {
    start_builtins(plan, node, cell, now);
    let processes = processes(plan, node);
    if !processes.is_empty() {
        let tree = ProcessTree::launch(plan, &plan.nodes[node], &processes, &ProcessTree::common(plan), cpu).map_err(WorldError::Stack)?;
        add_tree(plan, node, cell, now, tree);
    }
    Ok(())
}

pub(crate) fn start_builtins(plan: &Plan, node: usize, cell: &mut Cell, now: Instant) {
    for (number, program) in plan.programs.iter().enumerate().filter(|(_, program)| program.node == node) {
        if let (Run::Builtin(builtin), Some(start)) = (&program.run, program.start) {
            let id = ProgramId(number as u32);
            cell.add_actor(builtin.actor(id), start.max(now), vec![id]);
        }
    }
}

pub(crate) fn add_tree(plan: &Plan, node: usize, cell: &mut Cell, now: Instant, tree: ProcessTree) {
    let processes = processes(plan, node);
    let first = processes.iter().filter_map(|(_, program)| program.start).min().unwrap_or(Instant::FAR_FUTURE);
    cell.add_actor(Box::new(tree), first.max(now), processes.iter().map(|(id, _)| *id).collect());
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
            let arranged = arrange(&plan, groups.clone(), threads);
            let mut all: Vec<usize> = arranged.iter().flatten().copied().collect();
            all.sort_unstable();
            assert_eq!(all, (0..12).collect::<Vec<_>>());
            if threads > 1 {
                let thread = |node: usize| arranged.iter().position(|group| group.contains(&node)).unwrap() % threads;
                assert!(plan.wires.iter().all(|wire| thread(wire.ends[0].0) == thread(wire.ends[1].0)), "{threads}");
            }
        }
    }
}
