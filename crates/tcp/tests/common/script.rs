//! Traffic as text: a script drives one node and says what it must answer.
//!
//! ```text
//! listen backlog 4                      the program listens on port 80 (options: nodelay, cork, keepalive 10s 1s 3, defer 1s, timeout 5s)
//! connect                               … or connects from port 1234 to the peer's 80
//! -> SYN seq 0 win 1000 mss 1460 sackok wscale 7 ts 50     a segment of the peer
//! <- SYN|ACK seq 0 ack 1 mss 1460       the next segment of the node: flags exactly, and those fields that are named
//! <- none                               … or nothing
//! wait 40ms                             time passes; nothing may be left unread before
//! within 300ms                          time passes until something is sent
//! write 1000 [more|urgent|eor|stamped|stamped-eor]  read 500  hold  shutdown  close [unread] [linger 1s]  abort  shutread  set OPTION
//! event accepted                        the program's next event
//! counter TCPChallengeACK 1   drop TcpPaws 1   info snd_cwnd 10
//! ```
//! Numbers are relative: the node's to its first number, the peer's to [`PEER_INITIAL`]. `ts` of the peer counts from 0, its echo is the
//! node's last. Lines that begin with `#` say why.

use super::{Node, OnWire, encode, pattern};
use std::collections::VecDeque;
use std::net::SocketAddr;
use weft_core::*;
use weft_wire::tcp::{Flags, Segment, Seq, Timestamps};

pub const PEER_INITIAL: u32 = 0xffff_f000;

pub struct Script {
    pub node: Node,
    initial: Option<Seq>,
    peer_initial: Seq,
    out: VecDeque<OnWire>,
    last_stamp: u32,
    events_seen: usize,
    local: SocketAddr,
    remote: SocketAddr,
    written: usize,
    listens: bool,
    pub seen: Vec<OnWire>,
}

fn flags_of(text: &str) -> Flags {
    text.split('|').fold(Flags::empty(), |flags, name| flags | Flags::from_name(name).unwrap_or_else(|| panic!("flag {name}")))
}

fn number(text: &str) -> u32 {
    text.parse::<i64>().unwrap_or_else(|_| panic!("'{text}' is no number")) as u32
}

fn span(text: &str) -> Duration {
    parameter::parse_duration(text).unwrap()
}

fn ranges(text: &str, initial: Seq) -> Vec<(Seq, Seq)> {
    text.split(',').map(|range| range.split_once('-').map(|(from, to)| (initial + number(from), initial + number(to))).unwrap()).collect()
}

/// Runs a script against a node with these parameters.
pub fn run(parameters: &[(&str, Value)], text: &str) -> Script {
    let mut script = Script::new(parameters);
    script.run(text);
    script
}

impl Script {
    pub fn new(parameters: &[(&str, Value)]) -> Script {
        Script {
            node: Node::new("script", parameters),
            initial: None,
            peer_initial: Seq(PEER_INITIAL),
            out: VecDeque::new(),
            last_stamp: 0,
            events_seen: 0,
            local: "10.0.0.1:80".parse().unwrap(),
            remote: "10.0.0.9:5000".parse().unwrap(),
            written: 0,
            listens: false,
            seen: Vec::new(),
        }
    }

    pub fn run(&mut self, text: &str) {
        for (index, line) in text.lines().enumerate() {
            let line = line.trim();
            if line.is_empty() || line.starts_with('#') {
                continue;
            }
            if let Err(why) = self.step(line) {
                panic!("line {}: {line}\n  {why}\n  at {:?}, drops {:?}", index + 1, self.node.now, self.node.drops());
            }
        }
        self.collect();
        assert!(self.out.is_empty(), "at the end of the script: unexpected {}", self.show(&self.out[0].clone()));
    }

    fn flow(&mut self) -> FlowId {
        if self.listens { self.node.app(|app, _| app.accepted.last().copied()).unwrap_or(FlowId(1)) } else { FlowId(1) }
    }

    fn collect(&mut self) {
        let new = self.node.take_segments();
        self.seen.extend(new.iter().cloned());
        self.out.extend(new);
    }

    fn nothing_left(&mut self) -> Result<(), String> {
        self.collect();
        match self.out.front().cloned() {
            Some(segment) => Err(format!("unexpected {}", self.show(&segment))),
            None => Ok(()),
        }
    }

    fn step(&mut self, line: &str) -> Result<(), String> {
        let words: Vec<&str> = line.split_whitespace().collect();
        let flow = self.flow();
        match words[0] {
            "->" => {
                self.nothing_left()?;
                let on_wire = self.build(&words[1..]);
                self.node.inject(&on_wire);
            }
            "<-" => return self.expect(&words[1..]),
            "wait" => {
                self.nothing_left()?;
                let until = self.node.now + span(words[1]);
                // Timers fire each at its time.
                while let Some(next) = self.node.engine.next_timer().filter(|next| *next <= until) {
                    self.node.advance(next.max(self.node.now));
                    self.collect();
                    if !self.out.is_empty() && next < until {
                        let early = until - next;
                        return Err(format!("{:?} too early: {}", early, self.show(&self.out[0].clone())));
                    }
                }
                self.node.advance(until);
            }
            "within" => {
                self.nothing_left()?;
                let until = self.node.now + span(words[1]);
                while self.out.is_empty() {
                    let Some(next) = self.node.engine.next_timer().filter(|next| *next <= until) else {
                        return Err("nothing was sent in time".to_owned());
                    };
                    self.node.advance(next.max(self.node.now));
                    self.collect();
                }
            }
            "listen" | "connect" => self.open(&words),
            "write" => {
                let length = number(words[1]) as usize;
                let bytes = pattern(self.written + length).slice(self.written..);
                self.written += length;
                match words.get(2) {
                    None => self.node.write(flow.0, bytes),
                    Some(flag) => {
                        let asked = flag.contains("stamped");
                        let stamps = Stamps { scheduled: asked, left: asked, acknowledged: asked, quoted: asked };
                        let (more, urgent, record_end) = (*flag == "more", *flag == "urgent", flag.contains("eor"));
                        self.node.write_flags(flow.0, bytes, DataFlags { more, urgent, record_end, stamps, ..DataFlags::default() });
                    }
                }
            }
            "hold" => self.node.app(|app, _| app.holds = true),
            "read" => self.node.read(flow.0, number(words[1])),
            "shutdown" => self.node.call(flow.0, StreamCall::ShutdownWrite),
            "shutread" => self.node.call(flow.0, StreamCall::ShutdownRead),
            "abort" => self.node.call(flow.0, StreamCall::Abort),
            "close" => {
                let linger = words.iter().position(|word| *word == "linger").map(|at| span(words[at + 1]));
                self.node.call(flow.0, StreamCall::Close { unread: words.contains(&"unread"), linger });
            }
            "set" => self.node.call(flow.0, StreamCall::Set(option(&words[1..]))),
            "param" => drop(self.node.set(words[1], serde_json::from_str(words[2]).unwrap()).unwrap()),
            "leave" => self.node.app(|app, _| app.leaves_in_queue = true),
            "took" => self.node.call(1, StreamCall::Took { connections: 1 }),
            "mtu" => self.node.exec_below("mtu", u64::from(number(words[1]))),
            "peer" => self.remote.set_port(number(words[1]) as u16),
            "fresh" => {
                // Another connection of the same peer: numbers are learned anew.
                self.initial = None;
                self.peer_initial = Seq(PEER_INITIAL) + number(words[1]);
                self.events_seen = 0;
            }
            "event" => return self.event(&words[1..].join(" "), flow),
            "received" => {
                let got = self.node.app(|app, _| app.flow(flow).received.len());
                return check("received", got as u32, number(words[1]));
            }
            "counter" => {
                let row = weft_tcp::counters::ROWS.iter().position(|row| row.name == words[1]).expect("counter");
                let value = self.node.engine.graph().block(self.node.tcp).unwrap().counters()[row];
                return check(words[1], value as u32, number(words[2]));
            }
            "drop" => {
                let drops = self.node.drops();
                let count = drops.iter().find(|(reason, _)| format!("{reason:?}") == words[1]).map_or(0, |(_, count)| *count);
                return check(words[1], count as u32, number(words[2]));
            }
            "info" => {
                let info = serde_json::to_value(self.node.info(flow.0)).unwrap();
                let value = info.get(words[1]).unwrap_or_else(|| panic!("no field {}", words[1]));
                let text = value.to_string();
                return if text == words[2] { Ok(()) } else { Err(format!("{} is {value}", words[1])) };
            }
            other => panic!("no such step: {other}"),
        }
        Ok(())
    }

    fn open(&mut self, words: &[&str]) {
        let mut options = StreamOptions::default();
        let mut backlog = 8;
        let mut rest = &words[1..];
        while let [word, more @ ..] = rest {
            rest = more;
            match *word {
                "backlog" => backlog = number(rest[0]),
                _ => {
                    options.apply(option(&words[words.len() - rest.len() - 1..]));
                    if *word == "keepalive" {
                        options.keepalive_idle = Some(span(rest[0]));
                        options.keepalive_interval = Some(span(rest[1]));
                        options.keepalive_probes = Some(number(rest[2]));
                        rest = &rest[3..];
                        continue;
                    }
                }
            }
            while rest.first().is_some_and(|word| word.starts_with(|c: char| c.is_ascii_digit())) {
                rest = &rest[1..];
            }
        }
        if words[0] == "listen" {
            self.listens = true;
            self.node.listen(1, "0.0.0.0:80", backlog, options);
        } else {
            (self.local, self.remote) = ("10.0.0.1:1234".parse().unwrap(), "10.0.0.9:80".parse().unwrap());
            self.node.connect(1, &self.local.to_string(), &self.remote.to_string(), options);
        }
    }

    fn build(&mut self, words: &[&str]) -> OnWire {
        let initial = self.initial.unwrap_or_default();
        let mut segment = Segment { src_port: self.remote.port(), dst_port: self.local.port(), window: 65535, ..Segment::default() };
        segment.flags = flags_of(words[0]);
        let (mut length, mut tos, mut offset) = (0, 0, 0);
        let mut rest = words[1..].iter();
        while let Some(word) = rest.next() {
            let mut value = || *rest.next().unwrap_or_else(|| panic!("{word} needs a value"));
            match *word {
                "seq" => {
                    offset = number(value());
                    segment.seq = self.peer_initial + offset;
                }
                "ack" => segment.ack = initial + number(value()),
                "win" => segment.window = number(value()) as u16,
                "len" => length = number(value()) as usize,
                "mss" => segment.options.mss = Some(number(value()) as u16),
                "wscale" => segment.options.window_scale = Some(number(value()) as u8),
                "sackok" => segment.options.sack_permitted = true,
                "ts" => segment.options.timestamps = Some(Timestamps { value: number(value()), echo: self.last_stamp }),
                "ecr" => {
                    let echo = number(value());
                    let stamp = segment.options.timestamps.as_mut().unwrap();
                    // Milliseconds before the node's last.
                    stamp.echo = stamp.echo.wrapping_sub(echo);
                }
                "sack" => segment.options.sack.extend(ranges(value(), initial)),
                "urg" => segment.urgent = number(value()) as u16,
                "ce" => tos = 3,
                "ect" => tos = 2,
                other => panic!("no such field: {other}"),
            }
        }
        let from = offset.wrapping_sub(1) as usize;
        let payload = if length > 0 { pattern(from.min(1 << 24) + length).slice(from.min(1 << 24)..).to_vec() } else { Vec::new() };
        let bytes = encode(&segment, &payload, self.remote, self.local);
        OnWire { segment, payload, tos, src: self.remote, dst: self.local, bytes }
    }

    fn expect(&mut self, words: &[&str]) -> Result<(), String> {
        self.collect();
        if words[0] == "none" {
            return self.nothing_left();
        }
        if words[0] == "any" {
            self.out.clear();
            return Ok(());
        }
        let Some(got) = self.out.pop_front() else { return Err("nothing was sent".to_owned()) };
        if let Some(stamp) = got.segment.options.timestamps {
            self.last_stamp = stamp.value;
        }
        if got.segment.flags.contains(Flags::SYN) && self.initial.is_none() {
            self.initial = Some(got.segment.seq);
        }
        let result = self.compare(&got, words);
        result.map_err(|why| format!("{why} in {}", self.show(&got)))
    }

    fn compare(&self, got: &OnWire, words: &[&str]) -> Result<(), String> {
        let (initial, segment) = (self.initial.unwrap_or_default(), &got.segment);
        let flags = flags_of(words[0]);
        if segment.flags != flags {
            return Err(format!("flags {:?} and not {flags:?}", segment.flags));
        }
        let mut rest = words[1..].iter();
        while let Some(word) = rest.next() {
            let mut value = || *rest.next().unwrap_or_else(|| panic!("{word} needs a value"));
            match *word {
                "seq" => check("seq", segment.seq.since(initial), number(value()))?,
                "rawseq" => check("seq", segment.seq.0, number(value()))?,
                "ack" => check("ack", segment.ack.since(self.peer_initial), number(value()))?,
                "win" => check("win", u32::from(segment.window), number(value()))?,
                "len" => check("len", got.payload.len() as u32, number(value()))?,
                "mss" => check("mss", segment.options.mss.map_or(0, u32::from), number(value()))?,
                "wscale" => check("wscale", segment.options.window_scale.map_or(99, u32::from), number(value()))?,
                "sackok" if segment.options.sack_permitted => {}
                "nosackok" if !segment.options.sack_permitted => {}
                "ts" if segment.options.timestamps.is_some() => {}
                "nots" if segment.options.timestamps.is_none() => {}
                "ecr" => check("ecr", segment.options.timestamps.map_or(0, |stamp| stamp.echo), number(value()))?,
                "urg" => check("urg", u32::from(segment.urgent), number(value()))?,
                "ect" if got.tos & 3 == 2 => {}
                "noect" if got.tos & 3 == 0 => {}
                "nosack" if segment.options.sack.is_empty() => {}
                "sack" => {
                    let expected = ranges(value(), self.peer_initial);
                    if segment.options.sack[..] != expected[..] {
                        return Err("other SACK blocks".to_owned());
                    }
                }
                other => return Err(format!("{other} does not hold")),
            }
        }
        // What is sent is what was written.
        if !got.payload.is_empty() {
            let at = segment.seq.since(initial) as usize - 1;
            if at + got.payload.len() <= self.written && pattern(at + got.payload.len())[at..] != got.payload[..] {
                return Err("other bytes than were written".to_owned());
            }
        }
        Ok(())
    }

    fn event(&mut self, expected: &str, flow: FlowId) -> Result<(), String> {
        let flow = if expected == "accepted" { FlowId(1) } else { flow };
        let events = self.node.events(flow.0);
        if expected == "accepted" {
            return if events.iter().any(|event| event == "accepted") { Ok(()) } else { Err(format!("events: {events:?}")) };
        }
        if expected == "none" {
            return if events.len() == self.events_seen { Ok(()) } else { Err(format!("events: {:?}", &events[self.events_seen..])) };
        }
        let next = events.get(self.events_seen).ok_or_else(|| format!("no more events: {events:?}"))?;
        self.events_seen += 1;
        if next == expected { Ok(()) } else { Err(format!("the next event is {next}; all: {events:?}")) }
    }

    fn show(&self, got: &OnWire) -> String {
        let s = &got.segment;
        let names: Vec<_> = s.flags.iter_names().map(|(name, _)| name).collect();
        let sack: Vec<_> =
            s.options.sack.iter().map(|(from, to)| format!("{}-{}", from.since(self.peer_initial), to.since(self.peer_initial))).collect();
        format!(
            "<- {} seq {} ack {} len {} win {} mss {:?} sack {sack:?} ts {:?} urg {}",
            names.join("|"),
            s.seq.since(self.initial.unwrap_or_default()),
            s.ack.since(self.peer_initial),
            got.payload.len(),
            s.window,
            s.options.mss,
            s.options.timestamps,
            s.urgent
        )
    }
}

fn check(what: &str, got: u32, expected: u32) -> Result<(), String> {
    if got == expected { Ok(()) } else { Err(format!("{what} is {got} and not {expected}")) }
}

fn option(words: &[&str]) -> StreamOption {
    match words[0] {
        "nodelay" => StreamOption::Nodelay(true),
        "cork" => StreamOption::Cork(true),
        "uncork" => StreamOption::Cork(false),
        "quickack" => StreamOption::Quickack(Some(true)),
        "noquickack" => StreamOption::Quickack(Some(false)),
        "keepalive" => StreamOption::Keepalive(true),
        "timeout" => StreamOption::UserTimeout(Some(span(words[1]))),
        "defer" => StreamOption::DeferAccept(span(words[1])),
        "linger2" => StreamOption::FinWait2(Some(span(words[1]))),
        "maxseg" => StreamOption::MssMax(number(words[1])),
        "rcvbuf" => StreamOption::ReceiveBuffer(Some(number(words[1]))),
        "sndbuf" => StreamOption::SendBuffer(Some(number(words[1]))),
        "rate" => StreamOption::PacingRateMax(u64::from(number(words[1]))),
        "lowat" => StreamOption::UnsentLowWater(number(words[1])),
        "congestion" => StreamOption::Congestion(Some(words[1].to_owned())),
        other => panic!("no such option: {other}"),
    }
}
