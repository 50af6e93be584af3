//! What can only be checked of a plan together.

use crate::error::{WorldError, unsound};
use crate::limits::RATE_MAX;
use crate::plan::{NodeKind, Plan, Run};
use std::collections::BTreeSet;

/// Names are unique and indices lead somewhere.
pub(super) fn check(plan: &Plan) -> Result<(), WorldError> {
    let mut seen = BTreeSet::new();
    for node in &plan.nodes {
        if !seen.insert(node.name.as_str()) {
            return unsound(format!("there are two nodes '{}'", node.name), "give each node a name of its own");
        }
    }
    seen.clear();
    for wire in &plan.wires {
        if !seen.insert(wire.name.as_str()) {
            return unsound(format!("there are two wires '{}'", wire.name), "give each wire a name of its own");
        }
        if let Some((end, _)) = wire.ends.iter().find(|(end, _)| *end >= plan.nodes.len()) {
            return unsound(format!("wire '{}' ends at node number {end}, which is not there", wire.name), "name an existing node");
        }
        if let Some(bad) = wire.directions.iter().find(|direction| direction.rate.is_some_and(|rate| rate == 0 || rate > RATE_MAX)) {
            return unsound(
                format!("wire '{}' has a rate of {} bit/s", wire.name, bad.rate.unwrap_or(0)),
                "use a rate from 1bit to 1000tbit",
            );
        }
    }
    seen.clear();
    for program in &plan.programs {
        if !seen.insert(program.name.as_str()) {
            return unsound(format!("there are two programs '{}'", program.name), "give each program a name of its own");
        }
        if program.node >= plan.nodes.len() {
            return unsound(format!("program '{}' runs on a node that is not there", program.name), "name an existing node");
        }
        if matches!(plan.nodes[program.node].kind, NodeKind::Switch(_)) {
            return unsound(format!("program '{}' runs on a switch", program.name), "programs run on hosts");
        }
        if matches!((&plan.nodes[program.node].kind, &program.run), (NodeKind::Guest(_), Run::Builtin(_))) {
            let what =
                format!("program '{}' is built in, and its node '{}' is a Linux kernel", program.name, plan.nodes[program.node].name);
            return unsound(what, "let an unmodified program do it: command = [\"iperf3\", …]");
        }
    }
    Ok(())
}
