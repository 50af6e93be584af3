//! Options that a program gives for the packets it sends, made ready for headers, and the answer to those of a received packet.
//!
//! As Linux's `struct ip_options` (net/ipv4/ip_options.c): a route and a timestamp to be recorded have their first slot taken by this
//! node, whose address and time are filled in packet by packet; a source route has its first address taken out, to which packets are sent,
//! while the last slot takes the real destination.

use super::{OPTIONS_LEN_MAX, kind};
use arrayvec::ArrayVec;
use std::net::Ipv4Addr;

/// Timestamp option: times only, with addresses, with addresses that the sender chose (RFC 791 §3.1).
const TIMES_ONLY: u8 = 0;
const TIMES_AND_ADDRESSES: u8 = 1;
const PRESPECIFIED: u8 = 3;

/// Options made ready.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Prepared {
    bytes: [u8; OPTIONS_LEN_MAX],
    len: u8,
    first_hop: Option<Ipv4Addr>,
    /// Offsets of the options that change.
    source_route: Option<u8>,
    record_route: Option<u8>,
    timestamp: Option<u8>,
    wants_address: bool,
    wants_time: bool,
}

impl Default for Prepared {
    /// None.
    fn default() -> Prepared {
        Prepared {
            bytes: [0; OPTIONS_LEN_MAX],
            len: 0,
            first_hop: None,
            source_route: None,
            record_route: None,
            timestamp: None,
            wants_address: false,
            wants_time: false,
        }
    }
}

impl Prepared {
    /// Checks what a program gives (`__ip_options_compile` without a packet). `None`: malformed, or longer than 40 bytes. `is_own` tells this
    /// node's addresses.
    pub fn new(given: &[u8], is_own: impl Fn(Ipv4Addr) -> bool) -> Option<Prepared> {
        let mut out = Prepared { len: u8::try_from(given.len().next_multiple_of(4)).ok()?, ..Prepared::default() };
        out.bytes.get_mut(..given.len())?.copy_from_slice(given);
        let mut at = 0;
        let mut seen = [0u8; 2];
        while at < out.len() {
            match out.bytes[at] {
                kind::END => {
                    out.bytes[at..].fill(kind::END);
                    break;
                }
                kind::NOP => at += 1,
                what => {
                    let length = usize::from(*out.bytes.get(at + 1)?);
                    if length < 2 || at + length > out.len() {
                        return None;
                    }
                    // "if (opt->rr) goto error", "if (opt->ts) goto error": full ones too.
                    for (count, of) in seen.iter_mut().zip([kind::RECORD_ROUTE, kind::TIMESTAMP]) {
                        *count += u8::from(what == of);
                    }
                    if seen.iter().any(|count| *count > 1) {
                        return None;
                    }
                    out.take(what, at, length, &is_own)?;
                    at += length;
                }
            }
        }
        Some(out)
    }

    /// One option of `length` bytes.
    fn take(&mut self, what: u8, at: usize, length: usize, is_own: impl Fn(Ipv4Addr) -> bool) -> Option<()> {
        let place = Some(at as u8);
        let option = self.bytes.get_mut(at..at + length)?;
        match what {
            kind::LOOSE_SOURCE_ROUTE | kind::STRICT_SOURCE_ROUTE => {
                // "if (optptr[2] != 4 || optlen < 7 || ((optlen-3) & 3))"
                if length < 7 || option[2] != 4 || !(length - 3).is_multiple_of(4) || self.source_route.is_some() {
                    return None;
                }
                self.first_hop = address(option, 3);
                option.copy_within(7.., 3);
                self.source_route = place;
            }
            kind::RECORD_ROUTE => {
                if length < 3 || option[2] < 4 {
                    return None;
                }
                let pointer = usize::from(option[2]);
                if pointer <= length {
                    if pointer + 3 > length {
                        return None;
                    }
                    option[2] += 4;
                    self.record_route = place;
                }
            }
            kind::TIMESTAMP => return self.take_timestamp(at, length, is_own),
            kind::ROUTER_ALERT if length < 4 => return None,
            _ => {}
        }
        Some(())
    }

    fn take_timestamp(&mut self, at: usize, length: usize, is_own: impl Fn(Ipv4Addr) -> bool) -> Option<()> {
        let option = self.bytes.get_mut(at..at + length)?;
        if length < 4 || option[2] < 5 {
            return None;
        }
        let pointer = usize::from(option[2]);
        if pointer > length {
            return (option[3] >> 4 != 15).then_some(());
        }
        let flag = option[3] & 0xf;
        let slot = if matches!(flag, TIMES_AND_ADDRESSES | PRESPECIFIED) { 8 } else { 4 };
        if pointer + slot - 1 > length {
            return None;
        }
        self.timestamp = Some(at as u8);
        match flag {
            TIMES_ONLY => self.wants_time = true,
            TIMES_AND_ADDRESSES => (self.wants_address, self.wants_time) = (true, true),
            // "if (inet_addr_type(net, addr) == RTN_UNICAST) break;": another host is to stamp it first.
            PRESPECIFIED if address(option, pointer - 1).is_some_and(is_own) => self.wants_time = true,
            _ => return Some(()),
        }
        option[2] += slot as u8;
        Some(())
    }

    /// Length in a header, bytes: a multiple of four.
    pub fn len(&self) -> usize {
        usize::from(self.len)
    }
    /// There are none.
    pub fn is_empty(&self) -> bool {
        self.len == 0
    }
    /// Where packets are sent instead of their destination: the first hop of a source route.
    pub fn first_hop(&self) -> Option<Ipv4Addr> {
        self.first_hop
    }

    /// What the program gave (`ip_options_undo`), padded.
    pub fn given(&self) -> ArrayVec<u8, OPTIONS_LEN_MAX> {
        let mut out: ArrayVec<u8, OPTIONS_LEN_MAX> = self.bytes.iter().copied().take(self.len()).collect();
        if let (Some(at), Some(hop)) = (self.source_route, self.first_hop) {
            let at = usize::from(at);
            let length = usize::from(out[at + 1]);
            out.copy_within(at + 3..at + length - 4, at + 7);
            out[at + 3..at + 7].copy_from_slice(&hop.octets());
        }
        if let Some(at) = self.record_route {
            step_back(&mut out[usize::from(at)..], 4, 4);
        }
        if let Some(option) = self.timestamp.and_then(|at| out.get_mut(usize::from(at)..)) {
            let prespecified = option[3] & 0xf == PRESPECIFIED;
            if self.wants_time {
                step_back(option, 4, 4);
            }
            if self.wants_time && prespecified || self.wants_address {
                step_back(option, 4, if prespecified { 0 } else { 4 });
            }
        }
        out
    }

    /// The bytes of a packet from `source`, sent at `time` (milliseconds since midnight) to `destination` in the end (`ip_options_build`).
    pub fn write(&self, source: Ipv4Addr, destination: Ipv4Addr, time: u32) -> ArrayVec<u8, OPTIONS_LEN_MAX> {
        let mut out: ArrayVec<u8, OPTIONS_LEN_MAX> = self.bytes.iter().copied().take(self.len()).collect();
        let mut put = |at: usize, bytes: [u8; 4]| {
            if let Some(slot) = out.get_mut(at..at + 4) {
                slot.copy_from_slice(&bytes);
            }
        };
        let field = |at: u8, of: usize| usize::from(self.bytes.get(usize::from(at) + of).copied().unwrap_or(0));
        if let Some(at) = self.source_route {
            put(usize::from(at) + field(at, 1) - 4, destination.octets());
        }
        if let Some(at) = self.record_route {
            put(usize::from(at) + field(at, 2) - 5, source.octets());
        }
        if let Some(at) = self.timestamp {
            let next = usize::from(at) + field(at, 2);
            if self.wants_address {
                put(next - 9, source.octets());
            }
            if self.wants_time {
                put(next - 5, time.to_be_bytes());
            }
        }
        out
    }

    /// The options with which a packet is answered (`ip_options_echo`): routes and timestamps with room for the way back, a source route the
    /// other way round. `received` are its options with this node's own entry in them, `from` its source. Other options are left out. `None`: there is nothing to send.
    pub fn answer(received: &[u8], from: Ipv4Addr, is_own: impl Fn(Ipv4Addr) -> bool) -> Option<Prepared> {
        let mut out = ArrayVec::<u8, OPTIONS_LEN_MAX>::new();
        // In Linux's order: record route, timestamp, source route.
        for wanted in [&[kind::RECORD_ROUTE][..], &[kind::TIMESTAMP], &[kind::LOOSE_SOURCE_ROUTE, kind::STRICT_SOURCE_ROUTE]] {
            let Some(option) = find(received, wanted) else { continue };
            match option[0] {
                kind::RECORD_ROUTE | kind::TIMESTAMP => out.try_extend_from_slice(option).ok()?,
                what => {
                    let route = reversed(option, from);
                    if !route.is_empty() {
                        out.try_extend_from_slice(&[what, route.len() as u8 + 3, 4]).ok()?;
                        out.try_extend_from_slice(&route).ok()?;
                    }
                }
            }
        }
        if out.is_empty() { None } else { Prepared::new(&out, is_own) }
    }
}

fn address(bytes: &[u8], at: usize) -> Option<Ipv4Addr> {
    Some(Ipv4Addr::from(*bytes.get(at..)?.first_chunk::<4>()?))
}

/// Moves an option's pointer back and empties the last of the bytes it passes.
fn step_back(option: &mut [u8], bytes: u8, emptied: usize) {
    option[2] = option[2].saturating_sub(bytes);
    let at = usize::from(option[2]).saturating_sub(1);
    if let Some(slot) = option.get_mut(at..at + emptied) {
        slot.fill(0);
    }
}

/// The first option of one of these kinds.
fn find<'a>(options: &'a [u8], wanted: &[u8]) -> Option<&'a [u8]> {
    let mut rest = options;
    loop {
        match rest {
            [] | [kind::END, ..] => return None,
            [kind::NOP, after @ ..] => rest = after,
            [what, length, ..] if *length >= 2 && usize::from(*length) <= rest.len() => {
                let (option, after) = rest.split_at(usize::from(*length));
                if wanted.contains(what) && option.len() >= 3 {
                    return Some(option);
                }
                rest = after;
            }
            _ => return None,
        }
    }
}

/// The addresses of a source route that was gone through, back to front, without the sender at the end (Linux: "RFC1812 requires to fix illegal
/// source routes.").
fn reversed(option: &[u8], from: Ipv4Addr) -> ArrayVec<u8, OPTIONS_LEN_MAX> {
    let (length, pointer) = (usize::from(option[1]), usize::from(option[2]));
    let passed = pointer.min(length + 1).saturating_sub(4) / 4;
    let mut hops: ArrayVec<Ipv4Addr, 9> = (0..passed).rev().filter_map(|at| address(option, 3 + at * 4)).take(9).collect();
    if hops.last() == Some(&from) {
        hops.pop();
    }
    hops.iter().flat_map(|hop| hop.octets()).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    const A: Ipv4Addr = Ipv4Addr::new(10, 0, 0, 1);
    const B: Ipv4Addr = Ipv4Addr::new(10, 0, 0, 2);

    fn made(given: &[u8]) -> Vec<u8> {
        Prepared::new(given, |_| false).expect("sound").write(A, B, 0x0102_0304).to_vec()
    }

    #[test]
    fn the_sender_takes_the_first_slot() {
        assert_eq!(made(&[7, 11, 4, 0, 0, 0, 0, 0, 0, 0, 0]), [7, 11, 8, 10, 0, 0, 1, 0, 0, 0, 0, 0]);
        assert_eq!(made(&[68, 8, 5, 0, 0, 0, 0, 0]), [68, 8, 9, 0, 1, 2, 3, 4]);
        assert_eq!(made(&[68, 12, 5, 1, 0, 0, 0, 0, 0, 0, 0, 0]), [68, 12, 13, 1, 10, 0, 0, 1, 1, 2, 3, 4]);
        assert_eq!(made(&[1, 148, 4, 0, 0]), [1, 148, 4, 0, 0, 0, 0, 0]);
        assert_eq!(made(&[7, 7, 8, 1, 2, 3, 4]), [7, 7, 8, 1, 2, 3, 4, 0], "full");
    }

    #[test]
    fn a_source_route_goes_to_its_first_hop_and_ends_at_the_destination() {
        let given = [131, 11, 4, 10, 0, 0, 7, 10, 0, 0, 8];
        let prepared = Prepared::new(&given, |_| false).expect("sound");
        assert_eq!(prepared.first_hop(), Some(Ipv4Addr::new(10, 0, 0, 7)));
        assert_eq!(prepared.write(A, B, 0).as_slice(), [131, 11, 4, 10, 0, 0, 8, 10, 0, 0, 2, 0]);
        assert_eq!(&prepared.given()[..11], given);
        assert!(Prepared::new(&[131, 11, 8, 0, 0, 0, 0, 0, 0, 0, 0], |_| false).is_none());
    }

    #[test]
    fn answers_go_back_the_way_and_have_room() {
        let came = [7, 11, 8, 10, 0, 0, 9, 0, 0, 0, 0, 0];
        let answer = Prepared::answer(&came, B, |_| false).expect("one");
        assert_eq!(answer.write(A, B, 0).as_slice(), [7, 11, 12, 10, 0, 0, 9, 10, 0, 0, 1, 0]);
        let came = [131, 11, 12, 10, 0, 0, 7, 10, 0, 0, 8, 0];
        let answer = Prepared::answer(&came, B, |_| false).expect("one");
        assert_eq!(answer.first_hop(), Some(Ipv4Addr::new(10, 0, 0, 8)));
        assert_eq!(&answer.given()[..11], [131, 11, 4, 10, 0, 0, 8, 10, 0, 0, 7]);
        assert!(Prepared::answer(&[1, 1, 148, 4, 0, 0, 0, 0], B, |_| false).is_none());
    }

    proptest! {
        #[test]
        fn any_bytes(given in proptest::collection::vec(any::<u8>(), 0..44), own in any::<bool>()) {
            if let Some(prepared) = Prepared::new(&given, |_| own) {
                let again = prepared.given();
                prop_assert_eq!(Prepared::new(&again, |_| own), Some(prepared));
                prop_assert_eq!(prepared.write(A, B, 7).len(), prepared.len());
            }
            let _ = Prepared::answer(&given, A, |_| own);
        }
    }
}
