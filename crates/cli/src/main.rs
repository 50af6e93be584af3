//! The `weft` command: a thin layer over the libraries. One file a command in `command/`.
#![forbid(unsafe_code)]

#[macro_use]
mod output;
mod command;
mod complete;
mod groups;
mod page;

use clap::{CommandFactory as _, Parser, Subcommand};
use std::process::ExitCode;

/// Runs unmodified programs on a network stack that can be taken apart.
#[derive(Parser, Debug)]
#[command(name = "weft", version, disable_help_subcommand = true, max_term_width = 100, color = output::colours())]
struct Cli {
    #[command(subcommand)]
    command: Command,
}

#[derive(Subcommand, Debug)]
enum Command {
    Up(command::up::Args),
    #[command(visible_alias = "shutdown")]
    Down(command::down::Args),
    Run(command::run::Args),
    Show(command::show::Args),
    Get(command::get::Args),
    Set(command::set::Args),
    Add(command::change::AddArgs),
    Delete(command::change::DeleteArgs),
    Bind(command::change::BindArgs),
    Unbind(command::change::UnbindArgs),
    Insert(command::change::InsertArgs),
    Extract(command::change::ExtractArgs),
    Replace(command::change::ReplaceArgs),
    Load(command::change::LoadArgs),
    Unload(command::change::UnloadArgs),
    New(command::new::Args),
    Apply(command::apply::Args),
    Snapshot(command::change::SnapshotArgs),
    Restore(command::change::RestoreArgs),
    Pause(command::change::PauseArgs),
    Unpause(command::change::UnpauseArgs),
    Record(command::record::Args),
    Subscribe(command::subscribe::Args),
    Console(command::console::Args),
    Trace(command::trace::Args),
    Check(command::check::Args),
    Import(command::import::Args),
    Bridge(command::bridge::Args),
    Sim(command::sim::Args),
    Test(command::test::Args),
    Twin(command::twin::Args),
    Kernel(command::kernel::Args),
    Root(command::root::Args),
    Exec(command::exec::Args),
    Hash(command::hash::Args),
    Diff(command::diff::Args),
    Doctor(command::doctor::Args),
    Help(command::help::Args),
    Generate(command::generate::Args),
    /// Not for people: holds the namespaces under a stack that may not open a TAP.
    #[command(name = weft_host::ground::KEEPER_COMMAND, hide = true)]
    GroundKeeper {
        wish: String,
    },
}

/// What is logged unless WEFT_LOG says otherwise. The library that draws pictures as PNG warns of lines of one point, which nobody can help.
const LOGGED: &str = "warn,usvg=error";

fn main() -> ExitCode {
    complete::answer(Cli::command);
    let filter = tracing_subscriber::EnvFilter::try_from_env("WEFT_LOG").unwrap_or_else(|_| tracing_subscriber::EnvFilter::new(LOGGED));
    tracing_subscriber::fmt()
        .with_env_filter(filter)
        .with_writer(std::io::stderr)
        // Colours are for people, not for log files.
        .with_ansi(output::is_coloured())
        .without_time()
        .with_target(false)
        // What goes wrong there would be printed there.
        .log_internal_errors(false)
        .init();
    let result = match Cli::parse().command {
        Command::Up(args) => command::up::run(args),
        Command::Down(args) => command::down::run(args),
        Command::Run(args) => command::run::run(args),
        Command::Show(args) => command::show::run(args),
        Command::Get(args) => command::get::run(args),
        Command::Set(args) => command::set::run(args),
        Command::Add(args) => command::change::add(args),
        Command::Delete(args) => command::change::delete(args),
        Command::Bind(args) => command::change::bind(args),
        Command::Unbind(args) => command::change::unbind(args),
        Command::Insert(args) => command::change::insert(args),
        Command::Extract(args) => command::change::extract(args),
        Command::Replace(args) => command::change::replace(args),
        Command::Load(args) => command::change::load(args),
        Command::Unload(args) => command::change::unload(args),
        Command::New(args) => command::new::run(args),
        Command::Apply(args) => command::apply::run(args),
        Command::Snapshot(args) => command::change::snapshot(args),
        Command::Restore(args) => command::change::restore(args),
        Command::Pause(args) => command::change::pause(args),
        Command::Unpause(args) => command::change::unpause(args),
        Command::Record(args) => command::record::run(args),
        Command::Subscribe(args) => command::subscribe::run(args),
        Command::Console(args) => command::console::run(args),
        Command::Trace(args) => command::trace::run(args),
        Command::Check(args) => command::check::run(args),
        Command::Import(args) => command::import::run(args),
        Command::Bridge(args) => command::bridge::run(args),
        Command::Kernel(args) => command::kernel::run(args),
        Command::Sim(args) => command::sim::run(args),
        Command::Test(args) => command::test::run(args),
        Command::Twin(args) => command::twin::run(&args),
        Command::Root(args) => command::root::run(args),
        Command::Exec(args) => command::exec::run(args),
        Command::Hash(args) => command::hash::run(&args),
        Command::Diff(args) => command::diff::run(&args),
        Command::Doctor(args) => command::doctor::run(args),
        Command::Help(args) => command::help::run(args),
        Command::Generate(args) => command::generate::run(args),
        Command::GroundKeeper { wish } => weft_host::ground::keep(&wish).map(|()| ExitCode::SUCCESS).map_err(anyhow::Error::msg),
    };
    let result = match (result, output::lost()) {
        (Ok(_), Some(error)) => Err(anyhow::Error::new(error).context("what was to be printed is lost")),
        (result, _) => result,
    };
    result.unwrap_or_else(|error| {
        tell!("weft: {error:#}");
        if command::doctor::may_know(&error) {
            tell!("help: `weft doctor` says what this machine allows, and how to change that");
        }
        ExitCode::from(2)
    })
}
