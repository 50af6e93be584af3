//! What programs move through the node's sockets: the bytes that their calls took and gave, headers not counted.

use super::ids::ThreadId;
use super::tree::Tree;
use super::usage::Traffic;
use weft_intercept::socket_calls::Taken;

impl Tree {
    /// The traffic of the program that a thread belongs to.
    fn traffic_of(&mut self, thread: ThreadId) -> Option<&mut Traffic> {
        let program = self.tasks.processes.get(&self.tasks.threads.get(&thread)?.process)?.program;
        Some(self.ledger.usage_mut(program).traffic.get_or_insert_default())
    }

    /// A program has a socket: what it moves is counted from now on, if only as nothing.
    pub(super) fn count_traffic(&mut self, thread: ThreadId) {
        let _ = self.traffic_of(thread);
    }

    /// A thread has handed so many bytes to a socket.
    pub(super) fn count_sent(&mut self, thread: ThreadId, bytes: usize) {
        if let Some(traffic) = self.traffic_of(thread) {
            traffic.sent_bytes += bytes as u64;
        }
    }

    /// A thread was given this, unless it only looked (MSG_PEEK), or asked for errors, which bring back what was sent.
    pub(super) fn count_received(&mut self, thread: ThreadId, taken: &Taken, flags: i32) {
        let (bytes, now) = (taken.data.len() as u64, self.clock);
        if flags & (libc::MSG_PEEK | libc::MSG_ERRQUEUE) != 0 || bytes == 0 {
            return;
        }
        if let Some(traffic) = self.traffic_of(thread) {
            traffic.received_bytes += bytes;
            traffic.received = Some((traffic.received.map_or(now, |(first, _)| first), now));
        }
    }
}
