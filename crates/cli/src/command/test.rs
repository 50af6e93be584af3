//! `weft test`

use super::scenario::{Over, Source};
use super::sim::interrupt::Interrupt;
use super::sim::sweep::seeds;
use crate::{complete, output};
use anyhow::Context as _;
use serde_json::{Value, json};
use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::sync::Arc;
use weft_sim::Scenario;
use weft_sim::result::{self, Suite};
use weft_sim::sweep::{self, Case, RunResult};

/// Run scenarios, and say which are as expected. Exit status 1: one is not, or cannot be read; 2: there is none
#[derive(clap::Args, Clone, Debug)]
pub struct Args {
    /// Scenarios, or folders: of those, every scenario in them and below
    #[arg(required = true, value_name = "DIR|FILE", add = complete::of_toml_files())]
    paths: Vec<PathBuf>,
    /// Run each once for each seed from A to B [default: its own seed]
    #[arg(long, value_name = "A..B", conflicts_with = "seed")]
    seeds: Option<String>,
    #[command(flatten)]
    over: Over,
    /// Worlds at a time [default: as many as there are cores]
    #[arg(long, value_name = "N")]
    threads: Option<usize>,
    /// Write what was expected, and whether it was so, as JUnit's XML: a suite a run
    #[arg(long, value_name = "FILE")]
    junit: Option<PathBuf>,
    /// Print JSON instead of a line a run
    #[arg(long)]
    json: bool,
}

/// A file, and what it says, or why it says nothing.
struct Found {
    shown: String,
    scenario: anyhow::Result<Scenario>,
}

pub fn run(args: Args) -> anyhow::Result<ExitCode> {
    let interrupt = Interrupt::catch(false)?;
    let found = read(&args, &interrupt)?;
    let mut cases = Vec::new();
    let mut of_case = Vec::new();
    for (number, found) in found.iter().enumerate() {
        let Ok(scenario) = &found.scenario else { continue };
        for seed in args.seeds.as_deref().map_or(Ok(vec![scenario.plan.seed]), seeds)? {
            cases.push(Case { scenario, seed });
            of_case.push(number);
        }
    }
    let threads = args.threads.unwrap_or_else(|| std::thread::available_parallelism().map_or(1, usize::from));
    let watch = |number: usize, result: &RunResult| {
        if let Some(found) = of_case.get(number).and_then(|of| found.get(*of)).filter(|_| !args.json) {
            tell(found, result);
        }
        !interrupt.is_set()
    };
    let results = sweep::run(&cases, &sweep::Options { threads, until_fail: false, watch: &watch })?;
    if results.len() < cases.len() {
        interrupt.cut();
    }
    let report = Report { found: &found, of_case: &of_case, results: &results };
    if let Some(file) = &args.junit {
        let text = result::junit(report.suites())?;
        std::fs::write(file, text).with_context(|| format!("cannot write {}", file.display()))?;
    }
    if args.json {
        output::json(&report.told());
    }
    let (passed, all) = (results.values().filter(|result| result.passed()).count(), cases.len() + report.broken().count());
    tell!("weft: {passed} of {all} runs as expected");
    Ok(interrupt.status().unwrap_or(ExitCode::from(u8::from(passed < all))))
}

/// A line as soon as a run has ended, and one for each thing that was not as expected.
fn tell(found: &Found, result: &RunResult) {
    let word = if result.passed() { "passed" } else { "failed" };
    let mut text = format!("{word}  {:6.1} s  {} seed {}", result.wall.as_secs_f64(), found.shown, result.seed);
    for verdict in &result.verdicts {
        if let Some(why) = &verdict.failure {
            text += &format!("\n        {}: {why}", verdict.name);
        }
    }
    output::line(&text);
}

/// What came of all.
struct Report<'a> {
    found: &'a [Found],
    /// Which file each case is of.
    of_case: &'a [usize],
    results: &'a BTreeMap<usize, RunResult>,
}

impl<'a> Report<'a> {
    fn broken(&self) -> impl Iterator<Item = (&'a Found, &'a anyhow::Error)> {
        self.found.iter().filter_map(|found| Some((found, found.scenario.as_ref().err()?)))
    }

    fn runs(&self) -> impl Iterator<Item = (&'a Found, &'a RunResult)> {
        let (found, of_case) = (self.found, self.of_case);
        self.results.iter().filter_map(move |(number, result)| Some((found.get(*of_case.get(*number)?)?, result)))
    }

    fn suites(&self) -> Vec<Suite<'a>> {
        let broken = self.broken().map(|(found, why)| Suite {
            name: found.shown.clone(),
            wall: Default::default(),
            verdicts: &[],
            broken: Some(format!("{why:#}")),
        });
        let of_run = |(found, result): (&Found, &'a RunResult)| Suite {
            name: format!("{} seed {}", found.shown, result.seed),
            wall: result.wall,
            verdicts: &result.verdicts,
            broken: None,
        };
        broken.chain(self.runs().map(of_run)).collect()
    }

    fn told(&self) -> Value {
        let errors = |why: &anyhow::Error| why.downcast_ref().map_or(json!([]), |wrong| super::mistakes(wrong)["errors"].take());
        let row =
            |(found, why): (&Found, &anyhow::Error)| json!({"scenario": found.shown, "error": format!("{why:#}"), "errors": errors(why)});
        let broken: Vec<Value> = self.broken().map(row).collect();
        let runs: Vec<Value> = self
            .runs()
            .map(|(found, result)| {
                json!({"scenario": found.shown, "seed": result.seed, "passed": result.passed(), "hash": format!("{:032x}", result.hash),
                       "end_ns": result.end_ns, "wall_s": result.wall.as_secs_f64(), "expectations": result.verdicts, "figures": result.figures})
            })
            .collect();
        json!({"runs": runs, "broken": broken})
    }
}

/// Every scenario that is named, or lies in a folder that is.
fn read(args: &Args, interrupt: &Interrupt) -> anyhow::Result<Vec<Found>> {
    let mut files = Vec::new();
    for path in &args.paths {
        let before = files.len();
        match path.is_dir() {
            true => below(path, &mut files).with_context(|| format!("cannot read the folder {}", path.display()))?,
            false => files.push(path.clone()),
        }
        anyhow::ensure!(
            files.len() > before,
            "there is no scenario in {}\nhelp: scenarios are files *.toml with [nodes.NAME]",
            path.display()
        );
    }
    let kernels = Arc::new(weft_kernel::Kernels::new());
    let mut all = Vec::new();
    for file in files {
        let shown = file.display().to_string();
        let parsed = Source::read(&file, &args.over).and_then(|source| Ok(source.parse(None)?));
        let scenario = parsed.map(|mut scenario| {
            scenario.plan.boot = Some(Arc::clone(&kernels) as Arc<_>);
            scenario.plan.interrupt = Some(Arc::clone(&interrupt.flag));
            scenario
        });
        match &scenario {
            Ok(scenario) => scenario.remarks.iter().for_each(|remark| tell!("weft: {remark}")),
            Err(why) => tell!("weft: {why:#}"),
        }
        all.push(Found { shown, scenario });
    }
    Ok(all)
}

/// Scenarios below a folder, in the order of their names. Other files of weft's are not meant.
fn below(folder: &Path, files: &mut Vec<PathBuf>) -> std::io::Result<()> {
    let mut entries = std::fs::read_dir(folder)?.collect::<Result<Vec<_>, _>>()?;
    entries.sort_by_key(std::fs::DirEntry::file_name);
    for entry in entries {
        let path = entry.path();
        if entry.file_type()?.is_dir() {
            below(&path, files)?;
        } else if path.extension().is_some_and(|extension| extension == "toml") {
            let text = String::from_utf8_lossy(&std::fs::read(&path)?).into_owned();
            // What is no TOML at all may have been meant to be one.
            if weft_node::kind_of(&text).map_or(text.contains("[nodes."), |(kind, _)| kind == "scenario") {
                files.push(path);
            }
        }
    }
    Ok(())
}
