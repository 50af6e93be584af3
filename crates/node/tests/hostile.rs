//! A stranger on the wire: hundreds of thousands of forged frames while a transfer goes on. In virtual time and from a seed, so that what fails once
//! fails again. `FULL=1` runs more of them.
//!
//! There are two flows. The stranger is blind to the first: it knows addresses and ports, but no sequence numbers; that transfer must end
//! byte-exact. It sees every frame of the second and may kill it; it is made anew then.

use crate::common;

use common::{AF_INET, Fate, Pair, SOCK_DGRAM, SOCK_STREAM, address};
use std::cell::RefCell;
use std::collections::VecDeque;
use std::rc::Rc;
use std::time::Duration;
use weft_core::control::{Message, Op, Show, Value};
use weft_core::offload::complete_checksum;
use weft_core::{Bytes, Frame, Instant, InterfaceIndex, Rng, Table};
use weft_socket::SocketId;

const MACS: [[u8; 6]; 2] = [[2, 0, 0, 0, 0, 1], [2, 0, 0, 0, 0, 2]];
/// The port of the flow that the stranger sees.
const SEEN_PORT: u16 = 81;
/// Bytes of Ethernet header.
const LINK: usize = 14;

/// The last frames of the wire: which side sent them, and their bytes.
type Tape = Rc<RefCell<VecDeque<(usize, Vec<u8>)>>>;

fn sum(bytes: &[u8]) -> u32 {
    bytes.chunks(2).map(|pair| u32::from(pair[0]) << 8 | u32::from(pair.get(1).copied().unwrap_or(0))).sum()
}

fn fold(mut sum: u32) -> u16 {
    while sum > 0xffff {
        sum = (sum & 0xffff) + (sum >> 16);
    }
    !(sum as u16)
}

/// Makes the checksums of IP, and of TCP, UDP and ICMP in it, right, as far as there is room for them.
fn repair(frame: &mut [u8]) {
    let Some(packet) = frame.get_mut(LINK..) else { return };
    let header = packet.first().map_or(0, |first| usize::from(first & 15) * 4);
    if header < 20 || packet.len() < header {
        return;
    }
    packet[10..12].fill(0);
    let ip = fold(sum(&packet[..header]));
    packet[10..12].copy_from_slice(&ip.to_be_bytes());
    let total = usize::from(u16::from_be_bytes([packet[2], packet[3]])).clamp(header, packet.len());
    let (protocol, addresses) = (packet[9], sum(&packet[12..20]));
    let body = &mut packet[header..total];
    let (at, pseudo) = match protocol {
        6 => (16, addresses + 6 + body.len() as u32),
        17 => (6, addresses + 17 + body.len() as u32),
        1 => (2, 0),
        _ => return,
    };
    if body.len() < at + 2 {
        return;
    }
    body[at..at + 2].fill(0);
    let checksum = fold(pseudo + sum(body));
    body[at..at + 2].copy_from_slice(&checksum.to_be_bytes());
}

fn ethernet(to: usize, ether_type: u16, body: &[u8]) -> Vec<u8> {
    let mut frame = [MACS[to], MACS[1 - to]].concat();
    frame.extend_from_slice(&ether_type.to_be_bytes());
    frame.extend_from_slice(body);
    frame
}

fn ip(to: usize, source: [u8; 4], protocol: u8, body: &[u8]) -> Vec<u8> {
    let total = (20 + body.len()) as u16;
    let mut packet = vec![0x45, 0, (total >> 8) as u8, total as u8, 0, 7, 0, 0, 64, protocol, 0, 0];
    packet.extend_from_slice(&source);
    packet.extend_from_slice(&[10, 0, 0, to as u8 + 1]);
    packet.extend_from_slice(body);
    let mut frame = ethernet(to, 0x0800, &packet);
    repair(&mut frame);
    frame
}

fn tcp(ports: (u16, u16), seq: u32, ack: u32, flags: u8, window: u16, options: &[u8], payload: &[u8]) -> Vec<u8> {
    let mut out = [ports.0.to_be_bytes(), ports.1.to_be_bytes()].concat();
    out.extend_from_slice(&seq.to_be_bytes());
    out.extend_from_slice(&ack.to_be_bytes());
    out.extend_from_slice(&[(((20 + options.len()) / 4) << 4) as u8, flags]);
    out.extend_from_slice(&window.to_be_bytes());
    out.extend_from_slice(&[0, 0, 0, 0]);
    out.extend_from_slice(options);
    out.extend_from_slice(payload);
    out
}

struct Stranger {
    rng: Rng,
    tape: Tape,
    /// The unseen flow's port at the first node.
    blind_port: u16,
}

impl Stranger {
    fn byte(&mut self) -> u8 {
        self.rng.u32() as u8
    }
    fn short(&mut self) -> u16 {
        self.rng.u32() as u16
    }
    fn bytes(&mut self, most: u64) -> Vec<u8> {
        let mut out = vec![0; self.rng.below(most) as usize];
        self.rng.fill(&mut out);
        out
    }

    /// One frame, and whom it is for.
    fn frame(&mut self) -> (usize, Vec<u8>) {
        match self.rng.below(16) {
            0..=5 => self.spoiled(),
            6..=8 => self.blind(),
            9 => self.arp(),
            10 => self.icmp(),
            11 => self.fragment(),
            12 => self.flood(),
            13 => self.datagram(),
            14 => self.truncated(),
            _ => self.noise(),
        }
    }

    /// A frame of the flow that it sees, changed in a few places, mostly with right checksums.
    fn spoiled(&mut self) -> (usize, Vec<u8>) {
        let taken = {
            let tape = self.tape.borrow();
            let at = self.rng.below(tape.len() as u64) as usize;
            tape.get(at).cloned()
        };
        let Some((from, mut frame)) = taken else { return self.noise() };
        for _ in 0..=self.rng.below(3) {
            self.spoil(&mut frame);
        }
        if self.rng.chance(0.9) {
            repair(&mut frame);
        }
        (1 - from, frame)
    }

    fn spoil(&mut self, frame: &mut Vec<u8>) {
        let tcp = LINK + 20;
        if frame.len() < tcp + 20 {
            return;
        }
        let shift = |frame: &mut Vec<u8>, at: usize, rng: &mut Rng| {
            let old = u32::from_be_bytes([frame[at], frame[at + 1], frame[at + 2], frame[at + 3]]);
            let by = match rng.below(4) {
                0 => rng.below(3) as u32,
                1 => rng.below(70_000) as u32,
                2 => (rng.below(70_000) as u32).wrapping_neg(),
                _ => rng.u32(),
            };
            frame[at..at + 4].copy_from_slice(&old.wrapping_add(by).to_be_bytes());
        };
        match self.rng.below(13) {
            0 | 1 => shift(frame, tcp + 4, &mut self.rng),
            2 => shift(frame, tcp + 8, &mut self.rng),
            3 | 4 => frame[tcp + 13] = self.byte(),
            5 => {
                let window = if self.rng.chance(0.3) { 0 } else { self.short() };
                frame[tcp + 14..tcp + 16].copy_from_slice(&window.to_be_bytes());
            }
            6 => {
                frame[tcp + 13] |= 0x20;
                let urgent = self.short();
                frame[tcp + 18..tcp + 20].copy_from_slice(&urgent.to_be_bytes());
            }
            7 => frame[tcp + 12] = self.byte(),
            8 => self.options(frame),
            9 => {
                let keep = tcp + self.rng.below((frame.len() - tcp + 1) as u64) as usize;
                frame.truncate(keep);
                let total = (keep - LINK) as u16;
                frame[LINK + 2..LINK + 4].copy_from_slice(&total.to_be_bytes());
            }
            10 => {
                let at = LINK + self.rng.below(20) as usize;
                frame[at] = self.byte();
            }
            11 => {
                let at = self.rng.below(frame.len() as u64) as usize;
                frame[at] = self.byte();
            }
            _ => {
                let more = self.bytes(1500 - (frame.len() as u64).min(1499));
                frame.extend_from_slice(&more);
                let total = (frame.len() - LINK) as u16;
                frame[LINK + 2..LINK + 4].copy_from_slice(&total.to_be_bytes());
            }
        }
    }

    /// Other options: SACK blocks that mean nothing or much, timestamps, and plain noise.
    fn options(&mut self, frame: &mut Vec<u8>) {
        let tcp = LINK + 20;
        let ack = u32::from_be_bytes([frame[tcp + 8], frame[tcp + 9], frame[tcp + 10], frame[tcp + 11]]);
        let mut options = vec![1, 1];
        match self.rng.below(4) {
            0 | 1 => {
                let blocks = 1 + self.rng.below(4) as u8;
                options.extend_from_slice(&[5, 2 + 8 * blocks]);
                for _ in 0..blocks {
                    let start = ack.wrapping_add(self.rng.below(100_000) as u32).wrapping_sub(5_000);
                    let end = start.wrapping_add(self.rng.below(20_000) as u32).wrapping_sub(1_000);
                    options.extend_from_slice(&start.to_be_bytes());
                    options.extend_from_slice(&end.to_be_bytes());
                }
            }
            2 => {
                options.extend_from_slice(&[8, 10]);
                let stamps = [self.rng.u32().to_be_bytes(), self.rng.u32().to_be_bytes()].concat();
                options.extend_from_slice(&stamps);
            }
            _ => options = self.bytes(41),
        }
        options.truncate(40);
        options.resize(options.len().next_multiple_of(4), 0);
        let payload = self.bytes(200);
        frame.truncate(tcp + 20);
        frame[tcp + 12] = (((20 + options.len()) / 4) << 4) as u8;
        frame.extend_from_slice(&options);
        frame.extend_from_slice(&payload);
        let total = (frame.len() - LINK) as u16;
        frame[LINK + 2..LINK + 4].copy_from_slice(&total.to_be_bytes());
    }

    /// For the unseen flow: right addresses and ports, everything else is a guess. RST, SYN and FIN most of the time.
    fn blind(&mut self) -> (usize, Vec<u8>) {
        let to = self.rng.below(2) as usize;
        let ports = if to == 1 { (self.blind_port, 80) } else { (80, self.blind_port) };
        let flags = match self.rng.below(6) {
            0 => 0x04,
            1 => 0x02,
            2 => 0x11,
            3 => 0x14,
            4 => 0x12,
            _ => self.byte(),
        };
        let (seq, ack, window) = (self.rng.u32(), self.rng.u32(), self.short());
        let payload = self.bytes(100);
        (to, ip(to, [10, 0, 0, 2 - to as u8], 6, &tcp(ports, seq, ack, flags, window, &[], &payload)))
    }

    fn arp(&mut self) -> (usize, Vec<u8>) {
        let to = self.rng.below(2) as usize;
        let mut body = vec![0, 1, 8, 0, 6, 4, 0, 1 + self.byte() % 3];
        // Anybody but the two: who can claim their addresses can take their traffic, in any ARP.
        let sender = [10, self.byte() % 2, self.byte() % 2, 3 + self.byte() % 250];
        body.extend_from_slice(&[2, 9, self.byte(), self.byte(), self.byte(), self.byte()]);
        body.extend_from_slice(&sender);
        body.extend_from_slice(&MACS[to]);
        body.extend_from_slice(&[10, 0, 0, if self.rng.chance(0.7) { to as u8 + 1 } else { self.byte() }]);
        if self.rng.chance(0.2) {
            let at = self.rng.below(8) as usize;
            body[at] = self.byte();
        }
        let mut frame = ethernet(to, 0x0806, &body);
        if self.rng.chance(0.5) {
            frame[..6].fill(0xff);
        }
        (to, frame)
    }

    /// ICMP errors about frames of the seen flow, and about guesses at the other; echo requests too.
    fn icmp(&mut self) -> (usize, Vec<u8>) {
        if self.rng.chance(0.2) {
            let to = self.rng.below(2) as usize;
            let mut body = vec![8, 0, 0, 0, 1, 2, 3, 4];
            body.extend_from_slice(&self.bytes(1400));
            return (to, ip(to, [10, 0, 0, 2 - to as u8], 1, &body));
        }
        let (kind, code, rest) = match self.rng.below(4) {
            0 => (3, self.byte() % 16, 0),
            1 => (3, 4, u32::from(self.short() % 1600)),
            2 => (11, self.byte() % 2, 0),
            _ => (self.byte(), self.byte(), self.rng.u32()),
        };
        let mut body = vec![kind, code, 0, 0];
        body.extend_from_slice(&rest.to_be_bytes());
        let seen = self.tape.borrow().back().cloned().filter(|_| self.rng.chance(0.5));
        let to = match seen {
            Some((from, frame)) => {
                body.extend_from_slice(&frame[LINK..frame.len().min(LINK + 28 + self.rng.below(60) as usize)]);
                from
            }
            None => {
                let to = self.rng.below(2) as usize;
                let ports = if to == 0 { (self.blind_port, 80) } else { (80, self.blind_port) };
                let quoted = ip(1 - to, [10, 0, 0, to as u8 + 1], 6, &tcp(ports, self.rng.u32(), 0, 0x10, 0, &[], &[]));
                body.extend_from_slice(&quoted[LINK..]);
                to
            }
        };
        let source = [10, 0, 0, if self.rng.chance(0.5) { 2 - to as u8 } else { self.byte() }];
        (to, ip(to, source, 1, &body))
    }

    fn fragment(&mut self) -> (usize, Vec<u8>) {
        let to = self.rng.below(2) as usize;
        let payload = self.bytes(1480);
        let protocol = [1, 6, 17, 50][self.rng.below(4) as usize];
        let mut frame = ip(to, [10, 0, 0, 2 - to as u8], protocol, &payload);
        let offset = self.short();
        frame[LINK + 4] = self.byte() % 4;
        frame[LINK + 6..LINK + 8].copy_from_slice(&offset.to_be_bytes());
        repair(&mut frame);
        (to, frame)
    }

    /// SYNs from everywhere.
    fn flood(&mut self) -> (usize, Vec<u8>) {
        let source =
            if self.rng.chance(0.5) { [10, 0, 0, 3 + self.byte() % 250] } else { [self.byte(), self.byte(), self.byte(), self.byte()] };
        let ports = (self.short(), [80, SEEN_PORT, self.short()][self.rng.below(3) as usize]);
        let options = [&[2, 4, 0, self.byte()][..], &[3, 3, self.byte(), 0]].concat();
        let (seq, window) = (self.rng.u32(), self.short());
        (1, ip(1, source, 6, &tcp(ports, seq, 0, if self.rng.chance(0.9) { 2 } else { self.byte() }, window, &options, &[])))
    }

    fn datagram(&mut self) -> (usize, Vec<u8>) {
        let mut body = self.short().to_be_bytes().to_vec();
        let port = if self.rng.chance(0.5) { 53 } else { self.short() };
        body.extend_from_slice(&port.to_be_bytes());
        let payload = self.bytes(1400);
        let length = if self.rng.chance(0.9) { payload.len() as u16 + 8 } else { self.short() };
        body.extend_from_slice(&length.to_be_bytes());
        body.extend_from_slice(&[0, 0]);
        body.extend_from_slice(&payload);
        (1, ip(1, [10, 0, 0, 1], 17, &body))
    }

    fn truncated(&mut self) -> (usize, Vec<u8>) {
        let (to, mut frame) = self.spoiled();
        let keep = self.rng.below(frame.len() as u64 + 1) as usize;
        frame.truncate(keep);
        (to, frame)
    }

    fn noise(&mut self) -> (usize, Vec<u8>) {
        let to = self.rng.below(2) as usize;
        let mut frame = self.bytes(1514);
        if self.rng.chance(0.8) && frame.len() >= LINK {
            frame[..6].copy_from_slice(&MACS[to]);
            let ether_type: u16 = [0x0800, 0x0806, 0x86dd, 0x8100][self.rng.below(4) as usize];
            frame[12..14].copy_from_slice(&ether_type.to_be_bytes());
        }
        (to, frame)
    }
}

fn rows(pair: &mut Pair, side: usize, op: Op) -> Vec<Value> {
    let now = pair.now;
    match pair.nodes[side].control(now, &Message { serial: 1, op }).result {
        Ok(Value::Array(rows)) => rows,
        other => panic!("a list was asked for: {other:?}"),
    }
}

/// The counters of a block, by name, and the frames that it dropped.
fn counter(pair: &mut Pair, side: usize, block: &str, name: &str) -> u64 {
    let rows = rows(pair, side, Op::Show(Show::Counters));
    let row = rows.iter().find(|row| row["block"] == block).unwrap_or_else(|| panic!("no block {block}"));
    row["counters"][name].as_u64().unwrap_or_else(|| panic!("no counter {block}.{name}"))
}

fn drops(pair: &mut Pair, side: usize, block: &str) -> u64 {
    let rows = rows(pair, side, Op::Show(Show::Drops));
    rows.iter().filter(|row| row["block"] == block).filter_map(|row| row["frames"].as_u64()).sum()
}

/// The flow that the stranger sees: made anew whenever it is gone.
struct Seen {
    listener: SocketId,
    client: Option<SocketId>,
    servers: Vec<SocketId>,
    made: u64,
    made_at: Instant,
}

/// A flow older than this is given up: one whose window and round-trip time the stranger has forged may stand still for minutes.
const SEEN_AGE_MAX: Duration = Duration::from_secs(2);

impl Seen {
    fn new(pair: &mut Pair) -> Seen {
        let listener = pair.call(1, |sockets, cx| {
            let listener = sockets.socket(AF_INET, SOCK_STREAM, 0, cx).unwrap();
            sockets.bind(listener, &address(2, SEEN_PORT), cx).unwrap();
            sockets.listen(listener, 16, cx).unwrap();
            listener
        });
        Seen { listener, client: None, servers: Vec::new(), made: 0, made_at: Instant::ZERO }
    }

    /// Writes and reads a little, both ways; closes what has failed.
    fn live(&mut self, pair: &mut Pair) {
        let client = *self.client.get_or_insert_with(|| {
            self.made += 1;
            self.made_at = pair.now;
            pair.call(0, |sockets, cx| {
                let client = sockets.socket(AF_INET, SOCK_STREAM, 0, cx).unwrap();
                let _ = sockets.connect(client, &address(2, SEEN_PORT), cx);
                client
            })
        });
        let chunk = Bytes::from(vec![7; 3000]);
        let alive = pair.call(0, |sockets, cx| {
            let _ = sockets.send(client, chunk.clone(), 0, None, &[], cx);
            match sockets.receive(client, 1 << 16, 0, cx) {
                Ok(got) => got.datagram_bytes > 0 || got.data.iter().any(|slice| !slice.is_empty()),
                Err(error) => error.0 == 11,
            }
        });
        if let Ok(server) = pair.call(1, |sockets, cx| sockets.accept(self.listener, cx)) {
            self.servers.push(server);
        }
        self.servers.retain(|server| {
            let open = pair.call(1, |sockets, cx| {
                let _ = sockets.send(*server, chunk.slice(..500), 0, None, &[], cx);
                match sockets.receive(*server, 1 << 16, 0, cx) {
                    Ok(got) => got.data.iter().any(|slice| !slice.is_empty()),
                    Err(error) => error.0 == 11,
                }
            });
            if !open {
                pair.call(1, |sockets, cx| sockets.close(*server, cx));
            }
            open
        });
        if !alive || pair.now.since(self.made_at) > SEEN_AGE_MAX {
            pair.call(0, |sockets, cx| sockets.close(client, cx));
            self.client = None;
        }
    }

    fn close(self, pair: &mut Pair) {
        if let Some(client) = self.client {
            pair.call(0, |sockets, cx| sockets.close(client, cx));
        }
        for server in self.servers.into_iter().chain([self.listener]) {
            pair.call(1, |sockets, cx| sockets.close(server, cx));
        }
    }
}

fn inject(pair: &mut Pair, to: usize, bytes: &[u8], split: usize) {
    let at = split.min(bytes.len());
    let mut frame = Frame::ingress_parts(&bytes[..at], Bytes::copy_from_slice(&bytes[at..]));
    frame.meta_mut().interface = InterfaceIndex(2);
    let now = pair.now;
    pair.nodes[to].receive(now, [frame]);
}

fn check_bounds(pair: &mut Pair) {
    for side in 0..2 {
        let neighbours = rows(pair, side, Op::List(Table::Neighbours(weft_core::table::Family::V4))).len();
        assert!(neighbours <= 1024, "{neighbours} neighbours");
        let flows = rows(pair, side, Op::List(Table::Flows)).len();
        // Two listeners with their SYN backlogs, and what the seen flow leaves behind in TIME-WAIT.
        assert!(flows <= 2 * 1024 + 3000, "{flows} flows");
        let timers = pair.nodes[side].engine().timers();
        assert!(timers <= 3 * flows + neighbours + 64, "{timers} timers for {flows} flows and {neighbours} neighbours");
    }
}

/// Everything that a node was given is accounted for: each layer hands on what it does not drop.
fn check_accounts(pair: &mut Pair, side: usize, injected: u64, more: u64) {
    assert_eq!(counter(pair, side, "interfaces", "RxPackets"), injected, "frames into node {side}");
    let names = ["InRequests", "InReplies", "InErrors"];
    let arp: u64 = names.iter().map(|name| counter(pair, side, "arp", name)).sum();
    let ether = counter(pair, side, "ether", "InFrames");
    assert_eq!(ether + drops(pair, side, "ether"), injected, "ether of node {side}");
    let six = counter(pair, side, "ip6", "InReceives");
    assert_eq!(counter(pair, side, "ip4", "InReceives") + arp + six, ether, "above ether of node {side}");
    let received = counter(pair, side, "ip4", "InReceives");
    let delivered = counter(pair, side, "ip4", "InDelivers");
    let (in_icmp, in_udp) = (counter(pair, side, "icmp4", "InMsgs"), {
        let names = ["InDatagrams", "NoPorts", "InErrors", "UdpLiteInDatagrams", "UdpLiteInErrors"];
        names.iter().map(|name| counter(pair, side, "udp", name)).sum::<u64>()
    });
    let in_tcp = counter(pair, side, "tcp", "InSegs") - more;
    let in_igmp: u64 = ["InQueries", "InReports", "InErrors"].iter().map(|name| counter(pair, side, "igmp", name)).sum();
    let above = in_icmp + in_igmp + in_udp + in_tcp;
    assert_eq!(above, delivered, "above ip4 of node {side}: {in_icmp} icmp, {in_igmp} igmp, {in_udp} udp, {in_tcp} tcp");
    let lost: u64 =
        ["InHdrErrors", "InAddrErrors", "InUnknownProtos", "InTruncatedPkts"].iter().map(|name| counter(pair, side, "ip4", name)).sum();
    assert!(lost > 0);
    // Of the fragments of a packet, only what they became is delivered.
    let (fragments, whole) = (counter(pair, side, "ip4", "ReasmReqds"), counter(pair, side, "ip4", "ReasmOKs"));
    assert_eq!(delivered + lost + fragments, received + whole, "ip4 of node {side}");
}

/// Nothing is left of what was closed, and every frame is accounted for.
fn check_end(pair: &mut Pair, given: [u64; 2], more: [u64; 2]) {
    for side in 0..2 {
        // The listener that the pair made for the unseen flow stays.
        for table in [Table::Flows, Table::Sockets] {
            let left = rows(pair, side, Op::List(table));
            assert_eq!(left.len(), side, "{table:?} of node {side} after everything is closed: {left:?}");
        }
        let timers = pair.nodes[side].engine().timers();
        let neighbours = rows(pair, side, Op::List(Table::Neighbours(weft_core::table::Family::V4))).len();
        assert!(timers <= neighbours + 1, "{timers} timers are left");
    }
    for side in 0..2 {
        check_accounts(pair, side, given[side], more[side]);
    }
}

/// Frames for each node, counted.
type Count = Rc<RefCell<[u64; 2]>>;

/// Two nodes on a wire that writes down frames of the seen flow, and counts.
fn watched_pair() -> (Pair, Tape, Count, Count) {
    let tape = Tape::default();
    let writer = tape.clone();
    // Frames that each node was given.
    let given = Rc::new(RefCell::new([0u64; 2]));
    // Segments beyond the first in large frames: after an ICMP error the path takes less than what was made for it.
    let more = Rc::new(RefCell::new([0u64; 2]));
    let large = more.clone();
    let crossed = given.clone();
    let pair = Pair::new(0, "").with_wire(Duration::from_micros(500), move |side, frame| {
        crossed.borrow_mut()[1 - side] += 1;
        if let Some(gso) = frame.meta().gso {
            let head = frame.to_vec();
            let payload = (head.len() - LINK - 20 - usize::from(head[LINK + 32] >> 4) * 4) as u64;
            large.borrow_mut()[1 - side] += payload.div_ceil(u64::from(gso.segment_bytes)) - 1;
        }
        let mut copy = frame.clone();
        copy.take_completion();
        complete_checksum(&mut copy);
        let bytes = copy.to_vec();
        let port = |at: usize| bytes.get(at..at + 2).map(|two| u16::from_be_bytes([two[0], two[1]]));
        if bytes.get(12..14) == Some(&[8, 0]) && (port(LINK + 20) == Some(SEEN_PORT) || port(LINK + 22) == Some(SEEN_PORT)) {
            let mut tape = writer.borrow_mut();
            if tape.len() == 64 {
                tape.pop_front();
            }
            tape.push_back((side, bytes));
        }
        Fate::Pass
    });
    (pair, tape, given, more)
}

fn attack(seed: u64, frames: u64) {
    let (mut pair, tape, given, more) = watched_pair();
    let (client, server) = pair.connect();
    let local = pair.call(0, |sockets, _| sockets.local_address(client)).unwrap();
    let blind_port = u16::from_be_bytes([local[2], local[3]]);
    let datagrams = pair.call(1, |sockets, cx| {
        let socket = sockets.socket(AF_INET, SOCK_DGRAM, 0, cx).unwrap();
        sockets.bind(socket, &address(2, 53), cx).unwrap();
        socket
    });
    let mut seen = Seen::new(&mut pair);
    let mut stranger = Stranger { rng: Rng::for_name(seed, "stranger"), tape, blind_port };
    let mut data = vec![0; 1 << 20];
    Rng::for_name(seed, "data").fill(&mut data);
    let data = Bytes::from(data);
    // The transfer lasts as long as the attack.
    let rounds = frames / 50;
    let (mut sent, mut received, mut echoed) = (0usize, 0usize, 0usize);
    let mut exchange = |pair: &mut Pair, share: usize| {
        let most = share.min(data.len() - sent);
        sent += pair.call(0, |sockets, cx| sockets.send(client, data.slice(sent..sent + most), 0, None, &[], cx)).unwrap_or(0);
        if let Ok(got) = pair.call(1, |sockets, cx| sockets.receive(server, 1 << 20, 0, cx)) {
            for slice in got.data.iter() {
                assert!(slice[..] == data[received..received + slice.len()], "wrong bytes after {received}");
                received += slice.len();
            }
        }
        echoed += pair.call(1, |sockets, cx| sockets.send(server, data.slice(echoed..received), 0, None, &[], cx)).unwrap_or(0);
        let back = pair.call(0, |sockets, cx| sockets.receive(client, 1 << 20, 0, cx));
        (sent, received, echoed, back.map_or(0, |got| got.data.iter().map(|slice| slice.len()).sum::<usize>()))
    };
    let mut returned = 0;
    for round in 0..rounds {
        for _ in 0..50 {
            let (to, bytes) = stranger.frame();
            let split = [224, 1514, 54, 20][stranger.rng.below(4) as usize];
            inject(&mut pair, to, &bytes, split);
            given.borrow_mut()[to] += 1;
        }
        pair.settle();
        seen.live(&mut pair);
        returned += exchange(&mut pair, (1 << 20) / rounds as usize + 1).3;
        pair.pass(Duration::from_millis(10));
        if round % 64 == 0 {
            check_bounds(&mut pair);
        }
    }
    for _ in 0..10_000 {
        let state = exchange(&mut pair, 1 << 20);
        returned += state.3;
        if returned == 1 << 20 {
            break;
        }
        pair.pass(Duration::from_millis(100));
    }
    assert_eq!(returned, 1 << 20, "the transfer through the attack has not ended");
    assert!(seen.made > 10, "the seen flow was made {} times", seen.made);
    seen.close(&mut pair);
    pair.call(0, |sockets, cx| sockets.close(client, cx));
    pair.call(1, |sockets, cx| {
        sockets.close(server, cx);
        sockets.close(datagrams, cx);
    });
    pair.pass(Duration::from_secs(1800));
    check_end(&mut pair, *given.borrow(), *more.borrow());
}

#[test]
fn a_transfer_survives_two_hundred_thousand_forged_frames() {
    let full = std::env::var_os("FULL").is_some_and(|full| full == "1");
    for seed in 0..if full { 20 } else { 1 } {
        println!("seed {seed}");
        attack(seed, 200_000);
    }
}
