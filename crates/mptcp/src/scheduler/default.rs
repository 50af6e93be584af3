//! Linux's own (mptcp_subflow_get_send in net/mptcp/protocol.c): the subflow whose tcp would be done first with what it has.

use super::interface::{Choice, Scheduler, View};

/// MPTCP_SEND_BURST_SIZE: "(1 << 16) - sizeof(struct tcphdr) - MAX_TCP_OPTION_SPACE - sizeof(struct ipv6hdr) - sizeof(struct frag_hdr)".
const BURST_BYTES: u64 = (1 << 16) - 20 - 40 - 40 - 8;

/// It.
#[derive(Debug)]
pub struct Default;

impl Scheduler for Default {
    fn choose(&self, paths: &[(usize, View)], _unsent_bytes: u64, window_bytes: u64) -> Option<Choice> {
        // "pick the best backup if no other subflow is active"
        let backups = paths.iter().all(|(_, path)| path.backup);
        let linger = |path: &View| path.queued_bytes as f64 / path.rate();
        let usable = paths.iter().filter(|(_, path)| path.backup == backups);
        let (index, path) = usable.min_by(|(_, a), (_, b)| linger(a).total_cmp(&linger(b)))?;
        // "sk_stream_memory_free(ssk)": the best one is waited for.
        (path.credit_bytes > 0).then_some(Choice { index: *index, bytes: BURST_BYTES.min(window_bytes) })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use weft_core::Duration;

    fn path(rtt_ms: u64, queued_bytes: u64, backup: bool) -> View {
        View {
            rtt: Some(Duration::from_millis(rtt_ms)),
            cwnd_bytes: 14_000,
            free_bytes: 14_000,
            queued_bytes,
            credit_bytes: 100_000,
            mss_bytes: 1400,
            backup,
        }
    }

    #[test]
    fn whoever_is_done_first_gets_it() {
        let choose = |paths: &[(usize, View)]| Default.choose(paths, 1 << 20, 1 << 20).map(|choice| choice.index);
        // The fast one, until it has so much that the slow one is done before.
        assert_eq!(choose(&[(0, path(100, 1000, false)), (1, path(10, 1000, false))]), Some(1));
        assert_eq!(choose(&[(0, path(100, 1000, false)), (1, path(10, 20_000, false))]), Some(0));
        // Backups only where nothing else is.
        assert_eq!(choose(&[(0, path(100, 1000, false)), (1, path(10, 0, true))]), Some(0));
        assert_eq!(choose(&[(4, path(100, 1000, true)), (7, path(10, 0, true))]), Some(7));
        assert_eq!(choose(&[]), None);
        // The best one is full: it is waited for.
        let full = View { credit_bytes: 0, ..path(10, 0, false) };
        assert_eq!(choose(&[(0, path(100, 1000, false)), (1, full)]), None);
    }
}
