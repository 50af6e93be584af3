//! Stream data: order, peeking, waiting, truncation, urgent data, low water.

pub const BODIES: &[(&str, &str)] = &[
    (
        "send_and_receive",
        r#"
L = socket stream
bind L 127.0.0.1:p1
listen L 5
S = socket stream
connect S 127.0.0.1:p1
settle
A = accept L

send S "hello"
send S " world"
settle
ioctl A FIONREAD
recv A 3
ioctl A FIONREAD
recv A 100
ioctl A FIONREAD
recv A 100
poll A
"#,
    ),
    (
        "zero_length",
        r#"
L = socket stream
bind L 127.0.0.1:p1
listen L 5
S = socket stream
connect S 127.0.0.1:p1
settle
A = accept L

send S ""
settle
poll A
recv A 10
send A "x"
settle
recv S 0
recv S 10
shutdown S wr
send S ""
"#,
    ),
    (
        "peek",
        r#"
L = socket stream
bind L 127.0.0.1:p1
listen L 5
S = socket stream
connect S 127.0.0.1:p1
settle
A = accept L

send S "abcdef"
settle
recv A 3 peek
recv A 10 peek
recv A 2
recv A 10 peek
recv A 10
recv A 10 peek
"#,
    ),
    (
        "peek_offset",
        r#"
L = socket stream
bind L 127.0.0.1:p1
listen L 5
S = socket stream
connect S 127.0.0.1:p1
settle
A = accept L

get A SO_PEEK_OFF
set A SO_PEEK_OFF 0
send S "abcdef"
settle
recv A 2 peek
recv A 2 peek
get A SO_PEEK_OFF
recv A 1
get A SO_PEEK_OFF
recv A 9 peek
"#,
    ),
    (
        "truncate",
        r#"
L = socket stream
bind L 127.0.0.1:p1
listen L 5
S = socket stream
connect S 127.0.0.1:p1
settle
A = accept L

send S "abcdef"
settle
recv A 4 trunc
recv A 10
"#,
    ),
    (
        "waitall_nonblocking",
        r#"
L = socket stream
bind L 127.0.0.1:p1
listen L 5
S = socket stream
connect S 127.0.0.1:p1
settle
A = accept L

send S "abc"
settle
recv A 10 waitall
"#,
    ),
    (
        "more_flag",
        r#"
L = socket stream
bind L 127.0.0.1:p1
listen L 5
S = socket stream
connect S 127.0.0.1:p1
settle
A = accept L

send S "part" more
settle
recv A 10
send S "rest"
settle
recv A 20
"#,
    ),
    (
        "address_is_ignored",
        r#"
L = socket stream
bind L 127.0.0.1:p1
listen L 5
S = socket stream
connect S 127.0.0.1:p1
settle
A = accept L

sendto S "x" 10.0.0.1:9
sendto S "x" raw:02
settle
recv A 10
recvmsg A 10
"#,
    ),
    (
        "low_water",
        r#"
L = socket stream
bind L 127.0.0.1:p1
listen L 5
S = socket stream
connect S 127.0.0.1:p1
settle
A = accept L

set A SO_RCVLOWAT 5
get A SO_RCVLOWAT
send S "abc"
settle
poll A
recv A 2
send S "defgh"
settle
poll A
recv A 100
"#,
    ),
    (
        "fill_and_drain",
        r#"
L = socket stream
bind L 127.0.0.1:p1
listen L 5
S = socket stream
connect S 127.0.0.1:p1
settle
A = accept L

fill S
poll S
send S "x"
drain A
settle
drain A
settle
poll S
send S "x"
settle
recv A 10
"#,
    ),
    (
        "fill_then_shutdown",
        r#"
L = socket stream
bind L 127.0.0.1:p1
listen L 5
S = socket stream
connect S 127.0.0.1:p1
settle
A = accept L

fill S
shutdown S wr
send S "x"
poll S
drain A
settle
drain A
settle
drain A
"#,
    ),
    (
        "urgent_out_of_band",
        r#"
L = socket stream
bind L 127.0.0.1:p1
listen L 5
S = socket stream
connect S 127.0.0.1:p1
settle
A = accept L

send S "abc"
settle
send S "X" oob
settle
poll A
ioctl A SIOCATMARK
ioctl A FIONREAD
recv A 10
ioctl A SIOCATMARK
recv A 1 oob
recv A 1 oob
poll A
send S "def"
settle
recv A 10
ioctl A SIOCATMARK
"#,
    ),
    (
        "urgent_peek",
        r#"
L = socket stream
bind L 127.0.0.1:p1
listen L 5
S = socket stream
connect S 127.0.0.1:p1
settle
A = accept L

send S "X" oob
settle
recv A 1 oob peek
recv A 0 oob
recv A 1 oob
"#,
    ),
    (
        "urgent_before_any",
        r#"
L = socket stream
bind L 127.0.0.1:p1
listen L 5
S = socket stream
connect S 127.0.0.1:p1
settle
A = accept L

recv A 1 oob
send S "a"
settle
recv A 1 oob
"#,
    ),
    (
        "urgent_skipped_by_reader",
        r#"
L = socket stream
bind L 127.0.0.1:p1
listen L 5
S = socket stream
connect S 127.0.0.1:p1
settle
A = accept L

send S "aXb"
settle
send S "U" oob
settle
send S "c"
settle
recv A 100
recv A 100
recv A 1 oob
"#,
    ),
    (
        "urgent_inline",
        r#"
L = socket stream
bind L 127.0.0.1:p1
listen L 5
S = socket stream
connect S 127.0.0.1:p1
settle
A = accept L

set A SO_OOBINLINE 1
send S "ab"
settle
send S "U" oob
settle
poll A
recv A 1 oob
recv A 100
ioctl A SIOCATMARK
recv A 100
ioctl A SIOCATMARK
"#,
    ),
    (
        "urgent_in_the_middle",
        r#"
L = socket stream
bind L 127.0.0.1:p1
listen L 5
S = socket stream
connect S 127.0.0.1:p1
settle
A = accept L

send S "12345" oob
settle
poll A
ioctl A FIONREAD
recv A 3
recv A 100
ioctl A SIOCATMARK
recv A 1 oob
recv A 10
"#,
    ),
    (
        "urgent_poll_at_mark",
        r#"
L = socket stream
bind L 127.0.0.1:p1
listen L 5
S = socket stream
connect S 127.0.0.1:p1
settle
A = accept L

send S "U" oob
settle
poll A
recv A 10
poll A
recv A 1 oob
poll A
send S "z"
settle
poll A
recv A 10
"#,
    ),
    (
        "two_urgent_bytes",
        r#"
L = socket stream
bind L 127.0.0.1:p1
listen L 5
S = socket stream
connect S 127.0.0.1:p1
settle
A = accept L

send S "A" oob
settle
send S "B" oob
settle
recv A 1 oob
recv A 10
"#,
    ),
    (
        "fin_after_data_fionread",
        r#"
L = socket stream
bind L 127.0.0.1:p1
listen L 5
S = socket stream
connect S 127.0.0.1:p1
settle
A = accept L

send S "abc"
shutdown S wr
settle
ioctl A FIONREAD
poll A
recv A 10
ioctl A FIONREAD
recv A 10
"#,
    ),
    (
        "error_queue_empty",
        r#"
L = socket stream
bind L 127.0.0.1:p1
listen L 5
S = socket stream
connect S 127.0.0.1:p1
settle
A = accept L

recv A 10 errqueue
poll A
"#,
    ),
    (
        "large_transfer",
        r#"
L = socket stream
bind L 127.0.0.1:p1
listen L 5
S = socket stream
connect S 127.0.0.1:p1
settle
A = accept L

send S 60000*q
settle
ioctl A FIONREAD
recv A 30000
recv A 40000
recv A 10
"#,
    ),
    (
        "unread_in_listener_socket",
        r#"
L = socket stream
bind L 127.0.0.1:p1
listen L 5
S = socket stream
connect S 127.0.0.1:p1
settle
A = accept L

recv L 10
send L "x"
ioctl L FIONREAD
ioctl L SIOCOUTQ
peer L
"#,
    ),
    (
        "fastopen_flag",
        r#"
S = socket stream
get S TCP_FASTOPEN_CONNECT
get S TCP_FASTOPEN
"#,
    ),
    (
        "no_inquiry",
        r#"
L = socket stream
bind L 127.0.0.1:p1
listen L 5
S = socket stream
connect S 127.0.0.1:p1
settle
A = accept L

set A TCP_INQ 1
get A TCP_INQ
set A TCP_INQ 2
send S "abcdef"
settle
recvmsg A 2
recvmsg A 2
recvmsg A 2
"#,
    ),
    (
        "control_message_on_stream",
        r#"
L = socket stream
bind L 127.0.0.1:p1
listen L 5
S = socket stream
connect S 127.0.0.1:p1
settle
A = accept L

sendmsg S "x" - cmsg 0 2 7
sendmsg S "x" - cmsg 1 999 7
settle
recv A 10
"#,
    ),
];
