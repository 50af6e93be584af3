//! The block: no copies, bytes below, buffers, ICMP errors, IPv6, the messages of flows.

use crate::common;

use common::pair::{Pair, Wire};
use common::{Node, encode, pattern, script};
use std::net::{IpAddr, Ipv4Addr};
use weft_core::*;
use weft_tcp::counters::Counter as Count;
use weft_wire::ipv4;
use weft_wire::tcp::{Flags, Segment};

fn joined(parameters: &[(&str, Value)]) -> (Pair, FlowId) {
    let mut pair = Pair::new(1, Wire { delay: Duration::from_millis(1), ..Wire::default() }, parameters);
    pair.connect(StreamOptions::default());
    pair.run_for(Duration::from_millis(10));
    let child = pair.accepted().unwrap();
    (pair, child)
}

#[test]
fn no_byte_is_copied_between_the_program_and_the_frame() {
    let (mut pair, _) = joined(&[]);
    pair.nodes[0].exec_below("gso", 65_536);
    // Half of the window, and what is no whole segment along with it.
    let data = pattern(7000);
    let range = data.as_ptr() as usize..data.as_ptr() as usize + data.len();
    pair.nodes[0].write(1, data.clone());
    let frames = pair.nodes[0].take_frames();
    let total: usize = frames.iter().flat_map(|frame| frame.tail()).map(Bytes::len).sum();
    assert_eq!(total, 7000);
    for slice in frames.iter().flat_map(|frame| frame.tail()) {
        let at = slice.as_ptr() as usize;
        assert!(range.contains(&at), "the frame's bytes lie elsewhere");
        assert_eq!(slice[..], data[at - range.start..at - range.start + slice.len()]);
    }
    assert_eq!(frames.len(), 1);
    assert_eq!(frames[0].meta().gso, Some(Gso { segment_bytes: 1448, kind: GsoKind::Tcp }));
    // Retransmitted, it is the same memory again.
    let later = pair.now + Duration::from_secs(1);
    pair.nodes[0].advance(later);
    let again = pair.nodes[0].take_frames();
    assert!(!again.is_empty());
    for slice in again.iter().flat_map(|frame| frame.tail()) {
        assert!(range.contains(&(slice.as_ptr() as usize)));
    }
}

#[test]
fn received_bytes_are_handed_up_in_the_memory_they_arrived_in() {
    let (mut pair, child) = joined(&[]);
    pair.nodes[0].exec_below("gso", 65_536);
    pair.nodes[0].write(1, pattern(14_480));
    let mut frames = pair.nodes[0].take_frames();
    let expected: Vec<usize> = frames.iter().flat_map(|frame| frame.tail().iter().map(|slice| slice.as_ptr() as usize)).collect();
    for frame in &mut frames {
        let meta = frame.meta_mut();
        meta.direction = Direction::Ingress;
        meta.interface = InterfaceIndex(2);
        let header = Segment::parse(frame.head()).unwrap().1;
        assert_eq!(frame.head().len(), header);
    }
    pair.nodes[1].inject_frames(frames);
    let (pointers, received) = pair.app(1, |app, _| (app.flow(child).pointers.clone(), app.flow(child).received.clone()));
    assert_eq!(pointers, expected);
    assert_eq!(received, pattern(14_480));
}

#[test]
fn a_connection_that_is_bound_to_an_interface_takes_no_other() {
    let mut node = Node::new("one", &[]);
    node.connect(1, "10.0.0.1:1", "10.0.0.2:80", StreamOptions { interface: 3, ..StreamOptions::default() });
    node.connect(2, "10.0.0.1:2", "10.0.0.2:80", StreamOptions { interface: 2, ..StreamOptions::default() });
    let mut replies = |flow: u64| node.app(|app, _| app.flow(FlowId(flow)).replies.clone());
    assert_eq!([1, 2].map(&mut replies), [vec![Err(StreamError::NetUnreachable)], vec![Ok(())]]);
    assert_eq!(node.take_segments().len(), 1);
}

#[test]
fn bytes_below_are_bounded_and_completions_go_on() {
    let (mut pair, _) = joined(&[("tsq_bytes", 5000.into())]);
    let node = &mut pair.nodes[0];
    node.holds_completions = true;
    node.write(1, pattern(14_480));
    // One large frame of half of the window passes the limit of 5000, and nothing follows before it has left.
    let mut sent = node.take_segments().len();
    assert_eq!(sent, 5);
    assert!(node.counter(Count::TCPTSQBlocked) > 0);
    for _ in 0..5 {
        node.complete_all();
        sent += node.take_segments().len();
    }
    assert_eq!(sent, 10);
    assert!(node.below_bytes_max <= 5 * (1448 + 32), "{}", node.below_bytes_max);
}

#[test]
fn the_receive_buffer_follows_the_program() {
    let mut pair = Pair::new(1, Wire { delay: Duration::from_millis(50), ..Wire::default() }, &[]);
    pair.connect(StreamOptions::default());
    pair.app(0, |app, _| app.flow(FlowId(1)).unsent.push_back(pattern(12_000_000)));
    pair.run_for(Duration::from_secs(3));
    let child = pair.accepted().unwrap();
    assert!(pair.nodes[1].info(child.0).rcv_ssthresh > 1_000_000);
    assert!(pair.nodes[1].counter(Count::TCPAutoTuned) > 0);
    // The send buffer, too: what the program may hand down has become a multiple of the first 16 KiB.
    assert!(pair.app(0, |app, _| app.flow(FlowId(1)).peak_credit) > 500_000);
    // With a fixed buffer nothing grows.
    let mut pair = Pair::new(1, Wire { delay: Duration::from_millis(50), ..Wire::default() }, &[]);
    pair.connect(StreamOptions { receive_buffer: Some(100_000), ..StreamOptions::default() });
    pair.app(0, |app, _| app.flow(FlowId(1)).unsent.push_back(pattern(3_000_000)));
    pair.run_for(Duration::from_secs(3));
    let child = pair.accepted().unwrap();
    assert_eq!(pair.nodes[1].counter(Count::TCPAutoTuned), 0);
    assert!(pair.nodes[1].info(child.0).rcv_wnd <= 51_200);
}

#[test]
fn after_a_pause_the_window_starts_again() {
    let (mut pair, _) = joined(&[]);
    pair.nodes[0].write(1, pattern(400_000));
    pair.run_for(Duration::from_secs(1));
    let before = pair.nodes[0].info(1).snd_cwnd;
    assert!(before > 40, "{before}");
    pair.run_for(Duration::from_secs(60));
    pair.nodes[0].write(1, pattern(1000));
    assert_eq!(pair.nodes[0].info(1).snd_cwnd, 10);
    let (mut pair, _) = joined(&[("slow_start_after_idle", false.into())]);
    pair.nodes[0].write(1, pattern(400_000));
    pair.run_for(Duration::from_secs(61));
    pair.nodes[0].write(1, pattern(1000));
    assert_eq!(pair.nodes[0].info(1).snd_cwnd, before);
}

#[test]
fn ipv6_works_as_ipv4_does() {
    let mut pair = Pair::new(1, Wire::default(), &[]);
    pair.nodes[1].listen(1, "[::]:80", 16, StreamOptions::default());
    pair.nodes[0].connect(1, "[fd00::1]:1234", "[fd00::2]:80", StreamOptions::default());
    pair.nodes[0].write(1, pattern(100_000));
    pair.run_for(Duration::from_secs(5));
    let child = pair.accepted().unwrap();
    assert!(pair.app(1, |app, _| app.flow(child).received == pattern(100_000)));
    assert_eq!(pair.nodes[0].info(1).snd_mss, 1500 - 60 - 12);
}

#[test]
fn the_most_specific_listener_gets_the_connection() {
    let mut pair = Pair::new(1, Wire::default(), &[]);
    let dual =
        StreamCall::Listen { local: "[::]:80".parse().unwrap(), dual_stack: true, backlog: 4, options: Box::default(), extension: None };
    pair.nodes[1].call(3, dual);
    pair.nodes[0].connect(1, "10.0.0.1:1000", "10.0.0.2:80", StreamOptions::default());
    pair.run_for(Duration::from_secs(1));
    assert_eq!(pair.nodes[1].events(3), ["accepted"]);
    pair.nodes[1].listen(1, "0.0.0.0:80", 16, StreamOptions::default());
    pair.nodes[0].connect(2, "10.0.0.1:1001", "10.0.0.2:80", StreamOptions::default());
    pair.run_for(Duration::from_secs(1));
    assert_eq!(pair.nodes[1].events(1), ["accepted"]);
    pair.nodes[1].listen(2, "10.0.0.2:80", 16, StreamOptions::default());
    pair.nodes[0].connect(3, "10.0.0.1:1002", "10.0.0.2:80", StreamOptions::default());
    pair.run_for(Duration::from_secs(1));
    assert_eq!(pair.nodes[1].events(2), ["accepted"]);
}

#[test]
fn calls_are_answered_and_refused_flows_released() {
    let mut node = Node::new("calls", &[]);
    node.connect(1, "10.0.0.1:1234", "10.0.0.9:80", StreamOptions::default());
    node.connect(2, "10.0.0.1:1234", "10.0.0.9:80", StreamOptions::default());
    let options = StreamOptions { congestion: Some("vegas".to_owned()), ..StreamOptions::default() };
    node.connect(3, "10.0.0.1:1235", "10.0.0.9:80", options);
    let replies = |node: &mut Node, flow| node.app(|app, _| (app.flow(FlowId(flow)).replies.clone(), app.flow(FlowId(flow)).released));
    assert_eq!(replies(&mut node, 1), (vec![Ok(())], false));
    assert_eq!(replies(&mut node, 2), (vec![Err(StreamError::AddressInUse)], true));
    assert_eq!(replies(&mut node, 3), (vec![Err(StreamError::NoEntry)], true));
    node.call(1, StreamCall::Set(StreamOption::Congestion(Some("vegas".to_owned()))));
    node.call(1, StreamCall::Set(StreamOption::Congestion(Some("reno".to_owned()))));
    assert_eq!(replies(&mut node, 1), (vec![Ok(()), Err(StreamError::NoEntry), Ok(())], false));
    assert_eq!(node.info(1).congestion, "reno");
    node.call(1, StreamCall::Close { unread: false, linger: None });
    assert!(replies(&mut node, 1).1);
    node.call(77, StreamCall::ShutdownWrite);
    assert_eq!(replies(&mut node, 77).0, [Err(StreamError::NotConnected)]);
    assert_eq!(node.population(), (0, 0, 0));
}

#[test]
fn a_listener_that_closes_takes_its_half_open_connections_along() {
    let mut script = script::run(
        &[],
        "listen
        -> SYN seq 0 mss 1000
        <- SYN|ACK seq 0 ack 1",
    );
    assert_eq!(script.node.population(), (0, 1, 0));
    script.node.call(1, StreamCall::Close { unread: false, linger: None });
    assert_eq!(script.node.population(), (0, 0, 0));
    assert_eq!(script.node.events(1), ["released"]);
    script.run("-> ACK seq 1 ack 1\n<- RST seq 1");
}

#[test]
fn a_bad_checksum_or_header_is_dropped() {
    let mut node = Node::new("bad", &[]);
    let (src, dst) = ("10.0.0.9:5".parse().unwrap(), "10.0.0.1:80".parse().unwrap());
    let segment = Segment { src_port: 5, dst_port: 80, flags: Flags::SYN, ..Segment::default() };
    let good = encode(&segment, b"", src, dst);
    let inject = |node: &mut Node, bytes: &[u8], checksum| {
        let mut frame = Frame::ingress(bytes);
        (frame.meta_mut().src, frame.meta_mut().dst, frame.meta_mut().checksum) = (src.ip(), dst.ip(), checksum);
        node.inject_frames(vec![frame]);
    };
    let mut bad = good.clone();
    bad[4] ^= 1;
    inject(&mut node, &bad, Checksum::Unknown);
    inject(&mut node, &good[..12], Checksum::Valid);
    let mut short = good.clone();
    short[12] = 0x40;
    inject(&mut node, &short, Checksum::Valid);
    assert_eq!(node.drops(), [(Reason::Truncated, 1), (Reason::BadHeaderLength, 1), (Reason::BadChecksum, 1)]);
    assert_eq!((node.counter(Count::InErrs), node.counter(Count::InCsumErrors)), (3, 1));
    inject(&mut node, &good, Checksum::Unknown);
    assert_eq!(node.take_segments().len(), 1);
    // Nobody may be a peer by a multicast or broadcast address.
    for src in ["224.0.0.1:5", "255.255.255.255:5", "0.0.0.0:5"] {
        let src: std::net::SocketAddr = src.parse().unwrap();
        let mut frame = Frame::ingress(&encode(&segment, b"", src, dst));
        (frame.meta_mut().src, frame.meta_mut().dst) = (src.ip(), dst.ip());
        node.inject_frames(vec![frame]);
    }
    assert!(node.take_segments().is_empty());
    assert!(node.drops().contains(&(Reason::MartianSource, 3)));
}

/// The packet that an ICMP error quotes.
fn quoted(on_wire: &common::OnWire, kind: IcmpErrorKind) -> Frame {
    let ip = |address| match address {
        IpAddr::V4(ip) => ip,
        IpAddr::V6(_) => Ipv4Addr::UNSPECIFIED,
    };
    let header = ipv4::Header {
        protocol: weft_wire::Protocol::TCP,
        src: ip(on_wire.src.ip()),
        dst: ip(on_wire.dst.ip()),
        total_len: (20 + on_wire.bytes.len()) as u16,
        ..ipv4::Header::default()
    };
    let mut bytes = vec![0; 20];
    header.emit(&mut bytes);
    bytes.extend_from_slice(&on_wire.bytes[..8]);
    let mut frame = Frame::ingress(&bytes);
    frame.meta_mut().error = Some(IcmpError { kind, from: IpAddr::from([10, 0, 0, 254]) });
    frame
}

fn error(node: &mut Node, frame: Frame) {
    let (now, tcp) = (node.now, node.tcp);
    node.engine.inject(now, tcp, InPort(1), [frame]);
}

#[test]
fn an_icmp_error_fails_a_connection_that_is_being_opened_and_not_an_open_one() {
    let mut node = Node::new("icmp", &[]);
    node.connect(1, "10.0.0.1:1234", "10.0.0.9:80", StreamOptions::default());
    let syn = node.take_segments().remove(0);
    // Not about our SYN: another number.
    let mut other = syn.clone();
    other.bytes[4] ^= 0x55;
    error(&mut node, quoted(&other, IcmpErrorKind::PortUnreachable));
    assert!(node.events(1).is_empty());
    error(&mut node, quoted(&syn, IcmpErrorKind::TtlExceeded));
    assert_eq!(node.events(1), ["soft hostunreachable"]);
    // This node's own word that it has no route is none of the network's: it tries again.
    let mut routeless = quoted(&syn, IcmpErrorKind::NetUnreachable);
    routeless.meta_mut().direction = Direction::Egress;
    error(&mut node, routeless);
    assert_eq!(node.events(1)[1..], ["soft netunreachable"]);
    error(&mut node, quoted(&syn, IcmpErrorKind::PortUnreachable));
    assert_eq!(node.events(1)[2..], ["failed refused", "released"]);

    let (mut pair, _) = joined(&[]);
    pair.nodes[0].write(1, pattern(1000));
    let data = pair.nodes[0].take_segments().remove(0);
    error(&mut pair.nodes[0], quoted(&data, IcmpErrorKind::HostUnreachable));
    assert_eq!(pair.nodes[0].events(1), ["established", "soft hostunreachable"]);
}

#[test]
fn a_router_that_wants_shorter_packets_gets_them_and_the_window_stays() {
    let (mut pair, _) = joined(&[]);
    pair.nodes[0].write(1, pattern(5000));
    let first = pair.nodes[0].take_segments();
    assert_eq!(first[0].payload.len(), 1448);
    error(&mut pair.nodes[0], quoted(&first[0], IcmpErrorKind::TooBig { mtu: 1000 }));
    let again = pair.nodes[0].take_segments();
    assert!(!again.is_empty());
    assert!(again.iter().all(|on_wire| on_wire.bytes.len() + 20 <= 1000), "{}", again[0].bytes.len());
    assert_eq!(again[0].segment.seq, first[0].segment.seq);
    let info = pair.nodes[0].info(1);
    assert_eq!((info.pmtu, info.snd_ssthresh), (1000, 0x7fff_ffff));
    assert_eq!(pair.nodes[0].counter(Count::TCPMTUReduced), 1);
}

#[test]
fn many_connections_at_once_end_in_nothing() {
    let wire = Wire { loss: 0.02, ..Wire::default() };
    let mut pair = Pair::new(4, wire, &[]);
    pair.nodes[1].listen(1, "0.0.0.0:80", 1000, StreamOptions::default());
    pair.app(1, |app, _| app.reply = Some(pattern(20_000)));
    for at in 0..200u16 {
        pair.nodes[0].connect(u64::from(at) + 1, &format!("10.0.0.1:{}", 2000 + at), "10.0.0.2:80", StreamOptions::default());
        pair.nodes[0].app(|app, _| app.flow(FlowId(u64::from(at) + 1)).shutdown_after = true);
    }
    pair.run_for(Duration::from_secs(120));
    for at in 1..=200 {
        let received = pair.app(0, |app, _| app.flow(FlowId(at)).received.clone());
        assert!(received == pattern(20_000), "flow {at}: {} bytes, {:?}", received.len(), pair.nodes[0].events(at));
    }
    let children = pair.app(1, |app, _| app.accepted.clone());
    assert_eq!(children.len(), 200);
    for at in 1..=200 {
        pair.nodes[0].call(at, StreamCall::Close { unread: false, linger: None });
    }
    for child in children {
        pair.nodes[1].call(child.0, StreamCall::Close { unread: false, linger: None });
    }
    pair.run_for(Duration::from_secs(300));
    assert_eq!((pair.nodes[0].population(), pair.nodes[1].population()), ((0, 0, 0), (0, 0, 0)));
    assert_eq!(pair.nodes[0].engine.next_timer(), None);
    assert_eq!(pair.nodes[1].engine.next_timer(), None);
}

#[test]
fn over_the_loopback_mtu_segments_are_as_long_as_a_packet_can_be() {
    let (mut pair, child) = {
        let mut pair = Pair::new(1, Wire { delay: Duration::from_micros(10), ..Wire::default() }, &[]);
        for node in &mut pair.nodes {
            node.exec_below("mtu", 65_536);
            node.exec_below("gso", 65_536);
        }
        pair.connect(StreamOptions::default());
        pair.run_for(Duration::from_millis(10));
        let child = pair.accepted().unwrap();
        (pair, child)
    };
    pair.log = Some(Vec::new());
    pair.nodes[0].write(1, pattern(3_000_000));
    pair.run_for(Duration::from_secs(2));
    assert!(pair.app(1, |app, _| app.flow(child).received == pattern(3_000_000)));
    assert_eq!((pair.nodes[0].info(1).snd_mss, pair.nodes[0].info(1).pmtu), (65_483, 65_535));
    let longest = pair.log.unwrap().iter().map(|(_, _, on_wire)| on_wire.bytes.len()).max().unwrap();
    assert_eq!(longest + 20, 65_535);
}

#[test]
fn large_frames_stay_large_when_acknowledgments_come_in_small_steps() {
    let wire = Wire { delay: Duration::from_millis(5), rate: 200_000_000, ..Wire::default() };
    let mut pair = Pair::new(1, wire, &[]);
    pair.nodes[0].exec_below("gso", 65_536);
    pair.connect(StreamOptions::default());
    pair.run_for(Duration::from_millis(50));
    pair.nodes[0].write(1, pattern(8_000_000));
    pair.run_for(Duration::from_secs(2));
    let child = pair.accepted().unwrap();
    assert!(pair.app(1, |app, _| app.flow(child).received == pattern(8_000_000)));
    let frames = pair.nodes[0].engine.graph().frames_in(pair.nodes[0].below);
    let segments = pair.nodes[0].counter(Count::OutSegs);
    assert!(segments > 6 * frames, "{segments} segments in {frames} frames");
}

#[test]
fn progress_confirms_the_neighbour_once_a_second() {
    for (local, remote) in [("10.0.0.1:1234", "10.0.0.2:80"), ("[fd00::1]:1234", "[fd00::2]:80")] {
        let mut pair = Pair::new(1, Wire { delay: Duration::from_millis(1), ..Wire::default() }, &[]);
        pair.nodes[1].listen(1, if remote.starts_with('[') { "[::]:80" } else { "0.0.0.0:80" }, 16, StreamOptions::default());
        pair.nodes[0].connect(1, local, remote, StreamOptions::default());
        let (own, peer): (std::net::SocketAddr, std::net::SocketAddr) = (local.parse().unwrap(), remote.parse().unwrap());
        assert!(pair.nodes[0].take_confirmed().is_empty(), "nothing was answered yet");
        pair.run_for(Duration::from_millis(10));
        assert_eq!(pair.nodes[0].take_confirmed(), [(InterfaceIndex(2), peer.ip())], "the SYN was answered");
        assert_eq!(pair.nodes[1].take_confirmed(), [(InterfaceIndex(2), own.ip())], "and the SYN-ACK");
        // A segment every 20 ms for 10 s: each end hears of progress 500 times, and tells it ten times.
        for _ in 0..500 {
            pair.nodes[0].write(1, pattern(1000));
            pair.run_for(Duration::from_millis(20));
        }
        let told = pair.nodes.iter_mut().map(|node| node.take_confirmed().len()).collect::<Vec<_>>();
        assert!(told.iter().all(|told| (9..=10).contains(told)), "{told:?}");
        // Without progress nothing is confirmed: retransmissions, silence.
        pair.nodes[0].write(1, pattern(1000));
        pair.nodes[0].take_segments();
        let mut sent = 0;
        for second in 1..60 {
            pair.nodes[0].advance(pair.now + Duration::from_secs(second));
            sent += pair.nodes[0].take_segments().len();
        }
        assert!(sent > 3, "retransmitted");
        assert!(pair.nodes[0].take_confirmed().is_empty());
    }
}
