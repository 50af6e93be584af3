//! Calls as text, in strace's manner: names, arguments by their kind (see [`weft_loader::calls`]), results with the errno's name. For logs that
//! people read.

use super::caller::Caller;
use std::fmt::Write as _;
use weft_intercept::memory::Memory as _;
use weft_loader::calls::{self, Shown};
use weft_socket::Errno;

/// Longest text or piece of data that is shown, as strace's default.
const TEXT_BYTES_MAX: usize = 32;
/// Longest path that is shown.
const PATH_BYTES_MAX: usize = 256;
/// Arguments that are known.
const ARGUMENTS: usize = 5;

const OPEN_FLAGS: [(i32, &str); 12] = [
    (libc::O_CREAT, "O_CREAT"),
    (libc::O_EXCL, "O_EXCL"),
    (libc::O_NOCTTY, "O_NOCTTY"),
    (libc::O_TRUNC, "O_TRUNC"),
    (libc::O_APPEND, "O_APPEND"),
    (libc::O_NONBLOCK, "O_NONBLOCK"),
    (libc::O_TMPFILE, "O_TMPFILE"),
    (libc::O_SYNC, "O_SYNC"),
    (libc::O_DIRECTORY, "O_DIRECTORY"),
    (libc::O_NOFOLLOW, "O_NOFOLLOW"),
    (libc::O_CLOEXEC, "O_CLOEXEC"),
    (libc::O_PATH, "O_PATH"),
];
const SIGNALS: [&str; 31] = [
    "SIGHUP",
    "SIGINT",
    "SIGQUIT",
    "SIGILL",
    "SIGTRAP",
    "SIGABRT",
    "SIGBUS",
    "SIGFPE",
    "SIGKILL",
    "SIGUSR1",
    "SIGSEGV",
    "SIGUSR2",
    "SIGPIPE",
    "SIGALRM",
    "SIGTERM",
    "SIGSTKFLT",
    "SIGCHLD",
    "SIGCONT",
    "SIGSTOP",
    "SIGTSTP",
    "SIGTTIN",
    "SIGTTOU",
    "SIGURG",
    "SIGXCPU",
    "SIGXFSZ",
    "SIGVTALRM",
    "SIGPROF",
    "SIGWINCH",
    "SIGIO",
    "SIGPWR",
    "SIGSYS",
];

/// The name of a signal, of those that are no real-time ones.
pub fn signal_name(number: i32) -> Option<&'static str> {
    SIGNALS.get(usize::try_from(number).ok()?.checked_sub(1)?).copied()
}

/// The name of a call.
pub fn name(number: u32) -> Option<&'static str> {
    calls::row(number as usize).map(|row| row.name)
}

/// What a call returned, for people.
pub fn returned(result: i64) -> String {
    match i32::try_from(-result).ok().filter(|errno| (1..4096).contains(errno)) {
        Some(errno) => format!("-1 {}", Errno(errno).name().map_or_else(|| format!("errno {errno}"), str::to_owned)),
        None => result.to_string(),
    }
}

/// A call as a line. `result`: as the kernel returns it; none: it does not return.
pub(super) fn describe(caller: &Caller<'_>, number: i64, words: [u64; ARGUMENTS], result: Option<i64>) -> String {
    let mut out = String::new();
    match usize::try_from(number).ok().and_then(calls::row) {
        Some(row) => {
            out.push_str(row.name);
            out.push('(');
            for (place, one) in row.arguments.iter().enumerate().take(ARGUMENTS) {
                if place > 0 {
                    out.push_str(", ");
                }
                let word = words.get(place).copied().unwrap_or(0);
                argument(&mut out, caller, one.shown, word, words.get(place + 1).copied().unwrap_or(0), result);
            }
            if number == libc::SYS_mmap {
                out.push_str(", …");
            }
        }
        None => {
            let [a, b, c, d, _] = words;
            let _ = write!(out, "call {number}({a:#x}, {b:#x}, {c:#x}, {d:#x}");
        }
    }
    out.push_str(") = ");
    match result {
        None => out.push('?'),
        Some(value @ -4095..=-1) => {
            let errno = Errno(-value as i32);
            let name = errno.name().map_or_else(|| format!("errno {}", -value), str::to_owned);
            let _ = write!(out, "-1 {name}");
            if let Some(text) = errno.text() {
                let _ = write!(out, " ({text})");
            }
        }
        Some(value) if matches!(number, libc::SYS_mmap | libc::SYS_brk | libc::SYS_mremap) => {
            let _ = write!(out, "{value:#x}");
        }
        Some(value) => {
            let _ = write!(out, "{value}");
        }
    }
    out
}

fn argument(out: &mut String, caller: &Caller<'_>, shown: Shown, word: u64, next: u64, result: Option<i64>) {
    let _ = match shown {
        // An int whose upper half is not set, or a long.
        Shown::Number if word >> 32 == 0 => write!(out, "{}", word as i32),
        Shown::Number => write!(out, "{}", word as i64),
        Shown::SockAddr | Shown::Timespec if word == 0 => write!(out, "NULL"),
        Shown::Hexadecimal if word == 0 => write!(out, "0"),
        Shown::Hexadecimal => write!(out, "{word:#x}"),
        Shown::Mode if word == 0 => write!(out, "0"),
        Shown::Mode => write!(out, "0{:o}", word as u32 & 0o7777),
        Shown::Folder if word as i32 == libc::AT_FDCWD => write!(out, "AT_FDCWD"),
        Shown::Descriptor | Shown::Folder => write!(out, "{}", word as i32),
        Shown::Path => return path(out, caller, word),
        Shown::Data => return data(out, caller, word, next as usize),
        Shown::Returned => return data(out, caller, word, result.filter(|bytes| *bytes > 0).unwrap_or(0) as usize),
        Shown::OpenFlags => return open_flags(out, word as i32),
        Shown::Flags(names) => return flags(out, names, word),
        Shown::SockAddr => return address(out, caller, word),
        Shown::Timespec => match caller.read_timespec(word) {
            Ok(span) => write!(out, "{{{}.{:09}}}", span.as_secs(), span.subsec_nanos()),
            Err(_) => write!(out, "{word:#x}"),
        },
        Shown::Signal => match (word as usize).checked_sub(1).and_then(|at| SIGNALS.get(at)) {
            Some(name) => write!(out, "{name}"),
            None => write!(out, "{}", word as i32),
        },
        Shown::Family => match word as i32 {
            libc::AF_UNIX => write!(out, "AF_UNIX"),
            libc::AF_INET => write!(out, "AF_INET"),
            libc::AF_INET6 => write!(out, "AF_INET6"),
            libc::AF_NETLINK => write!(out, "AF_NETLINK"),
            libc::AF_PACKET => write!(out, "AF_PACKET"),
            other => write!(out, "{other}"),
        },
        Shown::SocketType => {
            let kind = match word as i32 & 0xf {
                libc::SOCK_STREAM => "SOCK_STREAM",
                libc::SOCK_DGRAM => "SOCK_DGRAM",
                libc::SOCK_RAW => "SOCK_RAW",
                libc::SOCK_SEQPACKET => "SOCK_SEQPACKET",
                _ => "SOCK_?",
            };
            let cloexec = if word as i32 & libc::SOCK_CLOEXEC != 0 { "|SOCK_CLOEXEC" } else { "" };
            let nonblock = if word as i32 & libc::SOCK_NONBLOCK != 0 { "|SOCK_NONBLOCK" } else { "" };
            write!(out, "{kind}{cloexec}{nonblock}")
        }
    };
}

/// A text with zero at its end, up to the first page that cannot be read.
fn path(out: &mut String, caller: &Caller<'_>, pointer: u64) {
    if pointer == 0 {
        out.push_str("NULL");
        return;
    }
    let mut text = Vec::new();
    let mut piece = [0_u8; 16];
    'read: while text.len() < PATH_BYTES_MAX {
        // Not across a page, of which the second may not be there.
        let at = pointer + text.len() as u64;
        let bytes = piece.len().min((4096 - at % 4096) as usize);
        let Some(room) = piece.get_mut(..bytes) else { break };
        if caller.read(at, room).is_err() {
            if text.is_empty() {
                let _ = write!(out, "{pointer:#x}");
                return;
            }
            break;
        }
        for byte in room {
            if *byte == 0 {
                break 'read;
            }
            text.push(*byte);
        }
    }
    quote(out, &text, false);
}

fn data(out: &mut String, caller: &Caller<'_>, pointer: u64, bytes: usize) {
    let mut room = [0_u8; TEXT_BYTES_MAX];
    let shown = bytes.min(room.len());
    let Some(part) = room.get_mut(..shown) else { return };
    match caller.read(pointer, part) {
        Ok(()) => quote(out, part, bytes > shown),
        Err(_) => {
            let _ = write!(out, "{pointer:#x}");
        }
    }
}

fn quote(out: &mut String, bytes: &[u8], goes_on: bool) {
    out.push('"');
    out.extend(bytes.iter().flat_map(|byte| std::ascii::escape_default(*byte)).map(char::from));
    out.push_str(if goes_on { "\"..." } else { "\"" });
}

/// Names of bits, and in hexadecimal what has none. Only the lower half: flags are ints, and of clone(2) they fit.
fn flags(out: &mut String, names: &[(&str, u64)], word: u64) {
    let mut left = word & 0xffff_ffff;
    let begin = out.len();
    for (name, bits) in names {
        if left & bits != 0 {
            let _ = write!(out, "{}{name}", if out.len() > begin { "|" } else { "" });
            left &= !bits;
        }
    }
    if left != 0 || out.len() == begin {
        let _ = match (out.len() > begin, left) {
            (true, _) => write!(out, "|{left:#x}"),
            (false, 0) => write!(out, "0"),
            (false, _) => write!(out, "{left:#x}"),
        };
    }
}

fn open_flags(out: &mut String, flags: i32) {
    out.push_str(match flags & libc::O_ACCMODE {
        libc::O_RDONLY => "O_RDONLY",
        libc::O_WRONLY => "O_WRONLY",
        _ => "O_RDWR",
    });
    let mut left = flags & !libc::O_ACCMODE & !0o100_000;
    for (bits, name) in OPEN_FLAGS {
        if left & bits == bits {
            out.push('|');
            out.push_str(name);
            left &= !bits;
        }
    }
    if left != 0 {
        let _ = write!(out, "|{left:#x}");
    }
}

/// A sockaddr of the internet families; others by family.
fn address(out: &mut String, caller: &Caller<'_>, pointer: u64) {
    let mut family = [0_u8; 2];
    let mut bytes = [0_u8; 28];
    if caller.read(pointer, &mut family).is_err() {
        let _ = write!(out, "{pointer:#x}");
        return;
    }
    let length = match i32::from(u16::from_ne_bytes(family)) {
        libc::AF_INET => 16,
        libc::AF_INET6 => 28,
        other => {
            let _ = write!(out, "{{sa_family={other}}}");
            return;
        }
    };
    let whole = bytes.get_mut(..length).filter(|room| !room.is_empty());
    let parsed = whole.and_then(|room| {
        caller.read(pointer, room).ok()?;
        weft_socket::address::parse(room)
    });
    let _ = match parsed {
        Some(address) => write!(out, "{{{address}}}"),
        None => write!(out, "{pointer:#x}"),
    };
}

#[cfg(test)]
mod tests {
    use super::*;
    use weft_loader::calls::Argument as _;

    #[test]
    fn flags_and_data_are_shown_as_strace_does() {
        let mut out = String::new();
        open_flags(&mut out, libc::O_WRONLY | libc::O_CREAT | libc::O_TRUNC | libc::O_CLOEXEC);
        assert_eq!(out, "O_WRONLY|O_CREAT|O_TRUNC|O_CLOEXEC");
        // One bit, and a name for each call that has it.
        for (shown, names) in [
            (calls::UnlinkFlags::SHOWN, "AT_REMOVEDIR"),
            (calls::AccessFlags::SHOWN, "AT_EACCESS"),
            (calls::HandleFlags::SHOWN, "AT_HANDLE_FID"),
            (calls::AtFlags::SHOWN, "0x200"),
        ] {
            let Shown::Flags(known) = shown else { panic!("{shown:?}") };
            out.clear();
            flags(&mut out, known, 0x200);
            assert_eq!(out, names);
        }
        out.clear();
        quote(&mut out, b"a\n\"\x00\xff", true);
        assert_eq!(out, "\"a\\n\\\"\\x00\\xff\"...");
    }
}
