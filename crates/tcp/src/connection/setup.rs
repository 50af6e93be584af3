//! What a connection begins with, opened by this side or by a listener.

use super::path::Path;
use crate::extension::Extension;
use std::net::SocketAddr;
use weft_core::{FlowId, Instant, StreamOptions};
use weft_wire::tcp::{Options, Seq, Timestamps};

/// What every connection begins with.
#[derive(Debug)]
pub struct Setup {
    /// Its flow.
    pub flow: FlowId,
    /// What completions and timers name it by.
    pub token: u64,
    /// Own address and port.
    pub local: SocketAddr,
    /// The peer's.
    pub remote: SocketAddr,
    /// Socket options.
    pub options: StreamOptions,
    /// The way there.
    pub path: Path,
    /// Initial sequence number (RFC 6528).
    pub initial: Seq,
    /// Added to the clock in timestamps, so that they tell nothing about the node (RFC 7323 §7.1).
    pub timestamp_offset: u32,
    /// Who uses the connection.
    pub extension: Box<dyn Extension>,
    /// A random number for the congestion control.
    pub control_seed: u64,
}

/// What a listener agreed on before the connection existed.
#[derive(Debug, Clone, Copy)]
pub struct Handshake {
    /// The peer's initial sequence number.
    pub peer_initial: Seq,
    /// MSS from its SYN; 0: none.
    pub peer_mss: u16,
    /// Its window shift, when both scale.
    pub peer_scale: Option<u8>,
    /// Ours.
    pub scale: u8,
    /// The window our SYN|ACK announced, bytes.
    pub window: u32,
    /// Both do SACK.
    pub sack: bool,
    /// Both do timestamps; the last one of the peer.
    pub timestamp: Option<u32>,
    /// Both do ECN.
    pub ecn: bool,
    /// The MSS we announced.
    pub announced_mss: u32,
    /// When the SYN|ACK was sent.
    pub sent_at: Instant,
    /// That is known, so that the handshake gives a round-trip time.
    pub measured: bool,
    /// How often it was sent again.
    pub retransmits: u32,
}
weft_core::fields!(struct Handshake {
    peer_initial, peer_mss, peer_scale, scale, window, sack, timestamp, ecn, announced_mss, sent_at, measured, retransmits,
});

/// What a SYN or SYN|ACK offers.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Offer {
    pub mss: u32,
    pub sack: bool,
    pub timestamps: Option<Timestamps>,
    pub scale: Option<u8>,
}

/// The options of a SYN or SYN|ACK.
pub(crate) fn syn_options(offer: &Offer) -> Options {
    Options {
        // RFC 9293 §3.7.1: "TCP implementations SHOULD send an MSS Option in every SYN segment when its receive MSS differs from the default".
        mss: Some(offer.mss.min(u32::from(u16::MAX)) as u16),
        window_scale: offer.scale,
        sack_permitted: offer.sack,
        timestamps: offer.timestamps,
        ..Options::default()
    }
}
