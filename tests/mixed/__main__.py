"""Frames of every kind on one stack at a time: whatever came before a frame, it is taken for what it is.

    python3 -m mixed [WORDS…]

IPv4 and IPv6, TCP, UDP and ICMP, with options and without, small, as large as the MTU and of several frames ([flows.py](flows.py)) pass one
stack in a drawn order, from its programs and to them: behind each backend, with offload and without, on each engine, as root and as a normal
user. Every byte must arrive, and neither stack may have dropped a frame or found a wrong checksum. The same over interfaces that a running
stack gets ([attached.py](attached.py)).

Short form: one seed, and of the wrappers around a backend and of a user's stacks only those on the usual engine with offload. FULL=1: everything,
three times as many flows, and another seed each time. SEED=… repeats one. Words select rows. MODE=native needs no weft.
"""

from __future__ import annotations

import dataclasses
import json
import os
import random
import shutil
import sys
import time
from pathlib import Path

from harness import paths, results, user, weft
from harness.environment import Environment, run_main
from harness.namespaces import Namespace, veth
from harness.processes import Failure, Process, snmp, snmp6

from . import attached, fit

FLOWS = Path(__file__).with_name("flows.py")
# Ends what hangs.
WATCHDOG_S = 90
ENGINES = ("inline", "queued", "threaded")
# What stands before the name of the device. `coalesce` is a TAP whose segments are joined.
BACKENDS = {"tap": "tap:", "tun": "tun:", "packet": "packet:", "trace": "trace:tap:", "fault": "fault:seed=1:tap:", "coalesce": "tap:"}
# A wire that spoils frames: TCP repairs what it carries, and every spoilt frame is counted.
CANARY = "fault:corrupt=0.02,seed=3:tap:"
WRAPPERS = ("trace", "fault", "coalesce")
# What hosts send to all by themselves; and of TCP what was overtaken between processors, or repeated while the machine was busy.
BENIGN = ("not-for-us", "tcp-old-ack", "tcp-unacceptable", "tcp-paws")
# Of Linux: what must not move while flows pass.
SPOILT = ("InCsumErrors", "InHdrErrors", "InErrs", "ReasmFails", "InErrors", "InTruncatedPkts", "InUnknownProtos", "RcvbufErrors")
SILENT = ("TcpActiveOpens", "TcpPassiveOpens", "TcpOutSegs", "UdpOutDatagrams", "UdpInDatagrams", "Udp6OutDatagrams", "Udp6InDatagrams")


@dataclasses.dataclass(frozen=True)
class Case:
    """One stack, and who runs it."""

    backend: str
    offload: bool
    engine: str
    as_user: bool

    @property
    def name(self) -> str:
        return "/".join((self.backend, "offload" if self.offload else "plain", self.engine, "user" if self.as_user else "root"))

    @property
    def is_short(self) -> bool:
        usual = self.engine == "inline" and self.offload != (self.backend == "coalesce")
        return usual or not (self.as_user or self.backend in WRAPPERS)


# A user may open a TAP (a veth pair stands in for it) and a TUN device that is his; packet sockets want CAP_NET_RAW.
CASES = [Case(backend, offload, engine, as_user) for backend in BACKENDS for offload in (True, False) for engine in ENGINES
         for as_user in (False, True) if not as_user or backend in ("tap", "tun")]


class Stack:
    """A stack in namespace S with its programs in P; on the other end the kernel."""

    def __init__(self, env: Environment, case: Case, url: str = "") -> None:
        self._env = env
        self._s, self._p = env.namespace("s"), env.namespace("p")
        self._s.enable_ipv6()
        self._words = user.words() if case.as_user else []
        os.chown(env.folder, user.ID if case.as_user else 0, -1)
        url = url or BACKENDS[case.backend] + weft.TAP
        kernel = self._other_end(case)
        self.daemon = self._start(case, url)
        self.program = [*self._p.prefix, *self._words, *self.daemon.run_words()]
        # Into a namespace of its own the user goes as its root.
        self.peer = kernel.prefix if kernel else [*self._words, *self.daemon.host_side]

    def _other_end(self, case: Case) -> Namespace | None:
        """What must be there before the stack: for a packet socket a veth pair, for a user's TUN device the device."""
        if case.backend == "packet":
            kernel = self._env.namespace("k")
            kernel.enable_ipv6()
            veth((kernel, "peer0"), (self._s, weft.TAP))
            give_addresses(kernel, "peer0", weft.HOST, weft.HOST6)
            return kernel
        if case.as_user and case.backend == "tun":
            self._s.ip("tuntap", "add", "dev", weft.TAP, "mode", "tun", "user", str(user.ID), "vnet_hdr")
            self._s.ip("link", "set", weft.TAP, "up")
            give_addresses(self._s, weft.TAP, weft.HOST, weft.HOST6)
            return self._s
        return None

    def _start(self, case: Case, url: str) -> weft.Daemon:
        lines = ["[node]", 'name = "mixed"', "[[interface]]", f'name = "{weft.TAP}"', f'backend = "{url}"',
                 f"offload = {str(case.offload).lower()}", f"coalesce = {str(case.backend == 'coalesce').lower()}"]
        if case.backend not in ("packet",) and not (case.as_user and case.backend == "tun"):
            lines.append(f'host_address = ["{weft.HOST}/{weft.PREFIX_LENGTH}", "{weft.HOST6}/{weft.PREFIX_LENGTH6}"]')
        for address in (f"{weft.STACK}/{weft.PREFIX_LENGTH}", f"{weft.STACK6}/{weft.PREFIX_LENGTH6}"):
            lines += ["[[address]]", f'interface = "{weft.TAP}"', f'address = "{address}"']
        file = self._env.folder / "stack.toml"
        file.write_text("\n".join(lines) + "\n")
        return weft.Daemon(self._env, self._s, extra=("--stack", str(file), "--engine", case.engine), before=self._words)


def give_addresses(namespace: Namespace, interface: str, address: str, address6: str) -> None:
    namespace.ip("address", "add", f"{address}/{weft.PREFIX_LENGTH}", "dev", interface)
    namespace.ip("address", "add", f"{address6}/{weft.PREFIX_LENGTH6}", "dev", interface, "nodad")


class Ends:
    """Both ends of the flows: the program (on weft, or natively on the other kernel) and the peer."""

    def __init__(self, env: Environment, program: list[str], peer: list[str], seed: int, native: bool, only: str = "", **variables: str) -> None:
        self._go = env.folder / "go"
        script = shutil.copy2(FLOWS, env.folder)
        rounds = "3" if os.environ.get("FULL") else "1"

        def start(name: str, words: list[str], own: tuple[str, str], other: tuple[str, str], raw: bool) -> Process:
            command = [*words, paths.PYTHON, script, str(seed), name, *own, *other, str(self._go), *([only] if only else [])]
            return env.start(name, command, **({"RAW": "1"} if raw else {}), ROUNDS=rounds, **variables)

        ours, theirs = (weft.STACK, weft.STACK6), (weft.HOST, weft.HOST6)
        self.both = [start("program", program, ours, theirs, raw=native), start("peer", peer, theirs, ours, raw=True)]
        for process in self.both:
            process.wait_for_line("listening", WATCHDOG_S)

    def run(self) -> str:
        """Lets both begin and waits until they are done."""
        self._go.touch()
        done = [json.loads(process.wait_for_line("done ", WATCHDOG_S).removeprefix("done ")) for process in self.both]
        messages, size = sum(end["messages"] for end in done), sum(end["bytes"] for end in done)
        return f"{sum(end['flows'] for end in done)} flows, {messages} messages, {size // 1000} kB, all equal"

    def stop(self) -> None:
        for process in self.both:
            process.stop()

    def kernel_counters(self) -> dict[str, int]:
        """Of the peer's kernel: what must stand still."""
        counters = snmp(self.both[1].pid) | snmp6(self.both[1].pid)
        return {name: value for name, value in counters.items() if name.endswith(SPOILT)}

    def silent_counters(self) -> dict[str, int]:
        counters = snmp(self.both[0].pid) | snmp6(self.both[0].pid)
        return {name: counters[name] for name in SILENT if counters.get(name)}


def run_beside(ends: Ends, daemon: weft.Daemon) -> str:
    """The flows; where they hang, with what the stack has dropped and what each end was busy with."""
    try:
        return ends.run()
    except Failure as failure:
        ends.stop()
        busy = [line for process in ends.both for line in process.stderr.splitlines() if line.startswith("ended while")]
        raise Failure(f"{failure}; weft dropped {drops(daemon)}; the ends {busy}") from None


def run_on_weft(case: Case, seed: int, url: str = "", only: str = "") -> str:
    fit.check(BACKENDS[case.backend], case.as_user)
    with Environment(case.name.replace("/", "-")) as env:
        stack = Stack(env, case, url)
        ends = Ends(env, stack.program, stack.peer, seed, native=False, only=only)
        before, kernel = drops(stack.daemon), ends.kernel_counters()
        said = run_beside(ends, stack.daemon)
        want_still("weft's drops", before, drops(stack.daemon))
        want_still("the kernel's counters", kernel, ends.kernel_counters())
        if moved := ends.silent_counters():
            raise Failure(f"the kernel of the program's namespace took part: {moved}")
        return said


def run_attached(env: Environment, bare: attached.Bare, peer: list[str], seed: int) -> str:
    """The flows over an interface that a running stack has got."""
    ends = Ends(env, bare.program, peer, seed, native=False)
    before, kernel = drops(bare.daemon), ends.kernel_counters()
    said = run_beside(ends, bare.daemon)
    want_still("weft's drops", before, drops(bare.daemon))
    want_still("the kernel's counters", kernel, ends.kernel_counters())
    ends.stop()
    return said


def run_natively(seed: int, **variables: str) -> str:
    """The same between two kernels: the oracle of the flows."""
    with Environment("native") as env:
        one, other = env.namespace("p"), env.namespace("s")
        for namespace in (one, other):
            namespace.enable_ipv6()
        veth((one, "eth0"), (other, weft.TAP))
        give_addresses(one, "eth0", weft.STACK, weft.STACK6)
        give_addresses(other, weft.TAP, weft.HOST, weft.HOST6)
        ends = Ends(env, one.prefix, other.prefix, seed, native=True, **variables)
        kernel = ends.kernel_counters()
        said = ends.run()
        want_still("the kernel's counters", kernel, ends.kernel_counters())
        return said


def drops(daemon: weft.Daemon) -> dict[str, int]:
    rows = daemon.show("drops")
    return {f"{row['block']}: {row['reason']} ({row['text']})": row["frames"] for row in rows if row["reason"] not in BENIGN}


def want_still(what: str, before: dict[str, int], after: dict[str, int]) -> None:
    moved = {name: count - before.get(name, 0) for name, count in after.items() if count != before.get(name, 0)}
    if moved:
        raise Failure(f"{what} went up while the flows passed: {moved}")


def must_fail(body, text: str) -> str:
    """A canary: the failure that has `text` in it."""
    try:
        body()
    except Failure as failure:
        if text in str(failure):
            return "failed as it must"
        raise Failure(f"it failed by something else than '{text}': {failure}") from None
    raise Failure(f"it passed, though '{text}' was planted")


def rows(native: bool, seed: int, words: list[str]) -> list[tuple[str, object]]:
    """Name and body of each."""
    found = [("native", lambda: run_natively(seed)),
             ("canary/a byte that is another", lambda: must_fail(lambda: run_natively(seed, SPOIL="1"), "other from byte 1000 on"))]
    if not native:
        wanted = [case for case in CASES if case.is_short or os.environ.get("FULL")]
        found += [(case.name, lambda case=case: run_on_weft(case, seed)) for case in wanted]
        found += attached.rows(lambda env, bare, peer: run_attached(env, bare, peer, seed))
        spoilt = Case("tap", True, "inline", False)
        found.append(("canary/frames that are spoilt", lambda: must_fail(lambda: run_on_weft(spoilt, seed, CANARY + weft.TAP, "tcp"), "bad-checksum")))
    return [(name, body) for name, body in found if not words or any(word in name for word in words)]


def main() -> int:
    native = os.environ.get("MODE") == "native"
    recorder = results.Recorder()
    seed = int(os.environ.get("SEED") or (random.SystemRandom().randrange(1 << 32) if os.environ.get("FULL") else 1))
    print(f"SEED={seed} repeats this", flush=True)
    with Environment("binary") as env:
        if not native:
            # A normal user can read it there.
            os.environ["WEFT_BIN"] = str(shutil.copy2(weft.binary(), env.folder / "weft"))
        for name, body in rows(native, seed, sys.argv[1:]):
            started = time.monotonic()
            try:
                outcome, reason = results.PASSED, body()
            except fit.Unfit as unfit:
                outcome, reason = results.SKIPPED, str(unfit)
            except Failure as failure:
                outcome, reason = results.FAILED, f"{failure}\nSEED={seed} repeats this"
            recorder.add(results.Row(name, outcome, time.monotonic() - started, reason))
    return recorder.finish()


if __name__ == "__main__":
    sys.exit(run_main(main))
