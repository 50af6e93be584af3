//! Passes frames on unchanged: a place to hold an edge open, and the cheapest block to measure an engine with.

use std::any::Any;
use weft_core::*;

/// What this kind declares.
pub static KIND: Kind = Kind {
    name: "forward",
    summary: "passes frames on unchanged",
    doc: "Passes every frame on as it is. It drops nothing and keeps nothing.\nExample: insert forward ip4:lower arp:upper",
    inputs: &[Port::required("in", Carries::Any, "any frames")],
    outputs: &[Port::required("out", Carries::Any, "the same frames")],
    ..Kind::EMPTY
};

/// How to make one.
pub const ROW: BlockRow = BlockRow { kind: &KIND, make: |_| Ok(Box::new(Forward)) };

/// The block.
#[derive(Debug)]
pub struct Forward;

impl Block for Forward {
    fn kind(&self) -> &'static Kind {
        &KIND
    }

    fn process(&mut self, _port: InPort, vector: &mut Vector, _cx: &mut Context<'_>) {
        vector.forward_all(OutPort(0));
    }

    fn as_any_mut(&mut self) -> &mut dyn Any {
        self
    }
}
