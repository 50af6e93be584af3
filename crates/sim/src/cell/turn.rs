//! An actor's turn: what it sees of its machine, and what it does there.

use super::core::{Core, PORTS_SCANNED, carry_on};
use crate::actor::ActorContext;
use crate::figures::figures_of;
use crate::report::{CallLine, CallRecord, ProgramId, Status, Stream};
use weft_core::engine::Alert;
use weft_core::{Context, ControlError, Instant, Message, Op};
use weft_node::{Coming, Node};
use weft_process::Usage;
use weft_socket::{SocketId, Sockets};

/// An actor's turn.
pub(super) struct ActorTurn<'a> {
    pub core: &'a mut Core,
    pub node: &'a mut Node,
    pub changed: &'a mut Vec<SocketId>,
    pub grant: Instant,
    /// Nothing that is not known yet reaches the machine before.
    pub end: Instant,
    /// The grant goes beyond the next arrival.
    pub foresaw: bool,
    pub alone: bool,
    /// So many of `changed` the actor knows.
    pub taken: usize,
}

impl ActorTurn<'_> {
    /// What others on this node have to learn at once ends the turn.
    fn look_at_changes(&mut self) {
        if self.alone {
            return;
        }
        let found = self.node.look(self.core.now, Sockets::take_changed).unwrap_or_default();
        if !found.is_empty() {
            self.changed.extend(found);
            self.grant = self.core.now + std::time::Duration::from_nanos(1);
        }
    }
}

impl ActorTurn<'_> {
    /// When the next frame arrives that was foreseen: all that arrive before the grant were.
    fn next_foreseen(&self) -> Instant {
        if self.foresaw { self.core.next_arrival() } else { Instant::FAR_FUTURE }
    }

    /// Frames arrive that were foreseen.
    fn receive_foreseen(&mut self) {
        if self.next_foreseen() <= self.core.now {
            let mut frames = std::mem::take(&mut self.core.arrived);
            for index in 0..self.core.ports.len() {
                self.core.receive_frames(index, &mut frames);
            }
            self.node.receive(self.core.now, frames.drain(..));
            self.core.arrived = frames;
        }
    }
}

impl ActorContext for ActorTurn<'_> {
    fn now(&self) -> Instant {
        self.core.now
    }

    fn grant(&self) -> Instant {
        self.grant
    }

    fn next_event(&self) -> Instant {
        self.core.next_departure().min(self.node.next_timer().unwrap_or(Instant::FAR_FUTURE))
    }

    fn quiet_until(&self) -> Option<Instant> {
        self.alone.then(|| self.node.next_timer().unwrap_or(Instant::FAR_FUTURE))
    }

    fn foresee(&mut self, take: &mut dyn FnMut(SocketId, Instant, Coming<'_>) -> bool) {
        if !self.alone || self.core.teller.is_listed() || self.core.ports.len() > PORTS_SCANNED {
            return;
        }
        // Those of one port are in order; what comes through others is not looked at.
        let fronts = self.core.ports.iter().filter_map(|port| port.inbox.front().map(|arrival| (arrival.at, port)));
        let Some((_, port)) = fronts.min_by_key(|(at, _)| *at) else { return };
        let others = self.core.ports.iter().filter(|other| other.interface != port.interface);
        let end = others.filter_map(|other| Some(other.inbox.front()?.at)).fold(self.end, Instant::min);
        // Nobody foresees what a program does when a carrier goes.
        let end = self.core.ports.iter().map(|port| port.line.next()).fold(end, Instant::min);
        let coming = port.inbox.iter().take_while(|arrival| arrival.at < end);
        let frames = coming.map(|arrival| (arrival.at, port.interface, &arrival.item.frame));
        let unsure = self.node.foresee(self.core.now, frames, take);
        let sure_until = unsure.unwrap_or(end);
        if sure_until > self.grant {
            (self.grant, self.foresaw) = (sure_until, true);
        }
    }

    fn forget_foreseen(&mut self) {
        if std::mem::take(&mut self.foresaw) {
            self.grant = self.end.min(self.core.next_arrival()).max(self.core.now + std::time::Duration::from_nanos(1));
        }
    }

    fn advance(&mut self, to: Instant) {
        let to = to.min(self.grant);
        loop {
            let timer = self.node.next_timer().unwrap_or(Instant::FAR_FUTURE);
            let next = self.core.next_departure().min(timer).min(self.next_foreseen());
            // What is due at the grant comes after frames that arrive then.
            if next > to || next >= self.grant {
                break;
            }
            self.core.pass(next);
            for index in 0..self.core.ports.len() {
                self.core.depart(index);
            }
            self.receive_foreseen();
            carry_on(self.core, self.node);
            if timer <= self.core.now {
                self.node.run(self.core.now);
                carry_on(self.core, self.node);
            }
            self.look_at_changes();
            if self.grant < to {
                return;
            }
        }
        self.core.pass(to);
    }

    fn sockets(&mut self, call: &mut dyn FnMut(&mut Sockets, &mut Context<'_>)) -> bool {
        let had = self.node.sockets(self.core.now, |sockets, cx| call(sockets, cx)).is_some();
        carry_on(self.core, self.node);
        self.look_at_changes();
        had
    }

    fn look(&mut self, look: &mut dyn FnMut(&mut Sockets)) -> bool {
        self.node.look(self.core.now, look).is_some()
    }

    fn take_changed(&mut self) -> Vec<SocketId> {
        self.changed.extend(self.node.look(self.core.now, Sockets::take_changed).unwrap_or_default());
        if self.alone {
            return std::mem::take(self.changed);
        }
        // Others want to know, too.
        let new = self.changed.get(self.taken..).unwrap_or_default().to_vec();
        self.taken = self.changed.len();
        new
    }

    fn record(&mut self, record: &CallRecord<'_>) {
        self.core.hash.call(self.core.now, record);
        if let Some(whole) = &mut self.core.record {
            whole.call(self.core.now, record);
        }
    }

    fn called(&mut self, call: &CallLine<'_>) {
        if let Some(log) = &mut self.core.calls {
            log.add(call);
        }
    }

    fn output(&mut self, program: ProgramId, stream: Stream, bytes: &[u8]) {
        self.core.output(program, stream, bytes);
    }

    fn lost(&mut self, program: ProgramId, bytes: u64) {
        self.core.programs.entry(program).or_default().output_lost += bytes;
    }

    fn wrote(&mut self, at: Instant, program: ProgramId, stream: Stream, bytes: &[u8]) {
        self.core.notes.wrote(at, program, stream, bytes);
    }

    fn started(&mut self, program: ProgramId) {
        let now = self.core.now;
        self.core.programs.entry(program).or_default().begin(now);
    }

    fn figure(&mut self, program: ProgramId, name: &'static str, value: u64) {
        self.core.programs.entry(program).or_default().figures.insert(name, value);
    }

    fn control(&mut self, op: Op) -> Result<serde_json::Value, ControlError> {
        let reply = self.node.control(self.core.now, &Message { serial: 0, op });
        carry_on(self.core, self.node);
        self.look_at_changes();
        reply.result
    }

    fn take_alerts(&mut self) -> Vec<Alert> {
        self.node.take_alerts()
    }

    fn used(&mut self, program: ProgramId, usage: Usage) {
        let state = self.core.programs.entry(program).or_default();
        state.usage = Some(usage);
        state.figures.extend(usage.traffic.into_iter().flat_map(figures_of));
    }

    fn ended_at(&mut self, program: ProgramId, at: Instant, status: Status) {
        self.core.end_program(program, at, status);
    }
}
