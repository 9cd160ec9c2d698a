"""A stream that another process writes is read as it grows: exact, in order, and never a part of a message."""

import io
import os
import threading
import time

import pytest
from torn_producer import producing

from spark_arrow_ipc import ipc
from spark_arrow_ipc.errors import FileChangedError, InvalidFramingError, LimitError, NotArrowError, UnsupportedError

pa = pytest.importorskip("pyarrow")

NOW = ipc.Follow(poll_seconds=0.001, timeout_seconds=0)
"""Reads what is there."""

SOON = ipc.Follow(poll_seconds=0.001, timeout_seconds=20)

WORDS = [["a"], ["a", "b"], ["a", "b"], ["a", "b", "c"], ["x"], ["x", "y"], ["x", "y", "z"], ["q"]]
"""Deltas and replacements, if each batch is encoded by its own words."""


def batch(words):
    array = pa.DictionaryArray.from_arrays(pa.array(range(len(words)), pa.int8()), pa.array(words))
    return pa.record_batch([array, pa.array([f"row {word}" for word in words])], ["d", "s"])


def stream(words=WORDS, *, compression=None):
    sink = io.BytesIO()
    options = pa.ipc.IpcWriteOptions(emit_dictionary_deltas=True, compression=compression)
    with pa.ipc.new_stream(sink, batch(["a"]).schema, options=options) as writer:
        for each in words:
            writer.write_batch(batch(each))
    return sink.getvalue()


DATA = stream()
MESSAGE = DATA[len(stream(WORDS[:-1])) - 8 : -8].split(b"\xff\xff\xff\xff")[-1]
MESSAGE = b"\xff\xff\xff\xff" + MESSAGE
"""The last record batch, without its dictionary."""

EXPECTED = [each.to_pylist() for each in pa.ipc.open_stream(DATA)]


def rows(batches):
    columns = [each.to_pydict() for each in batches]
    return [[{"d": d, "s": s} for d, s in zip(each["d"], each["s"], strict=True)] for each in columns]


def ends_of_messages():
    """Where pyarrow says that messages end, and how many record batches lie before."""
    reader = pa.BufferReader(DATA)
    ends, batches = [], 0
    while (message := _next_message(reader)) is not None:
        batches += message.type == "record batch"
        ends.append((reader.tell(), batches))
    return ends


def _next_message(reader):
    try:
        return pa.ipc.read_message(reader)
    except EOFError:
        return None


@pytest.mark.nightly
@pytest.mark.no_cover
def test_every_cut_gives_the_whole_batches_and_the_rest_once_it_is_there(tmp_path):
    path = tmp_path / "growing.arrows"
    ends = ends_of_messages()
    for cut in range(0, len(DATA), 7):
        path.write_bytes(DATA[:cut])
        whole = max((batches for end, batches in ends if end <= cut), default=0)
        with ipc.open(path, follow=NOW) as reader:
            assert EXPECTED[:whole] == rows(reader), cut
            assert not reader.has_ended
            with path.open("ab") as file:
                file.write(DATA[cut:])
            assert EXPECTED[whole:] == rows(reader), cut
            assert reader.has_ended
            assert [] == list(reader)


@pytest.mark.parametrize("columns", [None, ["s"], ["d"]], ids=str)
def test_a_stream_that_grows_byte_by_byte(tmp_path, columns):
    path = tmp_path / "growing.arrows"
    path.write_bytes(b"")
    found = []
    with ipc.open(path, columns=columns, follow=NOW) as reader, path.open("ab") as file:
        for start in range(0, len(DATA), 13):
            file.write(DATA[start : start + 13])
            file.flush()
            found += [each.to_pydict() for each in reader]
    assert [pa.Table.from_pylist(each).select(columns or ["d", "s"]).to_pydict() for each in EXPECTED] == found


@pytest.mark.slow
def test_a_producer_process_with_torn_writes(tmp_path):
    path = tmp_path / "growing.arrows"
    path.touch()
    count = 300
    with producing(path, count) as producer:
        with ipc.open(path, follow=SOON) as reader:
            assert ("n", "d") == reader.schema.names  # waits for it
            found = [each.to_pydict() for each in reader]
            assert reader.has_ended
        assert 0 == producer.wait(120)
    assert list(range(2 * count)) == [n for each in found for n in each["n"]]
    assert [each.to_pydict() for each in pa.ipc.open_stream(path.read_bytes())] == found


def test_waits_end_by_the_timeout_and_by_the_callback(tmp_path):
    path = tmp_path / "growing.arrows"
    path.write_bytes(DATA[:8])
    with ipc.open(path, follow=NOW) as reader, pytest.raises(TimeoutError, match="no schema yet"):
        _ = reader.schema
    path.write_bytes(DATA[:-8])
    asked = []
    follow = ipc.Follow(poll_seconds=0.001, stop=lambda: asked.append(1) or len(asked) > 5)
    with ipc.open(path, follow=follow) as reader:
        assert EXPECTED == rows(reader)
        assert 6 == len(asked)
        started = time.monotonic()
        with ipc.open(path, follow=ipc.Follow(poll_seconds=600, timeout_seconds=0.05)) as patient:
            assert EXPECTED == rows(patient)
        assert time.monotonic() - started < 500


def test_a_reader_that_waits_sees_what_comes_later(tmp_path):
    path = tmp_path / "growing.arrows"
    path.write_bytes(DATA[:500])

    def go_on():
        with path.open("ab") as file:
            file.write(DATA[500:])

    with ipc.open(path, follow=SOON) as reader:
        threading.Timer(0.05, go_on).start()
        assert EXPECTED == rows(reader)


def cut(path):
    os.truncate(path, 700)


def cut_and_written_again(path):
    path.write_bytes(bytes(len(DATA) + 64))


def replaced(path):
    other = path.with_name("other")
    other.write_bytes(DATA)
    other.rename(path)


def removed(path):
    path.unlink()


CHANGES = [
    (cut, "cut to 700 bytes"),
    (cut_and_written_again, "others now"),
    (replaced, "another file"),
    (removed, "removed"),
]


@pytest.mark.parametrize(("change", "words"), CHANGES, ids=[change.__name__ for change, _ in CHANGES])
def test_a_file_that_is_not_only_appended_to_is_an_error(tmp_path, change, words):
    path = tmp_path / "growing.arrows"
    path.write_bytes(DATA[:-8])
    with ipc.open(path, follow=NOW) as reader:
        assert EXPECTED == rows(reader)
        change(path)
        with pytest.raises(FileChangedError, match=words) as caught:
            list(reader)
    assert str(path) == caught.value.path


BROKEN = [
    ("a file", b"ARROW1\0\0" + bytes(16), UnsupportedError, "stream format"),
    ("no Arrow", b"PAR1" + bytes(16), NotArrowError, "Parquet"),
    ("a length that is none", DATA[:-8] + b"\xff\xff\xff\xff\xff\xff\xff\xff", InvalidFramingError, "metadata length"),
    ("a second schema", DATA[:-8] + DATA, InvalidFramingError, "one schema"),
]


@pytest.mark.parametrize(("data", "error", "words"), [case[1:] for case in BROKEN], ids=[case[0] for case in BROKEN])
def test_broken_bytes_are_errors_and_no_wait(tmp_path, data, error, words):
    path = tmp_path / "growing.arrows"
    path.write_bytes(data)
    with ipc.open(path, follow=ipc.Follow()) as reader, pytest.raises(error, match=words):
        list(reader)


def test_a_body_above_the_limits_is_not_waited_for(tmp_path):
    path = tmp_path / "growing.arrows"
    path.write_bytes(DATA[:-40])
    follow = ipc.Follow()
    limits = ipc.Limits(max_batch_bytes=16)
    with ipc.open(path, limits=limits, follow=follow) as reader, pytest.raises(LimitError, match="max_batch_bytes"):
        list(reader)


REFUSED = [
    ("bytes", {"source": DATA}, TypeError, "path"),
    ("an object", {"source": "s3://bucket/key.arrows"}, UnsupportedError, "mounted"),
    ("streams", {"source": "x", "concatenated_streams": "read"}, ValueError, "marker"),
    ("no file", {"source": "/nowhere/x.arrows"}, FileNotFoundError, "nowhere"),
    ("a word", {"source": "x", "validation": "some"}, ValueError, "validation"),
]


@pytest.mark.parametrize(("given", "error", "words"), [case[1:] for case in REFUSED], ids=[case[0] for case in REFUSED])
def test_what_cannot_be_followed(given, error, words):
    with pytest.raises(error, match=words):
        ipc.open(**given, follow=True)


def test_a_poll_costs_the_same_whatever_was_written(tmp_path):
    """Reads are counted: a look at a file that did not grow reads nothing, and one that grew the new message."""
    path = tmp_path / "growing.arrows"
    path.write_bytes(DATA[:-8])
    with ipc.open(path, follow=NOW) as reader:
        assert EXPECTED == rows(reader)
        source = reader._source
        asked = []
        read = source.read_up_to
        source.read_up_to = lambda *place: asked.append(place) or read(*place)
        assert [] == list(reader)
        assert [] == asked
        with path.open("ab") as file:
            file.write(MESSAGE)
        assert EXPECTED[-1:] == rows(reader)
        assert len(DATA) - 8 - 64 <= min(start for start, _ in asked)
        assert len(asked) < 9
