//! Calls by family. A call that is not the kernel's alone has a handler here, which gets its arguments by type; who answers which call stands in the
//! table (`calls`), and `dispatch` is made from that.

pub mod data;
pub mod descriptors;
pub mod files;
pub mod futex;
pub mod identity;
pub mod ipc;
pub mod machine;
pub mod memory;
pub mod poll;
pub mod positions;
pub mod processes;
pub mod signals;
pub mod sockets;
pub mod splice;
pub mod threads;
pub mod time;
