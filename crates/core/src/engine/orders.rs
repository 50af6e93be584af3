//! What blocks order is carried out when everything that an event has caused has come to rest: between two vectors, as an operation from outside is.

use super::Engine;
use crate::control::{ControlError, Op, Value};
use crate::order::{OBEYED_MAX, Obeyed, Order};

impl Engine {
    /// Carries out orders that another engine's blocks gave, and what follows from them.
    pub fn obey(&mut self, orders: impl IntoIterator<Item = Order>) {
        self.orders.extend(orders);
        self.settle();
    }
    /// Orders of blocks that were carried out since the last call, in order.
    pub fn take_obeyed(&mut self) -> Vec<Obeyed> {
        if self.obeyed.is_empty() { Vec::new() } else { self.obeyed.drain(..).collect() }
    }
    /// Orders that were carried out and that nobody fetched in time.
    pub fn obeyed_lost(&self) -> u64 {
        self.obeyed_lost
    }
    /// How often blocks or edges have become others: who remembers something of the graph looks again.
    pub fn changes(&self) -> u64 {
        self.changes
    }

    /// How often the owner of the interfaces has told of a change: who remembers something of them looks again.
    pub fn interface_changes(&self) -> u64 {
        self.interface_changes
    }

    /// Does what is there to do, then what blocks have ordered meanwhile, one by one, each with its answer and all that follows.
    pub(super) fn settle(&mut self) {
        self.drain();
        if self.orders.is_empty() {
            return;
        }
        while let Some(Order { block, serial, op }) = self.orders.pop_front() {
            // It may be about the block itself.
            let name = self.slots.name(block).to_owned();
            let result = self.carry_out(&op);
            self.drain();
            if let Some(slot) = self.slots.slot_mut(block) {
                slot.orders[0] += 1;
            }
            if self.obeyed.len() == OBEYED_MAX {
                self.obeyed.pop_front();
                self.obeyed_lost += 1;
            }
            self.obeyed.push_back(Obeyed { at: self.now, block: name, op, result: result.clone() });
            self.call(block, 0, |block, cx| block.answered(serial, result, cx));
            self.drain();
        }
        self.slots.order_places.free();
    }

    fn carry_out(&mut self, op: &Op) -> Result<Value, ControlError> {
        let why = match op {
            Op::Subscribe { .. } => "a block has nobody to bring alerts to: exec and answers reach it",
            Op::Snapshot { .. } | Op::Restore { .. } => "files are the world's: a block can order neither snapshots nor what is in one",
            op => return self.operate(op),
        };
        Err(ControlError::BadRequest { why: why.to_owned() })
    }
}
