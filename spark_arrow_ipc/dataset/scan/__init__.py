"""Read files: their metadata, splits, and a scan of the record batches of a split."""
