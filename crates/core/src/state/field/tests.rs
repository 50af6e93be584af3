//! Fields, instants, buffers, and what is refused.

use super::*;
use proptest::prelude::*;

#[derive(Debug, PartialEq, Clone)]
struct Sample {
    number: u64,
    at: Instant,
    never: Instant,
    span: Duration,
    buffer: Bytes,
    list: Vec<(u16, bool)>,
    peer: SocketAddr,
    name: Option<String>,
}
crate::fields!(struct Sample { number, at, never, span, buffer, list, peer, name });

fn sample() -> Sample {
    Sample {
        number: u64::MAX,
        at: Instant::from_millis(90),
        never: Instant::FAR_FUTURE,
        span: Duration::from_millis(1500),
        buffer: Bytes::from(vec![7; 100]),
        list: vec![(1, true), (u16::MAX, false)],
        peer: "[fe80::1%3]:80".parse().unwrap(),
        name: Some("x".to_owned()),
    }
}
fn written(sample: &Sample) -> State {
    let mut out = Writer::new(Instant::from_millis(100));
    out.put(sample);
    out.finish("sample", 3)
}
fn read(state: &State, now: Instant) -> Result<Sample, StateError> {
    let mut from = Reader::new(state, "sample", 3, now)?;
    let read = from.take().map_err(|damage| damage.of("sample"))?;
    from.finish().map_err(|damage| damage.of("sample"))?;
    Ok(read)
}

#[test]
fn fields_come_back_with_buffers_by_reference_and_instants_on_another_clock() {
    let (sample, now) = (sample(), Instant::from_millis(100));
    let state = written(&sample);
    let again = read(&state, now).unwrap();
    assert_eq!(again, sample);
    assert_eq!(again.buffer.as_ptr(), sample.buffer.as_ptr(), "not copied");
    let later = read(&state, Instant::from_millis(1100)).unwrap();
    assert_eq!((later.at, later.never), (Instant::from_millis(1090), Instant::FAR_FUTURE));
    assert_eq!(read(&state, Instant::from_millis(3)).unwrap().at, Instant::ZERO, "before the beginning of time");
    let mut rng = crate::Rng::for_name(1, "state");
    let _taken: Vec<u32> = (0..5).map(|_| rng.u32()).collect();
    let mut out = Writer::new(now);
    out.put(&rng);
    let state = out.finish("sample", 3);
    let mut twin: crate::Rng = Reader::new(&state, "sample", 3, now).unwrap().take().unwrap();
    assert_eq!((0..9).map(|_| twin.u64()).collect::<Vec<_>>(), (0..9).map(|_| rng.u64()).collect::<Vec<_>>());
}

#[test]
fn as_bytes_alone_the_buffers_are_in_them() {
    let state = written(&sample());
    let bytes = state.to_bytes();
    let again = State::from_bytes(&bytes).unwrap();
    assert_eq!(again, state);
    assert_eq!(read(&again, Instant::from_millis(100)).unwrap(), sample());
    for length in 0..bytes.len() {
        assert!(State::from_bytes(&bytes[..length]).is_err(), "cut at {length}");
    }
    for at in 0..bytes.len() {
        let mut flipped = bytes.clone();
        flipped[at] ^= 1 << (at % 8);
        assert!(State::from_bytes(&flipped).is_err(), "byte {at} is another");
    }
}

#[test]
fn whatever_is_cut_or_changed_is_refused() {
    let state = written(&sample());
    for length in 0..state.bytes.len() {
        let cut = State { bytes: state.bytes[..length].to_vec(), ..state.clone() };
        assert!(matches!(read(&cut, Instant::ZERO), Err(StateError::Damaged { .. })), "cut at {length}");
    }
    assert!(matches!(read(&State { kind: "other".to_owned(), ..state.clone() }, Instant::ZERO), Err(StateError::WrongKind { .. })));
    assert!(matches!(read(&State { version: 4, ..state.clone() }, Instant::ZERO), Err(StateError::WrongVersion { .. })));
    assert!(matches!(read(&State { buffers: Vec::new(), ..state.clone() }, Instant::ZERO), Err(StateError::Damaged { .. })));
    assert!(matches!(read(&State { buffers: vec![Bytes::from_static(b"y")], ..state }, Instant::ZERO), Err(StateError::Damaged { .. })));
}

proptest! {
    #[test]
    fn nonsense_is_refused_without_a_panic_even_with_a_good_checksum(bytes in prop::collection::vec(any::<u8>(), 0..200)) {
        let sum = xxh3_64(&bytes).to_le_bytes();
        let state = State { kind: "sample".to_owned(), version: 3, bytes: [&bytes[..], &sum].concat(), buffers: Vec::new() };
        let _ = read(&state, Instant::ZERO);
        let mut from = Reader::new(&state, "sample", 3, Instant::ZERO).unwrap();
        let _: Result<crate::Slab<BTreeMap<u16, VecDeque<IpAddr>>>, Damage> = from.take();
        let _: Result<crate::StreamOptions, Damage> = from.take();
    }
    #[test]
    fn numbers_come_back(number in any::<u64>(), small in any::<u16>(), at in any::<u64>(), signed in any::<i64>()) {
        let (now, at) = (Instant::from_nanos(1 << 40), Instant::from_nanos(at >> 2));
        let mut out = Writer::new(now);
        out.put(&(number, small, at));
        out.signed(signed);
        let state = out.finish("sample", 1);
        let mut from = Reader::new(&state, "sample", 1, now).unwrap();
        prop_assert_eq!(from.take::<(u64, u16, Instant)>().unwrap(), (number, small, at));
        prop_assert_eq!(from.signed().unwrap(), signed);
        from.finish().unwrap();
    }
}
