"""``python -m spark_arrow_ipc.spark.options``: print the options of reads, streams and writes.

The table of ``docs/options.md`` for the installed release, in a terminal, without Spark and Java.
"""

from __future__ import annotations

import sys
import textwrap
from collections.abc import Iterator, Sequence

from spark_arrow_ipc.spark.options.options import READING, STREAMING, WRITING, Side

_WIDTH = 100


def main(words: Sequence[str]) -> int:
    """Print the options whose names contain one of the words, or all; returns 1 if there are none."""
    lines = [
        line for side in (READING, STREAMING, WRITING) for line in _of_side(side, [word.lower() for word in words])
    ]
    print("\n".join(lines) if lines else f"no option has {' or '.join(words)} in its name")
    return 0 if lines else 1


def _of_side(side: Side, words: Sequence[str]) -> Iterator[str]:
    options = [option for option in side if not words or any(word in option.name.lower() for word in words)]
    if options:
        yield f"Options for {side.doing}:"
    for option in options:
        yield f"  {option.name}" if option.default is None else f"  {option.name}={option.default}"
        text = f"{option.meaning} Takes {option.expected}; e.g. {option.example}"
        yield from textwrap.wrap(text, _WIDTH, initial_indent=" " * 6, subsequent_indent=" " * 6)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
