"""A DataFrame of every type, and the one way in which tests compare two."""

from chispa import assert_df_equality

EVERYTHING = """
    SELECT id, id % 3 = 0 AS b, cast(id AS tinyint) AS i8, cast(id AS smallint) AS i16, cast(id AS int) AS i32,
        cast(id AS float) AS f32, id / 3 AS f64, cast(id AS decimal(38, 4)) AS d, concat('text ', id) AS s,
        cast(concat('bytes ', id) AS binary) AS bin, date_add(date'2024-02-29', cast(id AS int)) AS day,
        timestamp_micros(id * 1000001) AS at, cast(timestamp_micros(id * 1000001) AS timestamp_ntz) AS local,
        make_dt_interval(cast(id AS int), 1, 2, 3.000004) AS wait, void AS nothing,
        array(id, NULL) AS list, map(concat('k', coalesce(id, -1)), id, 'x', NULL) AS pairs,
        named_struct('x', id, 'y', array(named_struct('z', map(coalesce(id, -1), array('a'))))) AS deep,
        collate(concat('T', id), 'UTF8_LCASE') AS folded,
        if(id % 5 = 0, NULL, parse_json(concat('{"a": [', id, ', null]}'))) AS v
    FROM (SELECT if(id = 7, NULL, id) AS id, NULL AS void FROM range(0, 50, 1, 2))
"""


def check_same(found, expected):
    """Check names, types and rows in any order; NaN equals NaN. Nullability and metadata are other tests' to compare.

    Maps have no order in Spark: frames with columns of them are compared as lists of rows.
    """
    assert_df_equality(
        found, expected, ignore_row_order=True, ignore_nullable=True, ignore_metadata=True, allow_nan_equality=True
    )
