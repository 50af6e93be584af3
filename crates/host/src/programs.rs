//! The programs of the node: the notify supervisor on this world's event loop.

use crate::clock::Clock;
use crate::reactor::{Interest, Reactor};
use rustix::fd::OwnedFd;
use std::io;
use weft_core::control::Value;
use weft_core::{Context, Instant};
use weft_intercept::process::{Outside, Record, Tree};
use weft_intercept::{Epoll, Errno, Lend, Readiness, SocketId, Stack, Supervisor};
use weft_node::Node;
use weft_socket::Sockets;

/// Tokens of this kind belong to the programs' side.
pub(crate) const TOKEN_PROGRAM_SPACE: u8 = 5;
/// This one belongs to programs that the loader runs.
pub(crate) const TOKEN_STRICT_SPACE: u8 = 8;

/// The supervisor, and what it needs of the world.
#[derive(Debug)]
pub struct Programs {
    supervisor: Supervisor,
    /// Programs that the loader runs instead.
    strict: Option<Tree>,
    /// The node's sockets that the supervisor knows ([`Node::sockets_changes`]).
    known: Option<u64>,
    /// Sockets that changed and belong to no program: for the world, which takes them after each pump.
    others: Vec<SocketId>,
    lost: bool,
}

/// A node's sockets and tables, lent for one turn.
pub(crate) struct Lent<'a> {
    pub(crate) node: &'a mut Node,
    pub(crate) clock: &'a Clock,
    /// Gets the changed sockets that no program has.
    pub(crate) others: Option<&'a mut Vec<SocketId>>,
}

/// The node, as programs that the loader runs in real time see it.
struct Real<'a>(Lent<'a>);

impl Outside for Real<'_> {
    fn grant(&self) -> Instant {
        Instant::FAR_FUTURE
    }
    fn advance(&mut self, _: Instant) {}
    fn stack(&mut self) -> &mut dyn Stack {
        &mut self.0
    }
    fn take_changed(&mut self) -> Vec<SocketId> {
        Stack::take_changed(&mut self.0)
    }
    fn record(&mut self, _: &Record<'_>) {}
}

impl Lend for Lent<'_> {
    fn sockets<R>(&mut self, f: impl FnOnce(&mut Sockets, &mut Context<'_>) -> R) -> Option<R> {
        self.node.sockets(self.clock.now(), f)
    }
    fn not_a_programs(&mut self, s: SocketId) {
        self.others.iter_mut().for_each(|others| others.push(s));
    }
}

impl Programs {
    /// No programs yet.
    pub fn new(reactor: &Reactor) -> io::Result<Programs> {
        let supervisor = Supervisor::new(TOKEN_PROGRAM_SPACE, &mut Epoll(reactor.descriptor())).map_err(system)?;
        Ok(Programs { supervisor, strict: None, known: None, others: Vec::new(), lost: false })
    }

    /// Takes over what the loader runs; `token`: for its descriptor.
    pub(crate) fn adopt_tree(&mut self, tree: Tree, token: u64, reactor: &Reactor) -> io::Result<()> {
        if let Some(descriptor) = tree.descriptor() {
            reactor.add(descriptor, token, Interest::READ)?;
        }
        self.strict = Some(tree);
        Ok(())
    }

    /// When programs want a turn at the latest.
    pub(crate) fn next_timer(&self) -> Option<Instant> {
        self.strict.as_ref().and_then(Tree::next_timer)
    }

    /// See [`Supervisor::give_back_memory`].
    pub fn give_back_memory(&mut self) {
        self.supervisor.give_back_memory();
    }

    /// Takes over a program and its children.
    pub fn adopt(&mut self, listener: OwnedFd, reactor: &Reactor) -> io::Result<()> {
        self.supervisor.add_tree(listener, &mut Epoll(reactor.descriptor())).map(|_| ()).map_err(system)
    }

    /// Whoever holds sockets of a block that is gone must learn that before anything else happens.
    fn check_sockets(&mut self, node: &mut Node, clock: &Clock, reactor: &Reactor) {
        let changes = node.sockets_changes();
        if self.known.replace(changes).is_some_and(|known| known != changes) {
            self.supervisor.sockets_lost(&mut Lent { node, clock, others: None }, &mut Epoll(reactor.descriptor()));
            self.lost = true;
        }
    }

    /// A descriptor of a program's is ready.
    pub fn ready(&mut self, token: u64, flags: u32, node: &mut Node, clock: &Clock, reactor: &Reactor) {
        self.check_sockets(node, clock, reactor);
        let Programs { supervisor, others, .. } = self;
        let mut lent = Lent { node, clock, others: Some(others) };
        supervisor.on_event(token, Readiness::from_epoll(flags), &mut lent, &mut Epoll(reactor.descriptor()));
    }

    /// Moves what the node has for its programs.
    pub fn pump(&mut self, node: &mut Node, clock: &Clock, reactor: &Reactor) {
        self.check_sockets(node, clock, reactor);
        let Programs { supervisor, strict, others, .. } = self;
        if let Some(tree) = strict {
            return tree.serve(clock.now(), &mut Real(Lent { node, clock, others: Some(others) }));
        }
        supervisor.after_stack_ran(&mut Lent { node, clock, others: Some(others) }, &mut Epoll(reactor.descriptor()));
    }

    /// Sockets that changed since the last call and belong to no program.
    pub(crate) fn take_others(&mut self) -> Vec<SocketId> {
        std::mem::take(&mut self.others)
    }

    /// Have the node's sockets been replaced since the last call?
    pub(crate) fn take_lost(&mut self) -> bool {
        std::mem::take(&mut self.lost)
    }

    /// Process trees of which a process is left.
    pub fn trees(&self) -> usize {
        self.supervisor.trees() + self.strict.as_ref().map_or(0, |tree| usize::from(!tree.has_ended()))
    }

    /// Sockets that programs still hold.
    pub fn stand_ins(&self) -> usize {
        self.supervisor.stand_ins() + self.strict.as_ref().map_or(0, Tree::objects)
    }

    /// The table of intercepted calls, and what was asked for in vain.
    pub fn calls(&self) -> Value {
        let calls = self.strict.as_ref().map_or_else(|| self.supervisor.calls(), Tree::calls);
        let mut rows: Vec<Value> = calls.rows().iter().filter_map(|row| serde_json::to_value(row).ok()).collect();
        rows.extend(calls.unsupported_rows().iter().map(|row| serde_json::json!({"call": format!("unsupported: {}", row.request), "seen": row.count, "refused": row.count, "errno": row.errno})));
        rows.into()
    }
}

fn system(errno: Errno) -> io::Error {
    io::Error::from_raw_os_error(errno.0)
}
