//! What the calls of programs come to whose stack is no more.
//!
//! A filter whose listener is closed answers ENOSYS to all that it traps: a program's own unix sockets, too, cannot be used any more, and a server that
//! waits for connections finds a listener that is ready for ever and never gives one. So somebody goes on answering until the last program of a filter
//! has ended:
//!
//! - Calls on sockets of the stack fail as on a host whose network is gone: ENETDOWN, and ECONNRESET on a connected stream. New ones cannot be made.
//! - A listener tells so once, to whoever accepts first. Then it is silent: it is never ready, and who waits at it waits, as at one that nobody can reach.
//! - Everything else is the kernel's.

use crate::listener::{Listener, Notification, Place};
use crate::sys::{self, Errno};
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use weft_intercept::arch;

/// Of an address of the family AF_UNIX that has no name.
const FAMILY_BYTES: usize = size_of::<libc::sa_family_t>();

/// What becomes of a call.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Answer {
    /// It fails.
    Refuse(i32),
    /// The kernel does it.
    Kernel,
    /// It waits until a signal ends it.
    Never,
}

/// Most calls that are answered at one listener by who does not stay: a program that goes on calling does not hold up the end.
const CALLS_MAX: usize = 4096;

/// Answers for the stack of that process, which is no more, until no program is under any of these filters.
pub(super) fn until_nobody_asks(weft: u32, mut listeners: Vec<Listener>) {
    while !listeners.is_empty() {
        let shown = sys::poll_each(&listeners.iter().map(Listener::as_fd).collect::<Vec<_>>());
        let mut shown = shown.into_iter();
        listeners.retain(|listener| {
            let shown = shown.next().unwrap_or(libc::POLLHUP);
            if shown & libc::POLLIN != 0 {
                let _ = serve(weft, listener);
            }
            // The last program under it has ended.
            shown & (libc::POLLHUP | libc::POLLERR | libc::POLLNVAL) == 0
        });
    }
}

/// Answers for this process's own stack the calls that wait now.
pub(crate) fn those_that_wait(listener: &Listener) {
    let _ = (0..CALLS_MAX).try_for_each(|_| serve(std::process::id(), listener));
}

/// Answers one call that waits there; None: there is none.
fn serve(weft: u32, listener: &Listener) -> Option<()> {
    let call = listener.receive(&Place::default()).ok()??;
    answer_one(weft, listener, &call);
    Some(())
}

/// Answers a call that was received from there.
pub(super) fn answer_one(weft: u32, listener: &Listener, call: &Notification) {
    // One that a signal has cancelled meanwhile needs no answer.
    let _ = match answer(weft, call) {
        Answer::Refuse(errno) => listener.refuse(call.id, Errno(errno)),
        Answer::Kernel => listener.proceed(call.id),
        Answer::Never => Ok(()),
    };
}

fn answer(weft: u32, call: &Notification) -> Answer {
    if call.architecture != arch::AUDIT_ARCH {
        return Answer::Refuse(libc::ENOSYS);
    }
    match i64::from(call.number) {
        libc::SYS_socket => Answer::Refuse(libc::ENETDOWN),
        libc::SYS_socketpair => Answer::Refuse(libc::EOPNOTSUPP),
        libc::SYS_io_uring_setup | libc::SYS_io_uring_enter | libc::SYS_io_uring_register => Answer::Refuse(libc::ENOSYS),
        libc::SYS_userfaultfd => Answer::Kernel,
        _ => match borrow(call) {
            Some(end) => of_socket(weft, call, end.as_fd()),
            // EBADF, or a descriptor that is no business of ours.
            None => Answer::Kernel,
        },
    }
}

/// The socket that a call is about.
fn borrow(call: &Notification) -> Option<OwnedFd> {
    let pidfd = sys::pidfd_open(call.tid).ok()?;
    let end = sys::pidfd_getfd(pidfd.as_fd(), call.arguments[0] as i32).ok()?;
    (sys::int_option(end.as_fd(), libc::SO_DOMAIN) == Some(libc::AF_UNIX)).then_some(end)
}

fn of_socket(weft: u32, call: &Notification, end: BorrowedFd<'_>) -> Answer {
    match sys::peer_process(end) {
        // Nobody's: one that was never connected, the stack's or the program's own. Those of the stack have no name.
        None | Some(0) if is_for_unix(call) || sys::name_of(end).is_ok_and(|name| name.len() > FAMILY_BYTES) => Answer::Kernel,
        None | Some(0) => Answer::Refuse(libc::ENETDOWN),
        Some(peer) if i64::from(peer) != i64::from(weft) => Answer::Kernel,
        Some(_) if sys::int_option(end, libc::SO_ACCEPTCONN) == Some(1) => at_listener(call, end),
        Some(_) => Answer::Refuse(errno_for(call, end)),
    }
}

/// What a call on a socket of the stack fails with: on a connected stream with what reading it natively says.
fn errno_for(call: &Notification, end: BorrowedFd<'_>) -> i32 {
    let moves_data = matches!(i64::from(call.number), libc::SYS_recvmsg | libc::SYS_recvfrom | libc::SYS_sendmsg | libc::SYS_sendto);
    let is_stream = || sys::int_option(end, libc::SO_TYPE) == Some(libc::SOCK_STREAM);
    if moves_data && is_stream() { libc::ECONNRESET } else { libc::ENETDOWN }
}

/// Does it name an address of the family AF_UNIX?
fn is_for_unix(call: &Notification) -> bool {
    let at = match i64::from(call.number) {
        libc::SYS_bind | libc::SYS_connect => call.arguments[1],
        libc::SYS_sendto => call.arguments[4],
        _ => return false,
    };
    let mut family = [0; 2];
    sys::read_memory(call.tid, at, &mut family).is_ok() && i32::from(u16::from_ne_bytes(family)) == libc::AF_UNIX
}

/// A call at a listener of the stack.
fn at_listener(call: &Notification, end: BorrowedFd<'_>) -> Answer {
    if !matches!(i64::from(call.number), libc::SYS_accept | libc::SYS_accept4) {
        return Answer::Refuse(libc::ENETDOWN);
    }
    let mut knocks = 0;
    while sys::poll_now(end, libc::POLLIN) & libc::POLLIN != 0 && sys::accept(end).is_ok() {
        knocks += 1;
    }
    match sys::status_flags(end) {
        _ if knocks > 0 => Answer::Refuse(libc::ENETDOWN),
        Ok(flags) if flags & libc::O_NONBLOCK != 0 => Answer::Refuse(libc::EAGAIN),
        _ => Answer::Never,
    }
}
