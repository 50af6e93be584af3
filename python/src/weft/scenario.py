"""The sections of a scenario. Times are texts with a unit ("10ms", "5s"), rates too ("100mbit"), and sizes ("512MiB").

`weft help scenario` says more about each key. A key that is None is not written, and weft takes its default.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any, Literal, Optional, Union

from ._section import Section

Queue = Literal["drop-tail", "red", "codel", "fq-codel", "pie"]
JitterShape = Literal["uniform", "normal", "pareto"]
Ways = Literal["hops", "delay", "none"]
Builtin = Literal["ping", "udp-cbr", "udp-sink", "tcp-send", "tcp-sink", "echo"]
NodeKind = Literal["host", "switch", "segment", "linux"]
TemplateKind = Literal["chain", "ring", "star", "grid", "dumbbell", "fat-tree"]


@dataclass
class NextHop(Section):
    """One of several next hops of a route."""

    gateway: Optional[str] = None
    """Address of the next router."""
    interface: Optional[str] = None
    """Name of the interface, such as "eth0"."""
    weight: Optional[int] = None
    """Its share of the flows, beside the weights of the others."""


@dataclass
class Route(Section):
    """A route, over those along the shortest paths."""

    destination: str
    """A network ("10.9.0.0/24") or "default"."""
    gateway: Optional[str] = None
    """Address of the next router."""
    interface: Optional[str] = None
    """Name of the interface, such as "eth0"."""
    metric: Optional[int] = None
    """The smaller, the better; default 0."""
    nexthops: Optional[list[NextHop]] = None
    """Several ways, over which flows are spread."""


@dataclass
class Carrier(Section):
    """When the ends of a wire notice that nothing answers."""

    delay: str
    """How long it takes, such as "50ms"."""


@dataclass
class Clock(Section):
    """How wrong a node's clock is, by the world's."""

    offset: Optional[str] = None
    """By how much it is ahead when the world begins, such as "250ms" or "-2s"."""
    drift: Optional[str] = None
    """How much too fast its crystal is, such as "40ppm" or "-1.5ppm"."""


@dataclass
class Cpu(Section):
    """What each call of an unmodified program costs: the product of both. Computing costs nothing."""

    per_call: Optional[str] = None
    """A time, such as "1us"."""
    factor: Optional[float] = None
    """A number that the time is multiplied with."""


@dataclass
class From(Section):
    """A file of a node whose content is that of a file of the host."""

    from_: str
    """Path of the file, from the scenario's folder; `{n}` and `{node}` are the node's number and name."""
    expand: Optional[bool] = None
    """Are `{n}` and `{node}` in its text replaced, too?"""


@dataclass
class Mount(Section):
    """A folder of the host that a node may read."""

    from_: str
    """Path of the folder, from the scenario's folder."""


@dataclass
class Node(Section):
    """A node. Interfaces eth0, eth1 … and addresses come with its wires."""

    kind: Optional[NodeKind] = None
    """What it is: a host with weft's stack (default), a switch, a segment where everybody hears everything, or a Linux kernel."""
    count: Optional[int] = None
    """So many of them: NAME1 … NAMEcount."""
    stack: Optional[str] = None
    """Path of a stack file that it has instead."""
    kernel: Optional[str] = None
    """Version of the kernel of a Linux node, such as "6.12"."""
    forward: Optional[bool] = None
    """Does it send packets on? By default when it is on several wires."""
    large_frames: Optional[bool] = None
    """False: frames are cut at the interface and not at the wire; changes no result. Of a Linux node true: offloads."""
    mptcp: Optional[bool] = None
    """Multipath TCP for every program, with a route by each interface."""
    capture: Optional[Union[bool, list[str]]] = None
    """Write what passes its interfaces to DIR/captures: all, or those of these names."""
    dhcp: Optional[Union[bool, list[str]]] = None
    """A DHCP server on another node gives its interfaces, or those of these names, their IPv4 addresses and routes."""
    addresses: Optional[dict[str, Union[str, list[str]]]] = None
    """Addresses with prefix of interfaces by name: {"eth0": "10.9.0.1/24"}, or a list."""
    routes: Optional[Union[list[Route], Ways]] = None
    """Routes over those along the shortest paths; or how these are found: "hops", "delay", "none"."""
    ipv4: Optional[bool] = None
    """Do its interfaces get IPv4 addresses? By default as the world says."""
    sysctls: Optional[dict[str, Any]] = None
    """Linux' sysctls by name: {"net.ipv4.tcp_congestion_control": "reno"}."""
    parameters: Optional[dict[str, Any]] = None
    """Parameters of blocks: {"tcp.congestion": "reno"}."""
    root: Optional[str] = None
    """A folder that is / for its programs, instead of the host's."""
    boot: Optional[str] = None
    """How long it has been up when the world begins; by default the seed draws that for each node, and the first process number."""
    clock: Optional[Clock] = None
    """How wrong its clock is."""
    cpu: Optional[Cpu] = None
    """What each call of an unmodified program costs."""
    memory: Optional[str] = None
    """Most private memory of each unmodified program, such as "512MiB"; of a Linux node the kernel's (default "96MiB")."""
    descriptors: Optional[int] = None
    """Most descriptors of each program; 1024 without it, which programs can raise."""
    files: Optional[dict[str, Union[str, From]]] = None
    """Files for unmodified programs, by path: a text, or `From` another file."""
    mounts: Optional[dict[str, Mount]] = None
    """Folders of the host, by the path at which they are to be read."""
    collect: Optional[list[str]] = None
    """Patterns of files that are taken into DIR/files/NODE: `/out.xml`, `/var/log/**`."""


@dataclass
class Gilbert(Section):
    """Loss in bursts: a good and a bad state. All are probabilities, 0 to 1."""

    to_bad: float
    """Of a change to the bad state, a frame."""
    to_good: float
    """Of a change to the good state, a frame."""
    loss_good: Optional[float] = None
    """Of loss in the good state."""
    loss_bad: Optional[float] = None
    """Of loss in the bad state."""


@dataclass
class Wire(Section):
    """A wire between two nodes. Probabilities are numbers from 0 to 1, a frame."""

    between: Optional[list[str]] = None
    """Its two ends: nodes ("client") or interfaces ("router:eth1"); "leaf*" makes a wire for each."""
    back: Optional[Wire] = None
    """What differs from the second end to the first."""
    rate: Optional[str] = None
    """Bits a second, such as "1gbit"; without it frames take no time."""
    trace: Optional[str] = None
    """Path of a file in Mahimahi's format instead: when packets can leave."""
    overhead: Optional[int] = None
    """Bytes that a frame takes beside its own (Ethernet: 24)."""
    delay: Optional[str] = None
    """Time from end to end, such as "10ms"."""
    jitter: Optional[str] = None
    """How much the delay varies, such as "1ms"."""
    jitter_shape: Optional[JitterShape] = None
    """How the jitter is distributed; default "uniform"."""
    loss: Optional[float] = None
    """Probability of loss."""
    lose: Optional[list[int]] = None
    """Numbers of the frames that are lost, instead."""
    gilbert: Optional[Gilbert] = None
    """Loss in bursts, instead."""
    corrupt: Optional[float] = None
    """Probability of one wrong bit."""
    duplicate: Optional[float] = None
    """Probability of a second copy."""
    reorder: Optional[float] = None
    """Probability of being held back."""
    reorder_by: Optional[str] = None
    """For how long, such as "1ms"."""
    carrier: Optional[Union[bool, Carrier]] = None
    """Do its ends notice that it is cut, or that the other end is down, and after what time? By default at once."""
    mtu: Optional[int] = None
    """Most bytes of a packet."""
    queue: Optional[Queue] = None
    """Discipline of the queue before the wire; default "drop-tail"."""
    queue_packets: Optional[int] = None
    """Most packets in it."""
    queue_bytes: Optional[int] = None
    """Most bytes in it, instead."""
    ecn: Optional[bool] = None
    """Does the queue mark packets instead of dropping them?"""
    target: Optional[str] = None
    """Target delay of codel, fq-codel and pie, such as "5ms"."""
    interval: Optional[str] = None
    """Interval of codel and fq-codel, such as "100ms"."""


@dataclass
class Template(Section):
    """Many nodes and the wires between them."""

    kind: TemplateKind
    """Its shape."""
    count: Optional[int] = None
    """Nodes of a chain, ring or star."""
    width: Optional[int] = None
    """Nodes of a row of a grid."""
    height: Optional[int] = None
    """Rows of a grid."""
    left: Optional[int] = None
    """Hosts on the left of a dumbbell."""
    right: Optional[int] = None
    """Hosts on its right."""
    arity: Optional[int] = None
    """Ports of each switch of a fat-tree, an even number."""
    wire: Optional[Wire] = None
    """What each wire is like."""
    bottleneck: Optional[Wire] = None
    """What the wire in the middle of a dumbbell is like."""
    node: Optional[Node] = None
    """What each node is like."""


@dataclass
class Program(Section):
    """A program of a node: a built-in one, or an unmodified one by its command."""

    node: str
    """Name of the node; "leaf*": one for each, called NAME@leaf1."""
    builtin: Optional[Builtin] = None
    """Which built-in program."""
    command: Optional[list[str]] = None
    """An unmodified program and its words; `{n}` and `{node}` are the node's number and name."""
    environment: Optional[dict[str, str]] = None
    """Variables over the usual ones."""
    stdin: Optional[str] = None
    """What it reads."""
    directory: Optional[str] = None
    """Where it starts; default "/"."""
    output_max: Optional[str] = None
    """Most bytes of its output that count, such as "1GiB" (default)."""
    collect: Optional[list[str]] = None
    """Patterns of files that are taken into DIR/files/NODE."""
    start: Optional[str] = None
    """Time at which it starts, such as "100ms"; default 0."""
    waits: Optional[bool] = None
    """Does an event start it?"""
    stagger: Optional[str] = None
    """So much later than the copy before each copy starts."""
    expect: Optional[Union[int, Literal["running", "any"]]] = None
    """Its exit status (default 0), "running" until the run ends, or "any"."""
    to: Optional[str] = None
    """Where a built-in program sends: "server:5001"; `{n}` counts."""
    port: Optional[int] = None
    """Port at which a built-in program receives."""
    count: Optional[int] = None
    """Packets of ping and udp-cbr."""
    interval: Optional[str] = None
    """Time between two of ping's."""
    size: Optional[int] = None
    """Bytes of each packet of ping and udp-cbr."""
    rate: Optional[str] = None
    """Bits a second of udp-cbr, such as "10mbit"."""
    bytes: Optional[int] = None
    """Bytes that tcp-send sends."""
    duration: Optional[str] = None
    """How long tcp-send or udp-cbr sends, instead."""


@dataclass
class Event(Section):
    """What happens at a time: one of the kinds that `weft help scenario` lists."""

    at: str
    """The time, such as "5s"."""
    wire: Optional[str] = None
    """A wire that `set` changes."""
    set: Optional[Wire] = None
    """What of it is otherwise from then on."""
    down: Optional[str] = None
    """A wire or an interface ("router:eth1") that goes down."""
    up: Optional[str] = None
    """One that comes up."""
    partition: Optional[list[list[str]]] = None
    """Sides, as names of nodes; the wires between them are cut."""
    heal: Optional[bool] = None
    """True: the partition ends."""
    crash: Optional[str] = None
    """A node that crashes."""
    restart: Optional[str] = None
    """One that boots again."""
    fresh_disk: Optional[bool] = None
    """True: without its disk."""
    start: Optional[str] = None
    """A program that starts."""
    stop: Optional[str] = None
    """One that gets SIGTERM, with all that it has started."""
    signal: Optional[str] = None
    """One that gets the signal of `name`."""
    name: Optional[str] = None
    """The signal, such as "SIGHUP"."""
    node: Optional[str] = None
    """A node, for `parameter`, `block` or `control`."""
    parameter: Optional[str] = None
    """A parameter that gets `value`, such as "tcp.congestion"."""
    value: Optional[Any] = None
    """What it gets."""
    block: Optional[str] = None
    """A block whose `procedure` is called."""
    procedure: Optional[str] = None
    """The procedure, such as "flush"."""
    arguments: Optional[Any] = None
    """A table of its arguments."""
    control: Optional[list[str]] = None
    """Changes of the node's graph, in the words of the command line."""


@dataclass
class Expect(Section):
    """What must come of the run."""

    program: Optional[str] = None
    """Name of a program; of copies all of them, or a pattern: "load@leaf*"."""
    status: Optional[int] = None
    """Its exit status."""
    output: Optional[str] = None
    """A text that is in its output."""
    absent: Optional[str] = None
    """A text that is not."""
    matches: Optional[str] = None
    """A regular expression that its output matches somewhere."""
    end_min: Optional[str] = None
    """Earliest time at which it ends, such as "1s"."""
    end_max: Optional[str] = None
    """Latest time."""
    figure: Optional[str] = None
    """Name of a figure that it reports, such as "received_bytes", for `min` and `max`."""
    goodput_min: Optional[str] = None
    """Least goodput, bits a second: "900mbit"."""
    goodput_max: Optional[str] = None
    """Most goodput, bits a second."""
    min: Optional[int] = None
    """Least value of the figure, in its unit."""
    max: Optional[int] = None
    """Largest value of the figure, in its unit."""
    hash: Optional[str] = None
    """The hash of the run, 32 hexadecimal digits."""


@dataclass
class Twin(Section):
    """One more variant for `weft twin`."""

    name: str
    """Its name."""
    linux: list[str] = field(default_factory=list)
    """Nodes that are Linux kernels in it."""
    set: Optional[list[str]] = None
    """What else is otherwise: "wires.access.loss=0.02"."""
