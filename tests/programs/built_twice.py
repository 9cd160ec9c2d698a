"""Build the wheel and the source distribution twice, in surroundings that differ, and compare them byte for byte.

The copies of the tree lie in folders of other names, their files have other times, and the builds another umask, time
zone, language and order of sets; the wheel is made from the source distribution, as an installer makes it::

    python tests/programs/built_twice.py [--against dist] [--into DIRECTORY]

Times inside are those of ``SOURCE_DATE_EPOCH``, or else of the last commit. Ends with status 1, and names the members
that differ, where two builds do, or one differs from those of ``--against``. Needs hatchling, and no network.
"""

import argparse
import hashlib
import os
import shutil
import subprocess
import sys
import tarfile
import tempfile
import zipfile
from pathlib import Path

ROOT = Path(__file__).parents[2]
UNPACKED = {".zip", ".whl"}
SURROUNDINGS = [
    {"umask": 0o022, "time": 1_000_000_000, "TZ": "UTC", "LC_ALL": "C", "PYTHONHASHSEED": "1"},
    {"umask": 0o077, "time": 1_700_000_000, "TZ": "Asia/Kathmandu", "LC_ALL": "C.UTF-8", "PYTHONHASHSEED": "2"},
]
_BUILD = """
import os, sys
import hatchling.build
os.umask({umask})
print(hatchling.build.{hook}({into!r}))
"""


def builds(folder):
    """Return for each of the surroundings a folder with the wheel and the source distribution that were built there."""
    environment = os.environ | {"SOURCE_DATE_EPOCH": source_date_epoch()}
    return [
        built(folder / f"tree_{number}" / ("a" * number), folder / f"dist_{number}", surroundings, environment)
        for number, surroundings in enumerate(SURROUNDINGS, 1)
    ]


def source_date_epoch():
    """The environment's, or else the time of the last commit, or else (from a source distribution) that of its files."""
    if "SOURCE_DATE_EPOCH" in os.environ:
        return os.environ["SOURCE_DATE_EPOCH"]
    answer = subprocess.run(["git", "log", "-1", "--format=%ct"], cwd=ROOT, capture_output=True, text=True)
    return answer.stdout.strip() or str(int((ROOT / "pyproject.toml").stat().st_mtime))


def built(tree, into, surroundings, environment):
    """Build in a copy of the sources, and then in the copy that the source distribution is."""
    environment = environment | {name: value for name, value in surroundings.items() if name.isupper()}
    into.mkdir(parents=True)
    copy_sources(tree)
    for path in sorted(tree.rglob("*")):
        os.utime(path, (surroundings["time"],) * 2)
    run(tree, into, "build_sdist", surroundings, environment)
    (archive,) = into.glob("*.tar.gz")
    with tarfile.open(archive) as source:
        source.extraction_filter = getattr(tarfile, "data_filter", None)  # Python 3.11.3 has none
        source.extractall(tree.parent / "unpacked")
    (unpacked,) = (tree.parent / "unpacked").iterdir()
    run(unpacked, into, "build_wheel", surroundings, environment)
    return into


def copy_sources(tree):
    """Copy what git knows or would add, and in a tree without git everything but what is made."""
    listed = subprocess.run(
        ["git", "ls-files", "-z", "--cached", "--others", "--exclude-standard"],
        cwd=ROOT,
        capture_output=True,
        text=True,
    )
    if listed.returncode != 0:
        shutil.copytree(ROOT, tree, ignore=shutil.ignore_patterns("build", "dist", "__pycache__", ".*_cache", ".venv"))
        return
    for name in filter(None, listed.stdout.split("\0")):
        if (ROOT / name).is_file():
            (tree / name).parent.mkdir(parents=True, exist_ok=True)
            shutil.copy2(ROOT / name, tree / name)


def run(tree, into, hook, surroundings, environment):
    program = _BUILD.format(umask=surroundings["umask"], hook=hook, into=str(into))
    answer = subprocess.run([sys.executable, "-c", program], cwd=tree, env=environment, capture_output=True, text=True)
    if answer.returncode != 0:
        raise RuntimeError(f"{hook} failed in {tree}:\n{answer.stderr}")


def differences(left, right):
    """Return a line for each file of two folders that is in one alone or has other bytes, with the members that differ."""
    names = sorted({path.name for folder in (left, right) for path in folder.iterdir()})
    return [line for name in names for line in different_members(left / name, right / name)]


def different_members(left, right):
    if not (left.is_file() and right.is_file()):
        return [f"{left.name}: only in {(left if left.is_file() else right).parent}"]
    if left.read_bytes() == right.read_bytes():
        return []
    one, two = members(left), members(right)
    names = [name for name in dict.fromkeys([*one, *two]) if one.get(name) != two.get(name)]
    return [f"{left.name}: {name}" for name in names] or [f"{left.name}: the same members, packed in another way"]


def members(path):
    """Return what is told of each member of an archive: its place, time, mode, owner, and a digest of its bytes."""
    if path.suffix in UNPACKED:
        with zipfile.ZipFile(path) as archive:
            return {
                info.filename: (place, info.date_time, info.external_attr, digest(archive.read(info)))
                for place, info in enumerate(archive.infolist())
            }
    with tarfile.open(path) as archive:
        return {
            info.name: (place, info.mtime, info.mode, info.uid, info.uname, digest(file_of(archive, info)))
            for place, info in enumerate(archive.getmembers())
        }


def file_of(archive, info):
    return archive.extractfile(info).read() if info.isfile() else b""


def digest(content):
    return hashlib.sha256(content).hexdigest()


def main():
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument(
        "--against", type=Path, help="a folder with a wheel and a source distribution, compared as well"
    )
    parser.add_argument("--into", type=Path, help="where one of the builds is kept")
    arguments = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        first, *others = builds(Path(folder))
        lines = [line for other in others for line in differences(first, other)]
        if arguments.against:
            lines += differences(first, arguments.against)
        if arguments.into:
            shutil.copytree(first, arguments.into, dirs_exist_ok=True)
        for path in sorted(first.iterdir()):
            print(digest(path.read_bytes()), path.name)
    print(*lines or [f"equal, {1 + len(others) + bool(arguments.against)} times"], sep="\n")
    return 1 if lines else 0


if __name__ == "__main__":
    sys.exit(main())
