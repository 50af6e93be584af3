//! What the block declares: ports, parameters, procedures, counters.

use super::*;

/// What this kind declares.
pub static KIND: Kind = Kind {
    name: "ip4",
    summary: "IPv4: header on and off, checks, addresses, routes, local delivery, forwarding, fragments, path MTU",
    doc: "Checks received packets (every reason for a drop has a name), puts fragments together, delivers packets for this node by protocol, \
          routes and frames packets to send, and cuts those that are larger than the way's MTU unless they must not be fragmented (then the \
          sender is told). Owns addresses and routes, with the rules that say in which table of routes to look, and remembers what routers told of single destinations: path MTUs and redirects. \
          With `forward` on it sends packets for others on: TTL, options, ICMP errors, redirects. Source-routed packets are dropped, as \
          Linux does by default. Groups need a membership (the owner of Groups is asked), but 224.0.0.1. Identification: 0 for packets that \
          must not be fragmented (RFC 6864), else a counter per destination.\n\
          Standards: RFC 791, RFC 815, RFC 1122 3.2.1 and 3.3, RFC 1191, RFC 1812 5, RFC 3021, RFC 3168 5.3, RFC 6864.\n\
          Example: bind ip4:lower arp:upper",
    inputs: &[
        Port::required("lower", Carries::Link, "received packets, from a link or the loopback"),
        Port::required("upper", Carries::Transport, "segments and datagrams to send"),
        Port::optional(
            "packet",
            Carries::Link,
            "whole packets to send to meta.dst (IP_HDRINCL): length, checksum and what is zero is filled in",
        ),
    ],
    outputs: &[
        Port::required("lower", Carries::Link, "packets to send, with next_hop and interface"),
        Port::optional("loopback", Carries::Link, "packets to this node's own addresses"),
        Port::optional("tcp", Carries::Transport, "received segments of protocol 6"),
        Port::optional("udp", Carries::Transport, "received datagrams of protocol 17"),
        Port::optional("icmp", Carries::Transport, "received messages of protocol 1"),
        Port::optional("igmp", Carries::Transport, "received messages of protocol 2"),
        Port::optional("other", Carries::Transport, "received payloads of other protocols, and of those above without an edge"),
        Port::optional("raw", Carries::Transport, "copies of received packets of protocols that somebody wants raw"),
        Port::optional("error", Carries::Error, "packets whose sender must be told why they failed"),
    ],
    parameters: PARAMETERS,
    procedures: &[
        Named {
            name: "address_add",
            doc: "interface (or group:NUMBER: every member, or none), address (with /bits, 32 without), peer?, broadcast? (the network's highest; \
                  none), scope?, label?, flags?, metric?, valid_lft?, preferred_lft? (seconds), replace? (false): gives an interface an address, \
                  and the route to its network",
        },
        Named {
            name: "address_delete",
            doc: "interface (or group:NUMBER), address: takes it away, with the routes that need it, and without promote_secondaries those whose network \
                  it had first",
        },
        Named {
            name: "interface_set",
            doc: "interface (or group:NUMBER), up: an administrator put it up or down: down, its routes go; up, those of its addresses come",
        },
        Named {
            name: "route_add",
            doc: "destination (prefix or default), gateway?, interface? (or group:NUMBER: one for each member, of metrics that follow), source?, metric? (0), mtu?, kind? (unicast, local, blackhole, unreachable, \
                  prohibit, throw), onlink?, nexthops? (in place of gateway, interface and onlink, a list of up to 256 such as [{\"gateway\": \"10.0.0.2\", \
                  \"interface\": \"eth0\", \"weight\": 2, \"onlink\": false}]: flows take them in shares of their weights, 1 to 256), table? (254; rules say which one is looked at), protocol?, scope?, place? (alone, last, first, replace, \
                  change): adds a route; the interface may be left out when the gateway is on a network of one",
        },
        Named {
            name: "route_delete",
            doc: "destination, gateway?, interface?, source?, metric?, kind?, table?, protocol?, scope?, nexthops?: removes the first route that fits; \
                  of several next hops gateway and interface mean the first, nexthops each in its place",
        },
        Named {
            name: "rule_add",
            doc: "priority? (one less than the second rule's), not?, from?, to? (prefixes), iif? (lo: packets of this node), oif? (what their sender is \
                  bound to), fwmark?, fwmask?, tos?, ipproto? (a number), sport?, dport? (first-last), action? (table, goto, nop, blackhole, unreachable, \
                  prohibit), table? (254), target? (of goto), suppress_prefixlength?, suppress_ifgroup?, protocol?, alone? (refuse one that is there): \
                  adds a rule that says which table is looked at for which packets",
        },
        Named { name: "rule_delete", doc: "what rule_add takes: removes the first rule that fits what is said" },
        Named { name: "rules", doc: "the rules in their order" },
        Named {
            name: "paths",
            doc: "what routers told: a row for each destination with mtu or gateway and the seconds until it is forgotten",
        },
        Named { name: "paths_flush", doc: "forgets it" },
        Named {
            name: "memory",
            doc: "what is held for strangers: bytes and packets of fragments that wait for others, destinations of which routers told something",
        },
    ],
    alerts: &[
        Named { name: "address", doc: "event (added, deleted), interface, address, prefix_bits: an address changed" },
        Named { name: "route", doc: "event (added, deleted) and the route's row: a route changed" },
        Named { name: "rule", doc: "event (added, deleted), v6 and the rule's row: a rule changed" },
    ],
    counters: COUNTERS,
    owns: &[Table::Addresses(Family::V4), Table::Routes(Family::V4)],
    asks: &[Table::Interfaces, Table::Groups(Family::V4)],
    state_version: 6,
    ..Kind::EMPTY
};

const PARAMETERS: &[Parameter] = &[
    Parameter {
        name: "default_ttl",
        value: ParameterType::Unsigned { min: 1, max: 255 },
        default: "64",
        live: true,
        doc: "time to live of packets whose sender does not say (Linux ip_default_ttl)",
    },
    Parameter {
        name: "forward",
        value: ParameterType::Bool,
        default: "false",
        live: true,
        doc: "send packets for others on (Linux ip_forward)",
    },
    Parameter {
        name: "forward_from",
        value: ParameterType::List,
        default: "[]",
        live: true,
        doc: "names of the interfaces whose packets are sent on; none: all (Linux has a `forwarding` for each interface)",
    },
    Parameter {
        name: "multipath_hash_policy",
        value: ParameterType::Unsigned { min: 0, max: 1 },
        default: "0",
        live: true,
        doc: "what a flow is, which takes one of a route's several next hops: 0: addresses, of an ICMP error those of the packet that it is about; \
              1: addresses, protocol and ports (Linux net.ipv4.fib_multipath_hash_policy)",
    },
    Parameter {
        name: "accept_redirects",
        value: ParameterType::Bool,
        default: "true",
        live: true,
        doc: "believe the gateway that names a better one; never while forward is on (Linux accept_redirects)",
    },
    Parameter {
        name: "send_redirects",
        value: ParameterType::Bool,
        default: "true",
        live: true,
        doc: "tell hosts of a better first hop on their own link, where this node sends on (Linux send_redirects)",
    },
    Parameter {
        name: "rp_filter",
        value: ParameterType::Unsigned { min: 0, max: 2 },
        default: "0",
        live: true,
        doc: "packets are refused whose source is not reached through the interface they came in by: 0: none, 1: those, 2: whose source is not reached at all (RFC 3704; Linux rp_filter, of the whole node)",
    },
    Parameter {
        name: "ignore_linkdown",
        value: ParameterType::Bool,
        default: "false",
        live: true,
        doc: "routes through interfaces without carrier are passed over (Linux net.ipv4.conf.all.ignore_routes_with_linkdown)",
    },
    Parameter {
        name: "promote_secondaries",
        value: ParameterType::Bool,
        default: "false",
        live: true,
        doc: "when a network's first address of an interface is deleted, the next one becomes the first; else all go with it (Linux promote_secondaries)",
    },
    Parameter {
        name: "fragment_memory_bytes",
        value: ParameterType::Unsigned { min: 0, max: 1 << 30 },
        default: "4194304",
        live: true,
        doc: "memory for packets of which fragments are missing; 0: none is put together (Linux ipfrag_high_thresh)",
    },
    Parameter {
        name: "fragment_timeout",
        value: ParameterType::Duration,
        default: "\"30s\"",
        live: true,
        doc: "how long fragments wait for the rest (Linux ipfrag_time)",
    },
    Parameter {
        name: "fragment_distance_max",
        value: ParameterType::Unsigned { min: 0, max: 1_000_000 },
        default: "64",
        live: true,
        doc: "fragments that a source may send between two of one packet, 0: any number (Linux ipfrag_max_dist)",
    },
    Parameter {
        name: "path_mtu_min",
        value: ParameterType::Unsigned { min: 68, max: 65_535 },
        default: "552",
        live: true,
        doc: "smallest path MTU that a router is believed, bytes; below it packets may be fragmented (Linux min_pmtu)",
    },
    Parameter {
        name: "path_mtu_expires",
        value: ParameterType::Duration,
        default: "\"10min\"",
        live: true,
        doc: "how long a path MTU is believed (Linux mtu_expires)",
    },
    Parameter {
        name: "redirect_expires",
        value: ParameterType::Duration,
        default: "\"5min\"",
        live: true,
        doc: "how long a redirect is believed (Linux gc_timeout)",
    },
    Parameter {
        name: "boot_time",
        value: ParameterType::Unsigned { min: 0, max: u64::MAX },
        default: "0",
        live: true,
        doc: "when the node's time was zero, nanoseconds since 1970, for the timestamp option; 0: not known, times count from then (RFC 791 3.1)",
    },
];

const COUNTERS: &[Counter] = &[
    Counter { name: "InReceives", text: "packets received" },
    Counter { name: "InHdrErrors", text: "received packets with a bad header, or whose time to live ran out here" },
    Counter { name: "InAddrErrors", text: "received packets whose destination is not ours, or whose source cannot be" },
    Counter { name: "InUnknownProtos", text: "received packets of a protocol that nobody takes" },
    Counter { name: "InDelivers", text: "packets delivered to a transport" },
    Counter { name: "InTruncatedPkts", text: "received packets with fewer bytes than their header says" },
    Counter { name: "InCsumErrors", text: "received packets whose header checksum is wrong" },
    Counter { name: "InMcastPkts", text: "received multicast packets" },
    Counter { name: "InBcastPkts", text: "received broadcast packets" },
    Counter { name: "InOctets", text: "bytes received, from the IP header on" },
    Counter { name: "InNoRoutes", text: "received packets for others to whom there is no route" },
    Counter { name: "ForwDatagrams", text: "packets for others that were sent on, or had to be" },
    Counter { name: "ReasmReqds", text: "fragments received" },
    Counter { name: "ReasmOKs", text: "packets put together from fragments" },
    Counter { name: "ReasmFails", text: "fragments refused and packets given up" },
    Counter { name: "ReasmTimeout", text: "packets given up because fragments were missing for too long" },
    Counter { name: "ReasmOverlaps", text: "packets discarded because fragments overlap" },
    Counter { name: "OutRequests", text: "packets that transports asked to send" },
    Counter { name: "OutNoRoutes", text: "packets without a route" },
    Counter { name: "OutDiscards", text: "packets refused for another reason" },
    Counter { name: "FragOKs", text: "packets cut into fragments" },
    Counter { name: "FragFails", text: "packets larger than the MTU that must not be fragmented" },
    Counter { name: "FragCreates", text: "fragments made" },
    Counter { name: "OutMcastPkts", text: "multicast packets sent" },
    Counter { name: "OutBcastPkts", text: "broadcast packets sent" },
    Counter { name: "OutOctets", text: "bytes sent, from the IP header on" },
    Counter { name: "RouteCacheMisses", text: "packets sent whose route was not in the route cache" },
    Counter { name: "RawCopies", text: "copies of packets for raw sockets" },
    Counter { name: "PathMtus", text: "path MTUs that routers told and that were believed" },
    Counter { name: "Redirects", text: "redirects that were believed" },
    Counter { name: "PathsRefused", text: "path MTUs and redirects that were not believed" },
    Counter { name: "PathsEvicted", text: "path MTUs and redirects forgotten early because the table was full" },
    Counter { name: "ChangesRefused", text: "addresses and routes that other blocks asked for and that could not be changed" },
    Counter { name: "OutRedirects", text: "packets sent on whose source was told of a better first hop" },
    Counter { name: "RulesRefused", text: "rules that were not taken because there were as many as a node may have" },
    Counter {
        name: "RoutesRefused",
        text: "routes that were not taken because there were as many as a node may have, or next hops as a route may",
    },
    Counter { name: "IPReversePathFilter", text: "received packets that rp_filter refused" },
];

/// Positions in [`KIND`]'s counters.
pub(super) mod count {
    pub const IN_RECEIVES: usize = 0;
    pub const IN_HDR_ERRORS: usize = 1;
    pub const IN_ADDR_ERRORS: usize = 2;
    pub const IN_UNKNOWN_PROTOS: usize = 3;
    pub const IN_DELIVERS: usize = 4;
    pub const IN_TRUNCATED: usize = 5;
    pub const IN_CSUM_ERRORS: usize = 6;
    pub const IN_MCAST: usize = 7;
    pub const IN_BCAST: usize = 8;
    pub const IN_OCTETS: usize = 9;
    pub const IN_NO_ROUTES: usize = 10;
    pub const FORWARDED: usize = 11;
    pub const REASM_REQDS: usize = 12;
    pub const REASM_OKS: usize = 13;
    pub const REASM_FAILS: usize = 14;
    pub const REASM_TIMEOUT: usize = 15;
    pub const REASM_OVERLAPS: usize = 16;
    pub const OUT_REQUESTS: usize = 17;
    pub const OUT_NO_ROUTES: usize = 18;
    pub const OUT_DISCARDS: usize = 19;
    pub const FRAG_OKS: usize = 20;
    pub const FRAG_FAILS: usize = 21;
    pub const FRAG_CREATES: usize = 22;
    pub const OUT_MCAST: usize = 23;
    pub const OUT_BCAST: usize = 24;
    pub const OUT_OCTETS: usize = 25;
    pub const ROUTE_CACHE_MISSES: usize = 26;
    pub const RAW_COPIES: usize = 27;
    pub const PATH_MTUS: usize = 28;
    pub const REDIRECTS: usize = 29;
    pub const PATHS_REFUSED: usize = 30;
    pub const PATHS_EVICTED: usize = 31;
    pub const CHANGES_REFUSED: usize = 32;
    pub const OUT_REDIRECTS: usize = 33;
    pub const RULES_REFUSED: usize = 34;
    pub const ROUTES_REFUSED: usize = 35;
    pub const REVERSE_PATH: usize = 36;
    pub const ALL: usize = 37;
}
