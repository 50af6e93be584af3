//! BALIA, balanced linked adaptation (Peng, Walid, Hwang, Low, "Multipath TCP: Analysis, Design and Implementation", IEEE/ACM ToN 2016;
//! draft-walid-mptcp-congestion-control-04): between LIA's responsiveness and OLIA's friendliness.

use super::{Member, Policy};

/// draft-walid-mptcp-congestion-control-04.
#[derive(Clone, Copy, Debug, Default)]
pub struct Balia;

impl Balia {
    /// alpha_r = max{x_k} / x_r, for the first of a group, where x is the rate.
    pub(super) fn alpha(group: &[Member]) -> f64 {
        group.iter().map(Member::rate).fold(0.0, f64::max) / group[0].rate()
    }
}

impl Policy for Balia {
    const NAME: &'static str = "balia";

    /// §3.1: "For each ACK on path r, increase the window w_r by x_r / rtt_r / (SUM x_k)^2 * (1 + alpha_r)/2 * (4 + alpha_r)/5".
    fn growth(group: &[Member], acked: f64, mss: f64) -> f64 {
        let own = &group[0];
        let (alpha, sum) = (Balia::alpha(group), group.iter().map(Member::rate).sum::<f64>());
        acked * mss * (own.rate() / own.rtt / (sum * sum)) * ((1.0 + alpha) / 2.0) * ((4.0 + alpha) / 5.0)
    }

    /// "For each packet loss on path r, decrease w_r by w_r/2 * min{alpha_r, 1.5}".
    fn kept(group: &[Member]) -> f64 {
        1.0 - Balia::alpha(group).min(1.5) / 2.0
    }
}
