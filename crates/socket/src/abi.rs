//! Numbers of the Linux socket ABI (linux/include/uapi, asm-generic: the same on x86-64, AArch64 and RISC-V).
#![allow(missing_docs)] // the names are the ABI's

pub const SOCK_STREAM: i32 = 1;
pub const SOCK_DGRAM: i32 = 2;
pub const SOCK_RAW: i32 = 3;

pub const IPPROTO_ICMP: i32 = 1;
pub const IPPROTO_TCP: i32 = 6;
pub const IPPROTO_UDP: i32 = 17;
pub const IPPROTO_UDPLITE: i32 = 136;
pub const IPPROTO_ICMPV6: i32 = 58;
pub const IPPROTO_RAW: i32 = 255;
pub const IPPROTO_MPTCP: i32 = 262;
/// Largest protocol number that socket(2) takes, plus one (IPPROTO_MAX, since MPTCP's 262).
pub const IPPROTO_MAX: i32 = 263;

pub const SHUT_RD: i32 = 0;
pub const SHUT_WR: i32 = 1;
pub const SHUT_RDWR: i32 = 2;

pub const MSG_OOB: i32 = 0x01;
pub const MSG_PEEK: i32 = 0x02;
pub const MSG_CTRUNC: i32 = 0x08;
pub const MSG_TRUNC: i32 = 0x20;
pub const MSG_DONTWAIT: i32 = 0x40;
pub const MSG_EOR: i32 = 0x80;
pub const MSG_WAITALL: i32 = 0x100;
pub const MSG_CONFIRM: i32 = 0x800;
pub const MSG_ERRQUEUE: i32 = 0x2000;
pub const MSG_NOSIGNAL: i32 = 0x4000;
pub const MSG_MORE: i32 = 0x8000;
/// Of a call that goes on until everything is sent: this is not the last piece. Nobody's but the adapters' (the kernel's MSG_SENDPAGE_NOTLAST).
pub const MSG_NOT_LAST: i32 = 0x20000;
/// A datagram whose bytes cannot be read, and are zeros here: EFAULT, unless something before it is wrong. Nobody's but the adapters'.
pub const MSG_UNREADABLE: i32 = 0x80000;
/// The caller waits for room, and goes on then: what it has sent until then counts. Nobody's but the adapters', of send rings of packet sockets.
pub const MSG_WAITS: i32 = 0x10_0000;
pub const MSG_ZEROCOPY: i32 = 0x400_0000;
pub const MSG_FASTOPEN: i32 = 0x2000_0000;

/// What handles all packets of a stack: there is one, whatever runs the stack.
pub const THE_PROCESSOR: i32 = 0;

pub const FIONREAD: u64 = 0x541B;
pub const FIOSETOWN: u64 = 0x8901;
pub const SIOCSPGRP: u64 = 0x8902;
pub const FIOGETOWN: u64 = 0x8903;
pub const SIOCGPGRP: u64 = 0x8904;
pub const SIOCGSTAMP_OLD: u64 = 0x8906;
pub const SIOCGSTAMPNS_OLD: u64 = 0x8907;
pub const SIOCGSTAMP_NEW: u64 = 0x8010_8906;
pub const SIOCGSTAMPNS_NEW: u64 = 0x8010_8907;
pub const SIOCOUTQ: u64 = 0x5411;
pub const SIOCATMARK: u64 = 0x8905;
pub const SIOCOUTQNSD: u64 = 0x894B;

/// The family of packet sockets.
pub const AF_PACKET: i32 = 17;

pub const SOL_IP: i32 = 0;
pub const SOL_SOCKET: i32 = 1;
pub const SOL_TCP: i32 = 6;
pub const SOL_UDP: i32 = 17;
pub const SOL_IPV6: i32 = 41;
pub const SOL_ICMPV6: i32 = 58;
pub const SOL_UDPLITE: i32 = 136;
pub const SOL_RAW: i32 = 255;
pub const SOL_MPTCP: i32 = 284;
pub const SOL_PACKET: i32 = 263;

pub const PACKET_ADD_MEMBERSHIP: i32 = 1;
pub const PACKET_DROP_MEMBERSHIP: i32 = 2;
pub const PACKET_RX_RING: i32 = 5;
pub const PACKET_STATISTICS: i32 = 6;
pub const PACKET_COPY_THRESH: i32 = 7;
pub const PACKET_AUXDATA: i32 = 8;
pub const PACKET_ORIGDEV: i32 = 9;
pub const PACKET_VERSION: i32 = 10;
pub const PACKET_HDRLEN: i32 = 11;
pub const PACKET_RESERVE: i32 = 12;
pub const PACKET_TX_RING: i32 = 13;
pub const PACKET_LOSS: i32 = 14;
pub const PACKET_VNET_HDR: i32 = 15;
pub const PACKET_TIMESTAMP: i32 = 17;
pub const PACKET_FANOUT: i32 = 18;
pub const PACKET_TX_HAS_OFF: i32 = 19;
pub const PACKET_QDISC_BYPASS: i32 = 20;
pub const PACKET_ROLLOVER_STATS: i32 = 21;
pub const PACKET_FANOUT_DATA: i32 = 22;
pub const PACKET_IGNORE_OUTGOING: i32 = 23;
pub const PACKET_VNET_HDR_SZ: i32 = 24;

/// `sll_pkttype`.
pub const PACKET_HOST: u8 = 0;
pub const PACKET_BROADCAST: u8 = 1;
pub const PACKET_MULTICAST: u8 = 2;
pub const PACKET_OTHERHOST: u8 = 3;
pub const PACKET_OUTGOING: u8 = 4;

/// `struct packet_mreq`: what a membership is of.
pub const PACKET_MR_MULTICAST: u16 = 0;
pub const PACKET_MR_PROMISC: u16 = 1;
pub const PACKET_MR_ALLMULTI: u16 = 2;
pub const PACKET_MR_UNICAST: u16 = 3;

/// `sll_hatype`.
pub const ARPHRD_ETHER: u16 = 1;
pub const ARPHRD_LOOPBACK: u16 = 772;
pub const ARPHRD_NONE: u16 = 0xfffe;

pub const ETH_P_802_3_MIN: u16 = 0x600;
pub const ETH_P_802_2: u16 = 4;

/// Status of a frame in `struct tpacket_auxdata`, and in a receive ring.
pub const TP_STATUS_KERNEL: u32 = 0;
pub const TP_STATUS_USER: u32 = 1;
pub const TP_STATUS_COPY: u32 = 1 << 1;
pub const TP_STATUS_LOSING: u32 = 1 << 2;
pub const TP_STATUS_CSUMNOTREADY: u32 = 1 << 3;
pub const TP_STATUS_VLAN_VALID: u32 = 1 << 4;
pub const TP_STATUS_BLK_TMO: u32 = 1 << 5;
pub const TP_STATUS_VLAN_TPID_VALID: u32 = 1 << 6;
pub const TP_STATUS_CSUM_VALID: u32 = 1 << 7;
/// Status of a frame in a send ring.
pub const TP_STATUS_AVAILABLE: u32 = 0;
pub const TP_STATUS_SEND_REQUEST: u32 = 1;
pub const TP_STATUS_WRONG_FORMAT: u32 = 1 << 2;
/// `tp_feature_req_word`: `tp_rxhash` is wanted.
pub const TP_FT_REQ_FILL_RXHASH: u32 = 1;

pub const SO_DEBUG: i32 = 1;
pub const SO_REUSEADDR: i32 = 2;
pub const SO_TYPE: i32 = 3;
pub const SO_ERROR: i32 = 4;
pub const SO_DONTROUTE: i32 = 5;
pub const SO_BROADCAST: i32 = 6;
pub const SO_SNDBUF: i32 = 7;
pub const SO_RCVBUF: i32 = 8;
pub const SO_KEEPALIVE: i32 = 9;
pub const SO_OOBINLINE: i32 = 10;
pub const SO_NO_CHECK: i32 = 11;
pub const SO_PRIORITY: i32 = 12;
pub const SO_LINGER: i32 = 13;
pub const SO_BSDCOMPAT: i32 = 14;
pub const SO_REUSEPORT: i32 = 15;
pub const SO_PASSCRED: i32 = 16;
pub const SO_PEERCRED: i32 = 17;
pub const SO_PASSSEC: i32 = 34;
pub const SO_PASSPIDFD: i32 = 76;
pub const SO_PASSRIGHTS: i32 = 83;
pub const SO_RCVLOWAT: i32 = 18;
pub const SO_SNDLOWAT: i32 = 19;
pub const SO_RCVTIMEO_OLD: i32 = 20;
pub const SO_SNDTIMEO_OLD: i32 = 21;
pub const SO_BINDTODEVICE: i32 = 25;
pub const SO_ATTACH_FILTER: i32 = 26;
pub const SO_DETACH_FILTER: i32 = 27;
pub const SO_PEERNAME: i32 = 28;
pub const SO_TIMESTAMP_OLD: i32 = 29;
pub const SO_ACCEPTCONN: i32 = 30;
pub const SO_SNDBUFFORCE: i32 = 32;
pub const SO_RCVBUFFORCE: i32 = 33;
pub const SO_TIMESTAMPNS_OLD: i32 = 35;
pub const SO_MARK: i32 = 36;
pub const SO_TIMESTAMPING_OLD: i32 = 37;
pub const SO_PROTOCOL: i32 = 38;
pub const SO_DOMAIN: i32 = 39;
pub const SO_RXQ_OVFL: i32 = 40;
pub const SO_WIFI_STATUS: i32 = 41;
pub const SO_PEEK_OFF: i32 = 42;
pub const SO_NOFCS: i32 = 43;
pub const SO_LOCK_FILTER: i32 = 44;
pub const SO_SELECT_ERR_QUEUE: i32 = 45;
pub const SO_BUSY_POLL: i32 = 46;
pub const SO_MAX_PACING_RATE: i32 = 47;
pub const SO_BPF_EXTENSIONS: i32 = 48;
pub const SO_INCOMING_CPU: i32 = 49;
pub const SO_ATTACH_BPF: i32 = 50;
pub const SO_ATTACH_REUSEPORT_CBPF: i32 = 51;
pub const SO_ATTACH_REUSEPORT_EBPF: i32 = 52;
pub const SO_CNX_ADVICE: i32 = 53;
pub const SO_MEMINFO: i32 = 55;
pub const SO_INCOMING_NAPI_ID: i32 = 56;
pub const SO_COOKIE: i32 = 57;
pub const SO_PEERGROUPS: i32 = 59;
pub const SO_ZEROCOPY: i32 = 60;
pub const SO_TXTIME: i32 = 61;
pub const SO_BINDTOIFINDEX: i32 = 62;
pub const SO_TIMESTAMP_NEW: i32 = 63;
pub const SO_TIMESTAMPNS_NEW: i32 = 64;
pub const SO_TIMESTAMPING_NEW: i32 = 65;
pub const SO_RCVTIMEO_NEW: i32 = 66;
pub const SO_SNDTIMEO_NEW: i32 = 67;
pub const SO_DETACH_REUSEPORT_BPF: i32 = 68;
pub const SO_PREFER_BUSY_POLL: i32 = 69;
pub const SO_BUSY_POLL_BUDGET: i32 = 70;
pub const SO_NETNS_COOKIE: i32 = 71;
pub const SO_BUF_LOCK: i32 = 72;
pub const SO_RESERVE_MEM: i32 = 73;
pub const SO_TXREHASH: i32 = 74;
pub const SO_RCVMARK: i32 = 75;
pub const SO_PEERPIDFD: i32 = 77;
pub const SO_RCVPRIORITY: i32 = 82;

pub const SCM_RIGHTS: i32 = 1;
pub const SCM_CREDENTIALS: i32 = 2;
pub const SCM_DEVMEM_DMABUF: i32 = 79;
pub const SCM_TS_OPT_ID: i32 = 81;

pub const TCP_NODELAY: i32 = 1;
pub const TCP_AO_REPAIR: i32 = 42;
pub const TCP_MAXSEG: i32 = 2;
pub const TCP_CORK: i32 = 3;
pub const TCP_KEEPIDLE: i32 = 4;
pub const TCP_KEEPINTVL: i32 = 5;
pub const TCP_KEEPCNT: i32 = 6;
pub const TCP_SYNCNT: i32 = 7;
pub const TCP_LINGER2: i32 = 8;
pub const TCP_DEFER_ACCEPT: i32 = 9;
pub const TCP_WINDOW_CLAMP: i32 = 10;
pub const TCP_INFO: i32 = 11;
pub const TCP_QUICKACK: i32 = 12;
pub const TCP_CONGESTION: i32 = 13;
pub const TCP_MD5SIG: i32 = 14;
pub const TCP_THIN_LINEAR_TIMEOUTS: i32 = 16;
pub const TCP_THIN_DUPACK: i32 = 17;
pub const TCP_USER_TIMEOUT: i32 = 18;
pub const TCP_REPAIR: i32 = 19;
pub const TCP_REPAIR_QUEUE: i32 = 20;
pub const TCP_QUEUE_SEQ: i32 = 21;
pub const TCP_REPAIR_OPTIONS: i32 = 22;
pub const TCP_FASTOPEN: i32 = 23;
pub const TCP_TIMESTAMP: i32 = 24;
pub const TCP_NOTSENT_LOWAT: i32 = 25;
pub const TCP_SAVE_SYN: i32 = 27;
pub const TCP_SAVED_SYN: i32 = 28;
pub const TCP_REPAIR_WINDOW: i32 = 29;
pub const TCP_FASTOPEN_CONNECT: i32 = 30;
pub const TCP_ULP: i32 = 31;
pub const TCP_FASTOPEN_KEY: i32 = 33;
pub const TCP_FASTOPEN_NO_COOKIE: i32 = 34;
pub const TCP_ZEROCOPY_RECEIVE: i32 = 35;
pub const TCP_INQ: i32 = 36;
pub const TCP_CC_INFO: i32 = 26;
pub const TCP_TX_DELAY: i32 = 37;
pub const TCP_IS_MPTCP: i32 = 43;
pub const TCP_RTO_MAX_MS: i32 = 44;
pub const TCP_RTO_MIN_US: i32 = 45;
pub const TCP_DELACK_MAX_US: i32 = 46;

pub const MPTCP_INFO: i32 = 1;
pub const MPTCP_TCPINFO: i32 = 2;
pub const MPTCP_SUBFLOW_ADDRS: i32 = 3;
pub const MPTCP_FULL_INFO: i32 = 4;

pub const IP_TOS: i32 = 1;
pub const IP_TTL: i32 = 2;
pub const IP_HDRINCL: i32 = 3;
pub const IP_OPTIONS: i32 = 4;
pub const IP_ROUTER_ALERT: i32 = 5;
pub const IP_RECVOPTS: i32 = 6;
pub const IP_RETOPTS: i32 = 7;
pub const IP_PKTINFO: i32 = 8;
pub const IP_PKTOPTIONS: i32 = 9;
pub const IP_MTU_DISCOVER: i32 = 10;
pub const IP_RECVERR: i32 = 11;
pub const IP_RECVTTL: i32 = 12;
pub const IP_RECVTOS: i32 = 13;
pub const IP_MTU: i32 = 14;
pub const IP_FREEBIND: i32 = 15;
pub const IP_PASSSEC: i32 = 18;
pub const IP_TRANSPARENT: i32 = 19;
pub const IP_RECVORIGDSTADDR: i32 = 20;
pub const IP_MINTTL: i32 = 21;
pub const IP_NODEFRAG: i32 = 22;
pub const IP_CHECKSUM: i32 = 23;
pub const IP_BIND_ADDRESS_NO_PORT: i32 = 24;
pub const IP_RECVFRAGSIZE: i32 = 25;
pub const IP_MULTICAST_IF: i32 = 32;
pub const IP_MULTICAST_TTL: i32 = 33;
pub const IP_MULTICAST_LOOP: i32 = 34;
pub const IP_ADD_MEMBERSHIP: i32 = 35;
pub const IP_DROP_MEMBERSHIP: i32 = 36;
pub const IP_UNBLOCK_SOURCE: i32 = 37;
pub const IP_BLOCK_SOURCE: i32 = 38;
pub const IP_ADD_SOURCE_MEMBERSHIP: i32 = 39;
pub const IP_DROP_SOURCE_MEMBERSHIP: i32 = 40;
pub const IP_MSFILTER: i32 = 41;
pub const MCAST_JOIN_GROUP: i32 = 42;
pub const MCAST_BLOCK_SOURCE: i32 = 43;
pub const MCAST_UNBLOCK_SOURCE: i32 = 44;
pub const MCAST_LEAVE_GROUP: i32 = 45;
pub const MCAST_JOIN_SOURCE_GROUP: i32 = 46;
pub const MCAST_LEAVE_SOURCE_GROUP: i32 = 47;
pub const MCAST_MSFILTER: i32 = 48;
pub const IP_MULTICAST_ALL: i32 = 49;
pub const IP_UNICAST_IF: i32 = 50;
pub const IP_RECVERR_RFC4884: i32 = 26;
pub const IP_LOCAL_PORT_RANGE: i32 = 51;
pub const IP_PROTOCOL: i32 = 52;

pub const ICMP_FILTER: i32 = 1;
pub const ICMPV6_FILTER: i32 = 1;
pub const IPV6_ORIGDSTADDR: i32 = 74;
pub const TIMESTAMPING_TX_SOFTWARE: u32 = 2;
pub const TIMESTAMPING_RX_SOFTWARE: u32 = 8;
pub const TIMESTAMPING_SOFTWARE: u32 = 0x10;
pub const TIMESTAMPING_RAW_HARDWARE: u32 = 0x40;
pub const TIMESTAMPING_OPT_ID: u32 = 0x80;
pub const TIMESTAMPING_TX_SCHED: u32 = 0x100;
pub const TIMESTAMPING_OPT_TSONLY: u32 = 0x800;
pub const TIMESTAMPING_OPT_STATS: u32 = 0x1000;
pub const TIMESTAMPING_BIND_PHC: u32 = 0x8000;
pub const TIMESTAMPING_OPT_ID_TCP: u32 = 0x1_0000;
pub const TIMESTAMPING_OPT_RX_FILTER: u32 = 0x2_0000;
pub const TIMESTAMPING_TX_ACK: u32 = 0x200;
/// What a transmit record is about (`ee_info`): SCM_TSTAMP_SND, SCM_TSTAMP_SCHED, SCM_TSTAMP_ACK.
pub const SCM_TSTAMP_SND: u32 = 0;
pub const SCM_TSTAMP_SCHED: u32 = 1;
pub const SCM_TSTAMP_ACK: u32 = 2;
/// The control message of SOF_TIMESTAMPING_OPT_STATS.
pub const SCM_TIMESTAMPING_OPT_STATS: i32 = 54;
/// The bits of SO_TIMESTAMPING that ask for a transmit time (SOF_TIMESTAMPING_TX_RECORD_MASK).
pub const TIMESTAMPING_TX_RECORDS: u32 = 1 | 2 | 0x100 | 0x200 | 0x4_0000;

pub const SO_EE_ORIGIN_NONE: u8 = 0;
pub const SO_EE_ORIGIN_LOCAL: u8 = 1;
pub const SO_EE_ORIGIN_ICMP: u8 = 2;
pub const SO_EE_ORIGIN_ICMP6: u8 = 3;
pub const SO_EE_ORIGIN_TIMESTAMPING: u8 = 4;
pub const SO_EE_ORIGIN_ZEROCOPY: u8 = 5;
pub const SO_EE_CODE_ZEROCOPY_COPIED: u8 = 1;

pub const IP_PMTUDISC_DONT: i32 = 0;
pub const IP_PMTUDISC_WANT: i32 = 1;
pub const IP_PMTUDISC_DO: i32 = 2;
pub const IP_PMTUDISC_PROBE: i32 = 3;
pub const IP_PMTUDISC_INTERFACE: i32 = 4;
pub const IP_PMTUDISC_OMIT: i32 = 5;

pub const IPV6_ADDRFORM: i32 = 1;
pub const IPV6_2292PKTINFO: i32 = 2;
pub const IPV6_2292HOPOPTS: i32 = 3;
pub const IPV6_2292DSTOPTS: i32 = 4;
pub const IPV6_2292RTHDR: i32 = 5;
pub const IPV6_2292PKTOPTIONS: i32 = 6;
pub const IPV6_CHECKSUM: i32 = 7;
pub const IPV6_2292HOPLIMIT: i32 = 8;
pub const IPV6_FLOWINFO: i32 = 11;
pub const IPV6_UNICAST_HOPS: i32 = 16;
pub const IPV6_MULTICAST_IF: i32 = 17;
pub const IPV6_MULTICAST_HOPS: i32 = 18;
pub const IPV6_MULTICAST_LOOP: i32 = 19;
pub const IPV6_ADD_MEMBERSHIP: i32 = 20;
pub const IPV6_DROP_MEMBERSHIP: i32 = 21;
pub const IPV6_ROUTER_ALERT: i32 = 22;
pub const IPV6_MTU_DISCOVER: i32 = 23;
pub const IPV6_MTU: i32 = 24;
pub const IPV6_RECVERR: i32 = 25;
pub const IPV6_V6ONLY: i32 = 26;
pub const IPV6_JOIN_ANYCAST: i32 = 27;
pub const IPV6_LEAVE_ANYCAST: i32 = 28;
pub const IPV6_MULTICAST_ALL: i32 = 29;
pub const IPV6_ROUTER_ALERT_ISOLATE: i32 = 30;
pub const IPV6_RECVERR_RFC4884: i32 = 31;
pub const IPV6_FLOWLABEL_MGR: i32 = 32;
pub const IPV6_FLOWINFO_SEND: i32 = 33;
pub const IPV6_HDRINCL: i32 = 36;
pub const IPV6_RECVPKTINFO: i32 = 49;
pub const IPV6_PKTINFO: i32 = 50;
pub const IPV6_RECVHOPLIMIT: i32 = 51;
pub const IPV6_HOPLIMIT: i32 = 52;
pub const IPV6_RECVHOPOPTS: i32 = 53;
pub const IPV6_HOPOPTS: i32 = 54;
pub const IPV6_RTHDRDSTOPTS: i32 = 55;
pub const IPV6_RECVRTHDR: i32 = 56;
pub const IPV6_RTHDR: i32 = 57;
pub const IPV6_RECVDSTOPTS: i32 = 58;
pub const IPV6_DSTOPTS: i32 = 59;
pub const IPV6_RECVPATHMTU: i32 = 60;
pub const IPV6_PATHMTU: i32 = 61;
pub const IPV6_DONTFRAG: i32 = 62;
pub const IPV6_RECVTCLASS: i32 = 66;
pub const IPV6_TCLASS: i32 = 67;
pub const IPV6_AUTOFLOWLABEL: i32 = 70;
pub const IPV6_ADDR_PREFERENCES: i32 = 72;
pub const IPV6_MINHOPCOUNT: i32 = 73;
pub const IPV6_RECVORIGDSTADDR: i32 = 74;
pub const IPV6_TRANSPARENT: i32 = 75;
pub const IPV6_UNICAST_IF: i32 = 76;
pub const IPV6_RECVFRAGSIZE: i32 = 77;
pub const IPV6_FREEBIND: i32 = 78;

pub const UDP_CORK: i32 = 1;
pub const UDPLITE_SEND_CSCOV: i32 = 10;
pub const UDPLITE_RECV_CSCOV: i32 = 11;
pub const UDP_ENCAP: i32 = 100;
pub const UDP_NO_CHECK6_TX: i32 = 101;
pub const UDP_NO_CHECK6_RX: i32 = 102;
pub const UDP_SEGMENT: i32 = 103;
pub const UDP_GRO: i32 = 104;

/// Bytes of `struct cmsghdr`; messages are aligned to 8.
pub const CMSG_HEADER_BYTES: usize = 16;
