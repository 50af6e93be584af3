//! The memory that a node's programs share with the controller, and what is read of it everywhere.

use crate::abi::{self, Channel, Files, Header, Mirror, Process, Seen};
use crate::calls::number as nr;
use crate::sys;
use core::sync::atomic::Ordering::Relaxed;

/// The first page of the arena.
pub fn header() -> &'static Header {
    // SAFETY: mapped by `map_arena` before anything else, for ever.
    unsafe { &*(abi::ARENA_ADDRESS as *const Header) }
}
/// CLOCK_MONOTONIC, by which time limits count.
pub fn monotonic() -> u64 {
    header().present(abi::Clock::Monotonic)
}
pub fn process(index: usize) -> &'static Process {
    // SAFETY: as in `header`; the index is below the bound.
    unsafe { &*((abi::ARENA_ADDRESS + abi::process_at(index % abi::PROCESSES_MAX)) as *const Process) }
}
pub fn channel(index: usize) -> &'static Channel {
    // SAFETY: as in `header`.
    unsafe { &*((abi::ARENA_ADDRESS + abi::channel_at(index % abi::CHANNELS_MAX)) as *const Channel) }
}
pub fn mirror(index: usize) -> &'static Mirror {
    // SAFETY: as in `header`; any bytes are a mirror.
    unsafe { &*((abi::ARENA_ADDRESS + abi::mirror_at(index % abi::MIRRORS)) as *const Mirror) }
}

/// The numbers of files.
pub fn files() -> &'static Files {
    // SAFETY: as in `header`.
    unsafe { &*((abi::ARENA_ADDRESS + abi::files_at()) as *const Files) }
}

/// What programs have opened.
pub fn seen() -> &'static Seen {
    // SAFETY: as in `header`.
    unsafe { &*((abi::ARENA_ADDRESS + abi::seen_at()) as *const Seen) }
}

/// Maps the arena from its descriptor. False: there is none.
pub fn map_arena() -> bool {
    // PROT_READ|PROT_WRITE, MAP_SHARED|MAP_FIXED_NOREPLACE|MAP_NORESERVE
    let at = sys::call(nr::MMAP, &[abi::ARENA_ADDRESS, abi::ARENA_BYTES, 3, 0x10_4001, abi::DESCRIPTOR_ARENA as usize, 0]);
    at == abi::ARENA_ADDRESS as isize && header().magic.load(Relaxed) == abi::MAGIC
}

/// Are programs to see a machine of their own?
pub fn is_own_machine() -> bool {
    header().real_start.load(Relaxed) != 0
}

/// Something that others may wait for has been done with a descriptor of the kernel's.
pub fn touched() {
    header().activity.fetch_add(1, Relaxed);
}
