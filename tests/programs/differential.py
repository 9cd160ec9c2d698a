"""Our reader against pyarrow's, on damaged files: what each makes of the same bytes, and why that may differ.

A case is a small file of `tests/data` (with `--goldens`: of the corpus that ARROW_IPC_CORPUS names) with one byte of its metadata
changed, or cut off somewhere. All bytes that are no body count as metadata: magic, prefixes, flatbuffers with their
padding, footer. Each reader decodes with all its checks, pyarrow with `validate(full=True)`; what both decode is
compared, schema, custom metadata and values. pyarrow runs in worker processes, because some bytes crash it.

With `--every-value` the files are those of `small_files`: twenty of all types, written by the pyarrow that is here. Each
byte of a footer, of the message of a record batch and of a dictionary becomes each other value: what a reader believes
of a file. Other bytes are changed as above.

Both decode alike, or both refuse: that is agreement. Everything else needs a `Reason` in `differential_reasons`.

    python tests/programs/differential.py                    20,000 cases, those of the ordinary test
    python tests/programs/differential.py --exhaustive       all 1.4 million of them
    python tests/programs/differential.py --goldens --limit 100000
    python tests/programs/differential.py --every-value --exhaustive
    python tests/programs/differential.py --show NUMBER      one case: what both say
"""

import argparse
import json
import os
import resource
import signal
import subprocess
import sys
import threading
import time
import warnings
from collections import Counter
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, fields, is_dataclass, replace
from functools import cache
from pathlib import Path
from typing import Any

sys.path[:0] = [str(Path(__file__).parents[2] / name) for name in ("", "tests", "tests/oracles", "tests/builders", "tests/fakes", "tests/programs")]  # fmt: skip

import corpus
import numpy as np
import pyarrow as pa
from arrow_from_pyarrow import from_pyarrow, schema_from_pyarrow
from differential_reasons import CRASH, NOT_OURS, UNEXPLAINED, classify
from small_files import small_files

from spark_arrow_ipc import ipc
from spark_arrow_ipc.arrow import RecordBatch, Schema, equality
from spark_arrow_ipc.arrow import types as t
from spark_arrow_ipc.errors import ArrowIpcError
from spark_arrow_ipc.ipc.columns.decode import NATIVE

DATA = Path(__file__).parents[1] / "data"
SEED = 20_240_229
SAMPLED = 20_000
WORKERS = 2
MOST_SECONDS = 20
"""For one case, in both readers and the comparison; a worker that takes longer is killed."""

MOST_SHOWN = 200
MOST_NBYTES = 10_000
"""Larger files show nothing more and cost time."""
MOST_ROWS = 4_096
"""Rows of types without bytes cost nothing to claim; only so many are compared."""

ADDRESS_SPACE = 4 << 30
"""Beyond what a worker has after its imports: pyarrow allocates what a length says."""

GOLDENS = "arrow-testing/data/arrow-ipc-stream/integration"
GOLDEN_ENDINGS = ("*.stream", "*.arrow_file")

MASKS = np.array([1 << bit for bit in range(8)], np.uint8)
WORDS = np.array([0x00, 0x7F, 0x80, 0xFF], np.uint8)
CHANGES = len(MASKS) + len(WORDS) + 2
"""Of one byte: each bit flipped, one more, one less, and `WORDS`; some of them coincide."""
OTHER_VALUES = 255


def changed(old: int, number: int) -> int:
    """Return what a byte becomes by its change of that number."""
    if number < len(MASKS):
        return old ^ int(MASKS[number])
    number -= len(MASKS)
    return int(WORDS[number]) if number < len(WORDS) else (old + (1 if number == len(WORDS) else -1)) & 0xFF


@dataclass(frozen=True)
class Origin:
    """A sound file: its bytes, and which of them are metadata."""

    name: str
    content: bytes
    places: np.ndarray
    all_values_from: int | None = None
    """Bytes from here on become all other values."""

    @property
    def _every(self) -> int:
        """How many of the places, the last ones, become all other values."""
        return 0 if self.all_values_from is None else int((self.places >= self.all_values_from).sum())

    @property
    def is_file(self) -> bool:
        return self.content.startswith(b"ARROW1")

    def __len__(self) -> int:
        return self._changes + len(self.content)

    @property
    def _changes(self) -> int:
        return CHANGES * (len(self.places) - self._every) + OTHER_VALUES * self._every

    def case(self, number: int) -> tuple[str, bytes]:
        """Return what was done, and the damaged bytes. The changes come first, then the cuts."""
        if number >= self._changes:
            end = number - self._changes
            return f"{self.name} cut at {end}", self.content[:end]
        usual = len(self.places) - self._every
        if number < CHANGES * usual:
            place = int(self.places[number // CHANGES])
            new = changed(self.content[place], number % CHANGES)
        else:
            at, value = divmod(number - CHANGES * usual, OTHER_VALUES)
            place = int(self.places[usual + at])
            new = self.content[place] ^ (value + 1)
        old = self.content[place]
        damaged = self.content[:place] + bytes([new]) + self.content[place + 1 :]
        return f"{self.name} byte {place} from {old} to {new}", damaged


def body_ranges(content: bytes) -> Iterator[tuple[int, int]]:
    """Yield where the bodies of a sound file's messages lie, by pyarrow."""
    start = 8 if content.startswith(b"ARROW1") else 0
    source = pa.BufferReader(pa.py_buffer(content)[start:])
    messages = pa.ipc.MessageReader.open_stream(source)
    while True:
        try:
            message = messages.read_next_message()
        except StopIteration:
            return
        nbytes = 0 if message.body is None else message.body.size
        end = start + source.tell()
        yield end - nbytes, end


@dataclass(frozen=True)
class Cases:
    """All cases of some files, numbered: what one number means depends on the files alone."""

    origins: tuple[Origin, ...]
    arguments: tuple[str, ...] = ()
    """What a worker needs to be told to have the same cases."""

    def __len__(self) -> int:
        return sum(map(len, self.origins))

    def case(self, number: int) -> tuple[Origin, str, bytes]:
        """Return a case's origin, what was done, and the damaged bytes."""
        for origin in self.origins:
            if number < len(origin):
                return (origin, *origin.case(number))
            number -= len(origin)
        raise IndexError(number)

    def sample(self, count: int = SAMPLED, seed: int = SEED) -> np.ndarray:
        """Return the numbers of so many cases: always the same ones."""
        return np.random.default_rng(seed).choice(len(self), min(count, len(self)), replace=False)


@cache
def cases_of(*, goldens: bool) -> Cases:
    """Return the cases of the sound small files of `tests/data`, or of the corpus's goldens."""
    if goldens:
        directory = corpus.root()
        if directory is None:
            raise SystemExit(f"set {corpus.VARIABLE} to the corpus's directory")
        paths = [path for ending in GOLDEN_ENDINGS for path in (directory / GOLDENS).rglob(ending)]
    else:
        paths = list(DATA.glob("*.arrow*"))
    made = []
    for path in sorted(paths):
        content = path.read_bytes()
        if len(content) > MOST_NBYTES or read_theirs(content, is_file=content.startswith(b"ARROW1")) is None:
            continue
        made.append(Origin(f"{path.parent.name}/{path.name}", content, _metadata_places(content)))
    return Cases(tuple(made), ("--goldens",) if goldens else ())


@cache
def cases_of_every_value() -> Cases:
    """Return the cases of `small_files`: every value of every byte that a reader believes."""
    made = []
    for name, content in small_files().items():
        with ipc.open_file(content) as reader:
            first = min(block.byte_offset for block in (*reader.blocks, *reader.dictionary_blocks))
        made.append(Origin(name, content, _metadata_places(content), first))
    return Cases(tuple(made), ("--every-value",))


def _metadata_places(content: bytes) -> np.ndarray:
    is_metadata = np.ones(len(content), np.bool_)
    for start, end in body_ranges(content):
        is_metadata[start:end] = False
    return np.flatnonzero(is_metadata)


def read_ours(content: bytes, *, is_file: bool) -> tuple[Schema, list[RecordBatch]]:
    """Return what we read; an `ArrowIpcError` is a refusal, any other error is not caught anywhere."""
    with (ipc.open_file if is_file else ipc.open_stream)(content) as reader:
        return reader.schema, list(reader)


def read_theirs(content: bytes, *, is_file: bool) -> tuple[pa.Schema, list[pa.RecordBatch]] | None:
    """Return what pyarrow reads, or None where it refuses."""
    try:
        return _read_theirs(content, is_file=is_file)
    except (pa.ArrowException, OSError):
        return None


def _read_theirs(content: bytes, *, is_file: bool) -> tuple[pa.Schema, list[pa.RecordBatch]]:
    if is_file:
        reader = pa.ipc.open_file(content)
        batches = [reader.get_batch(i) for i in range(reader.num_record_batches)]
    else:
        reader = pa.ipc.open_stream(content)
        batches = list(reader)
    for batch in batches:
        batch.validate(full=True)
    return reader.schema, batches


def batch_from_theirs(batch: pa.RecordBatch, schema: Schema) -> RecordBatch:
    """Return pyarrow's batch as ours, by way of a struct: pyarrow has no Python arrays of some intervals."""
    batch = batch.slice(0, MOST_ROWS)
    columns = from_pyarrow(batch.to_struct_array()).children if batch.num_columns else ()
    return RecordBatch(schema, tuple(column.slice(0, batch.num_rows) for column in columns), batch.num_rows)


def difference(ours: tuple[Schema, list[RecordBatch]], theirs: tuple[pa.Schema, list[pa.RecordBatch]]) -> str | None:
    """Return where two readings differ, or None."""
    schema, batches = ours
    their_schema, their_batches = theirs
    rows = [batch.num_rows for batch in batches]
    their_rows = [batch.num_rows for batch in their_batches]
    if rows != their_rows:
        return f"pyarrow has batches of {their_rows} rows, we of {rows}"
    expected_schema = schema_from_pyarrow(their_schema)
    for place, expected, found in _pairs(as_pyarrow_names(expected_schema), as_pyarrow_names(schema)):
        if expected != found:
            return f"{place}: pyarrow has {expected!r}, we have {found!r}"
    for number, (theirs_, ours_) in enumerate(zip(their_batches, batches, strict=True)):
        wanted = batch_from_theirs(theirs_, expected_schema).columns
        for field, a, b in zip(schema.fields, wanted, ours_.columns, strict=True):
            if b.type != field.type:
                return f"batch {number}, {field.name}: the array is {b.type}"
            unlike = equality.difference(a, b.slice(0, min(b.length, MOST_ROWS)), field.name, types=False)
            if unlike is not None:
                return f"batch {number}, {unlike}"
    return None


def _pairs(expected: Schema, found: Schema) -> Iterator[tuple[str, object, object]]:
    yield "fields", len(expected), len(found)
    yield from (("field", a, b) for a, b in zip(expected.fields, found.fields, strict=True))
    yield "custom metadata", expected.custom_metadata, found.custom_metadata


_USUAL_NAMES = {
    t.Map: lambda type_: t.Map(
        replace(type_.entries, name="entries", nullable=False, custom_metadata=(), type=t.Struct(
            (replace(type_.key, name="key", nullable=False), replace(type_.item, name="value"))
        )), type_.keys_sorted,
    ),
    t.RunEndEncoded: lambda type_: t.RunEndEncoded(
        t.Field("run_ends", type_.run_ends.type, nullable=False), t.Field("values", type_.values.type)
    ),
}  # fmt: skip
"""What pyarrow's Python does not tell: the names of the parts of maps and runs."""


def as_pyarrow_names(value: Any) -> Any:
    """Return a schema, field or type as pyarrow's Python shows it: pairs of metadata sorted, the last of a key, parts renamed.

    The byte order goes, for a reader swaps it, and so does the empty text that says nothing about an extension type.
    """
    if isinstance(value, tuple):
        return tuple(as_pyarrow_names(v) for v in value)
    if not is_dataclass(value):
        return value
    changed = {f.name: as_pyarrow_names(getattr(value, f.name)) for f in fields(value)}
    if "custom_metadata" in changed:
        pairs = (pair for pair in changed["custom_metadata"] if pair != ("ARROW:extension:metadata", ""))
        changed["custom_metadata"] = tuple(sorted(dict(pairs).items()))
    if "endianness" in changed:
        changed["endianness"] = NATIVE
    made = replace(value, **changed)
    return _USUAL_NAMES[type(made)](made) if type(made) in _USUAL_NAMES else made


# ---- workers


@dataclass(frozen=True)
class Outcome:
    """What became of a case: an error's class and text on each side, or the difference of what both decoded."""

    number: int
    ours: str | None = None
    theirs: str | None = None
    difference: str | None = None


def _sentence(error: BaseException) -> str:
    return f"{type(error).__name__}: {error}"


def work(cases: Cases, numbers: Iterable[int]) -> None:
    """Write two lines a case: what we say, and then all. So a death in between is pyarrow's."""
    warnings.simplefilter("ignore")
    used = int(Path("/proc/self/statm").read_text().split()[0]) * resource.getpagesize()
    resource.setrlimit(resource.RLIMIT_AS, (used + ADDRESS_SPACE, resource.RLIM_INFINITY))
    for number in numbers:
        signal.alarm(MOST_SECONDS)
        origin, _, content = cases.case(number)
        ours = theirs = ours_refused = theirs_refused = unlike = None
        try:
            ours = read_ours(content, is_file=origin.is_file)
        except ArrowIpcError as error:
            ours_refused = _sentence(error)
        except Exception as error:  # noqa: BLE001 - the finding that this program looks for
            ours_refused = f"{NOT_OURS} {_sentence(error)}"
        print(json.dumps([number, ours_refused]), flush=True)
        try:
            theirs = _read_theirs(content, is_file=origin.is_file)
            schema_from_pyarrow(theirs[0])
        except Exception as error:  # noqa: BLE001 - pyarrow has many; each of them is a refusal
            theirs, theirs_refused = None, _sentence(error)
        if ours is not None and theirs is not None:
            unlike = difference(ours, theirs)
        print(json.dumps([number, ours_refused, theirs_refused, unlike]), flush=True)
    signal.alarm(0)


def _outcomes_of_one(cases: Cases, numbers: list[int]) -> Iterator[Outcome]:
    """Yield the outcomes of one worker after another, each beginning behind the case that ended its predecessor."""
    left = list(numbers)
    while left:
        command = [sys.executable, __file__, "--work", *cases.arguments]
        # No core dumps; and numpy's threads would cost more than they give.
        environment = os.environ | {"OPENBLAS_NUM_THREADS": "1", "OMP_NUM_THREADS": "1"}
        with subprocess.Popen(
            command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, env=environment
        ) as worker:
            writer = threading.Thread(target=_feed, args=(worker.stdin, json.dumps(left)))
            errors: list[str] = []
            drain = threading.Thread(target=lambda pipe=worker.stderr, lines=errors: lines.extend(pipe))
            writer.start()
            drain.start()
            begun, done = None, 0
            for line in worker.stdout:
                row = json.loads(line)
                if len(row) == 2:
                    begun = row
                    continue
                yield Outcome(*row)
                begun, done = None, done + 1
            status = worker.wait()
            writer.join()
            drain.join()
        left = left[done:]
        if status == 0:
            assert not left
        elif begun is None:
            said = "".join(errors).strip().splitlines()[-1:]
            yield Outcome(left.pop(0), f"{NOT_OURS} the worker ended with {status} in our reader: {said}", "not run")
        else:
            number, ours = begun
            left.pop(0)
            ending = signal.Signals(-status).name if status < 0 else str(status)
            yield Outcome(number, ours, f"{CRASH} {ending}: {''.join(errors).strip()[-200:]}")


def _feed(pipe, text: str) -> None:
    try:
        pipe.write(text)
        pipe.close()
    except BrokenPipeError:
        pass  # it ended before; its status says how


def outcomes(cases: Cases, numbers: Iterable[int]) -> list[Outcome]:
    """Return the outcomes of cases, from `WORKERS` processes at a time."""
    numbers = [int(number) for number in numbers]
    found: list[list[Outcome]] = [[] for _ in range(WORKERS)]
    threads = [
        threading.Thread(target=lambda own=own, part=part: own.extend(_outcomes_of_one(cases, part)))
        for own, part in zip(found, (numbers[i::WORKERS] for i in range(WORKERS)), strict=True)
    ]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    return [outcome for own in found for outcome in own]


def report(cases: Cases, found: Iterable[Outcome]) -> tuple[Counter, list[str]]:
    """Return how many cases each reason explains, and a line for each that none does."""
    counts: Counter[str] = Counter()
    unexplained = []
    for outcome in found:
        what = cases.case(outcome.number)[1]
        reason = classify(what, outcome.ours, outcome.theirs, outcome.difference)
        counts[reason] += 1
        if reason == UNEXPLAINED:
            unexplained.append(
                f"case {outcome.number}, {what}\n    ours: {outcome.ours}\n    pyarrow: {outcome.theirs}"
                f"\n    difference: {outcome.difference}"
            )
    return counts, unexplained


def main() -> int:
    """Run what the command line asks for; the exit status says whether all is explained."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--exhaustive", action="store_true", help="all cases, in a random order")
    parser.add_argument("--goldens", action="store_true", help="the goldens of the corpus instead of tests/data")
    parser.add_argument("--every-value", action="store_true", help="small files, each byte that a reader believes")
    parser.add_argument("--first", type=int, default=0, help="skip so many of the chosen cases")
    parser.add_argument("--limit", type=int, help="so many cases")
    parser.add_argument("--seed", type=int, default=SEED, help="another choice and order")
    parser.add_argument("--show", type=int, metavar="NUMBER", help="one case")
    parser.add_argument("--work", action="store_true", help=argparse.SUPPRESS)
    options = parser.parse_args()
    cases = cases_of_every_value() if options.every_value else cases_of(goldens=options.goldens)
    if options.work:
        work(cases, json.load(sys.stdin))
        return 0
    if options.show is not None:
        print(cases.case(options.show)[1], *outcomes(cases, [options.show]), sep="\n")
        return 0
    wanted = options.first + (options.limit or SAMPLED)
    numbers = cases.sample(len(cases) if options.exhaustive else wanted, options.seed)[options.first :][: options.limit]
    print(f"{len(cases):,} cases of {len(cases.origins)} files; {len(numbers):,} are run", flush=True)
    started, shown = time.perf_counter(), 0
    counts: Counter[str] = Counter()
    for start in range(0, len(numbers), SAMPLED):
        more, unexplained = report(cases, outcomes(cases, numbers[start : start + SAMPLED]))
        counts += more
        print(f"{sum(counts.values()):,} after {time.perf_counter() - started:.0f} s", flush=True)
        for lines in unexplained[: max(0, MOST_SHOWN - shown)]:
            print(lines, flush=True)
        shown += len(unexplained)
    print("\n".join(f"{count:>9,}  {reason}" for reason, count in counts.most_common()))
    return 1 if counts[UNEXPLAINED] else 0


if __name__ == "__main__":
    sys.exit(main())
