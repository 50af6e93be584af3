"""`make test-mptcp-sim` and `make test-mptcp-interop`: weft's Multipath TCP beside Linux's, in virtual and in real time."""
