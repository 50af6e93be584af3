use super::super::testing::{Read, Tcp, read};
use super::*;
use crate::tool::testing::Bench;
use proptest::prelude::*;
use weft_wire::tcp::{Options, Seq};

fn bench(find: &str, replace: &str) -> Bench {
    Bench::new("alter_payload", &[("find", find.into()), ("replace", replace.into())])
}

fn pass(bench: &mut Bench, tcp: &Tcp) -> Vec<Read> {
    bench.send(Instant::ZERO, [tcp.frame()]);
    bench.taken().into_iter().map(read).collect()
}

/// `payload` from byte `at` of the stream.
fn data(shape: &Tcp, at: u32, payload: &[u8]) -> Tcp {
    Tcp { seq: 1001u32.wrapping_add(at), payload: payload.to_vec(), ..shape.clone() }
}

fn seen(segments: &[Read]) -> Vec<(u32, &[u8])> {
    segments.iter().map(|read| (read.header.seq.0.wrapping_sub(1001), &read.payload[..])).collect()
}

#[test]
fn from_the_replaced_bytes_on_both_directions_are_renumbered() {
    for shape in Tcp::default().everywhere() {
        for (replace, leaves, more) in [("4", &[(0, &b"PORT 4\r\n"[..])][..], -2), ("12345", &[(0, &b"PORT 12345"[..]), (10, b"\r\n")], 2)]
        {
            let mut bench = bench("127", replace);
            let by = |number: u32| number.wrapping_add_signed(more);
            // -> SYN, "PORT 127\r\n", "next"
            pass(&mut bench, &Tcp { flags: Flags::SYN, ack: 0, ..shape.clone() });
            assert_eq!(seen(&pass(&mut bench, &data(&shape, 0, b"PORT 127\r\n"))), leaves);
            bench.replace("alter_payload");
            assert_eq!(seen(&pass(&mut bench, &data(&shape, 10, b"next"))), [(by(10), &b"next"[..])]);
            // <- ack of all, SACK of "xt"
            let sack = [(Seq(by(1001 + 12)), Seq(by(1001 + 14)))].into_iter().collect();
            let options = Options { sack, ..Options::default() };
            let ack = Tcp { ack: by(1001 + 10), seq: 5000, options, ..shape.clone() }.back();
            let [ack] = <[_; 1]>::try_from(pass(&mut bench, &ack)).unwrap();
            assert_eq!(
                (ack.header.ack, ack.header.seq, &ack.header.options.sack[..]),
                (Seq(1011), Seq(5000), &[(Seq(1013), Seq(1015))][..])
            );
            // -> all once more, in one piece
            let again = pass(&mut bench, &data(&shape, 0, b"PORT 127\r\nnext"));
            let joined: Vec<u8> = again.iter().flat_map(|read| read.payload.clone()).collect();
            assert_eq!((again[0].header.seq, joined), (Seq(1001), format!("PORT {replace}\r\nnext").into_bytes()));
            assert_eq!(bench.counters(), [1, 2, 2, 1, 0, 0]);
        }
    }
}

#[test]
fn what_comes_behind_later_bytes_or_with_a_wrong_checksum_is_not_replaced() {
    let (mut bench, shape) = (bench("ab", "xyz"), Tcp::default());
    assert_eq!(seen(&pass(&mut bench, &data(&shape, 10, b"later"))), [(10, &b"later"[..])]);
    assert_eq!(seen(&pass(&mut bench, &data(&shape, 0, b"ab"))), [(0, &b"ab"[..])]);
    let mut damaged = data(&shape, 15, b"-ab-").frame();
    damaged.pull_up(42).unwrap();
    damaged.head_mut()[40] ^= 1;
    damaged.meta_mut().checksum = Checksum::Unknown;
    bench.send(Instant::ZERO, [damaged, Frame::ingress(&[0x45; 44]), Frame::ingress(&[])]);
    assert_eq!(bench.taken().len(), 3);
    assert_eq!(bench.counters(), [3, 0, 0, 0, 0, 0]);
    assert_eq!(seen(&pass(&mut bench, &data(&shape, 19, b"ab"))), [(19, &b"xy"[..]), (21, b"z")]);
    bench.set("direction", "to_opener").unwrap();
    assert_eq!(seen(&pass(&mut bench, &data(&shape, 21, b"ab"))), [(22, &b"ab"[..])], "renumbered all the same");
}

#[test]
fn places_in_flight_are_bounded_and_acknowledged_ones_make_room() {
    let (mut bench, shape) = (bench("a", "bb"), Tcp::default());
    let sent = pass(&mut bench, &data(&shape, 0, &[b'a'; 100]));
    let joined: Vec<u8> = sent.iter().flat_map(|read| read.payload.clone()).collect();
    assert_eq!((joined.len(), bench.counters()[3], bench.counters()[4]), (164, 64, 36));
    // 20 bytes of what left are 10 of what came.
    let ack = pass(&mut bench, &Tcp { ack: 1001 + 20, ..shape.clone() }.back());
    assert_eq!(ack[0].header.ack, Seq(1011));
    let sent = pass(&mut bench, &data(&shape, 100, &[b'a'; 20]));
    assert_eq!(seen(&sent).iter().map(|(at, payload)| (*at, payload.len())).collect::<Vec<_>>(), [(164, 20), (184, 10)]);
    assert_eq!(&bench.counters()[3..5], [74, 46]);
    let ack = pass(&mut bench, &Tcp { ack: 1001 + 194, ..shape }.back());
    assert_eq!(ack[0].header.ack, Seq(1121));
}

#[test]
fn large_frames_are_cut_first_and_jumbo_segments_too() {
    let mut payload = vec![b'.'; 40_000];
    for at in (0..40_000).step_by(1000) {
        payload[at] = b'a';
    }
    let replaced = String::from_utf8(payload.clone()).unwrap().replace('a', &"b".repeat(256)).into_bytes();
    for gso in [Some(1400), None] {
        let mut bench = bench("a", &"b".repeat(256));
        let sent = pass(&mut bench, &Tcp { gso, ..data(&Tcp::default(), 0, &payload) });
        let joined: Vec<u8> = sent.iter().flat_map(|read| read.payload.clone()).collect();
        assert!(joined == replaced && sent.iter().all(|read| read.payload.len() <= usize::from(gso.unwrap_or(16_000))));
    }
}

#[test]
fn strings_have_bytes_that_no_text_has() {
    for (text, bytes) in [("a\\x00\\xFFb", &b"a\x00\xffb"[..]), ("\\\\x41", b"\\x41"), ("ü", "ü".as_bytes()), ("", b"")] {
        assert_eq!(unescape("find", text).unwrap(), bytes);
    }
    for text in ["\\", "\\x", "\\x4", "\\xg0", "\\n", "\\x+1", &"a".repeat(257)] {
        assert!(unescape("find", text).is_err(), "{text}");
    }
    assert!(unescape("replace", "").is_err());
    let refused = bench("a", "b").set("replace", "").unwrap_err().to_string();
    assert!(refused.contains("a byte at least"), "{refused}");
}

proptest! {
    /// Whatever is sent again, and however it is cut: the same bytes under the same numbers; and what is acknowledged is what came whole.
    #[test]
    fn bytes_that_are_sent_again_are_the_same(
        stream in proptest::collection::vec(prop_oneof![Just(b'a'), Just(b'b'), Just(b'.')], 1..120),
        cuts in proptest::collection::vec(1usize..20, 1..20),
        again in proptest::collection::vec((0usize..120, 1usize..40), 0..20),
        find in prop_oneof![Just("a"), Just("ab"), Just("aab")],
        replace in prop_oneof![Just("X"), Just("YZ"), Just("UVWXY")],
        isn in prop_oneof![Just(1000u32), Just(u32::MAX - 40)],
    ) {
        let mut bench = bench(find, replace);
        let shape = Tcp::default();
        let first = isn.wrapping_add(1);
        let segment = |at: usize, payload: &[u8]| Tcp { seq: first.wrapping_add(at as u32), payload: payload.to_vec(), ..shape.clone() };
        pass(&mut bench, &Tcp { seq: isn, flags: Flags::SYN, ..shape.clone() });
        let (mut at, mut out, mut expected) = (0, Vec::new(), Vec::new());
        for length in cuts.iter().cycle() {
            let part = &stream[at..stream.len().min(at + length)];
            if part.is_empty() {
                break;
            }
            for read in pass(&mut bench, &segment(at, part)) {
                prop_assert_eq!(read.header.seq.0, first.wrapping_add(out.len() as u32));
                out.extend(read.payload);
            }
            expected.extend(String::from_utf8(part.to_vec()).unwrap().replace(find, replace).into_bytes());
            at += part.len();
        }
        // At most so many places are remembered.
        prop_assume!(bench.counters()[4] == 0);
        prop_assert_eq!(&out, &expected);
        for (at, length) in again {
            let at = at.min(stream.len());
            let part = &stream[at..stream.len().min(at + length)];
            for read in pass(&mut bench, &segment(at, part)) {
                let at = read.header.seq.0.wrapping_sub(first) as usize;
                prop_assert_eq!(&read.payload[..], &out[at..at + read.payload.len()]);
            }
        }
        let mut last = 0;
        for acknowledged in 0..=out.len() {
            let ack = Tcp { ack: first.wrapping_add(acknowledged as u32), ..shape.clone() }.back();
            let original = pass(&mut bench, &ack)[0].header.ack.0.wrapping_sub(first) as usize;
            prop_assert!(original >= last && original <= stream.len());
            last = original;
            // What the sender thinks is left begins where the receiver waits for it, or before.
            if let Some(read) = pass(&mut bench, &segment(original, &stream[original..])).first() {
                prop_assert!(read.header.seq.0.wrapping_sub(first) as usize <= acknowledged);
            }
        }
        prop_assert_eq!(last, stream.len());
    }
}
