//! x86-64: call numbers, the audit architecture, foreign call tables that the processor can also enter, and struct layouts.

mod layout;
mod numbers;

pub use layout::*;
pub use numbers::*;
