//! Ends every frame that reaches it: a place for what is not wanted, and the end of a chain that is measured.

use std::any::Any;
use weft_core::*;

/// What this kind declares.
pub static KIND: Kind = Kind {
    name: "drop",
    summary: "drops every frame, and counts them as drops do",
    doc: "Drops every frame [`discarded`]; `weft show drops` tells how many. Their senders hear that they have left, so nobody waits.\n\
          Example: bind filter:rejected drop:in",
    inputs: &[Port::required("in", Carries::Any, "any frames")],
    ..Kind::EMPTY
};

/// How to make one.
pub const ROW: BlockRow = BlockRow { kind: &KIND, make: |_| Ok(Box::new(Drop)) };

/// The block.
#[derive(Debug)]
pub struct Drop;

impl Block for Drop {
    fn kind(&self) -> &'static Kind {
        &KIND
    }

    fn process(&mut self, _port: InPort, vector: &mut Vector, _cx: &mut Context<'_>) {
        vector.set_all(Verdict::Drop(Reason::Discarded));
    }

    fn as_any_mut(&mut self) -> &mut dyn Any {
        self
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_frame_ends_counted_and_its_sender_hears_of_it() {
        let table = BlockTable::new([ROW, super::super::forward::ROW]);
        let mut engine = Engine::new(Mode::Inline, table, Rng::for_name(1, "drop"));
        let add = |name: &str, kind: &str| Op::Add { name: name.to_owned(), kind: kind.to_owned(), parameters: Default::default() };
        let bind = Op::Bind { from: End::parse("forward:out"), to: End::parse("drop:in") };
        let op = Op::All(vec![add("forward", "forward"), add("drop", "drop"), bind]);
        engine.control(Instant::ZERO, &Message { serial: 1, op }).result.unwrap();
        let first = engine.graph().find("forward").unwrap();
        engine.inject(Instant::ZERO, first, InPort(0), (0..100).map(|_| Frame::ingress(&[0; 60])));
        assert!(!engine.has_outgoing());
        let shown = engine.control(Instant::ZERO, &Message { serial: 2, op: Op::Show(Show::Drops) }).result.unwrap();
        let row = (shown[0]["block"].as_str(), shown[0]["reason"].as_str(), shown[0]["frames"].as_u64());
        assert_eq!(row, (Some("drop"), Some("discarded"), Some(100)));
    }
}
