//! What a row of the table of options is: whose option it is, how a value is read and written, and what both have to hand.

use crate::datagrams::Datagrams;
use crate::errno::Errno;
use crate::holds;
use crate::multicast::Groups;
use crate::options::kept::Options;
use crate::packet_socket::PacketSockets;
use crate::registry::Registry;
use crate::socket::{Body, Socket, SocketId, Stream};
use crate::streams::{Streams, info};
use std::time::Duration;
use weft_core::{Answer, Context, InterfaceIndex, Query, StreamCall, StreamInfo, StreamOption, Table};

/// Which sockets have an option.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Applies {
    /// All.
    Any,
    /// SOCK_STREAM over TCP.
    Stream,
    /// SOCK_DGRAM over UDP.
    Datagram,
    /// SOCK_RAW.
    Raw,
    /// AF_PACKET.
    Packet,
}

/// How a value is written.
#[derive(Clone, Copy)]
pub(crate) enum Set {
    /// An `int`; fewer than four bytes are EINVAL.
    Int(fn(&mut Access<'_, '_>, i32) -> Result<(), Errno>),
    /// An `int`, or one byte where there are fewer than four (SOL_IP).
    IntOrByte(fn(&mut Access<'_, '_>, i32) -> Result<(), Errno>),
    /// An `int`, or one byte; nothing is EINVAL (some of SOL_IP).
    IntOrOneByte(fn(&mut Access<'_, '_>, i32) -> Result<(), Errno>),
    /// An `int`, or 0 where there are fewer than four bytes (some of SOL_IPV6).
    IntOrZero(fn(&mut Access<'_, '_>, i32) -> Result<(), Errno>),
    /// An `int`, and nothing else: other lengths are EINVAL (some of SOL_PACKET).
    OneInt(fn(&mut Access<'_, '_>, i32) -> Result<(), Errno>),
    /// Bytes as they are.
    Bytes(fn(&mut Access<'_, '_>, &[u8]) -> Result<(), Errno>),
    /// Cannot be set: this error.
    Never(Errno),
}

/// What is in the place for a value, and its length.
type Ask = fn(&mut Access<'_, '_>, &[u8], usize) -> Result<Vec<u8>, Errno>;

/// How a value is read.
#[derive(Clone, Copy)]
pub(crate) enum Get {
    /// An `int`, cut to the length asked for.
    Int(fn(&mut Access<'_, '_>) -> Result<i32, Errno>),
    /// An `int`, or one byte where fewer than four are asked for and it fits (SOL_IP).
    IntOrByte(fn(&mut Access<'_, '_>) -> Result<i32, Errno>),
    /// Bytes; the function gets the length asked for.
    Bytes(fn(&mut Access<'_, '_>, usize) -> Result<Vec<u8>, Errno>),
    /// Bytes, all of which are told whatever the length asked for; the function gets what the program has in the place for the value, as much of it as
    /// [`super::bytes_asked`] says (less: the rest cannot be read), and the length.
    Asked(Ask),
    /// Cannot be read: this error.
    Never(Errno),
}

/// One option.
#[derive(Clone, Copy)]
pub struct OptionRow {
    /// SOL_SOCKET, IPPROTO_IP, …
    pub level: i32,
    /// The number.
    pub name: i32,
    /// Linux's name.
    pub label: &'static str,
    /// Which sockets have it.
    pub applies: Applies,
    pub(crate) set: Set,
    pub(crate) get: Get,
}

impl std::fmt::Debug for OptionRow {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{}", self.label)
    }
}

pub(crate) const fn row(level: i32, name: i32, label: &'static str, applies: Applies, set: Set, get: Get) -> OptionRow {
    OptionRow { level, name, label, applies, set, get }
}

/// The socket an option is about, what options change beside it, and the way out.
pub(crate) struct Access<'a, 'b> {
    pub sockets: &'a mut Registry,
    pub streams: &'a mut Streams,
    pub datagrams: &'a mut Datagrams,
    pub groups: &'a mut Groups,
    pub packets: &'a mut PacketSockets,
    pub id: SocketId,
    pub cx: &'a mut Context<'b>,
}

impl Access<'_, '_> {
    pub(crate) fn socket(&mut self) -> Result<&mut Socket, Errno> {
        self.sockets.get_mut(self.id)
    }
    pub(crate) fn options(&mut self) -> Result<&mut Options, Errno> {
        Ok(&mut self.sockets.get_mut(self.id)?.options)
    }
    pub(crate) fn stream(&mut self) -> Result<&mut Stream, Errno> {
        match &mut self.sockets.get_mut(self.id)?.body {
            Body::Stream(stream) => Ok(stream),
            Body::Datagram(_) | Body::Raw(_) | Body::Ping(_) | Body::Packet(_) => Err(Errno::ENOPROTOOPT),
        }
    }
    /// Tells a stream's transport, now and at connect or listen.
    pub(crate) fn transport(&mut self, option: StreamOption) -> Result<(), Errno> {
        let Ok(stream) = self.stream() else { return Ok(()) };
        stream.transport.apply(option.clone());
        if let Some(flow) = stream.flow {
            self.streams.call(flow, StreamCall::Set(option), self.cx);
        }
        Ok(())
    }
    /// Tells a stream's transport what counts for one of the two families only, if that is its peer's.
    pub(crate) fn of_family(&mut self, v6: bool, option: StreamOption) -> Result<(), Errno> {
        let socket = self.socket()?;
        let talks = socket.remote.map_or(socket.is_v6(), |remote| remote.is_ipv6());
        if talks == v6 { self.transport(option) } else { Ok(()) }
    }
    /// What the transport knows of a stream.
    pub(crate) fn flow_info(&self) -> Result<StreamInfo, Errno> {
        Ok(info(self.sockets.get(self.id)?, self.cx))
    }
    /// Is there such an interface?
    pub(crate) fn is_interface(&self, index: u32) -> bool {
        matches!(self.cx.ask(Table::Interfaces, &Query::Interface(InterfaceIndex(index))), Answer::Interface(_))
    }
    /// Lets others see this socket's reuse flags and interface.
    pub(crate) fn update_hold(&mut self) -> Result<(), Errno> {
        let socket = self.sockets.get(self.id)?;
        let ports = if socket.stream().is_some() { &mut self.streams.ports } else { &mut self.datagrams.ports };
        holds::show(socket, ports);
        Ok(())
    }
}

pub(crate) const fn flag(value: bool) -> Result<i32, Errno> {
    Ok(value as i32)
}

/// A value between these, else EINVAL.
pub(crate) fn within(value: i32, low: i32, high: i32) -> Result<i32, Errno> {
    if (low..=high).contains(&value) { Ok(value) } else { Err(Errno::EINVAL) }
}

/// Whole seconds as a duration.
pub(crate) const fn seconds(value: i32) -> Duration {
    Duration::from_secs(value.unsigned_abs() as u64)
}
