"""What a program may give for an option is annotated as it is taken."""

from datetime import UTC, datetime, timedelta
from pathlib import PurePosixPath

import pytest

from spark_arrow_ipc.spark.options import declare

# kind, annotation, values with their strings, values that are refused
KINDS = {
    "string": (declare.STRING, "str", [], [1, None, b"a"]),
    "flag": (declare.FLAG, "bool", [(True, "true"), (False, "false")], [1, 0, None]),
    "integer": (declare.INTEGER, "int", [(7, "7"), (-7, "-7")], [True, 7.0, None]),
    "bytes": (declare.BYTES, "int | str", [(1 << 40, str(1 << 40))], [1e6]),
    "duration": (declare.DURATION, "timedelta | int | str", [(timedelta(days=1), "86400s"), (9, "9")], [timedelta(microseconds=1), 0.5]),
    "pause": (declare.PAUSE, "timedelta | int | str", [(timedelta(seconds=2), "2000ms")], [timedelta(microseconds=1), 0.5]),
    "time": (declare.TIME, "datetime | str", [(datetime(2026, 6, 1, 1, 2, 3, 4), "2026-06-01T01:02:03.000004")], [7]),
    "path": (declare.PATH, "str | PathLike[str]", [(PurePosixPath("/a b"), "/a b")], [b"/a", 7]),
    "paths": (declare.PATHS, "Sequence[str | PathLike[str]]", [(("a", PurePosixPath("b")), '["a", "b"]')], [{"a"}, [7]]),
    "columns": (declare.COLUMNS, "str | Sequence[str]", [(["a", "b,c"], '["a", "b,c"]')], [{"a"}, [7], 7]),
    "tensors": (declare.TENSORS, "str | Mapping[str, Sequence[int | None]]", [({"a": (2, None)}, "a:2x?")], [["a"], {"a": 2}, {"a": [True]}]),
    "words": (declare.one_of_words(["a", "b"]), 'Literal["a", "b"]', [], [7, None]),
    "words or columns": (declare.columns_or(["a"]), 'Literal["a"] | list[str] | tuple[str, ...]', [(["a"], '["a"]')], [7]),
    "words, a number or a time": (
        declare.point_or(["a"]),
        'Literal["a"] | int | datetime',
        [(7, "7"), (datetime(2026, 6, 1, tzinfo=UTC), "2026-06-01T00:00:00+00:00")],
        [True, 7.0],
    ),
}  # fmt: skip


@pytest.mark.parametrize("case", KINDS)
def test_a_kind(case):
    kind, annotation, taken, refused = KINDS[case]
    assert annotation == kind.annotation
    for value, string in taken:
        assert string == kind.string_of(value)
    for value in refused:
        with pytest.raises((TypeError, ValueError)):
            kind.string_of(value)
