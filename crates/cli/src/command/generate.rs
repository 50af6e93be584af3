//! `weft generate`: manual pages, shell completions, a page a block, the page of system calls and the schemas of files, from what the command, the blocks,
//! the table of calls and the types that read files declare.

mod formats;

use crate::command::help;
use crate::complete;
use anyhow::Context as _;
use std::fmt::Write as _;
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use weft_core::{Kind, Port};
use weft_loader::calls;

/// Write manual pages of commands and files (man/), shell completions (completions/), a page a block (blocks/), the page of system calls (calls.md) and JSON schemas of
/// scenarios and stack files (*.schema.json) into a folder.
#[derive(clap::Args, Debug)]
pub struct Args {
    /// The folder; what is in its three subfolders and is not generated is left alone
    folder: PathBuf,
    /// Write nothing; fail if a page differs from what would be written
    #[arg(long)]
    check: bool,
}

pub fn run(args: Args) -> anyhow::Result<ExitCode> {
    let mut stale = Vec::new();
    for (path, text) in pages()? {
        let path = args.folder.join(path);
        if args.check {
            let same = std::fs::read(&path).is_ok_and(|found| found == text);
            stale.extend((!same).then_some(path));
        } else {
            write(&path, &text)?;
        }
    }
    let names: Vec<String> = stale.iter().map(|path| path.display().to_string()).collect();
    anyhow::ensure!(
        names.is_empty(),
        "not what the command and the blocks declare: {}\nhelp: `weft generate FOLDER` writes them anew",
        names.join(", ")
    );
    Ok(ExitCode::SUCCESS)
}

fn write(path: &Path, text: &[u8]) -> anyhow::Result<()> {
    let folder = path.parent().unwrap_or(Path::new("."));
    std::fs::create_dir_all(folder).with_context(|| format!("cannot make the folder {}", folder.display()))?;
    std::fs::write(path, text).with_context(|| format!("cannot write {}", path.display()))
}

/// Every page: its path below the folder, and its text.
fn pages() -> anyhow::Result<Vec<(PathBuf, Vec<u8>)>> {
    let mut pages = manual()?;
    pages.extend(formats::pages());
    for (shell, text) in complete::scripts()? {
        pages.push((PathBuf::from(format!("completions/weft.{shell}")), text));
    }
    let kinds = weft_node::block_table();
    let mut index = String::from(
        "# The blocks\n\nWritten by `weft generate` from what the blocks declare; `weft help block NAME` shows the same.\n\n| block | does |\n|---|---|\n",
    );
    for row in kinds.iter() {
        let _ = writeln!(index, "| [{0}]({0}.md) | {1} |", row.kind.name, row.kind.summary);
        pages.push((PathBuf::from(format!("blocks/{}.md", row.kind.name)), block_page(row.kind).into_bytes()));
    }
    pages.push((PathBuf::from("blocks/README.md"), index.into_bytes()));
    pages.push((PathBuf::from("calls.md"), calls_page().into_bytes()));
    for (name, schema) in [("scenario", weft_sim::scenario::schema()), ("stack", weft_node::stack_schema())] {
        pages.push((PathBuf::from(format!("{name}.schema.json")), format!("{schema:#}\n").into_bytes()));
    }
    Ok(pages)
}

/// Flags' names, and the bits of each.
type Names = &'static [(&'static str, u64)];

/// Every system call, and who answers it.
fn calls_page() -> String {
    let mut page = String::from(
        "# System calls\n\nWritten by `weft generate` from the table of calls (`crates/loader/src/calls/rows.rs`), which has those of Linux 6.12\n\
        on x86-64. It says who answers a call of a program:\n\n\
        - in virtual time (`weft sim`) and with `weft run --strict`: the kernel alone, *weft in the program* (which may\n  \
        go on to the kernel or to the controller), or the controller outside;\n\
        - with the notify adapter (`weft run`): the kernel, but for the calls with a sentence in that column.\n\n\
        A refused call returns the error and is listed with the others that a program asked for and did not get; an\n\
        absent one returns the error that programs expect of kernels without it. What is not as on Linux in virtual time\n\
        stands in the named rows of [compatibility.md](compatibility.md).\n\n\
        | number | call | virtual time | --strict | notify | not as on Linux |\n|---|---|---|---|---|---|\n",
    );
    for row in calls::ROWS {
        let arguments: Vec<String> = row.arguments.iter().map(argument).collect();
        let notes: Vec<String> = row.notes.iter().map(|note| format!("`{note}`")).collect();
        let answers = [by(row.virtual_time), by(row.strict), row.notify.unwrap_or("kernel").to_owned(), notes.join(" ")];
        let _ = writeln!(page, "| {} | `{}({})` | {} |", row.number, row.name, arguments.join(", "), answers.join(" | "));
    }
    page.push_str("\n## Flags\n\nLogs of calls (`--calls`) show flags by name. Open(2)'s are not listed here.\n\n| argument | of | names |\n|---|---|---|\n");
    let mut sets: Vec<(&str, Names, Vec<&str>)> = Vec::new();
    for (row, one) in calls::ROWS.iter().flat_map(|row| row.arguments.iter().map(move |one| (row, one))) {
        let calls::Shown::Flags(names) = one.shown else { continue };
        match sets.iter_mut().find(|(name, known, _)| (*name, *known) == (one.name, names)) {
            Some((_, _, of)) => of.push(row.name),
            None => sets.push((one.name, names, vec![row.name])),
        }
    }
    for (name, names, of) in sets {
        let names: Vec<String> = names.iter().map(|(name, bits)| format!("{name} {bits:#x}")).collect();
        let _ = writeln!(page, "| `{name}` | {} | {} |", of.join(", "), names.join(", "));
    }
    page
}

fn by(by: calls::By) -> String {
    match by {
        calls::By::Kernel => "kernel".to_owned(),
        calls::By::Program => "weft in the program".to_owned(),
        calls::By::Controller => "controller".to_owned(),
        calls::By::Refused(errno) => format!("refused: {errno}"),
        calls::By::Absent(errno) => format!("absent: {errno}"),
    }
}

/// An argument as C declares it.
fn argument(row: &calls::ArgumentRow) -> String {
    let constant = if row.direction == Some(calls::Direction::In) { "const " } else { "" };
    match row.kind.split_once('[') {
        Some((kind, size)) => format!("{constant}{kind} {}[{size}", row.name),
        None if row.direction.is_some() => format!("{constant}{} *{}", row.kind, row.name),
        None if row.kind.ends_with('*') => format!("{}{}", row.kind, row.name),
        None => format!("{} {}", row.kind, row.name),
    }
}

fn manual() -> anyhow::Result<Vec<(PathBuf, Vec<u8>)>> {
    let mut pages = Vec::new();
    for (name, command) in with_subcommands("weft".to_owned(), help::built()) {
        let mut text = Vec::new();
        let values: Vec<(String, String)> = command.get_arguments().filter_map(value_of).collect();
        clap_mangen::Man::new(command.display_name(name.clone())).title(&name).section("1").render(&mut text)?;
        let text = with_values(String::from_utf8(text)?, &values).into_bytes();
        pages.push((PathBuf::from(format!("man/{name}.1")), text));
    }
    Ok(pages)
}

/// A command and all below it that are not hidden, by the names of their pages.
fn with_subcommands(name: String, command: clap::Command) -> Vec<(String, clap::Command)> {
    let visible = command.get_subcommands().filter(|sub| !sub.is_hide_set() && (sub.get_name() != "help" || name == "weft"));
    let below: Vec<_> = visible.flat_map(|sub| with_subcommands(format!("{name}-{}", sub.get_name()), sub.clone())).collect();
    [(name, command)].into_iter().chain(below).collect()
}

/// An option that takes a value, and what it is called.
fn value_of(argument: &clap::Arg) -> Option<(String, String)> {
    let takes = matches!(argument.get_action(), clap::ArgAction::Set | clap::ArgAction::Append);
    let value = argument.get_value_names().and_then(|names| names.first()).filter(|_| takes)?;
    Some((argument.get_long()?.replace('-', "\\-"), value.to_string()))
}

/// A page whose synopsis says which options take a value.
fn with_values(page: String, values: &[(String, String)]) -> String {
    values.iter().fold(page, |page, (option, value)| {
        page.replacen(&format!("[\\fB\\-\\-{option}\\fR]"), &format!("[\\fB\\-\\-{option}\\fR \\fI{value}\\fR]"), 1)
    })
}

/// Columns of a page's prose.
const PAGE_COLUMNS: usize = 120;

/// A block's declarations in Markdown.
fn block_page(kind: &Kind) -> String {
    let mut page = format!("# {}\n\n{}.\n\n", kind.name, kind.summary);
    let (contract, example) = kind.doc.trim().split_once("\nExample: ").unwrap_or((kind.doc.trim(), ""));
    let _ = writeln!(page, "{}\n", textwrap::fill(contract, PAGE_COLUMNS));
    if !example.is_empty() {
        let _ = writeln!(page, "Example:\n```\n{example}\n```\n");
    }
    let port = |port: &Port| {
        let need = if port.required { "yes" } else { "" };
        vec![format!("`{}`", port.name), format!("{:?}", port.carries), need.to_owned(), port.doc.to_owned()]
    };
    table(&mut page, "Inputs", &["name", "carries", "must be bound", ""], kind.inputs.iter().map(port));
    table(&mut page, "Outputs", &["name", "carries", "must be bound", ""], kind.outputs.iter().map(port));
    let parameters = kind.parameters.iter().map(|row| {
        let live = if row.live { "yes" } else { "" };
        vec![format!("`{}`", row.name), row.value.to_string(), format!("`{}`", row.default), live.to_owned(), row.doc.to_owned()]
    });
    table(&mut page, "Parameters", &["name", "value", "default", "while it runs", ""], parameters);
    for (title, rows) in [("Procedures", kind.procedures), ("Alerts", kind.alerts)] {
        table(&mut page, title, &["name", ""], rows.iter().map(|row| vec![format!("`{}`", row.name), row.doc.to_owned()]));
    }
    table(&mut page, "Counters", &["name", "counts"], kind.counters.iter().map(|row| vec![format!("`{}`", row.name), row.text.to_owned()]));
    let state = match kind.state_version {
        0 => "It exports no state.".to_owned(),
        version => format!("Its exported state has version {version}."),
    };
    let _ = writeln!(page, "{state}");
    page
}

/// A table; or, where that would have long lines, a list.
fn table(page: &mut String, title: &str, head: &[&str], rows: impl Iterator<Item = Vec<String>>) {
    let rows: Vec<_> = rows.map(|row| row.iter().map(|cell| cell.replace('\n', " ")).collect::<Vec<String>>()).collect();
    if rows.is_empty() {
        return;
    }
    let lines: Vec<String> = rows
        .iter()
        .map(|row| format!("| {} |\n", row.iter().map(|cell| cell.replace('|', "\\|")).collect::<Vec<_>>().join(" | ")))
        .collect();
    let _ = writeln!(page, "## {title}\n");
    if lines.iter().all(|line| line.chars().count() <= PAGE_COLUMNS) {
        let _ = writeln!(page, "| {} |\n|{}", head.join(" | "), "---|".repeat(head.len()));
        page.extend(lines);
    } else {
        for row in &rows {
            let [name, facts @ .., text] = &row[..] else { continue };
            let facts: Vec<String> = head[1..]
                .iter()
                .zip(facts)
                .filter(|(_, fact)| !fact.is_empty())
                .map(|(head, fact)| match (*head, fact.as_str()) {
                    (head, "yes") => head.to_owned(),
                    ("value" | "carries", fact) => fact.to_owned(),
                    (head, fact) => format!("{head} {fact}"),
                })
                .collect();
            let facts = if facts.is_empty() { String::new() } else { format!(" ({})", facts.join(", ")) };
            let indented = textwrap::Options::new(PAGE_COLUMNS).initial_indent("- ").subsequent_indent("  ");
            let _ = writeln!(page, "{}", textwrap::fill(&format!("{name}{facts}: {text}"), indented));
        }
    }
    page.push('\n');
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_pages_are_what_commands_blocks_and_calls_declare() {
        let docs = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docs");
        for (path, text) in pages().unwrap() {
            let there = std::fs::read(docs.join(&path)).unwrap_or_default();
            assert!(there == text, "`weft generate docs` writes docs/{} anew", path.display());
        }
        let compatibility = include_str!("../../../../docs/compatibility.md");
        for (row, note) in calls::ROWS.iter().flat_map(|row| row.notes.iter().map(move |note| (row, note))) {
            assert!(compatibility.contains(&format!("\n| `{note}` |")), "{}: docs/compatibility.md has no row {note}", row.name);
        }
    }

    #[test]
    fn every_command_shell_and_block_has_a_page() {
        let pages = pages().unwrap();
        let text = |path: &str| {
            let page = pages.iter().find(|(of, _)| of == Path::new(path)).unwrap_or_else(|| panic!("no {path}"));
            String::from_utf8(page.1.clone()).unwrap()
        };
        assert!(text("man/weft-run.1").contains("exit status"));
        assert!(text("man/weft-sim.1").contains("[\\fB\\-\\-out\\fR \\fIDIR\\fR]"));
        assert!(text("man/weft.1").contains("weft\\-run(1)") && text("man/weft-kernel-build.1").contains("\\fBweft kernel build\\fR"));
        assert!(text("man/weft-scenario.5").contains(".SS [[events]]") && text("man/weft-stack.5").contains("weft\\-scenario"));
        assert!(text("completions/weft.bash").contains("WEFT_COMPLETE=bash weft --"));
        for row in weft_node::block_table().iter() {
            let page = text(&format!("blocks/{}.md", row.kind.name));
            assert!(row.kind.parameters.iter().all(|parameter| page.contains(&format!("`{}`", parameter.name))), "{}", row.kind.name);
            assert!(text("blocks/README.md").contains(row.kind.summary));
        }
    }
}
