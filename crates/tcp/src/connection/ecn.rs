//! Explicit congestion notification: what is to be told.

/// What is to be told to the peer, and what it has told.
#[derive(Debug, Default)]
pub(super) struct Ecn {
    /// Our SYN asked for it.
    pub asked: bool,
    /// A mark was received: echo it until the peer says CWR.
    pub echo: bool,
    /// Our window was reduced: say CWR on the next new data.
    pub reduced: bool,
    /// A packet came that could have been marked (TCP_ECN_SEEN).
    pub seen: bool,
}
weft_core::fields!(struct Ecn { asked, echo, reduced, seen });
