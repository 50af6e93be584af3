//! All tests of this crate, in one program: each program more would be built and linked by itself.

mod bbr;
mod block;
mod common;
mod conduct;
mod extension;
mod fast_open;
mod goodput;
mod hand_over;
mod hostile;
mod marks;
mod mtu;
mod open_close;
mod receive;
mod response_function;
mod seam;
mod send;
mod transfer;
