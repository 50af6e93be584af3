//! The folder of results: what an earlier run left there goes, and nothing else.

use super::done;
use anyhow::Context as _;
use serde_json::{Value, json};
use std::io;
use std::path::Path;

/// Files beside the summary, which goes last.
const FILES: [&str; 8] =
    ["wall.json", "calls.json", "generations.jsonl", "output.log", done::FILE, "runs.csv", "runs.parquet", "summary.json"];
/// Folders, and how names of files end there that weft writes.
const FOLDERS: [(&str, &[&str]); 5] = [
    ("captures", &[".pcapng"]),
    ("series", &[".csv", ".parquet"]),
    ("pictures", &[".svg", ".png", ".pdf"]),
    ("record", &[".events", "index.json"]),
    (weft_sim::SNAPSHOTS_FOLDER, &[weft_sim::SNAPSHOT_SUFFIX]),
];
/// Files of each program.
const OF_PROGRAMS: [&str; 4] = ["stdout", "stderr", "status.json", "calls"];

/// Makes the folder, or takes away what an earlier run left in it. Until the run has ended its summary says that it has not.
pub(in crate::command) fn begin(dir: &Path, scenario: &str) -> anyhow::Result<()> {
    std::fs::create_dir_all(dir).with_context(|| format!("cannot make the folder {}", dir.display()))?;
    if let Some(name) = FILES.iter().find(|name| !is_ours(dir) && dir.join(name).exists()) {
        anyhow::bail!(
            "there is a {name} in {} that no run of weft has left\nhelp: name another folder with --out, or take it away",
            dir.display()
        );
    }
    clear_all(dir)?;
    not_yet(dir, scenario)
}

/// The summary of what has not ended.
pub(super) fn not_yet(dir: &Path, scenario: &str) -> anyhow::Result<()> {
    let summary = dir.join("summary.json");
    let text = format!("{}\n", json!({"scenario": scenario, "end": "not yet, or the command was killed"}));
    std::fs::write(&summary, text).with_context(|| format!("cannot write {}", summary.display()))
}

/// Takes away what an earlier run left in this folder, and for seeds in folders of it.
fn clear_all(dir: &Path) -> anyhow::Result<()> {
    let failed = || format!("cannot take the results of an earlier run out of {}", dir.display());
    if is_ours(dir) {
        clear(dir).with_context(failed)?;
    }
    let of_seed = |name: &str| {
        let (point, seed) = name.rsplit_once("seed-").unwrap_or_default();
        seed.parse::<u64>().is_ok() && (point.is_empty() || point.starts_with("point-"))
    };
    let clear_seed = |path: &Path, name: &str| {
        if of_seed(name) && is_ours(path) {
            clear(path)?;
            let _ = std::fs::remove_dir(path);
        }
        Ok(())
    };
    each(dir, clear_seed).with_context(failed)
}

/// Are results of a run in this folder, or the beginning of some?
fn is_ours(dir: &Path) -> bool {
    let summary = std::fs::read_to_string(dir.join("summary.json")).ok().and_then(|text| serde_json::from_str::<Value>(&text).ok());
    summary.is_some_and(|summary| summary.get("scenario").is_some() && summary.get("end").is_some())
}

fn clear(dir: &Path) -> io::Result<()> {
    for (folder, ends) in FOLDERS {
        let folder = dir.join(folder);
        each(&folder, |path, name| if ends.iter().any(|end| name.ends_with(end)) { std::fs::remove_file(path) } else { Ok(()) })?;
        // What is not weft's stays, and so does its folder.
        let _ = std::fs::remove_dir(&folder);
    }
    weft_sim::clear_files(dir)?;
    let programs = dir.join("programs");
    each(&programs, |path, _| {
        OF_PROGRAMS.iter().try_for_each(|file| gone(&path.join(file)))?;
        let _ = std::fs::remove_dir(path);
        Ok(())
    })?;
    let _ = std::fs::remove_dir(&programs);
    FILES.iter().try_for_each(|file| gone(&dir.join(file)))
}

fn gone(file: &Path) -> io::Result<()> {
    match std::fs::remove_file(file) {
        Err(error) if !matches!(error.kind(), io::ErrorKind::NotFound | io::ErrorKind::NotADirectory) => Err(error),
        _ => Ok(()),
    }
}

fn each(folder: &Path, mut take: impl FnMut(&Path, &str) -> io::Result<()>) -> io::Result<()> {
    let entries = match std::fs::read_dir(folder) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(()),
        other => other?,
    };
    for entry in entries {
        let entry = entry?;
        take(&entry.path(), &entry.file_name().to_string_lossy())?;
    }
    Ok(())
}
