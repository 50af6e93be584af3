//! The same scenario with many seeds: in parallel, one world a thread.

use crate::error::WorldError;
use crate::scenario::{Judged, Scenario, judge};
use crate::world::{Reason, World};
use std::collections::BTreeMap;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Mutex, PoisonError};

/// What came of one seed.
#[derive(Clone, Debug)]
pub struct SeedResult {
    /// The seed.
    pub seed: u64,
    /// The world's hash.
    pub hash: u128,
    /// What was expected, and whether it was so.
    pub verdicts: Vec<Judged>,
    /// The figures of all programs: `program.figure`.
    pub figures: BTreeMap<String, u64>,
}

impl SeedResult {
    /// Was everything as expected?
    pub fn passed(&self) -> bool {
        self.verdicts.iter().all(|verdict| verdict.failure.is_none())
    }
}

/// How a sweep goes on.
pub struct Options<'a> {
    /// Worlds at a time.
    pub threads: usize,
    /// No new world is begun once one has failed.
    pub until_fail: bool,
    /// Called after each world with how many are done; false: stop.
    pub watch: &'a (dyn Fn(usize) -> bool + Sync),
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

/// Runs the scenario once for each seed. The results come in the order of the seeds; after a failure with `until_fail`, those up to the first failing
/// seed, which does not depend on who was faster.
///
/// # Errors
/// The scenario's parts do not fit together.
pub fn run(scenario: &Scenario, seeds: &[u64], options: &Options<'_>) -> Result<Vec<SeedResult>, WorldError> {
    let done = AtomicUsize::new(0);
    let results = in_parallel(seeds.len(), options.threads, &|number| {
        let result = one(scenario, *seeds.get(number)?).transpose()?;
        let failed = result.as_ref().map_or(true, |result| !result.passed());
        let count = done.fetch_add(1, Ordering::AcqRel) + 1;
        let goes_on = (options.watch)(count) && !(failed && options.until_fail);
        Some((result, goes_on))
    });
    let mut out = Vec::new();
    for result in results.into_values() {
        let result = result?;
        let failed = !result.passed();
        out.push(result);
        if failed && options.until_fail {
            break;
        }
    }
    Ok(out)
}

/// Are there seeds that should have had their turn, and are not among the results? Somebody stopped the sweep, or a world of it.
pub fn is_cut(results: &[SeedResult], seeds: &[u64], options: &Options<'_>) -> bool {
    let last = results.last().filter(|last| options.until_fail && !last.passed());
    let wanted = last.and_then(|last| seeds.iter().position(|seed| *seed == last.seed)).map_or(seeds.len(), |place| place + 1);
    results.len() < wanted
}

/// None: interrupted, and nobody can say how it would have ended.
fn one(scenario: &Scenario, seed: u64) -> Result<Option<SeedResult>, WorldError> {
    let mut plan = scenario.plan.clone();
    plan.seed = seed;
    let interrupt = plan.interrupt.clone();
    let mut world = World::new(plan, 1)?;
    let end = world.run(&mut |_| !interrupt.as_ref().is_some_and(|flag| flag.load(Ordering::Relaxed)));
    if matches!(end.reason, Reason::Interrupted) {
        return Ok(None);
    }
    let verdicts = judge(&world, &end, &scenario.expectations);
    let mut figures = BTreeMap::new();
    for (number, program) in world.plan().programs.iter().enumerate() {
        for (name, value) in world.program(number).into_iter().flat_map(|state| &state.figures) {
            figures.insert(format!("{}.{name}", program.name), *value);
        }
    }
    Ok(Some(SeedResult { seed, hash: world.hash(), verdicts, figures }))
}

/// A figure over all seeds.
#[derive(Clone, Copy, PartialEq, Debug)]
pub struct Statistic {
    /// How many seeds have it.
    pub count: usize,
    /// Mean.
    pub mean: f64,
    /// Half of the 95 % confidence interval of the mean (normal approximation, from two seeds on).
    pub confidence: f64,
    /// Smallest.
    pub min: u64,
    /// Largest.
    pub max: u64,
}

/// The mean, and half of its 95 % confidence interval (normal approximation, from two values on; otherwise 0).
pub fn mean(values: &[f64]) -> (f64, f64) {
    let count = values.len() as f64;
    let mean = values.iter().sum::<f64>() / count;
    let square: f64 = values.iter().map(|value| (value - mean).powi(2)).sum();
    (mean, if values.len() > 1 { 1.96 * (square / (count - 1.0) / count).sqrt() } else { 0.0 })
}

/// The figures of a sweep.
pub fn statistics(results: &[SeedResult]) -> BTreeMap<String, Statistic> {
    let mut values: BTreeMap<String, Vec<u64>> = BTreeMap::new();
    for (name, value) in results.iter().flat_map(|result| &result.figures) {
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

    fn result(seed: u64, value: u64, failure: Option<String>) -> SeedResult {
        let verdicts = vec![Judged { name: String::new(), failure }];
        SeedResult { seed, hash: 0, verdicts, figures: BTreeMap::from([("p.x".to_owned(), value)]) }
    }

    #[test]
    fn a_sweep_is_cut_when_seeds_are_left_out_and_no_failure_ended_it() {
        let cut = |ran: &[u64], failed: bool, until_fail: bool| {
            let failure = |seed: u64| (failed && Some(&seed) == ran.last()).then(String::new);
            let results: Vec<SeedResult> = ran.iter().map(|seed| result(*seed, 0, failure(*seed))).collect();
            is_cut(&results, &[1, 2, 3, 4], &Options { threads: 1, until_fail, watch: &|_| true })
        };
        assert!(!cut(&[1, 2, 3, 4], false, false) && !cut(&[1, 2, 3, 4], true, true));
        assert!(cut(&[], false, false) && cut(&[1, 2, 4], false, true) && cut(&[1, 2, 3], true, false));
        // It was to end there; but one before it is missing.
        assert!(!cut(&[1, 2, 3], true, true) && cut(&[1, 3], true, true));
    }

    #[test]
    fn the_interval_is_that_of_the_mean() {
        let found = statistics(&[(1, 10), (2, 14), (3, 12), (4, 12)].map(|(seed, value)| result(seed, value, None)))["p.x"];
        assert_eq!((found.count, found.mean, found.min, found.max), (4, 12.0, 10, 14));
        // Variance 8/3, of the mean 2/3.
        assert!((found.confidence - 1.96 * (2.0f64 / 3.0).sqrt()).abs() < 1e-9);
    }
}
