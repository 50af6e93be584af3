//! Random twin bodies.

use weft_core::Rng;

fn pick<'a>(rng: &mut Rng, from: &[&'a str]) -> &'a str {
    from[rng.below(from.len() as u64) as usize]
}

/// A program of some dozen steps from a seed. Everything settles after every step, so that both hosts see the same order of events.
pub fn program(seed: u64) -> String {
    let mut rng = Rng::for_name(seed, "random twins");
    let stream = rng.chance(0.75);
    let kind = if stream { "stream" } else { "dgram" };
    let mut out = String::new();
    for name in ["A", "B", "C", "D"] {
        out += &format!("{name} = socket {kind}\n");
        if rng.chance(0.3) {
            out += &format!("set {name} SO_REUSEADDR 1\n");
        }
    }
    if rng.chance(0.7) && stream {
        out += "bind A 127.0.0.1:p1\nlisten A 3\n";
    }
    for _ in 0..40 {
        let name = pick(&mut rng, &["A", "B", "B", "C", "C", "D", "D"]);
        let port =
            pick(&mut rng, &["127.0.0.1:p1", "127.0.0.1:p1", "127.0.0.1:p2", "0.0.0.0:p1", "127.0.0.2:p1", "127.0.0.1:@B", "127.0.0.1:@D"]);
        let length = pick(&mut rng, &["0", "1", "3", "100"]);
        let data = pick(&mut rng, &["\"\"", "\"x\"", "\"hello\"", "1000*z"]);
        let step = match rng.below(100) {
            0..8 => format!("bind {name} {port}"),
            8..26 => format!("connect {name} {port}"),
            26..29 => format!("connect {name} unspec"),
            29..35 => format!("listen {name} 2"),
            35..47 => format!("{} = accept {}", pick(&mut rng, &["C", "D"]), pick(&mut rng, &["A", "A", name])),
            47..61 => format!("send {name} {data}"),
            61..74 => format!("recv {name} {length} {}", pick(&mut rng, &["", "", "", "peek", "waitall"])),
            74..79 => format!("shutdown {name} {}", pick(&mut rng, &["rd", "wr", "rdwr"])),
            79..83 => {
                format!("set {name} {}", pick(&mut rng, &["SO_LINGER linger:1,0", "SO_REUSEADDR 1", "SO_OOBINLINE 1", "SO_RCVLOWAT 4"]))
            }
            83..85 if stream => format!("send {name} \"U\" oob"),
            85..87 if stream => format!("recv {name} 1 oob"),
            87..90 => format!("close {name}\n{name} = socket {kind}"),
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
