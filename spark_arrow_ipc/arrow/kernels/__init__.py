"""Kernels on complete buffers: take, concat, compact, slice, order."""
