"""`make bench`: what the benchmarks share, and the ones that are not Rust."""
