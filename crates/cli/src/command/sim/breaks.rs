//! `--break-at`: the world stands still for a debugger.

use anyhow::Context as _;
use std::sync::Arc;
use weft_core::parameter::parse_duration;
use weft_sim::World;

/// Stops this process when the first node comes to this time.
pub(super) fn at(world: &mut World, text: &str) -> anyhow::Result<()> {
    let span = parse_duration(text).map_err(anyhow::Error::msg).context("--break-at")?;
    let ring = |node: &str, now: weft_core::Instant| {
        let traced = is_traced();
        let hint = match traced {
            true => String::new(),
            false => format!(": attach with `gdb -p {0}`, or go on with `kill -CONT {0}`", std::process::id()),
        };
        tell!("weft: node {node} is at {now}{hint}");
        let signal = if traced { signal_hook::consts::SIGTRAP } else { signal_hook::consts::SIGSTOP };
        if let Err(error) = signal_hook::low_level::raise(signal) {
            tell!("weft: cannot stop: {error}");
        }
    };
    world.alarm(weft_core::Instant::ZERO + span, Arc::new(ring));
    Ok(())
}

/// Where a debugger holds this process it is shown what it may ask for.
pub(super) fn show_debugger() {
    if is_traced() {
        weft_sim::debug::list_nodes();
    }
}

/// Does a debugger hold this process?
fn is_traced() -> bool {
    let status = std::fs::read_to_string("/proc/self/status").unwrap_or_default();
    status.lines().filter_map(|line| line.strip_prefix("TracerPid:")).any(|pid| pid.trim() != "0")
}
