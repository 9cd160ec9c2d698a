"""The Spark data source: options, types, reading and writing; the only sub-package that imports PySpark."""
