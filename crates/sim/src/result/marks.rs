//! Moments at which something happened to paths, for the pictures of series.

use super::chart::Marks;
use crate::plan::{Action, Plan};
use crate::world::World;
use weft_core::{Instant, command};

/// What happened to wires, interfaces and nodes after the beginning, as far as the run came.
pub(super) fn of(world: &World) -> Marks {
    let plan = world.plan();
    let later = plan.events.iter().filter(|event| event.at > Instant::ZERO && event.at <= world.now());
    let mut marks: Marks = later.filter_map(|event| Some((event.at.as_nanos() as f64 / 1e9, told(plan, &event.action)?))).collect();
    marks.sort_by(|one, other| one.0.total_cmp(&other.0));
    marks
}

/// In a few words; none: it is nothing of paths.
fn told(plan: &Plan, action: &Action) -> Option<String> {
    let node = |node: &usize| plan.nodes[*node].name.as_str();
    let wire = |wire: &usize| plan.wires[*wire].name.as_str();
    let way = |up: &bool| if *up { "up" } else { "down" };
    Some(match action {
        Action::Carrier { wire: which, up } => format!("wire {} {}", wire(which), way(up)),
        Action::Wire { wire: which, .. } => format!("wire {} changes", wire(which)),
        Action::Interface { node: which, interface, up } => format!("{}:{interface} {}", node(which), way(up)),
        Action::Control { node: which, op } => format!("{}: {}", node(which), command::write(op)?.replace('\n', "; ")),
        Action::Crash { node: which } => format!("{} crashes", node(which)),
        Action::Restart { node: which, .. } => format!("{} restarts", node(which)),
        Action::Start { .. } | Action::Signal { .. } | Action::Stop { .. } => return None,
    })
}
