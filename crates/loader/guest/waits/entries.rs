//! Entries of sets that are waited for: they lie in the channel. The kernel's are looked at here, the controller's by the controller.

use crate::abi::{self, Entry, kind};
use crate::block::Thread;
use crate::calls::{Int, number as nr};
use crate::descriptor;
use crate::sys;
use crate::terminals;

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
                terminals::look(one.fd as usize, one.descriptor);
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
            one.found = if descriptor::word(t, one.fd as usize) == one.descriptor { one.told(u32::from(found.2)) } else { POLLNVAL };
            set_entry(t, place, one);
        }
    }
}

/// `None`: for ever. Nanoseconds.
pub type Limit = Option<u64>;

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
