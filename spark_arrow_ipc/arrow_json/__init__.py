"""Types as Arrow's integration JSON, the annotation of types in the metadata of Spark's fields."""
