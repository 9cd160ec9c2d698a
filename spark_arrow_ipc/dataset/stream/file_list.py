"""Write the files of a batch as JSON, and read them back, for offsets and the entries of a source log.

Strategy
--------
``{"roots": ["/in"], "files": [[0, "a/1.arrow", 1024, 1700000000000000000, "version"], ...]}``: a file is its root's
position, its path below that, its size, its modification time in nanoseconds, and its version if the storage has any.
What comes back is checked value by value, and no path leads out of its root.
"""

from __future__ import annotations

import base64
import binascii
import json
import zlib
from collections.abc import Mapping
from typing import Any, Final, NoReturn

from spark_arrow_ipc.bounded_json import parse_json
from spark_arrow_ipc.dataset.listing.data_file import DataFile
from spark_arrow_ipc.dataset.stream.mode import StreamBatch
from spark_arrow_ipc.errors import StreamOffsetError, cut_repr
from spark_arrow_ipc.storage.paths import SEPARATOR, join, relative

_MOST_NBYTES: Final = 64 << 20
"""Most bytes of a list of files when it is unpacked: a mebibyte of text may stand for a gigabyte."""

_MOST_TIME: Final = 1 << 63


def files_to_json(batch: StreamBatch) -> dict[str, Any]:
    """Return the files of a batch as a JSON object."""
    positions: dict[str, int] = {}
    files = []
    for file, root in zip(batch.files, batch.roots, strict=True):
        row: list[str | int] = [positions.setdefault(root, len(positions)), relative(file.path, root), file.nbytes]
        row.append(file.mtime_ns)
        if file.version:
            row.append(file.version)
        files.append(row)
    return {"roots": list(positions), "files": files}


def files_from_json(value: Mapping[str, object]) -> StreamBatch:
    """Return the batch that `files_to_json` wrote."""
    roots, rows = value.get("roots"), value.get("files")
    if not isinstance(roots, list) or not all(isinstance(root, str) and root for root in roots):
        _refuse("a list of directories", roots)
    if not isinstance(rows, list):
        _refuse("a list of files", rows)
    files = [_file(row, roots) for row in rows]
    return StreamBatch(tuple(files), tuple(roots[row[0]] for row in rows))


def _file(row: object, roots: list[str]) -> DataFile:
    if not isinstance(row, list) or len(row) not in (4, 5):
        _refuse("a file as [root, path, bytes, time, version]", row)
    root, path, nbytes, mtime_ns, version = [*row, ""][:5]
    if type(root) is not int or not 0 <= root < len(roots):
        _refuse(f"the position of one of {len(roots)} directories", row)
    if not isinstance(path, str) or not path or {"", ".", ".."} & set(path.split(SEPARATOR)):
        _refuse("a path below a directory", row)
    if type(nbytes) is not int or type(mtime_ns) is not int or not 0 <= nbytes < _MOST_TIME > abs(mtime_ns):
        _refuse("the size and the time of a file", row)
    if not isinstance(version, str):
        _refuse("the version of a file", row)
    return DataFile(join(roots[root], path), nbytes, mtime_ns, (), None, version)


def files_to_text(batch: StreamBatch) -> str:
    """Return the files of a batch as a short string: JSON, compressed, in base64. An empty batch is an empty string."""
    if not batch.files:
        return ""
    text = json.dumps(files_to_json(batch), separators=(",", ":"))
    return base64.b64encode(zlib.compress(text.encode("ascii"), 6)).decode("ascii")


def files_from_text(text: str) -> StreamBatch:
    """Return the batch that `files_to_text` wrote."""
    if not text:
        return StreamBatch()
    try:
        unpacker = zlib.decompressobj()
        data = unpacker.decompress(base64.b64decode(text.encode("ascii"), validate=True), _MOST_NBYTES)
        whole = unpacker.eof and not unpacker.unused_data
        value = parse_json(data) if whole else None
    except (ValueError, binascii.Error, zlib.error) as error:
        raise StreamOffsetError(expected="a packed list of files in an offset", found=str(error)) from error
    if not isinstance(value, dict):
        _refuse("a packed list of files in an offset", value)
    return files_from_json(value)


def _refuse(expected: str, found: object) -> NoReturn:
    raise StreamOffsetError(expected=expected, found=cut_repr(found))
