//! See `weft_wire::fuzzing::arp`.

#![no_main]

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| weft_wire::fuzzing::arp(bytes));
