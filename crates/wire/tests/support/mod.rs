//! Reading the captures of `tests/captures/`.

use std::fs::File;
use std::path::PathBuf;

use pcap_file::pcap::PcapReader;

/// All captures.
pub const CAPTURES: &[&str] = &[
    "arp-icmpv4.pcap",
    "igmp.pcap",
    "ipv6.pcap",
    "mptcp-checksum.pcap",
    "mptcp.pcap",
    "nd-mld.pcap",
    "tcp-fast-open.pcap",
    "tcp-sack.pcap",
    "vlan.pcap",
];

/// A frame and where it comes from, for messages.
pub struct Frame {
    /// File and number, counting from 1 as tcpdump and Wireshark do.
    pub name: String,
    pub bytes: Vec<u8>,
}

/// The frames of one capture.
pub fn frames(capture: &str) -> Vec<Frame> {
    let path = PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("tests/captures").join(capture);
    let mut reader = PcapReader::new(File::open(path).expect("a capture")).expect("a pcap file");
    let mut frames = Vec::new();
    while let Some(packet) = reader.next_packet() {
        let packet = packet.expect("a packet");
        assert_eq!(packet.orig_len as usize, packet.data.len(), "cut short in {capture}");
        let name = format!("{capture}:{}", frames.len() + 1);
        frames.push(Frame { name, bytes: packet.data.into_owned() });
    }
    frames
}

/// The frames of all captures.
pub fn all_frames() -> Vec<Frame> {
    CAPTURES.iter().flat_map(|capture| frames(capture)).collect()
}
