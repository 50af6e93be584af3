//! Fast Open (RFC 7413): what one connection knows of it.

use weft_core::Bytes;
use weft_wire::tcp;

/// What an active opening does beyond the plain one.
#[derive(Debug, Default)]
pub struct Start {
    /// Goes into the first SYN: a cookie, or an empty one to ask for one.
    pub option: Option<tcp::FastOpen>,
    /// The first bytes of the stream.
    pub data: Bytes,
    /// How many of them go with the SYN.
    pub in_syn: u32,
}

/// What the answer to a SYN has taught about the peer.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Learned {
    /// The cookie it gave.
    pub cookie: Option<tcp::FastOpen>,
    /// Its MSS; 0: it said none.
    pub mss: u16,
    /// A SYN with data was not answered, one without was.
    pub syn_lost: bool,
    /// It was asked for a cookie and gave none.
    pub refused: bool,
}
weft_core::fields!(struct Learned { cookie, mss, syn_lost, refused });

/// Of one connection.
#[derive(Debug, Default)]
pub(super) struct FastOpen {
    /// For the first SYN or SYN|ACK.
    pub option: Option<tcp::FastOpen>,
    /// The SYN asked for a cookie, or brought one or data.
    pub asked: bool,
    pub requested: bool,
    pub in_syn: u32,
    pub learned: Option<Learned>,
    /// A passive one: data flows, the final acknowledgment of the handshake has not come.
    pub early: bool,
    /// It was reset in that state.
    pub reset: bool,
    /// The peer has taken data with the SYN (syn_data_acked).
    pub acknowledged: bool,
    /// A router did not let the SYN pass with its data: it goes without, and without a cookie.
    pub bare: bool,
}
weft_core::fields!(struct FastOpen { option, asked, requested, in_syn, learned, early, reset, acknowledged, bare });
