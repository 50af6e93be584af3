//! Segments as bytes, for the boxes' tests.

use std::net::{IpAddr, SocketAddr};
use weft_core::{Checksum, Frame, Gso, GsoKind, offload};
use weft_wire::ethernet::EtherType;
use weft_wire::tcp::{self, Flags, Options, Seq};
use weft_wire::{Protocol, checksum, ipv4, ipv6};

use super::segment::Segment;

/// A segment to be made.
#[derive(Clone, Debug)]
pub(super) struct Tcp {
    pub src: [u8; 4],
    pub dst: [u8; 4],
    pub ipv6: bool,
    pub ethernet: bool,
    pub src_port: u16,
    pub dst_port: u16,
    pub seq: u32,
    pub ack: u32,
    pub flags: Flags,
    pub options: Options,
    pub payload: Vec<u8>,
    /// Payload bytes of each segment of a large frame.
    pub gso: Option<u16>,
}

impl Default for Tcp {
    /// From 10.0.0.1 port 40000 to 10.0.0.2 port 80.
    fn default() -> Tcp {
        Tcp {
            src: [10, 0, 0, 1],
            dst: [10, 0, 0, 2],
            ipv6: false,
            ethernet: false,
            src_port: 40_000,
            dst_port: 80,
            seq: 1000,
            ack: 5000,
            flags: Flags::ACK,
            options: Options::default(),
            payload: Vec::new(),
            gso: None,
        }
    }
}

impl Tcp {
    /// The answering direction, with the same numbers.
    pub fn back(self) -> Tcp {
        Tcp { src: self.dst, dst: self.src, src_port: self.dst_port, dst_port: self.src_port, ..self }
    }

    pub fn addresses(&self) -> (IpAddr, IpAddr) {
        let six = |[.., host]: [u8; 4]| IpAddr::from([0xfd77, 0, 0, 0, 0, 0, 0, u16::from(host)]);
        if self.ipv6 { (six(self.src), six(self.dst)) } else { (self.src.into(), self.dst.into()) }
    }

    /// In both families, on both kinds of edge.
    pub fn everywhere(self) -> impl Iterator<Item = Tcp> {
        let shapes = [(false, false), (false, true), (true, false), (true, true)];
        shapes.into_iter().map(move |(ipv6, ethernet)| Tcp { ipv6, ethernet, ..self.clone() })
    }

    pub fn frame(&self) -> Frame {
        let header = tcp::Segment {
            src_port: self.src_port,
            dst_port: self.dst_port,
            seq: Seq(self.seq),
            ack: Seq(self.ack),
            flags: self.flags,
            window: 1000,
            urgent: 0,
            options: self.options.clone(),
        };
        let mut frame = Frame::egress();
        frame.append(self.payload.clone().into());
        let header_len = header.header_len();
        header.emit(frame.push(header_len));
        let length = frame.len();
        let ether_type = match self.addresses() {
            (IpAddr::V4(src), IpAddr::V4(dst)) => {
                let pseudo = checksum::pseudo_v4(src, dst, Protocol::TCP.0, length as u32).fold();
                frame.head_mut()[tcp::CHECKSUM_OFFSET..][..2].copy_from_slice(&pseudo.to_be_bytes());
                let total_len = (ipv4::HEADER_LEN + length) as u16;
                let header = ipv4::Header { total_len, protocol: Protocol::TCP, src, dst, ttl: 64, ..ipv4::Header::default() };
                header.emit(frame.push(ipv4::HEADER_LEN));
                EtherType::IPV4
            }
            (IpAddr::V6(src), IpAddr::V6(dst)) => {
                let pseudo = checksum::pseudo_v6(src, dst, Protocol::TCP.0, length as u32).fold();
                frame.head_mut()[tcp::CHECKSUM_OFFSET..][..2].copy_from_slice(&pseudo.to_be_bytes());
                let bytes = frame.push(ipv6::HEADER_LEN);
                bytes[0] = 0x60;
                bytes[4..6].copy_from_slice(&(length as u16).to_be_bytes());
                (bytes[6], bytes[7]) = (Protocol::TCP.0, 64);
                bytes[8..24].copy_from_slice(&src.octets());
                bytes[24..40].copy_from_slice(&dst.octets());
                EtherType::IPV6
            }
            _ => unreachable!(),
        };
        if self.ethernet {
            let bytes = frame.push(14);
            bytes[..12].copy_from_slice(&[2, 0, 0, 0, 0, self.dst[3], 2, 0, 0, 0, 0, self.src[3]]);
            bytes[12..].copy_from_slice(&ether_type.0.to_be_bytes());
        }
        frame.meta_mut().checksum = Checksum::Partial { offset: tcp::CHECKSUM_OFFSET as u16 };
        frame.meta_mut().gso = self.gso.map(|segment_bytes| Gso { segment_bytes, kind: GsoKind::Tcp });
        if self.gso.is_none() {
            offload::complete_checksum(&mut frame);
            assert!(offload::verify(&frame));
        }
        frame
    }
}

/// What a frame says.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(super) struct Read {
    pub source: SocketAddr,
    pub destination: SocketAddr,
    pub header: tcp::Segment,
    pub options: Vec<u8>,
    pub payload: Vec<u8>,
}

/// Reads a frame that must be right in every length and checksum.
pub(super) fn read(mut frame: Frame) -> Read {
    offload::complete_checksum(&mut frame);
    assert!(offload::verify(&frame), "{frame:?}");
    let found = Segment::find(&mut frame).expect("a segment");
    assert_eq!(found.end, frame.len());
    let (header, length) = tcp::Segment::parse(&frame.head()[found.transport..]).unwrap();
    assert_eq!(found.transport + length, found.payload);
    let options = found.options(&frame).to_vec();
    Read { source: found.source, destination: found.destination, header, options, payload: found.payload(&frame).concat() }
}

/// Timestamps, and an option of MPTCP behind them.
pub(super) fn mptcp_options() -> Options {
    let mut options = Options { timestamps: Some(tcp::Timestamps { value: 7, echo: 9 }), ..Options::default() };
    options.push_other(tcp::kind::MPTCP, &[0x20, 0x01, 1, 2, 3, 4]).unwrap();
    options
}
