//! What the sockets ask, and what they are told.

use super::listener::Listener;
use super::tables::Tuple;
use super::{FlowOwner, Owner, Slot, TcpBlock, UPPER, ask_path, canonical, first_hop};
use crate::congestion;
use crate::connection::{Connection, Path, Setup, Start};
use crate::extension::{self, Extension, Plain};
use crate::outbox::Env;
use std::collections::VecDeque;
use std::net::SocketAddr;
use weft_core::{
    Bytes, CallId, Context, FlowId, Instant, InterfaceIndex, State, StreamCall, StreamError, StreamEvent, StreamMessage, StreamOption,
    StreamOptions,
};

impl TcpBlock {
    pub(super) fn message_in(&mut self, message: StreamMessage, cx: &mut Context<'_>) {
        match message {
            StreamMessage::Data { flow, bytes, flags, mapping } => match self.flows.get(&flow).copied() {
                Some(FlowOwner::Connection(key)) => {
                    self.with_connection(key, cx, |connection, env| connection.send(env, bytes, flags, mapping));
                }
                Some(_) => {}
                None if self.released.contains(&flow) => {}
                // A connection of the block whose place this one has taken.
                None => {
                    cx.send(UPPER, StreamMessage::Event { flow, event: Box::new(StreamEvent::Failed(StreamError::Reset)) });
                    cx.send(UPPER, StreamMessage::Event { flow, event: Box::new(StreamEvent::Released) });
                }
            },
            StreamMessage::Credit { flow, bytes, .. } => {
                if let Some(FlowOwner::Connection(key)) = self.flows.get(&flow).copied() {
                    self.with_connection(key, cx, |connection, env| connection.on_credit(env, bytes));
                } else {
                    self.credit_left_behind(flow, bytes, cx);
                }
            }
            StreamMessage::Call { id, flow, op } => self.call(id, flow, *op, cx),
            StreamMessage::Word { flow, bytes } => self.word_in(flow, &bytes, cx),
            StreamMessage::Advice { flow, advice } => {
                if let Some(FlowOwner::Connection(key)) = self.flows.get(&flow).copied() {
                    self.with_connection(key, cx, |connection, _| connection.on_advice(&advice));
                }
            }
            // Nobody above sends these.
            StreamMessage::Reply { .. } | StreamMessage::Event { .. } | StreamMessage::Room { .. } | StreamMessage::Short(_) => {}
        }
    }

    /// A word for the extension of a flow. Of a flow that is gone it is too late.
    fn word_in(&mut self, flow: FlowId, word: &Bytes, cx: &mut Context<'_>) {
        match self.flows.get(&flow).copied() {
            Some(FlowOwner::Connection(key)) => {
                self.with_connection(key, cx, |connection, env| connection.on_word(env, word));
            }
            Some(FlowOwner::Listener(key)) => {
                let Some(listener) = self.listeners.get_mut(key) else { return };
                // It has no segments of its own that something could be said with.
                let _ = listener.extension.on_word(word);
                while let Some(bytes) = listener.extension.take_word() {
                    cx.send(UPPER, StreamMessage::Word { flow, bytes });
                }
            }
            Some(FlowOwner::TimeWait(_)) | None => {}
        }
    }

    /// The extension that a flow is opened with, by its state; the plain one without.
    fn extension_of(&self, state: Option<Box<State>>, now: Instant) -> Result<Box<dyn Extension>, StreamError> {
        let Some(state) = state else { return Ok(Box::new(Plain)) };
        let row = extension::row(self.extensions, &state).ok_or(StreamError::NoEntry)?;
        (row.make)(&state, now).map_err(|_| StreamError::Invalid)
    }

    fn call(&mut self, id: CallId, flow: FlowId, op: StreamCall, cx: &mut Context<'_>) {
        match op {
            StreamCall::Connect { local, remote, options, extension } => {
                self.open(id, flow, canonical(local), canonical(remote), *options, (None, extension), cx)
            }
            StreamCall::ConnectWith { local, remote, options, data, extension } => {
                self.open(id, flow, canonical(local), canonical(remote), *options, (Some(data), extension), cx)
            }
            StreamCall::Listen { local, dual_stack, backlog, options, extension } => {
                let extension = match self.extension_of(extension, cx.now) {
                    Ok(extension) => extension,
                    Err(error) => return self.refuse(id, flow, error, cx),
                };
                let listener = Listener {
                    flow,
                    local: canonical(local),
                    dual_stack,
                    backlog,
                    options: *options,
                    waiting: 0,
                    half_open: 0,
                    overflowed_at: None,
                    early: 0,
                    early_resets: VecDeque::new(),
                    extension,
                };
                self.listen(id, listener, cx);
            }
            op => match self.flows.get(&flow).copied() {
                Some(FlowOwner::Connection(key)) => self.call_connection(id, flow, key, op, cx),
                Some(FlowOwner::Listener(key)) => self.call_listener(id, flow, key, op, cx),
                // Nothing but TIME-WAIT is left, or nothing at all: closing is done already, anything else is too late.
                Some(FlowOwner::TimeWait(_)) | None => {
                    let result = match op {
                        StreamCall::Close { .. } | StreamCall::Abort | StreamCall::Took { .. } => Ok(()),
                        _ => Err(StreamError::NotConnected),
                    };
                    self.reply(id, flow, result, cx);
                }
            },
        }
    }

    fn reply(&mut self, id: CallId, flow: FlowId, result: Result<(), StreamError>, cx: &mut Context<'_>) {
        cx.send(UPPER, StreamMessage::Reply { id, flow, result });
    }

    /// Refuses a flow that was to be opened: nothing of it remains.
    fn refuse(&mut self, id: CallId, flow: FlowId, error: StreamError, cx: &mut Context<'_>) {
        self.reply(id, flow, Err(error), cx);
        self.tell_released(flow, cx);
    }

    #[allow(clippy::too_many_arguments)]
    fn open(
        &mut self,
        id: CallId,
        flow: FlowId,
        local: SocketAddr,
        remote: SocketAddr,
        options: StreamOptions,
        (data, extension): (Option<Bytes>, Option<Box<State>>),
        cx: &mut Context<'_>,
    ) {
        let tuple = Tuple { local, remote };
        if self.flows.contains_key(&flow) || local.is_ipv4() != remote.is_ipv4() {
            return self.reply(id, flow, Err(StreamError::Invalid), cx);
        }
        let above = match self.tuples.get(&tuple).copied() {
            None => None,
            Some(Owner::TimeWait(key)) => match self.reuse_time_wait(key, cx) {
                Some(initial) => Some(initial),
                None => return self.refuse(id, flow, StreamError::AddressInUse, cx),
            },
            Some(_) => return self.refuse(id, flow, StreamError::AddressInUse, cx),
        };
        if options.congestion.as_deref().is_some_and(|name| congestion::by_name(name).is_none()) {
            return self.refuse(id, flow, StreamError::NoEntry, cx);
        }
        if self.connections.len() >= self.settings.connections_max as usize {
            return self.refuse(id, flow, StreamError::NoBuffers, cx);
        }
        let path =
            match ask_path(&tuple, first_hop(&options, remote.is_ipv6()), InterfaceIndex(options.interface), &options, self.epoch, cx) {
                Ok(path) => Path { gso_max_bytes: if options.attached.is_none() { path.gso_max_bytes } else { 0 }, ..path },
                Err(error) => return self.refuse(id, flow, error, cx),
            };
        let extension = match self.extension_of(extension, cx.now) {
            Ok(extension) => extension,
            Err(error) => return self.refuse(id, flow, error, cx),
        };
        let start = data.map(|data| self.start_with(&tuple, data, options.fast_open_no_cookie, path.mtu, cx.now));
        let key = self.connections.next_key();
        let setup = Setup {
            flow,
            token: key,
            local,
            remote,
            options,
            path,
            initial: above.unwrap_or_else(|| self.secrets.sequence(&tuple, cx.now)),
            timestamp_offset: self.secrets.timestamp_offset(&tuple),
            extension,
            control_seed: self.rng.u64(),
        };
        self.reply(id, flow, Ok(()), cx);
        let mut env = Env { now: cx.now, config: &self.settings, out: &mut self.out };
        env.out.block = cx.me();
        let connection = match start {
            None => Connection::connect(&mut env, setup),
            Some(start) => Connection::connect_with(&mut env, setup, start),
        };
        self.connections.insert(Box::new(Slot::new(connection)));
        self.tuples.insert(tuple, Owner::Connection(key));
        self.flows.insert(flow, FlowOwner::Connection(key));
        self.settle(key, cx);
    }

    /// How an opening with data begins: as Fast Open lets it, or plainly, with the data behind the handshake.
    fn start_with(&self, tuple: &Tuple, data: Bytes, no_cookie: bool, mtu: u32, now: Instant) -> Start {
        let Some(room) = self.fast_open_room(tuple, no_cookie, mtu, now) else { return Start { data, ..Start::default() } };
        Start { option: self.fast_open_option(tuple, no_cookie, now), in_syn: room.min(data.len() as u32), data }
    }

    fn listen(&mut self, id: CallId, listener: Listener, cx: &mut Context<'_>) {
        let (flow, port) = (listener.flow, listener.local.port());
        if let Some(FlowOwner::Listener(key)) = self.flows.get(&flow).copied() {
            // listen(2) again: only the backlog changes. One that began before somebody stood between gets its extension now.
            if let Some(known) = self.listeners.get_mut(key) {
                known.backlog = listener.backlog;
                if known.extension.is_plain() {
                    known.extension = listener.extension;
                }
            }
            return self.reply(id, flow, Ok(()), cx);
        }
        if self.flows.contains_key(&flow) || port == 0 {
            return self.reply(id, flow, Err(StreamError::Invalid), cx);
        }
        let key = self.listeners.insert(listener);
        self.flows.insert(flow, FlowOwner::Listener(key));
        self.listening.entry(port).or_default().push(key);
        self.reply(id, flow, Ok(()), cx);
    }

    fn call_listener(&mut self, id: CallId, flow: FlowId, key: u64, op: StreamCall, cx: &mut Context<'_>) {
        let Some(listener) = self.listeners.get_mut(key) else { return };
        let result = match op {
            StreamCall::Took { connections } => {
                listener.waiting = listener.waiting.saturating_sub(connections);
                Ok(())
            }
            StreamCall::Set(option) => match &option {
                StreamOption::Congestion(Some(name)) if congestion::by_name(name).is_none() => Err(StreamError::NoEntry),
                _ => {
                    listener.options.apply(option);
                    Ok(())
                }
            },
            StreamCall::Close { .. } | StreamCall::Abort => {
                self.reply(id, flow, Ok(()), cx);
                return self.close_listener(key, cx);
            }
            _ => Err(StreamError::NotConnected),
        };
        self.reply(id, flow, result, cx);
    }

    fn call_connection(&mut self, id: CallId, flow: FlowId, key: u64, op: StreamCall, cx: &mut Context<'_>) {
        // The reply precedes what the call leads to: `Released` must stay last.
        let result = match &op {
            StreamCall::Set(StreamOption::Congestion(Some(name))) if congestion::by_name(name).is_none() => Err(StreamError::NoEntry),
            _ => Ok(()),
        };
        self.reply(id, flow, result, cx);
        if result.is_err() {
            return;
        }
        self.with_connection(key, cx, |connection, env| match op {
            StreamCall::ShutdownWrite => connection.shutdown_write(env),
            StreamCall::ShutdownRead => connection.shutdown_read(),
            StreamCall::Close { unread, linger } => connection.close(env, unread, linger),
            StreamCall::Abort => connection.abort(env),
            StreamCall::Plain => connection.make_plain(env),
            // Checked above: it cannot fail.
            StreamCall::Set(option) => drop(connection.set_option(env, option)),
            StreamCall::Took { .. } | StreamCall::Connect { .. } | StreamCall::ConnectWith { .. } | StreamCall::Listen { .. } => {}
        });
    }
}
