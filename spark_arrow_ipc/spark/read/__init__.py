"""Reading into Spark: plan on the driver, yield Arrow batches on executors."""
