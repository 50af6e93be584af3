//! Answers whose effect has happened, while a signal cancelled the notification before they could be sent.
//!
//! The program sees EINTR, or the call comes again (SA_RESTART): either way it has not been told, and asks again. The same call of the same
//! thread on the same socket, with the same bytes in the memory that it names, gets the answer that it missed; so what was sent is not sent
//! twice and what was received is not lost. Anything else that looks alike is a new call: a descriptor that means another socket by
//! now, or a buffer with other content.

use crate::call::Call;
use crate::sys;
use std::hash::{DefaultHasher, Hash, Hasher};

/// An answer that was missed.
#[derive(Debug)]
pub(super) struct Replay {
    number: i32,
    arguments: [u64; 6],
    instruction: u64,
    inode: Option<u64>,
    memory: u64,
    /// What it returns.
    pub value: i64,
}

impl Replay {
    /// The answer of a call that was cancelled.
    pub fn of(call: &Call, value: i64) -> Replay {
        Replay {
            number: call.number,
            arguments: call.arguments,
            instruction: call.instruction,
            inode: inode(call),
            memory: digest(call),
            value,
        }
    }

    /// Is this the same call again?
    pub fn answers(&self, call: &Call) -> bool {
        (self.number, self.arguments, self.instruction) == (call.number, call.arguments, call.instruction)
            && self.inode == inode(call)
            && self.memory == digest(call)
    }
}

fn inode(call: &Call) -> Option<u64> {
    sys::socket_inode(call.tid, call.descriptor()).ok().flatten()
}

/// Of the bytes that the call names.
fn digest(call: &Call) -> u64 {
    let mut hasher = DefaultHasher::new();
    call.memory().hash(&mut hasher);
    hasher.finish()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::call::row_of;
    use std::os::fd::AsRawFd;
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
            row: row_of(crate::arch::AUDIT_ARCH, number),
            since: Instant::now(),
            held: None,
            expired: false,
        }
    }

    #[test]
    fn only_the_very_same_call_gets_the_answer_that_was_missed() {
        let (one, other) = sys::unix_pair(libc::SOCK_STREAM).unwrap();
        let mut buffer = *b"a message";
        let replay = Replay::of(&send_to(one.as_raw_fd(), &buffer), 9);
        assert!(replay.answers(&send_to(one.as_raw_fd(), &buffer)), "restarted");
        assert!(!replay.answers(&send_to(other.as_raw_fd(), &buffer)), "another descriptor");
        assert!(!replay.answers(&send_to(one.as_raw_fd(), &buffer[..3])), "another length");
        buffer[0] = b'A';
        assert!(!replay.answers(&send_to(one.as_raw_fd(), &buffer)), "the same buffer with another message");
        buffer[0] = b'a';
        let call = send_to(one.as_raw_fd(), &buffer);
        // SAFETY: both are descriptors of ours; the number now means the other socket.
        assert!(unsafe { libc::dup2(other.as_raw_fd(), one.as_raw_fd()) } >= 0);
        assert!(!replay.answers(&call), "the same number, another socket");
    }
}
