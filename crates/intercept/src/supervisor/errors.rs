//! Errors of datagram sockets, shown where poll(2) looks for them: see [`crate::standin::packet`].

use super::{Supervisor, Turn};
use crate::call::{self, Call};
use crate::face::Poll;
use crate::standin::{Body, StandIn, packet};
use crate::sys::{self, Errno};
use bytes::BytesMut;
use std::os::fd::{AsFd, BorrowedFd};
use std::time::{Duration, Instant};

/// Options that follow a descriptor's stand-in when it is exchanged: those that native reads and writes obey.
const FOLLOWING: [i32; 3] = [libc::SO_RCVTIMEO, libc::SO_SNDTIMEO, libc::SO_PEEK_OFF];
/// The largest datagram that can lie in a stand-in.
const DATAGRAM_BYTES_MAX: usize = 65_536;

/// A native *write* would take an error that is shown, and fail with ECONNRESET, where Linux says for example EHOSTUNREACH, which traceroute
/// expects while it sends. So an error is shown when a thread of the program waits for something (poll, a read), and that is looked at so often;
const ERROR_LOOK: Duration = Duration::from_millis(2);
/// and in any case when the program has made no call on the socket while it computed for so long: it may look with a poll that does not wait. Its own
/// processor time counts, as one that others keep off the processors may be about to write;
const ERROR_WAITS_MAX: Duration = Duration::from_millis(5);
/// or when so much time has passed: it may wait for something else.
const ERROR_WAITS_IN_ALL_MAX: Duration = Duration::from_millis(500);
/// Calls in which a thread waits for readiness, data or time.
const WAITING: [i64; 13] = [
    libc::SYS_nanosleep,
    libc::SYS_clock_nanosleep,
    libc::SYS_poll,
    libc::SYS_ppoll,
    libc::SYS_select,
    libc::SYS_pselect6,
    libc::SYS_epoll_wait,
    libc::SYS_epoll_pwait,
    libc::SYS_epoll_pwait2,
    libc::SYS_read,
    libc::SYS_readv,
    libc::SYS_recvfrom,
    libc::SYS_recvmsg,
];

/// Does any thread of a process wait for something (proc_pid_syscall(5))?
fn is_waiting(tid: u32) -> bool {
    let Ok(tasks) = std::fs::read_dir(format!("/proc/{tid}/task")) else { return true };
    tasks.flatten().any(|task| {
        let call = std::fs::read_to_string(task.path().join("syscall")).unwrap_or_default();
        call.split(' ').next().and_then(|number| number.parse().ok()).is_some_and(|number: i64| WAITING.contains(&number))
    })
}

/// Since when an error has waited to be shown, and how long the program had computed by then.
#[derive(Clone, Copy, Debug)]
pub(super) struct Waiting {
    since: Instant,
    computed: Duration,
}

impl Waiting {
    fn begin(tid: u32) -> Waiting {
        Waiting { since: Instant::now(), computed: computed(tid) }
    }
    fn is_over(self, tid: u32) -> bool {
        computed(tid).saturating_sub(self.computed) >= ERROR_WAITS_MAX || self.since.elapsed() >= ERROR_WAITS_IN_ALL_MAX
    }
}

/// How long the threads of a process have computed (proc_pid_schedstat(5): "time spent on the cpu (in nanoseconds)").
fn computed(tid: u32) -> Duration {
    let Ok(tasks) = std::fs::read_dir(format!("/proc/{tid}/task")) else { return Duration::MAX };
    let of = |text: String| text.split(' ').next().and_then(|nanoseconds| nanoseconds.parse().ok()).map(Duration::from_nanos);
    tasks.flatten().filter_map(|task| of(std::fs::read_to_string(task.path().join("schedstat")).ok()?)).sum()
}

impl Supervisor {
    /// The datagram body of a stand-in.
    pub(crate) fn packets(&mut self, key: usize) -> Option<&mut packet::Packets> {
        match &mut self.stand_ins.get_mut(key)?.body {
            Body::Packet(packets) => Some(packets),
            _ => None,
        }
    }

    /// Lets a stand-in that can show errors show one exactly while there is one to tell.
    pub(crate) fn mirror_error(&mut self, key: usize, turn: &mut Turn<'_>) {
        let Some(one) = self.stand_ins.get_mut(key) else { return };
        let Body::Packet(packets) = &mut one.body else { return };
        if packets.name.is_none() {
            return;
        }
        let wanted = packets.error.is_some() || turn.stack.readiness(packets.socket).contains(Poll::ERR);
        if !wanted {
            self.errors_waiting.remove(&key);
        }
        // While the model has no room for what the program wrote, that would be lost; the error waits.
        if wanted == packets.error_shown || wanted && (one.unsent.is_some() || one.readable) {
            return;
        }
        let tid = one.place.0;
        if wanted {
            let waiting = *self.errors_waiting.entry(key).or_insert_with(|| Waiting::begin(tid));
            if !waiting.is_over(tid) && !is_waiting(tid) {
                self.errors_at.get_or_insert(Instant::now() + ERROR_LOOK);
                return;
            }
        }
        self.errors_waiting.remove(&key);
        let Ok(end) = self.borrow(key) else { return };
        if wanted { self.raise_error(key, end.as_fd()) } else { self.hush(key, end.as_fd()) }
    }

    /// The program has made a call on the socket: what it computed before no longer counts.
    pub(super) fn error_waits_anew(&mut self, key: usize, tid: u32) {
        if let Some(waiting) = self.errors_waiting.get_mut(&key) {
            *waiting = Waiting::begin(tid);
        }
    }

    /// Looks again at the errors that wait for their programs to wait.
    pub(super) fn look_at_errors(&mut self, turn: &mut Turn<'_>) {
        self.errors_at = None;
        let keys: Vec<usize> = self.errors_waiting.keys().copied().collect();
        for key in keys {
            if self.packets(key).is_some() {
                self.mirror_error(key, turn);
            } else {
                self.errors_waiting.remove(&key);
            }
        }
    }

    fn raise_error(&mut self, key: usize, end: BorrowedFd<'_>) {
        let Some(StandIn { body: Body::Packet(packets), ours: Some(ours), .. }) = self.stand_ins.get_mut(key) else { return };
        let Some(name) = &packets.name else { return };
        if let Err(errno) = packet::raise_error(end, ours.as_fd(), name) {
            // Its writing side is shut down, or it is going: trapped calls still tell the error.
            tracing::debug!(errno = errno.0, "an error of a datagram socket does not show in poll");
        }
        packets.error_shown = true;
    }

    /// Takes the error off the program's end.
    pub(crate) fn hush(&mut self, key: usize, end: BorrowedFd<'_>) {
        if let Some(packets) = self.packets(key).filter(|packets| packets.error_shown) {
            packets.error_shown = false;
            let _ = sys::get_option(end, libc::SOL_SOCKET, libc::SO_ERROR);
        }
    }

    /// A native call may have taken the error that the program's end showed; then the one that it stood for has been told.
    pub(crate) fn error_told_natively(&mut self, key: usize, turn: &mut Turn<'_>) {
        if !self.packets(key).is_some_and(|packets| packets.error_shown) {
            return;
        }
        let Ok(end) = self.borrow(key) else { return };
        if sys::poll_now(end.as_fd(), 0) & libc::POLLERR != 0 {
            return;
        }
        let Some(packets) = self.packets(key) else { return };
        packets.error_shown = false;
        let socket = packets.socket;
        if packets.error.take().is_none() {
            let _ = turn.stack.get_option(socket, libc::SOL_SOCKET, libc::SO_ERROR, 4);
        }
    }

    /// The program wants to know of errors (IP_RECVERR): exchanges its descriptor's stand-in for one that can show them. Duplicates of the
    /// descriptor, and event loops in which it is registered already, keep the old one (docs/compatibility.md).
    ///
    /// # Errors
    /// When descriptors cannot be made or the call was cancelled; then nothing has changed.
    pub(crate) fn let_errors_show(&mut self, key: usize, of: &Call, turn: &mut Turn<'_>) -> Result<(), Errno> {
        if self.packets(key).is_none_or(|packets| packets.name.is_some()) {
            return Ok(());
        }
        let old = self.borrow(key)?;
        let (theirs, ours, name) = packet::pair_with_errors()?;
        sys::set_option(ours.as_fd(), libc::SOL_SOCKET, libc::SO_PASSCRED, &1_i32.to_ne_bytes())?;
        if sys::status_flags(old.as_fd())? & libc::O_NONBLOCK != 0 {
            sys::set_nonblocking(theirs.as_fd())?;
        }
        for option in FOLLOWING {
            if let Ok((value, length)) = sys::get_option(old.as_fd(), libc::SOL_SOCKET, option) {
                let _ = sys::set_option(theirs.as_fd(), libc::SOL_SOCKET, option, &value[..length.min(value.len())]);
            }
        }
        let inode = sys::inode(theirs.as_fd())?;
        // What was written natively goes first.
        call::refresh(self, key);
        self.pump(key, false, turn);
        let (tree, close_on_exec) = (self.trees.get(of.tree).ok_or(Errno(libc::ENOENT))?, sys::is_close_on_exec(of.tid, of.descriptor()));
        tree.replace(of.id, theirs.as_fd(), of.descriptor(), close_on_exec)?;
        self.detach(key, turn);
        let Some(one) = self.stand_ins.get_mut(key) else { return Err(Errno(libc::EBADF)) };
        if self.by_inode.get(&one.inode) == Some(&key) {
            self.by_inode.remove(&one.inode);
        }
        one.inode = inode;
        self.by_inode.insert(inode, key);
        if let Body::Packet(packets) = &mut one.body {
            packets.name = Some(name);
        }
        self.attach(key, ours, turn)?;
        self.watch(key);
        self.move_unread(key, old.as_fd());
        Ok(())
    }

    /// Brings what lies unread in the old stand-in into the new one.
    fn move_unread(&mut self, key: usize, old: BorrowedFd<'_>) {
        let Some(StandIn { body: Body::Packet(packets), ours: Some(ours), .. }) = self.stand_ins.get_mut(key) else { return };
        packets.forget_taken(sys::readable_bytes(old));
        let mut data = BytesMut::with_capacity(DATAGRAM_BYTES_MAX);
        for beside in std::mem::take(&mut packets.beside) {
            data.clear();
            let moved = sys::receive_into(old, &mut data, DATAGRAM_BYTES_MAX, 0).is_ok();
            if moved && !beside.wakes_for_error && sys::send_vectors(ours.as_fd(), &[&data], 0).is_ok() {
                packets.beside.push_back(beside);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_program_that_others_keep_off_the_processors_has_not_computed() {
        let mut sleeps = std::process::Command::new("sleep").arg("60").spawn().unwrap();
        let tid = sleeps.id();
        while !is_waiting(tid) {
            std::thread::yield_now();
        }
        let waiting = Waiting::begin(tid);
        assert!(!waiting.is_over(tid), "it sleeps");
        assert!(Waiting { since: Instant::now() - ERROR_WAITS_IN_ALL_MAX, ..waiting }.is_over(tid), "not for ever");
        sleeps.kill().unwrap();
        sleeps.wait().unwrap();
        assert!(waiting.is_over(tid), "it has gone");
        let own = Waiting::begin(std::process::id());
        while !own.is_over(std::process::id()) {
            std::hint::spin_loop();
        }
        assert!(computed(std::process::id()) >= own.computed + ERROR_WAITS_MAX || own.since.elapsed() >= ERROR_WAITS_IN_ALL_MAX);
    }
}
