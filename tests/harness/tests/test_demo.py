"""The demo's capture reads what is on the wire, and its acts fail when what they show is not so."""

from __future__ import annotations

import contextlib
import io
import unittest
from unittest import mock

from demo import acts, capture, stacks
from harness.environment import Environment
from harness.processes import Failure

SYN = bytes.fromhex(
    "4500003c1c4640004006b1e60a4d00020a4d0001"  # 10.77.0.2 > 10.77.0.1
    "c0001f900000000100000000a002faf000000000"  # 49152 > 8080, SYN, header of 40 bytes
    "020402180402080a00000001000000000103030a"  # mss 536, sackOK, TS, nop, wscale 10
)


class Capture(unittest.TestCase):
    def test_a_syn_is_described(self) -> None:
        self.assertEqual(capture.describe(SYN), "10.77.0.2:49152 > 10.77.0.1:8080  SYN  mss 536, sackOK, TS, wscale 10")

    def test_other_packets_are_not(self) -> None:
        ack = bytearray(SYN)
        ack[33] = 0x10
        self.assertIsNone(capture.describe(bytes(ack)))
        udp = bytearray(SYN)
        udp[9] = 17
        self.assertIsNone(capture.describe(bytes(udp)))

    def test_damaged_options_end(self) -> None:
        self.assertEqual(capture.options(bytes([2, 0, 1])), [])


class Acts(unittest.TestCase):
    def small_segments(self, stack: type) -> None:
        with Environment() as env, contextlib.redirect_stdout(io.StringIO()):
            acts.small_segments(env, stack)

    def test_a_stack_that_ignores_the_mss_is_found(self) -> None:
        class Deaf(stacks.NativeStack):
            def __init__(self, env: Environment, settings: dict[str, str]) -> None:
                super().__init__(env, {})

        self.small_segments(stacks.NativeStack)
        with self.assertRaisesRegex(Failure, "does not carry MSS 536"):
            self.small_segments(Deaf)

    def test_a_transfer_that_survives_the_cut_is_found(self) -> None:
        class Uncut(stacks.NativeStack):
            def cut(self) -> str:
                return "nothing"

        with mock.patch.object(acts, "FILE_BYTES", 16 * acts.MB), contextlib.redirect_stdout(io.StringIO()):
            with self.assertRaisesRegex(Failure, "went on to"):
                with Environment() as env:
                    acts.cut_and_mend(acts.Stand(env, Uncut))


if __name__ == "__main__":
    unittest.main()
