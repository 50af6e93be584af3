//! The identification field.
//!
//! RFC 6864 §4.1: "Originating sources MAY set the IPv4 ID field of atomic datagrams to any value": those that must not be fragmented get 0.
//! For the others the value must not repeat soon for one (source, destination, protocol), and must not let a third party count a host's
//! packets (RFC 7739 §3): counters by keyed hash of the three, each starting at random, as Linux has them (`ip_idents`).

use std::hash::{BuildHasher, Hasher};
use std::net::Ipv4Addr;
use weft_core::{KeyedHasher, Rng};

/// Counters; a power of two.
const COUNTERS: usize = 2048;

#[derive(Debug)]
pub(super) struct Identification {
    hasher: KeyedHasher,
    counters: Box<[u16; COUNTERS]>,
}

weft_core::fields!(struct Identification { hasher, counters });

impl Identification {
    pub(super) fn new(rng: &mut Rng) -> Identification {
        let mut counters = Box::new([0u16; COUNTERS]);
        counters.iter_mut().for_each(|counter| *counter = rng.u32() as u16);
        Identification { hasher: KeyedHasher::new(rng), counters }
    }

    /// The first of `packets` consecutive values.
    pub(super) fn take(&mut self, src: Ipv4Addr, dst: Ipv4Addr, protocol: u8, packets: u16) -> u16 {
        let mut hasher = self.hasher.build_hasher();
        hasher.write_u64(u64::from(src.to_bits()) << 32 | u64::from(dst.to_bits()));
        hasher.write_u8(protocol);
        let counter = &mut self.counters[hasher.finish() as usize % COUNTERS];
        let first = *counter;
        *counter = counter.wrapping_add(packets);
        first
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn values_of_one_destination_follow_each_other() {
        let mut ids = Identification::new(&mut Rng::for_name(1, "id"));
        let (a, b) = (Ipv4Addr::new(10, 0, 0, 1), Ipv4Addr::new(10, 0, 0, 2));
        let first = ids.take(a, b, 17, 3);
        assert_eq!(ids.take(a, b, 17, 1), first.wrapping_add(3));
        assert_eq!(ids.take(a, b, 17, 1), first.wrapping_add(4));
        let others: std::collections::BTreeSet<u16> = (0..100).map(|n| ids.take(a, Ipv4Addr::new(10, 0, 1, n), 17, 1)).collect();
        assert!(others.len() > 90, "counters start at random");
    }
}
