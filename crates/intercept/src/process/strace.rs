//! Calls as text, in strace's manner: names, arguments by their kind, results with the errno's name. For logs that people read; calls that are not in
//! the table are shown by number with four words.

use super::guest::Guest;
use crate::memory::Memory as _;
use std::fmt::Write as _;
use weft_socket::Errno;

/// Longest text or piece of data that is shown, as strace's default.
const TEXT_BYTES_MAX: usize = 32;
/// Longest path that is shown.
const PATH_BYTES_MAX: usize = 256;
/// Arguments that are known.
const ARGUMENTS: usize = 5;

/// What an argument is.
#[derive(Clone, Copy)]
enum Kind {
    /// A number.
    D,
    /// Flags, a pointer: in hexadecimal.
    X,
    /// A mode of permissions.
    O,
    /// A descriptor, or AT_FDCWD.
    F,
    /// A path.
    P,
    /// Data of so many bytes as the next argument says.
    W,
    /// Data of so many bytes as the call returned.
    R,
    /// Flags of open.
    L,
    /// A sockaddr.
    A,
    /// A struct timespec.
    T,
    /// A signal.
    S,
    /// A family of sockets.
    N,
    /// A type of sockets.
    Y,
}
use Kind::{A, D, F, L, N, O, P, R, S, T, W, X, Y};

/// Name and kinds of arguments.
fn table(number: i64) -> Option<(&'static str, &'static [Kind])> {
    macro_rules! calls {
        ($($constant:ident $name:literal [$($kind:ident)*]),+ $(,)?) => {
            match number { $(libc::$constant => Some(($name, &[$($kind),*])),)+ _ => None }
        };
    }
    calls!(
        SYS_read "read" [F R D], SYS_write "write" [F W D], SYS_open "open" [P L O], SYS_close "close" [F],
        SYS_stat "stat" [P X], SYS_fstat "fstat" [F X], SYS_lstat "lstat" [P X], SYS_poll "poll" [X D D],
        SYS_lseek "lseek" [F D D], SYS_mmap "mmap" [X D X X F], SYS_mprotect "mprotect" [X D X], SYS_munmap "munmap" [X D],
        SYS_brk "brk" [X], SYS_rt_sigaction "rt_sigaction" [S X X D], SYS_rt_sigprocmask "rt_sigprocmask" [D X X D],
        SYS_ioctl "ioctl" [F X X], SYS_pread64 "pread64" [F R D D], SYS_pwrite64 "pwrite64" [F W D D], SYS_readv "readv" [F X D],
        SYS_writev "writev" [F X D], SYS_access "access" [P D], SYS_pipe "pipe" [X], SYS_select "select" [D X X X X],
        SYS_sched_yield "sched_yield" [], SYS_mremap "mremap" [X D D X X], SYS_madvise "madvise" [X D D], SYS_dup "dup" [F],
        SYS_dup2 "dup2" [F D], SYS_pause "pause" [], SYS_nanosleep "nanosleep" [T X], SYS_getitimer "getitimer" [D X],
        SYS_alarm "alarm" [D], SYS_setitimer "setitimer" [D X X], SYS_getpid "getpid" [], SYS_sendfile "sendfile" [F F X D],
        SYS_socket "socket" [N Y D], SYS_connect "connect" [F A D], SYS_accept "accept" [F A X], SYS_sendto "sendto" [F W D X A],
        SYS_recvfrom "recvfrom" [F R D X A], SYS_sendmsg "sendmsg" [F X X], SYS_recvmsg "recvmsg" [F X X],
        SYS_shutdown "shutdown" [F D], SYS_bind "bind" [F A D], SYS_listen "listen" [F D], SYS_getsockname "getsockname" [F A X],
        SYS_getpeername "getpeername" [F A X], SYS_socketpair "socketpair" [N Y D X], SYS_setsockopt "setsockopt" [F D D X D],
        SYS_getsockopt "getsockopt" [F D D X X], SYS_clone "clone" [X X X X X], SYS_fork "fork" [], SYS_vfork "vfork" [],
        SYS_execve "execve" [P X X], SYS_exit "exit" [D], SYS_wait4 "wait4" [D X X X], SYS_kill "kill" [D S], SYS_uname "uname" [X],
        SYS_fcntl "fcntl" [F D X], SYS_flock "flock" [F D], SYS_fsync "fsync" [F], SYS_fdatasync "fdatasync" [F],
        SYS_truncate "truncate" [P D], SYS_ftruncate "ftruncate" [F D], SYS_getcwd "getcwd" [P D], SYS_chdir "chdir" [P],
        SYS_fchdir "fchdir" [F], SYS_rename "rename" [P P], SYS_mkdir "mkdir" [P O], SYS_rmdir "rmdir" [P], SYS_creat "creat" [P O],
        SYS_link "link" [P P], SYS_unlink "unlink" [P], SYS_symlink "symlink" [P P], SYS_readlink "readlink" [P X D],
        SYS_chmod "chmod" [P O], SYS_fchmod "fchmod" [F O], SYS_chown "chown" [P D D], SYS_umask "umask" [O],
        SYS_gettimeofday "gettimeofday" [X X], SYS_getrlimit "getrlimit" [D X], SYS_getrusage "getrusage" [D X],
        SYS_sysinfo "sysinfo" [X], SYS_times "times" [X], SYS_getuid "getuid" [], SYS_getgid "getgid" [], SYS_setuid "setuid" [D],
        SYS_setgid "setgid" [D], SYS_geteuid "geteuid" [], SYS_getegid "getegid" [], SYS_setpgid "setpgid" [D D],
        SYS_getppid "getppid" [], SYS_getpgrp "getpgrp" [], SYS_setsid "setsid" [], SYS_getgroups "getgroups" [D X],
        SYS_setgroups "setgroups" [D X], SYS_getpgid "getpgid" [D], SYS_getsid "getsid" [D], SYS_rt_sigsuspend "rt_sigsuspend" [X D],
        SYS_rt_sigtimedwait "rt_sigtimedwait" [X X T D], SYS_rt_sigreturn "rt_sigreturn" [], SYS_sigaltstack "sigaltstack" [X X],
        SYS_statfs "statfs" [P X], SYS_fstatfs "fstatfs" [F X], SYS_prctl "prctl" [D X X X X], SYS_arch_prctl "arch_prctl" [X X],
        SYS_gettid "gettid" [], SYS_tkill "tkill" [D S], SYS_time "time" [X], SYS_futex "futex" [X X D T X],
        SYS_sched_getaffinity "sched_getaffinity" [D D X], SYS_epoll_create "epoll_create" [D], SYS_getdents64 "getdents64" [F X D],
        SYS_set_tid_address "set_tid_address" [X], SYS_timer_create "timer_create" [D X X],
        SYS_timer_settime "timer_settime" [D X X X], SYS_timer_delete "timer_delete" [D], SYS_clock_gettime "clock_gettime" [D T],
        SYS_clock_getres "clock_getres" [D T], SYS_clock_nanosleep "clock_nanosleep" [D X T X], SYS_exit_group "exit_group" [D],
        SYS_epoll_wait "epoll_wait" [F X D D], SYS_epoll_ctl "epoll_ctl" [F D F X], SYS_tgkill "tgkill" [D D S],
        SYS_waitid "waitid" [D D X X X], SYS_openat "openat" [F P L O], SYS_mkdirat "mkdirat" [F P O],
        SYS_newfstatat "newfstatat" [F P X X], SYS_unlinkat "unlinkat" [F P X], SYS_renameat "renameat" [F P F P],
        SYS_linkat "linkat" [F P F P X], SYS_symlinkat "symlinkat" [P F P], SYS_readlinkat "readlinkat" [F P X D],
        SYS_fchmodat "fchmodat" [F P O], SYS_faccessat "faccessat" [F P D], SYS_pselect6 "pselect6" [D X X X T],
        SYS_ppoll "ppoll" [X D T X D], SYS_set_robust_list "set_robust_list" [X D], SYS_utimensat "utimensat" [F P X X],
        SYS_epoll_pwait "epoll_pwait" [F X D D X], SYS_signalfd "signalfd" [F X D], SYS_timerfd_create "timerfd_create" [D X],
        SYS_eventfd "eventfd" [D], SYS_fallocate "fallocate" [F X D D], SYS_timerfd_settime "timerfd_settime" [F X X X],
        SYS_timerfd_gettime "timerfd_gettime" [F X], SYS_accept4 "accept4" [F A X X], SYS_signalfd4 "signalfd4" [F X D X],
        SYS_eventfd2 "eventfd2" [D X], SYS_epoll_create1 "epoll_create1" [X], SYS_dup3 "dup3" [F D X], SYS_pipe2 "pipe2" [X X],
        SYS_preadv "preadv" [F X D D], SYS_pwritev "pwritev" [F X D D], SYS_recvmmsg "recvmmsg" [F X D X T],
        SYS_prlimit64 "prlimit64" [D D X X], SYS_sendmmsg "sendmmsg" [F X D X], SYS_getrandom "getrandom" [X D X],
        SYS_memfd_create "memfd_create" [P X], SYS_copy_file_range "copy_file_range" [F X F X D], SYS_statx "statx" [F P X X X],
        SYS_rseq "rseq" [X D X X], SYS_clone3 "clone3" [X D], SYS_close_range "close_range" [D D X],
        SYS_faccessat2 "faccessat2" [F P D X], SYS_epoll_pwait2 "epoll_pwait2" [F X D T X],
    )
}

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

/// The name of a call.
pub fn name(number: u32) -> Option<&'static str> {
    table(i64::from(number)).map(|(name, _)| name)
}

/// What a call returned, for people.
pub fn returned(result: i64) -> String {
    match i32::try_from(-result).ok().filter(|errno| (1..4096).contains(errno)) {
        Some(errno) => format!("-1 {}", Errno(errno).name().map_or_else(|| format!("errno {errno}"), str::to_owned)),
        None => result.to_string(),
    }
}

/// A call as a line. `result`: as the kernel returns it; none: it does not return.
pub(super) fn describe(guest: &Guest<'_>, number: i64, words: [u64; ARGUMENTS], result: Option<i64>) -> String {
    let mut out = String::new();
    match table(number) {
        Some((name, kinds)) => {
            out.push_str(name);
            out.push('(');
            for (place, kind) in kinds.iter().enumerate() {
                if place > 0 {
                    out.push_str(", ");
                }
                let word = words.get(place).copied().unwrap_or(0);
                argument(&mut out, guest, *kind, word, words.get(place + 1).copied().unwrap_or(0), result);
            }
            if number == libc::SYS_mmap {
                out.push_str(", …");
            }
        }
        None => {
            let [a, b, c, d, _] = words;
            let _ = write!(out, "syscall_{number}({a:#x}, {b:#x}, {c:#x}, {d:#x}");
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

fn argument(out: &mut String, guest: &Guest<'_>, kind: Kind, word: u64, next: u64, result: Option<i64>) {
    let _ = match kind {
        // An int whose upper half is not set, or a long.
        D if word >> 32 == 0 => write!(out, "{}", word as i32),
        D => write!(out, "{}", word as i64),
        A | T if word == 0 => write!(out, "NULL"),
        X if word == 0 => write!(out, "0"),
        X => write!(out, "{word:#x}"),
        O if word == 0 => write!(out, "0"),
        O => write!(out, "0{:o}", word as u32 & 0o7777),
        F if word as i32 == libc::AT_FDCWD => write!(out, "AT_FDCWD"),
        F => write!(out, "{}", word as i32),
        P => return path(out, guest, word),
        W => return data(out, guest, word, next as usize),
        R => return data(out, guest, word, result.filter(|bytes| *bytes > 0).unwrap_or(0) as usize),
        L => return open_flags(out, word as i32),
        A => return address(out, guest, word),
        T => match guest.read_timespec(word) {
            Ok(span) => write!(out, "{{{}.{:09}}}", span.as_secs(), span.subsec_nanos()),
            Err(_) => write!(out, "{word:#x}"),
        },
        S => match (word as usize).checked_sub(1).and_then(|at| SIGNALS.get(at)) {
            Some(name) => write!(out, "{name}"),
            None => write!(out, "{}", word as i32),
        },
        N => match word as i32 {
            libc::AF_UNIX => write!(out, "AF_UNIX"),
            libc::AF_INET => write!(out, "AF_INET"),
            libc::AF_INET6 => write!(out, "AF_INET6"),
            libc::AF_NETLINK => write!(out, "AF_NETLINK"),
            libc::AF_PACKET => write!(out, "AF_PACKET"),
            other => write!(out, "{other}"),
        },
        Y => {
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
fn path(out: &mut String, guest: &Guest<'_>, pointer: u64) {
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
        if guest.read(at, room).is_err() {
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

fn data(out: &mut String, guest: &Guest<'_>, pointer: u64, bytes: usize) {
    let mut room = [0_u8; TEXT_BYTES_MAX];
    let shown = bytes.min(room.len());
    let Some(part) = room.get_mut(..shown) else { return };
    match guest.read(pointer, part) {
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
fn address(out: &mut String, guest: &Guest<'_>, pointer: u64) {
    let mut family = [0_u8; 2];
    let mut bytes = [0_u8; 28];
    if guest.read(pointer, &mut family).is_err() {
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
        guest.read(pointer, room).ok()?;
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

    #[test]
    fn flags_and_data_are_shown_as_strace_does() {
        let mut out = String::new();
        open_flags(&mut out, libc::O_WRONLY | libc::O_CREAT | libc::O_TRUNC | libc::O_CLOEXEC);
        assert_eq!(out, "O_WRONLY|O_CREAT|O_TRUNC|O_CLOEXEC");
        out.clear();
        quote(&mut out, b"a\n\"\x00\xff", true);
        assert_eq!(out, "\"a\\n\\\"\\x00\\xff\"...");
    }
}
