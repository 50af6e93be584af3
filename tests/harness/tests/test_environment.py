"""Environments leave nothing behind, also after a crash, and say so when something stays."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
import unittest
from pathlib import Path
from unittest import mock

from harness import namespaces, paths
from harness.environment import Environment, Snapshot
from harness.processes import Failure, listening, snmp

CRASH = """
import os, signal
from harness import namespaces
from harness.environment import Environment
env = Environment()
ns = env.namespace("n")
env.start("sleep", ["sleep", "600"], ns).wait_for(lambda: namespaces.pids_in(ns.path), "a process in the namespace", 15)
print(ns.name, flush=True)
os.kill(os.getpid(), signal.SIGKILL)
"""


class Environments(unittest.TestCase):
    def test_nothing_stays(self) -> None:
        before = Snapshot.take()
        with Environment() as env:
            a, b = env.namespace("a"), env.namespace("b")
            namespaces.veth((a, "va"), (b, "vb"))
            env.start("sleep", ["sleep", "600"], a)
            self.assertGreaterEqual(len(before.new_since()), 4)
        self.assertEqual(before.new_since(), [])

    def test_a_process_that_leaves_its_group_is_reported_and_killed(self) -> None:
        before = Snapshot.take()
        with self.assertRaisesRegex(Failure, r"(?s)survived.*sleep 601"):
            with Environment() as env:
                ns = env.namespace("a")
                env.run("escape", ["sh", "-c", "setsid sleep 601 & sleep 0.1"], ns)
        self.assertEqual(before.new_since(), [])

    def test_the_number_of_a_group_that_is_gone_is_never_signalled(self) -> None:
        # It may be another group's by then: with 32,768 numbers (kernel.pid_max) a whole run gives each out several times.
        with Environment() as env:
            ways = {"wait": lambda one: one.wait(15), "status": lambda one: one.wait_for(lambda: not one.running, "over")}
            for name, over in ways.items():
                process = env.start(name, ["true"])
                over(process)
                with mock.patch("os.killpg") as killpg:
                    process.stop()
                killpg.assert_not_called()

    def test_what_is_left_of_a_group_is_ended_with_it(self) -> None:
        with Environment() as env:
            process = env.start("leaves", ["sh", "-c", "sleep 602 >/dev/null 2>&1 & echo $!"])
            process.wait(15)
            left = int(process.stdout)
            os.kill(left, 0)
            process.stop()
            deadline = time.monotonic() + 15
            while namespaces._state(left) in "RSD" and time.monotonic() < deadline:
                time.sleep(0.01)
            self.assertNotIn(namespaces._state(left), "RSD")

    def test_a_crashed_run_is_swept(self) -> None:
        crashed = subprocess.run([sys.executable, "-c", CRASH], cwd=paths.TESTS, capture_output=True, text=True)
        self.assertEqual(crashed.returncode, -signal.SIGKILL)
        name = crashed.stdout.strip()
        self.assertTrue((namespaces.FOLDER / name).exists())
        sleeping = namespaces.pids_in(namespaces.FOLDER / name)
        self.assertEqual(len(sleeping), 1)
        self.assertIn(name, namespaces.sweep())
        self.assertFalse((namespaces.FOLDER / name).exists())
        self.assertNotIn(namespaces._state(sleeping[0]), "RSD")

    def test_what_lives_is_not_swept(self) -> None:
        with Environment() as env:
            ns = env.namespace("a")
            namespaces.sweep()
            self.assertTrue(ns.path.exists())

    def test_the_watchdog_says_who_hung_and_what_it_printed(self) -> None:
        with self.assertRaisesRegex(Failure, r"(?s)hang still ran after [0-9.]+ s.*last words"):
            with Environment() as env:
                env.run("hang", ["sh", "-c", "echo last words; sleep 600"], timeout_s=0.3)

    def test_a_line_is_waited_for_until_it_is_whole(self) -> None:
        with Environment("test") as env:
            pieces = env.start("pieces", ["sh", "-c", "printf 'first '; sleep 0.3; echo second; printf last"])
            self.assertEqual(pieces.wait_for_line("first"), "first second")
            self.assertEqual(pieces.wait_for_line("last"), "last")

    def test_a_status_is_a_failure(self) -> None:
        with self.assertRaisesRegex(Failure, "status 3"):
            with Environment() as env:
                env.run("exit", ["sh", "-c", "exit 3"])

    def test_waiting_for_a_port_fails_when_the_server_ends(self) -> None:
        with self.assertRaisesRegex(Failure, "ended with status 0 before it was listening"):
            with Environment() as env:
                env.wait_listening(env.start("no-server", ["true"]), 1)

    def test_ports_and_counters_are_those_of_the_namespace(self) -> None:
        server = "import socket,time; s=socket.socket(); s.bind(('',5000)); s.listen(); time.sleep(600)"
        with Environment() as env:
            ns = env.namespace("a")
            process = env.start("server", [paths.PYTHON, "-c", server], ns)
            env.wait_listening(process, 5000)
            self.assertFalse(listening(os.getpid(), 5000))
            self.assertEqual(snmp(process.pid)["TcpActiveOpens"], 0)
            env.run("client", [paths.PYTHON, "-c", "import socket; socket.create_connection(('127.0.0.1',5000))"], ns)
            self.assertEqual(snmp(process.pid)["TcpActiveOpens"], 1)

    def test_no_variable_of_the_caller_leaks_in(self) -> None:
        os.environ["http_proxy"] = "http://192.0.2.1"
        self.addCleanup(os.environ.pop, "http_proxy")
        with Environment() as env:
            self.assertNotIn("http_proxy", env.run("env", ["env"]))
            self.assertTrue(Path(env.folder).is_dir())


if __name__ == "__main__":
    unittest.main()
