//! Sends frames out of the port of the first class that they belong to.
//!
//! What belongs to a class an expression says: a 5-tuple (`tcp src host 192.0.2.1 and dst port 443`), a DSCP, a group of interfaces, or whatever
//! else a filter's expression can say. Rejected: a list of rules in one parameter, of which one cannot be changed without the others.

use super::condition::{Condition, Groups};
use serde::{Deserialize, Serialize};
use std::any::Any;
use weft_core::expression::Framing;
use weft_core::*;

/// Classes of one block.
pub const CLASSES_MAX: usize = 8;
const OTHERS: OutPort = OutPort(0);

const fn class(name: &'static str) -> Parameter {
    let doc = "what belongs to this class, if it belongs to none before: an expression such as \"udp port 53\", \"dscp ef\", \"iifgroup 7 and tcp\", or a \
               program as filter's; empty: nothing";
    Parameter { name, value: ParameterType::Text, default: "\"\"", live: true, doc }
}

const fn port(name: &'static str) -> Port {
    Port::optional(name, Carries::Any, "frames of this class; not bound: they leave through out")
}

/// What this kind declares.
pub static KIND: Kind = Kind {
    name: "classify",
    summary: "sends frames out of the port of the first class that they belong to",
    doc: "Asks about each frame as it is on this edge, class by class in the order of their numbers; it leaves through the port of the first one that \
          it belongs to. What belongs to none leaves through out, and so does what belongs to a class whose port is not bound: it is counted \
          for its class all the same. Classes are said by expressions as filter's: 5-tuples, `dscp ef`, `group 7` (`iifgroup`, `oifgroup`) of the \
          interface, with and, or, not. They can be set while traffic flows, and follow interfaces that move to another group. Large frames are \
          judged whole, by their first segment. Counts survive a replacement.\n\
          Example: add slow rate rate=1mbit; insert classify ip4:lower arp:upper; set classify.class1 'udp port 53 or dscp ef'; \
          bind classify:class1 slow:in; bind slow:out arp:upper",
    inputs: &[Port::required("in", Carries::Any, "any frames")],
    outputs: &[
        Port::required("out", Carries::Any, "frames of no class"),
        port("class1"),
        port("class2"),
        port("class3"),
        port("class4"),
        port("class5"),
        port("class6"),
        port("class7"),
        port("class8"),
    ],
    parameters: &[
        class("class1"),
        class("class2"),
        class("class3"),
        class("class4"),
        class("class5"),
        class("class6"),
        class("class7"),
        class("class8"),
        Parameter {
            name: "link",
            value: ParameterType::Choice(&["ethernet", "ip"]),
            default: "\"ip\"",
            live: false,
            doc: "what frames begin with on this edge",
        },
    ],
    counters: &[
        Counter { name: "Others", text: "frames of no class" },
        Counter { name: "Class1", text: "frames of the first class" },
        Counter { name: "Class2", text: "frames of the second class" },
        Counter { name: "Class3", text: "frames of the third class" },
        Counter { name: "Class4", text: "frames of the fourth class" },
        Counter { name: "Class5", text: "frames of the fifth class" },
        Counter { name: "Class6", text: "frames of the sixth class" },
        Counter { name: "Class7", text: "frames of the seventh class" },
        Counter { name: "Class8", text: "frames of the eighth class" },
    ],
    asks: &[Table::Interfaces],
    state_version: 1,
    ..Kind::EMPTY
};

/// How to make one.
pub const ROW: BlockRow = BlockRow {
    kind: &KIND,
    make: |config| {
        let mut block = Classify { name: config.name.clone(), link: config.text("link"), ..Classify::default() };
        for parameter in &KIND.parameters[..CLASSES_MAX] {
            let text = config.text(parameter.name);
            let condition = Condition::parse(&text, Framing::named(&block.link)).map_err(|why| config.bad(parameter.name, why))?;
            block.classes.push(Class { text, condition });
        }
        Ok(Box::new(block))
    },
};

#[derive(Debug, Default)]
struct Class {
    text: String,
    condition: Option<Condition>,
}

/// The block.
#[derive(Debug, Default)]
pub struct Classify {
    name: String,
    link: String,
    classes: Vec<Class>,
    groups: Groups,
    counters: [u64; CLASSES_MAX + 1],
}

#[derive(Serialize, Deserialize)]
struct Exported {
    counters: [u64; CLASSES_MAX + 1],
}

/// Which class a parameter is about, from 0.
fn number(name: &str) -> Option<usize> {
    KIND.parameters[..CLASSES_MAX].iter().position(|parameter| parameter.name == name)
}

impl Block for Classify {
    fn kind(&self) -> &'static Kind {
        &KIND
    }

    fn process(&mut self, _port: InPort, vector: &mut Vector, cx: &mut Context<'_>) {
        let bound: [bool; CLASSES_MAX + 1] = std::array::from_fn(|port| cx.is_bound(OutPort(port as u8)));
        vector.each(|frame| {
            let groups = &mut self.groups;
            let belongs = |class: &Class| class.condition.as_ref().is_some_and(|condition| condition.accepts(frame, groups, cx));
            let class = self.classes.iter().position(belongs).map_or(0, |class| class + 1);
            self.counters[class] += 1;
            Verdict::Forward(if bound[class] { OutPort(class as u8) } else { OTHERS })
        });
    }

    fn table_changed(&mut self, table: Table, cx: &mut Context<'_>) {
        self.groups.table_changed(table, cx);
    }

    fn row_changed(&mut self, table: Table, row: Row, cx: &mut Context<'_>) {
        self.groups.row_changed(table, row, cx);
    }

    fn get(&self, name: &str, _now: Instant) -> Option<Value> {
        match number(name) {
            Some(class) => self.classes.get(class).map(|class| class.text.clone().into()),
            None => (name == "link").then(|| self.link.clone().into()),
        }
    }

    fn check(&self, name: &str, value: &Value) -> Result<(), ControlError> {
        let read = Condition::parse(value.as_str().unwrap_or_default(), Framing::named(&self.link));
        read.map(|_| ()).map_err(|why| ControlError::BadValue { block: self.name.clone(), parameter: name.to_owned(), why })
    }

    fn set(&mut self, name: &str, value: Value, _cx: &mut Context<'_>) {
        let text = value.as_str().unwrap_or_default().to_owned();
        if let Some(class) = number(name).and_then(|class| self.classes.get_mut(class)) {
            // Cannot fail: it was checked.
            let condition = Condition::parse(&text, Framing::named(&self.link)).unwrap_or_default();
            *class = Class { text, condition };
        }
    }

    fn counters(&self) -> &[u64] {
        &self.counters
    }

    fn export(&self, _now: Instant) -> Result<State, StateError> {
        State::write(KIND.name, KIND.state_version, &Exported { counters: self.counters })
    }

    fn import(&mut self, state: &State, _now: Instant) -> Result<(), StateError> {
        self.counters = state.read::<Exported>(KIND.name, KIND.state_version)?.counters;
        Ok(())
    }

    fn as_any_mut(&mut self) -> &mut dyn Any {
        self
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::tool::testing::{Bench, large_udp};

    fn packet(tos: u8, interface: u32) -> Frame {
        let mut frame = large_udp(1, 10);
        frame.head_mut()[1] = tos;
        frame.meta_mut().interface = InterfaceIndex(interface);
        frame
    }

    #[test]
    fn the_first_class_wins_and_what_is_not_bound_leaves_with_the_others() {
        let mut bench = Bench::new("classify", &[("class1", "dscp ef".into()), ("class3", "udp dst port 2".into())]);
        bench.send(Instant::ZERO, [packet(0xb8, 1), packet(0, 1)]);
        assert_eq!((bench.taken().len(), bench.counters()), (2, &[0, 1, 0, 1, 0, 0, 0, 0, 0][..]));
        bench.set("class3", "tcp").unwrap();
        bench.send(Instant::ZERO, [packet(0, 1)]);
        assert_eq!((bench.taken().len(), bench.counters()[0]), (1, 1));
        let refused = bench.set("class1", "dscp gold").unwrap_err().to_string();
        assert!(refused.contains("class1") && refused.contains("a code point is"), "{refused}");
        assert_eq!(bench.get("class1"), "dscp ef");
        bench.replace("classify");
        assert_eq!(bench.counters(), [1, 1, 0, 1, 0, 0, 0, 0, 0], "counts survive, classes are parameters");
    }

    #[test]
    fn groups_are_followed_as_interfaces_move() {
        let mut bench = Bench::with("classify", &[("class2", "group 7".into())], crate::link::interfaces::ROW);
        let run = |bench: &mut Bench, procedure: &str, arguments: Value| {
            let op = Op::Exec { target: Selector::parse("interfaces"), procedure: procedure.to_owned(), arguments };
            bench.engine.control(Instant::ZERO, &Message { serial: 9, op }).result.unwrap()
        };
        let index = run(&mut bench, "add", serde_json::json!({"name": "wlan0"}))["interfaces"]["index"].as_u64();
        let index = index.unwrap_or(2) as u32;
        let classes = |bench: &mut Bench| {
            bench.send(Instant::ZERO, [packet(0, index), packet(0, 77), packet(0, 0)]);
            (bench.counters()[0], bench.counters()[2])
        };
        assert_eq!(classes(&mut bench), (3, 0));
        run(&mut bench, "set", serde_json::json!({"name": "wlan0", "group": 7}));
        assert_eq!(classes(&mut bench), (5, 1), "it has come into the group");
        run(&mut bench, "set", serde_json::json!({"of_group": 7, "group": 0}));
        assert_eq!(classes(&mut bench), (8, 1), "the group has moved on");
        let get = |bench: &mut Bench, text: &str| {
            let Selector::Group(group) = Selector::parse(text) else { panic!("{text} is a group") };
            let (group, figure) = group.split_once('.').map_or((group.as_str(), None), |(group, figure)| (group, Some(figure.to_owned())));
            let op = Op::Get { target: Selector::Group(group.to_owned()), name: figure };
            bench.engine.control(Instant::ZERO, &Message { serial: 9, op }).result
        };
        run(&mut bench, "set", serde_json::json!({"name": "wlan0", "group": 7}));
        let all = get(&mut bench, "group:7").unwrap();
        assert_eq!((all["wlan0"]["rx_bytes"].as_u64(), all["group:7"]["tx_packets"].as_u64()), (Some(0), Some(0)));
        assert_eq!(get(&mut bench, "group:9.rx_bytes").unwrap(), serde_json::json!({"group:9": 0}));
        assert!(get(&mut bench, "group:7.rx_byte").unwrap_err().to_string().contains("did you mean 'rx_bytes'"));
        assert!(get(&mut bench, "group:wifi").unwrap_err().to_string().contains("matches nothing"));
    }
}
