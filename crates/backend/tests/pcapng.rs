//! Captures, read back by pcap-file and by tshark.

mod support;

use etherparse::PacketBuilder;
use pcap_file::pcapng::blocks::enhanced_packet::EnhancedPacketOption;
use pcap_file::pcapng::blocks::interface_description::InterfaceDescriptionOption;
use pcap_file::pcapng::{Block, PcapNgReader};
use std::collections::VecDeque;
use std::fs::File;
use std::path::PathBuf;
use std::process::Command;
use std::time::Duration;
use support::*;
use weft_backend::pcapng::{Capture, CaptureFile};
use weft_backend::{Backend, OpenOptions, memory, open};
use weft_core::{Bytes, Checksum, Completion, Frame, Gso, GsoKind, Instant, offload};

const EPOCH: Duration = Duration::from_secs(1_700_000_000);

struct Temporary(PathBuf);

impl Temporary {
    fn new(name: &str) -> Temporary {
        Temporary(std::env::temp_dir().join(format!("weft-{}-{name}.pcapng", std::process::id())))
    }
}

impl Drop for Temporary {
    fn drop(&mut self) {
        let _ = std::fs::remove_file(&self.0);
    }
}

/// A TCP segment whose checksum is left to the device; several segments when it is larger than `segment_bytes`.
fn tcp(sequence: u32, payload: usize, segment_bytes: u16) -> Frame {
    let mut bytes = Vec::new();
    let payload = vec![b'x'; payload];
    let builder = PacketBuilder::ethernet2([2; 6], [4; 6]).ipv4([10, 0, 0, 1], [10, 0, 0, 2], 64).tcp(1000, 2000, sequence, 500).ack(1);
    builder.write(&mut bytes, &payload).unwrap();
    let pseudo = weft_wire::checksum::pseudo_v4([10, 0, 0, 1].into(), [10, 0, 0, 2].into(), 6, 20 + payload.len() as u32).fold();
    bytes[50..52].copy_from_slice(&pseudo.to_be_bytes());
    let mut frame = Frame::ingress_parts(&bytes[..54], Bytes::copy_from_slice(&bytes[54..]));
    frame.meta_mut().checksum = Checksum::Partial { offset: 16 };
    if payload.len() > usize::from(segment_bytes) {
        frame.meta_mut().gso = Some(Gso { segment_bytes, kind: GsoKind::Tcp });
    }
    frame
}

/// Interface, time since the epoch, flags and bytes.
type Packet = (u32, Duration, u32, Vec<u8>);

/// The names of the interfaces, and every packet.
fn packets(file: &Temporary) -> (Vec<String>, Vec<Packet>) {
    let mut reader = PcapNgReader::new(File::open(&file.0).unwrap()).unwrap();
    let (mut names, mut packets) = (Vec::new(), Vec::new());
    while let Some(block) = reader.next_block() {
        match block.unwrap() {
            Block::InterfaceDescription(interface) => {
                assert!(interface.options.contains(&InterfaceDescriptionOption::IfTsResol(9)));
                names.extend(interface.options.iter().filter_map(|option| match option {
                    InterfaceDescriptionOption::IfName(name) => Some(name.to_string()),
                    _ => None,
                }));
            }
            Block::EnhancedPacket(packet) => {
                let [EnhancedPacketOption::Flags(flags)] = packet.options[..] else { panic!("{:?}", packet.options) };
                assert_eq!(packet.original_len as usize, packet.data.len());
                packets.push((packet.interface_id, packet.timestamp, flags, packet.data.to_vec()));
            }
            other => panic!("{other:?}"),
        }
    }
    (names, packets)
}

#[test]
fn both_directions_of_two_interfaces_are_in_one_file() {
    let path = Temporary::new("both");
    let file = CaptureFile::create(&path.0, EPOCH).unwrap();
    let (one, other) = memory::pair(&OpenOptions::default());
    let (mut one, mut other) = (Capture::new(one, &file), Capture::new(other, &file));
    let sent = tcp(7, 10_000, 1400);
    let completion = Completion { block: weft_core::BlockId(1), token: 2, bytes: 3 };
    let mut frame = sent.clone();
    frame.meta_mut().completion = Some(completion);
    let mut done = Vec::new();
    let at = Instant::from_nanos(1_234_567_891);
    assert_eq!(one.transmit(at, &mut VecDeque::from([frame, tcp(20_000, 5, 1400)]), &mut done).unwrap(), 2);
    assert_eq!(done, [completion]);
    let mut frames = Vec::new();
    assert_eq!(other.receive(at + Duration::from_nanos(9), &mut frames, 10).unwrap(), 2);
    // What passes is not touched by the capture.
    assert_eq!((frames[0].meta().gso, frames[0].meta().checksum), (sent.meta().gso, sent.meta().checksum));
    assert_eq!(frames[0].to_vec(), sent.to_vec());
    assert_eq!((file.written(), file.lost()), (4, 0));
    drop((one, other, file));

    let (names, packets) = packets(&path);
    assert_eq!(names, ["memory-a", "memory-b"]);
    let mut complete = sent;
    offload::complete_checksum(&mut complete);
    assert_eq!(packets[0], (0, EPOCH + Duration::from_nanos(1_234_567_891), 2, complete.to_vec()));
    assert_eq!(packets[2], (1, EPOCH + Duration::from_nanos(1_234_567_900), 1, complete.to_vec()));
    assert_eq!(packets.iter().map(|packet| (packet.0, packet.2)).collect::<Vec<_>>(), [(0, 2), (0, 2), (1, 1), (1, 1)]);
}

#[test]
fn tshark_finds_nothing_wrong() {
    if Command::new("tshark").arg("-v").output().is_err() {
        println!("SKIP: tshark is not installed");
        return;
    }
    let path = Temporary::new("tshark");
    let file = CaptureFile::create(&path.0, EPOCH).unwrap();
    let (one, other) = memory::pair(&OpenOptions { offload: false, ..OpenOptions::default() });
    let (mut one, mut other) = (Capture::new(one, &file), other);
    one.transmit(Instant::from_nanos(1_000_000_007), &mut VecDeque::from([tcp(7, 3000, 1400)]), &mut Vec::new()).unwrap();
    let mut frames = Vec::new();
    assert_eq!(other.receive(NOW, &mut frames, 10).unwrap(), 3);
    let mut back = VecDeque::from([tcp(9000, 4, 1400)]);
    other.transmit(NOW, &mut back, &mut Vec::new()).unwrap();
    one.receive(Instant::from_nanos(1_000_000_008), &mut frames, 10).unwrap();
    file.flush().unwrap();

    let fields = [
        "frame.time_epoch",
        "frame.interface_name",
        "frame.packet_flags_direction",
        "ip.checksum.status",
        "tcp.checksum.status",
        "tcp.seq_raw",
        "tcp.len",
    ];
    let mut command = Command::new("tshark");
    command.args(["-r"]).arg(&path.0).args([
        "-o",
        "tcp.check_checksum:TRUE",
        "-o",
        "ip.check_checksum:TRUE",
        "-T",
        "fields",
        "-E",
        "separator=,",
    ]);
    for field in fields {
        command.args(["-e", field]);
    }
    let output = command.output().unwrap();
    let text = String::from_utf8(output.stdout).unwrap();
    let rows: Vec<Vec<&str>> = text.lines().map(|line| line.split(',').collect()).collect();
    assert_eq!(rows.len(), 4, "{text}{}", String::from_utf8_lossy(&output.stderr));
    for (row, (sequence, bytes)) in rows.iter().zip([("7", "1400"), ("1407", "1400"), ("2807", "200"), ("9000", "4")]) {
        // 1: "Good" in Wireshark's list of checksum states.
        assert_eq!(row[3..], ["1", "1", sequence, bytes], "{text}");
        assert_eq!(row[1], "memory-a");
    }
    assert!(rows[0][0].ends_with("1.000000007") && rows[3][0].ends_with("1.000000008"), "{text}");
    assert_ne!(rows[0][2], rows[3][2], "{text}");
}

#[test]
fn a_captured_tap_device_still_carries_a_kernels_traffic() {
    if !can_make_namespaces() {
        return;
    }
    let path = Temporary::new("tap");
    let file = CaptureFile::create(&path.0, EPOCH).unwrap();
    let (one, left) = Kernel::new(|| open("tap:left", &options(true, &["10.7.0.1/24"])).unwrap());
    let (other, right) = Kernel::new(|| open("tap:right", &options(false, &["10.7.0.2/24"])).unwrap());
    let bridge = Bridge::new(Box::new(Capture::new(left, &file)), Box::new(Capture::new(right, &file)));
    exchange(&one, "10.7.0.1".parse().unwrap(), &other, 3_000_000, 3_000_000);
    bridge.stop();
    file.flush().unwrap();
    let (names, packets) = packets(&path);
    assert_eq!(names, ["left", "right"]);
    assert_eq!(packets.len() as u64, file.written());
    // Everything that came in at one went out at the other, and is a correct packet. The right one takes no large frames.
    for packet in &packets {
        // A random address of an ARP frame may look like the beginning of an IP header.
        let ip = matches!(packet.3[12..14], [0x08, 0x00] | [0x86, 0xdd]);
        assert!(!ip || offload::verify(&Frame::ingress(&packet.3)), "{packet:?}");
        assert!(packet.0 == 0 || packet.3.len() <= 1514);
    }
    let payload = |interface: u32, flags: u32| {
        packets.iter().filter(|packet| (packet.0, packet.2) == (interface, flags)).map(|packet| tcp_payload(&packet.3)).sum::<usize>()
    };
    assert_eq!(payload(0, 1), payload(1, 2));
    assert_eq!(payload(1, 1), payload(0, 2));
    assert!(payload(0, 1) >= 3_000_000 && payload(1, 1) >= 3_000_000);
}

fn tcp_payload(bytes: &[u8]) -> usize {
    match etherparse::SlicedPacket::from_ethernet(bytes).unwrap().transport {
        Some(etherparse::TransportSlice::Tcp(tcp)) => tcp.payload().len(),
        _ => 0,
    }
}
