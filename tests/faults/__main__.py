"""What breaks from outside, one row a fault. The full form has more ways in which a stack is lost. Words select rows: `python3 -m faults "late pages"`."""

from __future__ import annotations

import os
import sys
import tempfile
from pathlib import Path
from typing import Callable

from harness import paths, results
from harness.environment import Environment, run_main
from load.rows import Rows
from load.stage import Tools, build

from . import blocks, kernels, killed, lost, messages, pages, snapshots, stack_files, surroundings

NEEDS_ROOT = "it looks for a TAP, or rules beside one, and a normal user's stack has none; runs as root"


def in_environment(tools: Tools, body: Callable[[Environment, Tools], str]) -> str:
    with Environment(body.__name__) as env:
        return body(env, tools)


def main() -> int:
    rows = Rows(sys.argv[1:])
    with Environment("tools") as shared:
        tools = Tools(build(shared, "crowd"), "")
        for name, body in (("weft killed/daemon under load", killed.daemon_under_load),
                           ("weft killed/guard and nat", killed.daemon_with_guard_and_nat),
                           ("weft killed/a stack of its own", killed.stack_of_its_own),
                           ("full disk under a capture", surroundings.full_disk)):
            rows.run(name, lambda body=body: in_environment(tools, body), "" if "disk" in name else NEEDS_ROOT)
        for case in killed.CASES:
            rows.run(f"program killed/{case}", lambda case=case: _with_case(tools, killed.program, case))
        for kind in ("tap", "packet"):
            rows.run(f"interface removed/{kind}", lambda kind=kind: _with_case(tools, surroundings.interface_removed, kind), NEEDS_ROOT)
        _lost(rows, lost.build(shared))
        program = pages.built(shared)
        adapters = {False: "notify", True: "strict"}
        for kind, strict, family, engine in pages.cases(bool(os.environ.get("FULL"))):
            rows.run(f"late pages/{kind}/{adapters[strict]}/ipv{family}/{engine}",
                     lambda case=(kind, strict, family, engine): _late(pages.late, program, *case), pages.NEEDS_ROOT)
        for strict, mode in adapters.items():
            rows.run(f"late pages/stuck/{mode}", lambda strict=strict: _late(pages.stuck, program, strict), pages.NEEDS_ROOT)
            rows.run(f"late pages/many/{mode}", lambda strict=strict: _late(pages.many, program, strict), pages.NEEDS_ROOT)
        for threads in (pages.MANY, pages.CROWD):
            rows.run(f"late pages/none comes/notify/{threads}", lambda threads=threads: _late(pages.none_comes, program, threads), pages.NEEDS_ROOT)
        for how in ("SIGKILL", "SIGTERM"):
            rows.run(f"late pages/stack lost/notify/{how}", lambda how=how: _late(pages.stack_lost, program, how), pages.NEEDS_ROOT)
    rows.run("control/random messages", messages.random_messages)
    for case in blocks.CASES:
        for policy in ("close", "bypass"):
            rows.run(f"block/{case}/{policy}", lambda case=case, policy=policy: blocks.isolated(case, policy))
    rows.run("block/another interface version", blocks.wrong_version)
    rows.run("block/not run", blocks.not_run)
    for name, body in snapshots.ROWS.items():
        rows.run(name, body)
    for name, body in kernels.BUILDS.items():
        rows.run(f"kernel build/{name}", lambda body=body: kernels.run(body))
    for name, body in kernels.WITHOUT_KERNEL.items():
        rows.run(f"kernel/{name}", lambda body=body: kernels.run(body))
    for name, body in kernels.WITH_KERNEL.items():
        if kernels.has_kernel():
            rows.run(f"kernel/{name}", lambda body=body: kernels.run(body))
        else:
            rows.recorder.add(results.Row(f"kernel/{name}", results.SKIPPED, 0.0, "no Linux kernel has been built"))
    with tempfile.TemporaryDirectory(prefix="weft-stack-files-") as made:
        folder = Path(made)
        for name in stack_files.names():
            rows.run(f"stack file/{name}", lambda name=name: stack_files.check(name))
        for name, content, expected in stack_files.MADE:
            rows.run(f"stack file/{name}", lambda made=(name, content, expected): stack_files.check_made(folder, *made))
        rows.run("stack file/empty", lambda: stack_files.empty(folder))
    return rows.recorder.finish()


def _lost(rows: Rows, program: str) -> None:
    """Stacks that end under their programs, and what they have switched on in the host."""
    def run(name: str, body: Callable[..., str], *words: object, needs_root: str = "") -> None:
        def inside() -> str:
            with Environment(body.__name__) as env:
                return body(env, *words)
        rows.run(name, inside, needs_root)

    run("stack lost/on Linux", lost.linux, program)
    for name, body, how, strict, as_user, engine in lost.cases(bool(os.environ.get("FULL"))):
        who, adapter = "user" if as_user else "root", "strict" if strict else "notify"
        run(f"stack lost/{name}/{how}/{adapter}/{who}/{engine}", body, program, how, strict, as_user, engine, needs_root=NEEDS_ROOT)
    for adapter in lost.UNSEEN_SAYS:
        run(f"stack lost/unseen/{adapter}", lost.unseen, adapter, needs_root=NEEDS_ROOT)
    for how, strict in (("kill -9", False), ("weft down", False), ("kill -9", True)):
        run(f"stack lost/curl/{how}/{'strict' if strict else 'notify'}", lost.download, how, strict)
    for how in ("kill -9", "weft down"):
        run(f"stack lost/later/{how}", lost.later, how, needs_root=NEEDS_ROOT)
        run(f"stack lost/published/{how}", lost.published, how, needs_root=NEEDS_ROOT)
    for call in lost.IN_HAND_CALLS + (lost.MORE_IN_HAND_CALLS if os.environ.get("FULL") else ()):
        run(f"stack lost/in hand/{call}", lost.in_hand, call, needs_root=NEEDS_ROOT)
    run("stack lost/started again at once", lost.again, needs_root=NEEDS_ROOT)
    for how in lost.ENDS:
        run(f"forwarding/{how}", lost.forwarding, how, needs_root=NEEDS_ROOT)
    for first, second in (("kill -9", "kill -9"), ("kill -9", "SIGTERM"), ("SIGTERM", "kill -9")):
        run(f"forwarding/two stacks/{first}, {second}", lost.two_forward, first, second, needs_root=NEEDS_ROOT)


def _late(body: Callable[..., str], program: str, *case: object) -> str:
    with Environment("-".join(["pages", *map(str, case)])) as env:
        return body(env, program, *case)


def _with_case(tools: Tools, body: Callable[[Environment, Tools, str], str], case: str) -> str:
    with Environment(f"{body.__name__}-{case}") as env:
        return body(env, tools, case)


if __name__ == "__main__":
    if paths.weft_binary() is None:
        print(f"no weft at {paths.built() / 'weft'}: run make build, or set WEFT_BIN")
        sys.exit(1)
    sys.exit(run_main(main))
