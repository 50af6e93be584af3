//! `weft help`

use crate::{complete, output};
use anyhow::bail;
use clap::CommandFactory;
use std::process::ExitCode;
use weft_core::{ControlError, Kind, Loader, Port};

/// Help on commands, stack and scenario files, and blocks: `weft help run`, `weft help stack`, `weft help scenario`, `weft help block tcp`.
#[derive(clap::Args, Debug)]
pub struct Args {
    /// A command (`kernel build`), `stack`, `scenario`, `root`, `blocks`, `block NAME`, or `block FILE` for a loadable one (`./alternate.wasm`)
    #[arg(add = complete::of_topics())]
    topic: Vec<String>,
    /// Print JSON: of blocks what they declare, of `stack` and `scenario` the JSON schema of such files
    #[arg(long)]
    json: bool,
}

pub fn run(args: Args) -> anyhow::Result<ExitCode> {
    let topic: Vec<&str> = args.topic.iter().map(String::as_str).collect();
    match topic[..] {
        [] => output::line(&crate::Cli::command().render_help().to_string()),
        ["stack"] if args.json => output::json(&weft_node::stack_schema()),
        ["scenario"] if args.json => output::json(&weft_sim::scenario::schema()),
        ["stack"] => output::line(&output::fitted(weft_node::STACK_HELP)),
        ["scenario"] => output::line(&output::fitted(weft_sim::scenario::HELP)),
        ["root"] => output::line(&output::fitted(super::root::HELP)),
        ["blocks" | "block"] => {
            let kinds = weft_node::block_table();
            let rows: Vec<_> = kinds.iter().map(|row| serde_json::json!({"block": row.kind.name, "summary": row.kind.summary})).collect();
            match args.json {
                true => output::json(&rows.into()),
                false => output::table_of_texts(&rows),
            }
        }
        ["block", file] if file.contains(['.', '/']) => {
            let loaded = weft_plugin::Files::in_folder("").load(file).map_err(|why| anyhow::anyhow!("cannot load '{file}': {why}"))?;
            match args.json {
                true => output::json(&serde_json::to_value(loaded.kind)?),
                false => block(loaded.kind),
            }
        }
        ["block", name] => {
            let kinds = weft_node::block_table();
            let Some(row) = kinds.get(name) else { bail!(ControlError::NoKind { kind: (*name).to_owned(), known: kinds.names() }) };
            match args.json {
                true => output::json(&serde_json::to_value(row.kind)?),
                false => block(row.kind),
            }
        }
        [name] if weft_node::block_table().get(name).is_some() && built().find_subcommand(name).is_none() => {
            return run(Args { topic: vec!["block".to_owned(), name.to_owned()], json: args.json });
        }
        ref words => {
            let found = words.iter().try_fold(built(), |command, word| command.find_subcommand(word).cloned());
            let Some(mut command) = found else {
                bail!("no help on '{}'; try `weft help`, `weft help stack`, `weft help scenario`, `weft help blocks`", words.join(" "))
            };
            output::line(&command.render_long_help().to_string());
        }
    }
    Ok(ExitCode::SUCCESS)
}

/// The command line's declaration, complete: subcommands know that they are called `weft show`.
pub fn built() -> clap::Command {
    let mut command = crate::Cli::command();
    command.build();
    command
}

/// A block's declarations as a manual page.
fn block(kind: &Kind) {
    output::hanging(&format!("{} - ", kind.name), kind.summary);
    kind.doc.trim().split('\n').for_each(|line| output::hanging("", line));
    let ports = |title: &str, ports: &[Port]| {
        if !ports.is_empty() {
            output::line(&format!("\n{title}:"));
        }
        for port in ports {
            let need = if port.required { ", required" } else { "" };
            output::hanging(&format!("  {:<14} ", port.name), &format!("{:?}{need}: {}", port.carries, port.doc));
        }
    };
    ports("Inputs", kind.inputs);
    ports("Outputs", kind.outputs);
    if !kind.parameters.is_empty() {
        output::line("\nParameters:");
    }
    for parameter in kind.parameters {
        let live = if parameter.live { "" } else { ", fixed when made" };
        output::hanging(&format!("  {:<24} ", parameter.name), &format!("{}, default {}{live}", parameter.value, parameter.default));
        output::hanging(&" ".repeat(27), parameter.doc);
    }
    for (title, rows) in [("Procedures", kind.procedures), ("Alerts", kind.alerts)] {
        if !rows.is_empty() {
            output::line(&format!("\n{title}:"));
        }
        rows.iter().for_each(|row| output::hanging(&format!("  {:<24} ", row.name), row.doc));
    }
    if !kind.counters.is_empty() {
        output::line("\nCounters:");
    }
    kind.counters.iter().for_each(|row| output::hanging(&format!("  {:<24} ", row.name), row.text));
}

#[cfg(test)]
mod tests {
    #[test]
    fn the_help_on_stack_files_names_every_backend() {
        for scheme in weft_backend::SCHEMES {
            let shown = weft_node::STACK_HELP.contains(&format!("#   {}", scheme.usage)) || scheme.name == "tap";
            assert!(shown && weft_node::STACK_HELP.contains(&format!("{}:", scheme.name)), "{}", scheme.usage);
        }
    }
}
