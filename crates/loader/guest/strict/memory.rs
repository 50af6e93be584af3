//! Memory calls in real time, kept off what is ours. None: the kernel is to answer.

use super::descriptors::receive_handed;
use crate::block::Thread;
use crate::call::memory::{Touches, map_handed, mapped};
use crate::calls::*;
use crate::forward::Answer;
use crate::lock::BREAK;
use crate::memory;
use crate::resident;
use crate::sys;

/// brk(2)
pub fn brk(_: &mut Thread, call: Brk) -> isize {
    BREAK.with(|| memory::set(call.brk.0))
}

macro_rules! keep_off {
    ($($name:ident $call:ident $page:literal;)*) => { $(
        #[doc = $page]
        pub fn $name(_: &mut Thread, call: $call) -> Option<Answer> {
            call.touches_ours().then_some(Err(sys::EINVAL))
        }
    )* };
}

keep_off! {
    madvise Madvise "madvise(2)";
    mprotect Mprotect "mprotect(2)";
    mremap Mremap "mremap(2)";
    munmap Munmap "munmap(2)";
    pkey_mprotect PkeyMprotect "pkey_mprotect(2)";
    shmat Shmat "shmat(2)";
}

/// mmap(2)
pub fn mmap(t: &mut Thread, call: Mmap) -> Option<Answer> {
    if call.touches_ours() {
        return Some(Err(sys::EINVAL));
    }
    let word = mapped(t, &call)?;
    let file = receive_handed(t, &call, word);
    Some(map_handed(t, &call, file))
}

/// mlockall(2)
pub fn mlockall(_: &mut Thread, call: Mlockall) -> Answer {
    resident::all_of_programs(call.flags.0)
}
