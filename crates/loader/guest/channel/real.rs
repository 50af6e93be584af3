//! The way to the controller in real time.

use super::copies::{apply_writes, fetch};
use crate::abi::{self, strict};
use crate::arena::{self, header};
use crate::block::Thread;
use crate::calls::number as nr;
use crate::hidden::{close_hidden, hide, unhide};
use crate::sys;
use core::sync::atomic::AtomicBool;
use core::sync::atomic::Ordering::{Acquire, Relaxed, Release, SeqCst};

/// How often a thread looks for its answer before it sleeps: the controller runs on another processor, mostly.
const LOOKS: u32 = 400;
/// How long it sleeps before it looks whether there still is a controller.
const LOOK_AFTER_NS: u64 = 300_000_000;
const EAGAIN: isize = -11;
const EPIPE: isize = -32;
const ENETDOWN: i64 = -100;
const ECONNRESET: isize = -104;
const POLLIN: u16 = 1;
const POLLPRI: u16 = 2;
const POLLOUT: u16 = 4;
const POLLHUP: u16 = 0x10;
const POLLNVAL: u16 = 0x20;
/// By which events it is told that a descriptor is in a set of select(2): to read, to write, and of exceptional conditions.
const ASKED: [u16; 3] = [POLLIN, POLLOUT, POLLPRI];
/// Words of a set of select(2) that needs no memory of its own.
const FEW_WORDS: usize = 32;
const F_DUPFD_CLOEXEC: usize = 1030;
/// From here on the eventfds of threads, where the limit allows it: programs count on low numbers.
const WAKE_FROM: usize = 960;

/// `struct pollfd`.
#[repr(C)]
#[derive(Clone, Copy, Default)]
pub struct PollFd {
    pub fd: i32,
    pub events: u16,
    pub found: u16,
}

/// This process has had a channel: its next image says so, that the controller forgets who waited in the old one.
static HAD_CHANNEL: AtomicBool = AtomicBool::new(false);

/// There is no controller any more, and never will be one: nobody waits for it again.
static GONE: AtomicBool = AtomicBool::new(false);

/// Is the controller to be told when this process executes another image?
pub fn is_known(t: &Thread) -> bool {
    if t.strict.borrowed { t.strict.joined } else { HAD_CHANNEL.load(Relaxed) }
}

/// What a posted call came to.
#[derive(Clone, Copy, PartialEq, Eq)]
pub enum Came {
    /// To an answer.
    Answered,
    /// One of the kernel's descriptors is ready.
    Ready,
    /// There is no controller any more.
    Gone,
}

/// How the kernel's descriptors are waited for.
#[derive(Clone, Copy, PartialEq, Eq)]
pub enum Way {
    /// By poll(2): errors and hang-ups are told of each.
    Poll,
    /// By select(2): what is told is what the sets that a descriptor is in stand for.
    Select,
}

/// Gives the thread a channel. `new`: this is a new image of its process.
pub fn join(t: &mut Thread, new: bool) -> Result<(), isize> {
    if t.strict.joined {
        return Ok(());
    }
    let low = sys::call(nr::EVENTFD2, &[0, 0x8_0800]);
    if low < 0 {
        return Err(low);
    }
    let high = sys::call(nr::FCNTL, &[low as usize, F_DUPFD_CLOEXEC, WAKE_FROM]);
    let wake = if high < 0 { low } else { high };
    if high >= 0 {
        sys::call(nr::CLOSE, &[low as usize]);
    }
    let told = tell(t, strict::JOIN, u64::from(new), wake as usize);
    let index = match if told < 0 { Err(ENETDOWN as isize) } else { given(wake) } {
        Ok(index) => index,
        Err(errno) => {
            sys::call(nr::CLOSE, &[wake as usize]);
            return Err(errno);
        }
    };
    let c = arena::channel(index);
    for copy in &c.copies {
        copy.address.store(0, Relaxed);
    }
    for word in [&c.signal, &c.writes, &c.answer, &c.cancel] {
        word.store(0, Relaxed);
    }
    c.word.store(abi::RUNNING, Relaxed);
    t.channel = c;
    if !t.strict.borrowed {
        hide(wake as i32);
        HAD_CHANNEL.store(true, Relaxed);
    }
    t.strict.wake = wake as i32;
    t.strict.joined = true;
    Ok(())
}

/// The channel that the controller gives to whoever joins. It is the controller that gives and takes them, as a thread can be killed at any instant.
fn given(wake: isize) -> Result<usize, isize> {
    loop {
        let mut set = [PollFd { fd: wake as i32, events: POLLIN, found: 0 }, PollFd { fd: abi::DESCRIPTOR_CONTROL, events: 0, found: 0 }];
        sys::call(nr::POLL, &[set.as_mut_ptr() as usize, set.len(), usize::MAX]);
        let mut answer = 0_u64;
        if sys::call(nr::READ, &[wake as usize, &raw mut answer as usize, 8]) == 8 {
            return if answer == strict::NO_CHANNEL { Err(EAGAIN) } else { Ok(answer as usize - 1) };
        }
        if set[1].found & POLLHUP != 0 {
            GONE.store(true, Relaxed);
            return Err(ENETDOWN as isize);
        }
    }
}

/// Gives the channel back: the thread ends.
pub fn leave(t: &mut Thread) {
    if t.strict.joined {
        // Afterwards it may be another's.
        post(t, strict::LEAVE, &[]);
        wait_briefly(t, abi::POSTED);
        t.strict.joined = false;
        unhide(t.strict.wake);
        sys::call(nr::CLOSE, &[t.strict.wake as usize]);
    }
}

/// After fork(2): nothing of the maker's is this process's. `shares_files`: its descriptors are.
pub fn start_anew(t: &mut Thread, shares_files: bool) {
    t.strict.joined = false;
    t.strict.wake = -1;
    HAD_CHANNEL.store(false, Relaxed);
    if !shares_files {
        close_hidden();
    }
}

/// Sends a descriptor to the controller. Returns what sendmsg(2) does, or that there is no controller.
pub fn tell(t: &Thread, what: u32, number: u64, fd: usize) -> isize {
    const MSG_NOSIGNAL: usize = 0x4000;
    let channel = if t.strict.joined { t.channel_index() as u32 } else { 0 };
    let told = strict::Told { what, channel, number, tid: sys::call(nr::GETTID, &[]) as u64 };
    let vector = [&raw const told as usize, size_of::<strict::Told>()];
    // cmsghdr of 16 bytes: length, SOL_SOCKET, SCM_RIGHTS; a descriptor, padding.
    let control = [20_u32, 0, 1, 1, fd as u32, 0];
    let message = [0, 0, vector.as_ptr() as usize, 1, control.as_ptr() as usize, 24, 0];
    match sys::call(nr::SENDMSG, &[abi::DESCRIPTOR_CONTROL as usize, message.as_ptr() as usize, MSG_NOSIGNAL]) {
        EPIPE | ECONNRESET => ENETDOWN as isize,
        sent => sent,
    }
}

fn ring(t: &Thread) {
    let index = t.channel_index();
    header().rung[index / 64].fetch_or(1 << (index % 64), SeqCst);
    if header().asleep.swap(0, SeqCst) != 0 {
        let one = 1_u64;
        sys::call(nr::WRITE, &[abi::DESCRIPTOR_BELL as usize, &raw const one as usize, 8]);
    }
}

fn controller_is_gone() -> bool {
    let mut set = [PollFd { fd: abi::DESCRIPTOR_CONTROL, ..PollFd::default() }];
    sys::call(nr::POLL, &[set.as_mut_ptr() as usize, 1, 0]) > 0 && set[0].found & POLLHUP != 0
}

/// Waits while the channel's word is this: the controller needs a moment only. False: there is none.
fn wait_briefly(t: &Thread, word: u32) -> bool {
    let mut looks = 0;
    while t.channel.word.load(Acquire) == word {
        if looks < LOOKS {
            looks += 1;
            core::hint::spin_loop();
            continue;
        }
        let limit = [0, LOOK_AFTER_NS];
        // FUTEX_WAIT
        let result = sys::call(nr::FUTEX, &[t.channel.word.as_ptr() as usize, 0, word as usize, limit.as_ptr() as usize]);
        const ETIMEDOUT: isize = -110;
        if result == ETIMEDOUT && controller_is_gone() {
            GONE.store(true, Relaxed);
            return false;
        }
    }
    true
}

/// Does something that waits, with the program's signals open.
pub fn waiting(t: &mut Thread, number: usize, a: &[usize; 6]) -> isize {
    // SAFETY: the handler of signals of this very thread looks at it.
    unsafe { (&raw mut t.strict.waits).write_volatile(true) };
    let result = sys::call(number, a);
    // SAFETY: as above.
    unsafe { (&raw mut t.strict.waits).write_volatile(false) };
    result
}

/// Waits until something of a set is ready, or for a signal: as ppoll(2).
fn wait_for(t: &mut Thread, set: &mut [PollFd], way: Way) -> isize {
    let mask = t.strict.mask;
    match way {
        Way::Poll => waiting(t, nr::PPOLL, &[set.as_mut_ptr() as usize, set.len(), 0, &raw const mask as usize, 8, 0]),
        Way::Select => select(t, set, mask),
    }
}

/// As ppoll(2), but that nothing beside `events` is told.
fn select(t: &mut Thread, set: &mut [PollFd], mask: u64) -> isize {
    let highest = set.iter().map(|one| one.fd).max().unwrap_or(0).max(0) as usize;
    let words = highest / 64 + 1;
    let mut few = [0_u64; 3 * FEW_WORDS];
    if words <= FEW_WORDS {
        return select_with(t, set, mask, &mut few[..3 * words]);
    }
    let bytes = 3 * words * size_of::<u64>();
    let Some(at) = sys::map(bytes) else { return sys::ENOMEM };
    // SAFETY: new memory of that size; any bytes are these.
    let result = select_with(t, set, mask, unsafe { core::slice::from_raw_parts_mut(at as *mut u64, 3 * words) });
    sys::unmap(at, bytes);
    result
}

/// With room for the three sets of descriptors, all empty.
fn select_with(t: &mut Thread, set: &mut [PollFd], mask: u64, room: &mut [u64]) -> isize {
    let words = room.len() / 3;
    let place = |fd: i32, which: usize| usize::try_from(fd).ok().map(|fd| (which * words + fd / 64, 1_u64 << (fd % 64)));
    for one in set.iter_mut() {
        one.found = 0;
        for (which, asked) in ASKED.into_iter().enumerate() {
            if one.events & asked != 0
                && let Some((at, bit)) = place(one.fd, which)
            {
                room[at] |= bit;
            }
        }
    }
    let with = [&raw const mask as usize, 8];
    let [read, write, except] = [0, 1, 2].map(|which| room.as_mut_ptr() as usize + which * words * size_of::<u64>());
    let result = waiting(t, nr::PSELECT6, &[64 * words, read, write, except, 0, with.as_ptr() as usize]);
    if result == sys::EBADF {
        // One of them was closed meanwhile: whoever looks sees which.
        set[2..].iter_mut().for_each(|one| one.found = POLLNVAL);
        return 1;
    }
    for one in set.iter_mut().filter(|_| result > 0) {
        for (which, asked) in ASKED.into_iter().enumerate() {
            if one.events & asked != 0 && place(one.fd, which).is_some_and(|(at, bit)| room[at] & bit != 0) {
                one.found |= asked;
            }
        }
    }
    result
}

/// Waits for the answer to what was posted. `set`: two free places, then the kernel's descriptors that are waited for beside.
pub fn await_answer(t: &mut Thread, set: &mut [PollFd], way: Way) -> Came {
    if GONE.load(Relaxed) || !wait_briefly(t, abi::POSTED) {
        return Came::Gone;
    }
    while t.channel.word.load(Acquire) == abi::PARKED {
        set[0] = PollFd { fd: t.strict.wake, events: POLLIN, found: 0 };
        // Nothing is sent to this end of it: for select(2) it is readable when there is no other.
        set[1] = PollFd { fd: abi::DESCRIPTOR_CONTROL, events: if way == Way::Select { POLLIN } else { 0 }, found: 0 };
        let result = wait_for(t, set, way);
        if result > 0 && set[0].found != 0 {
            let mut count = 0_u64;
            sys::call(nr::READ, &[t.strict.wake as usize, &raw mut count as usize, 8]);
        }
        if t.channel.word.load(Acquire) != abi::PARKED {
            break;
        }
        if result > 0 && set[1].found != 0 {
            GONE.store(true, Relaxed);
            return Came::Gone;
        }
        let ready = result > 0 && set[2..].iter().any(|one| one.found != 0);
        if result < 0 || ready {
            t.channel.cancel.store(1, SeqCst);
            ring(t);
            if !wait_briefly(t, abi::PARKED) {
                return Came::Gone;
            }
            if ready {
                t.channel.word.store(abi::RUNNING, Relaxed);
                return Came::Ready;
            }
        }
    }
    t.channel.word.store(abi::RUNNING, Relaxed);
    Came::Answered
}

/// Posts what lies in the channel.
pub fn post(t: &mut Thread, number: u64, arguments: &[u64]) {
    let c = t.channel;
    c.number.store(number, Relaxed);
    for (at, word) in c.arguments.iter().enumerate() {
        word.store(arguments.get(at).copied().unwrap_or(0), Relaxed);
    }
    c.cancel.store(0, Relaxed);
    c.word.store(abi::POSTED, Release);
    ring(t);
}

/// The result of an answer. What is to be copied is copied, and a signal that goes with it (SIGPIPE) is sent to this thread.
pub fn take_result(t: &mut Thread) -> i64 {
    let c = t.channel;
    let mut result = c.result.load(Relaxed);
    if c.answer.load(Relaxed) == abi::RETURN && !apply_writes(c) {
        result = sys::EFAULT as i64;
    }
    let signal = c.signal.swap(0, Relaxed) as usize;
    if signal != 0 {
        raise(signal);
    }
    result
}

/// Sends a signal to this thread.
pub fn raise(signal: usize) {
    let (pid, tid) = (sys::call(nr::GETPID, &[]) as usize, sys::call(nr::GETTID, &[]) as usize);
    sys::call(nr::TGKILL, &[pid, tid, signal]);
}

/// Posts a call and waits for the answer.
///
/// What lies in the channel's list of copies goes along.
pub fn exchange(t: &mut Thread, number: u64, arguments: &[u64]) -> i64 {
    if let Err(errno) = join(t, false) {
        return errno as i64;
    }
    loop {
        post(t, number, arguments);
        let mut set = [PollFd::default(); 2];
        match await_answer(t, &mut set, Way::Poll) {
            Came::Gone => return ENETDOWN,
            Came::Answered | Came::Ready if t.channel.answer.load(Relaxed) == abi::FETCH => fetch(t.channel),
            Came::Answered | Came::Ready => return take_result(t),
        }
    }
}
