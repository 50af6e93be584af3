//! Binding: addresses, conflicts, SO_REUSEADDR, SO_REUSEPORT, TIME-WAIT.

pub const BODIES: &[(&str, &str)] = &[
    (
        "bind_addresses",
        r#"
S = socket stream
bind S raw:0200
bind S raw:
bind S raw:0a00005000000000000000000000000000000000000000000000
bind S raw:00000050000000000000000000000000
bind S 10.9.8.7:p1
name S
T = socket stream
bind T raw:000000507f0000010000000000000000
bind T 224.0.0.1:p2
name T
U = socket stream
bind U 255.255.255.255:p3
D = socket dgram
bind D 127.255.255.255:p4
name D
E = socket dgram
bind E 239.1.2.3:p4
name E
"#,
    ),
    (
        "bind_twice",
        r#"
S = socket stream
bind S 127.0.0.1:p1
bind S 127.0.0.1:p2
bind S 127.0.0.1:p1
D = socket dgram
bind D 127.0.0.1:p1
bind D 127.0.0.1:p2
"#,
    ),
    (
        "bind_conflicts_stream",
        r#"
A = socket stream
B = socket stream
C = socket stream
bind A 127.0.0.1:p1
bind B 127.0.0.1:p1
bind B 0.0.0.0:p1
bind B 127.0.0.2:p1
bind C 127.0.0.2:p1
"#,
    ),
    (
        "bind_wildcard_first",
        r#"
A = socket stream
B = socket stream
bind A 0.0.0.0:p1
bind B 127.0.0.1:p1
close A
bind B 127.0.0.1:p1
"#,
    ),
    (
        "reuseaddr_stream_bound",
        r#"
A = socket stream
B = socket stream
set A SO_REUSEADDR 1
bind A 127.0.0.1:p1
bind B 127.0.0.1:p1
set B SO_REUSEADDR 1
bind B 127.0.0.1:p1
listen A 1
listen B 1
C = socket stream
set C SO_REUSEADDR 1
bind C 127.0.0.1:p1
bind C 0.0.0.0:p1
close A
listen B 1
"#,
    ),
    (
        "reuseaddr_set_late",
        r#"
A = socket stream
B = socket stream
bind A 127.0.0.1:p1
set A SO_REUSEADDR 1
set B SO_REUSEADDR 1
bind B 127.0.0.1:p1
"#,
    ),
    (
        "reuseport_stream",
        r#"
A = socket stream
B = socket stream
C = socket stream
set A SO_REUSEPORT 1
set B SO_REUSEPORT 1
bind A 127.0.0.1:p1
bind B 127.0.0.1:p1
bind C 127.0.0.1:p1
listen A 1
listen B 1
set C SO_REUSEADDR 1
bind C 127.0.0.1:p1
"#,
    ),
    (
        "rebind_with_connection",
        r#"
L = socket stream
bind L 127.0.0.1:p1
listen L 5
S = socket stream
connect S 127.0.0.1:p1
settle
A = accept L

close L
T = socket stream
bind T 127.0.0.1:p1
set T SO_REUSEADDR 1
bind T 127.0.0.1:p1
"#,
    ),
    (
        "rebind_with_connection_reuse",
        r#"
L = socket stream
set L SO_REUSEADDR 1
bind L 127.0.0.1:p1
listen L 5
S = socket stream
connect S 127.0.0.1:p1
settle
A = accept L
close L
T = socket stream
bind T 127.0.0.1:p1
set T SO_REUSEADDR 1
bind T 127.0.0.1:p1
listen T 1
"#,
    ),
    (
        "rebind_in_time_wait",
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
close S
settle
close L
T = socket stream
bind T 127.0.0.1:p1
set T SO_REUSEADDR 1
bind T 127.0.0.1:p1
"#,
    ),
    (
        "rebind_in_time_wait_reuse",
        r#"
L = socket stream
set L SO_REUSEADDR 1
bind L 127.0.0.1:p1
listen L 5
S = socket stream
connect S 127.0.0.1:p1
settle
A = accept L
close A
settle
close S
settle
close L
T = socket stream
bind T 127.0.0.1:p1
set T SO_REUSEADDR 1
bind T 127.0.0.1:p1
listen T 1
"#,
    ),
    (
        "rebind_after_client_closed_first",
        r#"
L = socket stream
bind L 127.0.0.1:p1
listen L 5
S = socket stream
connect S 127.0.0.1:p1
settle
A = accept L

close S
settle
close A
settle
close L
T = socket stream
bind T 127.0.0.1:p1
"#,
    ),
    (
        "connect_same_four_tuple",
        r#"
L = socket stream
bind L 127.0.0.1:p1
listen L 5
A = socket stream
B = socket stream
set A SO_REUSEADDR 1
set B SO_REUSEADDR 1
bind A 127.0.0.1:p2
bind B 127.0.0.1:p2
connect A 127.0.0.1:p1
settle
connect B 127.0.0.1:p1
"#,
    ),
    (
        "bind_port_of_connected",
        r#"
L = socket stream
bind L 127.0.0.1:p1
listen L 5
S = socket stream
connect S 127.0.0.1:p1
settle
B = socket stream
bind B 127.0.0.1:@S
set B SO_REUSEADDR 1
bind B 127.0.0.1:@S
"#,
    ),
    (
        "udp_conflicts",
        r#"
A = socket dgram
B = socket dgram
C = socket dgram
bind A 127.0.0.1:p1
bind B 127.0.0.1:p1
bind B 0.0.0.0:p1
bind B 127.0.0.2:p1
set C SO_REUSEADDR 1
bind C 127.0.0.1:p1
"#,
    ),
    (
        "udp_reuseaddr_newest_gets",
        r#"
A = socket dgram
B = socket dgram
S = socket dgram
set A SO_REUSEADDR 1
set B SO_REUSEADDR 1
bind A 127.0.0.1:p1
bind B 127.0.0.1:p1
sendto S "who" 127.0.0.1:p1
settle
recv A 10
recv B 10
close B
sendto S "now" 127.0.0.1:p1
settle
recv A 10
"#,
    ),
    (
        "udp_specific_before_wildcard",
        r#"
A = socket dgram
B = socket dgram
S = socket dgram
set A SO_REUSEADDR 1
set B SO_REUSEADDR 1
bind A 127.0.0.1:p1
bind B 0.0.0.0:p1
sendto S "one" 127.0.0.1:p1
sendto S "two" 127.0.0.2:p1
settle
recv A 10
recv A 10
recv B 10
recv B 10
"#,
    ),
    (
        "udp_reuseport",
        r#"
A = socket dgram
B = socket dgram
C = socket dgram
set A SO_REUSEPORT 1
set B SO_REUSEPORT 1
bind A 127.0.0.1:p1
bind B 127.0.0.1:p1
bind C 127.0.0.1:p1
set C SO_REUSEADDR 1
bind C 127.0.0.1:p1
"#,
    ),
    (
        "tcp_and_udp_do_not_conflict",
        r#"
A = socket stream
B = socket dgram
bind A 127.0.0.1:p1
bind B 127.0.0.1:p1
name A
name B
"#,
    ),
    (
        "freebind",
        r#"
S = socket stream
set S IP_FREEBIND 1
bind S 10.9.8.7:p1
name S
D = socket dgram
set D IP_FREEBIND 1
bind D 10.9.8.7:p1
name D
"#,
    ),
    (
        "bind_address_no_port",
        r#"
L = socket stream
bind L 127.0.0.1:p1
listen L 5
S = socket stream
set S IP_BIND_ADDRESS_NO_PORT 1
bind S 127.0.0.3:0
name S
bind S 127.0.0.3:0
connect S 127.0.0.1:p1
settle
peer S
A = accept L
"#,
    ),
    (
        "local_port_range",
        r#"
S = socket stream
set S IP_LOCAL_PORT_RANGE 5
get S IP_LOCAL_PORT_RANGE
set S IP_LOCAL_PORT_RANGE 0x01
set S IP_LOCAL_PORT_RANGE 0x05000400
set S IP_LOCAL_PORT_RANGE 0x409c409c
bind S 127.0.0.1:0
T = socket stream
set T IP_LOCAL_PORT_RANGE 0x409c409c
bind T 127.0.0.1:0
U = socket stream
set U IP_LOCAL_PORT_RANGE 0x409c409c
connect U 127.0.0.1:p1
"#,
    ),
];
