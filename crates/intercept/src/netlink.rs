//! AF_NETLINK sockets: what `weft_netlink` answers from a node's tables.

use crate::calls::Calls;
use crate::face::{Errno, Stack};
use weft_core::control::Value;
use weft_core::{Answer, ControlError, Instant, Op, Query, Selector, Show, Table};
use weft_netlink::Tables;

pub use weft_netlink::{KERNEL_NAME, Ports, Session};

/// Most packets that wait for room in a stand-in, or for a program in virtual time: what comes then is lost, as the kernel's is (ENOBUFS).
pub const PACKETS_MAX: usize = 65_536;

/// The number (nl_pid) in a name.
pub fn number(name: &[u8]) -> u32 {
    name.get(4..8).and_then(|bytes| bytes.try_into().ok()).map_or(0, u32::from_ne_bytes)
}

/// The name of whoever has this number; 0: the kernel.
pub fn named(number: u32) -> Vec<u8> {
    let mut name = KERNEL_NAME.to_vec();
    name[4..8].copy_from_slice(&number.to_ne_bytes());
    name
}

/// A node's tables, as the adapters have them.
pub struct Node<'a> {
    /// Whose tables.
    pub stack: &'a mut dyn Stack,
    /// Where it counts what is not supported.
    pub calls: &'a mut Calls,
}

impl Tables for Node<'_> {
    fn ask(&mut self, table: Table, query: &Query) -> Answer {
        self.stack.ask(table, query)
    }
    fn exec(&mut self, block: &str, procedure: &str, arguments: Value) -> Result<Value, ControlError> {
        let op = Op::Exec { target: Selector::Name(block.to_owned()), procedure: procedure.to_owned(), arguments };
        let value = self.stack.control(op)?;
        Ok(value.get(block).cloned().unwrap_or(Value::Null))
    }
    fn show(&mut self, what: Show) -> Value {
        self.stack.control(Op::Show(what)).unwrap_or_default()
    }
    fn now(&mut self) -> Instant {
        self.stack.now()
    }
    fn unsupported(&mut self, what: String, errno: i32) {
        self.calls.unsupported(what, Errno(errno));
    }
}
