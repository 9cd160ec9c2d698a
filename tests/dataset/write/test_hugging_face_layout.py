"""The JSON files of HuggingFace's layout: at every step of a commit they name the old files or the new ones, all there."""

import json
import uuid

import pytest
from commit_jobs import APPEND, DYNAMIC, OVERWRITE, REWRITE, dying, interrupted, leftovers, planned, save
from job_plans import plan_job
from memory_storage import MemoryStorage

from spark_arrow_ipc import ipc
from spark_arrow_ipc.dataset.commit_log.dataset_directory import DatasetDirectory, StagedFile
from spark_arrow_ipc.dataset.commit_log.log import newest_record
from spark_arrow_ipc.dataset.commit_log.record import Record
from spark_arrow_ipc.dataset.listing.hive import discover
from spark_arrow_ipc.dataset.listing.tree import list_tree
from spark_arrow_ipc.dataset.write import IfExists
from spark_arrow_ipc.dataset.write.commit import commit
from spark_arrow_ipc.dataset.write.copy import copy_dataset
from spark_arrow_ipc.dataset.write.fsck import fsck
from spark_arrow_ipc.dataset.write.hugging_face_layout import HuggingFaceLayout
from spark_arrow_ipc.dataset.write.task import TaskOutput
from spark_arrow_ipc.dataset.write.vacuum import give_up, vacuum
from spark_arrow_ipc.errors import CommitError, ConcurrentWriteError, NoFilesError, UnsupportedError
from spark_arrow_ipc.storage.local import LOCAL

pa = pytest.importorskip("pyarrow")

LAYOUT = HuggingFaceLayout()


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
    attempt = uuid.uuid4().hex
    with plan.staging.storage.create(plan.staging.path(f"{attempt}.staged")) as file:
        file.write(data)
    return StagedFile(f"{attempt}.staged", f"part-{number:05d}-{attempt}.arrows", len(data), 1, 0)


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
STEPS = [  # point, its passage, what our reader sees, what the library opens
    *((point, 1, "old", "old") for point in ("P0.begin", "P0.snapshot", "P0.staging", "C1.checked", "C2.synced", "C3.checked", "C3.written")),
    *((point, 1, "new", "old") for point in ("C3.linked", "C3.synced", "C4.directories", "C4.renamed")),
    ("C4.renamed", 2, "new", "old"),
    ("C4.synced", 1, "new", "old"),
    ("C4.renamed", 3, "new", "old"),  # dataset_info.json
    ("C4.renamed", 4, "new", "new"),  # state.json
    *((point, 1, "new", "new") for point in ("C5.unlinked", "C5.synced", "C6.success", "C6.done", "C6.pruned", "C6.cleaned")),
]  # fmt: skip


@pytest.mark.slow
@pytest.mark.parametrize("before", [nothing, ours, theirs], ids=lambda make: make.__name__)
@pytest.mark.parametrize(("point", "passage", "own", "of_library"), STEPS, ids=str)
def test_a_job_that_dies_leaves_the_old_rows_or_the_new_ones(tmp_path, before, point, passage, own, of_library):
    root = tmp_path / "data"
    old = before(root)
    if before is nothing and point.startswith("C5"):
        return
    with dying(point, passage):
        write(root, NEW[1], (7, 8), (9,))
    states = {"old": old, "new": NEW}
    assert states[of_library] == library(root)
    assert states[own] == reader(root)
    if not (root / "_ipc_stage").exists() and not (root / "_ipc_commits").exists():
        return
    vacuum(str(root), older_than_seconds=0)
    assert states[own] == library(root) == reader(root)
    assert {"dataset_info.json", "state.json"} >= {*leftovers(root)} - {"cache-1.arrow", "data-00000-of-00001.arrow"}
    write(root, ["m"], (0,))
    assert ([0], ["m"]) == library(root) == reader(root)


def test_what_stood_there_is_removed_and_what_it_says_of_itself_stays(tmp_path):
    theirs(tmp_path)
    write(tmp_path, NEW[1], (7, 8), (9,))
    info = json.loads((tmp_path / "dataset_info.json").read_text())
    assert {"citation": "we", "description": "", "homepage": "", "license": "MIT"} == info
    assert ["dataset_info.json", "state.json"] == leftovers(tmp_path)
    names = [one["filename"] for one in json.loads((tmp_path / "state.json").read_text())["_data_files"]]
    assert sorted(path.name for path in tmp_path.glob("part-*")) == names
    assert [] == [finding for finding in fsck(str(tmp_path), LOCAL).findings if "other programs" in finding.what]


def test_a_job_without_rows_has_a_file_for_its_schema(tmp_path):
    write(tmp_path, ["a"])
    assert ([], ["a"]) == library(tmp_path) == reader(tmp_path)


@pytest.mark.slow
def test_a_process_that_comes_late_does_not_bring_an_old_state_back(tmp_path):
    ours(tmp_path)

    def others():
        vacuum(str(tmp_path))
        write(tmp_path, ["later"], (5,))

    for point in ("C4.synced", "C4.directories"):
        with interrupted(point, others):
            write(tmp_path, NEW[1], (7, 8), (9,))
        assert ([5], ["later"]) == library(tmp_path) == reader(tmp_path)


def test_a_plain_overwrite_leaves_no_json(tmp_path):
    ours(tmp_path)
    write(tmp_path, ["p"], (4,), layout=None)
    assert library(tmp_path) is None
    assert [] == leftovers(tmp_path)
    assert ([4], ["p"]) == reader(tmp_path)


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


@pytest.mark.slow
def test_a_pending_job_is_not_given_up_and_not_copied(tmp_path):
    root = tmp_path / "data"
    ours(root)
    with dying("C4.renamed", 3):
        write(root, NEW[1], (7, 8), (9,))
    record = newest_record(DatasetDirectory(LOCAL, str(root)))[1]
    with pytest.raises(CommitError, match=r"remove the directories _ipc_commits and _ipc_stage"):
        give_up(str(root), record.jobid)
    with pytest.raises(ConcurrentWriteError, match=r"not in place yet.*arrowipc vacuum"):
        copy_dataset(root, tmp_path / "copy", storage=LOCAL, target_storage=LOCAL)
    vacuum(str(root))
    copy_dataset(root, tmp_path / "copy", storage=LOCAL, target_storage=LOCAL)
    assert NEW == library(tmp_path / "copy") == library(root)


def test_a_record_says_which_files_get_such_names():
    documents = (StagedFile("a.staged", "dataset_info.json", 1, 0, 2), StagedFile("b.staged", "state.json", 3, 0, 4))
    record = Record(1, "0" * 32, "overwrite", documents=documents).after(None)
    assert record == Record.from_bytes(record.to_bytes())
    assert b"documents" not in Record(1, "0" * 32, "append").after(None).to_bytes()
    with pytest.raises(CommitError, match="not a relative path"):
        outside = (StagedFile("a.staged", "../state.json", 1, 0, 2),)
        Record.from_bytes(Record(1, "0" * 32, "overwrite", documents=outside).after(None).to_bytes())
