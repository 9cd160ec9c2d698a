"""No repr or str shows a name, zone, note or path of a file with characters that a terminal obeys."""

import importlib
import inspect
import pkgutil
import re

import pytest

import spark_arrow_ipc
from spark_arrow_ipc import ipc
from spark_arrow_ipc.arrow import types as t
from spark_arrow_ipc.arrow.record_batch import RecordBatch
from spark_arrow_ipc.arrow.schema import Schema
from spark_arrow_ipc.arrow.types import Field
from spark_arrow_ipc.dataset.predicate.bound import BoundColumn
from spark_arrow_ipc.dataset.predicate.parser import parse
from spark_arrow_ipc.storage.base import RemoteStorage

HOSTILE = "n\x1b[31m\x07\u202e\u2066\r\n\x9b"


def types():
    """A type of each class, with hostile names in it wherever names are."""
    leaf = Field(HOSTILE, t.int32, custom_metadata=((HOSTILE, HOSTILE),))
    entries = Field(HOSTILE, t.Struct((Field(HOSTILE, t.int32, nullable=False), leaf)), nullable=False)
    yield from (t.List(leaf), t.LargeList(leaf), t.ListView(leaf), t.LargeListView(leaf), t.FixedSizeList(leaf, 2))
    yield from (t.Struct((leaf, leaf)), t.Map(entries), t.SparseUnion((leaf,), (0,)), t.DenseUnion((leaf,), (0,)))
    yield from (t.RunEndEncoded(Field(HOSTILE, t.int32, nullable=False), leaf), t.Dictionary(t.int8, t.Struct((leaf,))))
    yield t.Timestamp(t.TimeUnit.SECOND, HOSTILE)


def predicates():
    """A predicate of each kind, whose names and literals are hostile."""
    name, literal = f"`{HOSTILE}`", f"'{HOSTILE}'"
    for sql in (
        name,
        f"{name}.{name} = {literal}",
        f"{name} IN ({literal}, 'b')",
        f"{name} LIKE {literal}",
        f"{name} IS NULL",
        f"NOT (upper({name}) < {literal} OR {name} > cast({literal} AS string))",
    ):
        yield parse(sql)
    yield BoundColumn((HOSTILE,), t.utf8, "UPPER")


def values(tmp_path):
    """Values of all kinds that a person may print."""
    for type_ in types():
        field = Field(HOSTILE, type_, custom_metadata=((HOSTILE, HOSTILE),))
        schema = Schema((field,), ((HOSTILE, HOSTILE),))
        yield from (type_, field, schema)
    yield from predicates()
    yield RemoteStorage(((HOSTILE, HOSTILE),))
    schema = Schema((Field(HOSTILE, t.int32),), ((HOSTILE, HOSTILE),))
    yield RecordBatch.from_pydict({HOSTILE: [1, 2]}, schema)
    path = tmp_path / f"{HOSTILE}.arrow"
    import pyarrow as pa

    table = pa.table({HOSTILE: [1, 2], "t": pa.array([0, 1], pa.timestamp("s", "UTC\x1b[31m"))})
    for suffix, make in (("file", pa.ipc.new_file), ("stream", pa.ipc.new_stream)):
        name = path.with_suffix(f".{suffix}")
        with make(name, table.schema) as writer:
            writer.write_table(table)
        with ipc.open(name) as reader:
            yield reader
            for each in reader:
                yield from (each, each.schema, *each.columns)


def test_what_a_person_prints_has_nothing_that_a_terminal_obeys(tmp_path):
    seen = set()
    for value in values(tmp_path):
        for text in (str(value), repr(value), f"{value}"):
            assert [] == [c for c in text if not c.isprintable() and c != "\n"]
            assert "\r" not in text
        seen.add(type(value))
    assert len(seen) > 20


def with_texts():
    """The classes of the package that write their own str or repr."""
    for module in pkgutil.walk_packages(spark_arrow_ipc.__path__, "spark_arrow_ipc."):
        if "__main__" in module.name:
            continue
        for cls in vars(importlib.import_module(module.name)).values():
            if inspect.isclass(cls) and cls.__module__ == module.name and {"__str__", "__repr__"} & set(vars(cls)):
                yield cls


SHOWS = re.compile(
    r"""\{self\.(name|path|timezone|sql)\b|return self\.(name|path|sql)$|(return |= |, )["'][., ]*["']\.join\((self\.path|name for)""",
    re.MULTILINE,
)
"""A name, or text of a person's, that is shown without `printable` or a repr."""


def test_every_class_that_shows_a_name_escapes_it():
    """Read from the source, so that a class which nothing above makes is looked at, too."""
    raw = []
    for cls in with_texts():
        for name in ("__str__", "__repr__"):
            method = vars(cls).get(name)
            if (
                inspect.isfunction(method)
                and method.__code__.co_filename.endswith(".py")
                and not hasattr(method, "__wrapped__")
            ):
                source = inspect.getsource(method)
                raw += [f"{cls.__name__}.{name}: {found[0]}" for found in SHOWS.finditer(source)]
    assert [] == raw


@pytest.mark.parametrize("name", ["a", "ä", "日本", "a b", "`"])
def test_other_names_stay(name):
    assert f"{name}: int32" == str(Field(name, t.int32))
