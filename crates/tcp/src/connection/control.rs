//! Congestion control of one connection: the algorithm, the window that it steers, how that is used, and the pace.

use crate::Config;
use crate::congestion::usage::CwndUsage;
use crate::congestion::{self, AckSample, CongestionControl, CongestionEvent, Window, initial_window_bytes};
use crate::pacing::{self, Pacer};
use weft_core::{Duration, Instant, StreamError, StreamOptions};

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

    /// The handshake is done: the initial window.
    pub(super) fn begin(&mut self, config: &Config, now: Instant, mss: u32, syn_retransmitted: u32, min_rtt: Option<Duration>) {
        self.algorithm.init(&mut self.window, now);
        min_rtt.into_iter().for_each(|rtt| self.algorithm.learn_min_rtt(rtt));
        let own_default = config.initial_window != congestion::INITIAL_WINDOW_SEGMENTS;
        self.window.cwnd_bytes =
            if own_default { mss.saturating_mul(config.initial_window) } else { initial_window_bytes(mss, syn_retransmitted) };
        self.usage = CwndUsage::new(now);
    }

    /// Another algorithm takes over. `running`: the window goes on; only what is learned about it starts afresh.
    pub(super) fn change(
        &mut self,
        config: &Config,
        now: Instant,
        name: &str,
        running: bool,
        min_rtt: Option<Duration>,
    ) -> Result<(), StreamError> {
        let mut algorithm = congestion::by_name(name).ok_or(StreamError::NoEntry)?;
        algorithm.seed(self.seed);
        algorithm.set_hystart(config.hystart);
        if running && algorithm.name() != self.algorithm.name() {
            let before = self.window;
            algorithm.init(&mut self.window, now);
            min_rtt.into_iter().for_each(|rtt| algorithm.learn_min_rtt(rtt));
            self.window = before;
        }
        self.algorithm = algorithm;
        Ok(())
    }

    /// Something happened, while so many bytes are in flight.
    pub(super) fn on_event(&mut self, now: Instant, event: CongestionEvent, in_flight: u32) {
        self.algorithm.on_event(now, event, in_flight, &mut self.window);
    }

    /// Half the window, as somebody above wants it; no loss has been found.
    pub(super) fn halve(&mut self) {
        self.window.set_ssthresh(u64::from(self.window.cwnd_bytes / 2));
        self.window.set_cwnd(u64::from(self.window.cwnd_bytes / 2));
    }

    /// An acknowledgment arrived. True: it has moved the threshold of slow start.
    pub(super) fn on_ack(&mut self, sample: &AckSample) -> bool {
        let threshold = self.window.ssthresh_bytes;
        self.algorithm.on_ack(sample, &mut self.window);
        self.window.ssthresh_bytes != threshold
    }

    /// The rate that paces the connection and sizes its frames, at most `most`, bytes per second, and whether somebody asked for it.
    pub(super) fn rate(&self, in_flight: u32, srtt: Option<Duration>, most: u64) -> (u64, bool) {
        let srtt = srtt.unwrap_or_default();
        match self.algorithm.pacing_rate_bytes_per_s(&self.window, srtt) {
            Some(rate) => (rate.min(most), true),
            None => (pacing::default_rate_bytes_per_s(&self.window, in_flight, srtt, most), most != u64::MAX),
        }
    }

    /// Bytes of one frame at this rate, where the way takes `gso_bytes`.
    pub(super) fn burst_bytes(&self, rate: u64, mss: u32, gso_bytes: u32, min_rtt: Option<Duration>) -> u32 {
        let segments_min = self.algorithm.frame_segments_min(rate);
        pacing::frame_bytes(rate, mss, segments_min, gso_bytes, min_rtt.unwrap_or_default()).max(mss)
    }

    /// Segments have another size. `fresh`: what the window has room for is counted in segments, as none was used yet.
    pub(super) fn set_mss(&mut self, old: u32, new: u32, fresh: bool) {
        let segments = self.window.cwnd_bytes / old.max(1);
        self.window.set_mss(new);
        if fresh && new > old {
            // Until it is used the initial window is a number of segments: the peer's window has let them become larger.
            self.window.cwnd_bytes = segments.saturating_mul(new);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn control() -> (Control, Config) {
        let config = Config::default();
        let mut control = Control::new(&config, &StreamOptions::default(), 1, 1000, Instant::ZERO);
        control.begin(&config, Instant::ZERO, 1000, 0, None);
        (control, config)
    }

    #[test]
    fn a_window_outlives_its_algorithm() {
        let (mut control, config) = control();
        control.window.cwnd_bytes = 77_000;
        assert!(control.change(&config, Instant::ZERO, "reno", true, None).is_ok());
        assert_eq!((control.algorithm.name(), control.window.cwnd_bytes), ("reno", 77_000));
        assert_eq!(control.change(&config, Instant::ZERO, "none such", true, None), Err(StreamError::NoEntry));
        assert_eq!(control.algorithm.name(), "reno");
    }

    #[test]
    fn an_unused_window_is_a_number_of_segments() {
        let (mut control, _) = control();
        assert_eq!(control.window.cwnd_bytes, 10_000);
        control.set_mss(1000, 1400, true);
        assert_eq!(control.window.cwnd_bytes, 14_000);
        control.set_mss(1400, 700, false);
        assert_eq!(control.window.cwnd_bytes, 7_000, "RFC 5681 §3.1: by the ratio of the sizes");
    }

    #[test]
    fn the_rate_is_bounded_by_the_socket_who_then_asks_for_pacing() {
        let (control, _) = control();
        let srtt = Some(Duration::from_millis(100));
        assert_eq!(control.rate(0, srtt, u64::MAX), (200_000, false));
        assert_eq!(control.rate(0, srtt, 5000), (5000, true));
    }
}
