//! The real world: wall clock, event loop over real interfaces and real programs, control socket.
//!
//! Time is read here and nowhere below. One thread runs everything (see [`world`]), unless the threaded engine is asked for ([`threaded`]).
#![forbid(unsafe_code)]

mod attach;
pub mod bridge;
pub mod clock;
pub mod control;
pub mod error;
pub mod expression;
mod files;
pub mod ground;
mod leases;
mod loading;
pub mod outside;
pub mod place;
pub mod port;
pub mod programs;
pub mod protocol;
pub mod publish;
pub mod reactor;
pub mod run;
pub mod signals;
mod snapshot;
pub mod spin;
pub mod threaded;
mod tidy;
pub mod world;

pub use ground::PORTS_MAX;

/// A seed from the system's random source.
pub fn random_seed() -> u64 {
    let mut bytes = [0u8; 8];
    match rustix::rand::getrandom(&mut bytes, rustix::rand::GetRandomFlags::empty()) {
        Ok(_) => u64::from_le_bytes(bytes),
        Err(_) => clock::Clock::default().epoch_nanos(),
    }
}
