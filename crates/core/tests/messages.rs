//! Stream messages of one block come in the order in which it said them, also where the first of them leads to more.

use std::any::Any;
use weft_core::*;

const UPPER: OutPort = OutPort(0);
const LOWER: OutPort = OutPort(1);

/// What a message says, as credit.
fn credit(bytes: u32) -> StreamMessage {
    StreamMessage::Credit { flow: FlowId(1), bytes, enough: 0 }
}

static BETWEEN: Kind = Kind {
    name: "between",
    inputs: &[Port::required("upper", Carries::Stream, ""), Port::required("lower", Carries::Stream, "")],
    outputs: &[Port::required("upper", Carries::Stream, ""), Port::required("lower", Carries::Stream, "")],
    ..Kind::EMPTY
};

/// Says 0 upward and then 1, 2 and 3 downward; what comes from above it hands down.
struct Between;

impl Block for Between {
    fn kind(&self) -> &'static Kind {
        &BETWEEN
    }
    fn stream(&mut self, port: InPort, message: StreamMessage, cx: &mut Context<'_>) {
        if port == InPort(0) {
            return cx.send(LOWER, message);
        }
        cx.send(UPPER, credit(0));
        (1..=3).for_each(|number| cx.send(LOWER, credit(number)));
    }
    fn as_any_mut(&mut self) -> &mut dyn Any {
        self
    }
}

static END: Kind = Kind {
    name: "end",
    inputs: &[Port::required("in", Carries::Stream, "")],
    outputs: &[Port::required("out", Carries::Stream, "")],
    ..Kind::EMPTY
};

/// Answers 0 by 4 and 5, and 1 to 3 by nothing; notes what comes.
#[derive(Default)]
struct End_ {
    had: Vec<u32>,
}

impl Block for End_ {
    fn kind(&self) -> &'static Kind {
        &END
    }
    fn stream(&mut self, _port: InPort, message: StreamMessage, cx: &mut Context<'_>) {
        let StreamMessage::Credit { bytes, .. } = message else { panic!("{message:?}") };
        self.had.push(bytes);
        if bytes == 0 {
            (4..=5).for_each(|number| cx.send(OutPort(0), credit(number)));
        }
    }
    fn as_any_mut(&mut self) -> &mut dyn Any {
        self
    }
}

#[test]
fn what_a_block_says_when_it_is_called_back_comes_behind_what_it_has_said() {
    for mode in [Mode::Inline, Mode::Queued] {
        let rows = [
            BlockRow { kind: &BETWEEN, make: |_| Ok(Box::new(Between)) },
            BlockRow { kind: &END, make: |_| Ok(Box::new(End_::default())) },
        ];
        let mut engine = Engine::new(mode, BlockTable::new(rows), Rng::for_name(1, "messages"));
        let add = |name: &str, kind: &str| Op::Add { name: name.to_owned(), kind: kind.to_owned(), parameters: Default::default() };
        let bind = |from, to| Op::Bind { from: End::parse(from), to: End::parse(to) };
        let op = Op::All(vec![
            add("above", "end"),
            add("between", "between"),
            add("below", "end"),
            bind("above:out", "between:upper"),
            bind("between:upper", "above:in"),
            bind("between:lower", "below:in"),
            bind("below:out", "between:lower"),
        ]);
        engine.control(Instant::ZERO, &Message { serial: 1, op }).result.unwrap();
        let below = engine.graph().find("below").unwrap();
        for _ in 0..2 {
            engine.with(Instant::ZERO, below, |_, cx| cx.send(OutPort(0), credit(9))).unwrap();
            let had =
                engine.with(Instant::ZERO, below, |block, _| std::mem::take(&mut block.as_any_mut().downcast_mut::<End_>().unwrap().had));
            assert_eq!(had.unwrap(), [1, 2, 3, 4, 5], "{mode:?}");
        }
    }
}

/// Answers each number by the one below it, down to 0; notes how many came.
#[derive(Default)]
struct Counts {
    had: u32,
}

impl Block for Counts {
    fn kind(&self) -> &'static Kind {
        &END
    }
    fn stream(&mut self, _port: InPort, message: StreamMessage, cx: &mut Context<'_>) {
        let StreamMessage::Credit { bytes, .. } = message else { panic!("{message:?}") };
        self.had += 1;
        if bytes > 0 {
            cx.send(OutPort(0), credit(bytes - 1));
        }
    }
    fn as_any_mut(&mut self) -> &mut dyn Any {
        self
    }
}

#[test]
fn however_often_two_blocks_answer_each_other_no_message_is_lost() {
    const NUMBERS: u32 = 10_000;
    for mode in [Mode::Inline, Mode::Queued] {
        let rows = [BlockRow { kind: &END, make: |_| Ok(Box::new(Counts::default())) }];
        let mut engine = Engine::new(mode, BlockTable::new(rows), Rng::for_name(1, "messages"));
        let add = |name: &str| Op::Add { name: name.to_owned(), kind: "end".to_owned(), parameters: Default::default() };
        let bind = |from, to| Op::Bind { from: End::parse(from), to: End::parse(to) };
        let op = Op::All(vec![add("one"), add("other"), bind("one:out", "other:in"), bind("other:out", "one:in")]);
        engine.control(Instant::ZERO, &Message { serial: 1, op }).result.unwrap();
        let [one, other] = ["one", "other"].map(|name| engine.graph().find(name).unwrap());
        engine.with(Instant::ZERO, one, |_, cx| cx.send(OutPort(0), credit(NUMBERS))).unwrap();
        engine.run(Instant::ZERO);
        let had = [one, other]
            .map(|id| engine.with(Instant::ZERO, id, |block, _| block.as_any_mut().downcast_mut::<Counts>().unwrap().had).unwrap());
        assert_eq!(had.iter().sum::<u32>(), NUMBERS + 1, "{mode:?}");
    }
}
