//! Many runs: a scenario with many seeds, settings of it beside each other, or many scenarios; in parallel, one world a thread.

use crate::error::WorldError;
use crate::scenario::{Judged, Scenario, judge};
use crate::world::{Reason, World};
use serde::{Deserialize, Serialize};
use statrs::distribution::{ContinuousCDF as _, StudentsT};
use std::collections::BTreeMap;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, PoisonError, mpsc};
use std::time::Duration;

/// A run that is wanted.
#[derive(Clone, Copy, Debug)]
pub struct Case<'a> {
    /// The scenario, as it is set.
    pub scenario: &'a Scenario,
    /// Its seed.
    pub seed: u64,
}

/// What came of one run.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct RunResult {
    /// The seed.
    pub seed: u64,
    /// The world's hash.
    #[serde(with = "hex")]
    pub hash: u128,
    /// Virtual time at which it ended, in nanoseconds.
    pub end_ns: u64,
    /// What was expected, and whether it was so.
    pub verdicts: Vec<Judged>,
    /// The figures of all programs: `program.figure`.
    pub figures: BTreeMap<String, u64>,
    /// Where something was not as expected: the last lines that each program wrote, to standard output and error.
    #[serde(default, skip_serializing)]
    pub said: Vec<Said>,
    /// How long it took, of real time. No result.
    pub wall: Duration,
}

/// The last lines of a program.
#[derive(Clone, Default, Debug, Deserialize)]
pub struct Said {
    /// Its name.
    pub program: String,
    /// Of its standard output.
    pub output: String,
    /// Of its standard error.
    pub error: String,
}

/// So many bytes of each, at most.
const SAID_BYTES: usize = 4096;

impl Said {
    /// Of every program that has written something.
    pub fn of(world: &World) -> Vec<Said> {
        let programs = world.plan().programs.iter().enumerate();
        let of_program = |(number, program): (usize, &crate::plan::ProgramPlan)| {
            let state = world.program(number)?;
            let said = Said { program: program.name.clone(), output: last_lines(&state.output), error: last_lines(&state.error) };
            (!said.output.is_empty() || !said.error.is_empty()).then_some(said)
        };
        programs.filter_map(of_program).collect()
    }
}

/// The last whole lines; of a very long one its end.
fn last_lines(bytes: &[u8]) -> String {
    let tail = bytes.get(bytes.len().saturating_sub(SAID_BYTES)..).unwrap_or_default();
    let is_cut = tail.len() < bytes.len();
    let from = tail.iter().position(|byte| *byte == b'\n').filter(|_| is_cut).map_or(0, |at| at + 1);
    String::from_utf8_lossy(tail.get(from..).filter(|lines| !lines.is_empty()).unwrap_or(tail)).into_owned()
}

impl RunResult {
    /// Of a world that cannot be made.
    fn unmade(seed: u64, why: &WorldError) -> RunResult {
        let verdicts = vec![Judged { name: "the world can be made".to_owned(), failure: Some(why.to_string()) }];
        RunResult { seed, hash: 0, end_ns: 0, verdicts, figures: BTreeMap::new(), said: Vec::new(), wall: Duration::ZERO }
    }

    /// Was everything as expected?
    pub fn passed(&self) -> bool {
        self.verdicts.iter().all(|verdict| verdict.failure.is_none())
    }
}

/// A hash as people and `weft diff` read it: 32 digits.
mod hex {
    use serde::{Deserialize as _, Deserializer, Serializer, de::Error as _};

    pub fn serialize<S: Serializer>(hash: &u128, to: S) -> Result<S::Ok, S::Error> {
        to.collect_str(&format_args!("{hash:032x}"))
    }

    pub fn deserialize<'de, D: Deserializer<'de>>(from: D) -> Result<u128, D::Error> {
        u128::from_str_radix(&String::deserialize(from)?, 16).map_err(D::Error::custom)
    }
}

/// How a sweep goes on.
pub struct Options<'a> {
    /// Worlds at a time.
    pub threads: usize,
    /// No new world is begun once one has failed.
    pub until_fail: bool,
    /// A run that takes more real time than this is ended, and was not as expected.
    pub limit: Option<Duration>,
    /// A world that cannot be made is a run that failed, and not an error of all.
    pub broken_is_failed: bool,
    /// Called after each run with its number among the cases; false: stop.
    pub watch: &'a (dyn Fn(usize, &RunResult) -> bool + Sync),
}

/// Runs jobs `0..count`, several at a time, and returns what they returned by their numbers. A job says whether others may begin after it; one that comes to
/// nothing ends the thread that ran it.
pub fn in_parallel<T: Send>(count: usize, threads: usize, job: &(dyn Fn(usize) -> Option<(T, bool)> + Sync)) -> BTreeMap<usize, T> {
    let (next, stop, results) = (AtomicUsize::new(0), AtomicBool::new(false), Mutex::new(BTreeMap::new()));
    std::thread::scope(|scope| {
        for _ in 0..threads.clamp(1, count.max(1)) {
            scope.spawn(|| {
                while !stop.load(Ordering::Acquire) {
                    let number = next.fetch_add(1, Ordering::AcqRel);
                    let Some((result, goes_on)) = (number < count).then(|| job(number)).flatten() else { return };
                    results.lock().unwrap_or_else(PoisonError::into_inner).insert(number, result);
                    if !goes_on {
                        stop.store(true, Ordering::Release);
                    }
                }
            });
        }
    });
    results.into_inner().unwrap_or_else(PoisonError::into_inner)
}

/// Runs every case. The results come with their numbers among the cases; after a failure with `until_fail`, those up to the first failing case, which does
/// not depend on who was faster.
///
/// # Errors
/// The scenario's parts do not fit together.
pub fn run(cases: &[Case<'_>], options: &Options<'_>) -> Result<BTreeMap<usize, RunResult>, WorldError> {
    let results = in_parallel(cases.len(), options.threads, &|number| {
        let case = cases.get(number)?;
        let result = match one(case, options.limit) {
            Err(why) if options.broken_is_failed => Ok(RunResult::unmade(case.seed, &why)),
            result => result.transpose()?,
        };
        let failed = result.as_ref().map_or(true, |result| !result.passed());
        let goes_on = result.as_ref().map_or(true, |result| (options.watch)(number, result)) && !(failed && options.until_fail);
        Some((result, goes_on))
    });
    let mut out = BTreeMap::new();
    for (number, result) in results {
        let result = result?;
        let failed = !result.passed();
        out.insert(number, result);
        if failed && options.until_fail {
            break;
        }
    }
    Ok(out)
}

/// Are there cases that should have had their turn, and are not among the results? Somebody stopped the sweep, or a world of it.
pub fn is_cut(results: &BTreeMap<usize, RunResult>, cases: usize, until_fail: bool) -> bool {
    let last = results.iter().next_back().filter(|(_, last)| until_fail && !last.passed());
    results.len() < last.map_or(cases, |(number, _)| number + 1)
}

/// None: interrupted, and nobody can say how it would have ended.
fn one(case: &Case<'_>, limit: Option<Duration>) -> Result<Option<RunResult>, WorldError> {
    let begun = std::time::Instant::now();
    let mut plan = case.scenario.plan.clone();
    plan.seed = case.seed;
    let interrupt = plan.interrupt.clone().unwrap_or_default();
    let own = Arc::new(AtomicBool::new(false));
    plan.interrupt = Some(Arc::clone(&own));
    let mut world = World::new(plan, 1)?;
    let end = std::thread::scope(|scope| {
        let (ended, ends) = mpsc::channel::<()>();
        let (all, own) = (&interrupt, &own);
        scope.spawn(move || keep_time(&ends, all, own, limit.map(|limit| begun + limit)));
        let end = world.run(&mut |_| !own.load(Ordering::Relaxed));
        drop(ended);
        end
    });
    let cut = matches!(end.reason, Reason::Interrupted);
    if cut && interrupt.load(Ordering::Relaxed) {
        return Ok(None);
    }
    let mut verdicts = judge(&world, &end, &case.scenario.expectations);
    if let Some(limit) = limit.filter(|_| cut) {
        let failure = format!("it took longer, and was ended at {} of virtual time", end.at);
        verdicts.insert(0, Judged { name: format!("ends within {} s of real time", limit.as_secs_f64()), failure: Some(failure) });
    }
    let said = if verdicts.iter().any(|verdict| verdict.failure.is_some()) { Said::of(&world) } else { Vec::new() };
    let mut figures = BTreeMap::new();
    for (number, program) in world.plan().programs.iter().enumerate() {
        for (name, value) in world.program(number).into_iter().flat_map(|state| &state.figures) {
            figures.insert(format!("{}.{name}", program.name), *value);
        }
    }
    let (hash, end_ns) = (world.hash(), end.at.as_nanos());
    Ok(Some(RunResult { seed: case.seed, hash, end_ns, verdicts, figures, said, wall: begun.elapsed() }))
}

/// How often somebody looks whether all runs are to end.
const LOOK: Duration = Duration::from_millis(20);

/// Until the run has ended (nobody holds the other end of `ends`): ends it when all are to end, and when its time is over.
fn keep_time(ends: &mpsc::Receiver<()>, all: &AtomicBool, own: &AtomicBool, until: Option<std::time::Instant>) {
    while let Err(mpsc::RecvTimeoutError::Timeout) = ends.recv_timeout(LOOK) {
        if all.load(Ordering::Relaxed) || until.is_some_and(|until| std::time::Instant::now() >= until) {
            own.store(true, Ordering::Relaxed);
        }
    }
}

/// A figure over several runs.
#[derive(Clone, Copy, PartialEq, Debug)]
pub struct Statistic {
    /// How many runs have it.
    pub count: usize,
    /// Mean.
    pub mean: f64,
    /// Half of the 95 % confidence interval of the mean, by Student's t (0 from one run).
    pub confidence: f64,
    /// Smallest.
    pub min: u64,
    /// Largest.
    pub max: u64,
}

/// The mean, and half of its 95 % confidence interval, by Student's t (from two values on; otherwise 0).
pub fn mean(values: &[f64]) -> (f64, f64) {
    let count = values.len() as f64;
    let mean = values.iter().sum::<f64>() / count;
    let square: f64 = values.iter().map(|value| (value - mean).powi(2)).sum();
    // There is no distribution with no degree of freedom.
    let t = StudentsT::new(0.0, 1.0, count - 1.0).map_or(0.0, |students| students.inverse_cdf(0.975));
    (mean, if values.len() > 1 { t * (square / (count - 1.0) / count).sqrt() } else { 0.0 })
}

/// The figures of runs.
pub fn statistics<'a>(results: impl IntoIterator<Item = &'a RunResult>) -> BTreeMap<String, Statistic> {
    let mut values: BTreeMap<String, Vec<u64>> = BTreeMap::new();
    for (name, value) in results.into_iter().flat_map(|result| &result.figures) {
        values.entry(name.clone()).or_default().push(*value);
    }
    let of = |values: Vec<u64>| {
        let count = values.len();
        let (mean, confidence) = mean(&values.iter().map(|value| *value as f64).collect::<Vec<_>>());
        let (min, max) = (values.iter().copied().min().unwrap_or(0), values.iter().copied().max().unwrap_or(0));
        Statistic { count, mean, confidence, min, max }
    };
    values.into_iter().map(|(name, values)| (name, of(values))).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn result(seed: u64, value: u64, failure: Option<String>) -> RunResult {
        let verdicts = vec![Judged { name: String::new(), failure }];
        RunResult {
            seed,
            hash: 0,
            end_ns: 0,
            verdicts,
            figures: BTreeMap::from([("p.x".to_owned(), value)]),
            said: Vec::new(),
            wall: Duration::ZERO,
        }
    }

    #[test]
    fn a_sweep_is_cut_when_cases_are_left_out_and_no_failure_ended_it() {
        let cut = |ran: &[usize], failed: bool, until_fail: bool| {
            let failure = |number: usize| (failed && Some(&number) == ran.last()).then(String::new);
            let results = ran.iter().map(|number| (*number, result(0, 0, failure(*number)))).collect();
            is_cut(&results, 4, until_fail)
        };
        assert!(!cut(&[0, 1, 2, 3], false, false) && !cut(&[0, 1, 2, 3], true, true));
        assert!(cut(&[], false, false) && cut(&[0, 1, 3], false, true) && cut(&[0, 1, 2], true, false));
        // It was to end there; but one before it is missing.
        assert!(!cut(&[0, 1, 2], true, true) && cut(&[0, 2], true, true));
    }

    #[test]
    fn a_result_is_read_back_as_it_was_written() {
        let one = RunResult { hash: 0xab << 100, ..result(7, 3, Some("why".to_owned())) };
        let text = serde_json::to_string(&one).unwrap();
        let back: RunResult = serde_json::from_str(&text).unwrap();
        assert_eq!(format!("{back:?}"), format!("{one:?}"), "{text}");
        assert!(text.contains("\"hash\":\"00000ab0"), "{text}");
    }

    #[test]
    fn the_interval_is_that_of_the_mean() {
        let found = [(1, 10), (2, 14), (3, 12), (4, 12)].map(|(seed, value)| result(seed, value, None));
        let found = statistics(&found)["p.x"];
        assert_eq!((found.count, found.mean, found.min, found.max), (4, 12.0, 10, 14));
        // Variance 8/3, of the mean 2/3; t with three degrees of freedom as tables have it.
        assert!((found.confidence - 3.182_446_305 * (2.0f64 / 3.0).sqrt()).abs() < 1e-8, "{found:?}");
    }

    #[test]
    fn few_values_have_wide_intervals_and_one_has_none() {
        assert_eq!(mean(&[5.0]), (5.0, 0.0));
        // Variance 2, of the mean 1. t as tables have it.
        assert!((mean(&[1.0, 3.0]).1 - 12.706_204_736).abs() < 1e-6);
        let many: Vec<f64> = (0..10_000).map(f64::from).collect();
        let (_, half) = mean(&many);
        assert!((half / (2886.896 / 100.0) - 1.960_2).abs() < 1e-3, "{half}");
        assert_eq!(mean(&[7.0; 5]), (7.0, 0.0));
    }
}
