//! Parameters of blocks that name an interface.

use weft_core::control::{Op, Value};
use weft_core::{Block, BlockRow, BlockTable, Engine, Instant, Kind, Message, Mode, Parameter, ParameterType, Rng, command};

static PICKER: Kind = Kind {
    name: "picker",
    parameters: &[Parameter { name: "via", value: ParameterType::Interface, default: "\"wan\"", live: true, doc: "" }],
    ..Kind::EMPTY
};

struct Picker(Value);

impl Block for Picker {
    fn kind(&self) -> &'static Kind {
        &PICKER
    }
    fn get(&self, _: &str, _: Instant) -> Option<Value> {
        Some(self.0.clone())
    }
    fn set(&mut self, _: &str, value: Value, _: &mut weft_core::context::Context<'_>) {
        self.0 = value;
    }
    fn as_any_mut(&mut self) -> &mut dyn std::any::Any {
        self
    }
}

#[test]
fn a_parameter_that_names_an_interface_names_one_that_there_is() {
    let picker = BlockRow { kind: &PICKER, make: |config| Ok(Box::new(Picker(config.value("via")))) };
    let rows: Vec<BlockRow> = weft_blocks::table::rows().into_iter().chain([picker]).collect();
    let mut engine = Engine::new(Mode::Inline, BlockTable::new(rows), Rng::for_name(1, "picker"));
    let mut told = |line: &str| {
        let ops = line.split(';').map(|line| command::parse(line).unwrap().unwrap()).collect::<Vec<_>>();
        let op = if let [one] = &ops[..] { one.clone() } else { Op::All(ops) };
        engine.control(Instant::ZERO, &Message { serial: 1, op }).result.map_err(|error| error.to_string())
    };
    told("add interfaces interfaces").unwrap();
    // Whoever makes a graph names interfaces before there are any.
    told("add early picker via=eth7").unwrap();
    told("exec interfaces add name=eth0").unwrap();
    told("exec interfaces add name=eth1").unwrap();
    let why = |name: &str, near: &str| format!("there is no interface '{name}'; {near}there are: lo, eth0, eth1");
    assert_eq!(told("add late picker via=wan").unwrap_err(), format!("late.via: {}", why("wan", "")));
    assert_eq!(told("add late picker via=eth7").unwrap_err(), format!("late.via: {}", why("eth7", "did you mean 'eth0'? ")));
    assert_eq!(told("set early.via wan").unwrap_err(), format!("early.via: {}", why("wan", "")));
    assert_eq!(told("replace early picker via=wan").unwrap_err(), format!("early.via: {}", why("wan", "")));
    // What is not given is not judged, nor what stays what it was; and no name is no interface.
    told("add late picker").unwrap();
    told("replace early picker").unwrap();
    for name in ["eth0", "lo", "''"] {
        told(&format!("set early.via {name}")).unwrap();
    }
}
