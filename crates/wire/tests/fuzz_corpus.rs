//! Replays the corpus of every fuzz target through the target's own function.

mod support;

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::path::{Path, PathBuf};

use weft_wire::ethernet::EtherType;
use weft_wire::{Protocol, ethernet, fuzzing, ipv4, ipv6, tcp};

/// Inputs taken from the captures for one target, at most.
const SEEDS_MAX: usize = 12;
/// Bytes of one input, at most: headers, and a little payload.
const SEED_LEN_MAX: usize = 160;

fn corpus(target: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("fuzz/corpus").join(target)
}

#[test]
fn the_corpus_passes() {
    for (name, target) in fuzzing::TARGETS {
        let mut count = 0;
        for entry in fs::read_dir(corpus(name)).expect(name) {
            let path = entry.expect(name).path();
            let bytes = fs::read(&path).expect("an input");
            eprintln!("{}", path.display());
            target(&bytes);
            count += 1;
        }
        assert!(count >= 6, "{name} has only {count} inputs");
    }
}

#[test]
fn every_target_has_a_program() {
    let programs: BTreeSet<String> = fs::read_dir(Path::new(env!("CARGO_MANIFEST_DIR")).join("fuzz/fuzz_targets"))
        .expect("fuzz_targets")
        .map(|entry| entry.expect("a file").path())
        .map(|path| path.file_stem().expect("a name").to_string_lossy().into_owned())
        .collect();
    let targets: BTreeSet<String> = fuzzing::TARGETS.iter().map(|(name, _)| (*name).to_owned()).collect();
    assert_eq!(programs, targets);
}

/// Inputs by target, and per target by what makes them differ.
type Seeds = BTreeMap<&'static str, BTreeMap<Vec<u8>, Vec<u8>>>;

fn seed(seeds: &mut Seeds, target: &'static str, kind: &[u8], bytes: &[u8]) {
    let seeds = seeds.entry(target).or_default();
    if seeds.len() < SEEDS_MAX {
        let bytes = &bytes[..bytes.len().min(SEED_LEN_MAX)];
        seeds.entry(kind.to_vec()).or_insert_with(|| bytes.to_vec());
    }
}

fn seeds_of(frame: &[u8], seeds: &mut Seeds) {
    let (header, len) = ethernet::Header::parse(frame).expect("Ethernet");
    let tag = u8::from(header.vlan.is_some());
    let [type_high, type_low] = header.ether_type.0.to_be_bytes();
    seed(seeds, "ethernet", &[type_high, type_low, tag], &frame[..len]);
    seed(seeds, "checksum", &[(frame.len() % 16) as u8], frame);
    let packet = &frame[len..];
    let (protocol, rest) = match header.ether_type {
        EtherType::ARP => {
            seed(seeds, "arp", &packet[..8], packet);
            return;
        }
        EtherType::IPV4 => {
            let (header, len) = ipv4::Header::parse(packet).expect("IPv4");
            let kind = [header.protocol.0, len as u8, u8::from(header.is_fragment())];
            seed(seeds, "ipv4", &kind, packet);
            if header.is_fragment() {
                return;
            }
            (header.protocol, &packet[len..])
        }
        EtherType::IPV6 => {
            let (header, len) = ipv6::Header::parse(packet).expect("IPv6");
            let mut extensions = ipv6::Extensions::new(header.next_header, &packet[len..]);
            while extensions.next().is_some() {}
            let kind = [header.next_header.0, extensions.offset() as u8];
            seed(seeds, "ipv6", &kind, packet);
            (extensions.next_header(), extensions.rest())
        }
        _ => return,
    };
    seed(seeds, "frame", &[type_low, protocol.0, rest.first().copied().unwrap_or(0) & 0xf], frame);
    match protocol {
        Protocol::ICMP => seed(seeds, "icmpv4", &rest[..2], rest),
        Protocol::ICMPV6 => seed(seeds, "icmpv6", &rest[..2], rest),
        Protocol::IGMP => seed(seeds, "igmp", &[rest[0], rest.len() as u8], rest),
        Protocol::UDP => seed(seeds, "udp", &rest[4..6], rest),
        Protocol::TCP => seeds_of_tcp(rest, seeds),
        _ => {}
    }
}

fn seeds_of_tcp(bytes: &[u8], seeds: &mut Seeds) {
    let (segment, len) = tcp::Segment::parse(bytes).expect("TCP");
    seed(seeds, "tcp", &[len as u8, bytes[len.min(21) - 1]], &bytes[..len]);
    for (kind, data) in segment.options.others() {
        if kind == tcp::kind::MPTCP {
            seed(seeds, "mptcp", &[data[0] >> 4, data.len() as u8], data);
        }
    }
}

/// Writes the corpus from the captures.
#[test]
#[ignore = "writes fuzz/corpus"]
fn write_the_corpus() {
    let mut seeds = Seeds::new();
    for frame in support::all_frames() {
        eprintln!("{}", frame.name);
        seeds_of(&frame.bytes, &mut seeds);
    }
    for (target, inputs) in seeds {
        let folder = corpus(target);
        fs::create_dir_all(&folder).expect("a folder");
        for (number, bytes) in inputs.values().enumerate() {
            let mut flip = bytes.clone();
            // Somewhere, but the same for every run.
            let at = number * 7 % flip.len();
            flip[at] ^= 1 << (number % 8);
            for (suffix, bytes) in [("", &bytes[..]), ("-cut", &bytes[..bytes.len() / 2]), ("-flip", &flip)] {
                fs::write(folder.join(format!("{number:02}{suffix}")), bytes).expect("an input");
            }
        }
    }
}
