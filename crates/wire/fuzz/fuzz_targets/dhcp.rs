//! See `weft_wire::fuzzing::dhcp`.

#![no_main]

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| weft_wire::fuzzing::dhcp(bytes));
