//! Every call in every state: errno, results and poll masks.

pub const BODIES: &[(&str, &str)] = &[
    (
        "fresh",
        r#"
S = socket stream
poll S
name S
peer S
get S SO_ERROR
recv S 10
recv S 0
recv S 10 oob
recv S 10 peek
send S "x"
poll S
ioctl S FIONREAD
ioctl S SIOCOUTQ
ioctl S SIOCATMARK
shutdown S 5
A9 = accept S
get S SO_ACCEPTCONN
get S IP_MTU
get S SO_ERROR
poll S
"#,
    ),
    (
        "bound",
        r#"
S = socket stream
bind S 127.0.0.1:p1
poll S
name S
peer S
get S SO_ERROR
recv S 10
recv S 0
recv S 10 oob
recv S 10 peek
send S "x"
poll S
ioctl S FIONREAD
ioctl S SIOCOUTQ
ioctl S SIOCATMARK
shutdown S 5
A9 = accept S
get S SO_ACCEPTCONN
get S IP_MTU
get S SO_ERROR
poll S
"#,
    ),
    (
        "bound_ephemeral",
        r#"
S = socket stream
bind S 127.0.0.1:0
poll S
name S
peer S
get S SO_ERROR
recv S 10
recv S 0
recv S 10 oob
recv S 10 peek
send S "x"
poll S
ioctl S FIONREAD
ioctl S SIOCOUTQ
ioctl S SIOCATMARK
shutdown S 5
A9 = accept S
get S SO_ACCEPTCONN
get S IP_MTU
get S SO_ERROR
poll S
"#,
    ),
    (
        "listening",
        r#"
S = socket stream
bind S 127.0.0.1:p1
listen S 3
poll S
name S
peer S
get S SO_ERROR
recv S 10
recv S 0
recv S 10 oob
recv S 10 peek
send S "x"
poll S
ioctl S FIONREAD
ioctl S SIOCOUTQ
ioctl S SIOCATMARK
shutdown S 5
A9 = accept S
get S SO_ACCEPTCONN
get S IP_MTU
get S SO_ERROR
poll S
"#,
    ),
    (
        "listening_with_one_waiting",
        r#"
S = socket stream
bind S 127.0.0.1:p1
listen S 3
C = socket stream
connect C 127.0.0.1:p1
settle
poll S
name S
peer S
get S SO_ERROR
recv S 10
recv S 0
recv S 10 oob
recv S 10 peek
send S "x"
poll S
ioctl S FIONREAD
ioctl S SIOCOUTQ
ioctl S SIOCATMARK
shutdown S 5
A9 = accept S
get S SO_ACCEPTCONN
get S IP_MTU
get S SO_ERROR
poll S
"#,
    ),
    (
        "connected",
        r#"
L = socket stream
bind L 127.0.0.1:p1
listen L 5
S = socket stream
connect S 127.0.0.1:p1
settle
A = accept L
poll S
name S
peer S
get S SO_ERROR
recv S 10
recv S 0
recv S 10 oob
recv S 10 peek
send S "x"
poll S
ioctl S FIONREAD
ioctl S SIOCOUTQ
ioctl S SIOCATMARK
shutdown S 5
A9 = accept S
get S SO_ACCEPTCONN
get S IP_MTU
get S SO_ERROR
poll S
"#,
    ),
    (
        "connected_and_confirmed",
        r#"
L = socket stream
bind L 127.0.0.1:p1
listen L 5
S = socket stream
connect S 127.0.0.1:p1
settle
A = accept L
connect S 127.0.0.1:p1
poll S
name S
peer S
get S SO_ERROR
recv S 10
recv S 0
recv S 10 oob
recv S 10 peek
send S "x"
poll S
ioctl S FIONREAD
ioctl S SIOCOUTQ
ioctl S SIOCATMARK
shutdown S 5
A9 = accept S
get S SO_ACCEPTCONN
get S IP_MTU
get S SO_ERROR
poll S
"#,
    ),
    (
        "accepted",
        r#"
L = socket stream
bind L 127.0.0.1:p1
listen L 5
C = socket stream
connect C 127.0.0.1:p1
settle
S = accept L
poll S
name S
peer S
get S SO_ERROR
recv S 10
recv S 0
recv S 10 oob
recv S 10 peek
send S "x"
poll S
ioctl S FIONREAD
ioctl S SIOCOUTQ
ioctl S SIOCATMARK
shutdown S 5
A9 = accept S
get S SO_ACCEPTCONN
get S IP_MTU
get S SO_ERROR
poll S
"#,
    ),
    (
        "refused",
        r#"
S = socket stream
connect S 127.0.0.1:p1
settle
poll S
name S
peer S
get S SO_ERROR
recv S 10
recv S 0
recv S 10 oob
recv S 10 peek
send S "x"
poll S
ioctl S FIONREAD
ioctl S SIOCATMARK
shutdown S 5
A9 = accept S
get S SO_ACCEPTCONN
get S IP_MTU
get S SO_ERROR
poll S
"#,
    ),
    (
        "half_closed_here",
        r#"
L = socket stream
bind L 127.0.0.1:p1
listen L 5
S = socket stream
connect S 127.0.0.1:p1
settle
A = accept L
shutdown S wr
settle
poll S
name S
peer S
get S SO_ERROR
recv S 10
recv S 0
recv S 10 oob
recv S 10 peek
send S "x"
poll S
ioctl S FIONREAD
ioctl S SIOCATMARK
shutdown S 5
A9 = accept S
get S SO_ACCEPTCONN
get S IP_MTU
get S SO_ERROR
poll S
"#,
    ),
    (
        "half_closed_there",
        r#"
L = socket stream
bind L 127.0.0.1:p1
listen L 5
S = socket stream
connect S 127.0.0.1:p1
settle
A = accept L
shutdown A wr
settle
poll S
name S
peer S
get S SO_ERROR
recv S 10
recv S 0
recv S 10 oob
recv S 10 peek
send S "x"
poll S
ioctl S FIONREAD
ioctl S SIOCATMARK
shutdown S 5
A9 = accept S
get S SO_ACCEPTCONN
get S IP_MTU
get S SO_ERROR
poll S
"#,
    ),
    (
        "both_closed_here_first",
        r#"
L = socket stream
bind L 127.0.0.1:p1
listen L 5
S = socket stream
connect S 127.0.0.1:p1
settle
A = accept L
shutdown S wr
settle
shutdown A wr
settle
poll S
name S
peer S
get S SO_ERROR
recv S 10
recv S 0
recv S 10 oob
recv S 10 peek
send S "x"
poll S
ioctl S FIONREAD
ioctl S SIOCATMARK
shutdown S 5
A9 = accept S
get S SO_ACCEPTCONN
get S IP_MTU
get S SO_ERROR
poll S
"#,
    ),
    (
        "both_closed_there_first",
        r#"
L = socket stream
bind L 127.0.0.1:p1
listen L 5
S = socket stream
connect S 127.0.0.1:p1
settle
A = accept L
shutdown A wr
settle
shutdown S wr
settle
poll S
name S
peer S
get S SO_ERROR
recv S 10
recv S 0
recv S 10 oob
recv S 10 peek
send S "x"
poll S
ioctl S FIONREAD
ioctl S SIOCATMARK
shutdown S 5
A9 = accept S
get S SO_ACCEPTCONN
get S IP_MTU
get S SO_ERROR
poll S
"#,
    ),
    (
        "receive_shut",
        r#"
L = socket stream
bind L 127.0.0.1:p1
listen L 5
S = socket stream
connect S 127.0.0.1:p1
settle
A = accept L
shutdown S rd
poll S
name S
peer S
get S SO_ERROR
recv S 10
recv S 0
recv S 10 oob
recv S 10 peek
send S "x"
poll S
ioctl S FIONREAD
ioctl S SIOCATMARK
shutdown S 5
A9 = accept S
get S SO_ACCEPTCONN
get S IP_MTU
get S SO_ERROR
poll S
"#,
    ),
    (
        "both_shut_here",
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
name S
peer S
get S SO_ERROR
recv S 10
recv S 0
recv S 10 oob
recv S 10 peek
send S "x"
poll S
ioctl S FIONREAD
ioctl S SIOCATMARK
shutdown S 5
A9 = accept S
get S SO_ACCEPTCONN
get S IP_MTU
get S SO_ERROR
poll S
"#,
    ),
    (
        "peer_gone",
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
poll S
name S
peer S
get S SO_ERROR
recv S 10
recv S 0
recv S 10 oob
recv S 10 peek
send S "x"
poll S
ioctl S FIONREAD
ioctl S SIOCATMARK
shutdown S 5
A9 = accept S
get S SO_ACCEPTCONN
get S IP_MTU
get S SO_ERROR
poll S
"#,
    ),
    (
        "peer_gone_with_data",
        r#"
L = socket stream
bind L 127.0.0.1:p1
listen L 5
S = socket stream
connect S 127.0.0.1:p1
settle
A = accept L
send A "left behind"
close A
settle
poll S
name S
peer S
get S SO_ERROR
recv S 10
recv S 0
recv S 10 oob
recv S 10 peek
send S "x"
poll S
ioctl S FIONREAD
ioctl S SIOCATMARK
shutdown S 5
A9 = accept S
get S SO_ACCEPTCONN
get S IP_MTU
get S SO_ERROR
poll S
"#,
    ),
    (
        "reset",
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
name S
peer S
get S SO_ERROR
recv S 10
recv S 0
recv S 10 oob
recv S 10 peek
send S "x"
poll S
ioctl S FIONREAD
ioctl S SIOCOUTQ
ioctl S SIOCATMARK
shutdown S 5
A9 = accept S
get S SO_ACCEPTCONN
get S IP_MTU
get S SO_ERROR
poll S
"#,
    ),
    (
        "reset_with_data",
        r#"
L = socket stream
bind L 127.0.0.1:p1
listen L 5
S = socket stream
connect S 127.0.0.1:p1
settle
A = accept L
send A "left"
settle
set A SO_LINGER linger:1,0
close A
settle
poll S
name S
peer S
get S SO_ERROR
recv S 10
recv S 0
recv S 10 oob
recv S 10 peek
send S "x"
poll S
ioctl S FIONREAD
ioctl S SIOCOUTQ
ioctl S SIOCATMARK
shutdown S 5
A9 = accept S
get S SO_ACCEPTCONN
get S IP_MTU
get S SO_ERROR
poll S
"#,
    ),
    (
        "reset_after_fin",
        r#"
L = socket stream
bind L 127.0.0.1:p1
listen L 5
S = socket stream
connect S 127.0.0.1:p1
settle
A = accept L
shutdown A wr
settle
send S "unread"
settle
close A
settle
poll S
name S
peer S
get S SO_ERROR
recv S 10
recv S 0
recv S 10 oob
recv S 10 peek
send S "x"
poll S
ioctl S FIONREAD
ioctl S SIOCOUTQ
ioctl S SIOCATMARK
shutdown S 5
A9 = accept S
get S SO_ACCEPTCONN
get S IP_MTU
get S SO_ERROR
poll S
"#,
    ),
    (
        "peer_closed_unread",
        r#"
L = socket stream
bind L 127.0.0.1:p1
listen L 5
S = socket stream
connect S 127.0.0.1:p1
settle
A = accept L
send S "unread"
settle
close A
settle
poll S
name S
peer S
get S SO_ERROR
recv S 10
recv S 0
recv S 10 oob
recv S 10 peek
send S "x"
poll S
ioctl S FIONREAD
ioctl S SIOCATMARK
shutdown S 5
A9 = accept S
get S SO_ACCEPTCONN
get S IP_MTU
get S SO_ERROR
poll S
"#,
    ),
    (
        "data_waiting",
        r#"
L = socket stream
bind L 127.0.0.1:p1
listen L 5
S = socket stream
connect S 127.0.0.1:p1
settle
A = accept L
send A "hello"
settle
poll S
name S
peer S
get S SO_ERROR
recv S 10
recv S 0
recv S 10 oob
recv S 10 peek
send S "x"
poll S
ioctl S FIONREAD
ioctl S SIOCOUTQ
ioctl S SIOCATMARK
shutdown S 5
A9 = accept S
get S SO_ACCEPTCONN
get S IP_MTU
get S SO_ERROR
poll S
"#,
    ),
    (
        "dissolved",
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
poll S
name S
peer S
get S SO_ERROR
recv S 10
recv S 0
recv S 10 oob
recv S 10 peek
send S "x"
poll S
ioctl S FIONREAD
ioctl S SIOCATMARK
shutdown S 5
A9 = accept S
get S SO_ACCEPTCONN
get S IP_MTU
get S SO_ERROR
poll S
"#,
    ),
    (
        "udp_fresh",
        r#"
S = socket dgram
poll S
name S
peer S
get S SO_ERROR
recv S 10
recv S 0
recv S 10 peek
send S "x"
poll S
ioctl S FIONREAD
shutdown S 5
A9 = accept S
get S SO_ACCEPTCONN
get S IP_MTU
get S SO_ERROR
poll S
"#,
    ),
    (
        "udp_bound",
        r#"
S = socket dgram
bind S 127.0.0.1:p1
poll S
name S
peer S
get S SO_ERROR
recv S 10
recv S 0
recv S 10 peek
send S "x"
poll S
ioctl S FIONREAD
shutdown S 5
A9 = accept S
get S SO_ACCEPTCONN
get S IP_MTU
get S SO_ERROR
poll S
"#,
    ),
    (
        "udp_connected",
        r#"
P = socket dgram
bind P 127.0.0.1:p1
S = socket dgram
connect S 127.0.0.1:p1
poll S
name S
peer S
get S SO_ERROR
recv S 10
recv S 0
recv S 10 peek
send S "x"
poll S
ioctl S FIONREAD
shutdown S 5
A9 = accept S
get S SO_ACCEPTCONN
get S IP_MTU
get S SO_ERROR
poll S
"#,
    ),
    (
        "udp_refused",
        r#"
S = socket dgram
connect S 127.0.0.1:p1
send S "x"
settle
poll S
name S
peer S
get S SO_ERROR
recv S 10
recv S 0
recv S 10 peek
send S "x"
poll S
ioctl S FIONREAD
shutdown S 5
A9 = accept S
get S SO_ACCEPTCONN
get S IP_MTU
get S SO_ERROR
poll S
"#,
    ),
    (
        "udp_shut",
        r#"
P = socket dgram
bind P 127.0.0.1:p1
S = socket dgram
connect S 127.0.0.1:p1
shutdown S rdwr
poll S
name S
peer S
get S SO_ERROR
recv S 10
recv S 0
recv S 10 peek
send S "x"
poll S
ioctl S FIONREAD
shutdown S 5
A9 = accept S
get S SO_ACCEPTCONN
get S IP_MTU
get S SO_ERROR
poll S
"#,
    ),
    (
        "udp_dissolved",
        r#"
P = socket dgram
bind P 127.0.0.1:p1
S = socket dgram
connect S 127.0.0.1:p1
connect S unspec
poll S
name S
peer S
get S SO_ERROR
recv S 10
recv S 0
recv S 10 peek
send S "x"
poll S
ioctl S FIONREAD
shutdown S 5
A9 = accept S
get S SO_ACCEPTCONN
get S IP_MTU
get S SO_ERROR
poll S
"#,
    ),
    (
        "fresh_then_bind",
        r#"
S = socket stream
bind S 127.0.0.1:p5
name S
"#,
    ),
    (
        "fresh_then_listen",
        r#"
S = socket stream
listen S 2
poll S
name S
"#,
    ),
    (
        "fresh_then_connect",
        r#"
S = socket stream
K = socket stream
bind K 127.0.0.1:p6
listen K 1
connect S 127.0.0.1:p6
settle
connect S 127.0.0.1:p6
connect S 127.0.0.1:p6
poll S
get S SO_ERROR
"#,
    ),
    (
        "fresh_then_shutdown_rd",
        r#"
S = socket stream
shutdown S rd
poll S
recv S 10
send S "y"
settle
poll S
recv S 5
"#,
    ),
    (
        "fresh_then_shutdown_wr",
        r#"
S = socket stream
shutdown S wr
poll S
recv S 10
send S "y"
settle
poll S
recv S 5
shutdown S wr
"#,
    ),
    (
        "fresh_then_shutdown_rdwr",
        r#"
S = socket stream
shutdown S rdwr
poll S
recv S 10
send S "y"
settle
poll S
recv S 5
get S SO_ERROR
"#,
    ),
    (
        "fresh_then_unspec",
        r#"
S = socket stream
connect S unspec
poll S
name S
peer S
get S SO_ERROR
recv S 5
send S "y"
"#,
    ),
    (
        "bound_then_bind",
        r#"
S = socket stream
bind S 127.0.0.1:p1
bind S 127.0.0.1:p5
name S
"#,
    ),
    (
        "bound_then_listen",
        r#"
S = socket stream
bind S 127.0.0.1:p1
listen S 2
poll S
name S
"#,
    ),
    (
        "bound_then_connect",
        r#"
S = socket stream
bind S 127.0.0.1:p1
K = socket stream
bind K 127.0.0.1:p6
listen K 1
connect S 127.0.0.1:p6
settle
connect S 127.0.0.1:p6
connect S 127.0.0.1:p6
poll S
get S SO_ERROR
"#,
    ),
    (
        "bound_then_shutdown_rd",
        r#"
S = socket stream
bind S 127.0.0.1:p1
shutdown S rd
poll S
recv S 10
send S "y"
settle
poll S
recv S 5
"#,
    ),
    (
        "bound_then_shutdown_wr",
        r#"
S = socket stream
bind S 127.0.0.1:p1
shutdown S wr
poll S
recv S 10
send S "y"
settle
poll S
recv S 5
shutdown S wr
"#,
    ),
    (
        "bound_then_shutdown_rdwr",
        r#"
S = socket stream
bind S 127.0.0.1:p1
shutdown S rdwr
poll S
recv S 10
send S "y"
settle
poll S
recv S 5
get S SO_ERROR
"#,
    ),
    (
        "bound_then_unspec",
        r#"
S = socket stream
bind S 127.0.0.1:p1
connect S unspec
poll S
name S
peer S
get S SO_ERROR
recv S 5
send S "y"
"#,
    ),
    (
        "listening_then_bind",
        r#"
S = socket stream
bind S 127.0.0.1:p1
listen S 3
bind S 127.0.0.1:p5
name S
"#,
    ),
    (
        "listening_then_listen",
        r#"
S = socket stream
bind S 127.0.0.1:p1
listen S 3
listen S 2
poll S
name S
"#,
    ),
    (
        "listening_then_connect",
        r#"
S = socket stream
bind S 127.0.0.1:p1
listen S 3
K = socket stream
bind K 127.0.0.1:p6
listen K 1
connect S 127.0.0.1:p6
settle
connect S 127.0.0.1:p6
connect S 127.0.0.1:p6
poll S
get S SO_ERROR
"#,
    ),
    (
        "listening_then_shutdown_rd",
        r#"
S = socket stream
bind S 127.0.0.1:p1
listen S 3
shutdown S rd
poll S
recv S 10
send S "y"
settle
poll S
recv S 5
"#,
    ),
    (
        "listening_then_shutdown_wr",
        r#"
S = socket stream
bind S 127.0.0.1:p1
listen S 3
shutdown S wr
poll S
recv S 10
send S "y"
settle
poll S
recv S 5
shutdown S wr
"#,
    ),
    (
        "listening_then_shutdown_rdwr",
        r#"
S = socket stream
bind S 127.0.0.1:p1
listen S 3
shutdown S rdwr
poll S
recv S 10
send S "y"
settle
poll S
recv S 5
get S SO_ERROR
"#,
    ),
    (
        "listening_then_unspec",
        r#"
S = socket stream
bind S 127.0.0.1:p1
listen S 3
connect S unspec
poll S
name S
peer S
get S SO_ERROR
recv S 5
send S "y"
"#,
    ),
    (
        "connected_then_bind",
        r#"
L = socket stream
bind L 127.0.0.1:p1
listen L 5
S = socket stream
connect S 127.0.0.1:p1
settle
A = accept L
bind S 127.0.0.1:p5
name S
"#,
    ),
    (
        "connected_then_listen",
        r#"
L = socket stream
bind L 127.0.0.1:p1
listen L 5
S = socket stream
connect S 127.0.0.1:p1
settle
A = accept L
listen S 2
poll S
name S
"#,
    ),
    (
        "connected_then_connect",
        r#"
L = socket stream
bind L 127.0.0.1:p1
listen L 5
S = socket stream
connect S 127.0.0.1:p1
settle
A = accept L
K = socket stream
bind K 127.0.0.1:p6
listen K 1
connect S 127.0.0.1:p6
settle
connect S 127.0.0.1:p6
connect S 127.0.0.1:p6
poll S
get S SO_ERROR
"#,
    ),
    (
        "connected_then_shutdown_rd",
        r#"
L = socket stream
bind L 127.0.0.1:p1
listen L 5
S = socket stream
connect S 127.0.0.1:p1
settle
A = accept L
shutdown S rd
poll S
recv S 10
send S "y"
settle
poll S
recv S 5
"#,
    ),
    (
        "connected_then_shutdown_wr",
        r#"
L = socket stream
bind L 127.0.0.1:p1
listen L 5
S = socket stream
connect S 127.0.0.1:p1
settle
A = accept L
shutdown S wr
poll S
recv S 10
send S "y"
settle
poll S
recv S 5
shutdown S wr
"#,
    ),
    (
        "connected_then_shutdown_rdwr",
        r#"
L = socket stream
bind L 127.0.0.1:p1
listen L 5
S = socket stream
connect S 127.0.0.1:p1
settle
A = accept L
shutdown S rdwr
poll S
recv S 10
send S "y"
settle
poll S
recv S 5
get S SO_ERROR
"#,
    ),
    (
        "connected_then_unspec",
        r#"
L = socket stream
bind L 127.0.0.1:p1
listen L 5
S = socket stream
connect S 127.0.0.1:p1
settle
A = accept L
connect S unspec
poll S
name S
peer S
get S SO_ERROR
recv S 5
send S "y"
"#,
    ),
    (
        "refused_then_bind",
        r#"
S = socket stream
connect S 127.0.0.1:p1
settle
bind S 127.0.0.1:p5
name S
"#,
    ),
    (
        "refused_then_listen",
        r#"
S = socket stream
connect S 127.0.0.1:p1
settle
listen S 2
poll S
name S
"#,
    ),
    (
        "refused_then_connect",
        r#"
S = socket stream
connect S 127.0.0.1:p1
settle
K = socket stream
bind K 127.0.0.1:p6
listen K 1
connect S 127.0.0.1:p6
settle
connect S 127.0.0.1:p6
connect S 127.0.0.1:p6
poll S
get S SO_ERROR
"#,
    ),
    (
        "refused_then_shutdown_rd",
        r#"
S = socket stream
connect S 127.0.0.1:p1
settle
shutdown S rd
poll S
recv S 10
send S "y"
settle
poll S
recv S 5
"#,
    ),
    (
        "refused_then_shutdown_wr",
        r#"
S = socket stream
connect S 127.0.0.1:p1
settle
shutdown S wr
poll S
recv S 10
send S "y"
settle
poll S
recv S 5
shutdown S wr
"#,
    ),
    (
        "refused_then_shutdown_rdwr",
        r#"
S = socket stream
connect S 127.0.0.1:p1
settle
shutdown S rdwr
poll S
recv S 10
send S "y"
settle
poll S
recv S 5
get S SO_ERROR
"#,
    ),
    (
        "refused_then_unspec",
        r#"
S = socket stream
connect S 127.0.0.1:p1
settle
connect S unspec
poll S
name S
peer S
get S SO_ERROR
recv S 5
send S "y"
"#,
    ),
    (
        "half_closed_here_then_bind",
        r#"
L = socket stream
bind L 127.0.0.1:p1
listen L 5
S = socket stream
connect S 127.0.0.1:p1
settle
A = accept L
shutdown S wr
settle
bind S 127.0.0.1:p5
name S
"#,
    ),
    (
        "half_closed_here_then_listen",
        r#"
L = socket stream
bind L 127.0.0.1:p1
listen L 5
S = socket stream
connect S 127.0.0.1:p1
settle
A = accept L
shutdown S wr
settle
listen S 2
poll S
name S
"#,
    ),
    (
        "half_closed_here_then_connect",
        r#"
L = socket stream
bind L 127.0.0.1:p1
listen L 5
S = socket stream
connect S 127.0.0.1:p1
settle
A = accept L
shutdown S wr
settle
K = socket stream
bind K 127.0.0.1:p6
listen K 1
connect S 127.0.0.1:p6
settle
connect S 127.0.0.1:p6
connect S 127.0.0.1:p6
poll S
get S SO_ERROR
"#,
    ),
    (
        "half_closed_here_then_shutdown_rd",
        r#"
L = socket stream
bind L 127.0.0.1:p1
listen L 5
S = socket stream
connect S 127.0.0.1:p1
settle
A = accept L
shutdown S wr
settle
shutdown S rd
poll S
recv S 10
send S "y"
settle
poll S
recv S 5
"#,
    ),
    (
        "half_closed_here_then_shutdown_wr",
        r#"
L = socket stream
bind L 127.0.0.1:p1
listen L 5
S = socket stream
connect S 127.0.0.1:p1
settle
A = accept L
shutdown S wr
settle
shutdown S wr
poll S
recv S 10
send S "y"
settle
poll S
recv S 5
shutdown S wr
"#,
    ),
    (
        "half_closed_here_then_shutdown_rdwr",
        r#"
L = socket stream
bind L 127.0.0.1:p1
listen L 5
S = socket stream
connect S 127.0.0.1:p1
settle
A = accept L
shutdown S wr
settle
shutdown S rdwr
poll S
recv S 10
send S "y"
settle
poll S
recv S 5
get S SO_ERROR
"#,
    ),
    (
        "half_closed_here_then_unspec",
        r#"
L = socket stream
bind L 127.0.0.1:p1
listen L 5
S = socket stream
connect S 127.0.0.1:p1
settle
A = accept L
shutdown S wr
settle
connect S unspec
poll S
name S
peer S
get S SO_ERROR
recv S 5
send S "y"
"#,
    ),
    (
        "half_closed_there_then_bind",
        r#"
L = socket stream
bind L 127.0.0.1:p1
listen L 5
S = socket stream
connect S 127.0.0.1:p1
settle
A = accept L
shutdown A wr
settle
bind S 127.0.0.1:p5
name S
"#,
    ),
    (
        "half_closed_there_then_listen",
        r#"
L = socket stream
bind L 127.0.0.1:p1
listen L 5
S = socket stream
connect S 127.0.0.1:p1
settle
A = accept L
shutdown A wr
settle
listen S 2
poll S
name S
"#,
    ),
    (
        "half_closed_there_then_connect",
        r#"
L = socket stream
bind L 127.0.0.1:p1
listen L 5
S = socket stream
connect S 127.0.0.1:p1
settle
A = accept L
shutdown A wr
settle
K = socket stream
bind K 127.0.0.1:p6
listen K 1
connect S 127.0.0.1:p6
settle
connect S 127.0.0.1:p6
connect S 127.0.0.1:p6
poll S
get S SO_ERROR
"#,
    ),
    (
        "half_closed_there_then_shutdown_rd",
        r#"
L = socket stream
bind L 127.0.0.1:p1
listen L 5
S = socket stream
connect S 127.0.0.1:p1
settle
A = accept L
shutdown A wr
settle
shutdown S rd
poll S
recv S 10
send S "y"
settle
poll S
recv S 5
"#,
    ),
    (
        "half_closed_there_then_shutdown_wr",
        r#"
L = socket stream
bind L 127.0.0.1:p1
listen L 5
S = socket stream
connect S 127.0.0.1:p1
settle
A = accept L
shutdown A wr
settle
shutdown S wr
poll S
recv S 10
send S "y"
settle
poll S
recv S 5
shutdown S wr
"#,
    ),
    (
        "half_closed_there_then_shutdown_rdwr",
        r#"
L = socket stream
bind L 127.0.0.1:p1
listen L 5
S = socket stream
connect S 127.0.0.1:p1
settle
A = accept L
shutdown A wr
settle
shutdown S rdwr
poll S
recv S 10
send S "y"
settle
poll S
recv S 5
get S SO_ERROR
"#,
    ),
    (
        "half_closed_there_then_unspec",
        r#"
L = socket stream
bind L 127.0.0.1:p1
listen L 5
S = socket stream
connect S 127.0.0.1:p1
settle
A = accept L
shutdown A wr
settle
connect S unspec
poll S
name S
peer S
get S SO_ERROR
recv S 5
send S "y"
"#,
    ),
    (
        "peer_gone_then_bind",
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
bind S 127.0.0.1:p5
name S
"#,
    ),
    (
        "peer_gone_then_listen",
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
listen S 2
poll S
name S
"#,
    ),
    (
        "peer_gone_then_connect",
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
K = socket stream
bind K 127.0.0.1:p6
listen K 1
connect S 127.0.0.1:p6
settle
connect S 127.0.0.1:p6
connect S 127.0.0.1:p6
poll S
get S SO_ERROR
"#,
    ),
    (
        "peer_gone_then_shutdown_rd",
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
shutdown S rd
poll S
recv S 10
send S "y"
settle
poll S
recv S 5
"#,
    ),
    (
        "peer_gone_then_shutdown_wr",
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
shutdown S wr
poll S
recv S 10
send S "y"
settle
poll S
recv S 5
shutdown S wr
"#,
    ),
    (
        "peer_gone_then_shutdown_rdwr",
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
shutdown S rdwr
poll S
recv S 10
send S "y"
settle
poll S
recv S 5
get S SO_ERROR
"#,
    ),
    (
        "peer_gone_then_unspec",
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
connect S unspec
poll S
name S
peer S
get S SO_ERROR
recv S 5
send S "y"
"#,
    ),
    (
        "reset_then_bind",
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
bind S 127.0.0.1:p5
name S
"#,
    ),
    (
        "reset_then_listen",
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
listen S 2
poll S
name S
"#,
    ),
    (
        "reset_then_connect",
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
K = socket stream
bind K 127.0.0.1:p6
listen K 1
connect S 127.0.0.1:p6
settle
connect S 127.0.0.1:p6
connect S 127.0.0.1:p6
poll S
get S SO_ERROR
"#,
    ),
    (
        "reset_then_shutdown_rd",
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
shutdown S rd
poll S
recv S 10
send S "y"
settle
poll S
recv S 5
"#,
    ),
    (
        "reset_then_shutdown_wr",
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
shutdown S wr
poll S
recv S 10
send S "y"
settle
poll S
recv S 5
shutdown S wr
"#,
    ),
    (
        "reset_then_shutdown_rdwr",
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
shutdown S rdwr
poll S
recv S 10
send S "y"
settle
poll S
recv S 5
get S SO_ERROR
"#,
    ),
    (
        "reset_then_unspec",
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
connect S unspec
poll S
name S
peer S
get S SO_ERROR
recv S 5
send S "y"
"#,
    ),
    (
        "both_closed_here_first_then_bind",
        r#"
L = socket stream
bind L 127.0.0.1:p1
listen L 5
S = socket stream
connect S 127.0.0.1:p1
settle
A = accept L
shutdown S wr
settle
shutdown A wr
settle
bind S 127.0.0.1:p5
name S
"#,
    ),
    (
        "both_closed_here_first_then_listen",
        r#"
L = socket stream
bind L 127.0.0.1:p1
listen L 5
S = socket stream
connect S 127.0.0.1:p1
settle
A = accept L
shutdown S wr
settle
shutdown A wr
settle
listen S 2
poll S
name S
"#,
    ),
    (
        "both_closed_here_first_then_connect",
        r#"
L = socket stream
bind L 127.0.0.1:p1
listen L 5
S = socket stream
connect S 127.0.0.1:p1
settle
A = accept L
shutdown S wr
settle
shutdown A wr
settle
K = socket stream
bind K 127.0.0.1:p6
listen K 1
connect S 127.0.0.1:p6
settle
connect S 127.0.0.1:p6
connect S 127.0.0.1:p6
poll S
get S SO_ERROR
"#,
    ),
    (
        "both_closed_here_first_then_shutdown_rd",
        r#"
L = socket stream
bind L 127.0.0.1:p1
listen L 5
S = socket stream
connect S 127.0.0.1:p1
settle
A = accept L
shutdown S wr
settle
shutdown A wr
settle
shutdown S rd
poll S
recv S 10
send S "y"
settle
poll S
recv S 5
"#,
    ),
    (
        "both_closed_here_first_then_shutdown_wr",
        r#"
L = socket stream
bind L 127.0.0.1:p1
listen L 5
S = socket stream
connect S 127.0.0.1:p1
settle
A = accept L
shutdown S wr
settle
shutdown A wr
settle
shutdown S wr
poll S
recv S 10
send S "y"
settle
poll S
recv S 5
shutdown S wr
"#,
    ),
    (
        "both_closed_here_first_then_shutdown_rdwr",
        r#"
L = socket stream
bind L 127.0.0.1:p1
listen L 5
S = socket stream
connect S 127.0.0.1:p1
settle
A = accept L
shutdown S wr
settle
shutdown A wr
settle
shutdown S rdwr
poll S
recv S 10
send S "y"
settle
poll S
recv S 5
get S SO_ERROR
"#,
    ),
    (
        "both_closed_here_first_then_unspec",
        r#"
L = socket stream
bind L 127.0.0.1:p1
listen L 5
S = socket stream
connect S 127.0.0.1:p1
settle
A = accept L
shutdown S wr
settle
shutdown A wr
settle
connect S unspec
poll S
name S
peer S
get S SO_ERROR
recv S 5
send S "y"
"#,
    ),
    (
        "udp_fresh_then_bind",
        r#"
S = socket dgram
bind S 127.0.0.1:p5
name S
"#,
    ),
    (
        "udp_fresh_then_listen",
        r#"
S = socket dgram
listen S 2
poll S
name S
"#,
    ),
    (
        "udp_fresh_then_connect",
        r#"
S = socket dgram
K = socket dgram
bind K 127.0.0.1:p6
connect S 127.0.0.1:p6
settle
connect S 127.0.0.1:p6
connect S 127.0.0.1:p6
poll S
get S SO_ERROR
"#,
    ),
    (
        "udp_fresh_then_shutdown_rd",
        r#"
S = socket dgram
shutdown S rd
poll S
recv S 10
send S "y"
settle
poll S
recv S 5
"#,
    ),
    (
        "udp_fresh_then_shutdown_wr",
        r#"
S = socket dgram
shutdown S wr
poll S
recv S 10
send S "y"
settle
poll S
recv S 5
shutdown S wr
"#,
    ),
    (
        "udp_fresh_then_shutdown_rdwr",
        r#"
S = socket dgram
shutdown S rdwr
poll S
recv S 10
send S "y"
settle
poll S
recv S 5
get S SO_ERROR
"#,
    ),
    (
        "udp_fresh_then_unspec",
        r#"
S = socket dgram
connect S unspec
poll S
name S
peer S
get S SO_ERROR
recv S 5
send S "y"
"#,
    ),
    (
        "udp_connected_then_bind",
        r#"
P = socket dgram
bind P 127.0.0.1:p1
S = socket dgram
connect S 127.0.0.1:p1
bind S 127.0.0.1:p5
name S
"#,
    ),
    (
        "udp_connected_then_listen",
        r#"
P = socket dgram
bind P 127.0.0.1:p1
S = socket dgram
connect S 127.0.0.1:p1
listen S 2
poll S
name S
"#,
    ),
    (
        "udp_connected_then_connect",
        r#"
P = socket dgram
bind P 127.0.0.1:p1
S = socket dgram
connect S 127.0.0.1:p1
K = socket dgram
bind K 127.0.0.1:p6
connect S 127.0.0.1:p6
settle
connect S 127.0.0.1:p6
connect S 127.0.0.1:p6
poll S
get S SO_ERROR
"#,
    ),
    (
        "udp_connected_then_shutdown_rd",
        r#"
P = socket dgram
bind P 127.0.0.1:p1
S = socket dgram
connect S 127.0.0.1:p1
shutdown S rd
poll S
recv S 10
send S "y"
settle
poll S
recv S 5
"#,
    ),
    (
        "udp_connected_then_shutdown_wr",
        r#"
P = socket dgram
bind P 127.0.0.1:p1
S = socket dgram
connect S 127.0.0.1:p1
shutdown S wr
poll S
recv S 10
send S "y"
settle
poll S
recv S 5
shutdown S wr
"#,
    ),
    (
        "udp_connected_then_shutdown_rdwr",
        r#"
P = socket dgram
bind P 127.0.0.1:p1
S = socket dgram
connect S 127.0.0.1:p1
shutdown S rdwr
poll S
recv S 10
send S "y"
settle
poll S
recv S 5
get S SO_ERROR
"#,
    ),
    (
        "udp_connected_then_unspec",
        r#"
P = socket dgram
bind P 127.0.0.1:p1
S = socket dgram
connect S 127.0.0.1:p1
connect S unspec
poll S
name S
peer S
get S SO_ERROR
recv S 5
send S "y"
"#,
    ),
];
