//! The node's trace: a number that every call of a program changes for good.

use crate::abi;
use crate::arena::header;
use crate::block::Thread;
use crate::channel::post;
use crate::sys;
use core::sync::atomic::Ordering::Relaxed;

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
