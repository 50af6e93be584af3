//! `weft set`

use super::{Target, told};
use crate::complete;
use anyhow::bail;
use std::process::ExitCode;

/// Set a parameter while the node runs: `weft set tcp.mss 536`, or `weft set tcp.mss=536`. Or set all interfaces of a group, every one or none: `weft set
/// group:wifi mtu=1400`, `weft set group:5 address=10.0.0.1/24`, `weft set group:5 route=10.9.0.0/16`; groups have numbers, or names in
/// /etc/iproute2/group. With dry_run=true it says who would change.
#[derive(clap::Args, Debug)]
pub struct Args {
    /// block.parameter, or block.parameter=value; the block may be a pattern: then all that match are set, or none. Or group:GROUP
    #[arg(add = complete::of_console())]
    name: String,
    /// The value: a number, true, false, a word, 20ms, 100mbit. Of a group KEY=VALUE
    #[arg(allow_hyphen_values = true, add = complete::of_console())]
    value: Option<String>,
    /// Of a group, more of them
    #[arg(value_name = "KEY=VALUE")]
    more: Vec<String>,
    #[command(flatten)]
    target: Target,
}

pub fn run(args: Args) -> anyhow::Result<ExitCode> {
    if args.value.is_none() && !args.name.contains('=') {
        bail!("give a value, too: weft set {0} VALUE (`weft get {0}` tells the present one)", args.name);
    }
    told(&args.target, ["set".to_owned(), args.name].into_iter().chain(args.value).chain(args.more))
}
