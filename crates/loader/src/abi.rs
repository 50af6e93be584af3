//! What the loader inside a program and the controller outside it share: one memory file per node, the *arena*.
//!
//! This file is compiled into both. The arena begins with a [`Header`] (the clock, which the vDSO reads too), then come a slot per
//! process ([`Process`]) and a *channel* per thread ([`Channel`]). Everything is atomic or copied byte by byte, because the other side is
//! another process: nothing here may be trusted by the controller.
//!
//! One thread of a node runs at a time. It posts a call in its channel, sets `word` to [`POSTED`], wakes `Header::controller` and sleeps
//! on `word` until it is [`ANSWERED`].

use core::cell::UnsafeCell;
use core::sync::atomic::Ordering::Relaxed;
use core::sync::atomic::{AtomicI32, AtomicI64, AtomicU32, AtomicU64};

/// Where every process maps the arena.
pub const ARENA_ADDRESS: usize = 0x7eb0_0000_0000;
/// Where position-independent programs go.
pub const PROGRAM_ADDRESS: usize = 0x5600_0000_0000;
/// `Header::magic`; changes with the layout.
pub const MAGIC: u64 = 0x7765_6674_6c64_7237;

/// Most processes of a node at a time: each has a thread. A slot that was never used costs addresses alone.
pub const PROCESSES_MAX: usize = CHANNELS_MAX;
/// Most threads of a node at a time, as its /proc/sys/kernel/threads-max says. Each has 140 KiB of addresses in the arena and as many in its process, of which
/// it uses some 30.
pub const CHANNELS_MAX: usize = 8192;
/// Bytes of a channel's buffer.
pub const DATA_BYTES: usize = 64 * 1024;
/// Bytes of a channel's log of calls that were answered ahead.
pub const LOG_BYTES: usize = 64 * 1024;
/// Sockets of a node whose state is shown to its programs.
pub const MIRRORS: usize = 8;
/// Bytes of received data that a mirror can show, and of what is still to come.
pub const MIRROR_BYTES: usize = 100 * 1024;
/// Objects of which O_NONBLOCK is known, at most.
pub const NONBLOCKING_KNOWN: usize = 64;
/// Datagrams that a mirror can show.
pub const MIRROR_MESSAGES: usize = 64;
/// Pieces of a stream that are still to come, of which a mirror can tell.
pub const MIRROR_PIECES: usize = 64;
/// Bytes of a `sockaddr` that a mirror can hold.
pub const ADDRESS_BYTES: usize = 32;
/// Bytes of arguments and environment with which a program can be started from outside.
pub const SPAWN_BYTES: usize = 256 * 1024;
/// PATH_MAX.
pub const PATH_BYTES: usize = 4096;
/// Most groups of a process beside its own.
pub const GROUPS_MAX: usize = 64;
/// All capabilities that there are (CAP_CHECKPOINT_RESTORE is the last).
pub const CAPABILITIES: u64 = (1 << 41) - 1;
/// After so many bytes more in files the controller looks whether they are output.
pub const WRITTEN_BYTES: u64 = 16 << 20;
/// Seals of the files in memory that are standard output and error: F_SEAL_SEAL and F_SEAL_SHRINK.
pub const OUTPUT_FILE_SEALS: i32 = 1 | 2;
/// Bytes of a host name (HOST_NAME_MAX and its end).
pub const NAME_BYTES: usize = 65;

#[path = "abi/clocks.rs"]
mod clocks;
pub use clocks::*;
#[path = "abi/files.rs"]
mod files;
pub use files::*;
#[path = "abi/orders.rs"]
mod orders;
pub use orders::*;
#[path = "abi/processor.rs"]
mod processor;
pub use processor::*;
#[path = "abi/words.rs"]
mod words;
pub use words::*;

const PAGE: usize = 4096;
const HEADER_BYTES: usize = 2 * PAGE;
const SPAWN_AT: usize = HEADER_BYTES;
const MIRRORS_AT: usize = SPAWN_AT + SPAWN_BYTES;
const MIRROR_STRIDE: usize = size_of::<Mirror>().next_multiple_of(PAGE);
const PROCESSES_AT: usize = MIRRORS_AT + MIRRORS * MIRROR_STRIDE;
const PROCESS_BYTES: usize = 4 * PAGE;
const CHANNELS_AT: usize = PROCESSES_AT + PROCESSES_MAX * PROCESS_BYTES;
const CHANNEL_BYTES: usize = DATA_BYTES + LOG_BYTES + PAGE;
const FILES_AT: usize = CHANNELS_AT + CHANNELS_MAX * CHANNEL_BYTES;
const SEEN_AT: usize = FILES_AT + size_of::<Files>().next_multiple_of(PAGE);
/// Bytes of the whole arena. Pages that were never used cost nothing.
pub const ARENA_BYTES: usize = SEEN_AT + size_of::<Seen>().next_multiple_of(PAGE);

/// Private writable memory of the loader in each process: stacks for the handlers of its threads.
pub const BLOCKS_BYTES: u64 = 1 << 30;
/// The stack of the loader itself.
pub const FIRST_STACK_BYTES: usize = 256 * 1024;
/// The loader's image is no larger.
pub const IMAGE_BYTES_MAX: usize = 1 << 20;
/// Where what is kept for it begins is a multiple of this, and usually so much lies behind that.
pub const RESERVED_BYTES: usize = 2 << 20;
/// What the loader itself takes of RLIMIT_DATA and RLIMIT_AS: programs get so much more than they are told. The last of it is the vDSO and the gates.
pub const OWN_SHARE: [(usize, u64); 2] =
    [(2, BLOCKS_BYTES + FIRST_STACK_BYTES as u64), (9, BLOCKS_BYTES + ARENA_BYTES as u64 + RESERVED_BYTES as u64 + (1 << 19))];

/// What the loader takes of a resource, by its number.
pub fn own_share(resource: usize) -> u64 {
    OWN_SHARE.iter().find(|(which, _)| *which == resource).map_or(0, |(_, bytes)| *bytes)
}

/// Soft and hard limit of each resource that programs begin with, by its number, as Linux has them. What the host allows whoever started weft does not show:
/// programs see and set these, and the kernel's follow as far as they can.
#[rustfmt::skip]
pub const LIMITS: [[u64; 2]; 16] = [
    [u64::MAX; 2], [u64::MAX; 2], [u64::MAX; 2], [8 << 20, u64::MAX], [0, u64::MAX], [u64::MAX; 2], [8192; 2], [1024, DESCRIPTORS_HARD],
    [8 << 20; 2], [u64::MAX; 2], [u64::MAX; 2], [8192; 2], [819_200; 2], [0; 2], [0; 2], [u64::MAX; 2],
];
/// Hard limit of descriptors (systemd's).
pub const DESCRIPTORS_HARD: u64 = 524_288;

/// RLIMIT_DATA.
pub const LIMIT_DATA: usize = 2;
/// RLIMIT_NOFILE.
pub const LIMIT_DESCRIPTORS: usize = 7;

/// The image of the loader, for exec. The three numbers lie just under the usual limit of 1024 descriptors, and programs cannot close them.
pub const DESCRIPTOR_LOADER: i32 = 1021;
/// The arena.
pub const DESCRIPTOR_ARENA: i32 = 1022;
/// A SOCK_SEQPACKET socket to the controller, over which descriptors are handed to programs.
pub const DESCRIPTOR_CONTROL: i32 = 1023;

/// A SOCK_SEQPACKET socket over which only init is commanded; programs do not have it.
pub const DESCRIPTOR_COMMANDS: i32 = 1020;

/// In real time: an eventfd by which the controller is woken.
pub const DESCRIPTOR_BELL: i32 = 1020;
/// In real time: what the next image is to be ([`strict::Next`]), while a program is being executed.
pub const DESCRIPTOR_NEXT: i32 = 1019;

/// `Channel::word`: the program runs, or nobody uses the channel.
pub const RUNNING: u32 = 0;
/// `Channel::word`: a call waits for the controller.
pub const POSTED: u32 = 1;
/// `Channel::word`: the answer is there.
pub const ANSWERED: u32 = 2;
/// `Channel::word`, in real time: the call waits; the answer comes by the thread's eventfd.
pub const PARKED: u32 = 3;

/// Bytes that one side writes and the other reads while it sleeps.
#[repr(transparent)]
pub struct Area<const N: usize>(UnsafeCell<[u8; N]>);

// SAFETY: the protocol gives the bytes to one side at a time; a program that breaks it can only garble bytes, which have no invalid values.
unsafe impl<const N: usize> Sync for Area<N> {}

impl<const N: usize> Area<N> {
    /// Copies into the area as much as fits behind `at`; returns how much that was.
    pub fn put(&self, at: usize, bytes: &[u8]) -> usize {
        let count = bytes.len().min(N.saturating_sub(at));
        if count > 0 {
            // SAFETY: `at + count <= N`; see the type for who else writes.
            unsafe { core::ptr::copy_nonoverlapping(bytes.as_ptr(), self.pointer().add(at), count) };
        }
        count
    }
    /// Copies out of the area; returns how much there was behind `at`.
    pub fn get(&self, at: usize, into: &mut [u8]) -> usize {
        let count = into.len().min(N.saturating_sub(at));
        if count > 0 {
            // SAFETY: as in `put`.
            unsafe { core::ptr::copy_nonoverlapping(self.pointer().add(at), into.as_mut_ptr(), count) };
        }
        count
    }
    /// Where the bytes are.
    pub fn pointer(&self) -> *mut u8 {
        self.0.get().cast()
    }
}

/// The first pages. The vDSO knows the offsets of the words up to `clocks`.
#[repr(C)]
pub struct Header {
    /// [`MAGIC`].
    pub magic: AtomicU64,
    /// The node's present, in nanoseconds since its boot.
    pub now: AtomicU64,
    /// The running thread must not go beyond this time by itself.
    pub grant: AtomicU64,
    /// What a call costs, in nanoseconds.
    pub per_call: AtomicU64,
    /// What clocks show beyond `now`.
    pub clocks: Clocks,
    /// The controller sleeps on it.
    pub controller: AtomicU32,
    /// It does, or is about to: it has to be woken.
    pub controller_sleeps: AtomicU32,
    /// Whose channel the image that is being executed continues.
    pub exec_channel: AtomicU32,
    /// How many threads wait at futexes: with none, waking needs no controller.
    pub futex_waiters: AtomicU32,
    /// [`TELL_CALLS`] and others.
    pub flags: AtomicU32,
    /// Grows whenever a descriptor of the kernel's may have become readable, writable or closed.
    pub activity: AtomicU64,
    /// All calls so far, folded: (time, process, thread, number, result), and the bytes written.
    pub trace: AtomicU64,
    /// Calls so far.
    pub calls: AtomicU64,
    /// Bytes that write(2) and its kind have put into files so far.
    pub written: AtomicU64,
    /// What the init process could not do: errno of the step with that bit, see `INIT_*`.
    pub init_failed: AtomicU32,
    /// errno of the last failure.
    pub init_errno: AtomicU32,
    /// When the node began by the host's clock, in nanoseconds since 1970: files that were written later are said to be from the node's start.
    /// 0: programs see files as the host does.
    pub real_start: AtomicU64,
    /// The kernel's vDSO and the pages that it reads are one range, the same in every process: it begins so many bytes before what AT_SYSINFO_EHDR says.
    pub vdso_before: AtomicU64,
    /// Its length. 0: not known.
    pub vdso_bytes: AtomicU64,
    /// Bytes of memory that the machine is said to have.
    pub memory: AtomicU64,
    /// Until then the running thread may answer calls by itself that it is sure of, and log them ([`Entry`]); 0: none. Not beyond `grant`.
    pub ahead: AtomicU64,
    /// What `ahead` is at most, whatever the grant is: no timer of the node is due before.
    pub quiet: AtomicU64,
    /// What the grant is at most: nothing comes from outside before, and nothing of the programs' is due. A thread that goes on by itself after it has
    /// waited is granted that, but no more than a slice.
    pub arrival: AtomicU64,
    /// What `arrival` is when everything has come that mirrors tell.
    pub far: AtomicU64,
    /// Virtual time after which another runnable thread has its turn, in nanoseconds.
    pub slice: AtomicU64,
    /// The sockets that [`Mirror`]s show, by inode; 0: none.
    pub mirrors: [AtomicU64; MIRRORS],
    /// What is known of O_NONBLOCK of the controller's objects, by the low bits of their inode numbers: the number, shifted left, and the flag.
    /// It belongs to the open file, which all descriptors of an object share. 0: not known.
    pub nonblocking: [AtomicU64; NONBLOCKING_KNOWN],
    /// A program has used a pseudoterminal.
    pub terminals: AtomicU32,
    /// To which of them something was written since its master was looked at, a bit each.
    pub terminals_written: [AtomicU64; 4],
    /// Bytes that programs have written to the slaves of the first of them and that no master has read yet; above [`COUNTED_MAX`] nobody knows.
    pub terminals_coming: [AtomicU32; TERMINALS],
    /// Of which of them the slave was opened.
    pub slaves: [AtomicU64; 4],
    /// Host name, with a zero at the end.
    pub name: Area<NAME_BYTES>,
    /// [`STRICT`]: the channels that want to be looked at, a bit each.
    pub rung: [AtomicU64; CHANNELS_MAX / 64],
    /// [`STRICT`]: the controller sleeps, and is to be woken by [`DESCRIPTOR_BELL`].
    pub asleep: AtomicU32,
    /// [`STRICT`]: the controller's number.
    pub controller_pid: AtomicU32,
    /// [`STRICT`]: a socket lingers when it is closed.
    pub lingers: AtomicU32,
    /// [`STRICT`]: epolls that watch sockets of the node so far.
    pub epolls: AtomicU64,
    /// [`STRICT`]: a program has put an epoll into an epoll.
    pub nested: AtomicU32,
    /// Somebody may wait at a semaphore or a message queue.
    pub queue_waits: AtomicU32,
    /// A program has opened a message queue of POSIX.
    pub queues: AtomicU32,
    /// Some AF_UNIX socket of the node wants to know who sends to it (SO_PASSCRED): unnamed ones may get a name.
    pub passes_credentials: AtomicU32,
    /// Descriptors of the node's sockets and the like were sent over AF_UNIX sockets: what is thrown away there, unread, is the last one perhaps.
    pub sends_objects: AtomicU32,
    /// A number of 23 bits with which the node's abstract unix names begin in the kernel. 0: none, it has a network namespace of its own.
    pub mark: AtomicU32,
    /// Abstract names that were given to sockets whose programs named none.
    pub names: AtomicU32,
    /// Are there folders of the host's that [`LAYERS`] would make writable? 0: no; [`UNLAID`], [`UNLAID_LATE`].
    pub closed: AtomicU32,
    /// Grows when it has.
    pub layers: AtomicU32,
    /// st_dev of what is below /sys/class; 0: nobody has asked for it.
    pub sys_device: AtomicU64,
    /// st_dev and st_ino of what is `/` then.
    pub root: [AtomicU64; 2],
    /// Where the node's locks of the host's files begin: `LOCKS_PLACE` bytes that no other node has, far behind the end of any file. 0: they are the host's locks.
    pub locks: AtomicU64,
    /// The number of the first process beside init.
    pub first_pid: AtomicU32,
    /// What CPUID tells.
    pub processor: Processor,
}

/// [`Clocks::boot`] of a node that has just booted, in nanoseconds. Small, never zero, and not the epoch: loops that add fractions of seconds to a huge
/// number stand still.
pub const BOOT_NS: u64 = 1_000_000_000;

impl Header {
    /// What a clock shows now.
    pub fn present(&self, clock: Clock) -> u64 {
        self.clocks.shows(clock, self.now.load(Relaxed))
    }
}

/// Bytes of `Header::locks`.
pub const LOCKS_PLACE: u64 = 64;

/// `Header::closed`: hardly anybody writes there.
pub const UNLAID: u32 = 1;
/// `Header::closed`: programs may well write there.
pub const UNLAID_LATE: u32 = 2;

/// `Header::flags`: calls that are answered in the process are posted too, as [`TELL`].
pub const TELL_CALLS: u32 = 1;
/// `Header::flags`: what is written to standard output and error is posted too, as [`TELL`].
pub const TELL_WRITES: u32 = 128;
/// `Header::flags`: a debugger that is no ancestor may attach to programs.
pub const DEBUGGED: u32 = 64;
/// `Header::flags`: RDTSC faults and is answered with virtual time.
pub const TRAP_TSC: u32 = 2;
/// `Header::flags`: init mounts a new /proc.
pub const MOUNT_PROC: u32 = 4;
/// `Header::flags`: call sites that are used often become jumps into the loader.
pub const GATES: u32 = 32;
/// `Header::flags`: init sets the host name.
pub const SET_NAME: u32 = 8;

/// `Header::flags`: in real time; see [`strict`].
pub const STRICT: u32 = 16;

/// `Header::init_failed`: /proc.
pub const INIT_PROC: u32 = 2;
/// `Header::init_failed`: the host name.
pub const INIT_NAME: u32 = 4;
/// `Header::init_failed`: the number of the first process.
pub const INIT_PID: u32 = 16;
/// `Header::init_failed`: the filter on the vsyscall page.
pub const INIT_VSYSCALL: u32 = 8;

/// A signal's disposition, as `struct kernel_sigaction` has it.
#[repr(C)]
pub struct Action {
    /// SIG_DFL, SIG_IGN or an address.
    pub handler: AtomicU64,
    /// SA_*.
    pub flags: AtomicU64,
    /// sa_restorer.
    pub restorer: AtomicU64,
    /// Blocked while the handler runs.
    pub mask: AtomicU64,
}

/// One process.
#[repr(C)]
pub struct Process {
    /// Its number in the node's namespace.
    pub pid: AtomicU32,
    /// nice(2).
    pub nice: AtomicI32,
    /// CPU time of the process up to the present thread's `resumed`, in nanoseconds.
    pub cpu: AtomicU64,
    /// Key of the stream of randomness.
    pub random_key: [AtomicU64; 4],
    /// Bytes of it that were used.
    pub random_used: AtomicU64,
    /// Users: real, effective, saved, for files.
    pub users: [AtomicU32; 4],
    /// Groups: real, effective, saved, for files.
    pub groups: [AtomicU32; 4],
    /// Groups beside them, and how many of them count.
    pub other_groups: [AtomicU32; GROUPS_MAX],
    /// See `other_groups`.
    pub group_count: AtomicU32,
    /// PR_SET_KEEPCAPS
    pub keep_capabilities: AtomicU32,
    /// Capabilities that are missing: effective, permitted, and one that is unused.
    pub capabilities_off: [AtomicU64; 3],
    /// Inheritable capabilities.
    pub inheritable: AtomicU64,
    /// Soft and hard limit of each resource, as programs see them.
    pub limits: [[AtomicU64; 2]; LIMITS.len()],
    /// The number of the process for whose lock of a file it waits (fcntl(2)); 0: none.
    pub lock_of: AtomicU32,
    /// By number; 0 is unused.
    pub actions: [Action; 65],
    /// /proc/self/exe, with a zero at the end.
    pub executable: Area<PATH_BYTES>,
    /// What to load: a path, with a zero at the end.
    pub target: Area<PATH_BYTES>,
}

/// What a socket shows to programs while `Header::ahead` lasts. Nothing that others do changes it before: nothing reaches the node until then, and no
/// other thread of it can run.
#[repr(C)]
pub struct Mirror {
    /// [`MIRROR_STREAM`] and others.
    pub flags: AtomicU32,
    /// What poll(2) says.
    pub readiness: AtomicU32,
    /// How much `send` is sure to take: bytes of a stream; for datagrams, of memory.
    pub room: AtomicU64,
    /// Longest datagram that this socket has sent already.
    pub longest: AtomicU64,
    /// Datagrams in `messages`; of a stream, bytes at the beginning of `data`.
    pub count: AtomicU32,
    /// Bytes of `peer`; 0: none.
    pub peer_bytes: AtomicU32,
    /// Whom it has sent to before, as `sockaddr`.
    pub peer: Area<ADDRESS_BYTES>,
    /// Taken ahead of `count`. The program's side counts, the controller begins anew.
    pub taken: AtomicU32,
    /// Sends ahead.
    pub sends: AtomicU32,
    /// What those took of `room`.
    pub sent: AtomicU64,
    /// What has been received.
    pub messages: [Piece; MIRROR_MESSAGES],
    /// What will come to a stream before anything else happens to the node: its bytes lie behind those that are there.
    pub coming: [Coming; MIRROR_PIECES],
    /// How many of those there are.
    pub coming_count: AtomicU32,
    /// And how many have come to the program's knowledge, and count in `count`.
    pub come: AtomicU32,
    /// Its bytes: of each message the sender's `sockaddr` ([`ADDRESS_BYTES`]), then the data, to multiples of 8.
    pub data: Area<MIRROR_BYTES>,
}

/// A received datagram of a mirror.
#[repr(C)]
pub struct Piece {
    /// Where in `Mirror::data`.
    pub at: AtomicU32,
    /// Bytes of data.
    pub bytes: AtomicU32,
    /// Bytes of the sender's address.
    pub from_bytes: AtomicU32,
}

/// Bytes of a stream that are still to come.
#[repr(C)]
pub struct Coming {
    /// When, in nanoseconds of `Header::now`.
    pub at: AtomicU64,
    /// How many.
    pub bytes: AtomicU32,
}

/// `Mirror::flags`: a stream.
pub const MIRROR_STREAM: u32 = 1;
/// `Mirror::flags`: it may be sent without an address.
pub const MIRROR_CONNECTED: u32 = 2;
/// `Mirror::flags`: what was received may be taken.
pub const MIRROR_RECEIVE: u32 = 4;
/// `Mirror::flags`: and `messages` are all that there is.
pub const MIRROR_WHOLE: u32 = 8;
/// `Mirror::flags`: it may be sent.
pub const MIRROR_SEND: u32 = 16;
/// `Mirror::flags`: it shows something. Without, nothing is sure.
pub const MIRROR_SHOWS: u32 = 32;

/// What a datagram takes of `Mirror::room`, at least as much as the socket model says.
pub const fn datagram_room(bytes: usize) -> usize {
    // The data with its headers, rounded up to a power of two, and what describes it.
    2 * (bytes + 512) + 512
}

/// A call that was answered ahead, in `Channel::log`, followed by copies of what it points to. The controller does the same at the same time.
#[repr(C)]
#[derive(Clone, Copy, Default, Debug)]
pub struct Logged {
    /// When it was made.
    pub at: u64,
    /// When it returned.
    pub ended: u64,
    /// `Header::trace` then.
    pub trace: u64,
    /// As in the channel.
    pub number: u64,
    /// As in the channel.
    pub arguments: [u64; 6],
    /// As in the channel.
    pub descriptor: u64,
    /// What was answered.
    pub result: i64,
    /// Address, bytes, and where behind this the copies are.
    pub copies: [[u64; 3]; 2],
    /// Bytes of this and its copies.
    pub bytes: u64,
}

/// One thread.
#[repr(C)]
pub struct Channel {
    /// [`RUNNING`], [`POSTED`], [`ANSWERED`].
    pub word: AtomicU32,
    /// Not 0 while the kernel knows the thread; cleared and woken by the kernel (CLONE_CHILD_CLEARTID).
    pub alive: AtomicU32,
    /// Slot of its process.
    pub process: AtomicU32,
    /// Its number.
    pub tid: AtomicU32,
    /// Call that is posted, or one of the numbers from [`HELLO`] on.
    pub number: AtomicU64,
    /// Its arguments.
    pub arguments: [AtomicU64; 6],
    /// What descriptor argument 0 is, see `Kind`; and O_NONBLOCK in bit 63.
    pub descriptor: AtomicU64,
    /// Pieces of the program's memory that were copied into `data` with the call.
    pub copies: [Copy; 4],
    /// [`RETURN`] and so on.
    pub answer: AtomicU32,
    /// Signal to deliver, 0: none.
    pub signal: AtomicU32,
    /// Result of the call.
    pub result: AtomicI64,
    /// Pieces to copy into the program's memory: how many lie in `data`, each as address, length and bytes, to multiples of 8.
    pub writes: AtomicU32,
    /// Bytes of `data` that count.
    pub data_bytes: AtomicU32,
    /// Blocked signals.
    pub mask: AtomicU64,
    /// Signals that wait for this thread or its process. Kept by the controller.
    pub pending: AtomicU64,
    /// CPU time of the thread up to `resumed`.
    pub cpu: AtomicU64,
    /// When it was last given the processor.
    pub resumed: AtomicU64,
    /// Calls in `log`.
    pub logged: AtomicU32,
    /// Bytes of `log` that they take.
    pub log_bytes: AtomicU32,
    /// In real time: a parked call is to end, whether its answer is there or not.
    pub cancel: AtomicU32,
    /// In virtual time: the thread sleeps on `word`, or is about to, and has to be woken.
    pub sleeps: AtomicU32,
    /// siginfo_t of `signal`.
    pub info: Area<128>,
    /// Fills the first page.
    pub reserved: Area<{ PAGE - 344 }>,
    /// Bytes that go with the call or the answer.
    pub data: Area<DATA_BYTES>,
    /// Calls that were answered ahead: [`Logged`].
    pub log: Area<LOG_BYTES>,
}

/// A piece of a program's memory, copied.
#[repr(C)]
pub struct Copy {
    /// Where it was; 0: unused.
    pub address: AtomicU64,
    /// Bytes.
    pub bytes: AtomicU32,
    /// Where in `Channel::data`.
    pub at: AtomicU32,
}

/// Where [`Seen`] is in the arena.
pub const fn seen_at() -> usize {
    SEEN_AT
}
/// Where [`Files`] is in the arena.
pub const fn files_at() -> usize {
    FILES_AT
}

const _: () = assert!(size_of::<Header>() <= HEADER_BYTES && MIRROR_STRIDE >= size_of::<Mirror>());
const _: () = assert!(size_of::<Process>() <= PROCESS_BYTES);
const _: () = assert!(size_of::<Channel>() == CHANNEL_BYTES);

/// Where a process's slot is in the arena.
pub const fn process_at(index: usize) -> usize {
    PROCESSES_AT + index * PROCESS_BYTES
}
/// Where a channel is in the arena.
pub const fn channel_at(index: usize) -> usize {
    CHANNELS_AT + index * CHANNEL_BYTES
}
/// Where a mirror is in the arena.
pub const fn mirror_at(index: usize) -> usize {
    MIRRORS_AT + index * MIRROR_STRIDE
}
/// Where the arguments of [`COMMAND_SPAWN`] are.
pub const fn spawn_at() -> usize {
    SPAWN_AT
}

/// For what somebody waits at a set of semaphores: which of them, and whether it is to become 0.
pub const fn semaphore_wait(number: u64, zero: bool) -> u64 {
    number & 0xffff | (zero as u64) << 16
}

/// Is this a call that waits at a semaphore or a message queue?
pub const fn waits_at_queue(number: u64) -> bool {
    use crate::calls::number as nr;
    matches!(number as usize, nr::SEMOP | nr::MSGSND | nr::MSGRCV | nr::MQ_TIMEDSEND | nr::MQ_TIMEDRECEIVE)
}

/// Is a call's time limit one of CLOCK_REALTIME?
pub const fn by_date(number: u64) -> bool {
    use crate::calls::number as nr;
    matches!(number as usize, nr::MQ_TIMEDSEND | nr::MQ_TIMEDRECEIVE)
}

/// Most entries of one poll set.
pub const ENTRIES_MAX: usize = DATA_BYTES / size_of::<Entry>();

/// A program was started from outside, or an image was executed: (pid, tid).
pub const HELLO: u64 = 0x1000;
/// A child of fork or clone is there: (pid, tid).
pub const CHILD: u64 = 0x1001;
/// What clone came to: (result, channel, process, flags).
pub const CLONED: u64 = 0x1002;
/// A signal may be deliverable now.
pub const SIGNALS: u64 = 0x1003;
/// Would block on descriptors of the kernel's: (descriptor, events, call, until when by CLOCK_MONOTONIC, or by CLOCK_REALTIME where the call is one
/// [`by_date`]; 0: for ever). Of semaphores and queues, and of no others, which set, and for what ([`semaphore_wait`]), too.
pub const BLOCKED: u64 = 0x1004;
/// Time is up (0), or the program wants it (1): let others run. Or [`YIELD_TO_WAITERS`].
pub const YIELD: u64 = 0x1005;
/// Argument of [`YIELD`]: those that wait at what is the kernel's look again before anybody else runs.
pub const YIELD_TO_WAITERS: u64 = 2;
/// How many threads wait at a semaphore: (set, [`semaphore_wait`]).
pub const WAITERS: u64 = 0x1036;
/// A descriptor of the controller's was closed: word in `descriptor`.
pub const CLOSED: u64 = 0x1006;
/// What is this socket? (inode) → 1: the controller's.
pub const WHOSE: u64 = 0x1007;
/// The program faulted and has no handler: (signal).
pub const FATAL: u64 = 0x1008;
/// A call that was answered in the process: (number, first three arguments, result).
pub const TELL: u64 = 0x1009;
/// `Header::written` has grown by [`WRITTEN_BYTES`]. As with [`TELL`], nothing happens at it.
pub const GREW: u64 = 0x1034;
/// A poll set: (entries, timeout kind, timeout, first). Timeout kinds: 0 none, 1 nanoseconds.
pub const POLL: u64 = 0x100a;
/// A call that the loader does not know or refuses: (number, errno).
pub const UNSUPPORTED: u64 = 0x100b;
/// Is about to execute another image.
pub const EXEC: u64 = 0x100c;
/// The thread ran so long that the controller lost patience.
pub const PREEMPTED: u64 = 0x100d;
/// A call has come to what the kernel sends its thread a signal for: (signal).
pub const RAISED: u64 = 0x100e;
/// A call met a limit of the host's that counts what all nodes have: (index into [`HOST_LIMITS`]).
pub const HOST_LIMIT: u64 = 0x1011;
/// Index into [`HOST_LIMITS`].
pub const HOST_LIMIT_PIPE: u64 = 0;
/// The same.
pub const HOST_LIMIT_INOTIFY: u64 = 1;
/// The same.
pub const HOST_LIMIT_WATCH: u64 = 2;
/// The same.
pub const HOST_LIMIT_SENDMSG: u64 = 3;
/// The same.
pub const HOST_LIMIT_FORK: u64 = 4;
/// The same.
pub const HOST_LIMIT_DESCRIPTORS: u64 = 5;
/// The same.
pub const HOST_LIMIT_OBJECTS: u64 = 6;
/// The same.
pub const HOST_LIMIT_QUEUES: u64 = 7;
/// Which call, and which limit.
pub const HOST_LIMITS: [(&str, &str); 8] = [
    ("pipe", "fs.pipe-user-pages-soft and -hard"),
    ("inotify_init", "fs.inotify.max_user_instances"),
    ("inotify_add_watch", "fs.inotify.max_user_watches"),
    ("sendmsg", "descriptors on their way through unix sockets (ulimit -n of who runs weft)"),
    ("fork", "processes of a user (ulimit -u of who runs weft)"),
    ("a call that makes a descriptor", "descriptors of a process (ulimit -Hn of who runs weft)"),
    ("socket, accept, epoll_create or timerfd_create", "descriptors of weft itself, one for each (ulimit -Hn of who runs weft)"),
    ("mq_open", "bytes in message queues of a user (ulimit -q of who runs weft)"),
];
/// A terminal sends a signal: (group of processes, signal, whether nothing is to happen to an orphaned group). → -1: it is one.
pub const TERMINAL: u64 = 0x1010;
/// Executing failed after [`EXEC`]: (errno).
pub const EXEC_FAILED: u64 = 0x100f;
/// A file under /proc is opened: (path, its length, O_CLOEXEC, whether the kernel has it, O_ACCMODE), with the path copied. → [`DESCRIPTOR`], an errno, or 0: the kernel's.
pub const SAID: u64 = 0x1020;
/// Last argument of [`SAID`]: nothing is opened; the answer is 0, [`IS_FILE`], [`IS_FOLDER`] or more than [`HAS_THREADS`].
pub const ASKS: u64 = 4;
/// Answer to [`ASKS`]: the node has a setting of this name.
pub const IS_FILE: i64 = 1;
/// Answer to [`ASKS`]: the node has settings below this name.
pub const IS_FOLDER: i64 = 2;
/// Answer to [`ASKS`]: the folder has those of the threads of a process; so many more than this.
pub const HAS_THREADS: i64 = 16;
/// A program wants to write in a folder of the host's over which nothing is laid yet.
pub const LAYERS: u64 = 0x1021;

/// The call returns `result`.
pub const RETURN: u32 = 0;
/// Try again what would have blocked, or look at the descriptors again and post once more.
pub const AGAIN: u32 = 1;
/// Receive a descriptor from the control socket; its number there is the call's result. Bit 0 of `result` is its O_CLOEXEC, and above it stands the
/// number (8 bytes) that comes along with it.
pub const DESCRIPTOR: u32 = 2;
/// The process ends now by the signal in `result`.
pub const DIE: u32 = 3;
/// Look at the descriptors in `data` and post the entries.
pub const PROBE: u32 = 4;

/// In real time: copy into the program what lies in `data`, then copy out of it the pieces of `copies`, and post the call once more. `writes` says then
/// whether the first of the two failed, and each copy how many bytes there were.
pub const FETCH: u32 = 5;

/// Results between the kernel's own: restart the call where SA_RESTART is set or no handler runs (ERESTARTSYS).
pub const RESTART: i64 = -512;
/// Restart the call, whatever runs (ERESTARTNOINTR).
pub const RESTART_ALWAYS: i64 = -513;
/// EINTR where a handler runs, else restart (ERESTARTNOHAND).
pub const RESTART_NO_HANDLER: i64 = -514;

/// Command to init, a byte on its socket: start what lies in the spawn area, with the three descriptors that come along.
/// The spawn area: u32 argument count, u32 variable count, u32 bytes of the strings, u32 channel; then the strings, each with a zero
/// at its end: directory, program, arguments, variables.
pub const COMMAND_SPAWN: u8 = 1;
/// To init: do the list of steps that comes with it (see [`Order::steps_bytes`]), and say when that is done.
pub const COMMAND_STEPS: u8 = 2;

#[path = "abi/strict.rs"]
pub mod strict;

#[path = "abi/entry.rs"]
mod entry;
pub use entry::{EXACT, Entry};
