//! The counters of the block, with the names of Linux's MPTcpExt in /proc/net/netstat (net/mptcp/mib.c).

use serde::{Deserialize, Serialize};

/// Declares the counters once: name in Rust and in tables, and text.
macro_rules! counters {
    ($($name:ident $text:literal),+ $(,)?) => {
        /// A counter.
        #[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize, Deserialize)]
        #[repr(usize)]
        pub enum Counter { $(#[doc = $text] $name),+ }
        /// The rows for the block's kind.
        pub const ROWS: &[weft_core::Counter] = &[$(weft_core::Counter { name: stringify!($name), text: $text }),+];
    };
}

counters! {
    MPCapableSYNTX "SYNs with MP_CAPABLE sent",
    MPCapableSYNACKRX "answers with MP_CAPABLE received",
    MPCapableSYNRX "SYNs with MP_CAPABLE received",
    MPCapableACKRX "handshakes with MP_CAPABLE that ended well",
    MPCapableFallbackACK "accepted connections that became plain TCP at the end of their handshake",
    MPCapableFallbackSYNACK "connections whose peer answered without MP_CAPABLE",
    MPFallbackTokenInit "connections that are plain TCP because their token was taken",
    MPTCPRetrans "data sent again on another subflow, or on the same",
    MPJoinNoTokenFound "MP_JOINs for a connection that is not here",
    MPJoinSynRx "MP_JOINs received",
    MPJoinSynAckRx "answers to MP_JOINs received",
    MPJoinSynAckHMacFailure "answers to MP_JOINs with a wrong HMAC",
    MPJoinAckRx "MP_JOINs that ended well",
    MPJoinAckHMacFailure "MP_JOINs whose last ACK had a wrong HMAC",
    MPJoinSynTx "MP_JOINs sent",
    MPJoinRejected "MP_JOINs refused by a limit",
    MPJoinPortSynRx "MP_JOINs received at an announced port",
    MPJoinPortSynAckRx "answers to MP_JOINs received from an announced port",
    MPJoinPortAckRx "MP_JOINs that ended well at an announced port",
    MismatchPortSynRx "MP_JOINs received at a port that is neither the connection's nor announced",
    MPCapableEndpAttempt "connections that were to begin at an announced port, where others are only joined",
    DSSNotMatching "mappings that contradict those before",
    BareAcks "connections that became plain TCP because an acknowledgment of data came without its option",
    AllSilent "connections that were ended because acknowledgments of none of their subflows had the option any more",
    DSSCorruptionFallback "connections that became plain TCP because a box on the way had changed them",
    DSSCorruptionReset "subflows reset because a box on the way had changed them",
    InfiniteMapTx "infinite mappings sent",
    InfiniteMapRx "infinite mappings received",
    DSSNoMatchTCP "data without a mapping",
    DataCsumErr "data whose checksum was wrong",
    OFOQueueTail "data put at the end of the out-of-order queue",
    OFOQueue "data put into the out-of-order queue",
    OFOMerge "pieces of the out-of-order queue that were joined to others",
    NoDSSInWindow "data beyond the connection's window, or in more pieces than are held, dropped",
    DuplicateData "data that was here already",
    AddAddr "ADD_ADDRs received",
    AddAddrTx "ADD_ADDRs sent",
    EchoAdd "echoes of ADD_ADDR received",
    EchoAddTx "echoes of ADD_ADDR sent",
    AddAddrDrop "ADD_ADDRs that were not taken",
    RmAddr "REMOVE_ADDRs received",
    RmAddrTx "REMOVE_ADDRs sent",
    RmSubflow "subflows closed because their address is gone",
    MPPrioTx "MP_PRIOs sent",
    MPPrioRx "MP_PRIOs received",
    MPFailTx "MP_FAILs sent",
    MPFailRx "MP_FAILs received",
    MPFastcloseTx "MP_FASTCLOSEs sent",
    MPFastcloseRx "MP_FASTCLOSEs received",
    MPRstTx "MP_TCPRSTs sent",
    MPRstRx "MP_TCPRSTs received",
    SubflowStale "subflows that were found stale",
    SubflowRecover "stale subflows that came back",
    MPCurrEstab "Multipath TCP connections now",
    CopiesTx "data that was given to a subflow while another had it, by the scheduler's choice",
    OpportunisticTx "data that held up the window, sent by a faster subflow, too",
    Penalised "windows that were halved because their subflow held up the others",
    LastSubflowGone "connections whose last subflow was gone, and that waited for another",
    SubflowAgain "those of them that got one",
    StandbyClosed "subflows that stood by, closed by the policy",
    QuotasUsedUp "quotas of interfaces that were used up",
    SchedulersFailed "loadable schedulers that could not be used any more: the default was",
    BadOptions "MPTCP options that cannot be read, or make no sense where they came",
    TablesFull "connections that are plain TCP because the table was full",
    WordsUnread "words that were none",
}

/// Their values.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Counters(pub [u64; ROWS.len()]);

impl Default for Counters {
    fn default() -> Counters {
        Counters([0; ROWS.len()])
    }
}

impl Counters {
    /// One more.
    pub fn count(&mut self, counter: Counter) {
        self.0[counter as usize] += 1;
    }
    /// One less of something that there is a number of.
    pub fn less(&mut self, counter: Counter) {
        self.0[counter as usize] = self.0[counter as usize].saturating_sub(1);
    }
}
