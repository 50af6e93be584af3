"""`make test-interop` and `make bench-interop`: weft's TCP against the host kernel's over an impaired bridge."""
