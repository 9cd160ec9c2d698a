"""`rewrite` and `compact` where files are published by copies: source and target in an object store, readers beside.

The tests' own server runs in this process, and `Tasks` runs the tasks there, twice each. What is seen through Spark and on a real
server is `exhaustive`.
"""

import contextlib
import itertools
import json
import re
import urllib.request
from pathlib import Path

import pyarrow as pa
import pytest

pytest.importorskip("obstore", reason="object stores need the extra 'cloud'")

import arrow_files
import s3_requests
from fault_server import Request, fault_server
from listed_files import list_files
from object_stores import moto
from rewrite_jobs import Tasks

from spark_arrow_ipc import compact, count, ipc, rewrite
from spark_arrow_ipc.dataset.scan.file_range import FileRange
from spark_arrow_ipc.dataset.scan.scan import ScanOptions, scan
from spark_arrow_ipc.errors import ArrowIpcError, ConcurrentWriteError, FileChangedError
from spark_arrow_ipc.storage.open import storage_of
from spark_arrow_ipc.table.names import TableDirectory
from spark_arrow_ipc.table.vacuum import vacuum

FILES, ROWS = 6, 100


class Lake:
    """A directory of an object store with small files of another program in two partitions."""

    def __init__(self, url, options):
        self.url, self.options = url, {"storage": dict(options)}
        self.storage, self.root = storage_of(url, tuple(sorted(options.items())))
        for number in range(FILES):
            self.put(number)

    def put(self, number):
        first = number * ROWS
        table = pa.table({"id": range(first, first + ROWS), "name": [f"é{i % 7}" for i in range(first, first + ROWS)]})
        sink = pa.BufferOutputStream()
        with pa.ipc.new_file(sink, table.schema) as writer:
            writer.write_table(table, max_chunksize=30)
        self.storage.put(f"{self.root}/k={number % 2}/{number}.arrow", sink.getvalue().to_pybytes())

    def beside(self, name):
        return f"{self.url}-{name}"

    def files(self, url=None):
        root = self.root if url is None else storage_of(url, ())[1]
        return list_files([root], recursive=True, storage=self.storage)

    def read(self, files):
        """The rows of files that were listed, as tasks read them."""
        parts = [FileRange(file.path, file.nbytes, file.mtime_ns, version=file.version) for file in files]
        found = []
        for scanned in scan(parts, options=ScanOptions(storage=self.storage)):
            for each in scanned.batches:
                found += each.batch.to_pydict()["id"]
        return sorted(found)

    def rows(self, url=None):
        return self.read(self.files(url))

    def leftovers(self):
        """What lies in the directory beside files, the log and what is retained."""
        found, todo = [], [self.root]
        while todo:
            for status in self.storage.list(todo.pop()):
                if status.kind.name == "DIRECTORY":
                    todo.append(status.path)
                elif "/_ipc_stage/" in status.path:
                    found.append(status.path)
        return found


def etags_of_their_own():
    """A copy has another ETag than its source: that of Azure and Google, and of S3 with keys of its own or uploads in parts."""
    numbers = itertools.count()
    return lambda data: f'"{next(numbers):032x}"'


@pytest.fixture(params=["etags of the content", "etags of their own"])
def lake(request, monkeypatch):
    if request.param == "etags of their own":
        monkeypatch.setattr(s3_requests, "etag_of", etags_of_their_own())
    with fault_server() as server:
        made = Lake(f"{server.url}/lake", server.options)
        made.server, made.etags = server, request.param
        yield made


EVERYTHING = [*range(FILES * ROWS)]


@pytest.mark.slow
def test_a_rewrite_reads_and_writes_objects(lake):
    target = lake.beside("target")
    made = rewrite(
        Tasks(attempts=2), lake.url, target, sort_by="name", statistics="all", partitionBy=["k"], **lake.options
    )
    assert (made.files_read, made.rows_written, made.files_written) == (FILES, len(EVERYTHING), 2)
    assert lake.rows(target) == EVERYTHING == lake.rows()
    for file in lake.files(target):
        with ipc.open(file.open(lake.storage)) as reader:
            names = [name for batch in reader for name in batch.to_pydict()["name"]]
        assert names == sorted(names)
    assert len(EVERYTHING) == count(Tasks(), target, **lake.options)


@pytest.mark.slow
def test_a_rewrite_in_place_replaces_what_it_read(lake):
    made = rewrite(
        Tasks(attempts=2), lake.url, lake.url, mode="overwrite", where="id < 250", partitionBy=["k"], **lake.options
    )
    assert (made.files_read, made.rows_written) == (FILES, 250)
    assert lake.rows() == EVERYTHING[:250]
    assert [] == lake.leftovers()


@pytest.mark.slow
def test_a_compaction_joins_objects_beside_readers_and_writers(lake):
    """Readers see all rows at any time; who appends is joined by the next run, which joins what the first has made."""
    seen = []

    def before(part, attempt):
        seen.append(lake.rows())
        if (part, attempt) == (0, 0):
            lake.put(FILES)

    planned = lake.files()
    made = compact(Tasks(attempts=2, before=before), lake.url, sort_by="id", **lake.options)
    assert (made.files_read, made.files_written, made.rows_written) == (FILES, 2, len(EVERYTHING))
    whole = [*range((FILES + 1) * ROWS)]
    assert lake.rows() == whole
    assert {len(EVERYTHING), len(whole)} >= set(map(len, seen))
    assert [] == lake.leftovers()
    ours = lake.files()
    made = compact(Tasks(), lake.url, **lake.options)
    assert (made.files_read, made.files_written) == (2, 1)
    assert lake.rows() == whole
    # Whatever ETags copies have.
    assert lake.read(ours) == whole
    assert lake.read(planned) == EVERYTHING
    other = [file._replace(version="another") for file in planned]
    with pytest.raises(FileChangedError, match="it is gone"):
        lake.read(other)


@pytest.mark.slow
def test_replaced_objects_are_gone_where_nobody_wants_them(lake):
    planned = lake.files()
    compact(Tasks(), lake.url, retention=0, **lake.options)
    with pytest.raises(FileChangedError, match="it is gone"):
        lake.read(planned)


@pytest.mark.slow
def test_one_of_two_compactions_gives_up(lake):
    won = []

    def before(*_):
        if not won:
            won.append(None)
            won[0] = compact(Tasks(), lake.url, **lake.options)

    with pytest.raises(ConcurrentWriteError):
        compact(Tasks(before=before), lake.url, **lake.options)
    assert won[0].files_read == FILES
    assert lake.rows() == EVERYTHING
    assert [] == lake.leftovers()


@pytest.mark.slow
@pytest.mark.one_in(3)
@pytest.mark.parametrize(
    "request_", [Request.PUT, Request.COPY, Request.LIST, Request.DELETE_MANY], ids=lambda r: r.name
)
@pytest.mark.parametrize("skip", [0, 2, 5])
def test_a_fault_on_the_way_loses_and_doubles_nothing(lake, request_, skip):
    """Each answer is an error of the server once, which the client tries again, or for so long that the job fails."""
    lake.server.inject(
        request_, "stores, drops the connection" if request_ is Request.PUT else "500", times=1, skip=skip
    )
    with contextlib.suppress(ArrowIpcError, OSError):
        compact(Tasks(), lake.url, **lake.options)
    lake.server.heal()
    assert lake.rows() == EVERYTHING
    compact(Tasks(), lake.url, **lake.options)
    assert lake.rows() == EVERYTHING


@pytest.mark.exhaustive
def test_spark_rewrites_and_compacts_on_a_server_beside_a_reader(spark, servers):
    store = servers("seaweedfs")
    lake = Lake(store.directory(), store.options)
    planned = spark.read.format("arrowipc").options(**store.spark_options).load(lake.url)
    target = lake.beside("target")
    made = rewrite(spark, lake.url, target, sort_by="id", partitionBy=["k"], **lake.options)
    assert (made.files_read, made.rows_written) == (FILES, len(EVERYTHING))
    assert lake.rows(target) == EVERYTHING
    made = compact(spark, lake.url, sort_by="id", **lake.options)
    assert (made.files_read, made.files_written) == (FILES, 2)
    assert sorted(row.id for row in planned.collect()) == EVERYTHING == lake.rows()
    made = rewrite(spark, lake.url, lake.url, mode="overwrite", where="id < 250", partitionBy=["k"], **lake.options)
    assert lake.rows() == EVERYTHING[:250]
    assert count(spark, lake.url, **lake.options) == 250
    assert [] == lake.leftovers()


def options_of_user(store, actions):
    """Make a user of a store who may do some actions, and nobody else any, and return this user's options."""
    boto3 = pytest.importorskip("boto3")
    keys = {"aws_access_key_id": "tests", "aws_secret_access_key": "tests", "region_name": store.options["region"]}
    iam = boto3.client("iam", endpoint_url=store.options["endpoint"], **keys)
    iam.create_user(UserName="ada")
    statement = {"Effect": "Allow", "Action": list(actions), "Resource": f"arn:aws:{store.url.replace('://', ':::')}*"}
    policy = {"Version": "2012-10-17", "Statement": [statement]}
    iam.put_user_policy(UserName="ada", PolicyName="tests", PolicyDocument=json.dumps(policy))
    key = iam.create_access_key(UserName="ada")["AccessKey"]
    iam.close()
    url = store.options["endpoint"] + "/moto-api/reset-auth"
    checks = urllib.request.Request(url, b"0", {"Content-Type": "text/plain"}, method="POST")
    urllib.request.urlopen(checks).close()
    return {
        **store.spark_options,
        "storage.access_key_id": key["AccessKeyId"],
        "storage.secret_access_key": key["SecretAccessKey"],
    }


PAGE = Path(__file__).parents[3] / "docs" / "object_stores.md"
RIGHTS = re.search(r"On S3 reading needs (.*), writing also (.*); other", PAGE.read_text()).groups()
READING, WRITING = (re.findall("`(s3:.*?)`", words) for words in RIGHTS)
UNSEEN = "s3:AbortMultipartUpload"
"""Of uploads that are cut off."""


@pytest.mark.exhaustive
@pytest.mark.parametrize("without", [None, *READING, *WRITING[:-1]])
def test_the_rights_of_the_page_suffice_and_are_needed(tmp_path, without):
    assert UNSEEN == WRITING[-1]
    arrow_files.write(tmp_path / "a.arrow", pa.table({"id": range(9)}))
    rights = [each for each in READING + WRITING if each != without]
    with moto() as store:
        lake, options = f"{store.url}/lake", options_of_user(store, rights)

        def use():
            for mode in ("append", "append", "overwrite"):
                rewrite(Tasks(), tmp_path, lake, mode=mode, **options)
            compact(Tasks(), lake, **options)
            assert 9 == count(Tasks(), lake, **options)
            storage, root = storage_of(lake, tuple((name.removeprefix("storage."), options[name]) for name in options))
            vacuum(TableDirectory.at(root, storage), older_than=0)

        if without is None:
            use()
        else:
            with pytest.raises(PermissionError, match="the store refuses it"):
                use()
