//! Unmodified programs in virtual time, on the loader and its controller, over real nodes.

mod ahead;
mod children;
mod cpu_clocks;
mod early;
mod gates;
mod native;
mod programs;
mod sockets;
mod world;
