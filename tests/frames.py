"""The one way in which tests compare two DataFrames."""

from chispa import assert_df_equality


def check_same(found, expected):
    """Check names, types and rows in any order; NaN equals NaN. Nullability and metadata are other tests' to compare.

    Maps have no order in Spark: frames with columns of them are compared as lists of rows.
    """
    assert_df_equality(
        found, expected, ignore_row_order=True, ignore_nullable=True, ignore_metadata=True, allow_nan_equality=True
    )
