//! Frames and state of any bytes, for every box: they harm nobody.

use super::testing::{Tcp, mptcp_options};
use crate::tool::testing::Bench;
use proptest::prelude::*;
use weft_core::*;
use weft_wire::tcp::{Flags, Options, Seq};
use xxhash_rust::xxh3::xxh3_64;

/// Each box, so that it does what it can.
fn boxes() -> Vec<(&'static str, Vec<(&'static str, Value)>)> {
    vec![
        ("strip_options", vec![("options", "mptcp, 8".into()), ("direction", "from_opener".into())]),
        ("drop_options", vec![("options", "254".into()), ("unknown", true.into()), ("direction", "to_opener".into())]),
        ("shift_sequence", vec![]),
        ("split", vec![("segment_bytes", 3.into())]),
        ("coalesce", vec![("bytes_max", 50.into())]),
        ("alter_payload", vec![("find", "a".into()), ("replace", "bcd".into())]),
        ("inject_reset", vec![("after_bytes", 20.into())]),
        ("nat", vec![]),
    ]
}

/// A connection's segments, both directions.
fn traffic(ipv6: bool, ethernet: bool) -> Vec<Frame> {
    let shape = Tcp { ipv6, ethernet, ..Tcp::default() };
    let sack = [(Seq(2000), Seq(3000)), (Seq(4000), Seq(5000))].into_iter().collect();
    [
        Tcp { flags: Flags::SYN, options: mptcp_options(), ..shape.clone() },
        Tcp { flags: Flags::SYN | Flags::ACK, options: mptcp_options(), ..shape.clone() }.back(),
        Tcp { seq: 1001, payload: b"banana".to_vec(), ..shape.clone() },
        Tcp { seq: 1007, payload: vec![b'a'; 30], gso: Some(10), ..shape.clone() },
        Tcp { ack: 1010, options: Options { sack, ..Options::default() }, payload: b"abracadabra".to_vec(), ..shape.clone() }.back(),
        Tcp { seq: 1037, flags: Flags::ACK | Flags::FIN, ..shape },
    ]
    .iter()
    .map(Tcp::frame)
    .collect()
}

fn changed(frame: &Frame, changes: &[(usize, u8)], cut: Option<usize>, parts: Option<usize>) -> Frame {
    let mut bytes = frame.to_vec();
    for (at, byte) in changes {
        if let Some(place) = bytes.get_mut(*at) {
            *place = *byte;
        }
    }
    bytes.truncate(cut.unwrap_or(usize::MAX));
    let at = parts.unwrap_or(0).min(bytes.len());
    let mut changed = Frame::ingress_parts(&bytes[..at], bytes[at..].to_vec().into());
    changed.meta_mut().gso = frame.meta().gso;
    changed.meta_mut().checksum = frame.meta().checksum;
    changed
}

proptest! {
    #[test]
    fn frames_of_any_bytes_harm_nobody(
        ipv6 in any::<bool>(),
        ethernet in any::<bool>(),
        which in 0usize..6,
        changes in proptest::collection::vec((0usize..110, any::<u8>()), 0..5),
        cut in proptest::option::of(0usize..110),
        parts in proptest::option::of(0usize..110),
    ) {
        for (kind, parameters) in boxes() {
            let mut bench = Bench::new(kind, &parameters);
            let mut frames = traffic(ipv6, ethernet);
            frames.insert(which, changed(&frames[which], &changes, cut, parts));
            let came = frames.len();
            bench.send(Instant::ZERO, frames);
            bench.engine.run(Instant::from_millis(5));
            let left = bench.taken().len() as u64;
            prop_assert!(left > 0 || bench.drops(Reason::Filtered) + bench.drops(Reason::BadPacket) == came as u64, "{}", kind);
        }
    }

    #[test]
    fn state_of_any_bytes_is_refused_or_does_no_harm(
        changes in proptest::collection::vec((any::<u16>(), any::<u8>(), 0u8..4), 1..4),
        ipv6 in any::<bool>(),
    ) {
        for (kind, parameters) in boxes() {
            let mut bench = Bench::new(kind, &parameters);
            bench.send(Instant::ZERO, traffic(ipv6, true));
            bench.taken();
            let block = |bench: &Bench| bench.engine.graph().block(bench.tool).unwrap().export(Instant::ZERO).unwrap();
            let state = block(&bench);
            if state.version == 0 {
                continue;
            }
            let forged = forged(&state, &changes);
            let mut other = made(kind);
            let before = other.export(Instant::ZERO).unwrap();
            match other.import(&forged, Instant::ZERO) {
                Ok(()) => drop(other.export(Instant::ZERO)),
                Err(error) => prop_assert!(error.to_string().contains(kind) && other.export(Instant::ZERO).unwrap() == before),
            }
            let mut whole = made(kind);
            whole.import(&state, Instant::ZERO).unwrap();
            prop_assert!(whole.export(Instant::ZERO).unwrap() == state, "{}", kind);
        }
    }
}

/// Some bytes are others, gone or more; the checksum is right again.
fn forged(state: &State, changes: &[(u16, u8, u8)]) -> State {
    let mut bytes = state.bytes.clone();
    bytes.truncate(bytes.len() - 8);
    for (at, byte, how) in changes {
        let at = usize::from(*at) % bytes.len().max(1);
        match how {
            0 => drop(bytes.splice(at..(at + 1).min(bytes.len()), [])),
            1 => bytes.insert(at, *byte),
            _ => bytes.iter_mut().skip(at).take(1).for_each(|place| *place = *byte),
        }
    }
    let sum = xxh3_64(&bytes);
    bytes.extend_from_slice(&sum.to_le_bytes());
    State { bytes, ..state.clone() }
}

fn made(kind: &str) -> Box<dyn Block> {
    let row = crate::table::rows().into_iter().find(|row| row.kind.name == kind).unwrap();
    let mut config = parameter::complete(kind, row.kind, &Default::default(), weft_core::Rng::for_name(3, kind)).unwrap();
    (row.make)(&mut config).unwrap()
}
