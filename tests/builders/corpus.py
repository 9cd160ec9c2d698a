"""The corpus of other people's Arrow files: what is in it, and what our reader makes of each.

The corpus is a directory with a MANIFEST.tsv (path, size, sha256, format, expect, note); the environment variable
ARROW_IPC_CORPUS names it. `expect` is `ok` (must decode to the right values), `error` (must be refused with an
ArrowIpcError) or `either` (readers disagree for cause: a sound decode or an ArrowIpcError).

    ARROW_IPC_CORPUS=... python tests/builders/corpus.py

prints the counts, and every file that did not do as it should.
"""

import csv
import dataclasses
import os
import re
import sys
import time
from collections import Counter
from functools import cache
from pathlib import Path

sys.path[:0] = [str(Path(__file__).parents[2] / name) for name in ("", "tests", "tests/oracles", "tests/builders", "tests/fakes", "tests/programs")]  # fmt: skip

import integration_json

from spark_arrow_ipc import ipc
from spark_arrow_ipc.arrow import equality
from spark_arrow_ipc.arrow import types as t
from spark_arrow_ipc.errors import ArrowIpcError

VARIABLE = "ARROW_IPC_CORPUS"

EQUAL_TO_JSON = "equal to golden JSON"
EQUAL_TO_PYARROW = "equal to pyarrow"
DECODED = "decoded, no oracle"
JSON_READ = "golden JSON read and written back"
REFUSED = "refused, as expected"
EITHER_DECODED = "readers disagree: decoded"
EITHER_REFUSED = "readers disagree: refused"
FAILED = "FAILED"
KINDS = (
    EQUAL_TO_JSON, EQUAL_TO_PYARROW, DECODED, JSON_READ, REFUSED, EITHER_DECODED, EITHER_REFUSED, FAILED,
)  # fmt: skip

SAME_CONTENTS = ((re.compile(r"comp_\w+_v4\b.*(?=\.arrows?$)"), "v5_plain"),)
"""Files that pyarrow misreads (compression with metadata V4, which it wrote itself), and what they equal beside them."""

RENAMED_MAPS = (
    "1.0.0-bigendian/generated_map_non_canonical.stream",
    "cpp-21.0.0/generated_map_non_canonical.stream",
    "apache-arrow-js-21.2.0/none/generated_map_non_canonical.arrow_file",
    "apache-arrow-js-21.2.0/none/generated_map_non_canonical.stream",
    "arro3-0.9.1_arrow-rs/none/generated_map_non_canonical.arrow_file",
    "arro3-0.9.1_arrow-rs/none/generated_map_non_canonical.stream",
)
"""Files whose writers gave a map's parts the usual names; their JSON has others."""


@dataclasses.dataclass(frozen=True)
class Entry:
    """One line of the manifest; `path` is absolute."""

    name: str
    path: Path
    format: str
    expect: str
    note: str


@dataclasses.dataclass(frozen=True)
class Outcome:
    """What became of an entry, and why where that is no plain success."""

    kind: str
    reason: str = ""


def root():
    """Return the corpus's directory, or None."""
    value = os.environ.get(VARIABLE)
    return Path(value) if value else None


@cache
def entries(directory):
    """Return the manifest's lines."""
    with (directory / "MANIFEST.tsv").open(encoding="utf-8", newline="") as lines:
        rows = list(csv.DictReader(lines, delimiter="\t", quoting=csv.QUOTE_NONE))
    return tuple(Entry(r["path"], directory / r["path"], r["format"], r["expect"], r["note"]) for r in rows)


def golden_json(entry):
    """Return the path of the JSON that says what a file holds, or None."""
    found = re.search(r"json=(\S+?\.json\.gz)( beside it)?", entry.note)
    if found is None:
        return None
    name, beside = found.groups()
    directory = entry.path.parent if beside else Path(str(entry.path).removesuffix(entry.name))
    return directory / name


def decode(path):
    """Return schema, batches and format of a file, validated in full."""
    with ipc.open(path, validation="full") as reader:
        batches = tuple(reader)
        return reader.schema, batches, reader.format


def check(entry):
    """Return the outcome of an entry."""
    if entry.format == "json":
        return _check_json(entry)
    try:
        schema, batches, format_ = decode(entry.path)
    except ArrowIpcError as error:
        refused = {"ok": FAILED, "error": REFUSED, "either": EITHER_REFUSED}
        return Outcome(refused[entry.expect], f"{type(error).__name__}: {error}")
    except Exception as error:  # noqa: BLE001 - a corpus run ends with a table, not at the first surprise
        return Outcome(FAILED, f"{type(error).__name__}: {error}")
    if entry.expect == "error":
        return Outcome(FAILED, "decoded")
    if entry.expect == "ok" and format_ != entry.format:
        return Outcome(FAILED, f"expected format {entry.format}, found {format_}")
    compared = _compare(entry, schema, batches)
    if entry.expect == "ok" or compared.kind == FAILED:
        return compared
    return Outcome(EITHER_DECODED, compared.kind)


def _compare(entry, schema, batches):
    expected = golden_json(entry)
    if expected is None:
        return _compare_with_pyarrow(entry, schema, batches)
    document = integration_json.read(expected)
    renames = entry.name.endswith(RENAMED_MAPS)
    found = difference(document.schema, document.batches, schema, batches, renames_maps=renames)
    return Outcome(EQUAL_TO_JSON) if found is None else Outcome(FAILED, f"unlike JSON: {found}")


def _check_json(entry):
    document = integration_json.read(entry.path)
    again = integration_json.read(integration_json.to_json(document.schema, document.batches))
    found = difference(document.schema, document.batches, again.schema, again.batches)
    return Outcome(JSON_READ) if found is None else Outcome(FAILED, found)


def _compare_with_pyarrow(entry, schema, batches):
    try:
        import pyarrow_contents
    except ModuleNotFoundError as error:
        return Outcome(DECODED, f"{error.name} is not installed")
    path = entry.path
    for pattern, name in SAME_CONTENTS:
        path = path.with_name(pattern.sub(name, path.name))
    try:
        expected_schema, expected = pyarrow_contents.read(path)
    except Exception as error:  # noqa: BLE001 - pyarrow has many
        return Outcome(FAILED, f"pyarrow cannot: {type(error).__name__}: {error}")
    # pyarrow's Python shows a map's parts under its own names.
    found = difference(expected_schema, expected, schema, batches, renames_maps=True)
    return Outcome(EQUAL_TO_PYARROW) if found is None else Outcome(FAILED, f"unlike pyarrow: {found}")


def difference(expected_schema, expected, schema, batches, *, renames_maps=False):
    """Return where two contents differ, or None.

    The order of custom metadata is no part of them (writers sort it as they like), nor the byte order that a file
    declares; with `renames_maps` the names of a map's parts are none either.
    """
    wanted_schema, found_schema = (canonical(s, renames_maps) for s in (expected_schema, schema))
    for wanted, found in zip(wanted_schema.fields, found_schema.fields, strict=False):
        if wanted != found:
            return f"expected {wanted!r}, found {found!r}"
    if len(wanted_schema) != len(found_schema):
        return f"expected {len(wanted_schema)} fields, found {len(found_schema)}"
    if wanted_schema.custom_metadata != found_schema.custom_metadata:
        return f"expected {wanted_schema.custom_metadata}, found {found_schema.custom_metadata}"
    if len(expected) != len(batches):
        return f"expected {len(expected)} batches, found {len(batches)}"
    for number, (wanted, found) in enumerate(zip(expected, batches, strict=True)):
        if wanted.num_rows != found.num_rows:
            return f"batch {number}: expected {wanted.num_rows} rows, found {found.num_rows}"
        for field, a, b in zip(schema.fields, wanted.columns, found.columns, strict=True):
            # The schemas are equal, so types need not be compared again, but an array has to be of its field's type.
            unlike = (
                equality.difference(a, b, field.name, types=False)
                if b.type == field.type
                else f"{field.name}: the array is {b.type}"
            )
            if unlike is not None:
                return f"batch {number}: {unlike}"
    return None


def canonical(value, renames_maps):
    """Return a type, field or schema with its metadata in order and, if asked, a map's parts under the usual names."""
    if isinstance(value, tuple):
        return tuple(canonical(v, renames_maps) for v in value)
    if not dataclasses.is_dataclass(value):
        return value
    changed = {f.name: canonical(getattr(value, f.name), renames_maps) for f in dataclasses.fields(value)}
    if "custom_metadata" in changed:
        changed["custom_metadata"] = tuple(sorted(changed["custom_metadata"]))
    made = dataclasses.replace(value, **changed)
    if not renames_maps or not isinstance(made, t.Map):
        return made
    key, item = dataclasses.replace(made.key, name="key"), dataclasses.replace(made.item, name="value")
    return t.Map(t.Field("entries", t.Struct((key, item)), nullable=False), made.keys_sorted)


def table(outcomes):
    """Return the counts as lines: kinds, then reasons, then failures by name."""
    kinds = Counter(outcome.kind for outcome in outcomes.values())
    lines = [f"{kinds[kind]:>5}  {kind}" for kind in KINDS if kinds[kind]]
    lines.append(f"{len(outcomes):>5}  in all")
    reasons = Counter((o.kind, o.reason) for o in outcomes.values() if o.kind in (DECODED, EITHER_DECODED))
    lines += [f"{count:>5}  {kind}: {reason}" for (kind, reason), count in reasons.items()]
    lines += [f"FAILED {entry.name}: {o.reason}" for entry, o in outcomes.items() if o.kind == FAILED]
    return lines


def main():
    """Check the whole corpus and print the table; the exit code counts failures."""
    directory = root()
    if directory is None:
        print(f"set {VARIABLE} to the corpus's directory")
        return 2
    started = time.perf_counter()
    outcomes = {entry: check(entry) for entry in entries(directory)}
    print("\n".join(table(outcomes)))
    print(f"{time.perf_counter() - started:.0f} s")
    return any(outcome.kind == FAILED for outcome in outcomes.values())


if __name__ == "__main__":
    sys.exit(main())
