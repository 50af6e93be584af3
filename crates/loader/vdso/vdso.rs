//! The vDSO that programs get: time from the arena's first page, without a call. Mapped by the loader in place of the kernel's.
//!
//! Each query moves the node's clock on by the price of a call, so that a loop which waits for the clock ends. When the thread's grant is
//! used up, or for what is not in the page (CPU clocks, other ids), it makes the system call, which the loader catches. Of the former nothing is
//! recorded (`local::is_shown`): the program cannot tell, and how long grants are is the controller's affair.
//! Offsets: the first words of `abi::Header`.
#![no_std]

#[path = "../src/abi/line.rs"]
mod line;

use line::Line;

const HEADER: *mut u64 = 0x7eb0_0000_0000 as *mut u64;
const NOW: usize = 1;
const GRANT: usize = 2;
const PER_CALL: usize = 3;
const EPOCH: usize = 4;
const BOOT: usize = 5;
/// `Header::clocks`.
const FROM: usize = 6;
const SKEW: usize = 7;
const FRACTION: usize = 8;
const RATE: usize = 9;
const RAW_FROM: usize = 10;
const RAW_RATE: usize = 11;
const TAI: usize = 12;
const ZONE: usize = 13;

#[inline(always)]
fn word(index: usize) -> u64 {
    // SAFETY: the loader has mapped the page there before the program's first instruction, and keeps it.
    unsafe { HEADER.add(index).read_volatile() }
}

#[inline(always)]
fn tick() -> Option<u64> {
    let now = word(NOW).wrapping_add(word(PER_CALL));
    if now >= word(GRANT) {
        return None;
    }
    // SAFETY: as in `word`; one thread of a node runs at a time.
    unsafe { HEADER.add(NOW).write_volatile(now) };
    Some(now)
}

/// Of CLOCK_MONOTONIC and CLOCK_REALTIME.
#[inline(always)]
fn line() -> Line {
    Line { from: word(FROM), skew: word(SKEW) as i64, fraction: word(FRACTION), rate: word(RATE) as i64 }
}

/// Of CLOCK_MONOTONIC_RAW.
#[inline(always)]
fn raw_line() -> Line {
    Line { from: word(RAW_FROM), skew: 0, fraction: 0, rate: word(RAW_RATE) as i64 }
}

#[inline(always)]
fn system_call(number: i64, a: i64, b: i64) -> i64 {
    let result;
    // SAFETY: the loader checks the pointers among the arguments.
    unsafe {
        core::arch::asm!("syscall", inlateout("rax") number => result, in("rdi") a, in("rsi") b, lateout("rcx") _, lateout("r11") _);
    }
    result
}

/// clock_gettime(2)
#[unsafe(no_mangle)]
pub extern "C" fn __vdso_clock_gettime(clock: i32, into: *mut u64) -> i32 {
    let base = match clock {
        0 | 5 | 8 => word(EPOCH),
        11 => word(EPOCH).wrapping_add(word(TAI).wrapping_mul(1_000_000_000)),
        1 | 4 | 6 | 7 | 9 => word(BOOT),
        _ => return system_call(228, clock as i64, into as i64) as i32,
    };
    let Some(now) = tick() else { return system_call(228, clock as i64, into as i64) as i32 };
    let value = if clock == 4 { raw_line() } else { line() }.value(base, now);
    // SAFETY: the program's pointer; a bad one faults in the program, as with the kernel's vDSO.
    unsafe {
        into.write(value / 1_000_000_000);
        into.add(1).write(value % 1_000_000_000);
    }
    0
}

/// gettimeofday(2)
#[unsafe(no_mangle)]
pub extern "C" fn __vdso_gettimeofday(into: *mut u64, zone: *mut u64) -> i32 {
    let Some(now) = tick() else { return system_call(96, into as i64, zone as i64) as i32 };
    let value = line().value(word(EPOCH), now);
    // SAFETY: as above.
    unsafe {
        if !into.is_null() {
            into.write(value / 1_000_000_000);
            into.add(1).write(value % 1_000_000_000 / 1000);
        }
        if !zone.is_null() {
            zone.write(word(ZONE));
        }
    }
    0
}

/// time(2)
#[unsafe(no_mangle)]
pub extern "C" fn __vdso_time(into: *mut i64) -> i64 {
    let Some(now) = tick() else { return system_call(201, into as i64, 0) };
    let value = (line().value(word(EPOCH), now) / 1_000_000_000) as i64;
    if !into.is_null() {
        // SAFETY: as above.
        unsafe { into.write(value) };
    }
    value
}

/// getcpu(2): every node has one processor.
#[unsafe(no_mangle)]
pub extern "C" fn __vdso_getcpu(cpu: *mut u32, node: *mut u32, _: usize) -> i32 {
    // SAFETY: as above.
    unsafe {
        if !cpu.is_null() {
            cpu.write(0);
        }
        if !node.is_null() {
            node.write(0);
        }
    }
    0
}

/// clock_getres(2)
#[unsafe(no_mangle)]
pub extern "C" fn __vdso_clock_getres(clock: i32, into: *mut u64) -> i32 {
    system_call(229, clock as i64, into as i64) as i32
}
