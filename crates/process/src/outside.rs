//! The world, as a node's programs see it, and what it is told of them.

use weft_core::{Instant, Op};
use weft_intercept::face::{SocketId, Stack};

/// How a process ended.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Status {
    /// exit(2) with this status.
    Exited(i32),
    /// Killed by this signal.
    Killed(i32),
}

impl Status {
    /// As wait(2) tells it.
    pub fn word(self) -> i32 {
        match self {
            Status::Exited(status) => (status & 0xff) << 8,
            Status::Killed(signal) => signal & 0x7f,
        }
    }
}

/// A process that has ended.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Exit {
    /// Its number in the node.
    pub pid: u32,
    /// When.
    pub at: Instant,
    /// How.
    pub status: Status,
}

/// When a tree wants its next turn.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Next {
    /// At this time at the latest; [`Instant::FAR_FUTURE`]: when sockets change.
    pub at: Instant,
    /// No process is left.
    pub ended: bool,
}

/// In place of a call's number: the result is a digest of what the node's programs were answered without the controller since they began.
pub const INSIDE: u32 = u32::MAX;

/// A call of a program, for traces and hashes.
#[derive(Clone, Copy, Debug)]
pub struct Record<'a> {
    /// When it returned.
    pub at: Instant,
    /// The process that was started from outside and that this one descends from.
    pub program: u32,
    /// Process in the node.
    pub process: u32,
    /// Thread in the node.
    pub thread: u32,
    /// Number of the call; [`INSIDE`]: no call.
    pub number: u32,
    /// First three arguments.
    pub arguments: [u64; 3],
    /// What it returned, as the kernel does (errno negative).
    pub result: i64,
    /// Bytes that it gave to the program.
    pub output: &'a [u8],
}

/// A call that has returned, or never will, for people.
#[derive(Clone, Copy, Debug)]
pub struct Called<'a> {
    /// When it returned.
    pub at: Instant,
    /// The process that was started from outside and that this one descends from.
    pub program: u32,
    /// Process in the node.
    pub process: u32,
    /// Thread in the node.
    pub thread: u32,
    /// Name, arguments and result in strace's manner.
    pub text: &'a str,
}

/// Bytes of a stream that are still to come.
pub struct ToCome<'a, 'f> {
    /// To which socket.
    pub socket: SocketId,
    /// When.
    pub at: Instant,
    /// The bytes, as they lie.
    pub pieces: &'a mut dyn Iterator<Item = &'f [u8]>,
}

/// The world, as a tree sees it.
pub trait Outside {
    /// Nothing from outside can reach the node before this time.
    fn grant(&self) -> Instant;
    /// When the node itself has something to do next (a timer of its stack), which may change sockets. For those whose grant is not limited by it.
    fn next_event(&self) -> Instant {
        Instant::FAR_FUTURE
    }
    /// The node's present is this from now on: its own timers until then have happened. At most the grant.
    fn advance(&mut self, to: Instant);
    /// The node's sockets and tables.
    fn stack(&mut self) -> &mut dyn Stack;
    /// Sockets that have changed since the last call.
    fn take_changed(&mut self) -> Vec<SocketId>;
    /// No timer of the node's is due before this, and nobody but the tree uses its sockets. None: that is not so, or not known.
    fn quiet_until(&self) -> Option<Instant> {
        None
    }
    /// What will come to a socket before anything else happens to the node, for as long as `take` says that it goes on. The grant then goes as far as
    /// that is sure, and [`Outside::advance`] lets come what is due.
    fn foresee(&mut self, take: &mut dyn FnMut(ToCome<'_, '_>) -> bool) {
        let _ = take;
    }
    /// The grant is that of the next arrival again.
    fn forget_foreseen(&mut self) {}
    /// A call has been answered.
    fn record(&mut self, record: &Record<'_>);
    /// A control message to the node; None: it refuses, or there is nobody to ask.
    fn control(&mut self, op: Op) -> Option<serde_json::Value> {
        let _ = op;
        None
    }
    /// With [`Config::tell_calls`](super::Config::tell_calls): a program has made a call.
    fn called(&mut self, call: &Called<'_>) {
        let _ = call;
    }
    /// A process of this number has ended, now: [`Tree::take_exits`](super::Tree::take_exits) will say how. What others that ran with it do has not been done yet.
    fn ended(&mut self, pid: u32) {
        let _ = pid;
    }
    /// Programs have written much into files since this was last called: maybe it is their output.
    fn output_grew(&mut self) {}
    /// With [`Config::tell_writes`](super::Config::tell_writes): a program, or one that it has started, has written to its standard output or error at this time.
    fn wrote(&mut self, program: u32, at: Instant) {
        let _ = (program, at);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_wait_status_reads_back() {
        assert!(libc::WIFEXITED(Status::Exited(7).word()) && libc::WEXITSTATUS(Status::Exited(7).word()) == 7);
        assert!(libc::WIFSIGNALED(Status::Killed(9).word()) && libc::WTERMSIG(Status::Killed(9).word()) == 9);
    }
}
