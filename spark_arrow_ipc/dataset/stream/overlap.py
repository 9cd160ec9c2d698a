"""Find out whether a stream would look for files in a directory: what it keeps, or its target.

A target in which the stream looks would be read and written for ever. Links may lead there at any time, so real places
are compared (`names_below`): when the query begins, and before files are read.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from spark_arrow_ipc.dataset.listing.directory import is_hidden
from spark_arrow_ipc.dataset.listing.globs import ANY_DIRECTORIES, compile_name, expand_braces, literal
from spark_arrow_ipc.errors import OptionError
from spark_arrow_ipc.storage.paths import SEPARATOR, name_of, parent, relative
from spark_arrow_ipc.storage.storage import Storage


def root_that_sees(storage: Storage, roots: Iterable[str], directory: str) -> str | None:
    """Return the first of some directories below which a stream would find another one, by whatever links; None if none."""
    for root in roots:
        if any(not any(map(is_hidden, names)) for names in _ways_down(storage, root, directory)):
            return root
    return None


def check_outside(storage: Storage, directories: Iterable[str], target: str) -> None:
    """Refuse directories of a source that readers of the target see as its own, where a link may lead at any time."""
    for directory in directories:
        if root_that_sees(storage, [target], directory) is not None:
            raise OptionError(
                "this directory of the source is the target or lies in it, so that the query would read the rows that it has "
                "written; remove the link that leads there, or give another target",
                path=directory,
            )


def pattern_sees(storage: Storage, pattern: str, root: str, directory: str) -> bool:
    """Return whether what a pattern matches, below a root that is its plain part, may hold a directory or lie in it.

    A link that leads there from what matches is not seen.
    """
    try:
        choices = [choice[len(root) :] for choice in expand_braces(pattern)]
    except OptionError:  # it is tried as a plain path
        choices = [pattern[len(root) :]]
    ways = _ways_down(storage, root, directory)
    return any(_leads(_names(choice), names) for choice in choices for names in ways)


def _leads(parts: Sequence[str], names: Sequence[str]) -> bool:
    """Return whether a pattern's parts may match on the way down some names, or below them."""
    for i, (part, name) in enumerate(zip(parts, names, strict=False)):
        if part == ANY_DIRECTORIES:
            goes_hidden = any((literal(each) or each)[0] in "_." for each in parts[i:])
            return goes_hidden or not any(map(is_hidden, names[i:]))
        if not _may_name(part, name):
            return False
    return not any(map(is_hidden, names[len(parts) :]))


def _may_name(part: str, name: str) -> bool:
    """Return whether a part of a pattern may match a name, as a listing sees it, or is the name as it stands."""
    if name in (part, literal(part)):
        return True
    try:
        return bool(compile_name(part)(name)) and (part[0] in "_." or not is_hidden(name))
    except OptionError:
        return False


def _ways_down(storage: Storage, root: str, directory: str) -> list[tuple[str, ...]]:
    """Return the names from a root down to a directory: as they are written, and by whatever links; none if it is not there."""
    by_name = _names(relative(directory, root)) if _is_below(directory, root) else None
    return [names for names in (by_name, names_below(storage, directory, root)) if names is not None]


def check_unseen(storage: Storage, roots: Sequence[str], directory: str, option: str, because: str) -> None:
    """Refuse a directory in which files would be seen that are not meant to be."""
    root = root_that_sees(storage, roots, directory)
    if root is not None:
        raise seen(root, directory, option, because)


def seen(where: str, directory: str, option: str, because: str) -> OptionError:
    """Return the error for a directory in which files would be seen that are not meant to be."""
    return OptionError(
        f"{option} lies in {where}, where {because}; give a directory beside it, or one whose name begins with _",
        path=directory,
    )


def names_below(storage: Storage, directory: str, root: str) -> tuple[str, ...] | None:
    """Return the names on the way from a root down to a directory, whatever links lead to either; None if it is not there.

    The root itself gives no names. The directory need not exist.
    """
    real, real_root = storage.unique_path(directory), storage.unique_path(root)
    if _is_below(real, real_root):
        return _names(relative(real, real_root))
    root_status = storage.status(root)
    if root_status is None or root_status.identity is None:
        return None
    # Equal identities of other paths: a mount of the same directory, or names in another case.
    names: tuple[str, ...] = ()
    while True:
        status = storage.status(real)
        if status is not None and status.identity == root_status.identity:
            return names
        if parent(real) == real:
            return None
        names = (name_of(real), *names)
        real = parent(real)


def _is_below(directory: str, root: str) -> bool:
    return directory == root or relative(directory, root) != directory


def _names(path: str) -> tuple[str, ...]:
    return tuple(filter(None, path.split(SEPARATOR)))
