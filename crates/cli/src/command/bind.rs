//! `weft bind` and `weft unbind`

use super::Target;
use super::set::changed;
use std::process::ExitCode;
use weft_core::End;
use weft_core::control::Op;

/// Make an edge from an output to an input: `weft bind tcp ip4`, `weft bind tcp:ip4 ip4:upper`.
#[derive(clap::Args, Debug)]
pub struct BindArgs {
    /// Output: block or block:port
    from: String,
    /// Input: block or block:port
    to: String,
    #[command(flatten)]
    target: Target,
}

/// Remove the edges from one block to another: `weft unbind tcp ip4`.
#[derive(clap::Args, Debug)]
pub struct UnbindArgs {
    /// Output: block or block:port
    from: String,
    /// Input: block or block:port
    to: String,
    #[command(flatten)]
    target: Target,
}

pub fn bind(args: BindArgs) -> anyhow::Result<ExitCode> {
    changed(&args.target, Op::Bind { from: End::parse(&args.from), to: End::parse(&args.to) })
}

pub fn unbind(args: UnbindArgs) -> anyhow::Result<ExitCode> {
    changed(&args.target, Op::Unbind { from: End::parse(&args.from), to: End::parse(&args.to) })
}
