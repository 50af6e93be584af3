//! `weft set`

use super::{Target, told};
use anyhow::bail;
use std::process::ExitCode;

/// Set a parameter while the node runs: `weft set tcp.mss 536`, or `weft set tcp.mss=536`.
#[derive(clap::Args, Debug)]
pub struct Args {
    /// block.parameter, or block.parameter=value; the block may be a pattern: then all that match are set, or none
    name: String,
    /// The value: a number, true, false, a word, 20ms, 100mbit
    #[arg(allow_hyphen_values = true)]
    value: Option<String>,
    #[command(flatten)]
    target: Target,
}

pub fn run(args: Args) -> anyhow::Result<ExitCode> {
    if args.value.is_none() && !args.name.contains('=') {
        bail!("give a value, too: weft set {0} VALUE (`weft get {0}` tells the present one)", args.name);
    }
    told(&args.target, ["set".to_owned(), args.name].into_iter().chain(args.value))
}
