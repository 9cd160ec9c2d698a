"""States of files in the words of several file systems."""

from datetime import UTC, datetime
from types import SimpleNamespace

import pytest

from spark_arrow_ipc.storage.fsspec_storage import has_changed, status_of
from spark_arrow_ipc.storage.storage import Kind, Status

MOMENT = datetime(2024, 2, 29, 12, 30, 15, 500_000, UTC)
SECONDS = 1_709_209_815


@pytest.mark.parametrize(
    ("told", "mtime_ns"),
    [
        pytest.param({"mtime": MOMENT}, SECONDS * 10**9 + 5 * 10**8, id="sftp"),
        pytest.param(
            {"mtime": MOMENT.replace(tzinfo=None)}, SECONDS * 10**9 + 5 * 10**8, id="without a zone it is UTC"
        ),
        pytest.param({"mtime": SECONDS + 0.5}, SECONDS * 10**9 + 5 * 10**8, id="smb"),
        pytest.param({"modificationTime": SECONDS * 1_000 + 500}, SECONDS * 10**9 + 5 * 10**8, id="webhdfs"),
        pytest.param({"modify": "20240229123015"}, SECONDS * 10**9, id="ftp"),
        pytest.param({"last_commit": SimpleNamespace(date=MOMENT)}, SECONDS * 10**9 + 5 * 10**8, id="hf"),
        pytest.param({"last_commit": None}, 0, id="hf, not asked for"),
        pytest.param({"Last-Modified": "Thu, 29 Feb 2024 12:30:15 GMT"}, SECONDS * 10**9, id="http"),
        pytest.param({"updated": "2024-02-29T12:30:15+00:00"}, SECONDS * 10**9, id="ISO"),
        pytest.param({"created": SECONDS, "modified": SECONDS + 1}, (SECONDS + 1) * 10**9, id="best first"),
        pytest.param({"mtime": "yesterday"}, 0, id="no time"),
        pytest.param({"mtime": float("nan"), "created": SECONDS}, SECONDS * 10**9, id="no number"),
        pytest.param({"mtime": 1e300}, 0, id="no year"),
        pytest.param({}, 0, id="not told"),
    ],
)
def test_the_time_of_the_last_modification(told, mtime_ns):
    status = status_of("x", {"type": "file", "size": 1, **told})
    assert abs(mtime_ns - status.mtime_ns) < 10**6 or (mtime_ns == 0 and told.get("mtime") == 1e300)


@pytest.mark.parametrize(
    ("told", "version"),
    [
        ({"ETag": '"abc"', "sha": "x"}, '"abc"'),
        ({"sha": "f00"}, "f00"),
        ({"blob_id": "b0b"}, "b0b"),
        ({"etag": None, "generation": 7}, "7"),
        ({"etag": "x" * 1_000}, "x" * 200),
        ({}, ""),
    ],
)
def test_the_version(told, version):
    assert version == status_of("x", {"type": "file", "size": 1, **told}).version


@pytest.mark.parametrize(
    ("type_", "kind"), [("file", Kind.FILE), ("directory", Kind.DIRECTORY), ("other", Kind.SPECIAL), ("", Kind.SPECIAL)]
)
def test_the_kind(type_, kind):
    assert kind is status_of("x", {"type": type_, "size": 1}).kind


def state(nbytes=5, mtime_ns=10**18, version=""):
    return Status("x", Kind.FILE, nbytes, mtime_ns, version=version)


@pytest.mark.parametrize(
    ("known", "now", "changed"),
    [
        (state(), state(), False),
        (state(), state(nbytes=6), True),
        (state(version="a"), state(version="b"), True),
        (state(version="a"), state(version="a", mtime_ns=2 * 10**18), False),
        (state(version="a"), state(), False),
        (state(), state(mtime_ns=10**18 + 10**9), True),
        (state(), state(mtime_ns=10**18 + 10**8), False),
        (state(), state(mtime_ns=0), False),
    ],
)
def test_a_change(known, now, changed):
    assert changed is has_changed(known, now)
