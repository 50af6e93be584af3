//! Path MTU: what routers tell, and what is found out where they tell nothing (RFC 1191, 8201, 4821, 5927).

use crate::common;

use common::pair::{Pair, Wire};
use std::net::IpAddr;
use weft_core::*;
use weft_tcp::counters::Counter as Count;

/// A path on which packets above `limit` vanish without a word; gives how long the transfer took and the pair.
fn through_black_hole(limit: usize, parameters: &[(&str, Value)], at: u64) -> (Duration, Pair) {
    let mut pair = Pair::new(2, Wire { delay: Duration::from_millis(10), rate: 20_000_000, ..Wire::default() }, parameters);
    pair.connect(StreamOptions::default());
    pair.run_for(Duration::from_millis(at));
    pair.filter = Some(Box::new(move |_, on_wire| on_wire.bytes.len() + 20 <= limit));
    let data = common::pattern(4_000_000);
    pair.app(0, |app, _| app.flow(FlowId(1)).unsent.push_back(data.clone()));
    pair.nodes[0].app(|app, cx| app.pump(FlowId(1), cx));
    let start = pair.now;
    let child = pair.accepted().unwrap();
    let until = pair.now + Duration::from_secs(120);
    pair.run(until, |pair| pair.app(1, |app, _| app.flow(child).received.len() == 4_000_000));
    let all = pair.app(1, |app, _| app.flow(child).received == data);
    (if all { pair.now - start } else { Duration::MAX }, pair)
}

#[test]
fn a_path_that_swallows_long_packets_hangs_nobody() {
    for limit in [1400, 1280, 700, 300] {
        let (took, mut pair) = through_black_hole(limit, &[], 100);
        assert!(took < Duration::from_secs(90), "{limit}: {took:?}");
        assert_eq!(pair.nodes[0].counter(Count::TCPMTUPBlackHole), 1);
        let info = pair.nodes[0].info(1);
        assert!(info.pmtu as usize <= limit, "{limit}: {}", info.pmtu);
        if limit >= 1280 {
            // The search came near the size.
            assert!(info.pmtu as usize > limit - 16, "{limit}: {}", info.pmtu);
            assert!(pair.nodes[0].counter(Count::TCPMTUPSuccess) > 0 && pair.nodes[0].counter(Count::TCPMTUPFail) > 0);
        }
    }
    // Without it the program would wait for ever.
    let (took, _) = through_black_hole(1400, &[("mtu_probing", 0.into())], 100);
    assert_eq!(took, Duration::MAX);
}

#[test]
fn with_two_the_search_begins_at_once_and_costs_no_timeout() {
    let (took, mut pair) = through_black_hole(1400, &[("mtu_probing", 2.into())], 100);
    assert!(took < Duration::from_secs(3), "{took:?}");
    assert_eq!(pair.nodes[0].counter(Count::TCPTimeouts), 0);
    let pmtu = pair.nodes[0].info(1).pmtu;
    assert!((1385..=1400).contains(&pmtu), "{pmtu}");
}

#[test]
fn what_a_router_told_is_believed_for_ten_minutes_and_only_about_data_in_flight() {
    for v6 in [false, true] {
        let (local, remote, listener) =
            if v6 { ("[fd00::1]:1234", "[fd00::2]:80", "[::]:80") } else { ("10.0.0.1:1234", "10.0.0.2:80", "0.0.0.0:80") };
        let mut pair = Pair::new(2, Wire::default(), &[]);
        pair.nodes[1].listen(1, listener, 5, StreamOptions::default());
        pair.nodes[0].connect(1, local, remote, StreamOptions::default());
        pair.run_for(Duration::from_secs(1));
        pair.nodes[0].write(1, common::pattern(4_000));
        let sent = pair.nodes[0].take_segments();
        let header = if v6 { 40 } else { 20 };
        let tell = |pair: &mut Pair, seq_moved: u32, mtu| {
            let mut bytes = vec![0u8; header];
            if v6 {
                (bytes[0], bytes[6]) = (0x60, 6);
                let (IpAddr::V6(src), IpAddr::V6(dst)) = (sent[0].src.ip(), sent[0].dst.ip()) else { unreachable!() };
                bytes[8..24].copy_from_slice(&src.octets());
                bytes[24..40].copy_from_slice(&dst.octets());
            } else {
                let (IpAddr::V4(src), IpAddr::V4(dst)) = (sent[0].src.ip(), sent[0].dst.ip()) else { unreachable!() };
                let total_len = (20 + sent[0].bytes.len()) as u16;
                let header = weft_wire::ipv4::Header { protocol: weft_wire::Protocol::TCP, src, dst, total_len, ..Default::default() };
                header.emit(&mut bytes);
            }
            let mut quoted = sent[0].bytes[..8].to_vec();
            let seq = (sent[0].segment.seq + seq_moved).0;
            quoted[4..8].copy_from_slice(&seq.to_be_bytes());
            bytes.extend(quoted);
            let mut frame = Frame::ingress(&bytes);
            frame.meta_mut().error = Some(IcmpError { kind: IcmpErrorKind::TooBig { mtu }, from: sent[0].dst.ip() });
            let node = &mut pair.nodes[0];
            node.engine.inject(node.now, node.tcp, InPort(1), [frame]);
        };
        tell(&mut pair, 1_000_000, 1300);
        assert_eq!((pair.nodes[0].info(1).pmtu, pair.nodes[0].counter(Count::OutOfWindowIcmps)), (1500, 1));
        tell(&mut pair, 0, 1300);
        assert_eq!(pair.nodes[0].info(1).pmtu, 1300);
        let again = pair.nodes[0].take_segments();
        assert!(!again.is_empty() && again.iter().all(|one| one.bytes.len() + header <= 1300));
        assert_eq!(again[0].segment.seq, sent[0].segment.seq);
        // Nobody talks it into dust: 552 and 1280 are the least.
        tell(&mut pair, 0, 68);
        assert_eq!(pair.nodes[0].info(1).pmtu, if v6 { 1280 } else { 552 });
        pair.run_for(Duration::from_secs(601));
        pair.nodes[0].write(1, common::pattern(4_000));
        assert_eq!(pair.nodes[0].info(1).pmtu, 1500);
    }
}
