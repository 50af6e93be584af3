//! What a run leaves: a folder of files, and a summary.
//!
//! ```text
//! DIR/summary.json              hash, how it ended, nodes, wires, programs with their figures, expectations
//! DIR/output.log               what all programs wrote, line by line, with the virtual time
//! DIR/generations.jsonl        where blocks were replaced or deleted: what each generation of each block did, a line each
//! DIR/programs/NAME/stdout, stderr, status.json
//! DIR/files/NODE/…, files.json  what programs of it have written, as far as it is wanted, and a list of that
//! DIR/captures/NODE-INTERFACE.pcapng
//! DIR/series/wires.csv, connections.csv, subflows.csv    when the scenario samples; and as .parquet
//! DIR/pictures/NAME.svg, NAME.png, NAME.pdf    topology; when the scenario samples also throughput, queue, cwnd, srtt, mptcp: those that show something
//! DIR/runs.csv, runs.parquet, runs.jsonl    of a sweep: a row a run
//! ```
//!
//! All of it depends on the scenario and the seed alone; figures of wall time are the caller's and go to a file of their own.

pub(crate) mod chart;
mod figure;
mod junit;
mod marks;
mod pdf;
mod picture;
mod runs;
mod series;
mod subflows;
mod table;
pub(crate) mod unit;

pub use crate::life::state;
pub use figure::Figure;
pub use junit::{Suite, junit};
pub use picture::topology;
pub use runs::{Row, runs};
pub use subflows::{Sample, of_samples};
pub use unit::of_figure;

use crate::cell::FrameSink;
use crate::hash::Way;
use crate::life::{Life, ProgramState};
use crate::plan::{Capture, NodeKind, Run};
use crate::scenario::Judged;
use crate::world::{Reason, RunEnd, World};
use serde_json::{Value, json};
use std::collections::BTreeMap;
use std::io::{self, Write as _};
use std::path::Path;
use weft_backend::pcapng::CaptureFile;
use weft_core::{Frame, Generation, Instant};

struct Sink {
    file: CaptureFile,
    interface: u32,
}

impl FrameSink for Sink {
    fn frame(&mut self, at: Instant, way: Way, frame: &Frame) {
        self.file.frame(self.interface, at, way == Way::Out, frame);
    }
}

/// Captures of a run, which are written to the end by [`Captures::flush`].
#[derive(Default)]
pub struct Captures(Vec<CaptureFile>);

impl Captures {
    /// Begins the captures that the plan asks for.
    ///
    /// # Errors
    /// A file cannot be made.
    pub fn begin(world: &mut World, dir: &Path) -> io::Result<Captures> {
        let mut files = Vec::new();
        let epoch = world.plan().start;
        for node in 0..world.plan().nodes.len() {
            let (name, wanted) = (world.plan().nodes[node].name.clone(), world.plan().nodes[node].capture.clone());
            for (interface, _, _) in world.interfaces(node) {
                let wants = match &wanted {
                    Capture::None => false,
                    Capture::All => true,
                    Capture::Named(names) => names.contains(&interface),
                };
                if !wants {
                    continue;
                }
                let folder = dir.join("captures");
                std::fs::create_dir_all(&folder)?;
                let file = CaptureFile::create(&folder.join(format!("{name}-{interface}.pcapng")), epoch)?;
                let number = file.add_ethernet(&interface);
                world.capture(node, &interface, Box::new(Sink { file: file.clone(), interface: number }));
                files.push(file);
            }
        }
        Ok(Captures(files))
    }

    /// Writes out what waits in memory.
    ///
    /// # Errors
    /// A file cannot be written.
    pub fn flush(&self) -> io::Result<()> {
        self.0.iter().try_for_each(CaptureFile::flush)
    }
}

fn reason(reason: Reason) -> &'static str {
    match reason {
        Reason::Duration => "its time is over",
        Reason::Programs => "every program that was waited for has ended",
        Reason::Idle => "nothing is due any more",
        Reason::Interrupted => "interrupted",
        Reason::Stuck => "time does not go on",
        Reason::Broken => "a machine cannot go on",
    }
}

/// The summary of a run.
pub fn summary(file: &str, world: &World, end: &RunEnd, verdicts: &[Judged]) -> Value {
    let plan = world.plan();
    let nodes = plan.nodes.iter().enumerate().map(|(number, node)| {
        let kind = match node.kind {
            NodeKind::Host(_) => "host",
            NodeKind::Guest(_) => "linux",
            NodeKind::Switch(_) => "switch",
        };
        json!({"name": node.name, "kind": kind, "hash": format!("{:032x}", world.node_hash(number))})
    });
    let wires = plan.wires.iter().enumerate().map(|(number, wire)| {
        let ends: Vec<String> = wire.ends.iter().map(|(node, interface)| format!("{}:{interface}", plan.nodes[*node].name)).collect();
        json!({"name": wire.name, "between": ends, "directions": world.wire(number)})
    });
    let mut waits = waits(world);
    let programs = (0..plan.programs.len()).map(|number| program(world, number, waits.remove(&number)));
    let expectations = verdicts.iter().map(|verdict| json!({"expected": verdict.name, "failure": verdict.failure}));
    let roots: BTreeMap<&Path, Option<String>> = plan
        .nodes
        .iter()
        .filter_map(|node| node.files.root.as_deref())
        .map(|root| (root, crate::root::said(root).map(|said| said.digest)))
        .collect();
    json!({
        "scenario": file,
        "seed": plan.seed,
        "roots": roots.into_iter().map(|(root, digest)| json!({"root": root, "digest": digest})).collect::<Vec<_>>(),
        "hash": format!("{:032x}", world.hash()),
        "passed": verdicts.iter().all(|verdict| verdict.failure.is_none()),
        "not_reproducible": world.not_reproducible(),
        "end_ns": end.at.as_nanos(),
        "end": reason(end.reason),
        "idle_events": end.idle,
        "nodes": nodes.collect::<Vec<_>>(),
        "wires": wires.collect::<Vec<_>>(),
        "programs": programs.collect::<Vec<_>>(),
        "expectations": expectations.collect::<Vec<_>>(),
    })
}

/// What each program waits for, the first of its threads: to be asked once for all.
fn waits(world: &World) -> BTreeMap<usize, String> {
    let mut waits = BTreeMap::new();
    for (number, what) in world.waits() {
        waits.entry(number).or_insert(what);
    }
    waits
}

fn program(world: &World, number: usize, waits: Option<String>) -> Value {
    let plan = &world.plan().programs[number];
    let state = world.program(number);
    let ended = state.and_then(|state| state.ended);
    let command = match &plan.run {
        Run::Builtin(builtin) => builtin.to_string(),
        Run::Process(process) => process.command.join(" "),
    };
    json!({
        "name": plan.name,
        "node": world.plan().nodes[plan.node].name,
        "command": command,
        "start_ns": state.and_then(|state| state.started).map(Instant::as_nanos),
        "end_ns": ended.map(|(at, _)| at.as_nanos()),
        "status": ended.map(|(_, status)| status.to_string()),
        "lives": state.map(lives),
        "waits": waits,
        "figures": state.map(|state| &state.figures),
        // All CPU time is the user's; computing costs none.
        "rusage": state.and_then(|state| state.usage).map(|usage| json!({"user_ns": usage.cpu.as_nanos() as u64, "system_ns": 0, "calls": usage.calls})),
        "output_bytes": state.map_or(0, |state| state.output.len()),
        "output_lost_bytes": state.map_or(0, |state| state.output_lost),
    })
}

/// From each start to its end, the last one last.
fn lives(state: &ProgramState) -> Vec<Value> {
    let last = state.started.map(|started| Life { started, ended: state.ended });
    let tell = |life: Life| {
        let ended = life.ended;
        json!({"start_ns": life.started.as_nanos(), "end_ns": ended.map(|(at, _)| at.as_nanos()), "status": ended.map(|(_, status)| status.to_string())})
    };
    state.before.iter().copied().chain(last).map(tell).collect()
}

/// What each generation of a node's blocks did; nothing where every block is the first at its place.
fn generations(world: &World, node: usize) -> Vec<Value> {
    let Some(graph) = world.graph(node).filter(|graph| graph.generations().any(|of| of.ended.is_some())) else { return Vec::new() };
    let row = |of: Generation| {
        let mut row = of.to_json();
        row["node"] = world.plan().nodes[node].name.as_str().into();
        row
    };
    graph.generations().map(row).collect()
}

/// Writes everything but the captures, which are there already.
///
/// # Errors
/// A file cannot be written.
pub fn write(dir: &Path, world: &World, summary: &Value) -> io::Result<()> {
    std::fs::create_dir_all(dir)?;
    std::fs::write(dir.join("summary.json"), pretty(summary))?;
    let mut log = io::BufWriter::new(std::fs::File::create(dir.join("output.log"))?);
    world.output_log(&mut log)?;
    log.flush()?;
    let generations: String =
        (0..world.plan().nodes.len()).flat_map(|node| generations(world, node)).map(|row| format!("{row}\n")).collect();
    if !generations.is_empty() {
        std::fs::write(dir.join("generations.jsonl"), generations)?;
    }
    let mut waits = waits(world);
    for (number, plan) in world.plan().programs.iter().enumerate() {
        let folder = dir.join("programs").join(&plan.name);
        std::fs::create_dir_all(&folder)?;
        let (output, error) = world.program(number).map_or((&[][..], &[][..]), |state| (&state.output, &state.error));
        std::fs::write(folder.join("stdout"), output)?;
        std::fs::write(folder.join("stderr"), error)?;
        std::fs::write(folder.join("status.json"), pretty(&program(world, number, waits.remove(&number))))?;
    }
    for (node, name, contents) in world.left_files() {
        let path = dir.join("kernels").join(&world.plan().nodes[node].name).join(name);
        path.parent().map_or(Ok(()), std::fs::create_dir_all)?;
        std::fs::write(path, contents)?;
    }
    let unsupported: Vec<Value> = world
        .unsupported()
        .into_iter()
        .map(|(node, row)| json!({"node": world.plan().nodes[node].name, "request": row.request, "errno": row.errno, "count": row.count}))
        .collect();
    std::fs::write(dir.join("calls.json"), pretty(&json!({"unsupported": unsupported})))?;
    let pictures = dir.join("pictures");
    std::fs::create_dir_all(&pictures)?;
    if let Some(topology) = picture::topology(world.plan()) {
        topology.write(&pictures, "topology")?;
    }
    if world.plan().sample.is_some() {
        let folder = dir.join("series");
        std::fs::create_dir_all(&folder)?;
        let subflows = subflows::table(world).map(|table| ("subflows", table));
        for (name, table) in [("wires", series::wires(world)), ("connections", series::connections(world))].into_iter().chain(subflows) {
            std::fs::write(folder.join(format!("{name}.csv")), table.csv()?)?;
            std::fs::write(folder.join(format!("{name}.parquet")), table.parquet()?)?;
        }
        for (name, figure) in series::pictures(world) {
            figure.write(&pictures, name)?;
        }
    }
    Ok(())
}

fn pretty(value: &Value) -> String {
    let mut text = serde_json::to_string_pretty(value).unwrap_or_default();
    text.push('\n');
    text
}
