//! Randomness: a stream of the process's own, from a key of the controller's.

use crate::block::Thread;
use crate::forward::Answer;
use crate::sys::{self, VECTORS_MAX};
use core::sync::atomic::Ordering::Relaxed;

/// Random bytes into the program's memory.
pub fn give(t: &mut Thread, at: usize, bytes: usize) -> Answer {
    let mut done = 0;
    while done < bytes {
        let mut piece = [0_u8; 256];
        let count = (bytes - done).min(piece.len());
        self::bytes(t, &mut piece[..count]);
        sys::copy_out(at + done, &piece[..count])?;
        done += count;
    }
    Ok(bytes as isize)
}

/// Random bytes into a list of buffers.
pub fn give_vectors(t: &mut Thread, vectors: usize, count: usize) -> Answer {
    if count > VECTORS_MAX {
        return Err(sys::EINVAL);
    }
    let mut done = 0;
    for index in 0..count {
        let (base, bytes) = (sys::read_u64(vectors + 16 * index)? as usize, sys::read_u64(vectors + 16 * index + 8)? as usize);
        if (bytes as isize) < 0 {
            return Err(sys::EINVAL);
        }
        match give(t, base, bytes) {
            Ok(count) => done += count,
            Err(errno) if done == 0 => return Err(errno),
            Err(_) => break,
        }
    }
    Ok(done)
}

/// The process's stream: ChaCha20 (RFC 8439 §2.3) with the key from the controller, 64-bit counter, nonce 0.
pub fn bytes(t: &mut Thread, into: &mut [u8]) {
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
