"""Spark against the truth about other people's files: golden JSON, or what pyarrow reads.

In the ordinary run the goldens of the newest release, those of the first that Spark cannot hold, and one file of each
other producer; every file that the manifest calls sound, which the codec's own tests read in every run, with

    ARROW_IPC_CORPUS_EVERY=1 python -m pytest -q tests/spark/read/test_read_corpus.py
"""

import datetime as dt
import os
import re
import uuid
from collections import defaultdict
from functools import partial

import corpus
import numpy as np
import pytest
from pyspark.errors import PySparkException

if corpus.root() is None:
    pytest.skip(f"{corpus.VARIABLE} is not set", allow_module_level=True)

import integration_json
import pyarrow_contents

from spark_arrow_ipc.arrow import types as t

NEWEST, FIRST = "integration/cpp-21.0.0/", "integration/1.0.0-littleendian/"
MOST_NBYTES = 32 << 10
"""Of each producer the largest file up to this size, so that there are values and pyarrow's way is short."""

EVERY = os.environ.get("ARROW_IPC_CORPUS_EVERY") == "1"

EPOCH = dt.datetime(1970, 1, 1)


def files():
    """Return the entries that are compared, by name."""
    entries = [e for e in corpus.entries(corpus.root()) if e.expect == "ok" and e.format in ("file", "stream")]
    if EVERY:
        return {entry.name: entry for entry in entries}
    goldens = sorted(
        (e for e in entries if NEWEST in e.name or (FIRST in e.name and refusal(e.name))), key=lambda e: e.name
    )
    cases = sorted({e.name.rsplit(".", 1)[0] for e in goldens})
    # The two formats of a golden hold the same: they take turns.
    turn = {case: ("file", "stream")[number % 2] for number, case in enumerate(cases)}
    chosen = [e for e in goldens if e.format == turn[e.name.rsplit(".", 1)[0]]]
    by_producer = defaultdict(list)
    for entry in entries:
        if not entry.name.startswith("arrow-testing/"):
            directories = entry.name.split("/")[:-1]
            by_producer[tuple(directories[: 3 if directories[0] == "generated" else 2])].append(entry)
    for made in by_producer.values():
        small = [(e.path.stat().st_size, e.name, e) for e in made if e.path.stat().st_size <= MOST_NBYTES]
        chosen += [entry for *_, entry in sorted(small)[-1:]]
    return {entry.name: entry for entry in chosen}


# (Regular expression of the name: error, words.) What Spark cannot hold, with the default options.
REFUSED = {
    # Decimals that the goldens' writer let go beyond their own precision.
    r"/(0\.\d+\.\d|1\.0\.0-\w+)/generated_decimal\.": ("InvalidBodyError", ["field f0", "digits"]),
    r"/1\.0\.0-\w+/generated_decimal256\.": ("InvalidBodyError", ["field f0", "at most 37 digits"]),
    # Seconds beyond the microseconds of 64 bits.
    r"1\.0\.0-\w+/generated_interval\.": ("UnsupportedError", ["field f1", "64 bits of microseconds"]),
    r"generated_duration\.": ("UnsupportedError", ["field f1", "64 bits of microseconds"]),
    r"pyarrow-26-special/all_types_(?!empty)": ("UnsupportedError", ["field durs", "64 bits of microseconds"]),
}


def refusal(name):
    """Return the error and words that are listed for a file, or None."""
    return next((case for pattern, case in REFUSED.items() if re.search(pattern, name)), None)


FILES = files()


def has_twins(type_):
    """Return whether two fields of one level have one name, which Spark cannot carry."""
    names = [field.name for field in type_.children]
    twins = isinstance(type_, t.Struct) and len(set(names)) < len(names)
    return twins or any(has_twins(field.type) for field in type_.children)


def contents(entry):
    """Return schema and batches by the golden JSON, or as pyarrow reads them."""
    golden = corpus.golden_json(entry)
    if golden is None:
        path = entry.path
        for pattern, name in corpus.SAME_CONTENTS:
            path = path.with_name(pattern.sub(name, path.name))
        return pyarrow_contents.read(path)
    document = integration_json.read(golden)
    return document.schema, document.batches


def values(array, extension=None):
    """Return the values of an array as Spark should give them."""
    if extension == "arrow.uuid":
        return [None if value is None else str(uuid.UUID(bytes=value)) for value in array.to_pylist()]
    union = isinstance(array.type, t.SparseUnion | t.DenseUnion)
    return union_values(array) if union else [value_of(array.type, value) for value in array.to_pylist()]


def union_values(array):
    ids = np.frombuffer(array.buffers[0], np.int8, array.length)
    dense = isinstance(array.type, t.DenseUnion)
    slots = np.frombuffer(array.buffers[1], np.int32, array.length) if dense else range(array.length)
    children = [values(child) for child in array.children]
    names = [field.name for field in array.type.fields]
    chosen = [array.type.type_ids.index(id_) for id_ in ids]
    return [
        {name: children[i][slot] if i == wanted else None for i, name in enumerate(names)}
        for wanted, slot in zip(chosen, slots, strict=True)
    ]


def value_of(type_, value):
    return None if value is None else VALUES.get(type(type_), lambda _, same: same)(type_, value)


def field_value(field, value):
    if field.extension_name == "arrow.uuid" and value is not None:
        return str(uuid.UUID(bytes=value))
    return value_of(field.type, value)


def span(type_, value):
    """Return an interval; a count where Python's value would be beyond its range or its microseconds."""
    if isinstance(value, dt.time):
        return dt.datetime.combine(EPOCH, value) - EPOCH
    return dt.timedelta(microseconds=value * 10**6 // type_.unit.per_second) if isinstance(value, int) else value


def timestamp(type_, value):
    if not isinstance(value, int):
        return value if value.tzinfo is None else value.astimezone(dt.UTC)
    made = EPOCH + span(type_, value)
    return made if type_.timezone is None else made.replace(tzinfo=dt.UTC)


def items(type_, value):
    return [value_of(type_.children[0].type, v) for v in value]


def pairs(type_, value):
    return [(value_of(type_.key.type, k), value_of(type_.item.type, v)) for k, v in value]


VALUES = {
    t.Decimal: lambda type_, value: f"{value:f}" if type_.precision > 38 else value,
    t.Time: span,
    t.Timestamp: timestamp,
    t.Duration: span,
    t.IntervalDayTime: lambda _, value: dict(zip(("days", "milliseconds"), value, strict=True)),
    t.IntervalMonthDayNano: lambda _, value: dict(zip(("months", "days", "nanoseconds"), value, strict=True)),
    t.List: items,
    t.LargeList: items,
    t.ListView: items,
    t.LargeListView: items,
    t.FixedSizeList: items,
    t.Struct: lambda type_, value: {f.name: field_value(f, value[f.name]) for f in type_.fields},
    t.Map: pairs,
    t.Dictionary: lambda type_, value: value_of(type_.value, value),
    t.RunEndEncoded: lambda type_, value: value_of(type_.values.type, value),
}


@pytest.fixture(scope="module")
def utc(spark):
    """The session in the zone in which instants are compared."""
    before = spark.conf.get("spark.sql.session.timeZone")
    spark.conf.set("spark.sql.session.timeZone", "UTC")
    yield spark
    spark.conf.set("spark.sql.session.timeZone", before)


@pytest.mark.one_in(2, "exhaustive")
@pytest.mark.parametrize("name", FILES)
def test_spark_reads_what_the_file_holds(utc, name):
    """Every column of every row, in order; or the error that is listed."""
    entry = FILES[name]
    frame_of = partial(utc.read.format("arrowipc").load, str(entry.path))
    schema, batches = contents(entry)
    twins = has_twins(t.Struct(schema.fields))
    refused = ("SchemaMismatchError", ["the same name, which Spark cannot carry"]) if twins else refusal(name)
    if refused is not None:
        error, words = refused
        with pytest.raises(PySparkException) as caught:
            frame_of().collect()
        message = str(caught.value)
        assert [word for word in (f"{error}: {entry.path}", *words) if word not in message] == [], message
        return
    frame = frame_of()
    assert frame.columns == list(schema.names)
    if not frame.columns:  # a table of pyarrow without columns has lost its rows
        assert frame.count() == sum(batch.num_rows for batch in batches)
        return
    found = frame.toArrow()
    for i, field in enumerate(schema.fields):
        expected = [value for batch in batches for value in values(batch.columns[i], field.extension_name)]
        assert comparable(found.column(i).to_pylist()) == comparable(expected), field.name


def comparable(value):
    """Return a value in which NaN equals NaN."""
    if isinstance(value, list | tuple):
        return [comparable(v) for v in value]
    if isinstance(value, dict):
        return {k: comparable(v) for k, v in value.items()}
    return "NaN" if isinstance(value, float) and value != value else value


def test_what_is_refused_is_in_the_corpus():
    """A name that matches nothing would list an error that never occurs."""
    names = [entry.name for entry in corpus.entries(corpus.root()) if entry.expect == "ok"]
    assert [pattern for pattern in REFUSED if not any(re.search(pattern, name) for name in names)] == []
