//! Proportional Rate Reduction: how much may be sent on each ACK of a recovery (RFC 6937, and its successor RFC 9937).
//!
//! The window is reduced in proportion to what is delivered, so that the flight arrives at `ssthresh` when recovery ends, without the pause
//! and the burst of halving at once. When losses bring the flight below `ssthresh`, the reduction bound decides: one byte per byte
//! delivered (conservative), one segment more when the ACK is *safe* (slow start).
//!
//! Use: [`Prr::enter`] when recovery begins, [`Prr::on_ack`] for each ACK of the recovery (the first one too), [`Prr::sent`] for each
//! segment sent, new or again, [`Prr::exit`] when recovery ends. What `on_ack` returns is the allowance from now on, not in addition to an
//! earlier answer. It does not decide what is retransmitted.

use serde::{Deserialize, Serialize};

/// State of one recovery. All sizes are payload bytes.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default, Serialize, Deserialize)]
pub struct Prr {
    active: bool,
    mss: u32,
    ssthresh_bytes: u32,
    /// RFC 6937's RecoverFS: bytes in flight when recovery began.
    recover_flight_bytes: u32,
    delivered_bytes: u64,
    out_bytes: u64,
}
weft_core::fields!(struct Prr { active, mss, ssthresh_bytes, recover_flight_bytes, delivered_bytes, out_bytes });

impl Prr {
    /// No recovery.
    pub fn new() -> Prr {
        Prr::default()
    }

    /// Recovery begins with `in_flight_bytes` in flight *before* the ACK that triggered it, and `ssthresh_bytes` as the goal.
    ///
    /// RFC 6937 §3: "RecoverFS = snd.nxt-snd.una // FlightSize at the start of recovery".
    pub fn enter(&mut self, in_flight_bytes: u32, ssthresh_bytes: u32, mss: u32) {
        let mss = mss.max(1);
        *self = Prr { active: true, mss, ssthresh_bytes, recover_flight_bytes: in_flight_bytes.max(mss), delivered_bytes: 0, out_bytes: 0 };
    }

    /// Whether a recovery is under way.
    pub fn is_active(&self) -> bool {
        self.active
    }

    /// Bytes that may be sent now, after an ACK that delivered `newly_delivered_bytes` (each byte once, by ACK or SACK) and on which loss
    /// detection marked `newly_lost_bytes`. `in_flight_bytes` is the flight after both (RFC 6675's pipe). Zero outside recovery.
    ///
    /// RFC 6937 §3 offers the conservative bound or slow start; RFC 9937 §6.2, and Linux, choose by the ACK: "SafeACK = (SND.UNA advances
    /// and no further loss indicated)".
    pub fn on_ack(&mut self, newly_delivered_bytes: u32, newly_lost_bytes: u32, in_flight_bytes: u32, snd_una_advanced: bool) -> u32 {
        if !self.active {
            return 0;
        }
        let newly_delivered = u64::from(newly_delivered_bytes);
        let (in_flight, goal, mss) = (u64::from(in_flight_bytes), u64::from(self.ssthresh_bytes), u64::from(self.mss));
        self.delivered_bytes = self.delivered_bytes.saturating_add(newly_delivered);
        let mut allowed = if in_flight > goal {
            // RFC 6937 §3: "sndcnt = CEIL(prr_delivered * ssthresh / RecoverFS) - prr_out", rounded up to whole segments, which are what
            // can be sent (Linux counts in segments throughout).
            let share = u128::from(self.delivered_bytes) * u128::from(goal);
            let share = u64::try_from(share.div_ceil(u128::from(self.recover_flight_bytes.max(1)))).unwrap_or(u64::MAX);
            share.div_ceil(mss.max(1)).saturating_mul(mss).saturating_sub(self.out_bytes)
        } else {
            // RFC 6937 §3: "limit = MAX(prr_delivered - prr_out, DeliveredData) + MSS", the MSS only when the ACK is safe.
            let conservative = self.delivered_bytes.saturating_sub(self.out_bytes).max(newly_delivered);
            let safe = snd_una_advanced && newly_lost_bytes == 0;
            let limit = if safe { conservative.saturating_add(mss) } else { conservative };
            // RFC 6937 §3: "Attempt to catch up, as permitted by limit; sndcnt = MIN(ssthresh - pipe, limit)".
            limit.min(goal - in_flight)
        };
        // The first retransmission always leaves, whatever the shares say (RFC 9937 §6.2; Linux).
        if self.out_bytes == 0 {
            allowed = allowed.max(mss);
        }
        u32::try_from(allowed).unwrap_or(u32::MAX)
    }

    /// `bytes` were sent. RFC 6937 §3: "On any data transmission or retransmission: prr_out += (data sent)".
    pub fn sent(&mut self, bytes: u32) {
        if self.active {
            self.out_bytes = self.out_bytes.saturating_add(u64::from(bytes));
        }
    }

    /// Recovery ends. The congestion control sets the window to `ssthresh` (RFC 9937 §6.4: "On the completion of a PRR episode, PRR
    /// executes the following: cwnd = ssthresh").
    pub fn exit(&mut self) {
        *self = Prr::default();
    }

    /// Bytes delivered and bytes sent since recovery began, for display.
    pub fn progress_bytes(&self) -> (u64, u64) {
        (self.delivered_bytes, self.out_bytes)
    }
}

#[cfg(test)]
mod tests;
