"""``python -m spark_arrow_ipc.spark.options``: print the options of reads, streams and writes.

The table of ``docs/options.md`` for a terminal, of the release that is installed. Needs neither Spark nor Java.
"""

from __future__ import annotations

import sys
import textwrap
from collections.abc import Iterator, Sequence

from spark_arrow_ipc.spark.options.declare import Option
from spark_arrow_ipc.spark.options.options import READING, STREAMING, WRITING, Side

_WIDTH = 100


def main(words: Sequence[str]) -> int:
    """Print the options whose names have one of the words in them, in any case; all options without words.

    Returns 1 if there is none.
    """
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
        yield from textwrap.wrap(_text(option), _WIDTH, initial_indent=" " * 6, subsequent_indent=" " * 6)


def _text(option: Option) -> str:
    return f"{option.meaning} Takes {option.expected}; e.g. {option.example}"


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
