"""Kernels on whole buffers: take, concat, compact, slice, order."""
