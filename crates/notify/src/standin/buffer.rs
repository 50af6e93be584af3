//! Where the programs' data is read: blocks that slices of it share, used again when all slices are gone.
//!
//! Without this a stream in bulk transfer allocates a block per megabyte, which costs a page fault per 4 KiB: as much as the copy.

use bytes::BytesMut;
use std::collections::VecDeque;

/// Bytes of a block.
const BLOCK_BYTES: usize = 1024 * 1024;
/// Blocks kept to be used again; more are given back to the allocator when their data is acknowledged.
const BLOCKS_MAX: usize = 16;

/// A block with room, and those that are in use below.
#[derive(Debug, Default)]
pub struct ReadBuffer {
    current: BytesMut,
    used: VecDeque<BytesMut>,
}

impl ReadBuffer {
    /// An empty buffer with room for at least `bytes` (at most a block). What is read into it is to be split off or cleared.
    pub fn room(&mut self, bytes: usize) -> &mut BytesMut {
        debug_assert!(bytes <= BLOCK_BYTES);
        self.current.clear();
        if self.current.capacity() < bytes && !self.current.try_reclaim(BLOCK_BYTES) {
            // The oldest is the likeliest to be free; when it is not, the others are worth a look before new memory is.
            let free = self.used.iter_mut().position(|block| block.try_reclaim(BLOCK_BYTES));
            let next = free.and_then(|at| self.used.remove(at)).unwrap_or_else(|| BytesMut::with_capacity(BLOCK_BYTES));
            if self.used.len() >= BLOCKS_MAX {
                self.used.pop_front();
            }
            self.used.push_back(std::mem::replace(&mut self.current, next));
        }
        &mut self.current
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use bytes::Bytes;

    fn read(buffer: &mut ReadBuffer, bytes: usize) -> Bytes {
        let room = buffer.room(bytes);
        assert!(room.capacity() >= bytes);
        room.resize(bytes, 7);
        room.split().freeze()
    }

    #[test]
    fn blocks_are_used_again_and_slices_stay_as_they_are() {
        let mut buffer = ReadBuffer::default();
        let kept = read(&mut buffer, 1000);
        let mut places = std::collections::BTreeSet::new();
        for _ in 0..200 {
            places.insert(read(&mut buffer, 64 * 1024).as_ptr() as usize);
        }
        assert!(places.len() <= 3 * BLOCK_BYTES / (64 * 1024), "{} places for slices that lived one after the other", places.len());
        assert!(kept.iter().all(|byte| *byte == 7));
        let held: Vec<Bytes> = (0..16 * (BLOCKS_MAX + 4)).map(|_| read(&mut buffer, 64 * 1024)).collect();
        assert!(buffer.used.len() <= BLOCKS_MAX);
        assert!(held.iter().all(|slice| slice.len() == 64 * 1024));
    }
}
