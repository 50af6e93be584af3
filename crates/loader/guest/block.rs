//! A thread's own block: what belongs to it, and the stack of its handlers.

use crate::abi::{self, Channel, Process};
use crate::calls::number as nr;
use crate::sys;
use crate::x86_64::context::{Info, Stack};
use crate::x86_64::place::{self, Head};
pub use crate::x86_64::place::{BLOCK, BLOCKS, BLOCKS_ADDRESS, is_ours};
use core::sync::atomic::AtomicU64;
use core::sync::atomic::Ordering::{AcqRel, Relaxed};

/// Bytes that go through a call at a time, where two descriptors are moved between.
pub const PIECE_BYTES: usize = 16 * 1024;
/// Descriptors whose kind is remembered.
pub const FILES: usize = 1024;

/// What belongs to one thread.
#[repr(C)]
pub struct Thread {
    pub head: Head,
    /// The program's alternate signal stack.
    pub alternate: Stack,
    pub channel: &'static Channel,
    pub process: &'static Process,
    /// What its descriptors are, by number; 0: not known. Shared by the threads of a process, not by vfork's child.
    pub files: *mut [u64; FILES],
    /// Written with 0 when the thread ends, and its futex woken.
    pub clear_tid: usize,
    /// set_robust_list(2)
    pub robust: usize,
    /// Where a new thread goes on: a context.
    pub begins_at: usize,
    /// Where it writes its number (CLONE_CHILD_SETTID).
    pub set_tid: usize,
    /// Mask that holds again after a call that had one of its own.
    pub saved_mask: Option<u64>,
    /// A call that came through a gate and is answered, with its number and where the program goes on; see `gate::FINISH`.
    pub finishing: Option<(usize, u64, i64)>,
    pub index: usize,
    /// Of the process of its maker.
    pub is_thread: bool,
    /// What only real time needs.
    pub strict: RealTime,
    pub own_files: [u64; FILES],
}

/// What a thread has in real time only.
pub struct RealTime {
    /// In real time.
    pub on: bool,
    /// It has a channel of its own.
    pub joined: bool,
    /// It is the child of vfork: memory is its maker's, descriptors are its own.
    pub borrowed: bool,
    /// Its eventfd; -1: none.
    pub wake: i32,
    /// It waits in a call of ours, with the program's signals open.
    pub waits: bool,
    /// A signal that came then; 0: none.
    pub deferred: usize,
    pub info: Info,
    /// What is blocked while its call waits.
    pub mask: u64,
    /// SIGSYS, if the program believes to have it blocked. It never is, because calls come by it.
    pub pretended: u64,
    /// The call of the kernel's that is under way opens SIGSYS by a mask of its own.
    pub opens: bool,
    /// A SIGSYS that somebody sent to this thread, until it is unblocked.
    pub held: Option<Info>,
    /// The thread's number.
    pub tid: usize,
}

impl Default for RealTime {
    fn default() -> RealTime {
        let info = Info { signal: 0, errno: 0, code: 0, padding: 0, address: 0, number: 0, arch: 0, rest: [0; 12] };
        RealTime {
            on: false,
            joined: false,
            borrowed: false,
            wake: -1,
            waits: false,
            deferred: 0,
            info,
            mask: 0,
            pretended: 0,
            opens: false,
            held: None,
            tid: 0,
        }
    }
}

/// Which blocks are in use.
static USED: [AtomicU64; BLOCKS / 64] = [const { AtomicU64::new(0) }; BLOCKS / 64];

impl Thread {
    /// Is there a signal for it, which ends whatever it waits for?
    pub fn is_signalled(&self) -> bool {
        let channel = self.channel;
        channel.signal.load(Relaxed) != 0 || channel.pending.load(Relaxed) & !channel.mask.load(Relaxed) != 0
    }

    /// Does a handler of the program's run before the program goes on?
    pub fn goes_to_a_handler(&self) -> bool {
        if self.strict.on { self.strict.deferred != 0 } else { self.is_signalled() }
    }

    /// Which channel is its.
    pub fn channel_index(&self) -> usize {
        (core::ptr::from_ref(self.channel) as usize - abi::ARENA_ADDRESS - abi::channel_at(0)) / size_of::<Channel>()
    }

    /// Where [`PIECE_BYTES`] lie that go through a call, between the struct and the stack. A world's hash has the addresses of what is read and written,
    /// so they do not depend on the way by which the call has come here.
    pub fn piece(&self) -> usize {
        (core::ptr::from_ref(self) as usize + size_of::<Thread>()).next_multiple_of(64)
    }
}

/// The calling thread. Only in a handler, on the thread's own block.
pub fn current() -> &'static mut Thread {
    // SAFETY: handlers run on the alternate stack, which is the thread's block; its lower end is the struct. Handlers do not nest but for
    // faults, whose handler does not take this reference while it changes the struct.
    unsafe { &mut *(place::block() as *mut Thread) }
}

/// A thread by the index of its block.
pub fn by_index(index: usize) -> &'static Thread {
    // SAFETY: the block of a thread that is there, as `gate::running` says.
    unsafe { &*((BLOCKS_ADDRESS + index % BLOCKS * BLOCK) as *const Thread) }
}

pub fn allocate() -> Option<usize> {
    (0..BLOCKS).find(|index| {
        let bit = 1_u64 << (index % 64);
        USED[index / 64].load(Relaxed) & bit == 0 && USED[index / 64].fetch_or(bit, AcqRel) & bit == 0
    })
}
/// In virtual time the stack goes on being used until the thread is gone; no other thread of the node runs until then.
pub fn release(index: usize) {
    USED[index / 64].fetch_and(!(1 << (index % 64)), AcqRel);
}
/// The threads that there are: of this process, and children of vfork(2) with its memory.
pub fn all() -> impl Iterator<Item = &'static Thread> {
    (0..BLOCKS).filter(|index| USED[index / 64].load(Relaxed) & 1 << (index % 64) != 0).map(by_index)
}
/// The word and the bit of a block.
pub fn used(index: usize) -> (&'static AtomicU64, usize) {
    (&USED[index / 64], index % 64)
}
/// After fork(2): this thread is the only one.
pub fn only(index: usize) {
    USED.iter().for_each(|word| word.store(0, Relaxed));
    USED[index / 64].store(1 << (index % 64), Relaxed);
}

pub unsafe fn put(index: usize, channel: &'static Channel, process: &'static Process) -> &'static mut Thread {
    let at = (BLOCKS_ADDRESS + index * BLOCK) as *mut Thread;
    // SAFETY: the block is mapped and was free.
    unsafe {
        at.write(Thread {
            head: Head { native_return: 0, careful: false },
            alternate: Stack { start: 0, flags: 2, padding: 0, bytes: 0 },
            channel,
            process,
            files: core::ptr::null_mut(),
            clear_tid: 0,
            robust: 0,
            begins_at: 0,
            set_tid: 0,
            saved_mask: None,
            finishing: None,
            index,
            is_thread: false,
            strict: RealTime::default(),
            own_files: [0; FILES],
        });
        (*at).files = &raw mut (*at).own_files;
        &mut *at
    }
}

/// Maps the blocks of a new image.
pub fn map_blocks() {
    // MAP_PRIVATE|MAP_ANONYMOUS|MAP_NORESERVE|MAP_FIXED_NOREPLACE
    let at = sys::call(nr::MMAP, &[BLOCKS_ADDRESS, BLOCK * BLOCKS, 3, 0x10_4022, usize::MAX, 0]);
    if at != BLOCKS_ADDRESS as isize {
        sys::die("cannot map the stacks of the handlers", -at as usize);
    }
}

pub fn alternate_stack(t: &Thread) {
    let stack = Stack { start: BLOCKS_ADDRESS as u64 + (t.index * BLOCK) as u64, flags: 0, padding: 0, bytes: BLOCK as u64 };
    sys::call(nr::SIGALTSTACK, &[&raw const stack as usize, 0]);
}

const _: () = assert!(size_of::<Info>() == 128);
