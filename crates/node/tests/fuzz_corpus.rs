//! Replays the corpus of the fuzz target through the target's own function.

use std::fs;
use std::path::PathBuf;

fn corpus() -> PathBuf {
    PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("fuzz/corpus/node")
}

#[test]
fn the_corpus_passes() {
    let mut count = 0;
    for entry in fs::read_dir(corpus()).expect("the corpus") {
        let path = entry.expect("an input").path();
        eprintln!("{}", path.display());
        weft_node::fuzzing::node(&fs::read(&path).expect("an input"));
        count += 1;
    }
    assert!(count >= 8, "only {count} inputs");
}

/// A frame for the target: link header, length and checksums are made right by it.
fn step(packet: &[u8]) -> Vec<u8> {
    let mut out = vec![0; 16];
    out[14 - 8..14 - 2].copy_from_slice(&[2, 0, 0, 0, 0, 2]);
    out.truncate(14);
    out.extend_from_slice(packet);
    out.resize(out.len().next_multiple_of(4), 0);
    let mut step = vec![(out.len() / 4) as u8, 7 | 0xf8];
    step.extend(out);
    step
}

fn ip4(protocol: u8, body: &[u8]) -> Vec<u8> {
    let head = [0x45, 0, 0, 0, 0, 1, 0, 0, 64, protocol, 0, 0, 10, 0, 0, 2, 10, 0, 0, 1];
    [&head[..], body].concat()
}

fn ip6(next: u8, body: &[u8]) -> Vec<u8> {
    let mut head = vec![0x60, 0, 0, 0, 0, 0, next, 255];
    for last in [2, 1] {
        head.extend_from_slice(&[0xfd, 0x77, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, last]);
    }
    head.extend_from_slice(body);
    head
}

#[test]
#[ignore = "writes the first inputs"]
fn write_the_first_inputs() {
    let syn = [0x80, 0, 0, 80, 0, 0, 0, 1, 0, 0, 0, 0, 0x80, 2, 0xff, 0xff, 0, 0, 0, 0, 2, 4, 5, 0xb4, 1, 3, 3, 7, 4, 2, 1, 1];
    let data = [0x80, 0, 0, 80, 0, 0, 0, 2, 0, 0, 0, 1, 0x50, 0x18, 0xff, 0xff, 0, 0, 0, 0, b'h', b'e', b'l', b'o'];
    let udp = [0x80, 0, 0, 80, 0, 12, 0, 0, 1, 2, 3, 4];
    let echo = [8, 0, 0, 0, 0, 1, 0, 1, 9, 9, 9, 9];
    let echo6 = [128, 0, 0, 0, 0, 1, 0, 1, 9, 9, 9, 9];
    let solicit =
        [&[135, 0, 0, 0, 0, 0, 0, 0, 0xfd, 0x77, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 1][..], &[1, 1, 2, 0, 0, 0, 0, 2]].concat();
    let chain = [&[6, 0, 1, 4, 0, 0, 0, 0][..], &syn].concat();
    let fragment = [&[17, 0, 0, 1, 0, 0, 0, 7][..], &udp].concat();
    let mut first = ip4(17, &udp);
    first[6] = 0x20;
    let unreachable = [&[3, 4, 0, 0, 0, 0, 2, 0x40][..], &ip4(6, &syn)].concat();
    let inputs: [(&str, Vec<Vec<u8>>); 11] = [
        ("tcp4", vec![step(&ip4(6, &syn)), vec![0x88], step(&ip4(6, &data))]),
        ("tcp6", vec![step(&ip6(6, &syn)), vec![0x88], step(&ip6(6, &data))]),
        ("udp4", vec![step(&ip4(17, &udp))]),
        ("udp6", vec![step(&ip6(17, &udp))]),
        ("echo4", vec![step(&ip4(1, &echo))]),
        ("echo6", vec![step(&ip6(58, &echo6))]),
        ("solicitation", vec![step(&ip6(58, &solicit)), vec![0x8f]]),
        ("chain", vec![step(&ip6(60, &chain))]),
        ("fragment4", vec![step(&first), vec![0x8f], vec![0x8f]]),
        ("fragment6", vec![step(&ip6(44, &fragment)), vec![0x8f]]),
        ("unreachable", vec![step(&ip4(6, &syn)), step(&ip4(1, &unreachable))]),
    ];
    for (name, steps) in inputs {
        fs::write(corpus().join(name), steps.concat()).expect("the corpus can be written");
    }
}
