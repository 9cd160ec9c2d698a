"""What the figures of a case must show: ratios in one session, with the issue that asks for them.

Strategy
--------
A bar is a function from the figures of a case to one number, and what that number may be. A bar whose contenders are
absent is not judged.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise
from statistics import mean, median

from bench import Bench
from measure import Cost
from scans import rows_of_tasks
from workloads import Workload


@dataclass(frozen=True, slots=True)
class Figures:
    """What the turns of one case cost, by contender, and where they ran."""

    bench: Bench
    costs: Mapping[str, Sequence[Cost]]

    def middle(self, contender: str, of: str) -> float:
        """Return the median of one figure."""
        return median(getattr(cost, of) for cost in self.costs[contender])

    def ratio(self, contender: str, against: str, of: str) -> float:
        """Return the ratio of two medians; nan where the second is nothing."""
        divisor = self.middle(against, of)
        return self.middle(contender, of) / divisor if divisor > 0 else math.nan


@dataclass(frozen=True, slots=True)
class Bar:
    """One thing that a case must show.

    Parameters
    ----------
    what
        Is measured, in words.
    issue
        That asks for it.
    found
        The number.
    contenders
        Without which it cannot be told.
    at_most, at_least
        What it may be.
    beside
        Other numbers to be printed with it.
    """

    what: str
    issue: int
    found: Callable[[Figures], float]
    contenders: tuple[str, ...]
    at_most: float = math.inf
    at_least: float = -math.inf
    beside: Callable[[Figures], str] = lambda _figures: ""

    def missing(self, figures: Figures) -> list[str]:
        """Return the contenders that it needs and that were not measured."""
        return [name for name in self.contenders if not figures.costs.get(name)]

    def keeps(self, found: float) -> bool:
        """Tell whether a number is what it may be; nan never is."""
        return self.at_least <= found <= self.at_most

    def bound(self) -> str:
        """Return what it may be, in words."""
        ends = [("at least", self.at_least), ("at most", self.at_most)]
        return ", ".join(f"{word} {end:.4g}" for word, end in ends if math.isfinite(end))


_WORDS = {"cpu": "CPU", "wall": "wall", "read_nbytes": "bytes read by workers", "peak_nbytes": "peak of a worker"}


def times(contender: str, against: str, at_most: float, *, issue: int = 7, of: str = "cpu") -> Bar:
    """Return the bar on a ratio of two contenders; the other of CPU and wall stands beside it."""
    other = "wall" if of == "cpu" else "cpu"
    return Bar(
        f"{_WORDS[of]}, {contender} to {against}",
        issue,
        lambda figures: figures.ratio(contender, against, of),
        (contender, against),
        at_most,
        beside=lambda figures: f"{_WORDS[other]} {figures.ratio(contender, against, other):.2f}",
    )


def net(contender: str, against: str, fixed: tuple[str, str], *, issue: int, of: str = "wall") -> Bar:
    """Return the bar on a difference of two contenders, each without what it costs to load nothing."""

    def above(figures: Figures, name: str, empty: str) -> float:
        return figures.middle(name, of) - figures.middle(empty, of)

    def found(figures: Figures) -> float:
        return above(figures, contender, fixed[0]) - above(figures, against, fixed[1])

    return Bar(
        f"{_WORDS[of]} s of {contender} above its empty load, more than that of {against}",
        issue,
        found,
        (contender, against, *fixed),
        0,
        beside=lambda figures: (
            f"above the empty load {above(figures, contender, fixed[0]):.2f} and {above(figures, against, fixed[1]):.2f}"
            f"; the empty loads {figures.middle(fixed[0], of):.2f} and {figures.middle(fixed[1], of):.2f}"
            f"; all in all {figures.ratio(contender, against, of):.2f} times {against}"
        ),
    )


def share_of_encoding(contender: str, without: str, null: str, at_most: float, *, issue: int) -> Bar:
    """Return the bar on what one part of writing costs the workers, as a part of the rest of encoding."""

    def found(figures: Figures) -> float:
        rest = figures.middle(without, "worker") - figures.middle(null, "worker")
        return (
            (figures.middle(contender, "worker") - figures.middle(without, "worker")) / rest if rest > 0 else math.nan
        )

    return Bar(
        f"CPU of workers, what {contender} has above {without}, to what that has above {null}",
        issue,
        found,
        (contender, without, null),
        at_most,
    )


def share_of_bytes(contender: str, workload: Workload, at_most: float, *, issue: int) -> Bar:
    """Return the bar on the part of all files' bytes that workers read."""
    return Bar(
        f"part of the files' bytes that workers of {contender} read",
        issue,
        lambda figures: figures.middle(contender, "read_nbytes") / figures.bench.nbytes(workload),
        (contender,),
        at_most,
    )


def peak(contender: str, mebibytes: int, *, issue: int) -> Bar:
    """Return the bar on the largest resident set of a worker."""
    return Bar(
        f"peak of a worker of {contender}, MiB",
        issue,
        lambda figures: max(cost.peak_nbytes for cost in figures.costs[contender]) / (1 << 20),
        (contender,),
        mebibytes,
    )


def slope(contenders: Mapping[int, str], *, issue: int) -> Bar:
    """Return the bar on how CPU grows: from the third size to the last against from the first to the third."""
    sizes = sorted(contenders)
    first, middle, last = sizes[0], sizes[-2], sizes[-1]

    def marginal(figures: Figures, a: int, b: int) -> float:
        return (figures.middle(contenders[b], "cpu") - figures.middle(contenders[a], "cpu")) / (b - a)

    def found(figures: Figures) -> float:
        below = marginal(figures, first, middle)
        return marginal(figures, middle, last) / below if below > 0 else math.nan

    return Bar(
        f"CPU of each more {first} x, {middle} x to {last} x against {first} x to {middle} x",
        issue,
        found,
        tuple(contenders.values()),
        1.10,
        0.90,
        beside=lambda figures: ", ".join(f"{a} x to {b} x {marginal(figures, a, b):.2f} s" for a, b in pairwise(sizes)),
    )


def balance(workload: Workload, within: float, *, issue: int) -> Bar:
    """Return the bar on how far a task's rows are from the mean of all."""

    def found(figures: Figures) -> float:
        bench = figures.bench
        rows = rows_of_tasks(bench.spark.read.format("arrowipc").load(bench.arrow(workload)))
        return max(abs(count - mean(rows)) for count in rows) / mean(rows)

    return Bar("distance of a task's rows from the mean", issue, found, ("arrowipc",), within)
