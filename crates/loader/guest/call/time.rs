//! Calls that tell the time, and those that wait for it.

use crate::ahead;
use crate::block::Thread;
use crate::calls::{Call, ClockGetres, ClockGettime, ClockNanosleep, Gettimeofday, Nanosleep, Time, TimerfdGettime, TimerfdSettime, Times};
use crate::clocks::clock;
use crate::forward::{Answer, forward};
use crate::sys;
use core::sync::atomic::Ordering::Relaxed;

const NANOS: u64 = 1_000_000_000;

/// Those of others are the controller's to know.
fn is_cpu_clock(id: i32) -> bool {
    id < 0
}

/// clock_gettime(2)
pub fn clock_gettime(t: &mut Thread, call: ClockGettime) -> Answer {
    let id = call.which_clock.get();
    let value = match clock(t, id) {
        Some(value) => value,
        None if is_cpu_clock(id) => return Ok(forward(t, &call, 0)),
        None => return Err(sys::EINVAL),
    };
    sys::write_u64(call.tp.0, value / NANOS)?;
    sys::write_u64(call.tp.0 + 8, value % NANOS)?;
    Ok(0)
}

/// clock_getres(2)
pub fn clock_getres(t: &mut Thread, call: ClockGetres) -> Answer {
    let id = call.which_clock.get();
    if is_cpu_clock(id) {
        return Ok(forward(t, &call, 0));
    }
    clock(t, id).ok_or(sys::EINVAL)?;
    if call.tp.0 != 0 {
        sys::write_u64(call.tp.0, 0)?;
        // The coarse clocks tick with the kernel: 4 ms at 250 Hz.
        sys::write_u64(call.tp.0 + 8, if id == 5 || id == 6 { 4_000_000 } else { 1 })?;
    }
    Ok(0)
}

/// gettimeofday(2)
pub fn gettimeofday(t: &mut Thread, call: Gettimeofday) -> Answer {
    let value = clock(t, 0).unwrap_or(0);
    if call.tv.0 != 0 {
        sys::write_u64(call.tv.0, value / NANOS)?;
        sys::write_u64(call.tv.0 + 8, value % NANOS / 1000)?;
    }
    if call.tz.0 != 0 {
        sys::write_u64(call.tz.0, crate::arena::header().clocks.zone.load(Relaxed))?;
    }
    Ok(0)
}

/// time(2)
pub fn time(t: &mut Thread, call: Time) -> Answer {
    let value = clock(t, 0).unwrap_or(0) / NANOS;
    if call.tloc.0 != 0 {
        sys::write_u64(call.tloc.0, value)?;
    }
    Ok(value as isize)
}

/// times(2): ticks of 10 ms; all CPU time is the user's.
pub fn times(t: &mut Thread, call: Times) -> Answer {
    let at = call.tbuf.0;
    if at != 0 {
        sys::write_u64(at, clock(t, 2).unwrap_or(0) / 10_000_000)?;
        for word in 1..4 {
            sys::write_u64(at + 8 * word, 0)?;
        }
    }
    Ok((clock(t, 1).unwrap_or(0) / 10_000_000) as isize)
}

/// nanosleep(2)
pub fn nanosleep(t: &mut Thread, call: Nanosleep) -> isize {
    ahead::sleep(t, Nanosleep::NUMBER, &call.words()).unwrap_or_else(|| forward(t, &call, 0))
}

/// clock_nanosleep(2)
pub fn clock_nanosleep(t: &mut Thread, call: ClockNanosleep) -> isize {
    ahead::sleep(t, ClockNanosleep::NUMBER, &call.words()).unwrap_or_else(|| forward(t, &call, 0))
}

/// timerfd_settime(2)
pub fn timerfd_settime(t: &mut Thread, call: TimerfdSettime) -> Answer {
    on_timer(t, &call, call.ufd.0)
}

/// timerfd_gettime(2)
pub fn timerfd_gettime(t: &mut Thread, call: TimerfdGettime) -> Answer {
    on_timer(t, &call, call.ufd.0)
}

/// A call on a timer's descriptor, or on one that is none.
fn on_timer<C: Call>(t: &mut Thread, call: &C, fd: usize) -> Answer {
    use crate::abi::kind;
    use crate::{descriptor, forward};
    let word = descriptor::word(t, fd);
    match descriptor::kind_of(word) {
        kind::NONE => Err(sys::EBADF),
        kind::VIRTUAL => Ok(forward::forward(t, call, word)),
        kind::NATIVE => {
            let result = forward::kernel(call);
            crate::arena::touched();
            Ok(result)
        }
        _ => Ok(forward::kernel(call)),
    }
}
