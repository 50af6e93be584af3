"""Every lint can fail: each test plants a violation and wants it found, beside the same thing without it."""

from __future__ import annotations

import re
import shutil
import subprocess
import tempfile
import unittest
from pathlib import Path

from harness import paths
from harness.lint import (
    Skip, cargo, circles, clones, commits, compatibility, dependencies, hygiene, outside, pages, ratchet, rfcs, unsafe_code)


def package(name: str, below: tuple[str, ...] = (), kind: str | None = None) -> dict:
    rows = [{"name": f"weft-{other}", "kind": kind} for other in below]
    return {"name": f"weft-{name}", "dependencies": rows}


class DependencyDirection(unittest.TestCase):
    def test_edges_of_the_drawing_are_allowed(self) -> None:
        metadata = {"packages": [package("wire"), package("core", ("wire",)), package("tcp", ("core", "wire")),
                                 package("cli", ("host", "wire")), package("host", ("node",)), package("node", ("tcp",))]}
        self.assertEqual(dependencies.check(metadata), [])

    def test_an_edge_upwards_is_found(self) -> None:
        metadata = {"packages": [package("tcp", ("node",)), package("node")]}
        self.assertIn("crate tcp depends on node", dependencies.check(metadata)[0])

    def test_an_edge_between_siblings_is_found(self) -> None:
        metadata = {"packages": [package("socket", ("tcp",)), package("tcp")]}
        self.assertIn("crate socket depends on tcp", dependencies.check(metadata)[0])

    def test_a_dev_dependency_is_free(self) -> None:
        metadata = {"packages": [package("tcp", ("node",), "dev"), package("node")]}
        self.assertEqual(dependencies.check(metadata), [])

    def test_an_unknown_crate_is_found(self) -> None:
        self.assertIn("no place", dependencies.check({"packages": [package("surprise")]})[0])

    def test_the_pure_crates_are_what_node_depends_on(self) -> None:
        self.assertEqual(set(dependencies.PURE), dependencies.allowed_below("node") | {"node"})


class InFolder(unittest.TestCase):
    """A test with a folder of its own."""

    def setUp(self) -> None:
        self.folder = Path(tempfile.mkdtemp(prefix="weft-lint-"))
        self.addCleanup(shutil.rmtree, self.folder)

    def write(self, name: str, text: str) -> Path:
        path = self.folder / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)
        return path

    def git(self, *words: str, folder: str = ".") -> str:
        """Runs git in a folder of the test, as somebody whose configuration plays no part."""
        who = ["-c", "user.name=nobody", "-c", "user.email=nobody@example.org", "-c", "commit.gpgsign=false"]
        run = subprocess.run([*paths.GIT, *who, *words], cwd=self.folder / folder, capture_output=True, text=True, check=True)
        return run.stdout.strip()

    def commit(self, message: str, folder: str = ".") -> str:
        self.git("add", "--all", folder=folder)
        self.git("commit", "--quiet", "--allow-empty", "--message", message, folder=folder)
        return self.git("rev-parse", "HEAD", folder=folder)


class PagesOfRfcs(InFolder):
    """A page with letters for files."""

    HEAD = "# RFC 1\n\n*r* = `crates/a/tests/reads.rs`, *w* =\n`writes.rs`\n\n| § | asked | state | where |\n|---|---|---|---|\n"

    def setUp(self) -> None:
        super().setUp()
        self.write("crates/a/tests/reads.rs", Compatibility.TESTS)
        self.write("crates/a/tests/writes.rs", "#[test]\nfn all_of_it() {}\n")
        self.write("crates/a/src/key.rs", "#[test]\nfn keys_differ() {}\n")
        self.write("crates/b/src/key.rs", "#[test]\nfn keys_of_b() {}\n")

    def found(self, where: str, state: str = "met", without: frozenset[str] = frozenset()) -> list[str]:
        self.write("docs/rfc/1.md", f"{self.HEAD}| 1 | all | {state} | {where} |\n")
        return rfcs.check(self.folder, without)

    def test_names_that_are_there_pass(self) -> None:
        for where in ("*r* `errors_of_reads`, `errors_of_writes`", "*r* `errors_…`; *w* `all_of_it`", "*w* `all_of_it`; `keys_differ`", "*r*, all of it",
                      "the rows of §2", "*r* `errors_of_reads` and `a::reads::helper`", "*r* `errors_of_reads`, `reads::…`"):
            self.assertEqual(self.found(where), [], where)
        self.assertEqual(self.found("–", "deliberately not"), [])

    def test_names_that_are_not_there_are_found(self) -> None:
        for where in ("*r* `errors_of_nothing`", "*r* `all_of_it`", "*r* `write_corpus`", "*r* `helper`", "*x* `all_of_it`", "*w* `all_of_it`; `keys_of_b`",
                      "*r* `errors_of_reads` and `a::reads::gone`", "*r* `errors_of_reads` and `gone::helper`"):
            self.assertNotEqual(self.found(where), [], where)

    def test_a_row_without_a_test_is_found(self) -> None:
        self.assertIn("names no test", self.found("–")[0])
        self.assertEqual(self.found("–", without=frozenset({"1.md: all"})), [])
        self.assertIn("take it out", self.found("*w* `all_of_it`", without=frozenset({"1.md: all"}))[0])


class UnsafeCode(InFolder):
    def metadata(self, name: str, root: str, manifest: str = "[lints]\nworkspace = true\n") -> dict:
        target = {"kind": ["lib"], "src_path": str(self.write("src/lib.rs", root))}
        return {"packages": [{"name": f"weft-{name}", "targets": [target],
                              "manifest_path": str(self.write("Cargo.toml", manifest))}]}

    def test_forbidding_crates_pass(self) -> None:
        self.assertEqual(unsafe_code.check(self.metadata("wire", "#![forbid(unsafe_code)]\n")), [])

    def test_a_crate_that_does_not_forbid_is_found(self) -> None:
        self.assertIn("lacks #![forbid(unsafe_code)]", unsafe_code.check(self.metadata("wire", "//! x\n"))[0])

    def test_a_marked_crate_need_not_forbid(self) -> None:
        self.assertEqual(unsafe_code.check(self.metadata("backend", "//! x\n")), [])

    def test_a_crate_outside_the_workspace_lints_is_found(self) -> None:
        self.assertIn("lints", unsafe_code.check(self.metadata("backend", "//! x\n", ""))[0])

    def test_a_workspace_without_the_safety_lint_is_found(self) -> None:
        good = {"workspace": {"lints": {"clippy": {"undocumented_unsafe_blocks": "deny"}}}}
        self.assertEqual(unsafe_code.check_workspace(good), [])
        self.assertEqual(len(unsafe_code.check_workspace({"workspace": {}})), 1)


class Hygiene(InFolder):
    def test_sizes(self) -> None:
        files = [self.write("small.rs", "x\n" * 800), self.write("big.rs", "x\n" * 801),
                 self.write("huge.rs", "x\n" * 1001), self.write("huge.txt", "x\n" * 1001)]
        failures, warnings = hygiene.check_sizes(files)
        self.assertEqual([Path(text.split(":")[0]).name for text in failures], ["huge.rs"])
        self.assertEqual([Path(text.split(":")[0]).name for text in warnings], ["big.rs"])

    def test_notes_for_later_are_found(self) -> None:
        word = "TO" + "DO"
        files = [self.write("a.rs", f"// {word}: later\n"), self.write("b.rs", "let todo_list = 1;\n")]
        self.assertEqual(len(hygiene.check_text(files)), 1)

    def test_paths_of_a_machine_are_found(self) -> None:
        planted = [f'"/{first}/x"' for first in ("wo" + "rk", "ro" + "ot", "ho" + "me/someone")]
        for text in planted:
            self.assertEqual(len(hygiene.check_text([self.write("a.rs", text + "\n")])), 1, text)
        harmless = "see https://x.org/work/y, $HOME/x, docs/work/z, /usr/share/work/\n"
        self.assertEqual(hygiene.check_text([self.write("b.md", harmless)]), [])

    def test_errnos_in_texts_are_found(self) -> None:
        def findings(name: str, *lines: str) -> list[str]:
            return hygiene.check_errnos([self.write(name, "".join(f"{line}\n" for line in lines))], self.folder)

        planted = ['fail(format!("EEXIST: there is {name}"))', '#[error("EADDRNOTAVAIL: no {0}")]', '    "E2BIG: too long",']
        for line in planted:
            self.assertEqual(len(findings("crates/a/src/lib.rs", "fn f() {", line, "}")), 1, line)
            self.assertEqual(len(findings("crates/a/tests/all.rs", line)), 1, "tests have none, either")
        harmless = ['Refused::exists("there is {name}")', "// EEXIST: it is there", 'text == "EEXIST"', '"ESTAB 1"', '"Error: no"']
        self.assertEqual(findings("crates/a/src/lib.rs", *harmless), [])
        self.assertEqual(findings("tests/console.py", *planted), [], "that is what people read")

    def test_links_that_lead_nowhere_are_found(self) -> None:
        self.write("there.md", "# There\n\n## A part, of it (`weft_a`, `b-c`)\n")
        text = "# Here\n[a](there.md) [b](https://example.org/x#y) [c](there.md#a-part-of-it-weft_a-b-c) [d](nowhere.md) [e](#here)\n"
        findings = hygiene.check_links([self.write("page.md", text + "[f](there.md#other) [g](#there)\n")])
        self.assertEqual(len(findings), 3)
        for finding, what in zip(findings, ["nowhere.md leads nowhere", "there.md#other: ", "#there: "]):
            self.assertIn(what, finding)

    def test_tables_of_what_to_add_that_are_not_true_are_found(self) -> None:
        self.write("made.rs", "pub trait Thing {}\n")
        table = "# Page\n\n## To add\n\n| a | write |\n|---|---|\n"
        def found(row: str) -> list[str]:
            return hygiene.check_to_add([self.write("page.md", f"{table}| x | {row} |\n\n## Other\n\n| `./gone.rs` |\n")], self.folder)
        self.assertEqual(found("a `Thing` in `./made.rs`, `./NAME.rs`"), [])
        self.assertIn("there is no ./lost.rs", found("in `./lost.rs`")[0])
        self.assertIn("no Gone in ./made.rs", found("a `Gone` in `./made.rs`")[0])


class Compatibility(InFolder):
    """A page of differences with one row of each kind; then each kind of wrong proof."""

    TESTS = "#[test]\nfn errors_of_reads() {}\n#[test]\nfn errors_of_writes() {}\n#[test]\n#[ignore]\nfn write_corpus() {}\nfn helper() {}\n"
    HEAD = "# Page\n\n## Part\n\n| id | what | Linux | weft | asserted by |\n|---|---|---|---|---|\n"

    def setUp(self) -> None:
        super().setUp()
        self.write("tests/twins/adapter-differences.toml", '[[difference]]\nid = "by-twins"\n')
        self.write("tests/targets.toml", "".join(f'[[target]]\nname = "{name}"\nin_ci = {ci}\n' for name, ci in (
            ("test-hosts", "true"), ("test-faults", "true"), ("test-iproute2", "true"), ("test-once", "false"))))
        self.write("Makefile", "".join(f"{target}: ## it\n\t@$(BUILD) --quiet\n\t@$(PYTHON) -m {module}\n\n" for target, module in (
            ("test-hosts", "hosts rows"), ("test-faults", "faults"), ("test-iproute2", "iproute2"), ("test-once", "hosts rows"))))
        self.write("tests/hosts/rows.toml", 'id = "in-table"\n')
        self.write("tests/hosts/waits.toml", 'id = "in-other-table"\n')
        self.write("tests/faults/__main__.py", 'rows.run(f"stack lost/{how}", body)\ndef ip_addr(): pass\n')
        self.write("tests/iproute2/scripts.txt", "== link-add\n")
        self.write("crates/a/tests/reads.rs", self.TESTS)
        self.write("crates/b/src/deep.rs", "mod tests {\n    #[test]\n    fn errors_of_reads() {}\n}\n")

    def found(self, row: str, head: str = HEAD, one_side: frozenset[str] | None = None, **more: frozenset[str]) -> list[str]:
        self.write(compatibility.DOCUMENT, f"{head}{row}\n")
        return compatibility.check(self.folder, one_side=one_side, **more)

    def proof(self, text: str, id: str = "x") -> list[str]:
        return self.found(f"| `{id}` | a | b | c | {text} |")

    def test_each_kind_of_proof_passes(self) -> None:
        for text in ("`reads::errors_of_reads`", "`reads::errors_of_w…` (bounded)", "`deep::tests::errors_of_reads`", "`a::errors_of_reads`",
                     "`make test-faults: stack lost/…`", "`make test-faults: ip-addr`",
                     "`reads::errors_of_reads`, `make test-faults: stack lost/…`"):
            self.assertEqual(self.proof(text), [], text)
        self.assertEqual(self.proof("`make test-hosts`", "in-table"), [])
        self.assertEqual(self.proof("twins", "by-twins"), [])
        self.assertEqual(self.proof("twins, `reads::errors_of_reads`", "by-twins"), [])

    def test_a_row_without_a_proof_is_found(self) -> None:
        for text in ("–", "", "not asserted: a race by nature"):
            self.assertIn("no proof", self.proof(text)[0], text)
        self.assertIn("no proof", self.found("| `x` | a | b | c |")[0], "a cell is missing")

    def test_a_proof_that_is_not_there_is_found(self) -> None:
        wrong = {
            "`reads::errors_of_nothing`": "names 0 tests", "`writes::errors_of_reads`": "names 0 tests", "`reads::helper`": "names 0 tests",
            "`reads::write_corpus`": "names 0 tests", "`reads::errors_…`": "names 2 tests", "`errors_of_reads`": "is no proof",
            "`MAX`, a constant": "is no proof", "`make test-nothing`": "not a target", "`make test-once: rows`": "not a target",
            "`make test-hosts`": "no table with this id", "`make test-faults: stack found/…`": "stack found stands nowhere",
            "`reads::errors_of_reads`, `reads::gone`": "names 0 tests", "twins": "the twins' table has no such id",
        }
        for text, said in wrong.items():
            self.assertIn(said, "\n".join(self.proof(text)), text)
        self.assertIn("no table with this id", self.proof("`make test-hosts`", "in-other-table")[0], "of another target")

    def test_ids_are_there_once(self) -> None:
        row = "| `x` | a | b | c | `a::errors_of_reads` |"
        self.assertIn("the id stands twice", self.found(f"{row}\n{row}")[0])
        self.assertIn("without an id", self.found("| a | b | c | d | `a::errors_of_reads` |")[0])

    def test_tables_and_lists_are_all_looked_at(self) -> None:
        self.assertIn("without a column", self.found("| `x` | a | b |", "## Part\n\n| id | what | weft |\n|---|---|---|\n")[0])
        scripts = "## iproute2\n\n| script | where | why |\n|---|---|---|\n"
        self.assertEqual(self.found("| `link-add` | both | x |", scripts), [])
        self.assertIn("link-lost stands nowhere", self.found("| `link-lost` | both | x |", scripts)[0])
        around = f"## {compatibility.LIST}\n\n"
        self.assertEqual(self.found("- `x`: it is\n  so. Proof: `a::errors_of_reads`", around), [])
        self.assertEqual(len(self.found("- `x`: it is\n  so.", around)), 1)
        self.assertEqual(len(self.found("- it is so. Proof: `a::errors_of_reads`", around)), 1)
        self.assertEqual(self.found("- it is so.", "## Other\n\n"), [])

    def test_the_list_of_rows_without_may_only_shrink(self) -> None:
        without = frozenset(["x"])
        self.assertEqual(self.found("| `x` | a | b | c | – |", without=without), [])
        self.assertIn("take it out", self.found("| `x` | a | b | c | `a::errors_of_reads` |", without=without)[0])
        self.assertIn("take it out", self.found("", without=without)[0])

    def test_a_proof_of_one_side_alone_is_found(self) -> None:
        self.write("crates/a/tests/differences.rs", "#[test]\nfn both_hosts() {}\n")
        alone, nobody = ("`a::errors_of_reads`", "`make test-hosts`", "`make test-faults: ip-addr`"), frozenset[str]()
        for text in alone:
            row = f"| `in-table` | a | b | c | {text} |"
            self.assertIn("weft's side alone", "\n".join(self.found(row, one_side=nobody)), text)
            self.assertEqual(self.found(row, one_side=frozenset(["in-table"])), [], text)
        for text in ("twins", "`differences::both_hosts`", "`make test-faults: stack lost/…`", "`make test-iproute2: link-add`",
                     "`a::errors_of_reads`, `differences::both_hosts`"):
            row = f"| `by-twins` | a | b | c | {text} |"
            self.assertEqual(self.found(row, one_side=nobody), [], text)
            self.assertIn("take it out of ONE_SIDE", self.found(row, one_side=frozenset(["by-twins"]))[0], text)
        self.assertIn("take it out of ONE_SIDE", self.found("", one_side=frozenset(["gone"]))[0])

    def test_what_became_of_the_rows_of_before(self) -> None:
        self.git("init", "--quiet")
        rows = "| `same` | a | b | c | – |\n| `gone` | a | b | c | – |\n| `less` | a | b | much | – |\n\n" \
               "| what | weft | asserted by |\n|---|---|---|\n| no name | b | – |\n"
        self.write(compatibility.DOCUMENT, self.HEAD + rows)
        since = self.commit("before the rule")
        now = "| `same` | a | b | c | x |\n| `less` | a | b | little | x |\n| `more` | a | b | e | x |\n\n" \
              "| id | what | weft | asserted by |\n|---|---|---|---|\n| `named` | no name | b | x |\n"
        self.write(compatibility.DOCUMENT, self.HEAD + now)
        page = "# Before\n\n| row | now | why |\n|---|---|---|\n| `same` | unchanged |  |\n| `gone` | removed | it works |\n" \
               "| `less` | narrowed | half of it works |\n| `named` | unchanged |  |\n| `more` | new | a test found it |\n"
        self.write(compatibility.BEFORE, page)
        self.assertEqual(compatibility.check_before(self.folder, since), [])
        self.write(compatibility.BEFORE, page.replace("narrowed", "corrected"))
        self.assertEqual(compatibility.check_before(self.folder, since), [])
        compatibility.write(self.folder, since)
        self.assertIn("| `less` | corrected | half of it works |", (self.folder / compatibility.BEFORE).read_text())
        for one, other, said in (("| removed |", "| unchanged |", "gone is removed, and the page says unchanged"),
                                 ("it works", "", "nothing says why"),
                                 ("| `same` | unchanged |  |\n", "", "same is unchanged, and the page says nothing"),
                                 ("`more`", "`most`", "most is nowhere, and the page says new")):
            self.write(compatibility.BEFORE, page.replace(one, other, 1))
            self.assertIn(said, "\n".join(compatibility.check_before(self.folder, since)))
        compatibility.write(self.folder, since)
        self.assertIn("| `gone` | removed | it works |", (self.folder / compatibility.BEFORE).read_text())

    def test_a_clone_without_the_history_is_told(self) -> None:
        self.git("init", "--quiet")
        self.write(compatibility.DOCUMENT, self.HEAD)
        self.commit("x")
        with self.assertRaisesRegex(Skip, "fetch the whole history"):
            compatibility.check_before(self.folder, "0" * 40)


class ForbiddenCalls(InFolder):
    """Runs clippy on a planted crate: one library without and then with each kind of forbidden call."""

    VIOLATIONS = {
        "clock": "pub fn f() { let _ = std::time::Instant::now(); }",
        "hash order": "pub fn f() -> usize { std::collections::HashMap::<u8, u8>::new().len() }",
        "thread": "pub fn f() { std::thread::yield_now(); }",
        "environment": "pub fn f() -> bool { std::env::var(\"X\").is_ok() }",
        "socket": "pub fn f(s: &std::net::UdpSocket) { let _ = s; }",
        "descriptor": "pub fn f(s: std::os::fd::RawFd) -> i32 { s }",
        "file": "pub fn f() -> bool { std::fs::read(\"x\").is_ok() }",
        "output": "pub fn f() { println!(\"x\"); }",
        "allowed by itself": "#[allow(clippy::disallowed_methods)] pub fn f() { std::thread::yield_now(); }",
    }

    def findings(self, source: str) -> list[str]:
        self.write("Cargo.toml", '[package]\nname = "planted"\nversion = "0.1.0"\nedition = "2024"\n[workspace]\n[profile.checked]\ninherits = "dev"\n')
        self.write("src/lib.rs", source)
        return cargo.check_forbidden_calls(["planted"], self.folder, self.folder / "target")

    def test_each_kind_is_found(self) -> None:
        clean = "pub fn f(now: u64) -> u64 { now }\n#[cfg(test)] mod tests { use std::time::Instant; "
        self.assertEqual(self.findings(clean + "#[test] fn t() { Instant::now(); } }"), [])
        for name, source in self.VIOLATIONS.items():
            with self.subTest(name):
                self.assertRegex("\n".join(self.findings(source)), "use of a disallowed|incompatible with previous forbid", name)

    def test_a_row_that_leads_nowhere_is_found(self) -> None:
        self.write("Cargo.toml", '[package]\nname = "planted"\nversion = "0.1.0"\nedition = "2024"\n[workspace]\n[profile.checked]\ninherits = "dev"\n')
        self.write("src/lib.rs", "pub fn f() {}")
        self.write("conf/clippy.toml", 'disallowed-methods = ["std::time::Instant::nowhere"]\n')
        findings = cargo.check_forbidden_calls(["planted"], self.folder, self.folder / "target", self.folder / "conf")
        self.assertIn("nowhere", findings[0])

    def test_no_pure_crate_is_a_finding(self) -> None:
        self.assertEqual(len(cargo.check_forbidden_calls([])), 1)


class Clones(InFolder):
    BODY = [f"let value{n} = compute({n});" for n in range(12)]

    def findings(self, first: list[str], second: list[str], crates: tuple[str, str] = ("one", "two")) -> list[str]:
        texts = ["fn f() {\n" + "\n".join(lines) + "\n}\n" for lines in (first, second)]
        files = [self.write(f"crates/{crate}/src/{place}.rs", text)
                 for crate, place, text in zip(crates, ("a", "b"), texts)]
        return clones.check(files, self.folder)

    def test_twelve_lines_in_two_crates_are_found_once(self) -> None:
        findings = self.findings(["let own = 1;", *self.BODY], [*self.BODY, "let another = 2;"])
        self.assertEqual(len(findings), 1)
        self.assertRegex(findings[0], r"crates/one/src/a.rs:3: 12 lines that .*crates/two/src/b.rs:2 has as well")

    def test_a_longer_run_is_one_finding(self) -> None:
        body = [f"let value{n} = compute({n});" for n in range(40)]
        findings = self.findings(body, body)
        self.assertEqual(len(findings), 1)
        self.assertIn("41 lines", findings[0])

    def test_eleven_lines_are_not_found(self) -> None:
        self.assertEqual(self.findings(["let a = 0;", *self.BODY[1:]], ["let b = 0;", *self.BODY[1:]]), [])

    def test_comments_and_white_space_hide_nothing(self) -> None:
        other = [line for text in self.BODY for line in (f"        {text.replace(' = ', '  =  ')} // why", "", "}", "#[inline]")]
        self.assertEqual(len(self.findings(self.BODY, other)), 1)

    def test_lines_that_say_nothing_make_no_clone(self) -> None:
        lines = ["#[inline]", "}", "", "use a::{", "    b,", "    c,", "};", "// said", ");"] * 9
        self.assertEqual(self.findings(["let a = 1;", *lines], ["let b = 1;", *lines]), [])

    def test_other_strings_make_other_lines(self) -> None:
        self.assertEqual(self.findings([f'say("// {n}");' for n in range(12)], [f'say("// x{n}");' for n in range(12)]), [])

    def test_the_same_crate_may_repeat_itself(self) -> None:
        self.assertEqual(self.findings(self.BODY, self.BODY, ("one", "one")), [])


class Circles(InFolder):
    def count(self, **modules: str) -> tuple[int, int]:
        """(largest circle, files in circles) of a crate whose modules are the keywords; `a__b` is a::b, `lib` the root."""
        for name, text in modules.items():
            self.write(f"crates/planted/src/{name.replace('__', '/')}.rs", text)
        files = sorted((self.folder / "crates").rglob("*.rs"))
        largest, everything = circles.count(files, self.folder)
        return largest.get("planted", 0), everything.get("planted", 0)

    LIB = "mod a;\nmod b;\nmod c;\n"

    def test_what_leads_one_way_is_no_circle(self) -> None:
        self.assertEqual(self.count(lib=self.LIB, a="use crate::b::B;\n", b="use super::c::C;\n", c="pub struct C;\n"), (0, 0))

    def test_each_way_of_naming_closes_a_circle(self) -> None:
        ways = {
            "use crate": "use crate::a::A;\n", "use super": "use super::a::A;\n", "group": "use crate::{\n    a::{A, self},\n};\n",
            "path": "fn f() { crate::a::go() }\n", "path by super": "fn f() -> super::a::A { todo() }\n",
            "module by its name": "use crate::a;\nfn f() { a::go() }\n", "everything": "use crate::a::*;\n",
            "name handed on": "use crate::A;\n", "name handed on as another": "use crate::{Other};\n",
            "handed on by handing on": "pub use crate::a::*;\n",
        }
        lib = self.LIB + "pub use a::A;\npub use a::A as Other;\n"
        for name, text in ways.items():
            with self.subTest(name):
                self.assertEqual(self.count(lib=lib, a="use crate::b::B;\n", b="pub use self::nothing::X;\n", c=""), (0, 0))
                self.assertEqual(self.count(lib=lib, a="use crate::b::B;\n", b=text, c=""), (2, 2))

    def test_three_files_and_two_circles(self) -> None:
        third = {"lib": self.LIB + "mod d;\nmod e;\n", "a": "use crate::b;\n", "b": "use crate::c;\n", "c": "use crate::a;\n"}
        self.assertEqual(self.count(**third, d="use crate::e;\n", e="use crate::{a, d};\n"), (3, 5))

    def test_a_parent_and_what_is_below_it(self) -> None:
        below = {"lib": "mod a;\n", "a__low": "use super::Thing;\n"}
        self.assertEqual(self.count(**below, a="mod low;\npub struct Thing;\npub use low::X;\n"), (0, 0))
        self.assertEqual(self.count(**below, a="mod low;\npub struct Thing;\nfn f() { low::go() }\n"), (2, 2))

    def test_tests_comments_and_modules_without_a_file_do_not_count(self) -> None:
        b = ("// use crate::a::A;\n/* use crate::a::A; */\nmod count {\n    use super::X;\n}\n"
             "#[cfg(test)]\nmod tests {\n    use crate::a::A;\n}\n")
        self.assertEqual(self.count(lib=self.LIB, a="use crate::b::B;\n", b=b, c=""), (0, 0))

    def test_a_module_by_path(self) -> None:
        self.write("crates/planted/other/far.rs", "use crate::a::A;\n")
        lib = '#[path = "../other/far.rs"]\nmod far;\nmod a;\n'
        self.assertEqual(self.count(lib=lib, a="use crate::far::F;\n"), (2, 2))


class Ratchet(InFolder):
    def file(self) -> Path:
        return self.write("ratchet.toml", '# why\n["some rule"]\n"a/b.md" = 5\nc = 3\n\n["another rule"]\nc = 3\n')

    def check(self, **today: int) -> list[str]:
        return ratchet.check("some rule", {name.replace("__", "/") + (".md" if "__" in name else ""): number
                                           for name, number in today.items()}, "mend it", self.file())

    def test_the_same_numbers_pass(self) -> None:
        self.assertEqual(self.check(a__b=5, c=3), [])

    def test_more_is_found_with_advice(self) -> None:
        self.assertRegex(self.check(a__b=6, c=3)[0], "a/b.md has 6, and 5 at most are allowed: mend it")
        self.assertRegex(self.check(a__b=5, c=3, d=1)[0], "d has 1, and 0 at most")

    def test_less_wants_to_be_written(self) -> None:
        self.assertRegex(self.check(a__b=4, c=3)[0], "still allows 5: run `LOWER=1 make lint`")
        self.assertRegex(self.check(a__b=5)[0], "c has 0, and ratchet.toml still allows 3")

    def test_lowering_writes_what_has_fallen_and_nothing_else(self) -> None:
        file = self.file()
        ratchet.lower("some rule", {"a/b.md": 4, "d": 7}, file)
        self.assertEqual(file.read_text(), '# why\n["some rule"]\n"a/b.md" = 4\n\n["another rule"]\nc = 3\n')
        ratchet.lower("some rule", {"a/b.md": 9}, file)
        self.assertIn('"a/b.md" = 4\n', file.read_text())

    def test_every_row_of_the_real_file_can_be_read(self) -> None:
        for section in (circles.LARGEST, circles.FILES, pages.SECTION):
            self.assertTrue(ratchet.held(section), section)


class Pages(InFolder):
    LONG = "word " * 24 + "words"

    def test_long_lines_are_found_but_in_tables_code_and_without_a_space(self) -> None:
        text = [self.LONG, "- " + self.LONG, "| " + self.LONG, "```", self.LONG, "```", "# " + self.LONG,
                "x" * 200, "- " + "x" * 200, self.LONG[:120], self.LONG, f"`{self.LONG}`", f"`{self.LONG}` so"]
        self.assertEqual(pages.long_lines("\n".join(text)), [1, 2, 11, 13])

    def test_pages_are_counted_by_name_and_generated_ones_are_not(self) -> None:
        files = [self.write(name, f"{self.LONG}\n") for name in ("a.md", "docs/b.md", "docs/blocks/c.md", "d.rs")]
        self.assertEqual(pages.count(files, self.folder), {"a.md": 1, "docs/b.md": 1})

    def test_wrapping_breaks_lines_and_changes_no_word(self) -> None:
        code = "`" + "c " * 12 + "c`"
        text = f"# A\n\n{self.LONG} {code} end\nmore\n\n- item {self.LONG}\n  {self.LONG}\n- short\n  lines\n\n```\n{self.LONG}\n```\n"
        wrapped = pages.wrap(text)
        self.assertEqual(pages.long_lines(wrapped), [])
        self.assertEqual(wrapped.split(), text.split())
        self.assertIn(code, wrapped)
        self.assertIn("\n- short\n  lines\n", wrapped)
        self.assertEqual(pages.wrap(wrapped), wrapped)
        self.assertIn("\n- item word", wrapped)
        self.assertRegex(wrapped, r"\n  word word")

    def test_a_page_that_has_changed_may_have_none(self) -> None:
        self.git("init", "--quiet")
        for name in ("old.md", "touched.md", "edited.md"):
            self.write(name, f"{self.LONG}\n")
        since = self.commit("before the rule")
        self.write("touched.md", f"{self.LONG}\nmore\n")
        self.commit("a change")
        self.write("edited.md", f"{self.LONG}\nmore\n")
        changed = pages.changed(since, self.folder)
        self.assertEqual(sorted(changed), ["edited.md", "touched.md"])
        findings = pages.check_changed({"old.md": 1, "touched.md": 2}, changed)
        self.assertEqual(len(findings), 1)
        self.assertIn("touched.md has changed and has 2 lines", findings[0])

    def test_a_clone_without_the_history_is_told(self) -> None:
        self.git("init", "--quiet")
        self.commit("x")
        with self.assertRaisesRegex(Skip, "fetch the whole history"):
            pages.changed("0" * 40, self.folder)


class Commits(InFolder):
    def findings(self, *messages: str) -> list[str]:
        self.git("init", "--quiet")
        since = self.commit("before the rule " + "x" * 90)
        for message in messages:
            self.commit(message)
        return commits.check(since, self.folder)

    def test_a_good_message_passes(self) -> None:
        self.assertEqual(self.findings("x" * 72 + "\n\nBecause of this: it is so."), [])

    def test_a_long_subject_is_found(self) -> None:
        self.assertRegex(self.findings("x" * 73 + "\n\nWhy.")[0], "a subject of 73 characters")

    def test_a_subject_that_runs_on_is_found(self) -> None:
        self.assertRegex("\n".join(self.findings("x" * 60 + "\n" + "y" * 60)), "a subject of 121 characters")

    def test_a_missing_body_is_found(self) -> None:
        findings = self.findings("a\n\nWhy.", "b", "c\n\nSigned-off-by: nobody <nobody@example.org>")
        self.assertEqual([text.split(": ")[-1] for text in findings], ["c", "b"])

    def test_a_clone_without_the_history_is_told(self) -> None:
        self.git("init", "--quiet")
        self.commit("x")
        with self.assertRaisesRegex(Skip, "fetch the whole history"):
            commits.check("0" * 40, self.folder)


class Outside(InFolder):
    """A planted workspace, and libraries beside it. cargo has a home of its own, as no library comes from the network."""

    def library(self, folder: str, version: str = "1.0.0", licence: str = "MIT", name: str = "below") -> None:
        self.write(f"{folder}/Cargo.toml", f'[package]\nname = "{name}"\nversion = "{version}"\nedition = "2024"\nlicense = "{licence}"\n')
        self.write(f"{folder}/src/lib.rs", "pub fn f() {}\n")

    def plant(self, licence: str = "MIT", dependency: str = "", source: str = "below::f();", unused: str = "") -> None:
        """A program that uses `below`, and may use another `dependency`; `unused` is one of the workspace."""
        self.library("below", licence=licence)
        self.write("work/Cargo.toml", '[workspace]\nresolver = "3"\nmembers = ["top"]\n[workspace.dependencies]\n'
                                      f'below = {{ path = "../below" }}\n{unused}')
        self.write("work/top/Cargo.toml", '[package]\nname = "top"\nversion = "0.1.0"\nedition = "2024"\nlicense = "MIT"\n'
                                          f'publish = false\n[dependencies]\nbelow.workspace = true\n{dependency}')
        self.write("work/top/src/main.rs", f"fn main() {{ {source} }}\n")

    def crates(self, exceptions: bool = False) -> str:
        """What is found with the project's own deny.toml, less the exceptions that the planted workspace does not need."""
        text = (paths.ROOT / "deny.toml").read_text()
        if not exceptions:
            text = re.sub(r"^skip = \[.*?^\]", "", text, flags=re.M | re.S).replace('unused-allowed-license = "deny"', "")
        self.write("work/deny.toml", text)
        home = {"CARGO_HOME": str(self.folder / "cargo")}
        found = cargo.run(["cargo", "generate-lockfile"], self.folder / "work", **home)
        return "\n".join(found + outside.check_crates(self.folder / "work", **home))

    def unused(self) -> str:
        return "\n".join(outside.check_unused(self.folder / "work"))

    def test_a_sound_workspace_passes(self) -> None:
        self.plant()
        self.assertEqual(self.crates(), "")
        self.assertEqual(self.unused(), "")

    def test_a_licence_that_is_not_allowed_is_found(self) -> None:
        self.plant(licence="GPL-3.0-only")
        self.assertIn("error[rejected]", self.crates())

    def test_a_second_version_is_found(self) -> None:
        self.library("older", "0.9.0")
        self.plant(dependency='older = { package = "below", path = "../../older" }\n')
        self.assertIn("2 duplicate entries for crate 'below'", self.crates())

    def test_a_crate_from_elsewhere_is_found(self) -> None:
        self.library("elsewhere", name="far")
        self.git("init", "--quiet", folder="elsewhere")
        self.commit("x", folder="elsewhere")
        self.plant(dependency=f'far = {{ git = "file://{self.folder}/elsewhere" }}\n')
        self.assertIn("error[source-not-allowed]", self.crates())

    def test_an_exception_that_nothing_needs_is_found(self) -> None:
        self.plant()
        self.assertIn("error[unmatched-skip]", self.crates(exceptions=True))

    def test_a_dependency_that_nothing_uses_is_found(self) -> None:
        self.plant(source="")
        self.assertIn("unused dependency `below`", self.unused())

    def test_a_dependency_of_the_workspace_that_no_crate_takes_is_found(self) -> None:
        self.plant(unused='older = "1"\n')
        self.assertIn("unused workspace dependency `older`", self.unused())

    def test_a_source_file_that_belongs_to_nothing_is_found(self) -> None:
        self.plant()
        self.write("work/top/src/forgotten.rs", "fn f() {}\n")
        self.assertIn("forgotten.rs", self.unused())


class Advisories(InFolder):
    """A program that uses weft's own version of libc, and a planted database, which git takes for the one in the network."""

    ADVISORY = ('```toml\n[advisory]\nid = "RUSTSEC-2026-9999"\npackage = "libc"\ndate = "2026-01-01"\n'
                '[versions]\npatched = [">= 99"]\n```\n\n# Planted\n\nNothing.\n')
    URL = "https://planted.invalid/advisory-db"

    def findings(self, place: str) -> list[str]:
        libc = re.search(r'\[\[package\]\]\nname = "libc"\n.*?\n\n', (paths.ROOT / "Cargo.lock").read_text(), re.S)
        self.write("Cargo.lock", f'version = 4\n\n{libc.group()}[[package]]\nname = "top"\nversion = "0.1.0"\ndependencies = ["libc"]\n')
        self.write("Cargo.toml", '[package]\nname = "top"\nversion = "0.1.0"\nedition = "2024"\n[dependencies]\nlibc = "0.2"\n[workspace]\n')
        self.write("src/lib.rs", "")
        self.write("deny.toml", f'[advisories]\ndb-path = "{self.folder}/cache"\ndb-urls = ["{self.URL}"]\nyanked = "allow"\n')
        return outside.check_advisories(
            self.folder, GIT_CONFIG_COUNT="1", GIT_CONFIG_KEY_0=f"url.file://{self.folder}/{place}.insteadOf", GIT_CONFIG_VALUE_0=self.URL)

    def database(self, advisory: str) -> None:
        self.write("database/crates/libc/RUSTSEC-2026-9999.md", advisory)
        self.git("init", "--quiet", "--initial-branch=main", folder="database")
        self.commit("x", folder="database")

    def test_a_version_with_a_fault_is_found_and_another_is_not(self) -> None:
        self.database(self.ADVISORY.replace(">= 99", ">= 0.1"))
        self.assertEqual(self.findings("database"), [])
        self.database(self.ADVISORY)
        self.assertIn("RUSTSEC-2026-9999", self.findings("database")[0])
        # What was fetched before serves where nothing can be fetched.
        self.assertIn("RUSTSEC-2026-9999", self.findings("nowhere")[0])

    def test_no_database_is_a_skip_that_says_so(self) -> None:
        with self.assertRaisesRegex(Skip, "cannot be fetched"):
            self.findings("nowhere")


if __name__ == "__main__":
    unittest.main()
