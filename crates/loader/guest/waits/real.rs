//! Waiting for a set in real time: at both sides.

use super::entries::{Limit, entry, look, set_entry};
use crate::abi::{self, kind};
use crate::block::Thread;
use crate::calls::number as nr;
use crate::channel::real::{self, Came, PollFd, Way};
use crate::descriptor;
use crate::sys;
use core::sync::atomic::Ordering::Relaxed;

/// Descriptors of the kernel's that are waited for without asking for memory.
const FEW: usize = 62;
const CLOCK_MONOTONIC: usize = 1;
const POLLIN: u32 = 1;
const POLLOUT: u32 = 4;
const POLLERR: u32 = 8;
const POLLHUP: u32 = 0x10;

/// The clock, in nanoseconds.
pub fn now() -> u64 {
    let mut time = [0_u64; 2];
    sys::call(nr::CLOCK_GETTIME, &[CLOCK_MONOTONIC, time.as_mut_ptr() as usize]);
    time[0] * 1_000_000_000 + time[1]
}

/// Waits for the first `count` entries of the channel: how many are ready, in `found`.
pub fn wait(t: &mut Thread, count: usize, limit: Limit) -> i64 {
    let natives = (0..count).filter(|index| is_native(t, *index)).count();
    let mut few = [PollFd::default(); FEW + 2];
    if natives <= FEW {
        return wait_with(t, count, limit, &mut few[..natives + 2]);
    }
    let bytes = (natives + 2) * size_of::<PollFd>();
    let Some(at) = sys::map(bytes) else { return sys::ENOMEM as i64 };
    // SAFETY: new memory of that size; any bytes are these.
    let result = wait_with(t, count, limit, unsafe { core::slice::from_raw_parts_mut(at as *mut PollFd, natives + 2) });
    sys::unmap(at, bytes);
    result
}

fn is_native(t: &Thread, index: usize) -> bool {
    let one = entry(t, index);
    one.fd >= 0 && !matches!(descriptor::kind_of(one.descriptor), kind::VIRTUAL | kind::NONE)
}

fn wait_with(t: &mut Thread, count: usize, limit: Limit, set: &mut [PollFd]) -> i64 {
    let deadline = limit.map(|limit| now().saturating_add(limit));
    let mut way = Way::Poll;
    loop {
        look(t, count);
        let mut at = 2;
        for index in 0..count {
            if is_native(t, index) && at < set.len() {
                let one = entry(t, index);
                set[at] = PollFd { fd: one.fd, events: one.events as u16, found: 0 };
                at += 1;
            }
        }
        for copy in &t.channel.copies {
            copy.address.store(0, Relaxed);
        }
        t.channel.data_bytes.store((count * size_of::<abi::Entry>()) as u32, Relaxed);
        let left = deadline.map(|deadline| deadline.saturating_sub(now()));
        real::post(t, abi::POLL, &[count as u64, u64::from(left.is_some()), left.unwrap_or(0), 1]);
        match real::await_answer(t, set, way) {
            Came::Answered => return real::take_result(t),
            Came::Ready if is_anything_told(t, count) => {}
            // A descriptor of the kernel's has hung up, and select does not ask for that: poll(2) would tell it again at once, before any signal.
            Came::Ready => way = Way::Select,
            Came::Gone => return all_lost(t, count),
        }
    }
}

/// Do the kernel's descriptors show anything that is asked for?
fn is_anything_told(t: &mut Thread, count: usize) -> bool {
    look(t, count);
    (0..count).any(|index| entry(t, index).found != 0)
}

/// There is no controller: all of its sockets have an error, which a call on them tells. How many entries are ready.
fn all_lost(t: &mut Thread, count: usize) -> i64 {
    look(t, count);
    let mut ready = 0;
    for index in 0..count {
        let mut one = entry(t, index);
        if one.fd >= 0 && descriptor::kind_of(one.descriptor) == kind::VIRTUAL {
            one.found = one.told(one.events & (POLLIN | POLLOUT) | POLLERR | POLLHUP);
            set_entry(t, index, one);
        }
        ready += i64::from(one.found != 0);
    }
    ready
}
