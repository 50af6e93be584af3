//! A scenario as a command names it: its file, and what is set over it.

use super::read_text;
use crate::complete;
use std::collections::BTreeSet;
use std::path::{Path, PathBuf};
use weft_node::StackError;
use weft_sim::Scenario;
use weft_sim::scenario::{Text, Twin};

/// What is set over the file.
#[derive(clap::Args, Clone, Debug)]
pub struct Over {
    /// Set a value over the scenario's, for example wires.ab.loss=0.01
    #[arg(long, value_name = "PATH=VALUE", add = complete::of_settings())]
    pub set: Vec<String>,
    /// Another seed
    #[arg(long)]
    pub seed: Option<u64>,
    /// Where scripts and files lie that the scenario names [default: beside it]. For a scenario that a program has written elsewhere
    #[arg(long, value_name = "DIR", value_hint = clap::ValueHint::DirPath)]
    pub beside: Option<PathBuf>,
}

/// What stands around names of files.
const BESIDE_NAMES: &str = "\0=;:&|<>()[]{}'\"`,";
/// Larger files are as they were.
const FILE_BYTES_MAX: u64 = 64 << 20;

/// The file, read.
#[derive(Clone)]
pub struct Source {
    /// As the user named it.
    pub shown: String,
    text: String,
    folder: PathBuf,
    sets: Vec<String>,
}

impl Source {
    /// Reads a file, as the user named it.
    pub fn read(file: &Path, over: &Over) -> anyhow::Result<Source> {
        let mut sets = over.set.clone();
        sets.extend(over.seed.map(|seed| format!("seed={seed}")));
        let folder = over.beside.as_deref().or(file.parent()).map(Path::to_path_buf).unwrap_or_default();
        if let Some(folder) = over.beside.as_ref().filter(|folder| !folder.is_dir()) {
            anyhow::bail!(
                "--beside: there is no folder {}\nhelp: name the one in which the scenario's scripts and files are",
                folder.display()
            );
        }
        Ok(Source { shown: file.display().to_string(), text: read_text(file, "scenario")?, folder, sets })
    }

    /// The same, with more set over it.
    pub fn with(&self, sets: &[String]) -> Source {
        Source { sets: [&self.sets[..], sets].concat(), ..self.clone() }
    }

    /// What it says, what is set over it, and what is in the files that either names, as a number: another number is another scenario.
    pub fn digest(&self) -> String {
        let all = self.sets.iter().fold(self.text.clone(), |all, set| format!("{all}\0{set}"));
        let mut digest = xxhash_rust::xxh3::Xxh3::new();
        digest.update(all.as_bytes());
        let words: BTreeSet<&str> = all.split(|letter: char| letter.is_whitespace() || BESIDE_NAMES.contains(letter)).collect();
        for word in words.into_iter().filter(|word| !word.is_empty()) {
            let path = self.folder.join(word);
            if path.metadata().is_ok_and(|found| found.is_file() && found.len() <= FILE_BYTES_MAX) {
                digest.update(word.as_bytes());
                digest.update(&std::fs::read(path).unwrap_or_default());
            }
        }
        format!("{:032x}", digest.digest128())
    }

    /// The scenario; of it a variant of `weft twin`, if one is asked for.
    pub fn parse(&self, twin: Option<&Twin>) -> Result<Scenario, StackError> {
        let read = |name: &str| std::fs::read(self.folder.join(name)).map_err(|error| error.to_string());
        Scenario::read(&Text { file: &self.shown, folder: &self.folder, text: &self.text, sets: &self.sets, read: &read }, twin)
    }
}
