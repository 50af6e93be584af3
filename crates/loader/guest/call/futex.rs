//! futex(2), as far as it is the program's side's.

use crate::arena::header;
use crate::block::Thread;
use crate::calls::{Call, Futex, FutexWaitv, number as nr};
use crate::channel::post;
use crate::forward::{Answer, forward, unsupported};
use crate::sys;
use crate::waits::timespec;
use core::sync::atomic::Ordering::Relaxed;

const FUTEX_WAIT: usize = 0;
const FUTEX_WAKE: usize = 1;
const FUTEX_FD: usize = 2;
const FUTEX_REQUEUE: usize = 3;
const FUTEX_CMP_REQUEUE: usize = 4;
const FUTEX_WAKE_OP: usize = 5;
const FUTEX_LOCK_PI: usize = 6;
const FUTEX_UNLOCK_PI: usize = 7;
const FUTEX_TRYLOCK_PI: usize = 8;
const FUTEX_WAIT_BITSET: usize = 9;
const FUTEX_WAKE_BITSET: usize = 10;
const FUTEX_WAIT_REQUEUE_PI: usize = 11;
const FUTEX_CMP_REQUEUE_PI: usize = 12;
const FUTEX_LOCK_PI2: usize = 13;
const FUTEX_CLOCK_REALTIME: usize = 256;
const TID: u32 = 0x3fff_ffff;
const OWNER_DIED: u32 = 0x4000_0000;

/// futex(2). Who waits is the controller's affair, and so is what becomes of a lock for which somebody waits (PI); other words are compared and changed
/// here, where nobody else runs meanwhile.
pub fn futex(t: &mut Thread, call: Futex) -> Answer {
    let operation = call.op.0 & 0x7f;
    let nobody = header().futex_waiters.load(Relaxed) == 0;
    // do_futex: "if (cmd != FUTEX_WAIT_BITSET && cmd != FUTEX_WAIT_REQUEUE_PI && cmd != FUTEX_LOCK_PI2) return -ENOSYS;"
    if call.op.0 & FUTEX_CLOCK_REALTIME != 0 && !matches!(operation, FUTEX_WAIT_BITSET | FUTEX_WAIT_REQUEUE_PI | FUTEX_LOCK_PI2) {
        return Err(sys::ENOSYS);
    }
    // get_futex_key, of either word; unlocking reads its word before, and what is no operation looks at none.
    let two = matches!(operation, FUTEX_REQUEUE | FUTEX_CMP_REQUEUE | FUTEX_WAKE_OP | FUTEX_CMP_REQUEUE_PI | FUTEX_WAIT_REQUEUE_PI);
    let aligned = call.uaddr.0 % 4 == 0 && (!two || call.uaddr2.0 % 4 == 0);
    if !aligned && !matches!(operation, FUTEX_FD | FUTEX_UNLOCK_PI) && operation <= FUTEX_LOCK_PI2 {
        return Err(sys::EINVAL);
    }
    // __futex_wait, futex_wake: "if (!bitset) return -EINVAL;", futex_requeue: "if (nr_wake < 0 || nr_requeue < 0) return -EINVAL;"
    let (wakes, moves) = (call.val.get(), call.utime.0 as i32);
    match operation {
        FUTEX_WAIT_BITSET | FUTEX_WAKE_BITSET if call.val3.get() == 0 => return Err(sys::EINVAL),
        FUTEX_REQUEUE | FUTEX_CMP_REQUEUE | FUTEX_CMP_REQUEUE_PI if wakes < 0 || moves < 0 => return Err(sys::EINVAL),
        _ => {}
    }
    match operation {
        FUTEX_WAIT | FUTEX_WAIT_BITSET => {
            if sys::read_u32(call.uaddr.0)? != call.val.get() as u32 {
                return Err(sys::EAGAIN);
            }
            Ok(forward(t, &call, 0))
        }
        FUTEX_WAKE | FUTEX_WAKE_BITSET | FUTEX_REQUEUE if nobody => Ok(0),
        FUTEX_CMP_REQUEUE if sys::read_u32(call.uaddr.0)? != call.val3.get() => Err(sys::EAGAIN),
        FUTEX_CMP_REQUEUE if nobody => Ok(0),
        FUTEX_WAKE | FUTEX_WAKE_BITSET | FUTEX_REQUEUE | FUTEX_CMP_REQUEUE | FUTEX_CMP_REQUEUE_PI => Ok(posted(t, &call)),
        FUTEX_WAKE_OP => wake_op(t, &call),
        FUTEX_LOCK_PI | FUTEX_LOCK_PI2 | FUTEX_TRYLOCK_PI => lock(t, &call, nobody),
        FUTEX_UNLOCK_PI => {
            if sys::read_u32(call.uaddr.0)? & TID != sys::call(nr::GETTID, &[]) as u32 {
                return Err(sys::EPERM);
            }
            if !aligned {
                return Err(sys::EINVAL);
            }
            if nobody {
                return sys::write_u32(call.uaddr.0, 0).map(|()| 0);
            }
            Ok(posted(t, &call))
        }
        FUTEX_WAIT_REQUEUE_PI => Ok(forward(t, &call, 0)),
        _ => unsupported(t, nr::FUTEX, operation, sys::ENOSYS),
    }
}

/// futex_waitv(2): each of the words is compared here, where nobody else runs meanwhile.
pub fn futex_waitv(t: &mut Thread, call: FutexWaitv) -> Answer {
    const WAITERS_MAX: usize = 128;
    const WAITER_BYTES: usize = 24;
    const SIZE_MASK: u64 = 3;
    const SIZE_U32: u64 = 2;
    const PRIVATE: u64 = 128;
    let count = call.nr_futexes.get() as usize;
    if call.flags.0 as u32 != 0 || !(1..=WAITERS_MAX).contains(&count) || call.waiters.0 == 0 {
        return Err(sys::EINVAL);
    }
    // futex2_setup_timeout: of CLOCK_REALTIME and CLOCK_MONOTONIC.
    if call.timeout.0 != 0 {
        if !matches!(call.clockid.get(), 0 | 1) {
            return Err(sys::EINVAL);
        }
        timespec(call.timeout.0)?;
    }
    // struct futex_waitv: val, uaddr, flags, reserved.
    let waiter = |index: usize| -> Result<[u64; 3], isize> {
        let at = call.waiters.0 + WAITER_BYTES * index;
        Ok([sys::read_u64(at)?, sys::read_u64(at + 8)?, sys::read_u64(at + 16)?])
    };
    // futex_parse_waitv. "Only 32 bit futexes are implemented -- for now".
    for index in 0..count {
        let [value, _, flags] = waiter(index)?;
        if flags & !(SIZE_MASK | PRIVATE) != 0 || flags & SIZE_MASK != SIZE_U32 || value >> 32 != 0 {
            return Err(sys::EINVAL);
        }
    }
    // futex_wait_multiple_setup: all keys, then all values.
    for index in 0..count {
        if waiter(index)?[1] % 4 != 0 {
            return Err(sys::EINVAL);
        }
    }
    for index in 0..count {
        let [value, address, _] = waiter(index)?;
        if u64::from(sys::read_u32(address as usize)?) != value {
            return Err(sys::EAGAIN);
        }
    }
    Ok(forward(t, &call, 0))
}

/// Hands it on without a copy of a time: the fourth argument is a number.
fn posted(t: &mut Thread, call: &Futex) -> isize {
    post(t, nr::FUTEX as u64, &call.words().map(|word| word as u64)) as isize
}

/// FUTEX_LOCK_PI and what is like it. A lock that nobody has and for which nobody waits is taken at once.
fn lock(t: &mut Thread, call: &Futex, nobody: bool) -> Answer {
    const EDEADLK: isize = -35;
    let word = sys::read_u32(call.uaddr.0)?;
    let tid = sys::call(nr::GETTID, &[]) as u32;
    if word & TID == tid {
        return Err(EDEADLK);
    }
    if word & TID == 0 && nobody {
        return sys::write_u32(call.uaddr.0, tid | word & OWNER_DIED).map(|()| 0);
    }
    Ok(forward(t, call, 0))
}

/// FUTEX_WAKE_OP: changes the second word, wakes at the first, and at the second if its old value compares.
fn wake_op(t: &mut Thread, call: &Futex) -> Answer {
    let code = call.val3.get();
    let (operation, compare) = (code >> 28 & 7, code >> 24 & 15);
    let mut operand = code << 8 >> 20;
    let against = (code << 20) as i32 >> 20;
    if code >> 31 != 0 {
        operand = 1 << (operand & 31);
    }
    let old = sys::read_u32(call.uaddr2.0)?;
    let new = match operation {
        0 => operand,
        1 => old.wrapping_add(operand),
        2 => old | operand,
        3 => old & !operand,
        4 => old ^ operand,
        _ => return Err(sys::ENOSYS),
    };
    sys::write_u32(call.uaddr2.0, new)?;
    let old = old as i32;
    let second = match compare {
        0 => old == against,
        1 => old != against,
        2 => old < against,
        3 => old <= against,
        4 => old > against,
        5 => old >= against,
        _ => return Err(sys::ENOSYS),
    };
    let wake = (FUTEX_WAKE | call.op.0 & 128) as u64;
    let mut woken = post(t, nr::FUTEX as u64, &[call.uaddr.0 as u64, wake, call.val.0 as u64]);
    if second && woken >= 0 {
        let more = post(t, nr::FUTEX as u64, &[call.uaddr2.0 as u64, wake, call.utime.0 as u64]);
        woken = if more < 0 { more } else { woken + more };
    }
    Ok(woken as isize)
}
