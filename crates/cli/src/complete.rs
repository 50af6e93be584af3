//! What a shell offers behind a half-written word: blocks, parameters and nodes of the stack or world that runs, files, and what is in the scenario that the
//! line names.
//!
//! The shell asks by running `weft` with `WEFT_COMPLETE=SHELL` (crate clap_complete). Nobody waits and nothing is said: who is not there, or does not answer
//! at once, has nothing to offer.

mod bash;
mod settings;

use crate::command::console::{Dialect, Words};
use crate::command::worlds;
use clap_complete::CompleteEnv;
use clap_complete::engine::{ArgValueCompleter, CompletionCandidate, PathCompleter};
use clap_complete::env::{Elvish, EnvCompleter, Fish, Powershell, Shells, Zsh};
use serde_json::Value;
use std::ffi::OsStr;
use std::path::PathBuf;
use std::sync::OnceLock;
use std::time::Duration;
use weft_core::{Op, Show};
use weft_host::control::Client;
use weft_host::protocol::Ask;

/// What a shell sets that asks.
const VARIABLE: &str = "WEFT_COMPLETE";
/// A person at a prompt waits no longer.
const ANSWER_MAX: Duration = Duration::from_millis(500);
/// The shells that can ask.
const SHELLS: [&dyn EnvCompleter; 5] = [&bash::Bash, &Elvish, &Fish, &Powershell, &Zsh];

/// The command line's declaration.
static COMMAND: OnceLock<fn() -> clap::Command> = OnceLock::new();

/// Answers a shell that asks, and ends; else does nothing.
pub fn answer(command: fn() -> clap::Command) {
    COMMAND.get_or_init(|| command);
    CompleteEnv::with_factory(command).var(VARIABLE).shells(Shells(&SHELLS)).complete();
}

/// Each shell's name, and what makes it ask.
pub fn scripts() -> std::io::Result<Vec<(&'static str, Vec<u8>)>> {
    let script = |shell: &&dyn EnvCompleter| {
        let mut text = Vec::new();
        shell.write_registration(VARIABLE, "weft", "weft", "weft", &mut text)?;
        if shell.name() == Zsh.name() {
            // zsh reads the file as the body of a function when the first line is completed, which is to be completed, too.
            text.extend(b"[ \"$funcstack[1]\" = _weft ] && _clap_dynamic_completer_weft \"$@\"\n");
        }
        Ok((shell.name(), text))
    };
    SHELLS.iter().map(script).collect()
}

/// A word of a command that the console has, too: a block, block.parameter, block:port, a kind, a procedure.
pub fn of_console() -> ArgValueCompleter {
    ArgValueCompleter::new(|current: &OsStr| {
        let (line, word) = (Line::written(), current.to_str().unwrap_or_default());
        let blocks = line.ask(|client| client.node(Op::Show(Show::Blocks)).ok()).map(|rows| of_rows(&rows, "name", "kind"));
        blocks.map_or_else(Vec::new, |blocks| offered(&Words::new(blocks, Dialect::Own), &line, word))
    })
}

/// A block of the default graph, and behind the dot its parameters: of a stack that is still to be brought up.
pub fn of_default_graph() -> ArgValueCompleter {
    ArgValueCompleter::new(|current: &OsStr| {
        let blocks = weft_node::BLOCKS.iter().map(|(name, kind)| ((*name).to_owned(), (*kind).to_owned())).collect();
        let line = Line { words: vec!["set".to_owned()], ..Line::default() };
        offered(&Words::new(blocks, Dialect::Own), &line, current.to_str().unwrap_or_default())
    })
}

/// A node of a world that runs.
pub fn of_nodes() -> ArgValueCompleter {
    ArgValueCompleter::new(|current: &OsStr| beginning(nodes(), current))
}

/// A block of the stack, or a node of the world.
pub fn of_blocks_and_nodes() -> ArgValueCompleter {
    ArgValueCompleter::new(|current: &OsStr| {
        let mut all = beginning(nodes(), current);
        all.extend(of_console().complete(current));
        all
    })
}

/// What there is help on, behind the words that are there.
pub fn of_topics() -> ArgValueCompleter {
    ArgValueCompleter::new(|current: &OsStr| beginning(topics(&Line::written().words), current))
}

fn topics(words: &[String]) -> Vec<String> {
    let kinds = || weft_node::block_table().names().split(", ").map(str::to_owned).collect::<Vec<_>>();
    let behind: Vec<&str> = words.iter().skip_while(|word| *word != "help").skip(1).map(String::as_str).collect();
    if behind == ["block"] {
        return kinds();
    }
    let within =
        |declared: &fn() -> clap::Command| behind.iter().try_fold(declared(), |command, word| command.find_subcommand(word).cloned());
    let command = COMMAND.get().and_then(within);
    let subcommands = command.iter().flat_map(clap::Command::get_subcommands).filter(|sub| !sub.is_hide_set() && sub.get_name() != "help");
    let mut all: Vec<String> = subcommands.map(|sub| sub.get_name().to_owned()).collect();
    if behind.is_empty() {
        all.extend(["block", "blocks", "scenario", "stack"].map(str::to_owned));
        all.extend(kinds());
    }
    all.sort();
    all.dedup();
    all
}

/// A file of weft's.
pub fn of_toml_files() -> ArgValueCompleter {
    ArgValueCompleter::new(
        PathCompleter::any().filter(|path| path.is_dir() || path.extension().is_some_and(|extension| extension == "toml")),
    )
}

/// What `--set` can set over the scenario that the line names.
pub fn of_settings() -> ArgValueCompleter {
    ArgValueCompleter::new(|current: &OsStr| {
        let file = Line::written().words.into_iter().find(|word| word.ends_with(".toml"));
        let document = file.and_then(|file| std::fs::read_to_string(file).ok()).and_then(|text| text.parse().ok()).unwrap_or_default();
        beginning(settings::paths(&document, current.to_str().unwrap_or_default()), current)
    })
}

fn beginning(all: impl IntoIterator<Item = String>, current: &OsStr) -> Vec<CompletionCandidate> {
    let current = current.to_str().unwrap_or_default();
    all.into_iter().filter(|one| one.starts_with(current)).map(CompletionCandidate::new).collect()
}

fn offered(words: &Words, line: &Line, word: &str) -> Vec<CompletionCandidate> {
    let before = line.words.iter().map(|word| format!("{word} ")).collect::<String>();
    words.candidates(&format!("{before}{word}")).1.into_iter().map(CompletionCandidate::new).collect()
}

fn of_rows(rows: &Value, first: &str, second: &str) -> Vec<(String, String)> {
    let text = |row: &Value, key: &str| row[key].as_str().unwrap_or_default().to_owned();
    rows.as_array().into_iter().flatten().map(|row| (text(row, first), text(row, second))).collect()
}

fn nodes() -> Vec<String> {
    Line::written().control.or_else(|| worlds::only().ok()).map_or_else(Vec::new, nodes_of)
}

/// The nodes of the world whose socket this is, if it says so at once.
pub fn nodes_of(control: PathBuf) -> Vec<String> {
    let world = Line { control: Some(control), ..Line::default() };
    let said = world.ask(|client| client.ask(Ask::Hello).ok()).unwrap_or_default();
    said["nodes"].as_array().into_iter().flatten().filter_map(|name| Some(name.as_str()?.to_owned())).collect()
}

/// The line as far as it is written, without its last word.
#[derive(Default)]
struct Line {
    /// The command and its arguments, without options.
    words: Vec<String>,
    control: Option<PathBuf>,
    node: Option<String>,
}

impl Line {
    /// That of the shell that asks: behind `--` and the name of the program.
    fn written() -> Line {
        let all: Vec<String> = std::env::args().skip_while(|word| word != "--").skip(2).collect();
        // Shells that have words behind the cursor say where it is.
        let at = std::env::var("_CLAP_COMPLETE_INDEX").ok().and_then(|index| index.parse::<usize>().ok()?.checked_sub(1));
        Line::read(&all[..at.unwrap_or(all.len().saturating_sub(1)).min(all.len())])
    }

    fn read(all: &[String]) -> Line {
        let mut line = Line::default();
        let mut rest = all.iter();
        while let Some(word) = rest.next() {
            let Some(option) = word.strip_prefix("--") else {
                line.words.push(word.clone());
                continue;
            };
            let (name, value) = option.split_once('=').map_or((option, None), |(name, value)| (name, Some(value.to_owned())));
            match name {
                "control" => line.control = value.or_else(|| rest.next().cloned()).map(PathBuf::from),
                "node" => line.node = value.or_else(|| rest.next().cloned()),
                _ => {}
            }
        }
        line
    }

    /// Asks the stack or world that the line means; None: it is not there, or says nothing in time.
    fn ask(&self, question: impl FnOnce(&mut Client) -> Option<Value> + Send + 'static) -> Option<Value> {
        let (control, node) = (self.control.clone(), self.node.clone());
        let (say, said) = std::sync::mpsc::channel();
        std::thread::spawn(move || {
            let path = control.or_else(|| node.as_ref().map_or_else(|| Some(weft_host::place::default_path()), |_| worlds::only().ok()));
            let client = path.and_then(|path| Client::connect(&path).ok());
            say.send(client.and_then(|client| question(&mut client.of_node(node))))
        });
        said.recv_timeout(ANSWER_MAX).ok().flatten()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn options_stand_between_words() {
        let read = |line: &str| Line::read(&line.split(' ').map(str::to_owned).collect::<Vec<_>>());
        let line = read("bind --control /x --json tcp:ip4 --node=a");
        assert_eq!((line.words.join(" "), line.control, line.node), ("bind tcp:ip4".to_owned(), Some("/x".into()), Some("a".to_owned())));
        let unfinished = read("set --node");
        assert_eq!((unfinished.words.join(" "), unfinished.node), ("set".to_owned(), None));
    }

    #[test]
    fn nobody_is_waited_for() {
        let line = Line { control: Some("/nowhere/at/all".into()), ..Line::default() };
        assert_eq!(line.ask(|client| client.ask(Ask::Hello).ok()), None);
    }
}
