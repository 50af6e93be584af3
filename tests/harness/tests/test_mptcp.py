"""What is looked at after a talk over Multipath TCP can fail, and tables are whole."""

from __future__ import annotations

import dataclasses
import unittest

from harness.processes import Failure
from mptcp import boxes, cases, counters, ends, interop, judge, programs, sim

NSTAT = "#kernel\nMPTcpExtMPCapableSYNRX          2                  0.0\nMPTcpExtMPCapableACKRX          2                  0.0\nTcpInSegs 7 0.0\n"


def talk(sent: tuple[int, str], received: tuple[int, str], ended: str = "end") -> dict:
    return {"sent": list(sent), "received": list(received), "ended": ended, "seconds": 1.0}


OUT, BACK = (ends.OUT_BYTES, "out"), (ends.BACK_BYTES, "back")


class Counters(unittest.TestCase):
    def test_nstat_is_read(self) -> None:
        self.assertEqual(counters.parsed(NSTAT), {"MPCapableSYNRX": 2, "MPCapableACKRX": 2})

    def test_each_connection_must_have_spoken_it(self) -> None:
        found = counters.parsed(NSTAT)
        counters.expect_spoken("server", found, "server", 2)
        for role, connections in (("server", 3), ("client", 1)):
            with self.assertRaises(Failure):
                counters.expect_spoken(role, found, role, connections)

    def test_errors_fall_backs_and_what_is_left_fail(self) -> None:
        counters.expect_sound("server", counters.parsed(NSTAT))
        for name in (*counters.ERRORS, *counters.FALLBACKS, *counters.OF_OTHER_BLOCKS, counters.LEFT):
            with self.assertRaises(Failure, msg=name):
                counters.expect_sound("server", {name: 1}, resets=True)

    def test_resets_fail_but_where_they_are_right(self) -> None:
        for name in counters.RESETS:
            counters.expect_sound("server", {name: 1}, resets=True)
            with self.assertRaises(Failure, msg=name):
                counters.expect_sound("server", {name: 1})

    def test_a_join_that_did_not_end_fails(self) -> None:
        counters.expect_joined("server", {"MPJoinSynRx": 1, "MPJoinAckRx": 1})
        with self.assertRaises(Failure):
            counters.expect_joined("server", {"MPJoinSynRx": 1})


class Ends(unittest.TestCase):
    def fails(self, kind: str, client: dict | None, server: dict) -> None:
        with self.assertRaises(Failure):
            judge.expect_ends(kind, None if client is None else [client], [server])

    def test_what_was_sent_must_be_what_came(self) -> None:
        judge.expect_ends("transfer", [talk(OUT, BACK)], [talk(BACK, OUT)])
        self.fails("transfer", talk(OUT, BACK), talk(BACK, (ends.OUT_BYTES, "other")))
        self.fails("transfer", talk(OUT, (0, "nothing")), talk(BACK, OUT))
        self.fails("transfer", talk((1, "short"), BACK), talk(BACK, (1, "short")))

    def test_connections_must_end_as_they_should(self) -> None:
        self.fails("transfer", talk(OUT, BACK, "ECONNRESET"), talk(BACK, OUT))
        unread = talk((ends.UNREAD_BYTES, "out"), (0, "nothing"), "ECONNRESET")
        judge.expect_ends("unread", [unread], [talk((0, "nothing"), (1, "one"))])
        self.fails("unread", unread | {"ended": "end"}, talk((0, "nothing"), (1, "one")))
        self.fails("killed", None, talk((0, "nothing"), OUT, "ECONNRESET"))

    def test_an_end_that_says_nothing_is_a_failure(self) -> None:
        with self.assertRaises(Failure):
            judge.report("ready\n", "the server")

    def test_both_paths_must_carry_their_part(self) -> None:
        judge.expect_both([60, 40], 18.0, 10, cases.GAIN_MIN)
        for carried, goodput in (([90, 10], 18.0), ([50, 50], 10.0)):
            with self.assertRaises(Failure):
                judge.expect_both(carried, goodput, 10, cases.GAIN_MIN)


class Tables(unittest.TestCase):
    def test_every_kind_is_in_the_short_forms_in_both_roles(self) -> None:
        wanted = {(kind, pair) for kind in cases.KINDS for pair in (cases.WEFT_LINUX, cases.LINUX_WEFT)}
        for short in (sim.SHORT, interop.SHORT):
            self.assertEqual(wanted - {(case.kind, case.pair) for case in short}, set())

    def test_rows_of_the_short_forms_are_of_the_matrix(self) -> None:
        self.assertEqual(set(sim.SHORT) - set(cases.matrix(sim.PAIRS, sim.WIRES)), set())
        self.assertEqual(set(interop.SHORT) - set(cases.matrix(sim.PAIRS, interop.WIRES)), set())


class Boxes(unittest.TestCase):
    def test_what_ends_otherwise_fails(self) -> None:
        for box, paths, right in (("splits", boxes.ONE, ()), ("resets both", boxes.ONE, (boxes.RESET,)), ("resets both", boxes.SECOND, ()),
                                  ("strips", boxes.BOTH, (boxes.RESET,))):
            case = boxes.Case(box, boxes.ALWAYS, paths, cases.WEFT_WEFT)
            for found in (boxes.HUNG, boxes.RESET, boxes.ALTERED):
                if found in right:
                    boxes.expect_right(case, found, "")
                    continue
                with self.assertRaises(Failure, msg=f"{case.name}: {found}"):
                    boxes.expect_right(case, found, "")

    def test_what_linux_does_is_no_excuse_for_weft(self) -> None:
        for known in boxes.LINUX:
            with self.assertRaises(Failure, msg=known.why):
                boxes.expect_right(dataclasses.replace(known.shown, pair=cases.WEFT_WEFT, paths=boxes.SECOND), boxes.HUNG, "")
        joins = boxes.Case("joins", boxes.ALWAYS, boxes.SECOND, cases.WEFT_LINUX, "echo")
        boxes.expect_right(joins, boxes.ALTERED, "linux got other bytes")
        with self.assertRaises(Failure):
            boxes.expect_right(joins, boxes.ALTERED, "weft got other bytes")
        resets = boxes.Case("resets both", boxes.ALWAYS, boxes.ONE, cases.WEFT_LINUX)
        boxes.expect_right(resets, boxes.HUNG, "server (linux) did not end")
        with self.assertRaises(Failure):
            boxes.expect_right(resets, boxes.HUNG, "client (weft) did not end")

    def test_each_fault_of_linux_is_shown_by_a_row_that_fails_without_it(self) -> None:
        every = boxes.cases()
        for known in boxes.LINUX:
            self.assertIn(known.shown, every)
            self.assertTrue(known.holds(known.shown), known.why)
            with self.assertRaises(Failure, msg=known.why):
                boxes.expect_right(known.shown, boxes.EXACT, "")

    def test_the_short_form_has_every_box_and_point(self) -> None:
        every, short = boxes.cases(), [case for case in boxes.cases() if boxes.short(case)]
        left = {"drops unknown", "shortens", "resets the client", "resets the server"}
        self.assertEqual({case.box for case in every} - {case.box for case in short}, left)
        of_others = {(case.box, case.point) for case in every if case.box not in left}
        self.assertEqual(of_others - {(case.box, case.point) for case in short}, set())
        self.assertEqual({*boxes.SHORT_BESIDE_LINUX, *boxes.SHORT_ON_BOTH} - set(short), set())


class Programs(unittest.TestCase):
    CLIENT = {"MPCapableSYNTX": 1, "MPCapableSYNACKRX": 1}
    SERVER = {"MPCapableSYNRX": 1, "MPCapableACKRX": 1, "MPJoinSynRx": 1, "MPJoinAckRx": 1}

    def test_both_ends_must_have_spoken_it_over_both_wires(self) -> None:
        programs.expect_paths({"client": self.CLIENT, "server": self.SERVER}, [60, 40], True)
        programs.expect_paths({"client": self.CLIENT, "server": self.SERVER}, [99, 1], False)
        wrong = (({}, self.SERVER, [60, 40]), (self.CLIENT, {}, [60, 40]), (self.CLIENT, self.SERVER, [99, 1]),
                 (self.CLIENT | {"MPCapableFallbackSYNACK": 1}, self.SERVER, [60, 40]), (self.CLIENT, self.SERVER | {"MPJoinAckRx": 0}, [60, 40]))
        for client, server, carried in wrong:
            with self.assertRaises(Failure):
                programs.expect_paths({"client": client, "server": server}, carried, True)

    def test_a_canary_must_fail_for_want_of_it(self) -> None:
        def failing(text: str) -> str:
            raise Failure(text)

        programs.canary(lambda: failing("not 1 of MPCapableSYNTX"))
        for body in (lambda: "it passes", lambda: failing("curl ended with status 7")):
            with self.assertRaises(Failure):
                programs.canary(body)


if __name__ == "__main__":
    unittest.main()
