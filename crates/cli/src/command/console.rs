//! `weft console`: an interactive shell over the words of `weft_core::command`.
//!
//! Lines are read by rustyline. What a word means is not said here: a line becomes a [`Said`], in the console's own words or in those of FINS and LANA
//! (`alias`), and that is asked of the daemon.

mod alias;
mod complete;

use super::{Target, exec, get, show, subscribe};
use crate::output::{self, Wide};
pub use alias::Dialect;
use alias::Said;
use anyhow::Context as _;
pub use complete::Words;
use rustix::fd::{AsFd as _, OwnedFd};
use rustyline::config::Configurer as _;
use rustyline::error::ReadlineError;
use rustyline::history::FileHistory;
use rustyline::{CompletionType, Editor, ExternalPrinter as _};
use serde_json::{Value, json};
use std::path::PathBuf;
use std::process::ExitCode;
use weft_core::control::{ControlError, Op};
use weft_core::{Selector, Show, command};
use weft_host::control::{Client, ClientError};
use weft_host::protocol::{Ask, Line};

/// Lines that are remembered.
const HISTORY_LINES_MAX: usize = 1000;

/// Change and look at a running stack by commands, in an interactive shell with completion (tab) and history (arrows, ctrl-R).
///
/// `help` lists the commands: they are those of the command line. Ctrl-C clears the line, ctrl-D ends. When the input is no terminal, its lines are
/// carried out one by one, and the exit status is 2 if one was refused
#[derive(clap::Args, Debug)]
pub struct Args {
    /// Also take the commands of the FINS framework's console
    #[arg(long, conflicts_with = "lana")]
    fins: bool,
    /// Also take the commands of LANA's fbctl and vlink
    #[arg(long)]
    lana: bool,
    #[command(flatten)]
    wide: Wide,
    #[command(flatten)]
    target: Target,
}

/// A console: its connection, and what it has subscribed to.
struct Console {
    client: Client,
    target: Target,
    wide: Wide,
    dialect: Dialect,
    /// Ends the thread that prints news.
    listening: Option<OwnedFd>,
}

type Reader = Editor<Words, FileHistory>;

pub fn run(args: Args) -> anyhow::Result<ExitCode> {
    let dialect = match (args.fins, args.lana) {
        (true, _) => Dialect::Fins,
        (_, true) => Dialect::Lana,
        _ => Dialect::Own,
    };
    let client = args.target.connect()?;
    let mut console = Console { client, target: args.target, wide: args.wide, dialect, listening: None };
    let mut reader: Reader = Editor::new().context("the terminal")?;
    reader.set_max_history_size(HISTORY_LINES_MAX).context("the history")?;
    reader.set_history_ignore_space(true);
    reader.set_completion_type(CompletionType::List);
    let history = history_file();
    // None yet, or none that can be read: then it begins here.
    history.iter().for_each(|file| drop(reader.load_history(file)));
    let mut refused = false;
    loop {
        reader.set_helper(Some(Words::new(console.blocks()?, dialect)));
        match reader.readline("weft> ") {
            Ok(line) => {
                let _ = reader.add_history_entry(line.as_str());
                match console.line(&line, &mut reader) {
                    Ok(true) => {}
                    Ok(false) => break,
                    Err(error) if error.downcast_ref::<ClientError>().is_some_and(|error| matches!(error, ClientError::Gone(_))) => {
                        return Err(error);
                    }
                    Err(error) => {
                        refused = true;
                        console.tell(&error);
                    }
                }
            }
            Err(ReadlineError::Interrupted) => {}
            Err(ReadlineError::Eof) => break,
            Err(error) => return Err(error).context("the terminal"),
        }
    }
    console.listen(None, &mut reader)?;
    if let Some(file) = history {
        let kept =
            file.parent().map_or(Ok(()), std::fs::create_dir_all).map_err(ReadlineError::from).and_then(|()| reader.save_history(&file));
        if let Err(error) = kept {
            tracing::warn!("the history is not kept: {}: {error}", file.display());
        }
    }
    let is_script = !std::io::IsTerminal::is_terminal(&std::io::stdin());
    Ok(if refused && is_script { ExitCode::from(2) } else { ExitCode::SUCCESS })
}

/// Where lines are remembered: $XDG_STATE_HOME/weft/console, or ~/.local/state/weft/console.
fn history_file() -> Option<PathBuf> {
    let absolute = |name: &str| std::env::var_os(name).map(PathBuf::from).filter(|path| path.is_absolute());
    let state = absolute("XDG_STATE_HOME").or_else(|| Some(absolute("HOME")?.join(".local/state")))?;
    Some(state.join("weft/console"))
}

impl Console {
    /// Names and kinds of the blocks that there are now, for completion.
    fn blocks(&mut self) -> Result<Vec<(String, String)>, ClientError> {
        let rows = self.client.node(Op::Show(Show::Blocks))?;
        let text = |row: &Value, key: &str| row[key].as_str().unwrap_or_default().to_owned();
        Ok(rows.as_array().into_iter().flatten().map(|row| (text(row, "name"), text(row, "kind"))).collect())
    }

    fn tell(&self, error: &anyhow::Error) {
        match self.target.json {
            true => output::json(&json!({"error": format!("{error:#}")})),
            false => eprintln!("{error:#}"),
        }
    }

    /// Carries out a line. False: it was the last.
    fn line(&mut self, line: &str, reader: &mut Reader) -> anyhow::Result<bool> {
        let words = command::split(line)?;
        if words.is_empty() {
            return Ok(true);
        }
        match alias::read(self.dialect, &words).map_err(anyhow::Error::msg)? {
            Said::Quit => return Ok(false),
            Said::Help(word) => alias::help(self.dialect, word.as_deref())?.iter().for_each(|line| output::line(line)),
            Said::Shutdown => {
                self.client.ask(Ask::Down)?;
                return Ok(false);
            }
            Said::Daemons(what) => {
                let (_, ask) = show::OF_THE_DAEMON.into_iter().find(|(name, _)| *name == what).context("nothing that can be shown")?;
                let value = self.client.ask(ask)?;
                if self.target.json { output::json(&value) } else { show::print(&what, &value, self.wide) }
            }
            Said::Listen(target) => {
                // Whether there is such a block is said at once.
                let op = |on| Op::Subscribe { target: Selector::parse(&target), alert: None, on };
                self.client.node(op(true))?;
                self.client.node(op(false))?;
                self.listen(Some(&target), reader)?;
            }
            Said::Deafen => self.listen(None, reader)?,
            Said::Kind(kind) => {
                let kinds = weft_node::block_table();
                let row = kinds.get(&kind).ok_or_else(|| ControlError::NoKind { kind: kind.clone(), known: kinds.names() })?;
                output::line(&format!("{kind}: {}", row.kind.summary));
            }
            Said::RemoveUnbound(name) => {
                let edges = self.client.node(Op::Show(Show::Edges))?;
                let bound = edges.as_array().into_iter().flatten().find(|edge| edge["from"] == *name || edge["to"] == *name);
                if let Some(edge) = bound {
                    let text = |key: &str| output::text(&edge[key]);
                    anyhow::bail!(
                        "{name} is bound: {}:{} -> {}:{}; unbind it first",
                        text("from"),
                        text("output"),
                        text("to"),
                        text("input")
                    );
                }
                self.operate(Op::Delete { name })?;
            }
            Said::ReplaceBy { name, by, drop_state } => {
                let op = self.replacement(name, by, drop_state)?;
                self.operate(op)?;
            }
            Said::Op(op) => self.operate(op)?,
        }
        Ok(true)
    }

    /// Replaces a block by another one that is there, which ends, or by a new one of a kind.
    fn replacement(&mut self, name: String, by: String, drop_state: bool) -> anyhow::Result<Op> {
        let rows = self.client.node(Op::Show(Show::Blocks))?;
        let other = rows.as_array().into_iter().flatten().find(|row| row["name"] == *by && by != name);
        let Some(other) = other else { return Ok(Op::Replace { name, kind: by, parameters: Default::default(), drop_state }) };
        let kind = output::text(&other["kind"]);
        let parameters = other["parameters"].as_object().into_iter().flatten().map(|(key, value)| (key.clone(), value.clone())).collect();
        Ok(Op::All(vec![Op::Delete { name: by }, Op::Replace { name, kind, parameters, drop_state }]))
    }

    fn operate(&mut self, op: Op) -> anyhow::Result<()> {
        let op = weft_host::expression::in_changes(super::from_here(op)?, &mut self.client)?;
        let value = self.client.node(op.clone())?;
        match (&op, self.target.json) {
            (Op::Get { name, .. }, true) => output::json(&get::nested(value, name.as_deref())),
            (_, true) => output::json(&value),
            (Op::Get { name, .. }, false) => get::print(&value, name.as_deref()),
            (Op::Show(what), false) => show::print(what.name(), &value, self.wide),
            (Op::Exec { .. }, false) => exec::answered(&value),
            (_, false) => value.as_array().into_iter().flatten().for_each(|line| output::line(&output::text(line))),
        }
        Ok(())
    }

    /// Prints news of blocks from now on, between the lines that are typed; or no more.
    fn listen(&mut self, target: Option<&str>, reader: &mut Reader) -> anyhow::Result<()> {
        if let Some(old) = self.listening.take() {
            let _ = rustix::net::shutdown(&old, rustix::net::Shutdown::Both);
        }
        let Some(target) = target else { return Ok(()) };
        let mut client = self.target.connect()?;
        client.node(Op::Subscribe { target: Selector::parse(target), alert: None, on: true })?;
        self.listening = Some(client.as_fd().try_clone_to_owned()?);
        let mut printer = reader.create_external_printer().ok();
        let as_json = self.target.json;
        std::thread::spawn(move || {
            while let Ok(line) = client.line() {
                let Line::Event(news) = line else { continue };
                let text = if as_json { news.to_string() } else { subscribe::said(&news) };
                let printed = printer.as_mut().is_some_and(|printer| printer.print(format!("{text}\n")).is_ok());
                if !printed {
                    output::line(&text);
                }
            }
        });
        Ok(())
    }
}
