//! Pseudoterminals: the kernel's, but for two things. What is written to one end comes to the other by way of a worker of the kernel's, which is waited
//! for here, so that it is there as soon as the call returns; and the signals that the kernel sends to whoever sits at one (^C, ^Z, a change of its size,
//! reading in the background) are sent by the model: the kernel's own are ignored by all programs.

use crate::abi::{self, kind};
use crate::channel::{header, post};
use crate::descriptor;
use crate::signal;
use crate::sys;
use crate::thread::Thread;
use crate::x86_64::numbers as nr;
use core::sync::atomic::AtomicU64;
use core::sync::atomic::Ordering::Relaxed;

const TCGETS: usize = 0x5401;
const TIOCGPGRP: usize = 0x540f;
const TIOCSPGRP: usize = 0x5410;
const TIOCGWINSZ: usize = 0x5413;
const TIOCSWINSZ: usize = 0x5414;
const FIONREAD: usize = 0x541b;
const TIOCGPTPEER: usize = 0x5441;
const TIOCGPTN: usize = 0x8004_5430;
const TIOCSPTLCK: usize = 0x4004_5431;
const TIOCSIG: usize = 0x4004_5436;
const SIGTTIN: usize = 21;
const SIGTTOU: usize = 22;
const SIGWINCH: usize = 28;
const EIO: isize = -5;
const POLLIN: u16 = 1;

/// Most looks at a terminal whose worker is waited for, and the time between two of them.
const LOOKS_MAX: usize = 100;
const LOOK_NANOS: usize = 100_000;
/// So often it has to look the same.
const SAME: usize = 4;

/// Below [`abi::SLAVE`] in a descriptor word: which terminal. That of /dev/tty is not known.
const NUMBER: u64 = 0xffff;
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

fn is(word: u64, what: u64) -> bool {
    descriptor::kind_of(word) == kind::NATIVE && word & what != 0
}

/// Whether somebody has opened the slave yet: before, opening it for a moment would look like a hang-up.
fn note(terminal: u64, opened: bool) {
    let (word, bit) = bit(&header().slaves, terminal);
    if opened {
        word.fetch_or(bit, Relaxed)
    } else {
        word.fetch_and(!bit, Relaxed)
    };
}
/// Something goes from a slave to its master.
fn note_written(word: u64) {
    match word & NUMBER {
        ANY => header().terminals_written.iter().for_each(|word| word.store(u64::MAX, Relaxed)),
        terminal => {
            let (word, bit) = bit(&header().terminals_written, terminal);
            word.fetch_or(bit, Relaxed);
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
fn settle(master: usize, word: u64) {
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
                sys::call(nr::IOCTL, &[fd as usize, FIONREAD, core::ptr::from_mut(bytes) as usize]);
            }
        }
        same = if now == before { same + 1 } else { 0 };
        if same == SAME {
            break;
        }
        before = now;
        sys::call(nr::NANOSLEEP, &[[0, LOOK_NANOS].as_ptr() as usize, 0]);
    }
    if peer >= 0 {
        sys::call(nr::CLOSE, &[peer as usize]);
    }
}

/// A master is about to be read or looked at.
pub fn look(fd: usize, word: u64) {
    if is(word, abi::MASTER) {
        let (written, bit) = bit(&header().terminals_written, word & NUMBER);
        if written.fetch_and(!bit, Relaxed) & bit != 0 {
            settle(fd, word);
        }
    }
}

/// What the program's `bytes` from `at` on meant to the terminal whose master they were written to.
pub fn written(t: &mut Thread, fd: usize, word: u64, at: usize, bytes: usize) {
    if is(word, abi::SLAVE) {
        note_written(word);
        return;
    }
    if !is(word, abi::MASTER) {
        return;
    }
    settle(fd, word);
    const ISIG: u32 = 1;
    const SIGNALS: [(usize, usize); 3] = [(0, 2), (1, 3), (10, 20)];
    // struct termios: four words of flags, c_line, c_cc.
    let mut termios = [0_u8; 64];
    if sys::call(nr::IOCTL, &[fd, TCGETS, termios.as_mut_ptr() as usize]) != 0
        || u32::from_ne_bytes([termios[12], termios[13], termios[14], termios[15]]) & ISIG == 0
    {
        return;
    }
    let mut done = 0;
    while done < bytes {
        let mut piece = [0_u8; 256];
        let count = (bytes - done).min(piece.len());
        if sys::copy_in(at + done, &mut piece[..count]).is_err() {
            return;
        }
        for byte in &piece[..count] {
            // _POSIX_VDISABLE is 0.
            let sent = SIGNALS.iter().find(|(place, _)| *byte != 0 && termios[17 + place] == *byte);
            if let Some((_, signal)) = sent {
                to_foreground(t, fd, *signal);
            }
        }
        done += count;
    }
}

fn group_of(fd: usize) -> Option<u32> {
    let mut group = 0_u32;
    (sys::call(nr::IOCTL, &[fd, TIOCGPGRP, &raw mut group as usize]) == 0 && group != 0).then_some(group)
}
fn to_foreground(t: &mut Thread, fd: usize, signal: usize) {
    if let Some(group) = group_of(fd) {
        post(t, abi::TERMINAL, &[u64::from(group), signal as u64, 0]);
    }
}

/// A read(2) of a terminal has come to this: in the background it stops the program.
pub fn read(t: &mut Thread, fd: usize, word: u64, result: isize) -> isize {
    if result == EIO && is(word, abi::SLAVE) { background(t, fd, SIGTTIN).unwrap_or(result) } else { result }
}

/// What happens to a program that is not in the foreground of its terminal: a signal to its group. None: nothing.
fn background(t: &mut Thread, fd: usize, signal: usize) -> Option<isize> {
    let own = sys::call(nr::GETPGRP, &[]) as u32;
    let foreground = group_of(fd)?;
    let ignored = t.process.actions[signal].handler.load(Relaxed) == 1 || t.channel.mask.load(Relaxed) & 1 << (signal - 1) != 0;
    if foreground == own || ignored {
        return None;
    }
    // tty_check_change: nobody would continue an orphaned group.
    let sent = post(t, abi::TERMINAL, &[u64::from(own), signal as u64, 1]);
    Some(if sent < 0 { EIO } else { abi::RESTART as isize })
}

/// An ioctl(2) of a terminal.
pub fn control(t: &mut Thread, a: &[usize; 6], word: u64) -> isize {
    let (fd, what) = (a[0], a[1] as u32 as usize);
    // TCSETS, TCSETSW, TCSETSF, TCSETA, TCSETAW, TCSETAF, TCSBRK, TCXONC, TCFLSH
    let changes = matches!(what, 0x5402..=0x5404 | 0x5406..=0x540b | TIOCSPGRP);
    if changes
        && is(word, abi::SLAVE)
        && let Some(result) = background(t, fd, SIGTTOU)
    {
        return result;
    }
    let mut before = [0_u64; 1];
    if what == TIOCSWINSZ {
        sys::call(nr::IOCTL, &[fd, TIOCGWINSZ, before.as_mut_ptr() as usize]);
    }
    if what == FIONREAD {
        look(fd, word);
    }
    let result = sys::call(nr::IOCTL, &a[..3]);
    match what {
        _ if result < 0 => {}
        TIOCSWINSZ if sys::read_u64(a[2]) != Ok(before[0]) => to_foreground(t, fd, SIGWINCH),
        TIOCSIG => to_foreground(t, fd, a[2] & 63),
        TIOCSPTLCK if sys::read_u32(a[2]) == Ok(0) => note(word & NUMBER, false),
        TIOCGPTPEER => note(word & NUMBER, true),
        _ => {}
    }
    if changes || what == TIOCSIG {
        // What was held back may go on.
        note_written(word);
        crate::native::touched();
    }
    result
}

/// The signals that the kernel would send by itself are the model's.
pub fn ignore_the_kernels() {
    // SIGHUP, SIGINT, SIGQUIT, SIGTSTP, SIGTTIN, SIGTTOU, SIGXCPU, SIGXFSZ, SIGIO
    for number in [1, 2, 3, 20, SIGTTIN, SIGTTOU, 24, 25, 29] {
        signal::native(number, &crate::x86_64::context::KernelAction { handler: 1, ..Default::default() });
    }
}

/// Reading and writing what may block.
pub fn data(t: &mut Thread, number: usize, a: &[usize; 6], word: u64) -> isize {
    let writes = matches!(number, nr::WRITE | nr::WRITEV);
    if word & (abi::MASTER | abi::SLAVE) == 0 || word & abi::INOTIFY != 0 {
        return crate::native::blocking(t, number, a, writes);
    }
    if !writes {
        let result = crate::native::blocking(t, number, a, false);
        return read(t, a[0], word, result);
    }
    let result = crate::native::blocking(t, number, a, true);
    let mut left = result.max(0) as usize;
    if number == nr::WRITE {
        written(t, a[0], word, a[1], left);
        return result;
    }
    for index in 0..a[2] {
        // As many buffers as were written of.
        if left == 0 {
            break;
        }
        let (Ok(base), Ok(bytes)) = (sys::read_u64(a[1] + 16 * index), sys::read_u64(a[1] + 16 * index + 8)) else { break };
        let bytes = (bytes as usize).min(left);
        if bytes > 0 {
            written(t, a[0], word, base as usize, bytes);
        }
        left -= bytes;
    }
    result
}
