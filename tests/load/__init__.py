"""Many connections, long and short, and a flood of SYNs: `make test-load`."""
