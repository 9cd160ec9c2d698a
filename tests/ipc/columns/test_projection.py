"""Only the selected columns are read, in the order of the selection."""

import io

import pytest
import raw_messages as raw
from reader_cases import ALL_ROWS, FILE, ROWS, SCHEMA, STREAM, WIDE_ROWS, Pipe, Recorder, read, saved, wide, written

from spark_arrow_ipc import ipc
from spark_arrow_ipc.arrow import RecordBatch, Schema
from spark_arrow_ipc.arrow import types as t
from spark_arrow_ipc.errors import ColumnNotFoundError, InvalidMetadataError
from spark_arrow_ipc.ipc.columns import projection
from spark_arrow_ipc.ipc.columns.plan import compile_plan
from spark_arrow_ipc.ipc.flatbuf import tables
from spark_arrow_ipc.ipc.messages import footer


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


@pytest.mark.slow
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


# Types of fixed width with a table that the format lacks: the data are those of a float64.
UNKNOWN = {
    "int128": ((tables.INT, {"bitWidth": 128, "is_signed": True}), r"int128 .* polars .* cast\("),
    "uint128": ((tables.INT, {"bitWidth": 128}), r"uint128 .* polars .* cast\("),
    "a width": ((tables.INT, {"bitWidth": 2**31 - 1}), "expected an integer bit width .*, found 2147483647; .* columns"),
    "a precision": ((tables.FLOATING_POINT, {"precision": 9}), "9 is not a valid Precision; .* columns"),
    "digits": ((tables.DECIMAL, {"bitWidth": 128, "precision": 99}), "expected a decimal precision .*found 99; .* columns"),
    "an interval": ((tables.INTERVAL, {"unit": 3}), "expected an interval unit of 0 to 2, found 3; .* columns"),
    "fewer than no bytes": ((tables.FIXED_SIZE_BINARY, {"byteWidth": -1}), "expected a byte width .*, found -1; .* columns"),
}  # fmt: skip


@pytest.mark.parametrize("case", UNKNOWN)
def test_other_columns_are_read_beside_one_of_an_unknown_type(case):
    type_, says = UNKNOWN[case]
    fields = [t.field("a", t.utf8_view), t.field("b", t.struct([t.field("x", t.float64)])), t.field("c", t.utf8)]
    row = {"a": "longer than a view", "b": {"x": 1.5}, "c": "z"}
    values = raw.schema_values(fields)
    values["fields"][1]["children"][0]["type"] = type_
    header = {"header": (tables.SCHEMA, values)}
    batch = RecordBatch.from_pylist([row], Schema(tuple(fields)))
    ipc.write(stream := io.BytesIO(), batch, options=ipc.WriteOptions(format="stream"))
    with ipc.open(stream.getvalue()) as reader:
        messages_after = stream.getvalue()[reader.index().batches[0].block.byte_offset :]
    data = raw.message(header) + messages_after
    with ipc.open(data, columns=["c", "a"]) as reader:
        assert [{"c": "z", "a": "longer than a view"}] == [row for batch in reader for row in batch.to_pylist()]
    for columns in (None, ["a", "b"], [("b", "x")], lambda schema: schema.names):
        with pytest.raises(InvalidMetadataError, match=rf"^field b\.x: {says}"):
            ipc.open(data, columns=columns)


OF_POLARS = {
    "alone": lambda pl, big: big,
    "in lists": lambda pl, big: big.implode().gather([0, 0, 0]),
    "in structs": lambda pl, big: pl.DataFrame({"x": big}).to_struct(),
    "in arrays": lambda pl, big: big.reshape((3, 1)),
}


@pytest.mark.parametrize("compression", ["uncompressed", "zstd"])
@pytest.mark.parametrize("way", ["write_ipc", "write_ipc_stream"])
@pytest.mark.parametrize("case", OF_POLARS)
def test_other_columns_are_read_beside_an_int128_of_polars(case, way, compression):
    pl = pytest.importorskip("polars")
    big = OF_POLARS[case](pl, pl.Series([2**100, None, -1], dtype=pl.Int128))
    frame = pl.DataFrame({"id": [1, 2, 3], "big": big, "s": ["a", None, "longer than a view"], "l": [[1], [], [2, 3]]})
    data = io.BytesIO()
    getattr(frame, way)(data, compression=compression)
    others = ["l", "id", "s"]
    with ipc.open(data.getvalue(), columns=others) as reader:
        assert frame.select(others).to_dicts() == [row for batch in reader for row in batch.to_pylist()]
    with pytest.raises(InvalidMetadataError, match=r"^field big.*: int128 .* polars .* cast\("):
        ipc.open(data.getvalue())


def test_plans_of_a_selection_are_kept_with_the_schema(monkeypatch):
    """The files of a dataset share a schema: compiling 5 of 1,000 columns took two thirds of the time of reading them."""
    compiled = []

    def counting(*args):
        compiled.append(args[3])
        return compile_plan(*args)

    monkeypatch.setattr(projection, "compile_plan", counting)
    monkeypatch.setattr(footer, "_CACHE", {})
    expected = read(FILE, columns=["d", ("p", "y")])
    assert expected == read(written(compression="zstd"), columns=["d", ("p", "y")])
    assert len(compiled) == 1
    others = [["d"], [("p", "x")], [], ["a"], ["s"], [("p", "y"), "d"]]
    for columns in others:
        read(FILE, columns=columns)
    assert expected == read(FILE, columns=["d", ("p", "y")])
    assert len(compiled) == 2 + len(others), "few selections are kept"
