//! One scenario on several stacks: weft's, Linux's, or some nodes with one and some with the other, side by side.
//!
//! Everything that is compared is measured where frames leave and arrive, so that it means the same for every stack; only congestion windows are what stacks
//! say of themselves, at the scenario's samples. Two runs are compared frame by frame on each interface: conversations by their order, numbers by their
//! distance from the first one, times by a tolerance.

mod flow;
mod packet;
mod trail;

pub use flow::{Flow, Name};
pub use trail::FRAMES_MAX;

use crate::error::WorldError;
use crate::plan::{NodeKind, Plan, WirePlan};
use crate::result;
use crate::result::Figure;
use crate::result::chart::{Chart, Lines, Points, drawn};
use crate::result::unit::Quantity;
use crate::scenario::{Scenario, judge};
use crate::world::World;
use flow::Sent;
use std::collections::BTreeMap;
use std::io;
use std::net::IpAddr;
use std::path::Path;
use std::time::Duration;
use trail::{Seen, Trail, What, Writer};
use weft_core::Instant;
use weft_wire::tcp::Flags;

/// A flow that carries less than this part of the largest one is not drawn.
const DRAWN_PART: u64 = 100;
/// Parts of a picture's time over which goodput is averaged.
const GOODPUT_PARTS: usize = 60;

/// What came of one variant.
#[derive(Debug)]
pub struct VariantResult {
    /// The world's hash.
    pub hash: u128,
    /// What was not as expected, and why a machine could not go on.
    pub failures: Vec<String>,
    /// What ends of TCP connections sent.
    pub flows: BTreeMap<Name, Flow>,
    /// Of each direction of each wire (`client:eth0>server:eth0`): frames, bytes, and frames that were lost on the way or in its queue.
    pub wires: Vec<(String, [u64; 3])>,
    trails: BTreeMap<(String, String), Trail>,
}

/// Where two outcomes begin to differ.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Difference {
    /// The node and its interface.
    pub node: String,
    /// The interface.
    pub interface: String,
    /// Frames of conversations that passed it before, in both alike.
    pub equal_before: usize,
    /// What came next in each, and when; none: nothing more.
    pub next: [Option<(Instant, String)>; 2],
}

/// What counts as a difference.
#[derive(Clone, Copy, Debug)]
pub struct Tolerance {
    /// Times may be so far apart.
    pub time: Duration,
    /// Windows are compared on every segment, and not only on those with SYN.
    pub windows: bool,
}

/// Runs a scenario to its end. With `out`, results are written there as those of any run.
///
/// # Errors
/// The scenario's parts do not fit together, or a file cannot be written.
pub fn run(scenario: &Scenario, out: Option<&Path>) -> Result<VariantResult, TwinError> {
    let mut world = World::new(Plan { log: out.is_some(), ..scenario.plan.clone() }, 1)?;
    let mut writers = BTreeMap::new();
    let captures = out.map_or_else(|| Ok(result::Captures::default()), |dir| result::Captures::begin(&mut world, dir))?;
    for node in 0..scenario.plan.nodes.len() {
        if matches!(scenario.plan.nodes[node].kind, NodeKind::Switch(_)) {
            continue;
        }
        for (interface, _, _) in world.interfaces(node) {
            let writer = Writer::default();
            world.capture(node, &interface, Box::new(writer.clone()));
            writers.insert((scenario.plan.nodes[node].name.clone(), interface), writer);
        }
    }
    let interrupt = scenario.plan.interrupt.clone();
    let end = world.run(&mut |_| !interrupt.as_ref().is_some_and(|flag| flag.load(std::sync::atomic::Ordering::Relaxed)));
    let verdicts = judge(&world, &end, &scenario.expectations);
    if let Some(dir) = out {
        captures.flush()?;
        result::write(dir, &world, &result::summary(&scenario.file, &world, &end, &verdicts))?;
    }
    let failures = verdicts.iter().filter_map(|verdict| Some(format!("{}: {}", verdict.name, verdict.failure.as_ref()?))).collect();
    let trails: BTreeMap<_, _> = writers.into_iter().map(|(place, writer)| (place, writer.take())).collect();
    Ok(VariantResult { hash: world.hash(), failures, flows: flows(scenario, &world, &trails), wires: wires(&world), trails })
}

/// Why a variant did not run.
#[derive(Debug, thiserror::Error)]
pub enum TwinError {
    /// Its parts do not fit together.
    #[error(transparent)]
    World(#[from] WorldError),
    /// Its results cannot be written.
    #[error("results cannot be written: {0}")]
    Files(#[from] io::Error),
}

fn wires(world: &World) -> Vec<(String, [u64; 3])> {
    let plan = world.plan();
    let end = |(node, interface): &(usize, String)| format!("{}:{interface}", plan.nodes[*node].name);
    let of_wire = |(number, wire): (usize, &WirePlan)| {
        let [there, back] = world.wire(number).unwrap_or_default();
        let (a, b) = (end(&wire.ends[0]), end(&wire.ends[1]));
        [(format!("{a}>{b}"), there), (format!("{b}>{a}"), back)].map(|(name, counters)| {
            (name, [counters.frames, counters.bytes, counters.lost + counters.queue_full + counters.queue_early + counters.cut])
        })
    };
    plan.wires.iter().enumerate().flat_map(of_wire).collect()
}

fn flows(scenario: &Scenario, world: &World, trails: &BTreeMap<(String, String), Trail>) -> BTreeMap<Name, Flow> {
    let mut found = Vec::new();
    for ((node, _), trail) in trails {
        let is_own = |address: IpAddr| scenario.owners.get(&address).is_some_and(|owner| owner == node);
        found.extend(flow::of(trail, |end| is_own(end.ip())).into_iter().map(|sent| (node, sent)));
    }
    found.sort_by_key(|(_, sent)| sent.flow.begun);
    let mut windows = windows(world);
    let mut counts: BTreeMap<(&String, String, u16), u32> = BTreeMap::new();
    let mut flows = BTreeMap::new();
    for (node, Sent { local, remote, port, mut flow }) in found {
        let peer = scenario.owners.get(&remote.ip()).cloned().unwrap_or_else(|| remote.ip().to_string());
        flow.cwnd = windows.remove(&(node.clone(), local.to_string(), remote.to_string())).unwrap_or_default();
        let number = counts.entry((node, peer.clone(), port)).or_default();
        *number += 1;
        flows.insert(Name { node: node.clone(), peer, port, number: *number }, flow);
    }
    flows
}

/// Congestion windows as stacks told them, by node and both ends of the connection.
fn windows(world: &World) -> BTreeMap<(String, String, String), Points> {
    let mut windows: BTreeMap<_, Points> = BTreeMap::new();
    for sample in &world.flow_samples {
        let text = |field: &str| sample.row.get(field).and_then(serde_json::Value::as_str).map(str::to_owned);
        let cwnd = sample.row.get("snd_cwnd").and_then(serde_json::Value::as_u64);
        if let (Some(local), Some(remote), Some(cwnd)) = (text("local"), text("remote"), cwnd) {
            let node = world.plan().nodes[sample.node].name.clone();
            windows.entry((node, local, remote)).or_default().push((sample.at.as_nanos() as f64 / 1e9, cwnd as f64));
        }
    }
    windows
}

impl VariantResult {
    /// Frames that were not compared, because there were more than [`FRAMES_MAX`] on one interface.
    pub fn left_out(&self) -> u64 {
        self.trails.values().map(|trail| trail.left_out).sum()
    }

    /// Gives back what frames take: [`VariantResult::first_difference`] finds none any more.
    pub fn forget_frames(&mut self) {
        self.trails.clear();
    }

    /// The first frame at which the other run differs, of all interfaces; none: there is none.
    pub fn first_difference(&self, other: &VariantResult, tolerance: Tolerance) -> Option<Difference> {
        let of = |(place, trail): (&(String, String), &Trail)| {
            let empty = Trail::default();
            let others = other.trails.get(place).unwrap_or(&empty);
            let at =
                (0..trail.seen.len().max(others.seen.len())).find(|at| differ(trail.seen.get(*at), others.seen.get(*at), tolerance))?;
            let next = [(trail, trail.seen.get(at)), (others, others.seen.get(at))];
            let when = next.iter().filter_map(|(_, seen)| Some(seen.as_ref()?.at)).min()?;
            let next = next.map(|(trail, seen)| seen.map(|seen| (seen.at, trail.tell(seen))));
            let (node, interface) = place.clone();
            Some((when, Difference { node, interface, equal_before: at, next }))
        };
        self.trails.iter().filter_map(of).min_by_key(|(when, _)| *when).map(|(_, difference)| difference)
    }
}

fn differ(one: Option<&Seen>, other: Option<&Seen>, tolerance: Tolerance) -> bool {
    let (Some(one), Some(other)) = (one, other) else { return one.is_some() || other.is_some() };
    let apart = one.at.since(other.at).max(other.at.since(one.at));
    let same = match (&one.what, &other.what) {
        (What::Tcp(a), What::Tcp(b)) if !tolerance.windows && !a.flags.contains(Flags::SYN) => {
            let mut a = a.clone();
            a.window = b.window;
            a == *b
        }
        (a, b) => a == b,
    };
    let places = (one.out, one.conversation, one.forth, one.ecn) == (other.out, other.conversation, other.forth, other.ecn);
    !same || !places || apart > tolerance.time
}

/// Congestion windows, round trips and goodput of all variants over each other; none: there was no flow.
pub fn picture(outcomes: &[(String, VariantResult)]) -> Option<Figure> {
    let lines = |of: &dyn Fn(&Flow) -> Points| -> Lines {
        let largest = outcomes.iter().flat_map(|(_, outcome)| outcome.flows.values()).map(|flow| flow.acked_bytes).max().unwrap_or(0);
        let named = outcomes.iter().flat_map(|(variant, outcome)| outcome.flows.iter().map(move |(name, flow)| (variant, name, flow)));
        let named = named.filter(|(_, _, flow)| flow.acked_bytes >= largest / DRAWN_PART);
        named.map(|(variant, name, flow)| (format!("{variant}: {}", name.short()), of(flow))).collect()
    };
    let charts = [
        ("goodput", Quantity::Rate, lines(&goodput)),
        ("round-trip time", Quantity::Time, lines(&|flow| flow.rtt.iter().map(|(at, ms)| (*at, ms / 1e3)).collect())),
        ("congestion window", Quantity::Count("segments"), lines(&|flow| flow.cwnd.clone())),
    ];
    drawn(charts.map(|(title, of, lines)| Chart { title, of, lines }).into(), &[])
}

/// Bits a second, in parts of the flow's time.
fn goodput(flow: &Flow) -> Points {
    let begun = flow.begun.as_nanos() as f64 / 1e9;
    let part = (flow.ended.as_nanos() as f64 / 1e9 - begun) / GOODPUT_PARTS as f64;
    if part <= 0.0 {
        return Points::new();
    }
    let mut parts = vec![0.0; GOODPUT_PARTS];
    let mut before = 0.0;
    for (at, acked) in &flow.acked {
        let place = (((at - begun) / part) as usize).min(GOODPUT_PARTS - 1);
        parts[place] += acked - before;
        before = *acked;
    }
    let middle = |number: usize| begun + part * (number as f64 + 0.5);
    parts.iter().enumerate().map(|(number, bytes)| (middle(number), bytes * 8.0 / part)).collect()
}

impl Name {
    /// `client>server:5001`, and which one where there are several.
    pub fn short(&self) -> String {
        let number = if self.number > 1 { format!(" #{}", self.number) } else { String::new() };
        format!("{}>{}:{}{number}", self.node, self.peer, self.port)
    }
}

#[cfg(test)]
mod tests;
