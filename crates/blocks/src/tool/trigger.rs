//! Orders operations by a count of frames: the next one of a list whenever so many have passed.
//!
//! What it orders is carried out at the frame boundary behind the frame that was counted, by the code that answers the console
//! (`Context::order`): a wire becomes another at its thousandth frame, in every world and every run at the same one.

use serde::{Deserialize, Serialize};
use std::any::Any;
use std::collections::BTreeMap;
use weft_core::*;

/// Most orders of one list.
const ORDERS_MAX: usize = 256;

/// What this kind declares.
pub static KIND: Kind = Kind {
    name: "trigger",
    summary: "orders operations by a count of frames",
    doc: "Passes every frame on. Whenever `frames` more have passed it orders the next operation of `orders`, which is carried out behind them: commands \
          as on the console, `;` between them (`insert`, `extract`, `replace`, `set`, `exec` and the others that change or ask; not `subscribe`, \
          `snapshot` and `restore`). After the last one it counts on, and begins again if `again` is set. Each answer is an alert; what was refused \
          changes nothing, is counted, and `last_error` says why. Its state is how far it is: a successor goes on there.\n\
          Example: insert trigger interfaces:upper ether:lower; set trigger.orders \"set loss.probability 0.5; set loss.probability 0\"",
    inputs: &[Port::required("in", Carries::Any, "any frames")],
    outputs: &[Port::required("out", Carries::Any, "the same frames")],
    parameters: &[
        Parameter {
            name: "frames",
            value: ParameterType::Unsigned { min: 1, max: u64::MAX },
            default: "1000",
            live: true,
            doc: "frames from one order to the next",
        },
        Parameter {
            name: "orders",
            value: ParameterType::Text,
            default: "\"\"",
            live: true,
            doc: "commands, at most 256; a new list begins anew",
        },
        Parameter { name: "again", value: ParameterType::Bool, default: "false", live: true, doc: "begin again behind the last order" },
    ],
    alerts: &[Named { name: "answered", doc: "order (the command), answer or error: what came of an order" }],
    counters: &[
        Counter { name: "Passed", text: "frames passed on" },
        Counter { name: "Ordered", text: "operations ordered" },
        Counter { name: "Refused", text: "of these, those that were refused" },
    ],
    state_version: 1,
    ..Kind::EMPTY
};

/// How to make one.
pub const ROW: BlockRow = BlockRow {
    kind: &KIND,
    make: |config| {
        let text = config.text("orders");
        let orders = read(&config.name, &text)?;
        Ok(Box::new(Trigger {
            name: config.name.clone(),
            frames: config.u64("frames"),
            text,
            orders,
            again: config.bool("again"),
            progress: Progress::default(),
            asked: BTreeMap::new(),
            last_error: String::new(),
        }))
    },
};

/// The operations of a list.
fn read(block: &str, text: &str) -> Result<Vec<Op>, ControlError> {
    let refused = |why: String| ControlError::BadValue { block: block.to_owned(), parameter: "orders".to_owned(), why };
    let mut orders = Vec::new();
    for line in text.split(';') {
        orders.extend(command::parse(line).map_err(|error| refused(error.to_string()))?);
    }
    match orders.len() > ORDERS_MAX {
        true => Err(refused(format!("{} orders are too many: at most {ORDERS_MAX}", orders.len()))),
        false => Ok(orders),
    }
}

#[derive(Debug, Default, Serialize, Deserialize)]
struct Progress {
    /// Frames since the last order.
    counted: u64,
    /// Which order is next.
    next: u64,
    counters: [u64; 3],
}

/// The block.
#[derive(Debug)]
pub struct Trigger {
    name: String,
    frames: u64,
    text: String,
    orders: Vec<Op>,
    again: bool,
    progress: Progress,
    /// Orders whose answers are to come, in words.
    asked: BTreeMap<u64, String>,
    last_error: String,
}

impl Trigger {
    /// The frames of one vector pass together: as many orders as they are worth.
    fn order(&mut self, cx: &mut Context<'_>) {
        let due = self.progress.counted / self.frames;
        self.progress.counted %= self.frames;
        // More than a vector is worth is only there when `frames` has become a smaller number: what is behind the bound is not made up for.
        for _ in 0..due.min(ORDERS_MAX as u64) {
            if self.again && self.progress.next >= self.orders.len() as u64 {
                self.progress.next = 0;
            }
            let Some(op) = self.orders.get(self.progress.next as usize) else { continue };
            self.progress.counters[1] += 1;
            // The list may be another when the answer comes.
            let (serial, words) = (self.progress.counters[1], command::write(op).unwrap_or_default());
            match cx.order(serial, op.clone()) {
                Ok(()) => drop(self.asked.insert(serial, words)),
                Err(error) => self.refused(&error),
            }
            self.progress.next += 1;
        }
    }

    fn refused(&mut self, error: &ControlError) {
        self.progress.counters[2] += 1;
        self.last_error = error.to_string();
    }
}

impl Block for Trigger {
    fn kind(&self) -> &'static Kind {
        &KIND
    }

    fn process(&mut self, _port: InPort, vector: &mut Vector, cx: &mut Context<'_>) {
        vector.forward_all(OutPort(0));
        let frames = vector.len() as u64;
        self.progress.counters[0] += frames;
        // Behind the last order nothing is counted that nobody waits for.
        if !self.orders.is_empty() && (self.again || self.progress.next < self.orders.len() as u64) {
            self.progress.counted += frames;
            self.order(cx);
        }
    }

    fn answered(&mut self, serial: u64, result: Result<Value, ControlError>, cx: &mut Context<'_>) {
        let order = self.asked.remove(&serial).unwrap_or_default();
        cx.alert(
            "answered",
            match &result {
                Ok(answer) => serde_json::json!({"order": order, "answer": answer}),
                Err(error) => serde_json::json!({"order": order, "error": error.to_string()}),
            },
        );
        if let Err(error) = result {
            self.refused(&error);
        }
    }

    fn get(&self, name: &str, _now: Instant) -> Option<Value> {
        Some(match name {
            "frames" => self.frames.into(),
            "orders" => self.text.clone().into(),
            "again" => self.again.into(),
            "last_error" => self.last_error.clone().into(),
            _ => return None,
        })
    }

    fn check(&self, name: &str, value: &Value) -> Result<(), ControlError> {
        match (name, value.as_str()) {
            ("orders", Some(text)) => read(&self.name, text).map(drop),
            _ => Ok(()),
        }
    }

    fn set(&mut self, name: &str, value: Value, _cx: &mut Context<'_>) {
        match (name, &value) {
            ("orders", Value::String(text)) => {
                self.orders = read(&self.name, text).unwrap_or_default();
                self.text.clone_from(text);
                (self.progress.next, self.progress.counted) = (0, 0);
            }
            ("again", Value::Bool(again)) => self.again = *again,
            ("frames", value) => self.frames = value.as_u64().unwrap_or(1).max(1),
            _ => {}
        }
    }

    fn counters(&self) -> &[u64] {
        &self.progress.counters
    }

    fn export(&self, _now: Instant) -> Result<State, StateError> {
        State::write(KIND.name, KIND.state_version, &self.progress)
    }

    fn import(&mut self, state: &State, _now: Instant) -> Result<(), StateError> {
        self.progress = state.read(KIND.name, KIND.state_version)?;
        Ok(())
    }

    fn as_any_mut(&mut self) -> &mut dyn Any {
        self
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::tool::testing::Bench;

    fn frames(count: u8) -> impl Iterator<Item = Frame> {
        (0..count).map(|number| Frame::ingress(&[number]))
    }

    /// Sends one after the other; returns how many came out.
    fn passed(bench: &mut Bench, count: u8) -> usize {
        frames(count).map(|frame| bench.send(Instant::ZERO, [frame])).count();
        bench.taken().len()
    }

    #[test]
    fn a_block_is_inserted_and_extracted_by_the_count() {
        let orders = "add hole loss probability=1; insert hole tool end; extract hole; delete hole";
        let mut bench = Bench::new("trigger", &[("frames", 5.into()), ("orders", orders.into())]);
        assert_eq!(passed(&mut bench, 10), 10, "the tenth is counted, and passes");
        assert_eq!(passed(&mut bench, 5), 0);
        assert_eq!(passed(&mut bench, 4), 4);
        assert!(bench.engine.graph().find("hole").is_some());
        assert_eq!(passed(&mut bench, 3), 3);
        assert_eq!(bench.engine.graph().find("hole"), None);
        assert_eq!(bench.counters(), [22, 4, 0]);
        assert_eq!(bench.get("last_error"), Value::from(""));
    }

    #[test]
    fn what_cannot_be_is_told_with_its_reason_and_the_list_goes_on() {
        let mut bench =
            Bench::new("trigger", &[("frames", 1.into()), ("orders", "extract nobody; bind tool:out end:in; set tool.frames 7".into())]);
        passed(&mut bench, 2);
        assert_eq!(bench.counters(), [2, 2, 2]);
        assert_eq!(bench.get("last_error"), Value::from("tool:out is bound to end:in already; unbind it first, or put a tee between"));
        let alerts = bench.engine.take_alerts();
        assert_eq!(alerts[0].value["order"], "extract nobody");
        assert!(alerts[0].value["error"].as_str().unwrap().starts_with("there is no block named 'nobody'"));
        passed(&mut bench, 1);
        assert_eq!(bench.get("frames"), Value::from(7));
        assert!(bench.set("orders", "insert one").is_err());
    }

    #[test]
    fn it_begins_again_if_it_is_to_and_a_successor_goes_on_where_the_block_was() {
        let mut bench = Bench::new(
            "trigger",
            &[("frames", 2.into()), ("orders", "set tool.frames 2; set tool.frames 3".into()), ("again", true.into())],
        );
        passed(&mut bench, 4);
        assert_eq!(bench.get("frames"), Value::from(3));
        passed(&mut bench, 1);
        bench.replace("trigger");
        passed(&mut bench, 1);
        assert_eq!(bench.get("frames"), Value::from(3));
        passed(&mut bench, 1);
        assert_eq!((bench.get("frames"), bench.counters()), (Value::from(2), &[7, 3, 0][..]));
    }

    #[test]
    fn a_count_that_is_far_ahead_orders_a_bounded_number() {
        let mut bench =
            Bench::new("trigger", &[("frames", (1_u64 << 62).into()), ("orders", "get tool.frames".into()), ("again", true.into())]);
        let far = Progress { counted: u64::MAX / 2, ..Progress::default() };
        let state = State::write(KIND.name, KIND.state_version, &far).unwrap();
        let mut states = Snapshot::states(bench.engine.graph(), Instant::ZERO).unwrap();
        states.iter_mut().filter(|(name, _)| name == "tool").for_each(|(_, own)| own.clone_from(&state));
        let plan = bench.engine.prepare_restore(Instant::ZERO, &states).unwrap();
        bench.engine.commit(plan);
        bench.set("frames", "1").unwrap();
        assert_eq!(passed(&mut bench, 1), 1);
        assert!(bench.counters()[1] <= ORDERS_MAX as u64, "{:?}", bench.counters());
    }

    #[test]
    fn an_answer_names_its_own_order() {
        let orders = "set tool.orders 'get tool.again'";
        let mut bench = Bench::new("trigger", &[("frames", 1.into()), ("orders", orders.into())]);
        passed(&mut bench, 1);
        assert_eq!(bench.engine.take_alerts()[0].value["order"], orders);
    }
}
