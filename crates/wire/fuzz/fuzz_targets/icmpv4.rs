//! See `weft_wire::fuzzing::icmpv4`.

#![no_main]

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| weft_wire::fuzzing::icmpv4(bytes));
