"""What breaks from outside: weft or a program killed, a full disk, an interface removed, stack files that are wrong. `make test-faults`."""
