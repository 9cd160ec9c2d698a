"""Kernels: take, concat, compact, slice, measure and compare arrays, on whole buffers."""
