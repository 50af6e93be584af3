//! Random twin bodies.

use weft_core::Rng;

fn pick<'a>(rng: &mut Rng, from: &[&'a str]) -> &'a str {
    from[rng.below(from.len() as u64) as usize]
}

/// Where the steps of a program go.
const FOUR: &[&str] = &["127.0.0.1:p1", "127.0.0.1:p1", "127.0.0.1:p2", "0.0.0.0:p1", "127.0.0.2:p1", "127.0.0.1:@B", "127.0.0.1:@D"];
const BOTH: &[&str] = &[
    "127.0.0.1:p1",
    "[::ffff:127.0.0.1]:p1",
    "[::1]:p1",
    "[::1]:p2",
    "[::]:p1",
    "0.0.0.0:p1",
    "[::ffff:0.0.0.0]:p1",
    "[::1]:@B",
    "[::ffff:127.0.0.1]:@D",
    "127.0.0.1:@B",
];

/// A program of some dozen steps from a seed. Everything settles after every step, so that both hosts see the same order of events.
pub fn program(seed: u64) -> String {
    steps(&mut Rng::for_name(seed, "random twins"), FOUR, |_| "")
}

/// One with sockets of both families.
pub fn program_of_both_families(seed: u64) -> String {
    let family = |rng: &mut Rng| if rng.chance(0.7) { "6" } else { "" };
    steps(&mut Rng::for_name(seed, "random twins of both families"), BOTH, family)
}

/// A stream that has once tried an IPv4-mapped address never again connects over IPv6 on Linux (its SYN is lost: tcp_v6_connect leaves
/// `icsk_af_ops` at `ipv6_mapped`), so each socket keeps to one family.
fn whom_to_connect<'a>(rng: &mut Rng, addresses: &[&'a str], stream: bool, name: &str) -> &'a str {
    let native = |address: &&&str| address.starts_with("[::1]") || address.starts_with("[::]");
    let six: Vec<&str> = addresses.iter().filter(native).copied().collect();
    let four: Vec<&str> = addresses.iter().filter(|address| !native(address)).copied().collect();
    match (stream && !six.is_empty(), matches!(name, "A" | "B")) {
        (false, _) => pick(rng, addresses),
        (true, true) => pick(rng, &six),
        (true, false) => pick(rng, &four),
    }
}

fn steps(rng: &mut Rng, addresses: &[&str], family: impl Fn(&mut Rng) -> &'static str) -> String {
    let stream = rng.chance(0.75);
    let kind = if stream { "stream" } else { "dgram" };
    let mut out = String::new();
    for name in ["A", "B", "C", "D"] {
        out += &format!("{name} = socket {kind}{}\n", family(rng));
        if rng.chance(0.3) {
            out += &format!("set {name} SO_REUSEADDR 1\n");
        }
    }
    if rng.chance(0.7) && stream {
        // The first address is what most steps aim at.
        let own = if addresses.len() == FOUR.len() { addresses[0] } else { pick(rng, addresses) };
        out += &format!("bind A {own}\nlisten A 3\n");
    }
    for _ in 0..40 {
        let name = pick(rng, &["A", "B", "B", "C", "C", "D", "D"]);
        let port = pick(rng, addresses);
        let length = pick(rng, &["0", "1", "3", "100"]);
        let data = pick(rng, &["\"\"", "\"x\"", "\"hello\"", "1000*z"]);
        let step = match rng.below(100) {
            0..8 => format!("bind {name} {port}"),
            8..26 => format!("connect {name} {}", whom_to_connect(rng, addresses, stream, name)),
            26..29 => format!("connect {name} unspec"),
            29..35 => format!("listen {name} 2"),
            35..47 => format!("{} = accept {}", pick(rng, &["C", "D"]), pick(rng, &["A", "A", name])),
            47..61 => format!("send {name} {data}"),
            61..74 => format!("recv {name} {length} {}", pick(rng, &["", "", "", "peek", "waitall"])),
            74..79 => format!("shutdown {name} {}", pick(rng, &["rd", "wr", "rdwr"])),
            79..83 => {
                format!("set {name} {}", pick(rng, &["SO_LINGER linger:1,0", "SO_REUSEADDR 1", "SO_OOBINLINE 1", "SO_RCVLOWAT 4"]))
            }
            83..85 if stream => format!("send {name} \"U\" oob"),
            85..87 if stream => format!("recv {name} 1 oob"),
            87..90 => format!("close {name}\n{name} = socket {kind}{}", family(rng)),
            90..93 => format!("get {name} SO_ERROR"),
            93..96 => format!("ioctl {name} FIONREAD"),
            96..98 => format!("peer {name}"),
            98..100 => format!("sendto {name} {data} {port}"),
            _ => format!("get {name} SO_ACCEPTCONN"),
        };
        out += &format!("{step}\nsettle\npoll {name}\nname {name}\n");
    }
    out
}
