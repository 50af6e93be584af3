//! `weft help`

use crate::output;
use anyhow::bail;
use clap::CommandFactory;
use std::process::ExitCode;
use weft_core::{ControlError, Kind, Loader, Port};

/// Help on commands, stack and scenario files, and blocks: `weft help run`, `weft help stack`, `weft help scenario`, `weft help block tcp`.
#[derive(clap::Args, Debug)]
pub struct Args {
    /// A command, `stack`, `scenario`, `root`, `blocks`, `block NAME`, or `block FILE` for a loadable one (`./alternate.wasm`)
    topic: Vec<String>,
    /// Print JSON: of blocks what they declare, of `stack` and `scenario` the JSON schema of such files
    #[arg(long)]
    json: bool,
}

pub fn run(args: Args) -> anyhow::Result<ExitCode> {
    let topic: Vec<&str> = args.topic.iter().map(String::as_str).collect();
    match topic[..] {
        [] => output::line(&crate::Cli::command().render_help().to_string()),
        ["stack"] => output::line(STACK_HELP),
        ["scenario"] => output::line(weft_sim::scenario::HELP.trim_end()),
        ["root"] => output::line(super::root::HELP),
        ["blocks" | "block"] => {
            let kinds = weft_node::block_table();
            let rows: Vec<_> = kinds.iter().map(|row| serde_json::json!({"block": row.kind.name, "summary": row.kind.summary})).collect();
            match args.json {
                true => output::json(&rows.into()),
                false => output::table(&rows),
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
        [name] => match built().find_subcommand_mut(name) {
            Some(command) => output::line(&command.render_long_help().to_string()),
            None => bail!("no help on '{name}'; try `weft help`, `weft help stack`, `weft help scenario`, `weft help blocks`"),
        },
        _ => bail!("no help on '{}'; try `weft help`, `weft help block NAME`", topic.join(" ")),
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
    output::line(&format!("{} - {}\n\n{}", kind.name, kind.summary, kind.doc.trim()));
    let ports = |title: &str, ports: &[Port]| {
        if !ports.is_empty() {
            output::line(&format!("\n{title}:"));
        }
        for port in ports {
            let need = if port.required { ", required" } else { "" };
            output::line(&format!("  {:<14} {:?}{need}: {}", port.name, port.carries, port.doc));
        }
    };
    ports("Inputs", kind.inputs);
    ports("Outputs", kind.outputs);
    if !kind.parameters.is_empty() {
        output::line("\nParameters:");
    }
    for parameter in kind.parameters {
        let live = if parameter.live { "" } else { ", fixed when made" };
        output::line(&format!(
            "  {:<24} {}, default {}{live}\n{:27}{}",
            parameter.name, parameter.value, parameter.default, "", parameter.doc
        ));
    }
    for (title, rows) in [("Procedures", kind.procedures), ("Alerts", kind.alerts)] {
        if !rows.is_empty() {
            output::line(&format!("\n{title}:"));
        }
        rows.iter().for_each(|row| output::line(&format!("  {:<24} {}", row.name, row.doc)));
    }
    if !kind.counters.is_empty() {
        output::line("\nCounters:");
    }
    kind.counters.iter().for_each(|row| output::line(&format!("  {:<24} {}", row.name, row.text)));
}

const STACK_HELP: &str = r#"A stack file describes a node in TOML: what differs from the default graph. One without [[interface]], [[address]] and [[route]] has
those of the default stack, so this is the default stack behind 20 ms of delay each way:

[block.there]
kind = "delay"
delay = "20ms"

[block.back]
kind = "delay"
delay = "20ms"

[graph]
insert = ["there ether:lower interfaces:upper", "back interfaces:upper ether:lower"]

All that a file may hold:

[node]
name = "client"               # host name of the node (default "weft")
engine = "inline"             # or "queued"; "threaded": a thread for each block, for comparison
graph = "default"             # or "empty": only the blocks and edges of this file
mptcp = true                  # Multipath TCP for every program; with peers that do not speak it, TCP (default false)
spin = "50us"                 # poll so long before sleeping while events come fast; "0us": never
nameservers = ["10.77.0.1"]   # for the programs' /etc/resolv.conf; default: the default route's gateway
interfaces = "default"        # where there is no [[interface]], [[address]] and [[route]]: the default stack's; "none": only the loopback

[[interface]]
name = "weft0"                # 1 to 15 bytes
backend = "tap:weft0"         # tap:NAME, tun:NAME, packet:INTERFACE, memory:NAME, trace:URL, fault:WHAT:URL
mac = "02:77:65:66:74:01"     # default: made from the names of node and interface
mtu = 1500
group = 0
host_address = "10.77.0.1/24" # tap and tun: what the host's side gets; several: ["10.77.0.1/24", "fd77::1/64"]
offload = true                # hand over frames larger than the MTU, and unfinished checksums
coalesce = true               # join TCP segments that are received together into large frames

[[address]]
interface = "weft0"
address = "10.77.0.2/24"      # or "fd77::2/64"
dad = false                   # IPv6: detect duplicates before it is used

[[route]]
destination = "default"       # or a prefix; the gateway says which family
gateway = "10.77.0.1"         # or interface = "weft0"; a link-local gateway needs both
metric = 0                    # IPv6: 0 is 1024, as Linux has it
mtu = 1400                    # largest packet that is sent by it; default: the interface's

[block.tcp]                   # parameters of a block of the default graph: `weft help block tcp`
congestion = "reno"

[block.wan]                   # a further block
kind = "loss"
probability = 0.01

[graph]
insert = ["wan ether:lower interfaces:upper"]   # block, and the edge to put it into
edges = ["a:out -> b:in", "c <-> d"]            # further edges

`weft check FILE` reads one without bringing it up. `weft help blocks` lists the kinds of block."#;
