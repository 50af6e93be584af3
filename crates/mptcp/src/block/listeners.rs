//! Listeners: those of the sockets, which may be joined at, and the block's own at announced ports.

use super::{ALERT, MptcpBlock};
use crate::kind::{DOWN, UP};
use crate::listener::Listener;
use crate::listening::Listening;
use crate::out::{OWN_CALL, OWN_FLOW};
use crate::word::{self, Down};
use std::net::SocketAddr;
use weft_core::{CallId, Context, FlowId, StreamCall, StreamEvent, StreamMessage, StreamOptions};

/// Joins at an announced port that may wait at a time: the block takes them as they come.
const BACKLOG: u32 = 128;

impl MptcpBlock {
    /// The sockets listen.
    pub(super) fn listen(&mut self, id: CallId, flow: FlowId, mut op: Box<StreamCall>, cx: &mut Context<'_>) {
        let StreamCall::Listen { local, dual_stack, options, extension, .. } = &mut *op else { return };
        *extension = Some(Box::new(Listening::new(self.settings.asks()).state()));
        let listener = Listener { local: *local, dual_stack: *dual_stack, options: (**options).clone(), own: false };
        if !self.listeners.contains_key(&flow) {
            tell("listener-created", *local, cx);
        }
        self.listeners.entry(flow).or_insert(listener);
        // What the block has there itself goes first: it would take some of the SYNs.
        self.listen_at_announced(cx);
        cx.send(DOWN, StreamMessage::Call { id, flow, op });
        // It may have one of an earlier block, which has told it to stop.
        tell_listener(flow, &Down::Capable(self.settings.enabled), cx);
        tell_listener(flow, &Down::Asks(self.settings.asks()), cx);
        self.offer_all(flow, cx);
    }

    /// A new listener learns of all connections that may be joined.
    fn offer_all(&self, listener: FlowId, cx: &mut Context<'_>) {
        for (_, connection) in self.connections.iter() {
            if let Some(joinable) = &connection.offered {
                tell_listener(listener, &Down::Offer(joinable.clone()), cx);
            }
        }
    }

    /// tcp has let go of one.
    pub(super) fn listener_gone(&mut self, flow: FlowId, cx: &mut Context<'_>) {
        let Some(listener) = self.listeners.remove(&flow) else { return };
        tell("listener-closed", listener.local, cx);
        cx.send(UP, StreamMessage::Event { flow, event: Box::new(StreamEvent::Released) });
        self.listen_at_announced(cx);
    }

    /// At each announced port somebody listens: a program, or else the block itself (mptcp_pm_nl_create_listen_socket).
    pub(super) fn listen_at_announced(&mut self, cx: &mut Context<'_>) {
        let by_program = |at: &SocketAddr| self.listeners.values().any(|listener| !listener.own && listener.holds(*at));
        let signals = self.locals.endpoints.iter().filter(|endpoint| endpoint.signal);
        let announced = signals.filter_map(|endpoint| Some(SocketAddr::new(endpoint.address, endpoint.port?)));
        let wanted: Vec<SocketAddr> = announced.filter(|at| !self.retired && self.settings.enabled && !by_program(at)).collect();
        let unwanted = self.listeners.iter().filter(|(_, listener)| listener.own && !wanted.contains(&listener.local));
        for flow in unwanted.map(|(flow, _)| *flow).collect::<Vec<_>>() {
            self.close_own(flow, cx);
        }
        for local in wanted {
            if !self.listeners.values().any(|listener| listener.own && listener.local == local) {
                self.open_own(local, cx);
            }
        }
    }

    fn open_own(&mut self, local: SocketAddr, cx: &mut Context<'_>) {
        let flow = FlowId(OWN_FLOW | self.next_flow);
        self.next_flow += 1;
        let options = StreamOptions::default();
        self.listeners.insert(flow, Listener { local, dual_stack: false, options: options.clone(), own: true });
        tell("listener-created", local, cx);
        let extension = Some(Box::new(Listening::of_joins().state()));
        self.own_call(flow, StreamCall::Listen { local, dual_stack: false, backlog: BACKLOG, options: Box::new(options), extension }, cx);
        self.offer_all(flow, cx);
    }

    /// What tcp says of it from now on concerns nobody.
    fn close_own(&mut self, flow: FlowId, cx: &mut Context<'_>) {
        let Some(listener) = self.listeners.remove(&flow) else { return };
        self.flows.insert(flow, super::Owner::Nobody);
        tell("listener-closed", listener.local, cx);
        self.own_call(flow, StreamCall::Abort, cx);
    }

    fn own_call(&mut self, flow: FlowId, op: StreamCall, cx: &mut Context<'_>) {
        let id = CallId(OWN_CALL | self.next_call);
        self.next_call += 1;
        cx.send(DOWN, StreamMessage::Call { id, flow, op: Box::new(op) });
    }

    /// The block is to go: no new connections, and none at ports that it has announced.
    pub(super) fn retire_listeners(&mut self, cx: &mut Context<'_>) {
        self.listen_at_announced(cx);
        self.tell_listeners(&Down::Capable(false), cx);
    }

    /// Multipath TCP is on, or off: so it is for what begins at programs' listeners, whenever those began. Who joins, joins.
    pub(super) fn tell_enabled(&mut self, cx: &mut Context<'_>) {
        self.listen_at_announced(cx);
        for (flow, _) in self.listeners.iter().filter(|(_, listener)| !listener.own) {
            tell_listener(*flow, &Down::Capable(self.settings.enabled), cx);
        }
    }

    pub(super) fn tell_listeners(&self, word: &Down, cx: &mut Context<'_>) {
        for flow in self.listeners.keys() {
            tell_listener(*flow, word, cx);
        }
    }
}

fn tell(event: &str, local: SocketAddr, cx: &mut Context<'_>) {
    cx.alert(ALERT, serde_json::json!({ "event": event, "local": local.to_string() }));
}

fn tell_listener(flow: FlowId, word: &Down, cx: &mut Context<'_>) {
    cx.send(DOWN, StreamMessage::Word { flow, bytes: word::write(word) });
}
