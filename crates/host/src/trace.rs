//! One line a frame, for `weft trace`: what a person wants to see of it.

use std::fmt::Write;
use std::net::IpAddr;
use weft_core::frame::Frame;
use weft_wire::ethernet::EtherType;
use weft_wire::{Protocol, arp, ethernet, icmpv4, ipv4, tcp, udp};

/// Describes a frame that begins with its Ethernet header.
pub fn describe(frame: &Frame) -> String {
    let bytes = frame.head();
    let Ok((header, at)) = ethernet::Header::parse(bytes) else { return format!("{} bytes, no Ethernet header", frame.len()) };
    let rest = &bytes[at.min(bytes.len())..];
    match header.ether_type {
        EtherType::ARP => match arp::Packet::parse(rest) {
            Ok(packet) => format!("ARP {:?} {} ({}) -> {}", packet.operation, packet.sender_ip, packet.sender_mac, packet.target_ip),
            Err(error) => format!("ARP, {error}"),
        },
        EtherType::IPV4 => match ipv4::Header::parse(rest) {
            Ok((ip, length)) => {
                let payload = (frame.len() - at).saturating_sub(length);
                let mut line = transport(ip.protocol, ip.src.into(), ip.dst.into(), &rest[length.min(rest.len())..], payload);
                if let Some(gso) = frame.meta().gso {
                    let _ = write!(line, " [in segments of {}]", gso.segment_bytes);
                }
                line
            }
            Err(error) => format!("IPv4, {error}"),
        },
        other => format!("{} -> {} ethertype {:#06x}, {} bytes", header.src, header.dst, other.0, frame.len()),
    }
}

fn transport(protocol: Protocol, src: IpAddr, dst: IpAddr, bytes: &[u8], length: usize) -> String {
    match protocol {
        Protocol::TCP => match tcp::Segment::parse(bytes) {
            Ok((segment, header)) => {
                let data = length.saturating_sub(header);
                let flags = segment.flags.iter_names().map(|(name, _)| name).collect::<Vec<_>>().join("|");
                let flags = if flags.is_empty() { "none" } else { &flags };
                let mut line = format!("TCP {src}:{} -> {dst}:{} {flags} seq {}", segment.src_port, segment.dst_port, segment.seq.0);
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
                format!("UDP {src}:{} -> {dst}:{} len {}", header.src_port, header.dst_port, length.saturating_sub(udp::LEN))
            }
            Err(error) => format!("UDP {src} -> {dst}, {error}"),
        },
        Protocol::ICMP => match icmpv4::Message::parse(bytes) {
            Ok(message) => format!("ICMP {src} -> {dst} {message:?}"),
            Err(error) => format!("ICMP {src} -> {dst}, {error}"),
        },
        other => format!("IP {src} -> {dst} protocol {}, {length} bytes", other.0),
    }
}
