"""Runs one fuzz target under atheris (which needs an environment of its own: `pip install atheris`, Python 3.11).

    python tests/fuzz/seeds.py SEEDS
    python tests/fuzz/run.py stream SEEDS/stream -max_total_time=600

The first argument is a target of `targets`; the rest goes to libFuzzer. An input that fails is written to the current
directory; `python tests/fuzz/run.py stream THAT_FILE` runs it alone.
"""

import sys

import atheris

with atheris.instrument_imports(include=["spark_arrow_ipc", "targets"]):
    import targets

OPTIONS = ("-timeout=10", "-rss_limit_mb=2048", "-max_len=16384", "-print_final_stats=1")


def main():
    name, *rest = sys.argv[1:]
    atheris.Setup([sys.argv[0], *OPTIONS, *rest], targets.TARGETS[name])
    atheris.Fuzz()


if __name__ == "__main__":
    main()
