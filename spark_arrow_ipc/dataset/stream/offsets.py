"""Offsets of streams: small JSON objects that Spark keeps in a query's checkpoint.

An offset is a flat object, ``{"v": 1, "mode": "log", "log": 17}``: the version of its form, the mode that made it, and
the mode's own integers and strings. Spark writes it down as text and compares texts, so a mode that has nothing new
returns the very object that it was given.

A checkpoint may be old, of another mode, or changed by somebody. Whatever comes back is therefore checked here before
a mode uses it: its keys, the type of each value, the range of each number and the length of each string.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final, NoReturn, TypeAlias

from spark_arrow_ipc.errors import StreamOffsetError, cut_repr

VERSION: Final = 1
"""Of the form of all offsets. A change that older releases cannot read adds one."""

MAX_OFFSET_CHARS: Final = 1 << 20
"""Most characters of a string of an offset: Spark keeps a hundred offsets, and writes one for each batch."""

_MOST: Final = (1 << 63) - 1

_COMMON: Final = ("v", "mode")

Offset: TypeAlias = Mapping[str, "str | int"]
"""An offset as JSON: strings and integers by name."""


def make_offset(mode: str, **values: str | int) -> dict[str, str | int]:
    """Return the offset of a mode with the mode's own values."""
    return {"v": VERSION, "mode": mode, **values}


def mode_of_offset(offset: object) -> str:
    """Return the mode that made an offset."""
    if not isinstance(offset, Mapping):
        raise StreamOffsetError(expected="a JSON object as the offset of a stream", found=cut_repr(offset))
    version, mode = offset.get("v"), offset.get("mode")
    if type(version) is not int or not isinstance(mode, str):
        raise StreamOffsetError(
            expected="an offset of this source, with v and mode",
            found=f"{cut_repr(dict(offset))}. Was the checkpoint made by another source",
        )
    if version != VERSION:
        raise StreamOffsetError(
            expected=f"an offset of version {VERSION}",
            found=f"version {version}: a later release made this checkpoint. Install that release, or give a new checkpoint",
        )
    return mode


def refuse_change(option: str, before: str, now: str, why: str, *, path: str | None = None) -> NoReturn:
    """Refuse another value of an option than the query had before its restart."""
    raise StreamOffsetError(
        f"this query began with {option}={cut_repr(before)}, and now has {option}={cut_repr(now)}: {why}; give the old value "
        "again, or the new one with a new checkpoint (and a new sourceLog, if there is one)",
        path=path,
    )


class OffsetValues:
    """The checked values of an offset, nothing of which is trusted; `optional` are names that earlier releases lack."""

    def __init__(self, offset: object, mode: str, names: tuple[str, ...], optional: tuple[str, ...] = ()) -> None:
        made_by = mode_of_offset(offset)
        assert isinstance(offset, Mapping)
        if made_by != mode:
            raise StreamOffsetError(
                f"the checkpoint of this query was made in the mode {cut_repr(made_by)}, and its options now ask for the "
                f"mode {mode!r}; give the options of its first start again, or a new checkpoint"
            )
        if set(offset).difference(optional) != {*_COMMON, *names}:
            raise StreamOffsetError(
                expected=f"an offset with {', '.join([*_COMMON, *names])}",
                found=f"the names {cut_repr(sorted(map(str, offset)))}",
            )
        self._offset = offset

    def optional_string(self, name: str, *, max_chars: int) -> str | None:
        """Return a string of at most `max_chars`; None if an earlier release made the offset without it."""
        return self.string(name, max_chars=max_chars) if name in self._offset else None

    def integer(self, name: str, *, least: int = 0, most: int = _MOST) -> int:
        """Return an integer of `least` to `most`."""
        value = self._offset[name]
        if type(value) is not int or not least <= value <= most:
            raise StreamOffsetError(
                expected=f"an integer of {least:,} to {most:,} for {name} of an offset", found=cut_repr(value)
            )
        return value

    def string(self, name: str, *, max_chars: int = MAX_OFFSET_CHARS) -> str:
        """Return a string of at most `max_chars`."""
        value = self._offset[name]
        if not isinstance(value, str) or len(value) > max_chars:
            raise StreamOffsetError(
                expected=f"a string of at most {max_chars:,} characters for {name} of an offset", found=cut_repr(value)
            )
        return value
