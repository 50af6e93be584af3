"""Programs on a `weft.Stack`, in a network namespace of its own: `real_time` starts this file there.

Both ends are on the stack: where its host's side is depends on who runs this.
"""

import os
import subprocess

import weft

SECONDS_MAX = 60
SERVER = """
import socket
server = socket.create_server(("10.77.0.2", 8080))
print("ready", flush=True)
one, peer = server.accept()
one.sendall(f"{peer[0]}\\n".encode())
input()
"""
CLIENT = "import socket; one = socket.create_connection(('10.77.0.2', 8080)); print(one.makefile().readline(), end='', flush=True); one.recv(1)"


def refused(call, says: str) -> None:
    try:
        call()
    except weft.WeftError as error:
        assert says in str(error), error
    else:
        raise AssertionError(says)


def main() -> None:
    subprocess.run(["ip", "link", "set", "lo", "up"], check=True)
    refused(weft.Stack({"tcp.mss": -1}).__enter__, "tcp.mss: -1 is out of range")
    refused(lambda: weft.Stack().run(["true"]), "the stack is not up")
    with weft.Stack({"tcp.congestion": "reno"}) as stack:
        server = stack.start(["python3", "-c", SERVER], stdin=subprocess.PIPE, stdout=subprocess.PIPE)
        assert server.stdout.readline() == "ready\n"
        client = stack.start(["python3", "-c", CLIENT], stdout=subprocess.PIPE)
        assert client.stdout.readline() == "10.77.0.2\n"
        connections = stack.show("connections")
        assert [row["state"] for row in connections] == ["ESTAB", "ESTAB"], connections
        assert any(row["peer"] == "10.77.0.2:8080" for row in connections), connections
        assert stack.get("tcp.congestion") == "reno"
        stack.set("tcp.congestion", "bbr")
        assert stack.get("tcp.congestion") == "bbr"
        refused(lambda: stack.set("tcp.mss", -1), "out of range")
        refused(lambda: stack.show("nothing"), "possible values")
        stack.command("add", "wan", "delay", "delay=20ms")
        assert any(row["name"] == "wan" for row in stack.show("blocks")), stack.show("blocks")
        server.communicate("end\n", SECONDS_MAX)
        assert (server.returncode, client.wait(SECONDS_MAX)) == (0, 0)
        done = stack.run(["cat"], input="word", timeout=SECONDS_MAX)
        assert (done.returncode, done.stdout) == (0, "word"), done
        assert stack.run(["false"], strict=True).returncode == 1
        pid, control = stack._process.pid, stack.control
    assert not control.exists() and not os.path.exists(f"/proc/{pid}")
    try:
        with weft.Stack() as stack:
            pid = stack._process.pid
            raise KeyError
    except KeyError:
        assert not os.path.exists(f"/proc/{pid}")
    print("fine")


if __name__ == "__main__":
    main()
