"""What a process is told by is what Spark sets in its own; nothing is changed in a person's."""

import logging
import os
import pathlib
import sys
import types

import pytest
from pyspark.errors import PySparkException

from spark_arrow_ipc.errors import CommitError, OptionError
from spark_arrow_ipc.spark import process
from spark_arrow_ipc.spark.datasource import ArrowIpcDataSource
from spark_arrow_ipc.spark.process import short_errors

# (The program that runs, whether Spark started it.)
PROGRAMS = [
    ("pyspark.daemon", True),
    ("spark_arrow_ipc.spark.daemon", True),
    ("pyspark.worker", True),
    ("pyspark.sql.worker.plan_data_source_read", True),
    ("pyspark.sql.streaming.python_streaming_source_runner", True),
    ("pytest.__main__", False),
    ("pyspark_of_somebody", False),
    (None, False),
]


@pytest.mark.parametrize(("program", "is_sparks"), PROGRAMS)
def test_a_process_of_sparks_is_known_by_its_program(monkeypatch, program, is_sparks):
    main = types.ModuleType("__main__")
    main.__spec__ = None if program is None else types.SimpleNamespace(name=program)
    monkeypatch.setitem(process.sys.modules, "__main__", main)
    assert process.is_sparks() == is_sparks


# (SPARK_JOB_ARTIFACT_UUID, name of the working directory, whether it is a session's.)
DIRECTORIES = {
    "a classic session": ("default", "home", False),
    "a classic session in a directory of that name": ("default", "default", False),
    "no process of Spark's": (None, "home", False),
    "a set and empty variable": ("", "home", False),
    "a Connect session": ("9dd41615", "9dd41615", True),
    "a Connect session whose processes start elsewhere": ("9dd41615", "home", False),
}


@pytest.mark.parametrize("name", DIRECTORIES)
def test_the_directory_of_a_connect_session_is_known_by_its_name(monkeypatch, tmp_path, name):
    session, directory, is_session = DIRECTORIES[name]
    monkeypatch.delenv("SPARK_JOB_ARTIFACT_UUID", raising=False)
    if session is not None:
        monkeypatch.setenv("SPARK_JOB_ARTIFACT_UUID", session)
    (tmp_path / directory).mkdir()
    monkeypatch.chdir(tmp_path / directory)
    assert process.is_session_directory() == is_session


# (The error, SPARK_HIDE_TRACEBACK before, in a process of Spark's, and after.)
ERRORS = {
    "an option": (OptionError("no"), None, True, "1"),
    "a commit": (CommitError("no"), None, True, "1"),
    "a file": (PermissionError(13, "Permission denied", "/data"), None, True, "1"),
    "a server": (ConnectionError("the server says: the token is wrong"), None, True, "1"),
    "a server that is silent": (TimeoutError("the server sent nothing"), None, True, "1"),
    "no file": (OSError(9, "Bad file descriptor"), None, True, None),
    "a fault of ours": (KeyError("x"), None, True, None),
    "the person asks for tracebacks": (OptionError("no"), "", True, ""),
    "a person's own process": (OptionError("no"), None, False, None),
}


@pytest.mark.parametrize("name", ERRORS)
def test_only_faults_of_ours_keep_their_traceback_in_spark(monkeypatch, name):
    error, before, in_spark, after = ERRORS[name]
    monkeypatch.setattr(process.os, "environ", {} if before is None else {"SPARK_HIDE_TRACEBACK": before})
    monkeypatch.setattr(process, "is_sparks", lambda: in_spark)
    with pytest.raises(type(error)) as raised, process.short_errors:
        raise error
    assert raised.value is error
    assert os.environ.get("SPARK_HIDE_TRACEBACK") == after


def arrowipc(spark, **options):
    return spark.read.format("arrowipc").options(**options)


def writing(spark, **options):
    return spark.range(3).write.format("arrowipc").options(**options)


# What goes wrong, by the process of Spark's in which it does.
MISTAKES = {
    "inferring a schema": lambda spark, path: arrowipc(spark).load(f"{path}/nowhere"),
    "making a reader": lambda spark, path: arrowipc(spark, colums="id").schema("id long").load(path).collect(),
    "planning": lambda spark, path: arrowipc(spark, where="nowhere = 1").schema("id long").load(path).collect(),
    "reading": lambda spark, path: arrowipc(spark).schema("id string").load(path).collect(),
    "reading headers": lambda spark, path: arrowipc(spark, metadataOnly="true").load(broken(path)).collect(),
    "making a writer": lambda spark, path: writing(spark, ifExists="error").mode("append").save(path),
    "writing": lambda spark, path: (
        spark.sql("SELECT map(1, 2) AS m")
        .write.format("arrowipc")
        .options(restoreTypes="true", dictionaryColumns="m")
        .mode("append")
        .save(f"{path}/new")
    ),
}


def broken(path):
    """A file that is broken behind its first bytes."""
    file = pathlib.Path(path, "broken.arrow")
    file.write_bytes(b"ARROW1\0\0" + bytes(100) + b"ARROW1")
    return str(file)


@pytest.mark.parametrize("name", MISTAKES)
def test_a_mistake_of_the_person_is_a_sentence_without_frames(spark, tmp_path, name):
    writing(spark).mode("overwrite").save(str(tmp_path))
    with pytest.raises(PySparkException) as raised:
        MISTAKES[name](spark, str(tmp_path))
    shown = str(raised.value)
    assert "spark_arrow_ipc.errors." in shown
    assert "Traceback" not in shown
    assert 'File "' not in shown
    assert "spark_arrow_ipc" in shown[:250], "the sentence comes first"


def test_a_fault_of_ours_keeps_its_frames(spark, tmp_path):
    class Faulty(ArrowIpcDataSource):  # in here, so that Spark's processes need not import this module
        @classmethod
        def name(cls):
            return "arrowipc_faulty"

        @short_errors
        def schema(self):
            return {}["nothing"]

    spark.dataSource.register(Faulty)
    with pytest.raises(PySparkException, match=r"Traceback(.|\n)*in schema(.|\n)*KeyError: 'nothing'"):
        spark.read.format("arrowipc_faulty").load(str(tmp_path))


@pytest.mark.parametrize(
    ("level", "program", "shown"),
    [
        ("INFO", "pyspark.sql.streaming.python_streaming_source_runner", True),
        ("info", "pyspark.daemon", True),
        ("", "pyspark.daemon", False),
        ("loud", "pyspark.daemon", False),
        ("INFO", "program", False),
    ],
)
def test_lines_are_written_where_a_level_is_set_in_a_process_of_sparks(monkeypatch, capsys, level, program, shown):
    logger = logging.getLogger("spark_arrow_ipc")
    for name in ("handlers", "level", "propagate"):
        monkeypatch.setattr(logger, name, {"handlers": [], "level": 0, "propagate": True}[name])
    monkeypatch.setenv("ARROWIPC_LOG_LEVEL", level)
    monkeypatch.setitem(sys.modules, "__main__", types.SimpleNamespace(__spec__=types.SimpleNamespace(name=program)))
    for _ in range(2):
        process.show_log()
    logging.getLogger("spark_arrow_ipc.dataset").info("a batch")
    assert shown == capsys.readouterr().err.endswith(" INFO spark_arrow_ipc.dataset: a batch\n")
    logger._cache.clear()
