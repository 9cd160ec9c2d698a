"""What a job's log entry says of the schema, by what is there when the entry is put."""

from contextlib import contextmanager

import pytest
from places import PLACES

from spark_arrow_ipc.arrow import types as t
from spark_arrow_ipc.arrow.schema import Schema
from spark_arrow_ipc.dataset.write import WriteMode
from spark_arrow_ipc.dataset.write.commit import abort, commit
from spark_arrow_ipc.dataset.write.conflicts import NewSchema
from spark_arrow_ipc.errors import CommitError, ConcurrentWriteError, SchemaMismatchError
from spark_arrow_ipc.storage import failpoint
from spark_arrow_ipc.table.encoded_schema import decode_schema

APPEND, OVERWRITE, DYNAMIC, REWRITE = list(WriteMode)[:4]


@pytest.fixture(params=["local", "copying"])
def place(request, tmp_path):
    with PLACES[request.param](tmp_path) as (made, _):
        yield made


def schema(names):
    return Schema(tuple(t.Field(name, t.int64) for name in names))


def columns(names, asked=None):
    """The new files have some columns, of one letter each; no file may have x beside others."""

    def beside(there, path):
        if asked is not None:
            asked.append("".join(there.names))
        if "x" in there.names:
            raise SchemaMismatchError("x does not fit", path=path)
        return schema([*names, *(name for name in there.names if name not in names)])

    return NewSchema(schema(names), schema([*names, "k"]), beside)


def save(place, names, mode=APPEND, texts=("a",), **options):
    job = place.planned(mode, *texts, **options)
    return commit(*job, write_empty=lambda: place.staged(job[0], 0, "").files[0], schema=columns(names))


def recorded(place):
    return "".join(decode_schema(place.state.schema, place.root).names)


@pytest.mark.slow
def test_columns_are_added_and_an_overwrite_begins_anew(place):
    found = []
    for names, mode in [
        ("a", APPEND),
        ("ab", APPEND),
        ("c", APPEND),
        ("d", OVERWRITE),
        ("ef", OVERWRITE),
        ("a", APPEND),
    ]:
        save(place, names, mode)
        found.append(recorded(place))
    assert ["a", "ab", "cab", "d", "ef", "aef"] == found


@contextmanager
def overtaken(place, *jobs):
    """Commit a job each time that another one is about to put its entry."""
    left = list(jobs)

    def hit(name):
        if name == "committed.asked" and left:
            names = left.pop(0)
            before, left[:] = list(left), []
            save(place, names)
            left[:] = before

    with pytest.MonkeyPatch.context() as patched:
        patched.setattr(failpoint, "hit", hit)
        yield


@pytest.mark.slow
@pytest.mark.parametrize("mode", [APPEND, REWRITE], ids=str)
def test_each_lost_race_is_a_new_look(place, mode):
    save(place, "a")
    job, asked = place.planned(mode, "late"), []
    with overtaken(place, "ab", "ac"):
        commit(*job, write_empty=None, schema=columns("a", asked))
    assert ["a", "ab", "acb"] == asked
    assert (4, "acb") == (place.state.number, recorded(place))


@pytest.mark.slow
def test_a_job_that_does_not_fit_any_more_is_refused(place):
    save(place, "a")
    job = place.planned(APPEND, "late")
    with overtaken(place, "x"), pytest.raises(ConcurrentWriteError, match="another writer was faster: x does not fit"):
        commit(*job, write_empty=None, schema=columns("ab"))
    assert (2, ["a", "a"]) == (place.state.number, place.ours())
    assert abort(job[0])
    assert ["a", "a"] == place.plain()


@pytest.mark.slow
def test_what_has_no_columns_of_its_own_leaves_them(place):
    save(place, "ab")
    save(place, "c", texts=())
    assert (2, "ab") == (place.state.number, recorded(place))
    assert abort(place.planned(APPEND, "b")[0])
    assert (3, "ab") == (place.state.number, recorded(place)), "the entry that expires the job"


@pytest.mark.slow
def test_a_file_without_rows_that_a_partitioned_job_replaces_counts_no_more(place):
    by = (t.Field("k", t.int64),)
    save(place, "ab", texts=(), partition_by=by)
    assert "abk" == recorded(place), "it lies in no partition"
    save(place, "c", texts=("k=1:1",), partition_by=by)
    assert ("c", ["k=1:1"]) == (recorded(place), place.plain())


def test_a_schema_that_is_too_large_is_refused_before_anything_is_published(place, monkeypatch):
    save(place, "a")
    monkeypatch.setattr("spark_arrow_ipc.table.encoded_schema.MAX_TEXT_NBYTES", 10)
    with pytest.raises(CommitError, match=r"the schema of 2 columns takes .* nothing is published"):
        save(place, "ab")
    assert (1, ["a"]) == (place.state.number, place.ours())
