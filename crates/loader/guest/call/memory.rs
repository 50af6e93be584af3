//! Memory, kept off what is ours.

use crate::arena::is_own_machine;
use crate::block::Thread;
use crate::calls::*;
use crate::abi::kind;
use crate::descriptor;
use crate::forward::{Answer, forward, kernel};
use crate::memory::{self, is_ours, shared_bytes};
use crate::output_file;
use crate::resident;
use crate::sys;
use crate::x86_64::gate;

const MAP_PRIVATE: usize = 2;
const MAP_ANONYMOUS: usize = 0x20;

/// Does the call touch what is ours?
pub trait Touches: Call {
    fn touches_ours(&self) -> bool;
}

impl Touches for Mmap {
    fn touches_ours(&self) -> bool {
        const MAP_FIXED: usize = 0x10;
        self.flags.0 & MAP_FIXED != 0 && is_ours(self.addr.0, self.len.0)
    }
}

impl Touches for Mremap {
    fn touches_ours(&self) -> bool {
        const MREMAP_FIXED: usize = 2;
        is_ours(self.addr.0, self.old_len.0) || self.flags.0 & MREMAP_FIXED != 0 && is_ours(self.new_addr.0, self.new_len.0)
    }
}

impl Touches for Shmat {
    fn touches_ours(&self) -> bool {
        self.shmaddr.0 != 0 && is_ours(self.shmaddr.0, shared_bytes(self.shmid.0))
    }
}

macro_rules! ranges {
    ($($name:ident $start:ident;)*) => { $(
        impl Touches for $name {
            fn touches_ours(&self) -> bool {
                is_ours(self.$start.0, self.len.0)
            }
        }
    )* };
}
ranges! {
    Madvise start;
    Mprotect start;
    Munmap addr;
    PkeyMprotect start;
}

/// The kernel's, when it touches nothing of ours. Then, where it succeeded, what is known of the text there is put right (see `gate`).
fn off_ours<C: Touches>(call: &C, then: impl FnOnce(usize)) -> Answer {
    if call.touches_ours() {
        return Err(sys::EINVAL);
    }
    let result = kernel(call);
    if result >= 0 {
        then(result as usize);
    }
    Ok(result)
}

/// brk(2)
pub fn brk(_: &mut Thread, call: Brk) -> isize {
    memory::set(call.brk.0)
}

/// What a descriptor is that is mapped, where it is one of the controller's.
pub fn mapped(t: &mut Thread, call: &Mmap) -> Option<u64> {
    if call.flags.0 & MAP_ANONYMOUS != 0 || !descriptor::is_socket(call.fd.0) {
        return None;
    }
    let word = descriptor::word(t, call.fd.0);
    (descriptor::kind_of(word) == kind::VIRTUAL).then_some(word)
}

/// Maps what the controller has handed over in place of a descriptor of its own: from its beginning, as the controller has looked at the place.
pub fn map_handed(t: &mut Thread, call: &Mmap, file: isize) -> Answer {
    if file < 0 {
        return Err(file);
    }
    let result = kernel(&Mmap { fd: Fd(file as usize), ..*call });
    descriptor::forget(t, file as usize);
    sys::call(number::CLOSE, &[file as usize]);
    Ok(result)
}

/// mmap(2)
pub fn mmap(t: &mut Thread, call: Mmap) -> Answer {
    const MAP_TYPE: usize = 0xf;
    const MAP_SHARED: usize = 1;
    const MAP_SHARED_VALIDATE: usize = 3;
    const READ_EXECUTE: usize = 5;
    let (len, flags) = (call.len.0, call.flags.0);
    let shared = flags & MAP_ANONYMOUS == 0 && matches!(flags & MAP_TYPE, MAP_SHARED | MAP_SHARED_VALIDATE);
    if shared && !call.touches_ours() && output_file::is(call.fd.0) {
        return Err(sys::EACCES);
    }
    if !call.touches_ours()
        && let Some(word) = mapped(t, &call)
    {
        let file = forward(t, &call, word);
        let at = map_handed(t, &call, file)?;
        gate::forget(at as usize, len);
        return Ok(at);
    }
    off_ours(&call, |at| {
        gate::forget(at, len);
        if call.prot.0 == READ_EXECUTE && flags & (MAP_PRIVATE | MAP_ANONYMOUS) == MAP_PRIVATE {
            gate::note(at, len);
        }
    })
}

/// munmap(2)
pub fn munmap(_: &mut Thread, call: Munmap) -> Answer {
    off_ours(&call, |_| gate::forget(call.addr.0, call.len.0))
}

/// mprotect(2)
pub fn mprotect(_: &mut Thread, call: Mprotect) -> Answer {
    off_ours(&call, |_| gate::forget(call.start.0, call.len.0))
}

/// pkey_mprotect(2)
pub fn pkey_mprotect(_: &mut Thread, call: PkeyMprotect) -> Answer {
    off_ours(&call, |_| gate::forget(call.start.0, call.len.0))
}

/// mremap(2)
pub fn mremap(_: &mut Thread, call: Mremap) -> Answer {
    off_ours(&call, |at| {
        gate::forget(call.addr.0, call.old_len.0);
        gate::forget(at, call.new_len.0);
    })
}

/// madvise(2)
pub fn madvise(_: &mut Thread, call: Madvise) -> Answer {
    off_ours(&call, |_| {})
}

/// shmat(2)
pub fn shmat(_: &mut Thread, call: Shmat) -> Answer {
    off_ours(&call, |at| gate::forget(at, shared_bytes(call.shmid.0)))
}

/// shmctl(2): when a segment was used. Real seconds become the node's start, as times of files do.
pub fn shmctl(_: &mut Thread, call: Shmctl) -> Answer {
    const IPC_STAT: usize = 2;
    const SHM_STAT: usize = 13;
    const SHM_STAT_ANY: usize = 15;
    let result = kernel(&call);
    // IPC_64 is a flag.
    if result >= 0 && matches!(call.cmd.0 & 0xff, IPC_STAT | SHM_STAT | SHM_STAT_ANY) {
        // struct shmid64_ds: shm_atime, shm_dtime, shm_ctime behind 48 bytes of permissions and the size.
        super::ipc::plain_times(&[56, 64, 72].map(|offset| call.buf.0 + offset))?;
    }
    Ok(result)
}

/// mincore(2): what of a file is in memory is the host's affair; what is mapped is there.
pub fn mincore(_: &mut Thread, call: Mincore) -> Answer {
    const PAGE_BYTES: usize = 4096;
    let result = kernel(&call);
    if result == 0 && is_own_machine() {
        let pages = call.len.0.div_ceil(PAGE_BYTES);
        for at in (0..pages).step_by(64) {
            sys::copy_out(call.vec.0 + at, &[1; 64][..(pages - at).min(64)])?;
        }
    }
    Ok(result)
}

/// mlock(2)
pub fn mlock(t: &mut Thread, call: Mlock) -> Answer {
    resident::range(t, call.start.0, call.len.0, 0, || kernel(&call))
}

/// mlock2(2)
pub fn mlock2(t: &mut Thread, call: Mlock2) -> Answer {
    resident::range(t, call.start.0, call.len.0, call.flags.0, || kernel(&call))
}

/// mlockall(2)
pub fn mlockall(t: &mut Thread, call: Mlockall) -> Answer {
    resident::all(t, call.flags.0)
}
