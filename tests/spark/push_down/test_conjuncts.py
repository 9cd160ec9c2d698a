"""Conditions as the scan of the JVM writes them, and the predicates that tasks make of them."""

import base64
import itertools
import json
import struct
import zlib

import pytest
from pyspark.sql import types as s

from spark_arrow_ipc.dataset.predicate.bound import Constant
from spark_arrow_ipc.spark.push_down.conjuncts import narrow_selection

_STRUCT = s.StructType([s.StructField("p", s.IntegerType()), s.StructField("q", s.StringType())])
FRAME = s.StructType([
    s.StructField("k", s.LongType()), s.StructField("i", s.IntegerType()), s.StructField("b", s.BooleanType()),
    s.StructField("f", s.DoubleType()), s.StructField("d", s.DecimalType(9, 2)), s.StructField("t", s.StringType()),
    s.StructField("y", s.BinaryType()), s.StructField("at", s.DateType()), s.StructField("ts", s.TimestampType()),
    s.StructField("st", _STRUCT), s.StructField("a.b", s.IntegerType()), s.StructField("c", s.StringType("UTF8_LCASE")),
])  # fmt: skip


def column(*path):
    return {"column": list(path)}


def literal(type_, value):
    if isinstance(value, bytes):
        value = base64.b64encode(value).decode()
    return {"type": json.dumps(type_), "value": value}


def call(name, *children):
    return {"name": name, "children": list(children)}


def keys(operand, type_, *values):
    """Return IN as the JVM writes whole numbers and days: the sorted keys by their distances, in 64 bits that may wrap."""
    numbers = sorted({value for value in values if value is not None})
    distances = [(b - a) % 2**64 for a, b in itertools.pairwise([0, *numbers])]
    deflated = zlib.compress(struct.pack(f"<{len(distances)}Q", *distances))
    text = {"type": json.dumps(type_), "hasNull": None in values, "distances": base64.b64encode(deflated).decode()}
    return {**call("IN", operand), "keys": text}


K5 = call(">", column("k"), literal("long", 5))
ABS = call("ABS", column("k"))
UNKNOWN = call("=", ABS, literal("long", 5))
TAKEN = [
    (K5, "k > 5"),
    (call("=", column("i"), literal("integer", -3)), "i = -3"),
    (call("<=>", column("t"), literal("string", None)), "t is null"),
    (call("=", column("b"), literal("boolean", 1)), "b = true"),
    (call(">=", column("f"), literal("double", "NaN")), "f >= nan"),
    (call("<", column("f"), literal("double", "1.7976931348623157E308")), "f < greatest double"),
    (call("NOT", call("<=>", column("f"), literal("double", "4.9E-324"))), "f is not the least double"),
    (call("<", column("d"), literal("decimal(9,2)", "-1750")), "d < -17.50"),
    (call("IN", column("k"), literal("long", 1), literal("long", 2), literal("long", None)), "k in"),
    (call("STARTS_WITH", column("t"), literal("string", b"a")), "a%"),
    (call("ENDS_WITH", column("t"), literal("string", "ü".encode())), "%ü"),
    (call("CONTAINS", column("t"), literal("string", b"%")), "contains %"),
    (call("=", column("y"), literal("binary", b"\x00")), "binary"),
    (call(">", column("at"), literal("date", 19_000)), "date"),
    (call(">", column("ts"), literal("timestamp", 1_700_000_000_000_000)), "timestamp"),
    (call("=", call("YEAR", column("at")), literal("integer", 2023)), "year"),
    (call("IS_NOT_NULL", column("c")), "of a collated string, only whether it is null"),
    (call("=", column("st", "p"), literal("integer", 3)), "a field"),
    (call("=", column("a.b"), literal("integer", 3)), "a dot in a name"),
    (call("NOT", K5), "not"),
    (call("AND", K5, UNKNOWN), "the half that is known"),
    (call("OR", K5, call("AND", K5, UNKNOWN)), "weakened"),
    (call("OR", K5, call("NOT", call("IS_NULL", column("t")))), "or"),
]
LEFT = [
    (UNKNOWN, "an unknown function"),
    (call("OR", K5, UNKNOWN), "either may be true"),
    (call("NOT", call("AND", K5, UNKNOWN)), "weakened, it would be too strong once negated"),
    (call("NOT", call("OR", K5, call("AND", K5, UNKNOWN))), "the same, deeper"),
    (call("=", column("c"), literal("string", b"a")), "a collation compares otherwise"),
    (call("=", column("nobody"), literal("long", 1)), "no such column"),
    (call("STARTS_WITH", column("t"), column("t")), "no literal"),
    (keys(column("k"), "integer", 1, 2), "keys of another type"),
    (keys(column("t"), "long", 1, 2), "keys for text"),
    (keys(ABS, "long", 1, 2), "keys for an unknown function"),
    (keys(column("nobody"), "long", 1, 2), "keys for no column"),
    (call("=", column("ts"), literal("date", 3)), "the session's zone would decide"),
    (call("BOOLEAN_EXPRESSION", K5), "a name that is not known"),
]


@pytest.mark.parametrize(("node", "why"), TAKEN, ids=[why for _, why in TAKEN])
def test_conditions_that_tasks_hold(node, why):
    selection = narrow_selection(None, FRAME, FRAME, (), [node])
    assert selection is not None
    # Spark filters once more, so that no row has to be dropped here.
    assert selection.required == Constant(truth=True)
    assert not selection.extra


YEAR = call("YEAR", column("at"))
KEYS = [
    ("bigint", column("k"), "long", [3, -5, 2**40]),
    ("ends of bigint", column("k"), "long", [2**63 - 1, 0, -(2**63)]),
    ("one key", column("k"), "long", [7]),
    ("twice, and NULL", column("i"), "integer", [7, None, 7]),
    ("days", column("at"), "date", [-719_162, 0, 19_000]),
    ("a field", column("st", "p"), "integer", [1, 2]),
    ("years", YEAR, "integer", [2023, 2024]),
]  # fmt: skip


@pytest.mark.parametrize("negated", [False, True], ids=["in", "not in"])
@pytest.mark.parametrize(("operand", "type_", "values"), [c[1:] for c in KEYS], ids=[c[0] for c in KEYS])
def test_keys_mean_what_their_literals_mean(operand, type_, values, negated):
    nodes = keys(operand, type_, *values), call("IN", operand, *(literal(type_, value) for value in values))
    ours, plain = (
        narrow_selection(None, FRAME, FRAME, (), [call("NOT", node) if negated else node, K5]) for node in nodes
    )
    assert ours is not None
    assert plain == ours


def test_every_double_is_held_below_an_aggregate():
    for value in ("1.0E300", "-1.7976931348623157E308", "1.0E-300", "4.9E-324", "1.0E7", "Infinity", "-0.0"):
        node = {**call("<", column("f"), literal("double", value)), "exact": True}
        assert narrow_selection(None, FRAME, FRAME, (), [node]) is not None, value


@pytest.mark.parametrize(("node", "why"), LEFT, ids=[why for _, why in LEFT])
def test_conditions_that_are_left_to_spark(node, why):
    assert narrow_selection(None, FRAME, FRAME, (), [node]) is None
    with pytest.raises(RuntimeError, match="cannot hold the condition"):
        narrow_selection(None, FRAME, FRAME, (), [{**node, "exact": True}])


def test_what_an_aggregate_leaves_to_tasks_reads_the_columns_of_its_filter():
    own = s.StructType([FRAME["t"]])
    selection = narrow_selection(None, FRAME, own, (), [{**K5, "exact": True}])
    assert [field.name for field in selection.extra] == ["k"]
    assert selection.positions == {"k": 1}
    assert selection.required is None


def test_a_struct_of_which_fewer_fields_are_asked_for_is_read_whole_for_where():
    whole = narrow_selection(
        None, FRAME, FRAME, (), [{**call("=", column("st", "q"), literal("string", b"x")), "exact": True}]
    )
    own = s.StructType([s.StructField("st", s.StructType([_STRUCT["p"]]))])
    selection = narrow_selection(whole, FRAME, own, (), [])
    assert selection.extra == (FRAME["st"],)
    assert selection.positions == {"st": 1}
