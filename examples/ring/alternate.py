"""Sends alternate packets left and right: the block of docs/tutorial-ring.md in Python."""

import weft_block as weft

MANIFEST = """
name = "alternate-python"
version = "1.0.0"
summary = "sends alternate packets left and right (written in Python)"
doc = "Stands after IP, in ip4:lower -> arp:upper. IPv4 packets that go to `left` or `right` are sent to both by turns."
state_version = 1
bytes_max = 0

[[input]]
name = "in"
carries = "link"
doc = "packets from IP"

[[output]]
name = "out"
carries = "link"
doc = "the same packets"

[[parameter]]
name = "left"
type = "interface"
default = "left"
live = true
doc = "the interface to the left"

[[parameter]]
name = "left_gateway"
type = "address"
default = ""
live = true
doc = "the neighbour there"

[[parameter]]
name = "right"
type = "interface"
default = "right"
live = true
doc = "the interface to the right"

[[parameter]]
name = "right_gateway"
type = "address"
default = ""
live = true
doc = "the neighbour there"

[[counter]]
name = "Left"
text = "packets sent left"

[[counter]]
name = "Right"
text = "packets sent right"
"""

SIDES = ["left", "right"]


class Alternate(weft.Block):
    def __init__(self):
        self.interfaces = {}
        self.gateways = {}
        self.next = 0

    def set(self, parameter, value):
        if parameter in SIDES:
            self.interfaces[parameter] = value.number
        elif parameter.endswith("_gateway"):
            self.gateways[parameter.removesuffix("_gateway")] = value.address

    def process(self, port, frames):
        for frame in frames:
            frame.forward(0)
            side = SIDES[self.next]
            goes_around = frame.interface in self.interfaces.values()
            if frame.ether_type != 0x0800 or not frame.egress or not goes_around or not self.interfaces[side] or not self.gateways[side]:
                continue
            frame.interface = self.interfaces[side]
            frame.next_hop = self.gateways[side]
            self.count(self.next)
            self.next = 1 - self.next

    # The state is whose turn it is: a new build goes on where the old one was.
    def export(self):
        return bytes([self.next])

    def take_over(self, version, state):
        if version != 1 or state not in (b"\0", b"\1"):
            return "this is no state of alternate-python"
        self.next = state[0]
