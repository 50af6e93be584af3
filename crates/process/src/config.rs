//! What a node's programs are set to, and what is started.

use super::disk::DiskUse;
use super::files::Files;
use super::limits::Limits;
use std::ffi::CString;
use std::fmt;
use std::os::fd::OwnedFd;
use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::AtomicBool;
use std::time::Duration;
use weft_loader::abi::BOOT_NS;

/// Settings of a node's programs.
#[derive(Clone, Debug)]
pub struct Config {
    /// Host name.
    pub name: String,
    /// Seed of everything random in the node's programs.
    pub seed: u64,
    /// CLOCK_REALTIME when the node's time was 0, in nanoseconds since 1970.
    pub epoch_ns: u64,
    /// How wrong the node's crystal is, in parts of [`weft_loader::abi::RATE_ONE`]: positive, its clocks run faster than the world.
    pub drift: i64,
    /// From when on: when the node booted, in nanoseconds of the world.
    pub drifts_from_ns: u64,
    /// For how long the node had been up when its time was 0, in nanoseconds: what CLOCK_MONOTONIC shows beyond it. Negative, in two's complement: it has
    /// booted since.
    pub boot_ns: u64,
    /// The number of its first process beside init.
    pub first_pid: u32,
    /// Virtual time that a call costs.
    pub per_call: Duration,
    /// Virtual time after which another runnable thread has its turn.
    pub slice: Duration,
    /// Processor to which programs are pinned; the caller should run there too. None: wherever the kernel likes.
    pub cpu: Option<usize>,
    /// Wall-clock time after which a thread that makes no call is interrupted.
    pub patience: Duration,
    /// RDTSC shows virtual time. Without, programs that use it see real time and are not reproducible; but switching between a program that
    /// may not use it and a controller that may costs a change of CR4 each way, several µs under a hypervisor.
    pub trap_tsc: bool,
    /// Tell every call to [`Outside::called`](super::Outside::called), as text. Each costs a round trip, and changes nothing in virtual time.
    pub tell_calls: bool,
    /// Tell [`Outside::wrote`](super::Outside::wrote) when a program has written to its standard output or error. Changes nothing in virtual time.
    pub tell_writes: bool,
    /// Programs may answer calls on sockets, and sleep, by themselves where the outcome is certain. Changes nothing but how long it takes.
    pub ahead: bool,
    /// Call sites that programs use often become jumps past the kernel. Changes nothing but how long it takes.
    pub gates: bool,
    /// What programs see as files; none: the host's, as they are.
    pub files: Option<Files>,
    /// Whether what they write there stays when the node begins again.
    pub disk: DiskUse,
    /// What programs may have at most.
    pub limits: Limits,
    /// A debugger may attach to programs.
    pub debugged: bool,
    /// Set from outside when the world is to end: who makes no call then is not waited for.
    pub interrupt: Option<Arc<AtomicBool>>,
}

impl Default for Config {
    fn default() -> Config {
        Config {
            name: "node".to_owned(),
            seed: 0,
            // 2030-01-01T00:00:00Z
            epoch_ns: 1_893_456_000_000_000_000,
            drift: 0,
            drifts_from_ns: 0,
            boot_ns: BOOT_NS,
            first_pid: 2,
            per_call: Duration::from_micros(1),
            slice: Duration::from_millis(1),
            cpu: None,
            patience: Duration::from_secs(10),
            trap_tsc: true,
            tell_calls: false,
            tell_writes: false,
            ahead: true,
            gates: true,
            files: None,
            disk: DiskUse::Once,
            limits: Limits::default(),
            debugged: false,
            interrupt: None,
        }
    }
}

/// A program to start.
#[derive(Debug)]
pub struct Spawn {
    /// Name (looked up in the variable PATH below when it has no slash), then its arguments.
    pub arguments: Vec<CString>,
    /// `NAME=value`.
    pub environment: Vec<CString>,
    /// Working directory.
    pub directory: PathBuf,
    /// Standard input, output and error. Files: what ends in a pipe or terminal outside the node is not in virtual time.
    pub descriptors: [OwnedFd; 3],
    /// Who is told when the program is loaded and has not begun: a debugger. It goes on when that returns.
    pub attach: Option<Attach>,
}

/// Takes a program that is [`Held`].
#[derive(Clone)]
pub struct Attach(pub Arc<dyn Fn(&Held) + Send + Sync>);

impl fmt::Debug for Attach {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Attach")
    }
}

/// A program that is loaded and has not begun.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Held {
    /// Its number outside the node.
    pub pid: u32,
    /// The file that is mapped, as the node calls it.
    pub executable: PathBuf,
    /// What is added to the addresses in the file, if it is position-independent.
    pub base: u64,
}
