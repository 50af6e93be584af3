//! Receiving, as traffic: acceptability, RFC 5961, PAWS, SACK and DSACK, windows, delayed acknowledgments, urgent data, ECN.

use crate::common;

use common::script::run;

const ACCEPTED: &str = "
    listen backlog 4
    -> SYN seq 0 win 65535 mss 1000 sackok
    <- SYN|ACK seq 0 ack 1
    -> ACK seq 1 ack 1
";
const STAMPED: &str = "
    listen backlog 4
    -> SYN seq 0 win 65535 mss 1000 sackok ts 1000
    <- SYN|ACK seq 0 ack 1
    -> ACK seq 1 ack 1 ts 1000
";

fn accepted(rest: &str) {
    run(&[], &format!("{ACCEPTED}{rest}"));
}
fn stamped(rest: &str) {
    run(&[], &format!("{STAMPED}{rest}"));
}

#[test]
fn out_of_order_data_is_kept_and_reported_newest_first() {
    accepted(
        "-> ACK seq 1001 ack 1 len 1000
        <- ACK ack 1 sack 1001-2001
        -> ACK seq 3001 ack 1 len 1000
        <- ACK ack 1 sack 3001-4001,1001-2001
        -> ACK seq 5001 ack 1 len 1000
        <- ACK ack 1 sack 5001-6001,3001-4001,1001-2001
        -> ACK seq 2001 ack 1 len 1000
        # The fourth duplicate acknowledgment is compressed.
        within 5ms
        <- ACK ack 1 sack 1001-4001,5001-6001
        received 0
        -> ACK seq 1 ack 1 len 1000
        <- ACK ack 4001 sack 5001-6001
        received 4000
        -> ACK seq 4001 ack 1 len 1000
        <- ACK ack 6001 nosack
        received 6000",
    );
}

#[test]
fn duplicates_are_reported_by_dsack() {
    accepted(
        "-> ACK seq 1 ack 1 len 1000
        <- ACK ack 1001
        -> ACK seq 1 ack 1 len 1000
        <- ACK ack 1001 sack 1-1001
        # A part of it is new.
        -> ACK seq 501 ack 1 len 1000
        <- ACK ack 1501 sack 501-1001
        received 1500
        # Above the gap: RFC 2883 §4.2, the duplicate first, then the range that holds it.
        -> ACK seq 2001 ack 1 len 1000
        <- ACK ack 1501 sack 2001-3001
        -> ACK seq 2001 ack 1 len 1000
        <- ACK ack 1501 sack 2001-3001,2001-3001
        counter TCPDSACKOldSent 2
        counter TCPDSACKOfoSent 1",
    );
    run(
        &[("dsack", false.into())],
        &format!(
            "{ACCEPTED}
            -> ACK seq 1 ack 1 len 1000
            <- ACK ack 1001
            -> ACK seq 1 ack 1 len 1000
            <- ACK ack 1001 nosack"
        ),
    );
}

#[test]
fn paws_refuses_old_timestamps_and_answers() {
    stamped(
        "-> ACK seq 1 ack 1 len 100 ts 1005
        <- ACK ack 101 ecr 1005
        -> ACK seq 101 ack 1 len 100 ts 1004
        <- ACK ack 101 ecr 1005
        counter PAWSEstab 1
        drop TcpPaws 1
        received 100
        # A reset counts whatever its timestamp.
        -> RST seq 101 ts 3
        event failed reset
        event released",
    );
}

#[test]
fn the_echo_is_that_of_the_segment_at_the_left_edge() {
    // RFC 7323 §4.3's example of a gap: the echo stays with the last segment in order.
    stamped(
        "-> ACK seq 1 ack 1 len 1000 ts 1001
        <- ACK ack 1001 ecr 1001
        -> ACK seq 2001 ack 1 len 1000 ts 1003
        <- ACK ack 1001 ecr 1001
        -> ACK seq 1001 ack 1 len 1000 ts 1002
        <- ACK ack 3001 ecr 1002",
    );
}

#[test]
fn a_reset_must_match_exactly_or_is_challenged() {
    accepted(
        "-> RST seq 100
        <- ACK seq 1 ack 1
        counter TCPChallengeACK 1
        # Outside the window: nothing.
        -> RST seq 100000
        <- none
        event none
        -> RST seq 1
        event failed reset
        event released
        counter EstabResets 1",
    );
}

#[test]
fn a_syn_on_an_established_connection_is_challenged() {
    accepted(
        "-> SYN seq 0 win 1000 mss 1000
        <- ACK seq 1 ack 1
        wait 500ms
        -> SYN seq 77 win 1000
        <- ACK seq 1 ack 1
        counter TCPSYNChallenge 2
        event none",
    );
}

#[test]
fn challenges_are_limited_for_a_connection_and_for_the_node() {
    accepted(
        "-> RST seq 100
        <- ACK seq 1 ack 1
        -> RST seq 101
        <- none
        counter TCPACKSkippedChallenge 1
        wait 500ms
        -> RST seq 102
        <- ACK seq 1 ack 1",
    );
    run(
        &[("challenge_ack_limit", 1.into()), ("invalid_ratelimit", "1ms".into())],
        &format!(
            "{ACCEPTED}
            -> RST seq 100
            <- ACK seq 1 ack 1
            wait 10ms
            -> RST seq 100
            <- none
            wait 1s
            -> RST seq 100
            <- ACK seq 1 ack 1"
        ),
    );
}

#[test]
fn acknowledgments_of_the_far_past_or_of_the_future_are_challenged() {
    accepted(
        "-> PSH|ACK seq 1 ack 500 len 10
        <- ACK seq 1 ack 1
        received 0
        wait 1s
        -> PSH|ACK seq 1 ack -70000 len 10
        <- ACK seq 1 ack 1
        received 0
        drop TcpOldAck 2
        # Within the largest window it is just old.
        -> PSH|ACK seq 1 ack -60000 len 10
        <- ACK seq 1 ack 11
        received 10",
    );
}

#[test]
fn segments_outside_the_window_are_answered_and_dropped() {
    accepted(
        "-> ACK seq 100000 ack 1 len 100
        <- ACK seq 1 ack 1
        drop TcpUnacceptable 1
        # Without data, only twice a second.
        -> ACK seq 100000 ack 1
        <- ACK seq 1 ack 1
        -> ACK seq 100000 ack 1
        <- none
        counter TCPACKSkippedSeq 1
        # A keepalive.
        wait 1s
        -> ACK seq 0 ack 1
        <- ACK seq 1 ack 1",
    );
}

#[test]
fn acknowledgments_are_delayed_but_not_at_the_start() {
    accepted(
        "set noquickack
        -> PSH|ACK seq 1 ack 1 len 10
        <- none
        wait 40ms
        <- ACK seq 1 ack 11
        counter DelayedACKs 1
        # Every second full segment at once.
        set noquickack
        -> ACK seq 11 ack 1 len 1000
        <- none
        -> ACK seq 1011 ack 1 len 1000
        <- ACK ack 2011
        -> ACK seq 2011 ack 1 len 1000
        <- none
        within 200ms
        <- ACK ack 3011",
    );
    accepted(
        "-> PSH|ACK seq 1 ack 1 len 10
        <- ACK ack 11
        -> PSH|ACK seq 11 ack 1 len 10
        <- ACK ack 21",
    );
}

#[test]
fn an_acknowledgment_rides_on_data() {
    accepted(
        "set noquickack
        -> PSH|ACK seq 1 ack 1 len 10
        write 20
        <- PSH|ACK seq 1 ack 11 len 20
        wait 100ms
        <- none
        -> ACK seq 11 ack 21",
    );
}

#[test]
fn the_window_closes_and_opens_with_the_program() {
    run(
        &[("rmem_default", 8192.into()), ("rmem_max", 8192.into()), ("window_scaling", false.into())],
        "listen
        hold
        -> SYN seq 0 win 65535 mss 1000
        <- SYN|ACK seq 0 ack 1 win 2920
        -> ACK seq 1 ack 1
        -> ACK seq 1 ack 1 len 1460
        <- ACK ack 1461 win 1460
        -> ACK seq 1461 ack 1 len 1460
        # The window shrinks: it waits for the timer.
        <- none
        within 200ms
        <- ACK ack 2921 win 0
        # A probe with a byte is answered and not taken.
        -> ACK seq 2921 ack 1 len 1
        <- ACK ack 2921 win 0
        counter BeyondWindow 1
        # Less than a segment of room is not announced (silly window).
        read 200
        <- none
        read 2000
        # A segment of the buffer is kept back (tcp_init_buffer_space).
        <- ACK ack 2921 win 1460
        received 2920",
    );
}

#[test]
fn a_buffer_with_room_keeps_its_window_when_memory_is_short() {
    // tcp_adjust_rcv_ssthresh under pressure, but in __tcp_select_window only of a buffer that is more than half full.
    // Above 4096 bytes it is.
    let memory = [("mem_low", 4096.into()), ("mem_pressure", 4096.into()), ("rmem_default", 131_072.into())];
    let segments = |count: u32| -> String {
        (0..count).map(|nth| format!("-> ACK seq {} ack 1 len 1460\n<- ACK ack {}\n", 1 + 1460 * nth, 1461 + 1460 * nth)).collect()
    };
    run(
        &memory,
        &format!(
            "listen
            hold
            -> SYN seq 0 win 65535 mss 1000
            <- SYN|ACK seq 0 ack 1
            -> ACK seq 1 ack 1
            {}
            counter TCPMemoryPressures 1
            info rcv_ssthresh 64076",
            segments(14)
        ),
    );
}

#[test]
fn the_end_of_what_the_peer_wrote_is_acknowledged_when_the_program_has_taken_it() {
    // tcp_cleanup_rbuf; a peer with a send buffer below a segment waits for each of these. The first sixteen are quick acknowledgments anyway.
    let quick: String = (0..16)
        .map(|nth| format!("-> PSH|ACK seq {} ack 1 len 1000\n<- ACK ack {}\nread 1000\n", 1 + 1000 * nth, 1001 + 1000 * nth))
        .collect();
    run(
        &[],
        &format!(
            "listen
            hold
            -> SYN seq 0 win 65535 mss 1000
            <- SYN|ACK seq 0 ack 1
            -> ACK seq 1 ack 1
            {quick}
            -> PSH|ACK seq 16001 ack 1 len 1000
            <- none
            read 999
            <- none
            read 1
            <- ACK ack 17001
            # Not pushed: the timer's.
            -> ACK seq 17001 ack 1 len 1000
            <- none
            read 1000
            <- none
            within 50ms
            <- ACK ack 18001
            counter DelayedACKs 1"
        ),
    );
}

#[test]
fn urgent_data_is_signalled_once_and_stays_in_line() {
    accepted(
        "-> ACK|URG|PSH seq 1 ack 1 len 10 urg 5
        <- ACK ack 11
        event urgent 4
        received 10
        # The same pointer again, from a later segment: nothing new.
        -> ACK|URG seq 11 ack 1 urg 0
        event none
        # Ahead of the data.
        -> ACK|URG seq 11 ack 1 urg 100
        event urgent 99",
    );
}

#[test]
fn congestion_marks_are_echoed_until_the_peer_has_reduced() {
    run(
        &[],
        "listen
        -> SYN|ECE|CWR seq 0 win 65535 mss 1000 sackok
        <- SYN|ACK|ECE seq 0 ack 1 noect
        -> ACK seq 1 ack 1
        counter TCPECNEstab 1
        -> PSH|ACK seq 1 ack 1 len 100 ce
        <- ACK|ECE ack 101 noect
        -> PSH|ACK seq 101 ack 1 len 100 ect
        <- ACK|ECE ack 201
        -> PSH|ACK|CWR seq 201 ack 1 len 100 ect
        <- ACK ack 301
        write 100
        <- PSH|ACK seq 1 len 100 ect
        # The peer echoes a mark: CWR on the next new data, none on a retransmission.
        -> ACK|ECE seq 301 ack 101
        write 100
        <- PSH|ACK|CWR seq 101 len 100 ect
        counter TCPDeliveredCE 1",
    );
    // Not offered, not used; with ecn = 0 refused.
    run(
        &[("ecn", 0.into())],
        "listen
        -> SYN|ECE|CWR seq 0 win 65535 mss 1000
        <- SYN|ACK seq 0 ack 1",
    );
    run(
        &[("ecn", 1.into())],
        "connect
        <- SYN|ECE|CWR seq 0
        wait 1s
        <- SYN seq 0
        -> SYN|ACK seq 0 ack 1
        <- ACK seq 1 ack 1",
    );
}

#[test]
fn data_across_the_edge_of_the_window_is_taken_whole_while_nothing_waits() {
    run(
        &[("rmem_default", 8192.into()), ("rmem_max", 8192.into()), ("window_scaling", false.into())],
        "listen
        hold
        -> SYN seq 0 win 65535 mss 1000
        <- SYN|ACK seq 0 ack 1 win 2920
        -> ACK seq 1 ack 1
        -> ACK seq 1 ack 1 len 5000
        <- ACK ack 5001 win 0
        # Now something waits.
        -> ACK seq 5001 ack 1 len 1000
        <- ACK ack 5001 win 0
        counter BeyondWindow 1
        received 5000",
    );
}

#[test]
fn fin_out_of_order_waits_for_the_gap() {
    accepted(
        "-> FIN|ACK seq 101 ack 1 len 100
        <- ACK ack 1 sack 101-202
        event none
        -> ACK seq 1 ack 1 len 100
        <- ACK ack 202
        event halfclosed
        received 200",
    );
}

#[test]
fn after_shut_rd_data_is_acknowledged_and_thrown_away() {
    accepted(
        "shutread
        -> PSH|ACK seq 1 ack 1 len 100
        <- ACK ack 101
        received 0",
    );
}

#[test]
fn window_scale_above_fourteen_counts_as_fourteen() {
    run(
        &[],
        "listen
        -> SYN seq 0 win 65535 mss 1000 wscale 15
        <- SYN|ACK seq 0 ack 1 wscale 10
        -> ACK seq 1 ack 1 win 1
        info snd_wscale 14
        info snd_wnd 16384",
    );
}

#[test]
fn acknowledgments_behind_the_third_duplicate_leave_as_one() {
    accepted(
        "# The first acknowledgments of a connection never wait.
        set noquickack
        -> ACK seq 1001 ack 1 len 1000
        <- ACK ack 1 sack 1001-2001
        -> ACK seq 2001 ack 1 len 1000
        <- ACK ack 1 sack 1001-3001
        -> ACK seq 3001 ack 1 len 1000
        <- ACK ack 1 sack 1001-4001
        -> ACK seq 4001 ack 1 len 1000
        <- none
        -> ACK seq 5001 ack 1 len 1000
        <- none
        within 1100us
        <- ACK ack 1 sack 1001-6001
        counter TCPAckCompressed 1
        -> ACK seq 6001 ack 1 len 1000
        <- none
        # A gap that is filled ends the waiting.
        -> ACK seq 1 ack 1 len 1000
        <- ACK ack 7001 nosack
        received 7000
        counter TCPAckCompressed 2
        -> ACK seq 8001 ack 1 len 1000
        <- ACK ack 7001 sack 8001-9001",
    );
}

#[test]
fn what_waits_leaves_before_a_block_could_go_unreported() {
    accepted(
        "# The first acknowledgments of a connection never wait.
        set noquickack
        -> ACK seq 1001 ack 1 len 1000
        <- ACK ack 1 sack 1001-2001
        -> ACK seq 3001 ack 1 len 1000
        <- ACK ack 1 sack 3001-4001,1001-2001
        -> ACK seq 4001 ack 1 len 1000
        <- ACK ack 1 sack 3001-5001,1001-2001
        -> ACK seq 5001 ack 1 len 1000
        <- none
        -> ACK seq 7001 ack 1 len 1000
        <- ACK ack 1 sack 3001-6001,1001-2001
        within 1100us
        <- ACK ack 1 sack 7001-8001,3001-6001,1001-2001",
    );
}
