//! A scenario as a command names it: its file, and what is set over it.

use super::read_text;
use crate::complete;
use std::path::{Path, PathBuf};
use weft_node::StackError;
use weft_sim::Scenario;
use weft_sim::scenario::Twin;

/// What is set over the file.
#[derive(clap::Args, Clone, Debug)]
pub struct Over {
    /// Set a value over the scenario's, for example wires.ab.loss=0.01
    #[arg(long, value_name = "PATH=VALUE", add = complete::of_settings())]
    pub set: Vec<String>,
    /// Another seed
    #[arg(long)]
    pub seed: Option<u64>,
}

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
        let folder = file.parent().map(Path::to_path_buf).unwrap_or_default();
        Ok(Source { shown: file.display().to_string(), text: read_text(file, "scenario")?, folder, sets })
    }

    /// The same, with more set over it.
    pub fn with(&self, sets: &[String]) -> Source {
        Source { sets: [&self.sets[..], sets].concat(), ..self.clone() }
    }

    /// What it says and what is set over it, as a number: another number is another scenario.
    pub fn digest(&self) -> String {
        let all = self.sets.iter().fold(self.text.clone(), |all, set| format!("{all}\0{set}"));
        format!("{:032x}", xxhash_rust::xxh3::xxh3_128(all.as_bytes()))
    }

    /// The scenario; of it a variant of `weft twin`, if one is asked for.
    pub fn parse(&self, twin: Option<&Twin>) -> Result<Scenario, StackError> {
        let read = |name: &str| std::fs::read(self.folder.join(name)).map_err(|error| error.to_string());
        match twin {
            Some(twin) => Scenario::parse_twin(&self.shown, &self.text, &self.sets, &read, twin),
            None => Scenario::parse(&self.shown, &self.text, &self.sets, &read),
        }
    }
}
