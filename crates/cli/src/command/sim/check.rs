//! `--check` looks whether programs are there, as far as one can tell without running them.

use std::path::{Path, PathBuf};
use weft_sim::plan::{NodePlan, Plan, ProcessPlan, Run, is_there};
use weft_sim::{OWN_FOLDERS, PATH};

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
    }
    lines
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
        return None;
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
