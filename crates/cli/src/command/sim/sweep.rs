//! `--seeds` and `--grid`: many runs, their table, and the results of those that fail.

use super::done::{Done, Key};
use super::interrupt::Interrupt;
use super::limit::Limit;
use super::{Args, folder, one, verdict};
use crate::command::scenario::{Over, Source};
use crate::output;
use anyhow::Context as _;
use serde_json::{Map, Value, json};
use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::sync::atomic::{AtomicUsize, Ordering};
use weft_sim::Scenario;
use weft_sim::grid::Grid;
use weft_sim::result::{self, Row, Suite};
use weft_sim::sweep::{self, Case, RunResult, Statistic};

/// Which runs, and what is written of them.
#[derive(clap::Args, Clone, Debug)]
pub(in crate::command) struct Which {
    /// Run once for each seed from A to B, in parallel: A..B
    #[arg(long, value_name = "A..B", conflicts_with = "seed")]
    pub seeds: Option<String>,
    /// Run once for each of these values, set over the scenario's as by --set; several of them: each value of one with each of the others
    #[arg(long, value_name = "PATH=VALUE,VALUE…")]
    pub grid: Vec<String>,
}

impl Which {
    /// Is it more than a run?
    pub fn is_sweep(&self) -> bool {
        self.seeds.is_some() || !self.grid.is_empty()
    }

    /// `1..1000`, both included; without it the scenario's own seed.
    pub fn seeds(&self, own: u64) -> anyhow::Result<Vec<u64>> {
        self.seeds.as_deref().map_or(Ok(vec![own]), seeds)
    }
}

/// `1..1000`, both included.
pub(in crate::command) fn seeds(range: &str) -> anyhow::Result<Vec<u64>> {
    let bounds = range.split_once("..").and_then(|(from, to)| Some((from.parse::<u64>().ok()?, to.parse::<u64>().ok()?)));
    match bounds {
        Some((from, to)) if from <= to && to - from < 1 << 24 => Ok((from..=to).collect()),
        _ => anyhow::bail!("--seeds: '{range}' is no range\nhelp: write it as 1..1000"),
    }
}

/// The command that repeats a run of this scenario.
pub(in crate::command) fn repeat(file: &Path, seed: u64, over: &Over, more: &[String], limit: Option<&str>) -> String {
    let sets: String = over.set.iter().chain(more).map(|set| format!(" --set {}", quoted(set))).collect();
    let beside = over.beside.as_ref().map_or(String::new(), |folder| format!(" --beside {}", quoted(&folder.display().to_string())));
    let limit = limit.map_or(String::new(), |limit| format!(" --wall-limit {}", quoted(limit)));
    format!("weft sim {}{beside} --seed {seed}{sets}{limit}", quoted(&file.display().to_string()))
}

/// As a shell reads it as one word.
fn quoted(word: &str) -> String {
    let is_plain = !word.is_empty() && word.chars().all(|c| c.is_alphanumeric() || "_-./=:,+%@".contains(c));
    if is_plain { word.to_owned() } else { format!("'{}'", word.replace('\'', "'\\''")) }
}

/// Numbers in their order, those that follow each other as a range.
fn ranges(mut numbers: Vec<u64>) -> String {
    numbers.sort_unstable();
    let runs = numbers.chunk_by(|one, next| one + 1 == *next);
    let words = runs.filter_map(|run| match (run.first()?, run.last()?) {
        (first, last) if first == last => Some(first.to_string()),
        (first, last) => Some(format!("{first}..{last}")),
    });
    words.collect::<Vec<_>>().join(", ")
}

/// A scenario as a point of the grid sets it.
struct Point {
    settings: Vec<String>,
    sets: Vec<String>,
    scenario: Scenario,
}

/// A run that has ended.
#[derive(Clone, Copy)]
struct Ended<'a> {
    point: &'a Point,
    result: &'a RunResult,
}

/// All of it.
pub(super) struct Sweep<'a> {
    args: &'a Args,
    source: &'a Source,
    grid: Grid,
    points: Vec<Point>,
    seeds: Vec<u64>,
}

impl<'a> Sweep<'a> {
    /// Reads the scenario as each point of the grid sets it: what is wrong with one is known before any runs.
    pub fn read(args: &'a Args, source: &'a Source, scenario: &Scenario, interrupt: &Interrupt) -> anyhow::Result<Sweep<'a>> {
        let grid = Grid::read(&args.which.grid)?;
        let seeds = args.which.seeds(scenario.plan.seed)?;
        let mut points = Vec::new();
        let all = grid.points();
        let runs = all.len().saturating_mul(seeds.len());
        anyhow::ensure!(runs <= RUNS_MAX, "that would be {runs} runs\nhelp: {RUNS_MAX} are the most: give --seeds or --grid less");
        for settings in all {
            if interrupt.is_set() {
                interrupt.cut();
                anyhow::bail!("interrupted before the first run");
            }
            let sets = grid.assignments(&settings);
            let mut own = source.with(&sets).parse(None)?;
            own.plan.boot.clone_from(&scenario.plan.boot);
            own.plan.interrupt.clone_from(&scenario.plan.interrupt);
            points.push(Point { settings, sets, scenario: own });
        }
        Ok(Sweep { args, source, grid, points, seeds })
    }

    /// Runs what has not run yet, and writes and prints what came of all.
    pub fn run(&self, interrupt: &Interrupt, limit: Option<&Limit>) -> anyhow::Result<ExitCode> {
        let (done, known) = self.begin()?;
        let results = self.results(done.as_ref(), known, interrupt, limit)?;
        let wanted: Vec<Ended<'_>> = self.cases().filter_map(|(point, key)| Some(Ended { point, result: results.get(&key)? })).collect();
        let cut = self.cut(&wanted);
        let failed: Vec<Ended<'_>> = cut.iter().filter(|ended| !ended.result.passed()).copied().collect();
        self.write(cut, interrupt)?;
        self.print(cut, &failed);
        tell!(
            "weft: {} of {} {} as expected",
            cut.len() - failed.len(),
            cut.len(),
            if self.grid.keys().is_empty() { "seeds" } else { "runs" }
        );
        let left = self.points.len() * self.seeds.len() - wanted.len();
        if left > 0 && !self.args.until_fail {
            let help = if self.args.out.is_some() { ": the same command with --resume goes on" } else { "" };
            tell!("weft: {left} more have not run to their ends{help}");
        }
        let Some(first) = failed.first() else { return Ok(ExitCode::SUCCESS) };
        if self.grid.keys().is_empty() && failed.len() > 1 {
            tell!("weft: seeds that failed: {}", ranges(failed.iter().map(|ended| ended.result.seed).collect()));
        }
        self.keep_failed(&failed, interrupt, limit)?;
        let status = verdict(&first.result.verdicts);
        tell!("weft: to repeat it: {}", self.repeat(first));
        Ok(status)
    }

    /// The command that repeats a run.
    fn repeat(&self, ended: &Ended<'_>) -> String {
        repeat(&self.args.file, ended.result.seed, &self.args.over, &ended.point.sets, self.args.wall_limit.as_deref())
    }

    /// Every run that is wanted, point by point.
    fn cases(&self) -> impl Iterator<Item = (&Point, Key)> {
        self.points.iter().flat_map(|point| self.seeds.iter().map(move |seed| (point, (point.sets.clone(), *seed))))
    }

    fn begin(&self) -> anyhow::Result<(Option<Done>, BTreeMap<Key, RunResult>)> {
        let Some(dir) = &self.args.out else { return Ok((None, BTreeMap::new())) };
        std::fs::create_dir_all(dir).with_context(|| format!("cannot make the folder {}", dir.display()))?;
        if !self.args.resume {
            folder::begin(dir, &self.source.shown)?;
        }
        let (done, known) = Done::begin(dir, &self.source.shown, &self.source.digest(), self.args.resume)?;
        folder::not_yet(dir, &self.source.shown)?;
        Ok((Some(done), known))
    }

    /// Of those that were known and those that have run now.
    fn results(
        &self,
        done: Option<&Done>,
        mut known: BTreeMap<Key, RunResult>,
        interrupt: &Interrupt,
        limit: Option<&Limit>,
    ) -> anyhow::Result<BTreeMap<Key, RunResult>> {
        let left: Vec<(&Point, Key)> = self.cases().filter(|(_, key)| !known.contains_key(key)).collect();
        let cases: Vec<Case<'_>> = left.iter().map(|(point, key)| Case { scenario: &point.scenario, seed: key.1 }).collect();
        let (total, before) = (self.points.len() * self.seeds.len(), known.len());
        let visible = crate::output::is_lively();
        let (ended, lost) = (AtomicUsize::new(before), std::sync::Mutex::new(None));
        let watch = |number: usize, result: &RunResult| {
            let ended = ended.fetch_add(1, Ordering::AcqRel) + 1;
            if visible {
                crate::output::progress(&format!("{ended} of {total} runs "));
            }
            let set = left.get(number).map_or(&[][..], |(point, _)| &point.sets);
            let noted = done.map_or(Ok(()), |done| done.note(set, result));
            noted.map_err(|error| *lost.lock().unwrap_or_else(std::sync::PoisonError::into_inner) = Some(error)).is_ok()
                && !interrupt.is_set()
        };
        let threads = self.args.threads.unwrap_or_else(|| std::thread::available_parallelism().map_or(1, usize::from));
        let options = sweep::Options { threads, until_fail: self.args.until_fail, limit: None, watch: &watch, broken_is_failed: false };
        let results = sweep::run(&cases, &options)?;
        if let Some(error) = lost.into_inner().unwrap_or_else(std::sync::PoisonError::into_inner) {
            return Err(error).context("cannot write the runs that have ended");
        }
        if sweep::is_cut(&results, cases.len(), self.args.until_fail) {
            interrupt.cut();
            limit.map(Limit::cut);
        }
        if visible {
            tell!();
        }
        known.extend(results.into_iter().filter_map(|(number, result)| Some((left.get(number)?.1.clone(), result))));
        Ok(known)
    }

    /// With `--until-fail` nothing is told of what stands behind the first that failed.
    fn cut<'e>(&self, all: &'e [Ended<'e>]) -> &'e [Ended<'e>] {
        let first = all.iter().position(|ended| !ended.result.passed()).filter(|_| self.args.until_fail);
        first.map_or(all, |first| all.get(..=first).unwrap_or(all))
    }

    fn write(&self, all: &[Ended<'_>], interrupt: &Interrupt) -> anyhow::Result<()> {
        if let Some(file) = &self.args.junit {
            let suites = all.iter().map(|ended| Suite {
                name: self.name(ended),
                wall: ended.result.wall,
                verdicts: &ended.result.verdicts,
                broken: None,
                said: &ended.result.said,
                repeat: self.repeat(ended),
            });
            write(file, result::junit(suites)?)?;
        }
        let Some(dir) = &self.args.out else { return Ok(()) };
        let rows: Vec<Row<'_>> =
            all.iter().map(|ended| Row { scenario: &self.source.shown, settings: &ended.point.settings, result: ended.result }).collect();
        let (csv, parquet) = result::runs(&self.grid.keys(), &rows)?;
        write(&dir.join("runs.csv"), csv)?;
        write(&dir.join("runs.parquet"), parquet)?;
        let mut summary = self.told(all);
        summary["end"] = if interrupt.is_set() { "interrupted: --resume goes on" } else { "every run has ended" }.into();
        write(&dir.join("summary.json"), format!("{summary:#}\n"))
    }

    /// Names a run among others.
    fn name(&self, ended: &Ended<'_>) -> String {
        let sets: String = ended.point.sets.iter().map(|set| format!(" {set}")).collect();
        format!("{}{sets} seed {}", self.source.shown, ended.result.seed)
    }

    /// What `--json` prints.
    fn told(&self, all: &[Ended<'_>]) -> Value {
        let failed: Vec<u64> = all.iter().filter(|ended| !ended.result.passed()).map(|ended| ended.result.seed).collect();
        let hashes: Map<String, Value> =
            all.iter().map(|ended| (ended.result.seed.to_string(), format!("{:032x}", ended.result.hash).into())).collect();
        let runs: Vec<Value> = all.iter().map(|ended| self.told_of(ended)).collect();
        let figures: Vec<Value> = self.statistics(all).iter().map(|(point, name, of)| self.figure(point, name, of)).collect();
        let mut out = json!({"scenario": self.source.shown, "seeds": self.seeds.len(), "failed": failed, "figures": figures, "runs": runs});
        if self.grid.keys().is_empty() {
            (out["seeds"], out["hashes"]) = (all.len().into(), hashes.into());
        }
        out
    }

    fn told_of(&self, ended: &Ended<'_>) -> Value {
        let result = ended.result;
        let failures: Vec<String> =
            result.verdicts.iter().filter_map(|of| Some(format!("{}: {}", of.name, of.failure.as_ref()?))).collect();
        json!({"set": self.settings(ended.point), "seed": result.seed, "hash": format!("{:032x}", result.hash), "passed": result.passed(),
               "failures": failures, "end_ns": result.end_ns, "figures": result.figures})
    }

    fn settings(&self, point: &Point) -> Map<String, Value> {
        self.grid.keys().into_iter().zip(point.settings.iter().map(|value| value.as_str().into())).collect()
    }

    /// Of each figure at each point.
    fn statistics<'e>(&'e self, all: &[Ended<'_>]) -> Vec<(&'e Point, String, Statistic)> {
        let of_point = |point: &'e Point| {
            let results = all.iter().filter(move |ended| ended.point.sets == point.sets).map(|ended| ended.result);
            sweep::statistics(results).into_iter().map(move |(name, of)| (point, name, of))
        };
        self.points.iter().flat_map(of_point).collect()
    }

    /// A row of the table, for programs.
    fn figure(&self, point: &Point, name: &str, of: &Statistic) -> Value {
        let mut row =
            json!({"figure": name, "seeds": of.count, "mean": of.mean, "margin_of_error": of.confidence, "min": of.min, "max": of.max});
        if !point.settings.is_empty() {
            row["set"] = self.settings(point).into();
        }
        row
    }

    /// The same for people, in a unit that fits values up to `largest`.
    fn shown(&self, point: &Point, name: &str, of: &Statistic, largest: u64) -> Value {
        let mut row = self.settings(point);
        let (name, size, unit) = result::of_figure(name, largest as f64);
        // Four digits of the mean at least.
        let places = (3 - (of.mean / size).abs().max(1e-3).log10().floor() as i32).clamp(3, 6) as usize;
        let number = |value: f64| match size {
            1.0 => format!("{value:.1}"),
            size => format!("{:.places$}", value / size),
        };
        let whole = |value: u64| if size == 1.0 { value.to_string() } else { number(value as f64) };
        let values = json!({"figure": name, "unit": unit, "seeds": of.count, "mean": number(of.mean), "±95%": number(of.confidence),
                            "min": whole(of.min), "max": whole(of.max)});
        row.extend(values.as_object().cloned().unwrap_or_default());
        row.into()
    }

    fn print(&self, all: &[Ended<'_>], failed: &[Ended<'_>]) {
        if self.args.json {
            return output::json(&self.told(all));
        }
        let statistics = self.statistics(all);
        let mut largest: BTreeMap<&str, u64> = BTreeMap::new();
        for (_, name, of) in &statistics {
            largest.entry(name).and_modify(|most| *most = of.max.max(*most)).or_insert(of.max);
        }
        let shown = |(point, name, of): &(&Point, String, Statistic)| self.shown(point, name, of, largest[name.as_str()]);
        let rows: Vec<Value> = statistics.iter().map(shown).collect();
        if !rows.is_empty() {
            output::table(&rows, self.args.wide);
        }
        if !self.grid.keys().is_empty() {
            failed.iter().take(FAILED_TOLD).for_each(|ended| tell!("weft: not as expected: {}", self.name(ended)));
            if failed.len() > FAILED_TOLD {
                tell!("weft: and {} more (--json and DIR/runs.csv of --out name all of them)", failed.len() - FAILED_TOLD);
            }
        }
    }

    /// The first runs that failed run once more, alone, and leave their results.
    fn keep_failed(&self, failed: &[Ended<'_>], interrupt: &Interrupt, limit: Option<&Limit>) -> anyhow::Result<()> {
        let Some(dir) = &self.args.out else { return Ok(()) };
        for ended in failed.iter().take(KEPT_MAX) {
            if interrupt.is_set() {
                interrupt.cut();
                limit.map(Limit::cut);
                break;
            }
            let folder = dir.join(self.folder_of(ended));
            let mut scenario = ended.point.scenario.clone();
            scenario.plan.seed = ended.result.seed;
            let alone = Args { out: Some(folder.clone()), junit: None, quiet: true, threads: Some(1), ..self.args.clone() };
            one(&alone, scenario, interrupt, limit)?;
            tell!("weft: results of {}: {}", self.name(ended), folder.display());
        }
        tell_of_others(failed.len());
        Ok(())
    }

    /// `seed-N`, or with a grid `point-K-seed-N`, where K counts its points.
    fn folder_of(&self, ended: &Ended<'_>) -> PathBuf {
        let seed = ended.result.seed;
        let number = self.points.iter().position(|point| point.sets == ended.point.sets).unwrap_or(0) + 1;
        if self.grid.keys().is_empty() { format!("seed-{seed}").into() } else { format!("point-{number}-seed-{seed}").into() }
    }
}

/// Most runs of a sweep.
const RUNS_MAX: usize = 1_000_000;
/// Most runs that failed whose results are written.
pub(in crate::command) const KEPT_MAX: usize = 10;

/// Says how many of those that failed have no results, if some have none.
pub(in crate::command) fn tell_of_others(failed: usize) {
    if failed > KEPT_MAX {
        tell!("weft: {} more failed, without results here: run the scenario with --seed N --out DIR", failed - KEPT_MAX);
    }
}

/// Most of them that are named.
const FAILED_TOLD: usize = 10;

fn write(file: &Path, contents: impl AsRef<[u8]>) -> anyhow::Result<()> {
    std::fs::write(file, contents).with_context(|| format!("cannot write {}", file.display()))
}
