//! LIA, linked increases (RFC 6356): all windows together grow as fast as one TCP's would on the best path.

use super::{Member, Policy};

/// RFC 6356.
#[derive(Clone, Copy, Debug, Default)]
pub struct Lia;

impl Policy for Lia {
    const NAME: &'static str = "lia";

    /// §3: "min ( alpha * bytes_acked * MSS_i / cwnd_total, bytes_acked * MSS_i / cwnd_i )"; the second bound is the caller's.
    ///
    /// §4: alpha = cwnd_total * MAX (cwnd_i / rtt_i^2) / (SUM (cwnd_i / rtt_i))^2
    fn growth(group: &[Member], acked: f64, mss: f64) -> f64 {
        let best = group.iter().map(|member| member.cwnd / (member.rtt * member.rtt)).fold(0.0, f64::max);
        let sum: f64 = group.iter().map(Member::rate).sum();
        // cwnd_total is in both alpha and the increase.
        acked * mss * best / (sum * sum)
    }
}
