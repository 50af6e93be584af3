//! What one end of a TCP connection sent, measured where it leaves: goodput, retransmissions and round trips, of any stack alike.

use super::trail::{Ends, Seen, Tcp, Trail, What};
use crate::result::chart::Points;
use std::collections::VecDeque;
use std::net::SocketAddr;
use weft_core::Instant;
use weft_wire::tcp::Flags;

/// Who sent to whom.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub struct Name {
    /// Node of the sender.
    pub node: String,
    /// Node of the receiver, or its address.
    pub peer: String,
    /// Port of the one that was connected to.
    pub port: u16,
    /// Among flows with the same names, in the order in which they began: 1, 2 …
    pub number: u32,
}

/// One direction of a connection.
#[derive(Clone, Debug, Default)]
pub struct Flow {
    /// When the first byte left.
    pub begun: Instant,
    /// When the last byte that was acknowledged was.
    pub ended: Instant,
    /// Bytes that were acknowledged.
    pub acked_bytes: u64,
    /// Segments with data, those that were sent again among them.
    pub segments: u64,
    /// Segments with data that had been sent before.
    pub retransmitted_segments: u64,
    /// Round trips of segments that were sent once (Karn's rule): seconds of virtual time, and milliseconds.
    pub rtt: Points,
    /// Bytes that were acknowledged: seconds of virtual time, and how many by then.
    pub acked: Points,
    /// The congestion window where it was sampled: seconds of virtual time, and segments.
    pub cwnd: Points,
}

impl Flow {
    /// Bits a second from the first byte to the last acknowledgment.
    pub fn goodput_bits_per_second(&self) -> Option<f64> {
        let time = self.ended.since(self.begun);
        (!time.is_zero()).then(|| self.acked_bytes as f64 * 8.0 / time.as_secs_f64())
    }

    /// The mean of some points.
    pub fn mean(points: &Points) -> Option<f64> {
        (!points.is_empty()).then(|| points.iter().map(|(_, value)| value).sum::<f64>() / points.len() as f64)
    }

    /// What so much of the points does not exceed.
    pub fn quantile(points: &Points, part: f64) -> Option<f64> {
        let mut values: Vec<f64> = points.iter().map(|(_, value)| *value).collect();
        values.sort_by(f64::total_cmp);
        values.get(((values.len() as f64 * part) as usize).min(values.len().saturating_sub(1))).copied()
    }
}

/// What is known of a sender while its segments are read.
#[derive(Default)]
struct Sender {
    flow: Flow,
    /// The number behind the last byte that was sent, and the first one that was not acknowledged; unwrapped, data begin with 1.
    next: u64,
    acked: u64,
    /// Ends of segments whose acknowledgment is a round trip.
    probes: VecDeque<(u64, Instant)>,
}

/// The number in the neighbourhood of `near` that has these low bits.
fn unwrapped(number: u32, near: u64) -> u64 {
    near.saturating_add_signed(i64::from(number.wrapping_sub(near as u32) as i32))
}

fn seconds(at: Instant) -> f64 {
    at.as_nanos() as f64 / 1e9
}

impl Sender {
    fn send(&mut self, at: Instant, tcp: &Tcp) {
        let start = unwrapped(tcp.seq, self.next.max(1));
        let end = start + u64::from(tcp.data);
        if self.flow.segments == 0 {
            self.flow.begun = at;
        }
        self.flow.segments += 1;
        if start < self.next {
            self.flow.retransmitted_segments += 1;
            self.probes.retain(|(probe, _)| *probe <= start);
        } else {
            self.probes.push_back((end, at));
        }
        self.next = self.next.max(end);
    }

    fn acknowledge(&mut self, at: Instant, ack: u32) {
        let ack = unwrapped(ack, self.acked.max(1)).min(self.next);
        if ack <= self.acked || self.next == 0 {
            return;
        }
        self.acked = ack;
        // Data begin with 1; a FIN has a number, too, which `next` does not count.
        self.flow.acked_bytes = ack.saturating_sub(1);
        self.flow.ended = at;
        self.flow.acked.push((seconds(at), self.flow.acked_bytes as f64));
        let covered = self.probes.iter().take_while(|(end, _)| *end <= ack).count();
        let last = self.probes.drain(..covered).next_back().map(|(_, sent)| sent);
        if let Some(sent) = last {
            self.flow.rtt.push((seconds(at), at.since(sent).as_secs_f64() * 1e3));
        }
    }
}

/// A flow and its sockets.
#[derive(Debug)]
pub(super) struct Sent {
    /// The sender's.
    pub local: SocketAddr,
    /// The receiver's.
    pub remote: SocketAddr,
    /// Port of the one that was connected to.
    pub port: u16,
    pub flow: Flow,
}

/// The flows that leave by an interface from ends for which `is_own` holds.
pub(super) fn of(trail: &Trail, is_own: impl Fn(SocketAddr) -> bool) -> Vec<Sent> {
    // Of the opener and of the service.
    let mut senders: Vec<[Sender; 2]> = trail.ends.iter().map(|_| Default::default()).collect();
    for Seen { at, out, conversation, forth, what, .. } in &trail.seen {
        let (What::Tcp(tcp), Some(both)) = (what, senders.get_mut(*conversation as usize)) else { continue };
        let [from, to] = if *forth { [0, 1] } else { [1, 0] };
        if *out && tcp.data > 0 {
            both[from].send(*at, tcp);
        }
        if !*out && tcp.flags.contains(Flags::ACK) {
            both[to].acknowledge(*at, tcp.ack);
        }
    }
    let sent = |(Ends { opener, service }, [forth, back]): (&Ends, [Sender; 2])| {
        let of = |local: SocketAddr, remote: SocketAddr, sender: Sender| Sent { local, remote, port: service.port(), flow: sender.flow };
        [of(*opener, *service, forth), of(*service, *opener, back)]
    };
    trail.ends.iter().zip(senders).flat_map(sent).filter(|sent| sent.flow.segments > 0 && is_own(sent.local)).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn tcp(seq: u32, ack: u32, data: u32) -> What {
        let none = Tcp {
            flags: Flags::ACK,
            seq,
            ack,
            data,
            window: 1,
            mss: None,
            window_scale: None,
            sack_permitted: false,
            timestamps: false,
            sack: Default::default(),
            others: 0,
        };
        What::Tcp(none)
    }

    fn trail(rows: &[(u64, bool, What)]) -> Trail {
        let ends = Ends { opener: "10.0.0.1:1000".parse().unwrap(), service: "10.0.0.2:80".parse().unwrap() };
        let seen = rows.iter().map(|(at, out, what)| Seen {
            at: Instant::from_millis(*at),
            out: *out,
            conversation: 0,
            forth: *out,
            ecn: 0,
            what: what.clone(),
        });
        let mut trail = Trail::default();
        (trail.ends, trail.seen) = (vec![ends], seen.collect());
        trail
    }

    #[test]
    fn goodput_round_trips_and_retransmissions_are_those_of_the_segments() {
        // The second segment is lost, and sent again after a second.
        let rows = [
            (0, true, tcp(1, 1, 1000)),
            (1, true, tcp(1001, 1, 1000)),
            (2, true, tcp(2001, 1, 1000)),
            (100, false, tcp(1, 1001, 0)),
            (102, false, tcp(1, 1001, 0)),
            (1001, true, tcp(1001, 1, 1000)),
            (1100, false, tcp(1, 3001, 0)),
            (1101, true, tcp(3001, 1, 500)),
            (1300, false, tcp(1, 3502, 0)),
        ];
        let flows = of(&trail(&rows), |end| end.port() == 1000);
        let [Sent { port: 80, flow, .. }] = &flows[..] else { panic!("{flows:?}") };
        assert_eq!((flow.segments, flow.retransmitted_segments, flow.acked_bytes), (5, 1, 3500));
        assert_eq!(flow.goodput_bits_per_second(), Some(3500.0 * 8.0 / 1.3));
        let trips: Vec<u64> = flow.rtt.iter().map(|(_, ms)| ms.round() as u64).collect();
        // What was sent behind the lost one was acknowledged with it: it tells nothing of the path.
        assert_eq!(trips, [100, 199]);
        assert_eq!(of(&trail(&rows), |end| end.port() == 80).len(), 0);
    }

    #[test]
    fn numbers_go_round() {
        assert_eq!(unwrapped(5, u64::from(u32::MAX)), (1 << 32) + 5);
        assert_eq!(unwrapped(u32::MAX, (1 << 32) + 5), u64::from(u32::MAX));
        assert_eq!(unwrapped(7, 1), 7);
    }
}
