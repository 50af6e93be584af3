//! The sockets block: what the engine calls, and the table that `ss` shows. What it declares is in `kind`.

use crate::datagram_input;
use crate::face::Sockets;
use crate::icmp_errors;
use crate::kind::KIND;
use crate::limits::{Buffer, Limits};
use crate::listener;
use crate::listing;
use crate::outgoing;
use crate::packet_socket;
use crate::ports::Reuse;
use crate::socket::SocketId;
use crate::state;
use crate::stream_events;
use crate::transport;
use std::any::Any;
use std::time::Duration;
use weft_core::block::{BlockRow, Config, InPort, Kind};
use weft_core::vector::VECTOR_FRAMES_MAX;
use weft_core::{
    Answer, Block, Context, ControlError, Instant, Query, Reason, State, StateError, StreamMessage, Table, Value, Vector, Verdict,
};

const TCP_IN: InPort = InPort(0);
const UDP_IN: InPort = InPort(1);
const ERROR_IN: InPort = InPort(2);
const RAW_IN: InPort = InPort(3);
const ICMP_IN: InPort = InPort(4);
const FRAMES_IN: InPort = InPort(5);

/// How to make one.
pub const ROW: BlockRow = BlockRow { kind: &KIND, make };

fn make(config: &mut Config) -> Result<Box<dyn Block>, ControlError> {
    let port = |name: &str| u16::try_from(config.u64(name)).unwrap_or(u16::MAX);
    let limits = Limits {
        sockets_max: config.u64("sockets_max") as usize,
        backlog_max: config.u64("backlog_max") as u32,
        send_buffer: Buffer { default: config.u64("wmem_default") as u32, max: config.u64("wmem_max") as u32 },
        receive_buffer: Buffer { default: config.u64("rmem_default") as u32, max: config.u64("rmem_max") as u32 },
        datagram_bytes_max: config.u64("datagram_bytes_max") as usize,
        ephemeral: (port("ephemeral_first"), port("ephemeral_last")),
        reuse: Reuse { whose: config.u64("tw_reuse") as u8, delay: config.duration("tw_reuse_delay") },
        boot_time_nanos: config.u64("boot_time"),
    };
    if limits.ephemeral.0 > limits.ephemeral.1 {
        return Err(config.bad("ephemeral_first", "must not be above ephemeral_last"));
    }
    Ok(Box::new(Sockets::new(limits, &mut config.rng)))
}

impl Block for Sockets {
    fn kind(&self) -> &'static Kind {
        &KIND
    }

    fn give_back_memory(&mut self) {
        self.registry.store.give_back_memory();
        self.streams.flows.shrink_to_fit();
        self.registry.changed.shrink_to_fit();
    }

    fn process(&mut self, port: InPort, vector: &mut Vector, cx: &mut Context<'_>) {
        // A large frame that was cut may fill more than one vector.
        self.messages.datagrams.begin_vector(vector.len() >= VECTOR_FRAMES_MAX);
        vector.set_all(Verdict::Drop(Reason::Refused));
        for index in 0..vector.len() {
            let Some(frame) = vector.take(index) else { continue };
            match port {
                UDP_IN => datagram_input::input(&self.messages, &self.groups, &mut self.registry, frame, cx),
                ERROR_IN => icmp_errors::input(&self.messages, &mut self.registry, frame, cx),
                RAW_IN => self.messages.raw.input(&mut self.registry, frame, cx),
                ICMP_IN => self.messages.pings.input(&mut self.registry, frame, cx),
                FRAMES_IN => self.messages.packets.input(&mut self.registry, frame, cx),
                _ => cx.drop(frame, Reason::Refused),
            }
        }
    }

    fn stream(&mut self, port: InPort, message: StreamMessage, cx: &mut Context<'_>) {
        if port == TCP_IN {
            stream_events::message(&mut self.streams, &mut self.registry, message, cx);
        }
    }

    fn timer(&mut self, token: u64, cx: &mut Context<'_>) {
        packet_socket::expire(&mut self.registry, SocketId::from_number(token), cx);
    }

    fn completed(&mut self, token: u64, bytes: u32, cx: &mut Context<'_>) {
        let _ = cx;
        outgoing::left(&mut self.registry, token, bytes);
    }

    fn went_back(&mut self, _cx: &mut Context<'_>) {
        let ids: Vec<SocketId> = self.registry.store.iter().map(|(id, _)| id).collect();
        ids.into_iter().for_each(|id| outgoing::left(&mut self.registry, id.number(), u32::MAX));
    }

    fn export(&self, now: Instant) -> Result<State, StateError> {
        // The memory of a ring is a program's, too, which would go on looking at the old one.
        if self.has_rings() {
            return Err(StateError::NotNow { kind: KIND.name.to_owned(), why: "a packet socket has a ring".to_owned() });
        }
        Ok(state::export(self, now))
    }

    fn import(&mut self, state: &State, now: Instant) -> Result<(), StateError> {
        state::import(self, state, now)
    }

    fn started(&mut self, cx: &mut Context<'_>) {
        self.messages.raw.tell(cx);
        self.messages.packets.tell(cx);
        self.groups.tell_all(&self.registry, cx);
        listener::tell_all(&self.registry, cx);
    }

    fn owner_lost(&mut self, table: Table, cx: &mut Context<'_>) {
        if table == Table::Flows {
            transport::lost(&mut self.streams, &mut self.registry, cx);
        }
    }

    fn table_changed(&mut self, table: Table, cx: &mut Context<'_>) {
        match table {
            Table::Addresses(_) => self.registry.kinds.forget(),
            Table::Interfaces => self.messages.packets.interfaces_changed(&mut self.registry, cx),
            _ => {}
        }
    }

    fn query(&self, query: &Query, now: Instant) -> Answer {
        let _ = now;
        match query {
            Query::List(Table::Sockets) => Answer::List(listing::rows(&self.registry, &self.streams)),
            Query::SocketDetails => Answer::List(listing::rows_with_details(&self.registry, &self.streams)),
            _ => Answer::None,
        }
    }

    fn get(&self, name: &str, now: Instant) -> Option<Value> {
        let _ = now;
        Some(match name {
            "sockets_max" => self.registry.limits.sockets_max.into(),
            "backlog_max" => self.registry.limits.backlog_max.into(),
            "rmem_max" => self.registry.limits.receive_buffer.max.into(),
            "rmem_default" => self.registry.limits.receive_buffer.default.into(),
            "wmem_max" => self.registry.limits.send_buffer.max.into(),
            "wmem_default" => self.registry.limits.send_buffer.default.into(),
            "tw_reuse" => self.registry.limits.reuse.whose.into(),
            "tw_reuse_delay" => (self.registry.limits.reuse.delay.as_nanos() as u64).into(),
            "datagram_bytes_max" => self.registry.limits.datagram_bytes_max.into(),
            "ephemeral_first" => self.registry.limits.ephemeral.0.into(),
            "ephemeral_last" => self.registry.limits.ephemeral.1.into(),
            "boot_time" => self.registry.limits.boot_time_nanos.into(),
            "sockets" => self.registry.store.len().into(),
            "flows" => self.streams.flows.len().into(),
            "ports" => {
                let others =
                    self.messages.raw.by_protocol.values().chain(self.messages.pings.by_ident.values()).map(Vec::len).sum::<usize>();
                (self.streams.ports.len() + self.messages.datagrams.ports.len() + self.messages.lite.ports.len() + others).into()
            }
            "memberships" => self.groups.members.len().into(),
            _ => return None,
        })
    }

    fn check(&self, name: &str, value: &Value) -> Result<(), ControlError> {
        let number = value.as_u64().unwrap_or(0);
        let (first, last) = self.registry.limits.ephemeral;
        let bad = match name {
            "ephemeral_first" => number > u64::from(last),
            "ephemeral_last" => number < u64::from(first),
            _ => false,
        };
        let why = "the first ephemeral port must not be above the last".to_owned();
        if bad { Err(ControlError::BadValue { block: KIND.name.to_owned(), parameter: name.to_owned(), why }) } else { Ok(()) }
    }

    fn set(&mut self, name: &str, value: Value, cx: &mut Context<'_>) {
        let _ = cx;
        let number = value.as_u64().unwrap_or(0);
        match name {
            "sockets_max" => self.registry.limits.sockets_max = number as usize,
            "backlog_max" => self.registry.limits.backlog_max = number as u32,
            "rmem_max" => self.registry.limits.receive_buffer.max = number as u32,
            "rmem_default" => self.registry.limits.receive_buffer.default = number as u32,
            "wmem_max" => self.registry.limits.send_buffer.max = number as u32,
            "wmem_default" => self.registry.limits.send_buffer.default = number as u32,
            "tw_reuse" => self.registry.limits.reuse.whose = number as u8,
            "tw_reuse_delay" => self.registry.limits.reuse.delay = Duration::from_nanos(number),
            "datagram_bytes_max" => self.registry.limits.datagram_bytes_max = number as usize,
            "ephemeral_first" => self.registry.limits.ephemeral.0 = number as u16,
            "ephemeral_last" => self.registry.limits.ephemeral.1 = number as u16,
            "boot_time" => self.registry.limits.boot_time_nanos = number,
            _ => {}
        }
    }

    fn counters(&self) -> &[u64] {
        self.registry.counters.values()
    }

    fn as_any_mut(&mut self) -> &mut dyn Any {
        self
    }
}
