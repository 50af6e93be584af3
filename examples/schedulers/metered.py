"""A scheduler of one's own for Multipath TCP: the shortest round trip, but at most so much of the data over one interface."""

import weft_block as weft

MANIFEST = """
name = "metered"
version = "1.0.0"
summary = "the shortest round trip, and at most a share of the data over one interface"
[scheduler]
[[parameter]]
name = "interface"
type = "interface"
default = "eth1"
live = true
doc = "the interface that costs"
[[parameter]]
name = "percent_max"
type = "unsigned"
max = 100
default = 10
live = true
doc = "of a connection's data, over it"
"""


class Metered(weft.Block):
    def set(self, parameter, value):
        if parameter == "interface":
            self.interface = value.number
        else:
            self.percent_max = value.number

    def schedule(self, question):
        all_bytes = sum(each.sent_bytes for each in question.subflows)

        def affordable(subflow):
            return subflow.interface != self.interface or subflow.sent_bytes * 100 <= all_bytes * self.percent_max

        free = [each for each in question.subflows if each.room_bytes and affordable(each)]
        if not free:
            return None
        best = min(free, key=lambda each: each.rtt_ns or 0)
        # A segment at a time, so that the share is kept to.
        return best, min(best.room_bytes, best.mss_bytes)
