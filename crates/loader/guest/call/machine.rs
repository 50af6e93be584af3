//! What a program can ask of the machine that its node is, and what it may use of it.

use crate::arena::header;
use crate::arena::is_own_machine;
use crate::block::Thread;
use crate::calls::*;
use crate::clocks::clock;
use crate::forward::{Answer, kernel as by_kernel};
use crate::limits;
use crate::random;
use crate::sys;
use core::sync::atomic::Ordering::Relaxed;

/// getrusage(2): virtual time; everything else is the host's affair and 0.
pub fn getrusage(t: &mut Thread, call: Getrusage) -> Answer {
    let value = match call.who.get() {
        0 => clock(t, 2),
        1 => clock(t, 3),
        -1 => Some(0),
        _ => return Err(sys::EINVAL),
    };
    let value = value.unwrap_or(0);
    let mut usage = [0_u64; 18];
    usage[0] = value / 1_000_000_000;
    usage[1] = value % 1_000_000_000 / 1000;
    for (index, word) in usage.into_iter().enumerate() {
        sys::write_u64(call.ru.0 + 8 * index, word)?;
    }
    Ok(0)
}

/// sysinfo(2): half of the memory is free.
pub fn sysinfo(t: &mut Thread, call: Sysinfo) -> Answer {
    let mut info = [0_u64; 14];
    // do_sysinfo: "info->uptime = tp.tv_sec + (tp.tv_nsec ? 1 : 0);"
    info[0] = clock(t, 7).unwrap_or(0).div_ceil(1_000_000_000);
    info[4] = header().memory.load(Relaxed);
    info[5] = info[4] / 2;
    // procs (one u16), mem_unit (an int behind totalhigh and freehigh).
    info[10] = 1;
    info[13] = 1;
    for (index, word) in info.into_iter().enumerate() {
        sys::write_u64(call.info.0 + 8 * index, word)?;
    }
    Ok(0)
}

/// uname(2): the node's name, and a system that is the same everywhere.
pub fn uname(_: &mut Thread, call: Uname) -> Answer {
    let mut name = [0_u8; 65 * 6];
    for (index, text) in [&b"Linux"[..], b"", b"6.1.0-weft", b"#1 weft", b"x86_64", b"(none)"].into_iter().enumerate() {
        name[65 * index..65 * index + text.len()].copy_from_slice(text);
    }
    header().name.get(0, &mut name[65..65 + 64]);
    sys::copy_out(call.name.0, &name)?;
    Ok(0)
}

/// sched_getaffinity(2): every node has one processor.
pub fn sched_getaffinity(_: &mut Thread, call: SchedGetaffinity) -> Answer {
    if call.len.0 < 8 || call.len.0 % 8 != 0 {
        return Err(sys::EINVAL);
    }
    sys::write_u64(call.user_mask_ptr.0, 1)?;
    Ok(8)
}

/// sched_setaffinity(2): all that can be set is the only processor there is.
pub fn sched_setaffinity(_: &mut Thread, call: SchedSetaffinity) -> Answer {
    let mut mask = [0_u8];
    if call.len.0 > 0 {
        sys::copy_in(call.user_mask_ptr.0, &mut mask)?;
    }
    if mask[0] & 1 == 0 { Err(sys::EINVAL) } else { Ok(0) }
}

/// getcpu(2)
pub fn getcpu(_: &mut Thread, call: Getcpu) -> Answer {
    for pointer in [call.cpup.0, call.nodep.0] {
        if pointer != 0 {
            sys::write_u32(pointer, 0)?;
        }
    }
    Ok(0)
}

/// getrandom(2)
pub fn getrandom(t: &mut Thread, call: Getrandom) -> Answer {
    random::give(t, call.buf.0, call.count.0)
}

/// getrlimit(2)
pub fn getrlimit(t: &mut Thread, call: Getrlimit) -> Answer {
    let answer = limits::change(t, 0, call.resource.0, 0, call.rlim.0)?;
    // Where there is nothing to write it to, it is looked for all the same.
    if call.rlim.0 == 0 { Err(sys::EFAULT) } else { Ok(answer) }
}

/// setrlimit(2)
pub fn setrlimit(t: &mut Thread, call: Setrlimit) -> Answer {
    if call.rlim.0 == 0 { Err(sys::EFAULT) } else { limits::change(t, 0, call.resource.0, call.rlim.0, 0) }
}

/// prlimit(2)
pub fn prlimit64(t: &mut Thread, call: Prlimit64) -> Answer {
    limits::change(t, call.pid.0, call.resource.0, call.new_rlim.0, call.old_rlim.0)
}

/// How often a process gives way to others is known here. How the host runs it is the host's affair.
fn is_own(t: &Thread, which: Int, who: Int) -> bool {
    const PROCESS: usize = 0;
    let who = who.get() as u32;
    which.0 == PROCESS && (who == 0 || who == t.process.pid.load(Relaxed) || who == t.channel.tid.load(Relaxed))
}

/// getpriority(2)
pub fn getpriority(t: &mut Thread, call: Getpriority) -> Answer {
    if !is_own_machine() {
        return Ok(by_kernel(&call));
    }
    if call.which.0 > 2 {
        return Err(sys::EINVAL);
    }
    // "The getpriority system call returns nice values translated to the range 40..1".
    Ok(20 - if is_own(t, call.which, call.who) { t.process.nice.load(Relaxed) as isize } else { 0 })
}

/// setpriority(2)
pub fn setpriority(t: &mut Thread, call: Setpriority) -> Answer {
    if !is_own_machine() {
        return Ok(by_kernel(&call));
    }
    if call.which.0 > 2 {
        return Err(sys::EINVAL);
    }
    if is_own(t, call.which, call.who) {
        t.process.nice.store(call.niceval.get().clamp(-20, 19), Relaxed);
    }
    Ok(0)
}

/// sched_getscheduler(2): SCHED_OTHER, whatever weft itself was started with.
pub fn sched_getscheduler(_: &mut Thread, call: SchedGetscheduler) -> isize {
    let result = by_kernel(&call);
    if result < 0 || !is_own_machine() { result } else { 0 }
}

/// sched_getparam(2)
pub fn sched_getparam(_: &mut Thread, call: SchedGetparam) -> Answer {
    let result = by_kernel(&call);
    if result >= 0 && is_own_machine() {
        sys::write_u32(call.param.0, 0)?;
    }
    Ok(result)
}

/// sched_getattr(2)
pub fn sched_getattr(t: &mut Thread, call: SchedGetattr) -> Answer {
    let result = by_kernel(&call);
    if result < 0 || !is_own_machine() {
        return Ok(result);
    }
    // struct sched_attr: policy, flags, nice, priority, runtime, deadline, period behind its size.
    let at = call.uattr.0;
    sys::write_u32(at + 4, 0)?;
    sys::write_u64(at + 8, 0)?;
    sys::write_u32(at + 16, t.process.nice.load(Relaxed) as u32)?;
    sys::write_u32(at + 20, 0)?;
    for offset in [24, 32, 40] {
        sys::write_u64(at + offset, 0)?;
    }
    Ok(result)
}

/// sched_setparam(2): it would change how the host runs this process, and with it when others run. So do the next two.
pub fn sched_setparam(_: &mut Thread, _: SchedSetparam) -> isize {
    0
}

/// sched_setscheduler(2)
pub fn sched_setscheduler(_: &mut Thread, _: SchedSetscheduler) -> isize {
    0
}

/// sched_setattr(2)
pub fn sched_setattr(_: &mut Thread, _: SchedSetattr) -> isize {
    0
}

/// sched_yield(2)
pub fn sched_yield(t: &mut Thread, _: SchedYield) -> isize {
    crate::channel::post(t, crate::abi::YIELD, &[1]);
    0
}

/// ioprio_get(2): "none", since nobody sets one.
pub fn ioprio_get(_: &mut Thread, call: IoprioGet) -> isize {
    if is_own_machine() { 0 } else { by_kernel(&call) }
}

/// kcmp(2): which of two things lies first in the kernel's memory is chance; that they differ is not.
pub fn kcmp(_: &mut Thread, call: Kcmp) -> isize {
    let result = by_kernel(&call);
    // "3: v1 is not equal to v2, but ordering information is unavailable."
    if is_own_machine() && (result == 1 || result == 2) { 3 } else { result }
}
