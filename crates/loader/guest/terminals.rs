//! What a descriptor's word says, and what is known of the node's pseudoterminals: which there are, and what is on its way in them.

use crate::abi::{self, kind};
use crate::arena::header;
use crate::calls::number as nr;
use crate::sys;
use core::sync::atomic::Ordering::Relaxed;
use core::sync::atomic::{AtomicU32, AtomicU64};

const FIONREAD: usize = 0x541b;
const TIOCGPTPEER: usize = 0x5441;
const TIOCGPTN: usize = 0x8004_5430;
const POLLIN: u16 = 1;

/// What kind of descriptor it is (`abi::kind`).
pub fn kind_of(word: u64) -> u64 {
    word >> 56 & 0x7f
}

/// Most looks at a terminal whose worker is waited for, and the time between two of them.
const LOOKS_MAX: usize = 100;
const LOOK_NANOS: usize = 100_000;
/// So often it has to look the same.
const SAME: usize = 4;

/// Most looks for what is known to come.
const ARRIVALS_MAX: usize = 4000;

/// Below [`abi::SLAVE`] in a descriptor word: which terminal. That of /dev/tty is not known.
pub const NUMBER: u64 = 0xffff;
const ANY: u64 = NUMBER;

/// What goes into the descriptor word of a terminal. `device`: its `st_rdev`.
pub fn of_device(fd: usize, device: u64) -> u64 {
    match device {
        // /dev/ptmx
        0x502 => {
            header().terminals.store(1, Relaxed);
            let mut number = 0_u32;
            sys::call(nr::IOCTL, &[fd, TIOCGPTN, &raw mut number as usize]);
            abi::MASTER | u64::from(number) & NUMBER
        }
        0x500 => abi::SLAVE | ANY,
        _ => number_of(device).map_or(0, |number| abi::SLAVE | number),
    }
}

/// /dev/pts/N has one of the majors 136 to 143, which have 256 numbers each.
fn number_of(device: u64) -> Option<u64> {
    let major = device >> 8 & 0xfff;
    (136..144).contains(&major).then_some((major - 136) << 8 | device & 0xff)
}

/// Of how many terminals is known what they are, and the bit of one.
fn bit(bits: &[AtomicU64; 4], terminal: u64) -> (&AtomicU64, u64) {
    (&bits[terminal as usize / 64 % bits.len()], 1 << (terminal % 64))
}

pub fn is(word: u64, what: u64) -> bool {
    kind_of(word) == kind::NATIVE && word & what != 0
}

/// Whether somebody has opened the slave yet: before, opening it for a moment would look like a hang-up.
pub fn note(terminal: u64, opened: bool) {
    let (word, bit) = bit(&header().slaves, terminal);
    if opened {
        word.fetch_or(bit, Relaxed)
    } else {
        if let Some(coming) = coming(terminal) {
            coming.store(0, Relaxed);
        }
        word.fetch_and(!bit, Relaxed)
    };
}
/// What is to come to the master of a terminal.
pub fn coming(terminal: u64) -> Option<&'static AtomicU32> {
    header().terminals_coming.get((terminal & NUMBER) as usize)
}
pub fn change(coming: &AtomicU32, change: impl Fn(u32) -> u32) {
    let _ = coming.fetch_update(Relaxed, Relaxed, |bytes| (bytes <= abi::COUNTED_MAX).then(|| change(bytes)));
}
/// Something goes from a slave to its master: so many bytes, if that is known.
pub fn note_written(word: u64, bytes: Option<u32>) {
    let add = |coming: &AtomicU32| change(coming, |before| bytes.map_or(abi::UNKNOWN, |bytes| before.saturating_add(bytes)));
    match word & NUMBER {
        ANY => {
            header().terminals_written.iter().for_each(|word| word.store(u64::MAX, Relaxed));
            header().terminals_coming.iter().for_each(add);
        }
        terminal => {
            let (word, bit) = bit(&header().terminals_written, terminal);
            word.fetch_or(bit, Relaxed);
            if let Some(coming) = coming(terminal) {
                add(coming);
            }
        }
    }
}

/// A file has been opened.
pub fn opened(fd: usize) {
    if header().terminals.load(Relaxed) == 0 {
        return;
    }
    let mut stat = [0_u64; 18];
    let found = sys::call(nr::FSTAT, &[fd, stat.as_mut_ptr() as usize]) == 0;
    // st_rdev
    if let Some(number) = number_of(stat[5])
        && found
    {
        note(number, true);
    }
}

/// Waits until the kernel's workers have carried what was written. poll(2) waits for the one of its own end, if there is nothing to read there.
pub fn settle(master: usize, word: u64) {
    look_until_nothing_comes(master, word);
    if let Some(coming) = coming(word)
        && coming.load(Relaxed) != abi::UNCOUNTED
    {
        coming.store(unread(master), Relaxed);
    }
}

/// How many bytes can be read. The kernel tells between two deliveries, never amid one (TIOCINQ takes `termios_rwsem`, drivers/tty/n_tty.c).
fn unread(fd: usize) -> u32 {
    let mut bytes = 0_u32;
    sys::call(nr::IOCTL, &[fd, FIONREAD, &raw mut bytes as usize]);
    bytes
}

fn pause() {
    sys::call(nr::NANOSLEEP, &[[0, LOOK_NANOS].as_ptr() as usize, 0]);
}

/// Waits until all that slaves have written has come to the master. False: nobody knows how much that is.
fn arrived(master: usize, word: u64) -> bool {
    let Some(wanted) = coming(word).map(|coming| coming.load(Relaxed)).filter(|bytes| *bytes <= abi::COUNTED_MAX) else { return false };
    for _ in 0..ARRIVALS_MAX {
        let bytes = unread(master);
        if bytes >= wanted {
            return bytes == wanted;
        }
        pause();
    }
    false
}

/// As the kernel's workers are late by more than one would wait when the machine is busy, this is for what cannot be counted: echoes, and output that is
/// changed on its way.
fn look_until_nothing_comes(master: usize, word: u64) {
    const PEER_FLAGS: usize = 0o2 | 0o400 | 0o4000 | 0o2_000_000;
    let (opened, bit) = bit(&header().slaves, word & NUMBER);
    let is_opened = opened.load(Relaxed) & bit != 0;
    let peer = if is_opened { sys::call(nr::IOCTL, &[master, TIOCGPTPEER, PEER_FLAGS]) } else { -1 };
    let mut before = [u32::MAX; 3];
    let mut same = 0;
    for _ in 0..LOOKS_MAX {
        let [first, second] = [peer, master as isize].map(|fd| {
            let set = [(fd as i32, POLLIN, 0_u16)];
            sys::call(nr::POLL, &[set.as_ptr() as usize, usize::from(fd >= 0), 0]);
            set[0].2
        });
        if (first | second) & POLLIN == 0 {
            break;
        }
        let mut now = [0, 0, u32::from(first) << 16 | u32::from(second)];
        for (fd, bytes) in [peer, master as isize].into_iter().zip(&mut now) {
            if fd >= 0 {
                *bytes = unread(fd as usize);
            }
        }
        same = if now == before { same + 1 } else { 0 };
        if same == SAME {
            break;
        }
        before = now;
        pause();
    }
    if peer >= 0 {
        sys::call(nr::CLOSE, &[peer as usize]);
    }
}

/// A master is about to be read or looked at.
pub fn look(fd: usize, word: u64) {
    if is(word, abi::MASTER) {
        let (written, bit) = bit(&header().terminals_written, word & NUMBER);
        if written.fetch_and(!bit, Relaxed) & bit != 0 && !arrived(fd, word) {
            settle(fd, word);
        }
    }
}
