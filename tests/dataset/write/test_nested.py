"""A table inside of another one is refused, above and below, and a directory of a table is read as its log says."""

from contextlib import ExitStack, suppress
from unittest import mock

import pytest
from commit_jobs import APPEND, DYNAMIC, OVERWRITE, REWRITE, Died, dying, interrupted, stage
from job_plans import plan_job
from maintained_tables import content
from maintained_tables import ids as rows_in
from memory_storage import MemoryStorage
from places import PLACES, Place, local
from table_commits import begin

from spark_arrow_ipc.arrow.types import Field, int32
from spark_arrow_ipc.cli.main import main
from spark_arrow_ipc.dataset.listing.tree import list_tree
from spark_arrow_ipc.dataset.write import IfExists, job_plan, nested
from spark_arrow_ipc.dataset.write import commit as commit_module
from spark_arrow_ipc.dataset.write.commit import abort, commit
from spark_arrow_ipc.dataset.write.job_plan import CommitIntent, plan_batch
from spark_arrow_ipc.dataset.write.staged_file import Staging
from spark_arrow_ipc.dataset.write.task import TaskOutput
from spark_arrow_ipc.errors import CommitError, ConcurrentWriteError, NoFilesError
from spark_arrow_ipc.storage.paths import parent
from spark_arrow_ipc.table.entry import Batch
from spark_arrow_ipc.table.log import create_table, read_state
from spark_arrow_ipc.table.snapshot import list_data_files
from spark_arrow_ipc.table.state import State
from spark_arrow_ipc.table.vacuum import vacuum

KINDS = ["local", "s3", pytest.param("memory that copies", marks=pytest.mark.exhaustive),
         pytest.param("copying", marks=pytest.mark.exhaustive)]  # fmt: skip


@pytest.fixture(params=KINDS)
def lake(request, tmp_path):
    with PLACES[request.param](tmp_path) as (place, _):
        yield place


def inside(place, directory):
    return Place(place.storage, f"{place.root.rstrip('/')}/{directory}")


@pytest.fixture
def unminded():
    """Let jobs make tables inside of others, as a program does that copies one there."""
    with ExitStack() as stack:
        for module, name in (
            (job_plan, "check_none_above"),
            (job_plan, "check_none_below"),
            (commit_module, "check_alone"),
        ):
            stack.enter_context(mock.patch.object(module, name))
        yield stack


# Jobs inside of a table


def batch(place):
    staging = Staging(place.table, "b" * 32)
    plan_batch(staging, CommitIntent(APPEND, query=Batch("query", 1)))


def copy(place):
    source = Place(place.storage, f"{place.root.partition('source')[0]}another")
    save_rows(source, APPEND, {"": [1]})
    try:
        source.copied_to(place)
    finally:
        source.storage.delete_tree(source.root)


def save_rows(place, mode, partitions):
    """Write an Arrow file into each partition as one job."""
    plan = plan_job(place.root, mode, storage=place.storage)
    files = [stage(plan, content(*ids), directory) for directory, ids in partitions.items()]
    commit(plan, [TaskOutput(plan.staging.jobid, (file,)) for file in files], write_empty=None)


JOBS = {
    "append": lambda place: place.save(APPEND, "x"),
    "append with partitions": lambda place: place.save(APPEND, "i=1:x", partition_by=(Field("i", int32),)),
    "append beside others": lambda place: place.save(APPEND, "x", check_existing=lambda file: None, partition_by=()),
    "append with a token": lambda place: place.save(APPEND, "x", commit_token="token"),
    "ifExists=error": lambda place: place.save(APPEND, "x", if_exists=IfExists.ERROR),
    "ifExists=ignore": lambda place: place.save(APPEND, "x", if_exists=IfExists.IGNORE),
    "overwrite": lambda place: place.save(OVERWRITE, "x"),
    "dynamic": lambda place: place.save(DYNAMIC, "i=1:x"),
    "rewrite": lambda place: place.save(REWRITE, "x"),
    "batch of a stream": batch,
    "copy": copy,
}

PARTS = {
    # a directory of a table with k=1/j=1: what the error says of partitionBy
    "k=1": "with partitionBy=k;",
    "k=1/j=1": "with partitionBy=k,j;",
    "k=1/sub/j=7": "with partitionBy=k,j;",
    "k=9": "with partitionBy=k;",
    "sub/more": "source; or",
    "_ipc_stage/x": "source; or",
}


@pytest.mark.slow
@pytest.mark.one_in(4)
@pytest.mark.parametrize("job", JOBS)
def test_a_job_in_a_directory_of_a_table_is_refused_and_leaves_nothing(lake, job):
    lake.save(APPEND, "k=1/j=1:a", "k=2/j=1:b")
    before = lake.contents()
    for part, way in PARTS.items() if job in ("append", "overwrite") else [("k=9", "with partitionBy=k;")]:
        with pytest.raises(
            CommitError, match=f"inside of the table {lake.root}, .*: write to {lake.root}.*Nothing is"
        ) as error:
            JOBS[job](inside(lake, part))
        assert way in str(error.value).replace(lake.root, "source")
        assert before == lake.contents()


@pytest.mark.slow
@pytest.mark.one_in(4)
@pytest.mark.parametrize("directory", ["../source2", "../sourc", "../other/k=1", "_tables/x", ".cache/k=1/x"])
def test_a_directory_beside_a_table_or_hidden_in_it_is_not_inside(lake, directory):
    lake.save(APPEND, "k=1:a")
    root = lake.root if directory[0] != "." or directory[1] != "." else lake.root.rpartition("/")[0]
    other = Place(lake.storage, f"{root}/{directory.removeprefix('../')}")
    other.save(APPEND, "x")
    other.save(OVERWRITE, "k=1:y")
    assert ["k=1:y"] == other.ours()
    lake.save(APPEND, "k=2:b")
    lake.save(OVERWRITE, "k=3:c")
    assert ["k=3:c"] == lake.ours()
    assert ["k=1:y"] == other.ours()


class Slashes(MemoryStorage):
    """Paths without a scheme."""

    def resolve(self, path):
        return path


@pytest.mark.slow
@pytest.mark.parametrize("root", ["/", "a bucket"])
def test_the_root_of_a_storage_may_be_the_table(tmp_path, root):
    with PLACES["s3"](tmp_path) as (place, _):
        lake = Place(Slashes(), "/") if root == "/" else Place(place.storage, place.root.rpartition("/")[0])
        lake.save(APPEND, "k=1:a", "k=2:b")
        for directory in ("k=1", "k=1/more", "another"):
            with pytest.raises(CommitError, match=f"inside of the table {lake.root}, "):
                inside(lake, directory).save(OVERWRITE, "x")
        with dying("committed.put"):
            lake.save(OVERWRITE, "k=1:A")
        assert ["k=1:A"] == lake.ours()
        assert [f"{lake.root.rstrip('/')}/k=1"] == [*list_tree([lake.root], storage=lake.storage).leaves]
        assert ["A"] == inside(lake, "k=1").ours()
        lake.save(APPEND, "k=2:B")
        assert ["k=1:A", "k=2:B"] == lake.ours() == lake.plain()


# Jobs above a table


@pytest.mark.slow
@pytest.mark.one_in(4)
@pytest.mark.one_in(3)
@pytest.mark.parametrize(
    "job",
    [
        "append",
        "append beside others",
        "overwrite",
        "rewrite",
        "batch of a stream",
    ],
)
@pytest.mark.parametrize("part", ["k=1", "k=1/sub", "sub", "sub/more"])
def test_a_job_above_a_table_is_refused_and_changes_nothing(lake, job, part):
    lake.put("k=2/part-foreign", "b")
    lake.put("part-foreign", "c")
    inner = inside(lake, part)
    inner.save(APPEND, "a")
    if job == "batch of a stream":
        create_table(lake.table)  # by its tasks
    before = lake.contents()
    with pytest.raises(
        CommitError, match=f"the directory {inner.root} in it is a table of its own.*Nothing is"
    ) as error:
        JOBS[job](lake)
    assert before == lake.contents()
    for step in (f"run 'arrowipc vacuum {inner.root}'", f"remove {inner.root}/_ipc_log;"):
        assert step in str(error.value)
    vacuum(inner.table, older_than=0)
    inner.storage.delete_tree(f"{inner.root}/_ipc_log")
    lake.save(OVERWRITE, "k=1:x")
    assert "k=1:x" in lake.ours()
    assert f"{part}:a" not in lake.ours() or "=" not in part


@pytest.mark.slow
def test_a_first_job_that_was_withdrawn_makes_no_table(lake):
    abort(inside(lake, "k=1").planned(APPEND, "x")[0])
    assert any("k=1/_ipc_log/" in name for name in lake.names())
    lake.save(APPEND, "k=1:a")
    lake.save(OVERWRITE, "k=1:b", "k=2:c")
    with dying("committed.put"):
        lake.save(OVERWRITE, "k=1:d")
    assert ["k=1:d"] == lake.ours()
    assert ["d"] == inside(lake, "k=1").ours()


@pytest.mark.slow
@pytest.mark.parametrize("damaged", ["table", "entry"])
def test_a_table_whose_log_is_damaged_counts(lake, damaged):
    inner = inside(lake, "k=1")
    inner.save(APPEND, "a")
    path = inner.table.id_file if damaged == "table" else inner.table.entry(inner.state.table, 1)
    lake.storage.put(path, b"{")
    with pytest.raises(CommitError, match=r"k=1 in it is a table of its own"):
        lake.save(OVERWRITE, "k=1:x")
    with pytest.raises(CommitError, match=r"inside of the table .*k=1, "):
        inside(lake, "k=1/j=1").save(APPEND, "x")


# At the same time


@pytest.mark.slow
@pytest.mark.parametrize("mode", [APPEND, OVERWRITE, DYNAMIC], ids=lambda mode: mode.value)
@pytest.mark.parametrize("begins", ["above", "below"])
def test_a_table_that_begins_after_a_job_was_planned_stops_it_before_anything_is_removed(lake, mode, begins):
    lake.put("k=1/part-foreign", "old")
    inner = inside(lake, "k=1")
    job, other = (inner, lake) if begins == "above" else (lake, inner)
    plan, outputs = job.planned(mode, "k=1:x")
    with mock.patch.object(commit_module, "check_alone"):
        other.save(APPEND, "y")
    before = {name: data for name, data in lake.contents().items() if "_ipc_stage" not in name}
    with pytest.raises(CommitError, match=r"is a table|inside of the table"):
        commit(plan, outputs, write_empty=None)
    assert abort(plan)
    after = lake.contents()
    assert before == {name: after[name] for name in before}
    assert "k=1:old" in lake.ours()
    assert ["y"] == [text.rpartition(":")[2] for text in lake.ours() if not text.endswith("old")]


@pytest.mark.slow
@pytest.mark.one_in(4)
@pytest.mark.parametrize("first", ["above", "below"])
@pytest.mark.parametrize(
    ("point", "planned"),
    [
        *((point, "before") for point in ("named.file", "named.all", None)),
        *(
            (point, "then")
            for point in (
                "named.file",
                "named.all",
                "committed.asked",
                "committed.put",
                "collected.files",
                "collected.mark",
            )
        ),
    ],
)
def test_of_two_first_jobs_one_above_the_other_one_is_committed(lake, first, point, planned):
    """The second one is committed in the middle of the first one; both are planned before, or it is planned then."""
    inner = inside(lake, "k=1")
    places = (lake, inner) if first == "above" else (inner, lake)
    jobs = [place.planned(OVERWRITE, "x") for place in places[: 2 if planned == "before" else 1]]
    refused = []

    def commit_it(number):
        if number == len(jobs):
            try:
                jobs.append(places[1].planned(OVERWRITE, "x"))
            except CommitError as error:
                refused.append(str(error))
                return
        plan, outputs = jobs[number]
        try:
            commit(plan, outputs, write_empty=None)
        except CommitError as error:
            refused.append(str(error))
            abort(plan)

    with interrupted(point, lambda: commit_it(1)):
        commit_it(0)
    if point is None:
        commit_it(1)
    assert 1 == len(refused)
    assert "othing is" in refused[0]
    assert 1 == len(lake.ours())
    inner_won = inner.state is not None and inner.state.has_jobs
    JOBS["overwrite"](inner if inner_won else lake)
    assert 1 == len(lake.ours())


@pytest.mark.slow
def test_a_first_job_that_died_below_is_cleared_as_the_error_says(lake):
    inner = inside(lake, "k=1")
    inner.planned(APPEND, "dead")
    plan, outputs = lake.planned(OVERWRITE, "k=1:x")
    with pytest.raises(ConcurrentWriteError, match=f"vacuum --older-than 0 {inner.root}'"):
        commit(plan, outputs, write_empty=None)
    assert abort(plan)
    vacuum(inner.table, older_than=0)
    lake.save(OVERWRITE, "k=1:x")
    assert ["k=1:x"] == lake.ours() == plain(lake)


# Readers


STEPS = [
    "named.file",
    "named.all",
    "committed.asked",
    "committed.put",
    "collected.removed",
    "collected.files",
    "collected.mark",
]


@pytest.mark.slow
@pytest.mark.one_in(4)
@pytest.mark.parametrize("point", STEPS)
@pytest.mark.parametrize("mode", [OVERWRITE, DYNAMIC], ids=lambda mode: mode.value)
def test_a_directory_of_a_table_is_read_as_its_log_says(lake, mode, point):
    """While a job runs, and after it died."""
    lake.save(APPEND, "k=1:a", "k=1:b", "k=1/sub:c", "k=2:d")
    seen = []

    def look():
        parts = {
            part: [f"{part}:{text}" if ":" not in text else f"{part}/{text}" for text in found(inside(lake, part))]
            for part in ("k=1", "k=2", "k=3")
        }
        everything = lake.ours()
        seen.append(everything)
        for part, texts in parts.items():
            assert sorted(text for text in everything if text.startswith(part)) == sorted(texts)

    with interrupted(point, look), suppress(Died):
        lake.save(mode, "k=1:A", "k=3:B")
    assert seen, "the step was passed"
    lake.save(APPEND, "k=1:a", "k=1/sub:c")
    with dying(point):
        lake.save(mode, "k=1/sub:A", "k=3:C")
    look()


def plain(place):
    """What a reader sees that only lists."""
    names = [name for name in place.names() if not any(part.startswith("_") for part in name.split("/"))]
    return sorted(f"{parent(name)}:{place.read(f'{place.root}/{name}')}".lstrip(":") for name in names)


def found(place):
    try:
        return place.ours()
    except NoFilesError:
        return []


@pytest.mark.slow
def test_a_reader_of_a_directory_minds_that_the_one_above_becomes_a_table_meanwhile(lake):
    lake.put("k=1/part-a", "old")
    lake.put("k=1/part-b", "old")
    part = inside(lake, "k=1")
    real, done = type(lake.storage).list, []

    def listing(storage, directory):
        names = [*real(storage, directory)]
        if directory.endswith("k=1") and not done:
            done.append(1)
            with dying("collected.removed"):
                lake.save(OVERWRITE, "k=1:x")
        return iter(names)

    with mock.patch.object(type(lake.storage), "list", listing):
        assert ["x"] == part.ours()
    assert done


@pytest.mark.slow
def test_a_directory_of_a_table_is_copied_as_its_log_says(lake):
    save_rows(lake, APPEND, {"k=1": [1], "k=2": [2]})
    with dying("committed.put"):
        save_rows(lake, OVERWRITE, {"k=1": [3, 4], "k=3": [5]})
    target = Place(lake.storage, f"{lake.root}2")
    inside(lake, "k=1").copied_to(target)
    assert [3, 4] == rows_in(target.table)
    assert 1 == len(list_data_files(target.table))
    assert [3, 4, 5] == rows_in(lake.table)


# What programs that know no log have left


@pytest.mark.slow
@pytest.mark.one_in(4)
@pytest.mark.parametrize("dead", ["inner", "neither"])
def test_readers_see_both_tables_where_one_was_copied_into_the_other(lake, unminded, dead):
    lake.save(APPEND, "k=1:a", "k=2:b")
    inner = inside(lake, "k=1")
    inner.save(APPEND, "c")
    with dying("committed.put") if dead == "inner" else ExitStack():
        inner.save(APPEND, "d")
    for place in (inner, lake):
        assert ["a", "c", "d"] == inner.ours()
        assert ["k=1:a", "k=1:c", "k=1:d", "k=2:b"] == lake.ours() == plain(lake)
        vacuum(place.table, older_than=0)
    assert ["k=1:a", "k=1:c", "k=1:d", "k=2:b"] == lake.ours() == plain(lake)


@pytest.mark.slow
@pytest.mark.parametrize("job", ["overwrite", "dynamic", "rewrite"])
def test_jobs_of_both_are_refused_and_the_errors_say_what_to_do(lake, unminded, job):
    lake.save(APPEND, "k=1:a")
    inner = inside(lake, "k=1")
    with dying("committed.put"):
        inner.save(APPEND, "b")
    unminded.close()
    for place in (lake, inner):
        with pytest.raises(CommitError, match="know of each other"):
            JOBS[job](place)
    vacuum(inner.table, older_than=0)
    inner.storage.delete_tree(f"{inner.root}/_ipc_log")
    lake.save(OVERWRITE, "k=1:x")
    assert ["k=1:x"] == lake.ours() == plain(lake)


@pytest.mark.slow
def test_vacuum_of_a_directory_of_a_table_names_the_table(tmp_path, capsys):
    with local(tmp_path) as (lake, _):
        lake.save(APPEND, "k=1:a")
        assert main(["vacuum", f"{lake.root}/k=1"])
        assert f"a directory of the table {lake.root}, which has the log; give that one" in capsys.readouterr().err


# Links


@pytest.fixture
def linked(tmp_path):
    """A table, and links to it, to a partition of it, and in place of a partition."""
    with local(tmp_path) as (lake, elsewhere):
        lake.save(APPEND, "k=1:a", "k=2:b")
        elsewhere.put("part-x", "x")
        (tmp_path / "alias").symlink_to(lake.root)
        (tmp_path / "part").symlink_to(f"{lake.root}/k=1")
        (tmp_path / "source/k=3").symlink_to(elsewhere.root)
        (tmp_path / "chain").symlink_to(tmp_path / "part")
        yield lake, tmp_path


@pytest.mark.slow
@pytest.mark.parametrize("path", ["alias/k=1", "part", "part/j=1", "chain", "source/k=3", "alias/k=3"])
def test_a_job_in_a_table_is_refused_by_whatever_links(linked, path):
    lake, folder = linked
    with pytest.raises(CommitError, match=r"inside of the table .*(source|alias), "):
        Place(lake.storage, str(folder / path)).save(OVERWRITE, "x")
    assert {"a", "b"} == {text.rpartition(":")[2] for text in lake.ours()} - {"x"}


@pytest.mark.slow
def test_the_table_itself_may_be_named_by_a_link(linked):
    lake, folder = linked
    (folder / "source/k=3").unlink()
    alias = Place(lake.storage, str(folder / "alias"))
    alias.save(DYNAMIC, "k=1:A")
    with dying("committed.put"):
        alias.save(OVERWRITE, "k=1:B")
    assert ["k=1:B"] == alias.ours() == lake.ours()
    assert ["B"] == inside(alias, "k=1").ours()


@pytest.mark.slow
def test_a_link_into_a_table_is_read_as_the_log_says(linked):
    lake, folder = linked
    (folder / "source/k=3").unlink()
    part = Place(lake.storage, str(folder / "part"))
    assert ["a"] == part.ours()
    with dying("committed.put"):
        lake.save(OVERWRITE, "k=1:A")
    for path in ("part", "chain", "cha*"):
        files = list_tree([str(folder / path)]).all_files()
        assert ["A"] == [lake.read(file.path) for file in files]
    vacuum(lake.table, older_than=0)
    assert ["A"] == part.ours()


@pytest.mark.slow
@pytest.mark.parametrize("point", ["named.all", "committed.put", "collected.removed", None])
def test_a_link_into_a_table_shows_one_state_while_jobs_commit(linked, point):
    lake, folder = linked
    (folder / "source/k=3").unlink()
    real, done = type(lake.storage).list, []

    def listing(storage, directory):
        names = [*real(storage, directory)]
        if directory.endswith("part") and not done:
            done.append(1)
            with dying(point) if point else ExitStack():
                lake.save(OVERWRITE, "k=1:A", "k=1:B")
        return iter(names)

    with mock.patch.object(type(lake.storage), "list", listing):
        texts = [lake.read(file.path) for file in list_tree([str(folder / "part")]).all_files()]
        assert (["a"] if point == "named.all" else ["A", "B"]) == sorted(texts)
    assert done


@pytest.mark.slow
def test_a_directory_above_that_may_not_be_read_is_no_table(lake):
    real = type(lake.storage).list

    def denying(storage, directory):
        if not directory.startswith(lake.root):
            raise PermissionError(13, "denied", directory)
        return real(storage, directory)

    with mock.patch.object(type(lake.storage), "list", denying):
        assert nested.table_above(lake.table) is None
        nested.check_alone(lake.table, State("0123abcd"))


COPIED = {
    # where a table was copied to, what a job adds files to, and whether it is told
    "into the partition": ("k=1", "k=1", True),
    "above the partition": ("j=1", "j=1/k=1", True),
    "below another partition": ("k=2", "k=1", False),
}


@pytest.mark.parametrize(("at", "added", "is_told"), COPIED.values(), ids=COPIED)
def test_an_append_to_directories_that_are_a_table_is_refused(lake, unminded, at, added, is_told):
    lake.save(APPEND, f"{added}:a")
    inside(lake, at).save(APPEND, "b")
    words = f"the directory {lake.root}/{at} in it is a table of its own"
    with pytest.raises(CommitError, match=words) if is_told else ExitStack():
        begin(lake.table, f"{added}:c")
    assert 1 == read_state(lake.table).number


def test_an_append_to_a_directory_with_the_log_of_a_job_that_was_aborted_is_taken(lake, unminded):
    lake.save(APPEND, "k=1:a")
    create_table(inside(lake, "k=1").table)
    assert begin(lake.table, "k=1:b")
