//! The states of a connection.

/// States of RFC 9293 §3.3.2, numbered as in Linux (include/net/tcp_states.h).
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
#[repr(u8)]
pub enum State {
    /// Data flows both ways.
    Established = 1,
    /// SYN sent.
    SynSent = 2,
    /// SYN received and sent.
    SynReceived = 3,
    /// FIN sent.
    FinWait1 = 4,
    /// FIN acknowledged.
    FinWait2 = 5,
    /// Both FINs acknowledged; old segments may still be around.
    TimeWait = 6,
    /// Nothing.
    Closed = 7,
    /// FIN received.
    CloseWait = 8,
    /// FIN received, then sent.
    LastAck = 9,
    /// Waiting for SYN.
    Listen = 10,
    /// Both sent FIN at once.
    Closing = 11,
}
weft_core::fields!(
    enum State {
        Established = 1,
        SynSent = 2,
        SynReceived = 3,
        FinWait1 = 4,
        FinWait2 = 5,
        TimeWait = 6,
        Closed = 7,
        CloseWait = 8,
        LastAck = 9,
        Listen = 10,
        Closing = 11,
    }
);

impl State {
    /// Name as `ss` prints it.
    pub const fn name(self) -> &'static str {
        match self {
            State::Established => "ESTAB",
            State::SynSent => "SYN-SENT",
            State::SynReceived => "SYN-RECV",
            State::FinWait1 => "FIN-WAIT-1",
            State::FinWait2 => "FIN-WAIT-2",
            State::TimeWait => "TIME-WAIT",
            State::Closed => "UNCONN",
            State::CloseWait => "CLOSE-WAIT",
            State::LastAck => "LAST-ACK",
            State::Listen => "LISTEN",
            State::Closing => "CLOSING",
        }
    }
    /// The peer's FIN has been taken.
    pub const fn peer_closed(self) -> bool {
        matches!(self, State::CloseWait | State::LastAck | State::Closing | State::TimeWait | State::Closed)
    }
    /// Data may still be sent for the first time.
    pub const fn can_send(self) -> bool {
        matches!(self, State::Established | State::CloseWait)
    }
    /// SYNs have been exchanged.
    pub const fn is_synchronised(self) -> bool {
        !matches!(self, State::SynSent | State::SynReceived | State::Closed | State::Listen)
    }
}
