//! Runs of a sweep that have ended, a line each in DIR/runs.jsonl as soon as they have: a sweep that was stopped goes on behind them (`--resume`).

use anyhow::Context as _;
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;
use std::fs::File;
use std::io::{BufRead as _, BufReader, Write as _};
use std::path::Path;
use std::sync::{Mutex, PoisonError};
use weft_sim::sweep::RunResult;

pub(super) const FILE: &str = "runs.jsonl";

/// The first line: of which scenario the others are.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
struct Head {
    scenario: String,
    weft: String,
    digest: String,
}

/// A run.
#[derive(Debug, Serialize, Deserialize)]
struct Line {
    set: Vec<String>,
    #[serde(flatten)]
    result: RunResult,
}

/// What a run is found by: what is set over the scenario, and its seed.
pub(super) type Key = (Vec<String>, u64);

/// The file that grows.
pub(super) struct Done(Mutex<File>);

impl Done {
    /// Begins the file, or, to `resume`, goes on behind what is in it: those runs are known.
    pub fn begin(dir: &Path, scenario: &str, digest: &str, resume: bool) -> anyhow::Result<(Done, BTreeMap<Key, RunResult>)> {
        let path = dir.join(FILE);
        let head = Head { scenario: scenario.to_owned(), weft: this_weft(), digest: digest.to_owned() };
        let known = if resume && path.exists() { read(&path, &head)? } else { BTreeMap::new() };
        // Written anew, beside it and then in its place: a line that was cut short by a kill is not there any more.
        let failed = || format!("cannot write {}", path.display());
        let mut file = tempfile::NamedTempFile::new_in(dir).with_context(failed)?;
        writeln!(file, "{}", serde_json::to_string(&head)?).with_context(failed)?;
        for ((set, _), result) in &known {
            writeln!(file, "{}", serde_json::to_string(&Line { set: set.clone(), result: result.clone() })?).with_context(failed)?;
        }
        Ok((Done(Mutex::new(file.persist(&path).with_context(failed)?)), known))
    }

    /// A run has ended.
    pub fn note(&self, set: &[String], result: &RunResult) -> std::io::Result<()> {
        let line = serde_json::to_string(&Line { set: set.to_vec(), result: result.clone() })?;
        writeln!(self.0.lock().unwrap_or_else(PoisonError::into_inner), "{line}")
    }
}

/// Version and contents of this program.
fn this_weft() -> String {
    let contents = std::env::current_exe().and_then(std::fs::read).unwrap_or_default();
    format!("{} {:032x}", env!("CARGO_PKG_VERSION"), xxhash_rust::xxh3::xxh3_128(&contents))
}

fn read(path: &Path, wanted: &Head) -> anyhow::Result<BTreeMap<Key, RunResult>> {
    let file = File::open(path).with_context(|| format!("cannot read {}", path.display()))?;
    // A line that is no text is one run less.
    let lines = BufReader::new(file).split(b'\n').map_while(Result::ok);
    let mut lines = lines.map(|line| String::from_utf8_lossy(&line).into_owned());
    let head: Option<Head> = lines.next().and_then(|line| serde_json::from_str(&line).ok());
    anyhow::ensure!(
        head.as_ref() == Some(wanted),
        "--resume: the runs in {} are of another scenario, of other files that it names, or of another weft\nhelp: without --resume (Python: \
         resume=False) they go, and all run again",
        path.display()
    );
    let runs = lines.filter_map(|line| serde_json::from_str::<Line>(&line).ok());
    Ok(runs.map(|line| ((line.set, line.result.seed), line.result)).collect())
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::time::Duration;

    fn result(seed: u64) -> RunResult {
        RunResult { seed, hash: 3, end_ns: 0, verdicts: Vec::new(), figures: BTreeMap::new(), said: Vec::new(), wall: Duration::ZERO }
    }

    #[test]
    fn a_sweep_that_was_killed_in_the_midst_of_a_line_goes_on_behind_the_line_before() {
        let dir = tempfile::tempdir().unwrap();
        let set = vec!["a=1".to_owned()];
        let (done, known) = Done::begin(dir.path(), "s.toml", "d", true).unwrap();
        assert!(known.is_empty());
        done.note(&set, &result(1)).unwrap();
        done.note(&set, &result(2)).unwrap();
        let path = dir.path().join(FILE);
        let text = std::fs::read_to_string(&path).unwrap();
        std::fs::write(&path, &text[..text.len() - 5]).unwrap();
        let (done, known) = Done::begin(dir.path(), "s.toml", "d", true).unwrap();
        assert_eq!(known.keys().cloned().collect::<Vec<_>>(), [(set.clone(), 1)]);
        done.note(&set, &result(2)).unwrap();
        assert_eq!(Done::begin(dir.path(), "s.toml", "d", true).unwrap().1.len(), 2);
        // Of another scenario nothing is taken, and nothing is lost.
        let why = Done::begin(dir.path(), "s.toml", "e", true).err().unwrap().to_string();
        assert!(why.contains("another scenario") && std::fs::read_to_string(&path).unwrap().lines().count() == 3, "{why}");
        assert!(Done::begin(dir.path(), "s.toml", "e", false).unwrap().1.is_empty());
    }
}
