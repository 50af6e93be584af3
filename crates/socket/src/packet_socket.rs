//! Packet sockets: `net/packet/af_packet.c`.
//!
//! A packet socket hears frames of one EtherType as they come in, or all of them (ETH_P_ALL), then also those that go out; of one interface or of all. As
//! SOCK_RAW it begins with the link header, as SOCK_DGRAM behind it. The filter of the socket sees what the program would see.

use crate::abi::*;
use crate::cmsg;
use crate::errno::Errno;
use crate::filter;
use crate::link_address::{SOCKADDR_LL_HEAD_BYTES, fields};
use crate::link_seen::{LinkSeen, VERSION_WITH_RINGS};
use crate::memory::truesize;
use crate::outputs::FRAMES;
use crate::packet_fanout::{Fanout, Fanouts, Passing};
use crate::packet_offload;
use crate::packet_ring::{Arrival, Clock, Next, Put, Refusal, Transmit};
use crate::poll::Poll;
use crate::receive_queue;
use crate::registry::Registry;
use crate::sending::Sending;
use crate::socket::{Joined, Packet, Seen, Socket, SocketId, Waiting};
use bytes::Bytes;
use std::net::{IpAddr, Ipv4Addr, SocketAddr};
use weft_core::bpf::About;
use weft_core::state::{Damage, Field, Reader, Writer};
use weft_core::table::{Interface, LinkType};
use weft_core::vnet;
use weft_core::{Answer, Change, Checksum, Completion, Context, Direction, Frame, Instant, InterfaceIndex, Query, Reason, Table};
use weft_wire::ethernet::{EtherType, HEADER_LEN, Header, Mac};

/// ETH_P_ALL: all frames, outgoing ones too.
const ETH_P_ALL: u16 = 3;
/// VLAN_HLEN: a tagged frame may be so much longer.
const VLAN_BYTES: usize = 4;
const ETH_P_8021Q: u16 = 0x8100;
const ETH_P_8021AD: u16 = 0x88a8;
/// VLAN_VID_MASK
const VLAN_ID: u16 = 0xfff;

/// Packet sockets that hear something.
#[derive(Debug, Default)]
pub(crate) struct PacketSockets {
    /// Oldest first.
    pub hearing: Vec<SocketId>,
    pub groups: Fanouts,
}

impl Field for PacketSockets {
    fn write(&self, out: &mut Writer) {
        let PacketSockets { hearing, groups } = self;
        out.put(hearing);
        out.put(groups);
    }
    fn read(from: &mut Reader<'_>) -> Result<PacketSockets, Damage> {
        Ok(PacketSockets {
            hearing: from.take()?,
            groups: if from.version() >= VERSION_WITH_RINGS { from.take()? } else { Fanouts::default() },
        })
    }
}

const fn hardware(link: LinkType) -> u16 {
    match link {
        LinkType::Ethernet => ARPHRD_ETHER,
        LinkType::Loopback => ARPHRD_LOOPBACK,
        LinkType::Raw => ARPHRD_NONE,
    }
}

/// Bytes of the link header (`dev->hard_header_len`).
const fn header_bytes(link: LinkType) -> usize {
    match link {
        LinkType::Ethernet | LinkType::Loopback => HEADER_LEN,
        LinkType::Raw => 0,
    }
}

fn interface(index: u32, cx: &Context<'_>) -> Option<Box<Interface>> {
    match cx.ask(Table::Interfaces, &Query::Interface(InterfaceIndex(index))) {
        Answer::Interface(interface) => Some(interface),
        _ => None,
    }
}

impl Packet {
    fn is_on(&mut self, device: Option<&Interface>) {
        self.hardware = device.map_or(0, |device| hardware(device.link));
        self.address = device.filter(|device| device.link != LinkType::Raw).map(|device| device.mac);
    }
}

impl PacketSockets {
    /// `packet_create`: "if (proto) { po->prot_hook.type = proto; __register_prot_hook(sk); }"
    pub(crate) fn open(&mut self, sockets: &Registry, s: SocketId, cx: &mut Context<'_>) {
        if sockets.store.get(s).and_then(Socket::packet).is_some_and(|packet| packet.protocol != 0) {
            self.hook(sockets, s, cx);
        }
    }

    fn hook(&mut self, sockets: &Registry, s: SocketId, cx: &mut Context<'_>) {
        if !self.hearing.contains(&s) {
            self.hearing.push(s);
            if let Some(packet) = sockets.store.get(s).and_then(Socket::packet) {
                self.groups.link(packet, s);
            }
            if self.hearing.len() == 1 {
                cx.tell(Table::Interfaces, Change::WantFrames { wanted: true });
            }
        }
    }

    /// It hears nothing from now on.
    pub(crate) fn unhook(&mut self, s: SocketId, cx: &mut Context<'_>) {
        let before = self.hearing.len();
        self.hearing.retain(|other| *other != s);
        self.groups.unlink(s);
        if before > 0 && self.hearing.is_empty() {
            cx.tell(Table::Interfaces, Change::WantFrames { wanted: false });
        }
    }

    /// The socket is closed.
    pub(crate) fn close(&mut self, sockets: &Registry, s: SocketId, cx: &mut Context<'_>) {
        self.unhook(s, cx);
        if let Some(packet) = sockets.store.get(s).and_then(Socket::packet) {
            self.groups.release(packet);
        }
        cx.cancel_timer(s.number());
    }

    /// Tells the block of interfaces, which may be new, whether frames are wanted.
    pub(crate) fn tell(&self, cx: &mut Context<'_>) {
        if !self.hearing.is_empty() {
            cx.tell(Table::Interfaces, Change::WantFrames { wanted: true });
        }
    }

    /// `packet_bind` and `packet_do_bind`.
    pub(crate) fn bind(&mut self, sockets: &mut Registry, s: SocketId, address: &[u8], cx: &mut Context<'_>) -> Result<(), Errno> {
        let (family, to) = fields(address).ok_or(Errno::EINVAL)?;
        if i32::from(family) != AF_PACKET {
            return Err(Errno::EINVAL);
        }
        // "if (po->fanout) { ret = -EINVAL; goto out_unlock; }"
        if sockets.get(s)?.packet().is_some_and(|packet| packet.fanout.is_some()) {
            return Err(Errno::EINVAL);
        }
        // "else if (ifindex) { dev = dev_get_by_index_rcu(sock_net(sk), ifindex); if (!dev) { ret = -ENODEV; goto out_unlock; } }"
        let device = match to.interface {
            0 => None,
            index => Some(u32::try_from(index).ok().and_then(|index| interface(index, cx)).ok_or(Errno::ENODEV)?),
        };
        let socket = sockets.get_mut(s)?;
        let packet = socket.packet_mut().ok_or(Errno::EINVAL)?;
        let index = device.as_ref().map_or(0, |device| device.index.0);
        // "return packet_do_bind(sk, NULL, sll->sll_ifindex, sll->sll_protocol ? : pkt_sk(sk)->num);"
        let protocol = if to.protocol == 0 { packet.protocol } else { to.protocol };
        let same = packet.protocol == protocol && packet.interface == index;
        (packet.protocol, packet.interface, packet.waits_for_interface) = (protocol, index, false);
        packet.is_on(device.as_deref());
        if protocol == 0 {
            self.unhook(s, cx);
        } else if !same {
            // "if (!unlisted && (!dev || (dev->flags & IFF_UP))) register_prot_hook(sk); else { sk->sk_err = ENETDOWN; sk_error_report(sk); }"
            if device.is_none_or(|device| device.up) {
                self.hook(sockets, s, cx);
            } else {
                packet.waits_for_interface = true;
                self.unhook(s, cx);
                self.fail(sockets, s);
            }
        }
        sockets.touch(s, Poll::NONE);
        Ok(())
    }

    fn fail(&self, sockets: &mut Registry, s: SocketId) {
        if let Some(socket) = sockets.store.get_mut(s) {
            socket.error = Some(Errno::ENETDOWN);
            sockets.touch(s, Poll::ALL);
        }
    }

    /// `packet_notifier`: who is bound to an interface that goes down has an error and hears nothing until it is up again.
    pub(crate) fn interfaces_changed(&mut self, sockets: &mut Registry, cx: &mut Context<'_>) {
        let bound: Vec<(SocketId, u32, u16, bool)> = sockets
            .store
            .iter()
            .filter_map(|(id, socket)| Some((id, socket.packet()?)))
            .filter(|(_, packet)| packet.interface != 0)
            .map(|(id, packet)| (id, packet.interface, packet.protocol, packet.waits_for_interface))
            .collect();
        for (s, index, protocol, waits) in bound {
            let device = interface(index, cx);
            let gone = device.is_none();
            let up = device.as_ref().is_some_and(|device| device.up);
            let Some(packet) = sockets.store.get_mut(s).and_then(Socket::packet_mut) else { continue };
            packet.is_on(device.as_deref());
            if gone {
                // "if (msg == NETDEV_UNREGISTER) { packet_cached_dev_reset(po); WRITE_ONCE(po->ifindex, -1); …"
                (packet.interface, packet.waits_for_interface) = (u32::MAX, true);
            }
            if !up && !waits && protocol != 0 {
                packet.waits_for_interface = true;
                self.unhook(s, cx);
                self.fail(sockets, s);
            } else if up && waits && protocol != 0 {
                packet.waits_for_interface = false;
                self.hook(sockets, s, cx);
            }
        }
    }

    /// `packet_rcv`: a frame that came in or goes out, from its link header on.
    pub(crate) fn input(&mut self, sockets: &mut Registry, mut frame: Frame, cx: &mut Context<'_>) {
        // A copy: the end of the frame itself is somebody else's.
        let sender = frame.take_completion().filter(|completion| completion.block == cx.me()).map(|completion| completion.token);
        let index = frame.meta().interface.0;
        let outgoing = frame.meta().direction == Direction::Egress;
        let Some(device) = interface(index, cx) else { return cx.drop(frame, Reason::UnknownInterface) };
        let header = header_bytes(device.link);
        if frame.head().len() < header {
            // Never more than it has.
            let _ = frame.pull_up(frame.len().min(header));
        }
        // __netif_receive_skb_core: "skb = skb_vlan_untag(skb); if (unlikely(!skb)) goto out;": nobody hears one that ends within its tag.
        let tagged = if outgoing || device.link == LinkType::Raw { Some(None) } else { untagged(&mut frame) };
        let Some(tag) = tagged else { return cx.drop(frame, Reason::Truncated) };
        let seen = LinkSeen { tag, ..seen(&frame, &device, outgoing) };
        frame.meta_mut().ether_type = EtherType(seen.protocol);
        let passing = Heard { frame: &frame, seen: &seen, header, outgoing };
        let sender = sender.map(SocketId::from_number);
        let sent_by = sender.and_then(|s| sockets.store.get(s)).and_then(Socket::packet).and_then(|packet| packet.fanout);
        let mut served: Vec<u16> = Vec::new();
        for at in 0..self.hearing.len() {
            let Some(s) = self.hearing.get(at).copied() else { break };
            let Some(packet) = sockets.store.get(s).and_then(Socket::packet) else { continue };
            let Some(id) = packet.fanout else {
                if sender != Some(s) && passing.is_for(packet.protocol, packet.interface, packet.ignores_outgoing) {
                    passing.deliver(sockets, s, cx);
                }
                continue;
            };
            // match_fanout_group: who sends with one of a group is not heard by the others.
            if served.contains(&id) || sent_by == Some(id) {
                continue;
            }
            served.push(id);
            let Some(group) = self.groups.of(packet) else { continue };
            if passing.is_for(group.protocol, group.interface, group.ignores_outgoing())
                && let Some(s) = passing.choose(group, sockets, cx)
            {
                passing.deliver(sockets, s, cx);
            }
        }
    }
}

/// A frame that packet sockets hear.
struct Heard<'a> {
    frame: &'a Frame,
    seen: &'a LinkSeen,
    /// Bytes of its link header.
    header: usize,
    outgoing: bool,
}

/// `virtio_net_hdr_from_skb`
fn offload(frame: &Frame, status: u32) -> vnet::Header {
    let mut header = vnet::encode(frame);
    if status & TP_STATUS_CSUM_VALID != 0 {
        header[0] |= vnet::DATA_VALID;
    }
    header
}

impl Heard<'_> {
    fn is_for(&self, protocol: u16, interface: u32, ignores_outgoing: bool) -> bool {
        let kind = protocol == ETH_P_ALL || protocol == self.seen.protocol && !self.outgoing;
        kind && (interface == 0 || interface == self.seen.interface) && !(self.outgoing && ignores_outgoing)
    }

    /// What is told of it to who hears this protocol.
    fn seen(&self, protocol: u16) -> LinkSeen {
        let mut seen = self.seen.clone();
        // __netif_receive_skb_core, behind those that hear all: "if (skb_vlan_tag_get_id(skb)) { skb->pkt_type = PACKET_OTHERHOST; }
        // __vlan_hwaccel_clear_tag(skb);"
        if let (Some((tag, _)), true) = (seen.tag, protocol != ETH_P_ALL) {
            (seen.tag, seen.kind) = (None, if tag & VLAN_ID != 0 { PACKET_OTHERHOST } else { seen.kind });
        }
        seen
    }

    /// What is known of it; `frame` begins with its link header, or `pulled` bytes behind.
    fn about(&self, frame: &Frame, seen: &LinkSeen, pulled: usize, seed: u64) -> About {
        About {
            protocol: seen.protocol,
            kind: seen.kind,
            interface: seen.interface,
            hardware: seen.hardware,
            mark: frame.meta().mark,
            tag: seen.tag,
            network_at: frame.position().checked_add((self.header - pulled) as u16),
            link_at: frame.position().checked_sub(pulled as u16).filter(|_| self.header > 0),
            seed,
        }
    }

    fn choose(&self, group: &mut Fanout, sockets: &mut Registry, cx: &mut Context<'_>) -> Option<SocketId> {
        // What came in begins with its network header there, what goes out with that of the link.
        let mut frame = self.frame.clone();
        let pulled = if self.outgoing { 0 } else { self.header };
        frame.pull(pulled).ok()?;
        let seen = self.seen(group.protocol);
        let about = self.about(&frame, &seen, pulled, cx.now.as_nanos());
        group.choose(&Passing { frame: &frame, about: &about, header: self.header - pulled }, sockets, cx.rng)
    }

    fn deliver(&self, sockets: &mut Registry, s: SocketId, cx: &mut Context<'_>) {
        let Some(socket) = sockets.store.get(s) else { return };
        let Some(packet) = socket.packet() else { return };
        let mut frame = self.frame.clone();
        // "if (sk->sk_type != SOCK_DGRAM) skb_push(skb, skb->data - skb_mac_header(skb)); else if (skb->pkt_type == PACKET_OUTGOING)
        // skb_pull(skb, skb_network_offset(skb));"
        let pulled = if socket.kind == SOCK_DGRAM { self.header } else { 0 };
        if frame.pull(pulled).is_err() {
            return;
        }
        let mut seen = LinkSeen { network_at: (self.header - pulled) as u16, ..self.seen(packet.protocol) };
        if packet.offload_bytes > 0 {
            seen.offload = Some(offload(&frame, seen.status));
        }
        // Unlike from frame to frame and socket to socket, and alike from run to run.
        let seed = cx.now.as_nanos() ^ socket.cookie << 48 ^ u64::from(packet.frames) << 24;
        let about = self.about(&frame, &seen, pulled, seed);
        enqueue(sockets, s, frame, seen, &about, cx);
    }
}

/// `skb_vlan_untag`: the tag of a frame, which goes out of it. None: "if (unlikely(!pskb_may_pull(skb, VLAN_HLEN + sizeof(unsigned short)))) goto
/// err_free;"
fn untagged(frame: &mut Frame) -> Option<Option<(u16, u16)>> {
    let of = frame.head().get(12..HEADER_LEN).map_or(0, |kind| u16::from_be_bytes([kind[0], kind[1]]));
    if !matches!(of, ETH_P_8021Q | ETH_P_8021AD) {
        return Some(None);
    }
    frame.pull_up(HEADER_LEN + VLAN_BYTES + 2).ok()?;
    let tag = frame.head().get(HEADER_LEN..).and_then(|tag| tag.first_chunk::<2>()).map(|tag| u16::from_be_bytes(*tag))?;
    frame.head_mut().get_mut(..HEADER_LEN + 2)?.copy_within(..12, VLAN_BYTES);
    frame.pull(VLAN_BYTES).ok()?;
    Some(Some((tag, of)))
}

/// What is told of a frame. eth_type_trans says whose it is, and which EtherType an 802.3 frame counts as.
fn seen(frame: &Frame, device: &Interface, outgoing: bool) -> LinkSeen {
    let partial = matches!(frame.meta().checksum, Checksum::Partial { .. });
    let mut out = LinkSeen {
        protocol: 0,
        interface: device.index.0,
        hardware: hardware(device.link),
        kind: if outgoing { PACKET_OUTGOING } else { PACKET_HOST },
        source: None,
        whole_bytes: 0,
        network_at: 0,
        status: TP_STATUS_USER | if partial { TP_STATUS_CSUMNOTREADY } else { 0 },
        tag: None,
        offload: None,
    };
    if !partial && matches!(frame.meta().checksum, Checksum::Valid) && !outgoing {
        out.status |= TP_STATUS_CSUM_VALID;
    }
    if device.link == LinkType::Raw {
        out.protocol = match frame.head().first().map(|byte| byte >> 4) {
            Some(6) => EtherType::IPV6.0,
            _ => EtherType::IPV4.0,
        };
        return out;
    }
    let Some(header) = frame.head().first_chunk::<HEADER_LEN>() else { return out };
    let [d0, d1, d2, d3, d4, d5, s0, s1, s2, s3, s4, s5, t0, t1] = *header;
    let to = Mac([d0, d1, d2, d3, d4, d5]);
    out.source = Some([s0, s1, s2, s3, s4, s5]);
    out.protocol = match u16::from_be_bytes([t0, t1]) {
        // What goes out is of the protocol that its sender said.
        _ if outgoing && frame.meta().ether_type.0 != 0 => frame.meta().ether_type.0,
        // "if (likely(eth_proto_is_802_3(eth->h_proto))) return eth->h_proto; … return htons(ETH_P_802_2);"
        length @ ..ETH_P_802_3_MIN if length < ETH_P_802_3_MIN => ETH_P_802_2,
        protocol => protocol,
    };
    if !outgoing {
        out.kind = match to {
            Mac::BROADCAST => PACKET_BROADCAST,
            to if to.is_multicast() => PACKET_MULTICAST,
            to if to == device.mac() => PACKET_HOST,
            _ => PACKET_OTHERHOST,
        };
    }
    out
}

/// Puts a frame, from where this kind of socket begins, into a socket's queue, or its ring.
fn enqueue(sockets: &mut Registry, s: SocketId, mut frame: Frame, mut link: LinkSeen, about: &About, cx: &mut Context<'_>) {
    link.whole_bytes = frame.len() as u32;
    // Of no bytes run_filter wants none: "if (!res) goto drop_n_restore;"
    if frame.is_empty() {
        return;
    }
    let Some(socket) = sockets.store.get_mut(s) else { return };
    let Some(rings) = socket.packet().map(|packet| &packet.rings) else { return };
    let whole = (rings.receives() && rings.copy_threshold != 0).then(|| frame.clone());
    let receives = rings.receives();
    // "res = run_filter(skb, sk, snaplen); if (!res) goto drop_n_restore; if (snaplen > res) snaplen = res;"
    if !filter::passes_about(socket.options.filter.as_ref(), &mut frame, 0, 0, about) {
        return;
    }
    if let Some(packet) = socket.packet_mut() {
        packet.frames = packet.frames.saturating_add(1);
    }
    if receives {
        return put(sockets, s, &frame, &link, whole, cx);
    }
    if receive_queue::is_full(sockets, s) {
        lose(sockets, s, cx);
    } else {
        queue(sockets, s, frame, link, cx);
    }
}

fn lose(sockets: &mut Registry, s: SocketId, cx: &mut Context<'_>) {
    if let Some(packet) = sockets.store.get_mut(s).and_then(Socket::packet_mut) {
        packet.lost = packet.lost.saturating_add(1);
    }
    cx.count_drop(Reason::SocketBufferFull);
}

/// When a frame came.
fn received(frame: &Frame, cx: &Context<'_>) -> Instant {
    let meta = frame.meta();
    if meta.received == Instant::ZERO || meta.direction == Direction::Egress { cx.now } else { meta.received }
}

fn queue(sockets: &mut Registry, s: SocketId, frame: Frame, link: LinkSeen, cx: &mut Context<'_>) {
    let Some(socket) = sockets.store.get_mut(s) else { return };
    let tells_dropped = socket.options.receive_overflow;
    let Some(queue) = socket.datagram_mut() else { return };
    let bytes = frame.len();
    let nowhere = IpAddr::V4(Ipv4Addr::UNSPECIFIED);
    let waiting = Waiting {
        bytes,
        truesize: truesize(bytes),
        from: SocketAddr::new(nowhere, 0),
        seen: Seen {
            to: nowhere,
            own: nowhere,
            to_port: None,
            interface: link.interface,
            ttl: 0,
            tos: 0,
            headers: None,
            flow_info: 0,
            mark: frame.meta().mark,
        },
        received: received(&frame, cx),
        joined: Joined::default(),
        dropped: if tells_dropped { queue.dropped } else { 0 },
        link: Some(Box::new(link)),
        data: frame.into_payload(),
    };
    queue.queued_truesize += waiting.truesize;
    sockets.waiting_bytes += waiting.truesize;
    queue.queue.push_back(waiting);
    sockets.touch(s, Poll::WAKES_READERS);
}

/// The present, as rings tell it.
pub(crate) fn clock(sockets: &Registry, cx: &Context<'_>) -> Clock {
    Clock { now: cx.now, boot_nanos: sockets.limits.boot_time_nanos }
}

/// Puts a frame into a socket's ring. `whole`: all of it, for the socket's queue where the ring has no room for so long a one.
fn put(sockets: &mut Registry, s: SocketId, frame: &Frame, link: &LinkSeen, whole: Option<Frame>, cx: &mut Context<'_>) {
    let clock = clock(sockets, cx);
    let full = sockets.waiting_bytes >= sockets.limits.datagram_bytes_max;
    let Some(socket) = sockets.store.get_mut(s) else { return };
    let (cooked, room) = (socket.kind == SOCK_DGRAM, socket.options.receive_buffer as usize);
    // "if (po->copy_thresh && atomic_read(&sk->sk_rmem_alloc) < sk->sk_rcvbuf)"
    let copies = !full && socket.datagram().is_some_and(|queue| queue.queued_truesize < room);
    let Some(packet) = socket.packet_mut() else { return };
    let arrival = Arrival {
        frame,
        link,
        kept: frame.len() as u32,
        cooked,
        reserve: packet.rings.reserve,
        offload_bytes: packet.offload_bytes.into(),
        losing: packet.lost > 0,
        received: received(frame, cx),
        clock,
    };
    let done = packet.rings.put(&arrival, copies);
    arm(sockets, s, cx);
    let wakes = match done {
        None => false,
        Some(Put::Lost { wakes }) => {
            lose(sockets, s, cx);
            wakes
        }
        Some(Put::Kept { wakes, copied }) => {
            if let (true, Some(whole)) = (copied, whole) {
                // "memset(&PACKET_SKB_CB(copy_skb)->sa.ll, 0, sizeof(PACKET_SKB_CB(copy_skb)->sa.ll));"
                let unsaid = LinkSeen { interface: 0, hardware: 0, kind: 0, source: None, whole_bytes: 0, ..link.clone() };
                queue(sockets, s, whole, unsaid, cx);
            }
            wakes
        }
    };
    if wakes {
        sockets.touch(s, Poll::WAKES_READERS);
    }
}

/// Sets or takes back the timer of a ring's block.
pub(crate) fn arm(sockets: &mut Registry, s: SocketId, cx: &mut Context<'_>) {
    match sockets.store.get_mut(s).and_then(Socket::packet_mut).and_then(|packet| packet.rings.timer(cx.now)) {
        Some(Some(at)) => cx.set_timer(s.number(), at),
        Some(None) => cx.cancel_timer(s.number()),
        None => {}
    }
}

/// The timer of a ring's block has gone off.
pub(crate) fn expire(sockets: &mut Registry, s: SocketId, cx: &mut Context<'_>) {
    let clock = clock(sockets, cx);
    let Some(packet) = sockets.store.get_mut(s).and_then(Socket::packet_mut) else { return };
    let losing = packet.lost > 0;
    if packet.rings.expire(losing, clock) {
        sockets.touch(s, Poll::WAKES_READERS);
    }
    arm(sockets, s, cx);
}

/// Where a call sends to.
struct Way {
    device: Box<Interface>,
    protocol: u16,
    address: Option<[u8; 8]>,
    cooked: bool,
    /// Bytes of PACKET_VNET_HDR.
    offload_bytes: usize,
}

impl Way {
    /// What `packet_snd` and `tpacket_snd` look at first.
    fn of(sockets: &Registry, s: SocketId, to: Option<&[u8]>, control: &[u8], cx: &Context<'_>) -> Result<Way, Errno> {
        let socket = sockets.get(s)?;
        let packet = socket.packet().ok_or(Errno::EINVAL)?;
        let (device, protocol, address) = match to {
            None | Some([]) => (interface(packet.interface, cx).filter(|_| packet.interface != 0), packet.protocol, None),
            Some(bytes) => {
                let (_, to) = fields(bytes).ok_or(Errno::EINVAL)?;
                if bytes.len() < to.address_bytes + SOCKADDR_LL_HEAD_BYTES {
                    return Err(Errno::EINVAL);
                }
                let device = u32::try_from(to.interface).ok().filter(|index| *index != 0).and_then(|index| interface(index, cx));
                (device, to.protocol, Some(to.address))
            }
        };
        let device = device.ok_or(Errno::ENXIO)?;
        if !device.up {
            return Err(Errno::ENETDOWN);
        }
        if !control.is_empty() {
            cmsg::each(control, |_, _, _| Ok(()))?;
        }
        Ok(Way { device, protocol, address, cooked: socket.kind == SOCK_DGRAM, offload_bytes: packet.offload_bytes.into() })
    }

    /// Bytes of the link header that who sends has in front.
    fn reserve(&self) -> usize {
        if self.cooked { 0 } else { header_bytes(self.device.link) }
    }

    /// eth_header: "if (daddr) { … return ETH_HLEN; } … return -ETH_HLEN;"
    fn has_receiver(&self) -> bool {
        !self.cooked || self.address.is_some() || self.device.link != LinkType::Ethernet
    }

    /// "if (!vnet_hdr.gso_type && (len > dev->mtu + reserve + extra_len)) …": one with a tag of a VLAN may be longer.
    fn takes(&self, data: &[u8]) -> bool {
        let tagged = !self.cooked && data.get(12..14).is_some_and(|kind| kind == ETH_P_8021Q.to_be_bytes());
        data.len() <= self.device.mtu as usize + self.reserve() + if tagged { VLAN_BYTES } else { 0 }
    }

    /// dev_validate_header: "if (len < dev->min_header_len) return false;"
    fn has_header(&self, data: &[u8]) -> bool {
        data.len() >= self.reserve()
    }

    /// Sends a frame of a ring: how many bytes it has, without what PACKET_VNET_HDR says of it.
    fn send_framed(&self, sockets: &mut Registry, s: SocketId, data: Bytes, cx: &mut Context<'_>) -> Result<usize, Errno> {
        let (offload, data) = self.split(data)?;
        if !self.has_receiver() || !self.has_header(&data) {
            return Err(Errno::EINVAL);
        }
        if offload.is_none() && !self.takes(&data) {
            return Err(Errno::EMSGSIZE);
        }
        let bytes = data.len();
        self.emit(sockets, s, data, offload.as_ref(), cx).map(|()| bytes)
    }

    /// Takes what PACKET_VNET_HDR says off the front of what is sent.
    fn split(&self, data: Bytes) -> Result<(Option<vnet::Header>, Bytes), Errno> {
        if self.offload_bytes == 0 {
            return Ok((None, data));
        }
        // packet_snd_vnet_parse: "if (*len < vnet_hdr_sz) return -EINVAL;"
        let mut header = *data.get(..self.offload_bytes).and_then(|header| header.first_chunk()).ok_or(Errno::EINVAL)?;
        let data = data.slice(self.offload_bytes..);
        packet_offload::settle(&mut header, data.len()).map(|()| (Some(header), data))
    }

    fn emit(
        &self,
        sockets: &mut Registry,
        s: SocketId,
        data: Bytes,
        offload: Option<&vnet::Header>,
        cx: &mut Context<'_>,
    ) -> Result<(), Errno> {
        let header = header_bytes(self.device.link);
        let mut frame = Frame::egress();
        if !self.cooked {
            frame.extend(data.get(..header).unwrap_or_default());
            frame.append(data.slice(header..));
        } else {
            frame.append(data);
            if header > 0 {
                let dst = self.address.and_then(|address| address.first_chunk::<6>().copied()).map_or(Mac::ZERO, Mac);
                Header { dst, src: self.device.mac(), vlan: None, ether_type: EtherType(self.protocol) }.emit(frame.push(HEADER_LEN));
            }
        }
        if let Some(offload) = offload {
            packet_offload::apply(offload, &mut frame, header)?;
        }
        let bytes = truesize(frame.len());
        let socket = sockets.get_mut(s)?;
        let mark = socket.options.mark;
        let meta = frame.meta_mut();
        (meta.direction, meta.interface, meta.mark) = (Direction::Egress, self.device.index, mark);
        // packet_parse_headers: "if ((!skb->protocol || skb->protocol == htons(ETH_P_ALL)) && sock->type == SOCK_RAW) … skb->protocol =
        // dev_parse_header_protocol(skb);"
        meta.ether_type = EtherType(if self.cooked || self.protocol != ETH_P_ALL { self.protocol } else { 0 });
        meta.completion = Some(Completion { block: cx.me(), token: s.number(), bytes: bytes as u32 });
        if let Some(queue) = socket.datagram_mut() {
            queue.sending += bytes;
        }
        cx.emit(FRAMES, frame);
        Ok(())
    }
}

fn has_room(sockets: &Registry, s: SocketId) -> Result<bool, Errno> {
    let socket = sockets.get(s)?;
    let room = socket.options.send_buffer as usize;
    Ok(socket.datagram().is_none_or(|queue| queue.sending < room))
}

/// `packet_sendmsg`: "if (data_race(po->tx_ring.pg_vec)) return tpacket_snd(po, msg); return packet_snd(sock, msg, len);"
pub(crate) fn send(sockets: &mut Registry, s: SocketId, sending: Sending<'_>, cx: &mut Context<'_>) -> Result<usize, Errno> {
    let Sending { data, flags, to, control } = sending;
    let way = Way::of(sockets, s, to, control, cx)?;
    if sockets.get(s)?.packet().is_some_and(|packet| packet.rings.sends()) {
        return send_ring(sockets, s, &way, flags, cx);
    }
    let length = data.len();
    let (offload, data) = way.split(data)?;
    if !way.has_receiver() {
        return Err(Errno::EINVAL);
    }
    // "if (!vnet_hdr.gso_type && (len > dev->mtu + reserve + VLAN_HLEN + extra_len))"
    if !offload.is_some_and(|offload| packet_offload::is_cut(&offload)) && !way.takes(&data) {
        return Err(Errno::EMSGSIZE);
    }
    if !has_room(sockets, s)? {
        return Err(Errno::EAGAIN);
    }
    if flags & MSG_UNREADABLE != 0 {
        return Err(Errno::EFAULT);
    }
    if !way.has_header(&data) {
        return Err(Errno::EINVAL);
    }
    way.emit(sockets, s, data, offload.as_ref(), cx)?;
    Ok(length)
}

/// `tpacket_snd`. A frame is copied, so that its place is free at once: over a veth it is free when the call returns.
fn send_ring(sockets: &mut Registry, s: SocketId, way: &Way, flags: i32, cx: &mut Context<'_>) -> Result<usize, Errno> {
    let mut sent = 0;
    // Other threads may mark frames meanwhile: those are the next call's.
    let mut left = transmit(sockets, s)?.frames();
    loop {
        let (has_offsets, leaves_out) =
            sockets.get(s)?.packet().map_or((false, false), |packet| (packet.rings.has_offsets, packet.rings.leaves_out));
        // "if ((size_max > dev->mtu + reserve + VLAN_HLEN) && !po->has_vnet_hdr) size_max = dev->mtu + reserve + VLAN_HLEN;"
        let most = if way.offload_bytes > 0 { usize::MAX } else { way.device.mtu as usize + way.reserve() + VLAN_BYTES };
        let next = if left == 0 { Next::None } else { transmit(sockets, s)?.next(most, way.cooked, has_offsets) };
        left = left.saturating_sub(1);
        let refused = match next {
            Next::None => return Ok(sent + std::mem::take(&mut transmit(sockets, s)?.sent)),
            // "we assume the socket was initially writeable ... if (likely(len_sum > 0)) err = len_sum;"
            Next::Frame(_) if !has_room(sockets, s)? => {
                let before = &mut transmit(sockets, s)?.sent;
                if flags & MSG_WAITS != 0 {
                    *before += sent;
                    return Err(Errno::EAGAIN);
                }
                return match sent + std::mem::take(before) {
                    0 => Err(Errno::EAGAIN),
                    sent => Ok(sent),
                };
            }
            Next::Frame(data) => match way.send_framed(sockets, s, data, cx) {
                Ok(bytes) => {
                    sent += bytes;
                    transmit(sockets, s)?.taken();
                    continue;
                }
                Err(errno) => errno,
            },
            Next::Bad(errno) => errno,
        };
        if transmit(sockets, s)?.refuse(leaves_out) == Refusal::Told {
            transmit(sockets, s)?.sent = 0;
            return Err(refused);
        }
    }
}

fn transmit(sockets: &mut Registry, s: SocketId) -> Result<&mut Transmit, Errno> {
    // "if (unlikely(!po->tx_ring.pg_vec)) { err = -EBUSY; goto out; }"
    sockets.get_mut(s)?.packet_mut().and_then(|packet| packet.rings.transmit()).ok_or(Errno::EBUSY)
}
