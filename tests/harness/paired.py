"""Ratios of what was measured in pairs, seed by seed, with their 95 % intervals."""

from __future__ import annotations

import dataclasses
import math
import statistics
from collections.abc import Sequence

# Student's t, 97.5 %, by degrees of freedom; above 30 the normal distribution's is near enough.
T = (math.nan, 12.706, 4.303, 3.182, 2.776, 2.571, 2.447, 2.365, 2.306, 2.262, 2.228, 2.201, 2.179, 2.160, 2.145, 2.131, 2.120, 2.110, 2.101, 2.093, 2.086,
     2.080, 2.074, 2.069, 2.064, 2.060, 2.056, 2.052, 2.048, 2.045, 2.042)


def student(count: int) -> float:
    """For so many values."""
    return T[count - 1] if count <= len(T) else 1.96


@dataclasses.dataclass(frozen=True)
class Ratio:
    """Of a quantity to another: the geometric mean of the ratios of one seed each, which is that of the other way round turned over; half of its interval."""

    value: float
    margin: float
    count: int

    @property
    def least(self) -> float:
        return self.value - self.margin

    @property
    def most(self) -> float:
        return self.value + self.margin

    def __str__(self) -> str:
        return f"{self.value:.3f} ± {self.margin:.3f}"


def ratio(ones: Sequence[float], others: Sequence[float]) -> Ratio:
    """Ones to others, of the same seeds in the same order; two at least."""
    logarithms = [math.log(one / other) for one, other in zip(ones, others, strict=True)]
    value, count = math.exp(statistics.mean(logarithms)), len(logarithms)
    return Ratio(value, value * student(count) * statistics.stdev(logarithms) / math.sqrt(count), count)
