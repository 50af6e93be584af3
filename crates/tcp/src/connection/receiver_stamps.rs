//! What segments say beside their data: timestamps (RFC 7323), and marks of congestion (RFC 3168).

use super::receiver::Receiver;
use crate::counters::Counter;
use crate::outbox::Env;
use weft_core::Instant;
use weft_wire::ipv4;
use weft_wire::tcp::{Flags, Segment};

/// RFC 7323 §5.5: timestamps older than this say nothing.
const PAWS_STALE: weft_core::Duration = weft_core::Duration::from_secs(24 * 24 * 3600);

impl Receiver {
    /// RFC 7323 §5.2.
    pub(super) fn is_old_by_timestamp(&self, agreed: bool, now: Instant, segment: &Segment) -> bool {
        let (Some(stamp), true) = (segment.options.timestamps, agreed) else { return false };
        (stamp.value.wrapping_sub(self.timestamp) as i32) < 0 && now - self.timestamp_at < PAWS_STALE
    }

    /// RFC 7323 §4.3: "If SEG.TSval >= TS.Recent and SEG.SEQ <= Last.ACK.sent, then SEG.TSval is copied to TS.Recent".
    #[inline]
    pub(super) fn note_timestamp(&mut self, agreed: bool, now: Instant, segment: &Segment, start: u64) {
        let Some(stamp) = segment.options.timestamps.filter(|_| agreed) else { return };
        let newer = stamp.value.wrapping_sub(self.timestamp) as i32 >= 0 || now - self.timestamp_at >= PAWS_STALE;
        if newer && start <= self.last_ack_sent {
            self.timestamp = stamp.value;
            self.timestamp_at = now;
        }
    }

    /// RFC 3168 §6.1.3: "When TCP receives a CE data packet …, it sets the ECN-Echo flag in the TCP header of the subsequent ACK packet … until
    /// it receives a CWR packet".
    pub(super) fn ecn_received(&mut self, env: &mut Env<'_>, segment: &Segment, mark: ipv4::Ecn, pure_ack: bool) {
        if segment.flags.contains(Flags::CWR) && !pure_ack {
            self.ecn_echo = false;
        }
        if pure_ack {
            return;
        }
        // tcp_data_ecn_check: "Funny extension: if ECT is not set on a segment, and we already seen ECT on a previous segment, it is probably a
        // retransmit."
        if mark == ipv4::Ecn::NotCapable && self.ecn_seen {
            self.enter_quick_ack(env.config);
        }
        self.ecn_seen |= mark != ipv4::Ecn::NotCapable;
        if mark == ipv4::Ecn::CongestionExperienced {
            env.count(Counter::InCEPkts);
            if !self.ecn_echo {
                self.enter_quick_ack(env.config);
            }
            self.ecn_echo = true;
        }
    }
}
