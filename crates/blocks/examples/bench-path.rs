//! What a small datagram costs on its way through the default graph, up and down, in nanoseconds a packet. Run with `--release`.

#[path = "../tests/common/mod.rs"]
mod common;

use common::*;
use std::time::Instant as Clock;
use weft_core::*;
use weft_wire::Protocol;

const BATCH: usize = 64;
const ROUNDS: usize = 20_000;

fn measure(name: &str, mut work: impl FnMut()) {
    for _ in 0..ROUNDS / 10 {
        work();
    }
    let start = Clock::now();
    for _ in 0..ROUNDS {
        work();
    }
    println!("{name:<44} {:>7.1} ns/packet", start.elapsed().as_nanos() as f64 / (ROUNDS * BATCH) as f64);
}

fn main() {
    let mut node = Node::with_peer();
    let (interfaces, sockets) = (node.id("interfaces"), node.id("sockets"));
    let packet = from_peer(header(PEER_IP, OUR_IP, Protocol::UDP), &udp_segment(PEER_IP, 1, OUR_IP, 2, &[7; 64]));
    let ingress = || {
        let mut frame = Frame::ingress(&packet);
        frame.meta_mut().interface = ETH0;
        frame
    };
    let payload = Bytes::from(vec![7; 64]);
    let egress = || {
        let mut frame = Frame::egress();
        frame.append(payload.clone());
        let meta = frame.meta_mut();
        (meta.src, meta.dst, meta.src_port, meta.dst_port, meta.dont_fragment) = (OUR_IP.into(), PEER_IP.into(), 1, 2, true);
        frame
    };
    measure("making and dropping a received frame", || (0..BATCH).for_each(|_| drop(std::hint::black_box(ingress()))));
    measure("up: interfaces, ether, ip4, udp, sockets", || {
        node.engine.inject(Instant::ZERO, interfaces, InPort(0), (0..BATCH).map(|_| ingress()));
        assert_eq!(node.engine.take_outgoing().len(), BATCH);
    });
    measure("making and dropping a frame to send", || (0..BATCH).for_each(|_| drop(std::hint::black_box(egress()))));
    measure("down: sockets, udp, ip4, arp, ether, interfaces", || {
        node.engine.inject(Instant::ZERO, sockets, InPort(2), (0..BATCH).map(|_| egress()));
        assert_eq!(node.engine.take_outgoing().len(), BATCH);
    });
}
