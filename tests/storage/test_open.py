"""The storage of a path is chosen by its scheme."""

import pathlib
import subprocess
import sys

import pytest
from fsspec_stub import SCHEME

from spark_arrow_ipc.errors import OptionError, UnsupportedError
from spark_arrow_ipc.storage.fsspec_storage import FsspecStorage
from spark_arrow_ipc.storage.hadoop import HadoopStorage
from spark_arrow_ipc.storage.local import LOCAL
from spark_arrow_ipc.storage.object_store import ObjectStorage
from spark_arrow_ipc.storage.open import storage_of


@pytest.mark.parametrize("path", ["/d/a b", pathlib.PurePosixPath("/d/a b"), "file:/d/a%20b", "file:///d/a%20b"])
def test_local_paths_are_in_the_local_storage(path):
    assert (LOCAL, "/d/a b") == storage_of(path)


@pytest.mark.parametrize("scheme", ["s3", "s3a", "gs", "az", "abfs", "abfss", "https", "http", "memory", "S3"])
def test_urls_of_object_stores_are_in_theirs(scheme):
    options = (("region", "eu-central-1"),)
    assert (ObjectStorage(options), f"{scheme.lower()}://bucket/a%20b") == storage_of(
        f"{scheme}://bucket//a%20b/", options
    )


def test_options_of_remote_storages_are_refused_for_local_paths():
    message = r"storage\.region is for object stores and other remote paths, and the path is a local one"
    with pytest.raises(OptionError, match=message):
        storage_of("/a", (("region", "eu-central-1"),))


def test_hadoop_and_schemes_of_fsspec_are_in_theirs():
    options = (("user", "me"),)
    assert (HadoopStorage(options), "hdfs://nn:8020/a") == storage_of("hdfs://nn:8020/a/", options)
    assert (HadoopStorage(), "viewfs://cluster/a") == storage_of("viewfs://cluster/a")
    assert (FsspecStorage(options), f"{SCHEME}://host/a") == storage_of(f"{SCHEME}://host/a", options)


def test_without_the_library_an_object_store_is_refused_in_one_sentence(monkeypatch):
    monkeypatch.setitem(sys.modules, "obstore", None)
    storage, path = storage_of("s3://bucket/a")
    with pytest.raises(UnsupportedError, match=r"pip install 'spark-arrow-ipc\[cloud\]'"):
        storage.status(path)


@pytest.mark.parametrize(
    ("path", "installed", "message"),
    [
        ("nobody://bucket/x", True, "the installed fsspec does not know it either; install the package that brings it"),
        ("filecache://bucket/x", True, "the installed fsspec does not know it either"),
        ("ftp://bucket/x", False, r"if that knows the scheme: pip install 'spark-arrow-ipc\[fsspec\]'"),
        ("dbfs:/x", True, "write dbfs:// and a host"),
    ],
)
def test_schemes_that_nobody_knows_are_refused_in_one_sentence(monkeypatch, path, installed, message):
    if not installed:
        monkeypatch.setitem(sys.modules, "fsspec", None)
        monkeypatch.setitem(sys.modules, "fsspec.registry", None)
    with pytest.raises(UnsupportedError, match=message) as caught:
        storage_of(path)
    assert path in str(caught.value)
    assert "\n" not in str(caught.value)


def test_empty_paths_are_refused():
    with pytest.raises(OptionError, match="expected a path, found an empty string"):
        storage_of("")


@pytest.mark.slow
def test_local_paths_load_no_other_storage():
    script = (
        "import sys; from spark_arrow_ipc.storage.open import storage_of; storage_of('/a'); "
        "print(*(n for n in sys.modules if n.partition('.')[0] in ('fsspec', 'pyarrow', 'obstore')))"
    )
    answer = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True)
    assert ("\n", "") == (answer.stdout, answer.stderr)
