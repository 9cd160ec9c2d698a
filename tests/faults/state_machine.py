"""Drive writers, readers, crashes and vacuum over a memory storage, many times.

    python tests/faults/state_machine.py --examples 10000 [--seed 1] [--publishing copies]

Ends with 0 if no example broke a promise; Hypothesis prints the steps of one that did.
"""

import argparse
import sys
import time
from pathlib import Path

from hypothesis import HealthCheck, Phase, seed, settings
from hypothesis.stateful import run_state_machine_as_test

sys.path[:0] = [str(Path(__file__).parents[2] / name) for name in ("", "tests", "tests/oracles", "tests/builders", "tests/fakes", "tests/programs")]  # fmt: skip

from commit_machine import MACHINES


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--examples", type=int, default=10_000)
    parser.add_argument("--steps", type=int, default=12)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--publishing", choices=MACHINES, default="renames")
    parser.add_argument("--first", action="store_true", help="end at the first violation, as it was found")
    parser.add_argument("--grace", type=float, default=30.0, help="0 must find a file that comes back")
    chosen = parser.parse_args()
    begun, examples = time.monotonic(), []
    machine_class = MACHINES[chosen.publishing]
    teardown, machine_class.grace_seconds = machine_class.teardown, chosen.grace

    def counting(machine):
        teardown(machine)
        examples.append(machine.head)

    machine_class.teardown = counting
    many = settings(
        max_examples=chosen.examples, stateful_step_count=chosen.steps, deadline=None, database=None,
        suppress_health_check=list(HealthCheck), phases=[Phase.generate] if chosen.first else list(Phase),
    )  # fmt: skip
    try:
        run_state_machine_as_test(seed(chosen.seed)(machine_class), settings=many)
    except BaseException as error:
        print(f"violated after {len(examples):,} examples: {str(error).partition(chr(10))[0]}")
        raise
    print(f"{len(examples):,} examples, {sum(examples):,} records, 0 violations, {time.monotonic() - begun:.0f} s")


if __name__ == "__main__":
    main()
