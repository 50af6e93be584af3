//! Linux's own (mptcp_subflow_get_send in net/mptcp/protocol.c): the subflow whose tcp would be done first with what it has.

use super::interface::{Asked, Choice, Memory, Scheduler, View};

/// MPTCP_SEND_BURST_SIZE: "(1 << 16) - sizeof(struct tcphdr) - MAX_TCP_OPTION_SPACE - sizeof(struct ipv6hdr) - sizeof(struct frag_hdr)".
const BURST_BYTES: u64 = (1 << 16) - 20 - 40 - 40 - 8;

/// It.
#[derive(Debug)]
pub struct Default;

impl Scheduler for Default {
    fn choose(&self, asked: &Asked<'_>, _memory: &mut Memory) -> Option<Choice> {
        let linger = |path: &View| path.queued_bytes as f64 / path.rate();
        // "pick the best backup if no other subflow is active"
        let (index, path) = asked.usable().min_by(|(_, a), (_, b)| linger(a).total_cmp(&linger(b)))?;
        // "sk_stream_memory_free(ssk)": the best one is waited for.
        if path.credit_bytes == 0 { None } else { asked.give(*index, BURST_BYTES) }
    }

    /// Linux has neither opportunistic retransmission nor penalisation.
    fn lends(&self) -> bool {
        false
    }
}
