//! A keyed hash, for numbers that a stranger must not guess.

use siphasher::sip::SipHasher13;
use std::hash::{Hash, Hasher as _};

/// SipHash-1-3 under a key.
pub(super) fn keyed(key: (u64, u64), value: &impl Hash) -> u64 {
    let mut hasher = SipHasher13::new_with_keys(key.0, key.1);
    value.hash(&mut hasher);
    hasher.finish()
}
