//! poll, select and epoll in real time. Sets without a socket of the node's are the kernel's. Others wait at both sides; an epoll is the kernel's, and
//! learns by an eventfd of the controller's that some of its sockets are ready.

use crate::abi::{self, kind, strict};
use crate::arena::header;
use crate::block::Thread;
use crate::call::poll::watch;
use crate::calls::{EpollCtl, EpollPwait, EpollPwait2, EpollWait, Int, Poll, Ppoll, Pselect6, Select, number as nr};
use crate::channel::real;
use crate::descriptor;
use crate::forward::Answer;
use crate::frames::NEVER_BLOCKED;
use crate::signal::{own_mask, packed_mask};
use crate::sys;
use crate::waits::real::now;
use crate::waits::{Limit, milliseconds, poll_set, select_sets, timespec, timeval};
use core::sync::atomic::Ordering::Relaxed;

const EPOLLIN: u32 = 1;
/// Bytes of `struct epoll_event`.
const EVENT: usize = 12;
const FD_SETSIZE: usize = 1024;

/// Is one of a poll set's descriptors a socket of the node's?
fn has_socket(t: &mut Thread, at: usize, count: usize) -> bool {
    (0..count).any(|index| {
        let fd = sys::read_u64(at.wrapping_add(8 * index)).map_or(-1, |pair| pair as i32);
        fd >= 0 && descriptor::kind_of(descriptor::word(t, fd as usize)) == kind::VIRTUAL
    })
}

fn sets_have_socket(t: &mut Thread, n: Int, sets: [usize; 3]) -> bool {
    let highest = n.get().max(0) as usize;
    for word in 0..highest.min(16 * FD_SETSIZE).div_ceil(64) {
        let mut any = 0;
        for at in sets.iter().filter(|at| **at != 0) {
            any |= sys::read_u64(at.wrapping_add(8 * word)).unwrap_or(0);
        }
        while any != 0 {
            let fd = word * 64 + any.trailing_zeros() as usize;
            any &= any - 1;
            if fd < highest && descriptor::kind_of(descriptor::word(t, fd)) == kind::VIRTUAL {
                return true;
            }
        }
    }
    false
}

/// The mask that holds for the time of the call.
fn with_mask(t: &mut Thread, at: usize, bytes: usize) -> Result<(), isize> {
    if let Some(mask) = own_mask(at, bytes)? {
        if super::signal::opens(t, mask) {
            return Err(sys::EINTR);
        }
        t.strict.mask = mask & !NEVER_BLOCKED;
    }
    Ok(())
}

/// Most entries of a set that are looked at.
const LOOKED_MAX: usize = 1 << 20;

/// poll(2)
pub fn poll(t: &mut Thread, call: Poll) -> Option<Answer> {
    let count = call.nfds.get() as usize;
    has_socket(t, call.ufds.0, count.min(LOOKED_MAX)).then(|| {
        real::join(t, false)?;
        poll_set(t, call.ufds.0, count, milliseconds(call.timeout))
    })
}

/// ppoll(2)
pub fn ppoll(t: &mut Thread, call: Ppoll) -> Option<Answer> {
    let count = call.nfds.get() as usize;
    has_socket(t, call.ufds.0, count.min(LOOKED_MAX)).then(|| {
        real::join(t, false)?;
        let limit = timespec(call.tsp.0)?;
        with_mask(t, call.sigmask.0, call.sigsetsize.0)?;
        timed(call.tsp.0, 1, limit, || poll_set(t, call.ufds.0, count, limit))
    })
}

/// select(2)
pub fn select(t: &mut Thread, call: Select) -> Option<Answer> {
    let sets = [call.inp.0, call.outp.0, call.exp.0];
    sets_have_socket(t, call.n, sets).then(|| {
        real::join(t, false)?;
        let limit = timeval(call.tvp.0)?;
        timed(call.tvp.0, 1000, limit, || select_sets(t, call.n, sets, limit))
    })
}

/// pselect6(2)
pub fn pselect6(t: &mut Thread, call: Pselect6) -> Option<Answer> {
    let sets = [call.inp.0, call.outp.0, call.exp.0];
    sets_have_socket(t, call.n, sets).then(|| {
        real::join(t, false)?;
        let limit = timespec(call.tsp.0)?;
        let (mask, bytes) = packed_mask(call.sig.0)?;
        with_mask(t, mask, bytes)?;
        timed(call.tsp.0, 1, limit, || select_sets(t, call.n, sets, limit))
    })
}

/// What is left of the time is written back, as Linux does; `unit` nanoseconds are one of what stands behind the seconds.
fn timed(at: usize, unit: u64, limit: Limit, f: impl FnOnce() -> Answer) -> Answer {
    let Some(limit) = limit else { return f() };
    let began = now();
    let result = f();
    let left = limit.saturating_sub(now() - began);
    // A call that is made again begins anew with what is left.
    let _ = sys::write_u64(at, left / 1_000_000_000).and_then(|()| sys::write_u64(at + 8, left % 1_000_000_000 / unit));
    result
}

/// epoll_ctl(2) of a socket of the node's. None: the kernel's.
pub fn epoll_ctl(t: &mut Thread, call: EpollCtl) -> Option<Answer> {
    let fd = call.epfd.0;
    let watched = descriptor::word(t, call.fd.0);
    const ADD: usize = 1;
    if descriptor::kind_of(watched) != kind::VIRTUAL {
        // The controller then tells again what is still to be collected: who watches an epoll may wait for edges.
        let nested = &header().nested;
        if call.op.0 == ADD && nested.load(Relaxed) == 0 && descriptor::is_epoll(call.fd.0) {
            nested.store(1, Relaxed);
        }
        return None;
    }
    const DEL: usize = 2;
    const ENOENT: isize = -2;
    let mut inner = || -> Answer {
        let mut epoll = descriptor::word(t, fd);
        if epoll == 0 {
            return Err(sys::EBADF);
        }
        if descriptor::kind_of(epoll) != kind::EPOLL
            && let Some(data) = descriptor::member_of(fd, |data| data & !strict::EPOLL_NUMBER == strict::EPOLL_DATA)
        {
            // Another process has adopted it, or this one before its last execve.
            real::join(t, false)?;
            epoll = kind::EPOLL << 56 | data & strict::EPOLL_NUMBER;
            descriptor::remember(t, fd, epoll);
        }
        if descriptor::kind_of(epoll) != kind::EPOLL {
            if call.op.0 != ADD {
                // Says whether it is an epoll at all: none of them watches this.
                let found = sys::call(nr::EPOLL_CTL, &[fd, DEL, abi::DESCRIPTOR_LOADER as usize, 0]);
                return Err(if found == sys::EPERM { ENOENT } else { found });
            }
            epoll = adopt(t, fd)?;
        }
        Ok(watch(t, &call, watched, epoll))
    };
    Some(inner())
}

/// The controller's eventfd goes into an epoll. Returns what the epoll is from now on.
fn adopt(t: &mut Thread, epoll: usize) -> Result<u64, isize> {
    real::join(t, false)?;
    let number = header().epolls.fetch_add(1, Relaxed) & strict::EPOLL_NUMBER;
    let event = sys::call(nr::EVENTFD2, &[0, 0x8_0800]);
    if event < 0 {
        return Err(event);
    }
    let data = strict::EPOLL_DATA | number;
    let wanted = [EPOLLIN, data as u32, (data >> 32) as u32];
    let added = sys::call(nr::EPOLL_CTL, &[epoll, 1, event as usize, wanted.as_ptr() as usize]);
    // The controller's end: without it nobody would raise the eventfd. Asked for nothing, it reports HUP; there already, it is another thread's doing.
    let end = [0, data as u32, (data >> 32) as u32];
    sys::call(nr::EPOLL_CTL, &[epoll, 1, abi::DESCRIPTOR_CONTROL as usize, end.as_ptr() as usize]);
    let told = if added < 0 { added } else { real::tell(t, strict::EPOLL, number, event as usize) };
    // The epoll goes on to watch it as long as the controller has it open.
    sys::call(nr::CLOSE, &[event as usize]);
    if told < 0 {
        return Err(told);
    }
    let word = kind::EPOLL << 56 | number;
    descriptor::remember(t, epoll, word);
    Ok(word)
}

/// epoll_wait(2)
pub fn epoll_wait(t: &mut Thread, call: EpollWait) -> Answer {
    epoll(t, &call, milliseconds(call.timeout))
}

/// epoll_pwait(2)
pub fn epoll_pwait(t: &mut Thread, call: EpollPwait) -> Answer {
    with_mask(t, call.sigmask.0, call.sigsetsize.0)?;
    let EpollPwait { epfd, events, maxevents, timeout, .. } = call;
    epoll(t, &EpollWait { epfd, events, maxevents, timeout }, milliseconds(timeout))
}

/// epoll_pwait2(2)
pub fn epoll_pwait2(t: &mut Thread, call: EpollPwait2) -> Answer {
    let limit = timespec(call.timeout.0)?;
    with_mask(t, call.sigmask.0, call.sigsetsize.0)?;
    let EpollPwait2 { epfd, events, maxevents, .. } = call;
    epoll(t, &EpollWait { epfd, events, maxevents, timeout: Int(0) }, limit)
}

fn epoll(t: &mut Thread, call: &EpollWait, limit: Limit) -> Answer {
    let (fd, events, room) = (call.epfd.0, call.events.0, call.maxevents.get());
    let deadline = limit.map(|limit| now().saturating_add(limit));
    let mut left = limit;
    loop {
        let time = left.map_or([0; 2], |left| [left / 1_000_000_000, left % 1_000_000_000]);
        let time_at = if left.is_some() { time.as_ptr() as usize } else { 0 };
        let mask = t.strict.mask;
        let found = real::waiting(t, nr::EPOLL_PWAIT2, &[fd, events, call.maxevents.0, time_at, &raw const mask as usize, 8]);
        if found <= 0 {
            return Ok(found);
        }
        let (natives, epoll) = without_ours(events, found as usize)?;
        let Some(epoll) = epoll else { return Ok(found) };
        let word = kind::EPOLL << 56 | epoll;
        descriptor::remember(t, fd, word);
        real::join(t, false)?;
        t.channel.descriptor.store(word, Relaxed);
        let at = events + EVENT * natives;
        let sockets = crate::channel::post(t, strict::COLLECT, &[at as u64, (room as usize - natives) as u64]);
        let total = natives as i64 + sockets.max(0);
        if total > 0 || sockets < 0 {
            return Ok(if total > 0 { total } else { sockets } as isize);
        }
        if let Some(deadline) = deadline {
            let rest = deadline.saturating_sub(now());
            if rest == 0 {
                return Ok(0);
            }
            left = Some(rest);
        }
    }
}

/// Takes the controller's event out of a list: how many are left, and which epoll it was.
fn without_ours(at: usize, count: usize) -> Result<(usize, Option<u64>), isize> {
    let (mut kept, mut epoll) = (0, None);
    for index in 0..count {
        let mut event = [0_u8; EVENT];
        sys::copy_in(at + EVENT * index, &mut event)?;
        let data = event[4..].iter().rev().fold(0_u64, |data, byte| data << 8 | u64::from(*byte));
        if data & !strict::EPOLL_NUMBER == strict::EPOLL_DATA {
            epoll = Some(data & strict::EPOLL_NUMBER);
            continue;
        }
        if kept < index {
            sys::copy_out(at + EVENT * kept, &event)?;
        }
        kept += 1;
    }
    Ok((kept, epoll))
}
