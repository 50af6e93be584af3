//! Times of files. Where the kernel has written one since the node began, it tells the host's clock: such a file is of the node's start. What a program
//! sets is kept as far ahead on the disk (all that can be written is in memory, where times have 64 bits) that no clock of a host comes
//! there; so it is told apart for certain, whatever the host's date is. Files that nobody has touched since the node began have their own times.

use crate::arena::header;
use crate::calls::number as nr;
use crate::sys;
use core::sync::atomic::Ordering::Relaxed;

/// How far ahead, in seconds: more than thirty thousand years.
const AHEAD: i64 = 1 << 40;
/// Later than that was set by a program.
const SET: i64 = 1 << 39;
const UTIME_NOW: i64 = 0x3fff_ffff;
const UTIME_OMIT: i64 = 0x3fff_fffe;
const NANOS: i64 = 1_000_000_000;

/// Four words at an address: seconds and fractions of the times of reading and writing.
pub fn words(at: usize) -> Result<[i64; 4], isize> {
    let word = |index: usize| sys::read_u64(at + 8 * index).map(|word| word as i64);
    Ok([word(0)?, word(1)?, word(2)?, word(3)?])
}

/// The same with microseconds.
pub fn micros(at: usize) -> Result<[i64; 4], isize> {
    let mut times = words(at)?;
    // fs/utimes.c: "This test is needed to catch all invalid values."
    if [times[1], times[3]].iter().any(|micros| !(0..1_000_000).contains(micros)) {
        return Err(sys::EINVAL);
    }
    times[1] *= 1000;
    times[3] *= 1000;
    Ok(times)
}

/// Sets the times of a file, in seconds and nanoseconds. One that is not named stays what it is.
pub fn set(folder: usize, path: usize, mut times: [i64; 4], flags: usize) -> isize {
    // A time of reading that nobody has set is told as that of writing, and would follow it.
    let reading = match (times[1], times[3]) {
        (UTIME_OMIT, UTIME_OMIT) | (UTIME_NOW, UTIME_NOW) => None,
        (UTIME_OMIT, _) => accessed(folder, path, flags),
        (UTIME_NOW, _) => Some(node_began()),
        _ => None,
    };
    if let Some((seconds, nanos)) = reading {
        (times[0], times[1]) = (seconds, i64::from(nanos));
    }
    for at in [0, 2] {
        if !matches!(times[at + 1], UTIME_NOW | UTIME_OMIT) {
            times[at] = times[at].clamp(1 - SET, SET - 1) + AHEAD;
        }
    }
    sys::call(nr::UTIMENSAT, &[folder, path, times.as_ptr() as usize, flags])
}

/// A time as the kernel has it, in seconds and nanoseconds.
fn read(at: usize) -> Result<(i64, u32), isize> {
    Ok((sys::read_u64(at)? as i64, sys::read_u32(at + 8)?))
}

/// When a file was read last, as a program sees it; none where that cannot be asked, which the call that sets it will say by itself.
fn accessed(folder: usize, path: usize, flags: usize) -> Option<(i64, u32)> {
    const AT_EMPTY_PATH: usize = 0x1000;
    // STATX_BASIC_STATS
    const WANTED: usize = 0x7ff;
    let mut told = [0_u8; 256];
    let (at, nothing) = (told.as_mut_ptr() as usize, c"".as_ptr() as usize);
    let (path, flags) = if path == 0 { (nothing, flags | AT_EMPTY_PATH) } else { (path, flags) };
    if sys::call(nr::STATX, &[folder, path, flags, WANTED, at]) < 0 {
        return None;
    }
    show(&Places::of_statx(at), u32::from(u16::from_ne_bytes([told[28], told[29]]))).ok()?;
    read(at + 0x40).ok()
}

/// As a program sees it. `touched`: the file was written or changed since the node began.
fn plain((seconds, nanos): (i64, u32), touched: bool) -> (i64, u32) {
    if seconds > SET {
        (seconds - AHEAD, nanos)
    } else if touched && (seconds, nanos) >= began() {
        node_began()
    } else {
        (seconds, nanos)
    }
}

/// The node's start in its own time.
fn node_began() -> (i64, u32) {
    let began = header().clocks.began.load(Relaxed) as i64;
    (began / NANOS, (began % NANOS) as u32)
}

/// The node's start by the host's clock.
fn began() -> (i64, u32) {
    let nanos = header().real_start.load(Relaxed) as i64;
    (nanos / NANOS, (nanos % NANOS) as u32)
}

/// Where the times of reading, writing, changing and making are; 0: it is not told.
pub struct Places {
    pub accessed: usize,
    pub written: usize,
    pub changed: usize,
    pub made: usize,
}

impl Places {
    /// In a `struct statx` at an address.
    pub fn of_statx(at: usize) -> Places {
        Places { accessed: at + 0x40, written: at + 0x70, changed: at + 0x60, made: at + 0x50 }
    }
}

/// Makes the times of a file plain. When it was read last is when it was written, unless a program has said otherwise. `mode`: what kind of file it is.
pub fn show(places: &Places, mode: u32) -> Result<(), isize> {
    // Regular, folder, link. Everything else has been there since the host began, or is the node's.
    let lasts = matches!(mode & 0o170_000, 0o100_000 | 0o040_000 | 0o120_000);
    let begins = |time: (i64, u32)| if lasts || time.0 > SET { time } else { began() };
    let last = begins(read(places.changed)?);
    let touched = last >= began();
    let modified = plain(begins(read(places.written)?), touched);
    let reading = read(places.accessed)?;
    let reading = if reading.0 > SET { plain(reading, touched) } else { modified };
    let write = |at: usize, (seconds, nanos): (i64, u32)| {
        sys::write_u64(at, seconds as u64)?;
        sys::write_u32(at + 8, nanos)
    };
    write(places.accessed, reading)?;
    write(places.written, modified)?;
    write(places.changed, plain(last, touched))?;
    if places.made != 0 {
        write(places.made, plain(begins(read(places.made)?), touched))?;
    }
    Ok(())
}
