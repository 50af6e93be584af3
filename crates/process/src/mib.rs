//! /proc/net/snmp, netstat and snmp6: what Linux counts (net/ipv4/proc.c, net/ipv6/proc.c), from the counters of blocks, which bear the same names. What no block
//! counts is 0.

use serde_json::Value;
use std::collections::BTreeMap;
use std::fmt::Write as _;

/// Counters by block and name.
pub(crate) type Counters = BTreeMap<String, BTreeMap<String, u64>>;

/// Reads what `Show::Counters` answers.
pub(crate) fn counters(shown: &Value) -> Counters {
    let rows = shown.as_array().into_iter().flatten().filter_map(|row| {
        let counters = row["counters"].as_object()?;
        let named = counters.iter().filter_map(|(name, value)| Some((name.clone(), value.as_u64()?)));
        Some((row["block"].as_str()?.to_owned(), named.collect()))
    });
    rows.collect()
}

const IP: &str = "Forwarding DefaultTTL InReceives InHdrErrors InAddrErrors ForwDatagrams InUnknownProtos InDiscards InDelivers OutRequests OutDiscards \
     OutNoRoutes ReasmTimeout ReasmReqds ReasmOKs ReasmFails FragOKs FragFails FragCreates OutTransmits";
const ICMP: &str = "InMsgs InErrors InCsumErrors InDestUnreachs InTimeExcds InParmProbs InSrcQuenchs InRedirects InEchos InEchoReps InTimestamps \
     InTimestampReps InAddrMasks InAddrMaskReps OutMsgs OutErrors OutRateLimitGlobal OutRateLimitHost OutDestUnreachs OutTimeExcds OutParmProbs \
     OutSrcQuenchs OutRedirects OutEchos OutEchoReps OutTimestamps OutTimestampReps OutAddrMasks OutAddrMaskReps";
const TCP: &str = "RtoAlgorithm RtoMin RtoMax MaxConn ActiveOpens PassiveOpens AttemptFails EstabResets CurrEstab InSegs OutSegs RetransSegs InErrs OutRsts \
     InCsumErrors";
const UDP: &str = "InDatagrams NoPorts InErrors OutDatagrams RcvbufErrors SndbufErrors InCsumErrors IgnoredMulti MemErrors";
const TCP_EXT: &str = "SyncookiesSent SyncookiesRecv SyncookiesFailed EmbryonicRsts PruneCalled RcvPruned OfoPruned OutOfWindowIcmps LockDroppedIcmps ArpFilter TW \
     TWRecycled TWKilled PAWSActive PAWSEstab BeyondWindow TSEcrRejected PAWSOldAck PAWSTimewait DelayedACKs DelayedACKLocked DelayedACKLost \
     ListenOverflows ListenDrops TCPHPHits TCPPureAcks TCPHPAcks TCPRenoRecovery TCPSackRecovery TCPSACKReneging TCPSACKReorder TCPRenoReorder \
     TCPTSReorder TCPFullUndo TCPPartialUndo TCPDSACKUndo TCPLossUndo TCPLostRetransmit TCPRenoFailures TCPSackFailures TCPLossFailures TCPFastRetrans \
     TCPSlowStartRetrans TCPTimeouts TCPLossProbes TCPLossProbeRecovery TCPRenoRecoveryFail TCPSackRecoveryFail TCPRcvCollapsed TCPBacklogCoalesce \
     TCPDSACKOldSent TCPDSACKOfoSent TCPDSACKRecv TCPDSACKOfoRecv TCPAbortOnData TCPAbortOnClose TCPAbortOnMemory TCPAbortOnTimeout TCPAbortOnLinger \
     TCPAbortFailed TCPMemoryPressures TCPMemoryPressuresChrono TCPSACKDiscard TCPDSACKIgnoredOld TCPDSACKIgnoredNoUndo TCPSpuriousRTOs TCPMD5NotFound \
     TCPMD5Unexpected TCPMD5Failure TCPSackShifted TCPSackMerged TCPSackShiftFallback TCPBacklogDrop PFMemallocDrop TCPMinTTLDrop TCPDeferAcceptDrop \
     IPReversePathFilter TCPTimeWaitOverflow TCPReqQFullDoCookies TCPReqQFullDrop TCPRetransFail TCPRcvCoalesce TCPOFOQueue TCPOFODrop TCPOFOMerge \
     TCPChallengeACK TCPSYNChallenge TCPFastOpenActive TCPFastOpenActiveFail TCPFastOpenPassive TCPFastOpenPassiveFail TCPFastOpenListenOverflow \
     TCPFastOpenCookieReqd TCPFastOpenBlackhole TCPSpuriousRtxHostQueues BusyPollRxPackets TCPAutoCorking TCPFromZeroWindowAdv TCPToZeroWindowAdv \
     TCPWantZeroWindowAdv TCPSynRetrans TCPOrigDataSent TCPHystartTrainDetect TCPHystartTrainCwnd TCPHystartDelayDetect TCPHystartDelayCwnd \
     TCPACKSkippedSynRecv TCPACKSkippedPAWS TCPACKSkippedSeq TCPACKSkippedFinWait2 TCPACKSkippedTimeWait TCPACKSkippedChallenge TCPWinProbe \
     TCPKeepAlive TCPMTUPFail TCPMTUPSuccess TCPDelivered TCPDeliveredCE TCPAckCompressed TCPZeroWindowDrop TCPRcvQDrop TCPWqueueTooBig \
     TCPFastOpenPassiveAltKey TcpTimeoutRehash TcpDuplicateDataRehash TCPDSACKRecvSegs TCPDSACKIgnoredDubious TCPMigrateReqSuccess \
     TCPMigrateReqFailure TCPPLBRehash TCPAORequired TCPAOBad TCPAOKeyNotFound TCPAOGood TCPAODroppedIcmps";
const IP_EXT: &str = "InNoRoutes InTruncatedPkts InMcastPkts OutMcastPkts InBcastPkts OutBcastPkts InOctets OutOctets InMcastOctets OutMcastOctets InBcastOctets \
     OutBcastOctets InCsumErrors InNoECTPkts InECT1Pkts InECT0Pkts InCEPkts ReasmOverlaps";
/// net/mptcp/mib.c of Linux 6.18.
const MPTCP_EXT: &str = "MPCapableSYNRX MPCapableSYNTX MPCapableSYNACKRX MPCapableACKRX MPCapableFallbackACK MPCapableFallbackSYNACK MPCapableSYNTXDrop \
     MPCapableSYNTXDisabled MPCapableEndpAttempt MPFallbackTokenInit MPTCPRetrans MPJoinNoTokenFound MPJoinSynRx MPJoinSynBackupRx MPJoinSynAckRx \
     MPJoinSynAckBackupRx MPJoinSynAckHMacFailure MPJoinAckRx MPJoinAckHMacFailure MPJoinRejected MPJoinSynTx MPJoinSynTxCreatSkErr \
     MPJoinSynTxBindErr MPJoinSynTxConnectErr DSSNotMatching DSSCorruptionFallback DSSCorruptionReset InfiniteMapTx InfiniteMapRx DSSNoMatchTCP \
     DataCsumErr OFOQueueTail OFOQueue OFOMerge NoDSSInWindow DuplicateData AddAddr AddAddrTx AddAddrTxDrop EchoAdd EchoAddTx EchoAddTxDrop \
     PortAdd AddAddrDrop MPJoinPortSynRx MPJoinPortSynAckRx MPJoinPortAckRx MismatchPortSynRx MismatchPortAckRx RmAddr RmAddrDrop RmAddrTx \
     RmAddrTxDrop RmSubflow MPPrioTx MPPrioRx MPFailTx MPFailRx MPFastcloseTx MPFastcloseRx MPRstTx MPRstRx SubflowStale SubflowRecover \
     SndWndShared RcvWndShared RcvWndConflictUpdate RcvWndConflict MPCurrEstab Blackhole MPCapableDataFallback MD5SigFallback DssFallback \
     SimultConnectFallback FallbackFailed WinProbe";
const SIX: &str = "Ip6InReceives Ip6InHdrErrors Ip6InTooBigErrors Ip6InNoRoutes Ip6InAddrErrors Ip6InUnknownProtos Ip6InTruncatedPkts Ip6InDiscards Ip6InDelivers \
     Ip6OutForwDatagrams Ip6OutRequests Ip6OutDiscards Ip6OutNoRoutes Ip6ReasmTimeout Ip6ReasmReqds Ip6ReasmOKs Ip6ReasmFails Ip6FragOKs Ip6FragFails \
     Ip6FragCreates Ip6InMcastPkts Ip6OutMcastPkts Ip6InOctets Ip6OutOctets Ip6InMcastOctets Ip6OutMcastOctets Ip6InBcastOctets Ip6OutBcastOctets \
     Ip6InNoECTPkts Ip6InECT1Pkts Ip6InECT0Pkts Ip6InCEPkts Ip6OutTransmits Icmp6InMsgs Icmp6InErrors Icmp6OutMsgs Icmp6OutErrors Icmp6InCsumErrors \
     Icmp6OutRateLimitHost Icmp6InDestUnreachs Icmp6InPktTooBigs Icmp6InTimeExcds Icmp6InParmProblems Icmp6InEchos Icmp6InEchoReplies \
     Icmp6InGroupMembQueries Icmp6InGroupMembResponses Icmp6InGroupMembReductions Icmp6InRouterSolicits Icmp6InRouterAdvertisements \
     Icmp6InNeighborSolicits Icmp6InNeighborAdvertisements Icmp6InRedirects Icmp6InMLDv2Reports Icmp6OutDestUnreachs Icmp6OutPktTooBigs \
     Icmp6OutTimeExcds Icmp6OutParmProblems Icmp6OutEchos Icmp6OutEchoReplies Icmp6OutGroupMembQueries Icmp6OutGroupMembResponses \
     Icmp6OutGroupMembReductions Icmp6OutRouterSolicits Icmp6OutRouterAdvertisements Icmp6OutNeighborSolicits Icmp6OutNeighborAdvertisements \
     Icmp6OutRedirects Icmp6OutMLDv2Reports Udp6InDatagrams Udp6NoPorts Udp6InErrors Udp6OutDatagrams Udp6RcvbufErrors Udp6SndbufErrors \
     Udp6InCsumErrors Udp6IgnoredMulti Udp6MemErrors UdpLite6InDatagrams UdpLite6NoPorts UdpLite6InErrors UdpLite6OutDatagrams UdpLite6RcvbufErrors \
     UdpLite6SndbufErrors UdpLite6InCsumErrors UdpLite6MemErrors";

/// What UDP counts (`which` is empty), or UDP-Lite, of both families together: the block what is damaged, the sockets all else. What sockets do not take is an
/// error as well: udp_queue_rcv_one_skb and __udp_queue_rcv_skb end with "UDP_INC_STATS(sock_net(sk), UDP_MIB_INERRORS, is_udplite);", and so does what
/// comes over IPv6 without a checksum (__udp6_lib_rcv, csum_error).
fn udp(all: &Counters, which: &str, name: &str) -> u64 {
    let whole = format!("{which}{name}");
    let of_sockets: u64 = match (which, name) {
        ("", "InErrors") => ["RcvbufErrors", "MemErrors", "unchecked"].iter().map(|name| count(all, "sockets", name)).sum(),
        ("", "InCsumErrors") => count(all, "sockets", "unchecked"),
        (_, "InErrors") => ["UdpLiteRcvbufErrors", "UdpLiteUncovered"].iter().map(|name| count(all, "sockets", name)).sum(),
        (_, "InCsumErrors") => 0,
        _ => return count(all, "sockets", &whole),
    };
    count(all, "udp", &whole) + of_sockets
}

fn count(all: &Counters, block: &str, name: &str) -> u64 {
    all.get(block).and_then(|counters| counters.get(name)).copied().unwrap_or(0)
}

fn group(text: &mut String, title: &str, names: &str, value: impl Fn(&str) -> String) {
    let values: Vec<String> = names.split_whitespace().map(value).collect();
    let _ = write!(text, "{title}: {}\n{title}: {}\n", names.split_whitespace().collect::<Vec<_>>().join(" "), values.join(" "));
}

/// The text of a file; None: it is none of these. `forwards` and `ttl` are settings of IPv4.
pub(crate) fn file(name: &str, all: &Counters, forwards: bool, ttl: u64) -> Option<String> {
    let mut text = String::new();
    match name {
        "snmp" => {
            group(&mut text, "Ip", IP, |name| match name {
                // RFC 4293: forwarding(1), notForwarding(2).
                "Forwarding" => if forwards { "1" } else { "2" }.to_owned(),
                "DefaultTTL" => ttl.to_string(),
                "OutTransmits" => count(all, "ip4", "OutRequests").to_string(),
                _ => count(all, "ip4", name).to_string(),
            });
            group(&mut text, "Icmp", ICMP, |name| count(all, "icmp4", name).to_string());
            group(&mut text, "Tcp", TCP, |name| match name {
                "RtoAlgorithm" => "1".to_owned(),
                "RtoMin" => "200".to_owned(),
                "RtoMax" => "120000".to_owned(),
                "MaxConn" => "-1".to_owned(),
                _ => count(all, "tcp", name).to_string(),
            });
            group(&mut text, "Udp", UDP, |name| udp(all, "", name).to_string());
            group(&mut text, "UdpLite", UDP, |name| udp(all, "UdpLite", name).to_string());
        }
        "netstat" => {
            group(&mut text, "TcpExt", TCP_EXT, |name| match name {
                "IPReversePathFilter" => count(all, "ip4", name).to_string(),
                _ => count(all, "tcp", name).to_string(),
            });
            group(&mut text, "IpExt", IP_EXT, |name| count(all, "ip4", name).to_string());
            group(&mut text, "MPTcpExt", MPTCP_EXT, |name| count(all, "mptcp", name).to_string());
        }
        "snmp6" => {
            for name in SIX.split_whitespace() {
                let known =
                    [("Ip6", "ip6"), ("Icmp6", "icmp6")].iter().find_map(|(prefix, block)| Some((*block, name.strip_prefix(prefix)?)));
                let value = known.map_or(0, |(block, name)| count(all, block, name));
                let _ = writeln!(text, "{name:<32}\t{value}");
            }
        }
        _ => return None,
    }
    Some(text)
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn counters_of_blocks_become_linux_files() {
        let shown = json!([
            {"block": "tcp", "counters": {"InSegs": 7, "TCPTimeouts": 2}},
            {"block": "ip4", "counters": {"InReceives": 9, "InOctets": 1000}},
            {"block": "mptcp", "counters": {"MPJoinSynRx": 5}},
            {"block": "ip6", "counters": {"InReceives": 4}},
            {"block": "sockets", "counters": {"InDatagrams": 3, "RcvbufErrors": 20, "unchecked": 4, "UdpLiteRcvbufErrors": 50, "UdpLiteUncovered": 6}},
            {"block": "udp", "counters": {"InErrors": 100, "InCsumErrors": 90, "UdpLiteInErrors": 200, "UdpLiteInCsumErrors": 80}},
        ]);
        let all = counters(&shown);
        let snmp = file("snmp", &all, true, 64).unwrap();
        let lines: Vec<&str> = snmp.lines().collect();
        assert!(lines[1].starts_with("Ip: 1 64 9 0 "), "{snmp}");
        let place = lines[4].split(' ').position(|name| name == "InSegs").unwrap();
        assert_eq!(lines[5].split(' ').nth(place), Some("7"));
        // As many values as names, or readers go astray.
        for pair in lines.chunks(2) {
            assert_eq!(pair[0].split(' ').count(), pair[1].split(' ').count(), "{pair:?}");
        }
        assert!(snmp.contains("\nUdp: 3 0 124 0 20 0 94 "), "{snmp}");
        assert!(snmp.contains("\nUdpLite: 0 0 256 0 50 0 80 "), "{snmp}");
        let netstat = file("netstat", &all, false, 64).unwrap();
        let names: Vec<&str> = netstat.lines().next().unwrap().split(' ').collect();
        let values: Vec<&str> = netstat.lines().nth(1).unwrap().split(' ').collect();
        assert_eq!(values[names.iter().position(|name| *name == "TCPTimeouts").unwrap()], "2");
        let of_mptcp: Vec<Vec<&str>> =
            netstat.lines().filter(|line| line.starts_with("MPTcpExt:")).map(|line| line.split(' ').collect()).collect();
        assert_eq!(of_mptcp[0].len(), of_mptcp[1].len());
        assert_eq!(of_mptcp[1][of_mptcp[0].iter().position(|name| *name == "MPJoinSynRx").unwrap()], "5");
        assert!(file("snmp6", &all, false, 64).unwrap().starts_with("Ip6InReceives                   \t4\n"));
        assert_eq!(file("tcp", &all, false, 64), None);
    }
}
