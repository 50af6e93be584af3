//! Trials: the thing itself, as small as it can be.

use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

/// How an ability is tried.
#[derive(Clone, Copy, Debug)]
pub enum Trial {
    /// Not at all.
    None,
    /// A scenario that runs.
    World(&'static str),
    /// weft with these words.
    Words(&'static [&'static str]),
}

pub const BUILT_IN: &str =
    "[nodes.a]\n[nodes.b]\n[wires.w]\nbetween = [\"a\", \"b\"]\n[programs.p]\nnode = \"a\"\nbuiltin = \"ping\"\nto = \"b\"\ncount = 1\n";
pub const PROGRAM: &str = "[nodes.a]\n[programs.p]\nnode = \"a\"\ncommand = [\"true\"]\n";
pub const LINUX: &str = "[nodes.a]\nkind = \"linux\"\n[programs.p]\nnode = \"a\"\ncommand = [\"true\"]\n";
/// A trial that takes longer has failed.
const PATIENCE: Duration = Duration::from_secs(30);
/// Lines of what it says that are shown.
const LINES_MAX: usize = 3;

impl Trial {
    /// Does it work, or what did weft say? None: it was not tried.
    pub fn run(self) -> Option<Result<(), String>> {
        match self {
            Trial::None => None,
            Trial::Words(words) => Some(tried(words)),
            Trial::World(text) => Some(world(text)),
        }
    }
}

fn world(text: &str) -> Result<(), String> {
    let folder = tempfile::tempdir().map_err(|error| format!("cannot make a folder for a scenario: {error}"))?;
    let file = folder.path().join("doctor.toml");
    std::fs::write(&file, text).map_err(|error| format!("cannot write a scenario: {error}"))?;
    tried(&["sim", &file.display().to_string()])
}

/// Runs this program with these words.
fn tried(words: &[&str]) -> Result<(), String> {
    let itself = std::env::current_exe().map_err(|error| error.to_string())?;
    let mut command = Command::new(itself);
    command.args(words).stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::piped());
    let mut child = command.spawn().map_err(|error| error.to_string())?;
    let begun = Instant::now();
    let status = loop {
        match child.try_wait().map_err(|error| error.to_string())? {
            Some(status) => break status,
            None if begun.elapsed() > PATIENCE => {
                // Nobody else waits for it.
                let _ = child.kill();
                let _ = child.wait();
                return Err(format!("it has not ended after {} s", PATIENCE.as_secs()));
            }
            None => std::thread::sleep(Duration::from_millis(10)),
        }
    };
    if status.success() {
        return Ok(());
    }
    let said = child.stderr.take().map(std::io::read_to_string).and_then(Result::ok).unwrap_or_default();
    let lines: Vec<&str> = said.lines().filter(|line| !line.trim().is_empty()).take(LINES_MAX).collect();
    Err(if lines.is_empty() { status.to_string() } else { lines.join("\n") })
}
