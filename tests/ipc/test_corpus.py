"""Other people's files, all of them: decoded to the right values, or refused in our own words."""

from functools import cache
from zlib import crc32

import corpus
import pytest

if corpus.root() is None:
    pytest.skip(f"{corpus.VARIABLE} is not set", allow_module_level=True)

pytestmark = pytest.mark.filterwarnings(
    # One file of polars has a second stream, which pyarrow, the oracle, passes over.
    "ignore::spark_arrow_ipc.ipc.concatenated_streams.ConcatenatedStreamsWarning"
)


@cache
def outcomes():
    return {entry: corpus.check(entry) for entry in corpus.entries(corpus.root())}


EXPECTED = {
    "ok": {corpus.EQUAL_TO_JSON, corpus.EQUAL_TO_PYARROW, corpus.DECODED, corpus.JSON_READ},
    "error": {corpus.REFUSED},
    "either": {corpus.EITHER_DECODED, corpus.EITHER_REFUSED},
}


@pytest.mark.no_cover
def test_one_file_in_eight_does_as_the_manifest_says():
    """The others are slow."""
    outcomes = {
        entry: corpus.check(entry) for entry in corpus.entries(corpus.root()) if crc32(entry.name.encode()) % 8 == 0
    }
    assert len(outcomes) > 20
    assert {} == {entry.name: each.kind for entry, each in outcomes.items() if each.kind not in EXPECTED[entry.expect]}


@pytest.mark.exhaustive
@pytest.mark.no_cover
@pytest.mark.parametrize("expect", EXPECTED)
def test_files_do_as_the_manifest_says(expect):
    failed = {
        entry.name: f"{outcome.kind}: {outcome.reason}"
        for entry, outcome in outcomes().items()
        if entry.expect == expect and outcome.kind not in EXPECTED[expect]
    }
    assert failed == {}


def test_every_golden_has_its_json():
    """A golden that is only compared with pyarrow would not be compared with the truth."""
    missing = [
        entry.name
        for entry in corpus.entries(corpus.root())
        if "/integration/" in entry.name and entry.format != "json" and corpus.golden_json(entry) is None
    ]
    assert missing == []


@pytest.mark.exhaustive
def test_files_without_json_are_compared_with_pyarrow():
    """Decoding alone proves nothing."""
    pytest.importorskip("pyarrow")
    assert [entry.name for entry, outcome in outcomes().items() if outcome.kind == corpus.DECODED] == []


@pytest.mark.exhaustive
def test_what_readers_disagree_about_is_decoded_no_less_than_before():
    decoded = [entry.name for entry, outcome in outcomes().items() if outcome.kind.startswith(corpus.EITHER_DECODED)]
    assert len(decoded) >= 6, decoded


def test_the_manifest_names_every_kind_of_expectation():
    assert set(EXPECTED) == {entry.expect for entry in corpus.entries(corpus.root())}


@pytest.mark.exhaustive
def test_summary(capsys):
    """Prints the counts, so that a run says how much was compared."""
    lines = corpus.table(outcomes())
    with capsys.disabled():
        print("", *lines, sep="\n")
    assert lines
