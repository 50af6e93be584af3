//! SYN cookies (RFC 4987 §3.6, as net/ipv4/syncookies.c): when a listener has no room for half-open connections, what it would have to remember
//! goes into the numbers of the SYN|ACK, and comes back with the final acknowledgment.
//!
//! The sequence number holds a minute count and one of four segment sizes under two keyed hashes; the lowest six bits of the timestamp hold
//! window scale, SACK and ECN. Without timestamps those are lost. Nothing is kept for a SYN.

use super::keyed::keyed;
use super::tables::Tuple;
use std::net::IpAddr;
use weft_core::{Duration, Instant};
use weft_wire::tcp::Seq;

/// The count of a cookie changes so often (TCP_SYNCOOKIE_PERIOD) …
const PERIOD: Duration = Duration::from_secs(60);
/// … and a cookie is good for two counts (MAX_SYNCOOKIE_AGE); so long after its last overflow a listener takes them.
pub(super) const VALID: Duration = Duration::from_secs(120);
const AGE_MAX: u32 = 2;
/// Bits of the sequence number below the count.
const BITS: u32 = 24;
const MASK: u32 = (1 << BITS) - 1;
/// Segment sizes that a cookie can say, for IPv4 and IPv6; the one below the peer's is taken.
const SIZES_V4: [u16; 4] = [536, 1300, 1440, 1460];
const SIZES_V6: [u16; 4] = [1220, 1420, 1440, 8940];
/// Bits of the timestamp that say something else.
const STAMP_BITS: u32 = 6;
const STAMP_MASK: u32 = (1 << STAMP_BITS) - 1;
const STAMP_NO_SCALE: u32 = 0xf;
const STAMP_SACK: u32 = 1 << 4;
const STAMP_ECN: u32 = 1 << 5;

/// What the timestamp of a SYN|ACK holds.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) struct Agreement {
    /// The peer's window shift.
    pub scale: Option<u8>,
    pub sack: bool,
    pub ecn: bool,
}

fn sizes(tuple: &Tuple) -> [u16; 4] {
    match tuple.remote.ip() {
        IpAddr::V4(_) => SIZES_V4,
        IpAddr::V6(_) => SIZES_V6,
    }
}

fn minutes(now: Instant) -> u32 {
    (now.as_nanos() / PERIOD.as_nanos() as u64) as u32
}

/// The keys, and the hashes of RFC 4987's cookie.
#[derive(Debug)]
pub(super) struct Cookies {
    keys: [(u64, u64); 2],
}
weft_core::fields!(struct Cookies { keys });

impl Cookies {
    pub(super) fn new(rng: &mut weft_core::Rng) -> Cookies {
        Cookies { keys: [(rng.u64(), rng.u64()), (rng.u64(), rng.u64())] }
    }

    fn hash(&self, which: usize, tuple: &Tuple, count: u32) -> u32 {
        keyed(self.keys[which], &(tuple, count)) as u32
    }

    /// The initial sequence number of a SYN|ACK to a SYN with this number and MSS (secure_tcp_syn_cookie), and the MSS that it says.
    pub(super) fn make(&self, tuple: &Tuple, peer_initial: Seq, peer_mss: u16, now: Instant) -> (Seq, u16) {
        let sizes = sizes(tuple);
        let index = sizes.iter().rposition(|size| *size <= peer_mss).unwrap_or(0);
        let count = minutes(now);
        let data = self.hash(1, tuple, count).wrapping_add(index as u32) & MASK;
        let number = self.hash(0, tuple, 0).wrapping_add(peer_initial.0).wrapping_add(count << BITS).wrapping_add(data);
        (Seq(number), sizes[index])
    }

    /// The MSS in a cookie that comes back; `None`: it is none of ours, or too old (check_tcp_syn_cookie).
    pub(super) fn check(&self, tuple: &Tuple, cookie: Seq, peer_initial: Seq, now: Instant) -> Option<u16> {
        let rest = cookie.0.wrapping_sub(self.hash(0, tuple, 0)).wrapping_sub(peer_initial.0);
        let count = minutes(now);
        let age = count.wrapping_sub(rest >> BITS) & (u32::MAX >> BITS);
        if age >= AGE_MAX {
            return None;
        }
        let index = rest.wrapping_sub(self.hash(1, tuple, count.wrapping_sub(age))) & MASK;
        sizes(tuple).get(index as usize).copied()
    }
}

/// The timestamp of a SYN|ACK with a cookie: the clock, its lowest bits replaced, never in the future (cookie_init_timestamp).
pub(super) fn stamp(clock_ms: u32, agreement: Agreement) -> u32 {
    let mut bits = agreement.scale.map_or(STAMP_NO_SCALE, u32::from);
    bits |= if agreement.sack { STAMP_SACK } else { 0 } | if agreement.ecn { STAMP_ECN } else { 0 };
    let stamp = clock_ms & !STAMP_MASK | bits;
    if stamp > clock_ms { stamp.wrapping_sub(1 << STAMP_BITS) } else { stamp }
}

/// What comes back in an echo (cookie_timestamp_decode).
pub(super) fn agreement(stamp: u32) -> Agreement {
    let scale = stamp & STAMP_NO_SCALE;
    Agreement {
        scale: (scale != STAMP_NO_SCALE).then_some((scale as u8).min(14)),
        sack: stamp & STAMP_SACK != 0,
        ecn: stamp & STAMP_ECN != 0,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn tuple(remote: &str) -> Tuple {
        Tuple {
            local: if remote.starts_with('[') { "[fd00::1]:80" } else { "10.0.0.1:80" }.parse().unwrap(),
            remote: remote.parse().unwrap(),
        }
    }
    fn cookies() -> Cookies {
        Cookies::new(&mut weft_core::Rng::for_name(1, "cookies"))
    }

    #[test]
    fn a_cookie_gives_the_size_below_the_peers_back_and_only_to_whom_it_was_given() {
        let cookies = cookies();
        let now = Instant::from_millis(1000 * 1000);
        let rows = [(0, 536), (536, 536), (1299, 536), (1300, 1300), (1459, 1440), (1460, 1460), (9000, 1460)];
        for (offered, expected) in rows {
            let peer = tuple("10.0.0.9:5000");
            let (cookie, size) = cookies.make(&peer, Seq(77), offered, now);
            assert_eq!(size, expected);
            assert_eq!(cookies.check(&peer, cookie, Seq(77), now), Some(expected));
            assert_eq!(cookies.check(&tuple("10.0.0.9:5001"), cookie, Seq(77), now), None);
        }
        let six = tuple("[fd00::9]:5000");
        let (cookie, size) = cookies.make(&six, Seq(1), 1440, now);
        assert_eq!((size, cookies.check(&six, cookie, Seq(1), now)), (1440, Some(1440)));
    }

    #[test]
    fn guesses_succeed_as_rarely_as_the_bits_allow() {
        let cookies = cookies();
        let peer = tuple("10.0.0.9:5000");
        let mut rng = weft_core::Rng::for_name(2, "guess");
        let hits = (0..200_000).filter(|_| cookies.check(&peer, Seq(rng.u32()), Seq(5), Instant::from_millis(99 * 1000)).is_some()).count();
        // Two counts of 256 and four sizes of 2^24: one in half a billion.
        assert_eq!(hits, 0);
    }

    #[test]
    fn a_cookie_lives_between_one_and_two_minutes() {
        let cookies = cookies();
        let peer = tuple("10.0.0.9:5000");
        let made = Instant::from_millis((60 * 7 + 59) * 1000);
        let (cookie, _) = cookies.make(&peer, Seq(9), 1460, made);
        let good = |seconds| cookies.check(&peer, cookie, Seq(9), made + Duration::from_secs(seconds)).is_some();
        assert!(good(0) && good(1) && good(60));
        assert!(!good(61) && !good(120) && !good(256 * 60 + 30));
    }

    #[test]
    fn the_timestamp_says_what_was_agreed_and_is_not_of_the_future() {
        for clock in [0, 1, 63, 64, 1_000_000, u32::MAX] {
            for scale in [None, Some(0), Some(7), Some(14)] {
                for (sack, ecn) in [(false, false), (true, false), (true, true)] {
                    let agreed = Agreement { scale, sack, ecn };
                    let value = stamp(clock, agreed);
                    assert_eq!(agreement(value), agreed);
                    assert!((0..128).contains(&(clock.wrapping_sub(value))), "{clock} {value}");
                }
            }
        }
    }
}
