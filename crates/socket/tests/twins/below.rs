//! A small loopback below the sockets, for tests of the sockets alone: a stream transport without segments and UDP without a wire.
//!
//! It follows the contract of `weft_core::stream` (credit both ways, `Released` last) and answers for addresses, routes and flows as a
//! network namespace with nothing but `lo` does.

use bytes::Bytes;
use std::any::Any;
use std::collections::{BTreeMap, VecDeque};
use std::net::{IpAddr, Ipv4Addr, SocketAddr};
use std::time::Duration;
use weft_core::table::{AddressKind, Family, Interface, LinkType, RouteAnswer, RouteKind};
use weft_core::*;

const SEND_BUFFER: u32 = 2_500_000;
const SEGMENT: usize = 32_741;
const RECEIVE_BUFFER: usize = 65_536;

static KIND: Kind = Kind {
    name: "below",
    inputs: &[
        Port::required("tcp", Carries::Stream, ""),
        Port::required("udp", Carries::Datagram, ""),
        Port::required("unreachable", Carries::Error, ""),
    ],
    outputs: &[
        Port::required("tcp", Carries::Stream, ""),
        Port::required("udp", Carries::Datagram, ""),
        Port::required("error", Carries::Error, ""),
    ],
    owns: &[Table::Routes(Family::V4), Table::Addresses(Family::V4), Table::Interfaces, Table::Flows],
    ..Kind::EMPTY
};
pub const ROW: BlockRow = BlockRow { kind: &KIND, make: |_| Ok(Box::new(Below::default())) };
const TCP: OutPort = OutPort(0);

#[derive(Debug)]
struct End {
    local: SocketAddr,
    peer: Option<FlowId>,
    pending: VecDeque<(Bytes, DataFlags)>,
    fin_wanted: bool,
    fin_sent: bool,
    fin_received: bool,
    room: usize,
    closed: bool,
}

#[derive(Debug)]
struct Listening {
    local: SocketAddr,
    room: u32,
}

#[derive(Debug, Default)]
struct Below {
    ends: BTreeMap<FlowId, End>,
    listeners: BTreeMap<FlowId, Listening>,
    children: u64,
}

impl Below {
    fn event(cx: &mut Context<'_>, flow: FlowId, event: StreamEvent) {
        cx.send(TCP, StreamMessage::Event { flow, event: Box::new(event) });
    }

    fn open(&mut self, flow: FlowId, local: SocketAddr, peer: FlowId) {
        let end = End {
            local,
            peer: Some(peer),
            pending: VecDeque::new(),
            fin_wanted: false,
            fin_sent: false,
            fin_received: false,
            room: RECEIVE_BUFFER,
            closed: false,
        };
        self.ends.insert(flow, end);
    }

    fn connect(&mut self, flow: FlowId, local: SocketAddr, remote: SocketAddr, cx: &mut Context<'_>) {
        let credit = |cx: &mut Context<'_>, flow| cx.send(TCP, StreamMessage::Credit { flow, bytes: SEND_BUFFER, enough: u32::MAX });
        if local == remote {
            self.open(flow, local, flow);
            Self::event(cx, flow, StreamEvent::Established { local, remote });
            return credit(cx, flow);
        }
        let fits = |listening: &Listening| {
            listening.local.port() == remote.port() && (listening.local.ip().is_unspecified() || listening.local.ip() == remote.ip())
        };
        let Some((listener, listening)) = self.listeners.iter_mut().find(|(_, listening)| fits(listening)) else {
            Self::event(cx, flow, StreamEvent::Failed(StreamError::Refused));
            return Self::event(cx, flow, StreamEvent::Released);
        };
        if listening.room == 0 {
            return; // the SYN is lost and would be sent again in a second
        }
        listening.room -= 1;
        let listener = *listener;
        self.children += 1;
        let child = FlowId(FlowId::ACCEPTED | self.children);
        self.open(flow, local, child);
        self.open(child, remote, flow);
        Self::event(cx, flow, StreamEvent::Established { local, remote });
        credit(cx, flow);
        Self::event(cx, listener, StreamEvent::Accepted { child, local: remote, remote: local, extended: false });
        credit(cx, child);
    }

    fn reset_peer(&mut self, flow: FlowId, cx: &mut Context<'_>) {
        let Some(peer) = self.ends.get(&flow).and_then(|end| end.peer) else { return };
        let Some(end) = self.ends.remove(&peer) else { return };
        if !end.closed {
            let error = if end.fin_received { StreamError::BrokenPipe } else { StreamError::Reset };
            Self::event(cx, peer, StreamEvent::Failed(error));
        }
        Self::event(cx, peer, StreamEvent::Released);
    }

    fn release(&mut self, flow: FlowId, cx: &mut Context<'_>) {
        if self.ends.remove(&flow).is_some() | self.listeners.remove(&flow).is_some() {
            Self::event(cx, flow, StreamEvent::Released);
        }
    }

    /// Moves what fits from `flow` to its peer, then the FIN.
    fn pump(&mut self, flow: FlowId, cx: &mut Context<'_>) {
        if let Some(end) = self.ends.get(&flow)
            && end.pending.back().is_some_and(|(_, flags)| flags.more)
            && end.pending.iter().map(|(bytes, _)| bytes.len()).sum::<usize>() < SEGMENT
            && !end.fin_wanted
        {
            return;
        }
        loop {
            let Some(peer) = self.ends.get(&flow).and_then(|end| end.peer) else { return };
            let Some(room) = self.ends.get(&peer).map(|peer| peer.room) else { return };
            let peer_closed = self.ends.get(&peer).is_some_and(|peer| peer.closed);
            let Some(end) = self.ends.get_mut(&flow) else { return };
            let Some((bytes, flags)) = end.pending.front_mut() else { break };
            if peer_closed {
                // Data for a program that is gone: RST.
                let error = if end.fin_received { StreamError::BrokenPipe } else { StreamError::Reset };
                self.ends.remove(&peer);
                Self::event(cx, peer, StreamEvent::Released);
                self.ends.remove(&flow);
                Self::event(cx, flow, StreamEvent::Failed(error));
                return Self::event(cx, flow, StreamEvent::Released);
            }
            if room == 0 {
                return;
            }
            let taken = bytes.len().min(room);
            let piece = bytes.split_to(taken);
            let last = bytes.is_empty();
            let urgent = flags.urgent && last;
            if last {
                end.pending.pop_front();
            }
            if urgent {
                Self::event(cx, peer, StreamEvent::Urgent { ahead: taken as u32 - 1 });
            }
            cx.send(TCP, StreamMessage::Data { flow: peer, bytes: piece, flags: DataFlags::default(), mapping: 0 });
            cx.send(TCP, StreamMessage::Credit { flow, bytes: taken as u32, enough: u32::MAX });
            if let Some(end) = self.ends.get_mut(&peer) {
                end.room -= taken;
            }
        }
        let Some(end) = self.ends.get_mut(&flow) else { return };
        if end.fin_wanted && !end.fin_sent {
            end.fin_sent = true;
            let (peer, first) = (end.peer, !end.fin_received);
            let Some(peer) = peer else { return };
            let Some(other) = self.ends.get_mut(&peer) else { return };
            other.fin_received = true;
            let both = other.fin_sent;
            Self::event(cx, peer, StreamEvent::HalfClosed);
            if peer == flow {
                // Connected to itself: its own FIN is the other one as well.
                other.peer = None;
                Self::event(cx, flow, StreamEvent::TimeWait);
                return cx.set_timer(flow.0, cx.now + Duration::from_secs(60));
            }
            if both && !first {
                // The side that closed second is done at once; the other waits.
                self.ends.remove(&flow);
                Self::event(cx, flow, StreamEvent::Released);
                if let Some(other) = self.ends.get_mut(&peer) {
                    other.peer = None;
                }
                Self::event(cx, peer, StreamEvent::TimeWait);
                cx.set_timer(peer.0, cx.now + Duration::from_secs(60));
            }
        }
    }
}

impl Block for Below {
    fn kind(&self) -> &'static Kind {
        &KIND
    }
    fn stream(&mut self, _: InPort, message: StreamMessage, cx: &mut Context<'_>) {
        match message {
            StreamMessage::Call { id, flow, op } => {
                cx.send(TCP, StreamMessage::Reply { id, flow, result: Ok(()) });
                match *op {
                    StreamCall::Connect { local, remote, .. } | StreamCall::ConnectWith { local, remote, .. } => {
                        self.connect(flow, local, remote, cx)
                    }
                    StreamCall::Listen { local, backlog, .. } => {
                        self.listeners.insert(flow, Listening { local, room: backlog + 1 });
                    }
                    StreamCall::Plain => {}
                    StreamCall::Took { connections } => {
                        if let Some(listening) = self.listeners.get_mut(&flow) {
                            listening.room += connections;
                        }
                    }
                    StreamCall::ShutdownWrite => {
                        if let Some(end) = self.ends.get_mut(&flow) {
                            end.fin_wanted = true;
                        }
                        self.pump(flow, cx);
                    }
                    StreamCall::Close { unread, linger } => {
                        if unread || linger == Some(Duration::ZERO) || self.listeners.contains_key(&flow) {
                            self.reset_peer(flow, cx);
                            return self.release(flow, cx);
                        }
                        match self.ends.get_mut(&flow) {
                            Some(end) if end.peer.is_some() => (end.closed, end.fin_wanted) = (true, true),
                            Some(_) => return,
                            None => return Self::event(cx, flow, StreamEvent::Released),
                        }
                        self.pump(flow, cx);
                    }
                    StreamCall::Abort => {
                        self.reset_peer(flow, cx);
                        self.release(flow, cx);
                    }
                    StreamCall::ShutdownRead | StreamCall::Set(_) => {}
                }
            }
            StreamMessage::Data { flow, bytes, flags, .. } => {
                if let Some(end) = self.ends.get_mut(&flow) {
                    end.pending.push_back((bytes, flags));
                }
                self.pump(flow, cx);
            }
            StreamMessage::Credit { flow, bytes, .. } => {
                let Some(end) = self.ends.get_mut(&flow) else { return };
                end.room += bytes as usize;
                if let Some(peer) = end.peer {
                    self.pump(peer, cx);
                }
            }
            StreamMessage::Reply { .. }
            | StreamMessage::Event { .. }
            | StreamMessage::Word { .. }
            | StreamMessage::Room { .. }
            | StreamMessage::Advice { .. }
            | StreamMessage::Short(_) => {}
        }
    }
    fn timer(&mut self, token: u64, cx: &mut Context<'_>) {
        self.release(FlowId(token), cx);
    }
    fn process(&mut self, port: InPort, vector: &mut Vector, _: &mut Context<'_>) {
        let unreachable = port == InPort(2);
        vector.each(|frame| {
            if unreachable {
                return Verdict::Forward(OutPort(2));
            }
            let meta = frame.meta().clone();
            let (IpAddr::V4(src), IpAddr::V4(dst)) = (meta.src, meta.dst) else { return Verdict::Drop(Reason::NoRoute) };
            let length = frame.len() + 28;
            let header = frame.push(28);
            header[0] = 0x45;
            header[2..4].copy_from_slice(&(length as u16).to_be_bytes());
            header[9] = 17;
            header[12..16].copy_from_slice(&src.octets());
            header[16..20].copy_from_slice(&dst.octets());
            header[20..22].copy_from_slice(&meta.src_port.to_be_bytes());
            header[22..24].copy_from_slice(&meta.dst_port.to_be_bytes());
            let at = frame.position();
            let _ = frame.pull(28);
            let meta = frame.meta_mut();
            meta.direction = Direction::Ingress;
            meta.network_at = at;
            meta.interface = InterfaceIndex::LOOPBACK;
            meta.ttl = if meta.ttl == 0 { 64 } else { meta.ttl };
            Verdict::Forward(OutPort(1))
        });
    }
    fn query(&self, query: &Query, _: Instant) -> Answer {
        let loopback = |ip: &IpAddr| matches!(ip, IpAddr::V4(ip) if ip.is_loopback());
        match query {
            Query::Route { destination, source, .. } if loopback(destination) => Answer::Route(RouteAnswer {
                kind: if *destination == IpAddr::V4(Ipv4Addr::new(127, 255, 255, 255)) { RouteKind::Broadcast } else { RouteKind::Local },
                interface: InterfaceIndex::LOOPBACK,
                source: source.unwrap_or(IpAddr::V4(Ipv4Addr::LOCALHOST)),
                next_hop: *destination,
                mtu: 65536,
                gso_max_bytes: 65536,
                several: false,
                generation: 1,
            }),
            Query::AddressKind(ip) => Answer::AddressKind(match ip {
                IpAddr::V4(ip) if ip.is_unspecified() => AddressKind::Unspecified,
                IpAddr::V4(ip) if ip.is_broadcast() || *ip == Ipv4Addr::new(127, 255, 255, 255) => AddressKind::Broadcast,
                IpAddr::V4(ip) if ip.is_loopback() => AddressKind::Local(InterfaceIndex::LOOPBACK),
                IpAddr::V4(ip) if ip.is_multicast() => AddressKind::Multicast,
                _ => AddressKind::Other,
            }),
            Query::Interface(InterfaceIndex(1)) => Answer::Interface(Box::new(lo())),
            Query::InterfaceNamed(name) if name == "lo" => Answer::Interface(Box::new(lo())),
            Query::FlowInfo(flow) => match self.ends.get(flow) {
                Some(end) => Answer::FlowInfo(Box::new(StreamInfo {
                    state: 1,
                    snd_mss: 65483,
                    send_queue_bytes: end.pending.iter().map(|(bytes, _)| bytes.len() as u32).sum(),
                    user_mss: u32::from(end.local.port() == 0),
                    ..StreamInfo::default()
                })),
                None => Answer::None,
            },
            // No cookie is ever known: a SYN can only ask for one.
            Query::FastOpen { .. } => Answer::FastOpen(Some(0)),
            Query::CongestionControls => Answer::CongestionControls(vec!["cubic".to_owned(), "reno".to_owned()]),
            _ => Answer::None,
        }
    }
    fn as_any_mut(&mut self) -> &mut dyn Any {
        self
    }
}

fn lo() -> Interface {
    Interface {
        index: InterfaceIndex::LOOPBACK,
        name: "lo".to_owned(),
        mac: [0; 6],
        mtu: 65536,
        up: true,
        carrier: true,
        link: LinkType::Loopback,
        group: 0,
        gso_max_bytes: 65536,
        checksum_offload: true,
        backend: String::new(),
    }
}
