//! See `weft_wire::fuzzing::checksum`.

#![no_main]

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| weft_wire::fuzzing::checksum(bytes));
