//! Frames for tests, one of each kind that a device hands over, with what each of them means: families, protocols, options and extension headers,
//! VLAN tags, sizes around every border, and what a virtio header can say. Their meaning is worked out here from how they were made, and not
//! by reading them.

use crate::link_type::LinkType;
use std::net::{Ipv4Addr, Ipv6Addr};
use weft_core::vnet;
use weft_core::{Checksum, Frame, Gso, GsoKind};
use weft_wire::{Protocol, checksum};

/// A frame as a device hands it over.
pub(crate) struct Sample {
    /// What it is, for a failed test.
    pub name: String,
    pub bytes: Vec<u8>,
    pub header: vnet::Header,
    /// Bytes of all headers.
    pub headers: usize,
    /// Where the transport header begins.
    transport: usize,
    /// What its receiver is to know of its checksum.
    checksum: Checksum,
    gso: Option<Gso>,
}

impl Sample {
    /// Asserts that a frame means what this one does, wherever its bytes lie.
    pub(crate) fn assert_is(&self, frame: &Frame, before: &str) {
        let name = &self.name;
        assert_eq!(frame.meta().checksum, self.checksum, "the checksum of {name} after {before}");
        assert_eq!(frame.meta().gso, self.gso, "the segments of {name} after {before}");
        if let Checksum::Partial { offset } = self.checksum {
            let transport = usize::from(frame.meta().transport_at - frame.position());
            assert_eq!(transport, self.transport, "where the transport header of {name} is after {before}");
            assert!(frame.head().len() >= transport + usize::from(offset) + 2, "the checksum's field of {name} after {before}");
        }
        let contiguous = self.headers.min(crate::scatter::HEAD_READ_BYTES);
        assert!(frame.head().len() >= contiguous, "{} of {} bytes of headers of {name} after {before}", frame.head().len(), self.headers);
        assert!(frame.to_vec() == self.bytes, "the bytes of {name} after {before}");
    }

    /// The same with a VLAN tag put in behind the addresses, as a packet socket hands it over apart from the frame.
    pub(crate) fn tagged(&self, tag: [u8; 4]) -> Sample {
        let mut bytes = self.bytes.clone();
        bytes.splice(12..12, tag);
        let (headers, transport) = (self.headers + tag.len(), self.transport + tag.len());
        let name = format!("{}, its tag apart", self.name);
        Sample { name, bytes, header: self.header, headers, transport, checksum: self.checksum, gso: self.gso }
    }

    fn with(&self, header: vnet::Header, checksum: Checksum, gso: Option<Gso>, what: &str) -> Sample {
        let (bytes, name) = (self.bytes.clone(), format!("{}{what}", self.name));
        Sample { name, bytes, header, headers: self.headers, transport: self.transport, checksum, gso }
    }
}

/// What stands between the network header and the payload.
#[derive(Clone, Copy)]
struct Upper {
    name: &'static str,
    protocol: Protocol,
    /// Bytes of its header.
    bytes: usize,
    /// Where the checksum lies in it.
    checksum_at: Option<u16>,
    segments: Option<GsoKind>,
    /// Not the first fragment: what follows is no header.
    fragment: bool,
}

const UPPERS: [Upper; 7] = [
    Upper { name: "TCP", protocol: Protocol::TCP, bytes: 20, checksum_at: Some(16), segments: Some(GsoKind::Tcp), fragment: false },
    Upper { name: "TCP+12", protocol: Protocol::TCP, bytes: 32, checksum_at: Some(16), segments: Some(GsoKind::Tcp), fragment: false },
    Upper { name: "TCP+40", protocol: Protocol::TCP, bytes: 60, checksum_at: Some(16), segments: Some(GsoKind::Tcp), fragment: false },
    Upper { name: "UDP", protocol: Protocol::UDP, bytes: 8, checksum_at: Some(6), segments: Some(GsoKind::Udp), fragment: false },
    Upper { name: "ICMP", protocol: Protocol::ICMP, bytes: 8, checksum_at: None, segments: None, fragment: false },
    Upper { name: "a TCP fragment", protocol: Protocol::TCP, bytes: 0, checksum_at: None, segments: None, fragment: true },
    Upper { name: "protocol 253", protocol: Protocol(253), bytes: 0, checksum_at: None, segments: None, fragment: false },
];

const V4: (Ipv4Addr, Ipv4Addr) = (Ipv4Addr::new(8, 0, 69, 6), Ipv4Addr::new(96, 6, 8, 0));
const V6: (Ipv6Addr, Ipv6Addr) = (Ipv6Addr::new(0xfd77, 0, 0, 0, 0, 0x4500, 0, 1), Ipv6Addr::new(0xfd77, 0, 0, 0, 0, 6, 0x800, 2));
/// Addresses that begin as IP headers do.
const MACS: [[u8; 6]; 2] = [[0x46, 0, 0, 6, 6, 6], [0x62, 6, 6, 6, 6, 6]];

/// All that stands in front of the IP header.
fn link_header(tagged: bool, ipv6: bool) -> Vec<u8> {
    let mut bytes = MACS.concat();
    if tagged {
        bytes.extend([0x81, 0, 0x60, 5]);
    }
    bytes.extend(if ipv6 { [0x86, 0xdd] } else { [8, 0] });
    bytes
}

/// An IPv6 extension header of options, `bytes` long, that is followed by `next`.
fn extension(next: u8, bytes: usize) -> Vec<u8> {
    let mut header = vec![0; bytes];
    (header[0], header[1]) = (next, (bytes / 8 - 1) as u8);
    // PadN as often as it takes.
    let mut at = 2;
    while at < bytes {
        let pad = (bytes - at).min(250);
        (header[at], header[at + 1]) = (1, (pad - 2) as u8);
        at += pad;
    }
    header
}

/// An IP header for `length` bytes of transport header and payload. `options`: bytes of options; each is an extension header over IPv6.
fn network_header(ipv6: bool, options: &[usize], upper: Upper, length: usize) -> Vec<u8> {
    if !ipv6 {
        let options: usize = options.iter().sum();
        let mut bytes = vec![0; 20 + options];
        bytes[0] = 0x40 | (bytes.len() / 4) as u8;
        let total = (bytes.len() + length).min(65_535) as u16;
        bytes[2..4].copy_from_slice(&total.to_be_bytes());
        bytes[6..8].copy_from_slice(&if upper.fragment { [0x20, 5] } else { [0x40, 0] });
        (bytes[8], bytes[9]) = (64, upper.protocol.0);
        bytes[12..16].copy_from_slice(&V4.0.octets());
        bytes[16..20].copy_from_slice(&V4.1.octets());
        bytes[20..].fill(1);
        let sum = checksum::of(&bytes);
        bytes[10..12].copy_from_slice(&sum.to_be_bytes());
        return bytes;
    }
    let protocol = if upper.protocol == Protocol::ICMP { Protocol::ICMPV6 } else { upper.protocol }.0;
    let mut extensions = Vec::new();
    let mut next = protocol;
    if upper.fragment {
        extensions = vec![next, 0, 0, 0x50, 1, 2, 3, 4];
        next = Protocol::FRAGMENT.0;
    }
    for (place, bytes) in options.iter().enumerate().rev() {
        extensions = [extension(next, *bytes), extensions].concat();
        next = if place == 0 && options.len() > 1 { Protocol::HOP_BY_HOP } else { Protocol::DESTINATION_OPTIONS }.0;
    }
    let mut bytes = vec![0x60, 0, 0, 0];
    bytes.extend(((extensions.len() + length).min(65_535) as u16).to_be_bytes());
    bytes.extend([next, 64]);
    bytes.extend(V6.0.octets());
    bytes.extend(V6.1.octets());
    [bytes, extensions].concat()
}

fn transport_header(ipv6: bool, upper: Upper, payload: usize) -> Vec<u8> {
    let mut bytes = vec![1; upper.bytes];
    match (upper.protocol, upper.bytes) {
        (_, 0) => {}
        (Protocol::TCP, length) => (bytes[12], bytes[13]) = ((length / 4) as u8 * 16, 0x18),
        (Protocol::UDP, length) => bytes[4..6].copy_from_slice(&((length + payload) as u16).to_be_bytes()),
        _ => (bytes[0], bytes[1]) = (if ipv6 { 128 } else { 8 }, 0),
    }
    if let Some(at) = upper.checksum_at {
        let length = (upper.bytes + payload) as u32;
        let sum = if ipv6 {
            checksum::pseudo_v6(V6.0, V6.1, upper.protocol.0, length)
        } else {
            checksum::pseudo_v4(V4.0, V4.1, upper.protocol.0, length)
        };
        bytes[usize::from(at)..usize::from(at) + 2].copy_from_slice(&sum.fold().to_be_bytes());
    }
    bytes
}

/// A frame of this kind whose header says nothing.
fn plain(link: &[u8], ipv6: bool, options: &[usize], upper: Upper, payload: usize) -> Sample {
    let network = network_header(ipv6, options, upper, upper.bytes + payload);
    let transport = link.len() + network.len();
    let content: Vec<u8> = (0..=250).cycle().take(payload).collect();
    let bytes = [link.to_vec(), network, transport_header(ipv6, upper, payload), content].concat();
    let family = if ipv6 { "IPv6" } else { "IPv4" };
    let name = format!("{} bytes of {} over {family} with options {options:?} at {}", bytes.len(), upper.name, link.len());
    let headers = transport + upper.bytes;
    Sample { name, bytes, header: [0; vnet::HEADER_BYTES], headers, transport, checksum: Checksum::Unknown, gso: None }
}

/// The same frame with everything that a device may say about it. `link`: bytes in front of the IP header.
fn with_headers(sample: Sample, ipv6: bool, upper: Upper, out: &mut Vec<Sample>) {
    let header = |flags: u8, kind: u8, size: u16, offset: u16| {
        let mut header = [0; vnet::HEADER_BYTES];
        (header[0], header[1]) = (flags, kind);
        header[2..4].copy_from_slice(&(sample.headers as u16).to_ne_bytes());
        header[4..6].copy_from_slice(&size.to_ne_bytes());
        header[6..8].copy_from_slice(&(sample.transport as u16).to_ne_bytes());
        header[8..10].copy_from_slice(&offset.to_ne_bytes());
        header
    };
    if let Some(offset) = upper.checksum_at {
        let partial = Checksum::Partial { offset };
        out.push(sample.with(header(1, 0, 0, offset), partial, None, ", its checksum to be completed"));
        out.push(sample.with(header(2, 0, 0, 0), Checksum::Valid, None, ", its checksum right"));
        if let Some(kind) = upper.segments.filter(|_| sample.bytes.len() > sample.headers + 1400) {
            let number = match (kind, ipv6) {
                (GsoKind::Tcp, false) => 1,
                (GsoKind::Tcp, true) => 4,
                (GsoKind::Udp, _) => 5,
            };
            let gso = Some(Gso { segment_bytes: 1400, kind });
            out.push(sample.with(header(1, number, 1400, offset), partial, gso, ", of segments"));
            out.push(sample.with(header(2, number, 1400, 0), Checksum::Valid, gso, ", of segments that were joined"));
        }
        // A place that is not in the frame is not believed, whatever was read before.
        if sample.bytes.len() < 2000 {
            let beyond = (sample.bytes.len() - sample.transport - 1) as u16;
            out.push(sample.with(header(1, 0, 0, beyond), Checksum::Unknown, None, ", its checksum beyond its end"));
        }
    }
    out.push(sample);
}

/// Frames that are no IP packets, or less than one.
fn oddities(link: LinkType) -> Vec<Sample> {
    let odd = |name: &str, bytes: Vec<u8>, headers: usize| Sample {
        name: name.to_owned(),
        bytes,
        header: [0; vnet::HEADER_BYTES],
        headers,
        transport: 0,
        checksum: Checksum::Unknown,
        gso: None,
    };
    let mut all: Vec<Sample> =
        [0, 1, 13, 14, 19, 20, 33, 40].map(|bytes| odd(&format!("{bytes} bytes of nothing"), vec![0x45; bytes], 0)).into();
    if link == LinkType::Ethernet {
        let front = |ether_type: [u8; 2]| [MACS.concat(), ether_type.to_vec()].concat();
        all.push(odd("ARP", [front([8, 6]), vec![6; 28]].concat(), 42));
        all.push(odd("ARP with padding", [front([8, 6]), vec![6; 46]].concat(), 42));
        all.push(odd("two tags", [front([0x88, 0xa8]), vec![0x81; 300]].concat(), 14));
    }
    all
}

/// One frame of each kind on this link.
pub(crate) fn all(link: LinkType) -> Vec<Sample> {
    let mut samples = oddities(link);
    let tags: &[bool] = if link == LinkType::Ethernet { &[false, true] } else { &[false] };
    let options = |ipv6: bool| -> &[&[usize]] { if ipv6 { &[&[], &[8], &[8, 64], &[304]] } else { &[&[], &[4], &[40]] } };
    for (tagged, ipv6) in tags.iter().flat_map(|tagged| [(*tagged, false), (*tagged, true)]) {
        let front = if link == LinkType::Ethernet { link_header(tagged, ipv6) } else { Vec::new() };
        for (options, upper) in options(ipv6).iter().flat_map(|options| UPPERS.map(|upper| (*options, upper))) {
            let headers = plain(&front, ipv6, options, upper, 0).headers;
            let border = crate::scatter::HEAD_READ_BYTES;
            let borders = [border - 1, border, border + 1].map(|bytes| bytes.saturating_sub(headers));
            for payload in [0, 1].into_iter().chain(borders).chain([1448, 3000, 65_000 - headers]) {
                let sample = plain(&front, ipv6, options, upper, payload);
                with_headers(sample, ipv6, upper, &mut samples);
            }
        }
    }
    samples
}

/// Of all frames those that a reader may guess from: one for each length of headers, the first and shortest.
pub(crate) fn predecessors(all: &[Sample]) -> Vec<&Sample> {
    let mut seen = std::collections::BTreeMap::new();
    for sample in all {
        seen.entry((sample.headers, sample.transport)).or_insert(sample);
    }
    seen.into_values().collect()
}
