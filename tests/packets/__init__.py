"""Packet sockets, on the kernel and in nodes."""
