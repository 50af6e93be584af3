//! Hands packets that the node sends to itself back to IP, at the same instant, through a queue.
//!
//! The queue is emptied by a timer that is due at once, so a packet and its answer are not one ever deeper call: the engine counts a
//! frame's depth from zero again. Completions are reported on entry, since nobody below could hold the packet back. Large frames stay
//! whole and an unfinished checksum stays unfinished: it never left the node's memory, so the receiver may trust it. One that a program wrote
//! (raw sockets) is checked like any other, as by Linux.
//!
//! It refuses more than `queue_frames_max` packets at a time (queue-full).

use std::any::Any;
use std::collections::VecDeque;
use weft_core::*;
use weft_wire::ethernet::{EtherType, HEADER_LEN, Header, Mac};

const OUT: OutPort = OutPort(0);
const OUT_TAPS: OutPort = OutPort(1);

/// What this kind declares.
pub static KIND: Kind = Kind {
    name: "loopback",
    summary: "hands packets for this node itself back to IP",
    doc: "Queues each packet and gives it back at the same instant, with direction ingress and interface lo. Large frames and partial \
          checksums pass as they are. Completions are reported on entry. More than queue_frames_max waiting packets are dropped (queue-full). \
          Packets that wait are lost when the block is replaced.\n\
          Example: bind ip4:loopback loopback:in",
    inputs: &[Port::required("in", Carries::Link, "packets to this node's own addresses")],
    outputs: &[
        Port::required("out", Carries::Link, "the same packets, coming in"),
        Port::optional("taps", Carries::Ethernet, "copies of packets that go out and come in, with a header of zeros, for packet sockets"),
    ],
    asks: &[Table::Interfaces],
    parameters: &[Parameter {
        name: "queue_frames_max",
        value: ParameterType::Unsigned { min: 1, max: 1_000_000 },
        default: "16384",
        live: true,
        doc: "most packets that wait",
    }],
    counters: &[
        Counter { name: "Packets", text: "packets handed back; a large one counts once" },
        Counter { name: "Bytes", text: "their bytes, from the IP header on" },
        Counter { name: "Dropped", text: "packets that found the queue full" },
    ],
    ..Kind::EMPTY
};

/// How to make one.
pub const ROW: BlockRow = BlockRow {
    kind: &KIND,
    make: |config| {
        let queue_frames_max = config.u64("queue_frames_max") as usize;
        Ok(Box::new(Loopback { queue: VecDeque::new(), queue_frames_max, counters: [0; 3], tapped: false }))
    },
};

/// The block.
#[derive(Debug)]
pub struct Loopback {
    queue: VecDeque<Frame>,
    queue_frames_max: usize,
    counters: [u64; 3],
    /// Somebody wants a copy of each frame.
    tapped: bool,
}

impl Loopback {
    /// A copy for packet sockets, as lo has it: with the addresses of nobody.
    fn tap(frame: &Frame, direction: Direction, cx: &mut Context<'_>) {
        let mut copy = frame.clone();
        copy.take_completion();
        let version = copy.head().first().map(|byte| byte >> 4);
        let ether_type = if version == Some(6) { EtherType::IPV6 } else { EtherType::IPV4 };
        Header { dst: Mac::ZERO, src: Mac::ZERO, vlan: None, ether_type }.emit(copy.push(HEADER_LEN));
        let meta = copy.meta_mut();
        (meta.direction, meta.interface, meta.ether_type) = (direction, InterfaceIndex::LOOPBACK, ether_type);
        cx.emit(OUT_TAPS, copy);
    }

    fn look(&mut self, cx: &Context<'_>) {
        self.tapped = cx.is_bound(OUT_TAPS) && matches!(cx.ask(Table::Interfaces, &Query::FramesWanted), Answer::Wanted(true));
    }
}

impl Block for Loopback {
    fn kind(&self) -> &'static Kind {
        &KIND
    }

    fn process(&mut self, _port: InPort, vector: &mut Vector, cx: &mut Context<'_>) {
        for mut frame in vector.drain() {
            if self.queue.len() >= self.queue_frames_max {
                self.counters[2] += 1;
                cx.drop(frame, Reason::QueueFull);
                continue;
            }
            if let Some(completion) = frame.take_completion() {
                cx.complete(completion);
            }
            if self.tapped {
                Loopback::tap(&frame, Direction::Egress, cx);
            }
            self.counters[0] += 1;
            self.counters[1] += frame.len() as u64;
            let meta = frame.meta_mut();
            meta.direction = Direction::Ingress;
            meta.interface = InterfaceIndex::LOOPBACK;
            meta.received = cx.now;
            meta.next_hop = None;
            meta.src_mac = Mac::ZERO;
            meta.dst_mac = Mac::ZERO;
            if self.queue.is_empty() {
                cx.set_timer(0, cx.now);
            }
            self.queue.push_back(frame);
        }
    }

    fn timer(&mut self, _token: u64, cx: &mut Context<'_>) {
        for frame in self.queue.drain(..) {
            if self.tapped {
                Loopback::tap(&frame, Direction::Ingress, cx);
            }
            cx.emit(OUT, frame);
        }
    }

    fn started(&mut self, cx: &mut Context<'_>) {
        self.look(cx);
    }

    fn table_changed(&mut self, table: Table, cx: &mut Context<'_>) {
        if table == Table::Interfaces {
            self.look(cx);
        }
    }

    fn get(&self, name: &str, _now: Instant) -> Option<Value> {
        (name == "queue_frames_max").then(|| self.queue_frames_max.into())
    }

    fn set(&mut self, name: &str, value: Value, _cx: &mut Context<'_>) {
        if let ("queue_frames_max", Some(frames)) = (name, value.as_u64()) {
            self.queue_frames_max = frames as usize;
        }
    }

    fn counters(&self) -> &[u64] {
        &self.counters
    }

    fn give_up(&mut self) -> Vec<Frame> {
        self.queue.drain(..).collect()
    }

    fn as_any_mut(&mut self) -> &mut dyn Any {
        self
    }
}
