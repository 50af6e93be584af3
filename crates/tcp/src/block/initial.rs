//! Initial sequence numbers (RFC 6528) and timestamp offsets (RFC 7323 §7.1).

use super::cookies::Cookies;
use super::keyed::keyed;
use super::tables::Tuple;
use siphasher::sip::SipHasher13;
use std::hash::{Hash as _, Hasher as _};
use weft_core::{Instant, Rng};
use weft_wire::tcp::Seq;

/// The node's secrets.
#[derive(Debug)]
pub(super) struct Secrets {
    sequence: (u64, u64),
    timestamps: (u64, u64),
    pub(super) cookies: Cookies,
}
weft_core::fields!(struct Secrets { sequence, timestamps, cookies });

impl Secrets {
    pub(super) fn new(rng: &mut Rng) -> Secrets {
        Secrets { sequence: (rng.u64(), rng.u64()), timestamps: (rng.u64(), rng.u64()), cookies: Cookies::new(rng) }
    }

    /// RFC 6528 §3: "ISN = M + F(localip, localport, remoteip, remoteport, secretkey), where M is the 4 microsecond timer".
    pub(super) fn sequence(&self, tuple: &Tuple, now: Instant) -> Seq {
        let clock = (now.as_micros() / 4) as u32;
        Seq(keyed(self.sequence, tuple) as u32) + clock
    }

    /// One offset for all connections between two hosts, as Linux (secure_tcp_ts_off).
    pub(super) fn timestamp_offset(&self, tuple: &Tuple) -> u32 {
        // Ports are left out, so that timestamps grow from one connection to the next with the same peer: RFC 6191 needs it.
        let mut hasher = SipHasher13::new_with_keys(self.timestamps.0, self.timestamps.1);
        (tuple.local.ip(), tuple.remote.ip()).hash(&mut hasher);
        hasher.finish() as u32
    }

    /// Chooses among listeners that share an address.
    pub(super) fn choose(&self, tuple: &Tuple, count: usize) -> usize {
        (keyed(self.timestamps, tuple) % count.max(1) as u64) as usize
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_differ_by_connection_and_grow_by_one_each_four_microseconds() {
        let secrets = Secrets::new(&mut Rng::for_name(1, "isn"));
        let tuple = |port| Tuple { local: ([10, 0, 0, 1], port).into(), remote: ([10, 0, 0, 2], 80).into() };
        let at = |port, micros| secrets.sequence(&tuple(port), Instant::from_micros(micros));
        assert_ne!(at(1, 0), at(2, 0));
        assert_eq!(at(1, 4_000_000).since(at(1, 0)), 1_000_000);
        assert_eq!(secrets.timestamp_offset(&tuple(1)), secrets.timestamp_offset(&tuple(2)));
    }
}
