//! The hash of a run: what reached and left every interface, and what programs were told, when.
//!
//! A node's hash is xxh3-128 over *records* in the order in which they happened on that node; numbers are little-endian:
//!
//! ```text
//! frame    1  time u64 ns  interface u32  direction u8 (0 in, 1 out)  bytes u32  digest u128 (xxh3-128 of the frame's bytes)
//! call     2  time u64 ns  program u32  process u32  thread u32  number u32  result i64  digest u128 (xxh3-128 of what it gave)
//! output   3  time u64 ns  program u32  stream u8  digest u128
//! end      4  time u64 ns  program u32  kind u8  status i32
//! control  5  time u64 ns  refused u8  digest u128 (xxh3-128 of what the node was told and what it answered)
//! ```
//!
//! Frames count as the wire carries them: cut to its MTU, with complete checksums; on their way out at the beginning of their serialisation.
//! The world's hash is xxh3-128 over (length u32, name, hash u128) of the nodes in the order of their names. A digest stands for the bytes so that a frame
//! which leaves one node and reaches another is read once.

use crate::report::{CallRecord, ProgramId, Status, Stream};
use weft_core::{Frame, Instant, InterfaceIndex};
use xxhash_rust::xxh3::{Xxh3, xxh3_128};

/// Which way a frame passed an interface.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Way {
    /// It arrived.
    In,
    /// It left.
    Out,
}

/// The hash of one node, as it grows.
#[derive(Clone)]
pub struct NodeHash {
    state: Box<Xxh3>,
    records: u64,
}

impl Default for NodeHash {
    fn default() -> NodeHash {
        NodeHash { state: Box::new(Xxh3::new()), records: 0 }
    }
}

impl std::fmt::Debug for NodeHash {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "NodeHash({} records)", self.records)
    }
}

impl NodeHash {
    /// A frame passed an interface.
    pub fn frame(&mut self, at: Instant, interface: InterfaceIndex, way: Way, bytes: u32, digest: u128) {
        let mut record = [0u8; 34];
        record[0] = 1;
        record[1..9].copy_from_slice(&at.as_nanos().to_le_bytes());
        record[9..13].copy_from_slice(&interface.0.to_le_bytes());
        record[13] = u8::from(way == Way::Out);
        record[14..18].copy_from_slice(&bytes.to_le_bytes());
        record[18..34].copy_from_slice(&digest.to_le_bytes());
        self.add(&record);
    }

    /// A call returned.
    pub fn call(&mut self, at: Instant, call: &CallRecord<'_>) {
        let mut record = [0u8; 49];
        record[0] = 2;
        record[1..9].copy_from_slice(&at.as_nanos().to_le_bytes());
        record[9..13].copy_from_slice(&call.program.0.to_le_bytes());
        record[13..17].copy_from_slice(&call.process.to_le_bytes());
        record[17..21].copy_from_slice(&call.thread.to_le_bytes());
        record[21..25].copy_from_slice(&call.number.to_le_bytes());
        record[25..33].copy_from_slice(&call.result.to_le_bytes());
        record[33..49].copy_from_slice(&xxh3_128(call.output).to_le_bytes());
        self.add(&record);
    }

    /// A program wrote something.
    pub fn output(&mut self, at: Instant, program: ProgramId, stream: Stream, bytes: &[u8]) {
        let mut record = Vec::with_capacity(32);
        record.push(3);
        record.extend(at.as_nanos().to_le_bytes());
        record.extend(program.0.to_le_bytes());
        record.push(u8::from(stream == Stream::Error));
        record.extend(xxh3_128(bytes).to_le_bytes());
        self.add(&record);
    }

    /// A program ended.
    pub fn end(&mut self, at: Instant, program: ProgramId, status: Status) {
        let (kind, number) = match status {
            Status::Exited(status) => (0, status),
            Status::Killed(signal) => (1, signal),
        };
        let mut record = Vec::with_capacity(18);
        record.push(4);
        record.extend(at.as_nanos().to_le_bytes());
        record.extend(program.0.to_le_bytes());
        record.push(kind);
        record.extend(number.to_le_bytes());
        self.add(&record);
    }

    /// The node was told something from outside: in what words, and what it answered.
    pub fn control(&mut self, at: Instant, refused: bool, text: &[u8]) {
        let mut record = [0u8; 26];
        record[0] = 5;
        record[1..9].copy_from_slice(&at.as_nanos().to_le_bytes());
        record[9] = u8::from(refused);
        record[10..26].copy_from_slice(&xxh3_128(text).to_le_bytes());
        self.add(&record);
    }

    fn add(&mut self, record: &[u8]) {
        self.records += 1;
        self.state.update(record);
    }

    /// Records so far.
    pub fn records(&self) -> u64 {
        self.records
    }

    /// The hash so far.
    pub fn digest(&self) -> u128 {
        self.state.digest128()
    }
}

/// The digest of a frame's bytes. `room` is reused from call to call.
pub fn of_frame(frame: &Frame, room: &mut Vec<u8>) -> u128 {
    if frame.tail().is_empty() {
        return xxh3_128(frame.head());
    }
    room.clear();
    for chunk in frame.chunks() {
        room.extend_from_slice(chunk);
    }
    xxh3_128(room)
}

/// The hash of a world: its nodes' hashes, folded in the order of their names.
pub fn fold<'a>(nodes: impl IntoIterator<Item = (&'a str, u128)>) -> u128 {
    let mut nodes: Vec<_> = nodes.into_iter().collect();
    nodes.sort_unstable();
    let mut state = Xxh3::new();
    for (name, hash) in nodes {
        state.update(&(name.len() as u32).to_le_bytes());
        state.update(name.as_bytes());
        state.update(&hash.to_le_bytes());
    }
    state.digest128()
}

#[cfg(test)]
mod tests {
    use super::*;
    use bytes::Bytes;

    #[test]
    fn the_digest_of_a_frame_is_that_of_its_bytes_however_they_lie() {
        let bytes: Vec<u8> = (0..200).collect();
        let mut room = Vec::new();
        let whole = of_frame(&Frame::ingress(&bytes), &mut room);
        let mut frame = Frame::ingress_parts(&bytes[..17], Bytes::copy_from_slice(&bytes[17..90]));
        frame.append(Bytes::copy_from_slice(&bytes[90..]));
        assert_eq!(of_frame(&frame, &mut room), whole);
        assert_eq!(whole, xxh3_128(&bytes));
    }

    #[test]
    fn the_order_of_nodes_does_not_matter_and_everything_else_does() {
        let hash = |time, bytes| {
            let mut node = NodeHash::default();
            node.frame(Instant::from_nanos(time), InterfaceIndex(2), Way::In, bytes, 7);
            node.digest()
        };
        assert_eq!(fold([("a", hash(1, 60)), ("b", 2)]), fold([("b", 2), ("a", hash(1, 60))]));
        assert_ne!(fold([("a", hash(1, 60))]), fold([("a", hash(2, 60))]));
        assert_ne!(hash(1, 60), hash(1, 61));
        assert_ne!(fold([("a", 1), ("b", 2)]), fold([("a", 2), ("b", 1)]));
    }
}
