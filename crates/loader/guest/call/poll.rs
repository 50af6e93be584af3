//! poll, select and epoll.

use crate::abi::{self, kind};
use crate::arena::monotonic;
use crate::block::Thread;
use crate::calls::{Call, EpollCtl, EpollPwait, EpollPwait2, EpollWait, Int, Poll, Ppoll, Pselect6, Select};
use crate::descriptor;
use crate::forward::{Answer, forward_words};
use crate::signal::{own_mask, packed_mask, swap_mask};
use crate::sys;
use crate::waits::{Limit, exchange_entries, look, milliseconds, poll_set, select_sets, timespec, timeval};
use core::sync::atomic::Ordering::Relaxed;

/// poll(2)
pub fn poll(t: &mut Thread, call: Poll) -> Answer {
    poll_set(t, call.ufds.0, call.nfds.0, milliseconds(call.timeout))
}
/// ppoll(2)
pub fn ppoll(t: &mut Thread, call: Ppoll) -> Answer {
    let limit = timespec(call.tsp.0)?;
    swap_mask(t, own_mask(call.sigmask.0, call.sigsetsize.0)?);
    timed(call.tsp.0, 1, limit, || poll_set(t, call.ufds.0, call.nfds.0, limit))
}

/// select(2)
pub fn select(t: &mut Thread, call: Select) -> Answer {
    let limit = timeval(call.tvp.0)?;
    timed(call.tvp.0, 1000, limit, || select_sets(t, call.n, [call.inp.0, call.outp.0, call.exp.0], limit))
}

/// pselect6(2)
pub fn pselect6(t: &mut Thread, call: Pselect6) -> Answer {
    let limit = timespec(call.tsp.0)?;
    let (mask, bytes) = packed_mask(call.sig.0)?;
    swap_mask(t, own_mask(mask, bytes)?);
    timed(call.tsp.0, 1, limit, || select_sets(t, call.n, [call.inp.0, call.outp.0, call.exp.0], limit))
}

/// epoll_ctl(2)
pub fn epoll_ctl(t: &mut Thread, call: EpollCtl) -> Answer {
    let watched = descriptor::word(t, call.fd.0);
    let word = descriptor::word(t, call.epfd.0);
    if watched == 0 || word == 0 {
        return Err(sys::EBADF);
    }
    Ok(watch(t, &call, watched, word))
}

/// Hands epoll_ctl(2) on. Argument 5 goes along as what the watched descriptor is.
pub fn watch(t: &mut Thread, call: &EpollCtl, watched: u64, word: u64) -> isize {
    let mut words = call.words();
    words[4] = watched as usize;
    forward_words(t, EpollCtl::NUMBER, &words, word)
}

/// epoll_wait(2)
pub fn epoll_wait(t: &mut Thread, call: EpollWait) -> Answer {
    epoll(t, &call, milliseconds(call.timeout))
}

/// epoll_pwait(2)
pub fn epoll_pwait(t: &mut Thread, call: EpollPwait) -> Answer {
    swap_mask(t, own_mask(call.sigmask.0, call.sigsetsize.0)?);
    let EpollPwait { epfd, events, maxevents, timeout, .. } = call;
    epoll(t, &EpollWait { epfd, events, maxevents, timeout }, milliseconds(timeout))
}

/// epoll_pwait2(2)
pub fn epoll_pwait2(t: &mut Thread, call: EpollPwait2) -> Answer {
    let limit = timespec(call.timeout.0)?;
    swap_mask(t, own_mask(call.sigmask.0, call.sigsetsize.0)?);
    let EpollPwait2 { epfd, events, maxevents, .. } = call;
    epoll(t, &EpollWait { epfd, events, maxevents, timeout: Int(0) }, limit)
}

/// The interest list is the controller's; what of it is the kernel's it asks us to look at.
fn epoll(t: &mut Thread, call: &EpollWait, limit: Limit) -> Answer {
    let what = descriptor::word(t, call.epfd.0);
    if what == 0 {
        return Err(sys::EBADF);
    }
    if descriptor::kind_of(what) != kind::VIRTUAL || call.maxevents.get() <= 0 {
        return Err(sys::EINVAL);
    }
    t.channel.descriptor.store(what, Relaxed);
    let mut looked = 0;
    let mut first = 1;
    loop {
        let most = call.maxevents.get() as u64 | u64::from(limit.is_some()) << 32;
        let arguments = [call.epfd.0 as u64, call.events.0 as u64, most, limit.unwrap_or(0), first, looked as u64];
        let result = exchange_entries(t, EpollWait::NUMBER as u64, &arguments);
        if t.channel.answer.load(Relaxed) != abi::PROBE {
            return Ok(result as isize);
        }
        looked = (result as usize).min(abi::ENTRIES_MAX);
        look(t, looked);
        first = 0;
    }
}

/// Linux leaves what is left of the time, whatever the call comes to (poll_select_finish, fs/select.c); `unit`: nanoseconds of the second word. C libraries
/// make select(2) of pselect6.
fn timed(at: usize, unit: u64, limit: Limit, call: impl FnOnce() -> Answer) -> Answer {
    let began = monotonic();
    let result = call();
    if let Some(limit) = limit {
        let left = limit.saturating_sub(monotonic() - began);
        let _ = sys::write_u64(at, left / 1_000_000_000).and_then(|()| sys::write_u64(at + 8, left % 1_000_000_000 / unit));
    }
    result
}
