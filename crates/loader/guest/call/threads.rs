//! Threads: how they begin and end, and what they tell the kernel.

use crate::arena::is_own_machine;
use crate::block::Thread;
use crate::calls::number as nr;
use crate::calls::*;
use crate::descriptor;
use crate::forward::{Answer, kernel as by_kernel, refused};
use crate::sys;
use crate::thread::{self, CLONE_FILES, FORK, VFORK};
use crate::x86_64::context::Context;

/// clone(2)
pub fn clone(t: &mut Thread, context: &mut Context, call: Clone) -> isize {
    let Clone { flags, newsp, parent_tid, child_tid, tls } = call;
    thread::clone(t, context, [flags.0, newsp.0, parent_tid.0, child_tid.0, tls.0])
}

/// clone3(2)
pub fn clone3(t: &mut Thread, context: &mut Context, call: Clone3) -> Answer {
    let arguments = thread::clone3_arguments(call.uargs.0, call.size.0)?;
    Ok(thread::clone(t, context, arguments))
}

/// fork(2)
pub fn fork(t: &mut Thread, context: &mut Context, _: Fork) -> isize {
    thread::clone(t, context, [FORK, 0, 0, 0, 0])
}

/// vfork(2)
pub fn vfork(t: &mut Thread, context: &mut Context, _: Vfork) -> isize {
    thread::clone(t, context, [VFORK, 0, 0, 0, 0])
}

/// unshare(2): descriptors, working directory and undone semaphores of a thread's own. Namespaces are nobody's.
pub fn unshare(t: &mut Thread, call: Unshare) -> Answer {
    const CLONE_NEW: usize = 0x7e02_0080;
    if call.unshare_flags.0 & CLONE_NEW != 0 && is_own_machine() {
        return refused(t, &call, sys::EPERM);
    }
    let result = by_kernel(&call);
    if result >= 0 && call.unshare_flags.0 & CLONE_FILES != 0 {
        descriptor::separate(t)?;
    }
    Ok(result)
}

/// exit(2)
pub fn exit(t: &mut Thread, call: Exit) -> isize {
    thread::exit(t, call.error_code.0)
}

/// exit_group(2)
pub fn exit_group(t: &mut Thread, call: ExitGroup) -> isize {
    thread::exit_group(t, call.error_code.0)
}

/// set_tid_address(2)
pub fn set_tid_address(t: &mut Thread, call: SetTidAddress) -> isize {
    t.clear_tid = call.tidptr.0;
    sys::call(nr::GETTID, &[])
}

/// set_robust_list(2): the kernel's own walk is for a process that is killed.
pub fn set_robust_list(t: &mut Thread, call: SetRobustList) -> isize {
    let result = by_kernel(&call);
    if result == 0 {
        t.robust = call.head.0;
    }
    result
}
