//! Built-in traffic: programs that weft plays itself, one actor each. They cost no virtual time: what they do, they do at the instant at which they
//! may.

mod echo;
mod open;
mod ping;
mod tcp;
mod udp;

pub use crate::builtin::Builtin;

use crate::actor::Actor;
use crate::report::ProgramId;

impl Builtin {
    /// The program, ready to run.
    pub fn actor(&self, id: ProgramId) -> Box<dyn Actor> {
        match self.clone() {
            Builtin::Ping { to, count, interval, bytes } => Box::new(ping::Ping::new(id, to, count, interval, bytes)),
            Builtin::UdpCbr { to, rate, bytes, count } => Box::new(udp::Cbr::new(id, to, rate, bytes, count)),
            Builtin::UdpSink { port } => Box::new(udp::Sink::new(id, port)),
            Builtin::TcpSend { to, bytes, duration } => Box::new(tcp::Send::new(id, to, bytes, duration)),
            Builtin::TcpSink { port } => Box::new(tcp::Sink::new(id, port)),
            Builtin::Echo { port } => Box::new(echo::Echo::new(id, port)),
        }
    }
}
