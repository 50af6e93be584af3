//! What is told of a program: which one it is, what it writes to, how it ended, and what it called.

use weft_core::Instant;

/// A program of the world: its place in `Plan::programs`.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub struct ProgramId(pub u32);

/// What a program writes to.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Stream {
    /// Standard output.
    Output,
    /// Standard error.
    Error,
}

/// How a program ended.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Status {
    /// exit(2) with this status.
    Exited(i32),
    /// Killed by this signal.
    Killed(i32),
}

impl std::fmt::Display for Status {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Status::Exited(status) => write!(f, "exit status {status}"),
            Status::Killed(signal) => write!(f, "killed by signal {signal}"),
        }
    }
}

/// A call of a program, for the hash and `--record`.
#[derive(Clone, Copy, Debug)]
pub struct CallRecord<'a> {
    /// Which program.
    pub program: ProgramId,
    /// Process in the node.
    pub process: u32,
    /// Thread in the node.
    pub thread: u32,
    /// Number of the call (Linux x86-64).
    pub number: u32,
    /// What it returned.
    pub result: i64,
    /// Bytes that it gave to the program.
    pub output: &'a [u8],
}

/// A call of a program, for people.
#[derive(Clone, Copy, Debug)]
pub struct CallLine<'a> {
    /// When it returned.
    pub at: Instant,
    /// Which program.
    pub program: ProgramId,
    /// Process in the node.
    pub process: u32,
    /// Thread in the node.
    pub thread: u32,
    /// Name, arguments and result.
    pub text: &'a str,
}
