//! Machines as they are when they have booted.

use crate::cell::{Machine, Switch};
use crate::error::{WorldError, unsound};
use crate::plan::{GuestPlan, NodeKind, Plan};
use std::collections::{BTreeMap, BTreeSet};
use weft_core::table::Interface;
use weft_core::{Instant, InterfaceIndex, Rng};
use weft_node::{Node, Stack};

/// Payload of a large frame, as on Linux's veth.
const GSO_BYTES_MAX: u32 = 65_535;

pub(crate) type Booted = (Machine, BTreeMap<String, InterfaceIndex>);

/// The interfaces of switches, which have those that wires end at, by node.
pub(crate) fn ports_of_switches(plan: &Plan) -> BTreeMap<usize, BTreeMap<String, InterfaceIndex>> {
    let mut switches: BTreeMap<usize, BTreeMap<String, InterfaceIndex>> = BTreeMap::new();
    for (node, interface) in plan.wires.iter().flat_map(|wire| &wire.ends) {
        if plan.nodes.get(*node).is_some_and(|node| matches!(node.kind, NodeKind::Switch(_))) {
            let known = switches.entry(*node).or_default();
            let next = known.len() as u32 + 1;
            known.entry(interface.clone()).or_insert(InterfaceIndex(next));
        }
    }
    switches
}

/// Builds a machine as it is after booting at `now`. `ports`: of a switch. `dark`: the interfaces of a host that find no carrier.
pub(crate) fn boot(
    plan: &Plan,
    place: usize,
    ports: Option<&BTreeMap<String, InterfaceIndex>>,
    dark: &BTreeSet<String>,
    rng: &mut Rng,
    now: Instant,
    cpu: Option<usize>,
) -> Result<Booted, WorldError> {
    let Some(node) = plan.nodes.get(place) else { return unsound(format!("there is no node number {place}"), "name an existing node") };
    let stack = match &node.kind {
        NodeKind::Host(stack) => stack,
        NodeKind::Switch(switch) => return Ok((Machine::Switch(Switch::new(*switch)), ports.cloned().unwrap_or_default())),
        NodeKind::Guest(guest) => return boot_guest(plan, place, guest, rng.u64(), now, cpu),
    };
    let epoch_ns = node.clock.epoch_ns(plan.start, now);
    let (host, known) = boot_host(epoch_ns, stack, dark, rng.u64(), now).map_err(|error| WorldError::Stack(error.to_string()))?;
    Ok((Machine::Host(Box::new(host)), known))
}

/// A kernel boots in a process of its own. Its ports are in the order of the wires, as those of all machines.
fn boot_guest(plan: &Plan, place: usize, guest: &GuestPlan, seed: u64, now: Instant, cpu: Option<usize>) -> Result<Booted, WorldError> {
    let Some(boot) = &plan.boot else {
        return unsound(format!("node '{}' is a Linux kernel, and nobody is there to boot it", plan.nodes[place].name), "set Plan::boot");
    };
    let booted = boot.boot(plan, place, seed, now, cpu);
    let machine = booted.map_err(|why| WorldError::Stack(format!("node '{}': {why}", plan.nodes[place].name)))?;
    // As the kernel numbers them: 1 is its loopback.
    let known = guest.interfaces.iter().zip(2..).map(|(interface, index)| (interface.name.clone(), InterfaceIndex(index)));
    Ok((Machine::Guest(machine), known.collect()))
}

fn boot_host(
    epoch_ns: u64,
    stack: &Stack,
    dark: &BTreeSet<String>,
    seed: u64,
    now: Instant,
) -> Result<(Node, BTreeMap<String, InterfaceIndex>), weft_node::StackError> {
    let mut node = Node::new(stack, seed)?;
    node.set_boot_time(now, epoch_ns);
    let mut known = BTreeMap::new();
    for (at, interface) in stack.interfaces().enumerate() {
        if !interface.backend.starts_with("wire:") {
            let what = format!("backend \"{}\" is a real one, and this is virtual time", interface.backend);
            return Err(stack.interface_error(at, "backend", &what, "write backend = \"wire:NAME\" with the name of the scenario's wire"));
        }
        let described = node.describe(stack, at, interface)?;
        // As Linux since 4.17, whose TCP builds large frames for every interface; who cuts them is another matter.
        let carrier = !dark.contains(&described.name);
        let described = Interface { gso_max_bytes: GSO_BYTES_MAX, checksum_offload: true, carrier, ..described };
        let index = node
            .add_interface(now, &described)
            .map_err(|error| stack.interface_error(at, "name", &error.to_string(), "see `weft help stack`"))?;
        known.insert(described.name, index);
    }
    node.configure(now, stack)?;
    Ok((node, known))
}
