//! The sockets block's state: every socket under the number that adapters know it by, with what waits in it, who holds which port, and which
//! sockets have changed without the adapters having asked yet. A call that waits is its adapter's: it looks again when the socket changes.

use crate::address_kinds::AddressKinds;
use crate::datagrams::Datagrams;
use crate::face::Sockets;
use crate::kind::KIND;
use crate::messages::Messages;
use crate::multicast::Groups;
use crate::options::rows;
use crate::packet_socket::PacketSockets;
use crate::ping_socket::Pings;
use crate::raw_socket::RawSockets;
use crate::registry::Registry;
use crate::socket::{SocketId, Store, VERSION_WITH_LINKS};
use crate::streams::Streams;
use weft_core::map::{KeyedHasher, Map};
use weft_core::state::{Damage, Reader, Writer};
use weft_core::{Instant, State, StateError};

/// The oldest version that is read.
const STATE_OLDEST: u32 = 6;

/// All of it, in the order in which it is read.
pub(crate) fn export(sockets: &Sockets, now: Instant) -> State {
    let mut out = Writer::new(now);
    // The limits are parameters; what an address is to the node is asked again.
    let Sockets { registry, streams, messages: Messages { datagrams, lite, raw, pings, packets }, groups } = sockets;
    out.put(&registry.birth);
    out.put(&registry.store);
    out.put(&streams.ports);
    out.put(&datagrams.ports);
    out.put(&datagrams.receivers);
    out.put(&raw.by_protocol);
    out.put(&pings.by_ident);
    out.put(&pings.rover);
    out.number(streams.flows.len() as u64);
    for (id, flow) in &streams.flows {
        out.put(id);
        out.put(flow);
    }
    out.put(&registry.changed);
    out.put(&registry.waiting_bytes);
    out.put(&registry.counters);
    out.put(&streams.next_flow);
    out.put(&streams.next_call);
    out.put(&registry.next_cookie);
    out.put(&datagrams.hasher);
    out.put(&datagrams.vector);
    out.put(&datagrams.vector_goes_on);
    out.put(&groups.members);
    out.put(&streams.short_of_memory);
    out.put(&lite.ports);
    out.put(&lite.receivers);
    out.put(packets);
    out.finish(KIND.name, KIND.state_version)
}

/// Becomes what a state says.
pub(crate) fn import(sockets: &mut Sockets, state: &State, now: Instant) -> Result<(), StateError> {
    *sockets = state.taken_since(&KIND, STATE_OLDEST, now, |from| read(sockets, from))?;
    Ok(())
}

/// Reads what `export` wrote. Parameters, and the key of the flows, are those that the block was made with.
fn read(old: &Sockets, from: &mut Reader<'_>) -> Result<Sockets, Damage> {
    let (birth, store, tcp_ports, udp_ports) = (from.take()?, from.take()?, from.take()?, from.take()?);
    let (receivers, by_protocol, by_ident, rover) = (from.take()?, from.take()?, from.take()?, from.take()?);
    let hasher: KeyedHasher = *old.streams.flows.hasher();
    let mut flows = Map::with_hasher(hasher);
    for _ in 0..from.count(usize::MAX)? {
        flows.insert(from.take()?, from.take()?);
    }
    let (changed, waiting_bytes, counters) = (from.take()?, from.take()?, from.take()?);
    let (next_flow, next_call, next_cookie) = (from.take()?, from.take()?, from.take()?);
    let (hasher, vector, vector_goes_on) = (from.take()?, from.take()?, from.take()?);
    let (members, short_of_memory) = (from.take()?, from.take()?);
    let (lite_ports, lite_receivers) = (from.take()?, from.take()?);
    let packets = if from.version() >= VERSION_WITH_LINKS { from.take()? } else { PacketSockets::default() };
    let limits = old.registry.limits.clone();
    let kinds = AddressKinds::default();
    let mut sockets = Sockets {
        registry: Registry { birth, store, changed, limits, waiting_bytes, counters, next_cookie, kinds },
        // Listeners are looked at once, when it begins.
        streams: Streams { ports: tcp_ports, flows, next_flow, next_call, short_of_memory },
        messages: Messages {
            datagrams: Datagrams { ports: udp_ports, receivers, hasher, vector, vector_goes_on },
            lite: Datagrams { ports: lite_ports, receivers: lite_receivers, hasher, vector: 0, vector_goes_on: false },
            raw: RawSockets { by_protocol },
            pings: Pings { by_ident, rover },
            packets,
        },
        groups: Groups { members },
    };
    settle_options(&mut sockets.registry.store)?;
    check(&sockets)?;
    Ok(sockets)
}

/// The options that were set have the names of rows.
fn settle_options(store: &mut Store) -> Result<(), Damage> {
    let row = |name: &str| rows().find(|row| row.label == name).map(|row| row.label);
    let all: Vec<SocketId> = store.iter().map(|(id, _)| id).collect();
    all.into_iter().filter_map(|id| store.get_mut(id).map(|socket| socket.options.set.settle(row))).collect()
}

/// What the rest relies on.
fn check(sockets: &Sockets) -> Result<(), Damage> {
    let Sockets { registry, streams, messages: Messages { datagrams, lite, raw, pings, packets }, .. } = sockets;
    let known = |id: &SocketId| registry.store.get(*id).is_some();
    let mut listed = datagrams
        .receivers
        .values()
        .chain(lite.receivers.values())
        .chain(raw.by_protocol.values())
        .chain(pings.by_ident.values())
        .chain([&packets.hearing])
        .flatten()
        .chain(packets.groups.members());
    let queues_fit = |store: &Store| {
        let streams = store.iter().filter_map(|(_, socket)| socket.stream());
        let mut queued = streams.flat_map(|stream| &stream.accept_queue);
        queued.all(known)
    };
    let counts_fit = |store: &Store| store.iter().filter_map(|(_, socket)| socket.stream()).all(|stream| stream.arrived >= stream.copied);
    let rules = [
        (listed.all(known), "a socket that is not there receives datagrams"),
        (queues_fit(&registry.store), "a socket that is not there waits to be accepted"),
        (counts_fit(&registry.store), "a socket of which more was taken than came"),
        (streams.flows.values().all(|flow| flow.owner.as_ref().is_none_or(known)), "a flow of a socket that is not there"),
    ];
    rules.into_iter().try_for_each(|(holds, why)| if holds { Ok(()) } else { Err(Damage::new(why)) })
}
