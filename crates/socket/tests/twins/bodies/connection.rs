//! Opening and ending connections: connect in all its outcomes, backlog, accept, close, linger.

pub const BODIES: &[(&str, &str)] = &[
    (
        "socket_arguments",
        r#"
A = socket 2 1 0
B = socket 2 1 6
C = socket 2 1 17
D = socket 2 2 6
E = socket 2 2 17
F = socket 2 5 0
G = socket 2 11 0
H = socket 99 1 0
I = socket 2 1 -1
J = socket 2 1 300
K = socket -1 1 0
M = socket 2 6 0
N = socket 2 4 0
"#,
    ),
    (
        "connect_refused_twice",
        r#"
S = socket stream
connect S 127.0.0.1:p1
connect S 127.0.0.1:p1
connect S 127.0.0.1:p1
settle
connect S 127.0.0.1:p1
poll S
name S
"#,
    ),
    (
        "connect_after_refusal_succeeds",
        r#"
S = socket stream
connect S 127.0.0.1:p1
settle
get S SO_ERROR
get S SO_ERROR
connect S 127.0.0.1:p1
L = socket stream
bind L 127.0.0.1:p1
listen L 1
connect S 127.0.0.1:p1
settle
connect S 127.0.0.1:p1
connect S 127.0.0.1:p1
send S "x"
A = accept L
settle
recv A 10
"#,
    ),
    (
        "connect_progress",
        r#"
L = socket stream
bind L 127.0.0.1:p1
listen L 5
S = socket stream
connect S 127.0.0.1:p1
settle
A = accept L

connect S 127.0.0.1:p1
connect S 127.0.0.1:p1
connect S 127.0.0.1:p2
"#,
    ),
    (
        "connect_addresses",
        r#"
S = socket stream
connect S raw:0200
connect S raw:02
connect S raw:
connect S raw:0a00005000000000000000000000000000000000000000000000000
connect S raw:02000050
connect S raw:0300005000000000000000000000000000
connect S 224.0.0.1:80
connect S 255.255.255.255:80
connect S 10.1.2.3:80
connect S 127.255.255.255:80
poll S
name S
connect S 127.0.0.1:0
settle
get S SO_ERROR
"#,
    ),
    (
        "connect_to_unspecified_address",
        r#"
L = socket stream
bind L 0.0.0.0:p1
listen L 1
S = socket stream
connect S 0.0.0.0:p1
settle
peer S
A = accept L
name A
"#,
    ),
    (
        "connect_from_second_loopback",
        r#"
L = socket stream
bind L 0.0.0.0:p1
listen L 1
S = socket stream
bind S 127.0.0.5:0
connect S 127.0.0.9:p1
settle
name S
peer S
A = accept L
name A
peer A
"#,
    ),
    (
        "self_connect",
        r#"
S = socket stream
bind S 127.0.0.1:p1
connect S 127.0.0.1:p1
settle
connect S 127.0.0.1:p1
name S
peer S
send S "to myself"
settle
recv S 100
poll S
shutdown S wr
settle
poll S
recv S 10
"#,
    ),
    (
        "connect_while_listening",
        r#"
L = socket stream
bind L 127.0.0.1:p1
listen L 1
connect L 127.0.0.1:p1
connect L unspec
name L
poll L
S = socket stream
connect S 127.0.0.1:p1
settle
get S SO_ERROR
listen L 1
"#,
    ),
    (
        "listen_unbound",
        r#"
L = socket stream
listen L 1
name L
S = socket stream
connect S 127.0.0.1:@L
settle
A = accept L
"#,
    ),
    (
        "listen_twice",
        r#"
L = socket stream
bind L 127.0.0.1:p1
listen L 1
listen L 5
get L SO_ACCEPTCONN
S = socket stream
connect S 127.0.0.1:p1
settle
poll L
"#,
    ),
    (
        "listen_on_connected",
        r#"
L = socket stream
bind L 127.0.0.1:p1
listen L 5
S = socket stream
connect S 127.0.0.1:p1
settle
A = accept L

listen S 1
listen A 1
"#,
    ),
    (
        "accept_order",
        r#"
L = socket stream
bind L 127.0.0.1:p1
listen L 5
A = socket stream
B = socket stream
C = socket stream
bind A 127.0.0.1:p2
bind B 127.0.0.1:p3
bind C 127.0.0.1:p4
connect B 127.0.0.1:p1
settle
connect A 127.0.0.1:p1
settle
connect C 127.0.0.1:p1
settle
X = accept L
Y = accept L
poll L
Z = accept L
poll L
W = accept L
"#,
    ),
    (
        "accept_without_listen",
        r#"
S = socket stream
A = accept S
bind S 127.0.0.1:0
A = accept S
D = socket dgram
A = accept D
"#,
    ),
    (
        "backlog_full",
        r#"
L = socket stream
bind L 127.0.0.1:p1
listen L 1
A = socket stream
connect A 127.0.0.1:p1
settle
B = socket stream
connect B 127.0.0.1:p1
settle
C = socket stream
connect C 127.0.0.1:p1
settle
poll A
poll B
poll C
connect C 127.0.0.1:p1
X = accept L
Y = accept L
Z = accept L
"#,
    ),
    (
        "backlog_zero",
        r#"
L = socket stream
bind L 127.0.0.1:p1
listen L 0
A = socket stream
connect A 127.0.0.1:p1
settle
B = socket stream
connect B 127.0.0.1:p1
settle
poll A
poll B
"#,
    ),
    (
        "backlog_negative",
        r#"
L = socket stream
bind L 127.0.0.1:p1
listen L -1
A = socket stream
connect A 127.0.0.1:p1
settle
poll A
"#,
    ),
    (
        "data_before_accept",
        r#"
L = socket stream
bind L 127.0.0.1:p1
listen L 2
S = socket stream
connect S 127.0.0.1:p1
settle
send S "early"
settle
A = accept L
recv A 100
"#,
    ),
    (
        "close_before_accept",
        r#"
L = socket stream
bind L 127.0.0.1:p1
listen L 2
S = socket stream
connect S 127.0.0.1:p1
settle
send S "bye"
close S
settle
poll L
A = accept L
poll A
recv A 100
recv A 100
"#,
    ),
    (
        "reset_before_accept",
        r#"
L = socket stream
bind L 127.0.0.1:p1
listen L 2
S = socket stream
connect S 127.0.0.1:p1
settle
set S SO_LINGER linger:1,0
close S
settle
poll L
A = accept L
poll A
peer A
recv A 100
recv A 100
"#,
    ),
    (
        "listener_closed_with_waiting",
        r#"
L = socket stream
bind L 127.0.0.1:p1
listen L 2
S = socket stream
connect S 127.0.0.1:p1
settle
close L
settle
poll S
send S "x"
recv S 10
recv S 10
"#,
    ),
    (
        "listener_shutdown",
        r#"
L = socket stream
bind L 127.0.0.1:p1
listen L 2
shutdown L wr
poll L
S = socket stream
connect S 127.0.0.1:p1
settle
shutdown L rd
settle
poll L
poll S
A = accept L
listen L 2
T = socket stream
connect T 127.0.0.1:p1
settle
A = accept L
"#,
    ),
    (
        "listener_closed_keeps_connections",
        r#"
L = socket stream
bind L 127.0.0.1:p1
listen L 5
S = socket stream
connect S 127.0.0.1:p1
settle
A = accept L

close L
settle
send S "still"
settle
recv A 100
T = socket stream
connect T 127.0.0.1:p1
settle
get T SO_ERROR
"#,
    ),
    (
        "peer_closes_after_data",
        r#"
L = socket stream
bind L 127.0.0.1:p1
listen L 5
S = socket stream
connect S 127.0.0.1:p1
settle
A = accept L

send A "one"
close A
settle
poll S
recv S 2
poll S
recv S 10
recv S 10
poll S
send S "x"
settle
poll S
send S "y"
get S SO_ERROR
recv S 10
"#,
    ),
    (
        "write_after_peer_closed_both",
        r#"
L = socket stream
bind L 127.0.0.1:p1
listen L 5
S = socket stream
connect S 127.0.0.1:p1
settle
A = accept L

close A
settle
send S "a"
settle
send S "b"
send S "c"
recv S 5
get S SO_ERROR
poll S
"#,
    ),
    (
        "reset_by_linger_zero",
        r#"
L = socket stream
bind L 127.0.0.1:p1
listen L 5
S = socket stream
connect S 127.0.0.1:p1
settle
A = accept L

set A SO_LINGER linger:1,0
close A
settle
poll S
recv S 10
recv S 10
send S "x"
poll S
"#,
    ),
    (
        "reset_then_send_first",
        r#"
L = socket stream
bind L 127.0.0.1:p1
listen L 5
S = socket stream
connect S 127.0.0.1:p1
settle
A = accept L

set A SO_LINGER linger:1,0
close A
settle
send S "x"
send S "x"
recv S 10
get S SO_ERROR
"#,
    ),
    (
        "reset_then_so_error",
        r#"
L = socket stream
bind L 127.0.0.1:p1
listen L 5
S = socket stream
connect S 127.0.0.1:p1
settle
A = accept L

set A SO_LINGER linger:1,0
close A
settle
get S SO_ERROR
poll S
recv S 10
send S "x"
"#,
    ),
    (
        "reset_by_unread_data",
        r#"
L = socket stream
bind L 127.0.0.1:p1
listen L 5
S = socket stream
connect S 127.0.0.1:p1
settle
A = accept L

send S "nobody reads this"
settle
close A
settle
poll S
recv S 10
recv S 10
"#,
    ),
    (
        "reset_keeps_received_data",
        r#"
L = socket stream
bind L 127.0.0.1:p1
listen L 5
S = socket stream
connect S 127.0.0.1:p1
settle
A = accept L

send A "kept"
settle
set A SO_LINGER linger:1,0
close A
settle
poll S
recv S 2
recv S 10
recv S 10
recv S 10
"#,
    ),
    (
        "data_to_shut_reader",
        r#"
L = socket stream
bind L 127.0.0.1:p1
listen L 5
S = socket stream
connect S 127.0.0.1:p1
settle
A = accept L

shutdown A rd
send S "into the void"
settle
poll A
recv A 100
recv A 100
poll S
send S "more"
"#,
    ),
    (
        "half_close_and_answer",
        r#"
L = socket stream
bind L 127.0.0.1:p1
listen L 5
S = socket stream
connect S 127.0.0.1:p1
settle
A = accept L

send S "request"
shutdown S wr
settle
recv A 100
recv A 100
poll A
send A "answer"
settle
recv S 100
poll S
close A
settle
poll S
recv S 10
send S "x"
get S SO_ERROR
"#,
    ),
    (
        "simultaneous_shutdown",
        r#"
L = socket stream
bind L 127.0.0.1:p1
listen L 5
S = socket stream
connect S 127.0.0.1:p1
settle
A = accept L

shutdown S wr
shutdown A wr
settle
recv S 5
recv A 5
send S "x"
send A "x"
get S SO_ERROR
get A SO_ERROR
"#,
    ),
    (
        "disconnect_and_reuse",
        r#"
L = socket stream
bind L 127.0.0.1:p1
listen L 5
S = socket stream
connect S 127.0.0.1:p1
settle
A = accept L

connect S unspec
settle
name S
poll A
recv A 10
connect S 127.0.0.1:p1
settle
B = accept L
send S "again"
settle
recv B 100
"#,
    ),
    (
        "disconnect_bound_keeps_port",
        r#"
L = socket stream
bind L 127.0.0.1:p1
listen L 5
S = socket stream
bind S 127.0.0.1:p2
connect S 127.0.0.1:p1
settle
name S
connect S unspec
name S
bind S 127.0.0.1:p3
connect S 127.0.0.1:p1
settle
name S
"#,
    ),
    (
        "disconnect_fresh",
        r#"
S = socket stream
connect S unspec
name S
poll S
recv S 1
"#,
    ),
    (
        "shutdown_while_unconnected_then_connect",
        r#"
L = socket stream
bind L 127.0.0.1:p1
listen L 5
S = socket stream
shutdown S wr
poll S
recv S 5
connect S 127.0.0.1:p1
settle
poll S
send S "x"
"#,
    ),
    (
        "accepted_inherits_options",
        r#"
L = socket stream
bind L 127.0.0.1:p1
set L SO_KEEPALIVE 1
set L TCP_NODELAY 1
set L SO_REUSEADDR 1
set L SO_LINGER linger:1,7
set L IP_TOS 16
set L IP_TTL 33
set L TCP_KEEPIDLE 77
set L SO_RCVLOWAT 3
set L SO_RCVTIMEO_OLD timeval:1,0
set L TCP_MAXSEG 1000
set L SO_OOBINLINE 1
set L SO_SNDBUF 20000
set L SO_RCVBUF 20000
set L TCP_USER_TIMEOUT 5000
set L SO_PRIORITY 3
set L TCP_CONGESTION text:reno
listen L 5
S = socket stream
connect S 127.0.0.1:p1
settle
A = accept L
get A SO_KEEPALIVE
get A TCP_NODELAY
get A SO_REUSEADDR
get A SO_LINGER 8
get A IP_TOS
get A IP_TTL
get A TCP_KEEPIDLE
get A SO_RCVLOWAT
get A SO_RCVTIMEO_OLD 16
get A SO_OOBINLINE
get A SO_SNDBUF
get A SO_RCVBUF
get A TCP_USER_TIMEOUT
get A SO_PRIORITY
get A SO_ACCEPTCONN
get A TCP_CONGESTION 16
get S TCP_NODELAY
"#,
    ),
    (
        "linger_on_close_delivers",
        r#"
L = socket stream
bind L 127.0.0.1:p1
listen L 5
S = socket stream
connect S 127.0.0.1:p1
settle
A = accept L

set S SO_LINGER linger:1,5
send S "last words"
close S
settle
recv A 100
recv A 100
"#,
    ),
    (
        "close_connecting",
        r#"
S = socket stream
L = socket stream
bind L 127.0.0.1:p1
listen L 0
A = socket stream
connect A 127.0.0.1:p1
settle
connect S 127.0.0.1:p1
settle
poll S
recv S 5
send S "x"
peer S
name S
get S SO_ERROR
connect S unspec
settle
poll S
get S SO_ERROR
"#,
    ),
    (
        "connecting_shutdown",
        r#"
L = socket stream
bind L 127.0.0.1:p1
listen L 0
A = socket stream
connect A 127.0.0.1:p1
settle
S = socket stream
connect S 127.0.0.1:p1
settle
shutdown S wr
poll S
get S SO_ERROR
connect S 127.0.0.1:p1
"#,
    ),
    (
        "connecting_every_call",
        r#"
L = socket stream
bind L 127.0.0.1:p1
listen L 0
X = socket stream
connect X 127.0.0.1:p1
settle
S = socket stream
connect S 127.0.0.1:p1
settle

poll S
get S SO_ERROR
recv S 10
recv S 0
recv S 1 oob
recv S 10 peek
send S "x"
send S ""
send S "x" oob
ioctl S FIONREAD
ioctl S SIOCATMARK
bind S 127.0.0.1:p3
listen S 1
A = accept S
connect S 127.0.0.1:p2
connect S raw:0200
get S SO_ACCEPTCONN
get S IP_MTU
get S TCP_INFO 1
shutdown S 7
peer S
poll S
"#,
    ),
    (
        "connecting_closed",
        r#"
L = socket stream
bind L 127.0.0.1:p1
listen L 0
X = socket stream
connect X 127.0.0.1:p1
settle
S = socket stream
connect S 127.0.0.1:p1
settle
close S
settle
A = accept L
B = accept L
"#,
    ),
    (
        "connecting_shutdown_rdwr",
        r#"
L = socket stream
bind L 127.0.0.1:p1
listen L 0
X = socket stream
connect X 127.0.0.1:p1
settle
S = socket stream
connect S 127.0.0.1:p1
settle
shutdown S rdwr
poll S
name S
get S SO_ERROR
recv S 1
listen S 1
name S
poll S
"#,
    ),
    (
        "connecting_unspec_then_listen",
        r#"
L = socket stream
bind L 127.0.0.1:p1
listen L 0
X = socket stream
connect X 127.0.0.1:p1
settle
S = socket stream
connect S 127.0.0.1:p1
settle
connect S unspec
get S SO_ERROR
listen S 2
poll S
"#,
    ),
    (
        "protocol_states",
        r#"
L = socket stream
get L TCP_INFO 1
bind L 127.0.0.1:p1
get L TCP_INFO 1
listen L 5
get L TCP_INFO 1
S = socket stream
connect S 127.0.0.1:p1
settle
get S TCP_INFO 1
A = accept L
get A TCP_INFO 1
shutdown A wr
settle
get S TCP_INFO 1
send S "ack"
settle
get A TCP_INFO 1
shutdown S wr
settle
get S TCP_INFO 1
get A TCP_INFO 1
R = socket stream
connect R 127.0.0.1:p2
settle
get R TCP_INFO 1
"#,
    ),
    (
        "both_shut_then_data_is_reset",
        r#"
L = socket stream
bind L 127.0.0.1:p1
listen L 5
S = socket stream
connect S 127.0.0.1:p1
settle
A = accept L

shutdown S rdwr
settle
poll S
send A "too late"
settle
poll S
poll A
recv S 10
get S SO_ERROR
recv A 10
get A SO_ERROR
send A "x"
"#,
    ),
    (
        "receive_shut_then_fin",
        r#"
L = socket stream
bind L 127.0.0.1:p1
listen L 5
S = socket stream
connect S 127.0.0.1:p1
settle
A = accept L

shutdown S rd
send A "one"
settle
recv S 10
recv S 10
close A
settle
poll S
recv S 10
send S "x"
settle
poll S
"#,
    ),
    (
        "accept_from_specific_and_wildcard",
        r#"
W = socket stream
L = socket stream
set W SO_REUSEPORT 1
set L SO_REUSEPORT 1
bind W 0.0.0.0:p1
bind L 127.0.0.1:p1
listen W 5
listen L 5
S = socket stream
connect S 127.0.0.1:p1
settle
A = accept W
A = accept L
T = socket stream
connect T 127.0.0.2:p1
settle
B = accept L
B = accept W
name B
"#,
    ),
    (
        "two_connections_of_one_listener",
        r#"
L = socket stream
bind L 127.0.0.1:p1
listen L 5
S = socket stream
connect S 127.0.0.1:p1
settle
A = accept L

T = socket stream
connect T 127.0.0.1:p1
settle
B = accept L
send S "s"
send T "t"
settle
recv A 10
recv B 10
close S
settle
poll A
poll B
close L
settle
send B "still"
settle
recv T 10
"#,
    ),
    (
        "reconnect_same_socket_many_times",
        r#"
L = socket stream
bind L 127.0.0.1:p1
listen L 5
S = socket stream
bind S 127.0.0.1:p2
connect S 127.0.0.1:p1
settle
A = accept L
connect S unspec
settle
recv A 5
recv A 5
connect S 127.0.0.1:p1
settle
B = accept L
send B "again"
settle
recv S 10
connect S unspec
name S
poll S
get S SO_ERROR
"#,
    ),
    (
        "reset_by_both_ends_at_once",
        r#"
L = socket stream
bind L 127.0.0.1:p1
listen L 5
S = socket stream
connect S 127.0.0.1:p1
settle
A = accept L

set A SO_LINGER linger:1,0
set S SO_LINGER linger:1,0
send A "x"
send S "y"
close A
close S
settle
T = socket stream
connect T 127.0.0.1:p1
settle
B = accept L
"#,
    ),
    (
        "error_is_told_once_by_any_call",
        r#"
L = socket stream
bind L 127.0.0.1:p1
listen L 5
S = socket stream
connect S 127.0.0.1:p1
settle
A = accept L

set A SO_LINGER linger:1,0
close A
settle
recv S 0
recv S 0
get S SO_ERROR
"#,
    ),
    (
        "connect_error_told_by_send",
        r#"
S = socket stream
connect S 127.0.0.1:p1
settle
send S "x"
send S "x"
connect S 127.0.0.1:p1
connect S 127.0.0.1:p1
"#,
    ),
    (
        "shutdown_twice",
        r#"
L = socket stream
bind L 127.0.0.1:p1
listen L 5
S = socket stream
connect S 127.0.0.1:p1
settle
A = accept L

shutdown S wr
shutdown S wr
shutdown S rd
shutdown S rd
settle
shutdown S rdwr
poll S
shutdown A wr
settle
shutdown S wr
shutdown A rdwr
poll S
poll A
"#,
    ),
    (
        "child_options_are_its_own",
        r#"
L = socket stream
bind L 127.0.0.1:p1
listen L 5
S = socket stream
connect S 127.0.0.1:p1
settle
A = accept L

set A TCP_NODELAY 1
get L TCP_NODELAY
set L SO_KEEPALIVE 1
get A SO_KEEPALIVE
set A IP_TTL 5
get L IP_TTL
"#,
    ),
];
