//! System calls of the loader itself, and small things that a standard library would have.

use crate::calls::number as nr;
use crate::x86_64::entry;

pub const EPERM: isize = -1;
pub const ENOENT: isize = -2;
pub const EINTR: isize = -4;
pub const E2BIG: isize = -7;
pub const ENOEXEC: isize = -8;
pub const EBADF: isize = -9;
pub const EAGAIN: isize = -11;
pub const ENOMEM: isize = -12;
pub const EACCES: isize = -13;
pub const EFAULT: isize = -14;
pub const EEXIST: isize = -17;
pub const EISDIR: isize = -21;
pub const EINVAL: isize = -22;
pub const ENOTTY: isize = -25;
pub const EOPNOTSUPP: isize = -95;
pub const EMFILE: isize = -24;
pub const EROFS: isize = -30;
pub const EPIPE: isize = -32;
pub const ENAMETOOLONG: isize = -36;
pub const ENOLCK: isize = -37;
pub const ENOSYS: isize = -38;
pub const ELOOP: isize = -40;
pub const ENODEV: isize = -19;
pub const ESRCH: isize = -3;

/// The working directory, in place of a folder's descriptor.
pub const AT_FDCWD: usize = -100_isize as usize;

/// Most buffers of one call: UIO_MAXIOV.
pub const VECTORS_MAX: usize = 1024;

/// A call with up to six arguments.
#[inline(always)]
pub fn call(number: usize, arguments: &[usize]) -> isize {
    let mut a = [0; 6];
    let mut at = 0;
    while at < arguments.len() && at < 6 {
        a[at] = arguments[at];
        at += 1;
    }
    entry::system_call(number, a)
}

/// Copies from the program; EFAULT when it cannot be read.
pub fn copy_in(from: usize, into: &mut [u8]) -> Result<(), isize> {
    if entry::copy(into.as_mut_ptr() as usize, from, into.len()) { Ok(()) } else { Err(EFAULT) }
}
/// Copies into the program.
pub fn copy_out(into: usize, from: &[u8]) -> Result<(), isize> {
    if entry::copy(into, from.as_ptr() as usize, from.len()) { Ok(()) } else { Err(EFAULT) }
}
/// A number of the program's.
pub fn read_u64(from: usize) -> Result<u64, isize> {
    let mut bytes = [0; 8];
    copy_in(from, &mut bytes)?;
    Ok(u64::from_ne_bytes(bytes))
}
pub fn read_u32(from: usize) -> Result<u32, isize> {
    let mut bytes = [0; 4];
    copy_in(from, &mut bytes)?;
    Ok(u32::from_ne_bytes(bytes))
}
pub fn write_u64(into: usize, value: u64) -> Result<(), isize> {
    copy_out(into, &value.to_ne_bytes())
}
pub fn write_u32(into: usize, value: u32) -> Result<(), isize> {
    copy_out(into, &value.to_ne_bytes())
}

/// A path of the program's, into a buffer: its bytes without the zero at the end, which is in the buffer too.
pub fn copy_string<'a>(from: usize, into: &'a mut [u8]) -> Result<&'a [u8], isize> {
    let mut length = 0;
    // Page by page: what lies behind the end may not be readable.
    while length < into.len() {
        let address = from.wrapping_add(length);
        let bytes = (4096 - address % 4096).min(into.len() - length);
        copy_in(address, &mut into[length..length + bytes])?;
        if let Some(end) = into[length..length + bytes].iter().position(|byte| *byte == 0) {
            return Ok(&into[..length + end]);
        }
        length += bytes;
    }
    Err(ENAMETOOLONG)
}

/// Says something on standard error and ends the process. Only for what cannot go on.
pub fn die(what: &str, value: usize) -> ! {
    say(what, value);
    call(nr::EXIT_GROUP, &[125]);
    loop {}
}

pub fn say(what: &str, value: usize) {
    let mut line = [0_u8; 200];
    let mut at = 0;
    for byte in b"weft: ".iter().chain(what.as_bytes()) {
        if at < 150 {
            line[at] = *byte;
            at += 1;
        }
    }
    if value != 0 {
        for byte in b" 0x" {
            line[at] = *byte;
            at += 1;
        }
        let mut shift = 60;
        while shift > 0 && value >> shift == 0 {
            shift -= 4;
        }
        loop {
            line[at] = b"0123456789abcdef"[value >> shift & 15];
            at += 1;
            if shift == 0 {
                break;
            }
            shift -= 4;
        }
    }
    line[at] = b'\n';
    call(nr::WRITE, &[2, line.as_ptr() as usize, at + 1]);
}

/// No signal is blocked for the kernel while the program runs.
pub fn unblock_all() {
    let mask = 0_u64;
    call(nr::RT_SIGPROCMASK, &[2, &raw const mask as usize, 0, 8]);
}

/// A private mapping; None when there is no memory.
pub fn map(bytes: usize) -> Option<usize> {
    let at = call(nr::MMAP, &[0, bytes, 3, 0x22, usize::MAX, 0]);
    (at > 0).then_some(at as usize)
}
pub fn unmap(at: usize, bytes: usize) {
    call(nr::MUNMAP, &[at, bytes]);
}

/// Reads a number in decimal; None: it is none, or larger than 64 bits hold.
pub fn number(digits: &[u8]) -> Option<u64> {
    let add = |number: u64, digit: &u8| digit.is_ascii_digit().then(|| number.checked_mul(10)?.checked_add(u64::from(digit - b'0')))?;
    if digits.is_empty() { None } else { digits.iter().try_fold(0, add) }
}

/// Writes a number in decimal; returns how many digits.
pub fn decimal(value: u64, into: &mut [u8]) -> usize {
    let mut digits = [0_u8; 20];
    let mut count = 0;
    let mut rest = value;
    loop {
        digits[count] = b'0' + (rest % 10) as u8;
        count += 1;
        rest /= 10;
        if rest == 0 {
            break;
        }
    }
    for at in 0..count.min(into.len()) {
        into[at] = digits[count - 1 - at];
    }
    count.min(into.len())
}
