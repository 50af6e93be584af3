//! The sockets block's state: every socket under the number that adapters know it by, with what waits in it, who holds which port, and which
//! sockets have changed without the adapters having asked yet. A call that waits is its adapter's: it looks again when the socket changes.

use crate::face::Sockets;
use crate::kind::KIND;
use crate::options::rows;
use crate::socket::{SocketId, Store};
use weft_core::map::{KeyedHasher, Map};
use weft_core::state::{Damage, Reader, Writer};
use weft_core::{Instant, State, StateError};

impl Store {
    /// The options that were set have the names of rows.
    fn settle_options(&mut self) -> Result<(), Damage> {
        let row = |name: &str| rows().find(|row| row.label == name).map(|row| row.label);
        let all: Vec<SocketId> = self.iter().map(|(id, _)| id).collect();
        all.into_iter().filter_map(|id| self.get_mut(id).map(|socket| socket.options.set.settle(row))).collect()
    }
}

impl Sockets {
    pub(crate) fn export_state(&self, now: Instant) -> State {
        let mut out = Writer::new(now);
        // The limits are parameters; what an address is to the node is asked again.
        let Sockets { limits: _, unheard: _, kind_cache: _, flows, counters, .. } = self;
        out.put(&self.birth);
        out.put(&self.store);
        out.put(&self.tcp_ports);
        out.put(&self.udp_ports);
        out.put(&self.receivers);
        out.put(&self.raw);
        out.put(&self.pings);
        out.put(&self.ping_rover);
        out.number(flows.len() as u64);
        for (id, flow) in flows {
            out.put(id);
            out.put(flow);
        }
        out.put(&self.changed);
        out.put(&self.waiting_bytes);
        out.put(counters);
        out.put(&self.next_flow);
        out.put(&self.next_call);
        out.put(&self.next_cookie);
        out.put(&self.hasher);
        out.put(&self.vector);
        out.put(&self.vector_goes_on);
        out.put(&self.members);
        out.put(&self.short_of_memory);
        out.finish(KIND.name, KIND.state_version)
    }

    pub(crate) fn import_state(&mut self, state: &State, now: Instant) -> Result<(), StateError> {
        *self = state.taken(&KIND, now, |from| self.read(from))?;
        Ok(())
    }

    fn read(&self, from: &mut Reader<'_>) -> Result<Sockets, Damage> {
        let (birth, store, tcp_ports, udp_ports) = (from.take()?, from.take()?, from.take()?, from.take()?);
        let (receivers, raw, pings, ping_rover) = (from.take()?, from.take()?, from.take()?, from.take()?);
        let hasher: KeyedHasher = *self.flows.hasher();
        let mut flows = Map::with_hasher(hasher);
        for _ in 0..from.count(usize::MAX)? {
            flows.insert(from.take()?, from.take()?);
        }
        let (changed, waiting_bytes) = (from.take()?, from.take()?);
        let counters = from.take()?;
        let mut sockets = Sockets {
            birth,
            store,
            tcp_ports,
            udp_ports,
            receivers,
            raw,
            pings,
            ping_rover,
            flows,
            changed,
            limits: self.limits.clone(),
            waiting_bytes,
            counters,
            next_flow: from.take()?,
            next_call: from.take()?,
            next_cookie: from.take()?,
            hasher: from.take()?,
            vector: from.take()?,
            vector_goes_on: from.take()?,
            members: from.take()?,
            short_of_memory: from.take()?,
            // Looked at once, when it begins.
            unheard: true,
            kind_cache: None,
        };
        sockets.store.settle_options()?;
        sockets.check_state()?;
        Ok(sockets)
    }

    /// What the rest relies on.
    fn check_state(&self) -> Result<(), Damage> {
        let known = |id: &SocketId| self.store.get(*id).is_some();
        let mut listed = self.receivers.values().chain(self.raw.values()).chain(self.pings.values()).flatten();
        let queues_fit = |store: &Store| {
            let streams = store.iter().filter_map(|(_, socket)| socket.stream());
            let mut queued = streams.flat_map(|stream| &stream.accept_queue);
            queued.all(known)
        };
        let counts_fit =
            |store: &Store| store.iter().filter_map(|(_, socket)| socket.stream()).all(|stream| stream.arrived >= stream.copied);
        let rules = [
            (listed.all(known), "a socket that is not there receives datagrams"),
            (queues_fit(&self.store), "a socket that is not there waits to be accepted"),
            (counts_fit(&self.store), "a socket of which more was taken than came"),
            (self.flows.values().all(|flow| flow.owner.as_ref().is_none_or(known)), "a flow of a socket that is not there"),
        ];
        rules.into_iter().try_for_each(|(holds, why)| if holds { Ok(()) } else { Err(Damage::new(why)) })
    }
}
