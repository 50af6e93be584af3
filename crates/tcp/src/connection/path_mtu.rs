//! What is known and sought of the largest packet on the way.

use weft_core::Instant;

/// Path MTU of one connection. All sizes are whole IP packets.
#[derive(Debug, Default)]
pub(super) struct PathMtu {
    /// Told by a router, and until when it counts.
    pub told: Option<(u32, Instant)>,
    /// Sizes between `low` and `high` are to be tried.
    pub searching: bool,
    pub low: u32,
    pub high: u32,
    /// The probe under way: its size, and its first and last position.
    pub probe: Option<(u32, u64, u64)>,
    pub searched_at: Instant,
    /// While small segments are tried in a silence: what to go back to.
    pub trial: Option<(bool, u32)>,
    /// Silences that they have ended, and the size that ended the last.
    pub strikes: u32,
    pub ended_by: u32,
}
weft_core::fields!(struct PathMtu { told, searching, low, high, probe, searched_at, trial, strikes, ended_by });

impl PathMtu {
    /// The largest packet to send now, on a path whose interface takes `path` bytes.
    pub(super) fn usable(&self, path: u32) -> u32 {
        let told = self.told.map_or(path, |(mtu, _)| mtu.min(path));
        if self.searching { told.min(self.low) } else { told }
    }
}
