"""What a rewrite with ``restoreTypes`` and a compaction write is what was in the files, or they are an error."""

import json
import random

import arrow_files
import exact_cases
import pandas as pd
import pyarrow as pa
import pyarrow.compute as pc
import pytest
from rewrite_jobs import Tasks

from spark_arrow_ipc import compact, rewrite
from spark_arrow_ipc.arrow import types as t
from spark_arrow_ipc.arrow.schema import Schema
from spark_arrow_ipc.errors import InvalidArrowError, OptionError, SchemaMismatchError, UnsupportedError
from spark_arrow_ipc.spark.rewrite.rewrite import check_types

DAY = 86_400_000


def counts(type_, *values):
    return pa.array(values, pa.int64()).view(type_)


VARIANT = pa.struct(
    [pa.field("metadata", pa.binary(), nullable=False), ("value", pa.binary()), ("typed_value", pa.int64())]
)
SHREDDED = pa.array([{"metadata": b"\x01\0\0", "value": None, "typed_value": 7}] * 2, VARIANT)
WHOLE_VARIANT = pa.array([{"metadata": b"\x01\0\0", "value": b"\x0c\x01"}] * 2)
TENSOR = pa.ExtensionArray.from_storage(
    pa.fixed_shape_tensor(pa.int32(), [2, 3], dim_names=["a", "b"], permutation=[1, 0]),
    pa.array([[1, 2, 3, 4, 5, 6], None], pa.list_(pa.int32(), 6)),
)
TENSORS = pa.StructArray.from_arrays(
    [pa.array([[1, 2], []], pa.list_(pa.int32())), pa.array([[1, 2], [0, 0]], pa.list_(pa.int32(), 2))],
    ["data", "shape"],
)


def extended(array, name, *text):
    return array, dict(zip(("ARROW:extension:name", "ARROW:extension:metadata"), (name, *text), strict=False))


OFFSETS = extended(
    pa.StructArray.from_arrays(
        [counts(pa.timestamp("ns", "UTC"), 1, -1), pa.array([60, -570], pa.int16()).dictionary_encode()],
        ["timestamp", "offset_minutes"],
    ),
    "arrow.timestamp_with_offset",
    "",
)
NAMED = {"ARROW:extension:name": "arrow.parquet.variant", "ARROW:extension:metadata": ""}
ORDERED = pa.DictionaryArray.from_arrays(pa.array([1, 0], pa.int8()), ["low", "high"], ordered=True)
UNION = pa.UnionArray.from_sparse(pa.array([0, 1], pa.int8()), [pa.array([1, 2]), pa.array(["a", "b"])])
SORTED = pa.array([[("a", 1)], []], pa.map_(pa.string(), pa.int64(), keys_sorted=True))
BOOL8 = pa.ExtensionArray.from_storage(pa.bool8(), pa.array([5, 0], pa.int8()))

BOOL8_OF_1 = pa.ExtensionArray.from_storage(pa.bool8(), pa.array([1, 0], pa.int8()))
BOOL8_BELOW = pa.StructArray.from_arrays([BOOL8], ["b"])
BOOL8_SEEN = "field at: expected 0 or 1 in an arrow.bool8, found 5, .* extensionTypes=storage"

AT = {"where": "at > TIMESTAMP '1970-01-01 00:00:00Z'"}
NS = counts(pa.timestamp("ns", "UTC"), 1, 1_709_240_400_123_456_789)
WHOLE = counts(pa.timestamp("ns", "UTC"), 1000, 1_709_240_400_123_456_000)
SAME = None
CASES = [
    # a column, the options, and what an error says
    ("nanoseconds of an instant", NS, {}, SAME),
    ("nanoseconds of a duration", counts(pa.duration("ns"), 1, -1), {}, SAME),
    ("nanoseconds of a time", counts(pa.time64("ns"), 1, 999), {}, SAME),
    ("nanoseconds in a list", pa.ListArray.from_arrays([0, 1, 2], NS), {}, SAME),
    ("where of another column", NS, {"where": "id >= 0"}, SAME),
    ("counts that where sees", NS, {"where": "at > 0", "nanoseconds": "long"}, SAME),
    ("where of whole microseconds", WHOLE, AT, SAME),
    ("where of nanoseconds", NS, AT, "field at: expected whole microseconds .nanoseconds=error., found 1 ns; read it with nanoseconds=long, or leave"),
    ("partitions of nanoseconds", NS, {"partitionBy": ["at"]}, "field at: expected whole microseconds"),
    ("rounded nanoseconds", NS, {"nanoseconds": "floor"}, "nanoseconds=floor drops .* restoreTypes=true writes"),
    ("whole days", counts(pa.date64(), DAY, -DAY), {}, SAME),
    ("a time of day in a date", counts(pa.date64(), DAY, DAY + 1), {}, "field at: expected whole days .*, found 86400001 ms, .*; rewrite with nanoseconds=floor and without restoreTypes drops it"),
    ("a bool8 of 5", BOOL8, {}, SAME),
    ("a bool8 of 5 that is seen", BOOL8, {"where": "at"}, BOOL8_SEEN),
    ("a bool8 of 5 that is converted", BOOL8, {"extensionTypes": "all"}, BOOL8_SEEN),
    ("a bool8 of 1 that is seen", BOOL8_OF_1, {"where": "at OR NOT at"}, SAME),
    ("a bool8 of 5 below", BOOL8_BELOW, {"extensionTypes": "convert"}, r"field at(\.|\[\]\.)?b: expected 0 or 1 .*found 5"),
    ("an offset", OFFSETS, {}, SAME),
    ("an offset that is seen", OFFSETS, {"where": "at.offset_minutes != 7", "nanoseconds": "long"}, SAME),
    ("a converted offset", OFFSETS, {"extensionTypes": "convert"}, SAME),
    ("an offset that nobody drops", OFFSETS, {"timestampsWithOffset": "timestamp"}, SAME),
    ("an offset that is dropped", OFFSETS, {"timestampsWithOffset": "timestamp", "extensionTypes": "convert"}, "field at: .*would become struct"),
    ("an offset in a string", OFFSETS, {"timestampsWithOffset": "string", "extensionTypes": "convert"}, "field at: .*would become struct"),
    ("a union", UNION, {}, "field at: .*would become .*union"),
    ("an ordered dictionary", ORDERED, {}, "field at: .*would become dictionary"),
    ("a sorted map", SORTED, {}, "field at: .*would become map"),
    ("a shredded variant", (SHREDDED, NAMED), {}, SAME),
    ("a variant without metadata", extended(WHOLE_VARIANT, "arrow.parquet.variant"), {"extensionTypes": "all"}, SAME),
    ("a variant with metadata", extended(WHOLE_VARIANT, "arrow.parquet.variant", "x"), {"extensionTypes": "all"}, SAME),
    ("the older name of a variant", extended(WHOLE_VARIANT, "parquet.variant", ""), {"extensionTypes": "all"}, SAME),
    ("a tensor with a permutation", TENSOR, {}, SAME),
    ("a tensor in the order of its permutation", TENSOR, {"extensionTypes": "tensor"}, "field at: .*extensionTypes=tensor applies permutations"),
    *(
        (f"metadata of tensors, {text}", extended(TENSORS, "arrow.variable_shape_tensor", text), {"extensionTypes": how}, SAME)
        for text in ('{"more": 1, "dim_names": ["a", "b"]}', '{"permutation": [0, 1]}', '{ "uniform_shape": [null, null]}')
        for how in ("tensor", "convert")
    ),
    ("a variant that is converted", (SHREDDED, NAMED), {"extensionTypes": "convert"}, "field at: .*would become struct"),
]  # fmt: skip


def lake(root, column, *, schema_metadata=None):
    array, metadata = column if isinstance(column, tuple) else (column, None)
    fields = [pa.field("id", pa.int64()), pa.field("at", array.type, metadata=metadata)]
    for name in "ab":
        table = pa.Table.from_arrays([pa.array([0, 1]), array], schema=pa.schema(fields, schema_metadata))
        arrow_files.write(root / f"{name}.arrow", table)
    return exact_cases.contents(exact_cases.tables_below(root)), exact_cases.files_below(root)


@pytest.mark.one_in(4, "exhaustive")
@pytest.mark.parametrize(("column", "options", "words"), [case[1:] for case in CASES], ids=[case[0] for case in CASES])
def test_in_place_the_files_are_the_same_or_refused(tmp_path, column, options, words):
    before, files = lake(tmp_path, column, schema_metadata={"owner": "me"})
    if words is SAME:
        rewrite(Tasks(), tmp_path, tmp_path, mode="overwrite", restoreTypes=True, **options)
        assert before == exact_cases.contents(exact_cases.tables_below(tmp_path))
        assert files.keys().isdisjoint(exact_cases.files_below(tmp_path))
    else:
        with pytest.raises((UnsupportedError, OptionError), match=words):
            rewrite(Tasks(), tmp_path, tmp_path, mode="overwrite", restoreTypes=True, **options)
        assert files == exact_cases.files_below(tmp_path)


@pytest.mark.parametrize(("column", "words"), [(c[1], c[3]) for c in CASES if not c[2]], ids=[c[0] for c in CASES if not c[2]])  # fmt: skip
def test_a_compaction_follows_the_same_rule(tmp_path, column, words):
    before, files = lake(tmp_path, column, schema_metadata={"owner": "me"})
    if words is SAME:
        assert 1 == compact(Tasks(), tmp_path, retention=0).files_written
        assert before == exact_cases.contents(exact_cases.tables_below(tmp_path))
    else:
        words = words.split(":")[0] + ": a compaction would change" if "become" in words else words
        with pytest.raises(UnsupportedError, match=words):
            compact(Tasks(), tmp_path)
        assert files == exact_cases.files_below(tmp_path)


def test_a_bool8_beside_a_note_of_sparks_schema_is_checked(tmp_path):
    """Files with a note are converted, so that it can be written again."""
    note = json.dumps({"type": "struct", "fields": []})
    _, files = lake(tmp_path, BOOL8, schema_metadata={"spark_arrow_ipc.spark_schema": note})
    for each in (
        lambda: compact(Tasks(), tmp_path),
        lambda: rewrite(Tasks(), tmp_path, tmp_path, mode="overwrite", restoreTypes=True),
    ):
        with pytest.raises(UnsupportedError, match=BOOL8_SEEN):
            each()
    assert files == exact_cases.files_below(tmp_path)


def test_offsets_beside_a_note_of_sparks_schema_stay(tmp_path):
    note = json.dumps({"type": "struct", "fields": []})
    before, _ = lake(tmp_path, OFFSETS, schema_metadata={"spark_arrow_ipc.spark_schema": note})
    compact(Tasks(), tmp_path, retention=0)
    made = exact_cases.contents(exact_cases.tables_below(tmp_path))
    assert [len(before), str(before)] == [len(made), str(made)]


FINER = [
    ("an instant", NS, "expected whole microseconds .*found 1 ns; .*nanoseconds=floor"),
    ("a time", counts(pa.time64("ns"), 1, 999), "expected whole microseconds .*found 1 ns"),
    ("a duration in a list", pa.ListArray.from_arrays([0, 1, 2], counts(pa.duration("ns"), 1, 2)), "found 1 ns"),
    ("a date64", counts(pa.date64(), DAY, DAY + 1), "expected whole days .*found 86400001 ms"),
]


@pytest.mark.parametrize("mode", ["overwrite", "append"])
@pytest.mark.parametrize(("column", "words"), [row[1:] for row in FINER], ids=[row[0] for row in FINER])
def test_with_sparks_types_what_they_do_not_hold_is_an_error_or_asked_for(tmp_path, column, words, mode):
    _, files = lake(tmp_path, column)
    target = tmp_path if mode == "overwrite" else tmp_path.with_name(f"{tmp_path.name}.target")
    with pytest.raises(UnsupportedError, match=words):
        rewrite(Tasks(), tmp_path, target, mode=mode)
    assert files == exact_cases.files_below(tmp_path)
    assert rewrite(Tasks(), tmp_path, target, mode=mode, nanoseconds="floor").rows_written == 4


def next_nanosecond(batches):
    for batch in batches:
        at = pc.add(batch["at"].cast(pa.timestamp("ns", "UTC")), pa.scalar(1, pa.duration("ns")))
        yield batch.set_column(1, "at", at)


def test_what_a_function_makes_is_not_rounded(tmp_path):
    _, files = lake(tmp_path, WHOLE)
    with pytest.raises(UnsupportedError, match=r"field at: batch 0 of the function next_nanosecond: .*found 1001 ns"):
        rewrite(Tasks(), tmp_path, tmp_path, next_nanosecond, mode="overwrite", restoreTypes=True)
    assert files == exact_cases.files_below(tmp_path)


def test_an_older_file_of_another_unit_is_refused(tmp_path):
    arrow_files.write(tmp_path / "b.arrow", pa.table({"at": NS}))
    arrow_files.write(tmp_path / "a.arrow", pa.table({"at": WHOLE.cast(pa.timestamp("us", "UTC"))}))
    files = exact_cases.files_below(tmp_path)
    with pytest.raises((SchemaMismatchError, UnsupportedError), match="field at"):
        rewrite(Tasks(), tmp_path, tmp_path, mode="overwrite", restoreTypes=True)
    assert files == exact_cases.files_below(tmp_path)


def test_keys_of_the_options_win_over_those_of_the_newest_file(tmp_path):
    lake(tmp_path / "s", WHOLE, schema_metadata={"owner": "me", "day": "1"})
    rewrite(Tasks(), tmp_path / "s", tmp_path / "t", restoreTypes=True, metadata={"day": "2"})
    rewrite(Tasks(), tmp_path / "s", tmp_path / "u", metadata={"day": "2"})
    found = [exact_cases.tables_below(tmp_path / name)[0].schema.metadata for name in "tu"]
    assert [{b"owner": b"me", b"day": b"2"}] * 2 == found


def test_pandas_index_is_that_of_the_rows_that_are_written(tmp_path):
    frame = pd.DataFrame({"n": [1, 2, 3]})
    (tmp_path / "s").mkdir()
    arrow_files.write(tmp_path / "s" / "a.arrow", pa.Table.from_pandas(frame))
    rewrite(Tasks(), tmp_path / "s", tmp_path / "t", where="n > 1", restoreTypes=True)
    (table,) = exact_cases.tables_below(tmp_path / "t")
    assert ([], ["n"]) == (
        table.schema.pandas_metadata["index_columns"],
        [c["name"] for c in table.schema.pandas_metadata["columns"]],
    )
    assert [0, 1] == table.to_pandas().index.tolist()


def test_nothing_is_replaced_that_was_not_read(tmp_path):
    arrow_files.write(tmp_path / "a.arrows", pa.table({"id": [1]}), stream=True)
    whole = (tmp_path / "a.arrows").read_bytes()
    (tmp_path / "a.arrows").write_bytes(whole + whole)
    with pytest.raises(InvalidArrowError, match="arrowipc repair"):
        rewrite(Tasks(), tmp_path, tmp_path, mode="overwrite")
    assert whole + whole == (tmp_path / "a.arrows").read_bytes()


STRICT = t.struct([("a", t.int8)])
TYPES = [
    ("parts that may be null now", t.Struct((t.Field("a", t.int8, nullable=False),)), STRICT, True),
    ("another name", t.struct([("b", t.int8)]), STRICT, False),
    ("an item's name", t.List(t.Field("element", t.int8)), t.List(t.Field("item", t.int8)), False),
    ("metadata of a part", t.Struct((t.Field("a", t.int8, custom_metadata=(("k", "v"),)),)), STRICT, False),
    ("an order", t.dictionary(t.int8, t.utf8, ordered=True), t.dictionary(t.int8, t.utf8), False),
    ("another class", t.utf8, t.large_utf8, False),
]  # fmt: skip


@pytest.mark.parametrize(("was", "written", "fits"), [case[1:] for case in TYPES], ids=[case[0] for case in TYPES])
def test_types_are_compared_with_the_files(was, written, fits):
    schemas = [Schema.of([t.Field("c", was)])]
    if fits:
        check_types(Schema.of([t.Field("C", written)]), schemas)
    else:
        with pytest.raises(
            UnsupportedError, match=r"field C: (the type|metadata inside) of this column .*would change"
        ):
            check_types(Schema.of([t.Field("C", written)]), schemas)
    check_types(Schema.of([t.Field("c", written)]), [*schemas, Schema.of([t.Field("c", t.null)])])


@pytest.mark.slow
@pytest.mark.parametrize("way", exact_cases.WAYS)
def test_random_tables_are_the_same_or_refused(tmp_path, way):
    """The program runs thousands; most of the tables are kept, or the test would show nothing."""
    outcomes = [exact_cases.check(random.Random(f"7 {i}"), tmp_path / str(i), way)[0] for i in range(15)]
    assert outcomes.count("kept") >= 5, outcomes


@pytest.mark.one_in(8, "exhaustive")
@pytest.mark.slow
@pytest.mark.parametrize("step", [4, pytest.param(1, marks=pytest.mark.nightly)])
@pytest.mark.parametrize("way", exact_cases.WAYS)
@pytest.mark.parametrize("options", exact_cases.EVERY, ids=str)
def test_every_type_under_every_option_is_the_same_or_refused(tmp_path, way, options, step):
    """Each option with one type in four, so that each type is tried under four options or more, and all pairs nightly."""
    kept = 0
    for i, (type_, _) in enumerate([*exact_cases.LEAVES, *exact_cases.EXTENSIONS]):
        if i % step != exact_cases.EVERY.index(options) % step:
            continue
        field = pa.field("c", type_)
        kept += (
            "kept" == exact_cases.check(random.Random(i), tmp_path / str(i), way, fields=[field], options=options)[0]
        )
    refused = way == "rewrite" and options == {"nanoseconds": "floor"}
    assert not kept if refused else kept >= 30 // step
