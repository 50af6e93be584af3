//! tcp as a type of its own: what replaces it, or is replaced by it, has its state by way of bytes and not as it is.

use std::any::Any;
use std::sync::LazyLock;
use weft_core::state::{State, StateError};
use weft_core::*;
use weft_tcp::TcpBlock;

static KIND: LazyLock<Kind> = LazyLock::new(|| Kind { name: "tcp-by-bytes", ..*weft_tcp::ROW.kind });

/// Its row of the table of blocks.
pub fn row() -> BlockRow {
    BlockRow { kind: &KIND, make: |config| Ok(Box::new(ByBytes(TcpBlock::with_extensions(config, super::numbered::ROWS)?))) }
}

struct ByBytes(TcpBlock);

impl Block for ByBytes {
    fn kind(&self) -> &'static Kind {
        &KIND
    }
    fn process(&mut self, port: InPort, vector: &mut Vector, cx: &mut Context<'_>) {
        self.0.process(port, vector, cx);
    }
    fn stream(&mut self, port: InPort, message: StreamMessage, cx: &mut Context<'_>) {
        self.0.stream(port, message, cx);
    }
    fn timer(&mut self, token: u64, cx: &mut Context<'_>) {
        self.0.timer(token, cx);
    }
    fn completed(&mut self, token: u64, bytes: u32, cx: &mut Context<'_>) {
        self.0.completed(token, bytes, cx);
    }
    fn started(&mut self, cx: &mut Context<'_>) {
        self.0.started(cx);
    }
    fn went_back(&mut self, cx: &mut Context<'_>) {
        self.0.went_back(cx);
    }
    fn table_changed(&mut self, table: Table, cx: &mut Context<'_>) {
        self.0.table_changed(table, cx);
    }
    fn query(&self, query: &Query, now: Instant) -> Answer {
        self.0.query(query, now)
    }
    fn get(&self, name: &str, now: Instant) -> Option<Value> {
        self.0.get(name, now)
    }
    fn check(&self, name: &str, value: &Value) -> Result<(), ControlError> {
        self.0.check(name, value)
    }
    fn set(&mut self, name: &str, value: Value, cx: &mut Context<'_>) {
        self.0.set(name, value, cx);
    }
    fn exec(&mut self, procedure: &str, arguments: &Value, cx: &mut Context<'_>) -> Result<Value, ControlError> {
        self.0.exec(procedure, arguments, cx)
    }
    fn counters(&self) -> &[u64] {
        self.0.counters()
    }
    fn give_back_memory(&mut self) {
        self.0.give_back_memory();
    }
    fn export(&self, now: Instant) -> Result<State, StateError> {
        self.0.export(now)
    }
    fn import(&mut self, state: &State, now: Instant) -> Result<(), StateError> {
        self.0.import(state, now)
    }
    fn as_any_mut(&mut self) -> &mut dyn Any {
        self.0.as_any_mut()
    }
}
