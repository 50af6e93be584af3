//! Swallows packets above a size without telling anybody: a path-MTU black hole (RFC 2923 §2.1), as a misconfigured tunnel or firewall makes it.

use crate::tool::cut::cut_all;
use std::any::Any;
use weft_core::*;

/// What this kind declares.
pub static KIND: Kind = Kind {
    name: "blackhole",
    summary: "swallows packets above a size, without an ICMP error",
    doc: "Drops (reason impaired) each frame whose IP packet is longer than mtu_bytes, and says nothing to anybody. On Ethernet edges \
          the header, with its VLAN tag, does not count. Large frames are cut first.\n\
          Example: insert blackhole interfaces:upper ether:lower; set blackhole.mtu_bytes 1400",
    inputs: &[Port::required("in", Carries::Any, "any frames")],
    outputs: &[Port::required("out", Carries::Any, "those that are small enough")],
    parameters: &[Parameter {
        name: "mtu_bytes",
        value: ParameterType::Unsigned { min: 68, max: 65_535 },
        default: "65535",
        live: true,
        doc: "longest IP packet that passes",
    }],
    counters: &[Counter { name: "Passed", text: "frames passed on" }, Counter { name: "Swallowed", text: "frames that were too long" }],
    ..Kind::EMPTY
};

/// How to make one.
pub const ROW: BlockRow =
    BlockRow { kind: &KIND, make: |config| Ok(Box::new(Blackhole { mtu_bytes: config.u64("mtu_bytes") as usize, counters: [0; 2] })) };

/// The block.
#[derive(Debug)]
pub struct Blackhole {
    mtu_bytes: usize,
    counters: [u64; 2],
}

impl Blackhole {
    fn judge(&mut self, frame: &Frame) -> Verdict {
        let swallowed = frame.len() - link_header_bytes(frame) > self.mtu_bytes;
        self.counters[usize::from(swallowed)] += 1;
        if swallowed { Verdict::Drop(Reason::Impaired) } else { Verdict::Forward(OutPort(0)) }
    }
}

/// How much of a frame is its Ethernet header: none when an IP packet begins it.
fn link_header_bytes(frame: &Frame) -> usize {
    const VLAN: [u8; 2] = [0x81, 0x00];
    let head = frame.head();
    match head.get(12..14) {
        // An IP packet begins here, and says its own length.
        _ if begins_with_ip(frame) => 0,
        Some(kind) if kind == VLAN => 18.min(frame.len()),
        Some(_) => 14.min(frame.len()),
        None => 0,
    }
}

fn begins_with_ip(frame: &Frame) -> bool {
    let head = frame.head();
    let word = |at: usize| head.get(at..at + 2).map(|bytes| usize::from(u16::from_be_bytes([bytes[0], bytes[1]])));
    match head.first().map(|first| first >> 4) {
        Some(4) => word(2) == Some(frame.len()),
        Some(6) => word(4).map(|payload| payload + 40) == Some(frame.len()),
        _ => false,
    }
}

impl Block for Blackhole {
    fn kind(&self) -> &'static Kind {
        &KIND
    }

    fn process(&mut self, _port: InPort, vector: &mut Vector, cx: &mut Context<'_>) {
        let Some(frames) = cut_all(vector) else { return vector.each(|frame| self.judge(frame)) };
        for frame in frames {
            match self.judge(&frame) {
                Verdict::Forward(port) => cx.emit(port, frame),
                _ => cx.drop(frame, Reason::Impaired),
            }
        }
    }

    fn get(&self, name: &str, _now: Instant) -> Option<Value> {
        (name == "mtu_bytes").then(|| self.mtu_bytes.into())
    }

    fn set(&mut self, name: &str, value: Value, _cx: &mut Context<'_>) {
        if let ("mtu_bytes", Some(bytes)) = (name, value.as_u64()) {
            self.mtu_bytes = bytes as usize;
        }
    }

    fn counters(&self) -> &[u64] {
        &self.counters
    }

    fn as_any_mut(&mut self) -> &mut dyn Any {
        self
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::tool::testing::{Bench, large_udp};

    #[test]
    fn what_is_longer_is_swallowed_whatever_it_begins_with() {
        let mut bench = Bench::new("blackhole", &[("mtu_bytes", 1400.into())]);
        let packet = |bytes: usize| {
            let mut packet = vec![0u8; bytes];
            packet[0] = 0x45;
            packet[2..4].copy_from_slice(&(bytes as u16).to_be_bytes());
            packet
        };
        let ethernet = |bytes: usize| [&[2u8; 12][..], &[8, 0], &packet(bytes)].concat();
        let tagged = |bytes: usize| [&[2u8; 12][..], &[0x81, 0, 0, 5, 8, 0], &packet(bytes)].concat();
        let all = [packet(1400), packet(1401), ethernet(1400), ethernet(1401), tagged(1400), tagged(1401)];
        bench.send(Instant::ZERO, all.iter().map(|bytes| Frame::ingress(bytes)));
        assert_eq!(bench.taken().iter().map(Frame::len).collect::<Vec<_>>(), [1400, 1414, 1418]);
        assert_eq!((bench.counters(), bench.drops(Reason::Impaired)), (&[3, 3][..], 3));
        bench.send(Instant::ZERO, [Frame::ingress(&[]), Frame::ingress(&[0x60; 13])]);
        assert_eq!(bench.taken().len(), 2, "rubbish passes");
    }

    #[test]
    fn segments_of_a_large_frame_count_for_themselves() {
        let mut bench = Bench::new("blackhole", &[("mtu_bytes", 200.into())]);
        bench.send(Instant::ZERO, [large_udp(10, 100)]);
        assert_eq!(bench.taken().len(), 10);
    }
}
