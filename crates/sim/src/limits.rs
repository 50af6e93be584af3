//! Limits and bounds that several parts keep to.

use std::time::Duration;

/// After the last program that is waited for has ended, connections may still close for so long.
pub const LINGER: Duration = Duration::from_secs(1);
/// Events of one group at one instant after which the world is taken for a loop.
pub const EVENTS_PER_INSTANT_MAX: u64 = 10_000_000;
/// Bytes of a program's output that are kept; what comes after is counted.
pub const OUTPUT_BYTES_MAX: usize = 64 << 20;
/// Nodes of a scenario, after templates.
pub const NODES_MAX: usize = 100_000;
/// Highest rate of a wire in bits per second, a little above 1000 Tbit/s: times in nanoseconds fit what they are computed in.
pub(crate) const RATE_MAX: u64 = 1 << 50;
/// Bytes of a program's or a wire's name: that of its node and a number come to it in names of files.
pub(crate) const NAME_BYTES_MAX: usize = 100;
/// Most names of what there is that a message lists.
pub(crate) const NAMES_TOLD: usize = 20;
