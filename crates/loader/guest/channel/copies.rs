//! Pieces of the program's memory on their way to the controller, and what it has written on its way back.

use crate::abi::{self, Channel};
use crate::calls::Piece;
use crate::x86_64::entry;
use core::sync::atomic::Ordering::Relaxed;

/// Copies into the program what the controller has put into the buffer.
pub fn apply_writes(c: &Channel) -> bool {
    let mut at = 0;
    let mut good = true;
    for _ in 0..c.writes.load(Relaxed) {
        let mut head = [0; 16];
        c.data.get(at, &mut head);
        let (address, bytes) = head.split_at(8);
        let number = |bytes: &[u8]| bytes.iter().rev().fold(0_usize, |sum, byte| sum << 8 | usize::from(*byte));
        let (address, bytes) = (number(address), number(bytes));
        let from = c.data.pointer() as usize + at + 16;
        good &= entry::copy(address, from, bytes.min(abi::DATA_BYTES));
        at += 16 + bytes.next_multiple_of(8);
    }
    c.writes.store(0, Relaxed);
    good
}

/// Does what [`abi::FETCH`] says. A page that comes late is waited for here, by the thread whose it is, and by nobody else.
pub fn fetch(c: &Channel) {
    const PAGE: usize = 4096;
    let bad = !apply_writes(c);
    let mut at = 0;
    for copy in &c.copies {
        let (address, wanted) = (copy.address.load(Relaxed) as usize, copy.bytes.load(Relaxed) as usize);
        let wanted = if address == 0 { 0 } else { wanted.min(abi::DATA_BYTES - at) };
        let into = c.data.pointer() as usize + at;
        let mut got = 0;
        if entry::copy(into, address, wanted) {
            got = wanted;
        } else {
            // As far as there are pages.
            while got < wanted {
                let some = (PAGE - (address.wrapping_add(got)) % PAGE).min(wanted - got);
                if !entry::copy(into + got, address.wrapping_add(got), some) {
                    break;
                }
                got += some;
            }
        }
        copy.bytes.store(got as u32, Relaxed);
        copy.at.store(at as u32, Relaxed);
        at += wanted.next_multiple_of(8);
    }
    c.writes.store(u32::from(bad), Relaxed);
}

/// Adds a piece of the program's memory to what goes with a call. What cannot be read is left out: the controller finds out itself.
pub struct Copies<'a> {
    channel: &'a Channel,
    used: usize,
    at: usize,
}

impl<'a> Copies<'a> {
    pub fn new(channel: &'a Channel) -> Copies<'a> {
        for copy in &channel.copies {
            copy.address.store(0, Relaxed);
        }
        Copies { channel, used: 0, at: 0 }
    }
    /// What goes along with the arguments of a call: data last, because it takes all the room that there is.
    pub fn add_pieces(&mut self, pieces: &[Piece; 6], arguments: &[usize; 6]) {
        let counted = |at: usize| arguments.get(at + 1).copied().unwrap_or(0);
        for (at, piece) in pieces.iter().enumerate() {
            match piece {
                Piece::Bytes(bytes) => self.add(arguments[at], usize::from(*bytes)),
                Piece::Counted(most) => self.add(arguments[at], (counted(at) as u32 as usize).min(usize::from(*most))),
                Piece::None | Piece::Data => {}
            }
        }
        for (at, _) in pieces.iter().enumerate().filter(|(_, piece)| matches!(piece, Piece::Data)) {
            self.add(arguments[at], counted(at));
        }
    }

    pub fn add(&mut self, address: usize, bytes: usize) {
        let bytes = bytes.min(abi::DATA_BYTES - self.at);
        let Some(copy) = self.channel.copies.get(self.used) else { return };
        if address == 0 || bytes == 0 || !entry::copy(self.channel.data.pointer() as usize + self.at, address, bytes) {
            return;
        }
        copy.address.store(address as u64, Relaxed);
        copy.bytes.store(bytes as u32, Relaxed);
        copy.at.store(self.at as u32, Relaxed);
        self.used += 1;
        self.at += bytes.next_multiple_of(8);
    }
}
