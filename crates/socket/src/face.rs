//! The face: one method a system call, the same for stream and datagram sockets. Nothing here blocks.
//!
//! `EAGAIN`, `EINPROGRESS` and `EALREADY` mean "not yet": the adapter parks the caller and calls again when [`Sockets::take_changed`] names the
//! socket. A caller that must not wait passes `MSG_DONTWAIT`; without it, `receive` gives `EAGAIN` until SO_RCVLOWAT (or, with `MSG_WAITALL`,
//! as much as the buffer can hold) is there. `send` takes what there is room for; a blocking caller calls again with the rest.

use crate::abi::*;
use crate::address::{self, AF_INET, AF_INET6};
use crate::connection;
use crate::counters;
use crate::datagram_socket;
use crate::datagrams::Datagrams;
use crate::errno::Errno;
use crate::error_queue;
use crate::holds;
use crate::inet6;
use crate::limits::{Buffers, Limits};
use crate::link_address;
use crate::listener;
use crate::listing;
use crate::messages::Messages;
use crate::multicast::Groups;
use crate::options::{self, Access, Options};
use crate::outputs::FRAMES;
use crate::packet_ring::RingMemory;
use crate::packet_socket::{self, PacketSockets};
use crate::ping_socket::{self, Pings};
use crate::poll::Poll;
use crate::raw_socket::{self, RawSockets};
use crate::readiness;
use crate::receive_queue;
use crate::received::Received;
use crate::registry::Registry;
use crate::sending::Sending;
use crate::socket::Packet;
use crate::socket::{Body, Datagram, Raw, Shutdown, SocketId, Stream};
use crate::socket_state::{self, SocketState};
use crate::stream_receive;
use crate::stream_send;
use crate::stream_socket;
use crate::streams::Streams;
use bytes::Bytes;
use std::collections::{BTreeMap, BTreeSet};
use std::net::Ipv6Addr;
use std::sync::Arc;
use weft_core::table::Family;
use weft_core::{Answer, Context, Query, Rng, Table};

/// mptcp_sendmsg: "silently ignore everything else: msg->msg_flags &= MSG_MORE | MSG_DONTWAIT | MSG_NOSIGNAL | MSG_FASTOPEN;", and the adapters' own.
const MPTCP_SEND_FLAGS: i32 = MSG_MORE | MSG_DONTWAIT | MSG_NOSIGNAL | MSG_FASTOPEN | MSG_NOT_LAST | MSG_UNREADABLE;
/// NPROTO: address families that Linux has numbers for.
const FAMILIES: i32 = 46;

/// All sockets of a node; see the crate's text. Is the sockets block.
#[derive(Debug)]
pub struct Sockets {
    pub(crate) registry: Registry,
    pub(crate) streams: Streams,
    pub(crate) messages: Messages,
    pub(crate) groups: Groups,
}

impl Sockets {
    /// Differs between two blocks of this kind in one place: to notice that the sockets one knew are gone.
    pub fn birth(&self) -> u64 {
        self.registry.birth
    }

    pub(crate) fn new(limits: Limits, rng: &mut Rng) -> Sockets {
        // What a world does from its seed on depends on the order in which these draw.
        let registry = Registry::new(limits, rng);
        let pings = Pings::new(rng);
        let streams = Streams::new(rng);
        let datagrams = Datagrams::new(rng);
        let lite = datagrams.of_another_protocol();
        let messages = Messages { datagrams, lite, raw: RawSockets::default(), pings, packets: PacketSockets::default() };
        Sockets { registry, streams, messages, groups: Groups::default() }
    }

    /// socket(2); `kind` without SOCK_NONBLOCK and SOCK_CLOEXEC. EAFNOSUPPORT, ESOCKTNOSUPPORT, EPROTONOSUPPORT, EINVAL as `inet_create`
    /// has them (EAFNOSUPPORT for AF_INET6 in a node without IPv6); ENFILE at the limit. Whether a program may have raw (CAP_NET_RAW) and ICMP
    /// sockets (`ping_group_range`) is the adapter's matter.
    pub fn socket(&mut self, domain: i32, kind: i32, protocol: i32, cx: &mut Context<'_>) -> Result<SocketId, Errno> {
        // __sock_create: "if (family < 0 || family >= NPROTO) return -EAFNOSUPPORT; if (type < 0 || type >= SOCK_MAX) return -EINVAL;"
        if !(0..FAMILIES).contains(&domain) {
            return Err(Errno::EAFNOSUPPORT);
        }
        if !(0..11).contains(&kind) {
            return Err(Errno::EINVAL);
        }
        if domain == AF_PACKET {
            return self.packet_socket(kind, protocol, cx);
        }
        // A node without IPv6's blocks answers as a kernel without IPv6.
        let without_ipv6 =
            || matches!(cx.ask(Table::Addresses(Family::V6), &Query::AddressKind(Ipv6Addr::UNSPECIFIED.into())), Answer::None);
        if !matches!(domain, AF_INET | AF_INET6) || domain == AF_INET6 && without_ipv6() {
            return Err(Errno::EAFNOSUPPORT);
        }
        if !(0..IPPROTO_MAX).contains(&protocol) {
            return Err(Errno::EINVAL);
        }
        let (body, protocol) = match (kind, protocol) {
            (SOCK_STREAM, 0 | IPPROTO_TCP) => (Body::Stream(Stream::new()), IPPROTO_TCP),
            (SOCK_STREAM, IPPROTO_MPTCP) => match cx.ask(Table::Multipath, &Query::Multipath) {
                Answer::Multipath(node) if node.enabled => (Body::Stream(Stream::new()), IPPROTO_MPTCP),
                // mptcp_init_sock: "if (!mptcp_is_enabled(net)) return -ENOPROTOOPT;"
                Answer::Multipath(_) => return Err(Errno::ENOPROTOOPT),
                _ => return Err(Errno::EPROTONOSUPPORT),
            },
            (SOCK_DGRAM, 0 | IPPROTO_UDP) => (Body::Datagram(Datagram::default()), IPPROTO_UDP),
            (SOCK_DGRAM, IPPROTO_UDPLITE) => (Body::Datagram(Datagram::default()), protocol),
            (SOCK_DGRAM, IPPROTO_ICMP) if domain == AF_INET => (Body::Ping(Datagram::default()), protocol),
            (SOCK_DGRAM, IPPROTO_ICMPV6) if domain == AF_INET6 => (Body::Ping(Datagram::default()), protocol),
            (SOCK_RAW, 0) => return Err(Errno::EPROTONOSUPPORT),
            (SOCK_RAW, _) => (Body::Raw(Box::new(Raw::of(protocol))), protocol),
            (SOCK_STREAM | SOCK_DGRAM, _) => return Err(Errno::EPROTONOSUPPORT),
            _ => return Err(Errno::ESOCKTNOSUPPORT),
        };
        self.admit()?;
        // inet6_create sets no MC_ALL for IPv4's groups.
        let mut options = Options { multicast_all: domain == AF_INET, ..Options::default() };
        let streams = matches!(body, Body::Stream(_));
        options.send_buffer = if streams { options::TCP_SEND_BUFFER } else { self.registry.limits.send_buffer.default };
        options.receive_buffer = if streams { options::TCP_RECEIVE_BUFFER } else { self.registry.limits.receive_buffer.default };
        let raw = matches!(body, Body::Raw(_));
        // inet_create: "if (INET_PROTOSW_REUSE & answer_flags) sk->sk_reuse = SK_CAN_REUSE;"
        options.reuse_address = matches!(body, Body::Raw(_) | Body::Ping(_));
        // ping_init_sock: "if (sk->sk_family == AF_INET6) sk->sk_ipv6only = 1;"
        options.v6_only = domain == AF_INET6 && matches!(body, Body::Ping(_));
        let socket = self.registry.fresh(domain, kind, protocol, options, body);
        self.registry.count(counters::SOCKETS_OPENED);
        let id = self.registry.store.insert(socket);
        if raw {
            self.messages.raw.open(&mut self.registry, id, cx);
        }
        Ok(id)
    }

    fn admit(&mut self) -> Result<(), Errno> {
        if self.registry.store.len() >= self.registry.limits.sockets_max {
            self.registry.count(counters::SOCKETS_FULL);
            return Err(Errno::ENFILE);
        }
        Ok(())
    }

    /// `packet_create`; whether a program may (CAP_NET_RAW) is the adapter's matter. `protocol` is in network order.
    fn packet_socket(&mut self, kind: i32, protocol: i32, cx: &mut Context<'_>) -> Result<SocketId, Errno> {
        // "if (sock->type != SOCK_DGRAM && sock->type != SOCK_RAW && sock->type != SOCK_PACKET) return -ESOCKTNOSUPPORT;". The last one is of
        // Linux 2.0, and not here.
        if !matches!(kind, SOCK_DGRAM | SOCK_RAW) {
            return Err(Errno::ESOCKTNOSUPPORT);
        }
        // A graph that nobody has drawn the edges of frames into has no packet sockets.
        if !cx.is_bound(FRAMES) {
            return Err(Errno::EAFNOSUPPORT);
        }
        self.admit()?;
        let options = Options {
            send_buffer: self.registry.limits.send_buffer.default,
            receive_buffer: self.registry.limits.receive_buffer.default,
            ..Options::default()
        };
        // "__be16 proto = (__force __be16)protocol; /* weird, but documented */"
        let heard = u16::from_be_bytes((protocol as u16).to_ne_bytes());
        let body = Body::Packet(Box::new(Packet { protocol: heard, ..Packet::default() }));
        let socket = self.registry.fresh(AF_PACKET, kind, 0, options, body);
        self.registry.count(counters::SOCKETS_OPENED);
        let id = self.registry.store.insert(socket);
        self.messages.packets.open(&self.registry, id, cx);
        Ok(id)
    }

    /// bind(2). EINVAL (length, bound already), EAFNOSUPPORT, EADDRNOTAVAIL, EADDRINUSE.
    pub fn bind(&mut self, s: SocketId, address: &[u8], cx: &mut Context<'_>) -> Result<(), Errno> {
        match &self.registry.get(s)?.body {
            Body::Raw(_) => raw_socket::bind(&mut self.registry, s, address, cx),
            Body::Ping(_) => self.messages.pings.bind(&mut self.registry, s, address, cx),
            Body::Packet(_) => self.messages.packets.bind(&mut self.registry, s, address, cx),
            Body::Stream(_) => inet6::bind(&mut self.registry, &mut self.streams.ports, s, address, cx),
            Body::Datagram(_) => self.messages.of(&self.registry, s).bind(&mut self.registry, s, address, cx),
        }
    }

    /// connect(2); see the module's text for "not yet".
    pub fn connect(&mut self, s: SocketId, address: &[u8], cx: &mut Context<'_>) -> Result<(), Errno> {
        let family = address::family(address)?;
        match &self.registry.get(s)?.body {
            // sock_no_connect
            Body::Packet(_) => Err(Errno::EOPNOTSUPP),
            // ip6_datagram_connect_v6_only: "if (sin6->sin6_family != AF_INET6) return -EAFNOSUPPORT;"
            Body::Raw(_) if self.registry.get(s)?.is_v6() && !matches!(family, AF_INET6 | address::AF_UNSPEC) => Err(Errno::EAFNOSUPPORT),
            Body::Stream(_) => connection::connect(&mut self.streams, &mut self.registry, s, family, address, cx),
            Body::Datagram(_) | Body::Raw(_) | Body::Ping(_) => self.messages.connect(&mut self.registry, s, family, address, cx),
        }
    }

    /// listen(2). EOPNOTSUPP on datagram sockets, EINVAL when connected or connecting, EADDRINUSE.
    pub fn listen(&mut self, s: SocketId, backlog: i32, cx: &mut Context<'_>) -> Result<(), Errno> {
        match &self.registry.get(s)?.body {
            Body::Stream(_) => listener::listen(&mut self.streams, &mut self.registry, s, backlog, cx),
            Body::Datagram(_) | Body::Raw(_) | Body::Ping(_) | Body::Packet(_) => Err(Errno::EOPNOTSUPP),
        }
    }

    /// accept(2) without the descriptor: the oldest connection that waits; EAGAIN when none does, EINVAL when not listening.
    pub fn accept(&mut self, s: SocketId, cx: &mut Context<'_>) -> Result<SocketId, Errno> {
        match &self.registry.get(s)?.body {
            Body::Stream(_) => listener::accept(&mut self.streams, &mut self.registry, s, cx),
            Body::Datagram(_) | Body::Raw(_) | Body::Ping(_) | Body::Packet(_) => Err(Errno::EOPNOTSUPP),
        }
    }

    /// shutdown(2).
    pub fn shutdown(&mut self, s: SocketId, how: i32, cx: &mut Context<'_>) -> Result<(), Errno> {
        let (receive, send) = match how {
            SHUT_RD => (true, false),
            SHUT_WR => (false, true),
            SHUT_RDWR => (true, true),
            _ => return Err(Errno::EINVAL),
        };
        match &self.registry.get(s)?.body {
            Body::Stream(_) => stream_socket::shutdown(&mut self.streams, &mut self.registry, s, Shutdown { receive, send }, cx),
            // sock_no_shutdown
            Body::Packet(_) => Err(Errno::EOPNOTSUPP),
            Body::Datagram(_) | Body::Raw(_) | Body::Ping(_) => {
                let socket = self.registry.get_mut(s)?;
                socket.shutdown.receive |= receive;
                socket.shutdown.send |= send;
                let connected = socket.remote.is_some();
                self.registry.touch(s, Poll::ALL);
                // inet_shutdown: "case TCP_CLOSE: err = -ENOTCONN; /* Hack to wake up other listeners … */ fallthrough;"
                if connected { Ok(()) } else { Err(Errno::ENOTCONN) }
            }
        }
    }

    /// getsockname(2): `sockaddr` bytes.
    pub fn local_address(&self, s: SocketId) -> Result<Vec<u8>, Errno> {
        let socket = self.registry.get(s)?;
        Ok(socket.packet().map_or_else(|| address::told(socket.domain, socket.local), link_address::local_address))
    }

    /// getpeername(2): `sockaddr` bytes; ENOTCONN.
    pub fn peer_address(&self, s: SocketId) -> Result<Vec<u8>, Errno> {
        let socket = self.registry.get(s)?;
        // packet_getname: "if (peer) return -EOPNOTSUPP;"
        if socket.packet().is_some() { Err(Errno::EOPNOTSUPP) } else { socket.peer_address() }
    }

    /// The peer's address for accept(2), which is told even when the connection has failed since.
    pub fn accepted_address(&self, s: SocketId) -> Result<Vec<u8>, Errno> {
        let socket = self.registry.get(s)?;
        socket.remote.map(|remote| address::told(socket.domain, remote)).ok_or(Errno::ECONNABORTED)
    }

    /// getsockopt(2): at most `length` bytes of the value.
    pub fn get_option(&mut self, s: SocketId, level: i32, name: i32, length: i32, cx: &mut Context<'_>) -> Result<Vec<u8>, Errno> {
        self.get_option_asked(s, level, name, &[], length, cx)
    }

    /// The same, with what the program has in the place for the value: [`crate::options::bytes_asked`] of it, or none if it cannot be read. Of such an option
    /// there may be more than `length` bytes, all of which are told.
    pub fn get_option_asked(
        &mut self,
        s: SocketId,
        level: i32,
        name: i32,
        asked: &[u8],
        length: i32,
        cx: &mut Context<'_>,
    ) -> Result<Vec<u8>, Errno> {
        options::get(&mut self.access(s, cx), level, name, asked, length)
    }

    /// setsockopt(2).
    pub fn set_option(&mut self, s: SocketId, level: i32, name: i32, value: &[u8], cx: &mut Context<'_>) -> Result<(), Errno> {
        options::set(&mut self.access(s, cx), level, name, value)
    }

    /// sendmsg(2): how many bytes were taken. `control` holds the control messages. SIGPIPE after EPIPE on a stream is the adapter's.
    pub fn send(
        &mut self,
        s: SocketId,
        data: Bytes,
        flags: i32,
        to: Option<&[u8]>,
        control: &[u8],
        cx: &mut Context<'_>,
    ) -> Result<usize, Errno> {
        if to.is_some_and(|address| address.len() > address::SOCKADDR_BYTES_MAX) {
            return Err(Errno::EINVAL);
        }
        let flags = if self.registry.get(s)?.protocol == IPPROTO_MPTCP { flags & MPTCP_SEND_FLAGS } else { flags };
        let sending = Sending { data, flags, to, control };
        match &self.registry.get(s)?.body {
            Body::Stream(_) => stream_send::send(&mut self.streams, &mut self.registry, s, sending, cx),
            Body::Datagram(_) => {
                let sent = datagram_socket::send(self.messages.of(&self.registry, s), &mut self.registry, s, sending, cx)?;
                // __ip_append_data: "if ((flags & MSG_ZEROCOPY) && length)", which counts UDP's header.
                if flags & MSG_ZEROCOPY != 0 {
                    error_queue::zerocopy_done(&mut self.registry, s, cx.now);
                }
                Ok(sent)
            }
            Body::Raw(_) => raw_socket::send(&mut self.registry, s, sending, cx),
            Body::Ping(_) => self.messages.pings.send(&mut self.registry, s, sending, cx),
            Body::Packet(_) => packet_socket::send(&mut self.registry, s, sending, cx),
        }
    }

    /// recvmsg(2), at most `length` bytes.
    pub fn receive(&mut self, s: SocketId, length: usize, flags: i32, cx: &mut Context<'_>) -> Result<Received, Errno> {
        // mptcp_recvmsg knows no urgent data.
        let flags = if self.registry.get(s)?.protocol == IPPROTO_MPTCP { flags & !MSG_OOB } else { flags };
        match &self.registry.get(s)?.body {
            Body::Stream(_) => stream_receive::receive(&mut self.registry, s, length, flags, cx),
            Body::Datagram(_) => receive_queue::receive(&mut self.registry, s, length, flags),
            // raw_recvmsg, ping_recvmsg: "err = -EOPNOTSUPP; if (flags & MSG_OOB) goto out;"
            Body::Raw(_) | Body::Ping(_) if flags & MSG_OOB != 0 => Err(Errno::EOPNOTSUPP),
            Body::Raw(_) => receive_queue::receive(&mut self.registry, s, length, flags),
            Body::Ping(_) => ping_socket::receive(&mut self.registry, s, length, flags),
            // packet_recvmsg: "if (flags & ~(MSG_PEEK | MSG_DONTWAIT | MSG_TRUNC | MSG_CMSG_COMPAT | MSG_ERRQUEUE)) goto out;"
            Body::Packet(_) if flags & !(MSG_PEEK | MSG_DONTWAIT | MSG_TRUNC | MSG_ERRQUEUE) != 0 => Err(Errno::EINVAL),
            Body::Packet(_) => receive_queue::receive(&mut self.registry, s, length, flags),
        }
    }

    /// mmap(2) of a packet socket: the memory of its rings, `bytes` long. It is made when it is mapped for the first time. ENODEV: no other sockets have
    /// any; EINVAL: it has no ring, or they have another length.
    pub fn map_ring(
        &mut self,
        s: SocketId,
        bytes: u64,
        make: &mut dyn FnMut(u64) -> Result<Arc<dyn RingMemory>, Errno>,
        cx: &mut Context<'_>,
    ) -> Result<Arc<dyn RingMemory>, Errno> {
        let clock = packet_socket::clock(&self.registry, cx);
        // sock_no_mmap
        let packet = self.registry.get_mut(s)?.packet_mut().ok_or(Errno::ENODEV)?;
        if packet.rings.bytes() == 0 || packet.rings.bytes() != bytes {
            return Err(Errno::EINVAL);
        }
        packet.rings.map(make, clock)
    }

    /// The memory that programs have of a socket's rings, where they have mapped any.
    pub fn ring_memory(&self, s: SocketId) -> Option<Arc<dyn RingMemory>> {
        self.registry.store.get(s)?.packet()?.rings.memory().cloned()
    }

    pub(crate) fn has_rings(&self) -> bool {
        self.registry.store.iter().filter_map(|(_, socket)| socket.packet()).any(|packet| packet.rings.exist())
    }

    /// How many bytes of a value of this length setsockopt(2) looks at: no more than that need be there.
    pub fn option_bytes(&self, s: SocketId, level: i32, name: i32, length: usize) -> usize {
        self.registry.get(s).map_or(0, |socket| options::bytes_read(socket, level, name, length))
    }

    /// ioctl(2): FIONREAD, SIOCOUTQ, SIOCOUTQNSD, SIOCATMARK, SIOCGSTAMP and its kind; the result's bytes. Requests about the owner of a socket's
    /// file have none: they are known, and answered by who has the file. ENOTTY for requests that sockets do not have here.
    pub fn ioctl(&mut self, s: SocketId, request: u64, argument: &[u8], cx: &mut Context<'_>) -> Result<Vec<u8>, Errno> {
        let _ = argument;
        match request {
            SIOCGSTAMP_OLD | SIOCGSTAMP_NEW | SIOCGSTAMPNS_OLD | SIOCGSTAMPNS_NEW => {
                let now = self.registry.limits.boot_time_nanos.saturating_add(cx.now.as_nanos());
                let stamp = receive_queue::stamp(&mut self.registry.get_mut(s)?.options, now)?;
                let unit = if matches!(request, SIOCGSTAMP_OLD | SIOCGSTAMP_NEW) { 1000 } else { 1 };
                return Ok([stamp / 1_000_000_000, stamp % 1_000_000_000 / unit].iter().flat_map(|part| part.to_ne_bytes()).collect());
            }
            // sock_ioctl answers them by the file, which the adapter has.
            FIOSETOWN | SIOCSPGRP | FIOGETOWN | SIOCGPGRP => return Ok(Vec::new()),
            _ => {}
        }
        let socket = self.registry.get(s)?;
        let number = match &socket.body {
            Body::Stream(_) => stream_socket::ioctl(socket, request, cx)?,
            // ping_prot has no ioctl.
            Body::Ping(_) => return Err(Errno::ENOTTY),
            Body::Datagram(datagram) => ioctl_messages(datagram, request)?,
            Body::Raw(raw) => ioctl_messages(&raw.queue, request)?,
            Body::Packet(packet) => ioctl_messages(&packet.queue, request)?,
        };
        Ok(number.to_ne_bytes().to_vec())
    }

    /// close(2) of the last descriptor. Never blocks: a lingering close goes on below.
    pub fn close(&mut self, s: SocketId, cx: &mut Context<'_>) {
        self.groups.leave_all(&mut self.registry, s, cx);
        let Some(socket) = self.registry.store.get(s) else { return };
        match &socket.body {
            Body::Stream(_) => stream_socket::close(&mut self.streams, &mut self.registry, s, cx),
            Body::Datagram(_) | Body::Raw(_) | Body::Ping(_) | Body::Packet(_) => self.messages.close(&mut self.registry, s, cx),
        }
    }

    /// What poll(2) would say.
    pub fn readiness(&self, s: SocketId) -> Poll {
        self.registry.store.get(s).map_or(Poll::NONE, readiness::of)
    }

    /// The sockets that programs hold, with their readiness: all but those that wait to be accepted.
    pub fn held(&self) -> BTreeMap<SocketId, Poll> {
        let queued: BTreeSet<SocketId> = self
            .registry
            .store
            .iter()
            .filter_map(|(_, socket)| socket.stream())
            .flat_map(|stream| stream.accept_queue.iter().copied())
            .collect();
        self.registry.store.iter().filter(|(id, _)| !queued.contains(id)).map(|(id, socket)| (id, readiness::of(socket))).collect()
    }

    /// A socket as people know it: `tcp 10.0.0.2:7000`. None: there is none.
    pub fn describe(&self, s: SocketId) -> Option<String> {
        let row = listing::row(s, self.registry.store.get(s)?);
        let part = |name: &str| row[name].as_str().unwrap_or("?").to_owned();
        Some(format!("{} {} (peer {})", part("proto"), part("local"), part("peer")))
    }

    /// Whoever waits for these looks at them again: they are other than when they looked.
    pub fn tell_changed(&mut self, sockets: impl IntoIterator<Item = SocketId>) {
        sockets.into_iter().for_each(|s| self.registry.touch(s, Poll::ALL));
    }

    /// Who has been woken at a socket since the last call: the events of the wake-ups. [`Poll::ALL`]: all, also where there is no such socket.
    pub fn take_wakes(&mut self, s: SocketId) -> Poll {
        self.registry.store.get_mut(s).map_or(Poll::ALL, |socket| std::mem::replace(&mut socket.wakes, Poll::NONE))
    }

    /// Somebody waits for edges of EPOLLOUT: a datagram socket then changes with each datagram that has left, as Linux wakes. Without that it changes only
    /// when it becomes writable.
    pub fn tell_room(&mut self, s: SocketId) {
        if let Some(datagram) = self.registry.store.get_mut(s).and_then(|socket| socket.datagram_mut()) {
            datagram.tells_room = true;
        }
    }

    /// The sockets whose readiness, state or error changed since the last call, each once, in the order of the first change.
    pub fn take_changed(&mut self) -> Vec<SocketId> {
        self.registry.take_changed()
    }

    /// Where the socket is in its life; none: no such socket.
    pub fn state(&self, s: SocketId) -> Option<SocketState> {
        self.registry.store.get(s).map(socket_state::of)
    }

    /// Bytes that `send` would take now.
    pub fn send_room(&self, s: SocketId) -> usize {
        match self.registry.store.get(s).map(|socket| (socket, socket.stream(), socket.datagram())) {
            Some((_, Some(stream), _)) if stream.deferred => options::TCP_SEND_BUFFER as usize,
            Some((_, Some(stream), _)) if stream.refused => 0,
            Some((_, Some(stream), _)) => stream.credit,
            Some((socket, _, Some(datagram))) => (socket.options.send_buffer as usize).saturating_sub(datagram.sending),
            _ => 0,
        }
    }

    /// Bytes that one `send` would take now, however many there are: it may fill a buffer that was begun.
    pub fn write_room(&self, s: SocketId, cx: &Context<'_>) -> usize {
        let (least, socket) = (self.send_room(s), self.registry.store.get(s));
        let connected = socket.filter(|socket| socket.stream().is_some_and(|stream| stream.flow.is_some() && !stream.deferred));
        // What a single subflow has room for says nothing of the connection.
        let connected = connected.filter(|socket| crate::streams::multipath(socket, cx).is_none());
        let most = connected.map_or(0, |socket| crate::streams::info(socket, cx).write_room_bytes);
        usize::try_from(most).unwrap_or(usize::MAX).max(least)
    }

    /// The pending error (SO_ERROR), which stays.
    pub fn pending_error(&self, s: SocketId) -> Option<Errno> {
        self.registry.store.get(s).and_then(|socket| socket.error)
    }

    /// SO_RCVTIMEO and SO_SNDTIMEO, for adapters that park callers: none waits for ever, zero not at all.
    pub fn timeouts(&self, s: SocketId) -> (Option<std::time::Duration>, Option<std::time::Duration>) {
        self.registry.store.get(s).map_or((None, None), |socket| (socket.options.receive_timeout, socket.options.send_timeout))
    }

    /// Is it a stream?
    pub fn is_stream(&self, s: SocketId) -> bool {
        self.registry.store.get(s).is_some_and(|socket| socket.kind == SOCK_STREAM)
    }

    /// SO_RCVLOWAT of a stream, bytes; 0: it is none.
    pub fn receive_low_water(&self, s: SocketId) -> u64 {
        self.registry
            .store
            .get(s)
            .filter(|socket| socket.kind == SOCK_STREAM)
            .map_or(0, |socket| socket.options.receive_low_water.unsigned_abs().into())
    }

    /// Bytes that a lingering or ordinary `receive` could take off a stream now, or of the first datagram.
    pub fn receive_ready(&self, s: SocketId) -> usize {
        match self.registry.store.get(s).map(|socket| (socket.stream(), socket.datagram())) {
            Some((Some(stream), _)) => stream.unread(),
            Some((_, Some(datagram))) => datagram.queue.front().map_or(0, |waiting| waiting.bytes),
            _ => 0,
        }
    }

    /// The buffers of sockets without a transport of their own.
    pub fn buffers(&self) -> Buffers {
        Buffers { send: self.registry.limits.send_buffer, receive: self.registry.limits.receive_buffer }
    }

    /// The user who made the socket (`sk_uid`, 0 until told): SO_REUSEPORT shares a port among sockets of one user.
    pub fn set_owner(&mut self, s: SocketId, user: u32) {
        if let Some(socket) = self.registry.store.get_mut(s) {
            socket.owner = user;
            let ports =
                if socket.stream().is_some() { &mut self.streams.ports } else { &mut self.messages.of_protocol(socket.protocol).ports };
            holds::show(socket, ports);
        }
    }

    /// What options may look at and change.
    fn access<'a, 'b>(&'a mut self, id: SocketId, cx: &'a mut Context<'b>) -> Access<'a, 'b> {
        let of = self.registry.store.get(id).map_or(0, |socket| socket.protocol);
        let Messages { datagrams, lite, packets, .. } = &mut self.messages;
        Access {
            datagrams: if of == IPPROTO_UDPLITE { lite } else { datagrams },
            packets,
            sockets: &mut self.registry,
            streams: &mut self.streams,
            groups: &mut self.groups,
            id,
            cx,
        }
    }
}

/// udp_ioctl, raw_ioctl.
fn ioctl_messages(datagram: &Datagram, request: u64) -> Result<i32, Errno> {
    let bytes = match request {
        FIONREAD => datagram.queue.front().map_or(0, |waiting| waiting.bytes),
        SIOCOUTQ => datagram.sending,
        _ => return Err(Errno::ENOTTY),
    };
    Ok(i32::try_from(bytes).unwrap_or(i32::MAX))
}
