//! What is asked of a graph: parameters, counters, tables. Nothing changes by that.

use super::Engine;
use crate::block::{Block, BlockId};
use crate::control::{ControlError, Show, Value};
use crate::parameter;
use crate::reason::Reason;
use crate::selector::Selector;
use crate::statistics;
use crate::stream::FlowId;
use crate::table::{Answer, Family, Query, Table};

impl Engine {
    pub(super) fn get(&self, target: &Selector, name: Option<&str>) -> Result<Value, ControlError> {
        if let Selector::Group(group) = target {
            return statistics::of_group(group, name, |query| self.answer(Table::Interfaces, query));
        }
        let mut out = serde_json::Map::new();
        for id in self.select(target)? {
            let (Some(kind), Some(block)) = (self.slots.kind(id), self.slots.block(id)) else { continue };
            let value = match name {
                None => self.parameters(id),
                Some(name) => {
                    let value = block.get(name, self.now).ok_or_else(|| parameter::no_parameter(self.slots.name(id), kind, name))?;
                    kind.parameter(name).map_or(value.clone(), |row| parameter::show(row, value))
                }
            };
            out.insert(self.slots.name(id).to_owned(), value);
        }
        Ok(out.into())
    }

    fn parameters(&self, id: BlockId) -> Value {
        let (Some(kind), Some(block)) = (self.slots.kind(id), self.slots.block(id)) else { return Value::Null };
        let rows =
            kind.parameters.iter().filter_map(|row| Some((row.name.to_owned(), parameter::show(row, block.get(row.name, self.now)?))));
        rows.collect::<serde_json::Map<_, _>>().into()
    }

    pub(super) fn list(&self, table: Table) -> Value {
        self.rows(table).into()
    }

    pub(super) fn rows(&self, table: Table) -> Vec<Value> {
        let Answer::List(mut rows) = self.answer(table, &Query::List(table)) else { return Vec::new() };
        if table == Table::Sockets {
            rows.iter_mut().for_each(|row| self.complete_socket(row));
        }
        rows
    }

    /// A connection's send queue is its transport's: tcp_diag_get_info, "r->idiag_wqueue = READ_ONCE(tp->write_seq) - tp->snd_una;". One
    /// over several flows has its own.
    fn complete_socket(&self, row: &mut Value) {
        let flow = row.get("flow").and_then(Value::as_u64).filter(|_| row["state"] != "LISTEN");
        let Some(flow) = flow else { return };
        if let Answer::Connection(info) = self.answer(Table::Multipath, &Query::Connection(FlowId(flow))) {
            row["send_q"] = info.unacknowledged_bytes().into();
        } else if let Answer::FlowInfo(info) = self.answer(Table::Flows, &Query::FlowInfo(FlowId(flow))) {
            row["send_q"] = info.send_queue_bytes.into();
        }
    }

    pub(super) fn answer(&self, table: Table, query: &Query) -> Answer {
        let owner = self.slots.owner(table).and_then(|owner| self.slots.block(owner));
        owner.map_or(Answer::None, |block| block.query(query, self.now))
    }

    pub(super) fn show(&self, show: Show) -> Value {
        let names = |id: BlockId| self.slots.name(id).to_owned();
        let both = |of: fn(Family) -> Table| [of(Family::V4), of(Family::V6)].into_iter().flat_map(|table| self.rows(table)).collect();
        match show {
            Show::Blocks => self.slots.ids().filter_map(|id| {
                let (kind, failure) = (self.slots.kind(id)?, self.slots.block(id).and_then(Block::failure));
                let mut row = serde_json::json!({"name": names(id), "kind": kind.name, "version": kind.version, "frames": self.slots.frames_in(id), "parameters": self.parameters(id)});
                let [orders, refused] = self.slots.orders(id);
                if orders + refused > 0 {
                    (row["orders"], row["orders_refused"]) = (orders.into(), refused.into());
                }
                if let Some(failure) = failure {
                    row["failure"] = failure.into();
                }
                Some(row)
            }).collect(),
            Show::Edges => self.slots.edges().filter_map(|(from, out, to, input)| {
                let (out, input) = (self.slots.kind(from)?.outputs.get(usize::from(out.0))?, self.slots.kind(to)?.inputs.get(usize::from(input.0))?);
                Some(serde_json::json!({"from": names(from), "output": out.name, "to": names(to), "input": input.name, "carries": out.carries}))
            }).collect(),
            Show::Counters => self.slots.ids().filter_map(|id| {
                let (kind, block) = (self.slots.kind(id)?, self.slots.block(id)?);
                let rows: serde_json::Map<_, _> = kind.counters.iter().zip(block.counters()).map(|(row, value)| (row.name.to_owned(), (*value).into())).collect();
                Some(serde_json::json!({"block": names(id), "frames": self.slots.frames_in(id), "counters": rows}))
            }).collect(),
            Show::Generations => self.slots.generations().map(|of| of.to_json()).collect(),
            Show::Drops => self.slots.all_drops().into_iter().flat_map(|(name, drops)| {
                let counts = Reason::ALL.iter().zip(drops).filter(|(_, count)| *count > 0);
                counts.map(move |(reason, count)| serde_json::json!({"block": name, "reason": reason.name(), "frames": count, "text": reason.text()}))
            }).collect(),
            Show::Interfaces => self.list(Table::Interfaces),
            Show::Addresses => both(Table::Addresses),
            Show::Routes => both(Table::Routes),
            Show::Neighbours => both(Table::Neighbours),
            Show::Groups => both(Table::Groups),
            Show::Sockets => self.list(Table::Sockets),
            Show::Mptcp => self.list(Table::Multipath),
        }
    }
}
