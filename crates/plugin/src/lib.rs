//! Loadable blocks: users' own code as blocks of a graph, read from files while it runs.
//!
//! | a file | is | and runs |
//! |---|---|---|
//! | `*.wasm` | a WebAssembly module | isolated, with limits, with the same results everywhere: [`wasm`] |
//! | `*.so` | a native object | as part of weft, trusted and fast: [`native`] |
//! | `*.py` | a Python script | as a process, for teaching: [`python`] |
//!
//! All of them declare themselves by a [`manifest`], see frames as [`exchange`] describes, and stand in the graph as a [`guest::GuestBlock`],
//! which isolates code that fails. docs/plugins.md is for those who write blocks; include/weft-block.h is the interface.

pub mod exchange;
mod files;
pub mod guest;
pub mod manifest;
pub mod native;
pub mod python;
mod question;
pub mod template;
pub mod wasm;

pub use files::Files;
pub use question::Raw;

/// Version of the interface between weft and a block's code. It is another when code that was built for this one would not run right.
pub const INTERFACE_VERSION: u32 = 1;

fn wrong_interface(found: u32) -> String {
    format!(
        "it is built for version {found} of the block interface, this weft has {INTERFACE_VERSION}: build it anew with this weft's weft-block.h"
    )
}
