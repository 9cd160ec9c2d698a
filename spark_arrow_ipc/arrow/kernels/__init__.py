"""Functions from arrays to arrays on whole buffers: take, concat, compact, slice, measure, compare."""
