//! What a connection asks of whoever uses it as a subflow. Plain TCP is the first user: [`Plain`].
//!
//! The connection owns sequence space, retransmission and congestion control. An extension writes and reads options on every segment,
//! ties pieces of data to a *mapping* (a number of its own, kept in the retransmission queue, so that a retransmission carries the same
//! mapping as the first transmission), may supply the receive window from above, and may ask for a reset. What it is told by
//! [`Extension::on_segment`] precedes the acknowledgment and the data of the same segment.
//!
//! ```text
//!  sockets ── block between ────────────── words, mappings ──────────┐
//!                  │ Connect, Listen: state of an extension          │
//!                  ▼                                                  ▼
//!             tcp block ── rows: kind → make ──▶ connection ── its extension ── options of segments
//! ```
//!
//! A block between sockets and tcp decides, and an extension is its hand inside the connection: it holds what one segment needs, and says by
//! [`Extension::take_word`] what it has read. An extension travels as [`State`]: to a connection that is opened, from a block to its successor,
//! into a snapshot. So none is ever shared between blocks, and they may run on threads of their own.

use std::fmt::Debug;
use std::net::SocketAddr;
use weft_core::state::Damage;
use weft_core::{Bytes, Instant, Rng, State, StateError};
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
        /// Bytes from there on whose mapping is the same: these, and of new data what is known to follow, in whole segments.
        ahead: u32,
        /// Their Internet checksum without its complement (RFC 1071), where [`Extension::wants_sum`]; else 0.
        sum: u16,
    },
    /// An acknowledgment alone.
    Ack,
    /// A reset.
    Reset,
}

/// A segment that has come.
#[derive(Clone, Copy, Debug)]
pub struct Incoming<'a> {
    /// It, with its options.
    pub segment: &'a Segment,
    /// Distance of its first byte from the first of the peer's stream.
    pub offset: u64,
    /// Bytes of payload.
    pub bytes: u32,
    /// The window that it announces, bytes.
    pub window_bytes: u32,
    /// Of a SYN|ACK: how many bytes of the SYN's data it acknowledges (RFC 7413); of other segments 0.
    pub early_bytes: u32,
}

/// What a frame of new data has room for.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct FrameRoom {
    /// Bytes of options in its only segment, beyond [`Extension::option_bytes`]; 0: it has none, and as many segments as there may be.
    pub option_bytes: u32,
    /// Bytes of data at most.
    pub bytes: u64,
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

/// What a listener's extension makes of a SYN.
#[derive(Debug)]
pub enum Offer {
    /// A connection without an extension.
    Plain,
    /// One with this extension.
    With(Box<dyn Extension>),
    /// None: the SYN is answered by a reset with these options.
    Refuse(Options),
}

/// A SYN that a listener is asked about.
#[derive(Debug)]
pub struct Offered<'a> {
    /// It, with its options. Of a handshake by cookie ([`Offered::by_cookie`]) the acknowledgment that ends it.
    pub syn: &'a Segment,
    /// Nothing was kept of the SYN, which was answered by a cookie. Asked about the SYN, the extension writes its answer and is forgotten; asked about
    /// the acknowledgment, it has nothing but that.
    pub by_cookie: bool,
    /// How many bytes of data it has that are taken before the handshake ends (RFC 7413). None of them has a mapping.
    pub early_bytes: u32,
    /// This side.
    pub local: SocketAddr,
    /// Whoever sent it.
    pub remote: SocketAddr,
    /// Now.
    pub now: Instant,
    /// For keys and nonces.
    pub rng: &'a mut Rng,
}

/// The user of a connection, as the connection sees it. Every method but the first two has plain TCP's behaviour as its default.
pub trait Extension: Send + Debug {
    /// All of it, as state of its kind: what a row of [`ExtensionRow`]s makes an equal one of.
    fn export(&self, now: Instant) -> State;
    /// Is it [`Plain`]: does nothing come of it, whatever a segment is?
    fn is_plain(&self) -> bool {
        false
    }
    /// Bytes of options that [`Extension::write_options`] may add to a data segment: they come off the segment size. They change with a segment
    /// that it reads, or not at all.
    fn option_bytes(&self) -> u32 {
        0
    }
    /// What the next frame of new data has room for, from `offset` of the stream on. None: as many segments as there may be, each with what
    /// [`Extension::write_options`] adds.
    fn frame(&self, offset: u64) -> Option<FrameRoom> {
        let _ = offset;
        None
    }
    /// Adds options to a segment.
    fn write_options(&mut self, segment: Outgoing, options: &mut Options) {
        let _ = (segment, options);
    }
    /// Reads a segment that is in the window, SYN|ACK too.
    fn on_segment(&mut self, incoming: &Incoming<'_>) -> Verdict {
        let _ = incoming;
        Verdict::Continue
    }
    /// The peer has acknowledged everything up to this distance from the first byte of the stream: it will not be sent again.
    fn on_acknowledged(&mut self, offset: u64) {
        let _ = offset;
    }
    /// Has [`Outgoing::Data`] to have the sum of its bytes?
    fn wants_sum(&self) -> bool {
        false
    }
    /// The mapping that received data goes up with, from `offset` on, and how many of the `bytes` it holds for (at least one). Asked in order. Data that
    /// has none: [`Verdict::FallBack`], or [`Verdict::Reset`].
    fn mapping(&mut self, offset: u64, bytes: u32) -> Result<(u32, u64), Verdict> {
        let _ = offset;
        Ok((bytes, 0))
    }
    /// Up to which distance from the first byte of the stream words have answered the data that went up. An acknowledgment of more waits for the next
    /// word, but not longer than a delayed one.
    fn answered(&self) -> u64 {
        u64::MAX
    }
    /// A word from above. Returns whether something must be said to the peer, where the connection itself owes no acknowledgment.
    fn on_word(&mut self, word: &Bytes) -> bool {
        let _ = word;
        false
    }
    /// What it has to say to whoever is above; none: nothing more.
    fn take_word(&mut self) -> Option<Bytes> {
        None
    }
    /// Is whoever is above to be told how the connection does ([`weft_core::StreamMessage::Room`])?
    fn wants_room(&self) -> bool {
        false
    }
    /// The window to announce, given what the connection's own buffer allows, both in bytes.
    fn receive_window(&self, own: u32) -> u32 {
        own
    }
    /// The connection has fallen back to plain TCP ([`Verdict::FallBack`]); nothing more will be asked of the extension but its words.
    fn on_fallback(&mut self) {}
    /// The connection is being reset; asked for the reset's options before, where this side resets. Otherwise here is the peer's reset.
    fn on_reset(&mut self, by_peer: Option<&Segment>) {
        let _ = by_peer;
    }
    /// Of a listener: should a SYN become a connection with an extension, or none at all?
    fn accept(&mut self, offered: &mut Offered<'_>) -> Offer {
        let _ = offered;
        Offer::Plain
    }
}

/// An extension, or why its state does not make one.
pub type Made = Result<Box<dyn Extension>, StateError>;

/// A kind of extension that a tcp block knows.
#[derive(Clone, Copy, Debug)]
pub struct ExtensionRow {
    /// Its name in [`State::kind`].
    pub kind: &'static str,
    /// Makes one from its state.
    pub make: fn(&State, Instant) -> Made,
}

/// The row that makes one of this state.
pub(crate) fn row<'a>(rows: &'a [ExtensionRow], state: &State) -> Option<&'a ExtensionRow> {
    rows.iter().find(|row| row.kind == state.kind)
}

/// What was read as [`Stored`], as what it is.
pub(crate) fn restored(rows: &[ExtensionRow], stored: &dyn Extension, now: Instant) -> Result<Box<dyn Extension>, Damage> {
    let state = stored.export(now);
    let unknown = || Damage::new(format_args!("an extension of kind {:?} is not known here", state.kind));
    (row(rows, &state).ok_or_else(unknown)?.make)(&state, now).map_err(|error| Damage::new(format_args!("an extension: {error}")))
}

/// Plain TCP: nothing beyond the defaults. Takes no memory.
#[derive(Clone, Copy, Debug, Default)]
pub struct Plain;

impl Extension for Plain {
    fn export(&self, _now: Instant) -> State {
        State::none("plain")
    }
    fn is_plain(&self) -> bool {
        true
    }
}

/// One that was read with its connection, before a block makes it what it is.
#[derive(Debug)]
pub(crate) struct Stored(pub State);

impl Extension for Stored {
    fn export(&self, _now: Instant) -> State {
        self.0.clone()
    }
}
