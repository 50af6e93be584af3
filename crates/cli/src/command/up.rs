//! `weft up`

use super::StackArgs;
use crate::output;
use anyhow::{Context as _, bail};
use std::io::{BufRead, BufReader};
use std::os::unix::process::CommandExt;
use std::path::PathBuf;
use std::process::{Command, ExitCode, Stdio};
use std::time::Duration;
use weft_host::signals::Termination;
use weft_host::world::Control;

/// Bring a stack up for programs to join. Stays in the foreground; prints `ready control=PATH` when up.
#[derive(clap::Args, Debug)]
pub struct Args {
    #[command(flatten)]
    stack: StackArgs,
    /// Where to listen for commands and programs: a path in a directory that exists [default: $WEFT_CONTROL, else
    /// $XDG_RUNTIME_DIR/weft/control, else /run/weft/control for root and /tmp/weft-UID/control for others]
    #[arg(long, value_name = "PATH")]
    control: Option<PathBuf>,
    /// Return when the stack is up and leave it running
    #[arg(long)]
    detach: bool,
}

pub fn run(args: Args) -> anyhow::Result<ExitCode> {
    if args.detach {
        return detach();
    }
    let control = args.control.unwrap_or_else(weft_host::place::default_path);
    let mut world = args.stack.bring_up(&Control::At(control.clone()))?;
    world.notices().iter().for_each(|notice| tell!("weft: {notice}"));
    let signals = Termination::catch()?;
    world.wake_on(&signals)?;
    output::line(&format!("ready control={}", control.display()));
    while !world.is_stopping() {
        if world.turn(Duration::from_secs(3600))? {
            break;
        }
    }
    Ok(ExitCode::SUCCESS)
}

/// Starts the same command without `--detach` in a process group of its own and waits for its first line.
fn detach() -> anyhow::Result<ExitCode> {
    let arguments = std::env::args_os().skip(1).filter(|argument| argument != "--detach");
    let mut child = Command::new(std::env::current_exe()?)
        .args(arguments)
        .stdin(Stdio::null())
        .stdout(Stdio::piped())
        .process_group(0)
        .spawn()
        .context("cannot start weft in the background")?;
    let mut first = String::new();
    let stdout = child.stdout.take().context("no output of the child")?;
    BufReader::new(stdout).read_line(&mut first)?;
    if first.is_empty() {
        let status = child.wait()?;
        bail!("weft did not come up ({status}); its message stands above");
    }
    output::line(first.trim_end());
    Ok(ExitCode::SUCCESS)
}
