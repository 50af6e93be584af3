//! The way to the controller and back.

use crate::abi::{self, Channel, Files, Header, Mirror, Process};
use crate::calls::number as nr;
use crate::calls::Piece;
use crate::sys;
use crate::thread::Thread;
use crate::x86_64::gate;
use core::sync::atomic::Ordering::{Acquire, Relaxed, Release, SeqCst};

/// The first page of the arena.
pub fn header() -> &'static Header {
    // SAFETY: mapped by `map_arena` before anything else, for ever.
    unsafe { &*(abi::ARENA_ADDRESS as *const Header) }
}
pub fn process(index: usize) -> &'static Process {
    // SAFETY: as in `header`; the index is below the bound.
    unsafe { &*((abi::ARENA_ADDRESS + abi::process_at(index % abi::PROCESSES_MAX)) as *const Process) }
}
pub fn channel(index: usize) -> &'static Channel {
    // SAFETY: as in `header`.
    unsafe { &*((abi::ARENA_ADDRESS + abi::channel_at(index % abi::CHANNELS_MAX)) as *const Channel) }
}
pub fn mirror(index: usize) -> &'static Mirror {
    // SAFETY: as in `header`; any bytes are a mirror.
    unsafe { &*((abi::ARENA_ADDRESS + abi::mirror_at(index % abi::MIRRORS)) as *const Mirror) }
}

/// The numbers of files.
pub fn files() -> &'static Files {
    // SAFETY: as in `header`.
    unsafe { &*((abi::ARENA_ADDRESS + abi::files_at()) as *const Files) }
}

/// Maps the arena from its descriptor. False: there is none.
pub fn map_arena() -> bool {
    // PROT_READ|PROT_WRITE, MAP_SHARED|MAP_FIXED_NOREPLACE|MAP_NORESERVE
    let at = sys::call(nr::MMAP, &[abi::ARENA_ADDRESS, abi::ARENA_BYTES, 3, 0x10_4001, abi::DESCRIPTOR_ARENA as usize, 0]);
    at == abi::ARENA_ADDRESS as isize && header().magic.load(Relaxed) == abi::MAGIC
}

/// Posts a call and sleeps until the answer is there. What the controller wants copied is copied.
pub fn post(t: &mut Thread, number: u64, arguments: &[u64]) -> i64 {
    let c = t.channel;
    for copy in &c.copies {
        copy.address.store(0, Relaxed);
    }
    exchange(t, number, arguments)
}

/// As [`post`], with what lies in the channel's buffer and its list of copies.
pub fn exchange(t: &mut Thread, number: u64, arguments: &[u64]) -> i64 {
    if t.strict.on {
        return crate::strict::call::exchange(t, number, arguments);
    }
    let c = t.channel;
    c.number.store(number, Relaxed);
    for (at, word) in c.arguments.iter().enumerate() {
        word.store(arguments.get(at).copied().unwrap_or(0), Relaxed);
    }
    c.word.store(abi::POSTED, Release);
    let header = header();
    let controller = &header.controller;
    controller.fetch_add(1, SeqCst);
    // Who sleeps says so first, and then looks at the word once more (the kernel does): nobody is missed.
    if header.controller_sleeps.load(SeqCst) != 0 {
        // FUTEX_WAKE
        sys::call(nr::FUTEX, &[controller.as_ptr() as usize, 1, 1, 0, 0, 0]);
    }
    while c.word.load(Acquire) == abi::POSTED {
        c.sleeps.store(1, SeqCst);
        // FUTEX_WAIT
        sys::call(nr::FUTEX, &[c.word.as_ptr() as usize, 0, abi::POSTED as usize, 0, 0, 0]);
    }
    c.sleeps.store(0, Relaxed);
    c.word.store(abi::RUNNING, Relaxed);
    gate::runs(t);
    let mut result = c.result.load(Relaxed);
    match c.answer.load(Relaxed) {
        abi::DIE => crate::signal::die_of(result as usize),
        abi::RETURN => {
            if !apply_writes(c) {
                result = sys::EFAULT as i64;
            }
        }
        _ => {}
    }
    result
}

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
        good &= crate::x86_64::entry::copy(address, from, bytes.min(abi::DATA_BYTES));
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
        if crate::x86_64::entry::copy(into, address, wanted) {
            got = wanted;
        } else {
            // As far as there are pages.
            while got < wanted {
                let some = (PAGE - (address.wrapping_add(got)) % PAGE).min(wanted - got);
                if !crate::x86_64::entry::copy(into + got, address.wrapping_add(got), some) {
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
        if address == 0 || bytes == 0 || !crate::x86_64::entry::copy(self.channel.data.pointer() as usize + self.at, address, bytes) {
            return;
        }
        copy.address.store(address as u64, Relaxed);
        copy.bytes.store(bytes as u32, Relaxed);
        copy.at.store(self.at as u32, Relaxed);
        self.used += 1;
        self.at += bytes.next_multiple_of(8);
    }
}

/// A new process makes itself known: the kernel adds its number outside the namespace to what comes through the socket.
pub fn announce() {
    let byte = [2_u8];
    sys::call(nr::WRITE, &[abi::DESCRIPTOR_CONTROL as usize, byte.as_ptr() as usize, 1]);
}
