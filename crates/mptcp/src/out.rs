//! The way out of the block, for what deals with one connection.

use crate::counters::{Counter, Counters};
use crate::endpoint::Locals;
use crate::kind::{DOWN, Settings, UP};
use crate::listener::Listener;
use crate::own::{InUse, Own, Scheduled};
use crate::scheduler::{Asked, Choice};
use crate::word::{self, Down};
use std::collections::BTreeMap;
use std::net::IpAddr;
use weft_core::{CallId, Context, FlowId, Instant, Rng, StreamCall, StreamError, StreamEvent, StreamMessage};

/// Set in the numbers of the block's own calls, whose replies nobody waits for.
pub(crate) const OWN_CALL: u64 = 1 << 63;

/// Set in the numbers of flows that the block opens itself. Sockets' are far below.
pub(crate) const OWN_FLOW: u64 = 1 << 62;

/// The way out.
pub(crate) struct Out<'a, 'b> {
    pub cx: &'a mut Context<'b>,
    pub settings: &'a Settings,
    pub counters: &'a mut Counters,
    pub next_call: &'a mut u64,
    pub next_flow: &'a mut u64,
    pub rng: &'a mut Rng,
    pub locals: &'a Locals,
    /// Whoever may be joined at.
    pub listeners: &'a BTreeMap<FlowId, Listener>,
    pub own: &'a mut Own,
    /// What has gone over the interfaces of each quota, bytes.
    pub used: &'a mut Vec<u64>,
    /// A quota is used up now.
    pub spent: bool,
    /// Flows that were opened meanwhile.
    pub opened: Vec<FlowId>,
}

impl Out<'_, '_> {
    pub(crate) fn now(&self) -> Instant {
        self.cx.now
    }
    pub(crate) fn count(&mut self, counter: Counter) {
        self.counters.count(counter);
    }
    /// Data goes over an address.
    pub(crate) fn uses(&mut self, address: IpAddr, bytes: u64) {
        for (_, quota) in self.locals.metered.iter().filter(|(metered, _)| *metered == address) {
            let Some(used) = self.used.get_mut(*quota) else { continue };
            let before = *used;
            *used = used.saturating_add(bytes);
            let most = self.settings.quotas.get(*quota).map_or(u64::MAX, |quota| quota.bytes);
            self.spent |= before < most && *used >= most;
        }
    }
    /// Who schedules now.
    pub(crate) fn scheduler(&mut self) -> InUse {
        self.own.in_use(self.settings, self.counters, self.cx)
    }
    /// The choice of whoever schedules.
    pub(crate) fn choose(&mut self, asked: &Asked<'_>, memory: &mut Scheduled) -> Option<Choice> {
        self.own.choose(asked, memory, (self.settings, self.counters, self.cx))
    }
    pub(crate) fn up(&mut self, message: StreamMessage) {
        self.cx.send(UP, message);
    }
    pub(crate) fn down(&mut self, message: StreamMessage) {
        self.cx.send(DOWN, message);
    }
    pub(crate) fn event(&mut self, flow: FlowId, event: StreamEvent) {
        self.up(StreamMessage::Event { flow, event: Box::new(event) });
    }
    /// A word to a subflow's extension, or a listener's.
    pub(crate) fn word(&mut self, flow: FlowId, word: &Down) {
        self.down(StreamMessage::Word { flow, bytes: word::write(word) });
    }
    /// A call of the block's own.
    pub(crate) fn call(&mut self, flow: FlowId, op: StreamCall) {
        let id = CallId(OWN_CALL | *self.next_call);
        *self.next_call += 1;
        self.down(StreamMessage::Call { id, flow, op: Box::new(op) });
    }
    /// A number for a flow of the block's own.
    pub(crate) fn new_flow(&mut self) -> FlowId {
        let flow = FlowId(OWN_FLOW | *self.next_flow);
        *self.next_flow += 1;
        self.opened.push(flow);
        flow
    }
    /// The answer to a call of the sockets'.
    pub(crate) fn reply(&mut self, id: CallId, flow: FlowId, result: Result<(), StreamError>) {
        self.up(StreamMessage::Reply { id, flow, result });
    }
}
