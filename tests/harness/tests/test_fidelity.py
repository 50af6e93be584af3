"""What counts as alike in `make test-fidelity`, and that its short form names rows that there are."""

from __future__ import annotations

import unittest

from harness import paired
from virtual import fidelity


class Alike(unittest.TestCase):
    def test_in_full_the_whole_interval_lies_inside_and_is_narrow(self) -> None:
        cases = {(1.0, 0.02): True, (0.97, 0.02): True, (0.965, 0.02): False, (1.035, 0.02): False, (1.0, 0.03): False}
        self.assertEqual({case: fidelity.is_alike(paired.Ratio(*case, 8), True) for case in cases}, cases)

    def test_in_the_short_form_it_does_not_lie_outside(self) -> None:
        cases = {(0.9, 0.06): True, (0.9, 0.04): False, (1.1, 0.04): False, (1.1, 0.06): True}
        self.assertEqual({case: fidelity.is_alike(paired.Ratio(*case, 8), False) for case in cases}, cases)

    def test_the_short_form_names_rows(self) -> None:
        rows = {f"{path}/{control}" for path in fidelity.PATHS for control in fidelity.CONTROLS}
        self.assertEqual(set(fidelity.SHORT) - rows, set())


if __name__ == "__main__":
    unittest.main()
