//! The node's clocks, as they stand in the arena.

use crate::abi::{self, Clock};
use crate::arena::header;
use crate::block::Thread;
use crate::calls::number as nr;
use crate::channel::post;
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
pub fn clock(t: &Thread, id: i32) -> Option<u64> {
    let header = header();
    let now = header.now.load(Relaxed);
    let own = now.saturating_sub(t.channel.resumed.load(Relaxed));
    match id {
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
        id => Some(header.clocks.shows(Clock::of(id)?, now)),
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
