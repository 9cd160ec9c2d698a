"""The server that fails as it is told answers like S3 as long as it is told nothing: obstore's calls are the oracle."""

import math
import time
from datetime import timedelta

import pytest

pytest.importorskip("obstore", reason="object stores need the extra 'cloud'")

import obstore
from fault_server import FAULTS, Request, fault_server
from obstore.exceptions import AlreadyExistsError, BaseError, GenericError, PermissionDeniedError, PreconditionError
from obstore.store import S3Store


@pytest.fixture
def server():
    with fault_server() as server:
        yield server


def store_of(server, *, bucket="bucket", **options):
    given = {name: value for name, value in server.options.items() if name != "allow_http"} | options
    return S3Store(
        bucket,
        client_options={"allow_http": True, "timeout": timedelta(seconds=0.5)},
        retry_config={
            "max_retries": 3,
            "backoff": {"init_backoff": timedelta(milliseconds=1), "max_backoff": timedelta(milliseconds=9), "base": 2},
        },
        **given,
    )


def read(store, key, **options):
    return bytes(obstore.get(store, key, options=options).bytes())


def test_objects_are_kept_and_ranges_are_exact(server):
    store, key = store_of(server), "a/ä b%20c?d=e+f"
    obstore.put(store, key, bytes(range(100)))
    assert {key: bytes(range(100))} == server.objects.data()
    assert bytes(range(100)) == read(store, key)
    assert (
        bytes(range(10, 20))
        == read(store, key, range=(10, 20))
        == bytes(obstore.get_range(store, key, start=10, end=20))
    )
    assert bytes(range(90, 100)) == read(store, key, range={"offset": 90}) == read(store, key, range={"suffix": 10})
    assert bytes(range(95, 100)) == read(store, key, range=(95, 120))
    assert (100, key) == (obstore.head(store, key)["size"], obstore.head(store, key)["path"])
    for missing in (obstore.head, obstore.get):
        with pytest.raises(FileNotFoundError):
            missing(store, "b")
    with pytest.raises(GenericError, match="416"):
        read(store, key, range=(100, 101))


def test_conditions_hold(server):
    store = store_of(server)
    assert obstore.put(store, "a", b"1", mode="create")
    with pytest.raises(AlreadyExistsError):
        obstore.put(store, "a", b"2", mode="create")
    etag = obstore.head(store, "a")["e_tag"]
    assert b"1" == read(store, "a", if_match=etag)
    obstore.put(store, "a", b"3", mode={"e_tag": etag})
    for late in (lambda: read(store, "a", if_match=etag), lambda: obstore.put(store, "a", b"4", mode={"e_tag": etag})):
        with pytest.raises(PreconditionError):
            late()
    assert {"a": b"3"} == server.objects.data()


@pytest.mark.parametrize("max_keys", [1, 2, 3, 1000])
def test_listings_have_pages_and_prefixes(server, max_keys):
    store = store_of(server)
    keys = ["d/a", "d/k=1/x", "d/k=1/y/z", "d/k=1&2/x", "d/z", "d2/a", "e"]
    for key in keys:
        server.objects.put(key, b"12")
    server.objects.max_keys = max_keys
    assert sorted(keys) == sorted(meta["path"] for page in obstore.list(store) for meta in page)
    assert [k for k in sorted(keys) if k.startswith("d/")] == sorted(
        meta["path"] for page in obstore.list(store, "d") for meta in page
    )
    level = obstore.list_with_delimiter(store, "d")
    assert ["d/a", "d/z"] == sorted(meta["path"] for meta in level["objects"])
    assert ["d/k=1", "d/k=1&2"] == sorted(prefix.rstrip("/") for prefix in level["common_prefixes"])


def test_copies_and_deletions(server):
    store = store_of(server)
    obstore.put(store, "a b", b"1", attributes={"writer": "me"})
    obstore.copy(store, "a b", "c/d")
    assert {"writer": "me"} == dict(obstore.get(store, "c/d").attributes)
    with pytest.raises(FileNotFoundError):
        obstore.copy(store, "missing", "e")
    assert {"a b": b"1", "c/d": b"1"} == server.objects.data()
    obstore.delete(store, ["a b", "missing"])
    assert {"c/d": b"1"} == server.objects.data()
    assert (1, 2) == (server.requests[Request.DELETE_MANY], server.requests[Request.COPY])


@pytest.mark.slow
def test_uploads_in_parts_show_when_they_are_complete(server):
    store = store_of(server)
    data = bytes(range(256)) * (11 << 12)
    with obstore.open_writer(store, "a", buffer_size=5 << 20) as file:
        file.write(data)
        assert {} == server.objects.data()
    assert {"a": data} == server.objects.data()
    counts = [server.requests[r] for r in (Request.CREATE_UPLOAD, Request.PUT_PART, Request.COMPLETE_UPLOAD)]
    assert [1, 3, 1] == counts
    assert {} == server.objects.uploads


def test_a_wrong_key_and_a_wrong_bucket_are_refused(server):
    with pytest.raises(PermissionDeniedError, match="InvalidAccessKeyId"):
        obstore.put(store_of(server, access_key_id="other"), "a", b"1")
    with pytest.raises(FileNotFoundError, match="NoSuchBucket"):
        read(store_of(server, bucket="other"), "a")
    assert {} == server.objects.data()


OUTCOMES = {
    "drops the connection": ("stored", 2),
    "stores, drops the connection": ("AlreadyExistsError", 2),
    "500": ("stored", 2),
    "stores, 500": ("AlreadyExistsError", 2),
    "200 with an error inside": ("GenericError, nothing is stored", 1),
    "409": ("AlreadyExistsError, nothing is stored", 1),
    "503": ("stored", 2),
    "403": ("PermissionDeniedError, nothing is stored", 1),
    "404": ("FileNotFoundError, nothing is stored", 1),
    "stores, never answers": ("GenericError", 1),
    "never answers": ("GenericError, nothing is stored", 1),
    "torn body": ("stored", 1),
    "slow body": ("stored", 1),
}


@pytest.mark.parametrize(
    "fault", [pytest.param(name, marks=[pytest.mark.exhaustive] * FAULTS[name].silent) for name in FAULTS]
)
def test_what_a_conditional_put_makes_of_each_fault(server, fault):
    """As obstore sees it: why an error of such a request says nothing about what is stored."""
    server.inject(Request.PUT, fault)
    said = []
    try:
        obstore.put(store_of(server), "a", b"1", mode="create")
    except (BaseError, OSError) as error:
        said.append(type(error).__name__)
    if server.objects.data() != {"a": b"1"}:
        said.append("nothing is stored")
    assert OUTCOMES[fault] == (", ".join(said) or "stored", server.requests[Request.PUT])
    assert 0 == server.pending_faults


def test_torn_and_slow_bodies_arrive_in_the_end(server):
    server.objects.put("a", bytes(range(256)) * 1024)
    for fault, most in (("torn body", 2), ("slow body", 1)):
        server.reset_counts()
        server.inject(Request.GET, fault)
        begin = time.monotonic()
        assert server.objects.data()["a"] == read(store_of(server), "a")
        assert most == server.requests[Request.GET]
    assert time.monotonic() - begin > 0.2


def test_faults_are_for_some_requests_and_some_keys(server):
    store = store_of(server)
    server.inject(Request.PUT, "403", key="b", times=math.inf)
    obstore.put(store, "a", b"1")
    for _ in range(2):
        with pytest.raises(PermissionDeniedError):
            obstore.put(store, "b", b"1")
    server.heal()
    obstore.put(store, "b", b"1")
    assert {"PUT": 4, "nbytes_in": 4} == {name: server.counts[name] for name in ("PUT", "nbytes_in")}


def test_latency_and_speed_are_those_that_were_asked_for():
    with fault_server(latency=0.05, nbytes_per_second=10e6) as server:
        server.objects.put("a", bytes(1_000_000))
        begin = time.monotonic()
        read(store_of(server), "a")
        assert time.monotonic() - begin > 0.15
        assert (1, 1_000_000) == (server.requests[Request.GET], server.nbytes_out)
