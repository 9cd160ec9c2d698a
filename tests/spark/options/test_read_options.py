"""The options of reading a stream, and how they go with those of a read."""

from datetime import UTC, datetime

import pytest

from spark_arrow_ipc.dataset.stream.mode import OnOverwrite
from spark_arrow_ipc.errors import OptionError
from spark_arrow_ipc.spark.options.options import is_for_streams, parse_read, parse_stream, parse_write
from spark_arrow_ipc.spark.options.values import CleanSource, StartingFrom

PATH = {"path": "/in"}


@pytest.mark.parametrize(
    ("given", "attribute", "value"),
    [
        ({}, "max_files_per_trigger", 1000),
        ({"MAXFILESPERTRIGGER": "7"}, "max_files_per_trigger", 7),
        ({"maxBytesPerTrigger": "2g"}, "max_bytes_per_trigger", 2 << 30),
        ({}, "starting_from", StartingFrom.EARLIEST),
        ({"startingFrom": "Latest"}, "starting_from", StartingFrom.LATEST),
        ({"startingFrom": "17"}, "starting_from", 17),
        *(
            ({"startingFrom": text}, "starting_from", datetime(2026, 6, 1, 13, microsecond=500_000, tzinfo=UTC))
            for text in ("2026-06-01T13:00:00.5Z", " 2026-06-01 15:00:00.500+02:00")
        ),
        ({"onOverwrite": "Skip"}, "on_overwrite", OnOverwrite.SKIP),
        ({"failOnDataLoss": "false"}, "fail_on_data_loss", False),
        ({"tail": "true"}, "tail", True),
        ({}, "late_seconds", 3600),
        ({"lateWindow": "6h"}, "late_seconds", 21600),
        ({"pollInterval": "200ms"}, "poll_interval", 0.2),
        ({"pollInterval": "2m"}, "poll_interval", 120),
        ({"cleanSource": "DELETE"}, "clean_source", CleanSource.DELETE),
    ],
)
def test_values(given, attribute, value):
    assert value == getattr(parse_stream(PATH | given)[1], attribute)


def test_the_options_of_a_read_come_with_them():
    options, stream = parse_stream(PATH | {"columns": "a", "where": "a > 1", "maxFilesPerTrigger": "3"})
    assert ("a > 1", ("/in",), 3) == (options.where, options.paths, stream.max_files_per_trigger)


@pytest.mark.parametrize(
    ("given", "message"),
    [
        ({"maxFilesPerTrigger": "0"}, "maxFilesPerTrigger must be a whole number of at least 1"),
        ({"pollInterval": "soon"}, "pollInterval must be a number of seconds"),
        *(
            (
                {"startingFrom": text},
                "startingFrom must be earliest, latest, the number of a log entry, or a time with",
            )
            for text in ("-1", "2026-06-01T13:00:00", "2026-13-01T00:00:00Z", "2026-06-01", "newest")
        ),
        ({"cleanSource": "archive"}, "cleanSource must be one of off, delete"),
        ({"sourceArchiveDir": "/old"}, "the option cleanSource deletes files or leaves them"),
        ({"sourceLog": "/log", "lateWindow": "1h"}, "no file is late"),
        ({"metadataOnly": "true"}, "metadataOnly=true is for batch reads"),
        ({"maxFilePerTrigger": "1"}, "did you mean maxFilesPerTrigger"),
        ({"compression": "lz4"}, "compression is for writing, and here data is read as a stream"),
    ],
)
def test_mistakes(given, message):
    with pytest.raises(OptionError, match=message):
        parse_stream(PATH | given)


@pytest.mark.parametrize("parse", [parse_read, parse_write])
def test_a_batch_refuses_them(parse):
    with pytest.raises(OptionError, match="lateWindow is for reading streams"):
        parse(PATH | {"latewindow": "1h"})


@pytest.mark.parametrize(("given", "expected"), [({}, False), ({"where": "a"}, False), ({"LATEWINDOW": "1h"}, True)])
def test_options_tell_a_stream_where_they_can(given, expected):
    assert expected is is_for_streams(PATH | given)
