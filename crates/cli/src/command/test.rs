//! `weft test`

use super::scenario::{Over, Source};
use super::sim::interrupt::Interrupt;
use super::sim::sweep::{KEPT_MAX, repeat, seeds, tell_of_others};
use super::sim::{self, limit};
use crate::{complete, output};
use anyhow::Context as _;
use serde_json::{Value, json};
use std::collections::{BTreeMap, BTreeSet};
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
    /// Write everything of the first ten runs that fail into folders of this one
    #[arg(long, value_name = "DIR")]
    out: Option<PathBuf>,
    /// End each run that takes more real time than this: it has failed, and the next one goes on
    #[arg(long, value_name = "TIME")]
    wall_limit: Option<String>,
    /// Print JSON instead of a line a run
    #[arg(long)]
    json: bool,
}

impl Args {
    /// The command that repeats a run.
    fn repeat(&self, found: &Found, seed: u64) -> String {
        repeat(&found.path, seed, &self.over, &[], self.wall_limit.as_deref())
    }
}

/// A file, and what it says, or why it says nothing.
struct Found {
    path: PathBuf,
    shown: String,
    scenario: anyhow::Result<Scenario>,
}

pub fn run(args: Args) -> anyhow::Result<ExitCode> {
    let limit = args.wall_limit.as_deref().map(limit::span).transpose()?;
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
            tell(found, result, &args);
        }
        !interrupt.is_set()
    };
    let results = sweep::run(&cases, &sweep::Options { threads, until_fail: false, limit, watch: &watch, broken_is_failed: true })?;
    if results.len() < cases.len() {
        interrupt.cut();
    }
    let report = Report { found: &found, cases: &cases, of_case: &of_case, results: &results, args: &args };
    if let Some(file) = &args.junit {
        let text = result::junit(report.suites())?;
        std::fs::write(file, text).with_context(|| format!("cannot write {}", file.display()))?;
    }
    if args.json {
        output::json(&report.told());
    }
    if let Some(dir) = &args.out {
        report.keep_failed(dir, &interrupt)?;
    }
    let (passed, all) = (results.values().filter(|result| result.passed()).count(), cases.len() + report.broken().count());
    tell!("weft: {passed} of {all} runs as expected");
    Ok(interrupt.status().unwrap_or(ExitCode::from(u8::from(passed < all))))
}

/// A line as soon as a run has ended, and one for each thing that was not as expected.
fn tell(found: &Found, result: &RunResult, args: &Args) {
    let word = if result.passed() { "passed" } else { "failed" };
    let mut text = format!("{word}  {:6.1} s  {} seed {}", result.wall.as_secs_f64(), found.shown, result.seed);
    for verdict in &result.verdicts {
        if let Some(why) = &verdict.failure {
            text += &format!("\n        {}: {why}", verdict.name);
        }
    }
    if !result.passed() {
        for said in &result.said {
            let lines: Vec<&str> = said.error.lines().collect();
            let last = lines.iter().skip(lines.len().saturating_sub(LINES_TOLD));
            text.extend(last.map(|line| format!("\n        {}! {line}", said.program)));
        }
        text += &format!("\n        to repeat it: {}", args.repeat(found, result.seed));
    }
    output::line(&text);
}

/// So many of the last lines of a program's standard error are shown where a run has failed.
const LINES_TOLD: usize = 5;

/// What came of all.
struct Report<'a> {
    found: &'a [Found],
    cases: &'a [Case<'a>],
    /// Which file each case is of.
    of_case: &'a [usize],
    results: &'a BTreeMap<usize, RunResult>,
    args: &'a Args,
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
            said: &[],
            repeat: String::new(),
        });
        let of_run = |(found, result): (&Found, &'a RunResult)| Suite {
            name: format!("{} seed {}", found.shown, result.seed),
            wall: result.wall,
            verdicts: &result.verdicts,
            broken: None,
            said: &result.said,
            repeat: self.args.repeat(found, result.seed),
        };
        let of_none = |(found, case): (&Found, &Case<'_>)| Suite {
            name: format!("{} seed {}", found.shown, case.seed),
            wall: Default::default(),
            verdicts: &[],
            broken: Some("it has not run to its end: weft test was interrupted".to_owned()),
            said: &[],
            repeat: self.args.repeat(found, case.seed),
        };
        broken.chain(self.runs().map(of_run)).chain(self.not_ended().map(of_none)).collect()
    }

    /// Runs that somebody interrupted, or that have not begun.
    fn not_ended(&self) -> impl Iterator<Item = (&'a Found, &'a Case<'a>)> {
        let (found, of_case, results) = (self.found, self.of_case, self.results);
        let cases = self.cases.iter().enumerate().filter(|(number, _)| !results.contains_key(number));
        cases.filter_map(move |(number, case)| Some((found.get(*of_case.get(number)?)?, case)))
    }

    /// The first runs that failed run once more, alone, and leave their results.
    fn keep_failed(&self, dir: &Path, interrupt: &Interrupt) -> anyhow::Result<()> {
        let failed: Vec<_> = self.results.iter().filter(|(_, result)| !result.passed()).collect();
        let mut used: BTreeSet<String> = BTreeSet::new();
        for (number, result) in failed.iter().take(KEPT_MAX) {
            let (Some(case), Some(found)) = (self.cases.get(**number), self.of_case.get(**number).and_then(|of| self.found.get(*of)))
            else {
                continue;
            };
            if interrupt.is_set() {
                interrupt.cut();
                break;
            }
            let name = found.path.with_extension("").display().to_string().trim_start_matches(['.', '/']).replace('/', "-");
            let name = format!("{name}-seed-{}", result.seed);
            // `../a.toml` and `a.toml` are two files.
            let more = (2..).map(|number| format!("{name}-{number}"));
            let name = std::iter::once(name.clone()).chain(more).find(|name| !used.contains(name)).unwrap_or_default();
            let folder = dir.join(&name);
            used.insert(name);
            let mut scenario = case.scenario.clone();
            scenario.plan.seed = case.seed;
            // The time that is over is this run's only.
            let own = Interrupt::catch(false)?;
            let limit = self.args.wall_limit.as_deref().map(|text| limit::Limit::begin(text, Arc::clone(&own.flag))).transpose()?;
            scenario.plan.interrupt = Some(Arc::clone(&own.flag));
            match sim::one(&sim::Args::quietly(found.path.clone(), folder.clone(), self.args.over.clone()), scenario, &own, limit.as_ref())
            {
                Ok(_) => tell!("weft: results of {} seed {}: {}", found.shown, result.seed, folder.display()),
                Err(why) => tell!("weft: no results of {} seed {}: {why:#}", found.shown, result.seed),
            }
        }
        tell_of_others(failed.len());
        Ok(())
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
    let (mut files, mut others, mut unread) = (Vec::new(), Vec::new(), Vec::new());
    for path in &args.paths {
        let before = files.len() + unread.len();
        match path.is_dir() {
            true => below(path, &mut files, &mut others, &mut unread),
            false => files.push(path.clone()),
        }
        anyhow::ensure!(
            files.len() + unread.len() > before,
            "there is no scenario in {}\nhelp: scenarios are files *.toml with [nodes.NAME]",
            path.display()
        );
    }
    if !others.is_empty() {
        let names: Vec<String> = others.iter().take(OTHERS_TOLD).map(|path| path.display().to_string()).collect();
        let more = if others.len() > OTHERS_TOLD { format!(" and {} more", others.len() - OTHERS_TOLD) } else { String::new() };
        tell!("weft: left out, since there is no [nodes.NAME] in them: {}{more}", names.join(", "));
    }
    let kernels = Arc::new(weft_kernel::Kernels::new());
    let mut all = Vec::new();
    for (path, why) in unread {
        let shown = path.display().to_string();
        let why = anyhow::Error::from(why).context(format!("cannot read {shown}"));
        tell_broken(args, &shown, &why);
        all.push(Found { path, shown, scenario: Err(why) });
    }
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
            Err(why) => tell_broken(args, &shown, why),
        }
        all.push(Found { path: file, shown, scenario });
    }
    Ok(all)
}

/// Names of other files that are told.
const OTHERS_TOLD: usize = 10;

/// As [`tell`] does of a run.
fn tell_broken(args: &Args, shown: &str, why: &anyhow::Error) {
    tell!("weft: {why:#}");
    if !args.json {
        output::line(&format!("failed     0.0 s  {shown}\n        it cannot be read"));
    }
}

/// Scenarios below a folder, in the order of their names; other files that end in .toml; and what cannot be read, with why. Hidden files are not meant.
fn below(folder: &Path, files: &mut Vec<PathBuf>, others: &mut Vec<PathBuf>, unread: &mut Vec<(PathBuf, std::io::Error)>) {
    let mut entries = match std::fs::read_dir(folder).and_then(Iterator::collect::<Result<Vec<_>, _>>) {
        Ok(entries) => entries,
        Err(why) => return unread.push((folder.to_owned(), why)),
    };
    entries.sort_by_key(std::fs::DirEntry::file_name);
    for entry in entries {
        let path = entry.path();
        if entry.file_name().as_encoded_bytes().starts_with(b".") {
            continue;
        }
        if entry.file_type().is_ok_and(|kind| kind.is_dir()) {
            below(&path, files, others, unread);
        } else if path.extension().is_some_and(|extension| extension.eq_ignore_ascii_case("toml")) {
            // Who opened a FIFO would wait for ever.
            let read = match path.metadata() {
                Ok(found) if found.is_file() => std::fs::read(&path),
                Ok(_) => Err(std::io::Error::other("it is no file")),
                Err(why) => Err(why),
            };
            match read {
                Err(why) => unread.push((path, why)),
                // What is no TOML at all may have been meant to be one.
                Ok(bytes) if is_scenario(&String::from_utf8_lossy(&bytes)) => files.push(path),
                Ok(_) => others.push(path),
            }
        }
    }
}

/// What is no TOML counts: it may have been meant to be one, and nobody would miss its runs.
fn is_scenario(text: &str) -> bool {
    weft_node::kind_of(text).map_or(text.parse::<toml::Table>().is_err(), |(kind, _)| kind == "scenario")
}
