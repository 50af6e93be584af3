"""A UDP server that answers its first sender late: when another one says so. From then on it sends back whatever comes."""

import socket
import sys

s = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
s.bind(("0.0.0.0", int(sys.argv[1])))
print("serves", flush=True)
first = s.recvfrom(100)[1]
print("was asked", flush=True)
other = s.recvfrom(100)[1]
s.sendto(b"late", first)
s.sendto(b"sent", other)
while True:
    data, sender = s.recvfrom(100)
    s.sendto(data, sender)
