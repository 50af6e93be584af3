//! What is counted of all sockets together.

use std::collections::BTreeMap;
use weft_core::block::Counter;
use weft_core::state::{Damage, Field, Reader, Writer};

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
    UNCHECKED "unchecked" "datagrams over IPv6 without a checksum, whose sockets want one",
    LITE_IN "UdpLiteInDatagrams" "UDP-Lite datagrams that came in",
    LITE_OUT "UdpLiteOutDatagrams" "UDP-Lite datagrams sent",
    LITE_NO_PORTS "UdpLiteNoPorts" "UDP-Lite datagrams for a port without a socket",
    LITE_BUFFER_ERRORS "UdpLiteRcvbufErrors" "UDP-Lite datagrams lost to a full receive buffer",
    LITE_UNCOVERED "UdpLiteUncovered" "UDP-Lite datagrams whose checksum covers less than their sockets want",
}

/// How often each happened.
#[derive(Debug)]
pub(crate) struct Counters([u64; COUNTERS.len()]);

impl Counters {
    pub(crate) fn new() -> Counters {
        Counters([0; COUNTERS.len()])
    }

    /// It happened once more.
    pub(crate) fn count(&mut self, counter: usize) {
        if let Some(value) = self.0.get_mut(counter) {
            *value += 1;
        }
    }

    /// All, in the order of [`COUNTERS`].
    pub(crate) fn values(&self) -> &[u64] {
        &self.0
    }
}

/// By name: a successor may count other things.
impl Field for Counters {
    fn write(&self, out: &mut Writer) {
        let counted: BTreeMap<String, u64> = COUNTERS.iter().map(|row| row.name.to_owned()).zip(self.0).collect();
        out.put(&counted);
    }
    fn read(from: &mut Reader<'_>) -> Result<Counters, Damage> {
        let counted: BTreeMap<String, u64> = from.take()?;
        let mut counters = Counters::new();
        for (row, count) in COUNTERS.iter().zip(&mut counters.0) {
            *count = counted.get(row.name).copied().unwrap_or(0);
        }
        Ok(counters)
    }
}
