//! Calls that are answered here although they are the controller's: as long as `Header::ahead` lasts nothing can reach the node, this is its only
//! thread that can run, and mirrors show what sockets would say. Each such call is logged, and made good by the controller, at its own
//! time, before anything else happens. Whatever is not sure is left to the controller at once.

use crate::abi::{self, ADDRESS_BYTES, Clock, Entry, LOG_BYTES, Logged, Mirror, kind};
use crate::arena::{header, mirror};
use crate::block::Thread;
use crate::calls::number as nr;
use crate::descriptor;
use crate::sys;
use crate::x86_64::entry;
use core::sync::atomic::AtomicU32;
use core::sync::atomic::Ordering::Relaxed;

const MSG_DONTWAIT: usize = 0x40;
const MSG_NOSIGNAL: usize = 0x4000;
const POLLIN: u32 = 1;
const POLLOUT: u32 = 4;
const POLLRDNORM: u32 = 0x40;
const POLLWRNORM: u32 = 0x100;
const POLLWRBAND: u32 = 0x200;
const POLLERR: u32 = 8;
const POLLHUP: u32 = 0x10;
const POLLNVAL: u32 = 0x20;

/// May this thread answer by itself now?
fn may() -> bool {
    let header = header();
    header.now.load(Relaxed) < header.ahead.load(Relaxed)
}

/// What the socket behind a descriptor shows. None: it is none, or nothing is sure about it.
fn of(word: u64) -> Option<&'static Mirror> {
    if descriptor::kind_of(word) != kind::VIRTUAL {
        return None;
    }
    let inode = word & abi::INODE;
    let index = header().mirrors.iter().position(|one| one.load(Relaxed) == inode)?;
    let m = mirror(index);
    (m.flags.load(Relaxed) & abi::MIRROR_SHOWS != 0).then_some(m)
}

fn add(counter: &AtomicU32) {
    counter.store(counter.load(Relaxed) + 1, Relaxed);
}

/// What is to be logged of a call.
struct Call<'a> {
    number: u64,
    arguments: [u64; 6],
    descriptor: u64,
    /// Address and bytes.
    copies: &'a [(usize, usize)],
    began: u64,
    result: i64,
}

/// Logs a call that has its answer now. False: there is no room, or the program's memory cannot be read.
fn log(t: &Thread, call: &Call<'_>) -> bool {
    let channel = t.channel;
    let at = channel.log_bytes.load(Relaxed) as usize;
    let fixed = size_of::<Logged>();
    let wanted = call.copies.iter().fold(fixed, |sum, (_, bytes)| sum + bytes.next_multiple_of(8));
    if wanted > LOG_BYTES - at {
        return false;
    }
    let header = header();
    let mut one = Logged {
        at: call.began,
        ended: header.now.load(Relaxed),
        trace: header.trace.load(Relaxed),
        number: call.number,
        arguments: call.arguments,
        descriptor: call.descriptor,
        result: call.result,
        copies: [[0; 3]; 2],
        bytes: wanted as u64,
    };
    let base = channel.log.pointer() as usize + at;
    let mut next = fixed;
    for (slot, (address, bytes)) in one.copies.iter_mut().zip(call.copies) {
        if *bytes > 0 && !entry::copy(base + next, *address, *bytes) {
            return false;
        }
        *slot = [*address as u64, *bytes as u64, next as u64];
        next += bytes.next_multiple_of(8);
    }
    // SAFETY: inside the log (`wanted` fits), aligned to 8, and the controller sleeps.
    unsafe { (base as *mut Logged).write(one) };
    channel.log_bytes.store((at + wanted) as u32, Relaxed);
    add(&channel.logged);
    true
}

/// The end of all addresses that programs have.
const PLACES_MAX: usize = (1 << 47) - 4096;

fn now() -> u64 {
    header().now.load(Relaxed)
}

/// Calls on a socket. None: it is the controller's.
pub fn socket(t: &mut Thread, number: usize, a: &[usize; 6], word: u64) -> Option<isize> {
    if !may() {
        return None;
    }
    match number {
        nr::SENDTO => send(t, number, a, word, a[3]),
        nr::WRITE => send(t, number, a, word, 0),
        nr::RECVFROM => receive(t, number, a, word, a[3]),
        nr::READ => receive(t, number, a, word, 0),
        _ => None,
    }
}

fn send(t: &Thread, number: usize, a: &[usize; 6], word: u64, flags: usize) -> Option<isize> {
    let m = of(word)?;
    let (shown, bytes) = (m.flags.load(Relaxed), a[2]);
    let (stream, named) = (shown & abi::MIRROR_STREAM != 0, number == nr::SENDTO && a[4] != 0);
    if shown & abi::MIRROR_SEND == 0 || flags & !(MSG_DONTWAIT | MSG_NOSIGNAL) != 0 || bytes == 0 || bytes > LOG_BYTES {
        return None;
    }
    let name_bytes = if named { a[5] } else { 0 };
    if named {
        let mut name = [0_u8; ADDRESS_BYTES];
        let mut peer = [0_u8; ADDRESS_BYTES];
        m.peer.get(0, &mut peer);
        if stream || name_bytes == 0 || name_bytes != m.peer_bytes.load(Relaxed) as usize || name_bytes > ADDRESS_BYTES {
            return None;
        }
        if sys::copy_in(a[4], &mut name[..name_bytes]).is_err() || name[..name_bytes] != peer[..name_bytes] {
            return None;
        }
    } else if shown & abi::MIRROR_CONNECTED == 0 {
        return None;
    }
    let takes = if stream { bytes } else { abi::datagram_room(bytes) } as u64;
    let sent = m.sent.load(Relaxed) + takes;
    if sent > m.room.load(Relaxed) || !stream && bytes as u64 > m.longest.load(Relaxed) {
        return None;
    }
    let copies = [(a[1], bytes), (a[4], name_bytes)];
    let call = Call {
        number: number as u64,
        arguments: a.map(|word| word as u64),
        descriptor: word,
        copies: &copies[..if named { 2 } else { 1 }],
        began: now(),
        result: bytes as i64,
    };
    if !log(t, &call) {
        return None;
    }
    m.sent.store(sent, Relaxed);
    add(&m.sends);
    Some(bytes as isize)
}

fn receive(t: &Thread, number: usize, a: &[usize; 6], word: u64, flags: usize) -> Option<isize> {
    let m = of(word)?;
    let (shown, bytes) = (m.flags.load(Relaxed), a[2]);
    // Of lengths that no buffer has the controller says what they come to (access_ok).
    if shown & abi::MIRROR_RECEIVE == 0 || flags & !(MSG_DONTWAIT | MSG_NOSIGNAL) != 0 || bytes == 0 || a[1].max(bytes) > PLACES_MAX {
        return None;
    }
    let named = number == nr::RECVFROM && a[4] != 0;
    let taken = m.taken.load(Relaxed);
    let arguments = a.map(|word| word as u64);
    let room = [(a[5], 4)];
    let copies = if named { &room[..] } else { &[] };
    let stream = shown & abi::MIRROR_STREAM != 0;
    if stream && named {
        return None;
    }
    if taken >= m.count.load(Relaxed) {
        let waits = flags & MSG_DONTWAIT == 0 && !descriptor::is_nonblocking(a[0], word);
        if shown & abi::MIRROR_WHOLE == 0 || waits && !stream {
            return None;
        }
        if waits {
            return wait_for_bytes(t, m, number, a, word);
        }
        let call = Call {
            number: number as u64,
            arguments,
            descriptor: word | abi::NONBLOCKING,
            copies,
            began: now(),
            result: sys::EAGAIN as i64,
        };
        return log(t, &call).then_some(sys::EAGAIN);
    }
    if stream {
        return take_bytes(t, m, number, a, word, now());
    }
    let piece = m.messages.get(taken as usize)?;
    let (at, count) = (piece.at.load(Relaxed) as usize, (piece.bytes.load(Relaxed) as usize).min(bytes));
    let from = m.data.pointer() as usize + at;
    if named {
        let (told, has) = (piece.from_bytes.load(Relaxed) as usize, sys::read_u32(a[5]).ok()? as i32);
        if has < 0 {
            return None;
        }
        // The controller reads the length that the program gave, so that it is logged before it is overwritten.
        let call = Call { number: number as u64, arguments, descriptor: word, copies, began: now(), result: count as i64 };
        if !log(t, &call) {
            return None;
        }
        let good = entry::copy(a[1], from + ADDRESS_BYTES, count)
            && entry::copy(a[4], from, told.min(has as usize))
            && sys::write_u32(a[5], told as u32).is_ok();
        add(&m.taken);
        return Some(if good { count as isize } else { sys::EFAULT });
    }
    if !entry::copy(a[1], from + ADDRESS_BYTES, count) {
        return None;
    }
    let call = Call { number: number as u64, arguments, descriptor: word, copies, began: now(), result: count as i64 };
    if !log(t, &call) {
        return None;
    }
    add(&m.taken);
    Some(count as isize)
}

/// The clock, and what the running thread may do.
struct Allowance {
    now: u64,
    grant: u64,
    ahead: u64,
}

/// The thread goes on at this time, after it has waited, as if the controller had given it a turn; nothing comes from outside before `arrival`. What was
/// before.
fn go_on(at: u64, arrival: u64) -> Allowance {
    let header = header();
    let before = Allowance { now: now(), grant: header.grant.load(Relaxed), ahead: header.ahead.load(Relaxed) };
    let grant = arrival.min(at + header.slice.load(Relaxed));
    set(&Allowance { now: at, grant, ahead: grant.min(header.quiet.load(Relaxed)) });
    before
}

fn set(allowance: &Allowance) {
    let header = header();
    header.now.store(allowance.now, Relaxed);
    header.grant.store(allowance.grant, Relaxed);
    header.ahead.store(allowance.ahead, Relaxed);
}

/// Waits for bytes of a stream of which it is known when they come.
fn wait_for_bytes(t: &Thread, m: &Mirror, number: usize, a: &[usize; 6], word: u64) -> Option<isize> {
    let (header, had, first) = (header(), m.count.load(Relaxed), m.come.load(Relaxed));
    let coming = |index: u32| m.coming[..(m.coming_count.load(Relaxed) as usize).min(abi::MIRROR_PIECES)].get(index as usize);
    let (far, at) = (header.far.load(Relaxed), coming(first)?.at.load(Relaxed));
    if at >= far.min(header.quiet.load(Relaxed)) || t.is_signalled() {
        return None;
    }
    let (mut count, mut come) = (had, first);
    // What comes at one time comes together.
    while let Some(piece) = coming(come).filter(|piece| piece.at.load(Relaxed) == at) {
        count += piece.bytes.load(Relaxed);
        come += 1;
    }
    m.count.store(count, Relaxed);
    let arrival = coming(come).map_or(far, |piece| piece.at.load(Relaxed)).min(far);
    let before = go_on(at, arrival);
    let Some(taken) = take_bytes(t, m, number, a, word, before.now) else {
        m.count.store(had, Relaxed);
        set(&before);
        return None;
    };
    m.come.store(come, Relaxed);
    header.arrival.store(arrival, Relaxed);
    // Waiting is no use of the processor.
    t.channel.resumed.store(t.channel.resumed.load(Relaxed) + (at - before.now), Relaxed);
    Some(taken)
}

/// Bytes of a stream, of which there are some.
fn take_bytes(t: &Thread, m: &Mirror, number: usize, a: &[usize; 6], word: u64, began: u64) -> Option<isize> {
    let (taken, count) = (m.taken.load(Relaxed) as usize, (m.count.load(Relaxed) as usize).min(abi::MIRROR_BYTES));
    let bytes = a[2].min(count.checked_sub(taken)?);
    // More may be there than is shown.
    if bytes < a[2] && m.flags.load(Relaxed) & abi::MIRROR_WHOLE == 0 {
        return None;
    }
    if !entry::copy(a[1], m.data.pointer() as usize + taken, bytes) {
        return None;
    }
    let arguments = a.map(|word| word as u64);
    let call = Call { number: number as u64, arguments, descriptor: word, copies: &[], began, result: bytes as i64 };
    if !log(t, &call) {
        return None;
    }
    m.taken.store((taken + bytes) as u32, Relaxed);
    Some(bytes as isize)
}

/// A poll set, in the channel's buffer. The number of entries that are ready, which then tell what was found.
pub fn poll(t: &Thread, count: usize, limit: Option<u64>) -> Option<i64> {
    if !may() || count > 16 {
        return None;
    }
    let entries = t.channel.data.pointer().cast::<Entry>();
    let mut found = [0_u32; 16];
    let mut ready = 0;
    for (index, found) in found.iter_mut().enumerate().take(count) {
        // SAFETY: the buffer is aligned and holds more; any bytes are an Entry.
        let one = unsafe { entries.add(index).read() };
        if one.fd < 0 {
            continue;
        }
        let m = of(one.descriptor)?;
        let mut shown = m.readiness.load(Relaxed);
        // The node itself may free room by sending on what it has: what is not writable now may be so already.
        if m.sends.load(Relaxed) > 0 || one.events & !shown & (POLLOUT | POLLWRNORM | POLLWRBAND) != 0 {
            return None;
        }
        if m.come.load(Relaxed) > 0 {
            shown |= POLLIN | POLLRDNORM;
        }
        if m.taken.load(Relaxed) > 0 {
            if m.taken.load(Relaxed) >= m.count.load(Relaxed) {
                if m.flags.load(Relaxed) & abi::MIRROR_WHOLE == 0 {
                    return None;
                }
                shown &= !(POLLIN | POLLRDNORM);
            }
        }
        *found = one.told(shown);
        ready += i64::from(*found != 0);
    }
    if ready == 0 && limit != Some(0) {
        return None;
    }
    let call = Call {
        number: abi::POLL,
        arguments: [count as u64, u64::from(limit.is_some()), limit.unwrap_or(0), 1, 0, 0],
        descriptor: 0,
        copies: &[(entries as usize, count * size_of::<Entry>())],
        began: now(),
        result: ready,
    };
    if !log(t, &call) {
        return None;
    }
    for (index, found) in found.iter().enumerate().take(count) {
        // SAFETY: as above.
        unsafe { (*entries.add(index)).found = *found };
    }
    Some(ready)
}

/// nanosleep and clock_nanosleep: the clock goes on by itself, as nobody else would do anything until then.
pub fn sleep(t: &Thread, number: usize, a: &[usize; 6]) -> Option<isize> {
    const TIMER_ABSTIME: usize = 1;
    if !may() || t.is_signalled() {
        return None;
    }
    let relative = number == nr::NANOSLEEP || a[1] & TIMER_ABSTIME == 0;
    let (clock, at) = if number == nr::NANOSLEEP { (1, a[0]) } else { (a[0], a[2]) };
    let header = header();
    // A relative sleep by CLOCK_REALTIME is one by CLOCK_MONOTONIC.
    let clock = match clock {
        0 if !relative => Clock::Realtime,
        0 | 1 | 7 => Clock::Monotonic,
        _ => return None,
    };
    if number == nr::CLOCK_NANOSLEEP && a[1] & !TIMER_ABSTIME != 0 {
        return None;
    }
    let (seconds, nanos) = (sys::read_u64(at).ok()?, sys::read_u64(at + 8).ok()?);
    if seconds >= 1 << 33 || nanos >= 1_000_000_000 {
        return None;
    }
    let (wanted, began) = (seconds * 1_000_000_000 + nanos, now());
    let value = if relative { header.clocks.shows(clock, began) + wanted } else { wanted };
    let deadline = header.clocks.when(clock, value).max(began);
    if deadline >= header.ahead.load(Relaxed) {
        return None;
    }
    let before = (deadline > began).then(|| go_on(deadline, header.arrival.load(Relaxed)));
    let call = Call { number: number as u64, arguments: a.map(|word| word as u64), descriptor: 0, copies: &[(at, 16)], began, result: 0 };
    if !log(t, &call) {
        before.iter().for_each(set);
        return None;
    }
    // Sleeping is no use of the processor.
    t.channel.resumed.store(t.channel.resumed.load(Relaxed) + (deadline - began), Relaxed);
    Some(0)
}
