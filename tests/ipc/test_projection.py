"""Only the selected columns are read, in the order of the selection."""

import io

import pytest
from reader_cases import (
    ALL_ROWS,
    FILE,
    ROWS,
    SCHEMA,
    STREAM,
    WIDE_ROWS,
    Pipe,
    Recorder,
    read,
    saved,
    wide,
    written,
)

from spark_arrow_ipc import ipc
from spark_arrow_ipc.arrow import RecordBatch, Schema
from spark_arrow_ipc.arrow import types as t
from spark_arrow_ipc.errors import (
    ColumnNotFoundError,
)


def project(row, columns):
    found = {}
    for column in columns:
        path = column if isinstance(column, tuple) else (column,)
        name = SCHEMA.names[path[0]] if isinstance(path[0], int) else path[0]
        value = row[name]
        if len(path) > 1:
            value = None if value is None else {**(found.get(name) or {}), path[1]: value[path[1]]}
            if value is not None:
                value = {key: value[key] for key in "xyz" if key in value}  # the fields of a struct keep their order
        found[name] = value
    return found


COLUMNS = [
    ("a name", ["s"]),
    ("a position", [2]),
    ("another order", ["d", "a"]),
    ("another order with a struct between", ["d", "p", "s"]),
    ("a path", [("p", "y")]),
    ("two paths of one struct", [("p", "z"), "a", ("p", "x")]),
    ("nothing", []),
]


@pytest.mark.parametrize("columns", [case[1] for case in COLUMNS], ids=[case[0] for case in COLUMNS])
@pytest.mark.parametrize("source", [lambda: FILE, lambda: STREAM, lambda: Pipe(STREAM), lambda: written(compression="zstd")], ids=["file", "stream", "pipe", "compressed"])  # fmt: skip
def test_columns_come_in_the_order_that_was_asked_for(source, columns):
    expected = [[project(row, columns) for row in rows_] for rows_ in ALL_ROWS]
    with ipc.open(source(), columns=columns) as reader:
        batches = list(reader)
        names = [list(row) for row in (batch.to_pylist()[0] for batch in batches)]
        assert [list(reader.schema.names)] * 3 == names == [list(expected[0][0])] * 3
        assert expected == [batch.to_pylist() for batch in batches]
        assert [ROWS] * 3 == [batch.num_rows for batch in batches]


def test_columns_may_depend_on_the_schema():
    """So a caller need not open the file twice."""
    found = read(FILE, columns=lambda schema: [f.name for f in schema.fields if isinstance(f.type, t.Utf8)])
    assert [[{"s": row["s"]} for row in rows_] for rows_ in ALL_ROWS] == found


def test_a_column_that_does_not_exist_names_the_file(tmp_path):
    path = saved(FILE, tmp_path)
    with pytest.raises(ColumnNotFoundError, match="there is no column 'b'") as caught:
        ipc.open(path, columns=["b"])
    assert str(path) == caught.value.path


UNREAD = [
    ("first", ["a"], 1),
    ("last and first", ["c", "a"], 2),
    ("field of a struct", [("s", "x")], 1),
    ("nothing", [], 0),
]


@pytest.mark.parametrize(("columns", "count"), [case[1:] for case in UNREAD], ids=[case[0] for case in UNREAD])
@pytest.mark.parametrize("kind", ["file", "stream"])
def test_buffers_of_other_columns_are_not_read(kind, columns, count):
    file = Recorder(wide(kind))
    with ipc.open(file, columns=columns) as reader:
        assert [WIDE_ROWS] * 2 == [batch.num_rows for batch in reader]
    column_nbytes = 8 * WIDE_ROWS
    read_nbytes = sum(nbytes for _, nbytes in file.reads)
    assert 2 * count * column_nbytes <= read_nbytes < 2 * count * column_nbytes + 10_000
    large = [nbytes for _, nbytes in file.reads if nbytes >= column_nbytes]
    assert [column_nbytes] * (2 * count) == large


def test_dictionaries_of_other_columns_are_not_read():
    words = [f"a text that takes {i} bytes" for i in range(20_000)]
    schema = Schema.of([t.field("a", t.int64), t.field("d", t.dictionary(t.int32, t.utf8))])
    batch = RecordBatch.from_pydict({"a": range(20_000), "d": words}, schema)
    for kind in ("file", "stream"):
        sink = io.BytesIO()
        ipc.write(sink, [batch], options=ipc.WriteOptions(format=kind))
        file = Recorder(sink.getvalue())
        assert [20_000] == [len(batch_) for batch_ in read(file, columns=["a"])]
        assert sum(nbytes for _, nbytes in file.reads) < 170_000, kind
