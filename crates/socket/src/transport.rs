//! The stream transport is gone, or another stands there that knows nothing of the connections: what programs see of that.

use crate::errno::Errno;
use crate::face::Sockets;
use crate::outputs::TCP;
use crate::socket::{SocketId, TcpState};
use crate::streams::Flow;
use weft_core::{Answer, Context, FlowId, Query, StreamCall, Table};

impl Sockets {
    /// Nobody answers for the flows any more. Their connections end as if an administrator had aborted them (`ss -K`), and listeners listen again.
    pub(crate) fn transport_lost(&mut self, cx: &mut Context<'_>) {
        let lost: Vec<FlowId> = self.streams.flows.iter().filter(|(_, flow)| !self.listens(flow)).map(|(id, _)| *id).collect();
        for flow in lost {
            self.abort(flow);
        }
        // Nor does anybody count what was left unread, or how much memory all of it takes.
        let all: Vec<SocketId> = self.registry.store.iter().map(|(s, _)| s).collect();
        for s in all {
            if let Some(stream) = self.registry.store.get_mut(s).and_then(|socket| socket.stream_mut()) {
                stream.left = None;
            }
        }
        self.memory_is_short(false);
        self.streams.unheard = true;
        self.listen_again(cx);
    }

    fn listens(&self, flow: &Flow) -> bool {
        flow.owner.and_then(|s| self.registry.store.get(s)).is_some_and(|socket| socket.is_listening())
    }

    /// tcp_diag_destroy: "err = tcp_abort(sk, ECONNABORTED);", where no segment can be sent. Of a flow in TIME-WAIT only the port is given up:
    /// "inet_twsk_deschedule_put(tw);".
    fn abort(&mut self, flow: FlowId) {
        let owner = self.streams.flows.get(&flow).and_then(|entry| entry.owner);
        let open = |s: &SocketId| {
            self.registry.store.get(*s).and_then(|socket| socket.stream()).is_some_and(|stream| stream.state != TcpState::Close)
        };
        if let Some(s) = owner.filter(open) {
            self.fail_with(s, Errno::ECONNABORTED);
        }
        self.released(flow);
    }

    /// Listeners of which the transport knows nothing are told to it again: it began after them.
    pub(crate) fn listen_again(&mut self, cx: &mut Context<'_>) {
        if !self.streams.unheard || !cx.has_owner(Table::Flows) || !cx.is_bound(TCP) {
            return;
        }
        self.streams.unheard = false;
        let listening = self.registry.store.iter().filter(|(_, socket)| socket.is_listening());
        let flows = listening.filter_map(|(s, socket)| Some((s, socket.stream()?.flow?)));
        let unknown: Vec<(SocketId, FlowId)> =
            flows.filter(|(_, flow)| matches!(cx.ask(Table::Flows, &Query::FlowInfo(*flow)), Answer::None)).collect();
        for (s, flow) in unknown {
            if let Some(call) = self.listen_call(s) {
                self.call(flow, call, cx);
            }
        }
    }

    /// What the transport is told of a listener.
    pub(crate) fn listen_call(&self, s: SocketId) -> Option<StreamCall> {
        let socket = self.registry.store.get(s)?;
        let stream = socket.stream()?;
        // `::` serves IPv4 as well, unless the program said otherwise.
        let dual_stack = socket.local.ip() == std::net::IpAddr::V6(std::net::Ipv6Addr::UNSPECIFIED) && !socket.options.v6_only;
        // The transport lets one more wait, as sk_acceptq_is_full does.
        Some(StreamCall::Listen { local: socket.local, dual_stack, backlog: stream.backlog, options: stream.transport.clone() })
    }
}
