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
}

/// Pieces by reference; what is still being joined is copied.
impl Field for Unread {
    fn write(&self, out: &mut Writer) {
        out.put(&self.pieces);
        out.content(&self.open);
    }
    fn read(from: &mut Reader<'_>) -> Result<Unread, Damage> {
        let pieces: VecDeque<Bytes> = from.take()?;
        let joined = from.content()?;
        let mut open = BytesMut::new();
        if !joined.is_empty() {
            open.reserve(JOIN_BUFFER_BYTES.max(joined.len()));
            open.extend_from_slice(joined);
        }
        Ok(Unread { pieces, open })
    }
}

impl Unread {
    /// Adds bytes at the end.
    pub(crate) fn push(&mut self, bytes: Bytes) {
        let behind = !self.pieces.is_empty() || !self.open.is_empty();
        if behind && bytes.len() < JOIN_BYTES {
            if self.open.capacity() - self.open.len() < bytes.len() {
                self.flush();
                self.open = BytesMut::with_capacity(JOIN_BUFFER_BYTES);
            }
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
