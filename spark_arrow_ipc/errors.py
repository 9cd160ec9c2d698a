"""The errors of this package, and `error_context`, which adds the path, batch and field.

How it works
------------
Low-level code raises errors with what it *expected* and what it *found* (and, at times, the field and a byte offset in
its own bytes). The caller that has the file adds the rest::

    with error_context(path=path, block_number=3):
        ...

`error_context` fills only fields that are still None, so the innermost context wins. Errors are mutable for that
purpose only, and keep every field when they are pickled, because Spark sends them from executor to driver. The text of
an error is `printable`, even with names and values from a file; its fields are unchanged.

::

    ArrowIpcError
    ├── InvalidArrowError (ValueError)       the bytes break the specification
    │   ├── InvalidFramingError              magic, continuation, lengths, truncation, footer position
    │   │   ├── NotArrowError                the first bytes belong to another format
    │   │   └── TruncatedError               the bytes end inside a message
    │   ├── InvalidMetadataError             Flatbuffers structure, or a value that the specification forbids
    │   ├── InvalidBodyError                 regions, buffers, offsets, dictionary indices, decompression
    │   └── InvalidDictionaryError           unknown id, delta first, replacement in a file
    ├── UnsupportedError                     valid Arrow that is not handled
    │   ├── AggregateError                   an aggregate whose answer might differ from Spark's
    │   ├── NoTableError                     a tensor where a table is read
    │   └── NoTensorError                    a table where a tensor is read
    ├── LimitError                           a budget of `Limits` is exceeded
    ├── FileChangedError                     size or modification time differ from the plan
    ├── NoFilesError                         nothing to read
    ├── OptionError (ValueError)
    ├── FunctionError (TypeError)            a function for workers cannot be shipped, or returned something else than batches
    ├── SchemaMismatchError
    │   └── ColumnNotFoundError
    ├── SourceOverwrittenError               rows of a stream's source were removed
    ├── StreamOffsetError                    a checkpoint and its source do not fit
    └── CommitError
        └── ConcurrentWriteError
"""

from __future__ import annotations

import re
from bisect import bisect_right
from collections.abc import Callable, Iterable, Sequence
from itertools import accumulate, islice
from types import TracebackType

__all__ = [
    "AggregateError",
    "ArrowIpcError",
    "ColumnNotFoundError",
    "CommitError",
    "ConcurrentWriteError",
    "FileChangedError",
    "FunctionError",
    "InvalidArrowError",
    "InvalidBodyError",
    "InvalidDictionaryError",
    "InvalidFramingError",
    "InvalidMetadataError",
    "LimitError",
    "NoFilesError",
    "NoTableError",
    "NoTensorError",
    "NotArrowError",
    "OptionError",
    "SchemaMismatchError",
    "SourceOverwrittenError",
    "StreamOffsetError",
    "TruncatedError",
    "UnsupportedError",
    "error_context",
]

# The fields that `error_context` fills in, in the order of its parameters
_CONTEXT = ("path", "block_kind", "block_number", "field_path", "byte_offset", "asked_by")


def printable(string: str) -> str:
    r"""Return a string on one line, with characters that do not print as escapes such as ``\x1b`` and ``\u202e``.

    Escapes replace control characters (C0, DEL, C1), marks that change the direction of text, line ends, and lone
    surrogates.
    """
    # Names and values of files pass here before a person reads them: a terminal obeys some characters, a log splits at others.
    if string.isprintable():
        return string
    return "".join(c if c.isprintable() else c.encode("unicode_escape", "surrogatepass").decode() for c in string)


_SCHEME = r"[A-Za-z][A-Za-z0-9+.-]*"
_NAMES_USERS = "abfss?|az|file|github|hdfs|s?ftp|ssh|viewfs|webhdfs"
# The text before an @: a user and a password, or a token in schemes without users and containers
_URL_USER = re.compile(
    rf"(?<![A-Za-z])((?!github:){_SCHEME}:/+(?=[^\s/@:'\"]*:(?!\d+/))|(?!(?:{_NAMES_USERS}):){_SCHEME}://(?=[^\s/@:'\"]*@))"
    r"[^\s@]*@"
)

_URL_QUERY = re.compile(
    r"([?&#;][^=&\s'\"]*(?:sig|signature|token|credential|secret|key|password)[^=&\s'\"]*=)[^&\s'\"]+", re.IGNORECASE
)


def has_url_user(text: str) -> bool:
    """Return whether a text holds a URL with a password before an @."""
    return ":/" in text and _URL_USER.search(text) is not None


def without_url_secrets(text: str) -> str:
    """Return a text with three stars in place of passwords and signatures of URLs."""
    if ":/" not in text:
        return text
    return _URL_QUERY.sub(r"\1***", _URL_USER.sub(r"\1***@", text))


class ArrowIpcError(Exception):
    """Base of every error that the bytes of a file, an option or a commit can cause.

    Parameters
    ----------
    message
        A full sentence, where "expected, found" does not fit.
    expected, found
        The two halves of the usual message, in words.
    path
        The file, as the user named it.
    block_kind, block_number
        "record batch" or "dictionary batch", and its position in the file or stream, from 0.
    field_path
        The column, as ``a.b[]``.
    byte_offset
        Position from the start of the file or stream, in bytes.
    spec
        The section of the specification that is broken.
    asked_by
        The argument of the caller that is at fault, in words: ``the option columns``.
    """

    def __init__(
        self,
        message: str | None = None,
        *,
        expected: str | None = None,
        found: str | None = None,
        path: str | None = None,
        block_kind: str | None = None,
        block_number: int | None = None,
        field_path: str | None = None,
        byte_offset: int | None = None,
        spec: str | None = None,
        asked_by: str | None = None,
    ) -> None:
        super().__init__(message)
        self.message = message
        self.expected = expected
        self.found = found
        self.path = path
        self.block_kind = block_kind
        self.block_number = block_number
        self.field_path = field_path
        self.byte_offset = byte_offset
        self.spec = spec
        self.asked_by = asked_by

    def __str__(self) -> str:
        parts = []
        if self.block_number is not None:
            parts.append(f"{self.block_kind or 'record batch'} {self.block_number}")
        if self.field_path is not None:
            parts.append(f"field {self.field_path}")
        head = [part for part in (self.path, ", ".join(parts), self.asked_by) if part]
        sentences = [self.message] if self.message else []
        if self.expected is not None:
            sentences.append(f"expected {self.expected}, found {self.found}")
        tail = [f"byte offset {self.byte_offset:,}"] if self.byte_offset is not None else []
        if self.spec is not None:
            tail.append(self.spec)
        end = f" ({'; '.join(tail)})" if tail else ""
        return printable(without_url_secrets(": ".join([*head, *sentences]) + end))  # a path may have a password

    def __repr__(self) -> str:
        return f"{type(self).__name__}({str(self)!r})"

    def __reduce__(self) -> tuple[type[ArrowIpcError], tuple[str | None], dict[str, object]]:
        return type(self), (self.message,), self.__dict__.copy()


class InvalidArrowError(ArrowIpcError, ValueError):
    """The bytes break the Arrow specification.

    Get the file again from its source: it was damaged, or its writer is wrong. `arrowipc repair` copies its sound batches.
    """


class InvalidFramingError(InvalidArrowError):
    """Magic, continuation marker, message length, truncation or footer position is wrong.

    A file that was copied in part: copy it again, or read the rest with `recover=true` or `arrowipc repair`.
    """


class NotArrowError(InvalidFramingError):
    """The first bytes belong to neither an Arrow file nor a stream.

    Read it with the source of its own format; `pathGlobFilter` leaves such files out of a directory.
    """


class TruncatedError(InvalidFramingError):
    """The bytes end inside a message; all before it may be right, and a writer may still go on.

    Wait for the writer (`ipc.open(path, follow=True)`), copy the file again, or read the complete batches with `recover=true`.
    """


class InvalidMetadataError(InvalidArrowError):
    """The Flatbuffers structure is broken, or holds a value that the specification forbids.

    Get the file again; if a sound writer made it, report it with the bytes.
    """


class InvalidBodyError(InvalidArrowError):
    """A region, buffer, offset, dictionary index or compressed buffer is wrong.

    Get the file again; `ignoreCorruptFiles=true` skips the rest of the file, with a warning.
    """


class InvalidDictionaryError(InvalidArrowError):
    """A dictionary id is unknown, or a dictionary batch comes where the format allows none.

    Get the file again; a writer that replaces dictionaries has to write a stream, not a file.
    """


# Not a NotImplementedError: Spark reads that as a method that a source lacks, and plans without it.
class UnsupportedError(ArrowIpcError):
    """Valid Arrow that this package does not handle.

    The message names the feature; write the data again without it, with the library that wrote them.
    """


class AggregateError(UnsupportedError):
    """An aggregate that is not computed in workers, because its answer might differ from Spark's.

    The message names the aggregate and its arguments; compute others with Spark on the DataFrame of `load`.
    """


class NoTableError(UnsupportedError):
    """Valid Arrow IPC that holds no table, but a tensor.

    Read it with `ipc.read_tensor`, or in Spark with the option `tensors`.
    """


class NoTensorError(UnsupportedError):
    """Valid Arrow IPC that holds no tensor, but a table.

    Read it with `ipc.open`, or in Spark without the option `tensors`.
    """


class LimitError(ArrowIpcError):
    """A budget of `Limits` is exceeded.

    If the file is trusted, give a larger budget: `ipc.Limits`, in Spark `maxBatchBytes`.
    """


class FileChangedError(ArrowIpcError):
    """The file changed since the plan was made: its size or modification time differs, or it is gone.

    Read the path again: a DataFrame keeps the files that it was planned with. `retention` lets old reads go on.
    """


class NoFilesError(ArrowIpcError):
    """No file to read.

    Check the path, and the skipped files that the message names.
    """


class OptionError(ArrowIpcError, ValueError):
    """An option is unknown, ill-typed or contradicts another.

    The message has the right form; `python -m spark_arrow_ipc.spark.options` prints all options.
    """


class FunctionError(ArrowIpcError, TypeError):
    """A function for workers cannot be sent to them, or what it returned is not a record batch.

    Return an iterator of record batches from the function; the objects that it uses must be picklable.
    """


class SchemaMismatchError(ArrowIpcError):
    """The data of a file does not fit the requested schema.

    Ask for the file's own types or wider ones, or let `mergeSchema=true` find the types that hold all files.
    """


class ColumnNotFoundError(SchemaMismatchError):
    """A requested column does not exist, or its name stands for several.

    The message lists the existing columns; `#n` addresses one by its position.
    """


class StreamOffsetError(ArrowIpcError):
    """The offset of a streaming query cannot be used: it is broken, of another mode, or names removed files.

    Start the query with a new checkpoint, or with the options that it was started with.
    """


class SourceOverwrittenError(ArrowIpcError):
    """A job removed rows of a table that a stream reads.

    Start the query with a new checkpoint, which reads the present rows of the table; the message names other ways.
    """


class CommitError(ArrowIpcError):
    """The written files could not be published.

    Nothing was published, or the message names the published files; `arrowipc vacuum` finishes or clears the rest.
    """


class ConcurrentWriteError(CommitError):
    """Another job changed the same files at the same time.

    Run the job again: it has changed nothing.
    """


class error_context:  # noqa: N801 - used as a statement, `with error_context(path=path):`
    """A context that adds path, batch and field to each `ArrowIpcError` raised inside. Fields that are set stay.

    A `MemoryError`, which numpy and pyarrow raise as well, becomes a `LimitError`.
    """

    __slots__ = ("_values",)  # a generator would cost a microsecond more for each small batch

    def __init__(
        self,
        *,
        path: str | None = None,
        block_kind: str | None = None,
        block_number: int | None = None,
        field_path: str | None = None,
        byte_offset: int | None = None,
        asked_by: str | None = None,
    ) -> None:
        self._values = (path, block_kind, block_number, field_path, byte_offset, asked_by)

    def __enter__(self) -> None:
        return None

    def __exit__(self, _: type[BaseException] | None, error: BaseException | None, __: TracebackType | None) -> None:
        if error is not None:
            self.add_to(error)

    def add_to(self, error: BaseException) -> None:
        """Add the fields to an error, for callers in which a `with` statement would take longer than its body."""
        if isinstance(error, MemoryError):
            limit_error = LimitError(
                "there is not enough memory for this; read fewer columns, or give the process more memory"
            )
            self.add_to(limit_error)
            raise limit_error from error
        if isinstance(error, ArrowIpcError):
            for name, value in zip(_CONTEXT, self._values, strict=True):
                if value is not None and getattr(error, name) is None:
                    setattr(error, name, value)


_SHOWN = 80  # characters of a value's repr that a message shows


def cut_repr(value: object, most: int = _SHOWN) -> str:
    """Return the repr of a value for a message; one of more than `most` characters is cut."""
    shown = repr(value)
    return shown if len(shown) <= most else shown[: most - 3] + "..."


def unfit(expected: str, type_: object, value: object) -> str:
    """Return the message ``expected <expected> for <type>, found <value>``; a long value is cut."""
    return f"expected {expected} for {type_}, found {cut_repr(value)}"


_LISTED = 100  # characters of names that an error lists: it is read on one screen, also for a table of 1,000 columns

_SEARCHED = 2_000  # names that are compared with an absent one, each in about 0.1 ms

_COMPARED = 50  # characters of a name that are compared


def absent_name(name: str, names: Sequence[str], above: str | None = None) -> str:
    """Return the message for a name that is absent from `names`: fields of the struct `above`, or columns for None."""
    what, context = ("column", "") if above is None else ("field", f" in {above}")
    hint = did_you_mean(name, names) or f"the {what}s are {join_texts([cut_repr(one) for one in names])}"
    return f"there is no {what} {cut_repr(name)}{context}; {hint}"


def did_you_mean(name: str, names: Iterable[str], *, show: Callable[[str], str] = cut_repr, most: int = 3) -> str:
    """Return the question that suggests names similar to an absent one; empty without any."""
    import difflib  # only for errors, so that workers start without it

    # Reversed, so that the first of several names with one spelling in lower case is suggested.
    by_text = {one[:_COMPARED].lower(): one for one in reversed([*islice(names, _SEARCHED)])}
    near = difflib.get_close_matches(name[:_COMPARED].lower(), by_text, n=most)
    return f"did you mean {join_texts([show(by_text[text]) for text in near])}?" if near else ""


def join_texts(texts: Sequence[str]) -> str:
    """Return the first of some texts for an error, and the number of the others."""
    fitting = bisect_right(list(accumulate(map(len, texts))), _LISTED)
    shown = texts[: max(2, fitting)]  # two paths that conflict are both named, however long they are
    rest = len(texts) - len(shown)
    return (", ".join(shown) or "none") + (f" and {rest:,} more" if rest else "")
