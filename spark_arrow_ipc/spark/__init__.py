"""The Spark data source: options, type mapping, reading and writing.

This is the only sub-package that imports PySpark.
"""
