"""From the strings that Spark hands over to the values of the attributes that declare the options.

Strategy
--------
Nothing is guessed: an unknown option, an option of the other side and a value of the wrong kind are each an
`OptionError` that says what would be right. An absent option is left to the default of its attribute.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from spark_arrow_ipc.errors import OptionError
from spark_arrow_ipc.spark.options.declare import Option

__all__ = ["Side", "parse_given"]

_ANY = ".*"
"""End of the name of an option that stands for many, each with a key of its own."""

_SPARK_KEYS = frozenset({"checkpointlocation"})
"""What Spark adds on its own and which means nothing to a batch job."""


@dataclass(frozen=True, slots=True)
class Side:
    """The options of a read, or those of a write.

    Parameters
    ----------
    doing, done
        The words of errors: ``reading`` and ``read``.
    attributes
        The options by the attribute that declares them.
    """

    doing: str
    done: str
    attributes: Mapping[str, tuple[Option, ...]]

    def __iter__(self) -> Iterator[Option]:
        """Iterate over the options, in the order of the documentation."""
        return (option for options in self.attributes.values() for option in options)

    def option(self, key: str) -> Option | None:
        """Return the option that a key belongs to."""
        key = key.lower()
        return next((option for option in self if _stands_for(option, key) or option.name.lower() == key), None)


def parse_given(mapping: Mapping[str, str], side: Side, other: Side) -> dict[str, Any]:
    """Return the values of the given options by attribute.

    Raises
    ------
    OptionError
        An option is unknown, belongs to the other side, or its value is not understood.
    """
    for key, string in mapping.items():
        if key.lower() not in _SPARK_KEYS:
            _check_known(key, string, side, other)
    given = {key.lower(): string for key, string in mapping.items()}
    values: dict[str, Any] = {}
    for attribute, options in side.attributes.items():
        for option in options:
            if option.name.endswith(_ANY):
                values[attribute] = _pairs(option, mapping)
            elif option.name.lower() in given:
                values[attribute] = _value(option, given[option.name.lower()])
    return values


def _pairs(option: Option, mapping: Mapping[str, str]) -> tuple[tuple[str, Any], ...]:
    """Return the keys and values of an option that stands for many, by key."""
    prefix = option.name.removesuffix("*")
    given = {key[len(prefix) :]: string for key, string in mapping.items() if _stands_for(option, key.lower())}
    return tuple((key, _value(option, given[key])) for key in sorted(given))


def _stands_for(option: Option, key: str) -> bool:
    """Whether the option stands for many, of which the key (in lower case) is one."""
    return option.name.endswith(_ANY) and len(key) >= len(option.name) and key.startswith(option.name[:-1].lower())


def _value(option: Option, string: str) -> Any:
    try:
        return option.parse(string)
    except ValueError as error:
        raise OptionError(
            f"the option {option.name} must be {option.expected}, and is {string!r}; for example: {option.example}"
        ) from error


def _check_known(key: str, string: str, side: Side, other: Side) -> None:
    if side.option(key) is not None:
        return
    option = other.option(key)
    if option is not None:
        raise OptionError(
            f"the option {option.name} is for {other.doing}, and here data is {side.done}; remove it ({key}={string})"
        )
    import difflib  # workers do without

    names = {option.name.lower(): option.name for option in side}
    near = difflib.get_close_matches(key.lower(), names, n=1)
    guess = f"; did you mean {names[near[0]]}" if near else ""
    raise OptionError(f"there is no option {key}{guess}. The options for {side.doing} are {', '.join(names.values())}")
