//! OLIA, opportunistic linked increases (Khalili, Gast, Popovic, Le Boudec, "MPTCP is not Pareto-optimal", CoNEXT 2012;
//! draft-khalili-mptcp-congestion-control-05): windows move from paths where they are large to those that would carry more.

use super::{Member, Policy};

/// draft-khalili-mptcp-congestion-control-05.
#[derive(Clone, Copy, Debug, Default)]
pub struct Olia;

/// Those of a group for which a value is the largest.
fn largest(group: &[Member], value: impl Fn(&Member) -> f64) -> Vec<bool> {
    let most = group.iter().map(&value).fold(0.0, f64::max);
    group.iter().map(|member| value(member) >= most).collect()
}

impl Olia {
    /// alpha_r of §3, for the first of a group.
    pub(super) fn alpha(group: &[Member]) -> f64 {
        // "best_paths": those with the largest l_r^2 / rtt_r, where l_r is the bytes between losses; "max_w_paths": those with the largest window.
        let best = largest(group, |member| member.interval * member.interval / member.rtt);
        let widest = largest(group, |member| member.cwnd);
        let collected = best.iter().zip(&widest).filter(|(best, widest)| **best && !**widest).count() as f64;
        let all = group.len() as f64;
        if collected == 0.0 {
            0.0
        } else if best[0] && !widest[0] {
            1.0 / (all * collected)
        } else if widest[0] {
            -1.0 / (all * widest.iter().filter(|widest| **widest).count() as f64)
        } else {
            0.0
        }
    }
}

impl Policy for Olia {
    const NAME: &'static str = "olia";

    /// §3: "( w_r/rtt_r^2 / (SUM (w_p/rtt_p))^2 + alpha_r/w_r ) multiplied by MSS_r * bytes_acked".
    fn growth(group: &[Member], acked: f64, mss: f64) -> f64 {
        let own = &group[0];
        let sum: f64 = group.iter().map(Member::rate).sum();
        // Windows of the formula are counted in segments, in the second part: w_r/MSS.
        acked * mss * (own.cwnd / (own.rtt * own.rtt) / (sum * sum) + Olia::alpha(group) / own.cwnd)
    }
}
