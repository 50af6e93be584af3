//! Memory that weft and its caretaker share: what is to be done after weft's end.
//!
//! weft writes, with plain stores and no system call; the caretaker reads when weft is no more. Each word is whole at any moment, as weft may end
//! between any two of them.

use crate::listener::{HELD_MAX, Listener, Notification, Place};
use crate::sys::{self, Errno};
use std::os::fd::{AsFd as _, AsRawFd as _, RawFd};
use std::sync::atomic::Ordering::{Acquire, Relaxed, Release};
use std::sync::atomic::{AtomicI32, AtomicU8, AtomicU32, AtomicU64};
use std::sync::{Arc, Mutex, PoisonError};

/// Most bytes of the will.
pub const WILL_BYTES_MAX: usize = 64 << 10;

/// A call that the supervisor holds.
#[repr(C)]
struct Slot {
    id: AtomicU64,
    listener: AtomicI32,
    /// 0: the slot is free.
    errno: AtomicI32,
}

#[repr(C)]
struct Page {
    /// weft has ended by its own will, and what is left to do is to answer.
    over: AtomicU32,
    will_bytes: AtomicU32,
    /// No slot from here on was ever taken.
    top: AtomicU32,
    /// The last call that was received, where the kernel has written it, and the listener that it came from.
    received: Place,
    received_from: AtomicI32,
    held: [Slot; HELD_MAX],
    will: [AtomicU8; WILL_BYTES_MAX],
}

/// The shared memory. What is never written takes none.
#[derive(Debug)]
pub struct Ledger {
    page: *const Page,
    /// weft's own: which slots are free.
    slots: Mutex<Slots>,
}

/// A call that has no answer yet: noted until this is dropped.
#[derive(Debug)]
pub struct Noted {
    ledger: Arc<Ledger>,
    slot: u32,
}

impl Drop for Noted {
    fn drop(&mut self) {
        self.ledger.let_go(self.slot);
        self.ledger.slots.lock().unwrap_or_else(PoisonError::into_inner).give_back(self.slot);
    }
}

// SAFETY: the mapping belongs to this value, and all of it is atomic.
unsafe impl Send for Ledger {}
// SAFETY: as above.
unsafe impl Sync for Ledger {}

impl Drop for Ledger {
    fn drop(&mut self) {
        // SAFETY: mapped with this size by `new`; nothing that was lent out outlives `self`.
        unsafe { libc::munmap(self.page.cast_mut().cast(), size_of::<Page>()) };
    }
}

impl Ledger {
    /// An empty one; processes that are cloned from now on have it, too.
    ///
    /// # Errors
    /// No memory.
    pub fn new() -> Result<Ledger, Errno> {
        let (protection, flags) = (libc::PROT_READ | libc::PROT_WRITE, libc::MAP_SHARED | libc::MAP_ANONYMOUS | libc::MAP_NORESERVE);
        // SAFETY: a new mapping wherever there is room; all its bytes are zero, which every part of a Page may be.
        let page = unsafe { libc::mmap(std::ptr::null_mut(), size_of::<Page>(), protection, flags, -1, 0) };
        if page == libc::MAP_FAILED { Err(sys::last()) } else { Ok(Ledger { page: page.cast(), slots: Mutex::default() }) }
    }

    fn page(&self) -> &Page {
        // SAFETY: the mapping lives as long as `self`, is aligned to a page, and has only atomics in it.
        unsafe { &*self.page }
    }

    /// Adds to the will. False: there is no room.
    pub fn add_to_will(&self, bytes: &[u8]) -> bool {
        let page = self.page();
        let from = page.will_bytes.load(Relaxed) as usize;
        let Some(places) = page.will.get(from..from + bytes.len()) else { return false };
        for (place, byte) in places.iter().zip(bytes) {
            place.store(*byte, Relaxed);
        }
        page.will_bytes.store((from + bytes.len()) as u32, Release);
        true
    }

    /// All that was added.
    pub fn will(&self) -> Vec<u8> {
        let page = self.page();
        let length = page.will_bytes.load(Acquire) as usize;
        page.will.iter().take(length).map(|byte| byte.load(Relaxed)).collect()
    }

    /// weft ends by its own will and has told its programs: there is nothing left to do but to answer those that go on.
    pub fn end(&self) {
        self.page().over.store(1, Release);
    }
    /// Has it?
    pub fn is_over(&self) -> bool {
        self.page().over.load(Acquire) != 0
    }

    /// Notes a call that weft has received and not answered: what it is to fail with after weft's end.
    pub fn note(self: &Arc<Self>, listener: RawFd, id: u64, errno: Errno) -> Noted {
        let slot = self.slots.lock().unwrap_or_else(PoisonError::into_inner).take();
        self.hold(slot, listener, id, errno);
        Noted { ledger: Arc::clone(self), slot }
    }

    /// [`Listener::receive`], known to the caretaker until the next call is received. One thread at a time.
    ///
    /// # Errors
    /// As there.
    pub fn receive(&self, listener: &Listener) -> Result<Option<Notification>, Errno> {
        let page = self.page();
        // A moment before, the call of another listener may be there still: no listener knows another's call.
        page.received_from.store(listener.as_fd().as_raw_fd(), Release);
        listener.receive(&page.received)
    }

    /// The last call that was received, whether or not it has been answered: listener and call.
    pub fn received(&self) -> Option<(RawFd, Notification)> {
        let page = self.page();
        Some((page.received_from.load(Acquire), page.received.read()?))
    }

    fn hold(&self, slot: u32, listener: RawFd, id: u64, errno: Errno) {
        let page = self.page();
        let Some(one) = page.held.get(slot as usize) else { return };
        one.id.store(id, Relaxed);
        one.listener.store(listener, Relaxed);
        one.errno.store(errno.0, Release);
        page.top.fetch_max(slot + 1, Relaxed);
    }

    fn let_go(&self, slot: u32) {
        if let Some(one) = self.page().held.get(slot as usize) {
            one.errno.store(0, Release);
        }
    }

    /// The calls that are held: listener, number, and what they are to fail with.
    pub fn held(&self) -> Vec<(RawFd, u64, Errno)> {
        let page = self.page();
        let slots = page.held.iter().take(page.top.load(Relaxed) as usize);
        let read = |one: &Slot| (one.errno.load(Acquire), one.listener.load(Relaxed), one.id.load(Relaxed));
        slots.map(read).filter(|(errno, ..)| *errno != 0).map(|(errno, listener, id)| (listener, id, Errno(errno))).collect()
    }
}

/// Numbers of slots, the lowest free one first.
#[derive(Debug, Default)]
struct Slots {
    free: std::collections::BTreeSet<u32>,
    top: u32,
}

impl Slots {
    /// A number that nobody has.
    fn take(&mut self) -> u32 {
        self.free.pop_first().unwrap_or_else(|| {
            self.top += 1;
            self.top - 1
        })
    }
    /// Gives one back.
    fn give_back(&mut self, slot: u32) {
        self.free.insert(slot);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_will_is_what_was_added_and_what_finds_no_room_is_refused_whole() {
        let ledger = Ledger::new().unwrap();
        assert!(ledger.will().is_empty());
        assert!(ledger.add_to_will(b"one\n") && ledger.add_to_will(b"two\n"));
        assert!(!ledger.add_to_will(&vec![b'x'; WILL_BYTES_MAX]));
        assert_eq!(ledger.will(), b"one\ntwo\n");
        assert!(ledger.add_to_will(&vec![b'x'; WILL_BYTES_MAX - 8]) && !ledger.add_to_will(b"x"));
    }

    #[test]
    fn calls_are_held_until_they_are_let_go() {
        let ledger = Arc::new(Ledger::new().unwrap());
        let mut noted: Vec<Noted> = (100..103).map(|id| ledger.note(7, id, Errno(libc::ENETDOWN))).collect();
        drop(noted.remove(1));
        let numbers = |ledger: &Ledger| ledger.held().iter().map(|(_, id, _)| *id).collect::<Vec<_>>();
        assert_eq!(numbers(&ledger), [100, 102]);
        noted.push(ledger.note(7, 103, Errno(libc::ENETDOWN)));
        assert_eq!(numbers(&ledger), [100, 103, 102]);
        drop(noted.pop());
        ledger.hold(HELD_MAX as u32, 7, 1, Errno(libc::ENETDOWN));
        ledger.let_go(HELD_MAX as u32);
        assert_eq!(numbers(&ledger), [100, 102]);
    }
}
