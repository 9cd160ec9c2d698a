"""Functions and aggregates that run in the workers that decode, so that only their results cross to Spark."""
