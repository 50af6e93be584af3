//! Waiting for sets of descriptors of both kinds: the kernel's are looked at here, the controller's by the controller, which also keeps the time.

mod entries;
pub mod real;

pub use entries::{Limit, entry, look, milliseconds, set_entry, timespec, timeval};

use crate::abi::{self, Entry};
use crate::block::Thread;
use crate::calls::{Int, number as nr};
use crate::channel::{exchange, post};
use crate::descriptor;
use crate::forward::Answer;
use crate::sys;
use core::sync::atomic::Ordering::Relaxed;

const POLLIN: u32 = 1;
const POLLPRI: u32 = 2;
const POLLOUT: u32 = 4;
const POLLERR: u32 = 8;
const POLLHUP: u32 = 0x10;
const POLLNVAL: u32 = 0x20;

/// Posts the entries until the controller has an answer: how many are ready, in `found` of the entries.
fn wait(t: &mut Thread, count: usize, limit: Limit) -> i64 {
    if t.strict.on {
        return real::wait(t, count, limit);
    }
    if let Some(result) = crate::ahead::poll(t, count, limit) {
        return result;
    }
    let mut first = 1;
    loop {
        look(t, count);
        t.channel.data_bytes.store((count * size_of::<Entry>()) as u32, Relaxed);
        let mut result = exchange_entries(t, abi::POLL, &[count as u64, u64::from(limit.is_some()), limit.unwrap_or(0), first]);
        if t.channel.answer.load(Relaxed) == abi::PROBE {
            // Behind the entries are those of epolls among them.
            let looked = (result as usize).min(abi::ENTRIES_MAX);
            look(t, looked);
            t.channel.data_bytes.store((looked * size_of::<Entry>()) as u32, Relaxed);
            result = exchange_entries(t, abi::POLL, &[count as u64, u64::from(limit.is_some()), limit.unwrap_or(0), 0, looked as u64]);
        }
        if t.channel.answer.load(Relaxed) != abi::AGAIN {
            return result;
        }
        first = 0;
    }
}

/// Posts without copies: entries lie where they would.
pub fn exchange_entries(t: &mut Thread, number: u64, arguments: &[u64]) -> i64 {
    for copy in &t.channel.copies {
        copy.address.store(0, Relaxed);
    }
    exchange(t, number, arguments)
}

/// poll(2) of a set in the program's memory.
pub fn poll_set(t: &mut Thread, at: usize, count: usize, limit: Limit) -> Answer {
    // fs/select.c, do_sys_poll: "if (nfds > rlimit(RLIMIT_NOFILE)) return -EINVAL;"
    if count as u64 > crate::limits::descriptors(t) {
        return Err(sys::EINVAL);
    }
    if count > abi::ENTRIES_MAX {
        post(t, abi::UNSUPPORTED, &[nr::POLL as u64, count as u64, -sys::EINVAL as u64]);
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

/// select(2): POLLIN_SET, POLLOUT_SET, POLLEX_SET of fs/select.c, each with POLLNVAL.
const SETS: [u32; 3] =
    [POLLHUP | POLLERR | POLLIN | 0x40 | 0x80 | POLLNVAL, POLLOUT | 0x100 | 0x200 | POLLERR | POLLNVAL, POLLPRI | POLLNVAL];

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
            let events = (0..3).filter(|set| sets[*set] & 1 << bit != 0).fold(abi::EXACT, |events, set| events | SETS[set]);
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
                if one.fd as usize / 64 == word && wanted & 1 << bit != 0 && one.found & SETS[set] != 0 {
                    bits |= 1 << bit;
                    total += 1;
                }
            }
            sys::write_u64(at + 8 * word, bits)?;
        }
    }
    Ok(total)
}
