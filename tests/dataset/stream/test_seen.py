"""Sets of hashes against Python's own sets, and damaged forms of them."""

import base64

import numpy as np
import pytest

from spark_arrow_ipc.dataset.listing.data_file import DataFile
from spark_arrow_ipc.dataset.stream.source_files import SeenFiles, hashes_of, seconds_of
from spark_arrow_ipc.errors import StreamOffsetError


def seen(times):
    """Return a set of files by name, each with its time in seconds."""
    return SeenFiles.of(hashes_of(times), np.array(list(times.values()), np.uint32))


TIMES = {f"/in/{i}": 1_700_000_000 + i * i % 997 for i in range(500)}


@pytest.mark.parametrize("form", ["as it is", "text", "bytes"])
def test_it_knows_what_was_put_in_and_nothing_else(form):
    made = seen(TIMES)
    made = {
        "as it is": lambda: made,
        "text": lambda: SeenFiles.from_text(made.to_text()),
        "bytes": lambda: SeenFiles.from_bytes(made.to_bytes(), "/log/seen"),
    }[form]()
    assert len(TIMES) == len(made)
    names = [*TIMES, *(f"/other/{i}" for i in range(500)), "/in/\udcff"]
    assert [name in TIMES for name in names] == made.contains(hashes_of(names)).tolist()
    for low in (0, 1_700_000_500, 1_700_000_997, 2**40):
        kept = made.since(low * 1_000_000_000).contains(hashes_of(TIMES))
        assert [time >= min(low, 2**32 - 1) for time in TIMES.values()] == kept.tolist()


def test_a_file_takes_twelve_bytes_and_about_twelve_characters():
    assert 32 + 12 * len(TIMES) == len(seen(TIMES).to_bytes())
    assert 12.5 * len(TIMES) > len(seen(TIMES).to_text())


def test_nothing_is_an_empty_string_and_the_same_file_twice_counts_once():
    assert "" == SeenFiles.empty().to_text()
    assert 0 == len(SeenFiles.from_text(""))
    joined = seen({"/a": 1}).joined(hashes_of(["/a", "/b"]), np.array([7, 8], np.uint32))
    assert (2, [7, 8]) == (len(joined), sorted(joined.seconds.tolist()))


def test_names_may_count_alone_and_times_outside_the_range_are_its_ends():
    assert hashes_of(["/a/x"], name_only=True).tolist() == hashes_of(["/b/x"], name_only=True).tolist()
    files = [DataFile("/a", 1, mtime) for mtime in (-5, 999_999_999, 2**62)]
    assert [0, 0, 2**32 - 1] == seconds_of(files).tolist()


GOOD = seen({"/a": 5, "/b": 9})


@pytest.mark.parametrize(
    "text",
    [
        "!", "é", "AAAA",
        base64.b64encode(b"\xff\xff\xff\xff\0\0\0\0").decode(),
        base64.b64encode(base64.b64decode(GOOD.to_text())[:-1]).decode(),
        base64.b64encode(base64.b64decode(GOOD.to_text()).replace(b"x", b"y", 1)).decode(),
    ],
)  # fmt: skip
def test_a_damaged_text_is_refused(text):
    with pytest.raises(StreamOffsetError, match="files in an offset"):
        SeenFiles.from_text(text)


@pytest.mark.parametrize(
    "damage", [lambda b: b[:-1], lambda b: b + b"x", lambda b: b"", lambda b: b[:40] + b"\1" + b[41:]]
)
def test_a_damaged_file_is_refused(damage):
    with pytest.raises(StreamOffsetError, match=r"damaged.*sourceLog") as caught:
        SeenFiles.from_bytes(damage(GOOD.to_bytes()), "/log/seen")
    assert "/log/seen" == caught.value.path
