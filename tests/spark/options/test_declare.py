"""An option is declared once, as an attribute: its name, its value and its default come from there."""

from dataclasses import dataclass, fields
from enum import StrEnum

import pytest

from spark_arrow_ipc.spark.options import declare, values
from spark_arrow_ipc.spark.options.options import OPTIONS
from spark_arrow_ipc.spark.options.read_options import ReadOptions
from spark_arrow_ipc.spark.options.write_options import SparkWriteOptions


class Colour(StrEnum):
    RED = "red"
    LIGHT_BLUE = "lightBlue"


@dataclass(frozen=True, slots=True)
class Declared:
    some_rows: int = declare.count("7", "Rows.", applies=declare.Use.BATCH)
    some_bytes: int = declare.byte_size("2k", "Bytes.", applies=declare.Use.BATCH)
    is_on: bool = declare.flag("true", "On.", applies=declare.Use.BATCH)
    colour: Colour = declare.word(Colour.LIGHT_BLUE, "A colour.", applies=declare.Use.BATCH)
    zone: str | None = declare.string("a zone", "UTC", "A zone.", applies=declare.Use.BATCH)
    most_rows: int | None = declare.optional_count("9", "Rows.", applies=declare.Use.BATCH)
    most_bytes: int | None = declare.optional_byte_size("9k", "Bytes.", applies=declare.Use.BATCH)
    level: int = declare.option(values.integer, "-1", "a whole number", "3", "A level.", applies=declare.Use.BATCH)
    owner: tuple[tuple[str, str], ...] = declare.pairs(
        "owner.*", "a string", "me", "Owners.", applies=declare.Use.BATCH
    )


# attribute: name, value when absent, default, expected, example
DECLARED = {
    "some_rows": ("someRows", 7, "7", "a whole number of at least 1", "100000"),
    "some_bytes": ("someBytes", 2048, "2k", "bytes, as a whole number or with a unit of k, m, g, t or p", "64m"),
    "is_on": ("isOn", True, "true", "true or false", "false"),
    "colour": ("colour", Colour.LIGHT_BLUE, "lightBlue", "one of red, lightBlue", "red"),
    "zone": ("zone", None, None, "a zone", "UTC"),
    "most_rows": ("mostRows", None, None, "a whole number of at least 1", "9"),
    "most_bytes": ("mostBytes", None, None, "bytes, as a whole number or with a unit of k, m, g, t or p", "9k"),
    "level": ("level", -1, "-1", "a whole number", "3"),
    "owner": ("owner.*", (), None, "a string", "me"),
}


@pytest.mark.parametrize("attribute", DECLARED)
def test_a_declaration(attribute):
    (option,) = declare.options_by_attribute(Declared)[attribute]
    value = getattr(Declared(), attribute)
    assert DECLARED[attribute] == (option.name, value, option.default, option.expected, option.example)


def test_declarations_keep_their_order():
    assert list(DECLARED) == list(declare.options_by_attribute(Declared)) == [field.name for field in fields(Declared)]


def test_one_attribute_may_have_the_value_of_one_of_two_options():
    paths, columns = (
        declare.options_by_attribute(ReadOptions)["paths"],
        declare.options_by_attribute(ReadOptions)["columns"],
    )
    assert (["path", "paths"], ["columns"]) == ([o.name for o in paths], [o.name for o in columns])


@pytest.mark.parametrize("cls", [ReadOptions, SparkWriteOptions])
def test_an_absent_option_has_the_value_of_its_default(cls):
    for attribute, options in declare.options_by_attribute(cls).items():
        for option in options:
            if option.default is not None:
                assert option.parse(option.default) == getattr(cls(), attribute)


@pytest.mark.parametrize("option", OPTIONS, ids=lambda option: option.name)
def test_the_example_and_the_default_of_every_option_are_right(option):
    option.parse(option.example)
    if option.default is not None:
        option.parse(option.default)
