"""A file range survives pickling, in few bytes."""

import pickle

import pytest

from spark_arrow_ipc.dataset.scan.file_range import FileRange
from spark_arrow_ipc.ipc.stream_index import StreamStart

STREAM = StreamStart(640, 3, 12, 0)
RANGES = {
    "a whole file": FileRange("/a.arrow", 100, 7),
    "an empty range": FileRange("/a.arrow", 100, 7, 0, 0),
    "from the first block": FileRange("/a.arrow", 100, 7, 0, 2),
    "some blocks": FileRange("/a.arrow", 100, 7, 3, 5),
    "a partition": FileRange("/a.arrow", 100, 7, partition=("x", None, 0)),
    "a null partition": FileRange("/a.arrow", 100, 7, partition=(None,)),
    "a part of a stream": FileRange("/a.arrows", 100, 7, 3, 5, stream_start=STREAM),
    "rows of a block": FileRange("/a.arrow", 100, 7, 3, 4, rows=(0, 64)),
    "everything": FileRange("/a.arrow", 100, 7, 3, 4, (1,), STREAM, (0, 64), "5e", grows=True),
    "a version": FileRange("/a.arrow", 100, 7, version="5e"),
}


@pytest.mark.parametrize("name", RANGES)
def test_a_range_survives_pickling(name):
    part = RANGES[name]
    assert part == pickle.loads(pickle.dumps(part))


def test_trailing_defaults_are_not_pickled():
    assert ("/a.arrow", 100, 7) == RANGES["a whole file"].__reduce__()[1]
    assert ("/a.arrow", 100, 7, 3, 5) == RANGES["some blocks"].__reduce__()[1]
    assert ("/a.arrow", 100, 7, 0, 0) == RANGES["an empty range"].__reduce__()[1]
    assert len(FileRange._fields) == len(RANGES["everything"].__reduce__()[1])


def test_a_range_costs_little_beside_its_path():
    """A driver sends one for each file, of which there may be a million."""
    many = [FileRange(f"/lake/part-{i:05d}.arrow", 1 << 20, 10**18 + i) for i in range(1000)]
    paths = [part.path for part in many]
    assert len(pickle.dumps(many)) < len(pickle.dumps(paths)) + 40 * len(many)
