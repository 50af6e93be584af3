//! The block of benchmarks: it reads and writes a byte of the header.

use std::any::Any;
use weft_core::*;

pub const ROW: BlockRow = BlockRow { kind: &TOUCH, make: |_| Ok(Box::new(Touch)) };

static TOUCH: Kind = Kind {
    name: "touch",
    summary: "counts a byte of the header up",
    inputs: &[Port::optional("in", Carries::Any, "frames")],
    outputs: &[Port::outside("out", Carries::Any, "the same frames")],
    ..Kind::EMPTY
};

struct Touch;

impl Block for Touch {
    fn kind(&self) -> &'static Kind {
        &TOUCH
    }
    fn process(&mut self, _port: InPort, vector: &mut Vector, _cx: &mut Context<'_>) {
        vector.each(|frame| {
            if let Some(byte) = frame.head_mut().get_mut(8) {
                *byte = byte.wrapping_add(1);
            }
            Verdict::Forward(OutPort(0))
        });
    }
    fn as_any_mut(&mut self) -> &mut dyn Any {
        self
    }
}
