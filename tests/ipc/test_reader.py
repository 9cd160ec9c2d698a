"""Opening takes every kind of source, tells the formats apart, and keeps to its limits."""

import io
from pathlib import Path

import pytest
from reader_cases import ALL_ROWS, BODIES, CONTENTS, FILE, SCHEMA, Pipe, Recorder, read, saved

from spark_arrow_ipc import ipc
from spark_arrow_ipc.arrow import RecordBatch, Schema
from spark_arrow_ipc.arrow import types as t
from spark_arrow_ipc.errors import (
    InvalidFramingError,
    LimitError,
    UnsupportedError,
)

DATA = Path(__file__).parents[1] / "data"
SOURCES = [
    ("path", saved),
    ("a path as a string", lambda data, tmp_path: str(saved(data, tmp_path))),
    ("bytes", lambda data, _: data),
    ("memoryview", lambda data, _: memoryview(data)),
    ("bytearray", lambda data, _: bytearray(data)),
    ("BytesIO", lambda data, _: io.BytesIO(data)),
    ("a file object", lambda data, tmp_path: io.FileIO(saved(data, tmp_path))),
    ("a pipe", lambda data, _: Pipe(data)),
]


@pytest.mark.parametrize("make", [case[1] for case in SOURCES], ids=[case[0] for case in SOURCES])
@pytest.mark.parametrize("kind", CONTENTS)
def test_every_source_gives_the_same_rows(tmp_path, kind, make):
    source = make(CONTENTS[kind], tmp_path)
    if kind == "file" and isinstance(source, Pipe):
        with pytest.raises(UnsupportedError, match="needs a source that can seek"):
            ipc.open(source)
        return
    with ipc.open(source) as reader:
        assert kind == reader.format
        assert SCHEMA == reader.schema
        assert ALL_ROWS == [batch.to_pylist() for batch in reader]
    if isinstance(source, io.IOBase):
        assert not source.closed  # the caller's
        source.close()


@pytest.mark.parametrize(("opener", "other"), [(ipc.open_file, "stream"), (ipc.open_stream, "file")], ids=["file", "stream"])  # fmt: skip
def test_a_demanded_format_is_demanded(opener, other):
    with pytest.raises(InvalidFramingError, match=f"found the {other} format"):
        opener(CONTENTS[other])
    ((mine, data),) = CONTENTS.items() - {(other, CONTENTS[other])}
    assert mine == opener(data).format


def test_a_schema_is_read_from_the_footer_or_the_first_message_alone():
    for kind, data in CONTENTS.items():
        file = Recorder(data)
        assert SCHEMA == ipc.read_schema(file)
        assert sum(nbytes for _, nbytes in file.reads) < 2000, kind


def test_an_os_error_stays_one():
    class Failing(io.BytesIO):
        def read(self, nbytes=-1):
            if self.tell() > 8 and nbytes > 1000:
                raise OSError(5, "Input/output error")
            return super().read(nbytes)

    with ipc.open_file(Failing(FILE)) as reader, pytest.raises(OSError, match="Input/output error"):
        reader.read_batch(0)


LIMITS = [
    ("a batch", {"max_batch_bytes": 10_000}, "max_batch_bytes"),
    ("metadata", {"max_metadata_bytes": 100}, "max_metadata_bytes"),
    ("columns", {"max_columns": 7}, "max_columns"),
    ("depth", {"max_depth": 1}, "max_depth"),
]


@pytest.mark.parametrize(("limits", "name"), [case[1:] for case in LIMITS], ids=[case[0] for case in LIMITS])
@pytest.mark.parametrize("kind", CONTENTS)
def test_a_budget_is_named_where_it_is_exceeded(kind, limits, name):
    with pytest.raises(LimitError, match=name):
        read(CONTENTS[kind], limits=ipc.Limits(**limits))


@pytest.mark.parametrize("kind", CONTENTS)
def test_budgets_that_are_just_enough_are_enough(kind):
    most = max(block.body_nbytes for (block,) in BODIES)
    assert ALL_ROWS == read(CONTENTS[kind], limits=ipc.Limits(max_batch_bytes=most, max_columns=8, max_depth=4))
    with pytest.raises(LimitError):
        read(CONTENTS[kind], limits=ipc.Limits(max_batch_bytes=most - 1))


@pytest.mark.slow
def test_decompressed_bytes_count_too():
    zeros = RecordBatch.from_pydict({"a": [0] * 50_000}, Schema.of([t.field("a", t.int64)]))
    for codec in ("lz4", "zstd"):
        sink = io.BytesIO()
        ipc.write(sink, [zeros], options=ipc.WriteOptions(compression=codec))
        assert len(sink.getvalue()) < 10_000
        assert 50_000 == len(read(sink.getvalue(), limits=ipc.Limits(max_batch_bytes=400_000))[0])
        with pytest.raises(LimitError, match=r"field a.*max_batch_bytes"):
            read(sink.getvalue(), limits=ipc.Limits(max_batch_bytes=399_999))


@pytest.mark.parametrize("codec", [None, "lz4", "zstd"])
@pytest.mark.parametrize("kind", ["file", "stream"])
def test_all_dictionaries_have_one_budget(kind, codec):
    """70 KB of them took 1.7 GB with a limit of 64 MiB: each was within the budget of a batch."""
    columns = [[f"{i}" + "x" * 9_999] for i in range(10)]
    schema = Schema.of([t.field(f"f{i}", t.dictionary(t.int8, t.utf8)) for i in range(10)])
    sink = io.BytesIO()
    batch = RecordBatch.from_pydict({f"f{i}": values for i, values in enumerate(columns)}, schema)
    ipc.write(sink, [batch], options=ipc.WriteOptions(format=kind, compression=codec))
    enough = ipc.Limits(max_batch_bytes=30_000, max_dictionary_bytes=110_000)
    assert batch.to_pylist() == read(sink.getvalue(), limits=enough)[0]
    few = ipc.Limits(max_batch_bytes=30_000, max_dictionary_bytes=50_000)
    with pytest.raises(
        LimitError, match=r"dictionary batch [45]: the sum of all dictionaries .* max_dictionary_bytes is 50,000"
    ):
        read(sink.getvalue(), limits=few)
    with ipc.open(sink.getvalue(), limits=few, columns=[0, 1]) as reader:
        assert 1 == len(list(reader))


@pytest.mark.parametrize("name", ["integers.v4.legacy.arrows", "integers.legacy.arrow", "integers.v4.arrows", "integers.lz4.arrows"])  # fmt: skip
def test_old_framing_and_versions_read_as_the_new(name):
    assert read(DATA / "integers.arrow") == read(DATA / name)
