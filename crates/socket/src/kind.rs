//! What the sockets block declares of itself: ports, parameters, counters.

use crate::counters::COUNTERS;
use weft_core::block::{Kind, Parameter, ParameterType, Port};
use weft_core::{Carries, Table};

/// From SOCK_MIN_RCVBUF and SOCK_MIN_SNDBUF on.
const RECEIVE_BYTES: ParameterType = ParameterType::Unsigned { min: 2304, max: i32::MAX as u64 };
const SEND_BYTES: ParameterType = ParameterType::Unsigned { min: 4608, max: i32::MAX as u64 };

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
        name: "rmem_max",
        value: RECEIVE_BYTES,
        default: "4194304",
        live: true,
        doc: "bound of SO_RCVBUF before doubling, bytes (net.core.rmem_max)",
    },
    Parameter {
        name: "rmem_default",
        value: RECEIVE_BYTES,
        default: "212992",
        live: true,
        doc: "receive buffer of a new datagram socket, bytes (net.core.rmem_default)",
    },
    Parameter {
        name: "wmem_max",
        value: SEND_BYTES,
        default: "4194304",
        live: true,
        doc: "bound of SO_SNDBUF before doubling, bytes (net.core.wmem_max)",
    },
    Parameter {
        name: "wmem_default",
        value: SEND_BYTES,
        default: "212992",
        live: true,
        doc: "send buffer of a new datagram socket, bytes (net.core.wmem_default)",
    },
    Parameter {
        name: "datagram_bytes_max",
        value: ParameterType::Unsigned { min: 4608, max: 1_099_511_627_776 },
        default: "268435456",
        live: true,
        doc: "bytes of memory for what waits at all datagram, raw and ICMP sockets (net.ipv4.udp_mem)",
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
        name: "tw_reuse",
        value: ParameterType::Unsigned { min: 0, max: 2 },
        default: "2",
        live: true,
        doc: "connect(2) may take over a connection in TIME-WAIT: 0 never, 1 always, 2 on loopback (net.ipv4.tcp_tw_reuse)",
    },
    Parameter {
        name: "tw_reuse_delay",
        value: ParameterType::Duration,
        default: "\"1s\"",
        live: true,
        doc: "how long it must have been in TIME-WAIT for that (net.ipv4.tcp_tw_reuse_delay)",
    },
    Parameter {
        name: "boot_time",
        value: ParameterType::Duration,
        default: "\"0s\"",
        live: true,
        doc: "wall-clock time of the node's boot since 1970, for SO_TIMESTAMP",
    },
];

/// The kind's declaration.
pub static KIND: Kind = Kind {
    name: "sockets",
    summary: "Linux sockets: what programs see of TCP, UDP, ICMP and IP",
    doc: "Keeps every socket of the node with Linux's semantics (bind rules, states, pending errors, options, readiness) and speaks to the \
          transports below. Programs reach it through an adapter. Datagrams for which there is no socket leave through `unreachable` and \
          `unreachable6`. \
          Raw sockets tell the IP block which protocols they want (WantRaw) and get them through `raw`; ICMP sockets get echo replies \
          through `icmp`. What both send leaves through `ip4` and `ip6`, and through `packet` and `packet6` with a header of their own. \
          Packet sockets tell the block of interfaces that they want frames (WantFrames), get them through `frames`, and send through `frames`. \
          Its state is every socket with all that waits in it, under the same number: programs notice nothing of a successor.\n\
          Example: sockets:tcp -> tcp:upper, tcp:upper -> sockets:tcp, sockets:udp -> udp:upper, udp:upper -> sockets:udp",
    inputs: &[
        Port::required("tcp", Carries::Stream, "answers, data and events of the stream transport"),
        Port::required("udp", Carries::Datagram, "datagrams for sockets"),
        Port::optional("error", Carries::Error, "ICMP errors about datagrams and raw packets that were sent from here"),
        Port::optional("raw", Carries::Transport, "received packets of protocols that raw sockets want, each a copy"),
        Port::optional("icmp", Carries::Transport, "received ICMP messages, for ICMP datagram sockets"),
        Port::optional("frames", Carries::Ethernet, "frames that came in and went out, each a copy, for packet sockets"),
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
        Port::optional("frames", Carries::Ethernet, "frames that packet sockets send"),
    ],
    parameters: PARAMETERS,
    procedures: &[],
    alerts: &[],
    counters: COUNTERS,
    owns: &[Table::Sockets],
    asks: Table::ALL,
    state_version: 9,
    ..Kind::EMPTY
};
