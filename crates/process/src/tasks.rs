//! The threads and processes of a node.

use super::ids::{ProcessId, ThreadId};
use super::state::{Process, State, Thread, Wait};
use std::collections::{BTreeMap, VecDeque};
use weft_intercept::face::SocketId;
use weft_intercept::sys::Errno;

/// All of them, and who is runnable.
#[derive(Debug, Default)]
pub(super) struct Tasks {
    pub threads: BTreeMap<ThreadId, Thread>,
    pub processes: BTreeMap<ProcessId, Process>,
    /// Threads that are runnable and do not have their turn, in order.
    pub queue: VecDeque<ThreadId>,
    waits: u64,
}

impl Tasks {
    /// The process of a thread.
    pub fn process_of(&self, thread: ThreadId) -> Result<ProcessId, Errno> {
        self.threads.get(&thread).map(|one| one.process).ok_or(Errno(libc::ESRCH))
    }

    /// What a thread waits for, also one that was stopped meanwhile.
    pub fn wait_of(&mut self, thread: ThreadId) -> Option<&mut Wait> {
        match &mut self.threads.get_mut(&thread)?.state {
            State::Waiting(wait) => Some(wait),
            State::Stopped(inner) => match inner.as_mut() {
                State::Waiting(wait) => Some(wait),
                _ => None,
            },
            _ => None,
        }
    }

    /// The process that has this number in the node, and has not ended.
    pub fn process_by_pid(&self, pid: u32) -> Option<ProcessId> {
        self.processes.iter().find(|(_, process)| process.pid == pid && process.status.is_none()).map(|(id, _)| *id)
    }

    /// A thread has dissolved a connection at which these wait.
    pub fn dissolved(&mut self, socket: SocketId) {
        for one in self.threads.values_mut() {
            if let State::Waiting(wait) = &one.state
                && wait.sockets.contains(&socket)
            {
                one.dissolved = true;
            }
        }
    }

    /// Messages that are done, of a thread's call that has several.
    pub fn messages_done(&self, thread: ThreadId) -> u64 {
        self.threads.get(&thread).map_or(0, |one| one.messages)
    }

    /// One more is, and nothing is sent of the next.
    pub fn message_is_done(&mut self, thread: ThreadId, index: u64) {
        if let Some(one) = self.threads.get_mut(&thread) {
            (one.messages, one.moved) = (index + 1, 0);
            // do_recvmmsg: each of them is a call by itself to the socket, with its own limit of time.
            (one.held, one.deadline, one.expired) = (false, None, false);
        }
    }

    /// What a thread's call returns that has sent something and ends while it waits: messages, or bytes. 0: it has sent nothing.
    pub fn sent(&self, thread: ThreadId, number: u64) -> i64 {
        let Some(one) = self.threads.get(&thread) else { return 0 };
        let several = [libc::SYS_sendmmsg, libc::SYS_recvmmsg].contains(&(number as i64));
        if several { one.messages as i64 + i64::from(one.moved > 0) } else { one.moved as i64 }
    }

    /// The next number in the order among those that wait.
    pub fn grow_waits(&mut self) -> u64 {
        self.waits += 1;
        self.waits
    }

    /// Signals that wait for a thread.
    pub fn pending_of(&self, thread: ThreadId) -> u64 {
        let own = self.threads.get(&thread).map_or(0, |one| one.queue.bits());
        let process = self.threads.get(&thread).and_then(|one| self.processes.get(&one.process));
        own | process.map_or(0, |process| process.queue.bits())
    }

    /// The signals that a thread waits for.
    pub fn waits_for_signal(&self, thread: ThreadId) -> u64 {
        match self.threads.get(&thread).map(|one| &one.state) {
            Some(State::Waiting(wait)) => wait.signals,
            _ => 0,
        }
    }
}
