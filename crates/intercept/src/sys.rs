//! The system calls that this crate makes, as small safe functions with errno results.
//!
//! Everything here is a thin wrapper; what a call means for a program is decided elsewhere.

use bytes::BytesMut;
use std::os::fd::{AsRawFd, BorrowedFd, FromRawFd, OwnedFd, RawFd};
use std::time::Duration;

pub use weft_socket::Errno;

/// Turns a result of a libc function into a value or errno.
pub fn check(result: impl Into<i64>) -> Result<i64, Errno> {
    let result = result.into();
    if result < 0 { Err(last()) } else { Ok(result) }
}

/// The calling thread's errno.
pub fn last() -> Errno {
    Errno(std::io::Error::last_os_error().raw_os_error().unwrap_or(libc::EIO))
}

/// Retries a call that a signal interrupted.
pub fn again<T>(mut call: impl FnMut() -> Result<T, Errno>) -> Result<T, Errno> {
    loop {
        match call() {
            Err(Errno(libc::EINTR)) => {}
            other => return other,
        }
    }
}

/// The descriptor that a call has returned, or its errno.
pub fn owned(result: impl Into<i64>) -> Result<OwnedFd, Errno> {
    let fd = check(result)?;
    let fd = RawFd::try_from(fd).map_err(|_| Errno(libc::EIO))?;
    // SAFETY: the kernel has just returned this descriptor to us; nobody else knows it.
    Ok(unsafe { OwnedFd::from_raw_fd(fd) })
}

/// The real user and group of a process or thread. None: it is gone.
pub fn owner_of(tid: u32) -> Option<[u32; 2]> {
    let status = std::fs::read_to_string(format!("/proc/{tid}/status")).ok()?;
    let first = |name: &str| status.lines().find_map(|line| line.strip_prefix(name))?.split_whitespace().next()?.parse().ok();
    Some([first("Uid:")?, first("Gid:")?])
}

/// The user whose files a process or thread makes (`current_fsuid()`). None: it is gone.
pub fn file_user_of(tid: u32) -> Option<u32> {
    let status = std::fs::read_to_string(format!("/proc/{tid}/status")).ok()?;
    status.lines().find_map(|line| line.strip_prefix("Uid:"))?.split_whitespace().nth(3)?.parse().ok()
}

/// Copies from a process's memory; all or EFAULT.
pub fn read_memory(tid: u32, address: u64, into: &mut [u8]) -> Result<(), Errno> {
    if into.is_empty() {
        return Ok(());
    }
    let local = libc::iovec { iov_base: into.as_mut_ptr().cast(), iov_len: into.len() };
    let remote = libc::iovec { iov_base: address as *mut libc::c_void, iov_len: into.len() };
    // SAFETY: `local` is our buffer; `remote` is only dereferenced by the kernel, in the other process.
    let copied = check(unsafe { libc::process_vm_readv(tid as libc::pid_t, &raw const local, 1, &raw const remote, 1, 0) } as i64)?;
    if copied as usize == into.len() { Ok(()) } else { Err(Errno(libc::EFAULT)) }
}

/// Copies into a process's memory; all or EFAULT.
pub fn write_memory(tid: u32, address: u64, from: &[u8]) -> Result<(), Errno> {
    write_vectors(tid, &[(address, from.len() as u64)], from)
        .and_then(|copied| if copied == from.len() { Ok(()) } else { Err(Errno(libc::EFAULT)) })
}

/// Most vectors passed in one call (IOV_MAX).
pub const VECTORS_MAX: usize = 1024;

/// (address, bytes) pieces of another process as process_vm_readv(2) takes them, at most so many bytes.
fn remote_vectors(vectors: &[(u64, u64)], limit: usize) -> Vec<libc::iovec> {
    let mut left = limit as u64;
    let mut remote = Vec::with_capacity(vectors.len().min(VECTORS_MAX));
    for &(address, bytes) in vectors.iter().take(VECTORS_MAX) {
        let bytes = bytes.min(left);
        if bytes > 0 {
            remote.push(libc::iovec { iov_base: address as *mut libc::c_void, iov_len: bytes as usize });
            left -= bytes;
        }
    }
    remote
}

/// Gathers from a process's memory, at most `limit` bytes; returns what was readable before the first bad page.
pub fn read_vectors(tid: u32, vectors: &[(u64, u64)], limit: usize) -> Result<BytesMut, Errno> {
    let total = vectors.iter().fold(0_u64, |sum, (_, bytes)| sum.saturating_add(*bytes)).min(limit as u64) as usize;
    let mut into = BytesMut::zeroed(total);
    if total == 0 {
        return Ok(into);
    }
    let remote = remote_vectors(vectors, total);
    let local = libc::iovec { iov_base: into.as_mut_ptr().cast(), iov_len: total };
    // SAFETY: `local` is our buffer of `total` bytes; the remote vectors are dereferenced in the other process only.
    let copied =
        check(
            unsafe { libc::process_vm_readv(tid as libc::pid_t, &raw const local, 1, remote.as_ptr(), remote.len() as libc::c_ulong, 0) }
                as i64,
        )? as usize;
    if copied == 0 {
        return Err(Errno(libc::EFAULT));
    }
    into.truncate(copied);
    Ok(into)
}

/// Scatters into a process's memory; returns how many bytes fitted before the vectors ended or a bad page came.
fn write_vectors(tid: u32, vectors: &[(u64, u64)], from: &[u8]) -> Result<usize, Errno> {
    let remote = remote_vectors(vectors, from.len());
    if from.is_empty() || remote.is_empty() {
        return Ok(0);
    }
    let local = libc::iovec { iov_base: from.as_ptr().cast_mut().cast(), iov_len: from.len() };
    // SAFETY: the kernel reads from `local` only; the remote vectors are dereferenced in the other process.
    let copied =
        check(
            unsafe { libc::process_vm_writev(tid as libc::pid_t, &raw const local, 1, remote.as_ptr(), remote.len() as libc::c_ulong, 0) }
                as i64,
        )?;
    Ok(copied as usize)
}

/// The inode number of a descriptor of ours.
pub fn inode(fd: BorrowedFd<'_>) -> Result<u64, Errno> {
    // SAFETY: an all-zero stat is a valid one; the kernel fills it in.
    let mut stat: libc::stat = unsafe { std::mem::zeroed() };
    // SAFETY: `stat` is ours and large enough.
    check(unsafe { libc::fstat(fd.as_raw_fd(), &raw mut stat) })?;
    Ok(stat.st_ino)
}

/// Processor time that all threads of a process have used (CLOCK_PROCESS_CPUTIME_ID of another process: clock_getcpuclockid(3)).
pub fn process_time(process: i32) -> Option<Duration> {
    const CPUCLOCK_SCHED: libc::clockid_t = 2;
    let mut time = libc::timespec { tv_sec: 0, tv_nsec: 0 };
    // SAFETY: `time` is ours.
    check(unsafe { libc::clock_gettime(!process << 3 | CPUCLOCK_SCHED, &raw mut time) }).ok()?;
    Some(Duration::new(u64::try_from(time.tv_sec).ok()?, u32::try_from(time.tv_nsec).ok()?))
}

/// A pidfd for a whole process, readable when it has ended.
pub fn pidfd_open_process(pid: u32) -> Result<OwnedFd, Errno> {
    // SAFETY: takes no pointers.
    owned(unsafe { libc::syscall(libc::SYS_pidfd_open, pid, 0) })
}

/// `waitpid`: a status, or none with WNOHANG.
pub fn wait(pid: libc::pid_t, flags: i32) -> Result<Option<i32>, Errno> {
    let mut status = 0;
    // SAFETY: `status` is ours.
    let found = again(|| check(unsafe { libc::waitpid(pid, &raw mut status, flags) }))?;
    Ok((found != 0).then_some(status))
}

/// Sends a signal to what a pidfd means.
pub fn pidfd_signal(pidfd: BorrowedFd<'_>, signal: i32) -> Result<(), Errno> {
    // SAFETY: a null siginfo is allowed.
    check(unsafe { libc::syscall(libc::SYS_pidfd_send_signal, pidfd.as_raw_fd(), signal, std::ptr::null::<libc::siginfo_t>(), 0) })
        .map(drop)
}

/// A limit of a process, 0: of this one: soft and hard.
pub fn limit_of(pid: u32, number: u32) -> Result<[u64; 2], Errno> {
    let mut limit = [0_u64; 2];
    // SAFETY: nothing is set; the two words are what the kernel writes (struct rlimit64).
    check(unsafe { libc::syscall(libc::SYS_prlimit64, pid, number, std::ptr::null::<u64>(), limit.as_mut_ptr()) }).map(|_| limit)
}

/// Two connected AF_UNIX sockets, close-on-exec, blocking.
pub fn unix_pair(kind: i32) -> Result<(OwnedFd, OwnedFd), Errno> {
    let mut pair = [0; 2];
    // SAFETY: `pair` has room for the two descriptors.
    check(unsafe { libc::socketpair(libc::AF_UNIX, kind | libc::SOCK_CLOEXEC, 0, pair.as_mut_ptr()) })?;
    Ok((owned(pair[0])?, owned(pair[1])?))
}

/// File status flags (O_NONBLOCK and so on): those of the open file, so a duplicate tells the program's.
pub fn status_flags(fd: BorrowedFd<'_>) -> Result<i32, Errno> {
    // SAFETY: takes no pointers.
    check(unsafe { libc::fcntl(fd.as_raw_fd(), libc::F_GETFL) }).map(|flags| flags as i32)
}

/// Sets O_NONBLOCK.
pub fn set_nonblocking(fd: BorrowedFd<'_>) -> Result<(), Errno> {
    let flags = status_flags(fd)?;
    // SAFETY: takes no pointers.
    check(unsafe { libc::fcntl(fd.as_raw_fd(), libc::F_SETFL, flags | libc::O_NONBLOCK) }).map(drop)
}

/// `setsockopt`.
pub fn set_option(fd: BorrowedFd<'_>, level: i32, name: i32, value: &[u8]) -> Result<(), Errno> {
    // SAFETY: the kernel reads `value.len()` bytes of `value`.
    check(unsafe { libc::setsockopt(fd.as_raw_fd(), level, name, value.as_ptr().cast(), value.len() as libc::socklen_t) }).map(drop)
}

/// Waits until a descriptor is readable, or has an error. A signal does not end the wait, and begins `limit` (none: for ever) anew.
///
/// # Errors
/// ETIMEDOUT; what poll(2) says.
pub fn wait_readable(fd: BorrowedFd<'_>, limit: Option<Duration>) -> Result<(), Errno> {
    let limit_ms = limit.map_or(-1, |limit| i32::try_from(limit.as_millis()).unwrap_or(i32::MAX));
    let mut set = libc::pollfd { fd: fd.as_raw_fd(), events: libc::POLLIN, revents: 0 };
    // SAFETY: one pollfd of ours.
    match again(|| check(unsafe { libc::poll(&raw mut set, 1, limit_ms) }))? {
        0 => Err(Errno(libc::ETIMEDOUT)),
        _ => Ok(()),
    }
}

/// What is ready now, without waiting.
pub fn poll_now(fd: BorrowedFd<'_>, events: i16) -> i16 {
    let mut one = libc::pollfd { fd: fd.as_raw_fd(), events, revents: 0 };
    // SAFETY: one pollfd of ours.
    let ready = again(|| check(unsafe { libc::poll(&raw mut one, 1, 0) }));
    if ready.is_ok() { one.revents } else { 0 }
}

/// What is ready now at each of these, without waiting.
pub fn poll_all(fds: &[BorrowedFd<'_>], events: i16) -> Vec<i16> {
    let mut all: Vec<libc::pollfd> = fds.iter().map(|fd| libc::pollfd { fd: fd.as_raw_fd(), events, revents: 0 }).collect();
    // SAFETY: so many pollfds of ours.
    let ready = again(|| check(unsafe { libc::poll(all.as_mut_ptr(), all.len() as libc::nfds_t, 0) }));
    all.iter().map(|one| if ready.is_ok() { one.revents } else { 0 }).collect()
}

/// fchown(2), to a user and the group of the same number.
pub fn change_owner(fd: BorrowedFd<'_>, user: u32) -> Result<(), Errno> {
    // SAFETY: takes no pointers.
    check(i64::from(unsafe { libc::fchown(fd.as_raw_fd(), user, user) })).map(drop)
}

/// An eventfd, close-on-exec and non-blocking.
pub fn event(value: u32) -> Result<OwnedFd, Errno> {
    // SAFETY: takes no pointers.
    let fd = check(i64::from(unsafe { libc::eventfd(value, libc::EFD_CLOEXEC | libc::EFD_NONBLOCK) }))?;
    // SAFETY: new, and ours.
    Ok(unsafe { OwnedFd::from_raw_fd(fd as i32) })
}

/// Makes an eventfd readable.
pub fn raise_event(fd: BorrowedFd<'_>) {
    add_to_event(fd, 1);
}

/// Adds a number to an eventfd.
pub fn add_to_event(fd: BorrowedFd<'_>, count: u64) {
    // SAFETY: eight bytes of ours.
    unsafe { libc::write(fd.as_raw_fd(), (&raw const count).cast(), 8) };
}

/// Makes an eventfd unreadable.
pub fn clear_event(fd: BorrowedFd<'_>) {
    let mut value = 0_u64;
    // SAFETY: as above.
    unsafe { libc::read(fd.as_raw_fd(), (&raw mut value).cast(), 8) };
}

/// An epoll, close-on-exec.
pub fn epoll() -> Result<OwnedFd, Errno> {
    // SAFETY: takes no pointers.
    let fd = check(i64::from(unsafe { libc::epoll_create1(libc::EPOLL_CLOEXEC) }))?;
    // SAFETY: new, and ours.
    Ok(unsafe { OwnedFd::from_raw_fd(fd as i32) })
}

/// Does root run this?
pub fn is_root() -> bool {
    // SAFETY: takes no pointers.
    unsafe { libc::geteuid() == 0 }
}

/// The clock that the host's kernel writes times of files by, in nanoseconds since 1970: no file that is made later has an earlier time
/// (CLOCK_REALTIME_COARSE; `current_time` of fs/inode.c).
pub fn real_nanos() -> u64 {
    let mut now = libc::timespec { tv_sec: 0, tv_nsec: 0 };
    // SAFETY: a timespec of ours.
    unsafe { libc::clock_gettime(libc::CLOCK_REALTIME_COARSE, &raw mut now) };
    (now.tv_sec as u64).saturating_mul(1_000_000_000).saturating_add(now.tv_nsec as u64).max(1)
}

/// A mount of a folder that is nowhere yet, to be read only, in which files of the user that is root in that user namespace are shown as such where the file system can
/// do it. Needs CAP_SYS_ADMIN.
pub fn detached_mount(folder: &std::path::Path, users: &str) -> Result<OwnedFd, Errno> {
    use std::os::unix::ffi::OsStrExt as _;
    let path = std::ffi::CString::new(folder.as_os_str().as_bytes()).map_err(|_| Errno(libc::EINVAL))?;
    let flags = libc::OPEN_TREE_CLONE | libc::OPEN_TREE_CLOEXEC | libc::AT_RECURSIVE as u32;
    // SAFETY: a C string; the descriptor that is returned is nobody else's.
    let tree = unsafe { OwnedFd::from_raw_fd(check(libc::syscall(libc::SYS_open_tree, libc::AT_FDCWD, path.as_ptr(), flags))? as i32) };
    let set = |attributes: u64, users: u64, flags: i32| {
        // struct mount_attr: to set, to clear, propagation, user namespace.
        let words = [attributes, 0, 0, users];
        // SAFETY: an empty path means the descriptor; the words are read only.
        check(unsafe {
            libc::syscall(
                libc::SYS_mount_setattr,
                tree.as_raw_fd(),
                c"".as_ptr(),
                libc::AT_EMPTY_PATH | flags,
                words.as_ptr(),
                size_of_val(&words),
            )
        })
    };
    const READ_ONLY: u64 = 1;
    const NO_SET_ID: u64 = 2;
    const IDMAP: u64 = 0x0010_0000;
    set(READ_ONLY | NO_SET_ID, 0, libc::AT_RECURSIVE)?;
    if let Ok(users) = std::fs::File::open(users) {
        // Where a file system cannot, files are whose they are, and what others may read is seen.
        let _ = set(IDMAP, users.as_raw_fd() as u64, 0);
    }
    Ok(tree)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn memory_of_a_process_is_copied_and_bad_addresses_are_efault() {
        let me = std::process::id();
        let data = *b"abcdefgh";
        let mut copy = [0; 8];
        read_memory(me, data.as_ptr() as u64, &mut copy).unwrap();
        assert_eq!(copy, data);
        assert_eq!(read_memory(me, 8, &mut copy), Err(Errno(libc::EFAULT)));
        assert_eq!(write_memory(me, 8, &copy), Err(Errno(libc::EFAULT)));
        assert_eq!(read_vectors(me, &[(8, 4)], 100), Err(Errno(libc::EFAULT)));
        let gathered = read_vectors(me, &[(data.as_ptr() as u64, 3), (data.as_ptr() as u64 + 6, u64::MAX)], 5).unwrap();
        assert_eq!(&gathered[..], b"abcgh");
    }
}
