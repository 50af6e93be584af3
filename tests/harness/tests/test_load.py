"""The checks of test-load and test-faults can fail."""

from __future__ import annotations

import os
import struct
import subprocess
import unittest

from faults import stack_files, surroundings
from harness.processes import Failure
from load.__main__ import check_memory
from load.stage import Held, own_mounts


def block(kind: int, body: bytes) -> bytes:
    length = struct.pack("<I", 12 + len(body))
    return struct.pack("<I", kind) + length + body + length


class Load(unittest.TestCase):
    def test_what_is_left_is_named(self) -> None:
        before = Held({"socket:": 3, "/dev/net/tun": 1}, frozenset({"/"}), frozenset({"net:[1]"}))
        self.assertEqual(before.differences(before), [])
        after = Held({"socket:": 4}, frozenset({"/", "/leak"}), frozenset({"net:[1]", "net:[2]"}))
        self.assertEqual(before.differences(after), [
            "1 descriptors of kind /dev/net/tun before, 0 after", "3 descriptors of kind socket: before, 4 after",
            "mount /leak is new", "namespace net:[2] is new",
        ])

    def test_mounts_of_other_tests_are_none_of_ours(self) -> None:
        own = f"/run/netns/weft-{os.getpid()}-1-s"
        paths = ["/", "/run/netns/weft-1-1-s", "/run/netns/fd-77", "/tmp/weft-1-2-x/disk", own, "/leak"]
        table = "".join(f"30 20 0:4 / {path} rw - tmpfs tmpfs rw\n" for path in paths)
        self.assertEqual(own_mounts(table), {"/", own, "/leak"})

    def test_a_second_round_may_not_leave_more_memory(self) -> None:
        self.assertIn("100.0 MiB", check_memory(100 << 20, 104 << 20))
        with self.assertRaisesRegex(Failure, "106.0 MiB after the second: more than 1.05 times"):
            check_memory(100 << 20, 106 << 20)


class Faults(unittest.TestCase):
    def test_half_a_block_of_a_capture_is_found(self) -> None:
        section = block(surroundings.SECTION, struct.pack("<I", surroundings.BYTE_ORDER) + bytes(12))
        capture = section + 2 * block(surroundings.ENHANCED_PACKET, bytes(40))
        self.assertEqual(surroundings.packets_of(capture), 2)
        for broken in (capture[:-1], capture[:-40], b"x" + capture):
            with self.assertRaisesRegex(Failure, "half a block|begins with"):
                surroundings.packets_of(broken)

    def test_another_message_or_status_is_a_failure(self) -> None:
        def compare(expected: str, status: int, stderr: str) -> None:
            stack_files._compare("a", expected, subprocess.CompletedProcess([], status, "", stderr))

        expected = "weft: a.toml:1: known: …\nhelp: this\n"
        compare(expected, 2, "weft: a.toml:1: known: b, c\nhelp: this\n")
        compare("weft: a.toml:1: x\n…", 2, "weft: a.toml:1: x\nwhatever\n")
        for status, stderr in ((0, "weft: a.toml:1: known: b\nhelp: this\n"), (2, "weft: a.toml:1: known: b\nhelp: that\n"),
                               (2, "weft: a.toml:1: known: b\n"), (2, "weft: a.toml:1: known: \x1b[31m\nhelp: this\n")):
            with self.assertRaises(Failure):
                compare(expected, status, stderr)


if __name__ == "__main__":
    unittest.main()
