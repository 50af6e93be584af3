//! `weft add`, `delete`, `bind`, `unbind`, `insert`, `extract`, `replace`, `load`, `unload`, `snapshot`, `restore`, `pause` and `unpause`: changes of the graph while it runs.

use super::{Target, told};
use crate::complete;
use std::process::ExitCode;

/// Make a block: `weft add wan delay delay=20ms`. It is bound to nothing yet: `weft insert` puts it into an edge.
///
/// `weft help blocks` lists the kinds, `weft help block KIND` its parameters
#[derive(clap::Args, Debug)]
pub struct AddArgs {
    /// Its name
    name: String,
    /// Its kind
    #[arg(add = complete::of_console())]
    kind: String,
    /// Parameters that differ from their defaults
    #[arg(value_name = "PARAMETER=VALUE", add = complete::of_console())]
    parameters: Vec<String>,
    #[command(flatten)]
    target: Target,
}

/// Remove a block and its edges.
#[derive(clap::Args, Debug)]
pub struct DeleteArgs {
    /// The block
    #[arg(add = complete::of_console())]
    name: String,
    #[command(flatten)]
    target: Target,
}

/// Make an edge from an output to an input: `weft bind tcp ip4`, `weft bind tcp:ip4 ip4:upper`.
#[derive(clap::Args, Debug)]
pub struct BindArgs {
    /// Output: block or block:port
    #[arg(add = complete::of_console())]
    from: String,
    /// Input: block or block:port
    #[arg(add = complete::of_console())]
    to: String,
    #[command(flatten)]
    target: Target,
}

/// Remove the edges from one block to another: `weft unbind tcp ip4`; or from an output, wherever it leads: `weft unbind tcp:ip4`.
#[derive(clap::Args, Debug)]
pub struct UnbindArgs {
    /// Output: block or block:port
    #[arg(add = complete::of_console())]
    from: String,
    /// Input: block or block:port
    #[arg(add = complete::of_console())]
    to: Option<String>,
    #[command(flatten)]
    target: Target,
}

/// Put a block that is bound to nothing into an edge, in one step: `weft insert wan ether:lower interfaces:upper`.
#[derive(clap::Args, Debug)]
pub struct InsertArgs {
    /// The block
    #[arg(add = complete::of_console())]
    block: String,
    /// The edge's output: block or block:port
    #[arg(add = complete::of_console())]
    from: String,
    /// The edge's input: block or block:port
    #[arg(add = complete::of_console())]
    to: String,
    #[command(flatten)]
    target: Target,
}

/// Take a block out of its edge and join what was before and after it, in one step. It is there still; `weft delete` removes it.
#[derive(clap::Args, Debug)]
pub struct ExtractArgs {
    /// The block
    #[arg(add = complete::of_console())]
    block: String,
    #[command(flatten)]
    target: Target,
}

/// Put a new block in a block's place: `weft replace tcp tcp congestion=bbr`. It takes over the edges, the parameters that are not given, and the state:
/// connections go on.
#[derive(clap::Args, Debug)]
pub struct ReplaceArgs {
    /// The block
    #[arg(add = complete::of_console())]
    name: String,
    /// The new one's kind
    #[arg(add = complete::of_console())]
    kind: String,
    /// Parameters that become others
    #[arg(value_name = "PARAMETER=VALUE", add = complete::of_console())]
    parameters: Vec<String>,
    /// Let the new one start empty
    #[arg(long)]
    drop_state: bool,
    #[command(flatten)]
    target: Target,
}

/// Make the kind of block in a file known: `weft load alternate.wasm`. `weft add` and `weft replace` can use it then.
///
/// A file with another build of a kind that was loaded before takes its place for blocks that are made from then on; those that exist stay what they
/// are, and `weft replace NAME KIND` hands their state over to the new build. `weft show blocks` shows versions.
#[derive(clap::Args, Debug)]
pub struct LoadArgs {
    /// A block: a WebAssembly module (.wasm), native object (.so) or Python script (.py)
    file: String,
    #[command(flatten)]
    target: Target,
}

/// Forget a kind of block that was loaded. No block may be of it.
#[derive(clap::Args, Debug)]
pub struct UnloadArgs {
    /// The kind
    #[arg(add = complete::of_console())]
    kind: String,
    #[command(flatten)]
    target: Target,
}

pub fn load(args: LoadArgs) -> anyhow::Result<ExitCode> {
    told(&args.target, ["load".to_owned(), args.file])
}

pub fn unload(args: UnloadArgs) -> anyhow::Result<ExitCode> {
    told(&args.target, ["unload".to_owned(), args.kind])
}

/// Write the state of all blocks into a file, as it stands at one moment: connections, tables, timers, frames that are held. Only its owner can read it.
///
/// `weft restore` puts it back, also into another stack of the same shape. Parameters and edges are not in it: those are the stack file's
#[derive(clap::Args, Debug)]
pub struct SnapshotArgs {
    /// The file; one that is there is replaced when the new one is complete
    file: String,
    #[command(flatten)]
    target: Target,
}

/// Put the state in a file of `weft snapshot` into all blocks, at one moment: into all of them or into none. Timers go on with the time that they had left.
///
/// The graph must have the blocks that it had, by name and kind. Nothing may be attached: a stack whose sockets are in use is refused. In virtual worlds
/// (`control` of a scenario's events) programs may run on
#[derive(clap::Args, Debug)]
pub struct RestoreArgs {
    /// The file
    file: String,
    #[command(flatten)]
    target: Target,
}

pub fn snapshot(args: SnapshotArgs) -> anyhow::Result<ExitCode> {
    told(&args.target, ["snapshot".to_owned(), args.file])
}

pub fn restore(args: RestoreArgs) -> anyhow::Result<ExitCode> {
    told(&args.target, ["restore".to_owned(), args.file])
}

/// Hold every frame in the graph, until `weft unpause`: at most 8192, more are dropped and counted (`weft show drops`).
///
/// Programs, timers and changes of the graph go on. Not possible with the threaded engine
#[derive(clap::Args, Debug)]
pub struct PauseArgs {
    #[command(flatten)]
    target: Target,
}

/// Let the frames that `weft pause` has held go on, in their order.
#[derive(clap::Args, Debug)]
pub struct UnpauseArgs {
    #[command(flatten)]
    target: Target,
}

pub fn pause(args: PauseArgs) -> anyhow::Result<ExitCode> {
    told(&args.target, ["pause".to_owned()])
}

pub fn unpause(args: UnpauseArgs) -> anyhow::Result<ExitCode> {
    told(&args.target, ["unpause".to_owned()])
}

pub fn add(args: AddArgs) -> anyhow::Result<ExitCode> {
    told(&args.target, ["add".to_owned(), args.name, args.kind].into_iter().chain(args.parameters))
}

pub fn delete(args: DeleteArgs) -> anyhow::Result<ExitCode> {
    told(&args.target, ["delete".to_owned(), args.name])
}

pub fn bind(args: BindArgs) -> anyhow::Result<ExitCode> {
    told(&args.target, ["bind".to_owned(), args.from, args.to])
}

pub fn unbind(args: UnbindArgs) -> anyhow::Result<ExitCode> {
    told(&args.target, ["unbind".to_owned(), args.from].into_iter().chain(args.to))
}

pub fn insert(args: InsertArgs) -> anyhow::Result<ExitCode> {
    told(&args.target, ["insert".to_owned(), args.block, args.from, args.to])
}

pub fn extract(args: ExtractArgs) -> anyhow::Result<ExitCode> {
    told(&args.target, ["extract".to_owned(), args.block])
}

pub fn replace(args: ReplaceArgs) -> anyhow::Result<ExitCode> {
    let drop_state = args.drop_state.then(|| "--drop-state".to_owned());
    told(&args.target, ["replace".to_owned(), args.name, args.kind].into_iter().chain(args.parameters).chain(drop_state))
}
