//! The graph of a host: which blocks, which edges. docs/architecture.md draws it.

/// Blocks of the default graph, by kind; the name is the kind.
pub const BLOCKS: &[&str] = &["interfaces", "ether", "arp", "ip4", "loopback", "icmp4", "udp", "tcp", "sockets"];

/// Edges of the default graph.
pub const EDGES: &[(&str, &str)] = &[
    ("interfaces:upper", "ether:lower"),
    ("ether:lower", "interfaces:upper"),
    ("ether:ip4", "ip4:lower"),
    ("ether:arp", "arp:lower"),
    ("arp:lower", "ether:upper"),
    ("arp:failed", "icmp4:error"),
    ("ip4:lower", "arp:upper"),
    ("ip4:loopback", "loopback:in"),
    ("loopback:out", "ip4:lower"),
    ("ip4:icmp", "icmp4:lower"),
    ("ip4:udp", "udp:lower"),
    ("ip4:tcp", "tcp:lower"),
    ("ip4:error", "icmp4:error"),
    ("ip4:raw", "sockets:raw"),
    ("icmp4:lower", "ip4:upper"),
    ("icmp4:tcp", "tcp:error"),
    ("icmp4:udp", "udp:error"),
    ("icmp4:other", "sockets:error"),
    ("icmp4:sockets", "sockets:icmp"),
    ("udp:ip4", "ip4:upper"),
    ("udp:upper", "sockets:udp"),
    ("udp:error", "sockets:error"),
    ("tcp:ip4", "ip4:upper"),
    ("tcp:upper", "sockets:tcp"),
    ("sockets:tcp", "tcp:upper"),
    ("sockets:udp", "udp:upper"),
    ("sockets:ip4", "ip4:upper"),
    ("sockets:packet", "ip4:packet"),
    ("sockets:unreachable", "icmp4:error"),
];
