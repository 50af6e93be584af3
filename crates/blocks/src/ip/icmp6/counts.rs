//! The counters of icmp6, with the names of Linux's Icmp6 table (/proc/net/snmp6).

use weft_core::Counter;
use weft_wire::icmpv6::kind;

/// The block's counters.
pub(super) const COUNTERS: &[Counter] = &[
    Counter { name: "InMsgs", text: "messages received" },
    Counter { name: "InErrors", text: "messages received with errors of their own" },
    Counter { name: "InCsumErrors", text: "messages received with a wrong checksum" },
    Counter { name: "InDestUnreachs", text: "destination unreachable received" },
    Counter { name: "InPktTooBigs", text: "packet too big received" },
    Counter { name: "InTimeExcds", text: "time exceeded received" },
    Counter { name: "InParmProblems", text: "parameter problem received" },
    Counter { name: "InEchos", text: "echo requests received" },
    Counter { name: "InEchoReplies", text: "echo replies received" },
    Counter { name: "InGroupMembQueries", text: "multicast listener queries received" },
    Counter { name: "InGroupMembResponses", text: "multicast listener reports received" },
    Counter { name: "InGroupMembReductions", text: "multicast listener done received" },
    Counter { name: "InRouterSolicits", text: "router solicitations received" },
    Counter { name: "InRouterAdvertisements", text: "router advertisements received" },
    Counter { name: "InNeighborSolicits", text: "neighbour solicitations received" },
    Counter { name: "InNeighborAdvertisements", text: "neighbour advertisements received" },
    Counter { name: "InRedirects", text: "redirects received" },
    Counter { name: "InMLDv2Reports", text: "version 2 multicast listener reports received" },
    Counter { name: "InIgnored", text: "echo requests that are not answered: from the unspecified address, or while echo is off" },
    Counter { name: "OutMsgs", text: "messages sent, without those of nd, mld and sockets" },
    Counter { name: "OutDestUnreachs", text: "destination unreachable sent" },
    Counter { name: "OutPktTooBigs", text: "packet too big sent" },
    Counter { name: "OutTimeExcds", text: "time exceeded sent" },
    Counter { name: "OutParmProblems", text: "parameter problem sent" },
    Counter { name: "OutEchoReplies", text: "echo replies sent" },
    Counter { name: "OutRateLimitGlobal", text: "errors not sent because of messages_per_second" },
    Counter { name: "OutRateLimitHost", text: "errors not sent because of target_interval" },
    Counter { name: "OutForbidden", text: "errors not sent because RFC 4443 forbids them" },
    Counter { name: "LocalErrors", text: "packets of this node that could not be sent, handed to their transport" },
];

/// Positions in [`COUNTERS`].
pub(super) mod count {
    pub const IN_MSGS: usize = 0;
    pub const IN_ERRORS: usize = 1;
    pub const IN_CSUM_ERRORS: usize = 2;
    pub const IN_DEST_UNREACHS: usize = 3;
    pub const IN_IGNORED: usize = 18;
    pub const OUT_MSGS: usize = 19;
    pub const OUT_DEST_UNREACHS: usize = 20;
    pub const OUT_ECHO_REPLIES: usize = 24;
    pub const OUT_LIMIT_GLOBAL: usize = 25;
    pub const OUT_LIMIT_HOST: usize = 26;
    pub const OUT_FORBIDDEN: usize = 27;
    pub const LOCAL_ERRORS: usize = 28;
    pub const ALL: usize = 29;
}

/// Counts a received message by its type.
pub(super) fn count_received(counters: &mut [u64; count::ALL], message: u8) {
    let at = match message {
        kind::DESTINATION_UNREACHABLE..=kind::PARAMETER_PROBLEM => message - kind::DESTINATION_UNREACHABLE,
        // Echo to redirect stand in the order of their numbers.
        kind::ECHO_REQUEST..=kind::REDIRECT => 4 + message - kind::ECHO_REQUEST,
        kind::LISTENER_REPORT_V2 => 14,
        _ => return,
    };
    counters[count::IN_DEST_UNREACHS + usize::from(at)] += 1;
}

/// Counts an error that was sent, by its type.
pub(super) fn count_sent(counters: &mut [u64; count::ALL], message: u8) {
    counters[count::OUT_MSGS] += 1;
    if let kind::DESTINATION_UNREACHABLE..=kind::PARAMETER_PROBLEM = message {
        counters[count::OUT_DEST_UNREACHS + usize::from(message - kind::DESTINATION_UNREACHABLE)] += 1;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_type_has_its_counter() {
        for (message, name) in [
            (1, "InDestUnreachs"),
            (2, "InPktTooBigs"),
            (4, "InParmProblems"),
            (128, "InEchos"),
            (129, "InEchoReplies"),
            (130, "InGroupMembQueries"),
            (133, "InRouterSolicits"),
            (137, "InRedirects"),
            (143, "InMLDv2Reports"),
        ] {
            let mut counters = [0; count::ALL];
            count_received(&mut counters, message);
            let at = COUNTERS.iter().position(|row| row.name == name).unwrap();
            assert_eq!((counters[at], counters.iter().sum::<u64>()), (1, 1), "{message} is {name}");
        }
        for (message, name) in [(1, "OutDestUnreachs"), (2, "OutPktTooBigs"), (3, "OutTimeExcds"), (4, "OutParmProblems")] {
            let mut counters = [0; count::ALL];
            count_sent(&mut counters, message);
            assert_eq!(counters[COUNTERS.iter().position(|row| row.name == name).unwrap()], 1, "{message} is {name}");
        }
        for (at, name) in
            [(count::OUT_ECHO_REPLIES, "OutEchoReplies"), (count::LOCAL_ERRORS, "LocalErrors"), (count::IN_IGNORED, "InIgnored")]
        {
            assert_eq!(COUNTERS[at].name, name);
        }
    }
}
