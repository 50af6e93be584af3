//! How fast the fast path is: `cargo run --release -p weft-wire --example speed`.
//!
//! For people; no test asserts these numbers.

use std::hint::black_box;
use std::time::Instant;

use weft_wire::checksum;
use weft_wire::tcp::{Flags, Options, Segment, Seq, Timestamps};
use weft_wire::{Protocol, ethernet, ipv4};

/// The best of several rounds, in nanoseconds a call.
fn best_ns(calls: u32, mut call: impl FnMut()) -> f64 {
    (0..20)
        .map(|_| {
            let start = Instant::now();
            for _ in 0..calls {
                call();
            }
            start.elapsed().as_secs_f64() * 1e9 / f64::from(calls)
        })
        .fold(f64::INFINITY, f64::min)
}

fn sums() {
    for len in [20, 40, 64, 576, 1460, 9000, 65_000] {
        let bytes: Vec<u8> = (0..len).map(|i| (i * 7) as u8).collect();
        let calls = 20_000_000 / (len as u32 + 100);
        let ns = best_ns(calls, || {
            black_box(checksum::of(black_box(&bytes)));
        });
        println!("checksum {len:>6} bytes: {ns:>8.1} ns, {:>5.1} GB/s", len as f64 / ns);
    }
}

fn headers(name: &str, segment: &Segment) {
    let ip =
        ipv4::Header { total_len: (ipv4::HEADER_LEN + segment.header_len()) as u16, protocol: Protocol::TCP, ..ipv4::Header::default() };
    let ether = ethernet::Header::default();
    let mut frame = [0_u8; 128];
    let emit_ns = best_ns(200_000, || {
        let frame = black_box(&mut frame);
        ether.emit(frame);
        black_box(&ip).emit(&mut frame[14..]);
        black_box(segment).emit(&mut frame[34..]);
    });
    let ether = ethernet::Header { ether_type: ethernet::EtherType::IPV4, ..ether };
    ether.emit(&mut frame);
    let parse_ns = best_ns(200_000, || {
        let frame = black_box(&frame[..]);
        let (ether, at) = ethernet::Header::parse(frame).expect("Ethernet");
        let (ip, len) = ipv4::Header::parse(&frame[at..]).expect("IPv4");
        let (segment, _) = Segment::parse(&frame[at + len..]).expect("TCP");
        black_box((&ether, &ip, &segment));
    });
    println!("Ethernet, IPv4 and TCP, {name}: emit {emit_ns:.1} ns, parse {parse_ns:.1} ns");
}

fn main() {
    println!("a Segment has {} bytes, an IPv4 header {}", size_of::<Segment>(), size_of::<ipv4::Header>());
    sums();
    let plain = Segment { flags: Flags::ACK, ..Segment::default() };
    headers("no options", &plain);
    let timestamps = Some(Timestamps { value: 1, echo: 2 });
    let with = |options| Segment { options, ..plain.clone() };
    let stamped = with(Options { timestamps, ..Options::default() });
    headers("timestamps", &stamped);
    let sack = (0..3).map(|i| (Seq(i), Seq(i + 1))).collect();
    headers("timestamps and SACK", &with(Options { timestamps, sack, ..Options::default() }));
    let (mss, window_scale) = (Some(1460), Some(7));
    let syn = Options { mss, window_scale, timestamps, sack_permitted: true, ..Options::default() };
    headers("a SYN's options", &with(syn));
}
