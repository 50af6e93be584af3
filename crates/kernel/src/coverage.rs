//! What of a kernel's sources runs have reached: the counts that kernels with `+coverage` leave in result folders, read by gcov(1) and added up.
//!
//! A result folder has them as `kernels/NODE/coverage/…/net/mptcp/protocol.gcda`; what the compiler has noted of the same object (`protocol.gcno`) lies in the
//! kernel's own folder, beside its sources.

use crate::home::COVERAGE;
use crate::store::Kernel;
use serde::Deserialize;
use std::collections::BTreeMap;
use std::io;
use std::ops::AddAssign;
use std::path::{Path, PathBuf};
use std::process::Command;

/// Objects that are read at once: the output of each is some megabytes at most.
const OBJECTS_MAX: usize = 100_000;

/// How much there is of something, and how much of it was reached.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Part {
    /// Reached at least once.
    pub reached: usize,
    /// In all.
    pub all: usize,
}

impl Part {
    fn of(counts: impl Iterator<Item = u64>) -> Part {
        counts.fold(Part::default(), |part, count| Part { reached: part.reached + usize::from(count > 0), all: part.all + 1 })
    }
}

impl AddAssign for Part {
    fn add_assign(&mut self, other: Part) {
        (self.reached, self.all) = (self.reached + other.reached, self.all + other.all);
    }
}

/// A source file, or all of them.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Reached {
    /// Lines with code.
    pub lines: Part,
    /// Functions.
    pub functions: Part,
    /// Ways out of conditions.
    pub branches: Part,
}

impl AddAssign for Reached {
    fn add_assign(&mut self, other: Reached) {
        self.lines += other.lines;
        self.functions += other.functions;
        self.branches += other.branches;
    }
}

/// Why there are no figures.
#[derive(Debug, thiserror::Error)]
pub enum CoverageError {
    /// The runs left none.
    #[error(
        "{folder} has no counts of a kernel\nhelp: let the nodes run kernel = \"{kernel}\", and keep the results: weft sim SCENARIO --out DIR"
    )]
    None {
        /// The result folder.
        folder: String,
        /// A kernel that counts.
        kernel: String,
    },
    /// The path names nothing.
    #[error(
        "the kernel has no object below '{0}' that counts\nhelp: name a folder or a file of its sources, as net/mptcp or net/ipv4/tcp_input.c"
    )]
    Path(String),
    /// gcov(1) is not there, or cannot read them.
    #[error("gcov cannot read the counts of {object}: {words}\nhelp: {help}")]
    Gcov {
        /// Of which object.
        object: String,
        /// What it says.
        words: String,
        /// What to do.
        help: &'static str,
    },
    /// Files.
    #[error("{what}: {error}")]
    Files {
        /// What was to be done.
        what: String,
        /// Why it was not.
        error: io::Error,
    },
}

fn files(what: impl Into<String>) -> impl FnOnce(io::Error) -> CoverageError {
    let what = what.into();
    |error| CoverageError::Files { what, error }
}

/// gcov's intermediate format (gcov(1), `--json-format`), as far as it is of use here.
#[derive(Deserialize)]
struct Object {
    files: Vec<Source>,
}

#[derive(Deserialize)]
struct Source {
    file: String,
    functions: Vec<Function>,
    lines: Vec<Line>,
}

#[derive(Deserialize)]
struct Function {
    name: String,
    execution_count: u64,
}

#[derive(Deserialize)]
struct Line {
    line_number: u32,
    count: u64,
    branches: Vec<Branch>,
}

#[derive(Deserialize)]
struct Branch {
    count: u64,
}

/// What was counted in a source file, by whichever objects it is part of.
#[derive(Default)]
struct Counts {
    lines: BTreeMap<u32, u64>,
    functions: BTreeMap<String, u64>,
    branches: BTreeMap<(u32, usize), u64>,
}

impl Counts {
    fn add(&mut self, source: Source) {
        for function in source.functions {
            *self.functions.entry(function.name).or_default() += function.execution_count;
        }
        // A line is there once for each function that it was copied into.
        let mut seen: BTreeMap<u32, usize> = BTreeMap::new();
        for line in source.lines {
            *self.lines.entry(line.line_number).or_default() += line.count;
            let number = seen.entry(line.line_number).or_default();
            for branch in line.branches {
                *self.branches.entry((line.line_number, *number)).or_default() += branch.count;
                *number += 1;
            }
        }
    }

    fn reached(&self) -> Reached {
        let part = |counts: &mut dyn Iterator<Item = u64>| Part::of(counts);
        Reached {
            lines: part(&mut self.lines.values().copied()),
            functions: part(&mut self.functions.values().copied()),
            branches: part(&mut self.branches.values().copied()),
        }
    }
}

/// The source files below `path` (`net/mptcp`, `net/ipv4/tcp.c`) in the objects of that folder, and what of them the runs of these result folders have reached
/// together.
///
/// # Errors
/// Folders without counts, a path that names nothing, or counts of another kernel.
pub fn reached(kernel: &Kernel, path: &str, results: &[PathBuf]) -> Result<BTreeMap<String, Reached>, CoverageError> {
    let path = path.trim_matches('/');
    let folder = if kernel.folder.join(path).is_dir() { Path::new(path) } else { Path::new(path).parent().unwrap_or(Path::new("")) };
    let mut notes = find(&kernel.folder.join(folder), "gcno").map_err(files("the kernel's folder"))?;
    notes.truncate(OBJECTS_MAX);
    let mut found: BTreeMap<String, Counts> = BTreeMap::new();
    let room = std::env::temp_dir().join(format!("weft-coverage-{}", std::process::id()));
    let mut counts = Vec::new();
    for result in results {
        let of_nodes = result.join("kernels");
        let some = find(&of_nodes, "gcda").map_err(files(of_nodes.display().to_string()))?;
        if some.is_empty() {
            return Err(CoverageError::None { folder: result.display().to_string(), kernel: kernel.name.clone() });
        }
        counts.extend(some);
    }
    for note in notes {
        let object = note.strip_prefix(&kernel.folder).unwrap_or(&note).with_extension("gcda");
        // With nothing counted, all of it is not reached.
        read(&note, None, &room, &object, path, &mut found)?;
        for count in counts.iter().filter(|count| is_of(count, &object)) {
            read(&note, Some(count), &room, &object, path, &mut found)?;
        }
    }
    if found.is_empty() {
        Err(CoverageError::Path(path.to_owned()))
    } else {
        Ok(found.into_iter().map(|(name, counts)| (name, counts.reached())).collect())
    }
}

/// Is this file of counts, below a node's folder, that of an object?
fn is_of(count: &Path, object: &Path) -> bool {
    let mut below = count.components().skip_while(|part| part.as_os_str() != COVERAGE);
    below.next();
    below.collect::<PathBuf>().ends_with(object)
}

/// One object's notes and counts; of its sources those below `path`.
fn read(
    note: &Path,
    count: Option<&PathBuf>,
    room: &Path,
    object: &Path,
    path: &str,
    found: &mut BTreeMap<String, Counts>,
) -> Result<(), CoverageError> {
    let shown = object.display().to_string();
    std::fs::create_dir_all(room).map_err(files(room.display().to_string()))?;
    let (note_here, count_here) = (room.join("object.gcno"), room.join("object.gcda"));
    let done = (|| {
        std::os::unix::fs::symlink(note, &note_here)?;
        if let Some(count) = count {
            std::os::unix::fs::symlink(std::path::absolute(count)?, &count_here)?;
        }
        Command::new("gcov")
            .args(["--branch-probabilities", "--json-format", "--stdout", "object.gcno"])
            .current_dir(room)
            .env("LC_ALL", "C")
            .output()
    })();
    let removed = std::fs::remove_dir_all(room);
    let done = match done {
        Err(error) if error.kind() == io::ErrorKind::NotFound => {
            return Err(CoverageError::Gcov {
                object: shown,
                words: "it is not installed".to_owned(),
                help: "as root: apt-get install gcc",
            });
        }
        done => done.map_err(files(format!("the counts of {shown}")))?,
    };
    removed.map_err(files(room.display().to_string()))?;
    let words = String::from_utf8_lossy(&done.stderr).trim().to_owned();
    // "stamp mismatch with notes file": gcov goes on without the counts.
    if !done.status.success() || words.contains("mismatch") {
        return Err(CoverageError::Gcov {
            object: shown,
            words,
            help: "the runs were those of another kernel: run them again with this one",
        });
    }
    for line in done.stdout.split(|byte| *byte == b'\n').filter(|line| !line.is_empty()) {
        let parsed: Object = serde_json::from_slice(line).map_err(|error| CoverageError::Gcov {
            object: shown.clone(),
            words: error.to_string(),
            help: "gcov must be that of the compiler that built the kernel, 9 or later",
        })?;
        for source in parsed.files {
            let name = source.file.trim_start_matches("./").to_owned();
            if Path::new(&name).starts_with(path) {
                found.entry(name).or_default().add(source);
            }
        }
    }
    Ok(())
}

/// Files below a folder with this ending, in the order of their names.
fn find(folder: &Path, ending: &str) -> io::Result<Vec<PathBuf>> {
    let mut found = Vec::new();
    let mut open = vec![folder.to_owned()];
    while let Some(folder) = open.pop() {
        let entries = match std::fs::read_dir(&folder) {
            Err(error) if error.kind() == io::ErrorKind::NotFound => continue,
            entries => entries?,
        };
        for entry in entries {
            let entry = entry?;
            let path = entry.path();
            if entry.file_type()?.is_dir() {
                open.push(path);
            } else if path.extension().is_some_and(|extension| extension == ending) {
                found.push(path);
            }
        }
    }
    found.sort();
    Ok(found)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A program of two functions, one of which is called, is compiled as a kernel's object is, and runs.
    #[test]
    fn what_was_reached_is_what_ran() {
        let top = std::env::temp_dir().join(format!("weft-reached-{}", std::process::id()));
        let (tree, result) = (top.join("tree/net/some"), top.join("result/kernels/a/coverage"));
        std::fs::create_dir_all(&tree).unwrap();
        std::fs::create_dir_all(&result).unwrap();
        std::fs::write(
            tree.join("one.c"),
            "int no(int a) {\n    return a + 1;\n}\nint main(int argc, char **argv) {\n    return argc > 1 ? no(2) : 0;\n}\n",
        )
        .unwrap();
        let map = format!("-ffile-prefix-map={}=.", top.join("tree").display());
        let done = Command::new("gcc")
            .current_dir(top.join("tree"))
            .args(["-O0", "--coverage", &map, "-c", "net/some/one.c", "-o", "net/some/one.o"])
            .status();
        assert!(done.unwrap().success());
        assert!(
            Command::new("gcc")
                .current_dir(top.join("tree"))
                .args(["--coverage", "-o", "one", "net/some/one.o"])
                .status()
                .unwrap()
                .success()
        );
        assert!(Command::new(top.join("tree/one")).current_dir(&result).env("GCOV_PREFIX", &result).status().unwrap().success());
        let kernel = Kernel {
            name: "6.12+coverage".to_owned(),
            release: String::new(),
            key: String::new(),
            hash: String::new(),
            folder: top.join("tree"),
        };
        let found = reached(&kernel, "net/some", &[top.join("result")]).unwrap();
        let all = found.get("net/some/one.c").unwrap();
        assert_eq!((all.functions, all.lines), (Part { reached: 1, all: 2 }, Part { reached: 2, all: 4 }));
        assert_eq!(reached(&kernel, "net/some/one.c", &[top.join("result")]).unwrap(), found);
        let wrong = reached(&kernel, "net/other", &[top.join("result")]).unwrap_err().to_string();
        assert!(wrong.contains("no object below 'net/other'"), "{wrong}");
        let empty = reached(&kernel, "net/some", std::slice::from_ref(&top)).unwrap_err().to_string();
        assert!(empty.contains("has no counts of a kernel"), "{empty}");
        std::fs::remove_dir_all(top).unwrap();
    }
}
