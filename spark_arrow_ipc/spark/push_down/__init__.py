"""Push-down into scans of this format, by a rule of Spark's optimizer that is compiled where it runs."""
