//! System V semaphores and message queues, and POSIX message queues. They are the kernel's, in the node's own namespace. A call that would wait in there
//! does not: each attempt is made so that it returns at once, and a thread that has to wait tells the controller. Whoever changes one while somebody waits
//! lets those that wait go first, in the order in which they began: the kernel gives them what they wait for before the call that changes it returns.

use crate::abi::{self, Clock};
use crate::arena::{header, is_own_machine, monotonic, touched};
use crate::block::Thread;
use crate::calls::{
    Call, MqNotify, MqOpen, MqTimedreceive, MqTimedsend, Msgctl, Msgrcv, Msgsnd, Semctl, Semop, Semtimedop, number as nr,
};
use crate::channel::post;
use crate::forward::{Answer, kernel, unsupported};
use crate::limits;
use crate::sys;
use crate::waits::{Limit, timespec};
use core::sync::atomic::Ordering::Relaxed;

const IPC_NOWAIT: usize = 0o4000;
const IPC_RMID: usize = 0;
const IPC_SET: usize = 1;
const IPC_STAT: usize = 2;
const ENOMSG: isize = -42;
const EIDRM: isize = -43;
const ETIMEDOUT: isize = -110;
/// SEMOPM, as a new namespace has it.
const OPERATIONS_MAX: usize = 500;

/// An operation of semop(2).
#[repr(C)]
#[derive(Clone, Copy)]
struct Operation {
    number: u16,
    change: i16,
    flags: u16,
}

/// Somebody may go on now. Who waits goes first.
fn changed(t: &mut Thread) {
    touched();
    if header().queue_waits.load(Relaxed) != 0 {
        post(t, abi::YIELD, &[abi::YIELD_TO_WAITERS]);
    }
}

/// Times of the kernel's, in seconds: when something was used is the node's start, as times of files are. 0: never.
pub fn plain_times(times: &[usize]) -> Result<(), isize> {
    if is_own_machine() {
        for at in times {
            if sys::read_u64(*at)? != 0 {
                sys::write_u64(*at, header().clocks.began.load(Relaxed) / 1_000_000_000)?;
            }
        }
    }
    Ok(())
}

/// Waits until somebody has changed something. `until`: by CLOCK_MONOTONIC, or by CLOCK_REALTIME ([`abi::by_date`]); 0 for ever. The errno to return: `late`
/// when that is over, `interrupted` by a signal.
fn wait(t: &mut Thread, number: usize, until: u64, what: [u64; 2], late: isize, interrupted: isize) -> Result<(), isize> {
    let clock = if abi::by_date(number as u64) { Clock::Realtime } else { Clock::Monotonic };
    if until != 0 && header().present(clock) >= until {
        return Err(late);
    }
    if post(t, abi::BLOCKED, &[u64::MAX, 0, number as u64, until, what[0], what[1]]) < 0 {
        return Err(interrupted);
    }
    Ok(())
}

/// semop(2)
pub fn semop(t: &mut Thread, call: Semop) -> Answer {
    operate(t, call.semid.0, call.tsops.0, call.nsops.get() as usize, None).unwrap_or_else(|| Ok(kernel(&call)))
}

/// semtimedop(2)
pub fn semtimedop(t: &mut Thread, call: Semtimedop) -> Answer {
    match timespec(call.timeout.0) {
        Err(sys::EFAULT) => Err(sys::EFAULT),
        // The kernel looks at other things first.
        Err(_) => Ok(kernel(&call)),
        Ok(limit) => operate(t, call.semid.0, call.tsops.0, call.nsops.get() as usize, limit).unwrap_or_else(|| Ok(kernel(&call))),
    }
}

/// None: the kernel knows what is wrong with it.
fn operate(t: &mut Thread, set: usize, at: usize, count: usize, limit: Limit) -> Option<Answer> {
    if count == 0 || count > OPERATIONS_MAX {
        return None;
    }
    let mut all = [Operation { number: 0, change: 0, flags: 0 }; OPERATIONS_MAX];
    let operations = &mut all[..count];
    // SAFETY: any bytes are operations.
    let bytes = unsafe { core::slice::from_raw_parts_mut(operations.as_mut_ptr().cast::<u8>(), count * size_of::<Operation>()) };
    if let Err(errno) = sys::copy_in(at, bytes) {
        return Some(Err(errno));
    }
    Some(operate_on(t, set, operations, limit))
}

fn operate_on(t: &mut Thread, set: usize, operations: &mut [Operation], limit: Limit) -> Answer {
    let until = limit.map_or(0, |limit| monotonic().saturating_add(limit).max(1));
    let alters = operations.iter().any(|one| one.change != 0);
    let mut has_waited = false;
    loop {
        let result = attempt(set, operations);
        match result {
            sys::EAGAIN => {}
            // What was waited for is gone.
            sys::EINVAL if has_waited => return Err(EIDRM),
            done if done >= 0 && alters => {
                changed(t);
                return Ok(done);
            }
            other => return Ok(other),
        }
        let blocks = blocks_at(set, operations);
        let one = operations[blocks];
        if one.flags as usize & IPC_NOWAIT != 0 {
            return Err(sys::EAGAIN);
        }
        // semop(2): "It is never automatically restarted after being interrupted by a signal handler, regardless of the setting of the SA_RESTART flag".
        let what = [set as u64, abi::semaphore_wait(one.number.into(), one.change == 0)];
        wait(t, nr::SEMOP, until, what, sys::EAGAIN, sys::EINTR)?;
        has_waited = true;
    }
}

/// Makes the operations, or none of them.
fn attempt(set: usize, operations: &mut [Operation]) -> isize {
    let nowait = IPC_NOWAIT as u16;
    let mut waits = [0_u64; OPERATIONS_MAX.div_ceil(64)];
    for (index, one) in operations.iter_mut().enumerate() {
        waits[index / 64] |= u64::from(one.flags & nowait == 0) << (index % 64);
        one.flags |= nowait;
    }
    let result = sys::call(nr::SEMOP, &[set, operations.as_mut_ptr() as usize, operations.len()]);
    for (index, one) in operations.iter_mut().enumerate() {
        if waits[index / 64] & 1 << (index % 64) != 0 {
            one.flags &= !nowait;
        }
    }
    result
}

/// Which of the operations cannot be made, after those before it: ipc/sem.c, perform_atomic_semop.
fn blocks_at(set: usize, operations: &[Operation]) -> usize {
    const GETVAL: usize = 12;
    let blocks = |index: usize| {
        let one = operations[index];
        let before = operations[..index].iter().filter(|other| other.number == one.number).map(|other| isize::from(other.change));
        let value = sys::call(nr::SEMCTL, &[set, one.number.into(), GETVAL, 0]).max(0) + before.sum::<isize>();
        if one.change == 0 { value != 0 } else { value + isize::from(one.change) < 0 }
    };
    (0..operations.len()).find(|index| blocks(*index)).unwrap_or(0)
}

/// semctl(2)
pub fn semctl(t: &mut Thread, call: Semctl) -> Answer {
    const GETNCNT: usize = 14;
    const GETZCNT: usize = 15;
    const SETVAL: usize = 16;
    const SETALL: usize = 17;
    const SEM_STAT: usize = 18;
    const SEM_STAT_ANY: usize = 20;
    let result = kernel(&call);
    if result < 0 {
        return Ok(result);
    }
    match call.cmd.0 {
        IPC_RMID | SETVAL | SETALL => changed(t),
        // The kernel knows of nobody who waits.
        what @ (GETNCNT | GETZCNT) => {
            let wanted = abi::semaphore_wait(call.semnum.0 as u64, what == GETZCNT);
            return Ok(post(t, abi::WAITERS, &[call.semid.0 as u64, wanted]) as isize);
        }
        // struct semid64_ds: sem_otime and sem_ctime behind 48 bytes of permissions.
        IPC_STAT | SEM_STAT | SEM_STAT_ANY => plain_times(&[call.arg.0 + 48, call.arg.0 + 64])?,
        _ => {}
    }
    Ok(result)
}

/// msgsnd(2)
pub fn msgsnd(t: &mut Thread, call: Msgsnd) -> Answer {
    message(t, &call, call.msgflg.0, 3, sys::EAGAIN)
}

/// msgrcv(2)
pub fn msgrcv(t: &mut Thread, call: Msgrcv) -> Answer {
    const MSG_COPY: usize = 0o40000;
    if call.msgflg.0 & MSG_COPY != 0 {
        // Never waits, and changes nothing.
        return Ok(kernel(&call));
    }
    message(t, &call, call.msgflg.0, 4, ENOMSG)
}

/// `flags_at`: which argument the flags are. `would_wait`: what an attempt comes to that would have to wait.
fn message<C: Call>(t: &mut Thread, call: &C, flags: usize, flags_at: usize, would_wait: isize) -> Answer {
    let mut words = call.words();
    words[flags_at] |= IPC_NOWAIT;
    let mut has_waited = false;
    loop {
        match sys::call(C::NUMBER, &words) {
            result if result == would_wait && flags & IPC_NOWAIT == 0 => {}
            sys::EINVAL if has_waited => return Err(EIDRM),
            result if result >= 0 => {
                changed(t);
                return Ok(result);
            }
            other => return Err(other),
        }
        // ipc/msg.c, do_msgsnd and do_msgrcv: "-ERESTARTNOHAND".
        wait(t, C::NUMBER, 0, [words[0] as u64, 0], would_wait, abi::RESTART_NO_HANDLER as isize)?;
        has_waited = true;
    }
}

/// msgctl(2)
pub fn msgctl(t: &mut Thread, call: Msgctl) -> Answer {
    const MSG_STAT: usize = 11;
    const MSG_STAT_ANY: usize = 13;
    let result = kernel(&call);
    match call.cmd.0 {
        _ if result < 0 => {}
        IPC_RMID | IPC_SET => changed(t),
        // struct msqid64_ds: msg_stime, msg_rtime and msg_ctime behind 48 bytes of permissions.
        IPC_STAT | MSG_STAT | MSG_STAT_ANY => plain_times(&[48, 56, 64].map(|offset| call.buf.0 + offset))?,
        _ => {}
    }
    Ok(result)
}

/// mq_open(2)
pub fn mq_open(t: &mut Thread, call: MqOpen) -> isize {
    let fd = kernel(&call);
    if fd >= 0 {
        header().queues.store(1, Relaxed);
    } else {
        limits::shared_limit(t, MqOpen::NUMBER, fd);
    }
    fd
}

/// mq_timedsend(2)
pub fn mq_timedsend(t: &mut Thread, call: MqTimedsend) -> Answer {
    through_queue(t, &call, call.abs_timeout.0)
}

/// mq_timedreceive(2)
pub fn mq_timedreceive(t: &mut Thread, call: MqTimedreceive) -> Answer {
    through_queue(t, &call, call.abs_timeout.0)
}

/// `at`: until when by CLOCK_REALTIME.
fn through_queue<C: Call>(t: &mut Thread, call: &C, at: usize) -> Answer {
    let until = match timespec(at) {
        Err(sys::EFAULT) => return Err(sys::EFAULT),
        // It is the first thing that the kernel looks at.
        Err(_) => return Ok(kernel(call)),
        Ok(None) => 0,
        Ok(Some(date)) => date.max(1),
    };
    // A time that is long over: who would have to wait is told so at once.
    let past = [0_u64; 2];
    let mut words = call.words();
    words[4] = past.as_ptr() as usize;
    loop {
        match sys::call(C::NUMBER, &words) {
            ETIMEDOUT => {}
            result if result >= 0 => {
                changed(t);
                return Ok(result);
            }
            other => return Err(other),
        }
        wait(t, C::NUMBER, until, [words[0] as u64, 0], ETIMEDOUT, abi::RESTART as isize)?;
    }
}

/// mq_notify(2): a signal would be the kernel's own, and so would what the C library listens to for SIGEV_THREAD.
pub fn mq_notify(t: &mut Thread, call: MqNotify) -> Answer {
    const SIGEV_NONE: u32 = 1;
    // struct sigevent: sigev_notify behind the value and the signal.
    let at = call.notification.0;
    if at != 0 && sys::read_u32(at.wrapping_add(12))? != SIGEV_NONE {
        return unsupported(t, MqNotify::NUMBER, 0, sys::ENOSYS);
    }
    Ok(kernel(&call))
}
