//! How compress and seal write themselves into an Ethernet frame, so that whoever receives it knows what it is, whatever is in its own graph.
//!
//! The addresses stay; the EtherType is the first that IEEE 802 leaves to local experiments; four bytes follow: what it is, flags, and the EtherType that
//! was there. A frame without that EtherType passes those blocks as it is: the two ends of a wire may be switched one after the other.

use weft_core::offload::{CutChecksums, complete_checksum, cut};
use weft_core::{Bytes, Checksum, Direction, Frame, Vector};
use weft_wire::ethernet::{EtherType, HEADER_LEN};

/// IEEE 802, Local Experimental EtherType 1.
pub(super) const ETHER_TYPE: EtherType = EtherType(0x88b5);
/// Bytes behind the Ethernet header.
pub(super) const ENVELOPE_LEN: usize = 4;
/// The two addresses.
const ADDRESSES_LEN: usize = 12;

/// What is in an envelope.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) struct Envelope {
    /// The block that made it.
    pub kind: u8,
    /// Its own.
    pub flags: u8,
    /// The EtherType that was there.
    pub inner: u16,
}

impl Envelope {
    /// Of a frame, if it has one.
    pub fn of(frame: &mut Frame) -> Option<Envelope> {
        if frame.len() < HEADER_LEN + ENVELOPE_LEN || frame.pull_up(HEADER_LEN + ENVELOPE_LEN).is_err() {
            return None;
        }
        let head = frame.head();
        let ether_type = u16::from_be_bytes([head[12], head[13]]);
        (ether_type == ETHER_TYPE.0).then(|| Envelope { kind: head[14], flags: head[15], inner: u16::from_be_bytes([head[16], head[17]]) })
    }
}

/// The frames of a vector, cut to what a wire takes and with their checksums, since nobody can do either later.
pub(super) fn ready(vector: &mut Vector) -> Vec<Frame> {
    let mut frames = Vec::with_capacity(vector.len());
    for mut frame in vector.drain() {
        if frame.meta().direction == Direction::Egress || frame.meta().gso.is_some() {
            complete_checksum(&mut frame);
            cut(frame, CutChecksums::Complete, &mut frames);
        } else {
            frames.push(frame);
        }
    }
    frames
}

/// EtherType and payload of a frame that begins with an Ethernet header. None: it is shorter than that, or says a length.
pub(super) fn payload(frame: &mut Frame) -> Option<(u16, Vec<u8>)> {
    if frame.pull_up(HEADER_LEN).is_err() {
        return None;
    }
    let ether_type = u16::from_be_bytes([frame.head()[12], frame.head()[13]]);
    (!EtherType(ether_type).is_length()).then(|| (ether_type, frame.to_vec().split_off(HEADER_LEN)))
}

/// The frame in whose place it goes, with another content. `completed`: whoever waits for the old one waits for this.
pub(super) fn with_content(old: &mut Frame, ether_type: u16, header: &[u8], content: Vec<u8>, completed: bool) -> Frame {
    let mut head = [0; HEADER_LEN];
    head[..ADDRESSES_LEN].copy_from_slice(&old.head()[..ADDRESSES_LEN]);
    head[ADDRESSES_LEN..].copy_from_slice(&ether_type.to_be_bytes());
    let mut frame = match old.meta().direction {
        Direction::Egress => Frame::egress(),
        Direction::Ingress => Frame::ingress(&[]),
    };
    let completion = if completed { old.take_completion() } else { None };
    let mut meta = old.meta().clone();
    (meta.completion, meta.gso, meta.network_at, meta.transport_at) = (completion, None, 0, 0);
    (meta.checksum, meta.ether_type) = (Checksum::Unknown, EtherType(ether_type));
    *frame.meta_mut() = meta;
    frame.extend(&head);
    frame.extend(header);
    // Headers are read from the head.
    let (near, far) = content.split_at(content.len().min(NEAR_BYTES));
    frame.extend(near);
    if !far.is_empty() {
        frame.append(Bytes::from(content).slice(NEAR_BYTES..));
    }
    frame
}

/// How much of the content lies beside the headers.
const NEAR_BYTES: usize = 64;

/// In an envelope.
pub(super) fn wrapped(old: &mut Frame, envelope: Envelope, content: Vec<u8>, completed: bool) -> Frame {
    let inner = envelope.inner.to_be_bytes();
    with_content(old, ETHER_TYPE.0, &[envelope.kind, envelope.flags, inner[0], inner[1]], content, completed)
}
