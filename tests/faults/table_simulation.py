"""Let a stream of a dataset, and its writers, die anywhere: nothing is lost or read twice (`table_trials`).

    python tests/faults/table_simulation.py --trials 1000 [--seed 1] [--publishing copies]

Prints what it counted and exits with 0, or raises with the trial's seed.
"""

import argparse
import json
import logging
import sys
import time
from pathlib import Path

sys.path[:0] = [str(Path(__file__).parents[2] / name) for name in ("", "tests", "tests/oracles", "tests/builders", "tests/fakes", "tests/programs")]  # fmt: skip

from table_trials import run


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--trials", type=int, default=1000)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--publishing", choices=["renames", "copies"], default="renames")
    chosen = parser.parse_args()
    logging.disable(logging.WARNING)  # of aborts and jobs that died
    begun = time.monotonic()
    print(json.dumps(run(chosen.trials, chosen.seed, chosen.publishing) | {"seconds": round(time.monotonic() - begun)}))


if __name__ == "__main__":
    main()
