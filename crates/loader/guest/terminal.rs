//! Pseudoterminals: the kernel's, but for two things. What is written to one end comes to the other by way of a worker of the kernel's, which is waited
//! for here, so that it is there as soon as the call returns; and the signals that the kernel sends to whoever sits at one (^C, ^Z, a change of its size,
//! reading in the background) are sent by the model: the kernel's own are ignored by all programs.

use crate::abi;
use crate::block::Thread;
use crate::calls::number as nr;
use crate::channel::post;
use crate::frames;
use crate::sys;
use crate::terminals::{NUMBER, change, coming, is, look, note, note_written, settle};
use core::sync::atomic::Ordering::Relaxed;

const TCGETS: usize = 0x5401;
const TIOCGPGRP: usize = 0x540f;
const TIOCSPGRP: usize = 0x5410;
const TIOCGWINSZ: usize = 0x5413;
const TIOCSWINSZ: usize = 0x5414;
const FIONREAD: usize = 0x541b;
const TIOCGPTPEER: usize = 0x5441;
const TIOCSPTLCK: usize = 0x4004_5431;
const TIOCSIG: usize = 0x4004_5436;
const SIGTTIN: usize = 21;
const SIGTTOU: usize = 22;
const SIGWINCH: usize = 28;
const TCXONC: usize = 0x540a;
const TCFLSH: usize = 0x540b;
const TIOCPKT: usize = 0x5420;
const EIO: isize = -5;

/// What the program's `bytes` from `at` on meant to the terminal whose master they were written to.
pub fn written(t: &mut Thread, fd: usize, word: u64, at: usize, bytes: usize) {
    if is(word, abi::SLAVE) {
        note_written(word, output(fd, at, bytes));
        return;
    }
    if !is(word, abi::MASTER) {
        return;
    }
    settle(fd, word);
    const ISIG: u32 = 1;
    const SIGNALS: [(usize, usize); 3] = [(0, 2), (1, 3), (10, 20)];
    let Some(termios) = termios(fd).filter(|termios| flags_of(termios, 3) & ISIG != 0) else { return };
    each_byte(at, bytes, |byte| {
        // _POSIX_VDISABLE is 0.
        let sent = SIGNALS.iter().find(|(place, _)| byte != 0 && termios[17 + place] == byte);
        if let Some((_, signal)) = sent {
            to_foreground(t, fd, *signal);
        }
    });
}

/// struct termios: four words of flags (input, output, control, local), c_line, c_cc.
fn termios(fd: usize) -> Option<[u8; 64]> {
    let mut termios = [0_u8; 64];
    (sys::call(nr::IOCTL, &[fd, TCGETS, termios.as_mut_ptr() as usize]) == 0).then_some(termios)
}
fn flags_of(termios: &[u8; 64], word: usize) -> u32 {
    u32::from_ne_bytes([termios[4 * word], termios[4 * word + 1], termios[4 * word + 2], termios[4 * word + 3]])
}

/// The program's `bytes` from `at` on. False: they are not there.
fn each_byte(at: usize, bytes: usize, mut each: impl FnMut(u8)) -> bool {
    let mut done = 0;
    while done < bytes {
        let mut piece = [0_u8; 256];
        let count = (bytes - done).min(piece.len());
        if sys::copy_in(at + done, &mut piece[..count]).is_err() {
            return false;
        }
        piece[..count].iter().copied().for_each(&mut each);
        done += count;
    }
    true
}

/// What a slave makes of the program's `bytes` (do_output_char, drivers/tty/n_tty.c). Nothing where it depends on the column.
fn output(fd: usize, at: usize, bytes: usize) -> Option<u32> {
    const OPOST: u32 = 0o1;
    const ONLCR: u32 = 0o4;
    const COLUMN: u32 = 0o10 | 0o20 | 0o14000;
    let flags = flags_of(&termios(fd)?, 1);
    let mut newlines = 0;
    if flags & OPOST != 0 {
        if flags & COLUMN != 0 {
            return None;
        }
        let readable = flags & ONLCR == 0 || each_byte(at, bytes, |byte| newlines += u32::from(byte == b'\n'));
        if !readable {
            return None;
        }
    }
    Some(u32::try_from(bytes).ok()?.saturating_add(newlines))
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
    if result > 0
        && is(word, abi::MASTER)
        && let Some(coming) = coming(word)
    {
        change(coming, |bytes| bytes.saturating_sub(result as u32));
    }
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
        // What is read is not what was written.
        TIOCPKT => coming(word).into_iter().for_each(|coming| coming.store(abi::UNCOUNTED, Relaxed)),
        _ => {}
    }
    if changes || what == TIOCSIG {
        // What was held back may go on, and what was on its way may be gone.
        note_written(word, if matches!(what, TCXONC | TCFLSH | TIOCSIG) { None } else { Some(0) });
        crate::arena::touched();
    }
    result
}

/// The signals that the kernel would send by itself are the model's.
pub fn ignore_the_kernels() {
    // SIGHUP, SIGINT, SIGQUIT, SIGTSTP, SIGTTIN, SIGTTOU, SIGXCPU, SIGXFSZ, SIGIO
    for number in [1, 2, 3, 20, SIGTTIN, SIGTTOU, 24, 25, 29] {
        frames::native(number, &crate::x86_64::context::KernelAction { handler: 1, ..Default::default() });
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
