"""A stream read in parts is the stream; its index reads no body."""

import io
import pickle

import pytest

from spark_arrow_ipc import ipc
from spark_arrow_ipc.errors import InvalidArrowError, InvalidFramingError, LimitError, TruncatedError, UnsupportedError

pa = pytest.importorskip("pyarrow")

ROWS = 100


def written(batches, schema, *, deltas=False, kind="stream"):
    sink = io.BytesIO()
    make = pa.ipc.new_stream if kind == "stream" else pa.ipc.new_file
    with make(sink, schema, options=pa.ipc.IpcWriteOptions(emit_dictionary_deltas=deltas)) as writer:
        for batch in batches:
            writer.write_batch(batch)
    return sink.getvalue()


def plain():
    schema = pa.schema([("a", pa.int64()), ("s", pa.string())])
    rows = [[{"a": i, "s": f"text {i}"} for i in range(n * ROWS, (n + 1) * ROWS)] for n in range(9)]
    return written([pa.RecordBatch.from_pylist(part, schema) for part in rows], schema)


def dictionary_batches(words):
    """A batch for each list of words, encoded by those words."""
    arrays = [pa.DictionaryArray.from_arrays(pa.array(range(len(own)), pa.int32()), pa.array(own)) for own in words]
    return [pa.record_batch([array], ["d"]) for array in arrays]


REPLACED = [["a", "b"], ["a", "b"], ["c"], ["c"], ["d", "e", "f"], ["a"]]
GROWN = [["a"], ["a", "b"], ["a", "b"], ["a", "b", "c"], ["x"], ["x", "y"], ["x", "y", "z"]]


def nested():
    """Dictionaries whose values are encoded themselves; the inner one is replaced between the batches."""

    def batch(words):
        inner = pa.DictionaryArray.from_arrays(pa.array(range(len(words)), pa.int8()), pa.array(words))
        outer = pa.DictionaryArray.from_arrays(
            pa.array([0, 1, 0], pa.int8()), pa.StructArray.from_arrays([inner], ["word"])
        )
        return pa.record_batch([outer], ["d"])

    batches = [batch(["a", "b"]), batch(["c", "d"]), batch(["e", "f"])]
    return written(batches, batches[0].schema)


STREAMS = [
    ("no dictionaries", plain()),
    ("replaced dictionaries", written(found := dictionary_batches(REPLACED), found[0].schema)),
    ("deltas", written(found := dictionary_batches(GROWN), found[0].schema, deltas=True)),
    ("nested dictionaries", nested()),
]


@pytest.mark.parametrize("data", [case[1] for case in STREAMS], ids=[case[0] for case in STREAMS])
def test_reading_from_any_batch_gives_the_rest(data):
    expected = [batch.to_pylist() for batch in pa.ipc.open_stream(data)]
    with ipc.open(data) as reader:
        index = reader.index()
    assert [len(rows) for rows in expected] == [batch.rows for batch in index.batches]
    for number in range(len(expected)):
        start = pickle.loads(pickle.dumps(index.start(number)))
        assert sum(map(len, expected[:number])) == start.rows_before
        with ipc.open(data) as reader:
            reader.start_at(start)
            assert expected[number:] == [batch.to_pylist() for batch in reader]


def test_only_dictionaries_in_force_are_replayed():
    data = written(found := dictionary_batches(GROWN), found[0].schema, deltas=True)
    with ipc.open(data) as reader:
        index = reader.index()
    # 0: a, 1: b, 2: c as deltas; 3: x replaces; 4: y, 5: z as deltas.
    assert [False, True, True, False, True, True] == [dictionary.is_delta for dictionary in index.dictionaries]
    expected = [[0], [0, 1], [0, 1], [0, 1, 2], [3], [3, 4], [3, 4, 5]]
    assert expected == [[number for number, _ in index.start(i).dictionaries] for i in range(len(GROWN))]


@pytest.mark.parametrize("data", [case[1] for case in STREAMS], ids=[case[0] for case in STREAMS])
def test_an_index_goes_on_where_the_stream_was_cut(data):
    with ipc.open(data) as reader:
        whole, schema_end = reader.index(), reader.index().batches[0].block.byte_offset
    index = None
    for end in [*range(schema_end, len(data), 101), len(data)]:
        with ipc.open(data[:end]) as reader:
            index = reader.index(keeps_broken=True, after=index)
        assert index.broken is None or isinstance(index.broken, TruncatedError)
    assert whole == index


@pytest.mark.parametrize("data", [case[1] for case in STREAMS], ids=[case[0] for case in STREAMS])
def test_what_lies_before_the_batches_to_read_is_forgotten(data):
    with ipc.open(data) as reader:
        whole = reader.index()
        for first in range(whole.num_batches + 1):
            walked, cut = reader.index(first_batch=first), whole.forget(first)
            assert cut == walked
            assert (whole.num_batches, whole.num_rows) == (walked.num_batches, walked.num_rows)
            assert len(whole.batches) - first == len(walked.batches)
            for number in range(first, whole.num_batches):
                assert whole.start(number) == walked.start(number) == walked.forget(number).start(number)
            for number in (first - 1, whole.num_batches):
                with pytest.raises(IndexError, match="not in the index"):
                    walked.start(number)


@pytest.mark.slow
def test_an_index_of_a_long_stream_stays_small_if_it_forgets():
    found = dictionary_batches([[f"word {i // 7}"] for i in range(9000)])
    data = written(found, found[0].schema)
    with ipc.open(data, limits=ipc.Limits(max_blocks=4200)) as reader:
        index = reader.index(first_batch=8999)
        assert (9000, 1, 1) == (index.num_batches, len(index.batches), len(index.dictionaries))
        reader.start_at(index.start(8999))
        assert ["word 1285"] == next(reader).to_pydict()["d"]


class Counting(io.BytesIO):
    """A file that counts what is read of it."""

    def __init__(self, data):
        super().__init__(data)
        self.nbytes = self.reads = 0

    def read(self, nbytes=-1):
        data = super().read(nbytes)
        self.nbytes += len(data)
        self.reads += 1
        return data


@pytest.mark.slow
def test_index_passes_bodies_by_with_one_read_a_message():
    table = pa.table({"a": range(1_000_000)})
    sink = io.BytesIO()
    with pa.ipc.new_stream(sink, table.schema) as writer:
        writer.write_table(table, max_chunksize=50_000)
    file = Counting(sink.getvalue())
    with ipc.open(file) as reader:
        file.nbytes = file.reads = 0
        assert 20 == len(reader.index().batches)
    assert file.reads <= 22
    assert file.nbytes <= 22 * (8 << 10)


def test_indexing_does_not_move_the_reader():
    with ipc.open(plain()) as reader:
        next(reader)
        assert 9 == len(reader.index().batches)
        assert ROWS == next(reader).to_pydict()["a"][0]


def test_a_stream_that_cannot_seek_has_no_index():
    class Pipe:
        def __init__(self, data):
            self.read = io.BytesIO(data).read

    with ipc.open(Pipe(plain())) as reader:
        for walk in (reader.index, reader.read_headers):
            with pytest.raises(UnsupportedError, match="can seek"):
                walk()


def test_an_index_has_a_budget_and_headers_one_by_one_need_none():
    with ipc.open(plain(), limits=ipc.Limits(max_blocks=9)) as reader:
        assert reader.index().batches == tuple(reader.read_headers())
    with ipc.open(plain(), limits=ipc.Limits(max_blocks=8)) as reader:
        with pytest.raises(LimitError, match="max_blocks"):
            reader.index()
        assert [ROWS] * 9 == [batch.rows for batch in reader.read_headers()]
        assert 9 == len(list(reader))


@pytest.mark.slow
def test_every_cut_is_said_as_reading_says_it():
    """The walk knows framing as well as the reader: the same class, message number and offset."""
    data = plain()
    for end in range(len(data) - 1, 400, -97):
        with ipc.open(data[:end]) as reader:
            try:
                list(reader)
                read = None
            except InvalidArrowError as error:
                read = error
        with ipc.open(data[:end]) as reader:
            index = reader.index(keeps_broken=True)
        if read is None:
            assert index.broken is None
            continue
        assert isinstance(index.broken, InvalidFramingError)
        assert read.byte_offset is not None
        with ipc.open(data[:end]) as reader, pytest.raises(InvalidFramingError):
            reader.index()
        assert index.end_offset <= end


def test_what_the_index_did_not_see_is_an_error():
    data = written(found := dictionary_batches(REPLACED), found[0].schema)
    with ipc.open(data) as reader:
        start = reader.index().start(3)
    with ipc.open(plain()) as reader, pytest.raises(InvalidArrowError):
        reader.start_at(start)
        next(reader)
