//! Whatever comes in: no panic, nothing that grows without a bound, no hang, and a connection beside it that is as it was.

use crate::support;

use support::common::pair::{Pair, Wire};
use support::common::{OnWire, encode, pattern};
use support::*;
use weft_core::*;
use weft_mptcp::counters::{Counter, ROWS};
use weft_mptcp::key::{Key, address_hmac};
use weft_wire::tcp::mptcp::{AddAddr, Capable, CapableFlags, DataSeq, Dss, Join, Keys, Mapping, Message as Option30, ResetFlags};
use weft_wire::tcp::{Flags, Segment};

/// The flow of a connection that is left alone, and its port.
const HONEST: FlowId = FlowId(2);
const HONEST_PORT: u16 = 4321;
const HONEST_BYTES: usize = 30_000;
/// What a node may hold in bytes of exported state, whatever comes.
const STATE_MAX: usize = 4 << 20;

/// Somebody on the path who has seen everything.
struct Attack {
    rng: Rng,
    /// What was seen lately: side, segment.
    seen: Vec<(usize, OnWire)>,
    /// Keys that were seen, options too.
    keys: Vec<u64>,
    known: Vec<Option30>,
    injected: u64,
    /// It says nothing of data that would end the connection at once: so that others are there for long.
    mild: bool,
}

impl Attack {
    fn new(seed: u64) -> Attack {
        Attack {
            rng: Rng::for_name(seed, "attack"),
            seen: Vec::new(),
            keys: Vec::new(),
            known: Vec::new(),
            injected: 0,
            mild: seed % 2 == 1,
        }
    }

    /// Remembers what a side has sent.
    fn learn(&mut self, from: usize, on_wire: &OnWire) {
        for message in on_wire.segment.options.mptcp().flatten() {
            if let Option30::Capable(Capable { keys: Keys::Both { sender, receiver }, .. }) = message {
                self.keys.extend([sender, receiver]);
            }
            self.known.push(message);
        }
        self.seen.push((from, on_wire.clone()));
        for excess in [self.seen.len().saturating_sub(40), self.known.len().saturating_sub(60)].into_iter().enumerate() {
            match excess {
                (0, count) => drop(self.seen.drain(..count)),
                (_, count) => drop(self.known.drain(..count)),
            }
        }
        let excess = self.keys.len().saturating_sub(8);
        self.keys.drain(..excess);
    }

    fn pick<T: Copy>(&mut self, from: &[T]) -> T {
        from[self.rng.below(from.len() as u64) as usize]
    }

    /// A number at a boundary, near one that is known, or any.
    fn number(&mut self, known: u64) -> u64 {
        match self.rng.below(10) {
            0..=2 => known,
            3 => known.wrapping_add(self.rng.below(3000)),
            4 => known.wrapping_sub(self.rng.below(3000)),
            5 => known.wrapping_add(1 << self.rng.below(64)),
            6 => self.rng.below(3),
            7 => u64::MAX - self.rng.below(3),
            8 => u64::from(u32::MAX) - 1 + self.rng.below(3),
            _ => self.rng.u64(),
        }
    }

    fn key(&mut self) -> u64 {
        match self.keys.len() {
            0 => self.rng.u64(),
            count if self.rng.chance(0.7) => self.keys[self.rng.below(count as u64) as usize],
            _ => self.rng.u64(),
        }
    }

    fn data_seq(&mut self) -> DataSeq {
        let known = self.known.iter().rev().find_map(|message| match message {
            Option30::Dss(Dss { mapping: Some(mapping), .. }) => Some(mapping.seq),
            _ => None,
        });
        let near = match known {
            Some(DataSeq::Long(seq)) => seq,
            Some(DataSeq::Short(seq)) => seq.into(),
            None => Key(self.key()).first(),
        };
        let number = self.number(near);
        if self.rng.chance(0.7) { DataSeq::Long(number) } else { DataSeq::Short(number as u32) }
    }

    fn dss(&mut self) -> Dss {
        let known = self.known.iter().rev().find_map(|message| match message {
            Option30::Dss(Dss { mapping: Some(mapping), .. }) => Some(*mapping),
            _ => None,
        });
        let subflow_seq = known.map_or(1, |mapping| mapping.subflow_seq);
        let mapping = self.rng.chance(0.8).then(|| Mapping {
            seq: self.data_seq(),
            subflow_seq: self.number(subflow_seq.into()) as u32,
            len: self.pick(&[0, 1, 2, 100, 1400, 1460, 20_000, u16::MAX - 1, u16::MAX]),
            checksum: self.rng.chance(0.3).then(|| self.rng.u32() as u16),
        });
        Dss { ack: self.rng.chance(0.7).then(|| self.data_seq()), mapping, fin: mapping.is_some() && self.rng.chance(0.1) }
    }

    fn address(&mut self) -> AddAddr {
        let address: std::net::IpAddr = self
            .pick(&[
                "10.0.1.2",
                "10.0.1.1",
                "10.0.0.2",
                "0.0.0.0",
                "127.0.0.1",
                "224.0.0.1",
                "255.255.255.255",
                "fd00::9",
                "::",
                "::ffff:10.0.1.2",
            ])
            .parse()
            .unwrap();
        let (address_id, port) = (self.rng.u32() as u8, self.rng.chance(0.3).then(|| self.rng.u32() as u16));
        let (one, other) = (Key(self.key()), Key(self.key()));
        let hmac = match self.rng.below(4) {
            0 => None,
            1 => Some(self.rng.u64()),
            _ => Some(address_hmac(one, other, address_id, address, port)),
        };
        AddAddr { address_id, address, port, hmac }
    }

    /// An option of any subtype.
    fn option(&mut self) -> Option30 {
        match self.rng.below(14) {
            2..=6 if self.mild && self.rng.chance(0.9) => {
                let mut known = self.known.iter().rev().filter(|message| matches!(message, Option30::Dss(_)));
                known.next().cloned().unwrap_or(Option30::Prio { backup: false })
            }
            10 | 11 if self.mild => Option30::Prio { backup: false },
            0 => {
                let keys = match self.rng.below(4) {
                    0 => Keys::None,
                    1 => Keys::Sender(self.key()),
                    2 => Keys::Both { sender: self.key(), receiver: self.key() },
                    _ => Keys::WithData {
                        sender: self.key(),
                        receiver: self.key(),
                        data_len: self.number(1400) as u16,
                        checksum: self.rng.chance(0.5).then(|| self.rng.u32() as u16),
                    },
                };
                let flags =
                    if self.rng.chance(0.7) { CapableFlags::HMAC_SHA256 } else { CapableFlags::from_bits_retain(self.rng.u32() as u8) };
                Option30::Capable(Capable { version: self.pick(&[1, 1, 1, 0, 2, 15]), flags, keys })
            }
            1 => {
                let (backup, address_id, nonce) = (self.rng.chance(0.5), self.rng.u32() as u8, self.rng.u32());
                Option30::Join(match self.rng.below(3) {
                    0 => Join::Syn { backup, address_id, token: Key(self.key()).token(), nonce },
                    1 => Join::SynAck { backup, address_id, hmac: self.rng.u64(), nonce },
                    _ => Join::Ack { hmac: [nonce as u8; 20] },
                })
            }
            2..=6 => Option30::Dss(self.dss()),
            7 => Option30::AddAddr(self.address()),
            8 => Option30::RemoveAddr { ids: (0..=self.rng.below(8)).map(|_| self.rng.below(12) as u8).collect() },
            9 => Option30::Prio { backup: self.rng.chance(0.5) },
            10 if self.rng.chance(0.1) => Option30::Fail { data_seq: self.number(0) },
            11 if self.rng.chance(0.3) => Option30::FastClose { receiver_key: self.key() },
            12 => Option30::Reset { flags: ResetFlags::TRANSIENT, reason: self.rng.u32() as u8 },
            _ if self.known.is_empty() => Option30::Prio { backup: true },
            // One that was there, in another place.
            _ => self.known[self.rng.below(self.known.len() as u64) as usize].clone(),
        }
    }

    /// Puts nonsense in the place of a segment's options.
    fn spoil(&mut self, segment: &mut Segment) {
        let keeps = self.rng.chance(0.3);
        if !keeps {
            let kept: Vec<(u8, Vec<u8>)> =
                segment.options.others().filter(|(kind, _)| *kind != 30).map(|(kind, data)| (kind, data.to_vec())).collect();
            segment.options.others = Default::default();
            kept.iter().for_each(|(kind, data)| segment.options.push_other(*kind, data).unwrap());
        }
        for _ in 0..=self.rng.below(2) {
            let before = segment.options.others.clone();
            let fits = if self.rng.chance(0.15) {
                let mut data = vec![0; self.rng.below(30) as usize];
                data.iter_mut().for_each(|byte| *byte = self.rng.u32() as u8);
                segment.options.push_other(30, &data).is_ok()
            } else {
                let message = self.option();
                segment.options.push_mptcp(&message).is_ok()
            };
            if !fits || !segment.options.fits() {
                segment.options.others = before;
            }
        }
    }

    /// One more segment, made of one that was there: to whom.
    fn forge(&mut self) -> Option<(usize, OnWire)> {
        let count = self.seen.len() as u64;
        if count == 0 {
            return None;
        }
        let (from, mut on_wire) = self.seen[self.rng.below(count) as usize].clone();
        let segment = &mut on_wire.segment;
        match self.rng.below(if self.mild { 400 } else { 40 }) {
            0 => segment.flags = Flags::SYN,
            1 => segment.flags = Flags::SYN | Flags::ACK,
            2 => segment.flags |= Flags::FIN,
            3 if self.rng.chance(0.1) => segment.flags = Flags::RST | Flags::ACK,
            4 => segment.src_port = 1000 + self.rng.below(30) as u16,
            5 => segment.seq += self.rng.below(5000) as u32,
            6 => segment.window = self.rng.u32() as u16,
            _ => {}
        }
        if !self.mild && self.rng.chance(0.15) {
            on_wire.payload = pattern(self.rng.below(1400) as usize).to_vec();
        }
        if self.rng.chance(0.8) {
            let mut segment = on_wire.segment.clone();
            self.spoil(&mut segment);
            on_wire.segment = segment;
        }
        on_wire.src.set_port(on_wire.segment.src_port);
        on_wire.bytes = encode(&on_wire.segment, &on_wire.payload, on_wire.src, on_wire.dst);
        self.injected += 1;
        Some((1 - from, on_wire))
    }
}

fn is_honest(on_wire: &OnWire) -> bool {
    [on_wire.src, on_wire.dst].iter().any(|end| end.port() == HONEST_PORT || end.port() == 81)
}

/// Bytes of what a block holds.
fn state_bytes(pair: &mut Pair, node: usize, block: &str) -> usize {
    let node = &pair.nodes[node];
    let id = node.engine.graph().find(block).unwrap();
    node.engine.graph().block(id).unwrap().export(node.now).unwrap().to_bytes().len()
}

/// One world; returns how many segments were forged.
fn attacked(seed: u64, cases: u64, totals: &mut [u64]) -> u64 {
    let mut draw = Rng::for_name(seed, "world");
    let wire = || Wire { loss: 0.005, ..slow(4_000_000, 5) };
    let client: &[&str] = if draw.chance(0.7) { &["10.0.1.1 subflow"] } else { &[] };
    let server: &[&str] = if draw.chance(0.4) { &["10.0.1.2 signal id 9"] } else { &[] };
    let mut pair = two(seed, [wire(), wire()], client, server);
    pair.log = Some(Vec::new());
    for node in &mut pair.nodes {
        node.tell("mptcp", "checksum", draw.chance(0.3).into()).unwrap();
        node.tell("mptcp", "close_timeout", "5s".into()).unwrap();
    }
    let mut attack = Attack::new(seed);
    // How much it changes on the way, beside what it adds.
    let changes = [0.0, 0.005, 0.1][draw.below(3) as usize];
    let mut spoiler = Attack::new(seed + 1_000_000);
    pair.alter = Some(Box::new(move |from, on_wire| {
        if !is_honest(on_wire) {
            spoiler.learn(from, on_wire);
            if spoiler.rng.chance(changes) {
                let mut segment = on_wire.segment.clone();
                spoiler.spoil(&mut segment);
                on_wire.segment = segment;
            }
        }
    }));
    connect(&mut pair);
    pair.nodes[1].app(|app, _| app.reply = Some(pattern(BYTES)));
    pair.nodes[0].app(|app, _| app.flow(FLOW).shutdown_after = true);
    pair.nodes[0].write(1, pattern(BYTES));
    // Beside it goes one that nobody touches.
    pair.nodes[1].listen(9, "0.0.0.0:81", 16, StreamOptions::default());
    pair.nodes[0].connect(HONEST.0, &format!("10.0.0.1:{HONEST_PORT}"), "10.0.0.2:81", StreamOptions::default());
    pair.nodes[0].app(|app, _| app.flow(HONEST).shutdown_after = true);
    pair.nodes[0].write(HONEST.0, pattern(HONEST_BYTES));
    // It begins with the first SYN, in the middle of handshakes that join, or when data flows on all subflows.
    let begins = pair.now + Duration::from_millis([0, 60, 200, 400][draw.below(4) as usize]);
    let often = [1, 3, 8][draw.below(3) as usize];
    let (mut steps, until) = (0, pair.now + Duration::from_secs(40));
    while attack.injected < cases && pair.now < until {
        pair.run_for(Duration::from_millis(1 + draw.below(20)));
        for (_, from, on_wire) in pair.log.replace(Vec::new()).unwrap() {
            if !is_honest(&on_wire) {
                attack.learn(from, &on_wire);
            }
        }
        for _ in 0..draw.below(1 + often) {
            if pair.now < begins {
                break;
            }
            if let Some((to, on_wire)) = attack.forge() {
                pair.nodes[to].inject(&on_wire);
            }
        }
        steps += 1;
        if steps % 100 == 0 {
            for (node, block) in [(0, "mptcp"), (0, "tcp"), (1, "mptcp"), (1, "tcp")] {
                let bytes = state_bytes(&mut pair, node, block);
                assert!(bytes < STATE_MAX, "seed {seed}: {block} of {node} holds {bytes} bytes: {:?}", connections(&mut pair.nodes[node]));
            }
        }
    }
    // It ends: in order, or by an error that the program is told. Whoever waits for more closes.
    pair.alter = None;
    pair.run_for(Duration::from_secs(30));
    let mut ends = vec![(0, FLOW), (0, HONEST)];
    ends.extend(pair.app(1, |app, _| app.accepted.clone()).into_iter().map(|child| (1, child)));
    for (node, flow) in ends.iter().copied().filter(|(_, flow)| *flow != HONEST) {
        if pair.app(node, |app, _| !app.flow(flow).released) {
            pair.nodes[node].call(flow.0, StreamCall::Close { unread: false, linger: None });
        }
    }
    // The honest one has come whole, both ways.
    let replies = pair.app(0, |app, _| app.flow(HONEST).received.len());
    assert_eq!(replies, BYTES, "seed {seed}");
    let whole = pair.app(1, |app, _| app.accepted.iter().any(|child| app.flows[child].received == pattern(HONEST_BYTES)));
    assert!(whole && pair.app(0, |app, _| app.flow(HONEST).received == pattern(BYTES)), "seed {seed}");
    for (node, flow) in ends.iter().copied() {
        if pair.app(node, |app, _| !app.flow(flow).released) {
            pair.nodes[node].call(flow.0, StreamCall::Close { unread: false, linger: None });
        }
    }
    pair.run_for(Duration::from_secs(1200));
    for (node, flow) in ends {
        let (released, events) = pair.app(node, |app, _| (app.flow(flow).released, app.flow(flow).events.clone()));
        assert!(released, "seed {seed}: {node} {flow:?} hangs: {events:?} {:?}", pair.nodes.each_mut().map(connections));
    }
    assert_eq!(pair.nodes.each_mut().map(population), [0, 0], "seed {seed} {:?}", pair.nodes.each_mut().map(connections));
    assert_eq!(pair.nodes.each_mut().map(|node| node.population()), [(0, 0, 0); 2], "seed {seed}");
    for node in &mut pair.nodes {
        assert_eq!(counter(node, Counter::MPCurrEstab), 0, "seed {seed}");
        let id = node.engine.graph().find("mptcp").unwrap();
        totals.iter_mut().zip(node.engine.graph().block(id).unwrap().counters()).for_each(|(total, value)| *total += value);
    }
    attack.injected
}

#[test]
fn hostile_segments_do_no_harm_at_any_stage() {
    let wanted: u64 = if std::env::var_os("FULL").is_some() { 1_000_000 } else { 20_000 };
    let mut totals = vec![0; ROWS.len()];
    let (mut seed, mut cases) = (0, 0);
    while cases < wanted {
        cases += attacked(seed, 200, &mut totals);
        seed += 1;
    }
    // It got everywhere that matters.
    let places = [
        Counter::BadOptions,
        Counter::MPJoinNoTokenFound,
        Counter::MPJoinSynRx,
        Counter::DSSNotMatching,
        Counter::DSSNoMatchTCP,
        Counter::NoDSSInWindow,
        Counter::DuplicateData,
        Counter::OFOQueueTail,
        Counter::MPJoinAckRx,
        Counter::RmSubflow,
        Counter::DSSCorruptionReset,
        Counter::SubflowAgain,
        Counter::AddAddrDrop,
        Counter::RmAddr,
        Counter::MPPrioRx,
        Counter::MPRstTx,
        Counter::InfiniteMapRx,
        Counter::MPFailRx,
        Counter::MPFastcloseRx,
        Counter::DataCsumErr,
    ];
    let missed: Vec<_> = places.iter().filter(|place| totals[**place as usize] == 0).collect();
    assert!(missed.is_empty(), "{missed:?}");
}

#[test]
fn single_bytes_out_of_order_are_not_held_without_a_bound() {
    let mut pair = two(1, [slow(2_000_000, 10), slow(2_000_000, 10)], &["10.0.1.1 subflow"], &[]);
    connect(&mut pair);
    pair.run_for(Duration::from_millis(500));
    pair.nodes[0].write(1, pattern(100_000));
    pair.run_for(Duration::from_secs(3));
    // The peer goes on with every second byte, from one on that never comes.
    let last = |wanted: fn(&Option30) -> Option<Mapping>| {
        let log = pair.log.iter().flatten().rev();
        let second =
            log.filter(|(_, from, on_wire)| *from == 0 && on_wire.src.ip().to_string() == "10.0.1.1" && !on_wire.payload.is_empty());
        second
            .flat_map(|(_, _, on_wire)| options(on_wire).iter().find_map(wanted).map(|mapping| (on_wire.clone(), mapping)))
            .next()
            .unwrap()
    };
    let (on_wire, mapping) = last(|message| match message {
        Option30::Dss(Dss { mapping: Some(mapping), .. }) => Some(*mapping),
        _ => None,
    });
    let DataSeq::Long(seq) = mapping.seq else { panic!("{mapping:?}") };
    let mut segment = on_wire.segment.clone();
    let is_syn = |(_, _, other): &&(Instant, usize, OnWire)| other.src == on_wire.src && other.segment.flags.contains(Flags::SYN);
    let syn = pair.log.iter().flatten().find(is_syn).unwrap().2.segment.seq;
    let after = mapping.subflow_seq + u32::from(mapping.len);
    let next = syn + after;
    for at in 0..20_000_u32 {
        segment.seq = next + at;
        segment.options.others = Default::default();
        let seq = DataSeq::Long(seq + 20_000 + 2 * u64::from(at));
        let mapping = Mapping { seq, subflow_seq: after + at, len: 1, checksum: None };
        segment.options.push_mptcp(&Option30::Dss(Dss { ack: None, mapping: Some(mapping), fin: false })).unwrap();
        let bytes = encode(&segment, b"x", on_wire.src, on_wire.dst);
        pair.nodes[1].inject(&OnWire { segment: segment.clone(), payload: b"x".to_vec(), bytes, ..on_wire.clone() });
        pair.nodes[1].take_frames();
    }
    let server = &mut pair.nodes[1];
    let held = counter(server, Counter::OFOQueueTail) + counter(server, Counter::OFOQueue);
    assert!(counter(server, Counter::NoDSSInWindow) > 10_000 && held > 100, "{:?}", counters(server));
    let bytes = state_bytes(&mut pair, 1, "mptcp");
    assert!(bytes < 40_000, "{bytes}");
}
