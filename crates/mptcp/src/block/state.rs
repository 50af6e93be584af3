//! The block as state.

use super::{Listener, MptcpBlock, Owner};
use crate::counters::{Counters, ROWS};
use crate::kind::KIND;
use std::collections::BTreeMap;
use weft_core::state::{Damage, Field, Reader, Writer};
use weft_core::{FlowId, Instant, Map, Slab, State, StateError};

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
            out.put(&self.next_call);
            out.put(&self.next_flow);
        })
    }

    pub(super) fn import_state(&mut self, state: &State, now: Instant) -> Result<(), StateError> {
        let (flows, tokens) = (*self.flows.hasher(), *self.tokens.hasher());
        let taken = state.taken(&KIND, now, |from| {
            let counters = Counters(from.counters(ROWS)?);
            let rng = from.take()?;
            let connections: Slab<_> = from.take()?;
            let mut of_flows: Map<FlowId, Owner> = Map::with_hasher(flows);
            for _ in 0..from.count(usize::MAX)? {
                of_flows.insert(from.take()?, from.take()?);
            }
            let mut of_tokens: Map<u32, u64> = Map::with_hasher(tokens);
            for _ in 0..from.count(usize::MAX)? {
                of_tokens.insert(from.take()?, from.take()?);
            }
            let listeners: BTreeMap<FlowId, Listener> = from.take()?;
            let (ids, addresses, next_call, next_flow) = (from.take()?, from.take()?, from.take()?, from.take()?);
            Ok((counters, rng, connections, of_flows, of_tokens, listeners, ids, addresses, next_call, next_flow))
        })?;
        (
            self.counters,
            self.rng,
            self.connections,
            self.flows,
            self.tokens,
            self.listeners,
            self.ids,
            self.locals.addresses,
            self.next_call,
            self.next_flow,
        ) = taken;
        Ok(())
    }
}
