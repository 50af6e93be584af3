//! Hostile frames into live nodes, in virtual time and from one seed: `hostile --frames 1000000 --seed 1`.
//!
//! Programs talk over the wire; a stranger on it sends frames of theirs that it has changed, and frames of its own (`stranger`, `six`, `leases`), while an
//! operator works on the nodes. After each 10,000: the service works, over both families, and no table holds more than it may. A run repeats
//! to the bit: what failed once fails again with the same seed. At least half of the frames must pass checks of length and checksum, as `packet`
//! judges, which knows nothing of the nodes' own formats.
//!
//! The same bytes go to the parsers of every format (`weft_wire::fuzzing`), also of those that a node does not read yet.

mod leases;
mod operator;
mod packet;
mod six;
mod stranger;
mod world;

use packet::LINK;
use std::collections::VecDeque;
use stranger::Stranger;
use weft_core::{Duration, Rng, Table};
use world::{AF_INET, AF_INET6, Programs, World};

/// Frames between two looks at the service and the tables.
const BATCH: u64 = 10_000;
/// Frames that come before time goes on.
const BURST: u64 = 50;
/// Resident memory at the end, beside that after the first batch, MiB: the tables fill up to their bounds, and frames leave nothing.
const GROWTH_MIB_MAX: u64 = 24;

struct Arguments {
    frames: u64,
    seed: u64,
    /// Nobody works on the nodes: 0.
    operator: u64,
}

fn arguments() -> Arguments {
    let mut out = Arguments { frames: 100_000, seed: 1, operator: 1 };
    let mut words = std::env::args().skip(1);
    while let Some(word) = words.next() {
        let value = words.next().and_then(|value| value.parse().ok());
        match (word.as_str(), value) {
            ("--frames", Some(value)) => out.frames = value,
            ("--seed", Some(value)) => out.seed = value,
            ("--operator", Some(value)) => out.operator = value,
            _ => {
                eprintln!("usage: hostile [--frames N] [--seed N] [--operator 0|1]");
                std::process::exit(2);
            }
        }
    }
    out
}

/// Resident memory of this process, MiB; 0 where the kernel does not say.
fn resident_mib() -> u64 {
    let status = std::fs::read_to_string("/proc/self/status").unwrap_or_default();
    let line = status.lines().find_map(|line| line.strip_prefix("VmRSS:"));
    line.and_then(|line| line.split_whitespace().next()?.parse::<u64>().ok()).unwrap_or(0) / 1024
}

/// The parsers of every format read the same bytes, from where their format would begin and from elsewhere.
fn parse_alone(bytes: &[u8], rng: &mut Rng, corpus: &[(usize, Vec<u8>)]) {
    weft_wire::fuzzing::frame(bytes);
    let targets = weft_wire::fuzzing::TARGETS;
    let packet = bytes.get(LINK..).unwrap_or(&[]);
    let inner = packet::transport(packet).map_or(packet, |(_, range, _)| &packet[range]);
    let (_, target) = targets[rng.below(targets.len() as u64) as usize];
    target(inner);
    // An input of the corpus with bytes of the frame in it.
    let (of, input) = &corpus[rng.below(corpus.len() as u64) as usize];
    let mut input = input.clone();
    for _ in 0..rng.below(4) {
        if let (Some(at), Some(from)) = (rng.below(input.len() as u64).checked_sub(0), bytes.get(rng.below(bytes.len() as u64) as usize))
            && let Some(byte) = input.get_mut(at as usize)
        {
            *byte = *from;
        }
    }
    targets[*of].1(&input);
}

/// The committed inputs of the fuzz targets, with the number of their target.
fn corpus() -> Vec<(usize, Vec<u8>)> {
    let folder = concat!(env!("CARGO_MANIFEST_DIR"), "/../wire/fuzz/corpus");
    let mut out = Vec::new();
    for (at, (name, _)) in weft_wire::fuzzing::TARGETS.iter().enumerate() {
        let entries = std::fs::read_dir(format!("{folder}/{name}")).unwrap_or_else(|error| panic!("{folder}/{name}: {error}"));
        let mut paths: Vec<_> = entries.flatten().map(|entry| entry.path()).collect();
        paths.sort();
        out.extend(paths.into_iter().map(|path| (at, std::fs::read(path).expect("an input"))));
    }
    out
}

fn check(world: &mut World, sent: u64) {
    for family in [AF_INET, AF_INET6] {
        if let Err(what) = world::serve(world, family, sent as u8) {
            world::explain(world, family);
            panic!("after {sent} frames the service does not work: {what}");
        }
    }
    let mut line = format!("{sent:>8} frames, {} MiB", resident_mib());
    for side in 0..2 {
        let tables = world::tables(world, side);
        let over: Vec<_> = tables.iter().filter(|(_, count, max)| count > max).collect();
        assert!(over.is_empty(), "after {sent} frames node {side} holds too much: {over:?}");
        let shown = tables.iter().filter(|(_, count, _)| *count > 0).map(|(name, count, _)| format!("{name} {count}"));
        line += &format!(" | {}", shown.collect::<Vec<_>>().join(", "));
    }
    println!("{line}");
}

/// Everything is closed: nothing of it is left after the longest timeout.
fn check_end(world: &mut World, programs: Programs) {
    programs.close(world);
    world.pass(Duration::from_secs(1800));
    for side in 0..2 {
        for table in [Table::Flows, Table::Sockets] {
            let left = world.rows(side, table);
            assert!(left.is_empty(), "{table:?} of node {side} after everything is closed: {left:?}");
        }
        let held = world::tables(world, side);
        let fragments = held.iter().filter(|(name, ..)| name.starts_with("fragment")).map(|(_, count, _)| count).sum::<u64>();
        assert_eq!(fragments, 0, "bytes of fragments that nobody waits for");
    }
}

fn main() {
    let Arguments { frames, seed, operator } = arguments();
    println!("hostile: {frames} frames, seed {seed} (again: hostile --frames {frames} --seed {seed})");
    let corpus = corpus();
    let mut world = World::new(seed);
    let mut programs = Programs::new(&mut world);
    for _ in 0..50 {
        programs.live(&mut world);
        world.pass(Duration::from_millis(10));
    }
    let mut stranger = Stranger { rng: Rng::for_name(seed, "stranger"), tape: world.tape.clone(), more: VecDeque::new() };
    let mut rng = Rng::for_name(seed, "world");
    let (mut sound, mut first_mib) = (0u64, 0);
    for sent in 1..=frames {
        let (to, bytes) = stranger.frame();
        sound += u64::from(packet::is_sound(&bytes, to));
        parse_alone(&bytes, &mut rng, &corpus);
        world.inject(to, &bytes, [224, 1514, 54, 20][rng.below(4) as usize]);
        if sent.is_multiple_of(BURST) {
            world.settle();
            programs.live(&mut world);
            let millis = if rng.chance(0.01) { 20_000 } else { 10 };
            world.pass(Duration::from_millis(millis));
        }
        if operator != 0 && sent.is_multiple_of(250) {
            operator::work(&mut world, &mut rng);
        }
        if sent.is_multiple_of(BATCH) || sent == frames {
            operator::put_back(&mut world);
            world.settle();
            check(&mut world, sent);
            first_mib = if first_mib == 0 { resident_mib() } else { first_mib };
        }
    }
    let (mib, share) = (resident_mib(), sound as f64 * 100.0 / frames as f64);
    println!("sound: {share:.1} % of the frames pass length and checksum checks");
    println!(
        "connections: {}, forwarded: {}, memory: {first_mib} MiB after the first batch, {mib} MiB at the end",
        programs.connections, world.forwarded
    );
    assert!(share >= 50.0, "only {share:.1} % of the frames pass length and checksum checks");
    assert!(mib <= first_mib + GROWTH_MIB_MAX, "memory has grown from {first_mib} to {mib} MiB");
    assert!(world.forwarded > frames / 1000 && programs.connections > frames / 1000, "programs and forwarding went on");
    assert!(world.counter(1, "ip4", "ReasmOKs") > 0 && world.counter(1, "ip6", "ReasmOKs") > 0, "fragments were put together");
    check_end(&mut world, programs);
    println!("ok");
}
