"""`connect`: a file system of an installed fsspec, from a URL and the options ``storage.*``.

Strategy
--------
fsspec knows many schemes, and each file system takes its own arguments. They are read off its constructors: an option
that none of them names is refused, unless they hand all others to a library of their own (``**ssh_kwargs``). A string
becomes what the argument's default is. No value of an option is ever part of an error.

An instance belongs to the process that made it, and fsspec's own cache of them is not used.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable, Mapping
from typing import Any, Final

from spark_arrow_ipc.bounded_json import parse_json
from spark_arrow_ipc.errors import OptionError, UnsupportedError
from spark_arrow_ipc.storage.object_options import PREFIX, StorageOptions, without_secrets

_WRAPPERS: Final = frozenset(
    [
        "abstract",
        "async_wrapper",
        "asyncwrapper",
        "asynclocal",
        "blockcache",
        "cached",
        "data",
        "dir",
        "file",
        "filecache",
        "generic",
        "local",
        "reference",
        "simplecache",
    ]
)
"""Schemes of fsspec that are no place of their own: caches, wrappers, other names of local files."""

_FORWARDED: Final = frozenset(("kwargs", "storage_options"))
"""Names of ``**`` parameters that only go to fsspec's base class, which knows none of a person's options."""

_OWN: Final = frozenset(("asynchronous", "batch_size", "loop", "self", "skip_instance_cache", "use_listings_cache"))
"""Arguments that are ours to give."""

_NUMBERS: Final = frozenset(("port", "timeout"))
"""Arguments that are whole numbers where a constructor does not name them (paramiko's)."""

_FLAGS: Final = {"true": True, "false": False}


def filesystem_class(scheme: str, path: str) -> Any:
    """Return fsspec's class for a scheme.

    Raises
    ------
    UnsupportedError
        fsspec or the package of the class is not installed, or nobody knows the scheme.
    """
    try:
        from fsspec.registry import available_protocols, get_filesystem_class, registry
    except ImportError:
        raise UnsupportedError(
            f"paths with the scheme {scheme}:// are read through fsspec, if that knows the scheme: "
            "pip install 'spark-arrow-ipc[fsspec]'; or mount the storage, or copy the files",
            path=path,
        ) from None
    if scheme in _WRAPPERS or not (scheme in registry or scheme in available_protocols()):
        raise UnsupportedError(
            f"paths with the scheme {scheme}:// are not read, and the installed fsspec does not know it either; install "
            "the package that brings it to fsspec, mount the storage, or copy the files",
            path=path,
        )
    try:
        return get_filesystem_class(scheme)
    except ImportError as error:
        raise UnsupportedError(
            f"fsspec knows paths with the scheme {scheme}://, and needs a package for them: {one_line(error)}",
            path=path,
        ) from None


def connect(cls: Any, root: str, options: StorageOptions) -> Any:
    """Return an instance of a class of fsspec for the root of URLs. It may connect to a server.

    Raises
    ------
    OptionError
        An option is unknown, or its value is not understood.
    Exception
        Whatever the file system raises when it connects.
    """
    arguments: dict[str, Any] = dict(cls._get_kwargs_from_urls(root))
    parameters, takes_any = _parameters(cls)
    for name, value in options:
        if name in _OWN or (name not in parameters and not takes_any):
            raise _unknown(name, root, parameters)
        arguments[name] = _value(name, value, parameters.get(name))
    try:
        return cls(skip_instance_cache=True, **arguments)
    except TypeError as error:
        text = one_line(error)
        wrong = next((name for name, _ in options if f"'{name}'" in text), None)
        if wrong is not None:
            raise _unknown(wrong, root, parameters) from None
        raise OptionError(f"the options {PREFIX}* do not make a connection: {without_secrets(text, options)}") from None


def one_line(error: BaseException) -> str:
    """Return the text of an error on one line of at most 400 characters; its type's name if it has none."""
    text = " ".join(str(error).split()) or type(error).__name__
    return text if len(text) <= 400 else text[:397] + "..."


def _parameters(cls: Any) -> tuple[dict[str, inspect.Parameter], bool]:
    """Return the named arguments of a class's constructors, and whether others go to a library of its own."""
    named: dict[str, inspect.Parameter] = {}
    takes_any = False
    for base in cls.__mro__:
        if "__init__" not in vars(base) or base.__module__ == "fsspec.spec" or base is object:
            continue
        for name, parameter in inspect.signature(base.__init__).parameters.items():
            if parameter.kind is parameter.VAR_KEYWORD:
                takes_any |= name not in _FORWARDED
            elif parameter.kind is not parameter.VAR_POSITIONAL and name not in _OWN:
                named.setdefault(name, parameter)
    return named, takes_any


def _value(name: str, value: str, parameter: inspect.Parameter | None) -> Any:
    """Convert an option's string to what the argument is.

    Raises
    ------
    OptionError
        It cannot be.
    """
    default = None if parameter is None else parameter.default
    kind = int if name in _NUMBERS and not isinstance(default, float) else type(default)
    parse = _PARSERS.get(kind)
    if parse is None:
        return value
    expected, function = parse
    try:
        return function(value)
    except (ValueError, KeyError):
        raise OptionError(f"the option {PREFIX}{name} must be {expected}") from None


def _flag(value: str) -> bool:
    return _FLAGS[value.lower()]


_PARSERS: Final[Mapping[type, tuple[str, Callable[[str], Any]]]] = {
    bool: ("true or false", _flag),
    int: ("a whole number", int),
    float: ("a number", float),
    dict: ("a JSON object", parse_json),
}
"""By the type of an argument's default: what is expected, and what parses it. Others stay strings."""


def _unknown(name: str, root: str, known: Mapping[str, object]) -> OptionError:
    import difflib  # only for errors

    near = difflib.get_close_matches(name[:100].lower(), known, n=1)
    hint = f"did you mean {PREFIX}{near[0]}" if near else f"there are {', '.join(sorted(known)) or 'none'}"
    scheme = root.partition("://")[0]
    return OptionError(f"there is no option {PREFIX}{name[:100]} for the scheme {scheme}; {hint}")
