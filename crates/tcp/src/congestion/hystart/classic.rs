//! HyStart as Linux has it (net/ipv4/tcp_cubic.c, `hystart_update`; Ha and Rhee, "Taming the elephants: New TCP slow start", 2011).
//!
//! Slow start ends at once, with the window as the threshold, when a round's acknowledgments come in one train for half a round trip (the path is full), or
//! when the shortest round trip of a round is an eighth longer than the shortest of all (the queue grows).

use super::Detected;
use crate::congestion::AckSample;
use weft_core::{Duration, Instant};
use weft_wire::tcp::Seq;

/// Smaller windows are let alone: `hystart_low_window`.
const WINDOW_SEGMENTS_MIN: u32 = 16;
/// Acknowledgments so far apart belong to one train: `hystart_ack_delta_us`.
const TRAIN_GAP: Duration = Duration::from_millis(2);
/// The shortest round trip of a round counts after so many samples: HYSTART_MIN_SAMPLES.
const SAMPLES: u32 = 8;
/// HYSTART_DELAY_MIN and HYSTART_DELAY_MAX: bounds of the rise that is one.
const RISE: (Duration, Duration) = (Duration::from_millis(4), Duration::from_millis(16));
/// The rise is this part of the shortest round trip.
const RISE_DIVISOR: u32 = 8;
/// What a large frame leaves for data: GSO_MAX_SIZE without MAX_TCP_HEADER.
const FRAME_BYTES_MAX: u64 = 65_536 - 321;
/// Such frames are thought to wait at once.
const FRAMES_WAITING: u64 = 4;
/// The most that their waiting is thought to take.
const WAITING_MAX: Duration = Duration::from_millis(1);

/// State of one connection.
#[derive(Clone, Debug, Default)]
pub struct Classic {
    /// Slow start was left. Nothing is looked for until a timeout begins it again.
    found: bool,
    round_start: Instant,
    /// The last acknowledgment of the train.
    last_ack: Instant,
    /// The round is over when more than this is acknowledged; none: with the first acknowledgment.
    round_end: Option<Seq>,
    /// The timeout began the round, so that it ends where sending stood then.
    after_timeout: bool,
    round_min: Option<Duration>,
    samples: u32,
}
weft_core::fields!(struct Classic { found, round_start, last_ack, round_end, after_timeout, round_min, samples });

impl Classic {
    /// A timeout begins slow start again.
    pub fn timeout(&mut self, now: Instant) {
        *self = Classic { round_start: now, last_ack: now, after_timeout: true, ..Classic::default() };
    }

    /// Whether slow start was left.
    pub fn found(&self) -> bool {
        self.found
    }

    /// An acknowledgment that measured `rtt` in slow start, with a window of `cwnd_segments` before it grows. `delay_min`: the shortest of all.
    pub fn on_ack(&mut self, ack: &AckSample, rtt: Duration, delay_min: Duration, cwnd_segments: u32) -> Option<Detected> {
        if self.found {
            return None;
        }
        self.follow_rounds(ack);
        if cwnd_segments < WINDOW_SEGMENTS_MIN {
            return None;
        }
        let train = self.is_train(ack, delay_min);
        let slower = self.is_slower(rtt, delay_min);
        self.found = train || slower;
        match (train, slower) {
            (true, _) => Some(Detected::Train),
            (false, true) => Some(Detected::Delay),
            (false, false) => None,
        }
    }

    /// bictcp_hystart_reset, where the last round is over.
    fn follow_rounds(&mut self, ack: &AckSample) {
        let over = match self.round_end {
            Some(end) => ack.snd_una.gt(end),
            None => !self.after_timeout,
        };
        if over {
            *self = Classic { round_start: ack.now, last_ack: ack.now, round_end: Some(ack.snd_nxt), ..Classic::default() };
        } else if self.round_end.is_none() {
            self.round_end = Some(ack.snd_nxt);
        }
    }

    fn is_train(&mut self, ack: &AckSample, delay_min: Duration) -> bool {
        if ack.now.since(self.last_ack) > TRAIN_GAP {
            return false;
        }
        self.last_ack = ack.now;
        let threshold = delay_min + waiting(ack.pacing_rate_bytes_per_s);
        // "Pacing might have delayed packets up to RTT/2 during slow start."
        let threshold = if ack.paced { threshold } else { threshold / 2 };
        ack.now.since(self.round_start) > threshold
    }

    fn is_slower(&mut self, rtt: Duration, delay_min: Duration) -> bool {
        let shortest = self.round_min.map_or(rtt, |shortest| shortest.min(rtt));
        self.round_min = Some(shortest);
        if self.samples < SAMPLES {
            self.samples += 1;
            return false;
        }
        shortest > delay_min + (delay_min / RISE_DIVISOR).clamp(RISE.0, RISE.1)
    }
}

/// hystart_ack_delay: what large frames may wait at their ends.
fn waiting(rate_bytes_per_s: u64) -> Duration {
    if rate_bytes_per_s == 0 {
        return Duration::ZERO;
    }
    Duration::from_micros(FRAME_BYTES_MAX * FRAMES_WAITING * 1_000_000 / rate_bytes_per_s).min(WAITING_MAX)
}

#[cfg(test)]
mod tests;
