"""Print the data files of a table by its log, with pyarrow only; docs/protocol.md has the rules.

    python examples/read_log.py TABLE [NUMBER]

Each line has a path, its bytes and rows. Unmanaged files are not shown.
"""

import json
import sys
import zlib
from pathlib import Path
from typing import Any

import pyarrow as pa

Files = dict[str, tuple[int, int]]


def read_entry(path: Path) -> dict[str, Any]:
    """Return an entry, whose last field is the checksum of the bytes before it."""
    body, _, tail = path.read_bytes().rpartition(b',"crc32":')
    if zlib.crc32(body) != int(tail.strip().removesuffix(b"}")):
        raise SystemExit(f"{path} is damaged")
    return dict(json.loads(body + b"}"))


def read_checkpoint(path: Path) -> tuple[dict[str, Any], Files]:
    """Return the facts in a checkpoint's footer, and its files by path."""
    reader = pa.ipc.open_file(path.read_bytes())
    files = {row["path"]: (row["bytes"], row["rows"]) for row in reader.read_all().to_pylist()}
    return json.loads(reader.metadata[b"spark_arrow_ipc.checkpoint"]), files


def read_snapshot(table: str, number: int | None = None) -> Files:
    """Return the bytes and rows of each managed file after an entry, by default the newest one."""
    log = Path(table, "_ipc_log")
    log /= json.loads((log / "table").read_bytes())["table"]
    last = number or max((int(path.stem) for path in log.iterdir() if path.stem.isdecimal()), default=0)
    checkpoint = max((path for path in log.glob("*.checkpoint") if int(path.stem) <= last), default=None)
    empty: dict[str, Any] = {"format": 1, "number": 0, "entry": "", "ended": []}
    facts, files = (empty, {}) if checkpoint is None else read_checkpoint(checkpoint)
    previous, ended = facts["entry"], {job for job, _, _ in facts["ended"]}
    for n in range(facts["number"] + 1, last + 1):
        entry = read_entry(log / f"{n:020d}.json")
        if entry["format"] != 1 or facts["format"] != 1 or entry["previous"] != previous:
            raise SystemExit(f"entry {n} is of another version, or does not follow the one before it")
        previous, ended = entry["id"], ended.union(entry.get("expire", ()))
        if "job" in entry and entry["job"] not in ended:  # otherwise it is void
            ended.add(entry["job"])
            for path in entry.get("remove", {}).get("path", ()):
                files.pop(path, None)
            added = entry.get("add", {"path": [], "bytes": [], "rows": []})
            files |= dict(zip(added["path"], zip(added["bytes"], added["rows"], strict=True), strict=True))
    return files


if __name__ == "__main__":
    for path, (nbytes, rows) in sorted(read_snapshot(sys.argv[1], *map(int, sys.argv[2:])).items()):
        print(path, nbytes, rows)
