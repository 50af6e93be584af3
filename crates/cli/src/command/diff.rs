//! `weft diff`

use crate::output;
use serde_json::json;
use std::path::PathBuf;
use std::process::ExitCode;
use weft_sim::record::{self, Comparison};

/// Find the first event in which two recorded runs differ (`weft sim --record full`). Exit status 1: there is one
#[derive(clap::Args, Debug)]
pub struct Args {
    /// Folder of results of the first run
    first: PathBuf,
    /// Folder of results of the second run
    second: PathBuf,
    /// Print JSON
    #[arg(long)]
    json: bool,
}

pub fn run(args: &Args) -> anyhow::Result<ExitCode> {
    let comparison = record::compare(&args.first, &args.second)?;
    if args.json {
        output::json(&match &comparison {
            Comparison::Same { events } => json!({"same": true, "events": events}),
            Comparison::Nodes { first, second } => json!({"same": false, "only_in_first": first, "only_in_second": second}),
            Comparison::Differ(difference) => json!({"same": false, "difference": difference}),
        });
    } else {
        show(args, &comparison);
    }
    Ok(ExitCode::from(u8::from(!matches!(comparison, Comparison::Same { .. }))))
}

fn show(args: &Args, comparison: &Comparison) {
    let (first, second) = (args.first.display(), args.second.display());
    match comparison {
        Comparison::Same { events } => output::line(&format!("no difference in {events} events")),
        Comparison::Nodes { first: only_first, second: only_second } => {
            for (folder, nodes) in [(first, only_first), (second, only_second)] {
                if !nodes.is_empty() {
                    output::line(&format!("only in {folder}: {}", nodes.join(", ")));
                }
            }
        }
        Comparison::Differ(difference) => {
            let at = weft_core::Instant::from_nanos(difference.at_ns);
            let head = format!("{at} node {} {}: {}", difference.node, difference.place, difference.what);
            output::line(&format!("{head}\nafter {} equal events on this node:", difference.equal_before));
            let tell = |event: &Option<String>| event.clone().unwrap_or_else(|| "nothing more".to_owned());
            output::line(&format!("  {first}: {}\n  {second}: {}", tell(&difference.first), tell(&difference.second)));
            match &difference.calls {
                Some([one, other]) => output::line(&format!("the first call that differs:\n  {first}: {one}\n  {second}: {other}")),
                None if difference.of_program && !difference.has_calls => {
                    output::line("where both runs were made with --calls, too, the first call that differs is shown");
                }
                None => {}
            }
        }
    }
}
