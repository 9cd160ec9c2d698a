"""Print the data files of a table's snapshot by its log, with pyarrow and nothing of this project.

    python tests/oracles/read_log.py TABLE [NUMBER]

Each line has a path, its size in bytes and its rows. Files of other programs, which the log does not know, are not shown.
"""

import json
import sys
import zlib
from pathlib import Path
from typing import Any

import pyarrow as pa

Files = dict[str, tuple[int, int]]
FORMAT = 1  # the newest version of the protocol that this program reads


def read_entry(path: Path) -> dict[str, Any]:
    """Return an entry whose last field is the checksum of the bytes before it."""
    body, _, tail = path.read_bytes().rpartition(b',"crc32":')
    if zlib.crc32(body) != int(tail.strip().removesuffix(b"}")):
        raise SystemExit(f"{path} is damaged")
    entry = json.loads(body + b"}")
    if entry["format"] > FORMAT:
        raise SystemExit(f"{path} is of a newer version")
    return entry


def read_checkpoint(path: Path) -> tuple[dict[str, Any], Files]:
    """Return the facts in a checkpoint's footer, and its files by path."""
    reader = pa.ipc.open_file(path.read_bytes())
    facts = json.loads(reader.metadata[b"spark_arrow_ipc.checkpoint"])
    rows = reader.read_all().select(["path", "bytes", "rows"]).to_pylist()
    return facts, {row["path"]: (row["bytes"], row["rows"]) for row in rows}


def read_snapshot(table: str, number: int | None = None) -> Files:
    """Return the size and the rows of each file after an entry, by default the newest one."""
    log = Path(table, "_ipc_log")
    log /= json.loads((log / "table").read_bytes())["table"]
    last = number or max(int(path.stem) for path in log.iterdir() if path.stem.isdecimal())
    files, first, previous, ended = {}, 1, "", set()
    checkpoints = sorted(int(path.stem) for path in log.glob("*.checkpoint") if int(path.stem) <= last)
    if checkpoints:
        facts, files = read_checkpoint(log / f"{checkpoints[-1]:020d}.checkpoint")
        first, previous = facts["number"] + 1, facts["entry"]
        ended = {job for job, _, _ in facts["ended"]}
    for n in range(first, last + 1):
        entry = read_entry(log / f"{n:020d}.json")
        if entry.get("previous", "") != previous:
            raise SystemExit(f"entry {n} does not follow the one before it")
        previous = entry["id"]
        ended = {*ended, *entry.get("expire", ())}
        if "job" in entry and entry["job"] not in ended:  # the entry of a job that has ended is void
            ended.add(entry["job"])
            for path in entry.get("remove", {}).get("path", ()):
                files.pop(path, None)
            added = entry.get("add", {"path": [], "bytes": [], "rows": []})
            files |= dict(zip(added["path"], zip(added["bytes"], added["rows"], strict=True), strict=True))
    return files


if __name__ == "__main__":
    for path, (nbytes, rows) in sorted(read_snapshot(sys.argv[1], *map(int, sys.argv[2:])).items()):
        print(path, nbytes, rows)
