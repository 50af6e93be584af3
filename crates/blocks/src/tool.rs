//! Tools that go into any edge: they take the type of what they are bound to.

pub mod alternate;
pub mod blackhole;
pub mod classify;
pub mod compress;
mod condition;
pub mod corrupt;
pub mod counter;
pub(crate) mod cut;
pub mod delay;
pub mod drop;
pub mod duplicate;
mod envelope;
pub mod filter;
pub mod forward;
pub mod gilbert;
pub mod logger;
pub mod loss;
pub mod rate;
pub mod reorder;
pub mod seal;
pub mod tee;
#[cfg(test)]
pub(crate) mod testing;
pub mod trigger;
