"""`profile`: which stage of a worker's read takes how much of its time.

Strategy
--------
A worker's work is done in this process, without Spark: the partitions of a read are read one after the other, once to
warm up and then under cProfile. The time of each function that is not ours (numpy's, pyarrow's, the codecs', Python's
own) counts for the function of ours that called it, and each module of ours belongs to a stage. cProfile makes calls
of Python dearer than they are: shares are a picture, and the seconds beside them are those without it.
"""

from __future__ import annotations

import cProfile
import gc
import os
import pstats
import time
from collections import defaultdict
from collections.abc import Mapping
from pathlib import Path

import spark_arrow_ipc
from spark_arrow_ipc.spark.datasource import ArrowIpcDataSource

STAGES: Mapping[str, str] = {
    "ipc/bytes/source": "read", "ipc/bytes/body": "read", "ipc/bytes/read_ahead": "read",
    "ipc/flatbuf": "headers", "ipc/messages": "headers",
    "ipc/columns/compression": "decompress", "ipc/columns/lz4_frame": "decompress",
    "ipc": "decode", "arrow/validate": "validate", "arrow": "decode",
    "spark/convert": "convert", "spark/bridge": "bridge", "spark": "bridge", "dataset": "scan",
}  # fmt: skip
"""By the beginning of a module's path, the longest that fits."""

_ROOT = str(Path(spark_arrow_ipc.__file__).parent) + os.sep
_OTHER = "other"

Function = tuple[str, int, str]
"""As pstats names it: file, line, name."""


def stage_of(function: Function) -> str | None:
    """Return the stage of a function of ours, or None for others."""
    file = function[0]
    if not file.startswith(_ROOT):
        return None
    path = file[len(_ROOT) :].replace(os.sep, "/")
    fitting = [start for start in STAGES if path.startswith(start)]
    return STAGES[max(fitting, key=len)] if fitting else _OTHER


def shares(profile: cProfile.Profile) -> Mapping[str, float]:
    """Return the seconds of each stage."""
    seconds: dict[str, float] = defaultdict(float)
    found = pstats.Stats(profile).stats  # type: ignore[attr-defined]
    for function, (_, _, own, _, callers) in found.items():
        stage = stage_of(function)
        if stage is not None or not callers:
            seconds[stage or _OTHER] += own
            continue
        for caller, (_, _, own_here, _) in callers.items():
            seconds[_stage_above(caller, found)] += own_here
    return seconds


def _stage_above(function: Function, found: Mapping[Function, tuple]) -> str:
    """Return the stage of a function, or of the one of its callers from which it was called longest."""
    for _ in range(10):
        stage = stage_of(function)
        if stage is not None:
            return stage
        callers = found.get(function, (0, 0, 0, 0, {}))[4]
        if not callers:
            break
        function = max(callers, key=lambda caller: callers[caller][3])
    return _OTHER


def read_all(path: str) -> None:
    """Read what the workers of a full scan read."""
    source = ArrowIpcDataSource({"path": path})
    reader = source.reader(source.schema())
    for partition in reader.partitions():
        for _ in reader.read(partition):
            pass


def profile_worker(path: str) -> Mapping[str, float]:
    """Print the share of each stage of a full scan, and return their seconds."""
    read_all(path)
    gc.collect()
    gc.freeze()  # as in a worker
    started = time.process_time()
    read_all(path)
    plain = time.process_time() - started
    profile = cProfile.Profile(time.process_time)
    profile.enable()
    read_all(path)
    profile.disable()
    gc.unfreeze()
    seconds = shares(profile)
    whole = sum(seconds.values())
    print(f"{Path(path).name}: {plain:.3f} CPU s")
    for stage, spent in sorted(seconds.items(), key=lambda pair: -pair[1]):
        print(f"{stage:<12}{spent / whole:>7.0%}")
    return {**seconds, "plain": plain}
