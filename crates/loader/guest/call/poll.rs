//! poll, select and epoll over both kinds of descriptors: the kernel's are looked at here, the controller's by the controller, which also
//! keeps the time.

use crate::abi::{self, Entry, kind};
use crate::calls::{Call, EpollCtl, EpollPwait, EpollPwait2, EpollWait, Int, Poll, Ppoll, Pselect6, Select, number as nr};
use crate::channel::exchange;
use crate::descriptor;
use crate::forward::{Answer, forward_words};
use crate::sys;
use crate::thread::Thread;
use core::sync::atomic::Ordering::Relaxed;

const POLLIN: u32 = 1;
const POLLPRI: u32 = 2;
const POLLOUT: u32 = 4;
const POLLERR: u32 = 8;
const POLLHUP: u32 = 0x10;
const POLLNVAL: u32 = 0x20;

pub fn entry(t: &Thread, index: usize) -> Entry {
    // SAFETY: the buffer is aligned and holds ENTRIES_MAX of them; any bytes are an Entry.
    unsafe { t.channel.data.pointer().cast::<Entry>().add(index % abi::ENTRIES_MAX).read() }
}
pub fn set_entry(t: &Thread, index: usize, entry: Entry) {
    // SAFETY: as above.
    unsafe { t.channel.data.pointer().cast::<Entry>().add(index % abi::ENTRIES_MAX).write(entry) };
}

/// Looks at the kernel's descriptors among the first `count` entries.
pub fn look(t: &mut Thread, count: usize) {
    let mut index = 0;
    while index < count {
        // struct pollfd { int fd; short events; short revents; }
        let mut set = [(0_i32, 0_u16, 0_u16); 64];
        let mut places = [0_usize; 64];
        let mut used = 0;
        while index < count && used < 64 {
            let mut one = entry(t, index);
            let native = one.fd >= 0 && descriptor::kind_of(one.descriptor) != kind::VIRTUAL;
            if native {
                crate::terminal::look(one.fd as usize, one.descriptor);
                set[used] = (one.fd, one.events as u16, 0);
                places[used] = index;
                used += 1;
            } else {
                one.found = 0;
                set_entry(t, index, one);
            }
            index += 1;
        }
        if used > 0 {
            sys::call(nr::POLL, &[set.as_ptr() as usize, used, 0]);
        }
        for (found, place) in set[..used].iter().zip(places) {
            let mut one = entry(t, place);
            // Another file may have got the number of one that an epoll once watched.
            one.found = if descriptor::word(t, one.fd as usize) == one.descriptor { u32::from(found.2) } else { POLLNVAL };
            set_entry(t, place, one);
        }
    }
}

/// `None`: for ever. Nanoseconds.
pub type Limit = Option<u64>;

/// Posts the entries until the controller has an answer: how many are ready, in `found` of the entries.
fn wait(t: &mut Thread, count: usize, limit: Limit) -> i64 {
    if t.strict.on {
        return crate::strict::poll::wait(t, count, limit);
    }
    if let Some(result) = crate::ahead::poll(t, count, limit) {
        return result;
    }
    let mut first = 1;
    loop {
        look(t, count);
        t.channel.data_bytes.store((count * size_of::<Entry>()) as u32, Relaxed);
        let result = exchange_entries(t, abi::POLL, &[count as u64, u64::from(limit.is_some()), limit.unwrap_or(0), first]);
        if t.channel.answer.load(Relaxed) != abi::AGAIN {
            return result;
        }
        first = 0;
    }
}

fn exchange_entries(t: &mut Thread, number: u64, arguments: &[u64]) -> i64 {
    for copy in &t.channel.copies {
        copy.address.store(0, Relaxed);
    }
    exchange(t, number, arguments)
}

pub fn timespec(at: usize) -> Result<Limit, isize> {
    if at == 0 {
        return Ok(None);
    }
    let (seconds, nanoseconds) = (sys::read_u64(at)?, sys::read_u64(at + 8)?);
    if seconds > i64::MAX as u64 || nanoseconds >= 1_000_000_000 {
        return Err(sys::EINVAL);
    }
    Ok(Some(seconds.saturating_mul(1_000_000_000).saturating_add(nanoseconds)))
}

pub fn milliseconds(timeout: Int) -> Limit {
    let value = timeout.get();
    (value >= 0).then_some(value as u64 * 1_000_000)
}

/// poll(2)
pub fn poll(t: &mut Thread, call: Poll) -> Answer {
    poll_set(t, call.ufds.0, call.nfds.0, milliseconds(call.timeout))
}
/// ppoll(2)
pub fn ppoll(t: &mut Thread, call: Ppoll) -> Answer {
    let limit = timespec(call.tsp.0)?;
    crate::signal::swap_mask(t, call.sigmask.0)?;
    timed(call.tsp.0, 1, limit, || poll_set(t, call.ufds.0, call.nfds.0, limit))
}

/// Linux leaves what is left of the time, whatever the call comes to (poll_select_finish, fs/select.c); `unit`: nanoseconds of the second word. C libraries
/// make select(2) of pselect6.
fn timed(at: usize, unit: u64, limit: Limit, call: impl FnOnce() -> Answer) -> Answer {
    let began = crate::channel::header().now.load(Relaxed);
    let result = call();
    if let Some(limit) = limit {
        let left = limit.saturating_sub(crate::channel::header().now.load(Relaxed) - began);
        let _ = sys::write_u64(at, left / 1_000_000_000).and_then(|()| sys::write_u64(at + 8, left % 1_000_000_000 / unit));
    }
    result
}

pub fn poll_set(t: &mut Thread, at: usize, count: usize, limit: Limit) -> Answer {
    if count > abi::ENTRIES_MAX {
        crate::channel::post(t, abi::UNSUPPORTED, &[nr::POLL as u64, count as u64, -sys::EINVAL as u64]);
        return Err(sys::EINVAL);
    }
    let mut index = 0;
    while index < count {
        let pair = sys::read_u64(at + 8 * index)?;
        let fd = pair as i32;
        let what = if fd < 0 { 0 } else { descriptor::word(t, fd as usize) };
        set_entry(t, index, Entry { fd, events: (pair >> 32) as u16 as u32, found: 0, reserved: 0, descriptor: what });
        index += 1;
    }
    let result = wait(t, count, limit);
    if result < 0 {
        return Err(result as isize);
    }
    for index in 0..count {
        let one = entry(t, index);
        let found = if one.fd < 0 { 0 } else { one.found as u16 };
        sys::copy_out(at + 8 * index + 6, &found.to_ne_bytes())?;
    }
    Ok(result as isize)
}

/// select(2): POLLIN_SET, POLLOUT_SET, POLLEX_SET of fs/select.c.
const SETS: [(u32, u32); 3] = [
    (POLLIN | 0x40 | 0x80, POLLHUP | POLLERR | POLLIN | 0x40 | 0x80),
    (POLLOUT | 0x100 | 0x200, POLLOUT | 0x100 | 0x200 | POLLERR),
    (POLLPRI, POLLPRI),
];

/// select(2)
pub fn select(t: &mut Thread, call: Select) -> Answer {
    let limit = timeval(call.tvp.0)?;
    timed(call.tvp.0, 1000, limit, || select_sets(t, call.n, [call.inp.0, call.outp.0, call.exp.0], limit))
}

/// A struct timeval at an address.
pub fn timeval(at: usize) -> Result<Limit, isize> {
    if at == 0 {
        return Ok(None);
    }
    let (seconds, micros) = (sys::read_u64(at)? as i64, sys::read_u64(at + 8)? as i64);
    if seconds < 0 || micros < 0 {
        return Err(sys::EINVAL);
    }
    Ok(Some((seconds as u64).saturating_mul(1_000_000_000).saturating_add(micros as u64 * 1000)))
}

/// pselect6(2)
pub fn pselect6(t: &mut Thread, call: Pselect6) -> Answer {
    let limit = timespec(call.tsp.0)?;
    if call.sig.0 != 0 {
        let mask = sys::read_u64(call.sig.0)? as usize;
        crate::signal::swap_mask(t, mask)?;
    }
    timed(call.tsp.0, 1, limit, || select_sets(t, call.n, [call.inp.0, call.outp.0, call.exp.0], limit))
}

/// The sets of select(2), 0 where there is none.
pub fn select_sets(t: &mut Thread, n: Int, given: [usize; 3], limit: Limit) -> Answer {
    let highest = n.get();
    if highest < 0 {
        return Err(sys::EINVAL);
    }
    let highest = (highest as usize).min(abi::ENTRIES_MAX);
    let mut count = 0;
    for word in 0..highest.div_ceil(64) {
        let mut sets = [0_u64; 3];
        for (set, at) in sets.iter_mut().zip(&given) {
            if *at != 0 {
                *set = sys::read_u64(at + 8 * word)?;
            }
        }
        let mut any = sets[0] | sets[1] | sets[2];
        while any != 0 {
            let bit = any.trailing_zeros() as usize;
            any &= any - 1;
            let fd = word * 64 + bit;
            if fd >= highest {
                break;
            }
            let what = descriptor::word(t, fd);
            if what == 0 {
                return Err(sys::EBADF);
            }
            let events = (0..3).filter(|set| sets[*set] & 1 << bit != 0).fold(0, |events, set| events | SETS[set].0);
            set_entry(t, count, Entry { fd: fd as i32, events, found: 0, reserved: 0, descriptor: what });
            count += 1;
        }
    }
    let result = wait(t, count, limit);
    if result < 0 {
        return Err(result as isize);
    }
    let mut total = 0;
    for word in 0..highest.div_ceil(64) {
        for (set, at) in given.iter().enumerate() {
            if *at == 0 {
                continue;
            }
            let wanted = sys::read_u64(at + 8 * word)?;
            let mut bits = 0;
            for index in 0..count {
                let one = entry(t, index);
                let bit = one.fd as usize % 64;
                if one.fd as usize / 64 == word && wanted & 1 << bit != 0 && one.found & SETS[set].1 != 0 {
                    bits |= 1 << bit;
                    total += 1;
                }
            }
            sys::write_u64(at + 8 * word, bits)?;
        }
    }
    Ok(total)
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
    crate::signal::swap_mask(t, call.sigmask.0)?;
    let EpollPwait { epfd, events, maxevents, timeout, .. } = call;
    epoll(t, &EpollWait { epfd, events, maxevents, timeout }, milliseconds(timeout))
}

/// epoll_pwait2(2)
pub fn epoll_pwait2(t: &mut Thread, call: EpollPwait2) -> Answer {
    let limit = timespec(call.timeout.0)?;
    crate::signal::swap_mask(t, call.sigmask.0)?;
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
