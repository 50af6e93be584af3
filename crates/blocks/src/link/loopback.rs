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
use weft_wire::ethernet::Mac;

const OUT: OutPort = OutPort(0);

/// What this kind declares.
pub static KIND: Kind = Kind {
    name: "loopback",
    summary: "hands packets for this node itself back to IP",
    doc: "Queues each packet and gives it back at the same instant, with direction ingress and interface lo. Large frames and partial \
          checksums pass as they are. Completions are reported on entry. More than queue_frames_max waiting packets are dropped (queue-full). \
          Packets that wait are lost when the block is replaced.\n\
          Example: bind ip4:loopback loopback:in",
    inputs: &[Port::required("in", Carries::Link, "packets to this node's own addresses")],
    outputs: &[Port::required("out", Carries::Link, "the same packets, coming in")],
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
        Ok(Box::new(Loopback { queue: VecDeque::new(), queue_frames_max: config.u64("queue_frames_max") as usize, counters: [0; 3] }))
    },
};

/// The block.
#[derive(Debug)]
pub struct Loopback {
    queue: VecDeque<Frame>,
    queue_frames_max: usize,
    counters: [u64; 3],
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
            cx.emit(OUT, frame);
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
