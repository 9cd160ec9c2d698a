"""The schema of a log entry: as text, back from it, and what it must not do."""

import base64
import zlib

import pytest

from spark_arrow_ipc.arrow import types as t
from spark_arrow_ipc.arrow.schema import Schema
from spark_arrow_ipc.errors import CommitError
from spark_arrow_ipc.table import encoded_schema
from spark_arrow_ipc.table.encoded_schema import MAX_TEXT_NBYTES, decode_schema, encode_schema

NESTED = Schema(
    (
        t.Field("a", t.Struct((t.Field("é", t.utf8, custom_metadata=(("k", "v"),)),)), nullable=False),
        t.Field("d", t.Dictionary(t.int8, t.utf8)),
        t.Field("t", t.Timestamp(t.TimeUnit.NANOSECOND, "Europe/Berlin")),
    ),
    (("of the table", "x"),),
)


def wide(columns):
    return Schema(tuple(t.Field(f"measurement_{i}", t.float64) for i in range(columns)))


@pytest.mark.parametrize("schema", [NESTED, Schema(()), wide(1_000)], ids=["nested", "no columns", "1,000 columns"])
def test_a_schema_comes_back(schema):
    text = encode_schema(schema, "there")
    assert schema == decode_schema(text, "there")
    assert len(text) < 16 << 10, "small beside the files of an entry"


WHOLE = encode_schema(NESTED, "")


def packed(data):
    return base64.b64encode(zlib.compress(data)).decode()


def damaged():
    """Yield texts of which one character is another one, and those that are cut."""
    for i in range(0, len(WHOLE), 7):
        yield WHOLE[:i] + ("A" if WHOLE[i] != "A" else "B") + WHOLE[i + 1 :]
        yield WHOLE[: i // 4 * 4 + 4][:-4]


NONE = {
    "no base64": "eJw?", "no zlib": "AAAA", "cut": WHOLE[:-8], "nothing in it": packed(b""), "no schema": packed(b"x" * 64),
    "a stream with something else": packed(zlib.decompress(base64.b64decode(WHOLE))[:-30]),
}  # fmt: skip


@pytest.mark.parametrize("case", NONE)
def test_what_is_none_is_passed_over_with_a_warning(case, caplog):
    assert decode_schema(NONE[case], "/lake") is None
    assert "/lake: the schema in the log cannot be read, so the schema of the newest file is used" in caplog.text


def test_no_damage_gives_another_schema():
    assert {None} == {decode_schema(text, "") for text in damaged()}
    assert decode_schema("", "") is None


@pytest.mark.slow
def test_a_text_does_not_grow_without_bound(monkeypatch):
    bomb = packed(b"\0" * (1 << 20))
    monkeypatch.setattr(encoded_schema, "_MOST_NBYTES", 1 << 16)
    assert decode_schema(bomb, "") is None
    with pytest.raises(
        CommitError, match=r"^/lake: the schema of 10,000 columns takes .* bytes in a log entry.*nothing is"
    ):
        encode_schema(wide(10_000), "/lake")


@pytest.mark.slow
def test_an_entry_holds_a_hundred_thousand_columns():
    assert len(encode_schema(wide(10_000), "")) * 10 < MAX_TEXT_NBYTES
