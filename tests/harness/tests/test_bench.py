"""Benchmarks: needs are scaled the right way round, rows of Rust benchmarks are read, an unmet need is seen."""

from __future__ import annotations

import unittest

from harness.bench import machine, report
from harness.bench import requests
from harness.bench.__main__ import parse, status
from virtual import bench


class Needs(unittest.TestCase):
    def test_the_reference_machine_has_speed_one(self) -> None:
        self.assertAlmostEqual(machine.Machine(90, 1600, 2.0).speed, 1.0)
        self.assertAlmostEqual(machine.Machine(180, 3200, 2.0).speed, 0.5)

    def test_a_slow_machine_needs_less_throughput_and_may_take_longer(self) -> None:
        rate = machine.scale(report.Row("a", 3.0, "Gbit/s", needed=5.0), 0.5)
        cost = machine.scale(report.Row("b", 1.5, "ns/packet", needed=1.0), 0.5)
        self.assertEqual((rate.needed, rate.met, cost.needed, cost.met), (2.5, True, 2.0, True))

    def test_what_lies_between_two_measurements_judges_what_was_measured_between_them(self) -> None:
        between = machine.Machine(90, 1600, 2.0).and_later(machine.Machine(360, 6400, 1.28))
        self.assertAlmostEqual(between.speed, 0.5)
        self.assertAlmostEqual(between.threads, 1.6)

    def test_bytes_and_ratios_are_needed_alike_on_every_machine(self) -> None:
        slow = machine.Machine(900, 16000, 1.2)
        pairs, memory, time = report.Row("pairs", 1.69, "×", needed=1.7), report.Row("memory", 401, "MiB", needed=400), report.Row("trip", 100, "µs", needed=15)
        self.assertEqual([bench.scaled(row, slow).met for row in (pairs, memory, time)], [False, False, True])

    def test_an_unmet_need_is_seen(self) -> None:
        self.assertIs(machine.scale(report.Row("a", 4.9, "Gbit/s", needed=5.0), 1.0).met, False)
        self.assertIs(machine.scale(report.Row("b", 1.1, "ns", needed=1.0), 1.0).met, False)
        self.assertIn("NO", report.table([machine.scale(report.Row("b", 1.1, "ns", needed=1.0), 1.0)]))

    def test_an_unmet_need_is_an_error_in_the_full_form_only(self) -> None:
        met, unmet = report.Row("a", 1.0, "ns", met=True), report.Row("b", 1.0, "ns", met=False)
        self.assertEqual([status([met, unmet], False, full) for full in (False, True)], [0, 1])
        self.assertEqual([status([met], failed, True) for failed in (False, True)], [0, 1])
        self.assertEqual(status([], True, False), 1)

    def test_what_the_traffic_program_prints_is_read(self) -> None:
        self.assertEqual(requests.value("trips 9 median_us 12.5\n", "median_us"), 12.5)
        self.assertEqual(requests.rate("connections 300 seconds 1.5\n", "connections"), 200.0)
        with self.assertRaises(ValueError):
            requests.rate("", "connections")

    def test_words_and_nothing_are_left_alone(self) -> None:
        row = report.Row("a", 1.0, "ns")
        self.assertEqual(machine.scale(row, 0.5), row)

    def test_rows_of_rust_are_read(self) -> None:
        rows = parse('warming up\n[\n  {"name": "a", "value": 1.5, "unit": "ns", "needed": 1}\n]\n')
        self.assertEqual((rows[0].name, rows[0].value, rows[0].needed), ("a", 1.5, 1))
        with self.assertRaises(RuntimeError):
            parse("nothing")


if __name__ == "__main__":
    unittest.main()
