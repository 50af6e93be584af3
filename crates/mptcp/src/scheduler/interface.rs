//! What a scheduler sees, and says.

use weft_core::Duration;

/// A subflow as a scheduler sees it.
#[derive(Clone, Copy, PartialEq, Debug)]
pub struct View {
    /// Smoothed round trip; none: not measured yet.
    pub rtt: Option<Duration>,
    /// Congestion window, bytes.
    pub cwnd_bytes: u32,
    /// Bytes that would leave at once.
    pub free_bytes: u32,
    /// Bytes in its tcp that the peer has not acknowledged, sent or not.
    pub queued_bytes: u64,
    /// Bytes that its tcp takes now.
    pub credit_bytes: u64,
    /// Segment size, bytes.
    pub mss_bytes: u32,
    /// It is used only if no other is left.
    pub backup: bool,
}

impl View {
    /// What it carries, bytes a second: a window a round trip (tcp_update_pacing_rate, whose factors all subflows have alike).
    pub fn rate(&self) -> f64 {
        // "If no RTT sample is available, use 1 ms": sk_pacing_rate of tcp_init_transfer.
        let rtt = self.rtt.unwrap_or(Duration::from_millis(1)).max(Duration::from_micros(1));
        f64::from(self.cwnd_bytes.max(1)) / rtt.as_secs_f64()
    }
}

/// A choice.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Choice {
    /// Index of the subflow.
    pub index: usize,
    /// Bytes that it gets at most before the next choice.
    pub bytes: u64,
}

/// Chooses. It may keep what it knows of a connection; it is exported by none, so that it has to be right again after it begins anew.
pub trait Scheduler {
    /// Which of these subflows, all of which may send, gets the next of `unsent` bytes, of which the peer takes `window`; none: wait.
    fn choose(&self, paths: &[(usize, View)], unsent_bytes: u64, window_bytes: u64) -> Option<Choice>;
}
