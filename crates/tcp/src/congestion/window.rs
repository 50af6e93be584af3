//! The congestion window and its bounds: what a control writes and a connection obeys.

/// Largest congestion window, in bytes: what a window field with the largest scale can announce (RFC 7323 §2.3), so nothing larger is ever
/// usable.
pub const CWND_BYTES_MAX: u32 = 65_535 << 14;

/// Larger segments than this are counted as if they had this size, so that no arithmetic overflows. TCP has none above 64 KiB.
pub const SEGMENT_BYTES_MAX: u32 = 1 << 20;

/// Segments of the initial window (RFC 6928), as in Linux regardless of their size.
pub const INITIAL_WINDOW_SEGMENTS: u32 = 10;

/// The window that a congestion control steers. All sizes are payload bytes.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Window {
    /// Sender's maximum segment size, without options that every segment carries. Written by the connection; the control reads
    /// [`Window::segment_bytes`].
    pub mss: u32,
    /// Congestion window.
    pub cwnd_bytes: u32,
    /// Slow start threshold; `u32::MAX`: none yet.
    pub ssthresh_bytes: u32,
}
weft_core::fields!(struct Window { mss, cwnd_bytes, ssthresh_bytes });

impl Window {
    /// A window of nothing yet, for `init`.
    pub fn new(mss: u32) -> Window {
        Window { mss, cwnd_bytes: 0, ssthresh_bytes: u32::MAX }
    }
    /// The segment size, between 1 and [`SEGMENT_BYTES_MAX`].
    pub fn segment_bytes(&self) -> u32 {
        self.mss.clamp(1, SEGMENT_BYTES_MAX)
    }
    /// The path takes smaller segments than was thought.
    ///
    /// RFC 5681 §3.1: "Specifically, cwnd SHOULD be reduced by the ratio of the old segment size to the new segment size." A larger size
    /// leaves the window as it is.
    pub fn set_mss(&mut self, mss: u32) {
        let old = self.segment_bytes();
        self.mss = mss;
        let new = self.segment_bytes();
        if new < old {
            self.set_cwnd(u64::from(self.cwnd_bytes) * u64::from(new) / u64::from(old));
        }
        self.set_cwnd(self.cwnd_bytes.into());
    }
    /// RFC 5681 §3.1: "The slow start algorithm is used when cwnd < ssthresh, while the congestion avoidance algorithm is used when cwnd >
    /// ssthresh."
    pub fn in_slow_start(&self) -> bool {
        self.cwnd_bytes < self.ssthresh_bytes
    }
    /// Sets the window inside its bounds: one segment and [`CWND_BYTES_MAX`].
    pub fn set_cwnd(&mut self, bytes: u64) {
        let floor = self.segment_bytes();
        self.cwnd_bytes = u32::try_from(bytes).unwrap_or(u32::MAX).min(CWND_BYTES_MAX).max(floor);
    }
    /// Slow start by `acked_bytes`, up to the threshold; returns the bytes that were not needed to reach it.
    ///
    /// RFC 5681 §3.1 limits growth to one segment per ACK and RFC 3465 to two; Linux counts every delivered byte (a GRO'd ACK stands for
    /// many), and so does this.
    pub(crate) fn slow_start(&mut self, acked_bytes: u32) -> u32 {
        let wanted = self.cwnd_bytes.saturating_add(acked_bytes).min(CWND_BYTES_MAX);
        let reached = wanted.min(self.ssthresh_bytes).max(self.cwnd_bytes);
        let used = reached - self.cwnd_bytes;
        self.set_cwnd(u64::from(reached));
        acked_bytes.saturating_sub(used)
    }
    /// RFC 5681 §3.1 eq. 4's floor for the threshold: `2*SMSS`. Whole segments, as Linux counts: a window of two and a half lets out two like one of two, and
    /// takes half as many acknowledgments more to grow.
    pub(crate) fn set_ssthresh(&mut self, bytes: u64) {
        let floor = self.segment_bytes().saturating_mul(2);
        self.ssthresh_bytes = self.whole(bytes).max(floor);
    }
    /// The whole segments of so many bytes, as bytes.
    pub(crate) fn whole(&self, bytes: u64) -> u32 {
        let bytes = u32::try_from(bytes).unwrap_or(u32::MAX).min(CWND_BYTES_MAX);
        bytes - bytes % self.segment_bytes()
    }
    /// A half and a quarter of the window, each in whole segments (tcp_current_ssthresh).
    pub(crate) fn three_quarters(&self) -> u32 {
        self.whole(u64::from(self.cwnd_bytes >> 1)) + self.whole(u64::from(self.cwnd_bytes >> 2))
    }
}

/// Initial window in bytes.
///
/// RFC 6928 §2 has `min (10*MSS, max (2*MSS, 14600))`; Linux sends ten segments of any size, and so does this (equal up to an MSS of 1460).
/// `handshake_retransmits`: how often SYN or SYN-ACK was sent again. RFC 5681 §3.1: "if the SYN or SYN/ACK is lost, the initial window used
/// by a sender after a correctly transmitted SYN MUST be one segment consisting of at most SMSS bytes."; RFC 6928 §2: "it is RECOMMENDED
/// that implementations refrain from resetting the initial window to 1 segment, unless there have been more than one SYN or SYN/ACK
/// retransmissions". Linux does so.
pub fn initial_window_bytes(mss: u32, handshake_retransmits: u32) -> u32 {
    let mss = mss.clamp(1, SEGMENT_BYTES_MAX);
    if handshake_retransmits > 1 { mss } else { mss * INITIAL_WINDOW_SEGMENTS }
}
