"""What every storage promises: one suite, run over each of them."""

import pickle
import threading
import uuid

import pytest
from fsspec_stub import SCHEME, FilledStorage
from hadoop_stub import filled
from memory_storage import MemoryStorage
from object_stores import SERVERS

from spark_arrow_ipc.errors import InvalidFramingError, LimitError, OptionError, UnsupportedError
from spark_arrow_ipc.storage.hadoop import HadoopStorage
from spark_arrow_ipc.storage.local import LOCAL
from spark_arrow_ipc.storage.object_store import ObjectStorage
from spark_arrow_ipc.storage.open import storage_of
from spark_arrow_ipc.storage.paths import join, name_of
from spark_arrow_ipc.storage.storage import Kind

ROOT = "memory:/data"


REAL = [pytest.param(name, marks=pytest.mark.exhaustive) for name in SERVERS if name != "memory"]
"""Servers of object stores; `memory` is ours here, and `objects` obstore's."""


WRITABLE = ["local", "memory", "objects", *REAL]


@pytest.fixture(params=WRITABLE)
def place(request, tmp_path, servers):
    """Return a storage and a directory of it that is there."""
    return made(request.param, tmp_path, servers)


@pytest.fixture(params=[*WRITABLE, "fsspec", "hadoop"])
def readable(request, tmp_path, servers):
    """Return a storage that may be read only, and a directory of it that is there."""
    return made(request.param, tmp_path, servers)


def made(name, tmp_path, servers):
    if name == "local":
        return LOCAL, str(tmp_path)
    if name == "fsspec":
        storage = FilledStorage()
        root = storage.resolve(f"{SCHEME}://{uuid.uuid4().hex}/data")
    elif name == "hadoop":
        storage, _ = filled(tmp_path)
        root = storage.resolve("hdfs://namenode:8020/data")
        storage.make_directory(root)
    elif name == "objects":
        storage = ObjectStorage()
        root = storage.resolve(f"memory://{uuid.uuid4().hex}/data")
    elif name in SERVERS and name != "memory":
        server = servers(name)
        storage, root = storage_of(server.directory(), tuple(server.options.items()))
    else:
        storage = MemoryStorage()
        root = storage.resolve(ROOT)
    storage.put(join(root, "_keep"), b"")
    return storage, root


def files(storage, directory):
    return sorted(
        name_of(status.path)
        for status in storage.list(directory)
        if status.kind is Kind.FILE and name_of(status.path) != "_keep"
    )


def write(storage, path, data):
    with storage.create(path) as file:
        file.write(data)


# Names and states


def test_a_file_is_what_was_written(readable):
    storage, root = readable
    write(storage, join(root, "a"), b"12345")
    status = storage.status(join(root, "a"))
    assert (join(root, "a"), Kind.FILE, 5, False) == (status.path, status.kind, status.nbytes, status.is_link)
    assert status.mtime_ns > 0
    assert b"12345" == storage.read(join(root, "a"), 5)


def test_a_directory_is_there_when_a_file_is(readable):
    storage, root = readable
    storage.make_directory(join(root, "k=1", "l=2"))
    write(storage, join(root, "k=1", "l=2", "a"), b"1")
    assert storage.status(join(root, "k=1")).kind is Kind.DIRECTORY
    (status,) = [s for s in storage.list(root) if s.kind is Kind.DIRECTORY]
    assert (join(root, "k=1"), 0) == (status.path, status.nbytes)


def test_nothing_is_none(readable):
    storage, root = readable
    write(storage, join(root, "a"), b"1")
    for path in (join(root, "b"), join(root, "a", "below a file"), join(root, "no", "where")):
        assert storage.status(path) is None
        assert storage.status(path, follow_links=False) is None


CHOSEN = {
    "all": (lambda names: names, {"a", "b", "c"}),
    "some": (lambda names: [name for name in names if name < "c"], {"a", "b"}),
    "none": (lambda _: (), set()),
}


@pytest.mark.parametrize(("choose", "names"), CHOSEN.values(), ids=CHOSEN)
def test_a_listing_of_chosen_names_has_their_states_of_a_listing_of_all(readable, choose, names):
    storage, root = readable
    storage.make_directory(join(root, "d", "c"))
    for name in "ab":
        storage.put(join(root, "d", name), name.encode() * 3)
    storage.put(join(root, "d", "c", "below"), b"below")
    listed = [status for status in storage.list(join(root, "d")) if name_of(status.path) in names]
    chosen = storage.list_chosen(join(root, "d"), choose)
    assert sorted(listed, key=str) == sorted(chosen, key=str)
    assert names == {name_of(status.path) for status in listed}


def test_a_listing_has_every_name_once_and_none_from_below(readable):
    storage, root = readable
    storage.make_directory(join(root, "k=1"))
    for name in ("a", "b", "_c", ".d", "k=1/e", "k=1/f"):
        write(storage, join(root, *name.split("/")), b"1")
    names = sorted(name_of(status.path) for status in storage.list(root))
    assert [".d", "_c", "a", "b", "k=1"] == [name for name in names if name != "_keep"]


@pytest.mark.parametrize("name", ["with blank", "k=a%2Fb", "ä ü", "a:b", "100%", "a#b?c"])
def test_names_are_taken_as_they_are(readable, name):
    storage, root = readable
    if isinstance(storage, HadoopStorage) and ":" in name:
        pytest.skip("HDFS has no name with a colon")
    write(storage, join(root, name), b"1")
    assert [name] == files(storage, root)
    assert b"1" == storage.read(join(root, name), 1)


def test_another_storage_is_refused(readable):
    other = "/a/b" if isinstance(readable[0], ObjectStorage) else "s3://bucket/x"
    for path in (other, "nobody://host/x"):
        with pytest.raises(UnsupportedError):
            readable[0].resolve(path)


def test_a_resolved_path_is_resolved(readable):
    storage, root = readable
    assert root == storage.resolve(root) == storage.resolve(root + "/")


def test_a_path_above_is_no_way_out_of_memory():
    with pytest.raises(OptionError):
        MemoryStorage().resolve("memory:/data/../other")


# Reading


def test_ranges_are_exact_or_an_error(readable):
    storage, root = readable
    write(storage, join(root, "a"), bytes(range(100)))
    source = storage.open(join(root, "a"))
    try:
        assert (100, join(root, "a")) == (source.nbytes, source.path)
        assert bytes(range(10, 20)) == bytes(source.read_at(10, 10))
        assert [bytes([5, 6]), b"", bytes([99])] == [bytes(r) for r in source.read_ranges([(5, 2), (7, 0), (99, 1)])]
        assert bytes(range(95, 100)) == bytes(source.read_up_to(95, 50))
        with pytest.raises(InvalidFramingError, match="the file ends at byte 100"):
            source.read_at(95, 6)
    finally:
        source.close()


def test_what_is_not_there_cannot_be_read(readable):
    storage, root = readable
    for call in (storage.open, lambda path: storage.read(path, 10)):
        with pytest.raises(FileNotFoundError):
            call(join(root, "a"))


def test_a_small_file_is_bounded_before_it_is_read(readable):
    storage, root = readable
    write(storage, join(root, "a"), b"123")
    with pytest.raises(LimitError, match="expected a file of at most 2 bytes, found 3"):
        storage.read(join(root, "a"), 2)


# Writing


def test_a_file_is_created_once(place):
    storage, root = place
    write(storage, join(root, "a"), b"1")
    with pytest.raises(FileExistsError):
        write(storage, join(root, "a"), b"2")
    assert b"1" == storage.read(join(root, "a"), 10)


def test_a_file_can_be_made_durable_while_it_is_open(place):
    storage, root = place
    with storage.create(join(root, "a")) as file:
        file.write(b"123")
        storage.sync_file(file)
    storage.sync(root)
    storage.sync(join(root, "no", "where"))
    assert b"123" == storage.read(join(root, "a"), 3)


def test_put_replaces_and_leaves_nothing_else(place):
    storage, root = place
    storage.make_directory(join(root, "scratch"))
    for data in (b"1", b"22", b""):
        storage.put(join(root, "a"), data, durable=True, scratch=join(root, "scratch"))
        assert data == storage.read(join(root, "a"), 10)
    assert (["a"], []) == (files(storage, root), files(storage, join(root, "scratch")))


def test_put_if_absent_is_won_once(place):
    storage, root = place
    path = join(root, "a")
    assert storage.put_if_absent(path, b"first", durable=True)
    assert not storage.put_if_absent(path, b"second")
    assert b"first" == storage.read(path, 10)
    assert ["a"] == files(storage, root)


def test_put_if_absent_has_one_winner_among_many(place):
    storage, root = place
    count = 5 if storage.traits.waits else 20  # SeaweedFS lets the losers wait for a second
    for number in range(count):
        path = join(root, str(number))
        start, winners = threading.Barrier(4), []

        def race(me, path=path, start=start, winners=winners):
            start.wait()
            if storage.put_if_absent(path, me):
                winners.append(me)

        threads = [threading.Thread(target=race, args=(b"%d" % i,)) for i in range(4)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        assert [storage.read(path, 10)] == winners
    for _ in range(2):
        storage.check_put_if_absent(root)
    left = ["probe"] if storage.traits.waits and not storage.traits.directories else []
    assert sorted([*map(str, range(count)), *left]) == sorted(files(storage, root))


def test_publish_gives_a_file_its_name(place):
    storage, root = place
    storage.make_directory(join(root, "k=1"))
    write(storage, join(root, "staged"), b"123")
    before = storage.status(join(root, "staged"))
    storage.publish(join(root, "staged"), join(root, "k=1", "final"))
    after = storage.status(join(root, "k=1", "final"))
    assert before.nbytes == after.nbytes
    if storage.traits.renames:
        assert (before.mtime_ns, before.identity) == (after.mtime_ns, after.identity)
        assert storage.status(join(root, "staged")) is None
    else:
        assert b"123" == storage.read(join(root, "staged"), 3)
        storage.delete(join(root, "staged"))
    with pytest.raises(FileNotFoundError):
        storage.publish(join(root, "staged"), join(root, "k=1", "final"))
    assert b"123" == storage.read(join(root, "k=1", "final"), 3)


def test_a_file_gets_its_name_back_unless_another_has_it(place):
    storage, root = place
    moved, path = join(root, "moved"), join(root, "a.arrow")
    write(storage, moved, b"123")
    if not storage.traits.renames:
        with pytest.raises(UnsupportedError):
            storage.give_back(moved, path)
        return
    assert storage.give_back(moved, path)
    assert b"123" == storage.read(path, 3)
    assert storage.status(moved) is None
    with pytest.raises(FileNotFoundError):
        storage.give_back(moved, join(root, "b.arrow"))
    write(storage, moved, b"456")
    assert not storage.give_back(moved, path)
    assert b"123" == storage.read(path, 3)
    assert b"456" == storage.read(moved, 3)


def test_a_listing_says_of_a_file_what_its_status_says(readable):
    """Old files are deleted by the version that a listing had, also where one is looked for by itself."""
    storage, root = readable
    path = join(root, "a.arrow")
    storage.put(path, b"123")
    (listed,) = (status for status in storage.list(root) if status.path == path)
    alone = storage.status(path)
    assert (alone.nbytes, alone.version) == (listed.nbytes, listed.version)
    for known in (listed, alone):
        source = storage.open(path, listed=known)
        assert b"123" == bytes(source.read_at(0, 3))
        source.close()


@pytest.mark.slow
def test_a_file_that_is_gone_is_not_taken_for_another_version(place):
    """A read that was planned before looks elsewhere then, or skips it."""
    storage, root = place
    path = join(root, "a.arrow")
    storage.put(path, b"123")
    (listed,) = (status for status in storage.list(root) if status.path == path)
    storage.delete(path)
    with pytest.raises(FileNotFoundError):
        storage.open(path, listed=listed).read_at(0, 3)


def test_publish_copies_a_file_where_a_storage_cannot_rename():
    storage = MemoryStorage(renames=False)
    write(storage, f"{ROOT}/staged", b"123")
    versions = set()
    for _ in range(2):
        storage.publish(f"{ROOT}/staged", f"{ROOT}/k=1/final")
        versions.add(storage.status(f"{ROOT}/k=1/final").version)
    (listed,) = storage.list(f"{ROOT}/k=1")
    assert b"123" == storage.read(f"{ROOT}/k=1/final", 3) == storage.read(f"{ROOT}/staged", 3)
    assert 2 == len(versions)
    assert storage.status(listed.path).version == listed.version
    assert storage.status(f"{ROOT}/staged").version not in versions


def test_deleting_what_is_not_there_is_nothing(place):
    storage, root = place
    write(storage, join(root, "a"), b"1")
    for _ in range(2):
        storage.delete(join(root, "a"))
        storage.delete_tree(join(root, "b"))
        storage.delete_directory_if_empty(join(root, "c"))
    assert [] == files(storage, root)


def test_a_tree_is_deleted_with_all_in_it_and_nothing_beside(place):
    storage, root = place
    for name in ("x/a", "x/y/b", "x2/c", "d"):
        storage.make_directory(join(root, *name.split("/")[:-1]))
        write(storage, join(root, *name.split("/")), b"1")
    storage.delete_tree(join(root, "x"))
    assert storage.status(join(root, "x")) is None
    assert (["d"], ["c"]) == (files(storage, root), files(storage, join(root, "x2")))


def test_a_directory_with_files_is_kept(place):
    storage, root = place
    storage.make_directory(join(root, "x"))
    write(storage, join(root, "x", "a"), b"1")
    storage.delete_directory_if_empty(join(root, "x"))
    assert ["a"] == files(storage, join(root, "x"))


def test_a_scratch_file_has_no_name(place):
    storage, root = place
    with storage.scratch_file(root) as file:
        file.write(b"123")
        file.seek(0)
        assert (b"123", []) == (file.read(), files(storage, root))


def test_a_directory_that_is_needed_must_exist_where_there_are_directories(readable):
    storage, root = readable
    if storage.traits.directories:
        with pytest.raises(FileNotFoundError):
            storage.create(join(root, "no", "where"))
        with pytest.raises(FileNotFoundError):
            list(storage.list(join(root, "no")))
    else:
        write(storage, join(root, "no", "where"), b"1")
        assert [] == list(storage.list(join(root, "none")))


def test_the_local_storage_travels_for_nothing():
    assert pickle.loads(pickle.dumps(LOCAL)) == LOCAL
    assert len(pickle.dumps(LOCAL)) < 100


def test_links_are_told_apart(tmp_path):
    (tmp_path / "d").mkdir()
    (tmp_path / "f").write_bytes(b"1")
    for name, target in (("to d", "d"), ("to f", "f"), ("to nothing", "nowhere")):
        (tmp_path / name).symlink_to(target)
    kinds = {name_of(s.path): (s.kind, s.is_link) for s in LOCAL.list(str(tmp_path))}
    assert {
        "d": (Kind.DIRECTORY, False), "f": (Kind.FILE, False), "to d": (Kind.DIRECTORY, True),
        "to f": (Kind.FILE, True), "to nothing": (Kind.DANGLING, True),
    } == kinds  # fmt: skip
    assert LOCAL.status(str(tmp_path / "to d"), follow_links=False).kind is Kind.LINK
    assert LOCAL.status(str(tmp_path / "to nothing")) is None


def test_many_files_are_deleted_and_missing_ones_do_not_matter(place):
    storage, root = place
    for name in ("a", "b", "c"):
        write(storage, join(root, name), b"1")
    storage.delete_all([join(root, "a"), join(root, "missing"), join(root, "c")])
    assert ["b"] == files(storage, root)
