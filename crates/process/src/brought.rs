//! In real time: memory of a program that its own thread copies for a call, beyond what came with the call.
//!
//! The controller serves every program of the node, so it touches no program's memory: a page that comes late would stop them all. What a
//! call needs and did not bring it asks the thread for ([`abi::FETCH`]); the thread copies it, waits there for its pages as it would in the
//! kernel, and posts the call again, which then begins anew. So whoever answers a call reads all that it needs before it changes anything, but for
//! `Thread::messages` and `Thread::moved`, which count what is done. What is written and does not fit the channel goes in portions, the same way.

use super::posted::Posted;
use bytes::BytesMut;
use std::sync::atomic::Ordering::Relaxed;
use weft_intercept::memory::LATER;
use weft_intercept::sys::Errno;
use weft_loader::abi::{self, Channel};

/// Most bytes that one call brings so: more than the largest of them needs (a call with 1024 messages of 64 KiB ends early).
const BYTES_MAX: usize = 4 << 20;

/// A piece of memory.
#[derive(Debug)]
struct Piece {
    address: u64,
    wanted: usize,
    /// As many as there were.
    bytes: Vec<u8>,
}

/// What the thread of a call has brought, and what it is asked for.
#[derive(Debug, Default)]
pub(super) struct Brought {
    pieces: Vec<Piece>,
    wanted: Vec<(u64, usize)>,
    /// The call that is posted again.
    call: Option<(u64, [u64; 6])>,
    /// What is still to be written before the call returns this, or goes on.
    unwritten: Option<(Vec<u8>, Option<i64>)>,
}

impl Brought {
    fn keep(&mut self, address: u64, wanted: usize, bytes: Vec<u8>) {
        let sum: usize = self.pieces.iter().map(|piece| piece.bytes.len()).sum();
        if sum + bytes.len() > BYTES_MAX {
            self.pieces.clear();
        }
        self.pieces.push(Piece { address, wanted, bytes });
    }

    /// The thread is back: is this the call that it was asked to post again?
    pub fn is_back(&mut self, posted: &Posted, channel: &Channel) -> bool {
        if self.call.take() != Some((posted.number, posted.arguments)) {
            return false;
        }
        for ((address, wanted), copy) in std::mem::take(&mut self.wanted).into_iter().zip(&channel.copies) {
            self.take(address, wanted, copy, channel);
        }
        true
    }

    fn take(&mut self, address: u64, wanted: usize, copy: &abi::Copy, channel: &Channel) {
        let mut bytes = vec![0; (copy.bytes.load(Relaxed) as usize).min(wanted)];
        let got = channel.data.get(copy.at.load(Relaxed) as usize, &mut bytes);
        bytes.truncate(got);
        self.keep(address, wanted, bytes);
        copy.address.store(0, Relaxed);
    }

    /// What came with the call is known from now on, whatever the channel is used for.
    pub fn keep_copies(&mut self, channel: &Channel) {
        for copy in &channel.copies {
            // A copy is no longer than the channel, whatever the program says of it.
            let (address, bytes) = (copy.address.load(Relaxed), (copy.bytes.load(Relaxed) as usize).min(abi::DATA_BYTES));
            if address != 0 {
                self.take(address, bytes, copy, channel);
            }
        }
    }

    /// Asks the thread for what is wanted.
    pub fn ask(&mut self, posted: &Posted, channel: &Channel) {
        let mut room = abi::DATA_BYTES;
        let mut fits = |bytes: usize| {
            let fits = bytes <= room;
            room = room.saturating_sub(bytes.next_multiple_of(8));
            fits
        };
        let count = self.wanted.iter().map(|(_, bytes)| *bytes).take(channel.copies.len()).take_while(|bytes| fits(*bytes)).count();
        self.wanted.truncate(count);
        for (copy, (address, bytes)) in channel.copies.iter().zip(&self.wanted) {
            copy.address.store(*address, Relaxed);
            copy.bytes.store(*bytes as u32, Relaxed);
        }
        self.again(posted, channel);
    }

    fn again(&mut self, posted: &Posted, channel: &Channel) {
        self.call = Some((posted.number, posted.arguments));
        channel.answer.store(abi::FETCH, Relaxed);
    }

    /// Is its thread asked to post the call again?
    pub fn is_asked(&self) -> bool {
        self.call.is_some()
    }

    /// What does not fit goes when the thread is back; then the call returns `result`, or goes on.
    pub fn write_rest(&mut self, rest: Vec<u8>, result: Option<i64>, posted: &Posted, channel: &Channel) {
        self.wanted.clear();
        self.unwritten = Some((rest, result));
        self.again(posted, channel);
    }
    pub fn take_rest(&mut self) -> Option<(Vec<u8>, Option<i64>)> {
        self.unwritten.take()
    }

    fn find(&self, address: u64, bytes: usize) -> Option<&[u8]> {
        self.pieces.iter().find_map(|piece| {
            let at = usize::try_from(address.checked_sub(piece.address)?).ok()?;
            match piece.bytes.get(at..at.checked_add(bytes)?) {
                Some(found) => Some(found),
                // There is no more of it.
                None if at < piece.wanted && piece.bytes.len() < piece.wanted => Some(piece.bytes.get(at..).unwrap_or_default()),
                None => None,
            }
        })
    }
    fn want(&mut self, address: u64, bytes: usize) {
        if !self.wanted.contains(&(address, bytes)) {
            self.wanted.push((address, bytes));
        }
    }

    /// As `Memory::read`.
    pub fn read(&mut self, pointer: u64, into: &mut [u8]) -> Result<(), Errno> {
        if into.len() > abi::DATA_BYTES {
            return Err(Errno(libc::EFAULT));
        }
        match self.find(pointer, into.len()) {
            Some(bytes) if bytes.len() == into.len() => {
                into.copy_from_slice(bytes);
                Ok(())
            }
            Some(_) => Err(Errno(libc::EFAULT)),
            None => {
                self.want(pointer, into.len());
                Err(LATER)
            }
        }
    }

    /// As `Memory::gather`, at most so many bytes as fit a channel.
    pub fn gather(&mut self, vectors: &[(u64, u64)], limit: usize) -> Result<BytesMut, Errno> {
        let mut all = BytesMut::new();
        let mut left = limit.min(abi::DATA_BYTES);
        let mut cut = false;
        for (address, bytes) in vectors {
            let bytes = usize::try_from(*bytes).unwrap_or(usize::MAX).min(left);
            left -= bytes;
            if bytes == 0 {
                continue;
            }
            match self.find(*address, bytes) {
                Some(_) if cut => {}
                Some(found) => {
                    all.extend_from_slice(found);
                    cut = found.len() < bytes;
                }
                None => self.want(*address, bytes),
            }
        }
        match self.wanted.is_empty() {
            true if cut && all.is_empty() => Err(Errno(libc::EFAULT)),
            true => Ok(all),
            false => Err(LATER),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_was_brought_is_found_in_parts_and_what_was_not_is_asked_for() {
        let mut brought = Brought::default();
        brought.keep(1000, 8, b"abcdefgh".to_vec());
        brought.keep(2000, 8, b"xyz".to_vec());
        let mut into = [0; 3];
        assert_eq!((brought.read(1002, &mut into), &into), (Ok(()), b"cde"));
        assert_eq!(brought.read(2001, &mut into), Err(Errno(libc::EFAULT)), "there is less of it");
        assert_eq!(brought.read(1006, &mut into), Err(LATER), "a part that was not asked for");
        assert_eq!(brought.wanted, [(1006, 3)]);
        brought.wanted.clear();
        assert_eq!(
            brought.gather(&[(1000, 4), (3000, 0), (2000, 8), (1004, 4)], 100).as_deref(),
            Ok(&b"abcdxyz"[..]),
            "up to the bad page"
        );
        assert_eq!(brought.gather(&[(1000, 8), (4000, 8), (5000, 8)], 12), Err(LATER));
        assert_eq!(brought.wanted, [(4000, 4)], "no more than the limit");
        brought.wanted.clear();
        brought.keep(6000, 8, Vec::new());
        assert_eq!(brought.gather(&[(6000, 8)], 8), Err(Errno(libc::EFAULT)));
    }

    #[test]
    fn what_a_program_says_of_its_copies_takes_no_more_room_than_there_is() {
        // SAFETY: all of a channel is atomic, or bytes.
        let channel: Box<Channel> = unsafe { Box::new_zeroed().assume_init() };
        for copy in &channel.copies {
            copy.address.store(1000, Relaxed);
            copy.bytes.store(u32::MAX, Relaxed);
        }
        let mut brought = Brought::default();
        brought.keep_copies(&channel);
        let room: usize = brought.pieces.iter().map(|piece| piece.bytes.capacity()).sum();
        assert!(room <= channel.copies.len() * abi::DATA_BYTES, "{room} bytes");
    }

    #[test]
    fn what_calls_bring_is_bounded() {
        let mut brought = Brought::default();
        for address in 0..2 * BYTES_MAX / abi::DATA_BYTES {
            brought.keep(address as u64, abi::DATA_BYTES, vec![0; abi::DATA_BYTES]);
            assert!(brought.pieces.iter().map(|piece| piece.bytes.len()).sum::<usize>() <= BYTES_MAX);
        }
    }
}
