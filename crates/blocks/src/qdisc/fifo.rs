//! pfifo and bfifo: a queue of so many frames or bytes (net/sched/sch_fifo.c).
//!
//! An interface takes every frame at once here (what waits for a wire waits in the wire's queue, and is counted there), so that no more than
//! the frame in hand is ever in it: it counts, and drops what does not fit an empty queue.

use super::{COUNTERS, Desk, Discipline, HANDLE, INPUTS, INTERFACE, OUTPUTS, make};
use weft_core::state::{Damage, Reader, Writer};
use weft_core::*;

/// What this kind declares.
pub static KIND: Kind = Kind {
    name: "fifo",
    summary: "pfifo and bfifo of tc: counts the frames of an interface",
    doc: "Passes the frames of one interface on as they come, and drops those for which an empty queue has no room: of pfifo (`unit` \
          packets) that is all with limit 0, of bfifo (`unit` bytes) those of more than `limit` bytes. Frames of other interfaces pass \
          untouched; with interface 0 there are no others. Put in by `tc qdisc add dev IFACE root pfifo`, or by hand.\n\
          Example: insert fifo ether:lower interfaces:upper",
    inputs: INPUTS,
    outputs: OUTPUTS,
    parameters: &[
        INTERFACE,
        HANDLE,
        Parameter {
            name: "unit",
            value: ParameterType::Choice(&["packets", "bytes"]),
            default: "\"packets\"",
            live: false,
            doc: "what `limit` counts: pfifo or bfifo",
        },
        Parameter {
            name: "limit",
            value: ParameterType::Unsigned { min: 0, max: u32::MAX as u64 },
            default: "1000",
            live: true,
            doc: "most that waits, in `unit`s",
        },
    ],
    counters: COUNTERS,
    asks: &[Table::Interfaces],
    state_version: 1,
    ..Kind::EMPTY
};

/// How to make one.
pub const ROW: BlockRow = BlockRow { kind: &KIND, make: make::<Fifo> };

/// The discipline.
#[derive(Debug)]
pub(super) struct Fifo {
    bytes: bool,
    limit: u64,
}

impl Discipline for Fifo {
    fn kind() -> &'static Kind {
        &KIND
    }
    fn new(config: &Config) -> Fifo {
        Fifo { bytes: config.text("unit") == "bytes", limit: config.u64("limit") }
    }
    fn take(&mut self, frame: Frame, desk: &mut Desk, cx: &mut Context<'_>) {
        // pfifo_enqueue: "if (likely(sch->q.qlen < READ_ONCE(sch->limit)))"; bfifo_enqueue: "if (likely(sch->qstats.backlog + qdisc_pkt_len(skb) <= …".
        let fits = if self.bytes { frame.len() as u64 <= self.limit } else { self.limit > 0 };
        match fits {
            true => desk.send(frame, cx),
            false => desk.drop(frame, Reason::QueueFull, cx),
        }
    }
    fn run(&mut self, _desk: &mut Desk, _cx: &mut Context<'_>) {}
    fn empty(&mut self) -> Vec<Frame> {
        Vec::new()
    }
    fn get(&self, name: &str) -> Option<Value> {
        match name {
            "unit" => Some(if self.bytes { "bytes" } else { "packets" }.into()),
            "limit" => Some(self.limit.into()),
            _ => None,
        }
    }
    fn set(&mut self, name: &str, value: &Value) {
        if let ("limit", Some(limit)) = (name, value.as_u64()) {
            self.limit = limit;
        }
    }
    fn export(&self, _out: &mut Writer) {}
    fn import(&mut self, _from: &mut Reader<'_>) -> Result<(u64, u64), Damage> {
        Ok((0, 0))
    }
}

#[cfg(test)]
mod tests {
    use crate::tool::testing::Bench;
    use weft_core::*;

    #[test]
    fn what_fits_an_empty_queue_passes_and_the_rest_is_dropped_and_counted() {
        let mut bench = Bench::new("fifo", &[("limit", 100.into()), ("unit", "bytes".into())]);
        bench.send(Instant::ZERO, [60, 100, 101, 40].map(|bytes| Frame::ingress(&vec![0; bytes])));
        assert_eq!((bench.taken().len(), bench.counters()[..3].to_vec()), (3, vec![3, 200, 1]));
        assert_eq!(bench.drops(Reason::QueueFull), 1);
        let mut bench = Bench::new("fifo", &[]);
        bench.send(Instant::ZERO, [Frame::ingress(&[0; 60])]);
        bench.set("limit", "0").unwrap();
        bench.send(Instant::ZERO, [Frame::ingress(&[0; 60])]);
        assert_eq!(bench.counters()[..3], [1, 60, 1]);
    }

    #[test]
    fn frames_of_other_interfaces_pass_uncounted() {
        let mut bench = Bench::new("fifo", &[("interface", 3.into()), ("limit", 0.into())]);
        let frame = |index: u32| {
            let mut frame = Frame::ingress(&[index as u8; 60]);
            frame.meta_mut().interface = InterfaceIndex(index);
            frame
        };
        bench.send(Instant::ZERO, [frame(2), frame(3), frame(4)]);
        assert_eq!(bench.taken().iter().map(|frame| frame.head()[0]).collect::<Vec<_>>(), [2, 4]);
        assert_eq!(bench.counters()[..3], [0, 0, 1]);
    }
}
