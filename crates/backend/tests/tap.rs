//! TAP devices against the kernel: answers to single frames, and kernels that talk to each other through two devices and a bridge of ours.

mod support;

use etherparse::{ArpEthIpv4Packet, ArpOperation, Icmpv4Type, PacketBuilder, SlicedPacket, TransportSlice};
use nix::sys::socket::{setsockopt, sockopt};
use std::collections::VecDeque;
use std::net::UdpSocket;
use std::time::Duration;
use support::*;
use weft_backend::{Backend, OpenOptions, host_side, open};
use weft_core::{BlockId, Bytes, Checksum, Completion, Frame, InterfaceIndex, offload};

const MEGABYTE: usize = 1_000_000;

fn tap(name: &'static str, offload: bool, addresses: &'static [&'static str]) -> (Kernel, Box<dyn Backend>) {
    Kernel::new(move || open(&format!("tap:{name}"), &options(offload, addresses)).unwrap())
}

#[test]
fn the_kernel_answers_arp_and_ping() {
    if !can_make_namespaces() {
        return;
    }
    let (_kernel, mut backend) = tap("weft0", true, &["10.1.0.1/24"]);
    assert_eq!((backend.name(), backend.features().mtu), ("weft0", 1500));
    let mac = backend.features().mac.0;
    let arp = ArpEthIpv4Packet {
        operation: ArpOperation::REQUEST,
        sender_mac: mac,
        sender_ipv4: [10, 1, 0, 2],
        target_mac: [0; 6],
        target_ipv4: [10, 1, 0, 1],
    };
    let mut bytes = Vec::new();
    PacketBuilder::ethernet2(mac, [0xff; 6]).arp(arp.into()).write(&mut bytes).unwrap();
    let completion = Completion { block: BlockId(3), token: 4, bytes: 60 };
    let mut frame = Frame::ingress(&bytes);
    frame.meta_mut().completion = Some(completion);
    let mut done = Vec::new();
    assert_eq!(backend.transmit(NOW, &mut VecDeque::from([frame]), &mut done).unwrap(), 1);
    assert_eq!(done, [completion]);
    let reply = receive_until(&mut *backend, |frame| frame.head()[12..14] == [8, 6] && frame.head()[..6] == mac);
    assert_eq!((reply.meta().interface, reply.meta().received), (InterfaceIndex(2), NOW));
    let host_mac: [u8; 6] = reply.head()[6..12].try_into().unwrap();
    assert_eq!(mac, weft_backend::tap::neighbour_mac(weft_wire::ethernet::Mac(host_mac)).0);

    // Large enough for a tail, small enough not to be fragmented.
    let payload = [7; 1400];
    let mut bytes = Vec::new();
    PacketBuilder::ethernet2(mac, host_mac)
        .ipv4([10, 1, 0, 2], [10, 1, 0, 1], 64)
        .icmpv4_echo_request(5, 6)
        .write(&mut bytes, &payload)
        .unwrap();
    let frame = Frame::ingress_parts(&bytes[..42], Bytes::copy_from_slice(&bytes[42..]));
    assert_eq!(backend.transmit(NOW, &mut VecDeque::from([frame]), &mut done).unwrap(), 1);
    let reply = receive_until(&mut *backend, |frame| frame.head().get(23) == Some(&1));
    assert!(offload::verify(&reply));
    let reply = reply.to_vec();
    match SlicedPacket::from_ethernet(&reply).unwrap().transport.unwrap() {
        TransportSlice::Icmpv4(icmp) => {
            assert!(matches!(icmp.icmp_type(), Icmpv4Type::EchoReply(echo) if (echo.id, echo.seq) == (5, 6)));
            assert_eq!(icmp.payload(), payload);
        }
        other => panic!("{other:?}"),
    }
    assert!(backend.drops().iter().all(|(_, count)| *count == 0));
}

/// Two kernels, two TAP devices, a bridge of ours between them.
fn kernels_exchange(offloads: (bool, bool), there: usize, back: usize) -> Passed {
    let (one, tap_one) = tap("left", offloads.0, &["10.2.0.1/24", "fd00::1/64"]);
    let (other, tap_other) = tap("right", offloads.1, &["10.2.0.2/24", "fd00::2/64"]);
    let bridge = Bridge::new(tap_one, tap_other);
    exchange(&one, "10.2.0.1".parse().unwrap(), &other, there, back);
    exchange(&other, "fd00::2".parse().unwrap(), &one, there / 10, back / 10);
    let passed = bridge.stop();
    println!("{offloads:?} {passed:?}");
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
fn large_frames_are_cut_for_a_device_without_offloads() {
    if can_make_namespaces() {
        let passed = kernels_exchange((true, false), 20 * MEGABYTE, 20 * MEGABYTE);
        assert!(passed.large > 10, "{passed:?}");
    }
}

#[test]
fn many_datagrams_in_one_frame_arrive_as_many() {
    if !can_make_namespaces() {
        return;
    }
    for offloads in [(true, true), (true, false)] {
        let (one, tap_one) = tap("left", offloads.0, &["10.3.0.1/24"]);
        let (other, tap_other) = tap("right", offloads.1, &["10.3.0.2/24"]);
        let bridge = Bridge::new(tap_one, tap_other);
        let (ready, bound) = std::sync::mpsc::channel();
        let received = other.start(move || {
            let socket = UdpSocket::bind("10.3.0.2:7000").unwrap();
            socket.set_read_timeout(Some(Duration::from_secs(10))).unwrap();
            ready.send(()).unwrap();
            let mut buffer = [0; 2000];
            (0..41).map(|_| socket.recv(&mut buffer).map(|bytes| buffer[..bytes].to_vec()).unwrap()).collect::<Vec<_>>()
        });
        bound.recv().unwrap();
        let sent: Vec<u8> = (0..40_500u32).map(|at| (at % 251) as u8).collect();
        let bytes = sent.clone();
        one.start(move || {
            let socket = UdpSocket::bind("10.3.0.1:0").unwrap();
            setsockopt(&socket, sockopt::UdpGsoSegment, &1000).unwrap();
            socket.send_to(&bytes, "10.3.0.2:7000").unwrap();
        })
        .recv_timeout(Duration::from_secs(10))
        .unwrap();
        let received = received.recv_timeout(Duration::from_secs(20)).unwrap();
        assert!(received[..40].iter().all(|datagram| datagram.len() == 1000));
        assert_eq!(received.concat(), sent);
        let passed = bridge.stop();
        assert!(passed.large >= 1, "the kernel did not send the datagrams as one frame: {passed:?}");
    }
}

#[test]
fn a_name_that_is_taken_and_a_device_that_is_down_are_told() {
    if !can_make_namespaces() {
        return;
    }
    in_namespace(|| {
        let mut backend = open("tap:", &OpenOptions::default()).unwrap();
        assert_eq!(backend.name(), "tap0");
        let error = open("tap:tap0", &OpenOptions::default()).err().unwrap();
        assert!(error.to_string().contains("another process holds this device"), "{error}");
        let error = open("tap:a-name-that-is-too-long", &OpenOptions::default()).err().unwrap();
        assert!(error.to_string().contains("at most 15 bytes"), "{error}");

        let mut frame = Frame::ingress(&[0; 60]);
        frame.meta_mut().completion = Some(Completion { block: BlockId(1), token: 1, bytes: 1 });
        let mut done = Vec::new();
        assert_eq!(backend.transmit(NOW, &mut VecDeque::from([frame]), &mut done).unwrap(), 1);
        assert_eq!(done.len(), 1);
        assert_eq!(backend.drops()[0], ("the kernel's side is down", 1));

        // The device is deleted under us.
        host_side::delete("tap0").unwrap();
        backend.receive(NOW, &mut Vec::new(), 1).unwrap_err();
        let mut queue = VecDeque::from([Frame::ingress(&[0; 60])]);
        backend.transmit(NOW, &mut queue, &mut done).unwrap_err();
        assert_eq!(queue.len(), 1);
    })
    .join()
    .unwrap();
}

#[test]
fn a_checksum_that_is_left_to_the_device_is_believed() {
    if !can_make_namespaces() {
        return;
    }
    for offload in [true, false] {
        let (kernel, mut backend) = tap("weft0", offload, &["10.4.0.1/24"]);
        let (ready, bound) = std::sync::mpsc::channel();
        let received = kernel.start(move || {
            let socket = UdpSocket::bind("10.4.0.1:7000").unwrap();
            socket.set_read_timeout(Some(Duration::from_secs(10))).unwrap();
            ready.send(socket.local_addr().unwrap()).unwrap();
            let mut buffer = [0; 2000];
            socket.recv(&mut buffer).map(|bytes| buffer[..bytes].to_vec()).unwrap()
        });
        bound.recv().unwrap();
        // The derivation undoes itself: the kernel's random addresses are locally administered, too.
        let host_mac = weft_backend::tap::neighbour_mac(backend.features().mac);
        let mut bytes = Vec::new();
        PacketBuilder::ethernet2(backend.features().mac.0, host_mac.0)
            .ipv4([10, 4, 0, 2], [10, 4, 0, 1], 9)
            .udp(5, 7000)
            .write(&mut bytes, &[3; 700])
            .unwrap();
        let pseudo = weft_wire::checksum::pseudo_v4([10, 4, 0, 2].into(), [10, 4, 0, 1].into(), 17, 708).fold();
        bytes[40..42].copy_from_slice(&pseudo.to_be_bytes());
        let mut frame = Frame::ingress_parts(&bytes[..42], Bytes::copy_from_slice(&bytes[42..]));
        frame.meta_mut().checksum = Checksum::Partial { offset: 6 };
        backend.transmit(NOW, &mut VecDeque::from([frame]), &mut Vec::new()).unwrap();
        assert_eq!(received.recv_timeout(Duration::from_secs(20)).unwrap(), [3; 700]);
    }
}
