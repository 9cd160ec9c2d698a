"""The files of a batch as JSON and back, and what somebody has changed in between."""

import base64
import json
import zlib

import pytest

from spark_arrow_ipc.dataset.listing.data_file import DataFile
from spark_arrow_ipc.dataset.stream.mode import StreamBatch
from spark_arrow_ipc.dataset.stream.source_files import files_from_json, files_from_text, files_to_json, files_to_text
from spark_arrow_ipc.errors import StreamOffsetError

BATCH = StreamBatch(
    (
        DataFile("/in/k=1/a.arrow", 10, 1_700_000_000_000_000_001),
        DataFile("/in/b \udcff.arrow", 0, -5),
        DataFile("s3://bucket/c.arrow", 2**40, 5, version='"e-1"'),
    ),
    ("/in", "/in", "s3://bucket"),
)


def test_a_batch_survives_as_json_and_as_text():
    assert BATCH == files_from_json(json.loads(json.dumps(files_to_json(BATCH))))
    assert BATCH == files_from_text(files_to_text(BATCH))
    assert StreamBatch() == files_from_text(files_to_text(StreamBatch()))


def test_a_thousand_random_names_take_sixty_characters_each():
    files = tuple(DataFile(f"/in/part-{i * 2654435761 % 2**64:032x}.arrow", i, i) for i in range(1000))
    assert 60_000 > len(files_to_text(StreamBatch(files, ("/in",) * 1000)))


@pytest.mark.parametrize(
    ("roots", "files"),
    [
        (None, []),
        ([3], []),
        ([""], []),
        (["/in"], None),
        (["/in"], [None]),
        (["/in"], [[0, "a", 1]]),
        (["/in"], [[1, "a", 1, 1]]),
        (["/in"], [[True, "a", 1, 1]]),
        (["/in"], [[-1, "a", 1, 1]]),
        (["/in"], [[0, "../a", 1, 1]]),
        (["/in"], [[0, "/a", 1, 1]]),
        (["/in"], [[0, "", 1, 1]]),
        (["/in"], [[0, 5, 1, 1]]),
        (["/in"], [[0, "a", -1, 1]]),
        (["/in"], [[0, "a", 1.0, 1]]),
        (["/in"], [[0, "a", 1, 2**63]]),
        (["/in"], [[0, "a", 1, 1, 7]]),
    ],
)
def test_values_of_another_kind_are_refused(roots, files):
    with pytest.raises(StreamOffsetError):
        files_from_json({"roots": roots, "files": files})


@pytest.mark.parametrize(
    "data",
    [b"", b"no zlib", zlib.compress(b"{"), zlib.compress(b"[]"), zlib.compress(b"{}") + b"x", zlib.compress(b"{}")[:-2],
     zlib.compress(b"[" * 100_000), zlib.compress(b" " * (65 << 20))],
    ids=["empty", "not packed", "half an object", "a list", "more", "less", "deep", "a bomb"],
)  # fmt: skip
def test_a_damaged_text_is_refused(data):
    with pytest.raises(StreamOffsetError):
        files_from_text(base64.b64encode(data).decode() or "=")
