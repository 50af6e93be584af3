//! Opening and closing, as traffic: RFC 9293 §3.5, §3.6, §3.10.

use crate::common;

use common::script::run;

/// A connection that a peer has opened, with 536 byte segments (500 after options is not wanted: no timestamps).
const ACCEPTED: &str = "
    listen backlog 4
    -> SYN seq 0 win 65535 mss 1000 sackok
    <- SYN|ACK seq 0 ack 1 mss 1460
    -> ACK seq 1 ack 1
    event accepted
";

/// A connection that the node has opened.
const CONNECTED: &str = "
    connect
    <- SYN seq 0 mss 1460
    -> SYN|ACK seq 0 ack 1 mss 1000 sackok win 65535
    <- ACK seq 1 ack 1 len 0
    event established
";

fn accepted(rest: &str) {
    run(&[], &format!("{ACCEPTED}{rest}"));
}
fn connected(rest: &str) {
    run(&[], &format!("{CONNECTED}{rest}"));
}

#[test]
fn syn_has_linux_options_and_the_answer_only_what_was_offered() {
    run(
        &[],
        "connect
        <- SYN seq 0 mss 1460 sackok ts wscale 10 win 64240
        -> SYN|ACK seq 0 ack 1 mss 1000 win 65535
        <- ACK seq 1 ack 1 nots nosack win 64240",
    );
    run(
        &[],
        "listen
        -> SYN seq 0 mss 1460 sackok ts 5 wscale 7
        <- SYN|ACK seq 0 ack 1 mss 1460 sackok ts ecr 5 wscale 10 win 65160",
    );
    run(
        &[],
        "listen
        -> SYN seq 0 win 500
        <- SYN|ACK seq 0 ack 1 nosackok nots wscale 99",
    );
}

#[test]
fn a_passive_close_runs_through_close_wait_and_last_ack() {
    accepted(
        "counter CurrEstab 1
        -> FIN|ACK seq 1 ack 1
        <- ACK seq 1 ack 2
        event halfclosed
        counter CurrEstab 1
        close
        counter CurrEstab 0
        <- FIN|ACK seq 1 ack 2
        -> ACK seq 2 ack 2
        event sendqueueempty
        event released",
    );
}

#[test]
fn an_active_close_ends_in_time_wait_of_sixty_seconds() {
    connected(
        "close
        <- FIN|ACK seq 1 ack 1
        -> ACK seq 1 ack 2
        event sendqueueempty
        -> FIN|ACK seq 1 ack 2
        <- ACK seq 2 ack 2
        event halfclosed
        event timewait
        wait 59999ms
        event none
        wait 1ms
        event released",
    );
}

#[test]
fn time_wait_answers_a_repeated_fin_and_begins_anew() {
    connected(
        "close
        <- FIN|ACK seq 1 ack 1
        -> FIN|ACK seq 1 ack 2
        <- ACK seq 2 ack 2
        wait 30s
        -> FIN|ACK seq 1 ack 2
        <- ACK seq 2 ack 2
        wait 59s
        -> RST seq 2 ack 2
        <- none
        counter TCPTimeWaitNow 0",
    );
}

#[test]
fn with_rfc1337_a_reset_does_not_end_time_wait() {
    run(
        &[("rfc1337", true.into())],
        &format!(
            "{CONNECTED}
            close
            <- FIN|ACK seq 1 ack 1
            -> FIN|ACK seq 1 ack 2
            <- ACK seq 2 ack 2
            -> RST seq 2 ack 2
            counter TCPTimeWaitNow 1"
        ),
    );
}

#[test]
fn a_newer_syn_takes_over_a_time_wait() {
    run(
        &[],
        &format!(
            "{ACCEPTED}
            close
            <- FIN|ACK seq 1 ack 1
            -> FIN|ACK seq 1 ack 2
            <- ACK seq 2 ack 2
            # An old SYN is acknowledged (RFC 5961 has it so, too).
            -> SYN seq -5000 win 1000
            <- ACK seq 2 ack 2
            counter TCPTimeWaitNow 1
            fresh 100000
            -> SYN seq 0 win 1000 mss 1000
            <- SYN|ACK seq 0 ack 1
            counter TWRecycled 1
            counter TCPTimeWaitNow 0
            -> ACK seq 1 ack 1"
        ),
    );
}

#[test]
fn simultaneous_open() {
    connected("");
    run(
        &[],
        "connect
        <- SYN seq 0
        -> SYN seq 0 win 1000 mss 1000
        <- SYN|ACK seq 0 ack 1
        -> SYN|ACK seq 0 ack 1 win 1000
        <- ACK seq 1 ack 1
        event established
        write 10
        <- PSH|ACK seq 1 ack 1 len 10",
    );
}

#[test]
fn simultaneous_close() {
    connected(
        "shutdown
        <- FIN|ACK seq 1 ack 1
        -> FIN|ACK seq 1 ack 1
        <- ACK seq 2 ack 2
        event halfclosed
        -> ACK seq 2 ack 2
        event sendqueueempty
        event timewait",
    );
}

#[test]
fn data_behind_a_half_closed_side_still_flows() {
    connected(
        "shutdown
        <- FIN|ACK seq 1 ack 1
        -> PSH|ACK seq 1 ack 2 len 100
        <- ACK seq 2 ack 101
        received 100
        -> FIN|ACK seq 101 ack 2
        <- ACK seq 2 ack 102
        event sendqueueempty
        event halfclosed
        event timewait",
    );
}

#[test]
fn closing_with_unread_data_resets() {
    accepted(
        "hold
        -> PSH|ACK seq 1 ack 1 len 100
        <- ACK seq 1 ack 101
        close
        <- RST|ACK seq 1 ack 101
        event released
        counter TCPAbortOnClose 1",
    );
    accepted(
        "close linger 0s
        <- RST|ACK seq 1 ack 1
        event released",
    );
}

#[test]
fn data_after_close_is_answered_by_reset() {
    accepted(
        "close
        <- FIN|ACK seq 1 ack 1
        -> PSH|ACK seq 1 ack 2 len 10
        <- RST seq 2
        event sendqueueempty
        event released
        counter TCPAbortOnData 1",
    );
}

#[test]
fn a_lingering_close_goes_on_after_its_time() {
    accepted(
        "write 500
        <- PSH|ACK seq 1 ack 1 len 500
        -> ACK seq 1 ack 501
        close linger 100ms
        <- FIN|ACK seq 501 ack 1
        wait 150ms
        event none
        -> ACK seq 1 ack 502
        event sendqueueempty
        -> FIN|ACK seq 1 ack 502
        <- ACK seq 502 ack 2",
    );
}

#[test]
fn a_negative_linger2_ends_in_fin_wait_2() {
    accepted(
        "set linger2 0s
        close
        <- FIN|ACK seq 1 ack 1
        -> ACK seq 1 ack 2
        event sendqueueempty
        <- RST seq 2
        event released
        counter TCPAbortOnData 1",
    );
    accepted(
        "set linger2 0s
        shutdown
        <- FIN|ACK seq 1 ack 1
        -> ACK seq 1 ack 2
        event sendqueueempty
        close
        <- RST|ACK seq 2 ack 1
        event released
        counter TCPAbortOnLinger 1",
    );
}

#[test]
fn an_orphan_waits_in_fin_wait_2_for_sixty_seconds() {
    accepted(
        "close
        <- FIN|ACK seq 1 ack 1
        -> ACK seq 1 ack 2
        event sendqueueempty
        wait 59999ms
        event none
        wait 1ms
        event released
        -> FIN|ACK seq 1 ack 2
        <- RST seq 2",
    );
}

#[test]
fn a_refused_connection() {
    run(
        &[],
        "connect
        <- SYN seq 0
        -> RST|ACK seq 0 ack 1
        event failed refused
        event released
        counter AttemptFails 1",
    );
    // A reset that acknowledges nothing of ours is ignored.
    run(
        &[],
        "connect
        <- SYN seq 0
        -> RST seq 0
        event none
        -> SYN|ACK seq 0 ack 777
        <- RST seq 777
        event none",
    );
}

#[test]
fn syns_are_repeated_as_linux_does_and_then_it_times_out() {
    run(
        &[("syn_retries", 1.into()), ("syn_linear_timeouts", 2.into())],
        "connect
        <- SYN seq 0
        wait 1s
        <- SYN seq 0
        wait 1s
        <- SYN seq 0
        wait 1s
        <- SYN seq 0
        wait 2s
        event failed timedout
        event released
        counter TCPSynRetrans 3",
    );
}

#[test]
fn syn_acks_are_repeated_and_a_repeated_syn_is_answered() {
    run(
        &[("synack_retries", 2.into())],
        "listen
        -> SYN seq 0 mss 1000
        <- SYN|ACK seq 0 ack 1
        wait 600ms
        -> SYN seq 0 mss 1000
        <- SYN|ACK seq 0 ack 1
        wait 400ms
        <- SYN|ACK seq 0 ack 1
        wait 4s
        <- none
        -> ACK seq 1 ack 1
        <- RST seq 1",
    );
}

#[test]
fn segments_to_nowhere_are_reset() {
    run(
        &[],
        "-> SYN seq 5 win 100
        <- RST|ACK rawseq 0 ack 6
        -> PSH|ACK seq 5 ack 77 len 10
        <- RST rawseq 77
        -> RST seq 5
        <- none
        counter OutRsts 2",
    );
}

#[test]
fn a_listener_resets_an_ack_and_ignores_a_reset() {
    run(
        &[],
        "listen
        -> ACK seq 5 ack 77
        <- RST rawseq 77
        -> RST seq 5
        <- none",
    );
}

#[test]
fn the_accept_queue_holds_one_more_than_the_backlog() {
    run(
        &[],
        "listen backlog 0
        leave
        -> SYN seq 0 mss 1000
        <- SYN|ACK seq 0 ack 1
        -> ACK seq 1 ack 1
        event accepted
        # The queue is full: SYNs are dropped.
        peer 5001
        fresh 0
        -> SYN seq 0 mss 1000
        <- none
        counter ListenOverflows 1
        drop ListenOverflow 1
        took
        -> SYN seq 0 mss 1000
        <- SYN|ACK seq 0 ack 1
        # Meanwhile another one is faster: the final ACK is dropped, and the SYN|ACK comes again.
        peer 5002
        fresh 0
        -> SYN seq 0 mss 1000
        <- SYN|ACK seq 0 ack 1
        -> ACK seq 1 ack 1
        counter PassiveOpens 2",
    );
}

#[test]
fn a_final_ack_that_finds_the_queue_full_is_ignored_until_there_is_room() {
    run(
        &[],
        "listen backlog 0
        leave
        -> SYN seq 0 mss 1000
        <- SYN|ACK seq 0 ack 1
        peer 5001
        fresh 0
        -> SYN seq 0 mss 1000
        <- SYN|ACK seq 0 ack 1
        -> ACK seq 1 ack 1
        counter PassiveOpens 1
        peer 5000
        -> ACK seq 1 ack 1
        <- RST seq 1
        counter ListenOverflows 0",
    );
}

#[test]
fn deferred_accept_waits_for_data() {
    run(
        &[],
        "listen defer 5s
        -> SYN seq 0 mss 1000
        <- SYN|ACK seq 0 ack 1
        -> ACK seq 1 ack 1
        <- none
        counter PassiveOpens 0
        -> PSH|ACK seq 1 ack 1 len 10
        <- ACK seq 1 ack 11
        event accepted
        received 10",
    );
}

#[test]
fn mss_parameter_shows_in_the_syn_and_limits_segments_live() {
    run(
        &[("mss", 536.into())],
        "listen
        -> SYN seq 0 mss 1460 win 65535
        <- SYN|ACK seq 0 ack 1 mss 536
        -> ACK seq 1 ack 1
        write 1000
        <- ACK seq 1 len 536
        <- PSH|ACK seq 537 len 464
        -> ACK seq 1 ack 1001
        param mss 300
        write 600
        <- ACK seq 1001 len 300
        <- PSH|ACK seq 1301 len 300",
    );
}

#[test]
fn the_reset_of_a_close_carries_timestamps() {
    run(
        &[],
        "listen
        -> SYN seq 0 win 65535 mss 1000 ts 100
        <- SYN|ACK seq 0 ack 1
        -> ACK seq 1 ack 1 ts 101
        -> PSH|ACK seq 1 ack 1 len 10 ts 102
        <- ACK ack 11
        close unread
        <- RST|ACK seq 1 ack 11 ts ecr 102",
    );
}
