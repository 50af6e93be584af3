//! Opening: what belongs to SYN and SYN|ACK, what both sides agreed on, and the clock of timestamps.

use super::fast_open::FastOpen;
use crate::Config;
use weft_core::{Duration, Instant};
use weft_wire::tcp::{Flags, Segment};

/// What the handshake agreed on.
#[derive(Debug, Clone, Copy, Default)]
pub(super) struct Agreed {
    pub sack: bool,
    pub timestamps: bool,
    pub scaling: bool,
    pub ecn: bool,
}
weft_core::fields!(struct Agreed { sack, timestamps, scaling, ecn });

impl Agreed {
    /// What the field of a header can say, before a buffer bounds it, bytes.
    pub(super) fn largest_window(&self) -> u32 {
        if self.scaling { u32::MAX } else { u32::from(u16::MAX) }
    }
}

/// What belongs to the handshake.
#[derive(Debug)]
pub(super) struct Opening {
    pub agreed: Agreed,
    /// Added to the clock in timestamps.
    pub timestamp_offset: u32,
    /// When our SYN or SYN|ACK was sent.
    pub sent_at: Instant,
    /// That is known, so that the handshake gives a round-trip time.
    pub measured: bool,
    /// How often it was sent again.
    pub retransmitted: u32,
    pub fast_open: FastOpen,
    /// Our SYN asked for ECN.
    pub ecn_asked: bool,
}

impl Opening {
    /// Nothing is agreed on.
    pub(super) fn new(timestamp_offset: u32, now: Instant) -> Opening {
        Opening {
            agreed: Agreed::default(),
            timestamp_offset,
            sent_at: now,
            measured: true,
            retransmitted: 0,
            fast_open: FastOpen::default(),
            ecn_asked: false,
        }
    }

    /// The clock of timestamps: milliseconds (RFC 7323 §5.4: "between 1 ms and 1 sec per tick"), moved by an offset of the connection.
    pub(super) fn timestamp(&self, now: Instant) -> u32 {
        (now.as_millis() as u32).wrapping_add(self.timestamp_offset)
    }

    /// Did we send this timestamp, as far as it can be told?
    pub(super) fn echo_is_plausible(&self, now: Instant, echo: u32) -> bool {
        let first = self.timestamp(self.sent_at);
        let last = self.timestamp(now);
        echo.wrapping_sub(first) <= last.wrapping_sub(first)
    }

    /// The handshake as a round-trip time: RFC 6298 §3, Karn's rule, and RFC 7323 §4.1. None: nothing may be said of it; no sample: it was repeated.
    pub(super) fn round_trip(&self, now: Instant, segment: &Segment) -> Option<Option<Duration>> {
        if !self.measured {
            return None;
        }
        if self.retransmitted == 0 {
            return Some(Some((now - self.sent_at).max(Duration::from_micros(1))));
        }
        let stamp = segment.options.timestamps.filter(|_| self.agreed.timestamps);
        let plausible = stamp.filter(|stamp| stamp.echo != 0 && self.echo_is_plausible(now, stamp.echo));
        Some(plausible.map(|stamp| Duration::from_millis(u64::from(self.timestamp(now).wrapping_sub(stamp.echo).max(1)))))
    }

    /// What this side offers and the peer's SYN or SYN|ACK has, both do.
    pub(super) fn agree(&mut self, config: &Config, segment: &Segment) {
        let options = &segment.options;
        self.agreed = Agreed {
            sack: config.sack && options.sack_permitted,
            timestamps: config.timestamps && options.timestamps.is_some(),
            scaling: config.window_scaling && options.window_scale.is_some(),
            // RFC 3168 §6.1.1: an ECN-setup SYN-ACK has ECE and not CWR.
            ecn: self.ecn_asked && segment.flags & (Flags::ECE | Flags::CWR) == Flags::ECE,
        };
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use weft_wire::tcp::{Options, Timestamps};

    fn at(millis: u64) -> Instant {
        Instant::ZERO + Duration::from_millis(millis)
    }

    #[test]
    fn a_handshake_gives_a_round_trip_unless_nobody_knows_which_syn_was_answered() {
        let mut opening = Opening::new(1000, at(10));
        let plain = Segment::default();
        assert_eq!(opening.round_trip(at(40), &plain), Some(Some(Duration::from_millis(30))));
        opening.retransmitted = 1;
        assert_eq!(opening.round_trip(at(40), &plain), Some(None), "Karn's rule");
        opening.agreed.timestamps = true;
        let echo = |value| Segment {
            options: Options { timestamps: Some(Timestamps { value: 0, echo: value }), ..Options::default() },
            ..Segment::default()
        };
        assert_eq!(opening.round_trip(at(40), &echo(1025)), Some(Some(Duration::from_millis(15))));
        assert_eq!(opening.round_trip(at(40), &echo(1009)), Some(None), "sent before the SYN");
        assert_eq!(opening.round_trip(at(40), &echo(1041)), Some(None), "not sent yet");
        opening.measured = false;
        assert_eq!(opening.round_trip(at(40), &plain), None);
    }
}
