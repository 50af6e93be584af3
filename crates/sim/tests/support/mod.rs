//! Small worlds for tests.
#![allow(dead_code)] // each test file uses some of it

use std::path::PathBuf;
use std::time::Duration;
use weft_core::Instant;
use weft_node::Stack;
use weft_sim::plan::{DirectionPlan, Expect, NodePlan, Plan, ProgramPlan, Run, WirePlan};
use weft_sim::program::Builtin;
use weft_sim::{RunEnd, World};

/// A folder of a test's own, removed at its end.
pub struct Folder(pub PathBuf);

impl Folder {
    pub fn new(test: &str) -> Folder {
        let folder = std::env::temp_dir().join(format!("weft-sim-{}-{test}", std::process::id()));
        // What a test left that was killed, whose process had this number.
        let _ = std::fs::remove_dir_all(&folder);
        std::fs::create_dir_all(&folder).unwrap();
        Folder(folder)
    }
}

impl Drop for Folder {
    fn drop(&mut self) {
        let _ = std::fs::remove_dir_all(&self.0);
    }
}

/// A host with interfaces `eth0`, `eth1` … that have these addresses; routes as "prefix via gateway".
pub fn host(name: &str, addresses: &[&str], routes: &[(&str, &str)], forward: bool) -> NodePlan {
    let mut text = format!("[node]\nname = \"{name}\"\n");
    for (index, address) in addresses.iter().enumerate() {
        text += &format!(
            "[[interface]]\nname = \"eth{index}\"\nbackend = \"wire:x\"\n[[address]]\ninterface = \"eth{index}\"\naddress = \"{address}\"\n"
        );
    }
    for (destination, gateway) in routes {
        text += &format!("[[route]]\ndestination = \"{destination}\"\ngateway = \"{gateway}\"\n");
    }
    if forward {
        text += "[block.ip4]\nforward = true\n";
    }
    NodePlan::host(Stack::parse(name, &text).unwrap())
}

pub fn both(direction: DirectionPlan) -> [DirectionPlan; 2] {
    [direction.clone(), direction]
}

pub fn wire(name: &str, a: (usize, &str), b: (usize, &str), direction: DirectionPlan) -> WirePlan {
    WirePlan { name: name.to_owned(), ends: [(a.0, a.1.to_owned()), (b.0, b.1.to_owned())], directions: both(direction) }
}

pub fn program(name: &str, node: usize, start_ms: u64, builtin: Builtin) -> ProgramPlan {
    let expect = if builtin.is_server() { Expect::Running } else { Expect::Status(0) };
    ProgramPlan { name: name.to_owned(), node, run: Run::Builtin(builtin), start: Some(Instant::from_millis(start_ms)), expect }
}

/// Two hosts, 10.0.0.1 and 10.0.0.2.
pub fn pair(direction: DirectionPlan, programs: Vec<ProgramPlan>, end_ms: u64) -> Plan {
    Plan {
        end: Instant::from_millis(end_ms),
        nodes: vec![host("a", &["10.0.0.1/24"], &[], false), host("b", &["10.0.0.2/24"], &[], false)],
        wires: vec![wire("ab", (0, "eth0"), (1, "eth0"), direction)],
        programs,
        ..Plan::default()
    }
}

pub fn gigabit(delay: Duration) -> DirectionPlan {
    DirectionPlan { rate: Some(1_000_000_000), delay, ..DirectionPlan::default() }
}

pub fn run(plan: Plan, threads: usize) -> (World, RunEnd) {
    let mut world = World::new(plan, threads).unwrap();
    let end = world.run(&mut |_| true);
    (world, end)
}

pub fn output(world: &World, program: usize) -> String {
    let state = world.program(program).expect("the program is there");
    String::from_utf8_lossy(&state.output).into_owned() + &String::from_utf8_lossy(&state.error)
}

pub fn figure(world: &World, program: usize, name: &str) -> u64 {
    let state = world.program(program).expect("the program is there");
    *state.figures.get(name).unwrap_or_else(|| panic!("no figure {name} in {:?}:\n{}", state.figures, output(world, program)))
}

/// An unmodified program.
pub fn process(name: &str, node: usize, start_ms: u64, command: &[&str], expect: Expect) -> ProgramPlan {
    let run = Run::Process(weft_sim::plan::ProcessPlan::new(command.iter().copied()));
    ProgramPlan { name: name.to_owned(), node, run, start: Some(Instant::from_millis(start_ms)), expect }
}
