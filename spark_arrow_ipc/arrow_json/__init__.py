"""Types as Arrow's integration JSON, which the metadata of Spark's fields note them in."""
