//! The sockets block: ports, parameters, counters, and the table that `ss` shows.

use crate::face::{Limits, Sockets};
use crate::socket::{Body, Socket, SocketId, TcpState};
use serde_json::json;
use std::any::Any;
use weft_core::block::{BlockRow, Config, Counter, InPort, Kind, Parameter, ParameterType, Port};
use weft_core::vector::VECTOR_FRAMES_MAX;
use weft_core::{
    Answer, Block, Carries, Context, ControlError, Instant, Query, Reason, State, StateError, StreamMessage, Table, Value, Vector, Verdict,
};

const TCP_IN: InPort = InPort(0);
const UDP_IN: InPort = InPort(1);
const ERROR_IN: InPort = InPort(2);
const RAW_IN: InPort = InPort(3);
const ICMP_IN: InPort = InPort(4);

const PARAMETERS: &[Parameter] = &[
    Parameter {
        name: "sockets_max",
        value: ParameterType::Unsigned { min: 1, max: 4_000_000 },
        default: "65536",
        live: true,
        doc: "most sockets, counting connections that wait to be accepted; socket() beyond it gives ENFILE",
    },
    Parameter {
        name: "backlog_max",
        value: ParameterType::Unsigned { min: 0, max: 1_000_000 },
        default: "4096",
        live: true,
        doc: "bound of listen()'s backlog (net.core.somaxconn)",
    },
    Parameter {
        name: "buffer_bytes_max",
        value: ParameterType::Unsigned { min: 4608, max: 1_073_741_823 },
        default: "4194304",
        live: true,
        doc: "bound of SO_RCVBUF and SO_SNDBUF before doubling (net.core.rmem_max, wmem_max)",
    },
    Parameter {
        name: "buffer_bytes_default",
        value: ParameterType::Unsigned { min: 4608, max: 1_073_741_823 },
        default: "212992",
        live: true,
        doc: "buffers of a new datagram socket (net.core.rmem_default, wmem_default)",
    },
    Parameter {
        name: "datagram_bytes_max",
        value: ParameterType::Unsigned { min: 4608, max: 1_099_511_627_776 },
        default: "268435456",
        live: true,
        doc: "bound of what waits in the receive queues of all datagram, raw and ICMP sockets together, bytes of memory (net.ipv4.udp_mem)",
    },
    Parameter {
        name: "ephemeral_first",
        value: ParameterType::Unsigned { min: 1, max: 65535 },
        default: "32768",
        live: true,
        doc: "first ephemeral port (net.ipv4.ip_local_port_range)",
    },
    Parameter {
        name: "ephemeral_last",
        value: ParameterType::Unsigned { min: 1, max: 65535 },
        default: "60999",
        live: true,
        doc: "last ephemeral port",
    },
    Parameter {
        name: "boot_time",
        value: ParameterType::Duration,
        default: "\"0s\"",
        live: true,
        doc: "wall-clock time of the node's boot since 1970, for SO_TIMESTAMP",
    },
];

/// Declares the counters once: constant, name, text.
macro_rules! counters {
    ($($constant:ident $name:literal $text:literal),+ $(,)?) => {
        #[allow(non_camel_case_types, clippy::upper_case_acronyms)]
        enum Index { $($constant),+ }
        $(pub(crate) const $constant: usize = Index::$constant as usize;)+
        pub(crate) const COUNTERS: &[Counter] = &[$(Counter { name: $name, text: $text }),+];
    };
}

counters! {
    SOCKETS_OPENED "sockets_opened" "sockets made by socket()",
    SOCKETS_CLOSED "sockets_closed" "sockets closed",
    SOCKETS_FULL "sockets_full" "sockets and connections refused because there were sockets_max already",
    CONNECTS "connects" "connection attempts begun",
    CONNECTIONS_FAILED "connections_failed" "connections refused, reset or timed out",
    PASSIVE_OPENS "passive_opens" "connections put into an accept queue",
    ACCEPTS "accepts" "connections accepted",
    DATAGRAMS_IN "InDatagrams" "datagrams that came in",
    DATAGRAMS_OUT "OutDatagrams" "datagrams sent",
    NO_PORTS "NoPorts" "datagrams for a port without a socket",
    RECEIVE_BUFFER_ERRORS "RcvbufErrors" "datagrams lost to a full receive buffer",
    MEMORY_ERRORS "MemErrors" "datagrams lost because datagram_bytes_max wait in all receive queues together",
    STREAM_MEMORY_SHORT "stream_memory_short" "times TCP's memory (tcp's mem_max) was used up, so that sends were refused",
    RAW_IN_PACKETS "raw_in" "packets that came in for raw sockets",
    RAW_OUT_PACKETS "raw_out" "packets that raw and ICMP sockets sent",
    ICMP_IN_MESSAGES "icmp_in" "messages that came in for ICMP datagram sockets",
    ERRORS_QUEUED "errors_queued" "entries put into error queues",
    ERRORS_LOST "errors_lost" "entries lost to a full error queue",
}

/// The kind's declaration.
pub static KIND: Kind = Kind {
    name: "sockets",
    summary: "Linux sockets: what programs see of TCP, UDP, ICMP and IP",
    doc: "Keeps every socket of the node with Linux's semantics (bind rules, states, pending errors, options, readiness) and speaks to the \
          transports below. Programs reach it through an adapter. Datagrams for which there is no socket leave through `unreachable` and \
          `unreachable6`. \
          Raw sockets tell the IP block which protocols they want (WantRaw) and get them through `raw`; ICMP sockets get echo replies \
          through `icmp`. What both send leaves through `ip4` and `ip6`, and through `packet` and `packet6` with a header of their own. \
          Its state is every socket with all that waits in it, under the same number: programs notice nothing of a successor.\n\
          Example: sockets:tcp -> tcp:upper, tcp:upper -> sockets:tcp, sockets:udp -> udp:upper, udp:upper -> sockets:udp",
    inputs: &[
        Port::required("tcp", Carries::Stream, "answers, data and events of the stream transport"),
        Port::required("udp", Carries::Datagram, "datagrams for sockets"),
        Port::optional("error", Carries::Error, "ICMP errors about datagrams and raw packets that were sent from here"),
        Port::optional("raw", Carries::Transport, "received packets of protocols that raw sockets want, each a copy"),
        Port::optional("icmp", Carries::Transport, "received ICMP messages, for ICMP datagram sockets"),
    ],
    outputs: &[
        Port::required("tcp", Carries::Stream, "calls and data for the stream transport"),
        Port::required("udp", Carries::Datagram, "datagrams that programs sent"),
        Port::optional("unreachable", Carries::Error, "IPv4 datagrams for ports without a socket"),
        Port::optional("unreachable6", Carries::Error, "IPv6 datagrams for ports without a socket"),
        Port::optional("ip4", Carries::Transport, "what raw and ICMP sockets send over IPv4"),
        Port::optional("ip6", Carries::Transport, "what raw and ICMP sockets send over IPv6"),
        Port::optional("packet", Carries::Link, "whole IPv4 packets (IP_HDRINCL)"),
        Port::optional("packet6", Carries::Link, "whole IPv6 packets (IPV6_HDRINCL)"),
    ],
    parameters: PARAMETERS,
    procedures: &[],
    alerts: &[],
    counters: COUNTERS,
    owns: &[Table::Sockets],
    asks: Table::ALL,
    state_version: 1,
    ..Kind::EMPTY
};

/// How to make one.
pub const ROW: BlockRow = BlockRow { kind: &KIND, make };

fn make(config: &mut Config) -> Result<Box<dyn Block>, ControlError> {
    let port = |name: &str| u16::try_from(config.u64(name)).unwrap_or(u16::MAX);
    let limits = Limits {
        sockets_max: config.u64("sockets_max") as usize,
        backlog_max: config.u64("backlog_max") as u32,
        buffer_max: config.u64("buffer_bytes_max") as u32,
        buffer_default: config.u64("buffer_bytes_default") as u32,
        datagram_bytes_max: config.u64("datagram_bytes_max") as usize,
        ephemeral: (port("ephemeral_first"), port("ephemeral_last")),
        boot_time_nanos: config.u64("boot_time"),
    };
    if limits.ephemeral.0 > limits.ephemeral.1 {
        return Err(config.bad("ephemeral_first", "must not be above ephemeral_last"));
    }
    Ok(Box::new(Sockets::new(limits, &mut config.rng)))
}

impl Block for Sockets {
    fn kind(&self) -> &'static Kind {
        &KIND
    }

    fn give_back_memory(&mut self) {
        self.store.give_back_memory();
        self.flows.shrink_to_fit();
        self.changed.shrink_to_fit();
    }

    fn process(&mut self, port: InPort, vector: &mut Vector, cx: &mut Context<'_>) {
        // A large frame that was cut may fill more than one vector.
        if !std::mem::replace(&mut self.vector_goes_on, vector.len() >= VECTOR_FRAMES_MAX) {
            self.vector += 1;
        }
        vector.set_all(Verdict::Drop(Reason::Refused));
        for index in 0..vector.len() {
            let Some(frame) = vector.take(index) else { continue };
            match port {
                UDP_IN => self.datagram_in(frame, cx),
                ERROR_IN => self.error_in(frame, cx),
                RAW_IN => self.raw_in(frame, cx),
                ICMP_IN => self.ping_in(frame, cx),
                _ => cx.drop(frame, Reason::Refused),
            }
        }
    }

    fn stream(&mut self, port: InPort, message: StreamMessage, cx: &mut Context<'_>) {
        if port == TCP_IN {
            self.stream_message(message, cx);
        }
    }

    fn completed(&mut self, token: u64, bytes: u32, cx: &mut Context<'_>) {
        let _ = cx;
        self.datagram_left(token, bytes);
    }

    fn went_back(&mut self, _cx: &mut Context<'_>) {
        let ids: Vec<SocketId> = self.store.iter().map(|(id, _)| id).collect();
        ids.into_iter().for_each(|id| self.datagram_left(id.number(), u32::MAX));
    }

    fn export(&self, now: Instant) -> Result<State, StateError> {
        Ok(self.export_state(now))
    }

    fn import(&mut self, state: &State, now: Instant) -> Result<(), StateError> {
        self.import_state(state, now)
    }

    fn started(&mut self, cx: &mut Context<'_>) {
        self.tell_raw(cx);
        self.tell_groups(cx);
        self.listen_again(cx);
    }

    fn owner_lost(&mut self, table: Table, cx: &mut Context<'_>) {
        if table == Table::Flows {
            self.transport_lost(cx);
        }
    }

    fn table_changed(&mut self, table: Table, cx: &mut Context<'_>) {
        let _ = cx;
        if matches!(table, Table::Addresses(_)) {
            self.kind_cache = None;
        }
    }

    fn query(&self, query: &Query, now: Instant) -> Answer {
        let _ = now;
        match query {
            Query::List(Table::Sockets) => Answer::List(self.rows()),
            Query::SocketDetails => Answer::List(self.details()),
            _ => Answer::None,
        }
    }

    fn get(&self, name: &str, now: Instant) -> Option<Value> {
        let _ = now;
        Some(match name {
            "sockets_max" => self.limits.sockets_max.into(),
            "backlog_max" => self.limits.backlog_max.into(),
            "buffer_bytes_max" => self.limits.buffer_max.into(),
            "buffer_bytes_default" => self.limits.buffer_default.into(),
            "datagram_bytes_max" => self.limits.datagram_bytes_max.into(),
            "ephemeral_first" => self.limits.ephemeral.0.into(),
            "ephemeral_last" => self.limits.ephemeral.1.into(),
            "boot_time" => self.limits.boot_time_nanos.into(),
            "sockets" => self.store.len().into(),
            "flows" => self.flows.len().into(),
            "ports" => {
                let others = self.raw.values().chain(self.pings.values()).map(Vec::len).sum::<usize>();
                (self.tcp_ports.len() + self.udp_ports.len() + others).into()
            }
            "memberships" => self.members.len().into(),
            _ => return None,
        })
    }

    fn check(&self, name: &str, value: &Value) -> Result<(), ControlError> {
        let number = value.as_u64().unwrap_or(0);
        let (first, last) = self.limits.ephemeral;
        let bad = match name {
            "ephemeral_first" => number > u64::from(last),
            "ephemeral_last" => number < u64::from(first),
            _ => false,
        };
        let why = "the first ephemeral port must not be above the last".to_owned();
        if bad { Err(ControlError::BadValue { block: KIND.name.to_owned(), parameter: name.to_owned(), why }) } else { Ok(()) }
    }

    fn set(&mut self, name: &str, value: Value, cx: &mut Context<'_>) {
        let _ = cx;
        let number = value.as_u64().unwrap_or(0);
        match name {
            "sockets_max" => self.limits.sockets_max = number as usize,
            "backlog_max" => self.limits.backlog_max = number as u32,
            "buffer_bytes_max" => self.limits.buffer_max = number as u32,
            "buffer_bytes_default" => self.limits.buffer_default = number as u32,
            "datagram_bytes_max" => self.limits.datagram_bytes_max = number as usize,
            "ephemeral_first" => self.limits.ephemeral.0 = number as u16,
            "ephemeral_last" => self.limits.ephemeral.1 = number as u16,
            "boot_time" => self.limits.boot_time_nanos = number,
            _ => {}
        }
    }

    fn counters(&self) -> &[u64] {
        &self.counters
    }

    fn as_any_mut(&mut self) -> &mut dyn Any {
        self
    }
}

impl Sockets {
    /// One row a socket, and one a flow that outlived its socket, in the order of `ss`.
    fn rows(&self) -> Vec<Value> {
        let sockets = self.store.iter().map(|(id, socket)| row(id, socket));
        let orphans = self.flows.iter().filter(|(_, flow)| flow.owner.is_none()).map(|(id, flow)| {
            let remote = flow.remote.map_or_else(|| "*:*".to_owned(), |remote| remote.to_string());
            let state = if flow.time_wait.is_some() { "TIME-WAIT" } else { "CLOSING" };
            json!({"proto": "tcp", "state": state, "recv_q": 0, "send_q": 0, "local": flow.local.to_string(), "peer": remote,
                   "inode": 0, "flow": id.0})
        });
        sockets.chain(orphans).collect()
    }
}

impl Sockets {
    /// The same rows with what sock_diag(7) shows. Sockets that no hash table of Linux would have are left out: TCP's that neither listen nor have a
    /// connection, and UDP's without a port.
    fn details(&self) -> Vec<Value> {
        let mut rows = self.rows();
        for (row, (_, socket)) in rows.iter_mut().zip(self.store.iter()) {
            let stream = socket.stream();
            row["hashed"] = stream.map_or(socket.number != 0, |stream| stream.state != TcpState::Close).into();
            row["details"] = details_of(socket);
        }
        rows.retain(|row| row.get("hashed").is_none_or(|hashed| *hashed == true));
        rows
    }
}

fn details_of(socket: &Socket) -> Value {
    let options = &socket.options;
    let (send_buffer, received, dropped) = match &socket.body {
        Body::Stream(stream) => {
            let grown = if stream.transport.send_buffer.is_none() { stream.capacity } else { 0 };
            (grown.max(options.send_buffer as usize), 0, 0)
        }
        Body::Datagram(datagram) | Body::Ping(datagram) => (options.send_buffer as usize, datagram.queued_truesize, datagram.dropped),
        Body::Raw(raw) => (options.send_buffer as usize, raw.queue.queued_truesize, raw.queue.dropped),
    };
    json!({
        "interface": options.interface, "uid": socket.owner, "mark": options.mark, "priority": options.priority, "tos": options.tos,
        "tclass": options.traffic_class, "v6_only": options.v6_only,
        "shutdown": u8::from(socket.shutdown.receive) | u8::from(socket.shutdown.send) << 1,
        "receive_buffer": options.receive_buffer, "send_buffer": send_buffer, "received_bytes": received, "dropped": dropped,
    })
}

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
        Body::Datagram(datagram) => ("udp", connected, Sockets::queued(datagram), datagram.sending, None),
        Body::Raw(raw) => ("raw", connected, Sockets::queued(&raw.queue), raw.queue.sending, None),
        Body::Ping(datagram) => ("icmp", connected, Sockets::queued(datagram), datagram.sending, None),
    };
    json!({"proto": proto, "state": state, "recv_q": recv, "send_q": send, "local": address(socket.local), "peer": peer,
           "inode": socket.cookie, "socket": id.number(), "flow": flow.map(|flow| flow.0), "options": socket.options.summary()})
}
