//! The stream transport's side: who holds which TCP port, every flow with the socket that it belongs to, and what Linux's `tcp_done` does when
//! they part.

use crate::counters;
use crate::errno::Errno;
use crate::outputs::TCP;
use crate::poll::Poll;
use crate::ports::{Hold, HoldId, How, Ports, Rules};
use crate::registry::Registry;
use crate::socket::{Phase, Shutdown, Socket, SocketId, TcpState};
use std::net::SocketAddr;
use weft_core::{
    Answer, CallId, Context, FlowId, Instant, KeyedHasher, Map, MultipathInfo, Query, Rng, StreamCall, StreamError, StreamInfo,
    StreamMessage, Table,
};

/// A flow that some socket opened, or whose socket is gone.
#[derive(Debug)]
pub(crate) struct Flow {
    pub owner: Option<SocketId>,
    /// The port, when the socket is gone.
    pub hold: Option<HoldId>,
    pub local: SocketAddr,
    pub remote: Option<SocketAddr>,
    /// Only TIME-WAIT is left, since then.
    pub time_wait: Option<Instant>,
}
weft_core::fields!(struct Flow { owner, hold, local, remote, time_wait });

/// Both addresses of a connection that begins, and what the path carries.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Ends {
    pub local: SocketAddr,
    pub remote: SocketAddr,
    pub mtu: u32,
}

/// What is known of streams beside the sockets themselves.
#[derive(Debug)]
pub(crate) struct Streams {
    pub ports: Ports,
    pub flows: Map<FlowId, Flow>,
    pub next_flow: u64,
    pub next_call: u64,
    /// TCP's connections hold as much memory as they may.
    pub short_of_memory: bool,
}

impl Streams {
    pub(crate) fn new(rng: &mut Rng) -> Streams {
        Streams {
            ports: Ports::new(Rules::Stream),
            flows: Map::with_hasher(KeyedHasher::new(rng)),
            // Flows of an earlier block of this kind are not taken for ours.
            next_flow: (u64::from(rng.u32()) & 0xf_ffff) << 32 | 1,
            next_call: 1,
            short_of_memory: false,
        }
    }

    /// The socket of a flow.
    pub(crate) fn owner(&self, flow: FlowId) -> Option<SocketId> {
        self.flows.get(&flow).and_then(|entry| entry.owner)
    }

    /// Sends a call down about a flow.
    pub(crate) fn call(&mut self, flow: FlowId, op: StreamCall, cx: &mut Context<'_>) {
        let id = CallId(self.next_call);
        self.next_call += 1;
        cx.send(TCP, StreamMessage::Call { id, flow, op: Box::new(op) });
    }

    /// A number for a new flow. Numbers that are not used up are no loss.
    pub(crate) fn new_flow(&mut self) -> FlowId {
        let flow = FlowId(self.next_flow);
        self.next_flow += 1;
        flow
    }

    /// Gives the port up.
    fn release(&mut self, sockets: &mut Registry, s: SocketId) {
        let Some(socket) = sockets.store.get_mut(s) else { return };
        socket.number = 0;
        if let Some(hold) = socket.hold.take() {
            self.ports.release(hold);
        }
    }

    /// Forgets a socket whose flow has been dealt with.
    pub(crate) fn remove(&mut self, sockets: &mut Registry, s: SocketId) {
        self.release(sockets, s);
        sockets.remove(s);
    }

    /// Lets go of the flow: whatever it still does concerns nobody. `keep_port`: the flow holds the port until it is released.
    pub(crate) fn abandon(&mut self, sockets: &mut Registry, s: SocketId, keep_port: bool) -> Option<FlowId> {
        let socket = sockets.store.get_mut(s)?;
        let flow = socket.stream_mut()?.flow.take()?;
        let hold = if keep_port { socket.hold.take() } else { None };
        let unused = match self.flows.get_mut(&flow) {
            Some(entry) => {
                entry.owner = None;
                // In TIME-WAIT it has a hold already (see `done`).
                if entry.hold.is_none() { std::mem::replace(&mut entry.hold, hold) } else { hold }
            }
            None => hold,
        };
        if let Some(hold) = unused {
            self.ports.release(hold);
        }
        Some(flow)
    }

    /// `tcp_set_state(sk, TCP_CLOSE)`: "if (inet_csk(sk)->icsk_bind_hash && !(sk->sk_userlocks & SOCK_BINDPORT_LOCK)) inet_put_port(sk);"
    pub(crate) fn enter_close(&mut self, sockets: &mut Registry, s: SocketId) {
        let Some(socket) = sockets.store.get_mut(s) else { return };
        if let Some(stream) = socket.stream_mut() {
            stream.state = TcpState::Close;
        }
        let (locked, hold) = (socket.port_locked, socket.hold);
        if !locked {
            self.release(sockets, s);
        } else if let Some(hold) = hold {
            self.ports.update(hold, |held| {
                held.listening = false;
                held.remote = None;
            });
        }
    }

    /// `tcp_done`: the connection is over for the program. While the flow lives on in TIME-WAIT it holds the port in the socket's place.
    pub(crate) fn done(&mut self, sockets: &mut Registry, s: SocketId) {
        let flow = sockets.store.get(s).and_then(|socket| socket.stream()?.flow);
        if let Some(socket) = sockets.store.get(s).filter(|socket| socket.hold.is_some())
            && let Some(entry) = flow.and_then(|flow| self.flows.get_mut(&flow)).filter(|entry| entry.hold.is_none())
        {
            // The flow's own hold; the socket keeps its hold if the program bound it, as the kernel's two owners of one bind bucket do.
            let twin = Hold {
                address: entry.local.ip(),
                v6_only: socket.options.v6_only,
                owner: socket.owner,
                interface: socket.options.interface,
                reuse_address: socket.options.reuse_address,
                reuse_port: socket.options.reuse_port,
                listening: false,
                remote: entry.remote,
                how: if socket.port_locked { How::Bind } else { How::Connect },
                time_wait: entry.time_wait,
            };
            entry.hold = Some(self.ports.hold(entry.local.port(), twin));
        }
        self.enter_close(sockets, s);
        if let Some(socket) = sockets.store.get_mut(s) {
            socket.shutdown = Shutdown::BOTH;
        }
        sockets.touch(s, Poll::ALL);
    }

    /// `tcp_reset` and `tcp_write_err`: the error is told once, received data stays to be read.
    pub(crate) fn fail(&mut self, sockets: &mut Registry, s: SocketId, error: StreamError) {
        let Some(socket) = sockets.store.get_mut(s) else { return };
        let Some(stream) = socket.stream_mut() else { return };
        let soft = stream.soft_error.take();
        if stream.state == TcpState::Close {
            return;
        }
        // tcp_write_err: "WRITE_ONCE(sk->sk_err, READ_ONCE(sk->sk_err_soft) ? : ETIMEDOUT);"
        let error = match (error, soft) {
            (StreamError::TimedOut, Some(soft)) => soft,
            _ => Errno::from(error),
        };
        self.fail_with(sockets, s, error);
    }

    /// `tcp_done_with_error`.
    pub(crate) fn fail_with(&mut self, sockets: &mut Registry, s: SocketId, error: Errno) {
        let Some(socket) = sockets.store.get_mut(s) else { return };
        socket.error = Some(error);
        sockets.count(counters::CONNECTIONS_FAILED);
        self.done(sockets, s);
    }

    /// The transport has forgotten the flow.
    pub(crate) fn released(&mut self, sockets: &mut Registry, flow: FlowId) {
        if let Some(s) = self.owner(flow)
            && let Some(stream) = sockets.store.get_mut(s).and_then(|socket| socket.stream_mut())
        {
            stream.flow = None;
            stream.left = Some(flow).filter(|_| stream.unread() > 0);
            let over = !matches!(stream.state, TcpState::Close);
            if over {
                self.done(sockets, s);
            }
        }
        if let Some(hold) = self.flows.swap_remove(&flow).and_then(|entry| entry.hold) {
            self.ports.release(hold);
        }
    }

    /// `tcp_shutdown`: a FIN goes out, where one may.
    pub(crate) fn shut_down(&mut self, sockets: &mut Registry, s: SocketId, how: Shutdown, state: TcpState, cx: &mut Context<'_>) {
        let Some(stream) = sockets.store.get_mut(s).and_then(|socket| socket.stream_mut()) else { return };
        let Some(flow) = stream.flow else { return };
        // tcp_close_state: a FIN goes out only from ESTABLISHED and CLOSE_WAIT.
        let after = match state {
            TcpState::Established => Some(TcpState::FinWait),
            TcpState::CloseWait => Some(TcpState::Closing),
            _ => None,
        };
        if how.send
            && let Some(after) = after
        {
            stream.state = after;
            self.call(flow, StreamCall::ShutdownWrite, cx);
        }
    }

    /// TCP has as much memory as it may, or some again: then those who found none may go on.
    pub(crate) fn memory_is_short(&mut self, sockets: &mut Registry, short: bool) {
        if short {
            sockets.count(counters::STREAM_MEMORY_SHORT);
        }
        self.short_of_memory = short;
        let refused = |(id, socket): (SocketId, &Socket)| socket.stream().is_some_and(|stream| stream.refused).then_some(id);
        let waiting: Vec<SocketId> = if short { Vec::new() } else { sockets.store.iter().filter_map(refused).collect() };
        for s in waiting {
            if let Some(stream) = sockets.store.get_mut(s).and_then(|socket| socket.stream_mut()) {
                stream.refused = false;
            }
            sockets.touch(s, Poll::WAKES_WRITERS);
        }
    }
}

/// `sock->state` of a stream.
pub(crate) fn set_phase(sockets: &mut Registry, s: SocketId, phase: Phase) {
    if let Some(stream) = sockets.store.get_mut(s).and_then(|socket| socket.stream_mut()) {
        stream.phase = phase;
    }
}

/// What the transport knows of the flow; zeros and the state's number where there is none.
pub(crate) fn info(socket: &Socket, cx: &Context<'_>) -> StreamInfo {
    let Some(stream) = socket.stream() else { return StreamInfo::default() };
    if stream.state == TcpState::Listen {
        // tcp_get_info: "tcpi_unacked = sk_ack_backlog; tcpi_sacked = sk_max_ack_backlog" for listeners.
        let (waiting, backlog) = (stream.accept_queue.len() as u32, stream.backlog);
        let (pacing_rate, max_pacing_rate) = (stream.transport.pacing_rate_max, stream.transport.pacing_rate_max);
        let (snd_cwnd, reordering) = (INITIAL_WINDOW, REORDERING);
        return StreamInfo {
            state: 10,
            unacked: waiting,
            sacked: backlog,
            pacing_rate,
            max_pacing_rate,
            snd_cwnd,
            reordering,
            ..StreamInfo::default()
        };
    }
    let answer = match stream.flow {
        Some(flow) if stream.state != TcpState::Close => cx.ask(Table::Flows, &Query::FlowInfo(flow)),
        _ => Answer::None,
    };
    match answer {
        Answer::FlowInfo(info) => *info,
        _ => unopened(stream.transport.pacing_rate_max, cx.now),
    }
}

/// What tcp_init_sock leaves: "icsk->icsk_rto = TCP_TIMEOUT_INIT; …; tp->mdev_us = jiffies_to_usecs(TCP_TIMEOUT_INIT); minmax_reset(&tp->rtt_min,
/// tcp_jiffies32, ~0U); … tp->app_limited = ~0U; tp->rate_app_limited = 1; … tp->snd_ssthresh = TCP_INFINITE_SSTHRESH; tp->mss_cache = TCP_MSS_DEFAULT; tp->reordering
/// = …". Nothing was ever sent or received: those times began with the clock.
fn unopened(pacing_rate_max: u64, now: Instant) -> StreamInfo {
    let since_ever = u32::try_from((now - Instant::ZERO).as_millis()).unwrap_or(u32::MAX);
    StreamInfo {
        // TCP_CLOSE (linux/include/net/tcp_states.h).
        state: 7,
        delivery_rate_app_limited: true,
        rto_us: 1_000_000,
        rttvar_us: 250_000,
        snd_mss: 536,
        snd_ssthresh: 0x7fff_ffff,
        snd_cwnd: INITIAL_WINDOW,
        reordering: REORDERING,
        last_data_sent_ms: since_ever,
        last_data_recv_ms: since_ever,
        last_ack_recv_ms: since_ever,
        // SO_MAX_PACING_RATE: "sk->sk_pacing_rate = min(sk->sk_pacing_rate, ulval);", which begins without a limit.
        pacing_rate: pacing_rate_max,
        max_pacing_rate: pacing_rate_max,
        min_rtt_us: u32::MAX,
        ..StreamInfo::default()
    }
}

/// The socket's connection over several flows, if it is one.
pub(crate) fn multipath(socket: &Socket, cx: &Context<'_>) -> Option<Box<MultipathInfo>> {
    let flow = socket.stream()?.flow?;
    match cx.ask(Table::Multipath, &Query::Connection(flow)) {
        Answer::Connection(info) if !info.listens => Some(info),
        _ => None,
    }
}

/// What the transport knows of a flow, if it has it.
pub(crate) fn told(flow: FlowId, cx: &Context<'_>) -> Option<StreamInfo> {
    match cx.ask(Table::Flows, &Query::FlowInfo(flow)) {
        Answer::FlowInfo(info) => Some(*info),
        _ => None,
    }
}

/// Bytes that were written and the peer has not acknowledged, and of these those that have not left.
pub(crate) fn unsent(socket: &Socket, cx: &Context<'_>) -> (u32, u32) {
    match multipath(socket, cx) {
        Some(connection) => {
            let (all, unsent) = (connection.unacknowledged_bytes(), connection.unsent_bytes());
            // mptcp_ioctl_outq: "if (__mptcp_check_fallback(msk) && msk->first) { …; delta += READ_ONCE(tp->write_seq) - tp->snd_una; }"
            let below = if connection.fallen_back { info(socket, cx).send_queue_bytes } else { 0 };
            (all.saturating_add(below), unsent)
        }
        None => {
            let info = info(socket, cx);
            (info.send_queue_bytes, info.notsent_bytes)
        }
    }
}

/// TCP_INIT_CWND and net.ipv4.tcp_reordering.
const INITIAL_WINDOW: u32 = 10;
const REORDERING: u32 = 3;
