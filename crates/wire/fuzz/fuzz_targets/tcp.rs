//! See `weft_wire::fuzzing::tcp`.

#![no_main]

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| weft_wire::fuzzing::tcp(bytes));
