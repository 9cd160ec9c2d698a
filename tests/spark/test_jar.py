"""The jar of the Java: its bytes, the cache that holds it, and what is never taken from there."""

import io
import os
import zipfile

import pyspark
import pytest

from spark_arrow_ipc import __version__
from spark_arrow_ipc.errors import OptionError, UnsupportedError
from spark_arrow_ipc.spark import jar
from spark_arrow_ipc.spark.datasource import ArrowIpcDataSource, release_of

SERVICE = "META-INF/services/org.apache.spark.sql.sources.DataSourceRegister"


@pytest.fixture
def cache(monkeypatch, tmp_path):
    """An empty cache of the user."""
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    return tmp_path / "cache" / "spark-arrow-ipc"


@pytest.fixture
def compiled(monkeypatch):
    """Classes in place of compiled ones; returns a list with an entry for each compilation."""
    calls = []

    def compile_classes(sources, java, class_path):
        calls.append(sorted(sources))
        return {"sparkarrowipc/Source.class": b"\xca\xfe\xba\xbe", "sparkarrowipc/A.class": b"a"}

    monkeypatch.setattr(jar, "_compile_classes", compile_classes)
    return calls


@pytest.mark.slow
def test_two_compilations_have_the_same_bytes(monkeypatch, tmp_path):
    """Of the sources themselves, by the Janino of the installed Spark."""
    contents = []
    for name in "ab":
        monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / name))
        contents.append(jar.jar_of_installation())
    assert contents[0] == contents[1]
    with zipfile.ZipFile(io.BytesIO(contents[0])) as archive:
        names = archive.namelist()
        assert {entry.date_time for entry in archive.infolist()} == {(1980, 1, 1, 0, 0, 0)}
        assert names[:2] == ["META-INF/MANIFEST.MF", SERVICE]
        assert names[2:] == sorted(names[2:])
        assert set(archive.read(SERVICE).split()) == {b"sparkarrowipc.Source", b"sparkarrowipc.FunctionSource"}
        manifest = archive.read("META-INF/MANIFEST.MF").decode().splitlines()
        assert {f"Implementation-Version: {__version__}", f"Spark-Version: {pyspark.__version__}"} <= set(manifest)
        stems = {name.removesuffix(".java") for name in jar.java_sources()}
        assert {f"sparkarrowipc/{stem}.class" for stem in stems} <= set(names)


def test_the_cache_is_used(cache, compiled):
    assert jar.jar_of_installation() == jar.jar_of_installation()
    assert len(compiled) == 1
    (path,) = cache.iterdir()
    assert (cache.stat().st_mode & 0o777, path.stat().st_mode & 0o777) == (0o700, 0o600)


CHANGES = {
    "the package": lambda monkeypatch: monkeypatch.setattr(jar, "VERSION", "9.9.9"),
    "Spark": lambda monkeypatch: monkeypatch.setattr(jar, "spark_version", "4.9.0"),
    "the sources": lambda monkeypatch: monkeypatch.setattr(jar, "java_sources", lambda: {"A.java": "class A {}"}),
}


@pytest.mark.parametrize("name", CHANGES)
def test_another_release_is_another_jar(cache, compiled, monkeypatch, name):
    jar.jar_of_installation()
    CHANGES[name](monkeypatch)
    jar.jar_of_installation()
    assert (len(compiled), len(list(cache.iterdir()))) == (2, 2)


def cut_file(cache, _):
    (path,) = cache.iterdir()
    path.write_bytes(path.read_bytes()[:-1])


def rename_file_of_others(cache, _):
    """Bytes of an attacker under the name of the jar."""
    (path,) = cache.iterdir()
    path.write_bytes(b"other")


def let_others_write(cache, _):
    cache.chmod(0o770)


def let_all_write(cache, _):
    cache.chmod(0o1777)


def link_directory(cache, _):
    cache.rename(cache.with_name("elsewhere"))
    cache.symlink_to(cache.with_name("elsewhere"))


def belong_to_another(_, monkeypatch):
    monkeypatch.setattr(os, "geteuid", lambda: 12345)


def name_relative_cache(_, monkeypatch):
    monkeypatch.setenv("XDG_CACHE_HOME", "cache")


def put_file_there(cache, _):
    """As a home directory that cannot be written to: no directory can be made."""
    for path in cache.iterdir():
        path.unlink()
    cache.rmdir()
    cache.touch()


HOSTILE = [
    cut_file, rename_file_of_others, let_others_write, let_all_write, link_directory, belong_to_another, name_relative_cache,
    put_file_there,
]  # fmt: skip


@pytest.mark.parametrize("change", HOSTILE, ids=lambda change: change.__name__)
def test_a_cache_that_cannot_be_trusted_is_not_used(cache, compiled, monkeypatch, change):
    """The jar is compiled again, and an application gets it from a directory of its own."""
    expected = jar.jar_of_installation()
    change(cache, monkeypatch)
    assert jar.jar_of_installation() == expected
    assert len(compiled) == 2


class Context:
    """Of a classic session, as far as the jar is concerned."""

    version = pyspark.__version__

    class _jvm:  # noqa: N801 - as in PySpark
        class java:  # noqa: N801
            class lang:  # noqa: N801
                class System:
                    @staticmethod
                    def getProperty(_):
                        return "/"


@pytest.mark.parametrize(("mode", "is_cached"), [(0o700, True), (0o777, False)])
def test_an_application_gets_a_path(cache, compiled, mode, is_cached):
    cache.mkdir(parents=True)
    cache.chmod(mode)
    path = jar.jar_of_session(Context)
    assert (path.parent == cache) == is_cached
    assert path.parent.stat().st_mode & 0o777 == 0o700
    with zipfile.ZipFile(path) as archive:
        assert archive.testzip() is None


def test_a_compiler_that_fails_is_named(cache, monkeypatch):
    monkeypatch.setattr(jar, "java_sources", lambda: {"A.java": "class A { int a = missing; }"})
    with pytest.raises(UnsupportedError, match=r"does not compile with this Spark: .*missing"):
        jar.jar_of_installation()
    assert list(cache.iterdir()) == []


def test_a_client_without_jars_is_told_what_to_do(cache, monkeypatch, tmp_path):
    monkeypatch.setenv("SPARK_HOME", str(tmp_path))
    with pytest.raises(UnsupportedError, match=r"no jars .*arrowipc jar.*spark\.jars"):
        jar.jar_of_installation()


RELEASES = {
    "of this package": (release_of(pyspark.__version__), None),
    "another package": (f"0.0.1 for Spark {'.'.join(pyspark.__version__.split('.')[:2])}", "'0.0.1 for Spark "),
    "another Spark": (f"{__version__} for Spark 3.5", "for Spark 3.5'"),
}


@pytest.mark.parametrize("name", RELEASES)
def test_a_jar_of_another_release_is_refused(name, tmp_path):
    release, refusal = RELEASES[name]
    options = {"path": str(tmp_path), "arrowipc.release": release}
    if refusal is None:
        assert "arrowipc.release" not in ArrowIpcDataSource(options).options
        return
    with pytest.raises(OptionError, match=refusal) as caught:
        ArrowIpcDataSource(options)
    assert "arrowipc jar" in str(caught.value)
