//! Whatever comes in: no panic, no message after `Released`, no more than the bounds, and at the end nothing is left.

use crate::common;

use common::{Node, OnWire, encode, pattern};
use std::net::{Ipv4Addr, Ipv6Addr, SocketAddr};
use weft_core::*;
use weft_tcp::counters::Counter as Count;
use weft_wire::tcp::{Flags, Segment, Seq, Timestamps};

struct Attack {
    node: Node,
    rng: Rng,
    /// Per peer port: last numbers seen from the node.
    seen: Vec<(Seq, Seq, u32, u16)>,
    /// Data segments that the node sent lately: peer port, first number, number after the last.
    sent: Vec<(u16, Seq, Seq)>,
}

impl Attack {
    fn new(seed: u64) -> Attack {
        let mut rng = Rng::for_name(seed, "attack");
        let on = |rng: &mut Rng| Value::from(rng.chance(0.7));
        let parameters = [
            ("sack", on(&mut rng)),
            ("timestamps", on(&mut rng)),
            ("window_scaling", on(&mut rng)),
            ("frto", on(&mut rng)),
            ("tail_loss_probe", on(&mut rng)),
            ("pacing", Value::from(rng.chance(0.3))),
            ("ecn", Value::from(rng.below(3))),
            ("congestion", Value::from(if rng.chance(0.5) { "cubic" } else { "reno" })),
            ("rmem_max", Value::from(200_000)),
        ];
        let mut node = Node::new("victim", &parameters);
        node.exec_below("gso", if rng.chance(0.5) { 65_536 } else { 0 });
        node.listen(1, "0.0.0.0:80", 3, StreamOptions { keepalive: true, ..StreamOptions::default() });
        Attack { node, rng, seen: Vec::new(), sent: Vec::new() }
    }

    fn learn(&mut self) {
        for on_wire in self.node.take_segments() {
            let segment = &on_wire.segment;
            let stamp = segment.options.timestamps.map_or(0, |stamp| stamp.value);
            let port = on_wire.dst.port();
            if !on_wire.payload.is_empty() {
                self.sent.push((port, segment.seq, segment.seq + on_wire.payload.len() as u32));
                if self.sent.len() > 60 {
                    self.sent.remove(0);
                }
            }
            self.seen.retain(|entry| entry.3 != port);
            self.seen.push((segment.seq + on_wire.payload.len() as u32, segment.ack, stamp, port));
        }
    }

    /// Numbers near those that matter.
    fn near(&mut self, base: Seq) -> Seq {
        match self.rng.below(8) {
            0..=3 => base,
            4 => base + self.rng.below(3000) as u32,
            5 => base - self.rng.below(3000) as u32,
            6 => base + self.rng.below(1 << 18) as u32,
            _ => Seq(self.rng.u32()),
        }
    }

    fn segment(&mut self) -> OnWire {
        let count = self.seen.len() as u64;
        let known = if count > 0 && self.rng.chance(0.85) { Some(self.seen[self.rng.below(count) as usize]) } else { None };
        let connecting = known.is_some_and(|known| known.3 >= 9000);
        let port = known.map_or(5000 + self.rng.below(6) as u16, |known| known.3);
        let (ack, seq, stamp) = known.map_or((Seq(0), Seq(1000), 0), |known| (known.0, known.1, known.2));
        let mut segment = Segment { src_port: port, dst_port: 80, window: self.rng.u32() as u16, ..Segment::default() };
        if connecting {
            // The node's own connections: its port is 1000 below.
            segment.dst_port = port - 1000;
        }
        segment.flags = match self.rng.below(60) {
            0 => Flags::SYN,
            1 => Flags::SYN | Flags::ACK,
            2 => Flags::FIN | Flags::ACK,
            3 => Flags::RST,
            4 => Flags::from_bits_truncate(self.rng.u32() as u16),
            5 => Flags::ACK | Flags::URG,
            6 => Flags::ACK | Flags::ECE | Flags::CWR,
            _ => Flags::ACK | Flags::PSH,
        };
        (segment.seq, segment.ack) = (self.near(seq), self.near(ack));
        if self.rng.chance(0.1) {
            segment.window = 0;
        }
        segment.urgent = self.rng.below(5) as u16;
        if self.rng.chance(0.6) {
            let value = 1000 + (self.node.now.as_millis() as u32) + self.rng.below(10) as u32;
            segment.options.timestamps = Some(Timestamps { value, echo: if self.rng.chance(0.8) { stamp } else { self.rng.u32() } });
        }
        let sent: Vec<_> = self.sent.iter().filter(|entry| entry.0 == port).copied().collect();
        if !sent.is_empty() && self.rng.chance(0.7) {
            segment.ack = sent[self.rng.below(sent.len() as u64) as usize].1;
        }
        for _ in 0..self.rng.below(4) {
            let start = self.near(ack - 5000_u32);
            let mut end = start + self.rng.below(6000) as u32;
            let mut start = start;
            if !sent.is_empty() && self.rng.chance(0.8) {
                (_, start, end) = sent[self.rng.below(sent.len() as u64) as usize];
            }
            let room = if segment.options.timestamps.is_some() { 2 } else { 4 };
            if segment.options.sack.len() < room {
                segment.options.sack.push((start, end));
            }
        }
        if segment.flags.contains(Flags::SYN) {
            segment.options.sack.clear();
            segment.options.mss = self.rng.chance(0.8).then(|| self.rng.below(2000) as u16);
            segment.options.window_scale = self.rng.chance(0.8).then(|| self.rng.below(20) as u8);
            segment.options.sack_permitted = self.rng.chance(0.8);
        }
        let length = if self.rng.chance(0.4) { self.rng.below(3000) as usize } else { 0 };
        let payload = pattern(length).to_vec();
        let (src, dst): (SocketAddr, SocketAddr) =
            (format!("10.0.0.9:{port}").parse().unwrap(), format!("10.0.0.1:{}", segment.dst_port).parse().unwrap());
        let bytes = encode(&segment, &payload, src, dst);
        OnWire { segment, payload, tos: self.rng.below(4) as u8, src, dst, bytes }
    }

    fn program(&mut self) {
        let flows = self.node.app(|app, _| app.flows.iter().filter(|(_, flow)| !flow.released).map(|(flow, _)| *flow).collect::<Vec<_>>());
        let children: Vec<FlowId> = flows.into_iter().filter(|flow| flow.0 != 1).collect();
        if children.is_empty() || self.rng.chance(0.1) {
            let at = self.rng.below(20);
            let (local, remote) = (format!("10.0.0.1:{}", 8000 + at), format!("10.0.0.9:{}", 9000 + at));
            let id = 100 + self.rng.below(1 << 40);
            return self.node.connect(id, &local, &remote, StreamOptions::default());
        }
        let flow = children[self.rng.below(children.len() as u64) as usize].0;
        match self.rng.below(60) {
            0..=50 => {
                let bytes = pattern(self.rng.below(20_000) as usize);
                let credit = self.node.app(|app, _| app.flow(FlowId(flow)).credit) as usize;
                let urgent = self.rng.chance(0.1);
                let bytes = bytes.slice(..bytes.len().min(credit));
                self.node.write_flags(flow, bytes, DataFlags { more: self.rng.chance(0.2), urgent, ..DataFlags::default() });
            }
            51 => self.node.call(flow, StreamCall::ShutdownWrite),
            52 => self.node.call(flow, StreamCall::ShutdownRead),
            53 => self.node.call(flow, StreamCall::Close { unread: self.rng.chance(0.3), linger: None }),
            54 => self.node.call(flow, StreamCall::Close { unread: false, linger: Some(Duration::from_millis(self.rng.below(3000))) }),
            55 => self.node.call(flow, StreamCall::Abort),
            56 => self.node.call(flow, StreamCall::Set(StreamOption::Nodelay(self.rng.chance(0.5)))),
            57 => self.node.call(flow, StreamCall::Set(StreamOption::Congestion(Some("reno".to_owned())))),
            _ => self.node.call(flow, StreamCall::Set(StreamOption::ReceiveBuffer(Some(self.rng.below(100_000) as u32)))),
        }
    }

    fn run(&mut self, steps: usize) {
        for _ in 0..steps {
            self.learn();
            match self.rng.below(20) {
                0 => self.program(),
                1 => {
                    let to = self.node.now + Duration::from_millis(self.rng.below(400));
                    self.node.advance(to);
                }
                2 => {
                    if let Some(next) = self.node.engine.next_timer() {
                        self.node.advance(next.max(self.node.now));
                    }
                }
                3 if self.rng.chance(0.05) => self.node.exec_below("mtu", 600 + self.rng.below(1000)),
                _ => {
                    let segment = self.segment();
                    for _ in 0..if self.rng.chance(0.05) { 4 } else { 1 } {
                        self.node.inject(&segment);
                    }
                }
            }
        }
    }
}

#[test]
fn random_segments_and_calls_do_no_harm() {
    let mut totals = vec![0u64; weft_tcp::counters::ROWS.len()];
    for seed in 0..40 {
        let mut attack = Attack::new(seed);
        attack.run(6000);
        // Everything is let go of: within the longest timeouts nothing is left.
        let flows = attack.node.app(|app, _| app.flows.keys().copied().collect::<Vec<_>>());
        for flow in &flows {
            attack.node.call(flow.0, StreamCall::Close { unread: false, linger: None });
        }
        attack.learn();
        for _ in 0..20_000 {
            let Some(next) = attack.node.engine.next_timer() else { break };
            attack.node.advance(next.max(attack.node.now));
            attack.node.take_frames();
        }
        let left = attack.node.engine.graph().block(attack.node.tcp).unwrap().query(&Query::List(Table::Flows), attack.node.now);
        assert_eq!(attack.node.population(), (0, 0, 0), "seed {seed}: {left:?}, next timer {:?}", attack.node.engine.next_timer());
        let values = attack.node.engine.graph().block(attack.node.tcp).unwrap().counters();
        totals.iter_mut().zip(values).for_each(|(total, value)| *total += value);
        let released = attack.node.app(|app, _| app.flows.values().all(|flow| flow.released || flow.events.is_empty()));
        assert!(released, "seed {seed}: a flow was opened and not released");
    }
    // The attack got everywhere that matters.
    let reached = |name: &str| weft_tcp::counters::ROWS.iter().zip(&totals).any(|(row, total)| row.name == name && *total > 0);
    let places = "PassiveOpens TCPTimeouts TCPSackRecovery TCPRenoRecovery TCPSackFailures TCPFastRetrans TCPLossProbes TCPSACKReneging TCPSACKReorder \
        TCPDSACKRecv TCPLossUndo TCPOFOQueue TCPRcvCoalesce PAWSEstab TCPChallengeACK TCPWinProbe TCPAbortOnData TCPAbortOnClose TW TCPECNEstab";
    let missed: Vec<_> = places.split_whitespace().filter(|name| !reached(name)).collect();
    assert_eq!(missed, [""; 0]);
}

#[test]
fn a_flood_of_tiny_out_of_order_segments_stays_within_the_buffer() {
    let mut node = Node::new("flood", &[("rmem_max", 131_072.into())]);
    node.listen(1, "0.0.0.0:80", 3, StreamOptions::default());
    let (src, dst): (SocketAddr, SocketAddr) = ("10.0.0.9:5".parse().unwrap(), "10.0.0.1:80".parse().unwrap());
    let inject = |node: &mut Node, segment: Segment, payload: &[u8]| {
        let segment = Segment { src_port: 5, dst_port: 80, window: 60_000, ..segment };
        let bytes = encode(&segment, payload, src, dst);
        node.inject(&OnWire { segment, payload: payload.to_vec(), tos: 0, src, dst, bytes });
    };
    let mut syn = Segment { seq: Seq(0), flags: Flags::SYN, ..Segment::default() };
    syn.options.sack_permitted = true;
    inject(&mut node, syn, b"");
    let initial = node.take_segments()[0].segment.seq;
    inject(&mut node, Segment { seq: Seq(1), ack: initial + 1, flags: Flags::ACK, ..Segment::default() }, b"");
    for at in 0..20_000u32 {
        inject(&mut node, Segment { seq: Seq(3 + at * 2), ack: initial + 1, flags: Flags::ACK, ..Segment::default() }, b"x");
        node.take_frames();
    }
    let kept = node.info(FlowId::ACCEPTED | 1).receive_queue_bytes;
    assert!(kept > 100 && kept < 131_072 / 300, "{kept} single bytes are kept");
    assert!(node.drops().iter().any(|(reason, _)| *reason == Reason::TcpOutOfOrderFull));
}

#[test]
fn a_syn_flood_stays_within_the_backlog() {
    let mut node = Node::new("syns", &[("syn_backlog", 100.into()), ("syncookies", 0.into())]);
    node.listen(1, "0.0.0.0:80", 1000, StreamOptions::default());
    for port in 1..=1000u16 {
        let (src, dst): (SocketAddr, SocketAddr) = (format!("10.0.0.9:{port}").parse().unwrap(), "10.0.0.1:80".parse().unwrap());
        let segment = Segment { src_port: port, dst_port: 80, flags: Flags::SYN, ..Segment::default() };
        let bytes = encode(&segment, b"", src, dst);
        node.inject(&OnWire { segment, payload: Vec::new(), tos: 0, src, dst, bytes });
    }
    assert_eq!(node.population(), (0, 100, 0));
    assert_eq!(node.drops(), [(Reason::SynQueueFull, 900)]);
    let later = node.now + Duration::from_secs(200);
    while let Some(next) = node.engine.next_timer().filter(|next| *next <= later) {
        node.advance(next);
        node.take_frames();
    }
    assert_eq!(node.population(), (0, 0, 0));
}

/// A SYN from anywhere, with the options of a modern client or none.
fn syn_from(src: SocketAddr, dst: SocketAddr, seq: u32, stamp: Option<u32>) -> OnWire {
    let mut segment =
        Segment { src_port: src.port(), dst_port: dst.port(), seq: Seq(seq), flags: Flags::SYN, window: 65_000, ..Segment::default() };
    segment.options.mss = Some(if src.is_ipv4() { 1460 } else { 1440 });
    if let Some(value) = stamp {
        segment.options.sack_permitted = true;
        segment.options.window_scale = Some(9);
        segment.options.timestamps = Some(Timestamps { value, echo: 0 });
    }
    let bytes = encode(&segment, b"", src, dst);
    OnWire { segment, payload: Vec::new(), tos: 0, src, dst, bytes }
}

/// The client's acknowledgment of a SYN|ACK, with data.
fn answer(to: &OnWire, data: &[u8]) -> OnWire {
    let theirs = &to.segment;
    let mut segment = Segment {
        src_port: theirs.dst_port,
        dst_port: theirs.src_port,
        seq: theirs.ack,
        ack: theirs.seq + 1,
        flags: Flags::ACK | Flags::PSH,
        window: if theirs.options.window_scale.is_some() { 1000 } else { 60_000 },
        ..Segment::default()
    };
    segment.options.timestamps = theirs.options.timestamps.map(|stamp| Timestamps { value: stamp.echo + 30, echo: stamp.value });
    let bytes = encode(&segment, data, to.dst, to.src);
    OnWire { segment, payload: data.to_vec(), tos: 0, src: to.dst, dst: to.src, bytes }
}

fn flood(count: u32) {
    for v6 in [false, true] {
        let mut node = Node::new("flood", &[]);
        node.listen(1, if v6 { "[::]:80" } else { "0.0.0.0:80" }, 50, StreamOptions::default());
        let dst: SocketAddr = if v6 { "[fd00::1]:80" } else { "10.0.0.1:80" }.parse().unwrap();
        let from = |at: u32| -> SocketAddr {
            let port = 1 + (at % 60_000) as u16;
            if v6 {
                SocketAddr::new(Ipv6Addr::from(0xfd01_u128 << 112 | u128::from(at)).into(), port)
            } else {
                SocketAddr::new(Ipv4Addr::from(0x0b00_0000 + at).into(), port)
            }
        };
        for at in 0..count {
            node.inject(&syn_from(from(at), dst, at * 77, (at % 2 == 0).then_some(at)));
            // Every SYN is answered, and nothing is kept for it.
            assert_eq!(node.take_segments().len(), 1);
            if at % 1000 == 999 {
                node.now += Duration::from_millis(2);
            }
        }
        assert_eq!(node.population(), (0, 51, 0));
        assert_eq!(node.counter(Count::SyncookiesSent), u64::from(count) - 51);
        // In the middle of it a client connects, one with all options and one with none, and both are heard.
        for (at, stamp) in [(5_000_000, Some(123_456)), (5_000_001, None)] {
            node.inject(&syn_from(from(at), dst, 4_000_000_000, stamp));
            let cookie = node.take_segments().remove(0);
            assert_eq!(cookie.segment.flags, Flags::SYN | Flags::ACK);
            assert_eq!(cookie.segment.options.window_scale.is_some(), stamp.is_some());
            node.now += Duration::from_millis(40);
            node.inject(&answer(&cookie, b"hello"));
            let child = node.app(|app, _| app.accepted.last().copied()).unwrap();
            assert_eq!(node.app(|app, _| app.flow(child).received.clone()), b"hello");
            let info = node.info(child.0);
            let mss = if v6 { [1428, 1440] } else { [1448, 1460] }[usize::from(stamp.is_none())];
            assert_eq!(
                (info.options & 2 != 0, info.snd_wscale, info.snd_mss),
                (stamp.is_some(), if stamp.is_some() { 9 } else { 0 }, mss),
                "{stamp:?}"
            );
            // The round trip is known to 64 ms from the timestamp, and not at all without.
            assert_eq!((40_000..=104_000).contains(&info.rtt_us), stamp.is_some(), "{} us", info.rtt_us);
            node.take_frames();
        }
        assert_eq!((node.counter(Count::SyncookiesRecv), node.counter(Count::SyncookiesFailed)), (2, 0));
        // Guesses are reset.
        let guess = syn_from(from(9), dst, 1, None);
        let guess = OnWire { segment: Segment { ack: Seq(1), flags: Flags::ACK, ..guess.segment.clone() }, ..guess };
        let bytes = encode(&guess.segment, b"", guess.src, guess.dst);
        let before = node.population();
        node.inject(&OnWire { bytes, ..guess });
        assert_eq!(node.population(), before);
        assert!(node.counter(Count::SyncookiesFailed) <= 1);
    }
}

#[test]
fn two_hundred_thousand_syns_are_answered_by_cookies_and_nothing_is_kept() {
    flood(if std::env::var_os("FULL").is_some() { 1_000_000 } else { 200_000 });
}

#[test]
fn cookies_are_taken_for_two_minutes_after_the_last_overflow_and_refused_when_off() {
    let dst: SocketAddr = "10.0.0.1:80".parse().unwrap();
    for (late, off, accepted) in [(0, false, 1), (59, false, 1), (130, false, 0), (0, true, 0)] {
        let mut node = Node::new("cookies", &[("syncookies", 2.into())]);
        node.listen(1, "0.0.0.0:80", 50, StreamOptions::default());
        node.inject(&syn_from("10.0.0.9:7".parse().unwrap(), dst, 5, Some(1)));
        let cookie = node.take_segments().remove(0);
        assert_eq!(node.population(), (0, 0, 0), "with 2 every SYN gets a cookie");
        node.now += Duration::from_secs(late);
        if off {
            node.set("syncookies", 0.into()).unwrap();
        }
        node.inject(&answer(&cookie, b"x"));
        assert_eq!(node.population(), (accepted, 0, 0), "{late} s later, off: {off}");
        if accepted == 0 {
            assert_eq!(node.take_segments()[0].segment.flags, Flags::RST);
        }
    }
}
