//! The block as state.

use super::{MptcpBlock, Owner};
use crate::counters::{Counters, ROWS};
use crate::endpoint::Locals;
use crate::kind::KIND;
use crate::own::Own;
use weft_core::state::{Damage, Field, Reader, Writer};
use weft_core::{FlowId, Instant, Map, State, StateError};

impl Field for Owner {
    fn write(&self, out: &mut Writer) {
        match self {
            Owner::Nobody => out.byte(2),
            Owner::Connection(key) => {
                out.byte(0);
                out.put(key);
            }
            Owner::Accepted { listener, local, remote } => {
                out.byte(1);
                out.put(listener);
                out.put(local);
                out.put(remote);
            }
        }
    }
    fn read(from: &mut Reader<'_>) -> Result<Owner, Damage> {
        match from.byte()? {
            0 => Ok(Owner::Connection(from.take()?)),
            2 => Ok(Owner::Nobody),
            1 => Ok(Owner::Accepted { listener: from.take()?, local: from.take()?, remote: from.take()? }),
            other => Err(Damage::new(format_args!("a flow has no owner {other}"))),
        }
    }
}

impl MptcpBlock {
    pub(super) fn export_state(&self, now: Instant) -> State {
        State::written(&KIND, now, |out| {
            out.counters(ROWS, &self.counters.0);
            out.put(&self.rng);
            out.put(&self.connections);
            out.number(self.flows.len() as u64);
            for (flow, owner) in &self.flows {
                out.put(flow);
                out.put(owner);
            }
            out.number(self.tokens.len() as u64);
            for (token, key) in &self.tokens {
                out.put(token);
                out.put(key);
            }
            out.put(&self.listeners);
            out.put(&self.ids);
            out.put(&self.locals.addresses);
            out.put(&self.used);
            out.put(&self.own.failed);
            out.put(&self.retired);
            out.put(&self.next_call);
            out.put(&self.next_flow);
            out.put(&self.next_id);
        })
    }

    pub(super) fn import_state(&mut self, state: &State, now: Instant) -> Result<(), StateError> {
        let (flows, tokens) = (*self.flows.hasher(), *self.tokens.hasher());
        let taken = state.taken(&KIND, now, |from| {
            let counters = Counters(from.counters(ROWS)?);
            let (rng, connections) = (from.take()?, from.take()?);
            let mut of_flows: Map<FlowId, Owner> = Map::with_hasher(flows);
            for _ in 0..from.count(usize::MAX)? {
                of_flows.insert(from.take()?, from.take()?);
            }
            let mut of_tokens: Map<u32, u64> = Map::with_hasher(tokens);
            for _ in 0..from.count(usize::MAX)? {
                of_tokens.insert(from.take()?, from.take()?);
            }
            Ok(MptcpBlock {
                name: self.name.clone(),
                settings: self.settings.clone(),
                counters,
                rng,
                connections,
                flows: of_flows,
                tokens: of_tokens,
                listeners: from.take()?,
                ids: from.take()?,
                locals: Locals { addresses: from.take()?, ..Locals::default() },
                used: from.take()?,
                own: Own { failed: from.take()? },
                retired: from.take()?,
                leaves: false,
                next_call: from.take()?,
                next_flow: from.take()?,
                next_id: from.take()?,
            })
        })?;
        *self = taken;
        Ok(())
    }
}
