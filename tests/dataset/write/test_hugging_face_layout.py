"""The JSON files of HuggingFace's layout: at every step of a commit they name the old files or the new ones, all there."""

import json
import uuid
from contextlib import contextmanager
from unittest import mock

import pytest
from commit_jobs import APPEND, DYNAMIC, OVERWRITE, REWRITE, Died, dying, interrupted, planned, save, table
from job_plans import plan_job
from memory_storage import MemoryStorage

from spark_arrow_ipc import ipc
from spark_arrow_ipc.dataset.listing.hive import discover
from spark_arrow_ipc.dataset.listing.hugging_face import LAYOUT
from spark_arrow_ipc.dataset.listing.table_version import Version
from spark_arrow_ipc.dataset.listing.tree import list_tree
from spark_arrow_ipc.dataset.write import IfExists
from spark_arrow_ipc.dataset.write.commit import commit
from spark_arrow_ipc.dataset.write.staged_file import WrittenFile
from spark_arrow_ipc.dataset.write.task import TaskOutput
from spark_arrow_ipc.errors import CommitError, ConcurrentWriteError, NoFilesError, UnsupportedError
from spark_arrow_ipc.storage.local import LocalStorage
from spark_arrow_ipc.table.checkpoint import decode_checkpoint, encode_checkpoint
from spark_arrow_ipc.table.copy import copy_table
from spark_arrow_ipc.table.fsck import check_table
from spark_arrow_ipc.table.log import read_state
from spark_arrow_ipc.table.repair import renew_id
from spark_arrow_ipc.table.restore import restore
from spark_arrow_ipc.table.vacuum import vacuum

pa = pytest.importorskip("pyarrow")


def note(names):
    return {"label": {"names": names, "_type": "ClassLabel"}}


def stream(names, *values):
    """Return the bytes of a stream with the features of a ClassLabel."""
    pair = {"huggingface": json.dumps({"info": {"features": note(names)}})}
    batch = pa.record_batch({"label": pa.array(values, pa.int64())})
    sink = pa.BufferOutputStream()
    with pa.ipc.new_stream(sink, batch.schema.with_metadata(pair)) as writer:
        writer.write_batch(batch)
    return sink.getvalue().to_pybytes()


def stage(plan, data, number):
    name = f"{uuid.uuid4().hex}.staged"
    plan.staging.storage.put(plan.staging.file(name), data)
    return WrittenFile(name, "", number, ".arrows", len(data), 1, 0, {})


@contextmanager
def at_put(document, act, *, before=False):
    """Do something once, before or after a process puts one of the JSON files."""
    real, done = LocalStorage.put, []

    def put(storage, path, data, **options):
        is_it = path.endswith(f"/{document}") and not done
        done.extend([path] * is_it)
        if is_it and before:
            act()
        real(storage, path, data, **options)
        if is_it and not before:
            act()

    with mock.patch.object(LocalStorage, "put", put):
        yield
    assert done


def die():
    raise Died


@contextmanager
def dying_at(point):
    """Let what runs inside die at a failpoint, or before or after the put of a JSON file."""
    word, _, document = point.partition(" ")
    if word not in ("before", "after"):
        with dying(point):
            yield
        return
    with pytest.raises(Died), at_put(document, die, before=word == "before"):
        yield


def names_in(root):
    return sorted(path.name for path in root.iterdir() if not path.name.startswith("_"))


def write(path, names, *files, mode=OVERWRITE, between=lambda: None, **options):
    """Write a file for each tuple of values, as a job of the layout."""
    plan = plan_job(str(path), mode, **{"layout": LAYOUT, **options})
    made = [stage(plan, stream(names, *values), i) for i, values in enumerate(files)]
    between()
    outputs = [TaskOutput(plan.staging.jobid, (file,)) for file in made]
    return commit(plan, outputs, write_empty=lambda: stage(plan, stream(names), 0))


def library(root):
    """Return what `load_from_disk` opens: rows and features; None where it opens nothing. It knows the JSON files alone."""
    if not (root / "state.json").is_file() or not (root / "dataset_info.json").is_file():
        return None
    state, info = (json.loads((root / name).read_text()) for name in ("state.json", "dataset_info.json"))
    tables = [pa.ipc.open_stream((root / one["filename"]).read_bytes()).read_all() for one in state["_data_files"]]
    assert 1 == len({table.schema for table in tables})
    in_files = json.loads(tables[0].schema.metadata[b"huggingface"])["info"]["features"]
    assert info.get("features") in (None, in_files)
    return pa.concat_tables(tables)["label"].to_pylist(), in_files["label"]["names"]


def reader(root):
    """Return what our reader sees; None where there is nothing."""
    rows, names = [], []
    try:
        files = discover(list_tree([str(root)], hugging_face=True)).files
    except NoFilesError:
        return None
    for file in files:
        with ipc.open(file.open()) as opened:
            rows += [row["label"] for batch in opened for row in batch.to_pylist()]
            names = json.loads(dict(opened.schema.custom_metadata)["huggingface"])["info"]["features"]["label"]["names"]
    return rows, names


def nothing(_root):
    return None


def ours(root):
    write(root, ["a", "b"], (1, 2), (3,))
    return [1, 2, 3], ["a", "b"]


def theirs(root):
    """Make what `save_to_disk` of datasets 5.2 writes."""
    root.mkdir(exist_ok=True)
    (root / "data-00000-of-00001.arrow").write_bytes(stream(["a", "b"], 1, 2))
    (root / "cache-1.arrow").write_bytes(stream(["c"], 9))
    about = {"citation": "we", "description": "", "features": note(["a", "b"]), "homepage": "", "license": "MIT"}
    (root / "dataset_info.json").write_text(json.dumps(about))
    (root / "state.json").write_text(json.dumps({"_data_files": [{"filename": "data-00000-of-00001.arrow"}]}))
    return [1, 2], ["a", "b"]


NEW = [7, 8, 9], ["x", "y", "z"]
STEPS = [  # the point where the job dies, what our reader sees, what the library opens
    *((point, "old", "old") for point in ("planned.mark", "named.file", "named.all", "committed.asked")),
    ("committed.put", "new", "old"),
    ("before dataset_info.json", "new", "old"),
    ("after dataset_info.json", "new", "old"),
    ("before state.json", "new", "old"),
    ("after state.json", "new", "new"),
    *((point, "new", "new") for point in ("collected.removed", "collected.files", "collected.mark")),
]  # fmt: skip


def vacuum_now(root):
    vacuum(table(root), older_than=0)


def next_job(root):
    """A job that another process begins, and that changes nothing: it collects what the one before has left."""
    write(root, NEW[1], (7, 8), (9,))


@pytest.mark.slow
@pytest.mark.parametrize("before", [nothing, ours, theirs], ids=lambda make: make.__name__)
@pytest.mark.parametrize(("point", "own", "of_library"), STEPS, ids=str)
def test_a_job_that_dies_leaves_the_old_rows_or_the_new_ones(tmp_path, before, point, own, of_library):
    root = tmp_path / "data"
    old = before(root)
    if before is nothing and point == "collected.removed":
        return
    with dying_at(point):
        write(root, NEW[1], (7, 8), (9,))
    states = {"old": old, "new": NEW}
    assert states[of_library] == library(root)
    assert states[own] == reader(root)
    vacuum_now(root)
    assert states[own] == library(root) == reader(root)
    assert not (root / "_ipc_stage").exists()
    write(root, ["m"], (0,))
    assert ([0], ["m"]) == library(root) == reader(root)
    assert 3 == len(names_in(root)), "a file, and the two of JSON"


@pytest.mark.parametrize("point", ["committed.put", "after dataset_info.json", "before state.json"])
def test_the_next_job_names_its_files_after_one_that_died(tmp_path, point):
    ours(tmp_path)
    with dying_at(point):
        write(tmp_path, ["dead"], (5,))
    next_job(tmp_path)
    assert NEW == library(tmp_path) == reader(tmp_path)


def test_what_was_there_is_removed_and_what_it_says_of_itself_stays(tmp_path):
    theirs(tmp_path)
    write(tmp_path, NEW[1], (7, 8), (9,))
    info = json.loads((tmp_path / "dataset_info.json").read_text())
    assert {"citation": "we", "description": "", "homepage": "", "license": "MIT"} == info
    names = [one["filename"] for one in json.loads((tmp_path / "state.json").read_text())["_data_files"]]
    assert sorted(path.name for path in tmp_path.glob("part-*")) == names
    assert sorted(["dataset_info.json", "state.json", *names]) == names_in(tmp_path)
    assert [] == [finding for finding in check_table(table(tmp_path)).findings if "other programs" in finding.what]


def test_a_job_without_rows_has_a_file_for_its_schema(tmp_path):
    write(tmp_path, ["a"])
    assert ([], ["a"]) == library(tmp_path) == reader(tmp_path)


@pytest.mark.slow
@pytest.mark.parametrize("point", ["committed.put", "dataset_info.json", "state.json"])
@pytest.mark.parametrize("layout", [LAYOUT, ""], ids=["the layout", "plain"])
def test_a_process_that_comes_late_does_not_bring_an_old_state_back(tmp_path, point, layout):
    ours(tmp_path)

    def others():
        vacuum_now(tmp_path)
        write(tmp_path, ["later"], (5,), layout=layout)

    with interrupted(point, others) if "." in point and "json" not in point else at_put(point, others, before=True):
        write(tmp_path, NEW[1], (7, 8), (9,))
    assert ([5], ["later"]) == reader(tmp_path)
    assert (([5], ["later"]) if layout else None) == library(tmp_path)
    assert (3 if layout else 1) == len(names_in(tmp_path))
    vacuum_now(tmp_path)
    assert (([5], ["later"]) if layout else None) == library(tmp_path)


def test_a_plain_overwrite_leaves_no_json(tmp_path):
    ours(tmp_path)
    write(tmp_path, ["p"], (4,), layout="")
    assert library(tmp_path) is None
    assert 1 == len(names_in(tmp_path))
    assert ([4], ["p"]) == reader(tmp_path)


@pytest.mark.parametrize("vacuums", [False, True])
def test_json_that_was_removed_may_come_back_with_the_same_bytes(tmp_path, vacuums):
    ours(tmp_path)
    write(tmp_path, ["p"], (4,), layout="")
    if vacuums:
        vacuum_now(tmp_path)
    write(tmp_path, NEW[1], (7, 8), (9,))
    for _ in range(2):
        assert NEW == library(tmp_path) == reader(tmp_path)
        vacuum_now(tmp_path)
    write(tmp_path, ["p"], (4,), layout="")
    assert 1 == len(names_in(tmp_path))


def test_what_the_library_writes_into_the_directory_since_counts_for_both(tmp_path):
    ours(tmp_path)
    saved = theirs(tmp_path)
    assert saved == library(tmp_path) == reader(tmp_path)
    vacuum_now(tmp_path)
    assert saved == library(tmp_path) == reader(tmp_path)
    write(tmp_path, NEW[1], (7, 8), (9,))
    assert NEW == library(tmp_path) == reader(tmp_path)


@pytest.mark.parametrize("name", ["state.json", "dataset_info.json"])
def test_a_lost_json_file_is_written_by_vacuum(tmp_path, name):
    rows = ours(tmp_path)
    (tmp_path / name).unlink()
    assert rows == reader(tmp_path)
    vacuum_now(tmp_path)
    assert rows == library(tmp_path)


def test_a_restore_and_another_id_name_the_files_too(tmp_path):
    rows = ours(tmp_path)
    write(tmp_path, NEW[1], (7, 8), (9,), retention=3600)
    restore(table(tmp_path), 1)
    assert rows == library(tmp_path) == reader(tmp_path)
    write(tmp_path, ["p"], (4,), layout="")
    assert library(tmp_path) is None
    restore(table(tmp_path), 2)
    assert NEW == library(tmp_path) == reader(tmp_path)
    renew_id(table(tmp_path))
    vacuum_now(tmp_path)
    assert NEW == library(tmp_path) == reader(tmp_path)


def test_an_older_version_is_read_although_the_json_files_are_in_no_entry(tmp_path):
    for values in ((1, 2), (3,)):
        write(tmp_path, ["p"], values, retention=3600)
    files = list_tree([str(tmp_path)], version=Version(1)).files(nested=True)
    tables = [pa.ipc.open_stream(file.open().read_at(0, file.nbytes)).read_all() for file in files]
    assert [[1, 2]] == [rows["label"].to_pylist() for rows in tables]


def test_the_log_says_the_layout_before_the_files_of_json_are_there(tmp_path):
    with dying("committed.put"):
        write(tmp_path, *NEW[1:], (7, 8, 9), mode=APPEND, if_exists=IfExists.ERROR)
    state = read_state(table(tmp_path))
    assert LAYOUT == state.layout == decode_checkpoint(encode_checkpoint(state), state.table, 1).layout
    with pytest.raises(UnsupportedError, match="others beside them would not be"):
        planned(tmp_path, APPEND, "a")
    assert NEW == reader(tmp_path)


@pytest.mark.parametrize("before", [ours, theirs], ids=lambda make: make.__name__)
@pytest.mark.parametrize("mode", [APPEND, DYNAMIC, REWRITE], ids=lambda mode: mode.value)
def test_a_job_that_keeps_files_is_refused(tmp_path, before, mode):
    old = before(tmp_path)
    with pytest.raises(UnsupportedError, match=r"dataset_info\.json.*Nothing is written"):
        planned(tmp_path, mode, "a")
    assert old == library(tmp_path)


def test_a_job_that_was_planned_before_is_refused_too(tmp_path):
    plan, outputs = planned(tmp_path, APPEND, "a")
    ours(tmp_path)
    with pytest.raises(UnsupportedError, match="others beside them would not be"):
        commit(plan, outputs, write_empty=None)


def test_files_that_others_add_meanwhile_are_a_conflict(tmp_path):
    with pytest.raises(ConcurrentWriteError, match="another writer changed the directory"):
        write(tmp_path, ["a"], (1,), between=lambda: save(tmp_path, APPEND, "other"))
    assert library(tmp_path) is None


def test_a_new_directory_is_made_once(tmp_path):
    write(tmp_path, ["a"], (1,), mode=APPEND, if_exists=IfExists.ERROR)
    with pytest.raises(CommitError, match="ifExists is error"):
        write(tmp_path, ["a"], (2,), mode=APPEND, if_exists=IfExists.ERROR)
    write(tmp_path, ["a"], mode=APPEND, if_exists=IfExists.IGNORE)
    assert ([1], ["a"]) == library(tmp_path)


@pytest.mark.parametrize("pair", ["other", "none", "broken"])
def test_features_that_only_the_json_has_cannot_be_replaced_in_one_step(tmp_path, pair):
    theirs(tmp_path)
    data = tmp_path / "data-00000-of-00001.arrow"
    if pair == "other":
        data.write_bytes(stream(["other"], 1))
    elif pair == "none":
        plain = pa.record_batch({"label": [1]})
        with pa.OSFile(str(data), "wb") as file, pa.ipc.new_stream(file, plain.schema) as writer:
            writer.write_batch(plain)
    else:
        data.write_bytes(b"no arrow")
    with pytest.raises(UnsupportedError, match=r"features in dataset_info\.json are not those that its files note"):
        write(tmp_path, NEW[1], (7,))


@pytest.mark.parametrize("name", ["state.json", "dataset_info.json"])
def test_a_directory_in_the_place_of_a_file_is_refused(tmp_path, name):
    """The job ended as if it were done, and `datasets` opened nothing."""
    (tmp_path / name).mkdir()
    (tmp_path / name / "file").write_bytes(b"")
    with pytest.raises(UnsupportedError, match=rf"{name} is a directory here"):
        write(tmp_path, NEW[1], (7,))
    assert [name] == [path.name for path in tmp_path.iterdir()]


@pytest.mark.parametrize("name", ["state.json", "dataset_info.json"])
def test_json_that_nobody_can_read_is_replaced(tmp_path, name):
    theirs(tmp_path)
    (tmp_path / name).write_text("{")
    write(tmp_path, NEW[1], (7, 8, 9))
    assert NEW == library(tmp_path)


@pytest.mark.parametrize("storage", [MemoryStorage(renames=False)], ids=["a storage that copies"])
def test_a_storage_that_copies_is_refused(storage):
    with pytest.raises(UnsupportedError, match="needs a file system that replaces a file by renaming"):
        plan_job("memory:/data", OVERWRITE, storage=storage, layout=LAYOUT)


def test_a_copy_is_refused_as_it_has_other_names(tmp_path):
    ours(tmp_path / "data")
    with pytest.raises(UnsupportedError, match=r"state\.json names the files"):
        copy_table(table(tmp_path / "data"), table(tmp_path / "copy"))
