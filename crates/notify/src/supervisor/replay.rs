//! Answers whose effect has happened, while a signal cancelled the notification before they could be sent.
//!
//! The program sees EINTR, or the call comes again (SA_RESTART): either way it has not been told, and asks again. The same call of the same
//! thread on the same socket, with the same bytes in the memory that it names, gets the answer that it missed; so what was sent is not sent
//! twice, what was received is not lost, and a socket that was bound says so instead of EINVAL. Anything else that looks alike is a new
//! call: a descriptor that means another socket by now, or a buffer with other content.
//!
//! An answer is kept until it has been sent: the call that comes again may be cancelled again, by the next tick of a timer. It also
//! outlives other calls of its thread, which the signal's handler may make before the call comes again.
//!
//! The kernel does not always say that an answer was missed. seccomp_do_user_notification: "err = wait_for_completion_interruptible(&n.ready);
//! mutex_lock(&match->notify_lock); if (err != 0) … goto interrupted;": an answer between these two lines is taken from us, and thrown away.
//! So where signals have just cancelled calls of a thread, the answers of calls that cannot be done twice are kept as *doubtful* although they were sent, for the
//! very next call of that thread. Calls that can be done twice (a datagram sent) cannot be told from a second one, so they are done twice then.

use crate::call::Call;
use crate::sys::Errno;
use std::collections::HashMap;
use std::hash::{DefaultHasher, Hash, Hasher};
use std::time::{Duration, Instant};

/// Most answers kept for a thread: signals whose handlers are interrupted in their turn.
const THREAD_MAX: usize = 4;
/// Most threads for which there are any.
const THREADS_MAX: usize = 4096;
/// How many other calls of its thread an answer outlives.
const OTHER_CALLS_MAX: u32 = 64;
/// How long after a signal has cancelled a call of a thread its answers are in doubt.
const DOUBT: Duration = Duration::from_secs(1);

/// Calls that fail, or change nothing, when they are made again as they were.
const ONCE_ONLY: [i64; 3] = [libc::SYS_bind, libc::SYS_connect, libc::SYS_setsockopt];

/// What is remembered of a thread whose calls signals have cancelled.
#[derive(Debug)]
struct Thread {
    missed: Vec<Replay>,
    doubtful: Option<Replay>,
    cancelled: Instant,
}

/// The answers that were missed, by thread.
#[derive(Debug, Default)]
pub(super) struct Replays(HashMap<u32, Thread>);

impl Replays {
    /// Shrinks the table to what it holds.
    pub fn give_back_memory(&mut self) {
        self.0.shrink_to_fit();
    }

    /// The answer that was missed when this call was made before. It counts as sent: who cannot send it [`keep`](Replays::keep)s it again.
    ///
    /// # Errors
    /// [`LATER`](weft_intercept::memory::LATER): nothing has changed yet.
    pub fn take(&mut self, call: &Call) -> Result<Option<Replay>, Errno> {
        let Some(Thread { missed, doubtful, cancelled }) = self.0.get_mut(&call.tid) else { return Ok(None) };
        let looks_alike = missed.iter().chain(&*doubtful).any(|replay| replay.looks_like(call));
        // Only what looks alike is worth a look at the program's memory.
        let memory = if looks_alike { digest(call)? } else { 0 };
        let answers = |replay: &Replay| replay.looks_like(call) && replay.memory == memory;
        let found = doubtful.take().filter(answers);
        let found = found.or_else(|| missed.iter().rposition(answers).map(|at| missed.remove(at)));
        if found.is_none() {
            missed.iter_mut().for_each(|replay| replay.others += 1);
            missed.retain(|replay| replay.others < OTHER_CALLS_MAX);
        }
        if missed.is_empty() && cancelled.elapsed() > DOUBT {
            self.0.remove(&call.tid);
        }
        Ok(found)
    }

    /// A signal has cancelled a call of this thread.
    pub fn cancelled(&mut self, tid: u32) {
        self.thread(tid).cancelled = Instant::now();
    }

    fn thread(&mut self, tid: u32) -> &mut Thread {
        // Beyond the bound the others, which may have ended, are forgotten.
        if self.0.len() >= THREADS_MAX && !self.0.contains_key(&tid) {
            self.0.clear();
        }
        self.0.entry(tid).or_insert_with(|| Thread { missed: Vec::new(), doubtful: None, cancelled: Instant::now() })
    }

    /// An answer was sent; but was it taken? A refusal changed nothing: the call may be made again for a reason.
    pub fn sent(&mut self, call: &Call, answer: Result<i64, Errno>) {
        if matches!(answer, Ok(_) | Err(Errno(libc::EINPROGRESS)))
            && let Some(thread) = self.0.get_mut(&call.tid)
            && ONCE_ONLY.contains(&i64::from(call.number))
            && thread.cancelled.elapsed() <= DOUBT
            // All that these calls name has been read for them.
            && let Ok(replay) = Replay::of(call, answer)
        {
            thread.doubtful = Some(Replay { doubted: true, ..replay });
        }
    }

    /// An answer that had been missed was sent. Nothing is doubted twice: at some time the call must be a new one.
    pub fn sent_again(&mut self, call: &Call, replay: Replay) {
        if !replay.doubted
            && ONCE_ONLY.contains(&i64::from(call.number))
            && let Some(thread) = self.0.get_mut(&call.tid)
        {
            thread.doubtful = Some(Replay { doubted: true, ..replay });
        }
    }

    /// Keeps an answer that could not be sent.
    pub fn keep(&mut self, tid: u32, replay: Replay) {
        let missed = &mut self.thread(tid).missed;
        if missed.len() >= THREAD_MAX {
            missed.remove(0);
        }
        missed.push(replay);
    }

    /// Nobody is left to ask again.
    pub fn clear(&mut self) {
        self.0.clear();
    }
}

/// An answer that was missed.
#[derive(Debug)]
pub(super) struct Replay {
    number: i32,
    arguments: [u64; 6],
    instruction: u64,
    inode: Option<u64>,
    memory: u64,
    /// Calls of its thread that were others.
    others: u32,
    /// It was sent once, and perhaps not taken.
    doubted: bool,
    /// What it returns.
    pub answer: Result<i64, Errno>,
}

impl Replay {
    /// The answer of a call that was cancelled.
    ///
    /// # Errors
    /// [`LATER`](weft_intercept::memory::LATER).
    pub fn of(call: &Call, answer: Result<i64, Errno>) -> Result<Replay, Errno> {
        Ok(Replay {
            number: call.number,
            arguments: call.arguments,
            instruction: call.instruction,
            inode: inode(call),
            memory: digest(call)?,
            others: 0,
            doubted: false,
            answer,
        })
    }

    /// Is this the same call again, as far as registers and descriptors tell?
    fn looks_like(&self, call: &Call) -> bool {
        (self.number, self.arguments, self.instruction) == (call.number, call.arguments, call.instruction) && self.inode == inode(call)
    }
}

fn inode(call: &Call) -> Option<u64> {
    call.remote.socket_inode(call.descriptor()).ok().flatten()
}

/// Of the bytes that the call names.
fn digest(call: &Call) -> Result<u64, Errno> {
    let mut hasher = DefaultHasher::new();
    call.memory()?.hash(&mut hasher);
    Ok(hasher.finish())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::call::row_of;
    use crate::remote::{Remote, Window};
    use crate::sys;
    use std::cell::Cell;
    use std::os::fd::AsRawFd;
    use std::sync::Arc;
    use std::time::Instant;

    fn send_to(fd: i32, buffer: &[u8]) -> Call {
        let number = libc::SYS_sendto as i32;
        Call {
            tree: 0,
            id: 1,
            tid: std::process::id(),
            number,
            arguments: [fd as u64, buffer.as_ptr() as u64, buffer.len() as u64, 0, 0, 0],
            instruction: 7,
            row: row_of(weft_intercept::arch::AUDIT_ARCH, number),
            since: Instant::now(),
            held: None,
            expired: false,
            remote: Remote::new(Arc::new(Window::new(std::process::id())), false),
            file: Cell::new(None),
            messages: Cell::new(0),
        }
    }

    /// Is what was missed the answer of this call?
    fn answers(replay: &Replay, call: &Call) -> bool {
        let mut replays = Replays::default();
        let same = Replay { answer: replay.answer, ..*replay };
        replays.keep(call.tid, same);
        replays.take(call).unwrap().is_some()
    }

    #[test]
    fn only_the_very_same_call_gets_the_answer_that_was_missed() {
        let (one, other) = sys::unix_pair(libc::SOCK_STREAM).unwrap();
        let mut buffer = *b"a message";
        let replay = Replay::of(&send_to(one.as_raw_fd(), &buffer), Ok(9)).unwrap();
        assert!(answers(&replay, &send_to(one.as_raw_fd(), &buffer)), "restarted");
        assert!(!answers(&replay, &send_to(other.as_raw_fd(), &buffer)), "another descriptor");
        assert!(!answers(&replay, &send_to(one.as_raw_fd(), &buffer[..3])), "another length");
        buffer[0] = b'A';
        assert!(!answers(&replay, &send_to(one.as_raw_fd(), &buffer)), "the same buffer with another message");
        buffer[0] = b'a';
        let call = send_to(one.as_raw_fd(), &buffer);
        // SAFETY: both are descriptors of ours; the number now means the other socket.
        assert!(unsafe { libc::dup2(other.as_raw_fd(), one.as_raw_fd()) } >= 0);
        assert!(!answers(&replay, &call), "the same number, another socket");
    }

    #[test]
    fn an_answer_is_kept_until_it_is_sent_and_outlives_what_a_handler_does() {
        let (one, other) = sys::unix_pair(libc::SOCK_STREAM).unwrap();
        let (call, another) = (send_to(one.as_raw_fd(), b"a message"), send_to(other.as_raw_fd(), b"another"));
        let mut replays = Replays::default();
        replays.keep(call.tid, Replay::of(&call, Ok(9)).unwrap());
        // The handler's own call is cancelled too.
        assert!(replays.take(&another).unwrap().is_none());
        replays.keep(another.tid, Replay::of(&another, Err(Errno(libc::EPIPE))).unwrap());
        assert_eq!(replays.take(&another).unwrap().unwrap().answer, Err(Errno(libc::EPIPE)));
        // The call comes again, and is cancelled again before it is answered.
        let replay = replays.take(&call).unwrap().unwrap();
        replays.keep(call.tid, replay);
        assert_eq!(replays.take(&call).unwrap().unwrap().answer, Ok(9));
        assert!(replays.take(&call).unwrap().is_none(), "it has been told");
    }

    #[test]
    fn what_may_not_be_done_twice_is_in_doubt_for_one_call_after_signals() {
        let (one, other) = sys::unix_pair(libc::SOCK_STREAM).unwrap();
        let number = libc::SYS_bind as i32;
        let bind = |fd: i32| Call { number, row: row_of(weft_intercept::arch::AUDIT_ARCH, number), ..send_to(fd, b"an address") };
        let (call, another) = (bind(one.as_raw_fd()), bind(other.as_raw_fd()));
        let mut replays = Replays::default();
        replays.sent(&call, Ok(0));
        assert!(replays.take(&call).unwrap().is_none(), "no signal, no doubt");
        replays.cancelled(call.tid);
        replays.sent(&call, Ok(0));
        assert_eq!(replays.take(&call).unwrap().unwrap().answer, Ok(0));
        assert!(replays.take(&call).unwrap().is_none(), "once");
        replays.sent(&call, Ok(0));
        assert!(replays.take(&another).unwrap().is_none() && replays.take(&call).unwrap().is_none(), "it went on");
        replays.sent(&call, Err(Errno(libc::EADDRINUSE)));
        assert!(replays.take(&call).unwrap().is_none(), "tried again");
        // Missed, and then in doubt, and then no more.
        replays.keep(call.tid, Replay::of(&call, Ok(0)).unwrap());
        let missed = replays.take(&call).unwrap().unwrap();
        replays.sent_again(&call, missed);
        let doubtful = replays.take(&call).unwrap().unwrap();
        replays.sent_again(&call, doubtful);
        assert!(replays.take(&call).unwrap().is_none(), "a new call");
        let send = send_to(one.as_raw_fd(), b"a message");
        replays.sent(&send, Ok(9));
        assert!(replays.take(&send).unwrap().is_none(), "a second one like the first");
    }

    #[test]
    fn what_nobody_asks_for_again_is_forgotten() {
        let (one, other) = sys::unix_pair(libc::SOCK_STREAM).unwrap();
        let (call, another) = (send_to(one.as_raw_fd(), b"a message"), send_to(other.as_raw_fd(), b"another"));
        let mut replays = Replays::default();
        replays.keep(call.tid, Replay::of(&call, Ok(9)).unwrap());
        for _ in 0..OTHER_CALLS_MAX {
            assert!(replays.take(&another).unwrap().is_none());
        }
        assert!(replays.take(&call).unwrap().is_none() && replays.0[&call.tid].missed.is_empty());
        for value in 0..2 * THREAD_MAX {
            replays.keep(call.tid, Replay::of(&call, Ok(value as i64)).unwrap());
        }
        for tid in 0..2 * THREADS_MAX as u32 {
            replays.keep(tid, Replay::of(&call, Ok(9)).unwrap());
        }
        assert!(replays.0.len() <= THREADS_MAX && replays.0.values().all(|thread| thread.missed.len() <= THREAD_MAX));
    }
}
