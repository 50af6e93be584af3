//! What programs learn when weft ends, by its own will or not: that their sockets are gone, and never that their data has come to its end.
//!
//! A unix stream socket is reset when its peer is closed with data unread (unix_release_sock: "if (!skb_queue_empty_lockless(&sk->sk_receive_queue) ||
//! embrion) WRITE_ONCE(skpair->sk_err, ECONNRESET);"). So one byte is put into weft's end, from the program's end, which is borrowed for that; then
//! weft's end is closed. Program's ends are found by looking through the tables of all processes under a filter, once for all sockets.

use super::answers;
use super::ledger::Ledger;
use crate::listener::Listener;
use crate::standin::liveness;
use crate::supervisor::is_filtered;
use crate::sys::{self, Errno};
use bytes::BytesMut;
use std::collections::HashSet;
use std::os::fd::{AsFd as _, AsRawFd as _, BorrowedFd, FromRawFd as _, OwnedFd, RawFd};
use std::time::Duration;

/// A read that waits on a datagram socket that has shown its error waits no longer than this, and fails with EAGAIN.
const DATAGRAM_WAIT: Duration = Duration::from_secs(1);
/// So much of what a program wrote is thrown away at a time.
const DRAIN_BYTES: usize = 64 << 10;

/// weft is no more: this process has its descriptors. `ends` are unix sockets of weft's, `listeners` those of filters.
pub(super) fn after_weft(weft: u32, ends: &[RawFd], listeners: &[Listener], ledger: &Ledger) {
    let mut found = HashSet::new();
    // What weft made shows weft at its other end, whoever holds it (SO_PEERCRED); a listening one shows who called listen(2).
    let is_wefts = |end: BorrowedFd<'_>| sys::peer_process(end) == i32::try_from(weft).ok();
    let made = liveness::living().unwrap_or_default();
    each_end(
        |inode| made.contains(&inode),
        |inode, end| {
            if is_wefts(end) {
                found.insert(inode);
                lose(end);
            }
        },
    );
    for fd in ends {
        // SAFETY: weft's, which is no more, so it is this process's alone.
        let ours = unsafe { OwnedFd::from_raw_fd(*fd) };
        // What a held call had borrowed is the program's end, and its data the program's.
        if sys::inode(ours.as_fd()).is_ok_and(|inode| !found.contains(&inode)) {
            part(ours);
        }
    }
    let listener_of = |fd: RawFd| listeners.iter().find(|listener| listener.as_fd().as_raw_fd() == fd);
    for (fd, id, errno) in ledger.held() {
        if let Some(listener) = listener_of(fd) {
            let _ = listener.refuse(id, errno);
        }
    }
    // The one that weft was about to answer, if it was.
    if let Some((fd, call)) = ledger.received()
        && let Some(listener) = listener_of(fd)
        && listener.is_valid(call.id)
    {
        answers::answer_one(weft, listener, &call);
    }
}

/// Looks once through the sockets of all processes under a filter, and lends each that is wanted.
pub(crate) fn each_end(wanted: impl Fn(u64) -> bool, mut f: impl FnMut(u64, BorrowedFd<'_>)) {
    let mut seen = HashSet::new();
    for process in std::fs::read_dir("/proc").into_iter().flatten().flatten() {
        let Some(pid) = process.file_name().to_str().and_then(|name| name.parse::<u32>().ok()) else { continue };
        if pid == std::process::id() || !is_filtered(pid) {
            continue;
        }
        let mut pidfd = None;
        for descriptor in std::fs::read_dir(process.path().join("fd")).into_iter().flatten().flatten() {
            let Some(fd) = descriptor.file_name().to_str().and_then(|name| name.parse::<i32>().ok()) else { continue };
            let Ok(Some(inode)) = sys::socket_inode(pid, fd) else { continue };
            if !wanted(inode) || seen.contains(&inode) {
                continue;
            }
            let pidfd = pidfd.get_or_insert_with(|| sys::pidfd_open_process(pid));
            let Some(end) = pidfd.as_ref().ok().and_then(|pidfd| sys::pidfd_getfd(pidfd.as_fd(), fd).ok()) else { continue };
            // The program may have closed it meanwhile, and opened another.
            if sys::inode(end.as_fd()) == Ok(inode) {
                seen.insert(inode);
                f(inode, end.as_fd());
            }
        }
    }
}

/// Prepares a program's end for the loss of weft's.
pub(crate) fn lose(end: BorrowedFd<'_>) {
    if sys::int_option(end, libc::SO_ACCEPTCONN) == Some(1) {
        // Wakes who waits for a connection, and whoever accepts it is told (`answers`). After shutdown(2) the listener would be ready for ever.
        let _ =
            sys::unix_socket(libc::SOCK_STREAM | libc::SOCK_NONBLOCK).and_then(|knock| sys::connect(knock.as_fd(), &sys::name_of(end)?));
        return;
    }
    match sys::int_option(end, libc::SO_TYPE) {
        // The peer's FIN has been passed on: all that belongs to this stream is there, and its end is true.
        Some(libc::SOCK_STREAM) if sys::poll_now(end, libc::POLLRDHUP) & libc::POLLRDHUP != 0 => {}
        Some(libc::SOCK_DGRAM) => {
            // One that could show errors. It is told once, at the moment in which weft's end leaves it (see `part`); then nobody is there to end a wait.
            let _ = sys::send_vectors(end, &[b"\0"], 0);
            let limit = [DATAGRAM_WAIT.as_secs().to_ne_bytes(), [0; 8]].concat();
            let _ = sys::set_option(end, libc::SOL_SOCKET, libc::SO_RCVTIMEO, &limit);
        }
        // A queue that takes no more has unread data in it, which is what is wanted.
        _ => {
            let _ = sys::send_vectors(end, &[b"\0"], 0);
        }
    }
}

/// Closes weft's end of a socket for which [`lose`] was called.
pub(crate) fn part(ours: OwnedFd) {
    match sys::int_option(ours.as_fd(), libc::SO_TYPE) {
        Some(libc::SOCK_STREAM) if has_ended(ours.as_fd()) => drain(ours.as_fd()),
        // unix_dgram_disconnected: "If one link of bidirectional dgram pipe is disconnected, we signal error."
        Some(libc::SOCK_DGRAM) => {
            let _ = sys::connect(ours.as_fd(), &(libc::AF_UNSPEC as libc::sa_family_t).to_ne_bytes());
        }
        _ => {}
    }
}

/// Has weft passed the peer's FIN on, by shutdown(2)? Nothing is sent, but an end that may not send says so.
fn has_ended(ours: BorrowedFd<'_>) -> bool {
    sys::send_vectors(ours, &[b""], 0) == Err(Errno(libc::EPIPE))
}

/// Throws away what a program has written: unread, it would turn an end of data into a reset. Nothing more comes: a program that goes on writing would
/// hold up the end.
fn drain(ours: BorrowedFd<'_>) {
    let _ = sys::shutdown(ours, libc::SHUT_RD);
    let mut buffer = BytesMut::with_capacity(DRAIN_BYTES);
    while sys::receive_into(ours, &mut buffer, DRAIN_BYTES, 0).is_ok_and(|bytes| bytes > 0) {
        buffer.clear();
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::standin::packet;

    fn read(end: BorrowedFd<'_>) -> Result<usize, Errno> {
        sys::receive_into(end, &mut BytesMut::with_capacity(100), 100, 0)
    }

    /// Both ends, after the program's was prepared and weft's is closed.
    fn lost(pair: (OwnedFd, OwnedFd)) -> OwnedFd {
        let (theirs, ours) = pair;
        lose(theirs.as_fd());
        part(ours);
        theirs
    }

    #[test]
    fn streams_are_reset_after_what_is_queued() {
        let pair = sys::unix_pair(libc::SOCK_STREAM).unwrap();
        sys::send_vectors(pair.1.as_fd(), &[b"half"], 0).unwrap();
        let theirs = lost(pair);
        assert_eq!((read(theirs.as_fd()), read(theirs.as_fd())), (Ok(4), Err(Errno(libc::ECONNRESET))));
    }

    #[test]
    fn an_end_that_was_passed_on_stays_one_whatever_the_program_wrote() {
        let pair = sys::unix_pair(libc::SOCK_STREAM).unwrap();
        sys::send_vectors(pair.1.as_fd(), &[b"all"], 0).unwrap();
        sys::shutdown(pair.1.as_fd(), libc::SHUT_WR).unwrap();
        sys::send_vectors(pair.0.as_fd(), &[&[0; 100_000]], 0).unwrap();
        let theirs = lost(pair);
        assert_eq!((read(theirs.as_fd()), read(theirs.as_fd())), (Ok(3), Ok(0)));
    }

    #[test]
    fn who_goes_on_writing_neither_holds_up_the_end_nor_turns_it_into_a_reset() {
        for _ in 0..50 {
            let pair = sys::unix_pair(libc::SOCK_STREAM).unwrap();
            sys::shutdown(pair.1.as_fd(), libc::SHUT_WR).unwrap();
            let write = |theirs: OwnedFd| {
                move || while matches!(sys::send_vectors(theirs.as_fd(), &[&[0; 4096]], 0), Ok(_) | Err(Errno(libc::EAGAIN))) {}
            };
            let writers: Vec<_> = (0..2).map(|_| std::thread::spawn(write(pair.0.try_clone().unwrap()))).collect();
            while sys::readable_bytes(pair.1.as_fd()) == 0 {
                std::thread::yield_now();
            }
            let theirs = lost(pair);
            assert_eq!(read(theirs.as_fd()), Ok(0));
            writers.into_iter().for_each(|one| one.join().unwrap());
        }
    }

    #[test]
    fn datagram_sockets_of_both_kinds_show_an_error_first() {
        let theirs = lost(sys::unix_pair(libc::SOCK_SEQPACKET).unwrap());
        assert_eq!(read(theirs.as_fd()), Err(Errno(libc::ECONNRESET)));
        let (theirs, ours, _) = packet::pair_with_errors().unwrap();
        let theirs = lost((theirs, ours));
        assert_eq!((read(theirs.as_fd()), read(theirs.as_fd())), (Err(Errno(libc::ECONNRESET)), Err(Errno(libc::EAGAIN))));
        assert_eq!(sys::timeout_option(theirs.as_fd(), libc::SO_RCVTIMEO), Some(DATAGRAM_WAIT));
    }

    #[test]
    fn who_waits_at_a_listener_wakes() {
        let listener = sys::unix_socket(libc::SOCK_STREAM).unwrap();
        sys::autobind(listener.as_fd()).unwrap();
        sys::listen(listener.as_fd(), 1).unwrap();
        assert_eq!(sys::poll_now(listener.as_fd(), libc::POLLIN), 0);
        lose(listener.as_fd());
        assert_eq!(sys::poll_now(listener.as_fd(), libc::POLLIN), libc::POLLIN);
        sys::accept(listener.as_fd()).unwrap();
        assert_eq!(sys::poll_now(listener.as_fd(), libc::POLLIN), 0, "it is not ready for ever");
    }

    #[test]
    fn a_socket_of_weft_is_told_by_who_made_it() {
        let (theirs, _ours) = sys::unix_pair(libc::SOCK_STREAM).unwrap();
        assert_eq!(sys::peer_process(theirs.as_fd()), i32::try_from(std::process::id()).ok());
        let fresh = sys::unix_socket(libc::SOCK_STREAM).unwrap();
        assert_ne!(sys::peer_process(fresh.as_fd()), i32::try_from(std::process::id()).ok());
    }
}
