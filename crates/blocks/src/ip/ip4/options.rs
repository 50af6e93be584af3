//! Options: what is wrong with them, what a router writes into them, and what of them a later fragment keeps.

use std::net::Ipv4Addr;
use weft_wire::ipv4::kind;

/// Why a packet with these options goes no further.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Problem {
    /// A source route. Linux ip_rcv_options with accept_source_route 0: dropped without a word.
    SourceRoute,
    /// The byte at this offset from the start of the options is wrong.
    Malformed(usize),
}

/// Where the options are that a router writes into, as offsets from the start of the options.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub(super) struct Found {
    pub record_route: Option<usize>,
    pub timestamp: Option<usize>,
}

/// Timestamp option: times only, with addresses, with addresses that the sender chose (RFC 791 §3.1).
const TIMES_ONLY: u8 = 0;
const TIMES_AND_ADDRESSES: u8 = 1;
const PRESPECIFIED: u8 = 3;
const SLOT_BYTES: u8 = 4;

/// Walks over options as Linux does: the offset of each, with its bytes. Ends at the first that has no sensible length.
struct Walk<'a> {
    options: &'a [u8],
    at: usize,
}

impl<'a> Iterator for Walk<'a> {
    type Item = Result<(usize, &'a [u8]), Problem>;

    fn next(&mut self) -> Option<Self::Item> {
        loop {
            let at = self.at;
            match self.options.get(at..) {
                None | Some([] | [kind::END, ..]) => return None,
                Some([kind::NOP, ..]) => self.at += 1,
                Some([_, length, ..]) if *length >= 2 && self.options.len() - at >= usize::from(*length) => {
                    self.at += usize::from(*length);
                    return Some(Ok((at, &self.options[at..self.at])));
                }
                // Linux __ip_options_compile points to the option, not to its length.
                Some(_) => {
                    self.at = self.options.len();
                    return Some(Err(Problem::Malformed(at)));
                }
            }
        }
    }
}

impl Walk<'_> {
    /// Where the list ends.
    fn end(mut self) -> usize {
        while self.next().is_some() {}
        self.at.min(self.options.len())
    }
}

fn walk(options: &[u8]) -> Walk<'_> {
    Walk { options, at: 0 }
}

/// The checks of Linux's __ip_options_compile.
pub(super) fn check(options: &[u8]) -> Result<Found, Problem> {
    let mut found = Found::default();
    let mut source_route = false;
    for step in walk(options) {
        let (at, option) = step?;
        // Bytes of type, length and what a pointer counts from.
        let needs = |bytes: usize, pointer_min: u8| match option {
            [_, length, ..] if usize::from(*length) < bytes => Err(Problem::Malformed(at + 1)),
            [_, _, pointer, ..] if *pointer < pointer_min => Err(Problem::Malformed(at + 2)),
            _ => Ok(()),
        };
        match option[0] {
            kind::LOOSE_SOURCE_ROUTE | kind::STRICT_SOURCE_ROUTE => {
                needs(3, 4)?;
                if std::mem::replace(&mut source_route, true) {
                    return Err(Problem::Malformed(at));
                }
            }
            kind::RECORD_ROUTE => {
                if found.record_route.replace(at).is_some() {
                    return Err(Problem::Malformed(at));
                }
                needs(3, 4)?;
                check_slot(at, option, SLOT_BYTES)?;
            }
            kind::TIMESTAMP => {
                if found.timestamp.replace(at).is_some() {
                    return Err(Problem::Malformed(at));
                }
                needs(4, 5)?;
                check_timestamp(at, option)?;
            }
            kind::ROUTER_ALERT => needs(4, 0)?,
            _ => {}
        }
    }
    if source_route { Err(Problem::SourceRoute) } else { Ok(found) }
}

/// Is there room for a whole slot, if there is any?
fn check_slot(at: usize, option: &[u8], bytes: u8) -> Result<(), Problem> {
    let (length, pointer) = (usize::from(option[1]), usize::from(option[2]));
    if pointer <= length && pointer + usize::from(bytes) - 1 > length { Err(Problem::Malformed(at + 2)) } else { Ok(()) }
}

fn check_timestamp(at: usize, option: &[u8]) -> Result<(), Problem> {
    check_slot(at, option, SLOT_BYTES)?;
    let flag = option[3] & 0xf;
    if matches!(flag, TIMES_AND_ADDRESSES | PRESPECIFIED) {
        check_slot(at, option, 2 * SLOT_BYTES)?;
    }
    // The count of routers that found no room is full: RFC 791 §3.1 has such a packet discarded, with a parameter problem.
    let full = option[2] > option[1] && flag != PRESPECIFIED && option[3] >> 4 == 15;
    if full { Err(Problem::Malformed(at + 3)) } else { Ok(()) }
}

/// What a router writes.
#[derive(Clone, Copy, Debug)]
pub(super) struct Stamp {
    /// Into a record route: its address on the way on.
    pub onward: Ipv4Addr,
    /// Into a timestamp: its address on the way back. (Linux: spec_dst; measured, docs/linux-notes/ip.md.)
    pub back: Ipv4Addr,
    /// Into a timestamp: milliseconds since midnight UT.
    pub time: u32,
}

/// Writes this router's address and time into options that [`check`] has passed. `is_own` tells addresses of this node.
///
/// Linux __ip_options_compile and ip_forward_options.
pub(super) fn record(options: &mut [u8], found: Found, stamp: Stamp, is_own: impl Fn(Ipv4Addr) -> bool) {
    // "if (*optptr != IPOPT_END) { *optptr = IPOPT_END; opt->is_changed = 1; }": what is behind the end is none of anybody's.
    let end = walk(options).end();
    options[end..].fill(kind::END);
    if let Some(option) = found.record_route.and_then(|at| options.get_mut(at..)) {
        write_slot(option, &stamp.onward.octets());
    }
    let time = stamp.time;
    let Some(option) = found.timestamp.and_then(|at| options.get_mut(at..)) else { return };
    let (length, pointer, flag) = (option[1], option[2], option[3] & 0xf);
    if pointer > length {
        // RFC 791 §3.1: "If the timestamp data area is already full … the datagram is forwarded without inserting the timestamp, but the
        // overflow count is incremented by one."
        if flag != PRESPECIFIED {
            option[3] = option[3].wrapping_add(0x10);
        }
        return;
    }
    let both = || [stamp.back.octets(), time.to_be_bytes()].concat();
    match flag {
        TIMES_ONLY => write_slot(option, &time.to_be_bytes()),
        TIMES_AND_ADDRESSES => write_slot(option, &both()),
        PRESPECIFIED => {
            let at = usize::from(pointer) - 1;
            let asked = option.get(at..at + 4).and_then(|bytes| <[u8; 4]>::try_from(bytes).ok()).map(Ipv4Addr::from);
            if let Some(asked) = asked.filter(|asked| is_own(*asked)) {
                write_slot(option, &[asked.octets(), time.to_be_bytes()].concat());
            }
        }
        _ => {}
    }
}

/// Fills the next slot of an option and moves its pointer, if there is room.
fn write_slot(option: &mut [u8], bytes: &[u8]) {
    let (length, pointer) = (usize::from(option[1]), usize::from(option[2]));
    if pointer == 0 || pointer > length {
        return;
    }
    if let Some(slot) = option.get_mut(pointer - 1..pointer - 1 + bytes.len()) {
        slot.copy_from_slice(bytes);
        option[2] = (pointer + bytes.len()) as u8;
    }
}

/// Makes a first fragment's options those of a later one: what is not to be copied becomes padding (Linux ip_options_fragment), so that the
/// header keeps its length.
pub(super) fn keep_copied(options: &mut [u8]) {
    let spans: Vec<(usize, usize)> = walk(options)
        .map_while(Result::ok)
        .filter(|(_, option)| !kind::is_copied(option[0]))
        .map(|(at, option)| (at, option.len()))
        .collect();
    for (at, length) in spans {
        options[at..at + length].fill(kind::NOP);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    const ROUTER: Ipv4Addr = Ipv4Addr::new(10, 9, 8, 7);
    const BACK: Ipv4Addr = Ipv4Addr::new(10, 9, 8, 9);
    const STAMP: Stamp = Stamp { onward: ROUTER, back: BACK, time: 0x8000_0102 };

    fn recorded(options: &[u8]) -> Vec<u8> {
        let mut out = options.to_vec();
        record(&mut out, check(options).unwrap(), STAMP, |address| address == ROUTER);
        out
    }

    #[test]
    fn a_router_writes_its_address_and_time_where_there_is_room() {
        assert_eq!(recorded(&[7, 7, 4, 0, 0, 0, 0]), [7, 7, 8, 10, 9, 8, 7]);
        assert_eq!(recorded(&[1, 7, 11, 8, 1, 2, 3, 4, 0, 0, 0, 0]), [1, 7, 11, 12, 1, 2, 3, 4, 10, 9, 8, 7]);
        assert_eq!(recorded(&[7, 7, 8, 1, 2, 3, 4]), [7, 7, 8, 1, 2, 3, 4], "full");
        assert_eq!(recorded(&[68, 8, 5, 0, 0, 0, 0, 0]), [68, 8, 9, 0, 0x80, 0, 1, 2]);
        assert_eq!(recorded(&[68, 8, 9, 0, 1, 1, 1, 1]), [68, 8, 9, 0x10, 1, 1, 1, 1], "full: counted");
        assert_eq!(recorded(&[68, 12, 5, 1, 0, 0, 0, 0, 0, 0, 0, 0]), [68, 12, 13, 1, 10, 9, 8, 9, 0x80, 0, 1, 2]);
        assert_eq!(recorded(&[68, 12, 5, 3, 10, 9, 8, 7, 0, 0, 0, 0]), [68, 12, 13, 3, 10, 9, 8, 7, 0x80, 0, 1, 2]);
        assert_eq!(recorded(&[68, 12, 5, 3, 10, 9, 8, 6, 0, 0, 0, 0]), [68, 12, 5, 3, 10, 9, 8, 6, 0, 0, 0, 0], "another's turn");
        assert_eq!(recorded(&[1, 0, 7, 9]), [1, 0, 0, 0], "what is behind the end");
        assert_eq!(recorded(&[68, 12, 13, 3, 1, 1, 1, 1, 2, 2, 2, 2]), [68, 12, 13, 3, 1, 1, 1, 1, 2, 2, 2, 2]);
    }

    #[test]
    fn what_is_malformed_is_pointed_at() {
        let rows: &[(&[u8], Problem)] = &[
            (&[7], Problem::Malformed(0)),
            (&[1, 7, 1, 4], Problem::Malformed(1)),
            (&[7, 9, 4, 0], Problem::Malformed(0)),
            (&[7, 2, 0, 0], Problem::Malformed(1)),
            (&[7, 7, 3, 0, 0, 0, 0], Problem::Malformed(2)),
            (&[7, 7, 5, 0, 0, 0, 0], Problem::Malformed(2)),
            (&[7, 3, 4, 7, 3, 4], Problem::Malformed(3)),
            (&[68, 3, 5], Problem::Malformed(1)),
            (&[68, 8, 4, 0, 0, 0, 0, 0], Problem::Malformed(2)),
            (&[68, 8, 5, 1, 0, 0, 0, 0], Problem::Malformed(2)),
            (&[68, 8, 9, 0xf0, 0, 0, 0, 0], Problem::Malformed(3)),
            (&[148, 3, 0], Problem::Malformed(1)),
            (&[131, 3, 4], Problem::SourceRoute),
            (&[137, 3, 4, 131, 3, 4], Problem::Malformed(3)),
            (&[131, 3, 4, 99, 9], Problem::Malformed(3)),
        ];
        for (options, expected) in rows {
            assert_eq!(check(options), Err(*expected), "{options:?}");
        }
        for fine in [&[][..], &[1, 1, 0, 99, 1], &[99, 2], &[130, 4, 1, 2], &[148, 4, 0, 0]] {
            assert_eq!(check(fine), Ok(Found::default()), "{fine:?}");
        }
    }

    #[test]
    fn later_fragments_keep_what_has_the_copied_bit() {
        let mut options = [7, 7, 4, 0, 0, 0, 0, 130, 3, 9, 1, 68, 4, 5, 0, 148, 4, 0, 0, 0];
        keep_copied(&mut options);
        assert_eq!(options, [1, 1, 1, 1, 1, 1, 1, 130, 3, 9, 1, 1, 1, 1, 1, 148, 4, 0, 0, 0]);
    }

    proptest! {
        #[test]
        fn any_bytes(options in proptest::collection::vec(any::<u8>(), 0..40)) {
            let mut out = options.clone();
            if let Ok(found) = check(&options) {
                record(&mut out, found, STAMP, |_| true);
                prop_assert!(check(&out).is_ok() || found.timestamp.is_some_and(|at| out[at + 3] >> 4 == 15));
            }
            let mut out = options.clone();
            keep_copied(&mut out);
            let copied = |bytes: &[u8]| walk(bytes).map_while(Result::ok).filter(|(_, o)| kind::is_copied(o[0])).map(|(at, o)| (at, o.to_vec())).collect::<Vec<_>>();
            prop_assert_eq!(copied(&out), copied(&options));
        }
    }
}
