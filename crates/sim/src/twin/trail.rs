//! What passed an interface, in numbers that two runs can share: sequence numbers from 0 on, and conversations in their order instead of chance ports.

use super::packet::{Content, Packet};
use crate::cell::FrameSink;
use crate::hash::Way;
use std::collections::HashMap;
use std::fmt;
use std::net::{IpAddr, SocketAddr};
use std::sync::{Arc, Mutex, PoisonError};
use weft_core::{Frame, Instant};
use weft_wire::tcp::{Flags, Seq};

/// Most frames of an interface that are kept: those behind them are counted.
pub const FRAMES_MAX: usize = 1 << 20;
/// Most blocks that the options of a segment have room for.
const SACK_MAX: usize = 4;

/// Two ends that talk, from the one that began.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub struct Ends {
    /// Who sent the first packet.
    pub opener: SocketAddr,
    /// Who got it.
    pub service: SocketAddr,
}

/// A frame of a conversation.
#[derive(Clone, Debug)]
pub(super) struct Seen {
    pub at: Instant,
    /// It leaves by this interface.
    pub out: bool,
    /// Place in [`Trail::ends`].
    pub conversation: u32,
    /// From the opener to the service.
    pub forth: bool,
    pub ecn: u8,
    pub what: What,
}

/// A packet without what chance draws.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum What {
    Tcp(Tcp),
    Udp { bytes: u32 },
    Echo { reply: bool, number: u16, bytes: u32 },
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Tcp {
    pub flags: Flags,
    /// From the sender's first number on.
    pub seq: u32,
    /// From the receiver's first number on; 0 without ACK.
    pub ack: u32,
    pub data: u32,
    /// As it is on the wire.
    pub window: u16,
    pub mss: Option<u16>,
    pub window_scale: Option<u8>,
    pub sack_permitted: bool,
    pub timestamps: bool,
    /// First number and the one after the last; places that are free are (0, 0).
    pub sack: [(u32, u32); SACK_MAX],
    /// Kinds of other options, a bit each of the first 64.
    pub others: u64,
}

/// The conversations of an interface.
#[derive(Debug)]
pub(super) struct Trail {
    /// Most frames that are kept.
    room: usize,
    pub ends: Vec<Ends>,
    /// First sequence numbers: of the opener and of the service.
    first: Vec<[Option<Seq>; 2]>,
    known: HashMap<(SocketAddr, SocketAddr, bool), u32>,
    pub seen: Vec<Seen>,
    /// Frames that found no room.
    pub left_out: u64,
}

impl Default for Trail {
    fn default() -> Trail {
        Trail { room: FRAMES_MAX, ends: Vec::new(), first: Vec::new(), known: HashMap::new(), seen: Vec::new(), left_out: 0 }
    }
}

impl Trail {
    pub fn add(&mut self, at: Instant, out: bool, frame: &Frame) {
        let Some(packet) = Packet::of(frame) else { return };
        if self.seen.len() >= self.room {
            self.left_out += 1;
            return;
        }
        let Packet { from, to, ecn, content } = packet;
        let is_tcp = matches!(content, Content::Tcp(..));
        // A port that is used again is another conversation.
        let anew = matches!(&content, Content::Tcp(segment, _) if segment.flags & (Flags::SYN | Flags::ACK) == Flags::SYN && self.has_moved(from, to, segment.seq));
        let conversation = match self.known.get(&(from, to, is_tcp)).filter(|_| !anew) {
            Some(known) => *known,
            None => self.begin(from, to, is_tcp),
        };
        let Some(ends) = self.ends.get(conversation as usize) else { return };
        let forth = ends.opener == from;
        let what = match content {
            Content::Udp(bytes) => What::Udp { bytes },
            Content::Echo { reply, number, bytes } => What::Echo { reply, number, bytes },
            Content::Tcp(segment, data) => {
                let Some(first) = self.first.get_mut(conversation as usize) else { return };
                let [ours, theirs] = if forth { [0, 1] } else { [1, 0] };
                let own = *first[ours].get_or_insert(segment.seq);
                let other = first[theirs].unwrap_or(segment.ack);
                let mut sack = [(0, 0); SACK_MAX];
                for (place, (start, end)) in sack.iter_mut().zip(&segment.options.sack) {
                    *place = (start.since(other), end.since(other));
                }
                let has_ack = segment.flags.contains(Flags::ACK);
                What::Tcp(Tcp {
                    flags: segment.flags,
                    seq: segment.seq.since(own),
                    ack: if has_ack { segment.ack.since(other) } else { 0 },
                    data,
                    window: segment.window,
                    mss: segment.options.mss,
                    window_scale: segment.options.window_scale,
                    sack_permitted: segment.options.sack_permitted,
                    timestamps: segment.options.timestamps.is_some(),
                    sack,
                    others: segment.options.others().filter(|(kind, _)| *kind < 64).fold(0, |all, (kind, _)| all | 1 << kind),
                })
            }
        };
        self.seen.push(Seen { at, out, conversation, forth, ecn, what });
    }

    /// Has this connection begun with another number?
    fn has_moved(&self, from: SocketAddr, to: SocketAddr, seq: Seq) -> bool {
        let known =
            self.known.get(&(from, to, true)).and_then(|known| Some((self.ends.get(*known as usize)?, self.first.get(*known as usize)?)));
        known.is_some_and(|(ends, first)| ends.opener != from || first[0].is_some_and(|first| first != seq))
    }

    fn begin(&mut self, opener: SocketAddr, service: SocketAddr, is_tcp: bool) -> u32 {
        let number = self.ends.len() as u32;
        self.ends.push(Ends { opener, service });
        self.first.push([None; 2]);
        self.known.insert((opener, service, is_tcp), number);
        self.known.insert((service, opener, is_tcp), number);
        number
    }

    /// A frame in words. The opener's port is chance, and not told.
    pub fn tell(&self, seen: &Seen) -> String {
        let Some(Ends { opener, service }) = self.ends.get(seen.conversation as usize) else { return String::new() };
        let number = seen.conversation + 1;
        let ports = !matches!(seen.what, What::Echo { .. });
        let end = |address: IpAddr, port: String| match (ports, address) {
            (false, _) => address.to_string(),
            (true, IpAddr::V4(address)) => format!("{address}:{port}"),
            (true, IpAddr::V6(address)) => format!("[{address}]:{port}"),
        };
        let (a, b) = (end(opener.ip(), "*".to_owned()), end(service.ip(), service.port().to_string()));
        let (from, to) = if seen.forth { (a, b) } else { (b, a) };
        let way = if seen.out { "out" } else { "in" };
        let ecn = ["", " ECT(1)", " ECT(0)", " CE"][usize::from(seen.ecn & 3)];
        format!("{way} {} conversation {number} {from} > {to}{ecn}", seen.what)
    }
}

impl fmt::Display for What {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            What::Udp { bytes } => write!(f, "UDP {bytes} bytes"),
            What::Echo { reply, number, bytes } => write!(f, "echo {} {number}, {bytes} bytes", if *reply { "reply" } else { "request" }),
            What::Tcp(tcp) => {
                let flags: Vec<&str> = tcp.flags.iter_names().map(|(name, _)| name).collect();
                write!(f, "TCP {} seq {} ack {} len {} win {}", flags.join("|"), tcp.seq, tcp.ack, tcp.data, tcp.window)?;
                tcp.mss.map_or(Ok(()), |mss| write!(f, " mss {mss}"))?;
                tcp.window_scale.map_or(Ok(()), |scale| write!(f, " wscale {scale}"))?;
                f.write_str(if tcp.sack_permitted { " sackOK" } else { "" })?;
                f.write_str(if tcp.timestamps { " ts" } else { "" })?;
                for (start, end) in tcp.sack.iter().filter(|(_, end)| *end != 0) {
                    write!(f, " sack {start}-{end}")?;
                }
                (0..64).filter(|kind| tcp.others & 1 << kind != 0).try_for_each(|kind| write!(f, " option {kind}"))
            }
        }
    }
}

/// A trail that is being written.
#[derive(Clone, Debug, Default)]
pub(super) struct Writer(Arc<Mutex<Trail>>);

impl Writer {
    /// What was written until now.
    pub fn take(&self) -> Trail {
        std::mem::take(&mut *self.0.lock().unwrap_or_else(PoisonError::into_inner))
    }
}

impl FrameSink for Writer {
    fn frame(&mut self, at: Instant, way: Way, frame: &Frame) {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).add(at, way == Way::Out, frame);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A datagram of IPv4 from one port to the other.
    fn datagram(from: u16, to: u16, bytes: &[u8]) -> Frame {
        let (ends, ports) = ([10, 0, 0, 1, 10, 0, 0, 2], [from.to_be_bytes(), to.to_be_bytes()].concat());
        let (udp, length) = ((8 + bytes.len() as u16).to_be_bytes(), (28 + bytes.len() as u16).to_be_bytes());
        let ip = [&[0x45, 0][..], &length, &[0, 0, 0, 0, 64, 17, 0, 0], &ends].concat();
        Frame::ingress(&[&[2; 12][..], &[8, 0], &ip, &ports, &udp, &[0, 0], bytes].concat())
    }

    #[test]
    fn conversations_have_no_chance_in_them() {
        let mut trails = [Trail::default(), Trail::default()];
        for (trail, port) in trails.iter_mut().zip([40_000, 50_000]) {
            trail.add(Instant::ZERO, true, &datagram(port, 53, b"question"));
            trail.add(Instant::ZERO, false, &Frame::ingress(&[0; 60]));
        }
        let [one, other] = trails;
        assert_eq!(one.tell(&one.seen[0]), "out UDP 8 bytes conversation 1 10.0.0.1:* > 10.0.0.2:53");
        assert_eq!(one.tell(&one.seen[0]), other.tell(&other.seen[0]));
        assert_eq!((one.seen.len(), one.left_out), (1, 0));
    }

    #[test]
    fn frames_that_find_no_room_are_counted() {
        let mut trail = Trail { room: 2, ..Trail::default() };
        for number in 0..5 {
            trail.add(Instant::from_millis(number), true, &datagram(1000, 53, &[]));
        }
        assert_eq!((trail.seen.len(), trail.left_out), (2, 3));
    }
}
