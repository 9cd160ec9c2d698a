"""Shredded variants are what Spark reads from the Parquet file that it shredded them into."""

import json

import arrow_files
import pyarrow.parquet as pq
import pytest

LONG = "s" * 70
DOCUMENTS = [
    {"a": 1, "b": "x", "c": {"d": 1.5, "e": [1, 2]}}, {"a": "no int", "b": LONG}, {"a": None, "z": True}, {}, [], 5,
    {"b": "", "c": {"e": ["s", None, {"q": 1}], "y": 2}, "A": 1, "aa": [{"b": 1}]}, {"c": [1], "a": 2.5}, None, "text",
    {"é": 1, "c": {"d": 2.5}}, [{"a": 1, "b": []}, {"a": "x", "c": 1}, {}, [], 7], [[1], [], "x"], 99_999_999_999,
]  # fmt: skip
TYPED = (
    "'dec4', cast(1.25 AS decimal(5,2)), 'dec8', cast(-12345678901.25 AS decimal(15,2)), 'dt', date'2024-02-29', "
    "'dec16', cast('12345678901234567890.123' AS decimal(30,3)), 'ts', timestamp'1960-01-02 03:04:05.000006', "
    "'tn', timestamp_ntz'2024-01-02 03:04:05.000006', 'bin', X'00ff', 'f', cast(1.5 AS float), 'dbl', -0.1D, "
    "'bo', true, 'by', 1Y, 'sh', -300S, 'i', 70000, 'l', -1L"
)
SHAPES = [
    "a int, b string, c struct<d decimal(2,1), e array<int>>",
    "array<struct<a: int, b: array<string>>>",
    (
        "dec4 decimal(5,2), dec8 decimal(15,2), dec16 decimal(30,3), dt date, ts timestamp, tn timestamp_ntz, bin binary, "
        "f float, dbl double, bo boolean, by tinyint, sh smallint, i int, l bigint"
    ),
]
FORCED = "spark.sql.variant.forceShreddingSchemaForTest"
SHREDS = "spark.sql.variant.writeShredding.enabled"


@pytest.fixture
def _shredding(spark):
    spark.conf.set(SHREDS, "true")
    yield
    spark.conf.unset(SHREDS)
    spark.conf.unset(FORCED)


@pytest.mark.usefixtures("_shredding")
def test_shredded_variants_are_what_spark_reads_from_parquet(spark, tmp_path):
    rows = [(i, None if i == 1 else json.dumps(document)) for i, document in enumerate(DOCUMENTS)]
    frame = spark.createDataFrame(rows, "id int, j string").selectExpr(
        "id", f"IF(id = 0, to_variant_object(named_struct({TYPED})), parse_json(j)) AS v"
    )
    folders = [str(tmp_path / f"{number}.parquet") for number in range(len(SHAPES))]
    (tmp_path / "ipc").mkdir()
    for number, shape in enumerate(SHAPES):
        spark.conf.set(FORCED, shape)
        frame.selectExpr(f"{number} AS shape", "*").coalesce(1).write.parquet(folders[number])
        table = pq.read_table(folders[number], use_threads=False)
        at = table.schema.get_field_index("v")
        assert "typed_value" in [field.name for field in table.schema.field("v").type]
        named = table.schema.field("v").with_metadata({"ARROW:extension:name": "arrow.parquet.variant"})
        arrow_files.write(tmp_path / "ipc" / f"{number}.arrow", table.cast(table.schema.set(at, named)))
    columns = ["shape", "id", "to_json(v)", "schema_of_variant(v)"]
    expected = spark.read.parquet(*folders).selectExpr(*columns).orderBy("shape", "id").collect()
    found = spark.read.format("arrowipc").load(str(tmp_path / "ipc"))
    assert {"shape": "int", "id": "int", "v": "variant"} == dict(found.dtypes)
    assert expected == found.selectExpr(*columns).orderBy("shape", "id").collect()
    assert len(expected) == len(SHAPES) * len(DOCUMENTS)
