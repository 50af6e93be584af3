//! Why a frame was dropped: one row a reason, with the sentence a person reads in `weft show drops`.

/// Declares the reasons once: name in Rust, name for people, text.
macro_rules! reasons {
    ($($variant:ident $name:literal $text:literal),+ $(,)?) => {
        /// Why a frame was dropped.
        #[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug, Hash)]
        #[repr(u8)]
        pub enum Reason { $(#[doc = $text] $variant),+ }

        impl Reason {
            /// Every reason, in the order of their numbers.
            pub const ALL: &'static [Reason] = &[$(Reason::$variant),+];
            /// How many reasons there are.
            pub const COUNT: usize = Reason::ALL.len();
            /// Short name, as in `--json`.
            pub const fn name(self) -> &'static str { match self { $(Reason::$variant => $name),+ } }
            /// What happened, for a person.
            pub const fn text(self) -> &'static str { match self { $(Reason::$variant => $text),+ } }
        }
    };
}

reasons! {
    NotBound "not-bound" "the output port has no edge",
    BlockGone "block-gone" "the block was deleted while the frame waited for it, or in it",
    Loop "loop" "the frame visited more blocks than the limit allows: the graph loops",
    QueueFull "queue-full" "the queue in front of the block was full",
    Paused "paused" "the graph was paused, and held as many frames as it can",
    Refused "refused" "the block does not take frames on this port",
    Truncated "truncated" "fewer bytes than the header says",
    BadVersion "bad-version" "wrong IP version",
    BadHeaderLength "bad-header-length" "header length out of range",
    BadTotalLength "bad-total-length" "length field disagrees with the frame",
    BadChecksum "bad-checksum" "checksum does not match",
    BadOption "bad-option" "malformed option",
    BadPacket "bad-packet" "malformed in another way",
    NotForUs "not-for-us" "to no address of this node and no group that it is in, and not to be forwarded",
    OtherHost "other-host" "link-layer destination is another host",
    UnknownEtherType "unknown-ether-type" "no block takes this EtherType",
    UnknownProtocol "unknown-protocol" "no block takes this IP protocol",
    UnknownInterface "unknown-interface" "no such interface, or it has no backend",
    InterfaceDown "interface-down" "the interface is down",
    NoCarrier "no-carrier" "the interface has no carrier: its wire is cut, or the other end is down",
    Ipv6Disabled "ipv6-disabled" "IPv6 is disabled on the interface",
    NoRoute "no-route" "no route to the destination",
    NoPort "no-port" "no socket on the destination port",
    TtlExceeded "ttl-exceeded" "time to live ran out",
    TooBig "too-big" "larger than the MTU and must not be fragmented",
    FragmentDuplicate "fragment-duplicate" "fragment whose bytes are there already",
    FragmentOverlap "fragment-overlap" "fragment that overlaps another of its packet: all of it is discarded",
    FragmentInvalid "fragment-invalid" "fragment that contradicts another of its packet, or makes it too long: all of it is discarded",
    FragmentLimit "fragment-limit" "no memory for another fragment, or too many of one packet",
    ReassemblyTimeout "reassembly-timeout" "fragments of the packet were missing for too long",
    NeighbourPendingFull "neighbour-pending-full" "too many packets wait for this neighbour's address",
    NeighbourFailed "neighbour-failed" "the neighbour did not answer address resolution",
    MartianSource "martian-source" "source address that no host may have",
    ReversePath "reverse-path" "rp_filter: the source is reached another way, or not at all",
    RateLimited "rate-limited" "over the rate limit for such answers",
    SocketBufferFull "socket-buffer-full" "the socket's receive buffer is full",
    ListenOverflow "listen-overflow" "the listener's accept queue is full",
    SynQueueFull "syn-queue-full" "too many half-open connections",
    NoConnection "no-connection" "segment for no connection or listener",
    TcpUnacceptable "tcp-unacceptable" "segment outside the receive window",
    TcpPaws "tcp-paws" "timestamp older than the last one: PAWS",
    TcpOldAck "tcp-old-ack" "acknowledgment of old or unsent data",
    TcpOutOfOrderFull "tcp-out-of-order-full" "no room to keep out-of-order data",
    TcpMemory "tcp-memory" "TCP's connections together hold as much memory as they may",
    TcpInvalidState "tcp-invalid-state" "segment that makes no sense in the connection's state",
    TableFull "table-full" "a bounded table had no room",
    Filtered "filtered" "a filter said no",
    Discarded "discarded" "a drop block ends every frame",
    Impaired "impaired" "an impairment block lost it on purpose",
    BlockDropped "block-dropped" "a loaded block dropped it; the block's counters say why",
    BlockFailed "block-failed" "the loaded block has failed, and on_failure = \"close\" closes its path",
    Stopped "stopped" "the stack is going down",
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_unique_and_numbers_are_positions() {
        for (index, reason) in Reason::ALL.iter().enumerate() {
            assert_eq!(*reason as usize, index);
            assert_eq!(Reason::ALL.iter().filter(|other| other.name() == reason.name()).count(), 1, "{}", reason.name());
            assert!(!reason.text().is_empty());
        }
    }
}
