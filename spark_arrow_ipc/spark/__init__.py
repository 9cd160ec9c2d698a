"""What Spark calls: options, the mapping of types, conforming batches, the data source. The only user of PySpark."""
