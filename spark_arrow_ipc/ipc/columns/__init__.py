"""Columns of record batches: a plan of a schema, and what decodes, encodes, joins and selects by it."""
