"""The keys of variants: the dictionaries in their metadata, read for many rows at once.

Strategy
--------
Most rows share a few metadata, so each distinct one is read once. Their strings are one array of bytes over the metadata's
own buffer: the strings of one lie one after another. The bytes between the strings of two metadata are an element of that
array as well, which is no key. Every size and offset is checked before it is used.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Final, NoReturn

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from spark_arrow_ipc.errors import InvalidBodyError
from spark_arrow_ipc.spark import pyarrow_values
from spark_arrow_ipc.spark.conform.variant_bytes import numbers_at, parts, present

Numbers = npt.NDArray[Any]

_SPEC: Final = "VariantEncoding.md, metadata"
_VERSION: Final = 1
_EMPTY: Final = b"\1\0\0"
_LEAST: Final = len(_EMPTY)
"""Bytes of metadata without keys: the header, the number of keys, and where they end."""


class Keys:
    """The keys of some rows.

    Parameters
    ----------
    metadata
        Of each row, null where there is none.
    names
        The names of shredded fields.
    path
        Of the column, for errors.

    Raises
    ------
    InvalidBodyError
        Metadata are broken.
    """

    def __init__(self, metadata: pa.Array, names: Sequence[str], path: str) -> None:
        encoded = metadata.dictionary_encode()
        of_row = (
            encoded.indices.fill_null(pyarrow_values.scalar(0, encoded.indices.type))
            .to_numpy(zero_copy_only=False)
            .astype(np.int64)
        )
        self.path = path
        self._names = pyarrow_values.array([name.encode() for name in names], pa.binary())
        self._of_row = of_row
        # Without visible rows there are none; one without keys stands for them.
        distinct = encoded.dictionary if len(encoded.dictionary) else pyarrow_values.array([_EMPTY], pa.binary())
        self._read(distinct, np.flatnonzero(present(metadata)))
        self._ranks: Numbers | None = None
        self._ids: Numbers = self._ids_of_names()

    def _read(self, distinct: pa.Array, shown: Numbers) -> None:
        """Find the strings of all distinct metadata."""
        offsets, octets = parts(distinct)
        starts, nbytes = offsets[:-1], np.diff(offsets)
        _check(nbytes >= _LEAST, f"metadata of at least {_LEAST} bytes", nbytes, self, shown)
        headers = octets[starts].astype(np.int64)
        _check(headers & 0xF == _VERSION, f"metadata of version {_VERSION}", headers & 0xF, self, shown)
        widths = (headers >> 6) + 1
        _check(1 + 2 * widths <= nbytes, "metadata with the number of keys and an offset", nbytes, self, shown)
        self._sizes = numbers_at(octets, starts + 1, widths)
        heads = 1 + widths * (self._sizes + 2)
        _check(heads <= nbytes, "metadata that hold an offset for each key", self._sizes, self, shown)
        counts = self._sizes + 1
        self._bases = np.cumsum(counts) - counts
        owners = np.repeat(np.arange(len(counts)), counts)
        nth = np.arange(len(owners)) - self._bases[owners]
        ends = numbers_at(octets, (starts + 1 + widths)[owners] + nth * widths[owners], widths[owners])
        falls = np.zeros(len(ends), np.bool_)
        falls[1:] = (np.diff(ends) < 0) & (nth[1:] > 0)
        falls |= (nth == 0) & (ends != 0)
        falls |= ends > (nbytes - heads)[owners]
        wrong = np.zeros(len(counts), np.bool_)
        wrong[owners[falls]] = True
        _check(~wrong, "offsets of keys that begin at 0 and do not fall", self._sizes, self, shown)
        flat = (starts + heads)[owners] + ends
        buffers = [None, pa.py_buffer(flat.astype(np.int32)), pa.py_buffer(octets)]
        self._strings = pa.Array.from_buffers(pa.binary(), max(0, len(flat) - 1), buffers)
        self._owners, self._nth = owners[: len(self._strings)], nth[: len(self._strings)]

    def _ids_of_names(self) -> Numbers:
        """Return the key of each name in each of the distinct metadata, -1 without one."""
        from pyarrow import compute

        ids = np.full((len(self._sizes), len(self._names)), -1, np.int64)
        if len(self._names) and len(self._strings):
            name = (
                compute.index_in(self._strings, value_set=self._names)
                .fill_null(pyarrow_values.scalar(-1, pa.int32()))
                .to_numpy()
            )
            known = (name >= 0) & (self._nth < self._sizes[self._owners])
            ids[self._owners[known], name[known]] = self._nth[known]
        return ids

    def ids(self, name: int, rows: Numbers) -> Numbers:
        """Return the key of a shredded name in each of some rows, -1 without one."""
        found: Numbers = self._ids[self._of_row[rows], name]
        return found

    def counts(self, rows: Numbers) -> Numbers:
        """Return the number of keys of each of some rows."""
        found: Numbers = self._sizes[self._of_row[rows]]
        return found

    def ranks_of_names(self) -> Numbers:
        """Return the place of each shredded name in the order of all names."""
        return self._all_ranks()[len(self._strings) :]

    def ranks(self, rows: Numbers, ids: Numbers) -> Numbers:
        """Return the place of keys in the order of all names; `ids` are below `counts` of their rows."""
        found: Numbers = self._all_ranks()[self._bases[self._of_row[rows]] + ids]
        return found

    def _all_ranks(self) -> Numbers:
        if self._ranks is None:
            # VariantEncoding.md: the fields of an object are in the order of the unsigned bytes of their names.
            encoded = pa.concat_arrays([self._strings, self._names]).dictionary_encode()
            from pyarrow import compute

            order = compute.sort_indices(encoded.dictionary).to_numpy()
            places = np.empty(len(order), np.int64)
            places[order] = np.arange(len(order))
            self._ranks = places[encoded.indices.to_numpy()]
        return self._ranks

    def row_of(self, distinct: int, shown: Numbers) -> int:
        """Return the first row that has one of the distinct metadata."""
        return int(shown[self._of_row[shown] == distinct][0])


def _check(sound: npt.NDArray[np.bool_], expected: str, found: Numbers, keys: Keys, shown: Numbers) -> None:
    if not sound.all():
        wrong = int(np.flatnonzero(~sound)[0])
        _refuse(expected, f"{found[wrong]} in slot {keys.row_of(wrong, shown)}", keys.path)


def _refuse(expected: str, found: str, path: str) -> NoReturn:
    raise InvalidBodyError(expected=expected, found=found, field_path=path, spec=_SPEC)
