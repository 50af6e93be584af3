//! Linux's own (mptcp_subflow_get_send in net/mptcp/protocol.c): the subflow whose tcp would be done first with what it has.

use super::interface::{Asked, Choice, Memory, Scheduler, View};

/// MPTCP_SEND_BURST_SIZE: "(1 << 16) - sizeof(struct tcphdr) - MAX_TCP_OPTION_SPACE - sizeof(struct ipv6hdr) - sizeof(struct frag_hdr)".
const BURST_BYTES: u64 = (1 << 16) - 20 - 40 - 40 - 8;
/// Subflows whose rate is remembered: as many as Linux lets a connection have (MPTCP_SUBFLOWS_MAX).
const SUBFLOWS: usize = 8;

/// It. Its memory: the rate of each subflow by its index, bytes per second as f32, of two in a word; 0: none yet.
#[derive(Debug)]
pub struct Default;

/// Where a subflow's rate is kept.
fn place(index: usize) -> Option<(usize, u32)> {
    (index < SUBFLOWS).then_some((index / 2, index as u32 % 2 * 32))
}

/// avg_pacing_rate: "init pacing rate from socket"; 0: tcp has not measured a round trip yet.
fn rate(index: usize, path: &View, Memory(words): &Memory) -> f64 {
    let known = place(index).map_or(0.0, |(word, shift)| f32::from_bits((words[word] >> shift) as u32));
    if known > 0.0 { known.into() } else { pace(path) }
}

/// Before a round trip is measured there is no limit, and none is remembered.
fn pace(path: &View) -> f64 {
    path.rtt.map_or(0.0, |_| path.pacing_rate_bytes_per_s as f64)
}

fn remember(index: usize, rate: f64, Memory(words): &mut Memory) {
    let Some((word, shift)) = place(index) else { return };
    words[word] = words[word] & !(u64::from(u32::MAX) << shift) | u64::from((rate as f32).to_bits()) << shift;
}

impl Scheduler for Default {
    fn choose(&self, asked: &Asked<'_>, memory: &mut Memory) -> Option<Choice> {
        for (index, path) in asked.paths {
            remember(*index, rate(*index, path, memory), memory);
        }
        // What has no rate yet comes last.
        let linger = |(index, path): &(usize, View)| match rate(*index, path, memory) {
            0.0 => f64::INFINITY,
            rate => path.queued_memory_bytes as f64 / rate,
        };
        // "pick the best backup if no other subflow is active"
        let (index, path) = asked.usable().min_by(|a, b| linger(a).total_cmp(&linger(b)))?;
        // "sk_stream_memory_free(ssk)": the best one is waited for.
        if path.credit_bytes == 0 {
            return None;
        }
        let burst = BURST_BYTES.min(asked.edge.saturating_sub(asked.next));
        if burst > 0 {
            let (queued, burst) = (path.queued_memory_bytes as f64, burst as f64);
            remember(*index, (rate(*index, path, memory) * queued + pace(path) * burst) / (burst + queued), memory);
        }
        asked.give(*index, BURST_BYTES)
    }

    /// Linux has neither opportunistic retransmission nor penalisation.
    fn lends(&self) -> bool {
        false
    }
}
