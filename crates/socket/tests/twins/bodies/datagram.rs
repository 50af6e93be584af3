//! UDP: boundaries, truncation, connecting, errors, control messages.

pub const BODIES: &[(&str, &str)] = &[
    (
        "send_and_receive",
        r#"
A = socket dgram
bind A 127.0.0.1:p1
S = socket dgram
name S
sendto S "hello" 127.0.0.1:p1
name S
settle
poll A
ioctl A FIONREAD
recvmsg A 100
poll A
recv A 10
"#,
    ),
    (
        "boundaries",
        r#"
A = socket dgram
bind A 127.0.0.1:p1
S = socket dgram
sendto S "one" 127.0.0.1:p1
sendto S "" 127.0.0.1:p1
sendto S "three" 127.0.0.1:p1
settle
ioctl A FIONREAD
recv A 100
ioctl A FIONREAD
recv A 100
ioctl A FIONREAD
recv A 2
recv A 100
"#,
    ),
    (
        "truncation",
        r#"
A = socket dgram
bind A 127.0.0.1:p1
S = socket dgram
sendto S "abcdef" 127.0.0.1:p1
sendto S "abcdef" 127.0.0.1:p1
sendto S "abcdef" 127.0.0.1:p1
sendto S "abcdef" 127.0.0.1:p1
settle
recv A 3
recv A 3 trunc
recv A 3 peek trunc
recv A 0 peek
recv A 0
recv A 100
"#,
    ),
    (
        "peek",
        r#"
A = socket dgram
bind A 127.0.0.1:p1
S = socket dgram
sendto S "one" 127.0.0.1:p1
sendto S "two" 127.0.0.1:p1
settle
recv A 10 peek
recv A 10 peek
recv A 10
recv A 10 peek
"#,
    ),
    (
        "peek_offset",
        r#"
A = socket dgram
bind A 127.0.0.1:p1
S = socket dgram
set A SO_PEEK_OFF 0
sendto S "abcdef" 127.0.0.1:p1
sendto S "ghi" 127.0.0.1:p1
settle
recv A 4 peek
get A SO_PEEK_OFF
recv A 4 peek
recv A 4 peek
get A SO_PEEK_OFF
recv A 10
get A SO_PEEK_OFF
recv A 10 peek
"#,
    ),
    (
        "destinations",
        r#"
S = socket dgram
send S "x"
sendto S "x" 127.0.0.1:0
sendto S "x" raw:0200
sendto S "x" raw:0a000050000000000000000000000000000000000000
sendto S "x" raw:000000507f0000010000000000000000
sendto S "x" 10.1.2.3:9
sendto S "x" 127.255.255.255:9
sendto S "x" 255.255.255.255:9
sendto S "x" 224.0.0.1:9
sendto S "x" 127.0.0.1:9 oob
name S
"#,
    ),
    (
        "to_unspecified",
        r#"
A = socket dgram
bind A 0.0.0.0:p1
S = socket dgram
sendto S "x" 0.0.0.0:p1
settle
recvmsg A 10
"#,
    ),
    (
        "too_long",
        r#"
A = socket dgram
bind A 127.0.0.1:p1
S = socket dgram
sendto S 65507*x 127.0.0.1:p1
sendto S 65508*x 127.0.0.1:p1
sendto S 65536*x 127.0.0.1:p1
settle
recv A 70000
recv A 70000
"#,
    ),
    (
        "connected_filters",
        r#"
A = socket dgram
bind A 127.0.0.1:p1
B = socket dgram
bind B 127.0.0.1:p2
C = socket dgram
bind C 127.0.0.1:p3
connect A 127.0.0.1:p2
sendto B "from b" 127.0.0.1:p1
sendto C "from c" 127.0.0.1:p1
settle
recvmsg A 10
recv A 10
peer A
name A
sendto A "elsewhere" 127.0.0.1:p3
settle
recvmsg C 20
get A SO_ERROR
"#,
    ),
    (
        "connected_refused_receive",
        r#"
S = socket dgram
connect S 127.0.0.1:p1
send S "x"
settle
poll S
recv S 10
recv S 10
poll S
"#,
    ),
    (
        "connected_refused_send",
        r#"
S = socket dgram
connect S 127.0.0.1:p1
send S "x"
settle
send S "y"
send S "z"
settle
get S SO_ERROR
get S SO_ERROR
"#,
    ),
    (
        "connected_refused_poll",
        r#"
S = socket dgram
connect S 127.0.0.1:p1
send S "x"
settle
poll S
get S SO_ERROR
poll S
recv S 10
"#,
    ),
    (
        "unconnected_ignores_refusal",
        r#"
S = socket dgram
sendto S "x" 127.0.0.1:p1
settle
poll S
recv S 10
sendto S "x" 127.0.0.1:p1
"#,
    ),
    (
        "refusal_after_data",
        r#"
A = socket dgram
bind A 127.0.0.1:p1
S = socket dgram
bind S 127.0.0.1:p2
connect S 127.0.0.1:p1
sendto A "data" 127.0.0.1:p2
close A
send S "x"
settle
poll S
recv S 10
recv S 10
"#,
    ),
    (
        "receive_errors_unconnected",
        r#"
S = socket dgram
set S IP_RECVERR 1
sendto S "lost" 127.0.0.1:p1
settle
poll S
recv S 10
poll S
recvmsg S 10 errqueue
poll S
recvmsg S 10 errqueue
"#,
    ),
    (
        "receive_errors_connected",
        r#"
S = socket dgram
set S IP_RECVERR 1
connect S 127.0.0.1:p1
send S "lost"
settle
get S SO_ERROR
poll S
recvmsg S 2 errqueue
poll S
"#,
    ),
    (
        "receive_errors_queue_two",
        r#"
S = socket dgram
set S IP_RECVERR 1
sendto S "one" 127.0.0.1:p1
settle
sendto S "two" 127.0.0.1:p1
sendto S "two" 127.0.0.1:p1
settle
recvmsg S 10 errqueue
get S SO_ERROR
recvmsg S 10 errqueue
get S SO_ERROR
poll S
"#,
    ),
    (
        "connect_rules",
        r#"
S = socket dgram
connect S 127.0.0.1:p1
name S
peer S
connect S 127.0.0.1:p2
peer S
connect S unspec
name S
peer S
connect S 10.1.2.3:9
connect S 127.255.255.255:9
connect S 127.0.0.1:0
peer S
send S "x"
connect S raw:0200
connect S raw:02
connect S raw:0a0000500000000000000000000000000000
"#,
    ),
    (
        "connect_bound_and_dissolve",
        r#"
S = socket dgram
bind S 127.0.0.1:p1
connect S 127.0.0.1:p2
name S
connect S unspec
name S
bind S 127.0.0.1:p3
T = socket dgram
bind T 0.0.0.0:p4
connect T 127.0.0.1:p2
name T
connect T unspec
name T
"#,
    ),
    (
        "dissolve_fresh",
        r#"
S = socket dgram
connect S unspec
name S
"#,
    ),
    (
        "bind_after_connect",
        r#"
S = socket dgram
connect S 127.0.0.1:p1
bind S 127.0.0.1:p2
connect S unspec
bind S 127.0.0.1:p2
name S
"#,
    ),
    (
        "self_connect",
        r#"
S = socket dgram
bind S 127.0.0.1:p1
connect S 127.0.0.1:p1
send S "me"
settle
recvmsg S 10
"#,
    ),
    (
        "shutdown_unconnected",
        r#"
S = socket dgram
bind S 127.0.0.1:p1
shutdown S rd
poll S
recv S 10
shutdown S wr
poll S
sendto S "x" 127.0.0.1:p1
recv S 10
"#,
    ),
    (
        "shutdown_connected",
        r#"
A = socket dgram
bind A 127.0.0.1:p1
S = socket dgram
bind S 127.0.0.1:p2
connect S 127.0.0.1:p1
shutdown S rd
poll S
recv S 10
sendto A "late" 127.0.0.1:p2
settle
poll S
recv S 10
shutdown S wr
send S "x"
poll S
"#,
    ),
    (
        "broadcast",
        r#"
S = socket dgram
get S SO_BROADCAST
sendto S "x" 127.255.255.255:p1
set S SO_BROADCAST 1
A = socket dgram
bind A 0.0.0.0:p1
B = socket dgram
bind B 127.0.0.1:p2
sendto S "all" 127.255.255.255:p1
settle
recvmsg A 10
recv B 10
connect S 127.255.255.255:p1
"#,
    ),
    (
        "broadcast_to_several",
        r#"
S = socket dgram
set S SO_BROADCAST 1
A = socket dgram
B = socket dgram
set A SO_REUSEADDR 1
set B SO_REUSEADDR 1
bind A 0.0.0.0:p1
bind B 0.0.0.0:p1
sendto S "all" 127.255.255.255:p1
settle
recv A 10
recv B 10
"#,
    ),
    (
        "packet_info",
        r#"
A = socket dgram
bind A 0.0.0.0:p1
set A IP_PKTINFO 1
set A IP_RECVTTL 1
set A IP_RECVTOS 1
S = socket dgram
set S IP_TTL 9
set S IP_TOS 8
sendto S "x" 127.0.0.1:p1
settle
recvmsg A 10
sendto S "y" 127.0.0.7:p1
settle
recvmsg A 10
"#,
    ),
    (
        "original_destination",
        r#"
A = socket dgram
bind A 0.0.0.0:0
set A IP_RECVORIGDSTADDR 1
S = socket dgram
set S SO_TIMESTAMP 1
get S SO_TIMESTAMP
"#,
    ),
    (
        "timestamps",
        r#"
A = socket dgram
bind A 0.0.0.0:p1
set A SO_TIMESTAMP 1
S = socket dgram
sendto S "x" 127.0.0.1:p1
settle
recvmsg A 10
set A SO_TIMESTAMPNS 1
get A SO_TIMESTAMP
get A SO_TIMESTAMPNS
sendto S "x" 127.0.0.1:p1
settle
recvmsg A 10
set A SO_TIMESTAMPNS 0
get A SO_TIMESTAMPNS
sendto S "x" 127.0.0.1:p1
settle
recvmsg A 10
"#,
    ),
    (
        "send_with_ttl_and_tos",
        r#"
A = socket dgram
bind A 0.0.0.0:p1
set A IP_RECVTTL 1
set A IP_RECVTOS 1
S = socket dgram
sendmsg S "x" 127.0.0.1:p1 cmsg 0 2 77
sendmsg S "x" 127.0.0.1:p1 cmsg 0 1 12
sendmsg S "x" 127.0.0.1:p1 cmsg 0 2 0
sendmsg S "x" 127.0.0.1:p1 cmsg 0 2 256
sendmsg S "x" 127.0.0.1:p1 cmsg 0 99 1
sendmsg S "x" 127.0.0.1:p1 cmsg 1 99 1
sendmsg S "x" 127.0.0.1:p1 cmsg 77 99 1
settle
recvmsg A 10
recvmsg A 10
recvmsg A 10
recv A 10
"#,
    ),
    (
        "send_with_source",
        r#"
A = socket dgram
bind A 0.0.0.0:p1
S = socket dgram
sendmsg S "x" 127.0.0.1:p1 cmsg 0 8 0x000000007f00000900000000
sendmsg S "y" 127.0.0.1:p1 cmsg 0 8 0x010000007f00000900000000
sendmsg S "y" 127.0.0.1:p1 cmsg 0 8 0x0000
settle
recvmsg A 10
recvmsg A 10
"#,
    ),
    (
        "cork",
        r#"
A = socket dgram
bind A 127.0.0.1:p1
S = socket dgram
sendto S "one," 127.0.0.1:p1 more
settle
recv A 100
sendto S "two" 127.0.0.1:p1
settle
recv A 100
connect S 127.0.0.1:p1
set S UDP_CORK 1
send S "a"
send S "b"
settle
recv A 100
set S UDP_CORK 0
settle
recv A 100
"#,
    ),
    (
        "segments",
        r#"
A = socket dgram
bind A 127.0.0.1:p1
S = socket dgram
set S UDP_SEGMENT 3
get S UDP_SEGMENT
sendto S "abcdefgh" 127.0.0.1:p1
settle
recv A 100
recv A 100
recv A 100
recv A 100
set S UDP_SEGMENT -1
set S UDP_SEGMENT 65536
set S UDP_SEGMENT 0
sendto S "abcdefgh" 127.0.0.1:p1
settle
recv A 100
"#,
    ),
    (
        "receive_buffer_bounds",
        r#"
A = socket dgram
bind A 127.0.0.1:p1
set A SO_RCVBUF 0
get A SO_RCVBUF
S = socket dgram
sendto S 1000*a 127.0.0.1:p1
sendto S 1000*b 127.0.0.1:p1
sendto S 1000*c 127.0.0.1:p1
sendto S 1000*d 127.0.0.1:p1
settle
recv A 2000
settle
sendto S 1000*e 127.0.0.1:p1
settle
"#,
    ),
    (
        "listen_and_accept",
        r#"
S = socket dgram
listen S 1
A = accept S
"#,
    ),
    (
        "error_queue_empty",
        r#"
S = socket dgram
recv S 10 errqueue
bind S 127.0.0.1:p1
recv S 10 errqueue
"#,
    ),
    (
        "two_senders",
        r#"
A = socket dgram
bind A 127.0.0.1:p1
S = socket dgram
T = socket dgram
bind S 127.0.0.1:p2
bind T 127.0.0.2:p3
sendto S "s" 127.0.0.1:p1
sendto T "t" 127.0.0.1:p1
settle
recvmsg A 10
sendto A "back" 127.0.0.2:p3
recvmsg A 10
settle
recvmsg T 10
"#,
    ),
    (
        "broadcast_packet_info",
        r#"
S = socket dgram
set S SO_BROADCAST 1
A = socket dgram
bind A 0.0.0.0:p1
set A IP_PKTINFO 1
sendto S "all" 127.255.255.255:p1
settle
recvmsg A 10
"#,
    ),
    (
        "ioctls",
        r#"
S = socket dgram
ioctl S FIONREAD
ioctl S SIOCOUTQ
ioctl S SIOCATMARK
ioctl S SIOCOUTQNSD
"#,
    ),
    (
        "flags",
        r#"
A = socket dgram
bind A 127.0.0.1:p1
S = socket dgram
sendto S "x" 127.0.0.1:p1 confirm
sendto S "y" 127.0.0.1:p1 eor
sendto S "z" 127.0.0.1:p1 dontwait
settle
recv A 10 waitall
recv A 10 dontwait
recv A 10 oob
recv A 10 oob
"#,
    ),
    (
        "connected_port_zero",
        r#"
A = socket dgram
bind A 127.0.0.1:p1
S = socket dgram
bind S 127.0.0.1:p2
connect S 127.0.0.1:0
peer S
send S "x"
sendto A "any port" 127.0.0.1:p2
settle
recvmsg S 20
T = socket dgram
bind T 127.0.0.2:p3
sendto T "other host" 127.0.0.1:p2
settle
recv S 20
"#,
    ),
    (
        "receive_errors_off_clears",
        r#"
S = socket dgram
set S IP_RECVERR 1
sendto S "lost" 127.0.0.1:p1
settle
set S IP_RECVERR 0
poll S
recvmsg S 10 errqueue
get S SO_ERROR
"#,
    ),
    (
        "receive_errors_from_connected_to_other",
        r#"
S = socket dgram
set S IP_RECVERR 1
connect S 127.0.0.1:p1
sendto S "lost" 127.0.0.1:p2
settle
poll S
recvmsg S 10 errqueue
get S SO_ERROR
"#,
    ),
    (
        "queue_survives_connect",
        r#"
A = socket dgram
bind A 127.0.0.1:p1
S = socket dgram
bind S 127.0.0.1:p2
sendto S "before" 127.0.0.1:p1
settle
connect A 127.0.0.1:p3
recvmsg A 10
sendto S "after" 127.0.0.1:p1
settle
recv A 10
poll S
"#,
    ),
    (
        "dont_fragment",
        r#"
A = socket dgram
bind A 127.0.0.1:p1
S = socket dgram
set S IP_MTU_DISCOVER 2
sendto S 65507*x 127.0.0.1:p1
sendto S 65508*x 127.0.0.1:p1
settle
recv A 65536
connect S 127.0.0.1:p1
get S IP_MTU
"#,
    ),
    (
        "peek_then_truncate_reports",
        r#"
A = socket dgram
bind A 127.0.0.1:p1
S = socket dgram
sendto S "0123456789" 127.0.0.1:p1
settle
recvmsg A 4 peek
recvmsg A 4 peek trunc
recvmsg A 10 trunc
"#,
    ),
    (
        "address_lengths_for_connect",
        r#"
S = socket dgram
connect S raw:0200
connect S raw:02000050
connect S raw:
connect S raw:02
name S
connect S raw:0100005000000000000000000000000000
name S
"#,
    ),
    (
        "shut_down_send_then_cork",
        r#"
A = socket dgram
bind A 127.0.0.1:p1
S = socket dgram
connect S 127.0.0.1:p1
send S "a" more
shutdown S wr
send S "b"
settle
recv A 10
"#,
    ),
];
