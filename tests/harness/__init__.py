"""weft's test harness: everything around the programs under test, nothing of what they prove.

The packages beside it (`demo`, `programs`, `interop`) hold the tests; this one holds what they share: namespaces,
processes with watchdogs, the command-line contract of `weft`, results, the runner of `make test` and the lints.
Only the standard library of Python 3.11 is used, so that a fresh Debian machine needs nothing more.
"""
