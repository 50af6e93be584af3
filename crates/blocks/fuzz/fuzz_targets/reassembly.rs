//! See `weft_blocks::fuzzing::reassembly`.

#![no_main]

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| weft_blocks::fuzzing::reassembly(bytes));
