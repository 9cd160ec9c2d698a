"""What each call of `ObjectStorage` makes of each fault of a store: the right state, and one line where it fails."""

import math
from datetime import timedelta

import pytest
from fault_server import ACCESS_KEY_ID, FAULTS, SECRET, Fault, Request, fault_server

from spark_arrow_ipc.errors import FileChangedError
from spark_arrow_ipc.storage import object_options
from spark_arrow_ipc.storage.open import storage_of
from spark_arrow_ipc.storage.paths import name_of

OLD = bytes(range(256)) * 400
PART = 8 << 20
BIG = bytes(range(256)) * (10 << 12)
TIMEOUT = timedelta(milliseconds=500)


class Place:
    """A directory of a fault server: `a`, `b` and `c/d` are there; a page of its listings has two names."""

    def __init__(self, server):
        self.server = server
        for key in ("d/a", "d/b", "d/c/d"):
            server.objects.put(key, OLD)
        server.objects.max_keys = 2
        options = server.options | {"timeout": "500ms", "max_retries": "2"}
        self.storage, self.root = storage_of(f"{server.url}/d", tuple(options.items()))

    def at(self, name):
        return f"{self.root}/{name}"

    @property
    def files(self):
        """The objects with other bytes than at the beginning, and those that are gone."""
        data = {key.removeprefix("d/"): data for key, data in self.server.objects.data().items()}
        return {key: data for key, data in data.items() if data != OLD or key not in {"a", "b", "c/d"}} | dict.fromkeys(
            {"a", "b", "c/d"} - set(data)
        )


@pytest.fixture
def place(monkeypatch):
    monkeypatch.setattr(object_options, "_COPY_TIMEOUT", TIMEOUT)
    with fault_server() as server:
        yield Place(server)


def read(place):
    """From a known version, as readers do."""
    known = next(status for status in place.storage.list(place.root) if status.path == place.at("a"))
    place.server.reset_counts()
    return bytes(place.storage.open(place.at("a"), listed=known).read_at(100, 30_000)) == OLD[100:30_100]


def read_small(place):
    return place.storage.read(place.at("a"), len(OLD)) == OLD


def names(place):
    return ["a", "b", "c"] == sorted(name_of(status.path) for status in place.storage.list(place.root))


def is_file(place):
    return place.storage.status(place.at("a")).nbytes == len(OLD)


def is_directory(place):
    return place.storage.status(place.at("c")).nbytes == 0


def put(place):
    place.storage.put(place.at("new"), b"new")
    return True


def put_if_absent(place):
    return place.storage.put_if_absent(place.at("new"), b"new")


def publish(place):
    place.storage.publish(place.at("a"), place.at("new"))
    return True


def create(place):
    with place.storage.create(place.at("new")) as file:
        file.write(b"new")
    return True


def create_big(place):
    with place.storage.create(place.at("new")) as file:
        file.write(BIG)
    return True


def delete(place):
    place.storage.delete(place.at("a"))
    return True


def delete_all(place):
    place.storage.delete_all([place.at("a"), place.at("missing"), place.at("c/d")])
    return True


def delete_tree(place):
    place.storage.delete_tree(place.root)
    return True


AFTER = {
    put: {"new": b"new"}, put_if_absent: {"new": b"new"}, publish: {"new": OLD}, create: {"new": b"new"},
    create_big: {"new": BIG}, delete: {"a": None}, delete_all: {"a": None, "c/d": None},
    delete_tree: {"a": None, "b": None, "c/d": None},
}  # fmt: skip
"""What is different once a call has succeeded."""

EACH = {"drops the connection": 1, "500": 1, "503": 1, "torn body": 1, "slow body": 1}
WRITES = {"stores, drops the connection": 1, "stores, 500": 1} | EACH
REFUSED = {"403": PermissionError}
SILENT = {"never answers": 1, "stores, never answers": 1}
COPIES = {"200 with an error inside": 1}

TABLE = [
    (read, Request.GET, EACH | REFUSED | {"404": FileNotFoundError, "never answers": 1}),
    (read_small, Request.GET, EACH | REFUSED | {"404": FileNotFoundError}),
    (names, Request.LIST, EACH | REFUSED | {"404": OSError, "never answers": 1}),
    (is_file, Request.HEAD, EACH | REFUSED),
    (is_directory, Request.LIST, EACH | REFUSED),
    (put, Request.PUT, WRITES | REFUSED | SILENT | {"404": OSError}),
    (put_if_absent, Request.PUT, WRITES | REFUSED | SILENT | {"409": 1, "404": 1}),
    (publish, Request.COPY, WRITES | REFUSED | SILENT | COPIES | {"404": FileNotFoundError, "409": FileExistsError}),
    (create, Request.PUT, WRITES | REFUSED | SILENT | {"409": 1}),
    (create_big, Request.CREATE_UPLOAD, WRITES | REFUSED | SILENT | {"torn body": OSError, "404": FileNotFoundError}),
    (create_big, Request.PUT_PART, WRITES | REFUSED | SILENT | {"404": OSError}),
    (create_big, Request.COMPLETE_UPLOAD, WRITES | REFUSED | SILENT | COPIES | {"404": OSError, "409": OSError}),
    (delete, Request.DELETE_MANY, WRITES | REFUSED | SILENT),
    (delete_all, Request.DELETE_MANY, WRITES | REFUSED | SILENT | {"409": OSError}),
    (delete_tree, Request.LIST, EACH | REFUSED),
]
"""Call, the request of it that fails, and for each fault that S3 may do then: 1 if the call succeeds, or its error."""

QUICK = {"stores, drops the connection", "403", "409", "torn body", "200 with an error inside"}
"""The rest waits for repetitions, a tenth of a second or more each."""


def rows():
    for call, request, faults in TABLE:
        for fault, outcome in faults.items():
            is_long = call is create_big and (request is not Request.COMPLETE_UPLOAD or fault == "403")
            often = fault not in SILENT if call is put_if_absent else fault in QUICK and not is_long
            marks = () if often else pytest.mark.exhaustive
            yield pytest.param(call, request, fault, outcome, marks=marks, id=f"{call.__name__}-{request.name}-{fault}")


def is_plain(error, place):
    """Whether an error is one line with the path and nothing that is secret."""
    text = f"{error}{error!r}"
    assert place.root in text or place.server.url in text
    return not any(part in text for part in ("\n", SECRET, "Debug source")) and len(str(error)) < 600


@pytest.mark.one_in(4, "exhaustive")
@pytest.mark.parametrize(("call", "request_", "fault", "outcome"), list(rows()))
def test_each_call_survives_what_it_can(place, call, request_, fault, outcome):
    place.server.inject(request_, fault)
    if outcome == 1:
        assert call(place)
        assert AFTER.get(call, {}) == place.files
    else:
        with pytest.raises(outcome) as caught:
            call(place)
        assert is_plain(caught.value, place)
        assert {} == place.files
    assert 0 == place.server.pending_faults


def test_each_fault_is_in_the_table():
    assert set(FAULTS) == {fault for _, _, faults in TABLE for fault in faults}


@pytest.mark.parametrize(
    ("call", "request_", "fault"),
    [
        pytest.param(read, Request.GET, "503", id="read", marks=pytest.mark.exhaustive),
        pytest.param(read, Request.GET, "torn body", id="read torn", marks=pytest.mark.exhaustive),
        pytest.param(names, Request.LIST, "500", id="list", marks=pytest.mark.exhaustive),
        pytest.param(names, Request.LIST, "torn body", id="list torn"),
        pytest.param(put_if_absent, Request.PUT, "409", id="put_if_absent"),
        pytest.param(put_if_absent, Request.PUT, "503", id="put_if_absent busy", marks=pytest.mark.exhaustive),
        pytest.param(publish, Request.COPY, "drops the connection", id="publish", marks=pytest.mark.exhaustive),
        pytest.param(create_big, Request.PUT_PART, "503", id="create", marks=pytest.mark.exhaustive),
        pytest.param(delete_all, Request.DELETE_MANY, "500", id="delete", marks=pytest.mark.exhaustive),
    ],
)
def test_a_store_that_stays_ill_is_given_up(place, call, request_, fault):
    place.server.inject(request_, fault, times=math.inf)
    with pytest.raises(OSError) as caught:
        call(place)
    assert is_plain(caught.value, place)
    assert {} == place.files
    assert 2 <= place.server.requests[request_] <= 15


@pytest.mark.parametrize("call", [put, put_if_absent, create, names])
def test_a_bucket_that_is_gone_is_no_file_that_is_missing(place, call):
    """Jobs take the latter for a directory that another one deleted, and would go on for ever."""
    for request in (Request.PUT, Request.GET, Request.LIST):
        place.server.inject(request, "404", times=math.inf)
    with pytest.raises(OSError, match="no such bucket or container") as caught:
        call(place)
    assert OSError is type(caught.value)


def test_the_second_page_of_a_listing_is_never_missing(place):
    for fault in ("torn body", "403"):
        place.server.heal()
        place.server.inject(
            Request.LIST, Fault(performs=True, then=lambda f=fault: place.server.inject(Request.LIST, f))
        )
        if fault == "403":
            with pytest.raises(PermissionError):
                names(place)
        else:
            assert names(place)


def test_an_object_that_is_replaced_while_its_body_is_torn_is_an_error(place):
    def replace():
        place.server.objects.put("d/a", OLD[::-1])

    place.server.inject(Request.GET, Fault(performs=True, torn=True, then=replace))
    with pytest.raises(FileChangedError):
        read(place)


@pytest.mark.parametrize(
    "fault", ["stores, drops the connection", "409", pytest.param("never answers", marks=pytest.mark.exhaustive)]
)
def test_a_record_of_another_is_never_ours(place, fault):
    def other():
        place.server.objects.put("d/new", b"another")

    told = FAULTS[fault]
    place.server.inject(
        Request.PUT, Fault(status=told.status, code=told.code, drops=told.drops, silent=told.silent, then=other)
    )
    assert not put_if_absent(place)
    assert {"new": b"another"} == place.files


def test_what_cannot_be_found_out_is_an_error(place):
    place.server.inject(Request.PUT, "stores, drops the connection")
    place.server.inject(Request.GET, "403")
    with pytest.raises(OSError) as caught:
        put_if_absent(place)
    assert is_plain(caught.value, place)
    assert {"new": b"new"} == place.files


def test_an_object_that_may_not_be_deleted_is_an_error_and_the_others_go(place):
    place.server.objects.locked = {"d/a"}
    for call in (delete, delete_all):
        with pytest.raises(OSError) as caught:
            call(place)
        assert is_plain(caught.value, place)
    assert {"c/d": None} == place.files


def test_an_upload_that_fails_leaves_no_parts(place):
    with pytest.raises(ZeroDivisionError), place.storage.create(place.at("new")) as file:
        file.write(BIG)
        1 / 0  # noqa: B018
    assert ({}, {}) == (place.files, place.server.objects.uploads)


def test_a_wrong_key_is_one_sentence(place):
    options = place.server.options | {"access_key_id": "wrong"}
    storage, root = storage_of(place.root, tuple(options.items()))
    for call in (
        lambda: list(storage.list(root)),
        lambda: storage.read(f"{root}/a", 9),
        lambda: storage.put(f"{root}/a", b""),
    ):
        with pytest.raises(PermissionError, match="check the credentials and their rights") as caught:
            call()
        assert is_plain(caught.value, place)
        assert ACCESS_KEY_ID not in str(caught.value)
