"""Every option with every use: it is taken where its row says that it applies, and refused everywhere else."""

import io

import pyarrow as pa
import pytest
from table_commits import APPEND, save

from spark_arrow_ipc.errors import OptionError
from spark_arrow_ipc.spark.options.declare import Use
from spark_arrow_ipc.spark.options.options import (
    READING,
    STREAMING,
    WRITING,
    check_in_place,
    check_streamed,
    find_misapplied,
    parse_read,
    parse_stream,
    parse_write,
)

pytest.importorskip("pyspark.sql.streaming.datasource", reason="reading a stream needs Spark 4.2 or later")
from spark_arrow_ipc.spark.read.stream_reader import stream_mode

SERVED = "dissociated+tcp://127.0.0.1:1/t?want_data=1"


@pytest.fixture(scope="module")
def sources(tmp_path_factory):
    """A directory of files, a table, and a stream."""
    root = tmp_path_factory.mktemp("sources")
    (root / "files").mkdir()
    batch = pa.record_batch({"n": [1]})
    sink = io.BytesIO()
    with pa.ipc.new_file(sink, batch.schema) as file:
        file.write_batch(batch)
    (root / "table").mkdir()
    save(root / "table", APPEND, ("", sink.getvalue()))
    with pa.OSFile(str(root / "one.arrows"), "wb") as sink, pa.ipc.new_stream(sink, batch.schema) as stream:
        stream.write_batch(batch)
    return root


def read(given, _sources):
    parse_read({"path": "/data", **given})


def read_headers(given, _sources):
    parse_read({"path": "/data", "metadataOnly": "true", **given})


def read_server(given, _sources):
    parse_read({"path": SERVED, **given})


def stream_directory(given, sources):
    expect_mode({"path": str(sources / "files"), **given}, "window", "log")


def stream_table(given, sources):
    expect_mode({"path": str(sources / "table"), **given}, "table")


def stream_tail(given, sources):
    expect_mode({"path": str(sources / "one.arrows"), "tail": "true", **given}, "tail")


def expect_mode(given, *names):
    if "storage.key" in given:  # of object stores; a local storage has none
        given = {name: string for name, string in given.items() if name != "storage.key"}
        use = {"window": Use.DIRECTORY, "table": Use.TABLE, "tail": Use.TAIL}[names[0]]
        assert use in READING.option("storage.key").applies
    if stream_mode(*parse_stream(given)).name not in names:
        raise OptionError("another mode")


def count(given, _sources):
    if any(find_misapplied(parse_read({"path": "/data", **given}), READING, Use.COUNT)):
        raise OptionError("left to tasks")


def compact(given, _sources):
    check_in_place(given, Use.COMPACTION)


def change(given, _sources):
    check_in_place(given, Use.CHANGE)


def write(given, _sources):
    parse_write({"path": "/data", **given})


def write_stream(given, _sources):
    check_streamed(parse_write({"path": "/data", **given}))


USES = {
    Use.BATCH: read,
    Use.HEADERS: read_headers,
    Use.SERVER: read_server,
    Use.DIRECTORY: stream_directory,
    Use.TABLE: stream_table,
    Use.TAIL: stream_tail,
    Use.COUNT: count,
    Use.COMPACTION: compact,
    Use.CHANGE: change,
    Use.JOB: write,
    Use.QUERY: write_stream,
}


def test_every_use_is_tried():
    assert set(Use) == set(USES)


OPTIONS = {}
for option in (*READING, *STREAMING, *WRITING):
    if option.name not in ("path", "paths"):  # come with each use
        OPTIONS[option.name] = OPTIONS.get(option.name, Use(0)) | option.applies
EXAMPLES = {option.name: option.example for option in (*READING, *STREAMING, *WRITING)}


@pytest.mark.one_in(4, "exhaustive")
@pytest.mark.parametrize("use", list(Use), ids=lambda use: use.name)
@pytest.mark.parametrize("name", OPTIONS)
def test_an_option_is_taken_where_it_applies(name, use, sources):
    given = {name.replace("*", "key"): EXAMPLES[name]}
    if use in (Use.COMPACTION, Use.CHANGE):
        given = dict(list(given.items())[:1])
    taken = True
    try:
        USES[use](given, sources)
    except OptionError:
        taken = False
    assert taken is (use in OPTIONS[name])
