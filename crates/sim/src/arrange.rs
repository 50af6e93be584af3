//! Which nodes run one after the other, and on which threads: groups, clusters and lanes. `group.rs` has what they are.

use crate::cell::Place;
use crate::plan::{Action, DirectionPlan, Plan};
use crate::wire::Direction;

/// Nodes that are joined without look-ahead, now or after some event; each group in the order of names.
pub(crate) fn grouping(plan: &Plan) -> Vec<Vec<usize>> {
    let mut parent: Vec<usize> = (0..plan.nodes.len()).collect();
    fn root(parent: &mut [usize], mut of: usize) -> usize {
        while parent[of] != of {
            parent[of] = parent[parent[of]];
            of = parent[of];
        }
        of
    }
    let is_tight = |direction: &DirectionPlan| Direction::look_ahead(direction).is_zero();
    let mut tight: Vec<bool> = plan.wires.iter().map(|wire| wire.directions.iter().any(is_tight)).collect();
    for event in &plan.events {
        if let Action::Wire { wire, directions } = &event.action
            && let Some(tight) = tight.get_mut(*wire)
        {
            *tight |= directions.iter().flatten().any(|direction| is_tight(direction));
        }
    }
    for (wire, tight) in plan.wires.iter().zip(tight) {
        if tight {
            let (a, b) = (root(&mut parent, wire.ends[0].0), root(&mut parent, wire.ends[1].0));
            parent[a.max(b)] = a.min(b);
        }
    }
    let mut order: Vec<usize> = (0..plan.nodes.len()).collect();
    order.sort_by(|a, b| plan.nodes[*a].name.cmp(&plan.nodes[*b].name));
    let mut groups: indexmap::IndexMap<usize, Vec<usize>> = indexmap::IndexMap::new();
    for node in order {
        let root = root(&mut parent, node);
        groups.entry(root).or_default().push(node);
    }
    groups.into_values().collect()
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

/// On which thread a node runs.
pub(crate) fn lane_of(places: &[Place], node: usize, threads: usize) -> usize {
    places.get(node).map_or(0, |place| place.group as usize % threads.max(1))
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
