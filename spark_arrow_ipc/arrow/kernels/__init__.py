"""Kernels on whole buffers: take, concat, compact, slice, measure, compare."""
