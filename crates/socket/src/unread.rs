//! Received bytes of a stream that nobody has read, as the slices they came in. A small one behind others is joined with its neighbours, so
//! that a peer that sends single bytes cannot make a socket hold a hundred times what its window says (Linux: tcp_try_coalesce, tcp_collapse).

use bytes::{Bytes, BytesMut};
use std::collections::VecDeque;
use weft_core::Tail;
use weft_core::state::{Damage, Field, Reader, Writer};

/// Slices below this many bytes are joined.
const JOIN_BYTES: usize = 512;
/// Size of the buffer they are joined in.
const JOIN_BUFFER_BYTES: usize = 4096;

/// The queue.
#[derive(Debug, Default)]
pub(crate) struct Unread {
    pieces: VecDeque<Bytes>,
    /// What follows the last piece.
    open: BytesMut,
    /// Bytes that still fit into the buffer that they are joined in: counted, so that pieces end where they would have after a restore, too.
    room: usize,
}

/// The last version of the sockets' state in which a queue does not say how much more it joins.
const STATE_WITHOUT_ROOM_TO_JOIN: u32 = 6;

/// Pieces by reference; what is still being joined is copied.
impl Field for Unread {
    fn write(&self, out: &mut Writer) {
        out.put(&self.pieces);
        out.content(&self.open);
        out.number(self.room as u64);
    }
    fn read(from: &mut Reader<'_>) -> Result<Unread, Damage> {
        let pieces: VecDeque<Bytes> = from.take()?;
        let joined = from.content()?;
        let mut open = BytesMut::new();
        if !joined.is_empty() {
            open.reserve(JOIN_BUFFER_BYTES.max(joined.len()));
            open.extend_from_slice(joined);
        }
        let room = match from.version() <= STATE_WITHOUT_ROOM_TO_JOIN {
            // Its successor began with a whole buffer.
            true if joined.is_empty() => 0,
            true => JOIN_BUFFER_BYTES.saturating_sub(joined.len()),
            false => from.take::<u32>()? as usize,
        };
        if joined.len().saturating_add(room) > JOIN_BUFFER_BYTES {
            return Err(Damage::new("a receive queue that joins more than it can"));
        }
        Ok(Unread { pieces, open, room })
    }
}

impl Unread {
    /// Adds bytes at the end.
    pub(crate) fn push(&mut self, bytes: Bytes) {
        let behind = !self.pieces.is_empty() || !self.open.is_empty();
        if behind && bytes.len() < JOIN_BYTES {
            if self.room < bytes.len() {
                self.flush();
                (self.open, self.room) = (BytesMut::with_capacity(JOIN_BUFFER_BYTES), JOIN_BUFFER_BYTES);
            }
            self.room -= bytes.len();
            return self.open.extend_from_slice(&bytes);
        }
        self.flush();
        self.pieces.push_back(bytes);
    }

    fn flush(&mut self) {
        if !self.open.is_empty() {
            self.pieces.push_back(self.open.split().freeze());
        }
    }

    /// The byte at this distance from the first.
    pub(crate) fn byte_at(&self, offset: usize) -> Option<u8> {
        let mut skip = offset;
        for piece in &self.pieces {
            if let Some(byte) = piece.get(skip) {
                return Some(*byte);
            }
            skip -= piece.len();
        }
        self.open.get(skip).copied()
    }

    /// All bytes, as they lie.
    pub(crate) fn pieces(&self) -> impl Iterator<Item = &[u8]> {
        self.pieces.iter().map(|piece| &piece[..]).chain((!self.open.is_empty()).then_some(&self.open[..]))
    }

    /// Appends up to `length` bytes from `offset` on, which stay.
    pub(crate) fn copy_to(&mut self, offset: usize, length: usize, out: &mut Tail) {
        self.flush();
        let (mut skip, mut left) = (offset, length);
        for piece in &self.pieces {
            if left == 0 {
                return;
            }
            if skip >= piece.len() {
                skip -= piece.len();
                continue;
            }
            let part = piece.slice(skip..piece.len().min(skip + left));
            skip = 0;
            left -= part.len();
            out.push(part);
        }
    }

    /// Lets go of the first bytes.
    pub(crate) fn drop_front(&mut self, bytes: usize) {
        let mut left = bytes;
        while left > 0 {
            if self.pieces.is_empty() {
                self.flush();
            }
            let Some(front) = self.pieces.front_mut() else { return };
            if front.len() > left {
                let _ = front.split_to(left);
                return;
            }
            left -= front.len();
            self.pieces.pop_front();
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_queue_that_was_put_back_cuts_its_pieces_where_it_would_have() {
        let (now, kind) = (weft_core::Instant::from_millis(7), &crate::kind::KIND);
        let put_back = |queue: &Unread| -> Unread {
            let state = weft_core::State::written(kind, now, |out| out.put(queue));
            state.taken(kind, now, |from| from.take()).unwrap()
        };
        let lengths = |queue: &Unread| queue.pieces().map(<[u8]>::len).collect::<Vec<_>>();
        let mut rng = weft_core::Rng::for_name(6, "put back");
        for every in [1, 7, 60] {
            let (mut plain, mut restored, mut held) = (Unread::default(), Unread::default(), 0);
            for round in 0..2000 {
                let bytes = Bytes::from(vec![0; [1, 48, 300, 511, 1448][rng.below(5) as usize]]);
                held += bytes.len();
                let (read, taken) = (rng.below(20) == 0, rng.below(held as u64 + 1) as usize);
                for queue in [&mut plain, &mut restored] {
                    queue.push(bytes.clone());
                    if read {
                        queue.copy_to(0, taken, &mut Tail::new());
                        queue.drop_front(taken);
                    }
                }
                held -= if read { taken } else { 0 };
                if round % every == 0 {
                    restored = put_back(&restored);
                }
                assert_eq!(lengths(&plain), lengths(&restored), "round {round}");
            }
        }
    }

    #[test]
    fn any_sizes_come_out_as_they_went_in_and_small_ones_share_memory() {
        let (mut queue, mut expected, mut read) = (Unread::default(), Vec::new(), 0usize);
        let mut rng = weft_core::Rng::for_name(3, "unread");
        for round in 0..3000u32 {
            let length = [1, 2, 100, 511, 512, 1448][rng.below(6) as usize];
            let bytes: Vec<u8> = (0..length).map(|at: u32| (round * 7 + at) as u8).collect();
            expected.extend_from_slice(&bytes);
            queue.push(bytes.into());
            if rng.below(4) == 0 {
                let held = expected.len() - read;
                let offset = rng.below(held as u64) as usize;
                assert_eq!(queue.byte_at(offset), Some(expected[read + offset]));
                let mut out = Tail::new();
                queue.copy_to(offset, 700, &mut out);
                assert_eq!(out.concat(), expected[read + offset..expected.len().min(read + offset + 700)]);
                let taken = rng.below(held as u64 + 1) as usize;
                queue.drop_front(taken);
                read += taken;
            }
        }
        assert_eq!(queue.byte_at(expected.len() - read), None);
        let mut ones = Unread::default();
        (0..100_000).for_each(|_| ones.push(Bytes::from_static(b"x")));
        assert!(ones.pieces.len() <= 1 + 100_000 / JOIN_BUFFER_BYTES + 1, "{} pieces", ones.pieces.len());
    }
}
