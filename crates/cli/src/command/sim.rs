//! `weft sim`

mod breaks;
mod check;
mod dates;
mod debugger;
mod done;
pub(super) mod folder;
pub(super) mod interrupt;
pub(super) mod limit;
mod pace;
pub(super) mod sweep;
mod visitors;

use self::interrupt::Interrupt;
use self::limit::Limit;
use self::pace::Wall;
use self::sweep::{Sweep, Which};
use super::scenario::{Over, Source};
use crate::complete;
use crate::output::{self, Wide};
use anyhow::Context as _;
use serde_json::json;
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::sync::Arc;
use std::time::{Duration, Instant};
use weft_sim::plan::{Capture, Expect, NodeKind, NodePlan, Run};
use weft_sim::scenario::{Judged, judge};
use weft_sim::sweep::Said;
use weft_sim::visit::Visits;
use weft_sim::{Plan, Reason, Scenario, World, result};

/// Run a scenario in virtual time. Exit status 0: all is as expected; 1: something is not; 2: the scenario or the command is wrong; 3: --wall-limit; 130: ctrl-C
#[derive(clap::Args, Clone, Debug)]
pub struct Args {
    /// The scenario (TOML); `weft help scenario` tells what it may hold
    #[arg(add = complete::of_toml_files())]
    file: PathBuf,
    /// Write results into this folder; what an earlier run left there goes. With --seeds or --grid: the table of all runs as DIR/runs.csv and
    /// runs.parquet, and everything of the first ten that fail, in folders of DIR
    #[arg(long, value_name = "DIR")]
    out: Option<PathBuf>,
    /// Also write what the hash stands for into DIR/record: every frame, call and output, whole; for `weft hash` and `weft diff`
    #[arg(long, value_name = "WHAT", value_enum, requires = "out")]
    record: Option<Record>,
    /// Also write what each unmodified program asks of the kernel, as strace would, into DIR/programs/NAME/calls. Changes no result, but takes longer
    #[arg(long, requires = "out")]
    calls: bool,
    /// Also write every file that programs have written on their nodes' disks into DIR/files/NODE, and not only those that `collect` names
    #[arg(long, requires = "out", conflicts_with_all = ["seeds", "grid"])]
    keep_disks: bool,
    /// Tie virtual time to the wall clock: 1.0 as fast as it, 0.1 a tenth. Changes no result
    #[arg(long, value_name = "SPEED", conflicts_with_all = ["seeds", "grid"])]
    pace: Option<f64>,
    /// Let `weft exec` in through this socket [default: with --pace, sim-PID in weft's own directory; else nobody]
    #[arg(long, value_name = "PATH", conflicts_with_all = ["seeds", "grid"])]
    control: Option<PathBuf>,
    /// Stop before the first event at or after this virtual time, for a debugger: in gdb as at a breakpoint, else as by SIGSTOP
    #[arg(long, value_name = "TIME", conflicts_with_all = ["seeds", "grid"])]
    break_at: Option<String>,
    /// Run a program of the scenario under gdb, or the kernel of a node (NODE). Virtual time stands still while gdb does, and no result changes
    #[arg(long, value_name = "NODE[/PROGRAM]", conflicts_with_all = ["seeds", "grid"])]
    gdb: Option<String>,
    /// With --gdb: commands that gdb executes, and then ends
    #[arg(long, value_name = "FILE", requires = "gdb")]
    gdb_script: Option<PathBuf>,
    #[command(flatten)]
    over: Over,
    #[command(flatten)]
    which: Which,
    /// With --seeds or --grid: stop at the first run that fails, and say how to repeat it
    #[arg(long)]
    until_fail: bool,
    /// With --seeds or --grid and --out: runs of the same command that have ended there are not run again
    #[arg(long, requires = "out")]
    resume: bool,
    /// Threads. They change nothing but how long it takes [default: 1; with --seeds or --grid, as many as there are cores]
    #[arg(long, value_name = "N")]
    threads: Option<usize>,
    /// Write what was expected, and whether it was so, as JUnit's XML
    #[arg(long, value_name = "FILE")]
    junit: Option<PathBuf>,
    /// End the run after so much real time, with complete results up to there and exit status 3. Where it ends is not reproducible
    #[arg(long, value_name = "TIME")]
    wall_limit: Option<String>,
    /// Print the summary as JSON on standard output; with --seeds or --grid the table, whose margin_of_error is half of the 95 % interval of the mean,
    /// and every run
    #[arg(long)]
    json: bool,
    #[command(flatten)]
    wide: Wide,
    /// Read the scenario and say what it comes to, without running it; programs and scripts that are not there are errors
    #[arg(long)]
    check: bool,
    /// With --check: draw the nodes and wires into this file, whose name ends in .svg, .png or .pdf
    #[arg(long, value_name = "FILE", requires = "check")]
    topology: Option<PathBuf>,
    /// Only results, and nothing that is printed.
    #[arg(skip)]
    quiet: bool,
}

impl Args {
    /// One run whose results go into a folder, and that prints nothing.
    pub(super) fn quietly(file: PathBuf, out: PathBuf, over: Over) -> Args {
        Args {
            file,
            out: Some(out),
            record: None,
            calls: false,
            keep_disks: false,
            pace: None,
            control: None,
            break_at: None,
            gdb: None,
            gdb_script: None,
            over,
            which: Which { seeds: None, grid: Vec::new() },
            until_fail: false,
            resume: false,
            threads: Some(1),
            junit: None,
            wall_limit: None,
            json: false,
            wide: Wide::default(),
            check: false,
            topology: None,
            quiet: true,
        }
    }
}

/// `--record`
#[derive(Clone, Copy, PartialEq, Eq, Debug, clap::ValueEnum)]
enum Record {
    /// All interfaces, all results of calls, all output
    Full,
}

/// How often the progress line is renewed.
const PROGRESS_INTERVAL: Duration = Duration::from_millis(500);
/// Most nodes that are told of because they have left nothing.
const NODES_TOLD: usize = 10;
/// Most programs that are told of because they still run.
const RUNNING_TOLD: usize = 10;

pub fn run(args: Args) -> anyhow::Result<ExitCode> {
    let source = Source::read(&args.file, &args.over)?;
    let mut scenario = source.parse(None).map_err(anyhow::Error::from).inspect_err(|error| super::tell_mistakes(args.json, error))?;
    scenario.plan.boot = Some(Arc::new(weft_kernel::Kernels::new()));
    for remark in &scenario.remarks {
        tell!("weft: {remark}");
    }
    if args.check {
        return check(&args, &scenario);
    }
    let is_kept = |node: &NodePlan| node.capture != Capture::None || !node.collect.is_empty();
    // Who runs it often, in CI or from a script, knows.
    if args.out.is_none() && output::is_lively() && scenario.plan.nodes.iter().any(is_kept) {
        tell!("weft: nothing is captured and collected without a folder of results: add --out DIR");
    }
    let interrupt = Interrupt::catch(args.gdb.is_some())?;
    scenario.plan.interrupt = Some(Arc::clone(&interrupt.flag));
    let limit = args.wall_limit.as_deref().map(|text| Limit::begin(text, Arc::clone(&interrupt.flag))).transpose()?;
    anyhow::ensure!(args.which.is_sweep() || !(args.until_fail || args.resume), "--until-fail and --resume are for --seeds and --grid");
    let status = match args.which.is_sweep() {
        true => Sweep::read(&args, &source, &scenario, &interrupt)?.run(&interrupt, limit.as_ref())?,
        false => one(&args, scenario, &interrupt, limit.as_ref())?,
    };
    let cut = limit.filter(Limit::has_ended).map(|limit| limit.status()).or(interrupt.status());
    Ok(cut.unwrap_or(status))
}

/// `--check`: what can be known without running it.
fn check(args: &Args, scenario: &Scenario) -> anyhow::Result<ExitCode> {
    let plan = &scenario.plan;
    World::new(plan.clone(), 1)?;
    args.topology.as_deref().map_or(Ok(()), |file| check::draw(plan, file))?;
    let missing = check::missing(plan);
    for line in &missing {
        tell!("weft: {}: {line}", scenario.file);
    }
    let (nodes, wires, programs) = (plan.nodes.len(), plan.wires.len(), plan.programs.len());
    let is_sound = missing.is_empty();
    match args.json {
        true => output::json(&json!({"file": scenario.file, "nodes": nodes, "wires": wires, "programs": programs, "missing": missing})),
        false if is_sound => output::line(&format!("{}: {nodes} nodes, {wires} wires, {programs} programs: sound", scenario.file)),
        false => tell!("weft: {}: it would not run as it is", scenario.file),
    }
    Ok(if is_sound { ExitCode::SUCCESS } else { ExitCode::from(2) })
}

pub(super) fn one(args: &Args, scenario: Scenario, interrupt: &Interrupt, limit: Option<&Limit>) -> anyhow::Result<ExitCode> {
    let mut plan = Plan { calls: args.calls, log: args.out.is_some(), ..scenario.plan.clone() };
    if args.pace.is_some() && !args.json {
        plan.listener = Some(pace::listener(&scenario.plan));
    }
    let debugger = match &args.gdb {
        Some(name) => Some(debugger::watch(&mut plan, name, args.gdb_script.as_deref(), args.json)?),
        None => None,
    };
    let threads = match args.pace {
        Some(speed) if !(1e-6..=1e6).contains(&speed) => anyhow::bail!("--pace: {speed} is no speed\nhelp: write --pace 1.0"),
        Some(_) => 1,
        None => args.threads.unwrap_or(1),
    };
    let mut world = World::new(plan, threads)?;
    let visits = Arc::new(Visits::default());
    let _door = let_in(args, &mut world, &visits)?;
    breaks::show_debugger();
    if let Some(text) = &args.break_at {
        breaks::at(&mut world, text)?;
    }
    let captures = match &args.out {
        Some(dir) => {
            if let Some(why) = check::is_seen(&scenario.plan, dir) {
                tell!("weft: {why}");
            }
            folder::begin(dir, &scenario.file)?;
            world.keep_snapshots(dir);
            world.keep_files(dir, args.keep_disks);
            if args.record.is_some() {
                world.record(dir).with_context(|| format!("cannot record into {}", dir.display()))?;
            }
            if args.calls {
                world.log_calls(dir).with_context(|| format!("cannot write calls into {}", dir.display()))?;
            }
            result::Captures::begin(&mut world, dir).with_context(|| format!("cannot capture into {}", dir.display()))?
        }
        None => result::Captures::default(),
    };
    let wall = args.pace.map(|speed| Arc::new(Wall::begin(speed, Arc::clone(&visits), Arc::clone(&interrupt.flag))));
    if let Some(wall) = &wall {
        world.pace(Arc::clone(wall) as Arc<dyn weft_sim::visit::Pacer>);
    }
    let late = || wall.as_ref().map(|wall| wall.late().as_nanos() as u64);
    let begun = Instant::now();
    let end_of_time = scenario.plan.whole.then_some(scenario.plan.end);
    let mut progress = Progress { begun, shown: begun, visible: output::is_lively(), end_of_time };
    let mut flushed = begun;
    let end = world.run(&mut |now| {
        progress.show(now);
        // Somebody reads captures while the world runs. Whether all was written is asked at its end.
        if wall.is_some() && flushed.elapsed() >= PROGRESS_INTERVAL {
            flushed = Instant::now();
            let _ = captures.flush();
        }
        !interrupt.is_set()
    });
    progress.clear();
    if end.reason == Reason::Interrupted {
        interrupt.cut();
    }
    let took = begun.elapsed();
    let mut taken = Ok(());
    if let Some(dir) = &args.out {
        let leavings = world.take_files().with_context(|| format!("cannot take files out of nodes into {}", dir.display()));
        taken = leavings.map(|leavings| tell_what_is_not_left(&leavings, dir));
    }
    // gdb ends when what it holds has ended, and a kernel does not end by itself.
    world.let_go();
    if let Some(debugger) = &debugger {
        debugger.finish();
    }
    let verdicts = judge(&world, &end, &scenario.expectations);
    let mut summary = result::summary(&scenario.file, &world, &end, &verdicts);
    if let Some(limit) = limit {
        limit.note(&mut summary);
    }
    if let Some(dir) = &args.out {
        captures.flush().context("a capture could not be written to its end")?;
        if args.record.is_some() {
            world.finish_record(dir).context("the record could not be written to its end")?;
        }
        world.finish_calls().context("the calls could not be written to their end")?;
        result::write(dir, &world, &summary).with_context(|| format!("cannot write results into {}", dir.display()))?;
        let figures = json!({"wall_ns": took.as_nanos() as u64, "threads": world.threads(), "events": world.events(), "events_per_second": world.events() as f64 / took.as_secs_f64(), "late_max_ns": late()});
        std::fs::write(dir.join("wall.json"), format!("{figures}\n"))?;
    }
    taken?;
    if let Some(file) = &args.junit {
        let failed = verdicts.iter().any(|verdict| verdict.failure.is_some());
        let said = if failed { Said::of(&world) } else { Vec::new() };
        let repeat = sweep::repeat(&args.file, scenario.plan.seed, &args.over, &[], args.wall_limit.as_deref());
        let suite = result::Suite { name: scenario.file.clone(), wall: took, verdicts: &verdicts, broken: None, said: &said, repeat };
        std::fs::write(file, result::junit([suite])?).with_context(|| format!("cannot write {}", file.display()))?;
    }
    if args.quiet {
        return Ok(ExitCode::SUCCESS);
    }
    tell_who_runs(&world);
    tell_what_is_lost(&world);
    dates::tell(&world);
    for what in &end.idle {
        tell!("weft: nothing came of the {what}");
    }
    for why in summary["not_reproducible"].as_array().into_iter().flatten() {
        tell!("weft: this run may not repeat: {}", why.as_str().unwrap_or_default());
    }
    let speed = end.at.as_nanos() as f64 / 1e9 / took.as_secs_f64().max(1e-9);
    tell!(
        "weft: {} of virtual time in {:.3} s ({speed:.1} times as fast), {} events: {}",
        end.at,
        took.as_secs_f64(),
        world.events(),
        summary["end"].as_str().unwrap_or("")
    );
    match args.json {
        true => output::json(&summary),
        false => show(&world, &summary, args.pace.is_some()),
    }
    world.end_with_process();
    Ok(verdict(&verdicts))
}

/// Programs that have not ended and that nobody waited for. Who was to end is told of among what was not as expected; who serves is meant to run.
fn tell_who_runs(world: &World) {
    let of_no_matter = |number: usize| world.plan().programs.get(number).is_some_and(|program| program.expect == Expect::Any);
    let running: Vec<(usize, String)> = world.waits().into_iter().filter(|(number, _)| of_no_matter(*number)).collect();
    for (number, what) in running.iter().take(RUNNING_TOLD) {
        let plan = &world.plan().programs[*number];
        let node = &world.plan().nodes[plan.node].name;
        tell!("weft: {} on {node} is still running (expect = \"any\": nobody waits for it): {}", plan.name, result::state(what));
    }
    if running.len() > RUNNING_TOLD {
        tell!("weft: and {} more are still running", running.len() - RUNNING_TOLD);
    }
}

/// Files that were to be taken out of nodes and are not there.
fn tell_what_is_not_left(leavings: &weft_sim::Leavings, dir: &Path) {
    if leavings.left_out > 0 {
        tell!(
            "weft: {} files or folders of nodes are not in {}: a node leaves 4 GiB, 100000 files and folders 64 deep at most",
            leavings.left_out,
            dir.join(weft_sim::FILES_FOLDER).display()
        );
    }
    for (pattern, nodes) in &leavings.unmet {
        let more = nodes.len().saturating_sub(NODES_TOLD);
        let nodes = nodes.iter().take(NODES_TOLD).map(String::as_str).collect::<Vec<_>>().join(", ");
        let more = if more > 0 { format!(" and {more} more") } else { String::new() };
        tell!("weft: collect: nothing that programs have written on {nodes}{more} is '{pattern}'; of a folder write '/FOLDER/**'");
    }
}

/// Programs that wrote more than is kept.
fn tell_what_is_lost(world: &World) {
    for (number, program) in world.plan().programs.iter().enumerate() {
        let lost = world.program(number).map_or(0, |state| state.output_lost);
        if lost > 0 {
            let kept = match &program.run {
                Run::Process(process) => process.output_max.min(weft_sim::OUTPUT_BYTES_MAX as u64),
                Run::Builtin(_) => weft_sim::OUTPUT_BYTES_MAX as u64,
            };
            let name = &program.name;
            tell!("weft: {lost} bytes of what {name} wrote are lost: of each of standard output and error the first {kept} are kept");
        }
    }
}

/// Opens the door for `weft exec`, where that is wanted.
fn let_in(args: &Args, world: &mut World, visits: &Arc<Visits>) -> anyhow::Result<Option<weft_host::place::Seat>> {
    let path = match (&args.control, args.pace) {
        (Some(path), _) => path.clone(),
        (None, Some(_)) => weft_host::place::world_path(),
        (None, None) => return Ok(None),
    };
    let hosts = world.plan().nodes.iter().filter(|node| !matches!(node.kind, NodeKind::Switch(_)));
    let door = visitors::open(&path, visits, hosts.map(|node| node.name.clone()).collect())
        .with_context(|| format!("cannot open the control socket {}", path.display()))?;
    world.open(Arc::clone(visits));
    tell!("weft: ready control={}", path.display());
    Ok(Some(door))
}

/// Names what was not as expected.
fn verdict(verdicts: &[Judged]) -> ExitCode {
    let mut status = ExitCode::SUCCESS;
    for verdict in verdicts {
        if let Some(why) = &verdict.failure {
            tell!("weft: not as expected: {}: {why}", verdict.name);
            status = ExitCode::from(1);
        }
    }
    status
}

fn show(world: &World, summary: &serde_json::Value, is_told: bool) {
    // With --pace it came when it was written, but for lines without an end.
    for (number, program) in world.plan().programs.iter().enumerate() {
        let Some(state) = world.program(number) else { continue };
        for (bytes, mark) in [(&state.output, ':'), (&state.error, '!')] {
            let shown = bytes.iter().rposition(|byte| *byte == b'\n').filter(|_| is_told).map_or(0, |at| at + 1);
            for line in String::from_utf8_lossy(bytes.get(shown..).unwrap_or_default()).lines() {
                output::line(&format!("{}{mark} {line}", program.name));
            }
        }
    }
    output::line(&format!("hash {}", summary["hash"].as_str().unwrap_or("")));
}

/// The line that tells how far the run is.
struct Progress {
    begun: Instant,
    shown: Instant,
    visible: bool,
    end_of_time: Option<weft_core::Instant>,
}

impl Progress {
    fn show(&mut self, now: weft_core::Instant) {
        if !self.visible || self.shown.elapsed() < PROGRESS_INTERVAL || now == weft_core::Instant::FAR_FUTURE {
            return;
        }
        self.shown = Instant::now();
        let wall = self.begun.elapsed().as_secs_f64();
        let virtually = now.as_nanos() as f64 / 1e9;
        let left = self.end_of_time.map(|end| (end.as_nanos() as f64 / 1e9 - virtually) * wall / virtually.max(1e-9));
        let left = left.map_or(String::new(), |left| format!(", {left:.0} s left"));
        output::progress(&format!("{virtually:.3} s, {:.1} times as fast as time{left}", virtually / wall));
    }

    fn clear(&self) {
        if self.visible {
            output::progress("");
        }
    }
}
