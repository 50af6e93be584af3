"""weft from Python: scenarios as typed objects, their runs, sweeps and pictures::

    from weft import Node, Program, Wire, World

    world = World(
        nodes={"a": Node(), "b": Node()},
        wires={"ab": Wire(["a", "b"], rate="10mbit", delay="10ms")},
        programs={"ping": Program("a", builtin="ping", to="b", count=3)},
    )
    result = world.run()
    print(result.hash, result.programs["ping"].figures["rtt_mean_ns"])

Libraries of others, such as pandas, are imported when something needs them.
"""

from .errors import BinaryNotFound, ExpectationError, MissingLibrary, ScenarioError, UnknownKey, WeftError
from .plots import plot_sweep
from .result import Expectation, ProgramResult, Result
from .scenario import Carrier, Clock, Cpu, Event, Expect, From, Gilbert, Mount, NextHop, Node, Program, Route, Template, Twin, Wire
from .stack import Stack
from .sweeps import summary, sweep
from .world import World

__all__ = [
    "BinaryNotFound", "Carrier", "Clock", "Cpu", "Event", "Expect", "Expectation", "ExpectationError", "From", "Gilbert", "MissingLibrary", "Mount", "NextHop",
    "Node", "Program", "ProgramResult", "Result", "Route", "ScenarioError", "Stack", "Template", "Twin", "UnknownKey", "WeftError", "Wire", "World",
    "plot_sweep", "summary", "sweep",
]
__version__ = "0.1.0"
