//! Packet sockets on veth pairs, against kernels on the other ends.

mod support;

use etherparse::PacketBuilder;
use std::collections::VecDeque;
use support::*;
use weft_backend::{Backend, OpenOptions, host_side, open};
use weft_core::{Bytes, Checksum, Frame, offload};

const MEGABYTE: usize = 1_000_000;

/// A kernel with an address on one end of a veth pair, and us on the other.
fn veth(offload: bool, addresses: &'static [&'static str]) -> (Kernel, Box<dyn Backend>) {
    Kernel::new(move || {
        host_side::create_veth("theirs", "ours").unwrap();
        let addresses: Vec<_> = addresses.iter().map(|text| prefix(text)).collect();
        host_side::configure("theirs", &addresses, None).unwrap();
        // No second stack on our end.
        std::fs::write("/proc/sys/net/ipv6/conf/ours/disable_ipv6", "1").unwrap();
        host_side::configure("ours", &[], None).unwrap();
        if !offload {
            // The kernel on the other end then finishes its frames before they are sent.
            let off = ["-K", "theirs", "tx", "off", "tso", "off", "gso", "off", "tx-udp-segmentation", "off"];
            assert!(std::process::Command::new("ethtool").args(off).output().unwrap().status.success());
        }
        open("packet:ours", &OpenOptions { offload, ..OpenOptions::default() }).unwrap()
    })
}

fn kernels_exchange(offloads: (bool, bool), there: usize, back: usize) -> Passed {
    let (one, end_one) = veth(offloads.0, &["10.5.0.1/24", "fd00::1/64"]);
    let (other, end_other) = veth(offloads.1, &["10.5.0.2/24", "fd00::2/64"]);
    let bridge = Bridge::new(end_one, end_other);
    exchange(&one, "10.5.0.1".parse().unwrap(), &other, there, back);
    exchange(&other, "fd00::2".parse().unwrap(), &one, there / 10, back / 10);
    let passed = bridge.stop();
    println!("{offloads:?}: {passed:?}");
    passed
}

#[test]
fn kernels_exchange_bytes_with_offloads() {
    if can_make_namespaces() {
        let passed = kernels_exchange((true, true), 100 * MEGABYTE, 10 * MEGABYTE);
        assert!(passed.large > 100 && passed.partial > 100, "{passed:?}");
    }
}

#[test]
fn kernels_exchange_bytes_without_offloads() {
    if can_make_namespaces() {
        let passed = kernels_exchange((false, false), 100 * MEGABYTE, 10 * MEGABYTE);
        assert_eq!((passed.large, passed.partial), (0, 0), "{passed:?}");
    }
}

#[test]
fn large_frames_are_cut_for_an_end_without_offloads() {
    if can_make_namespaces() {
        let passed = kernels_exchange((true, false), 20 * MEGABYTE, 20 * MEGABYTE);
        assert!(passed.large > 10, "{passed:?}");
    }
}

#[test]
fn a_tap_and_a_veth_are_bridged() {
    if !can_make_namespaces() {
        return;
    }
    let (one, tap) = Kernel::new(|| open("tap:weft0", &options(true, &["10.6.0.1/24"])).unwrap());
    let (other, end) = veth(true, &["10.6.0.2/24"]);
    let bridge = Bridge::new(tap, end);
    exchange(&one, "10.6.0.1".parse().unwrap(), &other, 20 * MEGABYTE, 20 * MEGABYTE);
    let passed = bridge.stop();
    assert!(passed.large > 10, "{passed:?}");
}

/// Both ends of one pair.
fn both_ends() -> (Box<dyn Backend>, Box<dyn Backend>) {
    in_namespace(|| {
        host_side::create_veth("one", "other").unwrap();
        for name in ["one", "other"] {
            std::fs::write(format!("/proc/sys/net/ipv6/conf/{name}/disable_ipv6"), "1").unwrap();
            host_side::configure(name, &[], None).unwrap();
        }
        let (mut one, mut other) =
            (open("packet:one", &OpenOptions::default()).unwrap(), open("packet:other", &OpenOptions::default()).unwrap());
        // The kernel starts the first end's queue some time after its carrier is there, and drops until then.
        let probe = Frame::ingress(&[[2; 12].as_slice(), &[0x88, 0xb5], &[0; 46]].concat());
        let mut frames = Vec::new();
        while other.receive(NOW, &mut frames, 1).unwrap() == 0 {
            one.transmit(NOW, &mut VecDeque::from([probe.clone()]), &mut Vec::new()).unwrap();
            std::thread::sleep(std::time::Duration::from_millis(5));
        }
        while other.receive(NOW, &mut frames, 64).unwrap() > 0 {}
        (one, other)
    })
    .join()
    .unwrap()
}

#[test]
fn a_vlan_tag_arrives_where_it_was_with_its_checksum_still_open() {
    if !can_make_namespaces() {
        return;
    }
    let (mut one, mut other) = both_ends();
    for tagged in [false, true] {
        for payload in [10, 200, 1400] {
            let (mut bytes, link) = (Vec::new(), PacketBuilder::ethernet2([2; 6], [4; 6]));
            let payload = vec![9; payload];
            let transport = if tagged {
                let link = link.single_vlan(etherparse::VlanId::try_new(77).unwrap());
                link.ipv4([1, 1, 1, 1], [2, 2, 2, 2], 9).udp(1, 2).write(&mut bytes, &payload).unwrap();
                38
            } else {
                link.ipv4([1, 1, 1, 1], [2, 2, 2, 2], 9).udp(1, 2).write(&mut bytes, &payload).unwrap();
                34
            };
            let complete = bytes.clone();
            let pseudo = weft_wire::checksum::pseudo_v4([1; 4].into(), [2; 4].into(), 17, 8 + payload.len() as u32).fold();
            bytes[transport + 6..transport + 8].copy_from_slice(&pseudo.to_be_bytes());
            let mut frame = Frame::ingress_parts(&bytes[..50], Bytes::copy_from_slice(&bytes[50..]));
            frame.meta_mut().checksum = Checksum::Partial { offset: 6 };
            assert_eq!(one.transmit(NOW, &mut VecDeque::from([frame]), &mut Vec::new()).unwrap(), 1);
            let mut received = receive_until(&mut *other, |frame| frame.len() == bytes.len());
            offload::complete_checksum(&mut received);
            assert!(offload::verify(&received));
            assert_eq!(received.to_vec(), complete);
        }
    }
    assert!(one.drops().iter().chain(&other.drops()).all(|(_, count)| *count == 0));
}

#[test]
fn what_is_sent_is_not_received_and_too_large_is_counted() {
    if !can_make_namespaces() {
        return;
    }
    let (mut one, mut other) = both_ends();
    let frame = |bytes: usize| Frame::ingress(&[[2; 12].as_slice(), &[0x88, 0xb5], &vec![1; bytes - 14]].concat());
    let mut queue = VecDeque::from([frame(9000), frame(1514)]);
    assert_eq!(one.transmit(NOW, &mut queue, &mut Vec::new()).unwrap(), 2);
    assert_eq!(receive_until(&mut *other, |_| true).len(), 1514);
    let mut frames = Vec::new();
    assert_eq!(one.receive(NOW, &mut frames, 8).unwrap(), 0);
    assert!(one.drops().contains(&("larger than the device's MTU", 1)), "{:?}", one.drops());
}

#[test]
fn a_missing_interface_and_a_wrong_one_are_told() {
    if !can_make_namespaces() {
        return;
    }
    in_namespace(|| {
        let error = open("packet:nowhere", &OpenOptions::default()).err().unwrap();
        assert_eq!(
            error.to_string(),
            "cannot open packet:nowhere: looking for interface \"nowhere\": No such device; there is no such interface in this network \
             namespace: see `ip link`"
        );
        let error = open("packet:lo", &OpenOptions::default()).err().unwrap();
        assert!(error.to_string().contains("carries neither Ethernet"), "{error}");
    })
    .join()
    .unwrap();
}

#[test]
fn an_interface_that_goes_down_is_not_an_error_and_one_that_is_deleted_is() {
    if !can_make_namespaces() {
        return;
    }
    in_namespace(|| {
        host_side::create_veth("one", "other").unwrap();
        host_side::configure("one", &[], Some(9000)).unwrap();
        host_side::configure("other", &[], Some(9000)).unwrap();
        let mut backend = open("packet:one", &OpenOptions::default()).unwrap();
        assert_eq!(backend.features().mtu, 9000);
        assert!(std::process::Command::new("ip").args(["link", "set", "one", "down"]).status().unwrap().success());
        let mut frames = Vec::new();
        // What the kernel sent of itself before (neighbour discovery) may be there.
        while backend.receive(NOW, &mut frames, 64).unwrap() > 0 {}
        let send = |backend: &mut Box<dyn Backend>| backend.transmit(NOW, &mut VecDeque::from([Frame::ingress(&[1; 60])]), &mut Vec::new());
        assert_eq!(send(&mut backend).unwrap(), 1);
        assert!(backend.drops().contains(&("the kernel's side is down", 1)));
        host_side::delete("one").unwrap();
        assert_eq!(backend.receive(NOW, &mut frames, 1).unwrap_err().raw_os_error(), Some(nix::libc::ENODEV));
        send(&mut backend).unwrap_err();
    })
    .join()
    .unwrap();
}

/// A frame of a TCP segment, or of several when it is larger than one may be; its number is the TCP sequence number.
fn numbered(number: u32, payload: usize) -> Frame {
    let mut bytes = Vec::new();
    PacketBuilder::ethernet2([2; 6], [4; 6]).ipv4([1; 4], [2; 4], 9).tcp(1, 2, number, 4).write(&mut bytes, &vec![7; payload]).unwrap();
    let mut frame = Frame::ingress(&bytes);
    if payload > 1448 {
        frame.meta_mut().gso = Some(weft_core::Gso { segment_bytes: 1448, kind: weft_core::GsoKind::Tcp });
        let pseudo = weft_wire::checksum::pseudo_v4([1; 4].into(), [2; 4].into(), 6, 20 + payload as u32).fold();
        frame.pull_up(54).unwrap();
        frame.head_mut()[50..52].copy_from_slice(&pseudo.to_be_bytes());
        frame.meta_mut().checksum = Checksum::Partial { offset: 16 };
    }
    frame
}

#[test]
fn small_frames_through_the_ring_and_large_ones_beside_it_keep_their_order() {
    if !can_make_namespaces() {
        return;
    }
    let (mut one, mut other) = both_ends();
    // From the smallest to what just fits a slot, to what does not.
    let sizes: Vec<usize> = (0..600).map(|number| [0, 1448, 700, 1449, 30_000, 1, 1400, 60_000][number % 8]).collect();
    let (mut frames, mut sent) = (Vec::new(), 0);
    for batch in sizes.chunks(50) {
        let mut queue: VecDeque<Frame> = batch.iter().enumerate().map(|(at, size)| numbered((sent + at) as u32, *size)).collect();
        assert_eq!(one.transmit(NOW, &mut queue, &mut Vec::new()).unwrap(), batch.len());
        sent += batch.len();
        while frames.len() < sent {
            let got = other.receive(NOW, &mut frames, 64).unwrap();
            if got == 0 {
                wait(&*other, &*one);
            }
        }
    }
    for (number, (frame, size)) in frames.iter().zip(&sizes).enumerate() {
        let head = &frame.to_vec()[..54];
        assert_eq!((frame.len(), u32::from_be_bytes(head[38..42].try_into().unwrap())), (54 + size, number as u32));
        assert_eq!(frame.meta().gso.is_some(), *size > 1448);
    }
    assert!(other.drops().iter().all(|(_, count)| *count == 0), "{:?}", other.drops());
}

#[test]
fn a_ring_that_nobody_reads_is_full_and_what_it_lost_is_counted() {
    if !can_make_namespaces() {
        return;
    }
    let (mut one, mut other) = both_ends();
    let total = 6000;
    for number in 0..total {
        assert_eq!(one.transmit(NOW, &mut VecDeque::from([numbered(number, 10)]), &mut Vec::new()).unwrap(), 1);
    }
    let mut frames = Vec::new();
    while other.receive(NOW, &mut frames, 64).unwrap() > 0 {}
    let lost = other.drops().iter().find(|(text, _)| text.contains("receive buffer is full")).unwrap().1;
    assert_eq!((frames.len(), lost), (4096, u64::from(total) - 4096));
    // It goes on.
    one.transmit(NOW, &mut VecDeque::from([numbered(9, 10)]), &mut Vec::new()).unwrap();
    receive_until(&mut *other, |frame| frame.len() == 64);
}
