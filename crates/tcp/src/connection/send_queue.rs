//! Bytes handed down and not yet acknowledged, as the slices they came in. Frames share them; nothing is copied, but for small writes
//! behind unsent data, which are joined (once) so that a frame does not consist of a thousand slices.

use bytes::{Bytes, BytesMut};
use std::collections::VecDeque;
use weft_core::Frame;
use weft_wire::checksum::Sum;

/// Writes below this many bytes are joined when other data waits in front of them.
const JOIN_BYTES: usize = 512;
/// Size of the buffer they are joined in.
const JOIN_BUFFER_BYTES: usize = 8192;

#[derive(Debug, Clone)]
struct Chunk {
    start: u64,
    bytes: Bytes,
    mapping: u64,
}

/// What is being joined, as state has it.
pub(super) struct Joined<'a> {
    pub bytes: &'a [u8],
    pub mapping: u64,
    pub room: usize,
}

impl Joined<'_> {
    /// Of a build that did not say how much room there was: its successor began with a whole buffer.
    pub(super) fn without_room(bytes: &[u8], mapping: u64) -> Joined<'_> {
        let room = if bytes.is_empty() { 0 } else { JOIN_BUFFER_BYTES.saturating_sub(bytes.len()) };
        Joined { bytes, mapping, room }
    }
}

/// The send queue. Positions are those of the sequence space.
#[derive(Debug)]
pub(crate) struct SendQueue {
    chunks: VecDeque<Chunk>,
    /// Small writes being joined: what follows the last chunk.
    open: BytesMut,
    open_mapping: u64,
    /// Bytes that still fit into the buffer that they are joined in. Counted, and not asked of the allocator: what is one piece here is one piece of
    /// the frame, and of what the peer's connection hands up.
    room: usize,
    start: u64,
    end: u64,
    /// Where the last look-up ended: the next one mostly begins there.
    hint: usize,
}

impl SendQueue {
    /// An empty queue whose first byte will be at `start`.
    pub(crate) fn new(start: u64) -> SendQueue {
        SendQueue { chunks: VecDeque::new(), open: BytesMut::new(), open_mapping: 0, room: 0, start, end: start, hint: 0 }
    }
    /// Position after the last byte.
    pub(crate) fn end(&self) -> u64 {
        self.end
    }
    /// Bytes held.
    pub(crate) fn len(&self) -> u64 {
        self.end - self.start
    }
    /// Adds bytes at the end. `behind` says that unsent data waits in front of them.
    pub(crate) fn push(&mut self, bytes: Bytes, mapping: u64, behind: bool) {
        let length = bytes.len();
        if length == 0 {
            return;
        }
        let joins = behind && length < JOIN_BYTES && (self.open.is_empty() || self.open_mapping == mapping);
        if joins && self.open.len() + length <= JOIN_BUFFER_BYTES {
            if self.room < length {
                self.flush();
                (self.open, self.room) = (BytesMut::with_capacity(JOIN_BUFFER_BYTES), JOIN_BUFFER_BYTES);
            }
            self.room -= length;
            self.open_mapping = mapping;
            self.open.extend_from_slice(&bytes);
        } else {
            self.flush();
            self.chunks.push_back(Chunk { start: self.end, bytes, mapping });
        }
        self.end += length as u64;
    }
    /// For state: where it begins, where its first piece does, the pieces with their mappings, what is being joined.
    pub(super) fn parts(&self) -> (u64, u64, impl ExactSizeIterator<Item = (&Bytes, &u64)>, Joined<'_>) {
        let first = self.chunks.front().map_or(self.end - self.open.len() as u64, |chunk| chunk.start);
        let chunks = self.chunks.iter().map(|chunk| (&chunk.bytes, &chunk.mapping));
        (self.start, first, chunks, Joined { bytes: &self.open, mapping: self.open_mapping, room: self.room })
    }
    /// Adds a piece as it is.
    pub(super) fn push_whole(&mut self, bytes: Bytes, mapping: u64) {
        let start = self.end;
        self.end += bytes.len() as u64;
        self.chunks.push_back(Chunk { start, bytes, mapping });
    }
    /// Goes on joining where another queue stopped. False: that is more than the buffer takes.
    pub(super) fn reopen(&mut self, Joined { bytes, mapping, room }: Joined<'_>) -> bool {
        if !bytes.is_empty() {
            self.open.reserve(JOIN_BUFFER_BYTES.max(bytes.len()));
            self.open.extend_from_slice(bytes);
            self.end += bytes.len() as u64;
        }
        (self.open_mapping, self.room) = (mapping, room);
        bytes.len().saturating_add(room) <= JOIN_BUFFER_BYTES
    }
    /// Everything before this has been released.
    pub(super) fn begins_at(&mut self, start: u64) {
        self.start = start;
    }
    /// Closes the join buffer: its bytes become a chunk (without a copy).
    fn flush(&mut self) {
        if !self.open.is_empty() {
            let bytes = self.open.split().freeze();
            self.chunks.push_back(Chunk { start: self.end - bytes.len() as u64, bytes, mapping: self.open_mapping });
        }
    }
    /// Index of the chunk that holds `position`.
    fn index(&mut self, position: u64) -> usize {
        let holds = |at: usize| {
            self.chunks.get(at).is_some_and(|chunk| chunk.start <= position && position < chunk.start + chunk.bytes.len() as u64)
        };
        let found = match self.hint {
            hint if holds(hint) => hint,
            hint if holds(hint + 1) => hint + 1,
            _ => self.chunks.partition_point(|chunk| chunk.start <= position).saturating_sub(1),
        };
        self.hint = found;
        found
    }
    /// How many of the `length` bytes from `position` share one mapping, and that mapping.
    pub(crate) fn mapped(&mut self, position: u64, length: u32) -> (u32, u64) {
        let until = position + u64::from(length);
        if until > self.end - self.open.len() as u64 {
            self.flush();
        }
        let first = self.index(position);
        let Some(mapping) = self.chunks.get(first).map(|chunk| chunk.mapping) else { return (length, 0) };
        let other = self.chunks.iter().skip(first).take_while(|chunk| chunk.start < until).find(|chunk| chunk.mapping != mapping);
        (other.map_or(length, |chunk| (chunk.start - position) as u32), mapping)
    }
    /// Appends the bytes from `position` on to a frame.
    pub(crate) fn append_to(&mut self, frame: &mut Frame, position: u64, length: u32) {
        let until = position + u64::from(length);
        if until > self.end - self.open.len() as u64 {
            self.flush();
        }
        let mut at = position;
        for index in self.index(position)..self.chunks.len() {
            let chunk = &self.chunks[index];
            if at >= until {
                break;
            }
            let from = at.saturating_sub(chunk.start) as usize;
            let to = chunk.bytes.len().min((until - chunk.start) as usize);
            if from < to {
                frame.append(chunk.bytes.slice(from..to));
                at = chunk.start + to as u64;
            }
        }
    }
    /// Internet checksum of bytes without its complement (RFC 1071).
    pub(crate) fn sum(&mut self, position: u64, length: u32) -> u16 {
        let mut frame = Frame::egress();
        self.append_to(&mut frame, position, length);
        !frame.tail().iter().fold(Sum::default(), |sum, bytes| sum.add_bytes(bytes)).finish()
    }
    /// Lets go of everything in front of `until`. Returns how many bytes that were.
    pub(crate) fn release(&mut self, until: u64) -> u32 {
        let until = until.min(self.end);
        if until > self.end - self.open.len() as u64 {
            self.flush();
        }
        while self.chunks.front().is_some_and(|chunk| chunk.start + chunk.bytes.len() as u64 <= until) {
            self.chunks.pop_front();
            self.hint = self.hint.saturating_sub(1);
        }
        let released = until.saturating_sub(self.start);
        self.start = self.start.max(until);
        released as u32
    }
    /// Throws everything away.
    pub(crate) fn clear(&mut self) {
        self.chunks.clear();
        self.room += self.open.len();
        self.open.clear();
        self.start = self.end;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn large_pieces_leave_as_the_memory_they_came_in_and_small_ones_are_joined() {
        let big = Bytes::from(vec![1u8; 3000]);
        let address = big.as_ptr();
        let mut queue = SendQueue::new(10);
        queue.push(big, 0, false);
        for _ in 0..100 {
            queue.push(Bytes::from_static(b"ab"), 0, true);
        }
        let mut frame = Frame::egress();
        queue.append_to(&mut frame, 1010, 2100);
        assert_eq!(frame.tail().len(), 2);
        assert_eq!(frame.tail()[0].as_ptr(), address.wrapping_add(1000));
        assert_eq!(frame.to_vec(), [vec![1u8; 2000], b"ab".repeat(50)].concat());
        assert_eq!(queue.release(3010), 3000);
        assert_eq!(queue.len(), 200);
        let mut frame = Frame::egress();
        queue.append_to(&mut frame, 3011, 3);
        assert_eq!(frame.to_vec(), b"bab");
        assert_eq!(queue.release(9999), 200);
    }

    #[test]
    fn a_queue_that_was_put_back_cuts_its_pieces_where_it_would_have() {
        let now = weft_core::Instant::from_millis(7);
        let kind = &crate::block::KIND;
        let put_back = |queue: &SendQueue| -> SendQueue {
            let state = weft_core::State::written(kind, now, |out| out.put(queue));
            state.taken(kind, now, |from| from.take()).unwrap()
        };
        let lengths = |queue: &SendQueue| -> Vec<usize> {
            let (_, _, chunks, joined) = queue.parts();
            chunks.map(|(bytes, _)| bytes.len()).chain([joined.bytes.len()]).collect()
        };
        let mut rng = weft_core::Rng::for_name(6, "put back");
        for every in [1, 7, 60] {
            let (mut plain, mut restored) = (SendQueue::new(1), SendQueue::new(1));
            for round in 0..2000 {
                let bytes = Bytes::from(vec![0; [1, 48, 300, 511, 1448][rng.below(5) as usize]]);
                let (mapping, behind) = (rng.below(20) / 19, rng.below(30) > 0);
                let at = plain.end() - rng.below(plain.len().min(20_000) + 1);
                for queue in [&mut plain, &mut restored] {
                    queue.push(bytes.clone(), mapping, behind);
                    if round % 5 == 0 {
                        queue.release(at);
                    }
                }
                if round % every == 0 {
                    restored = put_back(&restored);
                }
                assert_eq!(lengths(&plain), lengths(&restored), "round {round}");
            }
        }
    }

    #[test]
    fn a_segment_does_not_cross_from_one_mapping_into_the_next() {
        let mut queue = SendQueue::new(0);
        queue.push(Bytes::from_static(&[0; 10]), 7, false);
        queue.push(Bytes::from_static(&[0; 10]), 7, false);
        queue.push(Bytes::from_static(&[0; 10]), 8, true);
        assert_eq!(queue.mapped(5, 25), (15, 7));
        assert_eq!(queue.mapped(20, 5), (5, 8));
    }
}
