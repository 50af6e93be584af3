//! Passes frames on, and a copy of each out of a second port.
//!
//! A copy shares the payload with its original and carries no completion: only the original's sender is told that it has left.

use std::any::Any;
use weft_core::*;

const OUT: OutPort = OutPort(0);
const COPY: OutPort = OutPort(1);

/// What this kind declares.
pub static KIND: Kind = Kind {
    name: "tee",
    summary: "passes frames on, and copies out of a second port",
    doc: "Passes every frame on through `out` and a copy of it through `copy`, if that is bound. Headers are copied, payload is shared. \
          Copies carry no completion.\nExample: insert tee interfaces:upper ether:lower; bind tee:copy counter:in",
    inputs: &[Port::required("in", Carries::Any, "any frames")],
    outputs: &[Port::required("out", Carries::Any, "the same frames"), Port::optional("copy", Carries::Any, "copies of them")],
    counters: &[Counter { name: "Copies", text: "copies made" }],
    ..Kind::EMPTY
};

/// How to make one.
pub const ROW: BlockRow = BlockRow { kind: &KIND, make: |_| Ok(Box::new(Tee::default())) };

/// The block.
#[derive(Debug, Default)]
pub struct Tee {
    counters: [u64; 1],
}

impl Block for Tee {
    fn kind(&self) -> &'static Kind {
        &KIND
    }

    fn process(&mut self, _port: InPort, vector: &mut Vector, cx: &mut Context<'_>) {
        vector.forward_all(OUT);
        if !cx.is_bound(COPY) {
            return;
        }
        for (_, frame) in vector.iter() {
            let mut copy = frame.clone();
            copy.take_completion();
            self.counters[0] += 1;
            cx.emit(COPY, copy);
        }
    }

    fn counters(&self) -> &[u64] {
        &self.counters
    }

    fn as_any_mut(&mut self) -> &mut dyn Any {
        self
    }
}
