//! Parameters that name a block which schedules.

use std::any::Any;
use weft_core::{Block, BlockRow, BlockTable, Engine, Kind, Message, Mode, Op, Parameter, ParameterType, Rng, Table, command};

struct Empty(&'static Kind);

impl Block for Empty {
    fn kind(&self) -> &'static Kind {
        self.0
    }
    fn as_any_mut(&mut self) -> &mut dyn Any {
        self
    }
}

static ASKS: Kind = Kind {
    name: "asks",
    parameters: &[Parameter { name: "by", value: ParameterType::Scheduler(&["own"]), default: "\"own\"", live: true, doc: "" }],
    asks: &[Table::Schedulers],
    ..Kind::EMPTY
};
static SCHEDULES: Kind = Kind { name: "schedules", owns: &[Table::Schedulers], ..Kind::EMPTY };

fn tell(engine: &mut Engine, lines: &str) -> Result<(), String> {
    let ops: Vec<Op> = lines.lines().filter_map(|line| command::parse(line.trim()).unwrap()).collect();
    let now = engine.now();
    engine.control(now, &Message { serial: 1, op: Op::All(ops) }).result.map(drop).map_err(|error| error.to_string())
}

#[test]
fn the_block_that_a_parameter_names_has_to_be_there() {
    let rows = [
        BlockRow { kind: &ASKS, make: |_| Ok(Box::new(Empty(&ASKS))) },
        BlockRow { kind: &SCHEDULES, make: |_| Ok(Box::new(Empty(&SCHEDULES))) },
    ];
    let mut engine = Engine::new(Mode::Inline, BlockTable::new(rows), Rng::for_name(1, "test"));
    tell(&mut engine, "add a asks").unwrap();
    assert!(tell(&mut engine, "set a.by block:s").unwrap_err().contains("there is no block 's': `load FILE` and `add s KIND`"));
    assert!(tell(&mut engine, "set a.by block:a").unwrap_err().contains("block 'a' is no scheduler"));
    assert!(tell(&mut engine, "set a.by block:").unwrap_err().contains("is none of: own, block:NAME"));
    assert!(tell(&mut engine, "add b asks by=block:s").unwrap_err().contains("there is no block 's'"));
    // In one transaction, in any order.
    tell(&mut engine, "set a.by block:s\nadd s schedules").unwrap();
    assert!(tell(&mut engine, "set a.by block:t").unwrap_err().contains("the scheduler of this node is 's'"));
    assert!(tell(&mut engine, "add t schedules").is_err(), "there is one");
    // What is set behind it counts.
    tell(&mut engine, "set a.by block:none\nset a.by own").unwrap();
    tell(&mut engine, "delete s").unwrap();
    // A value that another block hands over is not looked at: what it names may be gone.
    tell(&mut engine, "replace a asks").unwrap();
}
