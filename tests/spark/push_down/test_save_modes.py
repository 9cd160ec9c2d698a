"""`save` through the source of the JVM: Spark's modes and `partitionBy`, and refusals before anything is written."""

import pytest

MODES = {
    # mode, options, rows after it in a new directory, and in one with 6 rows; text is that of a refusal
    "Spark's default": (None, {}, 6, "ifExists is error, as without a mode; nothing is written"),
    "errorifexists": ("errorifexists", {}, 6, "ifExists is error, as without a mode; nothing is written"),
    "ignore": ("ignore", {}, 6, 6),
    "append": ("append", {}, 6, 12),
    "overwrite": ("overwrite", {}, 6, 6),
    "append with an option of ours": ("append", {"ifExists": "ignore"}, 6, 6),
    "the same said twice": ("ignore", {"ifExists": "IGNORE"}, 6, 6),
    "a mode and an option that differ": (None, {"ifExists": "ignore"}, *["ifExists=ignore contradicts the mode"] * 2),
    "an option that is none": ("append", {"provider": "arrowipc", "owner": "me"}, *["no options: remove them"] * 2),
}


@pytest.fixture
def rows(pushed):
    return pushed.range(6).selectExpr("id", "cast(id % 2 AS int) AS day", "concat('v', id) AS s").coalesce(1)


def save(frame, path, mode=None, **options):
    writer = frame.write.format("arrowipc").options(**options)
    (writer if mode is None else writer.mode(mode)).save(str(path))


def load(spark, path, **options):
    return spark.read.format("arrowipc").options(**options).load(str(path))


def names(path):
    return sorted(str(file.relative_to(path)) for file in path.rglob("*") if not file.name.startswith("."))


@pytest.mark.parametrize(("mode", "options", "new", "again"), MODES.values(), ids=MODES)
def test_modes(pushed, rows, tmp_path, mode, options, new, again):
    path = tmp_path / "t"
    for expected in (new, again):
        before = names(path)
        if isinstance(expected, str):
            with pytest.raises(Exception, match=expected):
                save(rows, path, mode, **options)
            assert before == names(path)
        else:
            save(rows, path, mode, **options)
            assert expected == load(pushed, path).count()
        if not path.exists():
            save(rows, path, "append")


def directories(path):
    return sorted({str(file.parent.relative_to(path)) for file in path.rglob("*.arrow")})


def test_partitions(pushed, rows, tmp_path):
    """As the option does; the mode overwrite replaces partitions where an option says so."""
    path = tmp_path / "t"
    rows.write.format("arrowipc").partitionBy("day").save(str(path))
    assert ["day=0", "day=1"] == directories(path)
    rows.write.format("arrowipc").partitionBy("day").mode("append").save(str(path))
    assert 12 == load(pushed, path).count()
    some = rows.filter("day = 1").write.format("arrowipc").partitionBy("day").mode("overwrite")
    some.option("partitionOverwriteMode", "dynamic").save(str(path))
    assert 9 == load(pushed, path).count()
    rows.write.format("arrowipc").partitionBy("day", "s").mode("overwrite").save(str(path))
    assert 6 == len(directories(path))


REFUSED = {
    "buckets": (lambda writer: writer.bucketBy(2, "day"), "does not support bucketBy"),
    "clusters": (lambda writer: writer.clusterBy("day"), "arrowipc has no clustered files: remove clusterBy"),
    "partitions twice": (lambda writer: writer.partitionBy("day").option("partitionBy", "s"), "as a call and as an option"),
    "a column that is not there": (lambda writer: writer.partitionBy("nope"), "nope"),
}  # fmt: skip


@pytest.mark.parametrize(("change", "words"), REFUSED.values(), ids=REFUSED)
def test_refusals_touch_nothing(rows, tmp_path, change, words):
    with pytest.raises(Exception, match=words):
        change(rows.write.format("arrowipc")).save(str(tmp_path / "t"))
    assert not (tmp_path / "t").exists()


OPTIONS = {
    "one": ({"provider": "arrowipc"}, None, "there is no option provider"),
    "both": ({"provider": "arrowipc", "owner": "me", "where": "id = 1"}, None, "no options: remove them"),
    "both with a schema": ({"provider": "ArrowIpc", "owner": "me", "where": "id = 1"}, "id long", "catalog"),
}


@pytest.mark.parametrize(("options", "schema", "words"), OPTIONS.values(), ids=OPTIONS)
def test_a_read_with_options_of_those_names_is_no_table(pushed, rows, tmp_path, options, schema, words):
    save(rows, tmp_path / "t")
    reader = pushed.read.format("arrowipc").options(**options)
    with pytest.raises(Exception, match=words):
        (reader if schema is None else reader.schema(schema)).load(str(tmp_path / "t")).count()
