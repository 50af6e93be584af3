//! `trace:URL`: a backend around another that says a line about every frame, as a person wants to see it.
//!
//! ```text
//!        0.001 weft0 out TCP 10.77.0.2:41000 -> 10.77.0.1:80 SYN seq 7 win 64240 len 0 mss 1460
//! ```
//!
//! A frame going out is told of once the device has taken it. Lines go to a sink: standard error when opened by URL.
//!
//! It refuses to judge: a checksum is not verified here, and what cannot be read is a line that says so.

use crate::interface::{Backend, Features};
use crate::link_type::LinkType;
use std::collections::VecDeque;
use std::fmt::Write;
use std::io;
use std::net::IpAddr;
use std::os::fd::BorrowedFd;
use weft_core::{Completion, Frame, Instant};
use weft_wire::ethernet::EtherType;
use weft_wire::{Protocol, arp, ethernet, icmpv4, icmpv6, ipv4, ipv6, tcp, udp};

/// Bytes of a frame that are read for its line: all headers that occur.
const READ_BYTES: usize = 256;

/// Where lines go.
pub type Sink = Box<dyn FnMut(&str) + Send>;

/// A backend whose frames are told of.
pub struct Trace<B> {
    inner: B,
    sink: Sink,
    one: VecDeque<Frame>,
}

impl<B: Backend> Trace<B> {
    /// Tells `sink` a line about each frame that passes `inner`.
    pub fn new(inner: B, sink: Sink) -> Trace<B> {
        Trace { inner, sink, one: VecDeque::new() }
    }

    fn tell(&mut self, now: Instant, direction: &str, what: &str) {
        let line = format!("{:>12} {} {direction:<3} {what}", now.to_string(), self.inner.name());
        (self.sink)(&line);
    }
}

impl<B: Backend> Backend for Trace<B> {
    fn name(&self) -> &str {
        self.inner.name()
    }

    fn receive(&mut self, now: Instant, frames: &mut Vec<Frame>, limit: usize) -> io::Result<usize> {
        let before = frames.len();
        let result = self.inner.receive(now, frames, limit);
        let link = self.inner.features().link;
        for frame in frames.iter().skip(before) {
            self.tell(now, "in", &describe(frame, link));
        }
        result
    }

    fn transmit(&mut self, now: Instant, frames: &mut VecDeque<Frame>, done: &mut Vec<Completion>) -> io::Result<usize> {
        let features = self.inner.features();
        let mut taken = 0;
        loop {
            // As the backend itself would: then it takes this frame as it is, or not at all.
            features.prepare_front(frames);
            let Some(frame) = frames.pop_front() else { return Ok(taken) };
            let line = describe(&frame, features.link);
            self.one.push_back(frame);
            let result = self.inner.transmit(now, &mut self.one, done);
            if let Some(back) = self.one.pop_front() {
                frames.push_front(back);
                return match result {
                    Err(_) if taken > 0 => Ok(taken),
                    other => other.map(|_| taken),
                };
            }
            taken += 1;
            self.tell(now, "out", &line);
        }
    }

    fn descriptor(&self) -> Option<BorrowedFd<'_>> {
        self.inner.descriptor()
    }
    fn features(&self) -> Features {
        self.inner.features()
    }
    fn drops(&mut self) -> Vec<(&'static str, u64)> {
        self.inner.drops()
    }
    fn next_timer(&self) -> Option<Instant> {
        self.inner.next_timer()
    }
    fn give_back_memory(&mut self) {
        self.inner.give_back_memory();
    }
}

/// Describes a frame that begins with this link's header, on one line.
pub fn describe(frame: &Frame, link: LinkType) -> String {
    let mut bytes = [0; READ_BYTES];
    let mut filled = 0;
    for chunk in frame.chunks() {
        let take = chunk.len().min(READ_BYTES - filled);
        bytes[filled..filled + take].copy_from_slice(&chunk[..take]);
        filled += take;
    }
    let bytes = &bytes[..filled];
    let mut line = match link {
        LinkType::Ethernet => under_ethernet(bytes, frame.len()),
        LinkType::Ip => packet(bytes, frame.len()),
    };
    if let Some(gso) = frame.meta().gso {
        let _ = write!(line, " [in segments of {}]", gso.segment_bytes);
    }
    line
}

fn under_ethernet(bytes: &[u8], length: usize) -> String {
    let Ok((header, at)) = ethernet::Header::parse(bytes) else { return format!("{length} bytes, no Ethernet header") };
    let rest = &bytes[at.min(bytes.len())..];
    match header.ether_type {
        EtherType::ARP => match arp::Packet::parse(rest) {
            Ok(packet) => format!("ARP {:?} {} ({}) -> {}", packet.operation, packet.sender_ip, packet.sender_mac, packet.target_ip),
            Err(error) => format!("ARP, {error}"),
        },
        EtherType::IPV4 | EtherType::IPV6 => packet(rest, length.saturating_sub(at)),
        other => format!("{} -> {} ethertype {:#06x}, {length} bytes", header.src, header.dst, other.0),
    }
}

fn packet(bytes: &[u8], length: usize) -> String {
    match bytes.first().map(|byte| byte >> 4) {
        Some(4) => match ipv4::Header::parse(bytes) {
            Ok((ip, header)) => {
                let payload = (length - header.min(length)).min(ip.payload_len());
                if ip.fragment_offset != 0 {
                    return format!(
                        "IP {} -> {} protocol {} fragment at {}, {payload} bytes",
                        ip.src, ip.dst, ip.protocol.0, ip.fragment_offset
                    );
                }
                transport(ip.protocol, ip.src.into(), ip.dst.into(), &bytes[header.min(bytes.len())..], payload)
            }
            Err(error) => format!("IPv4, {error}"),
        },
        Some(6) => match ipv6::Header::parse(bytes) {
            Ok((ip, header)) => {
                let mut chain = ipv6::extension::Extensions::new(ip.next_header, &bytes[header.min(bytes.len())..]);
                for extension in chain.by_ref() {
                    match extension {
                        Ok(ipv6::extension::Extension::Fragment(fragment)) if fragment.offset != 0 => {
                            return format!("IP {} -> {} fragment at {}, {length} bytes", ip.src, ip.dst, fragment.offset);
                        }
                        Ok(_) => {}
                        Err(error) => return format!("IPv6 {} -> {}, extension header: {error}", ip.src, ip.dst),
                    }
                }
                let payload = length.saturating_sub(header + chain.offset());
                transport(chain.next_header(), ip.src.into(), ip.dst.into(), chain.rest(), payload)
            }
            Err(error) => format!("IPv6, {error}"),
        },
        Some(version) => format!("{length} bytes, IP version {version}"),
        None => "an empty frame".to_owned(),
    }
}

fn transport(protocol: Protocol, src: IpAddr, dst: IpAddr, bytes: &[u8], length: usize) -> String {
    // An IPv6 address beside a port needs brackets.
    let end = |address: IpAddr, port: u16| std::net::SocketAddr::new(address, port);
    match protocol {
        Protocol::TCP => match tcp::Segment::parse(bytes) {
            Ok((segment, header)) => {
                let data = length.saturating_sub(header);
                let flags = segment.flags.iter_names().map(|(name, _)| name).collect::<Vec<_>>().join("|");
                let flags = if flags.is_empty() { "none" } else { &flags };
                let (from, to) = (end(src, segment.src_port), end(dst, segment.dst_port));
                let mut line = format!("TCP {from} -> {to} {flags} seq {}", segment.seq.0);
                if segment.flags.contains(tcp::Flags::ACK) {
                    let _ = write!(line, " ack {}", segment.ack.0);
                }
                let _ = write!(line, " win {} len {data}", segment.window);
                if let Some(mss) = segment.options.mss {
                    let _ = write!(line, " mss {mss}");
                }
                line
            }
            Err(error) => format!("TCP {src} -> {dst}, {error}"),
        },
        Protocol::UDP => match udp::Header::parse(bytes) {
            Ok((header, _)) => {
                let (from, to) = (end(src, header.src_port), end(dst, header.dst_port));
                format!("UDP {from} -> {to} len {}", length.saturating_sub(udp::LEN))
            }
            Err(error) => format!("UDP {src} -> {dst}, {error}"),
        },
        Protocol::ICMP => match icmpv4::Message::parse(bytes) {
            Ok((message, _)) => format!("ICMP {src} -> {dst} {message:?}"),
            Err(error) => format!("ICMP {src} -> {dst}, {error}"),
        },
        Protocol::ICMPV6 => match icmpv6::Message::parse(bytes) {
            Ok((message, _)) => format!("ICMPv6 {src} -> {dst} {message:?}"),
            Err(error) => format!("ICMPv6 {src} -> {dst}, {error}"),
        },
        other => format!("IP {src} -> {dst} protocol {}, {length} bytes", other.0),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::interface::OpenOptions;
    use crate::memory;
    use etherparse::PacketBuilder;
    use std::sync::{Arc, Mutex};

    #[test]
    fn every_frame_is_a_line_once_it_has_passed() {
        let lines = Arc::new(Mutex::new(Vec::new()));
        let kept = lines.clone();
        let (one, mut other) = memory::pair(&OpenOptions::default());
        let mut one = Trace::new(one, Box::new(move |line| kept.lock().unwrap().push(line.to_owned())));
        let mut bytes = Vec::new();
        let ethernet = PacketBuilder::ethernet2([2; 6], [4; 6]);
        ethernet.ipv6([1; 16], [2; 16], 9).udp(53, 54).write(&mut bytes, &[0; 7]).unwrap();
        let now = Instant::from_millis(5);
        one.transmit(now, &mut VecDeque::from([Frame::ingress(&bytes)]), &mut Vec::new()).unwrap();
        other.transmit(now, &mut VecDeque::from([Frame::ingress(&[9; 3])]), &mut Vec::new()).unwrap();
        assert_eq!(one.receive(now, &mut Vec::new(), 9).unwrap(), 1);
        let lines = lines.lock().unwrap();
        let udp = "UDP [101:101:101:101:101:101:101:101]:53 -> [202:202:202:202:202:202:202:202]:54 len 7";
        assert!(lines[0].ends_with(&format!("memory-a out {udp}")), "{lines:?}");
        assert!(lines[1].ends_with("memory-a in  3 bytes, no Ethernet header"), "{lines:?}");
        assert_eq!(lines.len(), 2);
    }

    #[test]
    fn packets_without_ethernet_are_read_and_nonsense_is_said_to_be() {
        let mut bytes = Vec::new();
        PacketBuilder::ipv4([10, 0, 0, 1], [10, 0, 0, 2], 9).tcp(1, 2, 3, 4).syn().write(&mut bytes, &[]).unwrap();
        let describe = |bytes: &[u8]| describe(&Frame::ingress(bytes), LinkType::Ip);
        assert_eq!(describe(&bytes), "TCP 10.0.0.1:1 -> 10.0.0.2:2 SYN seq 3 win 4 len 0");
        assert_eq!(describe(&[]), "an empty frame");
        assert_eq!(describe(&[0xf1, 2]), "2 bytes, IP version 15");
        // Any prefix of any of it is a line, too.
        for length in 0..bytes.len() {
            assert!(!describe(&bytes[..length]).is_empty());
        }
    }
}
