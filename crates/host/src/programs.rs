//! The programs of the node: the notify supervisor on this world's event loop.

use crate::clock::Clock;
use crate::files::Files;
use crate::reactor::{Interest, Reactor};
use rustix::fd::OwnedFd;
use std::collections::BTreeMap;
use std::io;
use std::sync::Arc;
use weft_core::control::Value;
use weft_core::engine::Alert;
use weft_core::{Context, ControlError, Instant, Message, Op};
use weft_intercept::calls::Calls;
use weft_intercept::{Errno, Lend, SocketId, Stack};
use weft_node::Node;
use weft_notify::caretaker::ledger::Ledger;
use weft_notify::{Epoll, Readiness, Supervisor, spawn};
use weft_process::{Outside, Parts, Record, Tree};
use weft_socket::Sockets;

/// Tokens of this kind belong to the programs' side.
pub(crate) const TOKEN_PROGRAM_SPACE: u8 = 5;
/// This one belongs to programs that the loader runs.
pub(crate) const TOKEN_STRICT_SPACE: u64 = 8;
/// This one to what programs ask of files.
pub(crate) const TOKEN_FILES: u64 = 10 << TOKEN_SPACE_SHIFT;
const TOKEN_SPACE_SHIFT: u32 = 56;
/// How often sockets that the supervisor and the loader's programs share news of are handed to and fro in one turn.
const ROUNDS_MAX: usize = 16;

/// The supervisor, and what it needs of the world.
#[derive(Debug)]
pub struct Programs {
    supervisor: Supervisor,
    /// Programs that the loader runs instead.
    strict: BTreeMap<u64, Tree>,
    trees_so_far: u64,
    /// What trees that have ended have counted.
    ended: Calls,
    /// The node's sockets that the supervisor knows ([`Node::sockets_changes`]).
    known: Option<u64>,
    /// Sockets that changed and belong to no program: for the world, which takes them after each pump.
    others: Vec<SocketId>,
    lost: bool,
    files: Files,
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
    fn control(&mut self, op: Op) -> Option<Value> {
        Lend::control(&mut self.0, op).ok()
    }
}

impl Lend for Lent<'_> {
    fn sockets<R>(&mut self, f: impl FnOnce(&mut Sockets, &mut Context<'_>) -> R) -> Option<R> {
        self.node.sockets(self.clock.now(), f)
    }
    fn control(&mut self, op: Op) -> Result<Value, ControlError> {
        self.node.control(self.clock.now(), &Message { serial: 0, op }).result
    }
    fn not_a_programs(&mut self, s: SocketId) {
        self.others.iter_mut().for_each(|others| others.push(s));
    }
    fn run(&mut self) {
        self.node.settle(self.clock.now());
    }
}

impl Programs {
    /// No programs yet.
    pub fn new(reactor: &Reactor) -> io::Result<Programs> {
        let supervisor = Supervisor::new(TOKEN_PROGRAM_SPACE, &mut Epoll(reactor.descriptor())).map_err(system)?;
        let files = Files::new()?;
        reactor.add(files.event(), TOKEN_FILES, Interest::READ)?;
        Ok(Programs {
            supervisor,
            strict: BTreeMap::new(),
            trees_so_far: 0,
            ended: Calls::default(),
            known: None,
            others: Vec::new(),
            lost: false,
            files,
        })
    }

    /// See [`Supervisor::keep_ledger`].
    pub(crate) fn keep_ledger(&mut self, ledger: Arc<Ledger>) {
        self.supervisor.keep_ledger(ledger);
    }

    /// Tells programs that their sockets are gone: [`Supervisor::end`]. Those that the loader runs notice it by themselves.
    pub(crate) fn end(&mut self) {
        self.supervisor.end();
    }

    /// Takes over a program that the loader runs, and its children.
    pub(crate) fn adopt_strict(&mut self, name: &str, parts: Parts, reactor: &Reactor) -> io::Result<()> {
        let tree = Tree::real(name, parts).map_err(io::Error::other)?;
        let number = self.trees_so_far;
        self.trees_so_far += 1;
        if let Some(descriptor) = tree.descriptor() {
            reactor.add(descriptor, TOKEN_STRICT_SPACE << TOKEN_SPACE_SHIFT | number, Interest::READ)?;
        }
        self.strict.insert(number, tree);
        Ok(())
    }

    /// Answers for files of a program that is started ([`weft_notify::spawn::Program::take_files`]).
    pub(crate) fn serve_files(&mut self, files: spawn::Files) -> io::Result<()> {
        self.files.serve(files)
    }

    /// Programs want to know what such files say.
    pub(crate) fn answer_files(&mut self, node: &mut Node, clock: &Clock) {
        self.files.answer(&mut Real(Lent { node, clock, others: Some(&mut self.others) }));
    }

    /// What the loader runs has something to say; it is served when the node has run.
    pub(crate) fn ready_strict(&mut self, number: u64) {
        self.strict.get_mut(&number).into_iter().for_each(Tree::ready);
    }

    /// When programs want a turn at the latest.
    pub(crate) fn next_timer(&self) -> Option<Instant> {
        self.strict.values().filter_map(Tree::next_timer).min()
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

    /// Blocks have alerted of something: programs that listen to netlink's groups hear of it.
    pub fn alerted(&mut self, alerts: &[Alert], node: &mut Node, clock: &Clock, reactor: &Reactor) {
        if alerts.is_empty() {
            return;
        }
        self.supervisor.alerted(alerts, &mut Lent { node, clock, others: None }, &mut Epoll(reactor.descriptor()));
        for tree in self.strict.values_mut() {
            let outside = &mut Real(Lent { node, clock, others: None });
            tree.tell_alerts(alerts, outside);
            tree.serve(clock.now(), outside);
        }
    }

    /// Moves what the node has for its programs.
    pub fn pump(&mut self, node: &mut Node, clock: &Clock, reactor: &Reactor) {
        self.check_sockets(node, clock, reactor);
        self.supervisor.after_stack_ran(&mut Lent { node, clock, others: Some(&mut self.others) }, &mut Epoll(reactor.descriptor()));
        if !self.strict.is_empty() {
            self.pump_strict(node, clock, reactor);
        }
    }

    /// The same for programs that the loader runs. Whoever looks takes all news, so what is another's is handed on.
    fn pump_strict(&mut self, node: &mut Node, clock: &Clock, reactor: &Reactor) {
        let Programs { supervisor, strict, others, .. } = self;
        for _ in 0..ROUNDS_MAX {
            let changed = std::mem::take(others);
            let (theirs, rest) = changed.into_iter().partition::<Vec<_>, _>(|socket| strict.values().any(|tree| tree.has(*socket)));
            let mut spilt = Vec::new();
            for tree in strict.values_mut() {
                let own: Vec<SocketId> = theirs.iter().filter(|socket| tree.has(**socket)).copied().collect();
                tree.sockets_changed(&own);
                tree.serve(clock.now(), &mut Real(Lent { node, clock, others: Some(&mut spilt) }));
            }
            others.extend(rest);
            if spilt.is_empty() {
                break;
            }
            let mut lent = Lent { node, clock, others: Some(others) };
            supervisor.sockets_changed(&spilt, &mut lent, &mut Epoll(reactor.descriptor()));
            if !others.iter().any(|socket| strict.values().any(|tree| tree.has(*socket))) {
                break;
            }
        }
        for (number, mut tree) in std::mem::take(strict) {
            if tree.has_ended() {
                tree.close_all(&mut Real(Lent { node, clock, others: Some(others) }));
                self.ended.absorb(tree.calls());
            } else {
                strict.insert(number, tree);
            }
        }
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
        self.supervisor.trees() + self.strict.len()
    }

    /// Sockets that programs still hold.
    pub fn stand_ins(&self) -> usize {
        self.supervisor.stand_ins() + self.strict.values().map(Tree::objects).sum::<usize>()
    }

    /// The table of intercepted calls, and what was asked for in vain.
    pub fn calls(&self) -> Value {
        let mut calls = Calls::default();
        calls.absorb(self.supervisor.calls());
        calls.absorb(&self.ended);
        self.strict.values().for_each(|tree| calls.absorb(tree.calls()));
        let mut rows: Vec<Value> = calls.rows().iter().filter_map(|row| serde_json::to_value(row).ok()).collect();
        rows.extend(calls.unsupported_rows().iter().map(|row| serde_json::json!({"call": format!("unsupported: {}", row.request), "seen": row.count, "refused": row.count, "errno": row.errno})));
        rows.into()
    }
}

fn system(errno: Errno) -> io::Error {
    io::Error::from_raw_os_error(errno.0)
}
