//! UDP_GRO: datagrams of one flow that came together are read together, with their size in a control message.
//!
//! "Together" is one vector: what a wire brought at once, or one UDP_SEGMENT send over the loopback (which may fill more than one). Linux joins
//! what one poll of a device brought, or hands over such a send whole; a program has to expect any split.

use crate::memory::truesize;
use crate::socket::{Datagram, SEGMENTS_MAX, Waiting};
use weft_core::Frame;

/// Most datagrams that are read as one.
const DATAGRAMS_MAX: u16 = SEGMENTS_MAX as u16;
/// Most bytes of them.
const BYTES_MAX: usize = 65_535;

/// Payload bytes of each datagram of those that are read as one.
fn each_bytes(waiting: &Waiting) -> usize {
    if waiting.joined.each_bytes == 0 { waiting.bytes } else { usize::from(waiting.joined.each_bytes) }
}

/// Does a datagram join the last one that waits? It does when both came together, are of the same flow, and the new one is no larger
/// (`udp_gro_receive`); a shorter one ends it.
pub(crate) fn joins_last(datagram: &Datagram, frame: &Frame, vector: u64, room: usize) -> bool {
    let (bytes, meta) = (frame.len(), frame.meta());
    let Some(last) = datagram.queue.back().filter(|last| last.joined.vector == vector) else { return false };
    let (each, seen) = (each_bytes(last), &last.seen);
    let flow = (last.from.ip(), last.from.port(), seen.to, seen.to_port, seen.interface, seen.ttl, seen.tos);
    let same = flow == (meta.src, meta.src_port, meta.dst, Some(meta.dst_port), meta.interface.0, meta.ttl, meta.tos);
    let open = each != 0 && last.bytes.is_multiple_of(each) && last.joined.datagrams < DATAGRAMS_MAX;
    let grown = truesize(last.bytes + bytes).saturating_sub(last.truesize);
    let fits = last.bytes + bytes <= BYTES_MAX && datagram.queued_truesize + grown <= room;
    same && open && fits && (1..=each).contains(&bytes)
}

/// Puts it there.
pub(crate) fn join_last(datagram: &mut Datagram, frame: Frame) {
    let Some(last) = datagram.queue.back_mut() else { return };
    (last.joined.each_bytes, last.joined.datagrams) = (each_bytes(last) as u16, last.joined.datagrams + 1);
    last.bytes += frame.len();
    last.data.extend(frame.into_payload());
    let truesize = truesize(last.bytes);
    datagram.queued_truesize += truesize.saturating_sub(last.truesize);
    last.truesize = truesize.max(last.truesize);
}
