"""Programs on a `weft.Stack`, in a network namespace of its own: `real_time` starts this file there."""

import os
import socket
import subprocess
import threading

import weft

SECONDS_MAX = 60
CLIENT = "import socket; one = socket.create_connection(('10.77.0.1', 8080)); print(one.recv(5).decode(), flush=True); one.recv(1)"


def serve(server: socket.socket, held: list[socket.socket]) -> None:
    """Greets each that comes, and holds it."""
    while True:
        try:
            one, peer = server.accept()
        except OSError:
            return
        one.sendall(f"{peer[0][-2:]}...".encode()[:5])
        held.append(one)


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
    held: list[socket.socket] = []
    with weft.Stack({"tcp.congestion": "reno"}) as stack:
        server = socket.create_server(("10.77.0.1", 8080))
        threading.Thread(target=serve, args=(server, held), daemon=True).start()
        client = stack.start(["python3", "-c", CLIENT], stdout=subprocess.PIPE)
        # From the stack's address, and not from the host's.
        assert client.stdout.readline().strip() == ".2..."
        connections = stack.show("connections")
        assert [(row["state"], row["peer"]) for row in connections] == [("ESTAB", "10.77.0.1:8080")], connections
        assert stack.get("tcp.congestion") == "reno"
        stack.set("tcp.congestion", "bbr")
        assert stack.get("tcp.congestion") == "bbr"
        refused(lambda: stack.set("tcp.mss", -1), "out of range")
        refused(lambda: stack.show("nothing"), "possible values")
        stack.command("add", "wan", "delay", "delay=20ms")
        assert any(row["name"] == "wan" for row in stack.show("blocks")), stack.show("blocks")
        held.pop().close()
        assert client.wait(SECONDS_MAX) == 0
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
