//! Sending, as traffic: segmentation, Nagle, cork, windows and probes, retransmission, RACK-TLP, undo, keepalive, user timeout, path MTU.

use crate::common;

use common::script::run;

/// 1000 bytes a segment, SACK, no timestamps.
const ACCEPTED: &str = "
    listen backlog 4
    -> SYN seq 0 win 65535 mss 1000 sackok
    <- SYN|ACK seq 0 ack 1
    wait 100ms
    -> ACK seq 1 ack 1
";

fn accepted(rest: &str) {
    run(&[], &format!("{ACCEPTED}{rest}"));
}

#[test]
fn data_is_cut_at_the_segment_size_and_the_last_is_pushed() {
    accepted(
        "write 2500
        <- ACK seq 1 ack 1 len 1000
        <- PSH|ACK seq 1001 len 1000
        <- PSH|ACK seq 2001 len 500
        -> ACK seq 1 ack 2501",
    );
}

#[test]
fn the_initial_window_is_ten_segments() {
    accepted(
        "write 12000
        <- ACK seq 1 len 1000
        <- PSH|ACK seq 1001 len 1000
        <- ACK seq 2001 len 1000
        <- PSH|ACK seq 3001 len 1000
        <- ACK seq 4001 len 1000
        <- PSH|ACK seq 5001 len 1000
        <- ACK seq 6001 len 1000
        <- PSH|ACK seq 7001 len 1000
        <- ACK seq 8001 len 1000
        <- PSH|ACK seq 9001 len 1000
        info snd_cwnd 10
        -> ACK seq 1 ack 1001
        <- ACK seq 10001 len 1000
        <- PSH|ACK seq 11001 len 1000
        info snd_cwnd 11",
    );
}

#[test]
fn nagle_holds_back_the_second_small_segment_only() {
    accepted(
        "write 100
        <- PSH|ACK seq 1 len 100
        write 100
        write 100
        <- none
        -> ACK seq 1 ack 101
        <- PSH|ACK seq 101 len 200
        # A full segment is sent whatever is out, and a first small one behind it, too (Minshall).
        -> ACK seq 1 ack 301
        write 1000
        <- PSH|ACK seq 301 len 1000
        write 10
        <- PSH|ACK seq 1301 len 10
        write 10
        <- none
        set nodelay
        <- PSH|ACK seq 1311 len 10",
    );
}

#[test]
fn cork_holds_back_for_a_timeout_and_more_for_a_write() {
    accepted(
        "set cork
        write 300
        <- none
        write 900
        <- ACK seq 1 len 1000
        -> ACK seq 1 ack 1001
        wait 200ms
        <- none
        wait 93750us
        <- PSH|ACK seq 1001 len 200
        -> ACK seq 1 ack 1201
        write 100
        <- none
        set uncork
        <- PSH|ACK seq 1201 len 100
        -> ACK seq 1 ack 1301
        write 10 more
        <- none
        write 10
        <- PSH|ACK seq 1301 len 20",
    );
}

#[test]
fn the_peers_window_bounds_and_silly_pieces_are_not_sent() {
    run(
        &[],
        "listen
        -> SYN seq 0 win 2500 mss 1000
        <- SYN|ACK seq 0 ack 1
        wait 100ms
        -> ACK seq 1 ack 1 win 2500
        write 5000
        <- ACK seq 1 len 1000
        <- PSH|ACK seq 1001 len 1000
        # 500 would fit.
        -> ACK seq 1 ack 2001 win 600
        <- none
        -> ACK seq 1 ack 2001 win 1000
        <- ACK seq 2001 len 1000
        -> ACK seq 1 ack 3001 win 2500
        <- ACK seq 3001 len 1000
        <- PSH|ACK seq 4001 len 1000",
    );
}

#[test]
fn a_zero_window_is_probed_with_growing_intervals_as_long_as_it_is_answered() {
    accepted(
        "-> ACK seq 1 ack 1 win 0
        write 500
        <- none
        wait 300ms
        <- ACK seq 0 len 0
        -> ACK seq 1 ack 1 win 0
        wait 600ms
        <- ACK seq 0 len 0
        -> ACK seq 1 ack 1 win 0
        wait 1200ms
        <- ACK seq 0 len 0
        counter TCPWinProbe 3
        -> ACK seq 1 ack 1 win 1000
        <- PSH|ACK seq 1 len 500
        event none",
    );
}

#[test]
fn a_window_smaller_than_what_waits_is_used_by_the_override_timeout() {
    run(
        &[],
        "listen
        -> SYN seq 0 win 300 mss 1000
        <- SYN|ACK seq 0 ack 1
        wait 100ms
        -> ACK seq 1 ack 1 win 300
        write 500
        <- ACK seq 1 len 300
        -> ACK seq 1 ack 301 win 300
        <- PSH|ACK seq 301 len 200
        -> ACK seq 1 ack 501 win 1000
        -> ACK seq 2 ack 501 win 100
        write 300
        <- none
        within 300ms
        <- ACK seq 501 len 100",
    );
}

#[test]
fn timeouts_back_off_and_end_the_connection() {
    run(
        &[("retries2", 3.into()), ("tail_loss_probe", false.into())],
        &format!(
            "{ACCEPTED}
            write 500
            <- PSH|ACK seq 1 len 500
            wait 300ms
            <- PSH|ACK seq 1 len 500
            wait 600ms
            <- PSH|ACK seq 1 len 500
            wait 1200ms
            <- PSH|ACK seq 1 len 500
            # 0.2 s * (1 + 2 + 4 + 8) are over.
            wait 2400ms
            event failed timedout
            event released
            counter TCPTimeouts 3
            counter TCPAbortOnTimeout 1"
        ),
    );
}

#[test]
fn a_tail_loss_probe_comes_before_the_timeout() {
    accepted(
        "write 2000
        <- ACK seq 1 len 1000
        <- PSH|ACK seq 1001 len 1000
        # 2 * SRTT + 2 ms.
        wait 202ms
        <- PSH|ACK seq 1001 len 1000
        counter TCPLossProbes 1
        wait 100ms
        # The probe's SACK makes the first one lost.
        -> ACK seq 1 ack 1 sack 1001-2001
        <- ACK seq 1 len 1000
        -> ACK seq 1 ack 2001
        counter TCPTimeouts 0
        counter TCPSackRecovery 1",
    );
}

#[test]
fn a_probe_that_repaired_the_tail_is_a_loss_for_congestion_control() {
    accepted(
        "write 1000
        <- PSH|ACK seq 1 len 1000
        # One segment out: the peer may delay its acknowledgment.
        wait 300ms
        <- any
        -> ACK seq 1 ack 1001
        write 1000
        <- PSH|ACK seq 1001 len 1000
        counter TCPLossProbeRecovery 0
        -> ACK seq 1 ack 2001",
    );
}

#[test]
fn three_segments_sacked_above_a_gap_make_it_lost() {
    accepted(
        "write 6000
        <- ACK seq 1 len 1000
        <- PSH|ACK seq 1001 len 1000
        <- ACK seq 2001 len 1000
        <- PSH|ACK seq 3001 len 1000
        <- ACK seq 4001 len 1000
        <- PSH|ACK seq 5001 len 1000
        wait 100ms
        -> ACK seq 1 ack 1 sack 1001-2001
        <- none
        -> ACK seq 1 ack 1 sack 1001-3001
        <- none
        info ca_state 1
        -> ACK seq 1 ack 1 sack 1001-4001
        <- ACK seq 1 len 1000
        info ca_state 3
        info lost 1
        info retrans 1
        info sacked 3
        counter TCPFastRetrans 1
        -> ACK seq 1 ack 6001
        info ca_state 0
        info snd_cwnd 7",
    );
}

/// tcp_ack takes the highest SACKed segment before it looks at the acknowledgment's own blocks.
#[test]
fn a_delayed_acknowledgment_of_both_sides_of_a_hole_is_no_reordering() {
    let six = "write 6000
        <- ACK seq 1 len 1000
        <- PSH|ACK seq 1001 len 1000
        <- ACK seq 2001 len 1000
        <- PSH|ACK seq 3001 len 1000
        <- ACK seq 4001 len 1000
        <- PSH|ACK seq 5001 len 1000
        wait 100ms
        ";
    // The first segment's acknowledgment was delayed until the third came; the second is lost.
    accepted(&format!(
        "{six}-> ACK seq 1 ack 1001 sack 2001-3001
        info reord_seen 0
        info sacked 1"
    ));
    // The third came before the first, as the acknowledgments tell: that is reordering.
    accepted(&format!(
        "{six}-> ACK seq 1 ack 1 sack 2001-3001
        info reord_seen 0
        -> ACK seq 1 ack 1001 sack 2001-3001
        info reord_seen 1"
    ));
}

#[test]
fn rack_waits_a_quarter_of_the_round_trip_for_fewer() {
    accepted(
        "write 3000
        <- ACK seq 1 len 1000
        <- PSH|ACK seq 1001 len 1000
        <- PSH|ACK seq 2001 len 1000
        wait 100ms
        -> ACK seq 1 ack 1 sack 1001-2001
        <- none
        wait 25ms
        <- ACK seq 1 len 1000
        counter TCPSackRecovery 1
        counter TCPTimeouts 0",
    );
}

#[test]
fn without_sack_three_duplicates_start_newreno() {
    run(
        &[("sack", false.into()), ("congestion", "reno".into())],
        "listen
        -> SYN seq 0 win 65535 mss 1000
        <- SYN|ACK seq 0 ack 1
        wait 100ms
        -> ACK seq 1 ack 1
        write 6000
        <- ACK seq 1 len 1000
        <- PSH|ACK seq 1001 len 1000
        <- ACK seq 2001 len 1000
        <- PSH|ACK seq 3001 len 1000
        <- ACK seq 4001 len 1000
        <- PSH|ACK seq 5001 len 1000
        wait 100ms
        -> ACK seq 1 ack 1
        -> ACK seq 1 ack 1
        <- none
        -> ACK seq 1 ack 1
        <- ACK seq 1 len 1000
        counter TCPRenoRecovery 1
        # A partial acknowledgment: the next hole at once.
        -> ACK seq 1 ack 2001
        <- ACK seq 2001 len 1000
        -> ACK seq 1 ack 6001
        <- none
        counter TCPTimeouts 0",
    );
}

#[test]
fn dsack_takes_a_spurious_recovery_back() {
    accepted(
        "write 6000
        <- any
        wait 100ms
        -> ACK seq 1 ack 1 sack 1001-4001
        <- ACK seq 1 len 1000
        info snd_ssthresh 7
        -> ACK seq 1 ack 6001
        -> ACK seq 1 ack 6001 sack 1-1001
        counter TCPDSACKRecv 1
        counter TCPDSACKUndo 1
        info snd_cwnd 10
        info snd_ssthresh 2147483647",
    );
}

#[test]
fn an_old_echo_takes_a_spurious_timeout_back() {
    run(
        &[("tail_loss_probe", false.into()), ("frto", false.into())],
        "listen
        -> SYN seq 0 win 65535 mss 1012 sackok ts 1
        <- SYN|ACK seq 0 ack 1
        wait 100ms
        -> ACK seq 1 ack 1 ts 2
        write 3000
        <- any
        wait 300ms
        <- ACK seq 1 len 1000
        info snd_cwnd 1
        # The echo is older than the retransmission.
        wait 10ms
        -> ACK seq 1 ack 1001 ts 3 ecr 200
        info snd_cwnd 10
        counter TCPLossUndo 1",
    );
}

#[test]
fn frto_sends_new_data_and_finds_the_timeout_spurious() {
    run(
        &[("tail_loss_probe", false.into())],
        &format!(
            "{ACCEPTED}
            write 3000
            <- ACK seq 1 len 1000
            <- PSH|ACK seq 1001 len 1000
            <- PSH|ACK seq 2001 len 1000
            wait 300ms
            <- ACK seq 1 len 1000
            write 4000
            -> ACK seq 1 ack 1001
            # Half of the window is a frame.
            <- ACK seq 3001 len 1000
            <- ACK seq 4001 len 1000
            # Never retransmitted, and acknowledged.
            -> ACK seq 1 ack 2001
            <- any
            counter TCPSpuriousRTOs 1
            counter RetransSegs 1"
        ),
    );
}

#[test]
fn a_peer_that_reneges_gets_everything_again() {
    run(
        &[("tail_loss_probe", false.into())],
        &format!(
            "{ACCEPTED}
            write 3000
            <- any
            wait 10ms
            -> ACK seq 1 ack 1 sack 2001-3001
            wait 2500us
            <- ACK seq 1 len 1000
            wait 10ms
            -> ACK seq 1 ack 1001 sack 2001-3001
            <- ACK seq 1001 len 1000
            -> ACK seq 1 ack 2001
            # It does not acknowledge what it sacked.
            within 300ms
            <- PSH|ACK seq 2001 len 1000
            counter TCPSACKReneging 1"
        ),
    );
}

#[test]
fn keepalive_probes_a_silent_peer_and_gives_up() {
    run(
        &[],
        "listen keepalive 10s 1s 2
        -> SYN seq 0 win 65535 mss 1000
        <- SYN|ACK seq 0 ack 1
        -> ACK seq 1 ack 1
        wait 10s
        <- ACK seq 0 ack 1 len 0
        -> ACK seq 1 ack 1
        wait 10s
        <- ACK seq 0 ack 1 len 0
        wait 1s
        <- ACK seq 0 ack 1 len 0
        wait 1s
        <- RST|ACK seq 1
        event failed timedout
        event released
        counter TCPKeepAlive 3",
    );
}

#[test]
fn the_user_timeout_ends_a_connection_early() {
    run(
        &[("tail_loss_probe", false.into())],
        "listen timeout 1s
        -> SYN seq 0 win 65535 mss 1000
        <- SYN|ACK seq 0 ack 1
        wait 100ms
        -> ACK seq 1 ack 1
        write 10
        <- PSH|ACK seq 1 len 10
        wait 300ms
        <- PSH|ACK seq 1 len 10
        wait 600ms
        <- PSH|ACK seq 1 len 10
        wait 400ms
        event failed timedout",
    );
}

/// A peer that keeps its window shut answers every probe, and the limit counts all the same, from the first probe on (tcp_probe_timer).
#[test]
fn the_user_timeout_ends_a_connection_whose_window_stays_shut() {
    run(
        &[],
        "listen timeout 1s
        -> SYN seq 0 win 65535 mss 1000
        <- SYN|ACK seq 0 ack 1
        wait 100ms
        -> ACK seq 1 ack 1 win 0
        write 10
        wait 300ms
        <- ACK seq 0 ack 1 len 0
        -> ACK seq 1 ack 1 win 0
        wait 600ms
        <- ACK seq 0 ack 1 len 0
        -> ACK seq 1 ack 1 win 0
        wait 400ms
        event failed timedout
        counter TCPAbortOnTimeout 1",
    );
}

#[test]
fn urgent_data_carries_its_pointer() {
    accepted(
        "write 5
        <- PSH|ACK seq 1 len 5
        write 3 urgent
        <- PSH|ACK|URG seq 6 len 3 urg 3
        -> ACK seq 1 ack 9
        write 4
        <- PSH|ACK seq 9 len 4",
    );
}

#[test]
fn fin_rides_on_the_last_data_and_is_retransmitted() {
    accepted(
        "write 1500
        <- ACK seq 1 len 1000
        <- PSH|ACK seq 1001 len 500
        write 100
        <- none
        close
        <- FIN|PSH|ACK seq 1501 len 100
        -> ACK seq 1 ack 1601
        -> ACK seq 1 ack 1602
        event sendqueueempty",
    );
}

#[test]
fn pacing_spreads_a_window() {
    run(
        &[],
        "listen rate 100000
        -> SYN seq 0 win 65535 mss 1000 sackok
        <- SYN|ACK seq 0 ack 1
        wait 100ms
        -> ACK seq 1 ack 1
        write 15000
        <- any
        info segs_out 10
        wait 100ms
        -> ACK seq 1 ack 10001
        <- ACK seq 10001 len 1000
        <- PSH|ACK seq 11001 len 1000
        # Who comes late gets half a frame's time back.
        wait 10ms
        <- ACK seq 12001 len 1000
        <- PSH|ACK seq 13001 len 1000
        wait 20ms
        <- PSH|ACK seq 14001 len 1000",
    );
}

#[test]
fn an_icmp_error_makes_segments_smaller() {
    accepted(
        "write 1000
        <- PSH|ACK seq 1 len 1000
        -> ACK seq 1 ack 1001
        mtu 700
        write 1000
        <- ACK seq 1001 len 660
        <- PSH|ACK seq 1661 len 340",
    );
}

#[test]
fn unsent_low_water_limits_what_waits() {
    run(
        &[],
        "listen lowat 5000
        -> SYN seq 0 win 65535 mss 1000 sackok
        <- SYN|ACK seq 0 ack 1
        -> ACK seq 1 ack 1
        write 100
        <- PSH|ACK seq 1 len 100",
    );
}

#[test]
fn the_retransmission_timer_restarts_with_progress_and_stops_with_the_last_acknowledgment() {
    run(
        &[("tail_loss_probe", false.into())],
        &format!(
            "{ACCEPTED}
            write 2000
            <- ACK seq 1 len 1000
            <- PSH|ACK seq 1001 len 1000
            wait 100ms
            -> ACK seq 1 ack 1001
            # RTO is 0.1 s + 0.2 s, from now on.
            wait 300ms
            <- PSH|ACK seq 1001 len 1000
            -> ACK seq 1 ack 2001
            wait 10s
            counter TCPTimeouts 1"
        ),
    );
}

#[test]
fn limited_transmit_sends_new_data_on_the_first_duplicates() {
    accepted(
        "write 12000
        <- any
        wait 100ms
        -> ACK seq 1 ack 1 sack 1001-2001
        <- ACK seq 10001 len 1000
        -> ACK seq 1 ack 1 sack 1001-3001
        <- PSH|ACK seq 11001 len 1000
        info ca_state 1
        counter RetransSegs 0",
    );
}

#[test]
fn karn_no_sample_from_a_retransmission_and_the_timeout_stays_backed_off() {
    run(
        &[("tail_loss_probe", false.into())],
        &format!(
            "{ACCEPTED}
            write 1000
            <- PSH|ACK seq 1 len 1000
            info rtt_us 100000
            wait 300ms
            <- PSH|ACK seq 1 len 1000
            wait 5ms
            -> ACK seq 1 ack 1001
            info rtt_us 100000
            info backoff 1
            write 1000
            <- PSH|ACK seq 1001 len 1000
            wait 100ms
            -> ACK seq 1 ack 2001
            info backoff 0"
        ),
    );
}

#[test]
fn a_lost_retransmission_is_sent_again_without_a_timeout() {
    accepted(
        "write 9000
        <- any
        wait 100ms
        -> ACK seq 1 ack 1 sack 1001-4001
        <- ACK seq 1 len 1000
        wait 100ms
        # What was sent after it has arrived; it has not.
        -> ACK seq 1 ack 1 sack 1001-7001
        <- none
        wait 1ms
        write 3000
        <- ACK seq 9001 len 1000
        <- PSH|ACK seq 10001 len 1000
        <- PSH|ACK seq 11001 len 1000
        wait 110ms
        <- none
        -> ACK seq 1 ack 1 sack 1001-10001
        <- ACK seq 1 len 1000
        counter TCPLostRetransmit 1
        counter TCPTimeouts 0",
    );
}

#[test]
fn in_a_reduction_with_nothing_out_a_segment_may_go() {
    // The byte that was marked was acknowledged while segments were short: what it lets out is less than a segment now. No further
    // acknowledgment will come, so waiting for one would be for ever.
    run(
        &[],
        "listen backlog 4
        mtu 600
        -> SYN|ECE|CWR seq 0 win 65535 mss 1460 sackok
        <- SYN|ACK|ECE seq 0 ack 1
        -> ACK seq 1 ack 1
        write 1
        <- PSH|ACK seq 1 len 1
        -> ACK|ECE seq 1 ack 2
        info ca_state 2
        mtu 1500
        write 1460
        <- PSH|ACK|CWR seq 2 len 1460",
    );
}

/// So many full segments from this number on, in large frames of `each`, which end with PSH.
fn segments(from: u32, count: u32, each: u32) -> String {
    let flags = |index: u32| if index % each == each - 1 { "PSH|ACK" } else { "ACK" };
    (0..count).map(|index| format!("<- {} seq {} len 1000\n", flags(index), from + 1000 * index)).collect()
}

#[test]
fn a_writer_goes_on_when_a_third_of_the_buffer_is_free() {
    let open = "listen backlog 4 sndbuf 9000
        -> SYN seq 0 win 65535 mss 1000 sackok
        <- SYN|ACK seq 0 ack 1
        wait 100ms
        -> ACK seq 1 ack 1
        write 20000";
    let first = segments(1, 8, 2);
    run(
        &[],
        &format!(
            "{open}
            {first}
            <- PSH|ACK seq 8001 len 1000
            -> ACK seq 1 ack 1001
            -> ACK seq 1 ack 2001
            info send_queue_bytes 7000
            <- none
            -> ACK seq 1 ack 3001
            <- ACK seq 9001 len 1000
            <- ACK seq 10001 len 1000
            <- PSH|ACK seq 11001 len 1000
            # Smaller than what waits: until a third of that is free.
            set sndbuf 4608
            -> ACK seq 1 ack 8001
            info send_queue_bytes 4000
            <- none
            -> ACK seq 1 ack 9001
            info send_queue_bytes 4608
            <- ACK seq 12001 len 1000
            <- PSH|ACK seq 13001 len 608"
        ),
    );
}

#[test]
fn a_writer_goes_on_when_half_of_what_may_wait_unsent_does() {
    // Four thousand at a time, of which the next may be written when two thousand have left.
    let (first, second, third) = (segments(1, 8, 2), segments(8_001, 12, 4), segments(20_001, 2, 2));
    run(
        &[],
        &format!(
            "listen backlog 4 sndbuf 30000 lowat 4000
            -> SYN seq 0 win 65535 mss 1000 sackok
            <- SYN|ACK seq 0 ack 1
            wait 100ms
            -> ACK seq 1 ack 1
            write 60000
            {first}
            -> ACK seq 1 ack 8001 win 14000
            {second}
            {third}
            info notsent_bytes 2000
            -> ACK seq 1 ack 9001 win 14000
            <- ACK seq 22001 len 1000
            info notsent_bytes 4000
            -> ACK seq 1 ack 10001 win 14000
            <- ACK seq 23001 len 1000
            info notsent_bytes 3000
            -> ACK seq 1 ack 11001 win 14000
            <- ACK seq 24001 len 1000
            info notsent_bytes 2000
            -> ACK seq 1 ack 12001 win 14000
            <- ACK seq 25001 len 1000
            info notsent_bytes 4000"
        ),
    );
}

#[test]
fn what_more_held_back_leaves_with_an_acknowledgment() {
    // tcp_push_pending_frames knows nothing of MSG_MORE, and PSH is for whoever writes without it.
    accepted(
        "write 1000
        <- PSH|ACK seq 1 len 1000
        write 500 more
        <- none
        -> ACK seq 1 ack 1001
        <- ACK seq 1001 len 500",
    );
}

#[test]
fn a_flight_of_one_segment_is_probed_when_its_timeout_is_due() {
    // tcp_schedule_loss_probe: "If the RTO formula yields an earlier time, then use that time."
    run(
        &[],
        "listen
        -> SYN seq 0 win 65535 mss 1000 sackok
        <- SYN|ACK seq 0 ack 1
        wait 100ms
        -> ACK seq 1 ack 1
        write 1000
        <- PSH|ACK seq 1 len 1000
        wait 300ms
        <- PSH|ACK seq 1 len 1000
        counter TCPLossProbes 1
        counter TCPTimeouts 0
        wait 300ms
        <- PSH|ACK seq 1 len 1000
        counter TCPTimeouts 1",
    );
}

#[test]
fn one_write_fills_the_buffer_that_it_begins() {
    // tcp_sendmsg_locked asks sk_stream_memory_free before a buffer is begun, only: 32 segments, half of the peer's window, and what leaves.
    run(
        &[],
        "listen sndbuf 4608
        -> SYN seq 0 win 65535 mss 1000 sackok
        <- SYN|ACK seq 0 ack 1
        wait 100ms
        -> ACK seq 1 ack 1 win 65535
        info write_room_bytes 42000",
    );
}
