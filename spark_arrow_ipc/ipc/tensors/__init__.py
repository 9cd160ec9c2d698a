"""Tensors: dense and sparse arrays of any number of dimensions, each one message of its own."""
