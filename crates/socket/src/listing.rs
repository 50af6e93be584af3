//! Sockets as people see them: the rows of their table.

use crate::abi::{IPPROTO_UDPLITE, SOCK_DGRAM};
use crate::registry::Registry;
use crate::socket::{Body, Datagram, Socket, SocketId, TcpState};
use crate::streams::Streams;
use serde_json::json;
use weft_core::Value;

/// One row a socket, and one a flow that outlived its socket, in the order of `ss`.
pub(crate) fn rows(sockets: &Registry, streams: &Streams) -> Vec<Value> {
    let orphans = streams.flows.iter().filter(|(_, flow)| flow.owner.is_none()).map(|(id, flow)| {
        let remote = flow.remote.map_or_else(|| "*:*".to_owned(), |remote| remote.to_string());
        let state = if flow.time_wait.is_some() { "TIME-WAIT" } else { "CLOSING" };
        json!({"proto": "tcp", "state": state, "recv_q": 0, "send_q": 0, "local": flow.local.to_string(), "peer": remote,
               "inode": 0, "flow": id.0})
    });
    sockets.store.iter().map(|(id, socket)| row(id, socket)).chain(orphans).collect()
}

/// The same rows with what sock_diag(7) shows. Sockets that no hash table of Linux would have are left out: TCP's that neither listen nor have a
/// connection, and UDP's without a port.
pub(crate) fn rows_with_details(sockets: &Registry, streams: &Streams) -> Vec<Value> {
    let mut rows = rows(sockets, streams);
    for (row, (_, socket)) in rows.iter_mut().zip(sockets.store.iter()) {
        let stream = socket.stream();
        let listed = socket.number != 0 || socket.packet().is_some();
        row["hashed"] = stream.map_or(listed, |stream| stream.state != TcpState::Close).into();
        row["details"] = details(socket);
    }
    rows.retain(|row| row.get("hashed").is_none_or(|hashed| *hashed == true));
    rows
}

/// What sock_diag(7) shows of a socket beside its row.
fn details(socket: &Socket) -> Value {
    let options = &socket.options;
    let (send_buffer, received, dropped) = match &socket.body {
        Body::Stream(stream) => {
            let grown = if stream.transport.send_buffer.is_none() { stream.capacity } else { 0 };
            (grown.max(options.send_buffer as usize), 0, 0)
        }
        Body::Datagram(datagram) | Body::Ping(datagram) => (options.send_buffer as usize, datagram.queued_truesize, datagram.dropped),
        Body::Raw(raw) => (options.send_buffer as usize, raw.queue.queued_truesize, raw.queue.dropped),
        Body::Packet(packet) => (options.send_buffer as usize, packet.queue.queued_truesize, packet.lost),
    };
    let mut told = json!({
        "interface": options.interface, "uid": socket.owner, "mark": options.mark, "priority": options.priority, "tos": options.tos,
        "tclass": options.traffic_class, "v6_only": options.v6_only,
        "shutdown": u8::from(socket.shutdown.receive) | u8::from(socket.shutdown.send) << 1,
        "receive_buffer": options.receive_buffer, "send_buffer": send_buffer, "received_bytes": received, "dropped": dropped,
    });
    if let Some(packet) = socket.packet() {
        (told["ether_type"], told["link"]) = (packet.protocol.into(), packet.interface.into());
        told["hears"] = u8::from(packet.protocol != 0 && !packet.waits_for_interface).into();
    }
    told
}

/// A socket as `ss` shows it.
pub(crate) fn row(id: SocketId, socket: &Socket) -> Value {
    let address = |address| crate::address::of_domain(socket.domain, address).to_string();
    let nobody = if socket.is_v6() { "[::]:*" } else { "0.0.0.0:*" };
    let peer = socket.remote.map_or_else(|| nobody.to_owned(), address);
    let connected = if socket.remote.is_some() { "ESTAB" } else { "UNCONN" };
    let (proto, state, recv, send, flow) = match &socket.body {
        // ss: for listeners the queues are the accept queue and its bound.
        Body::Stream(stream) if stream.state == TcpState::Listen => {
            ("tcp", stream.state.name(), stream.accept_queue.len(), stream.backlog as usize, stream.flow)
        }
        // Of what is sent TCP knows; with it the engine and sock_diag complete the row.
        Body::Stream(stream) => ("tcp", stream.state.name(), stream.unread(), 0, stream.flow),
        Body::Datagram(datagram) if socket.protocol == IPPROTO_UDPLITE => ("udplite", connected, queued(datagram), datagram.sending, None),
        Body::Datagram(datagram) => ("udp", connected, queued(datagram), datagram.sending, None),
        Body::Raw(raw) => ("raw", connected, queued(&raw.queue), raw.queue.sending, None),
        Body::Ping(datagram) => ("icmp", connected, queued(datagram), datagram.sending, None),
        // The names of ss.
        Body::Packet(packet) => {
            (if socket.kind == SOCK_DGRAM { "p_dgr" } else { "p_raw" }, connected, queued(&packet.queue), packet.queue.sending, None)
        }
    };
    json!({"proto": proto, "state": state, "recv_q": recv, "send_q": send, "local": address(socket.local), "peer": peer,
           "inode": socket.cookie, "socket": id.number(), "flow": flow.map(|flow| flow.0), "options": socket.options.summary()})
}

/// How many datagram bytes wait to be read.
fn queued(datagram: &Datagram) -> usize {
    datagram.queue.iter().map(|waiting| waiting.bytes).sum()
}
