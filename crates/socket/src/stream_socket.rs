//! Calls on stream sockets: listen, accept, shutdown, send, close, ioctl. (connect is in `connection`, receive in `stream_receive`.)

use crate::abi::*;
use crate::errno::Errno;
use crate::face::Sockets;
use crate::holds;
use crate::outputs::TCP;
use crate::ports::How;
use crate::sending::Sending;
use crate::socket::{Phase, Shutdown, SocketId, TcpState};
use crate::streams::Flow;
use weft_core::stream::SHORT_QUEUE_BYTES_MAX;
use weft_core::{Answer, Context, DataFlags, Query, StreamCall, StreamInfo, StreamMessage, Table};

impl Sockets {
    pub(crate) fn listen_stream(&mut self, s: SocketId, backlog: i32, cx: &mut Context<'_>) -> Result<(), Errno> {
        let stream = self.get(s)?.stream().ok_or(Errno::EOPNOTSUPP)?;
        // __inet_listen_sk: "if (sock->state != SS_UNCONNECTED …) return -EINVAL; if (!((1 << old_state) & (TCPF_CLOSE | TCPF_LISTEN))) …"
        if stream.phase != Phase::Unconnected || !matches!(stream.state, TcpState::Close | TcpState::Listen) {
            return Err(Errno::EINVAL);
        }
        // __sys_listen: "if ((unsigned int)backlog > somaxconn) backlog = somaxconn;"
        let backlog = (backlog as u32).min(self.registry.limits.backlog_max);
        let again = stream.state == TcpState::Listen;
        if !again {
            self.check_listen(s, cx)?;
        }
        let fresh = self.new_flow();
        let socket = self.get_mut(s)?;
        let local = socket.local;
        let Some(stream) = socket.stream_mut() else { return Err(Errno::EOPNOTSUPP) };
        stream.backlog = backlog;
        stream.state = TcpState::Listen;
        let flow = match stream.flow {
            Some(flow) if again => flow,
            _ => {
                stream.flow = Some(fresh);
                fresh
            }
        };
        if flow == fresh {
            self.streams.flows.insert(flow, Flow { owner: Some(s), hold: None, local, remote: None, time_wait: None });
        }
        self.streams.unheard |= !cx.has_owner(Table::Flows) || !cx.is_bound(TCP);
        if let Some(call) = self.listen_call(s) {
            self.call(flow, call, cx);
        }
        self.touch(s);
        Ok(())
    }

    /// `inet_csk_listen_start`: the port is asked for once more, now as a listener.
    fn check_listen(&mut self, s: SocketId, cx: &mut Context<'_>) -> Result<(), Errno> {
        if self.get(s)?.number == 0 {
            let ephemeral = self.registry.limits.ephemeral;
            let socket = self.registry.get_mut(s)?;
            let address = std::net::SocketAddr::new(socket.local.ip(), 0);
            holds::take(socket, &mut self.streams.ports, address, ephemeral, cx.rng)?;
            socket.local.set_port(socket.number);
        }
        let socket = self.get(s)?;
        let mut hold = holds::of(socket, socket.local.ip(), How::Bind);
        hold.listening = true;
        let id = socket.hold.ok_or(Errno::EADDRINUSE)?;
        self.streams.ports.check(id, &hold)?;
        self.streams.ports.update(id, |held| *held = hold);
        Ok(())
    }

    pub(crate) fn accept_stream(&mut self, s: SocketId, cx: &mut Context<'_>) -> Result<SocketId, Errno> {
        let stream = self.get_mut(s)?.stream_mut().ok_or(Errno::EOPNOTSUPP)?;
        if stream.state != TcpState::Listen {
            return Err(Errno::EINVAL);
        }
        let child = stream.accept_queue.pop_front().ok_or(Errno::EAGAIN)?;
        let flow = stream.flow;
        if let Some(stream) = self.registry.store.get_mut(child).and_then(|socket| socket.stream_mut()) {
            stream.parent = None;
            stream.phase = Phase::Connected;
        }
        if let Some(flow) = flow {
            self.call(flow, StreamCall::Took { connections: 1 }, cx);
        }
        self.count(crate::counters::ACCEPTS);
        self.touch(s);
        self.touch(child);
        Ok(child)
    }

    /// `inet_csk_listen_stop`: ends the listener; connections that nobody accepted are reset.
    pub(crate) fn stop_listening(&mut self, s: SocketId, cx: &mut Context<'_>) {
        let Some(stream) = self.registry.store.get_mut(s).and_then(|socket| socket.stream_mut()) else { return };
        let waiting = std::mem::take(&mut stream.accept_queue);
        if let Some(flow) = self.abandon_flow(s, false) {
            self.call(flow, StreamCall::Close { unread: false, linger: None }, cx);
        }
        for child in waiting {
            self.forget_unread(child, cx);
            if let Some(flow) = self.abandon_flow(child, true) {
                self.call(flow, StreamCall::Abort, cx);
            }
            self.remove(child);
        }
    }

    /// Forgets a socket whose flow has been dealt with.
    pub(crate) fn remove(&mut self, s: SocketId) {
        self.release_port(s);
        self.registry.remove(s);
    }

    /// `inet_shutdown` and `tcp_shutdown`.
    pub(crate) fn shutdown_stream(&mut self, s: SocketId, how: Shutdown, cx: &mut Context<'_>) -> Result<(), Errno> {
        let stream = self.get(s)?.stream().ok_or(Errno::EINVAL)?;
        let state = stream.state;
        if stream.phase == Phase::Connecting {
            let early = matches!(state, TcpState::SynSent | TcpState::Close);
            self.set_phase(s, if early { Phase::Disconnecting } else { Phase::Connected });
        }
        let result = match state {
            TcpState::Listen if !how.receive => Ok(()),
            TcpState::Listen | TcpState::SynSent => {
                self.disconnect(s, cx);
                self.set_phase(s, Phase::Unconnected);
                Ok(())
            }
            _ => {
                let socket = self.get_mut(s)?;
                let before = socket.shutdown;
                socket.shutdown = Shutdown { receive: before.receive | how.receive, send: before.send | how.send };
                self.shutdown_flow(s, how, state, cx);
                if state == TcpState::Close { Err(Errno::ENOTCONN) } else { Ok(()) }
            }
        };
        self.touch(s);
        result
    }

    pub(crate) fn shutdown_flow(&mut self, s: SocketId, how: Shutdown, state: TcpState, cx: &mut Context<'_>) {
        let Some(stream) = self.registry.store.get_mut(s).and_then(|socket| socket.stream_mut()) else { return };
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

    /// `tcp_sendmsg_locked`, with the order of its checks.
    pub(crate) fn send_stream(&mut self, s: SocketId, sending: Sending<'_>, cx: &mut Context<'_>) -> Result<usize, Errno> {
        let Sending { data, flags, to, control } = sending;
        if flags & MSG_FASTOPEN != 0
            && let Some(taken) = self.send_fast_open(s, &data, to, cx)?
        {
            return Ok(taken);
        }
        if self.get(s)?.stream().is_some_and(|stream| stream.deferred) {
            return self.send_deferred(s, &data, cx);
        }
        let socket = self.get_mut(s)?;
        let Some(stream) = socket.stream() else { return Err(Errno::EPIPE) };
        let open = matches!(stream.state, TcpState::Established | TcpState::CloseWait);
        if !open {
            // sk_stream_wait_connect
            if let Some(error) = socket.take_error() {
                return Err(error);
            }
            let connecting = socket.stream().is_some_and(|stream| stream.state == TcpState::SynSent);
            return Err(if connecting { Errno::EAGAIN } else { Errno::EPIPE });
        }
        crate::cmsg::check_stream(control)?;
        if socket.error.is_some() || socket.shutdown.send {
            return Err(socket.take_error().unwrap_or(Errno::EPIPE));
        }
        if data.is_empty() {
            return Ok(0);
        }
        let Some(stream) = socket.stream() else { return Err(Errno::EPIPE) };
        let (Some(flow), credit) = (stream.flow, stream.credit) else { return Err(Errno::EPIPE) };
        let taken = data.len().min(credit).min(self.room_while_short(s, cx));
        let Some(stream) = self.get_mut(s)?.stream_mut() else { return Err(Errno::EPIPE) };
        if taken == 0 {
            stream.refused = credit > 0;
            return Err(Errno::EAGAIN);
        }
        stream.credit -= taken;
        let whole = taken == data.len();
        let flags = DataFlags { more: flags & MSG_MORE != 0 && whole, urgent: flags & MSG_OOB != 0 && whole };
        cx.send(TCP, StreamMessage::Data { flow, bytes: data.slice(..taken), flags });
        Ok(taken)
    }

    /// What may be added to a stream's send queue as far as the memory of all streams is concerned (sk_stream_alloc_skb).
    fn room_while_short(&self, s: SocketId, cx: &Context<'_>) -> usize {
        match self.streams.short_of_memory {
            false => usize::MAX,
            true => SHORT_QUEUE_BYTES_MAX.saturating_sub(self.flow_info(s, cx).send_queue_bytes) as usize,
        }
    }

    /// What the transport knows of the flow; zeros and the state's number where there is none.
    pub(crate) fn flow_info(&self, s: SocketId, cx: &Context<'_>) -> StreamInfo {
        let Some(stream) = self.registry.store.get(s).and_then(|socket| socket.stream()) else { return StreamInfo::default() };
        if stream.state == TcpState::Listen {
            // tcp_get_info: "tcpi_unacked = sk_ack_backlog; tcpi_sacked = sk_max_ack_backlog" for listeners.
            let (waiting, backlog) = (stream.accept_queue.len() as u32, stream.backlog);
            return StreamInfo { state: 10, unacked: waiting, sacked: backlog, pacing_rate: 0, ..StreamInfo::default() };
        }
        let answer = match stream.flow {
            Some(flow) if stream.state != TcpState::Close => cx.ask(Table::Flows, &Query::FlowInfo(flow)),
            _ => Answer::None,
        };
        match answer {
            Answer::FlowInfo(info) => *info,
            // TCP_CLOSE is 7 (linux/include/net/tcp_states.h).
            _ => StreamInfo { state: 7, ..StreamInfo::default() },
        }
    }

    /// `tcp_ioctl`.
    pub(crate) fn ioctl_stream(&mut self, s: SocketId, request: u64, cx: &mut Context<'_>) -> Result<usize, Errno> {
        let socket = self.get(s)?;
        let Some(stream) = socket.stream() else { return Err(Errno::ENOTTY) };
        let listening = stream.state == TcpState::Listen;
        match request {
            FIONREAD if listening => Err(Errno::EINVAL),
            FIONREAD => Ok(self.inquire(s)),
            SIOCATMARK => Ok(usize::from(stream.urgent.is_some_and(|urgent| urgent.at == stream.copied))),
            SIOCOUTQ | SIOCOUTQNSD if listening => Err(Errno::EINVAL),
            SIOCOUTQ => Ok(self.flow_info(s, cx).send_queue_bytes as usize),
            SIOCOUTQNSD => Ok(self.flow_info(s, cx).notsent_bytes as usize),
            _ => Err(Errno::ENOTTY),
        }
    }

    /// `__tcp_close`.
    pub(crate) fn close_stream(&mut self, s: SocketId, cx: &mut Context<'_>) {
        let Some(socket) = self.registry.store.get(s) else { return };
        let linger = socket.options.linger;
        let Some(stream) = socket.stream() else { return };
        let unread = stream.unread() > 0;
        let state = stream.state;
        self.forget_unread(s, cx);
        match state {
            TcpState::Listen => self.stop_listening(s, cx),
            TcpState::Close => {
                // Nothing is left but, perhaps, TIME-WAIT, which has a hold of its own.
                self.abandon_flow(s, false);
            }
            _ => {
                if let Some(flow) = self.abandon_flow(s, true) {
                    self.call(flow, StreamCall::Close { unread, linger }, cx);
                }
            }
        }
        self.remove(s);
    }
}
