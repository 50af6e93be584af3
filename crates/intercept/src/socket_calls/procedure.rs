//! Requests that come to procedures of blocks, as netlink's do.

use crate::face::Stack;
use crate::sys::Errno;
use weft_core::{Op, Selector};

/// Runs a procedure of a block.
pub(crate) fn told(stack: &mut dyn Stack, block: &str, procedure: &str, arguments: serde_json::Value) -> Result<(), Errno> {
    let op = Op::Exec { target: Selector::Name(block.to_owned()), procedure: procedure.to_owned(), arguments };
    stack.control(op).map(|_| ()).map_err(|error| Errno(error.kind().errno()))
}
