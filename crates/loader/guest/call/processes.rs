//! Processes: what they execute, how they end, who waits for them, and what prctl(2) says about them.

use crate::block::Thread;
use crate::call::files::path_of;
use crate::calls::number as nr;
use crate::calls::*;
use crate::channel::post;
use crate::descriptor;
use crate::exec;
use crate::forward::{Answer, forward, kernel as by_kernel, unsupported};
use crate::identity;
use crate::layer;
use crate::sys;
use core::sync::atomic::Ordering::Relaxed;

/// execve(2)
pub fn execve(t: &mut Thread, call: Execve) -> isize {
    exec::execve(t, path_of(t, call.filename).0, call.argv.0, call.envp.0)
}

/// execveat(2): of a descriptor, or relative to the working directory.
pub fn execveat(t: &mut Thread, call: Execveat) -> Answer {
    const AT_EMPTY_PATH: usize = 0x1000;
    let mut first = [0_u8];
    sys::copy_in(call.filename.0, &mut first)?;
    if first[0] == 0 && call.flags.0 & AT_EMPTY_PATH != 0 {
        return Ok(exec::execve(t, descriptor::link(call.dfd.0).as_ptr() as usize, call.argv.0, call.envp.0));
    }
    if call.dfd.get() == sys::AT_FDCWD as i32 || first[0] == b'/' {
        return Ok(exec::execve(t, call.filename.0, call.argv.0, call.envp.0));
    }
    unsupported(t, Execveat::NUMBER, 0, sys::ENOSYS)
}

/// wait4(2)
pub fn wait4(t: &mut Thread, call: Wait4) -> isize {
    reaping(t, &call)
}

/// waitid(2)
pub fn waitid(t: &mut Thread, mut call: Waitid) -> Answer {
    const P_PID: usize = 1;
    const P_PIDFD: i32 = 3;
    const ECHILD: isize = -10;
    if call.which.get() == P_PIDFD {
        let fd = call.upid.0;
        if descriptor::word(t, fd) == 0 {
            return Err(sys::EBADF);
        }
        // It has been waited for.
        let pid = descriptor::process_of(fd).map_err(|errno| if errno == sys::ESRCH { ECHILD } else { errno })?;
        (call.which, call.upid) = (Int(P_PID), Int(pid));
    }
    Ok(reaping(t, &call))
}

/// The kernel's zombie goes with the program's.
fn reaping<C: Call>(t: &mut Thread, call: &C) -> isize {
    const WNOHANG_WALL: usize = 0x4000_0001;
    let result = forward(t, call, 0);
    let reaped = t.channel.arguments[0].load(Relaxed) as usize;
    if result >= 0 && t.channel.arguments[5].load(Relaxed) == 1 && reaped != 0 {
        sys::call(nr::WAIT4, &[reaped, 0, WNOHANG_WALL, 0]);
    }
    result
}

/// setsid(2)
pub fn setsid(t: &mut Thread, call: Setsid) -> isize {
    let result = by_kernel(&call);
    if result >= 0 {
        post(t, Setsid::NUMBER as u64, &[]);
    }
    result
}

/// setpgid(2)
pub fn setpgid(t: &mut Thread, call: Setpgid) -> isize {
    let result = by_kernel(&call);
    if result >= 0 {
        post(t, Setpgid::NUMBER as u64, &[call.pid.0 as u64, call.pgid.0 as u64]);
    }
    result
}

/// prctl(2)
pub fn prctl(t: &mut Thread, call: Prctl) -> Answer {
    match call.option.0 {
        // PR_SET_PDEATHSIG, PR_GET_PDEATHSIG
        1 | 2 => Ok(forward(t, &call, 0)),
        // PR_SET_DUMPABLE: the controller must be able to read our memory.
        4 => Ok(0),
        // PR_GET_TSC: it can be read.
        25 => sys::write_u32(call.arg2.0, 1).map(|()| 0),
        7 => identity::keep_capabilities(t, None),
        8 => identity::keep_capabilities(t, Some(call.arg2.0)),
        // Names, capabilities, THP, no_new_privs, timer slack, MCE, securebits, VMA names, MM (refused by the kernel anyway).
        3 | 5 | 6 | 9 | 15 | 16 | 23 | 24 | 27 | 28 | 29 | 30 | 33 | 34 | 37..=42 | 47 | 65 | 0x5356_4d41 => Ok(by_kernel(&call)),
        // Among them SET_SECCOMP, SET_TSC, SET_CHILD_SUBREAPER, SET_SYSCALL_USER_DISPATCH.
        what => unsupported(t, Prctl::NUMBER, what, sys::EINVAL),
    }
}

/// arch_prctl(2)
pub fn arch_prctl(_: &mut Thread, call: ArchPrctl) -> Answer {
    match call.option.0 {
        // ARCH_GET_CPUID, ARCH_SET_CPUID
        0x1011 | 0x1012 => Err(sys::ENODEV),
        // ARCH_MAP_VDSO_X32, _32, _64: the kernel's, which would tell the time.
        0x2001..=0x2003 => Err(sys::EINVAL),
        _ => Ok(by_kernel(&call)),
    }
}

/// chroot(2): before a folder becomes a program's root, it is what it will be.
pub fn chroot(t: &mut Thread, call: Chroot) -> isize {
    layer::lay_late(t);
    by_kernel(&call)
}

/// pidfd_send_signal(2): as kill(2) or rt_sigqueueinfo(2) of the process that the descriptor names.
pub fn pidfd_send_signal(t: &mut Thread, call: PidfdSendSignal) -> Answer {
    if call.flags.0 != 0 {
        return Err(sys::EINVAL);
    }
    if descriptor::word(t, call.pidfd.0) == 0 {
        return Err(sys::EBADF);
    }
    let pid = Int(descriptor::process_of(call.pidfd.0)?);
    if call.info.0 == 0 {
        return Ok(forward(t, &Kill { pid, sig: call.sig }, 0));
    }
    Ok(forward(t, &RtSigqueueinfo { pid, sig: call.sig, uinfo: call.info }, 0))
}
