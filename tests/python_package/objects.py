"""Scenarios as objects: every key, every example there and back, and what is said about wrong ones."""

from __future__ import annotations

import ast
import json
import os
import re
import subprocess
import tomllib
from pathlib import Path

import weft
from harness import paths
from harness.processes import Failure
from virtual.shared import expect
from weft import _command, _place, scenario
from weft._section import keys

RAW = paths.ROOT / "crates" / "sim" / "src" / "scenario" / "raw.rs"
# What raw.rs calls otherwise.
NAMES = {"Raw": "World", "Mounted": "Mount", "After": "Carrier"}


def all_keys(folder: Path) -> str:
    """Each key that weft reads is a field with a docstring, and no field is another."""
    count = 0
    for name, body in re.findall(r"pub\(crate\) struct (\w+) \{\n(.*?)\n\}", RAW.read_text(), re.DOTALL):
        section = getattr(weft, NAMES.get(name, name))
        wanted = re.findall(r"^    pub (\w+):", body, re.MULTILINE)
        expect(f"keys of {section.__name__}", sorted(keys(section)), sorted(wanted))
        count += len(wanted)
    for module in (scenario, weft.world):
        tree = ast.parse(Path(module.__file__).read_text())
        for kind in (node for node in tree.body if isinstance(node, ast.ClassDef)):
            for field, after in zip(kind.body, [*kind.body[1:], None], strict=True):
                if isinstance(field, ast.AnnAssign) and not (isinstance(after, ast.Expr) and isinstance(after.value, ast.Constant)):
                    raise Failure(f"{kind.name}.{field.target.id} has no docstring")
    return f"{count} keys"


def is_scenario(path: Path) -> bool:
    """Is it one, and no file of a stack or a block?"""
    if path.parent.name == "stack-files":
        return False
    try:
        return bool({"nodes", "templates"} & set(tomllib.loads(path.read_text())))
    except tomllib.TOMLDecodeError:
        return False


def there_and_back(folder: Path) -> str:
    """Every scenario of the repository but those whose types are wrong: those weft itself refuses."""
    found = [path for below in ("examples", "docs/examples", "tests") for path in sorted((paths.ROOT / below).rglob("*.toml")) if is_scenario(path)]
    refused = []
    for path in found:
        data = tomllib.loads(path.read_text())
        try:
            back = tomllib.loads(weft.World.from_file(path).to_toml())
        except weft.ScenarioError as error:
            if _command.run(["sim", str(path), "--check"], False).status != _command.SCENARIO_WRONG:
                raise Failure(f"{path.name} is sound: {error}") from None
            refused.append(path)
            continue
        expect(path.name, back, data)
        for table in ("nodes", "wires", "programs", "templates"):
            expect(f"order in {path.name}", list(back.get(table, {})), list(data.get(table, {})))
    if len(found) - len(refused) < 100 or any("scenario-files" not in str(path) for path in refused):
        raise Failure(f"{len(found)} scenarios, of which were refused: {refused}")
    return f"{len(found) - len(refused)} scenarios; {len(refused)} are refused as weft refuses them"


def one_hash(folder: Path) -> str:
    """What objects write comes to the hash of the file."""
    for name in ("dumbbell.toml", "web.toml"):
        file = paths.ROOT / "docs" / "examples" / name
        world = weft.World.from_file(file)
        short = {"check": False, "set": {"duration": "6s"}}
        expect(name, weft.World.from_toml(world.to_toml()).run(**short).hash, world.run(**short).hash)
    return "two examples"


CRLF = """[nodes.a.files]
"/one" = \"\"\"
A
"B\" \\\\
C \\

   D
\"\"\"
'/two' = '''E\\

'F''' # \"\"\"
"/three" = "# '''"
[programs.p]
node = "a"
command = ["sh", "-c", "od -c /one /two /three"]
"""


def ends_of_lines(folder: Path) -> str:
    """Texts of several lines keep the ends of their lines, as weft reads them."""
    for name, ends in (("lf", "\n"), ("crlf", "\r\n")):
        file = folder / f"{name}.toml"
        file.write_bytes(CRLF.replace("\n", ends).encode())
        world = weft.World.from_file(file)
        expect("files", world.nodes["a"].files, {"/one": f'A{ends}"B" \\{ends}C D{ends}', "/two": f"E\\{ends}{ends}'F", "/three": "# '''"})
        saved = world.run().programs["p"].stdout
        world.duration = "1s"
        expect("a changed one", world.run().programs["p"].stdout, saved)
        expect("written and read", weft.World.from_file(world.save(folder / "again.toml")).to_data(), world.to_data())
    return "two kinds"


def wrong(folder: Path) -> str:
    """Errors name the key, its place and what it is; weft's own message comes as it is."""
    for text, says in (("[nodes.a]\nadresses = 1", "nodes.a: there is no key 'adresses'; did you mean 'addresses'?"), ("[node.a]", "the scenario: there is no key 'node'"),
                       ("[nodes.a]\n[[events]]\nat = '1s'\nset = { los = 1 }", "events.1.set: there is no key 'los'"), ("[programs.p]\nbuiltin = 'ping'", "programs.p: there is no node"),
                       ("[nodes.a]\ncount = true", "nodes.a.count: this is True; a whole number"), ("[wires.w]\nqueue = 'x'", "wires.w.queue: this is the text 'x'; it is one of drop-tail"),
                       ("nodes = 1", "nodes: this is 1; a table"), ("[nodes.a", "the scenario: "), ("[nodes.a]\nfiles = { '/x' = { form = 'y' } }", "nodes.a.files./x: there is no key 'form'")):
        refused(lambda text=text: weft.World.from_toml(text), weft.ScenarioError, says)
    world = weft.World(nodes={"a": weft.Node(), "b": weft.Node()})
    refused(lambda: setattr(world.nodes["a"], "adresses", 1), weft.UnknownKey, "Node: there is no key 'adresses'")
    world.wires["ab"] = weft.Wire(["a", "b"], rate="fast")
    refused(world.run, weft.ScenarioError, "weft: wires.ab.rate: 'fast' is no rate such as")
    for call in (world.run, world.check, lambda: weft.sweep(world, 2), lambda: (setattr(world, "folder", folder), world.run())):
        refused(call, weft.ScenarioError, "--> wires.ab.rate\n")
        refused(call, weft.ScenarioError, '| rate = "fast"\n')
    world.folder, world.wires["ab"].rate = None, None
    world.events = [weft.Event(at, set=weft.Wire(["a", "b"], delay="1ms", rate=rate, loss=0.25, queue="fq-codel"), wire="ab") for at, rate in (("1s", "1mbit"), ("2s", "fast"))]
    text = world.to_toml()
    places = {_place.key_of(text, number): line for number, line in enumerate(text.split("\n"), 1) if line.strip(" ]")}
    expect("the key of a line", (places["events.2.set.rate"], places["events.1.at"], places["wires.ab.between"].strip()), ('rate = "fast"', 'at = "1s"', '"b",'))
    world.events = []
    refused(lambda: weft.World.from_file(folder / "none.toml"), weft.ScenarioError, "none.toml: No such file")
    world.wires["ab"] = weft.Wire(["a", "b"])
    (folder / "latin.toml").write_bytes("[nodes.a]\n# Größe".encode("latin-1"))
    refused(lambda: weft.World.from_file(folder / "latin.toml"), weft.ScenarioError, "line 2 is no UTF-8: save the file as UTF-8")
    (folder / "bom.toml").write_bytes(b"\xef\xbb\xbf[nodes.a]\n")
    marked = weft.World.from_file(folder / "bom.toml")
    with marked.placed() as words:
        expect("its own file", words, [str(folder / "bom.toml")])
    marked.check()
    world.programs["p"] = weft.Program("a", command=["python3", "nowhere.py"])
    refused(world.check, weft.ScenarioError, "there is no 'nowhere.py'")
    return "as they should be"


def results(folder: Path) -> str:
    """What is no folder of results, or none of one run that has ended, is an error that says what it is."""
    sound = {"hash": "1", "passed": True, "seed": 1, "end_ns": 0, "end": "", "expectations": [], "programs": []}
    cases = (("", "is damaged: Expecting value"), ("\xff", "is damaged: 'utf-8' codec"), ("[]", "it is no summary"), ("{}", "no sound hash and no sound passed"),
             (json.dumps({**sound, "programs": [{"name": "x"}]}), "there is no sound programs"), (json.dumps({**sound, "expectations": 5}), "there is no sound expectations"),
             (json.dumps({"scenario": "s.toml", "end": "not yet"}), "has not ended: not yet"), (json.dumps({"runs": [1, 2], "end": "every run has ended"}), "holds a sweep, of 2 runs"))
    for text, says in cases:
        (folder / "summary.json").write_bytes(text.encode("latin-1"))
        refused(lambda: weft.Result(folder), weft.WeftError, says)
    (folder / "summary.json").write_text(json.dumps(sound))
    expect("a sound one", weft.Result(folder).hash, "1")
    refused(lambda: weft.Result(folder / "summary.json"), weft.WeftError, "cannot be read: Not a directory")
    refused(lambda: weft.Result(folder / "none"), weft.WeftError, "there is no summary.json")
    return f"{len(cases) + 2} that are none"


def refused(call, kind: type[Exception], says: str) -> None:
    """The call is an error of this kind, whose text holds this."""
    try:
        call()
    except kind as error:
        if says in str(error):
            return
        raise Failure(f"{says!r} is not in {error}") from None
    raise Failure(f"no error that says {says!r}")


def binary(folder: Path) -> str:
    """No weft, none where WEFT_BIN says, one that is too old, and one that is something else."""
    for name, script in (("old", "echo weft 0.0.9"), ("other", "echo hello")):
        (folder / name).write_text(f"#!/bin/sh\n{script}\n")
        (folder / name).chmod(0o755)
    for place, says in (("", "the command weft is not in PATH: install a wheel that brings it"), (str(folder / "none"), "none, which is no program"),
                        (str(folder / "old"), "old is weft 0.0.9, and 0.1.0 is needed"), (str(folder / "other"), "does not say which version")):
        script = "import weft\ntry: weft.World(nodes={'a': weft.Node()}).run()\nexcept weft.BinaryNotFound as error: print(error)"
        environment = {**os.environ, "PATH": "/nowhere", "WEFT_BIN": place}
        told = subprocess.run([paths.output_dir() / "venv/bin/python3", "-c", script], env=environment, capture_output=True, text=True).stdout
        if says not in told or "WEFT_BIN" not in told:
            raise Failure(f"{place}: {told}")
    return "four"


ROWS = {"objects/all keys": all_keys, "objects/there and back": there_and_back, "objects/ends of lines": ends_of_lines, "objects/one hash": one_hash, "errors/results": results, "errors/scenarios": wrong, "errors/binary": binary}
