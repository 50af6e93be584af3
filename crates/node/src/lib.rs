//! Assembles a node: the graph of a stack file on an engine, and the calls through which a world drives it.
//!
//! Everything below this crate is pure; so is this. Which backends are behind the interfaces, what time it is and who the programs are,
//! the world knows (`weft-host`, later `weft-sim`). The alternative, a builder in code for each kind of node, was rejected: people must be able to
//! read and change what a node is without compiling.
#![forbid(unsafe_code)]

mod default_graph;
mod dhcp;
mod error;
pub mod fins;
mod foresee;
mod kinds;
mod leases;
mod node;
mod restore;
pub mod schema;
pub mod several;
mod shape;
mod spanned;
mod stack;
mod wiring;

#[doc(hidden)]
pub mod fuzzing;

pub use default_graph::{BLOCKS, EDGES};
pub use error::{StackError, locate};
pub use foresee::Coming;
pub use kinds::block_table;
pub use leases::Lease;
pub use node::{Node, default_mac};
pub use shape::{BlockShape, EdgeShape, LoadShape, Shape};
pub use spanned::Spanned;
pub use stack::{
    AddressSection, Base, Compiled, DEFAULT_STACK, DEFAULT_STACKS_MAX, EngineKind, Framing, InterfaceSection, Interfaces, NextHop,
    NodeSection, RouteSection, STACK_HELP, Stack, explain, kind_of, other_kind, stack_schema,
};
pub use wiring::{Rewiring, Wiring};
