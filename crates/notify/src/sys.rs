//! The system calls that this crate makes, as small safe functions with errno results.
//!
//! Everything here is a thin wrapper; what a call means for a program is decided elsewhere.

use bytes::BytesMut;
use smallvec::SmallVec;
use std::os::fd::{AsRawFd, BorrowedFd, OwnedFd, RawFd};
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

pub use weft_intercept::sys::*;

/// One classic BPF instruction (`struct sock_filter`).
pub type Instruction = libc::sock_filter;

/// `seccomp(SECCOMP_SET_MODE_FILTER, NEW_LISTENER)`. Without WAIT_KILLABLE_RECV: with it a held call never returns EINTR.
pub fn install_filter(program: &[Instruction]) -> Result<OwnedFd, Errno> {
    let length = u16::try_from(program.len()).map_err(|_| Errno(libc::EINVAL))?;
    let description = libc::sock_fprog { len: length, filter: program.as_ptr().cast_mut() };
    // SAFETY: `description` points to `length` instructions that live through the call; the kernel only reads them.
    owned(unsafe {
        libc::syscall(libc::SYS_seccomp, libc::SECCOMP_SET_MODE_FILTER, libc::SECCOMP_FILTER_FLAG_NEW_LISTENER, &raw const description)
    })
}

/// `prctl(PR_SET_NO_NEW_PRIVS)`.
pub fn no_new_privileges() -> Result<(), Errno> {
    // SAFETY: takes no pointers.
    check(unsafe { libc::prctl(libc::PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) }).map(drop)
}

/// Writes pieces, at most [`VECTORS_MAX`], each to its own place in a process's memory; returns how many bytes were written before a piece
/// that could not be.
pub fn write_pieces(tid: u32, pieces: &[(u64, &[u8])]) -> Result<usize, Errno> {
    let pieces = &pieces[..pieces.len().min(VECTORS_MAX)];
    let vectors = |base: fn(&(u64, &[u8])) -> *mut libc::c_void| {
        pieces.iter().map(|piece| libc::iovec { iov_base: base(piece), iov_len: piece.1.len() }).collect::<SmallVec<[libc::iovec; 8]>>()
    };
    let local = vectors(|(_, bytes)| bytes.as_ptr().cast_mut().cast());
    let remote = vectors(|(address, _)| *address as *mut libc::c_void);
    let count = pieces.len() as libc::c_ulong;
    // SAFETY: the kernel reads from the `local` vectors only, which describe `pieces`; the remote ones are dereferenced in the other process.
    let written = check(unsafe { libc::process_vm_writev(tid as libc::pid_t, local.as_ptr(), count, remote.as_ptr(), count, 0) } as i64)?;
    Ok(written as usize)
}

/// A path, to look things up below it.
pub fn open_path(path: &str) -> Result<OwnedFd, Errno> {
    let path = std::ffi::CString::new(path).map_err(|_| Errno(libc::EINVAL))?;
    // SAFETY: a C string.
    owned(unsafe { libc::open(path.as_ptr(), libc::O_PATH | libc::O_DIRECTORY | libc::O_CLOEXEC) })
}

/// Reads words of eight bytes at an offset of a file; returns how many.
pub fn read_words(fd: BorrowedFd<'_>, offset: u64, into: &mut [u64]) -> Result<usize, Errno> {
    let offset = libc::off_t::try_from(offset).map_err(|_| Errno(libc::EINVAL))?;
    // SAFETY: the kernel writes at most the bytes of `into`, and any bytes are words.
    let read = check(unsafe { libc::pread(fd.as_raw_fd(), into.as_mut_ptr().cast(), size_of_val(into), offset) } as i64)?;
    Ok(read as usize / 8)
}

/// What a descriptor of another process is: the inode number of a socket, or none for anything else.
///
/// # Errors
/// EBADF when there is no such descriptor; EPERM where the process may not be looked into.
pub fn socket_inode(tid: u32, fd: i32) -> Result<Option<u64>, Errno> {
    socket_link(libc::AT_FDCWD, format_args!("/proc/{tid}/fd/{fd}"))
}

/// As [`socket_inode`], in a process's folder of descriptors.
pub fn socket_inode_in(folder: BorrowedFd<'_>, fd: i32) -> Result<Option<u64>, Errno> {
    socket_link(folder.as_raw_fd(), format_args!("{fd}"))
}

fn socket_link(folder: RawFd, name: std::fmt::Arguments<'_>) -> Result<Option<u64>, Errno> {
    use std::io::Write as _;
    let mut path = [0_u8; 40];
    path[..39].as_mut().write_fmt(name).map_err(|_| Errno(libc::EBADF))?;
    let mut target = [0_u8; 64];
    // SAFETY: `path` is NUL-terminated (its last byte is never written), `target` is ours.
    let length = unsafe { libc::readlinkat(folder, path.as_ptr().cast(), target.as_mut_ptr().cast(), target.len()) };
    match check(length as i64) {
        Ok(length) => Ok(parse_socket_link(&target[..length as usize])),
        Err(Errno(libc::ENOENT)) => Err(Errno(libc::EBADF)),
        Err(Errno(libc::EACCES)) => Err(Errno(libc::EPERM)),
        Err(other) => Err(other),
    }
}

fn parse_socket_link(target: &[u8]) -> Option<u64> {
    let digits = target.strip_prefix(b"socket:[")?.strip_suffix(b"]")?;
    std::str::from_utf8(digits).ok()?.parse().ok()
}

/// A pidfd for a thread (`PIDFD_THREAD`, Linux 6.9) or, on older kernels, for a thread group's leader.
pub fn pidfd_open(tid: u32) -> Result<OwnedFd, Errno> {
    const PIDFD_THREAD: libc::c_uint = libc::O_EXCL as libc::c_uint;
    // SAFETY: takes no pointers.
    match owned(unsafe { libc::syscall(libc::SYS_pidfd_open, tid, PIDFD_THREAD) }) {
        // SAFETY: takes no pointers.
        Err(Errno(libc::EINVAL)) => owned(unsafe { libc::syscall(libc::SYS_pidfd_open, tid, 0) }),
        other => other,
    }
}

/// Processor time of this thread (CLOCK_THREAD_CPUTIME_ID).
pub fn thread_time() -> std::time::Duration {
    // SAFETY: an all-zero timespec is a valid value.
    let mut time: libc::timespec = unsafe { std::mem::zeroed() };
    // SAFETY: `time` outlives the call.
    if unsafe { libc::clock_gettime(libc::CLOCK_THREAD_CPUTIME_ID, &raw mut time) } != 0 {
        return std::time::Duration::ZERO;
    }
    std::time::Duration::new(time.tv_sec as u64, time.tv_nsec as u32)
}

/// How often this thread has slept (voluntary context switches, getrusage(2)).
pub fn thread_sleeps() -> i64 {
    // SAFETY: an all-zero rusage is a valid value.
    let mut usage: libc::rusage = unsafe { std::mem::zeroed() };
    // SAFETY: `usage` outlives the call.
    unsafe { libc::getrusage(libc::RUSAGE_THREAD, &raw mut usage) };
    usage.ru_nvcsw
}

/// A pipe, close-on-exec: (to read, to write).
pub fn pipe() -> Result<(OwnedFd, OwnedFd), Errno> {
    let mut pair = [0; 2];
    // SAFETY: `pair` has room for two descriptors.
    check(unsafe { libc::pipe2(pair.as_mut_ptr(), libc::O_CLOEXEC) })?;
    Ok((owned(pair[0])?, owned(pair[1])?))
}

/// Writes a report of eight bytes. Async-signal-safe; nothing can be done about failure.
pub fn write_report(to: BorrowedFd<'_>, what: i32, value: i32) {
    let words = [what, value];
    // SAFETY: the kernel reads eight bytes of `words`.
    unsafe { libc::write(to.as_raw_fd(), words.as_ptr().cast(), 8) };
}

/// Reads a report; none at the end.
pub fn read_report(from: BorrowedFd<'_>) -> Option<(i32, i32)> {
    let mut words = [0_i32; 2];
    // SAFETY: the kernel writes at most eight bytes into `words`.
    let length = again(|| check(unsafe { libc::read(from.as_raw_fd(), words.as_mut_ptr().cast(), 8) } as i64)).ok()?;
    (length == 8).then_some((words[0], words[1]))
}

/// Waits for a report or the end of a pipe. Async-signal-safe.
pub fn wait_for_word(pipe: BorrowedFd<'_>) {
    let _ = read_report(pipe);
}

/// Waits until one of these is readable or has hung up: what each shows.
pub fn poll_each(fds: &[BorrowedFd<'_>]) -> Vec<i16> {
    let mut set: Vec<libc::pollfd> = fds.iter().map(|fd| libc::pollfd { fd: fd.as_raw_fd(), events: libc::POLLIN, revents: 0 }).collect();
    // SAFETY: as many pollfds of ours as are said.
    let _ = again(|| check(unsafe { libc::poll(set.as_mut_ptr(), set.len() as libc::nfds_t, -1) }));
    set.into_iter().map(|one| one.revents).collect()
}

/// Blocks signals in this thread and makes them readable.
pub fn signal_descriptor(signals: &[i32]) -> Result<OwnedFd, Errno> {
    // SAFETY: `set` is initialised by sigemptyset and only read afterwards.
    unsafe {
        let mut set: libc::sigset_t = std::mem::zeroed();
        libc::sigemptyset(&raw mut set);
        for signal in signals {
            libc::sigaddset(&raw mut set, *signal);
        }
        check(libc::pthread_sigmask(libc::SIG_BLOCK, &raw const set, std::ptr::null_mut()))?;
        owned(libc::signalfd(-1, &raw const set, libc::SFD_CLOEXEC | libc::SFD_NONBLOCK))
    }
}

/// The next signal and whether a process sent it (rather than the kernel, as for a terminal's keys).
pub fn read_signal(fd: BorrowedFd<'_>) -> Option<(i32, bool)> {
    // SAFETY: an all-zero signalfd_siginfo is valid; the kernel fills in as many bytes as it has.
    let (info, length) = unsafe {
        let mut info: libc::signalfd_siginfo = std::mem::zeroed();
        let length = libc::read(fd.as_raw_fd(), (&raw mut info).cast(), size_of::<libc::signalfd_siginfo>());
        (info, length)
    };
    (length == size_of::<libc::signalfd_siginfo>() as isize).then_some((info.ssi_signo as i32, info.ssi_code <= 0))
}

/// A duplicate of another process's descriptor. Give it back (drop it) before the supervisor waits again: while we hold it the program's
/// last close is not the last.
pub fn pidfd_getfd(pidfd: BorrowedFd<'_>, fd: i32) -> Result<OwnedFd, Errno> {
    // SAFETY: takes no pointers.
    owned(unsafe { libc::syscall(libc::SYS_pidfd_getfd, pidfd.as_raw_fd(), fd, 0) })
}

/// Does something in a thread whose table of descriptors is a copy of this process's: what it puts there is seen by nobody else, and goes with it.
///
/// # Errors
/// There can be no such thread.
pub fn with_own_table<T: Send>(f: impl FnOnce() -> T + Send) -> Result<T, Errno> {
    std::thread::scope(|scope| {
        let thread = std::thread::Builder::new().spawn_scoped(scope, || {
            // SAFETY: takes no pointers.
            check(unsafe { libc::unshare(libc::CLONE_FILES) })?;
            Ok(f())
        });
        let ended = thread.map_err(|error| Errno(error.raw_os_error().unwrap_or(libc::EAGAIN)))?.join();
        ended.unwrap_or(Err(Errno(libc::EIO)))
    })
}

/// What an epoll watches a file under.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Member {
    /// The descriptor.
    pub number: i32,
    /// EPOLLIN and so on.
    pub events: u32,
    /// What the program gets back.
    pub data: u64,
}

/// An epoll that watches a file under some numbers watches another one from now on. Only for [`with_own_table`]: it takes the numbers.
///
/// # Errors
/// Those of dup2(2) and epoll_ctl(2); EEXIST is none, as then somebody else has done it.
pub fn move_in_epoll(epoll: BorrowedFd<'_>, members: &[Member], old: BorrowedFd<'_>, new: BorrowedFd<'_>) -> Result<(), Errno> {
    // Any of the three may have one of these numbers here, so they are put beyond all of them before the first is taken.
    let beyond = members.iter().map(|one| one.number).max().unwrap_or(0) + 1;
    let aside = |fd: BorrowedFd<'_>| {
        // SAFETY: takes no pointers.
        owned(unsafe { libc::fcntl(fd.as_raw_fd(), libc::F_DUPFD_CLOEXEC, beyond) })
    };
    let (epoll, old, new) = (aside(epoll)?, aside(old)?, aside(new)?);
    members.iter().try_for_each(|one| move_member(epoll.as_raw_fd(), *one, old.as_raw_fd(), new.as_raw_fd()))
}

fn move_member(epoll: i32, Member { number, events, data }: Member, old: i32, new: i32) -> Result<(), Errno> {
    let mut event = libc::epoll_event { events, u64: data };
    // SAFETY: descriptors of this thread's own table, and an event of ours.
    unsafe {
        check(libc::dup2(old, number))?;
        if let Err(Errno(libc::ENOENT)) = check(libc::epoll_ctl(epoll, libc::EPOLL_CTL_DEL, number, &raw mut event)) {
            // Somebody else has taken it out meanwhile, and did not want it any more.
            return Ok(());
        }
        check(libc::dup2(new, number))?;
        match check(libc::epoll_ctl(epoll, libc::EPOLL_CTL_ADD, number, &raw mut event)) {
            Err(errno) if errno.0 != libc::EEXIST => Err(errno),
            _ => Ok(()),
        }
    }
}

/// Where the stack of a thread ends that waits in a call (proc_pid_syscall(5)), as long as `still_waits` says that it does; none: nobody may know. A thread that
/// is on its way into the wait says "running", and is asked again.
pub fn stack_of(tid: u32, still_waits: impl Fn() -> bool) -> Option<u64> {
    let path = format!("/proc/{tid}/syscall");
    for _ in 0..STACK_LOOKS_MAX {
        let line = std::fs::read_to_string(&path).ok()?;
        if !line.starts_with("running") {
            let word = line.split_whitespace().nth(7)?;
            return u64::from_str_radix(word.trim_start_matches("0x"), 16).ok().filter(|_| still_waits());
        }
        if !still_waits() {
            return None;
        }
        std::thread::yield_now();
    }
    None
}

/// Looks at a thread that begins to sleep, each of some microseconds.
const STACK_LOOKS_MAX: usize = 10_000;

/// The number of a thread's process, as that process sees it: in a PID namespace of its own it has another (/proc/TID/status, `NStgid:`).
pub fn process_number(tid: u32) -> Option<u32> {
    let status = std::fs::read_to_string(format!("/proc/{tid}/status")).ok()?;
    let numbers = status.lines().find_map(|line| line.strip_prefix("NStgid:"))?;
    numbers.split_ascii_whitespace().next_back()?.parse().ok()
}

/// Is a descriptor of another process close-on-exec? (/proc/PID/fdinfo, `flags:` in octal.)
pub fn is_close_on_exec(tid: u32, fd: i32) -> bool {
    let Ok(text) = std::fs::read_to_string(format!("/proc/{tid}/fdinfo/{fd}")) else { return false };
    let flags = text.lines().find_map(|line| line.strip_prefix("flags:")).and_then(|flags| i32::from_str_radix(flags.trim(), 8).ok());
    flags.is_some_and(|flags| flags & libc::O_CLOEXEC != 0)
}

/// A new AF_UNIX socket, close-on-exec.
pub fn unix_socket(kind: i32) -> Result<OwnedFd, Errno> {
    // SAFETY: takes no pointers.
    owned(unsafe { libc::socket(libc::AF_UNIX, kind | libc::SOCK_CLOEXEC, 0) })
}

/// Keeps from programs what this process has inherited and what would take them past the filter to the host's network: sockets other than
/// AF_UNIX, and rings. They are closed when a program is executed. The three standard streams are whatever the user wants them to be.
///
/// # Errors
/// When /proc is not mounted.
pub fn keep_back_foreign() -> Result<(), Errno> {
    for entry in std::fs::read_dir("/proc/self/fd").map_err(|_| Errno(libc::ENOENT))?.flatten() {
        let Some(fd) = entry.file_name().to_str().and_then(|name| name.parse::<i32>().ok()).filter(|fd| *fd > 2) else { continue };
        let mut domain = 0_i32;
        let mut length = size_of::<i32>() as libc::socklen_t;
        // SAFETY: both pointers are to locals of the sizes that the kernel is told.
        let result = unsafe { libc::getsockopt(fd, libc::SOL_SOCKET, libc::SO_DOMAIN, (&raw mut domain).cast(), &raw mut length) };
        let is_ring = || std::fs::read_link(entry.path()).is_ok_and(|target| target.as_os_str() == "anon_inode:[io_uring]");
        if (result == 0 && domain != libc::AF_UNIX) || (result != 0 && is_ring()) {
            // SAFETY: takes no pointers.
            unsafe { libc::fcntl(fd, libc::F_SETFD, libc::FD_CLOEXEC) };
        }
    }
    Ok(())
}

/// `getsockopt` into at most 64 bytes.
pub fn get_option(fd: BorrowedFd<'_>, level: i32, name: i32) -> Result<([u8; 64], usize), Errno> {
    let mut value = [0_u8; 64];
    let mut length = value.len() as libc::socklen_t;
    // SAFETY: `value` and `length` are ours and describe each other.
    check(unsafe { libc::getsockopt(fd.as_raw_fd(), level, name, value.as_mut_ptr().cast(), &raw mut length) })?;
    Ok((value, length as usize))
}

/// An option of the socket's own level that is an int.
pub fn int_option(fd: BorrowedFd<'_>, name: i32) -> Option<i32> {
    let (value, length) = get_option(fd, libc::SOL_SOCKET, name).ok()?;
    value.get(..4).filter(|_| length >= 4).and_then(|bytes| bytes.try_into().ok()).map(i32::from_ne_bytes)
}

/// A socket's time limit (SO_RCVTIMEO, SO_SNDTIMEO); none when it waits for ever.
pub fn timeout_option(fd: BorrowedFd<'_>, name: i32) -> Option<Duration> {
    let (value, length) = get_option(fd, libc::SOL_SOCKET, name).ok()?;
    if length < 16 {
        return None;
    }
    let word = |at: usize| value.get(at..at + 8).and_then(|bytes| bytes.try_into().ok()).map(i64::from_ne_bytes);
    let (seconds, microseconds) = (word(0)?, word(8)?);
    let limit = Duration::from_secs(u64::try_from(seconds).ok()?) + Duration::from_micros(u64::try_from(microseconds).ok()?);
    (!limit.is_zero()).then_some(limit)
}

/// The process at the other end of a unix socket (SO_PEERCRED).
pub fn peer_process(fd: BorrowedFd<'_>) -> Option<i32> {
    let (value, length) = get_option(fd, libc::SOL_SOCKET, libc::SO_PEERCRED).ok()?;
    if length < 12 {
        return None;
    }
    value.get(..4).and_then(|bytes| bytes.try_into().ok()).map(i32::from_ne_bytes)
}

/// Binds to an abstract name that the kernel picks (unix(7), autobind) and returns the name.
pub fn autobind(fd: BorrowedFd<'_>) -> Result<Vec<u8>, Errno> {
    let family = (libc::AF_UNIX as libc::sa_family_t).to_ne_bytes();
    // SAFETY: two bytes of family are what autobind takes.
    check(unsafe { libc::bind(fd.as_raw_fd(), family.as_ptr().cast(), family.len() as libc::socklen_t) })?;
    name_of(fd)
}

/// The name of a unix socket (getsockname(2)).
pub fn name_of(fd: BorrowedFd<'_>) -> Result<Vec<u8>, Errno> {
    let mut name = vec![0_u8; size_of::<libc::sockaddr_un>()];
    let mut length = name.len() as libc::socklen_t;
    // SAFETY: `name` and `length` are ours and describe each other.
    check(unsafe { libc::getsockname(fd.as_raw_fd(), name.as_mut_ptr().cast(), &raw mut length) })?;
    name.truncate(length as usize);
    Ok(name)
}

/// `listen`.
pub fn listen(fd: BorrowedFd<'_>, backlog: i32) -> Result<(), Errno> {
    // SAFETY: takes no pointers.
    check(unsafe { libc::listen(fd.as_raw_fd(), backlog) }).map(drop)
}

/// `connect`.
pub fn connect(fd: BorrowedFd<'_>, name: &[u8]) -> Result<(), Errno> {
    // SAFETY: the kernel reads `name.len()` bytes of `name`.
    again(|| check(unsafe { libc::connect(fd.as_raw_fd(), name.as_ptr().cast(), name.len() as libc::socklen_t) })).map(drop)
}

/// `accept4` without the address; the result is close-on-exec. Only for descriptors that cannot block, or after `poll`.
pub fn accept(fd: BorrowedFd<'_>) -> Result<OwnedFd, Errno> {
    // SAFETY: null address pointers are allowed.
    again(|| owned(unsafe { libc::accept4(fd.as_raw_fd(), std::ptr::null_mut(), std::ptr::null_mut(), libc::SOCK_CLOEXEC) }))
}

/// `shutdown`.
pub fn shutdown(fd: BorrowedFd<'_>, how: i32) -> Result<(), Errno> {
    // SAFETY: takes no pointers.
    check(unsafe { libc::shutdown(fd.as_raw_fd(), how) }).map(drop)
}

/// Bytes that can be read (FIONREAD; of a listening or closed unix socket: zero).
pub fn readable_bytes(fd: BorrowedFd<'_>) -> usize {
    int_ioctl(fd, libc::FIONREAD)
}

/// Memory that written and unread data takes (SIOCOUTQ of a unix socket counts the kernel's true size, more than the bytes).
pub fn unread_memory(fd: BorrowedFd<'_>) -> usize {
    int_ioctl(fd, libc::TIOCOUTQ)
}

fn int_ioctl(fd: BorrowedFd<'_>, request: libc::Ioctl) -> usize {
    let mut value: libc::c_int = 0;
    // SAFETY: both requests write one int.
    match check(unsafe { libc::ioctl(fd.as_raw_fd(), request, &raw mut value) }) {
        Ok(_) => usize::try_from(value).unwrap_or(0),
        Err(_) => 0,
    }
}

/// Sets a socket's send buffer, past the system's limit where allowed. The kernel doubles the value.
pub fn set_send_buffer(fd: BorrowedFd<'_>, bytes: i32) {
    if set_option(fd, libc::SOL_SOCKET, libc::SO_SNDBUFFORCE, &bytes.to_ne_bytes()).is_err() {
        // Without the privilege the kernel caps it at net.core.wmem_max: smaller, and still right.
        let _ = set_option(fd, libc::SOL_SOCKET, libc::SO_SNDBUF, &bytes.to_ne_bytes());
    }
}

/// Receives into the spare room of a buffer, at most `limit` bytes, without blocking.
pub fn receive_into(fd: BorrowedFd<'_>, buffer: &mut BytesMut, limit: usize, flags: i32) -> Result<usize, Errno> {
    let spare = buffer.spare_capacity_mut();
    let limit = limit.min(spare.len());
    // SAFETY: the kernel writes at most `limit` bytes into the spare room.
    let received =
        again(|| check(unsafe { libc::recv(fd.as_raw_fd(), spare.as_mut_ptr().cast(), limit, flags | libc::MSG_DONTWAIT) } as i64))?
            as usize;
    // With MSG_TRUNC the result is the datagram's real size, which may be more than was written.
    // SAFETY: min(received, limit) bytes have just been initialised.
    unsafe { buffer.set_len(buffer.len() + received.min(limit)) };
    Ok(received)
}

/// Bytes of the packet that comes next, which stays.
pub fn next_packet_bytes(fd: BorrowedFd<'_>) -> Result<usize, Errno> {
    let flags = libc::MSG_PEEK | libc::MSG_TRUNC | libc::MSG_DONTWAIT;
    // SAFETY: no bytes are copied into a null buffer of length zero.
    check(unsafe { libc::recv(fd.as_raw_fd(), std::ptr::null_mut(), 0, flags) } as i64).map(|bytes| bytes as usize)
}

/// A packet as [`receive_packet`] found it.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Packet {
    /// A packet of this many bytes, of which only so many as there was room for were copied; and the process that has written it.
    Bytes(usize, u32),
    /// No packet: the other end is closed or shut down.
    End,
}

/// Bytes of the packet that [`receive_packet`] finds next.
pub fn written_packet_bytes(fd: BorrowedFd<'_>) -> Result<usize, Errno> {
    past_reset(|| next_packet_bytes(fd))
}

/// unix_release_sock puts ECONNRESET on the other end if something lay unread there, which the next call tells, once. What was written before is still
/// there behind it.
fn past_reset<T>(mut receive: impl FnMut() -> Result<T, Errno>) -> Result<T, Errno> {
    match receive() {
        Err(Errno(libc::ECONNRESET)) => receive(),
        other => other,
    }
}

/// Receives one packet into the spare room, telling an empty packet from the end: real packets carry the sender's credentials
/// (SO_PASSCRED is on at our end).
pub fn receive_packet(fd: BorrowedFd<'_>, buffer: &mut BytesMut) -> Result<Packet, Errno> {
    let (bytes, writer) = past_reset(|| receive_with_credentials(fd, buffer, usize::MAX, libc::MSG_TRUNC))?;
    if bytes == 0 && writer.is_none() { Ok(Packet::End) } else { Ok(Packet::Bytes(bytes, writer.unwrap_or(0))) }
}

/// Receives from a stream whose messages carry credentials (SO_PASSCRED) what one process wrote, at most `limit` bytes, and that process
/// (0: the end of the stream, which nobody wrote).
pub fn receive_from_writer(fd: BorrowedFd<'_>, buffer: &mut BytesMut, limit: usize) -> Result<(usize, u32), Errno> {
    receive_with_credentials(fd, buffer, limit, 0).map(|(bytes, writer)| (bytes, writer.unwrap_or(0)))
}

/// Receives at most `limit` bytes into the spare room, without blocking: how many there were, and the process that the kernel names as
/// their sender. The control buffer has room for its credentials only, so descriptors that a program attaches never arrive here.
fn receive_with_credentials(fd: BorrowedFd<'_>, buffer: &mut BytesMut, limit: usize, flags: i32) -> Result<(usize, Option<u32>), Errno> {
    let spare = buffer.spare_capacity_mut();
    let room = limit.min(spare.len());
    let mut vector = libc::iovec { iov_base: spare.as_mut_ptr().cast(), iov_len: room };
    let mut control = [0_u64; 4];
    // SAFETY: an all-zero msghdr is valid.
    let mut header: libc::msghdr = unsafe { std::mem::zeroed() };
    header.msg_iov = &raw mut vector;
    header.msg_iovlen = 1;
    let received = again(|| {
        header.msg_control = control.as_mut_ptr().cast();
        header.msg_controllen = size_of_val(&control);
        // SAFETY: `header` describes buffers of ours that live through the call.
        check(unsafe { libc::recvmsg(fd.as_raw_fd(), &raw mut header, libc::MSG_DONTWAIT | libc::MSG_CMSG_CLOEXEC | flags) } as i64)
    })? as usize;
    // With MSG_TRUNC the result is the packet's real size, which may be more than was written.
    // SAFETY: the kernel has initialised min(received, room) bytes of the spare room.
    unsafe { buffer.set_len(buffer.len() + received.min(room)) };
    // SAFETY: the kernel has filled in the header, and credentials where it says so.
    let writer = unsafe {
        let one = libc::CMSG_FIRSTHDR(&raw const header);
        let told = !one.is_null() && (*one).cmsg_type == libc::SCM_CREDENTIALS;
        told.then(|| libc::CMSG_DATA(one).cast::<libc::ucred>().read_unaligned().pid as u32)
    };
    Ok((received, writer))
}

/// Sends slices as one message, without blocking and without SIGPIPE.
pub fn send_vectors(fd: BorrowedFd<'_>, chunks: &[&[u8]], flags: i32) -> Result<usize, Errno> {
    let mut vectors: Vec<libc::iovec> = chunks
        .iter()
        .take(VECTORS_MAX)
        .map(|chunk| libc::iovec { iov_base: chunk.as_ptr().cast_mut().cast(), iov_len: chunk.len() })
        .collect();
    // SAFETY: an all-zero msghdr is valid.
    let mut header: libc::msghdr = unsafe { std::mem::zeroed() };
    header.msg_iov = vectors.as_mut_ptr();
    header.msg_iovlen = vectors.len();
    // SAFETY: `header` describes the chunks, which the kernel only reads.
    again(|| check(unsafe { libc::sendmsg(fd.as_raw_fd(), &raw const header, flags | libc::MSG_DONTWAIT | libc::MSG_NOSIGNAL) } as i64))
        .map(|sent| sent as usize)
}

/// A timer on CLOCK_MONOTONIC that an event loop can wait for.
pub fn timer() -> Result<OwnedFd, Errno> {
    // SAFETY: takes no pointers.
    owned(unsafe { libc::timerfd_create(libc::CLOCK_MONOTONIC, libc::TFD_CLOEXEC | libc::TFD_NONBLOCK) })
}

/// Arms it once, or disarms it.
pub fn set_timer(fd: BorrowedFd<'_>, after: Option<Duration>) -> Result<(), Errno> {
    let after = after.map_or(Duration::ZERO, |after| after.max(Duration::from_nanos(1)));
    let zero = libc::timespec { tv_sec: 0, tv_nsec: 0 };
    let value = libc::timespec {
        tv_sec: libc::time_t::try_from(after.as_secs()).unwrap_or(libc::time_t::MAX),
        tv_nsec: libc::c_long::from(after.subsec_nanos() as i32),
    };
    let setting = libc::itimerspec { it_interval: zero, it_value: value };
    // SAFETY: the kernel reads one itimerspec; the old one is not asked for.
    check(unsafe { libc::timerfd_settime(fd.as_raw_fd(), 0, &raw const setting, std::ptr::null_mut()) }).map(drop)
}

/// Takes note that a timer has fired.
pub fn clear_timer(fd: BorrowedFd<'_>) {
    let mut count = [0_u8; 8];
    // SAFETY: eight bytes of ours.
    let _ = unsafe { libc::read(fd.as_raw_fd(), count.as_mut_ptr().cast(), count.len()) };
}

/// The soft descriptor limit that this process was started with; [`u64::MAX`]: it has not been raised.
static FIRST_DESCRIPTOR_LIMIT: AtomicU64 = AtomicU64::new(u64::MAX);

/// Raises this process's descriptor limit to its hard limit; returns what it is then. Programs do not inherit that:
/// [`restore_descriptor_limit`].
pub fn raise_descriptor_limit() -> Result<u64, Errno> {
    let mut limit = libc::rlimit { rlim_cur: 0, rlim_max: 0 };
    // SAFETY: `limit` is ours.
    check(unsafe { libc::getrlimit(libc::RLIMIT_NOFILE, &raw mut limit) })?;
    // Only the first time tells what it was.
    let _ = FIRST_DESCRIPTOR_LIMIT.compare_exchange(u64::MAX, limit.rlim_cur, Ordering::Relaxed, Ordering::Relaxed);
    limit.rlim_cur = limit.rlim_max;
    // SAFETY: the kernel reads `limit`.
    check(unsafe { libc::setrlimit(libc::RLIMIT_NOFILE, &raw const limit) })?;
    Ok(limit.rlim_cur)
}

/// In a child between fork and exec: gives the program the soft limit that it would have had without us. Some programs close, or allocate for,
/// every descriptor that they may have, and select(2) knows 1024. Async-signal-safe.
pub fn restore_descriptor_limit() {
    let first = FIRST_DESCRIPTOR_LIMIT.load(Ordering::Relaxed);
    let mut limit = libc::rlimit { rlim_cur: 0, rlim_max: 0 };
    // SAFETY: `limit` is ours; the kernel writes it, then reads it.
    unsafe {
        if first != u64::MAX && libc::getrlimit(libc::RLIMIT_NOFILE, &raw mut limit) == 0 {
            limit.rlim_cur = first.min(limit.rlim_max);
            libc::setrlimit(libc::RLIMIT_NOFILE, &raw const limit);
        }
    }
}

/// Gives memory that was freed back to the system. The C library keeps it where pieces that are in use lie behind it: after a thousand
/// connections in bulk transfer some hundred megabytes. Takes milliseconds, so it is for quiet times.
pub fn trim_memory() {
    #[cfg(target_env = "gnu")]
    // SAFETY: it touches nothing but free memory, under the allocator's own lock.
    unsafe {
        libc::malloc_trim(0);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::os::fd::AsFd;

    #[test]
    fn socket_links_are_told_from_others() {
        assert_eq!(parse_socket_link(b"socket:[4711]"), Some(4711));
        assert_eq!(parse_socket_link(b"pipe:[4711]"), None);
        assert_eq!(parse_socket_link(b"/dev/null"), None);
        assert_eq!(parse_socket_link(b"socket:[x]"), None);
    }

    #[test]
    fn the_inode_seen_through_proc_is_the_one_of_fstat() {
        let (a, _b) = unix_pair(libc::SOCK_STREAM).unwrap();
        let me = std::process::id();
        assert_eq!(socket_inode(me, a.as_raw_fd()).unwrap(), Some(inode(a.as_fd()).unwrap()));
        assert_eq!(socket_inode(me, 1_000_000), Err(Errno(libc::EBADF)));
    }

    #[test]
    fn an_empty_packet_is_not_the_end() {
        let (ours, theirs) = unix_pair(libc::SOCK_SEQPACKET).unwrap();
        set_option(ours.as_fd(), libc::SOL_SOCKET, libc::SO_PASSCRED, &1_i32.to_ne_bytes()).unwrap();
        send_vectors(theirs.as_fd(), &[b""], 0).unwrap();
        send_vectors(theirs.as_fd(), &[b"ab", b"c"], 0).unwrap();
        drop(theirs);
        let mut buffer = BytesMut::with_capacity(2);
        assert_eq!(receive_packet(ours.as_fd(), &mut buffer), Ok(Packet::Bytes(0, std::process::id())));
        assert_eq!(receive_packet(ours.as_fd(), &mut buffer), Ok(Packet::Bytes(3, std::process::id())));
        assert_eq!(&buffer[..], b"ab");
        assert_eq!(receive_packet(ours.as_fd(), &mut buffer), Ok(Packet::End));
    }

    #[test]
    fn what_was_written_before_a_close_is_there_though_something_lay_unread() {
        for peeks in [false, true] {
            let (ours, theirs) = unix_pair(libc::SOCK_SEQPACKET).unwrap();
            set_option(ours.as_fd(), libc::SOL_SOCKET, libc::SO_PASSCRED, &1_i32.to_ne_bytes()).unwrap();
            send_vectors(ours.as_fd(), &[b"unread"], 0).unwrap();
            send_vectors(theirs.as_fd(), &[b"last"], 0).unwrap();
            drop(theirs);
            if peeks {
                assert_eq!(written_packet_bytes(ours.as_fd()), Ok(4));
            }
            let mut buffer = BytesMut::with_capacity(8);
            assert_eq!(receive_packet(ours.as_fd(), &mut buffer), Ok(Packet::Bytes(4, std::process::id())));
            assert_eq!(receive_packet(ours.as_fd(), &mut buffer), Ok(Packet::End));
        }
    }
}
