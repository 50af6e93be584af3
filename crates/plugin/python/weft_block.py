"""What a weft block in Python is made of. `import weft_block as weft`, a manifest, and a class:

    import weft_block as weft

    MANIFEST = '''
    name = "shout"
    version = "1.0.0"
    summary = "changes the first byte of each frame"
    [[input]]
    name = "in"
    carries = "any"
    doc = "any frames"
    [[output]]
    name = "out"
    carries = "any"
    doc = "the same frames"
    '''

    class Shout(weft.Block):
        def process(self, port, frames):
            for frame in frames:
                frame.bytes[0] = 33
                frame.forward(0)

The block runs in a process of its own; weft calls it once for each vector of frames, and waits. What it prints goes to weft's standard error. docs/plugins.md of
weft is the reference.
"""

import ipaddress
import json
import os
import random
import sys
import threading
import time
import traceback

CONSUMED = 0x100
DROP = 0x200


class Frame:
    """A frame: `bytes` (a bytearray) and what weft knows of it. May be changed: bytes, interface, mark, tos, dst_mac, next_hop."""

    def __init__(self, fields=None):
        fields = fields or {}
        self.bytes = bytearray.fromhex(fields.get("bytes", ""))
        self.total = fields.get("total", len(self.bytes))
        self.interface = fields.get("interface", 0)
        self.mark = fields.get("mark", 0)
        self.ether_type = fields.get("ether_type", 0)
        self.src_port = fields.get("src_port", 0)
        self.dst_port = fields.get("dst_port", 0)
        self.egress = bool(fields.get("egress", True))
        self.protocol = fields.get("protocol", 0)
        self.ttl = fields.get("ttl", 0)
        self.tos = fields.get("tos", 0)
        self.src_mac = fields.get("src_mac", "000000000000")
        self.dst_mac = fields.get("dst_mac", "000000000000")
        self.src = _address(fields.get("src"))
        self.dst = _address(fields.get("dst"))
        self.next_hop = _address(fields.get("next_hop"))
        self.verdict = None

    def forward(self, port):
        """Onward through an output, by its place in the manifest."""
        self.verdict = int(port)

    def consume(self):
        """It ends here."""
        self.verdict = CONSUMED

    def drop(self, reason):
        """Dropped, for a reason by its place among [[drop]] in the manifest."""
        self.verdict = DROP + int(reason)

    def _fields(self):
        text = lambda address: None if address is None else str(address)
        return {
            "bytes": bytes(self.bytes).hex(), "interface": self.interface, "mark": self.mark, "ether_type": self.ether_type,
            "src_port": self.src_port, "dst_port": self.dst_port, "egress": self.egress, "protocol": self.protocol, "ttl": self.ttl,
            "tos": self.tos, "src_mac": self.src_mac, "dst_mac": self.dst_mac, "src": text(self.src), "dst": text(self.dst),
            "next_hop": text(self.next_hop), "verdict": self.verdict,
        }


def _address(text):
    return ipaddress.ip_address(text) if text else None


class Subflow:
    """A subflow of a connection over several paths, as weft_subflow in weft-block.h; `rtt_ns` is None where it is not measured yet."""

    def __init__(self, place, fields):
        self.place = place
        self.__dict__.update(fields)


class Question:
    """What a scheduler is to decide, as weft_question in weft-block.h: `subflows`, the distances `una`, `next`, `end` and `edge`, `more`, `again`, and
    `memory`, a list of four numbers of this connection that may be changed."""

    def __init__(self, fields):
        self.__dict__.update(fields)
        self.subflows = [Subflow(place, each) for place, each in enumerate(self.subflows)]

    def _answer(self, choice):
        subflow, bytes_, start = (-1, 0, self.next) if choice is None else (*choice, self.next)[:3]
        place = int(getattr(subflow, "place", subflow))
        return {"place": place, "from": int(start), "bytes": int(bytes_), "memory": [int(word) for word in self.memory]}


class Value:
    """A parameter's value: `text`, and where they make sense `number`, `real`, `address`. See weft_value in weft-block.h."""

    def __init__(self, fields):
        self.text = fields["text"]
        self.number = fields["number"]
        self.real = fields["real"]
        self.address = _address(fields["address"])


class Block:
    """To be inherited from, once in a file. `self.now` is the node's time in ns; `self.random` a random.Random of the block's own."""

    now = 0
    random = None
    _effects = None

    def process(self, port, frames):
        """Takes frames that came in through an input, by its place; each needs a verdict: forward, consume or drop."""
        raise NotImplementedError("process(self, port, frames) is missing")

    def schedule(self, question):
        """Which subflow gets the next data: (one of question.subflows, bytes), or (…, bytes, the distance from which on); None: none now. For a manifest
        with [scheduler]; weft_block_schedule in weft-block.h says more."""
        raise NotImplementedError("schedule(self, question) is missing")

    def started(self):
        """It stands in the graph, or edges around it have changed."""

    def timer(self, token):
        """A timer is due."""

    def check(self, parameter, value):
        """Would this value do for the parameter, by its name? An answer that is true says why not. Changes nothing."""

    def set(self, parameter, value):
        """The parameter has this value now."""

    def export(self):
        """Its state, as bytes."""
        return b""

    def take_over(self, version, state):
        """Takes over state that export() of this state_version wrote. An answer that is true says why not."""
        return "it takes over no state"

    def set_timer(self, token, delay_ns):
        """Calls timer(token) after so long."""
        self._effects.append(["timer", int(token), int(delay_ns)])

    def cancel_timer(self, token):
        self._effects.append(["timer", int(token), None])

    def count(self, counter, by=1):
        """Adds to a counter, by its place in the manifest."""
        self._effects.append(["count", int(counter), int(by)])

    def emit(self, port, frame):
        """Gives out a frame that the block made."""
        self._effects.append(["emit", int(port), frame._fields()])

    def say(self, text):
        """Raises the alert `said`."""
        self._effects.append(["say", str(text)])


def _answer(block, names, call):
    what = call["call"]
    block.now = call["now"]
    if what == "process":
        frames = [Frame(fields) for fields in call["frames"]]
        block.process(call["port"], frames)
        return [frame._fields() for frame in frames]
    if what == "schedule":
        question = Question(call)
        kept, block.random = block.random, random.Random(0)
        choice = block.schedule(question)
        block.random = kept
        return question._answer(choice)
    if what == "timer":
        return block.timer(call["token"])
    if what == "started":
        return block.started()
    if what == "check":
        return block.check(names[call["parameter"]], Value(call["value"])) or None
    if what == "set":
        return block.set(names[call["parameter"]], Value(call["value"]))
    if what == "export":
        return bytes(block.export()).hex()
    if what == "import":
        return block.take_over(call["version"], bytes.fromhex(call["bytes"])) or None
    raise ValueError("weft asks for %r" % what)


def _why(name):
    """The last line of an exception's report, and where in the block it happened."""
    kind, error, trace = sys.exc_info()
    lines = [entry.lineno for entry in traceback.extract_tb(trace) if entry.filename == name]
    place = ", line %d" % lines[-1] if lines else ""
    return "%s (%s%s)" % ("".join(traceback.format_exception_only(kind, error)).strip(), os.path.basename(name), place)


def _end_with(parent):
    while os.getppid() == parent:
        time.sleep(1)
    os._exit(1)


def serve(begin):
    """Runs the script and answers calls, a line each, until there are no more."""
    answers = os.fdopen(os.dup(1), "w")
    os.dup2(2, 1)
    threading.Thread(target=_end_with, args=(os.getppid(),), daemon=True).start()

    def tell(answer):
        answers.write(json.dumps(answer) + "\n")
        answers.flush()

    name = begin["name"]
    try:
        script = {"__name__": "__weft__", "__file__": name}
        exec(compile(begin["script"], name, "exec"), script)
        classes = [one for one in script.values() if isinstance(one, type) and issubclass(one, Block) and one is not Block]
        if len(classes) != 1:
            raise TypeError("it has %d classes that are a weft_block.Block, and needs one" % len(classes))
        if not isinstance(script.get("MANIFEST"), str):
            raise TypeError("it has no text MANIFEST")
        block = classes[0]()
        block.random = random.Random(begin["seed"])
    except BaseException:
        tell({"error": _why(name)})
        return
    tell({"ok": script["MANIFEST"], "effects": []})
    names = []
    for line in sys.stdin:
        call = json.loads(line)
        if call["call"] == "names":
            names = call["names"]
            continue
        block._effects = []
        try:
            tell({"ok": _answer(block, names, call), "effects": block._effects})
        except BaseException:
            tell({"error": _why(name)})
