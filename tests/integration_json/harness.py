"""The commands of Arrow's integration tests, as `PYTHONPATH=tests python -m integration_json.harness --mode VALIDATE ...`.

The harness (archery) runs one program for each implementation, in three modes, with a file of Arrow's integration
JSON and one of Arrow IPC: convert JSON to Arrow, Arrow to JSON, or compare both and name the first difference. The
JSON is read into memory, because it is a format for tests.
"""

from __future__ import annotations

import argparse
import gzip
import json
import sys
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Final

import integration_json
from spark_arrow_ipc import ipc
from spark_arrow_ipc.arrow.array import Array
from spark_arrow_ipc.arrow.record_batch import RecordBatch
from spark_arrow_ipc.cli.shared.differences import Comparison
from spark_arrow_ipc.errors import ArrowIpcError, LimitError, printable

_STREAM_SUFFIXES = (".stream", ".arrows")
"""Endings of stream files, by the harness and by Arrow's recommendation; all others are files."""

_MOST_SLOTS: Final = 1 << 23
"""Slots of all arrays that become a document: each is a few Python objects."""

_COMPARISON = Comparison("the JSON", "the Arrow file")


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the mode; return 1 if the contents differ, or one of the files cannot be read."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument(
        "--mode",
        required=True,
        choices=tuple(_MODES),
        help="compare both, or write the second from the first",
    )
    parser.add_argument("--json", required=True, metavar="PATH", help="integration JSON, plain or gzip")
    parser.add_argument("--arrow", required=True, metavar="PATH", help="Arrow IPC file or stream")
    parser.add_argument(
        "--format",
        choices=tuple(form.value for form in ipc.Format),
        help=f"what JSON_TO_ARROW writes; by default a stream where the name ends in {' or '.join(_STREAM_SUFFIXES)}",
    )
    chosen = parser.parse_args(arguments)
    try:
        return _MODES[chosen.mode](chosen)
    except (ArrowIpcError, OSError) as error:
        print(f"integration: {printable(str(error))}", file=sys.stderr)
        return 1


def _validate(arguments: argparse.Namespace) -> int:
    document = integration_json.read(arguments.json)
    with ipc.open(arguments.arrow) as reader:
        difference = _COMPARISON.of_schemas(document.schema, reader.schema)
        difference = difference or _COMPARISON.of_batches(document.batches, reader)
    if difference is None:
        return 0
    print(f"integration: {printable(f'{arguments.json} and {arguments.arrow} differ: {difference}')}", file=sys.stderr)
    return 1


def _arrow_to_json(arguments: argparse.Namespace) -> int:
    with ipc.open(arguments.arrow) as reader:
        document = integration_json.to_json(reader.schema, tuple(_within_budget(reader)))
    content = json.dumps(document).encode()
    path = Path(arguments.json)
    path.write_bytes(gzip.compress(content, mtime=0) if path.suffix == ".gz" else content)
    return 0


def _within_budget(batches: Iterable[RecordBatch]) -> Iterator[RecordBatch]:
    """Yield all batches; raise if they are too many for a document, which is in memory whole."""
    left = _MOST_SLOTS
    for batch in batches:
        left -= sum(map(_stored_slots, batch.columns))
        if left < 0:
            raise LimitError(f"integration JSON is for tests: at most {_MOST_SLOTS:,} slots of all arrays are written")
        yield batch


def _stored_slots(array: Array) -> int:
    below = (*array.children, *([] if array.dictionary is None else [array.dictionary]))
    return array.length + sum(map(_stored_slots, below))


def _json_to_arrow(arguments: argparse.Namespace) -> int:
    document = integration_json.read(arguments.json)
    form = arguments.format or ("stream" if arguments.arrow.endswith(_STREAM_SUFFIXES) else "file")
    options = ipc.WriteOptions(format="stream" if form == "stream" else "file")
    ipc.write(arguments.arrow, document.batches, document.schema, options)
    return 0


_MODES: Mapping[str, Callable[[argparse.Namespace], int]] = {
    "VALIDATE": _validate,
    "ARROW_TO_JSON": _arrow_to_json,
    "JSON_TO_ARROW": _json_to_arrow,
}


if __name__ == "__main__":
    sys.exit(main())
