"""Shared memory: what a server writes, what a client believes, and what stays behind."""

import fcntl
import os
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
from dissociated_peers import SEALS, sealed

from spark_arrow_ipc.errors import InvalidBodyError, InvalidFramingError, UnsupportedError
from spark_arrow_ipc.ipc.dissociated import shared_memory
from spark_arrow_ipc.ipc.dissociated.shared_memory import Handle, RegionWriter, SharedMemory, attach, remove_abandoned

NONCE = bytes(range(16))


def named():
    """Return the names below the folder that this process has open."""
    links = (str(path.readlink()) for path in Path("/proc/self/fd").iterdir() if path.is_symlink())
    return {link for link in links if link.startswith("/dev/shm/arrowipc-")}


def write(kind, *bodies):
    writer = RegionWriter(kind)
    offsets = [writer.append([body]) for body in bodies]
    return writer.freeze(), offsets


def attached(region):
    return attach(region.handle, region.descriptor)


@pytest.mark.parametrize("kind", list(SharedMemory))
def test_what_is_written_is_read_where_it_was_put(kind):
    bodies = [b"a" * 100, b"", b"b" * 64]
    region, offsets = write(kind, *bodies)
    try:
        assert [0, 0, 0] == [offset % 64 for offset in offsets]
        assert 0 not in offsets
        pairs = np.array([[offsets[0], 100], [0, 0], [offsets[2], 64]])
        assert bodies == [bytes(view) for view in attached(region).views(pairs, None)]
        assert bodies[0] == bytes(region.view(offsets[0], 100))
        assert region.handle == Handle.decode(region.handle.encode())
    finally:
        region.close()
        region.close()
    assert not Path(region.handle.path).exists()


@pytest.mark.parametrize("kind", list(SharedMemory))
def test_views_outlive_the_region_and_say_when_the_last_is_gone(kind):
    region, (first, second) = write(kind, b"x" * 64, b"y" * 64)
    freed = []
    mapped = attached(region)
    views = mapped.views(np.array([[first, 64], [0, 0], [second, 64]]), freed.append)
    region.close()
    part = views[2][10:20]
    del views, mapped
    assert ([], b"y" * 10) == (freed, bytes(part))
    array = np.frombuffer(part, np.uint8)
    del part
    assert [] == freed
    del array
    assert [[first, second]] == freed


def test_views_cannot_be_written_and_copy_nothing():
    region, (offset,) = write(SharedMemory.MEMFD, b"x" * 64)
    try:
        mapped = attached(region)
        (view,) = mapped.views(np.array([[offset, 64]]), None)
        assert view.readonly
        start = np.frombuffer(mapped._mapping, np.uint8).ctypes.data
        assert start + offset == np.frombuffer(view, np.uint8).ctypes.data
    finally:
        region.close()


def test_a_sealed_region_cannot_be_cut_grown_or_written():
    region, (offset,) = write(SharedMemory.MEMFD, b"x" * 64)
    for change in (
        lambda: os.ftruncate(region.descriptor, 10),
        lambda: os.ftruncate(region.descriptor, 10_000),
        lambda: os.pwrite(region.descriptor, b"y", offset),
    ):
        with pytest.raises(PermissionError):
            change()
    region.close()


SEAL_SETS = [("none", 0, False), ("no seal against writes", 2 | 4, False), ("none against cuts", 8, False),
             ("later writes only", 2 | 4 | 16, False), ("all", SEALS[1], True), ("what is needed", 2 | 8, True)]  # fmt: skip


@pytest.mark.parametrize(("seals", "accepted"), [c[1:] for c in SEAL_SETS], ids=[c[0] for c in SEAL_SETS])
def test_a_client_wants_seals_against_cuts_and_writes(seals, accepted):
    descriptor = sealed(NONCE + bytes(48), seals)
    handle = Handle(SharedMemory.MEMFD, 64, NONCE)
    try:
        if accepted:
            assert 64 == attach(handle, descriptor).nbytes
        else:
            with pytest.raises(InvalidFramingError, match="F_SEAL_SHRINK"):
                attach(handle, descriptor)
    finally:
        os.close(descriptor)


BELIEVED = [
    ("a larger size", Handle(SharedMemory.MEMFD, 65, NONCE), InvalidBodyError, "of 65 bytes"),
    ("a smaller size", Handle(SharedMemory.MEMFD, 32, NONCE), InvalidBodyError, "of 32 bytes"),
    ("another's", Handle(SharedMemory.MEMFD, 64, NONCE[::-1]), InvalidBodyError, "another's"),
]


@pytest.mark.parametrize(("handle", "error", "words"), [c[1:] for c in BELIEVED], ids=[c[0] for c in BELIEVED])
def test_what_a_handle_says_is_proven(handle, error, words):
    descriptor = sealed(NONCE + bytes(48))
    with pytest.raises(error, match=words):
        attach(handle, descriptor)
    os.close(descriptor)


def test_a_descriptor_is_needed_and_has_to_be_a_file(tmp_path):
    handle = Handle(SharedMemory.MEMFD, 64, NONCE)
    with pytest.raises(InvalidFramingError, match="found none"):
        attach(handle)
    path = tmp_path / "file"
    path.write_bytes(NONCE + bytes(48))
    for descriptor in (os.open(path, os.O_RDONLY), *os.pipe()):
        with pytest.raises(InvalidFramingError, match="seals 0x"):
            attach(handle, descriptor)
        os.close(descriptor)


def test_a_named_region_is_no_link_and_exists(tmp_path):
    handle = Handle(SharedMemory.NAMED, 64, os.urandom(16))
    with pytest.raises(FileNotFoundError):
        attach(handle)
    path = tmp_path / "elsewhere"
    path.write_bytes(handle.nonce + bytes(48))
    Path(handle.path).symlink_to(path)
    try:
        with pytest.raises(OSError, match="symbolic"):
            attach(handle)
    finally:
        Path(handle.path).unlink()


HANDLES = [
    ("noise", b"\xff\x00"), ("an rkey", bytes(64)), ("another kind", b'{"kind":"cuda","size":64,"nonce":"00"}'),
    ("a path in the name", b'{"kind":"named","size":64,"nonce":"../../etc/passwd"}'),
    ("no size", b'{"kind":"named","nonce":"000102030405060708090a0b0c0d0e0f"}'),
    ("a negative size", b'{"kind":"named","size":-1,"nonce":"000102030405060708090a0b0c0d0e0f"}'),
    ("a size beyond all memory", b'{"kind":"named","size":9223372036854775808,"nonce":"000102030405060708090a0b0c0d0e0f"}'),
    ("a size as text", b'{"kind":"named","size":"64","nonce":"000102030405060708090a0b0c0d0e0f"}'),
    ("deep", b"[" * 999), ("a list", b"[]"),
]  # fmt: skip


@pytest.mark.parametrize("data", [c[1] for c in HANDLES], ids=[c[0] for c in HANDLES])
def test_handles_of_others_are_refused(data):
    with pytest.raises(UnsupportedError, match="remote_handle"):
        Handle.decode(data)


def test_an_unfinished_region_leaves_nothing():
    before = named()
    writer = RegionWriter(SharedMemory.NAMED)
    writer.append([bytes(1000)])
    assert before == named()
    writer.discard()
    assert before == named()


KILLED = """
import os, signal
from spark_arrow_ipc.ipc.dissociated.shared_memory import RegionWriter, SharedMemory
region = RegionWriter(SharedMemory.NAMED).freeze()
print(region.handle.path, flush=True)
os.kill(os.getpid(), signal.SIGKILL)
"""


@pytest.mark.exhaustive
def test_what_a_killed_server_left_is_removed_and_what_lives_stays():
    root = Path(shared_memory.__file__).parents[3]
    killed = subprocess.run([sys.executable, "-c", KILLED], capture_output=True, text=True, cwd=root)
    abandoned = Path(killed.stdout.strip())
    region, _ = write(SharedMemory.NAMED, b"x")  # making one removes what was left
    try:
        assert not abandoned.exists()
        remove_abandoned()
        assert Path(region.handle.path).exists()
        with Path(region.handle.path).open("rb") as file, pytest.raises(BlockingIOError):
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
    finally:
        region.close()
