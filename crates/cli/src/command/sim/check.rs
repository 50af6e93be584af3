//! `--check` looks whether programs are there, as far as one can tell without running them, and draws the topology
//! (`--topology`).

use anyhow::Context as _;
use std::fs::File;
use std::io::Read as _;
use std::os::unix::fs::PermissionsExt as _;
use std::path::{Path, PathBuf};
use weft_sim::plan::{NodePlan, Plan, ProcessPlan, Run, is_there};
use weft_sim::{OWN_FOLDERS, PATH, result};

/// `--topology`: nodes and wires, in the format that the name asks for.
pub(super) fn draw(plan: &Plan, file: &Path) -> anyhow::Result<()> {
    let figure = result::topology(plan).context("--topology: so many wires would be a black area\nhelp: draw a smaller one, by --set")?;
    let ending = file.extension().unwrap_or_default();
    let formats = figure.files();
    let (_, bytes) = formats.iter().find(|(format, _)| ending == *format).with_context(|| {
        format!("--topology: '{}' has no format that weft draws\nhelp: end its name in .svg, .png or .pdf", file.display())
    })?;
    std::fs::write(file, bytes).with_context(|| format!("--topology: cannot write '{}'", file.display()))
}

/// What programs will probably not find: a line each.
pub(super) fn missing(plan: &Plan) -> Vec<String> {
    let mut lines = Vec::new();
    for program in &plan.programs {
        let (Run::Process(process), Some(node)) = (&program.run, plan.nodes.get(program.node)) else { continue };
        if !is_there(node, &process.directory) {
            lines.push(format!(
                "program '{}': there is no folder '{}' to start in (directory = …)",
                program.name,
                process.directory.display()
            ));
        }
        for (place, word) in process.command.iter().enumerate() {
            if let Some(why) = of_word(node, process, place, word) {
                lines.push(format!("program '{}': {why}", program.name));
            }
        }
        if let Some(script) = script(&process.command).filter(|script| !is_there(node, &process.directory.join(script))) {
            lines.push(format!(
                "program '{}': there is no '{script}' for {} to run: scripts are looked for beside the scenario, else in {}",
                program.name,
                process.command[0],
                process.directory.display()
            ));
        }
    }
    lines
}

/// Programs whose first word that is no option is a file that they run. None of those that stand here has an option with a value before it.
const INTERPRETERS: [&str; 9] = ["python3", "python", "sh", "bash", "dash", "perl", "ruby", "node", "php"];

/// The script that a command runs, if it is one that is named from where one stands.
fn script(command: &[String]) -> Option<&str> {
    let name = Path::new(command.first()?).file_name()?.to_str()?;
    let script = command.get(1).filter(|word| !word.starts_with(['-', '/']))?;
    INTERPRETERS.contains(&name).then_some(script)
}

/// The folder of results, if it is not there yet, makes another folder of one that a program reads: then the next run finds something else there. Python, for
/// one, lists the folder of a script. What is said of that.
pub(super) fn is_seen(plan: &Plan, out: &Path) -> Option<String> {
    let out = std::path::absolute(out).ok().filter(|out| !out.exists())?;
    for program in &plan.programs {
        let (Run::Process(process), Some(node)) = (&program.run, plan.nodes.get(program.node)) else { continue };
        let words = process.command.iter().map(|word| process.directory.join(word));
        let folders = words.filter_map(|path| on_host(node, &path)?.parent()?.canonicalize().ok());
        let parent = out.ancestors().skip(1).find_map(|parent| parent.canonicalize().ok())?;
        for folder in folders {
            if parent == folder {
                return Some(format!(
                    "{} is made in {}, from which program '{}' runs: the next run finds another folder there, and may have another hash\nhelp: put --out somewhere else",
                    out.display(),
                    folder.display(),
                    program.name
                ));
            }
        }
    }
    None
}

/// Where the host has a file that a node sees; none: nowhere, or it is not there.
fn on_host(node: &NodePlan, path: &Path) -> Option<PathBuf> {
    let mount = node.files.mounts.iter().filter(|mount| path.starts_with(&mount.to)).max_by_key(|mount| mount.to.components().count());
    let found = match (mount, &node.files.root) {
        (Some(mount), _) => mount.from.join(path.strip_prefix(&mount.to).ok()?),
        (None, _) if OWN_FOLDERS.iter().any(|folder| path.starts_with(folder)) => return None,
        (None, Some(root)) => root.join(path.strip_prefix("/").ok()?),
        (None, None) => path.to_owned(),
    };
    found.is_file().then_some(found)
}

/// What is wrong with a word of a command; words that are no absolute names may be anything, but for the first.
fn of_word(node: &NodePlan, process: &ProcessPlan, place: usize, word: &str) -> Option<String> {
    let first = place == 0;
    if first && !word.contains('/') {
        let own_path = process.environment.iter().any(|(name, _)| name == "PATH");
        let found = own_path || PATH.split(':').any(|folder| is_there(node, &Path::new(folder).join(word)));
        return (!found).then(|| format!("there is no '{word}' in {PATH}"));
    }
    let path = if first { process.directory.join(word) } else { PathBuf::from(word) };
    if is_there(node, &path) {
        return if first { on_host(node, &path).and_then(|found| of_program(node, word, &found)) } else { None };
    }
    let own = OWN_FOLDERS.iter().find(|folder| path.starts_with(folder));
    // Of other words, those are wrong for sure that name what the host has where a node has folders of its own.
    match own.filter(|_| path.is_file()) {
        Some(folder) => {
            let at = path.display();
            Some(format!(
                "'{at}' is the host's, and {folder} of a node is its own: give it the file, files = {{ \"{at}\" = {{ from = \"FILE\" }} }}"
            ))
        }
        None => first.then(|| format!("there is no '{}'", path.display())),
    }
}

/// What keeps a file that is there from being executed; `found`: where the host has it.
fn of_program(node: &NodePlan, word: &str, found: &Path) -> Option<String> {
    const HEAD_BYTES: u64 = 256;
    if found.metadata().ok()?.permissions().mode() & 0o111 == 0 {
        return Some(format!("'{word}' is not executable: chmod +x it, or name what runs it: [\"sh\", \"FILE\"]"));
    }
    let mut head = Vec::new();
    File::open(found).ok()?.take(HEAD_BYTES).read_to_end(&mut head).ok()?;
    let line = head.strip_prefix(b"#!")?.split(|byte| *byte == b'\n').next()?;
    let line = String::from_utf8_lossy(line);
    let interpreter = line.trim_matches([' ', '\t']).split([' ', '\t']).next()?;
    let help = if interpreter.ends_with('\r') { ": end its lines in \\n and not in \\r\\n" } else { "" };
    (!is_there(node, Path::new(interpreter))).then(|| format!("'{word}' wants '{}', which is not there{help}", interpreter.escape_debug()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_script_of_an_interpreter_is_its_first_word_unless_that_is_an_option() {
        let script = |words: &str| script(&words.split(' ').map(str::to_owned).collect::<Vec<_>>()).map(str::to_owned);
        assert_eq!(script("python3 server.py -p 80").as_deref(), Some("server.py"));
        assert_eq!(script("/usr/bin/sh run.sh").as_deref(), Some("run.sh"));
        for other in ["python3", "python3 -m http.server", "python3 /srv/x.py", "curl x.py"] {
            assert_eq!(script(other), None, "{other}");
        }
    }
}
