//! Hash tables whose iteration order is insertion order and whose hash is keyed.
//!
//! `std::collections::HashMap` draws its key from the thread and iterates in hash order; both would break repeatability. [`Map`] is an
//! `IndexMap` with SipHash-1-3: order never depends on the hash, and a peer that does not know the key cannot aim for collisions.

use indexmap::IndexMap;
use siphasher::sip::SipHasher13;
use std::hash::BuildHasher;

/// Builds keyed SipHash-1-3 hashers.
#[derive(Clone, Copy, Debug, Default)]
pub struct KeyedHasher {
    key: (u64, u64),
}

impl KeyedHasher {
    /// A hasher with a key drawn from the node's randomness.
    pub fn new(rng: &mut crate::Rng) -> KeyedHasher {
        KeyedHasher { key: (rng.u64(), rng.u64()) }
    }
}

impl crate::state::Field for KeyedHasher {
    fn write(&self, out: &mut crate::state::Writer) {
        out.put(&self.key);
    }
    fn read(from: &mut crate::state::Reader<'_>) -> Result<Self, crate::state::Damage> {
        Ok(KeyedHasher { key: from.take()? })
    }
}

impl BuildHasher for KeyedHasher {
    type Hasher = SipHasher13;
    fn build_hasher(&self) -> SipHasher13 {
        SipHasher13::new_with_keys(self.key.0, self.key.1)
    }
}

/// A map with keyed hash and insertion order. Remove with `swap_remove` (O(1)).
pub type Map<K, V> = IndexMap<K, V, KeyedHasher>;
