"""Connections to Hadoop: what becomes of URLs and options, and what is said where Hadoop is missing."""

import sys
from types import SimpleNamespace

import pytest
from pyarrow import fs

from spark_arrow_ipc.errors import OptionError, UnsupportedError
from spark_arrow_ipc.storage import hadoop
from spark_arrow_ipc.storage.hadoop import HadoopStorage, connect

SECRET = "hunter2-very-secret"


def made(monkeypatch, error=None):
    calls = []

    def make(*arguments, **options):
        calls.append((arguments, {name: value for name, value in options.items() if value is not None}))
        if error is not None:
            raise error

    monkeypatch.setattr(hadoop, "load_fs", lambda: SimpleNamespace(HadoopFileSystem=make))
    return calls


@pytest.mark.parametrize(
    ("root", "options", "arguments", "keywords"),
    [
        ("hdfs://nn:8020", (), ("hdfs://nn", 8020), {}),
        ("hdfs://nameservice", (), ("hdfs://nameservice", 0), {}),
        ("viewfs://cluster", (), ("viewfs://cluster", 0), {}),
        ("hdfs://default", (), ("default", 0), {}),
        ("hdfs://nn", (("user", "me"), ("buffer_size", "2")), ("hdfs://nn", 0), {"user": "me", "buffer_size": 2}),
        ("hdfs://nn", (("dfs.client.x", "1"),), ("hdfs://nn", 0), {"extra_conf": {"dfs.client.x": "1"}}),
    ],
)
def test_a_url_and_options_become_arguments(monkeypatch, root, options, arguments, keywords):
    calls = made(monkeypatch)
    connect(root, options)
    assert [(arguments, keywords)] == calls


@pytest.mark.parametrize(
    ("option", "message"),
    [
        (("usr", SECRET), r"no option storage\.usr for Hadoop; did you mean storage\.user"),
        (("xyz", SECRET), "there are user, kerb_ticket, .*, and Hadoop's own with a dot"),
        (("replication", SECRET), r"no option storage\.replication for Hadoop"),
        (("buffer_size", SECRET), r"storage\.buffer_size must be a whole number"),
    ],
)
def test_wrong_options_are_named_and_their_values_are_not(option, message):
    with pytest.raises(OptionError, match=message) as caught:
        connect("hdfs://nn", (option,))
    assert SECRET not in str(caught.value)


@pytest.mark.parametrize(
    ("error", "raised", "message"),
    [
        (OSError("Unable to load libhdfs\nmore"), UnsupportedError, r"\(Unable to load libhdfs\): .*JAVA_HOME and HADOOP_HOME.* CLASSPATH"),
        (OSError(111, f"HDFS connection failed {SECRET}"), OSError, r"HDFS connection failed \*\*\*.* CLASSPATH"),
    ],
)  # fmt: skip
def test_a_failure_says_what_to_set(monkeypatch, error, raised, message):
    made(monkeypatch, error)
    with pytest.raises(raised, match=message) as caught:
        connect("hdfs://nn", (("ssl.client.keystore.password", SECRET),))
    text = str(caught.value)
    assert ("hdfs://nn" in text, SECRET in text, "\n" in text) == (True, False, False)


def test_without_pyarrow_one_sentence_says_what_to_install(monkeypatch):
    monkeypatch.setitem(sys.modules, "pyarrow.fs", None)
    with pytest.raises(UnsupportedError, match=r"pip install pyarrow.* HADOOP_HOME"):
        HadoopStorage().status("hdfs://nn/a")


def test_pyarrow_has_what_is_called():
    for name in ("get_file_info", "open_input_file"):
        assert callable(getattr(fs.HadoopFileSystem, name))
