"""Writing from Spark: Spark's batches to staged files on executors, the commit on the driver."""
