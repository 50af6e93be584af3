//! A graph of one loaded block between the world and an end, and modules as text.
#![allow(dead_code, reason = "each test takes what it needs")]

use std::any::Any;
use std::path::PathBuf;
use std::sync::Arc;
use weft_core::*;
use weft_plugin::Files;

static END: Kind = Kind {
    name: "end",
    inputs: &[Port::optional("in", Carries::Any, "what came out")],
    outputs: &[Port::outside("out", Carries::Any, "the same")],
    ..Kind::EMPTY
};

struct End;

impl Block for End {
    fn kind(&self) -> &'static Kind {
        &END
    }
    fn process(&mut self, _port: InPort, vector: &mut Vector, _cx: &mut Context<'_>) {
        vector.forward_all(OutPort(0));
    }
    fn as_any_mut(&mut self) -> &mut dyn Any {
        self
    }
}

/// Commands, a line each.
pub fn tell(engine: &mut Engine, lines: &str) -> Result<Value, ControlError> {
    let ops: Vec<Op> = lines.lines().filter_map(|line| command::parse(line.trim()).unwrap()).collect();
    let op = if ops.len() == 1 { ops[0].clone() } else { Op::All(ops) };
    let now = engine.now();
    engine.control(now, &Message { serial: 1, op }).result
}

/// A folder of this test's own.
pub fn folder(name: &str) -> PathBuf {
    let folder = PathBuf::from(env!("CARGO_TARGET_TMPDIR")).join(name);
    std::fs::create_dir_all(&folder).unwrap();
    folder
}

pub fn engine(folder: PathBuf) -> Engine {
    let mut table = BlockTable::new([BlockRow { kind: &END, make: |_| Ok(Box::new(End)) }]);
    table.set_loader(Some(Arc::new(Files::in_folder(folder))));
    let mut engine = Engine::new(Mode::Inline, table, Rng::for_name(1, "test"));
    tell(&mut engine, "add end end").unwrap();
    engine
}

/// An engine with this module in it as block `b` of kind `kind`, bound to the end.
pub fn with(name: &str, kind: &str, module: &str, parameters: &str) -> Engine {
    let folder = folder(name);
    std::fs::write(folder.join("a.wasm"), wat::parse_str(module).unwrap()).unwrap();
    let mut engine = engine(folder);
    tell(&mut engine, &format!("load a.wasm\nadd b {kind} {parameters}\nbind b:out end:in")).unwrap();
    engine
}

pub fn send(engine: &mut Engine, frames: impl IntoIterator<Item = Frame>) -> Vec<Frame> {
    let block = engine.graph().find("b").unwrap();
    let now = engine.now();
    engine.inject(now, block, InPort(0), frames);
    engine.take_outgoing().into_iter().map(|out| out.frame).collect()
}

pub fn frames(count: usize, bytes: usize) -> Vec<Frame> {
    (0..count).map(|number| Frame::ingress(&vec![number as u8; bytes])).collect()
}

pub fn row(engine: &mut Engine, what: &str, block: &str) -> Value {
    let rows = tell(engine, &format!("show {what}")).unwrap();
    rows.as_array().unwrap().iter().find(|row| row["name"] == block || row["block"] == block).cloned().unwrap_or_default()
}

pub fn counter(engine: &mut Engine, name: &str) -> u64 {
    row(engine, "counters", "b")["counters"][name].as_u64().unwrap_or_else(|| panic!("no counter {name}"))
}

pub const MANIFEST: &str = r#"name = "k"
version = "1.0"
summary = "s"
[[input]]
name = "in"
carries = "any"
doc = "d"
[[output]]
name = "out"
carries = "any"
doc = "d"
[[counter]]
name = "Seen"
text = "t"
[[drop]]
name = "Odd"
text = "t"
"#;

/// A module with this manifest, and functions beside those that every one has. `process` is the body of weft_block_process.
pub fn module(manifest: &str, process: &str, more: &str) -> String {
    let text = manifest.bytes().map(|byte| format!("\\{byte:02x}")).collect::<String>();
    format!(
        r#"(module
  (import "weft" "count" (func $count (param i32 i64)))
  (import "weft" "now" (func $now (result i64)))
  (import "weft" "random" (func $random (result i64)))
  (import "weft" "set_timer" (func $set_timer (param i64 i64)))
  (import "weft" "say" (func $say (param i32 i32)))
  (import "weft" "emit" (func $emit (param i32 i32)))
  (memory (export "memory") 1)
  (data (i32.const 4096) "{text}\00")
  (func (export "weft_block_interface") (result i32) (i32.const 1))
  (func (export "weft_block_manifest") (result i32) (i32.const 4096))
  (func (export "weft_block_new") (result i32) (i32.const 0))
  (func (export "weft_block_process") (param $self i32) (param $port i32) (param $frames i32) (param $count i32)
    (local $at i32) {process})
  {more})"#
    )
}

/// A body that does this with each frame, which is at `$frames` (104 bytes; the verdict at 16, edited at 37).
pub fn each(body: &str) -> String {
    format!(
        "(block $end (loop $next (br_if $end (i32.ge_u (local.get $at) (local.get $count)))
           {body}
           (local.set $at (i32.add (local.get $at) (i32.const 1)))
           (local.set $frames (i32.add (local.get $frames) (i32.const 104)))
           (br $next)))"
    )
}
