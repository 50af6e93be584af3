//! The stranger on the wire: frames of live flows changed in a few places, and frames of its own, most of them with right lengths and checksums.

use super::leases;
use super::packet::*;
use super::six;
use std::cell::RefCell;
use std::collections::VecDeque;
use std::rc::Rc;
use weft_core::Rng;

/// Frames that are remembered of each class.
const TAPE_FRAMES_MAX: usize = 48;
/// Classes of frames, by what they hold: IP version and protocol; 255 for fragments, 0 for ARP.
pub type Class = (u8, u8);
/// What a DHCP server is asked.
pub const TO_DHCP_SERVERS: Class = (4, 254);

/// Frames, and which side sent each.
type Frames = VecDeque<(usize, Vec<u8>)>;

/// The last frames of the wire by class.
#[derive(Default, Clone)]
pub struct Tape(Rc<RefCell<Vec<(Class, Frames)>>>);

impl Tape {
    pub fn push(&self, side: usize, frame: Vec<u8>) {
        let Some(packet) = frame.get(LINK..) else { return };
        let class = match (frame[12], frame[13], transport(packet)) {
            (8, 6, _) => (0, 0),
            (_, _, Some((_, _, true))) => (packet[0] >> 4, 255),
            (_, _, Some((17, range, _))) if packet[0] >> 4 == 4 && packet.get(range.start + 2..range.start + 4) == Some(&[0, 67]) => {
                TO_DHCP_SERVERS
            }
            (_, _, Some((protocol, _, _))) => (packet[0] >> 4, protocol),
            _ => return,
        };
        let mut classes = self.0.borrow_mut();
        let at = classes.iter().position(|(known, _)| *known == class).unwrap_or_else(|| {
            classes.push((class, VecDeque::new()));
            classes.len() - 1
        });
        let frames = &mut classes[at].1;
        if frames.len() == TAPE_FRAMES_MAX {
            frames.pop_front();
        }
        frames.push_back((side, frame));
    }

    /// One of the last few of a class.
    pub fn last(&self, rng: &mut Rng, wanted: Class) -> Option<(usize, Vec<u8>)> {
        let classes = self.0.borrow();
        let (_, frames) = classes.iter().find(|(class, _)| *class == wanted)?;
        let back = rng.below(8) as usize;
        frames.iter().nth_back(back.min(frames.len() - 1)).cloned()
    }

    /// The last of a class.
    pub fn latest(&self, wanted: Class) -> Option<(usize, Vec<u8>)> {
        let classes = self.0.borrow();
        classes.iter().find(|(class, _)| *class == wanted)?.1.back().cloned()
    }

    /// One of a class; of any when there is none.
    fn draw(&self, rng: &mut Rng, wanted: Option<Class>) -> Option<(usize, Vec<u8>)> {
        let classes = self.0.borrow();
        let of_class = wanted.and_then(|wanted| classes.iter().find(|(class, _)| *class == wanted));
        let (_, frames) = match of_class {
            Some(found) => found,
            None => classes.get(rng.below(classes.len() as u64) as usize)?,
        };
        frames.get(rng.below(frames.len() as u64) as usize).cloned()
    }
}

pub struct Stranger {
    pub rng: Rng,
    pub tape: Tape,
    /// Frames that come right after one another.
    pub more: VecDeque<(usize, Vec<u8>)>,
}

impl Stranger {
    pub fn byte(&mut self) -> u8 {
        self.rng.u32() as u8
    }
    pub fn short(&mut self) -> u16 {
        self.rng.u32() as u16
    }
    pub fn below(&mut self, bound: usize) -> usize {
        self.rng.below(bound as u64) as usize
    }
    pub fn pick<T: Copy>(&mut self, of: &[T]) -> T {
        of[self.rng.below(of.len() as u64) as usize]
    }
    pub fn bytes(&mut self, most: usize) -> Vec<u8> {
        let mut out = vec![0; self.below(most + 1)];
        self.rng.fill(&mut out);
        out
    }
    pub fn taped(&mut self, wanted: Option<Class>) -> Option<(usize, Vec<u8>)> {
        self.tape.draw(&mut self.rng, wanted)
    }

    /// One frame, and whom it is for.
    pub fn frame(&mut self) -> (usize, Vec<u8>) {
        if let Some(next) = self.more.pop_front() {
            return next;
        }
        let (to, mut frame) = match self.rng.below(36) {
            0..=6 => self.spoiled(None),
            7..=10 => {
                let class = if self.rng.chance(0.5) { (4, 6) } else { (6, 6) };
                self.spoiled(Some(class))
            }
            11 => self.overlapping(),
            12 => self.blind(),
            13 => self.flood(),
            14 => self.arp(),
            15 => self.icmp4(),
            16 => self.igmp(),
            17 => self.datagram(),
            18 => self.pieces(),
            19 => self.fragment(),
            20 => self.optioned(),
            21 => self.passing(),
            22 => self.truncated(),
            23 => self.noise(),
            24 => self.echo(),
            25 => six::nd(self),
            26 => six::router(self),
            27 => six::mld(self),
            28 => six::icmp6(self),
            29 => six::chain(self),
            30 => six::pieces(self),
            31 => six::passing(self),
            32 | 33 => leases::answer(self),
            _ => self.answer(),
        };
        frame.truncate(LINK + 1600);
        (to, frame)
    }

    /// A frame of a live flow, changed in a few places, mostly with right lengths and checksums.
    pub fn spoiled(&mut self, class: Option<Class>) -> (usize, Vec<u8>) {
        let Some((from, mut frame)) = self.taped(class) else { return self.noise() };
        for _ in 0..=self.rng.below(3) {
            let tcp = transport(&frame[LINK.min(frame.len())..]).filter(|(protocol, range, _)| *protocol == 6 && range.len() >= 20);
            match tcp {
                Some((_, range, _)) if self.rng.chance(0.8) => self.spoil_tcp(&mut frame, LINK + range.start),
                _ => self.spoil(&mut frame),
            }
        }
        if self.rng.chance(0.85) {
            if self.rng.chance(0.7) {
                set_lengths(&mut frame);
            }
            repair(&mut frame);
        }
        (1 - from, frame)
    }

    fn spoil(&mut self, frame: &mut Vec<u8>) {
        if frame.len() <= LINK {
            return;
        }
        let anywhere = LINK + self.below(frame.len() - LINK);
        match self.rng.below(8) {
            0 | 1 => frame[anywhere] = self.byte(),
            2 => frame[anywhere] ^= 1 << self.below(8),
            3 => {
                // Somewhere in the headers, where most bytes mean something.
                let at = LINK + self.below((frame.len() - LINK).min(60));
                frame[at] = self.pick(&[0, 1, 2, 0x7f, 0x80, 0xfe, 0xff]);
            }
            4 => frame.truncate(anywhere),
            5 => {
                let more = self.bytes(1500_usize.saturating_sub(frame.len()));
                frame.extend_from_slice(&more);
            }
            6 => {
                let end = (anywhere + self.below(32)).min(frame.len());
                let patch = self.bytes(31);
                let count = patch.len().min(end - anywhere);
                frame[anywhere..anywhere + count].copy_from_slice(&patch[..count]);
            }
            _ => {
                let (length, insert) = (self.below(9), self.rng.chance(0.5));
                let end = (anywhere + length).min(frame.len());
                if insert {
                    let copy = frame[anywhere..end].to_vec();
                    frame.splice(anywhere..anywhere, copy);
                } else {
                    frame.drain(anywhere..end);
                }
            }
        }
    }

    fn shift(&mut self, frame: &mut [u8], at: usize) {
        let old = u32::from_be_bytes([frame[at], frame[at + 1], frame[at + 2], frame[at + 3]]);
        let by = match self.rng.below(4) {
            0 => self.rng.below(3) as u32,
            1 => self.rng.below(70_000) as u32,
            2 => (self.rng.below(70_000) as u32).wrapping_neg(),
            _ => self.rng.u32(),
        };
        frame[at..at + 4].copy_from_slice(&old.wrapping_add(by).to_be_bytes());
    }

    fn spoil_tcp(&mut self, frame: &mut Vec<u8>, tcp: usize) {
        match self.rng.below(13) {
            0 | 1 => self.shift(frame, tcp + 4),
            2 => self.shift(frame, tcp + 8),
            3 => frame[tcp + 13] = self.byte(),
            4 => frame[tcp + 13] ^= 1 << self.below(8),
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
            8..=10 => self.options(frame, tcp),
            11 => {
                let keep = tcp + self.below(frame.len() - tcp + 1);
                frame.truncate(keep.max(tcp + 20));
            }
            _ => {
                let more = self.bytes(1500_usize.saturating_sub(frame.len()));
                frame.extend_from_slice(&more);
            }
        }
    }

    /// Other options: SACK blocks that mean nothing or much, timestamps, Fast Open, MPTCP, and plain noise.
    fn options(&mut self, frame: &mut Vec<u8>, tcp: usize) {
        let ack = u32::from_be_bytes([frame[tcp + 8], frame[tcp + 9], frame[tcp + 10], frame[tcp + 11]]);
        let options = self.tcp_options(ack);
        let old = (usize::from(frame[tcp + 12] >> 4) * 4).clamp(20, frame.len() - tcp);
        frame.splice(tcp + 20..tcp + old, options.iter().copied());
        frame[tcp + 12] = (((20 + options.len()) / 4) << 4) as u8 | (frame[tcp + 12] & 15);
    }

    /// A list of options, a multiple of four bytes and at most 40.
    pub fn tcp_options(&mut self, ack: u32) -> Vec<u8> {
        let mut options = Vec::new();
        for _ in 0..=self.rng.below(3) {
            match self.rng.below(10) {
                0 | 1 => {
                    let blocks = 1 + self.byte() % 4;
                    options.extend_from_slice(&[5, 2 + 8 * blocks]);
                    for _ in 0..blocks {
                        let start = ack.wrapping_add(self.rng.below(100_000) as u32).wrapping_sub(5_000);
                        let end = start.wrapping_add(self.rng.below(20_000) as u32).wrapping_sub(1_000);
                        options.extend_from_slice(&start.to_be_bytes());
                        options.extend_from_slice(&end.to_be_bytes());
                    }
                }
                2 | 3 => {
                    options.extend_from_slice(&[8, 10]);
                    let stamps = [self.rng.u32().to_be_bytes(), self.rng.u32().to_be_bytes()].concat();
                    options.extend_from_slice(&stamps);
                }
                4 => options.extend_from_slice(&[2, 4, self.byte() % 8, self.byte()]),
                5 => options.extend_from_slice(&[3, 3, self.byte() % 20]),
                6 => options.extend_from_slice(&[4, 2, 1, 1]),
                7 => {
                    let cookie = self.bytes(16);
                    options.extend_from_slice(&[34, 2 + cookie.len() as u8]);
                    options.extend_from_slice(&cookie);
                }
                8 => {
                    let data = self.bytes(20);
                    options.extend_from_slice(&[self.pick(&[30, 19, 14, 253, 254, 29]), 2 + data.len() as u8]);
                    options.extend_from_slice(&data);
                }
                _ => options.extend(self.bytes(12)),
            }
        }
        options.truncate(40);
        options.resize(options.len().next_multiple_of(4), 0);
        options
    }

    /// Segments with parts of what a segment of a live flow holds, some before and some after it, some with other bytes.
    fn overlapping(&mut self) -> (usize, Vec<u8>) {
        let class = if self.rng.chance(0.5) { (4, 6) } else { (6, 6) };
        let Some((from, frame)) = self.taped(Some(class)) else { return self.noise() };
        let Some((6, range, false)) = transport(&frame[LINK..]) else { return self.noise() };
        let tcp = LINK + range.start;
        if range.len() < 20 {
            return self.noise();
        }
        let header = (usize::from(frame[tcp + 12] >> 4) * 4).min(range.len());
        let payload = frame[tcp + header..LINK + range.end].to_vec();
        let seq = u32::from_be_bytes([frame[tcp + 4], frame[tcp + 5], frame[tcp + 6], frame[tcp + 7]]);
        for _ in 0..2 + self.rng.below(4) {
            let start = self.below(payload.len() + 1);
            let end = start + self.below(payload.len() - start + 1);
            let mut copy = frame[..tcp + header].to_vec();
            copy.extend_from_slice(&payload[start..end]);
            if self.rng.chance(0.3) {
                let more = self.bytes(200);
                copy.extend_from_slice(&more);
            }
            let ahead = if self.rng.chance(0.5) { self.rng.below(40_000) as u32 } else { 0 };
            copy[tcp + 4..tcp + 8].copy_from_slice(&seq.wrapping_add(start as u32).wrapping_add(ahead).to_be_bytes());
            if self.rng.chance(0.1) {
                copy[tcp + 13] |= 1;
            }
            set_lengths(&mut copy);
            repair(&mut copy);
            self.more.push_back((1 - from, copy));
        }
        (1 - from, frame)
    }

    /// Right addresses and ports, everything else is a guess. RST, SYN and FIN most of the time.
    fn blind(&mut self) -> (usize, Vec<u8>) {
        let to = self.below(2);
        let near = [40_000 + self.short() % 20_000, self.short()][self.below(2)];
        let server = self.pick(&[80, 81, 82, 90]);
        let ports = if to == 1 { (near, server) } else { (server, near) };
        let random = self.byte();
        let flags = self.pick(&[0x04, 0x02, 0x11, 0x14, 0x12, 0x10, random]);
        let (seq, ack, window, payload) = (self.rng.u32(), self.rng.u32(), self.short(), self.bytes(100));
        let body = Segment { ports, seq, ack, flags, window, options: &[], payload: &payload }.bytes();
        (to, self.over(to, 6, &body))
    }

    /// An answer to a segment of a live flow, of the other end's or to the other end: what knows ports and numbers may say anything. Mostly to the
    /// last ones, which are still waited for.
    fn answer(&mut self) -> (usize, Vec<u8>) {
        let class = if self.rng.chance(0.5) { (4, 6) } else { (6, 6) };
        let Some((from, frame)) = self.tape.last(&mut self.rng, class) else { return self.noise() };
        let Some((6, range, false)) = transport(&frame[LINK..]) else { return self.noise() };
        if range.len() < 20 {
            return self.noise();
        }
        let old = &frame[LINK + range.start..LINK + range.end];
        let field = |at: usize| u32::from_be_bytes([old[at], old[at + 1], old[at + 2], old[at + 3]]);
        let header = (usize::from(old[12] >> 4) * 4).min(old.len());
        let numbers = (old.len() - header) as u32 + u32::from(old[13] & 1) + u32::from(old[13] >> 1 & 1);
        let (seq, ack) = (field(4), field(8));
        let ports = (u16::from_be_bytes([old[0], old[1]]), u16::from_be_bytes([old[2], old[3]]));
        let back = self.rng.chance(0.7);
        let random = self.byte();
        let flags = self.pick(&[0x02, 0x02, 0x12, 0x04, 0x14, 0x11, 0x10, 0x00, random]);
        let off = self.pick(&[0, 0, 0, 1, u32::MAX, 100_000]);
        let (ports, seq, ack) = match back {
            true => ((ports.1, ports.0), ack.wrapping_add(off), seq.wrapping_add(numbers).wrapping_add(self.pick(&[0, 0, 0, 1, 70_000]))),
            // The same connection begins anew.
            false => (ports, seq.wrapping_add(numbers).wrapping_add(off), ack),
        };
        let mut options = self.tcp_options(ack);
        if self.rng.chance(0.5) && header >= 32 && old[20..24] == [1, 1, 8, 10] {
            // Stamps that fit; turned round, each is the other's echo.
            let (value, echo) = if back { (field(28), field(24)) } else { (field(24).wrapping_add(5000), field(28)) };
            options = [&[1, 1, 8, 10][..], &value.to_be_bytes(), &echo.to_be_bytes()].concat();
        }
        let (window, payload) = (self.short(), if self.rng.chance(0.3) { self.bytes(300) } else { Vec::new() });
        let body = Segment { ports, seq, ack, flags, window, options: &options, payload: &payload }.bytes();
        let to = if back { from } else { 1 - from };
        match frame[LINK] >> 4 {
            4 => (to, ip4(to, node4(1 - to), node4(to), 64, 6, &body)),
            _ => (to, ip6(to, node6(1 - to), node6(to), 64, 6, &body)),
        }
    }

    /// From the other node over either family.
    pub fn over(&mut self, to: usize, protocol: u8, body: &[u8]) -> Vec<u8> {
        match self.rng.chance(0.5) {
            true => ip4(to, node4(1 - to), node4(to), 64, protocol, body),
            false => ip6(to, node6(1 - to), node6(to), 64, protocol, body),
        }
    }

    /// SYNs from everywhere.
    fn flood(&mut self) -> (usize, Vec<u8>) {
        let ports = (self.short(), self.pick(&[80, 81, 82, 90, 9999]));
        let ack = self.rng.u32();
        let options = if self.rng.chance(0.5) { vec![2, 4, 5, 0xb4, 1, 3, 3, 7] } else { self.tcp_options(ack) };
        let (seq, window, payload) = (self.rng.u32(), self.short(), self.bytes(60));
        let flags = if self.rng.chance(0.8) { 2 } else { self.byte() };
        let body = Segment { ports, seq, ack, flags, window, options: &options, payload: &payload }.bytes();
        if self.rng.chance(0.5) {
            let source = if self.rng.chance(0.5) { [10, 0, 0, 3 + self.byte() % 250] } else { self.rng.u32().to_be_bytes() };
            return (1, ip4(1, source, node4(1), 64, 6, &body));
        }
        let source = six::stranger(self);
        (1, ip6(1, source, node6(1), 64, 6, &body))
    }

    fn arp(&mut self) -> (usize, Vec<u8>) {
        let to = self.below(2);
        let mut body = vec![0, 1, 8, 0, 6, 4, 0, 1 + self.byte() % 3];
        let sender =
            [10, self.byte() % 2, self.byte() % 2, if self.rng.chance(0.95) { 3 + self.byte() % 250 } else { 1 + self.byte() % 2 }];
        body.extend_from_slice(&[2, 9, self.byte(), self.byte(), self.byte(), self.byte()]);
        body.extend_from_slice(&sender);
        body.extend_from_slice(&MACS[to]);
        body.extend_from_slice(&[10, 0, 0, if self.rng.chance(0.7) { to as u8 + 1 } else { self.byte() }]);
        let mac = if self.rng.chance(0.5) { [0xff; 6] } else { MACS[to] };
        (to, ethernet(mac, 1 - to, 0x0806, &body))
    }

    /// Errors about live packets, and other messages.
    fn icmp4(&mut self) -> (usize, Vec<u8>) {
        let random = self.byte();
        let kind = self.pick(&[3, 3, 3, 11, 12, 5, 4, 13, 17, 9, 10, random]);
        let code = if kind == 3 && self.rng.chance(0.5) { 4 } else { self.byte() % 17 };
        let mtu = [self.short(), 552 + self.short() % 900, 68, 0][self.below(4)];
        let mut body = vec![kind, code, 0, 0];
        match kind {
            5 => body.extend_from_slice(&[10, 0, 0, self.byte()]),
            _ => {
                body.extend_from_slice(&[self.byte(), self.byte()]);
                body.extend_from_slice(&mtu.to_be_bytes());
            }
        }
        let protocol = self.pick(&[6, 6, 17, 1, 255]);
        let quoted = self.taped(Some((4, protocol)));
        let to = match quoted {
            Some((from, frame)) if frame.len() > LINK => {
                let most = frame.len() - LINK;
                let quote = if self.rng.chance(0.5) { most.min(28 + self.below(100)) } else { self.below(most + 1) };
                body.extend_from_slice(&frame[LINK..LINK + quote]);
                // The packet that was sent over the wire had another TTL.
                if self.rng.chance(0.1) && body.len() > 30 {
                    let at = 8 + self.below(22);
                    body[at] = self.byte();
                }
                from
            }
            _ => self.below(2),
        };
        let source = match self.rng.below(3) {
            0 => node4(1 - to),
            1 => [10, 0, 0, self.byte()],
            _ => self.rng.u32().to_be_bytes(),
        };
        (to, ip4(to, source, node4(to), 64, 1, &body))
    }

    fn echo(&mut self) -> (usize, Vec<u8>) {
        let to = self.below(2);
        let six = self.rng.chance(0.5);
        let kind = if six { 128 + self.byte() % 2 } else { [8, 0, 13, 15][self.below(4)] };
        let mut body = vec![kind, if self.rng.chance(0.9) { 0 } else { self.byte() }, 0, 0, 0, 1, 0, 1];
        body.extend(self.bytes(1400));
        if six {
            let destination = if self.rng.chance(0.8) { node6(to) } else { six::group(self) };
            let source = if self.rng.chance(0.8) { node6(1 - to) } else { six::stranger(self) };
            return (to, ip6(to, source, destination, 64, 58, &body));
        }
        let destination = [node4(to), node4(to), [10, 0, 0, 255], [224, 0, 0, 1], [255; 4]][self.below(5)];
        (to, ip4(to, node4(1 - to), destination, 64, 1, &body))
    }

    /// Queries of three versions, reports and leaves.
    fn igmp(&mut self) -> (usize, Vec<u8>) {
        let to = self.below(2);
        let group = [[239, 1, 2, 3], [0; 4], [224, 0, 0, self.byte()], [239, 1, self.byte() % 3, self.byte()]][self.below(4)];
        let kind = self.pick(&[0x11, 0x11, 0x11, 0x12, 0x16, 0x17, 0x22, 0x13]);
        let mut body = vec![kind, self.byte(), 0, 0];
        body.extend_from_slice(&group);
        match kind {
            0x11 if self.rng.chance(0.6) => {
                let count = self.below(5) as u8;
                body.extend_from_slice(&[self.byte() % 16, self.byte(), 0, count]);
                (0..count).for_each(|at| body.extend_from_slice(&[192, 0, 2, at]));
            }
            0x22 => {
                let count = self.below(4) as u8;
                body.splice(4.., [0, 0, 0, count]);
                for _ in 0..count {
                    let sources = self.below(4) as u8;
                    body.extend_from_slice(&[1 + self.byte() % 6, 0, 0, sources]);
                    body.extend_from_slice(&group);
                    (0..sources).for_each(|at| body.extend_from_slice(&[192, 0, 2, at]));
                }
            }
            _ => {}
        }
        if self.rng.chance(0.1) {
            let keep = self.below(body.len() + 1);
            body.truncate(keep);
        }
        let destination =
            if group[0] == 0 || self.rng.chance(0.3) { self.pick(&[[224, 0, 0, 1], [224, 0, 0, 22], [224, 0, 0, 2]]) } else { group };
        let mut frame = ip4(to, node4(1 - to), destination, if self.rng.chance(0.9) { 1 } else { self.byte() }, 2, &body);
        if self.rng.chance(0.7) {
            frame = insert_options(&frame, &[0x94, 4, 0, 0]);
        }
        // Asked about again before the answer is due.
        if kind == 0x11 && self.rng.chance(0.5) && self.more.len() < 4 {
            let again = self.igmp();
            self.more.push_back(again);
        }
        (to, frame)
    }

    fn datagram(&mut self) -> (usize, Vec<u8>) {
        let to = self.below(2);
        let mut body = self.short().to_be_bytes().to_vec();
        let port = if self.rng.chance(0.7) { self.pick(&[7000, 91, 92]) } else { self.short() };
        body.extend_from_slice(&port.to_be_bytes());
        let payload = self.bytes(1400);
        let length = if self.rng.chance(0.9) { payload.len() as u16 + 8 } else { self.short() };
        body.extend_from_slice(&length.to_be_bytes());
        body.extend_from_slice(&[0, 0]);
        body.extend_from_slice(&payload);
        if self.rng.chance(0.2) {
            let source = [self.rng.u32().to_be_bytes(), [127, 0, 0, 1], [255; 4], [224, 0, 0, 9], [0; 4]][self.below(5)];
            return (to, ip4(to, source, node4(to), 64, 17, &body));
        }
        (to, self.over(to, 17, &body))
    }

    /// A packet of a live flow in pieces: overlapping, twice, in any order, with holes.
    fn pieces(&mut self) -> (usize, Vec<u8>) {
        let protocol = self.pick(&[17, 6, 1]);
        let Some((from, frame)) = self.taped(Some((4, protocol))) else { return self.noise() };
        let header = usize::from(frame[LINK] & 15) * 4;
        let mut payload = frame[LINK + header..].to_vec();
        payload.extend(self.bytes(300));
        let (id, sound) = (self.short() % 64, self.rng.chance(0.5));
        let step = 8 * (1 + self.below(40));
        let mut at = 0;
        while at < payload.len() {
            let back = if sound { 0 } else { (8 * self.below(3)).min(at) };
            let end = (at + step).min(payload.len());
            let mut piece = frame[..LINK + header].to_vec();
            piece.extend_from_slice(&payload[at - back..end]);
            let more = end < payload.len() || (!sound && self.rng.chance(0.2));
            let field = ((at - back) / 8) as u16 | if more { 0x2000 } else { 0 };
            piece[LINK + 4..LINK + 6].copy_from_slice(&id.to_be_bytes());
            piece[LINK + 6..LINK + 8].copy_from_slice(&field.to_be_bytes());
            if !sound && self.rng.chance(0.2) {
                piece[LINK + 1] = self.byte();
            }
            set_lengths(&mut piece);
            repair(&mut piece);
            self.queue_piece((1 - from, piece), sound);
            at = end;
        }
        self.more.pop_front().unwrap_or((1 - from, frame))
    }

    /// In order, or somewhere, or twice, or not at all.
    pub fn queue_piece(&mut self, piece: (usize, Vec<u8>), sound: bool) {
        if !sound && self.rng.chance(0.1) {
            return;
        }
        if !sound && self.rng.chance(0.1) {
            self.more.push_back(piece.clone());
        }
        let at = if self.rng.chance(0.3) { self.below(self.more.len() + 1) } else { self.more.len() };
        self.more.insert(at, piece);
    }

    fn fragment(&mut self) -> (usize, Vec<u8>) {
        let to = self.below(2);
        let payload = self.bytes(1480);
        let protocol = self.pick(&[1, 6, 17, 50]);
        let mut frame = ip4(to, node4(1 - to), node4(to), 64, protocol, &payload);
        let offset = self.short() & 0x3fff;
        frame[LINK + 4] = self.byte() % 4;
        frame[LINK + 6..LINK + 8].copy_from_slice(&offset.to_be_bytes());
        repair(&mut frame);
        (to, frame)
    }

    /// IPv4 options in front of something live.
    fn optioned(&mut self) -> (usize, Vec<u8>) {
        let protocol = self.pick(&[17, 6, 1]);
        let Some((from, frame)) = self.taped(Some((4, protocol))) else { return self.noise() };
        let options = self.ip_options();
        let mut out = insert_options(&frame, &options);
        if self.rng.chance(0.2) {
            out[LINK + 16..LINK + 20].copy_from_slice(&[10, 0, 1, 9]);
            repair(&mut out);
        }
        (1 - from, out)
    }

    /// Record route, timestamps of three kinds, source routes, router alert, security, and noise.
    fn ip_options(&mut self) -> Vec<u8> {
        let mut out = Vec::new();
        for _ in 0..=self.rng.below(2) {
            let kind = self.pick(&[7, 68, 68, 131, 137, 148, 130, 1, 0, 25]);
            match kind {
                0 | 1 => out.push(kind),
                148 => out.extend_from_slice(&[148, 4, 0, self.byte() % 2]),
                68 => {
                    let flag = self.pick(&[0, 1, 3, 7]);
                    let room = 4 * (1 + self.below(8));
                    out.extend_from_slice(&[68, 4 + room as u8, 5 + 4 * (self.byte() % 4), flag | self.byte() & 0xf0]);
                    (0..room / 4).for_each(|_| out.extend_from_slice(&[10, 0, 0, 2]));
                }
                _ => {
                    let slots = 1 + self.below(8);
                    out.extend_from_slice(&[kind, 3 + 4 * slots as u8, 4 * (1 + self.byte() % 5)]);
                    (0..slots).for_each(|_| out.extend_from_slice(&[10, 0, 0, 1]));
                }
            }
        }
        if self.rng.chance(0.2) && !out.is_empty() {
            let at = self.below(out.len());
            out[at] = self.byte();
        }
        out.truncate(40);
        out.resize(out.len().next_multiple_of(4), 0);
        out
    }

    /// To be forwarded: to the other network, to nowhere, with little TTL, too large, from impossible sources.
    fn passing(&mut self) -> (usize, Vec<u8>) {
        let destination =
            [[10, 0, 1, 9], [10, 0, 1, 9], [10, 0, 1, self.byte()], [192, 0, 2, 1], self.rng.u32().to_be_bytes()][self.below(5)];
        let source = [node4(0), node4(0), [10, 0, 0, self.byte()], [127, 0, 0, 1], [10, 0, 1, 2]][self.below(5)];
        let (protocol, payload) = (self.pick(&[17, 6, 1, 47]), self.bytes(1480));
        let ttl = self.pick(&[64, 64, 64, 1, 0, 2, 255]);
        let mut frame = ip4(1, source, destination, ttl, protocol, &payload);
        if self.rng.chance(0.5) {
            frame[LINK + 6] |= 0x40;
        }
        if self.rng.chance(0.2) {
            frame[..6].fill(0xff);
        }
        repair(&mut frame);
        (1, frame)
    }

    fn truncated(&mut self) -> (usize, Vec<u8>) {
        let (to, mut frame) = self.spoiled(None);
        let keep = self.below(frame.len() + 1);
        frame.truncate(keep);
        (to, frame)
    }

    pub fn noise(&mut self) -> (usize, Vec<u8>) {
        let to = self.below(2);
        let mut frame = self.bytes(1514);
        if self.rng.chance(0.8) && frame.len() >= LINK {
            frame[..6].copy_from_slice(&MACS[to]);
            let ether_type: u16 = self.pick(&[0x0800, 0x0806, 0x86dd, 0x8100]);
            frame[12..14].copy_from_slice(&ether_type.to_be_bytes());
        }
        (to, frame)
    }
}

/// The same packet with these options (a multiple of four bytes) in place of its own.
fn insert_options(frame: &[u8], options: &[u8]) -> Vec<u8> {
    let header = usize::from(frame[LINK] & 15) * 4;
    let mut out = frame[..LINK + 20].to_vec();
    out[LINK] = 0x40 | (5 + options.len() / 4) as u8;
    out.extend_from_slice(options);
    out.extend_from_slice(&frame[(LINK + header).min(frame.len())..]);
    set_lengths(&mut out);
    repair(&mut out);
    out
}
