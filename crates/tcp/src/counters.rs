//! The counters of the block, with the names of Linux's /proc/net/snmp and /proc/net/netstat.

/// Declares the counters once: name in Rust and in tables, and text.
macro_rules! counters {
    ($($name:ident $text:literal),+ $(,)?) => {
        /// A counter.
        #[derive(Clone, Copy, PartialEq, Eq, Debug)]
        #[repr(usize)]
        pub enum Counter { $(#[doc = $text] $name),+ }
        /// The rows for the block's kind.
        pub const ROWS: &[weft_core::Counter] = &[$(weft_core::Counter { name: stringify!($name), text: $text }),+];
    };
}

counters! {
    ActiveOpens "connections opened by this node",
    PassiveOpens "connections accepted from a listener",
    AttemptFails "connections that failed before they were established",
    EstabResets "established connections that were reset",
    CurrEstab "connections in ESTABLISHED or CLOSE-WAIT now",
    InSegs "segments received, large frames counted by their segments",
    OutSegs "segments sent, retransmissions too (as Linux counts)",
    RetransSegs "segments sent again",
    InErrs "segments with a bad checksum or header",
    OutRsts "resets sent",
    InCsumErrors "segments with a bad checksum",
    ListenOverflows "handshakes that found the accept queue full",
    ListenDrops "SYNs and handshakes that a listener dropped",
    TCPReqQFullDrop "SYNs dropped because too many connections were half open",
    TCPReqQFullDoCookies "SYNs answered by cookie because too many connections were half open",
    SyncookiesSent "SYN|ACKs that were cookies",
    SyncookiesRecv "connections made from a cookie",
    SyncookiesFailed "acknowledgments that were no cookie of ours",
    TCPFastOpenActive "connections whose SYN's data was taken",
    TCPFastOpenActiveFail "connections whose SYN's data was not taken",
    TCPFastOpenPassive "connections that began with a valid cookie",
    TCPFastOpenPassiveFail "SYNs with a wrong cookie",
    TCPFastOpenPassiveAltKey "SYNs with a cookie of the older key",
    TCPFastOpenListenOverflow "SYNs whose listener had as many early connections as it takes",
    TCPFastOpenCookieReqd "SYNs that asked for a cookie",
    TCPFastOpenCacheEvict "servers whose cookie gave way to another's",
    TCPTimeouts "retransmission timeouts",
    TCPLossProbes "tail loss probes sent",
    TCPLossProbeRecovery "losses repaired by a tail loss probe",
    TCPFastRetrans "segments retransmitted in fast recovery",
    TCPSlowStartRetrans "segments retransmitted after a timeout",
    TCPLostRetransmit "retransmissions that were lost again",
    TCPSackRecovery "fast recoveries with SACK",
    TCPRenoRecovery "fast recoveries without SACK",
    TCPSackFailures "timeouts in fast recovery",
    TCPLossFailures "timeouts in recovery after a timeout",
    TCPSACKReneging "peers that discarded data they had sacked",
    TCPSACKReorder "reorderings seen by SACK",
    TCPSpuriousRTOs "timeouts that F-RTO found to be spurious",
    TCPFullUndo "recoveries undone as spurious",
    TCPPartialUndo "recoveries undone in part",
    TCPDSACKUndo "recoveries undone by DSACK",
    TCPLossUndo "timeouts undone as spurious",
    TCPDSACKRecv "duplicates that the peer reported",
    TCPDSACKOfoRecv "out-of-order duplicates that the peer reported",
    TCPDSACKOldSent "duplicates of delivered data that we reported",
    TCPDSACKOfoSent "duplicates of out-of-order data that we reported",
    TCPOFOQueue "segments kept out of order",
    TCPOFODrop "out-of-order segments dropped for want of room",
    TCPRcvQDrop "segments in order dropped because mem_max was reached",
    PruneCalled "times a segment found no memory",
    OfoPruned "times out-of-order data was thrown away for it",
    TCPMemoryPressures "times mem_pressure was exceeded",
    TCPMemoryPressuresChrono "milliseconds until mem_low was reached again, in all",
    TCPAbortOnMemory "closed connections reset because mem_max was exceeded",
    TCPRcvCoalesce "out-of-order segments delivered when the gap closed",
    TCPHPHits "data segments taken by header prediction",
    TCPHPAcks "acknowledgments taken by header prediction",
    TCPPureAcks "acknowledgments without data",
    TCPAckCompressed "acknowledgments of out-of-order data that left as one with others",
    DelayedACKs "acknowledgments sent by the delayed-ACK timer",
    PAWSEstab "segments refused by PAWS",
    PAWSActive "handshake segments refused by PAWS",
    TCPChallengeACK "challenge ACKs sent",
    TCPSYNChallenge "challenge ACKs in answer to a SYN",
    TCPACKSkippedSeq "answers to segments outside the window that the rate limit held back",
    TCPACKSkippedPAWS "answers to PAWS failures that the rate limit held back",
    TCPACKSkippedChallenge "challenge ACKs that the rate limit held back",
    BeyondWindow "segments that began or ended behind the window",
    TCPZeroWindowDrop "data that came while the window was closed",
    TCPFromZeroWindowAdv "windows opened from zero",
    TCPToZeroWindowAdv "windows closed",
    TCPWantZeroWindowAdv "windows that would have closed if shrinking were allowed",
    TCPWinProbe "window probes sent",
    TCPKeepAlive "keepalive probes sent",
    TCPAbortOnData "connections reset because data came after close",
    TCPAbortOnClose "connections reset because data was unread at close",
    TCPAbortOnTimeout "connections ended because the peer did not answer",
    TCPAbortOnLinger "connections reset by close in FIN-WAIT-2 with a negative TCP_LINGER2",
    TCPTimeWaitOverflow "TIME-WAITs that the table had no room for",
    TCPMinTTLDrop "segments from farther away than IP_MINTTL or IPV6_MINHOPCOUNT allows",
    TW "connections that entered TIME-WAIT",
    TWRecycled "TIME-WAITs ended by a new SYN",
    TCPTimeWaitNow "connections in TIME-WAIT now",
    TCPDeferAcceptDrop "final ACKs ignored by TCP_DEFER_ACCEPT",
    TCPECNEstab "connections that negotiated ECN",
    TCPDeliveredCE "segments whose congestion mark the peer reported",
    InCEPkts "segments received with a congestion mark",
    TCPTSQBlocked "times a connection waited for frames below to leave",
    TCPMTUPBlackHole "connections whose path seemed to swallow long packets",
    TCPMTUPSent "probes for a larger path MTU",
    TCPMTUPSuccess "such probes that arrived",
    TCPMTUPFail "such probes that were lost",
    OutOfWindowIcmps "ICMP errors about nothing that is in flight",
    TCPMTUReduced "path MTUs that a router reduced",
    TCPSynRetrans "SYNs and SYN|ACKs sent again",
    TCPOrigDataSent "data segments sent for the first time",
    TCPDelivered "data segments delivered to peers",
    TCPHystartTrainDetect "slow starts ended by a train of acknowledgments",
    TCPHystartTrainCwnd "their windows, segments",
    TCPHystartDelayDetect "slow starts ended by round trips that took longer",
    TCPHystartDelayCwnd "their windows, segments",
    TCPAutoTuned "receive buffers grown",
    TCPUrgentReceived "urgent pointers received",
    TCPRecordEndsLost "ends of records (MSG_EOR) not heeded because there were as many already",
    TCPStampsLost "times (SO_TIMESTAMPING) not told because as many bytes were waited for",
}

/// The values.
#[derive(Clone, Debug)]
pub struct Counters(pub [u64; ROWS.len()]);

impl Default for Counters {
    fn default() -> Counters {
        Counters([0; ROWS.len()])
    }
}

impl Counters {
    /// Adds.
    #[inline]
    pub fn add(&mut self, counter: Counter, count: u64) {
        self.0[counter as usize] += count;
    }
    /// Takes away from a gauge.
    #[inline]
    pub fn subtract(&mut self, counter: Counter, count: u64) {
        self.0[counter as usize] = self.0[counter as usize].saturating_sub(count);
    }
    /// Reads.
    pub fn get(&self, counter: Counter) -> u64 {
        self.0[counter as usize]
    }
}
