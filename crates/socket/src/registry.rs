//! Every socket of a node by its id, and the books over all of them: which have changed, counters, bounds, memory. What finds a socket for a
//! packet or a connection (ports, flows, protocols, identifiers) belongs to the families of sockets.

use crate::address;
use crate::address_kinds::AddressKinds;
use crate::counters::{Counters, SOCKETS_CLOSED};
use crate::errno::Errno;
use crate::limits::Limits;
use crate::options::Options;
use crate::poll::Poll;
use crate::socket::{Body, Shutdown, Socket, SocketId, Store};
use weft_core::Rng;

/// What every family of sockets works on.
#[derive(Debug)]
pub(crate) struct Registry {
    /// Differs between two blocks of this kind in one place.
    pub birth: u64,
    pub store: Store,
    /// Those that adapters have not asked about since, in the order of the first change.
    pub changed: Vec<SocketId>,
    pub limits: Limits,
    /// Bytes of memory in the receive queues of all datagram, raw and ICMP sockets.
    pub waiting_bytes: usize,
    pub counters: Counters,
    pub next_cookie: u64,
    pub kinds: AddressKinds,
}

impl Registry {
    pub(crate) fn new(limits: Limits, rng: &mut Rng) -> Registry {
        Registry {
            birth: rng.u64(),
            // Sockets of an earlier block of this kind are not taken for ours.
            store: Store::beginning_with(rng.u32()),
            changed: Vec::new(),
            limits,
            waiting_bytes: 0,
            counters: Counters::new(),
            next_cookie: 1,
            kinds: AddressKinds::default(),
        }
    }

    pub(crate) fn get(&self, s: SocketId) -> Result<&Socket, Errno> {
        self.store.get(s).ok_or(Errno::EBADF)
    }

    pub(crate) fn get_mut(&mut self, s: SocketId) -> Result<&mut Socket, Errno> {
        self.store.get_mut(s).ok_or(Errno::EBADF)
    }

    pub(crate) fn count(&mut self, counter: usize) {
        self.counters.count(counter);
    }

    /// Readiness, state or error of `s` changed. `wakes`: what Linux wakes waiters with there, which decides who has an edge; `NONE`: it wakes nobody.
    pub(crate) fn touch(&mut self, s: SocketId, wakes: Poll) {
        let Some(socket) = self.store.get_mut(s) else { return };
        socket.wakes |= wakes;
        if !socket.changed {
            socket.changed = true;
            self.changed.push(s);
        }
    }

    /// The sockets that were touched since the last call, each once.
    pub(crate) fn take_changed(&mut self) -> Vec<SocketId> {
        let mut changed = std::mem::take(&mut self.changed);
        let store = &mut self.store;
        changed.retain(|id| store.get_mut(*id).map(|socket| socket.changed = false).is_some());
        changed
    }

    /// A socket as it begins, with a cookie of its own; it is not in the store yet.
    pub(crate) fn fresh(&mut self, domain: i32, kind: i32, protocol: i32, options: Options, body: Body) -> Socket {
        let cookie = self.next_cookie;
        self.next_cookie += 1;
        Socket {
            cookie,
            domain,
            owner: 0,
            kind,
            protocol,
            options,
            error: None,
            shutdown: Shutdown::default(),
            local: address::unspecified(domain),
            remote: None,
            number: 0,
            hold: None,
            address_locked: false,
            port_locked: false,
            changed: false,
            wakes: Poll::NONE,
            body,
        }
    }

    /// Forgets a socket that nothing finds any more.
    pub(crate) fn remove(&mut self, s: SocketId) {
        // An id that is still in `changed` names nothing from now on, which adapters must expect anyway.
        if let Some(mut socket) = self.store.remove(s) {
            let waiting = socket.datagram_mut().map_or(0, |datagram| datagram.queued_truesize);
            self.waiting_bytes = self.waiting_bytes.saturating_sub(waiting);
            self.count(SOCKETS_CLOSED);
        }
    }
}
