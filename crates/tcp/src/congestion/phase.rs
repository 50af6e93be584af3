//! Where loss recovery stands: a connection says so, a control may ask.

/// Linux's tcp_ca_state.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug, Default)]
pub enum Phase {
    /// Nothing special.
    #[default]
    Open = 0,
    /// Duplicates or SACKs were seen.
    Disorder = 1,
    /// The window is being reduced because of ECN.
    Cwr = 2,
    /// Fast recovery.
    Recovery = 3,
    /// After a retransmission timeout.
    Loss = 4,
}
weft_core::fields!(
    enum Phase {
        Open = 0,
        Disorder = 1,
        Cwr = 2,
        Recovery = 3,
        Loss = 4,
    }
);
