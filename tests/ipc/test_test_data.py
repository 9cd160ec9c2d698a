"""The files of tests/data: read to the values that pyarrow put in, or refused; and still what make_data writes."""

import csv
import gzip
import struct
from pathlib import Path

import corpus
import integration_json
import pytest

from spark_arrow_ipc import ipc
from spark_arrow_ipc.errors import ArrowIpcError, InvalidArrowError

DATA = Path(__file__).parents[1] / "data"

with (DATA / "MANIFEST.tsv").open(encoding="utf-8", newline="") as lines:
    ROWS = list(csv.DictReader(lines, delimiter="\t"))

SOUND = [row for row in ROWS if row["expect"] == "ok"]
BROKEN = [row for row in ROWS if row["expect"] == "error"]


def by_path(row):
    return row["path"]


def assert_equal(expected, schema, batches):
    assert expected.schema.fields == schema.fields
    assert expected.schema.custom_metadata == schema.custom_metadata
    assert corpus.difference(expected.schema, expected.batches, schema, batches) is None


@pytest.mark.parametrize("row", SOUND, ids=by_path)
def test_sound_file_has_the_values_that_pyarrow_wrote(row):
    with ipc.open(DATA / row["path"]) as reader:
        assert row["format"] == reader.format
        assert_equal(integration_json.read(DATA / row["contents"]), reader.schema, list(reader))


@pytest.mark.parametrize("row", SOUND, ids=by_path)
def test_sound_file_reads_the_same_from_memory(row):
    content = (DATA / row["path"]).read_bytes()
    with ipc.open(content, validation="structural") as reader:
        assert_equal(integration_json.read(DATA / row["contents"]), reader.schema, list(reader))


@pytest.mark.parametrize("row", BROKEN, ids=by_path)
def test_broken_file_is_refused_and_named(row):
    with pytest.raises(ArrowIpcError) as caught, ipc.open(DATA / row["path"]) as reader:
        list(reader)
    assert row["path"] in str(caught.value)


GUESSES = [
    ("text.arrow", "text"),
    ("parquet.arrow", "Parquet"),
    ("feather_v1.arrow", "Feather"),
    ("empty.arrow", "empty"),
]


@pytest.mark.parametrize(("name", "word"), GUESSES)
def test_foreign_file_is_called_by_its_name(name, word):
    with pytest.raises(InvalidArrowError, match=word):
        ipc.open(DATA / name)


def test_custom_metadata_of_messages_is_kept_in_both_formats():
    for name in ("metadata.arrow", "metadata.arrows"):
        with ipc.open(DATA / name) as reader:
            found = [batch.custom_metadata for batch in reader]
        assert [(("batch", "first"), ("x", "")), (("batch", "second"),)] == found


def test_custom_metadata_of_the_footer_is_kept():
    with ipc.open(DATA / "metadata.arrow") as reader:
        assert (("footer", "end"), ("f", "2")) == reader.custom_metadata


def test_every_file_is_listed_and_every_listed_file_is_there():
    listed = {row["path"] for row in ROWS} | {row["contents"] for row in SOUND}
    found = {path.name for path in DATA.iterdir()} - {"MANIFEST.tsv", "PYARROW_VERSION"}
    assert listed == found


def test_data_stays_small():
    assert sum(path.stat().st_size for path in DATA.iterdir()) < 200_000


def test_make_data_writes_these_bytes_with_this_pyarrow():
    """Whoever changes make_data runs it; other pyarrow versions may pad or order differently."""
    pyarrow = pytest.importorskip("pyarrow")
    written_by = (DATA / "PYARROW_VERSION").read_text().strip()
    if pyarrow.__version__ != written_by:
        pytest.skip(f"tests/data was written by pyarrow {written_by}")
    import make_data

    made = make_data.build()
    assert made.keys() == {path.name for path in DATA.iterdir()}
    compressed = [name for name in made if name.endswith(".gz")]
    for name in made.keys() - set(compressed):
        assert (DATA / name).read_bytes() == made[name], name
    for name in compressed:  # zlib's output is its own affair
        assert gzip.decompress((DATA / name).read_bytes()) == gzip.decompress(made[name]), name


def test_comparison_sees_a_single_changed_value():
    """The tests above are worth what the comparison is."""
    content = (DATA / "integers.arrow").read_bytes()
    expected = integration_json.read(DATA / "integers.json.gz")
    last_row, changed = (struct.pack("<3i", 2, 3, n) for n in (4, 5))
    with ipc.open(content.replace(last_row, changed)) as reader:
        found = corpus.difference(expected.schema, expected.batches, reader.schema, list(reader))
    assert found == "batch 1: no_nulls: slot 2 is 4 and 5"
