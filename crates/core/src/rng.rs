//! Randomness as an argument: a documented stream (ChaCha12) from the world's seed and a name.
//!
//! Each node, wire and block has its own stream, derived from the world's seed and its name, so adding one disturbs no other.

use rand_chacha::ChaCha12Rng;
use rand_core::{Rng as _, SeedableRng};
use xxhash_rust::xxh3::xxh3_128_with_seed;

/// A deterministic random stream. The only source of randomness that code below `node` may use.
#[derive(Clone, Debug)]
pub struct Rng(ChaCha12Rng);

impl Rng {
    /// The stream that belongs to `name` in the world with this `seed`.
    pub fn for_name(seed: u64, name: &str) -> Rng {
        let mut key = [0u8; 32];
        key[..16].copy_from_slice(&xxh3_128_with_seed(name.as_bytes(), seed).to_le_bytes());
        key[16..].copy_from_slice(&xxh3_128_with_seed(name.as_bytes(), !seed).to_le_bytes());
        Rng(ChaCha12Rng::from_seed(key))
    }
    /// A stream of its own for a part of whoever holds this one.
    pub fn fork(&mut self, name: &str) -> Rng {
        let seed = self.u64();
        Rng::for_name(seed, name)
    }
    /// Where it stands: the key of the stream, and how many words of 32 bits were taken from it.
    pub fn position(&self) -> ([u8; 32], u128) {
        (self.0.get_seed(), self.0.get_word_pos())
    }
    /// A stream that stands there.
    pub fn at(key: [u8; 32], words: u128) -> Rng {
        let mut stream = ChaCha12Rng::from_seed(key);
        stream.set_word_pos(words);
        Rng(stream)
    }
    /// 32 random bits.
    pub fn u32(&mut self) -> u32 {
        self.0.next_u32()
    }
    /// 64 random bits.
    pub fn u64(&mut self) -> u64 {
        self.0.next_u64()
    }
    /// A number in `0..bound` without bias worth measuring (Lemire's multiply-shift on 64 bits); 0 when `bound` is 0.
    pub fn below(&mut self, bound: u64) -> u64 {
        ((u128::from(self.u64()) * u128::from(bound)) >> 64) as u64
    }
    /// A number in `[0, 1)` with 53 bits.
    pub fn unit(&mut self) -> f64 {
        (self.u64() >> 11) as f64 / (1u64 << 53) as f64
    }
    /// True with this probability (0 never, 1 always).
    pub fn chance(&mut self, probability: f64) -> bool {
        self.unit() < probability
    }
    /// Fills `bytes`.
    pub fn fill(&mut self, bytes: &mut [u8]) {
        self.0.fill_bytes(bytes);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn same_seed_and_name_give_the_same_stream_and_others_differ() {
        let draw = |seed, name: &str| Rng::for_name(seed, name).u64();
        assert_eq!(draw(1, "a"), draw(1, "a"));
        assert_ne!(draw(1, "a"), draw(1, "b"));
        assert_ne!(draw(1, "a"), draw(2, "a"));
    }

    #[test]
    fn bounds_and_probabilities_are_respected() {
        let mut rng = Rng::for_name(7, "bounds");
        assert!((0..10_000).all(|_| rng.below(10) < 10));
        assert_eq!(rng.below(0), 0);
        assert!((0..100).all(|_| !rng.chance(0.0)) && (0..100).all(|_| rng.chance(1.0)));
        let hits = (0..10_000).filter(|_| rng.chance(0.25)).count();
        assert!((2_200..2_800).contains(&hits), "{hits}");
    }
}
