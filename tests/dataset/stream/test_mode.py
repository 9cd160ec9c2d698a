"""The limit of a batch, what a batch holds, and what people are told of a stream."""

import numpy as np
import pytest

from spark_arrow_ipc.dataset.listing.data_file import DataFile
from spark_arrow_ipc.dataset.stream.log import LogMode
from spark_arrow_ipc.dataset.stream.mode import ALL_AVAILABLE, Backlog, Limit, StreamBatch, make_offset
from spark_arrow_ipc.dataset.stream.source_files import SeenFiles
from spark_arrow_ipc.dataset.stream.table import TableMode
from spark_arrow_ipc.dataset.stream.tail import TailMode
from spark_arrow_ipc.dataset.stream.window import WindowMode


@pytest.mark.parametrize(
    ("limit", "sizes", "fitting"),
    [
        (ALL_AVAILABLE, [5, 5, 5], 3),
        (ALL_AVAILABLE, [], 0),
        (Limit(max_files=2), [5, 5, 5], 2),
        (Limit(max_bytes=10), [5, 5, 5], 2),
        (Limit(max_bytes=10), [11, 5], 1),  # no file is too large for ever
        (Limit(max_bytes=4), [0, 5, 5], 1),
        (Limit(max_files=3, max_bytes=6), [1, 5, 5, 5], 2),
        (Limit(max_files=1, max_bytes=100), [5, 5], 1),
    ],
)
def test_a_batch_takes_what_fits_and_at_least_one(limit, sizes, fitting):
    assert fitting == limit.fitting(iter(sizes))


def test_the_bytes_of_a_batch_are_those_of_its_files():
    assert 7 == StreamBatch(files=(DataFile("/a", 3, 1), DataFile("/b", 4, 1)), roots=("/", "/")).nbytes


SEEN = SeenFiles.of(np.array([7], np.uint64), np.array([1], np.uint32)).to_text()
WORDS = [
    (WindowMode, {"hwm": -(1 << 62), "low": -(1 << 62), "at": 0, "seen": "", "files": ""}, "nothing is read yet"),
    (
        WindowMode,
        {"hwm": 1_780_318_800 * 10**9, "low": 0, "at": 1, "seen": SEEN, "files": ""},
        "files up to 2026-06-01 13:00:00 UTC, 1 within lateWindow",
    ),
    (LogMode, {"log": -1}, "nothing is read yet"),
    (LogMode, {"log": 1700}, "entry 1,700"),
    (TableMode, {"table": "01234567", "entry": 0, "id": "", "after": ""}, "nothing is read yet"),
    (TableMode, {"table": "01234567", "entry": 0, "id": "", "after": "//"}, "nothing is read yet"),
    (
        TableMode,
        {"table": "01234567", "entry": 5, "id": "", "after": "k=1/x\n.arrow"},
        "files at log entry 5, up to 'k=1/x\\n.arrow'",
    ),
    (TableMode, {"table": "01234567", "entry": 1700, "id": "", "after": "/"}, "log entry 1,700"),
    (TailMode, {"batch": 0, "byte": 0, "crc": -1}, "nothing is read yet"),
    (TailMode, {"batch": 1200, "byte": 191_248, "crc": 1}, "1,200 record batches, up to byte 191,248"),
]


@pytest.mark.parametrize(("mode", "values", "words"), WORDS)
def test_an_offset_is_said_in_words(mode, values, words):
    assert words == mode.words(make_offset(mode.__name__.removesuffix("Mode").lower(), **values))


def test_a_backlog_has_an_age_while_something_waits():
    waiting = Backlog(2, 30, 10 * 10**9, bad=1, late=2, incomplete=3).to_json(75 * 10**9)
    assert {"waitingFiles": 2, "waitingBytes": 30, "oldestWaitingSeconds": 65} == dict(list(waiting.items())[:3])
    assert {"incompleteFiles": 3, "lateFiles": 2, "badFiles": 1} == dict(list(waiting.items())[3:])
    assert "oldestWaitingSeconds" not in Backlog().to_json(1)
    assert 0 == Backlog(1, 1, 10**9).to_json(1)["oldestWaitingSeconds"], "a time in the future"
