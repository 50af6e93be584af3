//! What a fuzzer runs, and `cargo test` with the corpus (`fuzz/corpus`). Not part of the interface.

use crate::ip::reassembly::{FRAGMENT_CHARGE_BYTES, Fragment, Inserted, Key, Limits, PACKET_CHARGE_BYTES, Reassembly};
use weft_core::{Duration, Frame, Instant, InterfaceIndex, KeyedHasher};
use weft_wire::Protocol;
use weft_wire::ipv4::Ecn;

const HEADER_BYTES: usize = 20;
const MEMORY_BYTES_MAX: usize = 40_000;
/// Bytes of input that a fragment is read from.
const STEP_BYTES: usize = 5;
/// Most payload of a fragment.
const LENGTH_BYTES_MAX: usize = 255 * 7;

/// Fragments, five bytes each: offset in eights, length, flags (more, ECN, "don't fragment", eights × 256), which packet, and seconds that pass. The
/// bytes of a fragment tell their place, so that what comes out can be checked.
///
/// # Panics
/// When memory is not accounted for or exceeds its bound, or a whole packet is not what its fragments were.
pub fn reassembly(bytes: &[u8]) {
    let limits = Limits { memory_bytes_max: MEMORY_BYTES_MAX, fragments_max: 64, ..Limits::V4 };
    let mut reassembly = Reassembly::new(limits, KeyedHasher::default());
    let mut now = Instant::ZERO;
    for step in bytes.chunks_exact(STEP_BYTES) {
        let &[eighths, length, flags, packet, seconds] = step else { return };
        now += Duration::from_secs(u64::from(seconds % 16));
        while let Some(expired) = reassembly.expire(now) {
            assert!(expired.first.is_none_or(|first| first.len() > HEADER_BYTES));
        }
        let offset = (usize::from(eighths) + if flags & 16 == 0 { 0 } else { 256 * 31 }) * 8;
        let length = usize::from(length) * if flags & 32 == 0 { 1 } else { 7 };
        let mut content = vec![0; HEADER_BYTES];
        content.extend((offset..offset + length).map(byte));
        let key = Key {
            src: [10, 0, 0, packet & 1].into(),
            dst: [10, 0, 0, 9].into(),
            identification: u32::from(packet >> 1 & 3),
            protocol: Protocol::UDP,
            interface: InterfaceIndex::NONE,
        };
        let fragment = Fragment {
            offset,
            more: flags & 1 != 0,
            header_len: HEADER_BYTES,
            ecn: Ecn::from_bits(flags >> 1),
            dont_fragment: flags & 8 != 0,
        };
        let mut frame = Frame::ingress(&content);
        if let Inserted::Complete(whole) = reassembly.insert(now, key, fragment, &mut frame) {
            let payload = frame.to_vec().split_off(whole.header_len);
            assert!(frame.len() <= limits.packet_bytes_max && payload.iter().enumerate().all(|(at, value)| *value == byte(at)));
        }
        // What came last before the bound was passed is kept.
        assert!(reassembly.memory_bytes() <= MEMORY_BYTES_MAX + PACKET_CHARGE_BYTES + FRAGMENT_CHARGE_BYTES + LENGTH_BYTES_MAX);
    }
    while reassembly.expire(now + limits.timeout).is_some() {}
    assert!(reassembly.is_empty() && reassembly.memory_bytes() == 0);
}

fn byte(at: usize) -> u8 {
    (at * 7 / 3) as u8
}
