//! The block's state: all that it knows, under the keys that it is known by, so that its successor goes on in the middle of everything.
//!
//! Keys of connections are in completions of frames that are still below, and in timers: they stay. So do secrets, flows, the order in which
//! random numbers come, and counters: a node's statistics do not begin anew because a block was replaced. Maps are made anew from the tables.

use super::listener::{Listener, Request};
use super::record::Record;
use super::tables::{Kind as Token, token};
use super::{FlowOwner, KIND, Owner, Slot, TcpBlock};
use crate::config::Config;
use crate::connection::{STATE_WITHOUT_EXTENSIONS, read_extension, write_extension};
use crate::counters::{self, Counters};
use crate::extension::{self, Plain};
use crate::outbox::{Env, Outbox};
use std::collections::VecDeque;
use weft_core::map::Map;
use weft_core::state::{Damage, Field, Reader, State, StateError, Writer};
use weft_core::{Context, FlowId, Instant, Room};

impl Field for Slot {
    fn write(&self, out: &mut Writer) {
        let Slot { connection, timer, confirmed_until, memory, early_of, room } = self;
        out.put(connection);
        out.put(timer);
        out.put(confirmed_until);
        out.put(memory);
        out.put(early_of);
        out.put(room);
    }
    fn read(from: &mut Reader<'_>) -> Result<Slot, Damage> {
        Ok(Slot {
            connection: from.take()?,
            timer: from.take()?,
            confirmed_until: from.take()?,
            memory: from.take()?,
            early_of: from.take()?,
            room: read_room(from)?,
        })
    }
}

/// What the connection's room was told as last.
fn read_room(from: &mut Reader<'_>) -> Result<Option<Room>, Damage> {
    let version = from.version();
    if version <= STATE_WITHOUT_EXTENSIONS {
        return Ok(None);
    }
    // Who is told of room is a block of the same snapshot, which does not read what an earlier build wrote either.
    if version > STATE_WITHOUT_RATES {
        return from.take();
    }
    match from.take()? {
        false => Ok(None),
        true => Err(Damage::new("it has subflows, of a build before version 7")),
    }
}

/// The last version in which a connection's room is without the rate that paces it.
const STATE_WITHOUT_RATES: u32 = 6;

impl Field for Counters {
    fn write(&self, out: &mut Writer) {
        out.counters(counters::ROWS, &self.0);
    }
    fn read(from: &mut Reader<'_>) -> Result<Counters, Damage> {
        from.counters(counters::ROWS).map(Counters)
    }
}

impl TcpBlock {
    /// Everything, or what is in the way.
    pub(super) fn export_state(&self, now: Instant) -> Result<State, StateError> {
        let not_now = |why: String| Err(StateError::NotNow { kind: KIND.name.to_owned(), why });
        if let Some((_, slot)) = self.connections.iter().find(|(_, slot)| !slot.connection.is_exportable()) {
            return not_now(format!("flow {} is ending", slot.connection.flow().0));
        }
        let mut out = Writer::new(now);
        out.reserve(self.connections.len() * CONNECTION_BYTES_USUAL);
        out.put(&self.settings);
        out.put(&self.secrets);
        out.put(&self.rng);
        self.servers.write(&mut out);
        out.put(&self.fast_open_key);
        out.put(&self.out.counters);
        out.put(&self.out.challenge);
        out.put(&self.out.memory);
        out.put(&self.connections);
        out.put(&self.requests);
        out.put(&self.listeners);
        out.put(&self.listening);
        out.put(&self.time_waits);
        out.put(&self.ending);
        out.number(self.left_behind.len() as u64);
        for (flow, bytes) in &self.left_behind {
            out.put(flow);
            out.put(bytes);
        }
        out.put(&self.resets);
        out.put(&self.resets_held);
        out.put(&self.next_flow);
        out.put(&self.epoch);
        Ok(out.finish(KIND.name, KIND.state_version))
    }

    /// Everything that `old` holds is this block's; of the old one its counters stay.
    pub(super) fn move_state(&mut self, old: &mut TcpBlock) {
        std::mem::swap(self, old);
        std::mem::swap(&mut self.name, &mut old.name);
        std::mem::swap(&mut self.settings, &mut old.settings);
        std::mem::swap(&mut self.extensions, &mut old.extensions);
        old.out.counters = self.out.counters.clone();
        let before = self.resumed.take().is_some_and(|resumed| resumed.renewed);
        self.resumed = Some(super::Resumed { renewed: before || old.settings != self.settings });
    }

    /// A block as this one would be with that state.
    pub(super) fn import_state(&mut self, state: &State, now: Instant) -> Result<(), StateError> {
        *self = state.taken_since(&KIND, STATE_WITHOUT_EXTENSIONS, now, |from| self.read(from))?;
        Ok(())
    }

    fn read(&self, from: &mut Reader<'_>) -> Result<TcpBlock, Damage> {
        let settings: Config = from.take()?;
        let hasher = *self.tuples.hasher();
        let (secrets, rng) = (from.take()?, from.take()?);
        let servers = super::servers::Cache::read(from, hasher)?;
        let fast_open_key = from.take()?;
        let out = Outbox { counters: from.take()?, challenge: from.take()?, memory: from.take()?, ..Outbox::default() };
        let (connections, requests, listeners) = (from.take()?, from.take()?, from.take()?);
        let (listening, time_waits, ending) = (from.take()?, from.take()?, from.take()?);
        let mut left_behind: Map<FlowId, u64> = Map::with_hasher(hasher);
        for _ in 0..from.count(usize::MAX)? {
            left_behind.insert(from.take()?, from.take()?);
        }
        let mut block = TcpBlock {
            name: self.name.clone(),
            settings: self.settings.clone(),
            extensions: self.extensions,
            out,
            secrets,
            rng,
            servers,
            fast_open_key,
            tuples: Map::with_hasher(hasher),
            flows: Map::with_hasher(hasher),
            left_behind,
            released: VecDeque::new(),
            connections,
            requests,
            listeners,
            listening,
            time_waits,
            ending,
            resets: from.take()?,
            resets_held: from.take()?,
            next_flow: from.take()?,
            epoch: from.take()?,
            resumed: Some(super::Resumed { renewed: settings != self.settings }),
        };
        block.restore_extensions(from.now())?;
        block.make_maps()?;
        block.check_tables()?;
        Ok(block)
    }

    /// What was read as state of extensions becomes extensions.
    fn restore_extensions(&mut self, now: Instant) -> Result<(), Damage> {
        let rows = self.extensions;
        for slot in self.connections.values_mut() {
            slot.connection.restore_extension(rows, now)?;
        }
        for listener in self.listeners.values_mut().filter(|listener| !listener.extension.is_plain()) {
            listener.extension = extension::restored(rows, &*listener.extension, now)?;
        }
        for request in self.requests.values_mut() {
            request.extension = request.extension.take().map(|stored| extension::restored(rows, &*stored, now)).transpose()?;
        }
        Ok(())
    }

    /// What a segment and a message are found by.
    fn make_maps(&mut self) -> Result<(), Damage> {
        let twice = |what: &str| Damage::new(format_args!("two connections with one {what}"));
        self.tuples.reserve(self.connections.len() + self.requests.len() + self.time_waits.len());
        self.flows.reserve(self.connections.len() + self.listeners.len() + self.time_waits.len());
        let connections = self.connections.iter().map(|(key, slot)| (slot.tuple(), Owner::Connection(key)));
        let requests = self.requests.iter().map(|(key, request)| (request.tuple(), Owner::Request(key)));
        let waits = self.time_waits.iter().map(|(key, record)| (record.tuple(), Owner::TimeWait(key)));
        for (tuple, owner) in connections.chain(requests).chain(waits) {
            if self.tuples.insert(tuple, owner).is_some() {
                return Err(twice("pair of addresses"));
            }
        }
        let connections = self.connections.iter().map(|(key, slot)| (slot.connection.flow(), FlowOwner::Connection(key)));
        let listeners = self.listeners.iter().map(|(key, listener)| (listener.flow, FlowOwner::Listener(key)));
        let waits = self.time_waits.iter().map(|(key, record)| (record.flow(), FlowOwner::TimeWait(key)));
        for (flow, owner) in connections.chain(listeners).chain(waits) {
            if self.flows.insert(flow, owner).is_some() {
                return Err(twice("flow"));
            }
        }
        Ok(())
    }

    /// Do the tables name each other rightly?
    fn check_tables(&self) -> Result<(), Damage> {
        let half_open = |key: u64| self.requests.iter().filter(|(_, request)| request.listener == key).count();
        let early = |key: u64| self.connections.iter().filter(|(_, slot)| slot.early_of == Some(key)).count();
        let listed: usize = self.listening.values().map(Vec::len).sum();
        let is_listed = |key: u64, port: u16| self.listening.get(&port).is_some_and(|on_port| on_port.contains(&key));
        let rules = [
            (self.connections.iter().all(|(key, slot)| slot.connection.is_known_by(key)), "a connection under another key than its own"),
            (
                self.requests.iter().all(|(_, request)| self.listeners.get(request.listener).is_some()),
                "a half-open connection of no listener",
            ),
            (listed == self.listeners.len(), "a listener on no port, or on two"),
            (self.listeners.iter().all(|(key, listener)| is_listed(key, listener.local.port())), "a listener on another port than its own"),
            (
                self.listeners.len() > LISTENERS_COUNTED_MAX
                    || self.listeners.iter().all(|(key, l)| l.half_open as usize == half_open(key) && l.early as usize >= early(key)),
                "a listener that has counted wrongly",
            ),
            (self.time_waits.len() <= self.ending.len(), "a TIME-WAIT without end"),
        ];
        rules.into_iter().try_for_each(|(holds, why)| if holds { Ok(()) } else { Err(Damage::new(why)) })
    }

    /// The successor begins: timers are set as they were, and connections follow settings that are others.
    pub(super) fn resume(&mut self, cx: &mut Context<'_>) {
        let Some(super::Resumed { renewed }) = self.resumed.take() else { return };
        self.out.block = cx.me();
        for (key, slot) in self.connections.iter() {
            set(Token::Connection, key, slot.timer, cx);
        }
        for (key, request) in self.requests.iter() {
            set(Token::Request, key, request.timer(), cx);
        }
        if let Some((at, _)) = self.ending.front() {
            set(Token::TimeWaits, 0, *at, cx);
        }
        if !renewed {
            return;
        }
        for slot in self.connections.values_mut() {
            let mut env = Env { now: cx.now, config: &self.settings, out: &mut self.out };
            slot.connection.on_config(&mut env);
            slot.connection.follow_default_control(&mut env);
        }
        let told = self.out.memory.update(cx.now, 0, 0, &self.settings, &mut self.out.counters);
        self.out.messages.extend(told);
        self.flush(cx);
    }
}

/// What a connection takes in exported state, about: most take less.
const CONNECTION_BYTES_USUAL: usize = 768;
/// With more listeners than this their counts are believed: counting is quadratic.
const LISTENERS_COUNTED_MAX: usize = 64;

fn set(kind: Token, key: u64, at: Instant, cx: &mut Context<'_>) {
    if at != Instant::FAR_FUTURE {
        cx.set_timer(token(kind, key), at);
    }
}

impl Field for Listener {
    fn write(&self, out: &mut Writer) {
        let Listener { flow, local, dual_stack, backlog, options, waiting, half_open, overflowed_at, early, early_resets, extension } =
            self;
        out.put(flow);
        out.put(local);
        out.put(dual_stack);
        out.put(backlog);
        out.put(options);
        out.put(waiting);
        out.put(half_open);
        out.put(overflowed_at);
        out.put(early);
        out.put(early_resets);
        write_extension(Some(&**extension), out);
    }
    fn read(from: &mut Reader<'_>) -> Result<Listener, Damage> {
        Ok(Listener {
            flow: from.take()?,
            local: from.take()?,
            dual_stack: from.take()?,
            backlog: from.take()?,
            options: from.take()?,
            waiting: from.take()?,
            half_open: from.take()?,
            overflowed_at: from.take()?,
            early: from.take()?,
            early_resets: from.take()?,
            extension: read_extension(from)?.unwrap_or_else(|| Box::new(Plain)),
        })
    }
}

/// The clock of timestamps as it stands, as for a connection.
pub(super) fn write_stamp(offset: u32, out: &mut Writer) {
    out.put(&(out.now().as_millis() as u32).wrapping_add(offset));
}

/// The offset that makes it go on from there.
pub(super) fn read_stamp(from: &mut Reader<'_>) -> Result<u32, Damage> {
    let stamp: u32 = from.take()?;
    Ok(stamp.wrapping_sub(from.now().as_millis() as u32))
}

impl Field for Request {
    fn write(&self, out: &mut Writer) {
        let Request {
            tuple,
            listener,
            handshake,
            initial,
            timestamp_offset,
            path,
            deadline,
            timer,
            acknowledged,
            answered,
            extension,
            kept,
        } = self;
        out.put(tuple);
        out.put(listener);
        out.put(handshake);
        out.put(initial);
        write_stamp(*timestamp_offset, out);
        out.put(path);
        out.put(deadline);
        out.put(timer);
        out.put(acknowledged);
        out.put(answered);
        write_extension(extension.as_deref(), out);
        out.put(kept);
    }
    fn read(from: &mut Reader<'_>) -> Result<Request, Damage> {
        Ok(Request {
            tuple: from.take()?,
            listener: from.take()?,
            handshake: from.take()?,
            initial: from.take()?,
            timestamp_offset: read_stamp(from)?,
            path: from.take()?,
            deadline: from.take()?,
            timer: from.take()?,
            acknowledged: from.take()?,
            answered: from.take()?,
            extension: read_extension(from)?,
            kept: from.take()?,
        })
    }
}

impl Field for crate::connection::TimeWait {
    fn write(&self, out: &mut Writer) {
        let Self { send_next, receive_next, window, window_bytes, timestamp, timestamp_at, timestamp_offset, tos, ttl, mark } = self;
        out.put(&(*send_next, *receive_next));
        out.put(&(*window, *window_bytes));
        out.put(&(*timestamp, *timestamp_at));
        write_stamp(*timestamp_offset, out);
        out.put(&(*tos, *ttl, *mark));
    }
    fn read(from: &mut Reader<'_>) -> Result<Self, Damage> {
        let ((send_next, receive_next), (window, window_bytes), (timestamp, timestamp_at)) = (from.take()?, from.take()?, from.take()?);
        let timestamp_offset = read_stamp(from)?;
        let (tos, ttl, mark) = from.take()?;
        Ok(Self { send_next, receive_next, window, window_bytes, timestamp, timestamp_at, timestamp_offset, tos, ttl, mark })
    }
}

weft_core::fields!(struct Record { tuple, flow, wait, until, answered });

weft_core::fields!(struct Config {
    congestion, hystart, mss, sack, dsack, timestamps, window_scaling, ecn, keepalive_time, keepalive_interval, keepalive_probes, fin_timeout, time_wait,
    syn_retries, syn_linear_timeouts, synack_retries, retries1, retries2, orphan_retries, initial_window, receive_buffer, send_buffer, memory,
    tsq_bytes, pacing, unsent_low_water, syn_backlog, fastopen, mtu_probing, base_mss, mtu_probe_floor, syncookies, time_wait_max, connections_max,
    challenge_ack_limit, reset_limit, rto_min, rto_max, rto_initial, delayed_ack_min, delayed_ack_max, compressed_acks_max,
    compressed_ack_delay_max, slow_start_after_idle, moderate_receive_buffer, rfc1337, invalid_ratelimit, tail_loss_probe, reordering, mss_min,
    burst_segments_min, frto, pacing_slow_start_percent, pacing_avoidance_percent,
});

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn tables_that_do_not_fit_each_other_are_refused() {
        let parameters = KIND.parameters.iter().map(|row| (row.name.to_owned(), serde_json::from_str(row.default).unwrap()));
        let made = || {
            let given: indexmap::IndexMap<_, _> = parameters.clone().collect();
            let mut config = weft_core::parameter::complete("tcp", &KIND, &given, weft_core::Rng::for_name(1, "tcp")).unwrap();
            TcpBlock::new(&mut config).unwrap()
        };
        let (mut old, mut new) = (made(), made());
        let now = Instant::from_millis(5);
        let listener = Listener {
            flow: FlowId(7),
            local: "10.0.0.1:80".parse().unwrap(),
            dual_stack: false,
            backlog: 3,
            options: Default::default(),
            waiting: 1,
            half_open: 0,
            overflowed_at: Some(now),
            early: 0,
            early_resets: Default::default(),
            extension: Box::new(Plain),
        };
        let key = old.listeners.insert(listener);
        old.listening.insert(81, vec![key]);
        let refused = new.import_state(&old.export_state(now).unwrap(), now).unwrap_err();
        assert_eq!(refused.to_string(), "state of tcp is damaged: a listener on another port than its own");
        assert!(new.resumed.is_none() && new.listeners.is_empty(), "as before");
        old.listening = [(80, vec![key])].into();
        old.listeners.get_mut(key).unwrap().half_open = 1;
        let refused = new.import_state(&old.export_state(now).unwrap(), now).unwrap_err();
        assert_eq!(refused.to_string(), "state of tcp is damaged: a listener that has counted wrongly");
        old.listeners.get_mut(key).unwrap().half_open = 0;
        new.import_state(&old.export_state(now).unwrap(), now).unwrap();
        assert_eq!(new.export_state(now), old.export_state(now));
    }
}
