"""The Arrow C data interface: what lending and taking a record batch costs, beside pyarrow's own.

    python -m benchmarks.c_data [--columns 40] [--turns 9]

CPU time of one thread, contenders one after the other within a turn; the ratio is the median of ratios inside a turn.
"""

import argparse
import statistics
import time

import pyarrow as pa

from spark_arrow_ipc.arrow import RecordBatch


def batch_of(columns):
    """Return a record batch of numbers, text and lists in turn, with nulls."""
    values = [pa.array([1, None, 3] * 100), pa.array(["a", None, "grün"] * 100), pa.array([[1], None, []] * 100)]
    return pa.record_batch({f"c{i}": values[i % 3] for i in range(columns)})


def cpu(work, calls):
    """Return CPU microseconds of one call."""
    start = time.process_time()
    for _ in range(calls):
        work()
    return (time.process_time() - start) / calls * 1e6


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--columns", type=int, default=40)
    parser.add_argument("--turns", type=int, default=9)
    given = parser.parse_args()
    theirs = batch_of(given.columns)
    ours = RecordBatch.from_arrow(theirs)
    cases = {
        "lend, and release unused": (ours.__arrow_c_array__, theirs.__arrow_c_array__),
        "lend to pyarrow": (lambda: pa.record_batch(ours), lambda: pa.record_batch(Lent(theirs))),
        "take of pyarrow, sizes checked": (
            lambda: RecordBatch.from_arrow(theirs, validation="structural"), lambda: pa.record_batch(Lent(theirs))
        ),
        "take of pyarrow, values checked": (
            lambda: RecordBatch.from_arrow(theirs), lambda: pa.record_batch(Lent(theirs)).validate(full=True)
        ),
    }  # fmt: skip
    print(f"{given.columns} columns, CPU microseconds of a call, medians of {given.turns} turns")
    for name, pair in cases.items():
        turns = [tuple(cpu(work, 100) for work in pair) for _ in range(given.turns)]
        a, b = (statistics.median(turn[i] for turn in turns) for i in (0, 1))
        ratio = statistics.median(turn[0] / turn[1] for turn in turns)
        print(f"{name:<34} ours {a:8.0f}   pyarrow {b:8.0f}   ratio {ratio:6.1f}")


class Lent:
    """Hides that a batch is pyarrow's own, which it would give back as it is."""

    def __init__(self, batch):
        self.batch = batch

    def __arrow_c_array__(self, requested_schema=None):
        return self.batch.__arrow_c_array__()


if __name__ == "__main__":
    main()
