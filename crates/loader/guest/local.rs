//! What is answered in the process: time, randomness, who and where one is.

use crate::abi;
use crate::channel::{header, post};
use crate::dispatch::forward;
use crate::sys;
use crate::thread::Thread;
use crate::x86_64::numbers as nr;
use core::sync::atomic::Ordering::Relaxed;

/// Moves the clock on by the price of a call; at the grant, others run first.
pub fn tick(t: &mut Thread) {
    let header = header();
    let now = header.now.load(Relaxed) + header.per_call.load(Relaxed);
    header.now.store(now, Relaxed);
    if now >= header.grant.load(Relaxed) {
        post(t, abi::YIELD, &[]);
    }
}

/// A clock's value in nanoseconds.
fn clock(t: &Thread, id: usize) -> Option<u64> {
    let header = header();
    let now = header.now.load(Relaxed);
    let own = now.saturating_sub(t.channel.resumed.load(Relaxed));
    match id as i32 {
        0 | 5 | 8 | 11 => Some(header.epoch.load(Relaxed) + now),
        1 | 4 | 6 | 7 | 9 => Some(header.boot.load(Relaxed) + now),
        2 => Some(t.process.cpu.load(Relaxed) + own),
        3 => Some(t.channel.cpu.load(Relaxed) + own),
        // CPU clocks of threads and processes by number: (~pid << 3) | 2, 4 for a thread's; 0 and 1 for 2 are what ITIMER_PROF and ITIMER_VIRTUAL count by.
        id if id < 0 && id & 3 < 3 => {
            let pid = !(id >> 3) as u32;
            let thread = id & 4 != 0;
            let mine = pid == 0 || pid == if thread { t.channel.tid.load(Relaxed) } else { t.process.pid.load(Relaxed) };
            let base = if thread { t.channel.cpu.load(Relaxed) } else { t.process.cpu.load(Relaxed) };
            mine.then_some(base + own)
        }
        _ => None,
    }
}

/// Does the vDSO answer this by itself, as long as the grant lasts? The clocks that it knows are those of `__vdso_clock_gettime`.
pub fn is_shown(number: usize, a: &[usize; 6]) -> bool {
    match number {
        nr::CLOCK_GETTIME => matches!(a[0] as i32, 0 | 1 | 4..=9 | 11),
        nr::GETTIMEOFDAY | nr::TIME => true,
        _ => false,
    }
}

/// Those of others are the controller's to know.
fn is_cpu_clock(id: usize) -> bool {
    (id as i32) < 0
}

pub fn clock_gettime(t: &mut Thread, a: &[usize; 6]) -> Result<isize, isize> {
    let value = match clock(t, a[0]) {
        Some(value) => value,
        None if is_cpu_clock(a[0]) => return Ok(forward(t, nr::CLOCK_GETTIME, a, 0)),
        None => return Err(sys::EINVAL),
    };
    sys::write_u64(a[1], value / 1_000_000_000)?;
    sys::write_u64(a[1] + 8, value % 1_000_000_000)?;
    Ok(0)
}
pub fn clock_getres(t: &mut Thread, a: &[usize; 6]) -> Result<isize, isize> {
    if is_cpu_clock(a[0]) {
        return Ok(forward(t, nr::CLOCK_GETRES, a, 0));
    }
    clock(t, a[0]).ok_or(sys::EINVAL)?;
    if a[1] != 0 {
        sys::write_u64(a[1], 0)?;
        // The coarse clocks tick with the kernel: 4 ms at 250 Hz.
        sys::write_u64(a[1] + 8, if a[0] == 5 || a[0] == 6 { 4_000_000 } else { 1 })?;
    }
    Ok(0)
}
pub fn gettimeofday(t: &Thread, a: &[usize; 6]) -> Result<isize, isize> {
    let value = clock(t, 0).unwrap_or(0);
    if a[0] != 0 {
        sys::write_u64(a[0], value / 1_000_000_000)?;
        sys::write_u64(a[0] + 8, value % 1_000_000_000 / 1000)?;
    }
    if a[1] != 0 {
        sys::write_u64(a[1], 0)?;
    }
    Ok(0)
}
pub fn time(t: &Thread, a: &[usize; 6]) -> Result<isize, isize> {
    let value = clock(t, 0).unwrap_or(0) / 1_000_000_000;
    if a[0] != 0 {
        sys::write_u64(a[0], value)?;
    }
    Ok(value as isize)
}

/// times(2): ticks of 10 ms; all CPU time is the user's.
pub fn times(t: &Thread, a: &[usize; 6]) -> Result<isize, isize> {
    if a[0] != 0 {
        sys::write_u64(a[0], clock(t, 2).unwrap_or(0) / 10_000_000)?;
        for word in 1..4 {
            sys::write_u64(a[0] + 8 * word, 0)?;
        }
    }
    Ok((clock(t, 1).unwrap_or(0) / 10_000_000) as isize)
}

/// getrusage(2): virtual time; everything else is the host's affair and 0.
pub fn getrusage(t: &Thread, a: &[usize; 6]) -> Result<isize, isize> {
    let value = match a[0] as i32 {
        0 => clock(t, 2),
        1 => clock(t, 3),
        -1 => Some(0),
        _ => return Err(sys::EINVAL),
    };
    let value = value.unwrap_or(0);
    let mut usage = [0_u64; 18];
    usage[0] = value / 1_000_000_000;
    usage[1] = value % 1_000_000_000 / 1000;
    for (index, word) in usage.into_iter().enumerate() {
        sys::write_u64(a[1] + 8 * index, word)?;
    }
    Ok(0)
}

/// sysinfo(2): half of the memory is free.
pub fn sysinfo(t: &Thread, a: &[usize; 6]) -> Result<isize, isize> {
    let mut info = [0_u64; 14];
    info[0] = clock(t, 1).unwrap_or(0) / 1_000_000_000;
    info[4] = header().memory.load(Relaxed);
    info[5] = info[4] / 2;
    // procs (one u16), mem_unit (an int behind totalhigh and freehigh).
    info[10] = 1;
    info[13] = 1;
    for (index, word) in info.into_iter().enumerate() {
        sys::write_u64(a[0] + 8 * index, word)?;
    }
    Ok(0)
}

/// uname(2): the node's name, and a system that is the same everywhere.
pub fn uname(a: &[usize; 6]) -> Result<isize, isize> {
    let mut name = [0_u8; 65 * 6];
    for (index, text) in [&b"Linux"[..], b"", b"6.1.0-weft", b"#1 weft", b"x86_64", b"(none)"].into_iter().enumerate() {
        name[65 * index..65 * index + text.len()].copy_from_slice(text);
    }
    header().name.get(0, &mut name[65..65 + 64]);
    sys::copy_out(a[0], &name)?;
    Ok(0)
}

/// sched_getaffinity(2): every node has one processor.
pub fn affinity(a: &[usize; 6]) -> Result<isize, isize> {
    if a[1] < 8 || a[1] % 8 != 0 {
        return Err(sys::EINVAL);
    }
    sys::write_u64(a[2], 1)?;
    Ok(8)
}

/// sched_setaffinity(2): all that can be set is the only processor there is.
pub fn set_affinity(a: &[usize; 6]) -> Result<isize, isize> {
    let mut mask = [0_u8];
    if a[1] > 0 {
        sys::copy_in(a[2], &mut mask)?;
    }
    if mask[0] & 1 == 0 { Err(sys::EINVAL) } else { Ok(0) }
}

pub fn getcpu(a: &[usize; 6]) -> Result<isize, isize> {
    for pointer in [a[0], a[1]] {
        if pointer != 0 {
            sys::write_u32(pointer, 0)?;
        }
    }
    Ok(0)
}

/// getrandom(2)
pub fn getrandom(t: &mut Thread, at: usize, bytes: usize) -> Result<isize, isize> {
    let mut done = 0;
    while done < bytes {
        let mut piece = [0_u8; 256];
        let count = (bytes - done).min(piece.len());
        random_bytes(t, &mut piece[..count]);
        sys::copy_out(at + done, &piece[..count])?;
        done += count;
    }
    Ok(bytes as isize)
}

/// The process's stream: ChaCha20 (RFC 8439 §2.3) with the key from the controller, 64-bit counter, nonce 0.
pub fn random_bytes(t: &mut Thread, into: &mut [u8]) {
    let mut key = [0_u32; 8];
    for (index, word) in t.process.random_key.iter().enumerate() {
        let word = word.load(Relaxed);
        key[2 * index] = word as u32;
        key[2 * index + 1] = (word >> 32) as u32;
    }
    let mut used = t.process.random_used.load(Relaxed);
    for byte in &mut *into {
        let (block, at) = (used / 64, (used % 64) as usize);
        // Blocks are small and calls short: the block is made anew for each run of bytes in it.
        *byte = chacha_byte(&key, block, at);
        used += 1;
    }
    t.process.random_used.store(used, Relaxed);
}

/// One block remembered, so that the bytes of one block cost one computation. (key word 0, key word 1, block) tell it.
static mut LAST: ([u32; 8], u64, [u32; 16]) = ([0; 8], u64::MAX, [0; 16]);

fn chacha_byte(key: &[u32; 8], block: u64, at: usize) -> u8 {
    // SAFETY: one thread runs at a time.
    let last = unsafe { &mut *(&raw mut LAST) };
    if last.1 != block || last.0 != *key {
        *last = (*key, block, chacha(key, block));
    }
    (last.2[at / 4] >> (8 * (at % 4))) as u8
}

fn chacha(key: &[u32; 8], block: u64) -> [u32; 16] {
    let mut start = [0x6170_7865, 0x3320_646e, 0x7962_2d32, 0x6b20_6574, 0, 0, 0, 0, 0, 0, 0, 0, block as u32, (block >> 32) as u32, 0, 0];
    start[4..12].copy_from_slice(key);
    let mut state = start;
    let mut quarter = |a: usize, b: usize, c: usize, d: usize| {
        state[a] = state[a].wrapping_add(state[b]);
        state[d] = (state[d] ^ state[a]).rotate_left(16);
        state[c] = state[c].wrapping_add(state[d]);
        state[b] = (state[b] ^ state[c]).rotate_left(12);
        state[a] = state[a].wrapping_add(state[b]);
        state[d] = (state[d] ^ state[a]).rotate_left(8);
        state[c] = state[c].wrapping_add(state[d]);
        state[b] = (state[b] ^ state[c]).rotate_left(7);
    };
    for _ in 0..10 {
        quarter(0, 4, 8, 12);
        quarter(1, 5, 9, 13);
        quarter(2, 6, 10, 14);
        quarter(3, 7, 11, 15);
        quarter(0, 5, 10, 15);
        quarter(1, 6, 11, 12);
        quarter(2, 7, 8, 13);
        quarter(3, 4, 9, 14);
    }
    for (word, start) in state.iter_mut().zip(start) {
        *word = word.wrapping_add(start);
    }
    state
}

/// Folds a finished call into the node's trace: any difference in time, thread, call or result changes it for good.
pub fn fold(t: &Thread, number: usize, result: i64) {
    let header = header();
    let mut trace = header.trace.load(Relaxed);
    let thread = u64::from(t.channel.tid.load(Relaxed)) << 32 | number as u64;
    for word in [header.now.load(Relaxed), thread, result as u64] {
        trace = mix(trace, word);
    }
    header.trace.store(trace, Relaxed);
    header.calls.fetch_add(1, Relaxed);
}

/// So many bytes have gone into a file: the controller looks at what programs print when it is much. One thread of a node runs at a time.
pub fn count_written(t: &mut Thread, bytes: usize) {
    let header = header();
    let before = header.written.load(Relaxed);
    let after = before.wrapping_add(bytes as u64);
    header.written.store(after, Relaxed);
    if before / abi::WRITTEN_BYTES != after / abi::WRITTEN_BYTES && header.flags.load(Relaxed) & abi::STRICT == 0 {
        post(t, abi::GREW, &[]);
    }
}

/// Folds bytes that the program has written.
pub fn fold_bytes(from: usize, bytes: usize) {
    let header = header();
    let mut trace = header.trace.load(Relaxed);
    let mut done = 0;
    while done < bytes {
        let mut piece = [0_u8; 512];
        let count = (bytes - done).min(piece.len());
        if sys::copy_in(from + done, &mut piece[..count]).is_err() {
            break;
        }
        for eight in piece[..count.next_multiple_of(8)].chunks_exact(8) {
            trace = mix(trace, eight.iter().fold(0, |word, byte| word << 8 | u64::from(*byte)));
        }
        done += count;
    }
    header.trace.store(mix(trace, bytes as u64), Relaxed);
}

/// The finaliser of SplitMix64 over the exclusive or: a bijection in each argument.
fn mix(trace: u64, word: u64) -> u64 {
    let mut z = (trace ^ word).wrapping_add(0x9e37_79b9_7f4a_7c15);
    z = (z ^ z >> 30).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    z = (z ^ z >> 27).wrapping_mul(0x94d0_49bb_1331_11eb);
    z ^ z >> 31
}

/// What the program was called by: behind the target in the process's slot.
pub fn file_name(t: &Thread, into: &mut [u8]) -> usize {
    let mut both = [0_u8; abi::PATH_BYTES];
    t.process.target.get(0, &mut both);
    let first = both.iter().position(|byte| *byte == 0).unwrap_or(0);
    let rest = &both[(first + 1).min(both.len())..];
    let length = rest.iter().position(|byte| *byte == 0).unwrap_or(0).min(into.len());
    into[..length].copy_from_slice(&rest[..length]);
    length
}

/// The thread is called by the last part of its program's name, as exec does it.
pub fn name_thread(t: &Thread) {
    let mut name = [0_u8; abi::PATH_BYTES];
    let length = file_name(t, &mut name[..abi::PATH_BYTES - 1]);
    let from = name[..length].iter().rposition(|byte| *byte == b'/').map_or(0, |slash| slash + 1);
    name[length] = 0;
    // PR_SET_NAME
    sys::call(nr::PRCTL, &[15, name.as_ptr() as usize + from]);
}
