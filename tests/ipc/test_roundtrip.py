"""What is written is read: every type, both formats, every codec, alignment and framing."""

import io
import json

import integration_json
import pytest
import strategies
from batch_difference import batch_difference
from hypothesis import given
from hypothesis import strategies as st

from spark_arrow_ipc import ipc
from spark_arrow_ipc.arrow import Array, Field, RecordBatch, Schema
from spark_arrow_ipc.arrow import types as t
from spark_arrow_ipc.arrow.python_values import from_pylist
from spark_arrow_ipc.errors import UnsupportedError

FORMATS = ("file", "stream")
OPTIONS = [
    *({"compression": codec, "alignment": alignment} for codec in (None, "lz4", "zstd") for alignment in (8, 64)),
    {"metadata_version": "V4"},
    {"metadata_version": "V4", "legacy_framing": True, "alignment": 8},
    {"legacy_framing": True, "compression": "zstd", "compression_level": 3},
]
WAYS = [
    pytest.param(ipc.WriteOptions(format=form, **options), id="-".join([form, *map(str, options.values())]))
    for form in FORMATS
    for options in OPTIONS
]


def written(batches, options, schema=None):
    sink = io.BytesIO()
    ipc.write(sink, batches, schema, options)
    return sink.getvalue()


def assert_same(expected, found):
    assert len(expected) == len(found)
    for ours, theirs in zip(expected, found, strict=True):
        theirs.validate(full=True)
        assert ours.schema.fields == theirs.schema.fields
        assert ours.custom_metadata == theirs.custom_metadata
        assert batch_difference(ours, theirs) is None


@pytest.mark.slow
@pytest.mark.one_in(8, "exhaustive")
@pytest.mark.parametrize("options", WAYS)
@given(made=strategies.batches(), cuts=st.lists(st.integers(0, 40), max_size=3))
def test_written_batches_are_read(options, made, cuts):
    (batch,) = made
    if options.metadata_version == "V4" and (
        batch.custom_metadata or any(strategies.holds(field.type, t.RunEndEncoded) for field in batch.schema.fields)
    ):
        return  # both are younger than V4
    portions = strategies.portions(batch, cuts)
    with ipc.open(written(portions, options)) as reader:
        assert options.format == reader.format
        assert batch.schema == reader.schema
        assert_same(portions, list(reader))


@pytest.mark.slow
@pytest.mark.one_in(8, "exhaustive")
@pytest.mark.parametrize("cls", [pytest.param(cls, id=cls.__name__) for cls in strategies.EVERY_CLASS])
@given(st.data(), st.sampled_from(FORMATS), st.sampled_from((None, "lz4", "zstd")))
def test_every_type_class_is_written_and_read(cls, data, form, codec):
    array = data.draw(strategies.arrays(strategies.types_of(cls)))
    batch = RecordBatch(Schema((Field("column", array.type),)), (array,), array.length)
    with ipc.open(written([batch], ipc.WriteOptions(format=form, compression=codec))) as reader:
        assert_same([batch], list(reader))


@pytest.mark.slow
@given(strategies.batches(count=3))
def test_stream_takes_batches_with_dictionaries_of_their_own(made):
    """Where a batch's dictionary continues the one before it is a delta, else it replaces it."""
    with ipc.open_stream(written(made, ipc.WriteOptions(format="stream"))) as reader:
        assert_same(made, list(reader))


def nested_dictionaries(order):
    """Return a batch of the values {d: a}, {d: b}: indices into structs whose field is dictionary-encoded itself."""
    words = from_pylist.array(order, t.utf8)
    indices = from_pylist.array([order.index("a"), order.index("b")], t.int8)
    inner = Array(t.dictionary(t.int8, t.utf8), 2, 0, indices.buffers, (), words)
    structs = Array(t.struct([("d", inner.type)]), 2, 0, (None,), (inner,))
    outer = Array(t.dictionary(t.int8, structs.type), 2, 0, from_pylist.array([0, 1], t.int8).buffers, (), structs)
    return RecordBatch(Schema((Field("column", outer.type),)), (outer,), 2)


def test_dictionary_is_written_anew_when_one_inside_it_is_replaced():
    """Its values are equal, but their indices are not; pyarrow looks them up in the inner dictionary then in force."""
    made = [nested_dictionaries(["a", "b"]), nested_dictionaries(["b", "a"])]
    content = written(made, ipc.WriteOptions(format="stream"))
    with ipc.open_stream(content) as reader:
        assert_same(made, list(reader))
    pa = pytest.importorskip("pyarrow")
    assert [batch.to_pylist() for batch in made] == [batch.to_pylist() for batch in pa.ipc.open_stream(content)]


@pytest.mark.slow
@given(strategies.batches(), st.sampled_from(FORMATS), st.sampled_from((None, "zstd")), st.data())
def test_projection_is_selection(made, form, codec, data):
    (batch,) = made
    chosen = data.draw(
        st.lists(st.integers(0, max(len(batch.columns) - 1, 0)), unique=True, max_size=len(batch.columns))
    )
    content = written([batch], ipc.WriteOptions(format=form, compression=codec))
    with ipc.open(content, columns=chosen) as reader:
        assert batch.select(chosen).schema == reader.schema
        assert_same([batch.select(chosen)], list(reader))


@pytest.mark.slow
@given(strategies.batches(), st.sampled_from(FORMATS))
def test_structural_validation_reads_sound_files_alike(made, form):
    with ipc.open(written(made, ipc.WriteOptions(format=form)), validation="structural") as reader:
        assert_same(made, list(reader))


@pytest.mark.slow
@given(strategies.batches(), strategies.generators)
def test_pipe_gives_what_memory_gives(made, rng):
    class Pipe:
        """Unseekable, and stingy."""

        def __init__(self, content):
            self.file = io.BytesIO(content)

        def read(self, nbytes):
            return self.file.read(min(nbytes, int(rng.integers(1, 100))))

    with ipc.open(Pipe(written(made, ipc.WriteOptions(format="stream")))) as reader:
        assert_same(made, list(reader))


@pytest.mark.slow
@given(strategies.batches(), st.sampled_from(FORMATS), st.sampled_from((None, "lz4", "zstd")))
def test_equal_batches_give_equal_bytes(made, form, codec):
    options = ipc.WriteOptions(format=form, compression=codec)
    content = written(made, options)
    assert content == written(made, options)
    with ipc.open(content) as reader:
        assert content == written(list(reader), options, reader.schema)


@pytest.mark.slow
@given(strategies.batches(), st.lists(st.integers(0, 40), max_size=3))
def test_integration_json_is_written_and_read(made, cuts):
    (batch,) = made
    portions = strategies.portions(batch, cuts)
    document = json.dumps(integration_json.to_json(batch.schema, portions))
    found = integration_json.read(json.loads(document))
    assert batch.schema.fields == found.schema.fields
    assert batch.schema.custom_metadata == found.schema.custom_metadata
    assert len(portions) == len(found.batches)
    for ours, theirs in zip(portions, found.batches, strict=True):
        assert batch_difference(ours, theirs) is None


@pytest.mark.slow
@given(strategies.batches(count=2))
def test_integration_json_refuses_only_replaced_dictionaries(made):
    try:
        document = integration_json.to_json(made[0].schema, made)
    except UnsupportedError as error:
        if "replaced" not in str(error):
            raise
        return
    for ours, theirs in zip(made, integration_json.read(document).batches, strict=True):
        assert batch_difference(ours, theirs) is None
