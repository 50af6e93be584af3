//! What offloads cost in software: completing the checksum of a frame of 64 KB, and cutting it for an MTU of 1500.
//!
//! Prints nanoseconds per large frame and Gbit/s; run with `--release`.

use std::time::Instant as Clock;
use weft_core::offload::{CutChecksums, complete_checksum, cut};
use weft_core::{Bytes, Checksum, Frame, Gso, GsoKind};

const PAYLOAD_BYTES: usize = 64_000;
const SEGMENT_BYTES: u16 = 1448;
const ROUNDS: u32 = 20_000;

fn large(payload: &Bytes) -> Frame {
    let mut bytes = Vec::new();
    let builder = etherparse::PacketBuilder::ethernet2([2; 6], [4; 6]).ipv4([10, 0, 0, 1], [10, 0, 0, 2], 64).tcp(80, 4000, 1, 1000);
    let head = builder.options_raw(&[1, 1, 8, 10, 0, 0, 0, 1, 0, 0, 0, 2]);
    head.expect("twelve bytes of options fit").write(&mut bytes, payload).expect("a vector takes everything");
    let mut frame = Frame::ingress(&bytes[..66]);
    frame.append(payload.clone());
    frame.meta_mut().checksum = Checksum::Partial { offset: 16 };
    frame.meta_mut().gso = Some(Gso { segment_bytes: SEGMENT_BYTES, kind: GsoKind::Tcp });
    frame
}

fn measure(name: &str, frame: &Frame, mut work: impl FnMut(Frame)) {
    let start = Clock::now();
    for _ in 0..ROUNDS {
        work(frame.clone());
    }
    let nanos = start.elapsed().as_nanos() as f64 / f64::from(ROUNDS);
    println!("{name:<28} {nanos:>9.0} ns/frame {:>8.1} Gbit/s", PAYLOAD_BYTES as f64 * 8.0 / nanos);
}

fn main() {
    let frame = large(&Bytes::from(vec![7; PAYLOAD_BYTES]));
    let mut out = Vec::with_capacity(64);
    measure("clone only", &frame, |frame| drop(std::hint::black_box(frame)));
    measure("complete_checksum", &frame, |mut frame| {
        complete_checksum(&mut frame);
        std::hint::black_box(&frame);
    });
    for (name, checksums) in [("cut, checksums partial", CutChecksums::Partial), ("cut, checksums complete", CutChecksums::Complete)] {
        measure(name, &frame, |frame| {
            cut(frame, checksums, &mut out);
            std::hint::black_box(&out);
            out.clear();
        });
    }
}
