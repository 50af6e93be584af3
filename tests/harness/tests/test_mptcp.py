"""What is looked at after a talk over Multipath TCP can fail, and tables are whole."""

from __future__ import annotations

import unittest

from harness.processes import Failure
from mptcp import cases, counters, ends, interop, judge, sim

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


if __name__ == "__main__":
    unittest.main()
