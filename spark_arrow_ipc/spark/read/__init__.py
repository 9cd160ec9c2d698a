"""Reading into Spark: plan the input partitions on the driver, yield Arrow batches on executors."""
