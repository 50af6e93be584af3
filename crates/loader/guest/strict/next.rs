//! execve(2) in real time: what the next image has to know goes to it in a memory file, since many may begin at once.

use crate::abi::{self, PATH_BYTES, strict};
use crate::block::Thread;
use crate::calls::number as nr;
use crate::channel::real::is_known;
use crate::sys;

const RLIMIT_NOFILE: usize = 7;

/// Executes the loader for what is decided. Returns an errno. Everything is blocked meanwhile, so that no signal is lost; the new image opens what the
/// program had open.
pub fn execute(t: &mut Thread, target: &[u8], name: &[u8], arguments: usize, environment: usize) -> isize {
    const AT_EMPTY_PATH: usize = 0x1000;
    let Some(at) = sys::map(size_of::<strict::Next>()) else { return sys::ENOMEM };
    // SAFETY: new, zeroed, and large enough.
    let next = unsafe { &mut *(at as *mut strict::Next) };
    next.magic = strict::NEXT_MAGIC;
    next.decided = 1;
    next.mask = t.strict.mask;
    next.joined = u64::from(is_known(t));
    let put = |into: &mut [u8; PATH_BYTES], from: &[u8]| {
        let bytes = from.len().min(PATH_BYTES - 1);
        into[..bytes].copy_from_slice(&from[..bytes]);
    };
    put(&mut next.target, target);
    put(&mut next.name, name);
    t.process.executable.get(0, &mut next.executable);
    let memory = sys::call(nr::MEMFD_CREATE, &[c"weft-next".as_ptr() as usize, 0]);
    if memory < 0 {
        sys::unmap(at, size_of::<strict::Next>());
        return memory;
    }
    sys::call(nr::WRITE, &[memory as usize, at, size_of::<strict::Next>()]);
    sys::unmap(at, size_of::<strict::Next>());
    let moved = with_room(|| sys::call(nr::DUP2, &[memory as usize, abi::DESCRIPTOR_NEXT as usize]));
    sys::call(nr::CLOSE, &[memory as usize]);
    if moved < 0 {
        return moved;
    }
    let all = !0_u64;
    let mut before = 0_u64;
    sys::call(nr::RT_SIGPROCMASK, &[2, &raw const all as usize, &raw mut before as usize, 8]);
    super::signal::before_exec(t);
    let empty = [0_u8];
    let errno = sys::call(nr::EXECVEAT, &[abi::DESCRIPTOR_LOADER as usize, empty.as_ptr() as usize, arguments, environment, AT_EMPTY_PATH]);
    sys::call(nr::RT_SIGPROCMASK, &[2, &raw const before as usize, 0, 8]);
    with_room(|| sys::call(nr::DUP2, &[abi::DESCRIPTOR_LOADER as usize, abi::DESCRIPTOR_NEXT as usize]));
    errno
}

/// Does something for which the descriptor limit must be the largest.
pub fn with_room(f: impl FnOnce() -> isize) -> isize {
    let mut limit = [0_u64; 2];
    sys::call(nr::PRLIMIT64, &[0, RLIMIT_NOFILE, 0, limit.as_mut_ptr() as usize]);
    let low = limit[0] <= abi::DESCRIPTOR_CONTROL as u64;
    if low {
        let wide = [limit[1], limit[1]];
        sys::call(nr::PRLIMIT64, &[0, RLIMIT_NOFILE, wide.as_ptr() as usize, 0]);
    }
    let result = f();
    if low {
        sys::call(nr::PRLIMIT64, &[0, RLIMIT_NOFILE, limit.as_ptr() as usize, 0]);
    }
    result
}
