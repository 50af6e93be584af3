//! TUN devices, and packet sockets on them: IP without Ethernet, against kernels.

mod support;

use etherparse::PacketBuilder;
use std::collections::VecDeque;
use support::*;
use weft_backend::{Backend, LinkType, OpenOptions, host_side, open};
use weft_core::{Frame, offload};

const MEGABYTE: usize = 1_000_000;

fn tun(name: &'static str, offload: bool, addresses: &'static [&'static str]) -> (Kernel, Box<dyn Backend>) {
    Kernel::new(move || open(&format!("tun:{name}"), &options(offload, addresses)).unwrap())
}

fn kernels_exchange(offloads: (bool, bool)) -> Passed {
    let (one, end_one) = tun("left", offloads.0, &["10.2.0.1/24", "fd00::1/64"]);
    let (other, end_other) = tun("right", offloads.1, &["10.2.0.2/24", "fd00::2/64"]);
    assert_eq!(end_one.features().link, LinkType::Ip);
    let bridge = Bridge::new(end_one, end_other);
    exchange(&one, "10.2.0.1".parse().unwrap(), &other, 20 * MEGABYTE, 2 * MEGABYTE);
    exchange(&other, "fd00::2".parse().unwrap(), &one, 2 * MEGABYTE, 20 * MEGABYTE);
    let passed = bridge.stop();
    println!("{offloads:?} {passed:?}");
    passed
}

#[test]
fn kernels_exchange_bytes_over_both_versions_of_ip() {
    if !can_make_namespaces() {
        return;
    }
    let passed = kernels_exchange((true, true));
    assert!(passed.large > 100 && passed.partial > 100, "{passed:?}");
    let passed = kernels_exchange((false, false));
    assert_eq!((passed.large, passed.partial), (0, 0), "{passed:?}");
    // Large packets are cut for a device without offloads.
    let passed = kernels_exchange((true, false));
    assert!(passed.large > 10, "{passed:?}");
}

/// The two sides of a TUN device: what its owner writes, the packet socket receives, and the other way round.
fn both_sides(offload: bool) -> (Kernel, Box<dyn Backend>, Box<dyn Backend>) {
    let (given, taken) = std::sync::mpsc::channel();
    let (kernel, owner) = Kernel::new(move || {
        let owner = open("tun:line", &OpenOptions { offload, ..OpenOptions::default() }).unwrap();
        // The kernel in between says nothing of its own.
        std::fs::write("/proc/sys/net/ipv6/conf/line/disable_ipv6", "1").unwrap();
        host_side::configure("line", &[], None).unwrap();
        given.send(open("packet:line", &OpenOptions { offload, ..OpenOptions::default() }).unwrap()).unwrap();
        owner
    });
    (kernel, owner, taken.recv().unwrap())
}

#[test]
fn packet_sockets_carry_bare_packets_of_both_versions() {
    if !can_make_namespaces() {
        return;
    }
    for offload in [true, false] {
        let (_between, owner, packet) = both_sides(offload);
        assert_eq!(packet.features().link, LinkType::Ip);
        let (one, end_one) = tun("left", offload, &["10.2.0.1/24", "fd00::1/64"]);
        let (other, end_other) = tun("right", offload, &["10.2.0.2/24", "fd00::2/64"]);
        let (near, far) = (Bridge::new(end_one, owner), Bridge::new(packet, end_other));
        exchange(&one, "10.2.0.1".parse().unwrap(), &other, 10 * MEGABYTE, 2 * MEGABYTE);
        exchange(&other, "fd00::2".parse().unwrap(), &one, 2 * MEGABYTE, 10 * MEGABYTE);
        // In this order: the device goes with its owner.
        let passed = far.stop();
        near.stop();
        assert_eq!(passed.large > 10, offload, "{passed:?}");
    }
}

#[test]
fn frames_are_known_to_begin_with_ip() {
    if !can_make_namespaces() {
        return;
    }
    let (_kernel, mut owner, mut packet) = both_sides(true);
    for ipv6 in [false, true] {
        let mut bytes = Vec::new();
        // A source whose bytes look like the EtherType of IPv4 where an Ethernet header would have it.
        match ipv6 {
            false => PacketBuilder::ipv4([8, 0, 0x45, 0], [9; 4], 9).udp(1, 2).write(&mut bytes, &[3; 50]).unwrap(),
            true => PacketBuilder::ipv6([1; 16], [2; 16], 9).udp(1, 2).write(&mut bytes, &[3; 50]).unwrap(),
        }
        assert_eq!(packet.transmit(NOW, &mut VecDeque::from([Frame::ingress(&bytes)]), &mut Vec::new()).unwrap(), 1);
        let got = receive_until(&mut *owner, |frame| frame.to_vec() == bytes);
        assert!(got.meta().network_at == got.position() && offload::verify(&got));
        assert_eq!(owner.transmit(NOW, &mut VecDeque::from([Frame::ingress(&bytes)]), &mut Vec::new()).unwrap(), 1);
        let got = receive_until(&mut *packet, |frame| frame.to_vec() == bytes);
        assert!(got.meta().network_at == got.position() && offload::verify(&got));
    }
    assert!(owner.drops().iter().chain(&packet.drops()).all(|(_, count)| *count == 0));
}

#[test]
fn what_is_no_packet_and_a_tap_of_the_same_name_are_refused() {
    if !can_make_namespaces() {
        return;
    }
    in_namespace(|| {
        let mut backend = open("tun:line", &options(true, &["10.3.0.1/24"])).unwrap();
        backend.transmit(NOW, &mut VecDeque::from([Frame::ingress(&[0xf5; 40])]), &mut Vec::new()).unwrap();
        assert!(backend.drops().contains(&("the kernel refused the frame's headers", 1)), "{:?}", backend.drops());
        let error = open("tap:line", &OpenOptions::default()).err().unwrap().to_string();
        assert!(error.contains("an interface of this name exists and is of another kind"), "{error}");
    })
    .join()
    .unwrap();
}
