use super::*;
use proptest::prelude::*;
use weft_core::{BlockId, Bytes, Completion, Rng, State};

const HEADER: usize = 20;

fn fresh(limits: Limits) -> Reassembly {
    Reassembly::new(limits, KeyedHasher::new(&mut Rng::for_name(1, "reassembly")))
}

fn key(identification: u32) -> Key {
    Key { src: [10, 0, 0, 2].into(), dst: [10, 0, 0, 1].into(), identification, protocol: Protocol::UDP, interface: InterfaceIndex::NONE }
}

fn at(seconds: u64) -> Instant {
    Instant::ZERO + Duration::from_secs(seconds)
}

/// What the byte at this place of a payload is.
fn byte(at: usize) -> u8 {
    (at * 7 / 3) as u8
}

/// A header of `0xaa…` and the bytes `start..end` of the payload.
fn fragment(start: usize, end: usize, more: bool) -> (Fragment, Frame) {
    let mut bytes = vec![0xaa; HEADER];
    bytes.extend((start..end).map(byte));
    let fragment = Fragment { offset: start, more, header_len: HEADER, ecn: Ecn::NotCapable, dont_fragment: false };
    (fragment, Frame::ingress(&bytes))
}

struct Traffic(Reassembly);

impl Traffic {
    fn sends(&mut self, start: usize, end: usize, more: bool) -> Inserted {
        let (fragment, mut frame) = fragment(start, end, more);
        self.0.insert(at(1), key(1), fragment, &mut frame)
    }
    fn completes(&mut self, start: usize, end: usize, more: bool) -> Vec<u8> {
        let (fragment, mut frame) = fragment(start, end, more);
        assert!(matches!(self.0.insert(at(1), key(1), fragment, &mut frame), Inserted::Complete(_)));
        assert_eq!(frame.to_vec()[..HEADER], [0xaa; HEADER]);
        frame.to_vec().split_off(HEADER)
    }
}

fn traffic() -> Traffic {
    Traffic(fresh(Limits::V4))
}

const OVERLAP: Inserted = Inserted::Refused(Refusal::Overlap);
const DUPLICATE: Inserted = Inserted::Refused(Refusal::Duplicate);
const CONTRADICTION: Inserted = Inserted::Refused(Refusal::Contradiction);

#[test]
fn fragments_in_any_order_become_the_packet() {
    let parts = [(0, 16, true), (16, 24, true), (24, 48, true), (48, 51, false)];
    for order in [[0, 1, 2, 3], [3, 2, 1, 0], [2, 0, 3, 1], [1, 3, 0, 2]] {
        let mut traffic = traffic();
        for index in &order[..3] {
            let (start, end, more) = parts[*index];
            assert_eq!(traffic.sends(start, end, more), Inserted::Kept);
        }
        let (start, end, more) = parts[order[3]];
        assert_eq!(traffic.completes(start, end, more), (0..51).map(byte).collect::<Vec<u8>>());
        assert!(traffic.0.is_empty() && traffic.0.memory_bytes() == 0 && traffic.0.next_deadline().is_none());
        assert_eq!(*traffic.0.counts(), Counts { requested: 4, completed: 1, ..Counts::default() });
    }
}

#[test]
fn an_overlap_discards_the_packet_and_a_duplicate_nothing() {
    type Span = (usize, usize);
    // (what is there, what comes, what it is)
    let rows: &[(&[Span], Span, Inserted)] = &[
        (&[(0, 16)], (0, 16), DUPLICATE),
        (&[(0, 16)], (8, 16), DUPLICATE),
        (&[(0, 16)], (8, 24), OVERLAP),
        (&[(16, 32)], (8, 24), OVERLAP),
        (&[(16, 32)], (8, 40), OVERLAP),
        (&[(16, 32)], (8, 32), OVERLAP),
        // One run, because they came in order: all of it is there.
        (&[(0, 16), (16, 32)], (8, 24), DUPLICATE),
        (&[(0, 16), (16, 32)], (0, 32), DUPLICATE),
        // Two runs, because they did not.
        (&[(16, 32), (0, 16)], (8, 24), OVERLAP),
        (&[(16, 32), (0, 16)], (0, 32), OVERLAP),
        (&[(0, 8), (16, 24), (32, 40)], (8, 16), Inserted::Kept),
        (&[(0, 8), (16, 24), (32, 40)], (8, 24), OVERLAP),
    ];
    for (there, (start, end), expected) in rows {
        let mut traffic = traffic();
        for (start, end) in *there {
            assert_eq!(traffic.sends(*start, *end, true), Inserted::Kept);
        }
        assert_eq!(traffic.sends(*start, *end, true), *expected, "{there:?} then {start}..{end}");
        assert_eq!(traffic.0.is_empty(), *expected == OVERLAP);
        let counts = traffic.0.counts();
        assert_eq!((counts.failed, counts.overlaps), (u64::from(*expected == OVERLAP), u64::from(*expected == OVERLAP)));
    }
}

#[test]
fn ends_that_contradict_each_other_discard_the_packet() {
    // Behind the last; a second last one elsewhere, beyond and before; nothing at all; nothing once cut to a multiple of eight.
    for (start, end, more) in [(32, 40, true), (24, 40, false), (8, 16, false), (8, 8, true), (8, 15, true), (8, 8, false)] {
        let mut traffic = traffic();
        assert_eq!(traffic.sends(24, 32, false), Inserted::Kept);
        assert_eq!(traffic.sends(start, end, more), CONTRADICTION, "{start}..{end} {more}");
        assert!(traffic.0.is_empty());
        assert_eq!(traffic.0.counts().failed, 1);
    }
    // The same last one again is a duplicate, and bytes beyond a multiple of eight count only in the last.
    let mut traffic = traffic();
    assert_eq!(traffic.sends(16, 21, false), Inserted::Kept);
    assert_eq!(traffic.sends(16, 21, false), DUPLICATE);
    assert_eq!(traffic.completes(0, 19, true).len(), 21);
}

#[test]
fn no_packet_is_larger_than_ip_allows() {
    let mut traffic = traffic();
    assert_eq!(traffic.sends(65_528, 65_536, false), Inserted::Refused(Refusal::TooLong));
    assert_eq!(traffic.sends(0, 65_512, true), Inserted::Kept);
    assert_eq!(traffic.completes(65_512, 65_515, false).len(), 65_515);
    // The first header counts: with options the same payload is too much.
    let mut reassembly = fresh(Limits::V4);
    let (last, mut frame) = fragment(65_000, 65_515, false);
    assert_eq!(reassembly.insert(at(1), key(1), last, &mut frame), Inserted::Kept);
    let (first, mut frame) = fragment(0, 65_004, true);
    let first = Fragment { header_len: HEADER + 4, ..first };
    assert_eq!(reassembly.insert(at(1), key(1), first, &mut frame), Inserted::Refused(Refusal::TooLong));
    assert!(reassembly.is_empty());
}

#[test]
fn what_takes_too_long_is_given_up_with_its_first_fragment() {
    let mut reassembly = fresh(Limits::V4);
    let mut sends = |seconds: u64, identification: u32, start: usize| {
        let (fragment, mut frame) = fragment(start, start + 8, true);
        reassembly.insert(at(seconds), key(identification), fragment, &mut frame)
    };
    // The time counts from the fragment that came first, whichever it is; later ones do not renew it.
    assert_eq!(sends(1, 1, 8), Inserted::Kept);
    assert_eq!(sends(20, 1, 0), Inserted::Kept);
    assert_eq!(sends(5, 2, 8), Inserted::Kept);
    assert_eq!(reassembly.next_deadline(), Some(at(31)));
    assert!(reassembly.expire(at(30)).is_none());
    let expired = reassembly.expire(at(40)).unwrap();
    assert_eq!((expired.key, expired.first.unwrap().len()), (key(1), HEADER + 8));
    let expired = reassembly.expire(at(40)).unwrap();
    assert_eq!((expired.key, expired.first.is_none()), (key(2), true), "nobody hears of a packet whose first fragment is missing");
    assert!(reassembly.expire(at(40)).is_none() && reassembly.is_empty());
    assert_eq!(*reassembly.counts(), Counts { requested: 3, failed: 2, timed_out: 2, ..Counts::default() });
    assert_eq!(Limits::V6.timeout, Duration::from_secs(60));
}

#[test]
fn memory_is_bounded_and_what_is_there_stays() {
    let mut reassembly = fresh(Limits { memory_bytes_max: 100_000, ..Limits::V4 });
    let mut refused = 0;
    for identification in 0..1000 {
        let (fragment, mut frame) = fragment(8, 1008, true);
        match reassembly.insert(at(1), key(identification), fragment, &mut frame) {
            Inserted::Kept => assert_eq!(refused, 0, "none is evicted for it"),
            Inserted::Refused(Refusal::NoMemory) => refused += 1,
            other => panic!("{other:?}"),
        }
        assert!(reassembly.memory_bytes() <= 100_000 + PACKET_CHARGE_BYTES + FRAGMENT_CHARGE_BYTES + 1000);
    }
    assert_eq!((refused + reassembly.len(), reassembly.counts().failed), (1000, refused as u64));
    while reassembly.expire(at(31)).is_some() {}
    assert_eq!((reassembly.memory_bytes(), reassembly.sources.len(), reassembly.deadlines.len()), (0, 0, 0));
    let mut none = fresh(Limits { memory_bytes_max: 0, ..Limits::V4 });
    let (first, mut frame) = fragment(0, 8, true);
    assert_eq!(none.insert(at(1), key(1), first, &mut frame), Inserted::Refused(Refusal::NoMemory));
    assert_eq!(frame.len(), HEADER + 8, "what is refused stays as it was");
}

#[test]
fn fragments_of_one_packet_are_bounded() {
    let mut traffic = Traffic(fresh(Limits { fragments_max: 3, ..Limits::V4 }));
    for start in [0, 16, 32] {
        assert_eq!(traffic.sends(start, start + 8, true), Inserted::Kept);
    }
    assert_eq!(traffic.sends(48, 56, true), Inserted::Refused(Refusal::TooMany));
    assert!(traffic.0.is_empty() && traffic.0.memory_bytes() == 0);
    // The largest packet, cut for the smallest link, passes.
    let mut traffic = self::traffic();
    let starts: Vec<usize> = (0..65_515).step_by(48).collect();
    for start in &starts[..starts.len() - 1] {
        assert_eq!(traffic.sends(*start, start + 48, true), Inserted::Kept);
    }
    assert_eq!(traffic.completes(starts[starts.len() - 1], 65_515, false), (0..65_515).map(byte).collect::<Vec<u8>>());
}

#[test]
fn a_packet_starts_again_when_its_source_has_sent_many_others_since() {
    for (others, distance_max, restarts) in [(63, Some(64), false), (64, Some(64), true), (64, None, false), (64, Some(0), false)] {
        let mut reassembly = fresh(Limits { distance_max, ..Limits::V4 });
        let mut sends = |identification: u32, start: usize, end: usize, more: bool| {
            let (fragment, mut frame) = fragment(start, end, more);
            reassembly.insert(at(1), key(identification), fragment, &mut frame)
        };
        assert_eq!(sends(1, 0, 8, true), Inserted::Kept);
        for identification in 0..others {
            sends(100 + identification, 0, 8, true);
        }
        let outcome = sends(1, 8, 16, false);
        assert_eq!(outcome == Inserted::Kept, restarts, "{others} {distance_max:?}");
        assert_eq!(reassembly.counts().failed, u64::from(restarts));
    }
    // Fragments of another source do not count.
    let mut reassembly = fresh(Limits::V4);
    let mut sends = |source: u8, identification: u32, start: usize, more: bool| {
        let (fragment, mut frame) = fragment(start, start + 8, more);
        reassembly.insert(at(1), Key { src: [10, 0, 1, source].into(), ..key(identification) }, fragment, &mut frame)
    };
    sends(1, 1, 0, true);
    for identification in 0..100 {
        sends(2, identification, 0, true);
    }
    assert!(matches!(sends(1, 1, 8, false), Inserted::Complete(_)));
}

#[test]
fn congestion_marks_are_not_lost_and_mixtures_are_discarded() {
    use Ecn::{Capable0, Capable1, CongestionExperienced, NotCapable};
    for (first, second, expected) in [
        (NotCapable, NotCapable, Some(false)),
        (Capable0, Capable0, Some(false)),
        (Capable0, Capable1, Some(false)),
        (Capable0, CongestionExperienced, Some(true)),
        (CongestionExperienced, Capable1, Some(true)),
        (CongestionExperienced, CongestionExperienced, Some(true)),
        (NotCapable, CongestionExperienced, None),
        (Capable0, NotCapable, None),
        (NotCapable, Capable1, None),
    ] {
        let mut reassembly = fresh(Limits::V4);
        let (one, mut frame) = fragment(0, 8, true);
        assert_eq!(reassembly.insert(at(1), key(1), Fragment { ecn: first, ..one }, &mut frame), Inserted::Kept);
        let (two, mut frame) = fragment(8, 16, false);
        match reassembly.insert(at(1), key(1), Fragment { ecn: second, ..two }, &mut frame) {
            Inserted::Complete(whole) => assert_eq!(Some(whole.congestion_experienced), expected),
            Inserted::Refused(Refusal::EcnMixed) => assert_eq!(expected, None),
            other => panic!("{other:?}"),
        }
        assert!(reassembly.is_empty());
    }
}

#[test]
fn the_bit_of_the_largest_fragment_is_the_packets() {
    for (first, second, expected) in [(true, true, true), (true, false, true), (false, true, false), (false, false, false)] {
        let mut reassembly = fresh(Limits::V4);
        let (one, mut frame) = fragment(0, 32, true);
        reassembly.insert(at(1), key(1), Fragment { dont_fragment: first, ..one }, &mut frame);
        let (two, mut frame) = fragment(32, 40, false);
        let outcome = reassembly.insert(at(1), key(1), Fragment { dont_fragment: second, ..two }, &mut frame);
        assert!(matches!(outcome, Inserted::Complete(Whole { dont_fragment, .. }) if dont_fragment == expected));
    }
}

#[test]
fn packets_are_told_apart_by_every_part_of_the_key() {
    let others = [
        Key { src: [10, 0, 0, 3].into(), ..key(1) },
        Key { dst: [10, 0, 0, 9].into(), ..key(1) },
        Key { protocol: Protocol::ICMP, ..key(1) },
        Key { interface: InterfaceIndex(7), ..key(1) },
        key(2),
    ];
    let mut reassembly = fresh(Limits::V4);
    let (first, mut frame) = fragment(0, 8, true);
    reassembly.insert(at(1), key(1), first, &mut frame);
    for other in others {
        let (last, mut frame) = fragment(8, 16, false);
        assert_eq!(reassembly.insert(at(1), other, last, &mut frame), Inserted::Kept);
    }
    assert_eq!(reassembly.len(), 6);
}

#[test]
fn payload_is_shared_when_short_and_copied_when_it_could_hold_a_large_block() {
    let mut reassembly = fresh(Limits::V4);
    let block = Bytes::from(vec![5u8; 100_000]);
    for (start, end, more, shared) in [(0usize, 1480usize, true, true), (1480, 9480, true, false), (9480, 10_000, false, true)] {
        let (fragment, _) = fragment(start, end, more);
        let mut frame = Frame::ingress_parts(&[0xaa; HEADER], block.slice(start..end));
        let outcome = reassembly.insert(at(1), key(1), fragment, &mut frame);
        if let Inserted::Complete(_) = outcome {
            let shares: Vec<bool> = frame.tail().iter().map(|slice| block.as_ptr_range().contains(&slice.as_ptr())).collect();
            assert_eq!((shares, frame.len()), (vec![true, false, true], HEADER + 10_000));
        } else {
            assert_eq!((outcome, shared || more), (Inserted::Kept, true));
        }
    }
    assert_eq!(reassembly.counts().completed, 1);
}

const AT: u64 = 9;

fn state_of(write: impl FnOnce(&mut Writer)) -> State {
    let mut out = Writer::new(at(AT));
    write(&mut out);
    out.finish("fragments", 1)
}

fn read(state: &State, limits: Limits) -> Result<Reassembly, Damage> {
    let mut from = Reader::new(state, "fragments", 1, at(AT)).unwrap();
    let read = fresh(limits).read(&mut from, |key, _| key.protocol == Protocol::UDP)?;
    from.finish().map(|()| read)
}

fn written(reassembly: &Reassembly) -> State {
    state_of(|out| reassembly.write(out))
}

fn handed_over(reassembly: &Reassembly, limits: Limits) -> Result<Reassembly, Damage> {
    let mut successor = read(&written(reassembly), limits)?;
    successor.set_counts(*reassembly.counts());
    Ok(successor)
}

/// A packet as it stands in state.
#[derive(Clone)]
struct Written {
    key: Key,
    deadline: Instant,
    /// Bytes of the first fragment and of its header.
    first: Option<(usize, usize)>,
    completion: bool,
    /// Where runs start, and the bytes of their slices.
    runs: Vec<(usize, Vec<usize>)>,
    last_in: bool,
    fragments: usize,
    codepoints: u8,
    largest: usize,
    largest_unfragmentable: usize,
}

impl Written {
    /// 0..8, 16..32 and the last, 40..47.
    fn usual() -> Written {
        Written {
            key: key(1),
            deadline: at(20),
            first: Some((28, 20)),
            completion: false,
            runs: vec![(0, vec![]), (16, vec![8, 8]), (40, vec![7])],
            last_in: true,
            fragments: 4,
            codepoints: 1,
            largest: 28,
            largest_unfragmentable: 0,
        }
    }
    fn write(&self, out: &mut Writer) {
        out.put(&self.key);
        out.put(&self.deadline);
        out.put(&0u32);
        out.put(&self.first.map(|(bytes, header)| {
            let mut frame = Frame::ingress(&vec![0; bytes]);
            frame.meta_mut().completion = self.completion.then_some(Completion { block: BlockId(1), token: 1, bytes: 1 });
            (frame, header)
        }));
        let slices = |bytes: &Vec<usize>| bytes.iter().map(|bytes| Bytes::from(vec![0; *bytes])).collect::<Vec<Bytes>>();
        out.put(&self.runs.iter().map(|(start, bytes)| (*start, slices(bytes))).collect::<Vec<_>>());
        out.put(&self.last_in);
        out.put(&self.fragments);
        out.put(&self.codepoints);
        out.put(&self.largest);
        out.put(&self.largest_unfragmentable);
    }
}

#[test]
fn what_waits_goes_to_a_successor_with_its_deadline() {
    let mut reassembly = fresh(Limits::V4);
    let mut sends = |seconds: u64, identification: u32, start: usize| {
        let (fragment, mut frame) = fragment(start, start + 8, true);
        assert_eq!(reassembly.insert(at(seconds), key(identification), fragment, &mut frame), Inserted::Kept);
    };
    sends(1, 1, 8);
    sends(1, 2, 16);
    sends(1, 2, 0);
    sends(5, 3, 0);
    sends(8, 1, 24);
    let mut successor = handed_over(&reassembly, Limits::V4).unwrap();
    assert_eq!((successor.len(), successor.memory_bytes()), (3, 3 * PACKET_CHARGE_BYTES + 5 * (FRAGMENT_CHARGE_BYTES + 8)));
    assert_eq!((successor.next_deadline(), successor.memory_bytes()), (Some(at(31)), reassembly.memory_bytes()));
    let expired: Vec<(u32, bool)> =
        std::iter::from_fn(|| successor.expire(at(40))).map(|gone| (gone.key.identification, gone.first.is_some())).collect();
    assert_eq!(expired, [(1, false), (2, true), (3, true)], "in the order in which their first fragments came");
    assert_eq!(*successor.counts(), Counts { requested: 5, failed: 3, timed_out: 3, ..Counts::default() });
    assert!(successor.memory_bytes() == 0 && successor.sources.is_empty());
}

#[test]
fn state_that_no_fragments_lead_to_is_refused() {
    let one = |packet: &Written| {
        state_of(|out| {
            out.number(1);
            packet.write(out);
        })
    };
    let usual = one(&Written::usual());
    let taken = read(&usual, Limits::V4).unwrap();
    assert_eq!((taken.memory_bytes(), written(&taken) == usual), (PACKET_CHARGE_BYTES + 4 * FRAGMENT_CHARGE_BYTES + 31, true));
    type Change = fn(&mut Written);
    let changes: &[(&str, Change)] = &[
        ("of another protocol", |packet| packet.key.protocol = Protocol::TCP),
        ("a first fragment without payload", |packet| packet.first = Some((20, 20))),
        ("a header longer than its packet", |packet| packet.first = Some((28, 29))),
        ("somebody waits for its end", |packet| packet.completion = true),
        ("no first fragment, and its run", |packet| packet.first = None),
        ("a first fragment, and no run", |packet| packet.runs[0] = (8, vec![8])),
        ("nothing at all", |packet| (packet.first, packet.runs, packet.fragments) = (None, vec![], 0)),
        ("no fragments", |packet| packet.fragments = 0),
        ("fewer fragments than runs", |packet| packet.fragments = 2),
        ("more fragments than units", |packet| packet.fragments = 5),
        ("runs that overlap", |packet| packet.runs[1].0 = 0),
        ("runs out of order", |packet| packet.runs.swap(1, 2)),
        ("a place that is no multiple of eight", |packet| packet.runs[1].0 = 12),
        ("a run of no bytes", |packet| packet.runs[1].1 = vec![]),
        ("a slice of no bytes", |packet| packet.runs[1].1 = vec![8, 0, 8]),
        ("bytes beyond a unit in the middle", |packet| packet.runs[1].1 = vec![8, 7]),
        ("bytes beyond a unit at the end, and more to come", |packet| packet.last_in = false),
        ("behind the largest packet", |packet| packet.runs[2].0 = 65_536),
        ("past the end of the largest packet", |packet| packet.runs[2] = (65_528, vec![8])),
        ("far outside", |packet| packet.runs[2].0 = usize::MAX / 8 * 8),
        ("nothing is missing", |packet| packet.runs = vec![(0, vec![8, 8, 8])]),
        ("no codepoint", |packet| packet.codepoints = 0),
        ("a codepoint that there is not", |packet| packet.codepoints = 16),
        ("larger than any", |packet| packet.largest = 65_536),
        ("a part larger than the whole", |packet| packet.largest_unfragmentable = 29),
    ];
    for (what, change) in changes {
        let mut packet = Written::usual();
        change(&mut packet);
        assert!(read(&one(&packet), Limits::V4).is_err(), "{what}");
    }
    let two = |first: Written, second: Written| {
        state_of(|out| {
            out.number(2);
            first.write(out);
            second.write(out);
        })
    };
    let other = Written { key: key(2), ..Written::usual() };
    assert!(read(&two(Written::usual(), other.clone()), Limits::V4).is_ok());
    assert!(read(&two(Written::usual(), Written::usual()), Limits::V4).is_err(), "twice");
    assert!(read(&two(Written::usual(), Written { deadline: at(19), ..other }), Limits::V4).is_err(), "out of order");
}

#[test]
fn state_that_is_more_than_the_bounds_allow_is_refused() {
    let mut reassembly = fresh(Limits::V4);
    let fragment_bytes = 1000 + FRAGMENT_CHARGE_BYTES + PACKET_CHARGE_BYTES;
    for identification in 0..100 {
        let (fragment, mut frame) = fragment(8, 1008, true);
        reassembly.insert(at(1), key(identification), fragment, &mut frame);
    }
    assert!(handed_over(&reassembly, Limits { memory_bytes_max: 100 * fragment_bytes, ..Limits::V4 }).is_ok());
    let refused = handed_over(&reassembly, Limits { memory_bytes_max: 50 * fragment_bytes, ..Limits::V4 }).unwrap_err();
    assert!(refused.0.contains("fragment_memory_bytes = 126800"), "{refused:?}");
    let many = state_of(|out| out.number(1 << 40));
    assert!(read(&many, Limits::V4).is_err());
}

proptest! {
    /// Whatever comes, the bookkeeping adds up, bounds hold, and what is completed has at each place a byte that some fragment had there.
    #[test]
    fn any_fragments(
        sent in proptest::collection::vec((0usize..12, 1usize..40, any::<bool>(), 0u32..2, 0u8..4, any::<bool>(), 0u64..12), 1..80),
        fragments_max in 1usize..20,
        memory_bytes_max in 2000usize..30_000,
    ) {
        let mut reassembly = fresh(Limits { fragments_max, memory_bytes_max, distance_max: Some(9), ..Limits::V4 });
        let mut seconds = 0;
        for (eighth, length, more, identification, ecn, dont_fragment, later) in sent {
            seconds += later;
            while reassembly.expire(at(seconds)).is_some() {}
            let (one, mut frame) = fragment(eighth * 8, eighth * 8 + length, more);
            let one = Fragment { ecn: Ecn::from_bits(ecn), dont_fragment, ..one };
            let before = frame.len();
            let mut again = frame.clone();
            let mut successor = handed_over(&reassembly, reassembly.limits).unwrap();
            let outcome = reassembly.insert(at(seconds), key(identification), one, &mut frame);
            prop_assert_eq!(successor.insert(at(seconds), key(identification), one, &mut again), outcome);
            prop_assert_eq!((again.to_vec(), written(&successor)), (frame.to_vec(), written(&reassembly)));
            prop_assert_eq!((successor.memory_bytes(), successor.counts()), (reassembly.memory_bytes(), reassembly.counts()));
            prop_assert_eq!((successor.next_deadline(), successor.sources.len()), (reassembly.next_deadline(), reassembly.sources.len()));
            match outcome {
                Inserted::Complete(whole) => {
                    let all = frame.to_vec().split_off(whole.header_len);
                    prop_assert!(all.iter().enumerate().all(|(place, value)| *value == byte(place)));
                }
                Inserted::Refused(refusal) => prop_assert!(frame.len() == before || refusal == Refusal::EcnMixed),
                Inserted::Kept => {}
            }
            let charged: usize = reassembly.queues.values().map(FragmentQueue::charge).sum();
            prop_assert_eq!(reassembly.memory_bytes(), charged);
            prop_assert!(charged <= memory_bytes_max + PACKET_CHARGE_BYTES + FRAGMENT_CHARGE_BYTES + 40);
            prop_assert_eq!(reassembly.deadlines.len(), reassembly.len());
            let packets: usize = reassembly.sources.values().map(|source| source.packets).sum();
            prop_assert_eq!(packets, reassembly.len());
            prop_assert!(reassembly.next_deadline().is_none_or(|deadline| deadline > at(seconds)));
        }
        while reassembly.expire(at(seconds + 31)).is_some() {}
        prop_assert!(reassembly.is_empty() && reassembly.memory_bytes() == 0 && reassembly.sources.is_empty());
    }

    /// Any way of cutting, in any order, with duplicates of what is there: the packet comes out as it went in.
    #[test]
    fn any_cut_and_any_order(
        cuts in proptest::collection::btree_set(1usize..180, 0..30),
        order in proptest::collection::vec(any::<prop::sample::Index>(), 31),
        again in proptest::collection::vec(any::<bool>(), 31),
        tail in 1usize..8,
    ) {
        let total = 180 * 8 + tail;
        let mut edges: Vec<usize> = std::iter::once(0).chain(cuts.iter().map(|cut| cut * 8)).collect();
        edges.push(total);
        let mut parts: Vec<(usize, usize)> = edges.windows(2).map(|pair| (pair[0], pair[1])).collect();
        let mut reassembly = fresh(Limits { distance_max: None, ..Limits::V4 });
        let mut whole = None;
        for (pick, again) in order.iter().zip(&again) {
            if parts.is_empty() { break; }
            let (start, end) = parts.swap_remove(pick.index(parts.len()));
            for round in 0..=usize::from(*again && !parts.is_empty()) {
                let (one, mut frame) = fragment(start, end, end != total);
                match reassembly.insert(at(1), key(1), one, &mut frame) {
                    Inserted::Complete(_) => whole = Some(frame.to_vec().split_off(HEADER)),
                    outcome => prop_assert_eq!(outcome, if round == 0 { Inserted::Kept } else { DUPLICATE }),
                }
            }
        }
        prop_assert_eq!(whole, Some((0..total).map(byte).collect::<Vec<u8>>()));
    }
}
