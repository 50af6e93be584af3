"""The built-in lowest-rtt, once more, in Python."""

import weft_block as weft

MANIFEST = """
name = "lowest"
version = "1"
summary = "the shortest round trip"
[scheduler]
"""


class Lowest(weft.Block):
    def schedule(self, question):
        backup = min(each.backup for each in question.subflows)
        free = [each for each in question.subflows if each.backup == backup and each.room_bytes]
        best = min(free, key=lambda each: each.rtt_ns or 0, default=None)
        return None if best is None else (best, best.room_bytes)
