"""Asks late_server.py, is silent until a file is there, has it answer by another socket, and asks again: prints what comes first."""

import os
import socket
import sys
import time

port, go = int(sys.argv[1]), sys.argv[2]
first, other = (socket.socket(socket.AF_INET, socket.SOCK_DGRAM) for _ in range(2))
for one in (first, other):
    one.connect(("127.0.0.1", port))
first.send(b"ask")
print("asked", flush=True)
while not os.path.exists(go):
    time.sleep(0.05)
other.send(b"now")
other.recv(100)
first.send(b"again")
print(first.recv(100).decode(), flush=True)
