//! The stream transport is gone, or another stands there that knows nothing of the connections: what programs see of that.

use crate::errno::Errno;
use crate::listener;
use crate::registry::Registry;
use crate::socket::{SocketId, TcpState};
use crate::streams::{Flow, Streams};
use weft_core::{Context, FlowId};

/// Nobody answers for the flows any more. Their connections end as if an administrator had aborted them (`ss -K`), and listeners listen again.
pub(crate) fn lost(streams: &mut Streams, sockets: &mut Registry, cx: &mut Context<'_>) {
    let lost: Vec<FlowId> = streams.flows.iter().filter(|(_, flow)| !listens(sockets, flow)).map(|(id, _)| *id).collect();
    for flow in lost {
        abort(streams, sockets, flow);
    }
    // Nor does anybody count what was left unread, or how much memory all of it takes.
    let all: Vec<SocketId> = sockets.store.iter().map(|(s, _)| s).collect();
    for s in all {
        if let Some(stream) = sockets.store.get_mut(s).and_then(|socket| socket.stream_mut()) {
            stream.left = None;
        }
    }
    streams.memory_is_short(sockets, false);
    listener::tell_all(sockets, cx);
}

fn listens(sockets: &Registry, flow: &Flow) -> bool {
    flow.owner.and_then(|s| sockets.store.get(s)).is_some_and(|socket| socket.is_listening())
}

/// tcp_diag_destroy: "err = tcp_abort(sk, ECONNABORTED);", where no segment can be sent. Of a flow in TIME-WAIT only the port is given up:
/// "inet_twsk_deschedule_put(tw);".
fn abort(streams: &mut Streams, sockets: &mut Registry, flow: FlowId) {
    let owner = streams.flows.get(&flow).and_then(|entry| entry.owner);
    let open =
        |s: &SocketId| sockets.store.get(*s).and_then(|socket| socket.stream()).is_some_and(|stream| stream.state != TcpState::Close);
    if let Some(s) = owner.filter(open) {
        streams.fail_with(sockets, s, Errno::ECONNABORTED);
    }
    streams.released(sockets, flow);
}
