"""The files that a streaming query reads next: the modes of a stream, and their offsets."""
