//! Frames as bytes: put together by hand, so that what is judged is not judged by itself; checksums made right; and the judgement whether a
//! frame passes length and checksum checks.

/// Bytes of Ethernet header.
pub const LINK: usize = 14;
pub const MACS: [[u8; 6]; 2] = [[2, 0, 0, 0, 0, 1], [2, 0, 0, 0, 0, 2]];

fn sum(bytes: &[u8]) -> u32 {
    bytes.chunks(2).map(|pair| u32::from(pair[0]) << 8 | u32::from(pair.get(1).copied().unwrap_or(0))).sum()
}

fn fold(mut sum: u32) -> u16 {
    while sum > 0xffff {
        sum = (sum & 0xffff) + (sum >> 16);
    }
    sum as u16
}

fn short(bytes: &[u8], at: usize) -> u16 {
    u16::from_be_bytes([bytes[at], bytes[at + 1]])
}

fn put(bytes: &mut [u8], at: usize, value: u16) {
    bytes[at..at + 2].copy_from_slice(&value.to_be_bytes());
}

/// Where the checksum of a transport is, and whether the pseudo header counts.
fn checksum_of(protocol: u8) -> Option<(usize, bool)> {
    match protocol {
        6 => Some((16, true)),
        17 => Some((6, true)),
        58 => Some((2, true)),
        1 | 2 => Some((2, false)),
        _ => None,
    }
}

/// Where the transport of an IP packet is: protocol, first and last byte, and whether it is a fragment. None: the headers do not hold together.
pub fn transport(packet: &[u8]) -> Option<(u8, std::ops::Range<usize>, bool)> {
    match packet.first()? >> 4 {
        4 => {
            let header = usize::from(packet[0] & 15) * 4;
            if packet.len() < 20 || header < 20 {
                return None;
            }
            let total = usize::from(short(packet, 2));
            (header <= total && total <= packet.len()).then(|| (packet[9], header..total, short(packet, 6) & 0x3fff != 0))
        }
        6 => {
            if packet.len() < 40 {
                return None;
            }
            let end = 40 + usize::from(short(packet, 4));
            if end > packet.len() {
                return None;
            }
            let (mut next, mut at, mut fragment) = (packet[6], 40, false);
            loop {
                let length = match next {
                    0 | 43 | 60 => usize::from(*packet[..end].get(at + 1)?) * 8 + 8,
                    44 => {
                        fragment |= short(packet.get(at..end).filter(|rest| rest.len() >= 8)?, 2) & 0xfff9 != 0;
                        8
                    }
                    51 => usize::from(*packet[..end].get(at + 1)?) * 4 + 8,
                    _ => return Some((next, at..end, fragment)),
                };
                if at + length > end {
                    return None;
                }
                next = packet[at];
                at += length;
                if fragment {
                    return Some((next, at..end, true));
                }
            }
        }
        _ => None,
    }
}

/// Sum of the pseudo header.
fn pseudo(packet: &[u8], protocol: u8, length: usize) -> u32 {
    let addresses = if packet[0] >> 4 == 4 { &packet[12..20] } else { &packet[8..40] };
    sum(addresses) + u32::from(protocol) + length as u32
}

/// Makes the checksums of IP and of what is in it right, as far as there is room for them.
pub fn repair(frame: &mut [u8]) {
    let Some(packet) = frame.get_mut(LINK..) else { return };
    if packet.first().is_some_and(|first| first >> 4 == 4) && packet.len() >= 20 {
        let header = (usize::from(packet[0] & 15) * 4).clamp(20, packet.len());
        put(packet, 10, 0);
        let sum = !fold(sum(&packet[..header]));
        put(packet, 10, sum);
    }
    let Some((protocol, range, false)) = transport(packet) else { return };
    let Some((at, with_pseudo)) = checksum_of(protocol) else { return };
    if range.len() < at + 2 {
        return;
    }
    let start = if with_pseudo { pseudo(packet, protocol, range.len()) } else { 0 };
    let body = &mut packet[range];
    put(body, at, 0);
    let sum = !fold(start + sum(body));
    put(body, at, if sum == 0 && protocol == 17 { 0xffff } else { sum });
}

/// Does a frame pass the checks of length and checksum of every header that this node reads? Fragments: of IP.
pub fn is_sound(frame: &[u8], to: usize) -> bool {
    if frame.len() < LINK || (frame[0] & 1 == 0 && frame[..6] != MACS[to]) {
        return false;
    }
    let packet = &frame[LINK..];
    match short(frame, 12) {
        0x0806 => packet.len() >= 28 && packet[..6] == [0, 1, 8, 0, 6, 4],
        0x0800 => {
            packet.first().is_some_and(|first| first >> 4 == 4) && {
                let header = usize::from(packet[0] & 15) * 4;
                header <= packet.len() && fold(sum(&packet[..header])) == 0xffff && is_sound_inside(packet)
            }
        }
        0x86dd => packet.first().is_some_and(|first| first >> 4 == 6) && is_sound_inside(packet),
        _ => false,
    }
}

fn is_sound_inside(packet: &[u8]) -> bool {
    let Some((protocol, range, fragment)) = transport(packet) else { return false };
    if fragment {
        return !range.is_empty();
    }
    let body = &packet[range];
    let (least, lengths) = match protocol {
        6 => (20, body.get(12).is_some_and(|offset| (20..=body.len()).contains(&(usize::from(offset >> 4) * 4)))),
        17 => (8, body.len() >= 8 && (8..=body.len()).contains(&usize::from(short(body, 4)))),
        1 | 2 => (8, true),
        58 => (4, true),
        _ => return true,
    };
    let Some((_, with_pseudo)) = checksum_of(protocol) else { return true };
    let start = if with_pseudo { pseudo(packet, protocol, body.len()) } else { 0 };
    let without = protocol == 17 && packet[0] >> 4 == 4 && body.get(6..8) == Some(&[0, 0]);
    lengths && body.len() >= least && (without || fold(start + sum(body)) == 0xffff)
}

/// The length fields of IP and UDP say what the frame holds.
pub fn set_lengths(frame: &mut [u8]) {
    let Some(packet) = frame.get_mut(LINK..) else { return };
    let length = packet.len();
    match packet.first().map(|first| first >> 4) {
        Some(4) if length >= 20 => put(packet, 2, length as u16),
        Some(6) if length >= 40 => put(packet, 4, (length - 40) as u16),
        _ => return,
    }
    if let Some((17, range, false)) = transport(packet)
        && range.len() >= 8
    {
        let length = range.len() as u16;
        put(packet, range.start + 4, length);
    }
}

pub fn ethernet(destination: [u8; 6], from: usize, ether_type: u16, body: &[u8]) -> Vec<u8> {
    let mut frame = [destination, MACS[from]].concat();
    frame.extend_from_slice(&ether_type.to_be_bytes());
    frame.extend_from_slice(body);
    frame
}

/// An IPv4 packet in its frame; a group's goes to the group.
pub fn ip4(to: usize, source: [u8; 4], destination: [u8; 4], ttl: u8, protocol: u8, body: &[u8]) -> Vec<u8> {
    let total = (20 + body.len()) as u16;
    let mut packet = vec![0x45, 0, (total >> 8) as u8, total as u8, 0, 7, 0, 0, ttl, protocol, 0, 0];
    packet.extend_from_slice(&source);
    packet.extend_from_slice(&destination);
    packet.extend_from_slice(body);
    let mac = if destination[0] >> 4 == 14 { [1, 0, 0x5e, destination[1] & 127, destination[2], destination[3]] } else { MACS[to] };
    let mut frame = ethernet(mac, 1 - to, 0x0800, &packet);
    repair(&mut frame);
    frame
}

/// An IPv6 packet in its frame; `next` is the first header of `body`.
pub fn ip6(to: usize, source: [u8; 16], destination: [u8; 16], hop_limit: u8, next: u8, body: &[u8]) -> Vec<u8> {
    let mut packet = vec![0x60, 0, 0, 0];
    packet.extend_from_slice(&(body.len() as u16).to_be_bytes());
    packet.extend_from_slice(&[next, hop_limit]);
    packet.extend_from_slice(&source);
    packet.extend_from_slice(&destination);
    packet.extend_from_slice(body);
    let last = &destination[12..];
    let mac = if destination[0] == 0xff { [0x33, 0x33, last[0], last[1], last[2], last[3]] } else { MACS[to] };
    let mut frame = ethernet(mac, 1 - to, 0x86dd, &packet);
    repair(&mut frame);
    frame
}

/// What a TCP segment is made of.
pub struct Segment<'a> {
    pub ports: (u16, u16),
    pub seq: u32,
    pub ack: u32,
    pub flags: u8,
    pub window: u16,
    /// A multiple of four bytes.
    pub options: &'a [u8],
    pub payload: &'a [u8],
}

impl Segment<'_> {
    pub fn bytes(&self) -> Vec<u8> {
        let mut out = [self.ports.0.to_be_bytes(), self.ports.1.to_be_bytes()].concat();
        out.extend_from_slice(&self.seq.to_be_bytes());
        out.extend_from_slice(&self.ack.to_be_bytes());
        out.extend_from_slice(&[(((20 + self.options.len()) / 4) << 4) as u8, self.flags]);
        out.extend_from_slice(&self.window.to_be_bytes());
        out.extend_from_slice(&[0, 0, 0, 0]);
        out.extend_from_slice(self.options);
        out.extend_from_slice(self.payload);
        out
    }
}

/// An address of a node: 10.0.0.1 and 10.0.0.2.
pub fn node4(host: usize) -> [u8; 4] {
    [10, 0, 0, host as u8 + 1]
}
/// fd77::1 and fd77::2.
pub fn node6(host: usize) -> [u8; 16] {
    let mut out = [0; 16];
    out[..2].copy_from_slice(&[0xfd, 0x77]);
    out[15] = host as u8 + 1;
    out
}
/// Its link-local address.
pub fn link6(host: usize) -> [u8; 16] {
    [0xfe, 0x80, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0xff, 0xfe, 0, 0, host as u8 + 1]
}
