"""Arithmetic on decimals in a worker, compared to Python's."""

import json
import random
from decimal import ROUND_HALF_DOWN, Context, Decimal

import pyarrow as pa
import pytest

from spark_arrow_ipc.errors import OptionError
from spark_arrow_ipc.spark.push_down.aggregates import with_computed

EXACT = Context(prec=200)


def column(name):
    return {"column": [name]}


def literal(unscaled, precision, scale):
    return {"type": json.dumps(f"decimal({precision},{scale})"), "value": str(unscaled)}


def call(name, *children):
    return {"name": name, "children": list(children)}


def of(node, row):
    """Return the value of an expression in a row, by Python."""
    if "column" in node:
        return row[node["column"][0]]
    if "type" in node:
        return Decimal(int(node["value"])).scaleb(-int(json.loads(node["type"]).split(",")[1][:-1]))
    left, right = (of(child, row) for child in node["children"])
    if left is None or right is None:
        return None
    operation = {"+": EXACT.add, "-": EXACT.subtract, "*": EXACT.multiply}[node["name"]]
    return operation(left, right)


PRICE = call("*", column("price"), call("-", literal(1, 1, 0), column("part")))
CASES = [
    ("a product", PRICE, (32, 4)),
    ("a product of three", call("*", PRICE, call("+", literal(1, 1, 0), column("part"))), (38, 6)),
    ("other scales", call("+", column("price"), column("fine")), (24, 8)),
    ("beyond 64 bits", call("*", column("wide"), column("price")), (38, 2)),
    ("beyond 128 bits on the way", call("-", call("*", column("wide"), column("wide")), call("*", column("wide"), column("wide"))), (38, 0)),
    ("of a literal alone beside a column", call("*", column("part"), literal(-250, 3, 2)), (19, 4)),
]  # fmt: skip


def batch(rows, most):
    rng = random.Random(5)
    types = {"price": (15, 2), "part": (15, 2), "fine": (20, 8), "wide": (38, 0)}
    return pa.RecordBatch.from_arrays(
        [
            pa.array(
                [
                    None if rng.random() < 0.2 else Decimal(rng.randint(-most[name], most[name])).scaleb(-scale)
                    for _ in range(rows)
                ],
                pa.decimal128(precision, scale),
            )
            for name, (precision, scale) in types.items()
        ],
        list(types),
    )


@pytest.mark.parametrize(("node", "type_"), [case[1:] for case in CASES], ids=[case[0] for case in CASES])
@pytest.mark.parametrize("rows", [0, 1, 200])
def test_the_values_are_those_of_python(node, type_, rows):
    data = batch(rows, {"price": 10**9, "part": 100, "fine": 10**15, "wide": 10**25}).slice(0)
    (made,) = with_computed(iter([data]), [node], [pa.decimal128(*type_)])
    assert made.column(4).type == pa.decimal128(*type_)
    assert made.column(4).to_pylist() == [of(node, row) for row in data.to_pylist()]


def test_a_slice_and_a_batch_of_nulls():
    data = batch(50, {"price": 10**9, "part": 100, "fine": 1, "wide": 1}).slice(7, 20)
    (made,) = with_computed(iter([data]), [PRICE], [pa.decimal128(32, 4)])
    assert made.column(4).to_pylist() == [of(PRICE, row) for row in data.to_pylist()]
    nulls = pa.RecordBatch.from_arrays([pa.nulls(3, pa.decimal128(15, 2))] * 2, ["price", "part"])
    (made,) = with_computed(iter([nulls]), [PRICE], [pa.decimal128(32, 4)])
    assert made.column(2).to_pylist() == [None] * 3


def test_more_digits_than_the_type_has_are_named():
    data = batch(20, {"price": 1, "part": 1, "fine": 1, "wide": 10**30})
    node = call("*", column("wide"), column("wide"))
    first = next(value for row in data.to_pylist() if (value := of(node, row)) is not None)
    first = Context(prec=39, rounding=ROUND_HALF_DOWN).create_decimal(first)  # as Spark does before it looks
    with pytest.raises(OptionError, match=rf"an expression overflows: {first:f} does not fit decimal\(38,0\)"):
        list(with_computed(iter([data]), [node], [pa.decimal128(38, 0)]))


@pytest.mark.parametrize("sign", ["*", "+", "-"])
def test_the_greatest_of_two_columns_need_not_meet(sign):
    """A product of 77 digits is more than pyarrow computes with, whatever the values of each row."""
    wide = [Decimal(9 * 10**37), Decimal(1), None]
    data = pa.RecordBatch.from_arrays(
        [pa.array(values, pa.decimal128(38, 0)) for values in (wide, [Decimal(1), *wide[:1], None])], ["wide", "other"]
    )
    node = call(sign, column("wide"), column("other"))
    (made,) = with_computed(iter([data]), [node], [pa.decimal128(38, 0)])
    assert made.column(2).to_pylist() == [of(node, row) for row in data.to_pylist()]
