//! Congestion control of one connection: the algorithm, the window that it steers, how that is used, and the pace.

use crate::Config;
use crate::congestion::usage::CwndUsage;
use crate::congestion::{self, CongestionControl, Window};
use crate::pacing::Pacer;
use weft_core::{Instant, StreamOptions};

/// How much may be in flight, and how fast it may leave.
#[derive(Debug)]
pub(super) struct Control {
    pub window: Window,
    pub algorithm: Box<dyn CongestionControl>,
    /// Seeds an algorithm that is chosen later.
    pub seed: u64,
    pub usage: CwndUsage,
    pub pacer: Pacer,
    /// The window was reduced: CWR goes with the next new data (RFC 3168 §6.1.2).
    pub cwr_due: bool,
}

impl Control {
    /// The algorithm that the socket has chosen, else the node's, with a window of nothing yet.
    pub(super) fn new(config: &Config, options: &StreamOptions, seed: u64, mss: u32, now: Instant) -> Control {
        let name = options.congestion.as_deref().unwrap_or(&config.congestion);
        let mut algorithm = congestion::by_name(name).unwrap_or_else(|| (congestion::CONTROLS[0].1)());
        algorithm.seed(seed);
        algorithm.set_hystart(config.hystart);
        Control { window: Window::new(mss), algorithm, seed, usage: CwndUsage::new(now), pacer: Pacer::new(), cwr_due: false }
    }
}
