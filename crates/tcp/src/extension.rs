//! What a connection asks of whoever uses it as a subflow. Plain TCP is the first user: [`Plain`].
//!
//! The connection owns sequence space, retransmission and congestion control. An extension writes and reads options on every segment,
//! ties pieces of data to a *mapping* (a number of its own, kept in the retransmission queue, so that a retransmission carries the same
//! mapping as the first transmission), may supply the receive window from above, and may ask for a reset. What it is told by
//! [`Extension::on_segment`] precedes the acknowledgment and the data of the same segment.

use std::fmt::Debug;
use weft_wire::tcp::{Options, Segment};

/// What a segment is that options are written for.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Outgoing {
    /// The first segment of an active open.
    Syn,
    /// Its answer.
    SynAck,
    /// Data (and perhaps FIN).
    Data {
        /// The mapping given with the data.
        mapping: u64,
        /// Distance of its first byte from the first byte of the stream.
        offset: u64,
        /// Bytes.
        bytes: u32,
    },
    /// An acknowledgment alone.
    Ack,
    /// A reset.
    Reset,
}

/// What an extension makes of a segment.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Verdict {
    /// Goes on as usual.
    Continue,
    /// The segment is ignored.
    Discard,
    /// The connection is reset.
    Reset,
    /// The peer, or a box on the way, does not speak the extension: the connection goes on as plain TCP.
    FallBack,
}

/// The user of a connection, as the connection sees it. Every method has plain TCP's behaviour as its default.
pub trait Extension: Send + Debug {
    /// Bytes of options that [`Extension::write_options`] may add to a data segment: they come off the segment size.
    fn option_bytes(&self) -> u32 {
        0
    }
    /// Is it [`Plain`]: does nothing come of it, whatever a segment is?
    fn is_plain(&self) -> bool {
        false
    }
    /// Adds options to a segment.
    fn write_options(&mut self, segment: Outgoing, options: &mut Options) {
        let _ = (segment, options);
    }
    /// Reads a segment that is in the window, SYN|ACK too. `offset` is the distance of its first byte from the first of the stream.
    fn on_segment(&mut self, segment: &Segment, offset: u64, bytes: u32) -> Verdict {
        let _ = (segment, offset, bytes);
        Verdict::Continue
    }
    /// The window to announce, given what the connection's own buffer allows, both in bytes.
    fn receive_window(&self, own: u32) -> u32 {
        own
    }
    /// The connection has fallen back to plain TCP ([`Verdict::FallBack`]); nothing more will be asked of the extension.
    fn on_fallback(&mut self) {}
    /// Why the connection is being reset, for the reset's options.
    fn on_reset(&mut self, by_peer: bool) {
        let _ = by_peer;
    }
    /// Should a SYN with options that TCP does not know become a connection with an extension? Returns it.
    fn accept(&self, syn: &Segment) -> Option<Box<dyn Extension>> {
        let _ = syn;
        None
    }
}

/// Plain TCP: nothing beyond the defaults. Takes no memory.
#[derive(Clone, Copy, Debug, Default)]
pub struct Plain;

impl Extension for Plain {
    fn is_plain(&self) -> bool {
        true
    }
}
