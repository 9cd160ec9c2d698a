"""Mutants of JSON: what files, logs and checkpoints say, with another structure.

    python tests/fuzz/json_mutants.py --count 100000        mutants 0 to 99,999
    python tests/fuzz/json_mutants.py --show NUMBER         one mutant: what was read, and what was said of it

A mutant is its number: it chooses a target, one to three changes and their places. A change is of the structure, and not of
bytes: a value of another kind, a key left out, doubled or renamed, lists and objects that nest a hundred or a hundred
thousand levels deep, numbers beyond any type, a hundred thousand items, text that cannot be encoded. Checksums around it
are made anew, so that the change is what is read.

A leak is an error that is no `ArrowIpcError` and no warning, more than `MOST_SECONDS`, or more than `MOST_MEMORY`.
"""

import argparse
import base64
import contextlib
import copy
import json
import random
import resource
import sys
import tempfile
import time
import traceback
import warnings
import zlib
from collections import Counter
from pathlib import Path
from unittest import mock

sys.path[:0] = [str(Path(__file__).parents[2] / name) for name in ("", "tests", "tests/oracles", "tests/builders", "tests/fakes", "tests/programs")]  # fmt: skip

from pyspark.sql import types as s
from statistics_cases import batch_of, gathered, with_dropped

from spark_arrow_ipc import ipc
from spark_arrow_ipc.arrow import types as t
from spark_arrow_ipc.dataset.listing.tree import DataFile
from spark_arrow_ipc.dataset.statistics.read import read_statistics
from spark_arrow_ipc.dataset.stream import checkpoint, log, table, tail, window
from spark_arrow_ipc.dataset.stream.bad_files import BadFileNotes
from spark_arrow_ipc.dataset.stream.mode import StreamBatch
from spark_arrow_ipc.dataset.stream.source_files import SeenFiles, files_to_json
from spark_arrow_ipc.dataset.stream.source_log import SourceLog
from spark_arrow_ipc.errors import ArrowIpcError
from spark_arrow_ipc.ipc.messages.checksums import ROW_COUNTS_KEY, decode_row_counts
from spark_arrow_ipc.spark.types import field_metadata
from spark_arrow_ipc.spark.types.extension_columns import parse_spatial
from spark_arrow_ipc.spark.types.tensor_columns import parse_tensor
from spark_arrow_ipc.storage.local import LOCAL
from spark_arrow_ipc.table import checkpoint as checkpoint_module
from spark_arrow_ipc.table.checkpoint import KEY, decode_checkpoint, encode_checkpoint
from spark_arrow_ipc.table.entry import Batch, Entry, Operation, Removed
from spark_arrow_ipc.table.files import Files
from spark_arrow_ipc.table.log import encode_table_id, read_table_id
from spark_arrow_ipc.table.names import TableDirectory
from spark_arrow_ipc.table.state import State

MOST_SECONDS = 2
MOST_MEMORY = 512 << 20
"""Beyond what the process had at its greatest before the mutant."""

JOB = "0123456789abcdef" * 2
SCALARS = (
    None, True, False, 0, -1, 1, 7, 1 << 31, 1 << 63, -(1 << 63) - 1, 1 << 70, 10**400, 1.5, -0.0, 1e308, float("nan"), float("inf"),
    "", "a", "0", "../x", "/etc/passwd", "a/../../b", ".", "_ipc_log/0123abcd/00000000000000000001.json", "\0", "\ud800", "\u202e", "x" * 100_000,
    [], {}, [[]], [{}], [None], ["a", 1], {"": ""}, {"a": {"a": []}},
)  # fmt: skip


def nested(levels, *, objects=False):
    """Return a text: JSON's own encoder cannot nest so deep."""
    return '{"a":' * levels + "1" + "}" * levels if objects else "[" * levels + "]" * levels


GROWN = (
    *(nested(levels, objects=objects) for levels in (50, 100, 161, 1_000, 100_000) for objects in (False, True)),
    "[" + "0," * 100_000 + "0]",
    "[" + "[]," * 100_000 + "[]]",
    "[" * 100_000,
    "1" * 5_000,
)
"""Texts that stand for a value, by a mark in its place."""


def places(value, path=()):
    """Return the paths of all values in a value."""
    found = [path]
    items = value.items() if isinstance(value, dict) else enumerate(value) if isinstance(value, list) else ()
    for key, child in items:
        found += places(child, (*path, key))
    return found


def changed(choose, document):
    """Return the text of a document with one to three changes."""
    root = [copy.deepcopy(document)]
    marks = {}
    for _ in range(choose.randint(1, 3)):
        *above, key = choose.choice(places(root)[1:])
        parent = root
        for step in above:
            parent = parent[step]
        kind = choose.random()
        if kind < 0.45:
            parent[key] = copy.deepcopy(choose.choice(SCALARS))
        elif kind < 0.6:
            mark = f"mark {len(marks)}"
            marks[mark] = choose.choice(GROWN)
            parent[key] = mark
        elif kind < 0.75 and parent is not root:
            del parent[key]
        elif isinstance(parent, dict):
            parent[choose.choice(["", "v", "mode", "path", "x", *map(str, parent)])] = copy.deepcopy(parent[key])
        elif parent is not root:
            parent.insert(key, copy.deepcopy(parent[key]))
    text = json.dumps(root[0])
    for mark, grown in marks.items():
        text = text.replace(json.dumps(mark), grown)
    return text


# ---- what is read, by its name: a sound document, and a function that reads the text of a changed one

TABLE = "0123abcd"
ENTRY = Entry(
    7, JOB, Operation.OVERWRITE, job=JOB, base=6, time=5, application="app", user="me", partition_columns=("k",), add=Files.of([("k=1/x.arrow", 5, 1, 2)]),
    remove=(Removed("old.arrow", 5), Removed("k=1/b.arrow", 4, "9", "sample-1")), retain=True, retention=60, token="s", batch=Batch("q", 4), expire=(JOB[::-1],),
    close=(Removed("older.arrow", 5),), restores=3, queries=(("q", 3, 2),), tokens=("t",), former=("abcd0123",),
)  # fmt: skip
STATE = State(TABLE, 6).after(ENTRY)
FILES = StreamBatch((DataFile("/data/a.arrow", 5, 7),), ("/data",))
BATCH = batch_of(t.int32, 1, 2)
FIELD = t.field("x", t.int32)


def parsed(data):
    """Return a log entry as JSON, without its checksum."""
    return {name: value for name, value in json.loads(data).items() if name != "crc32"}


def read_table_entry(text):
    body = text.encode("utf-8", "surrogatepass").rstrip()[:-1]
    entry = Entry.from_bytes(b'%s,"crc32":%d}\n' % (body, zlib.crc32(body)), 7)
    STATE.after(entry).after(entry)


def read_id(text):
    with tempfile.TemporaryDirectory() as root:
        directory = TableDirectory(LOCAL, root)
        Path(directory.log).mkdir()
        Path(directory.id_file).write_text(text, errors="surrogatepass")
        read_table_id(directory)


def state_of(data):
    with ipc.open_file(data) as reader:
        return json.loads(dict(reader.custom_metadata)[KEY])


def read_state(text):
    text = text.encode("utf-8", "replace").decode()
    with mock.patch.object(checkpoint_module.json, "dumps", return_value=text):
        data = encode_checkpoint(STATE)
    decode_checkpoint(data, TABLE, 7).after(ENTRY)


def read_dropped(text):
    pair = with_dropped(text)(gathered([BATCH]))
    read_statistics([pair], BATCH.schema, 1)


def read_note(text):
    for function in (field_metadata.is_vector_annotation, field_metadata.readable):
        function(text)
    field_metadata.is_storage_of(t.int32, text)
    field_metadata.from_spark({field_metadata.TYPE_KEY: text}, t.int32)


def read_field(text):
    field = t.field("x", t.int32, custom_metadata={field_metadata.SPARK_KEY: text})
    metadata = field_metadata.to_spark(field, s.IntegerType(), t.int32)
    field_metadata.from_spark(metadata, t.int32)


def read_entry(text):
    with tempfile.TemporaryDirectory() as directory:
        (Path(directory) / f"{0:020d}.json").write_text(text, errors="surrogatepass")
        SourceLog(LOCAL, directory, ("/data",)).load()


def read_noted(text):
    with tempfile.TemporaryDirectory() as directory:
        (Path(directory) / "0.json").write_text(text, errors="surrogatepass")
        list(BadFileNotes(LOCAL, directory).read())


def read_log(text):
    with tempfile.TemporaryDirectory() as directory:
        (Path(directory) / f"{0:020d}.json").write_text(text, errors="surrogatepass")
        checkpoint.look(directory, LOCAL, lambda _: LOCAL, None, 5)


def read_checkpoint(text):
    with tempfile.TemporaryDirectory() as directory:
        (Path(directory) / "offsets").mkdir()
        (Path(directory) / "metadata").write_text(text, errors="surrogatepass")
        (Path(directory) / "offsets" / "0").write_text(f"v1\n{text}\n{text}", errors="surrogatepass")
        checkpoint.look(directory, LOCAL, lambda _: LOCAL, None, 5)


def read_offset(of):
    """Return a function that reads an offset as Spark gives it: parsed."""

    def read(text):
        try:
            offset = json.loads(text)
        except (ValueError, RecursionError):  # Spark's own parser refuses it
            return
        of(offset)

    return read


def read_files(text):
    packed = base64.b64encode(zlib.compress(text.encode("utf-8", "surrogatepass"))).decode()
    window._State.of({**WINDOW, "files": packed})


WINDOW = window._State(5, 4, 3, SeenFiles.empty(), FILES).to_offset()


def read_row_counts(text):
    with contextlib.suppress(ValueError):  # its callers' error
        decode_row_counts(((ROW_COUNTS_KEY, text),))


TARGETS = {
    "row counts of polars": ({"record_batch_cum_len": [1, 3, 7]}, read_row_counts),
    "an entry of a table": (parsed(ENTRY.to_bytes()), read_table_entry),
    "the id of a table": (parsed(encode_table_id(TABLE)), read_id),
    "the state in a checkpoint of a table": (state_of(encode_checkpoint(STATE)), read_state),
    "statistics": ([["a"], ["b", "c"]], read_dropped),
    "a note of an Arrow type": (
        json.loads(field_metadata.annotation_of(t.list_(t.struct([("a", t.int32)])))),
        read_note,
    ),
    "metadata of a field": ({"comment": "x", "n": {"a": [1, 2]}}, read_field),
    "a tensor": (
        {"shape": [2, 3], "permutation": [1, 0], "dim_names": ["a", "b"]},
        lambda text: parse_tensor("arrow.fixed_shape_tensor", text, None, "x"),
    ),
    "a geometry": (
        {"crs": {"id": {"authority": "EPSG", "code": 4326}}, "edges": "planar"},
        lambda text: parse_spatial(text, "x"),
    ),
    "an entry of a source log": (
        {"v": 1, "paths": ["/data"], "after": -1, "low": 0, "skipped": "", **files_to_json(FILES)},
        read_entry,
    ),
    "files of an offset": (files_to_json(FILES), read_files),
    "a note of a bad file": ({"v": 1, "path": "/a", "bytes": 1, "time": 2, "reason": "x"}, read_noted),
    "an entry that is looked at": (
        {"v": 1, "paths": ["/data"], "after": -1, "low": 0, "skipped": "", **files_to_json(FILES)},
        read_log,
    ),
    "a checkpoint": (WINDOW, read_checkpoint),
    "an offset of a window": (WINDOW, read_offset(window._State.of)),
    "an offset of a table": (table._Position(TABLE, 3, JOB).to_offset(), read_offset(table._Position.of)),
    "an offset of a log": ({"v": 1, "mode": "log", "log": 3}, read_offset(log.read_number)),
    "an offset of a tail": (tail._State(1, 2, 3).to_offset(), read_offset(tail._State.of)),
}


def mutant(number):
    """Return the name of a target, and the changed text."""
    choose = random.Random(number)
    name = choose.choice(list(TARGETS))
    return name, changed(choose, TARGETS[name][0])


def outcome(number):
    """Return the target of a mutant, what was said of it, and the leak or None."""
    name, text = mutant(number)
    peak, began = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss, time.process_time()
    leak = None
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            TARGETS[name][1](text)
        said = "taken, or ignored with a warning"
    except ArrowIpcError as error:
        said = type(error).__name__
        if len(str(error)) > 5_000:
            leak = f"a message of {len(str(error)):,} characters"
    except Exception as error:  # noqa: BLE001 - a leak, whatever it is
        said, leak = type(error).__name__, traceback.format_exc(limit=-3)
    if (seconds := time.process_time() - began) > MOST_SECONDS:
        leak = f"{seconds:.1f} s"
    if (grown := resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - peak) * 1024 > MOST_MEMORY:
        leak = f"{grown:,} KiB"
    return name, said, leak


def run(first, count):
    """Read mutants; return how often what was said of each target, and the leaks by number."""
    said, leaks = Counter(), {}
    for number in range(first, first + count):
        name, words, leak = outcome(number)
        said[name, words] += 1
        if leak is not None:
            leaks[number] = (name, leak)
    return said, leaks


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--first", type=int, default=0)
    parser.add_argument("--count", type=int, default=1000)
    parser.add_argument("--show", type=int)
    arguments = parser.parse_args()
    if arguments.show is not None:
        print(*mutant(arguments.show), *outcome(arguments.show)[1:], sep="\n")
        return
    said, leaks = run(arguments.first, arguments.count)
    for (name, words), count in sorted(said.items()):
        print(f"{count:9,}  {name}: {words}")
    for number, (name, leak) in list(leaks.items())[:20]:
        print(f"leak {number}: {name}: {leak}")
    print(f"{sum(said.values()):,} mutants, {len(leaks):,} leaks")
    sys.exit(bool(leaks))


if __name__ == "__main__":
    main()
