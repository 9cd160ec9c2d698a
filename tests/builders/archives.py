"""Unpack archives on each release of Python."""

import tarfile


def unpack(path, into, kind="data"):
    """Unpack an archive by a filter of `tarfile`; Python 3.11.3 and older ones have none."""
    with tarfile.open(path) as archive:
        archive.extraction_filter = getattr(tarfile, f"{kind}_filter", None)
        archive.extractall(into)
