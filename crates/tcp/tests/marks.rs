//! What programs mark in what they write, as traffic: ends of records (MSG_EOR), and bytes of whose moments they want to hear (SO_TIMESTAMPING).

use crate::common;

use common::script::run;

/// 1000 bytes a segment, SACK, no timestamps.
const ACCEPTED: &str = "
    listen backlog 4
    -> SYN seq 0 win 65535 mss 1000 sackok
    <- SYN|ACK seq 0 ack 1
    wait 100ms
    -> ACK seq 1 ack 1
    event accepted
";

fn accepted(rest: &str) {
    run(&[], &format!("{ACCEPTED}{rest}"));
}

#[test]
fn a_record_ends_a_segment_and_is_pushed_by_what_follows() {
    accepted(
        "set cork
        write 100 eor
        <- none
        write 1500 eor
        <- PSH|ACK seq 1 len 100
        <- ACK seq 101 len 1000
        write 10
        <- PSH|ACK seq 1101 len 500
        <- none",
    );
}

#[test]
fn records_end_where_they_did_when_they_are_sent_again() {
    accepted(
        "set nodelay
        write 300 eor
        <- PSH|ACK seq 1 len 300
        write 400 eor
        <- PSH|ACK seq 301 len 400
        -> ACK seq 1 ack 1 sack 301-701
        within 300ms
        <- PSH|ACK seq 1 len 300
        -> ACK seq 1 ack 701
        <- none",
    );
}

#[test]
fn more_ends_of_records_than_there_may_be_are_none_and_are_counted() {
    let writes = "write 1 eor\n".repeat(1030);
    let sent: String = (1..=1024).map(|seq| format!("<- PSH|ACK seq {seq} len 1\n")).collect();
    accepted(&format!("set nodelay\n{writes}{sent}<- PSH|ACK seq 1025 len 6\ncounter TCPRecordEndsLost 6"));
}

#[test]
fn each_moment_of_a_marked_byte_is_told_once_it_has_come() {
    accepted(
        "write 100 stamped
        <- PSH|ACK seq 1 len 100
        event stamped 99 scheduled 100
        event stamped 99 left 100
        event none
        # Two writes in one buffer are told of as one.
        write 50 stamped
        write 30 stamped
        event none
        -> ACK seq 1 ack 101
        event stamped 99 acknowledged { hops: 61 } 100
        <- PSH|ACK seq 101 len 80
        event stamped 179 scheduled 80
        event stamped 179 left 80
        # What is sent again leaves once more.
        within 2s
        <- PSH|ACK seq 101 len 80
        event stamped 179 scheduled 80
        event stamped 179 left 80
        -> ACK seq 1 ack 181
        event stamped 179 acknowledged { hops: 61 } 80
        event none",
    );
}

#[test]
fn more_marked_bytes_than_there_may_be_are_not_told_of_and_are_counted() {
    // A record's end lies between them, so that they do not share a buffer.
    let writes = "write 1 stamped-eor\n".repeat(1030);
    let sent: String = (1..=1024).map(|seq| format!("<- PSH|ACK seq {seq} len 1\n")).collect();
    accepted(&format!("set nodelay\n{writes}{sent}<- PSH|ACK seq 1025 len 6\ncounter TCPStampsLost 6"));
}
