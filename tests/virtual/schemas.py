"""The JSON schemas of scenarios and stack files beside what weft itself says of each such file in the project.

No file that weft takes is refused by its schema, and none whose shape weft refuses is taken: a key that there is not, a key that is missing,
a value of another type.
"""

from __future__ import annotations

import datetime
import json
import os
import re
import subprocess
import tomllib
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import jsonschema

from harness import paths, weft
from harness.processes import Failure

from .shared import SECONDS_MAX, expect

KINDS = ("scenario", "stack")
SCENARIO_FILES = Path(__file__).parent / "scenario-files"
STACK_FILES = paths.ROOT / "tests/faults/stack-files"
# What weft says of a file whose shape is wrong; whether names and numbers fit together no schema can tell.
SHAPE = re.compile(r": (unknown field|missing field|this is the|invalid type|unknown variant|invalid value|data did not match|expected )")
NAMED = re.compile(r"\A#:schema (\S+)\n")


def schema(kind: str) -> Any:
    return json.loads((paths.ROOT / f"docs/{kind}.schema.json").read_text())


def files() -> Iterator[tuple[str, Path]]:
    """Every scenario and stack file of the project, with its kind."""
    listed = subprocess.run(["git", "-C", str(paths.ROOT), "ls-files", "-z", "--", "*.toml"], capture_output=True, check=True).stdout
    for name in filter(None, listed.decode().split("\0")):
        path = paths.ROOT / name
        top = re.findall(r"^\[+(\w+)", path.read_text(), re.MULTILINE)
        if path.parent.name in ("scenario-files", "stack-files"):
            yield path.parent.name.removesuffix("-files"), path
        elif path.parent.name != "files" and {"nodes", "templates"} & set(top):
            yield "scenario", path
        elif {"node", "interface", "block", "graph"} & set(top):
            yield "stack", path


def plain(value: Any) -> Any:
    """As JSON has it: TOML knows points in time."""
    if isinstance(value, dict):
        return {key: plain(item) for key, item in value.items()}
    if isinstance(value, list):
        return [plain(item) for item in value]
    return value.isoformat() if isinstance(value, (datetime.datetime, datetime.date, datetime.time)) else value


def said_by_weft(kind: str, path: Path) -> str:
    """What is wrong with it; nothing: it is sound."""
    words = {"scenario": ["sim", path.name, "--check"], "stack": ["check", path.name]}[kind]
    done = subprocess.run([weft.binary(), *words], cwd=path.parent, capture_output=True, text=True, timeout=SECONDS_MAX, stdin=subprocess.DEVNULL)
    return done.stderr if done.returncode else ""


def agree(_: Path) -> str:
    checks = {kind: jsonschema.Draft202012Validator(schema(kind)) for kind in KINDS}
    counted = {"sound": 0, "wrong in shape": 0, "wrong otherwise": 0}
    for kind, path in files():
        try:
            content = plain(tomllib.loads(path.read_text()))
        except tomllib.TOMLDecodeError:
            continue
        said = said_by_weft(kind, path)
        refused = next(iter(checks[kind].iter_errors(content)), None)
        shape = SHAPE.search(said.split("\n", 1)[0])
        if not said and refused:
            raise Failure(f"{path}: weft takes it, the schema does not: {refused.message} at {list(refused.absolute_path)}")
        if shape and not refused:
            raise Failure(f"{path}: the schema takes what weft does not: {said}")
        counted["sound" if not said else "wrong in shape" if shape else "wrong otherwise"] += 1
    if min(counted.values()) < 10:
        raise Failure(f"hardly anything was compared: {counted}")
    return ", ".join(f"{number} {what}" for what, number in counted.items())


def printed(_: Path) -> str:
    """`weft help KIND --json` prints what lies in docs/, and it is a schema."""
    for kind in KINDS:
        jsonschema.Draft202012Validator.check_schema(schema(kind))
        said = subprocess.run([weft.binary(), "help", kind, "--json"], capture_output=True, text=True, check=True).stdout
        expect(kind, json.loads(said), schema(kind))
    return f"{sum(len(json.dumps(schema(kind))) for kind in KINDS)} bytes"


def named(folder: Path) -> str:
    """Examples, and what `weft new` writes, name the schema of their kind, where an editor finds it."""
    subprocess.run([weft.binary(), "new", "block", "mine"], cwd=folder, check=True, capture_output=True)
    examples = [(kind, path) for kind, path in files() if "examples" in path.parts] + [("scenario", folder / "mine/world.toml")]
    for kind, path in examples:
        first = NAMED.match(path.read_text())
        if not first or json.loads((path.parent / first[1]).read_text()) != schema(kind):
            raise Failure(f"{path} does not begin with a line that names the schema of a {kind} file")
    return f"{len(examples)} files"


def described(_: Path) -> str:
    """Every key has a sentence."""
    def keys(part: Any, place: str) -> Iterator[str]:
        if isinstance(part, dict):
            for name, key in part.get("properties", {}).items() if isinstance(part.get("properties"), dict) else ():
                if isinstance(key, dict) and not {"description", "if"} & set(key) and name != "kind":
                    yield f"{place}.{name}"
            for name, below in part.items():
                yield from keys(below, f"{place}.{name}")
        elif isinstance(part, list):
            for below in part:
                yield from keys(below, place)
    for kind in KINDS:
        expect(f"keys of {kind} without a description", list(keys(schema(kind), "")), [])
    return "all"


def manual(_: Path) -> str:
    """The pages of section 5: troff finds nothing wrong in them, and no line of an example is too long."""
    pages = sorted((paths.ROOT / "docs/man").glob("*.5"))
    for page in pages:
        variables = {"PATH": os.environ["PATH"], "MANWIDTH": "80", "LC_ALL": "C.UTF-8"}
        done = subprocess.run([paths.tool("man"), "--warnings", "-l", str(page)], capture_output=True, text=True, timeout=SECONDS_MAX, env=variables)
        plain_text = re.sub(".\x08", "", done.stdout)
        if done.returncode or done.stderr or "DESCRIPTION" not in plain_text:
            raise Failure(f"{page.name}: {done.stderr or plain_text[:300]}")
        # Code is as long as it is.
        if long := [line for line in plain_text.splitlines() if len(line) > 80 and " = " not in line]:
            raise Failure(f"{page.name}: {long[0]}")
    expect("pages", [page.stem for page in pages], ["weft-root", "weft-scenario", "weft-stack"])
    return ", ".join(page.name for page in pages)


def mistakes(folder: Path) -> str:
    """With --json every mistake of a file is told, as docs/answers.schema.json has it."""
    whole = json.loads((paths.ROOT / "docs/answers.schema.json").read_text())
    check = jsonschema.Draft202012Validator({"$defs": whole["$defs"], "$ref": "#/$defs/mistakes"})
    told = 0
    for path, words in ((SCENARIO_FILES, ["sim", "--check", "--json"]), (SCENARIO_FILES, ["sim", "--json"]), (STACK_FILES, ["check", "--json"])):
        done = subprocess.run([weft.binary(), *words, "several-mistakes.toml"], cwd=path, capture_output=True, text=True, timeout=SECONDS_MAX, stdin=subprocess.DEVNULL)
        said = json.loads(done.stdout)
        check.validate(said)
        wanted = [int(line) for line in re.findall(r"^(?:weft: )?several-mistakes\.toml:(\d+): ", done.stderr, re.MULTILINE)]
        expect(f"{words}: lines, status", ([one["line"] for one in said["errors"]], done.returncode), (wanted, 2))
        told += len(wanted)
    (folder / "wrong.toml").write_text((SCENARIO_FILES / "several-mistakes.toml").read_text())
    done = subprocess.run([weft.binary(), "test", "--json", "."], cwd=folder, capture_output=True, text=True, timeout=SECONDS_MAX, stdin=subprocess.DEVNULL)
    [broken] = json.loads(done.stdout)["broken"]
    if len(broken["errors"]) < 3 or broken["errors"][0]["what"] not in broken["error"]:
        raise Failure(f"weft test: {broken}")
    return f"{told} in three answers"


ROWS = {"schema/mistakes": mistakes, "manual/section 5": manual, "schema/agrees with weft": agree, "schema/printed": printed, "schema/named by files": named, "schema/described": described}
