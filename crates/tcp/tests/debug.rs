mod common;
use common::pair::{Pair, Wire};
use common::pattern;
use weft_core::*;
#[test]
fn debug() {
    let mut pair = Pair::new(11, Wire { loss: 0.2, rate: 100_000_000, queue: 250_000, ..Wire::default() }, &[]);
    pair.connect(StreamOptions::default());
    pair.app(0, |app, _| app.flow(FlowId(1)).unsent.push_back(pattern(1_000_000)));
    pair.log = Some(vec![]);
    let until = pair.now + Duration::from_secs(200);
    pair.run(until, |_| false);
    let mut last = Instant::ZERO;
    for (at, from, w) in pair.log.as_ref().unwrap().iter().take(400) {
        let s = &w.segment;
        println!("{at} +{:?} {} {:?} seq {} ack {} len {} sack {:?}", *at - last, if *from == 0 {"C>"} else {"  <S"}, s.flags, s.seq.0.wrapping_sub(0), s.ack.0, w.payload.len(), s.options.sack);
        last = *at;
    }
}
