"""Parse the strings that Spark passes into `ReadOptions`, `StreamOptions` and `SparkWriteOptions`.

Nothing is guessed: an unknown option, an option of another side or use, and a value of the wrong kind are each an
`OptionError` that suggests the right one. An absent option has the default of its attribute. `OPTIONS` is the
table of all options: the errors and ``docs/options.md`` are printed from it.

To add an option:

1. Its declaration in ``read_options.py`` or ``write_options.py``, with Spark's name where Spark has the option. Operations
   that ``applies=`` does not name refuse it (``tests/spark/options/test_applies.py``).
2. Its effect: in ``dataset/`` if it concerns files, in ``spark/`` if it concerns what Spark sees.
3. The tables of ``docs/options.md``, ``keywords.py`` and, for an option of reads, the table of restarts in
   ``docs/streaming.md``; the failing tests say how.
4. If it removes or changes rows, counts and extremes must not come from headers: set `answers` to None in
   ``spark/read/reader.py``. No test can know that; compare ``count()`` with the rows of ``collect()``.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final

from spark_arrow_ipc.dataset.stream.mode import OnBadFile
from spark_arrow_ipc.errors import OptionError, cut_repr, did_you_mean, without_url_secrets
from spark_arrow_ipc.ipc.dissociated import is_served
from spark_arrow_ipc.spark.options import declare as d
from spark_arrow_ipc.spark.options.declare import Option, Use
from spark_arrow_ipc.spark.options.read_options import ReadOptions, StreamOptions
from spark_arrow_ipc.spark.options.write_options import SparkWriteOptions

_ANY = ".*"
"""The end of the name of an option with keys, such as ``metadata.*``."""

_SHOWN = 200
"""Characters of a given name or value that an error shows."""

_OF_QUERIES = {"checkpointlocation": "checkpointLocation", "queryname": "queryName"}
"""Options that Spark itself adds for a stream's sink, in lower case (docs/methods.md); the sink ignores them."""

_WHERE = {"read": "the option where takes a predicate in Spark's SQL"}
_COLUMNS = {"read": "the option columns takes the names of the columns to read"}
_LIMIT = {"read": "take the first rows of the DataFrame with limit(n), or fewer with the option where"}
_SCHEMA = {
    "read": "give the types of columns to schema(...) before load",
    "written": "a DataFrame is written as it is: cast its columns",
}
_INFERRED = {
    "read": "Arrow files have their schema (for the names of directories there is partitionTypeInference); remove it"
}
_TEXT = {"read": "it is for text files, and Arrow files have names and types; remove it"} | {
    "written": "it is for text files; remove it"
}
_ROWS = {
    "read": "a batch that Spark gets has at most 1,000,000 rows and about 64 MiB; remove it",
    "written": "the option recordBatchRows bounds a record batch, which has about 64 MiB at most",
}
_REPLACED = {
    "written": "partitionOverwriteMode=dynamic with mode overwrite replaces the partitions of the rows that are written"
}
_NEW_SCHEMA = {"written": "mode overwrite takes the columns of the DataFrame as they are; remove it"}
_MERGED = {
    "written": "the option schemaCheck says which columns a job may have beside the files that are there (merge, the "
    "default: fewer, or new ones)"
}
_SMALL_FILES = {"written": "repartition the DataFrame before the write, or call compact(spark, path) after it"}
_NO_CHANGE = {"written": "compact(spark, path) joins small files, and streams see no new rows; remove it"}
_TOKEN = {"written": "the option commitToken makes a job that runs twice commit once"}
_SPLITS = {"read": "the option maxPartitionBytes bounds the bytes of a task"}
_FILE_BYTES = {"written": "the option maxFileBytes bounds the bytes of a file"}
_SORTED = {"written": "sort the DataFrame with sortWithinPartitions(...) before the write"}
_RETENTION = {"written": "the option retention says for how long a table retains log entries and removed files"}
_CODEC = {"written": "the option compression names the codec"}
_REMOVED = {"read": "the option onOverwrite says what a stream does when rows that it read are removed"}
_CALENDAR = {"read": "Arrow files have one calendar; remove it"}
_MEANT: Mapping[str, Mapping[str, str]] = {
    "replacewhere": _REPLACED,
    "overwritemode": _REPLACED,
    "overwriteschema": _NEW_SCHEMA,
    "mergeschema": _MERGED,
    "datachange": _NO_CHANGE,
    **dict.fromkeys(("optimizewrite", "autocompact", "autooptimize", "numpartitions", "numfiles"), _SMALL_FILES),
    **dict.fromkeys(("txnappid", "txnversion", "idempotencykey"), _TOKEN),
    **dict.fromkeys(("splitsize", "filesplitsize", "maxsplitbytes"), _SPLITS),
    **dict.fromkeys(("targetfilesize", "targetfilesizebytes", "maxfilesize", "parquet.block.size"), _FILE_BYTES),
    **dict.fromkeys(("sortby", "clusterby", "zorderby"), _SORTED),
    **dict.fromkeys(("ignorechanges", "ignoredeletes", "skipchangecommits"), _REMOVED),
    **dict.fromkeys(("keepreplaced", "commitretention"), _RETENTION),
    "startingtimestamp": {"read": "the option startingFrom leaves out what a new stream finds of an earlier time"},
    "unfinishedafter": {"read": "a stream of files waits for a stream's end marker; 'arrowipc repair' writes a file with one"},
    "durability": {"written": "every step of a write survives a power failure; remove it"},
    "sourcearchivedir": {"read": "the option cleanSource deletes files or leaves them; to keep them elsewhere, move them yourself once the sink has them"},
    "concatenatedstreams": {"read": "'arrowipc repair' writes one file of streams that follow each other"},
    "mapkeys": {"read": "Spark's maps have each key once, and another map is an error; leave such a column out with the option columns"},
    "opencostinbytes": {"read": "the option maxPartitionBytes bounds the bytes of a task, of which opening a file counts as a 32nd"},
    "usermetadata": {"written": "the options metadata.* add pairs of key and value to the schema of the files"},
    **dict.fromkeys(("datetimerebasemode", "int96rebasemode"), _CALENDAR),
    **dict.fromkeys(("filter", "filters", "predicate", "predicates", "condition", "query", "pushdown"), _WHERE),
    **dict.fromkeys(("select", "column", "usecols", "fields", "projection", "columnnames"), _COLUMNS),
    **dict.fromkeys(("limit", "nrows", "maxrows", "head", "rows"), _LIMIT),
    **dict.fromkeys(("schema", "userschema", "dtype", "types"), _SCHEMA),
    **dict.fromkeys(("inferschema", "samplingratio", "enforceschema"), _INFERRED),
    **dict.fromkeys(("header", "sep", "delimiter", "quote", "escape", "encoding", "charset", "multiline", "nullvalue"), _TEXT),
    **dict.fromkeys(("batchsize", "batchrows", "outputbatchrows", "maxrecordsperbatch", "recordbatchbytes", "rowgroupsize", "chunksize"), _ROWS),
    **dict.fromkeys(("codec", "compressioncodec"), _CODEC),
    "maxfileage": {"read": "the option modifiedAfter leaves older files out"},
    "mode": {"read": "the options ignoreCorruptFiles and recover say what is done with broken files", "written": "call mode(...) of the writer"},
}  # fmt: skip
"""By an option of other sources or earlier releases, in lower case without _ and -: what to use when reading or writing."""


@dataclass(frozen=True, slots=True)
class Side:
    """The options of a read, of a write, or of reading a stream."""

    doing: str  # for errors: ``reading``
    done: str  # for errors: ``read``
    attributes: Mapping[str, tuple[Option, ...]]  # by the attribute that declares them
    takes_query: bool = False  # whether Spark may add options of a streaming query

    def __iter__(self) -> Iterator[Option]:
        """Iterate over the options, in the order of the documentation."""
        return (option for options in self.attributes.values() for option in options)

    def option(self, key: str) -> Option | None:
        """Return the option of a key in any case; None if there is none."""
        key = key.lower()
        return next((option for option in self if _stands_for(option, key) or option.name.lower() == key), None)


READING = Side("reading", "read", d.options_by_attribute(ReadOptions))
STREAMING = Side("reading streams", "read as a stream", d.options_by_attribute(StreamOptions))
WRITING = Side("writing", "written", d.options_by_attribute(SparkWriteOptions), takes_query=True)

STREAM_READING = Side(STREAMING.doing, STREAMING.done, {**READING.attributes, **STREAMING.attributes})

OPTIONS: tuple[Option, ...] = tuple({option.name: option for option in (*READING, *STREAMING, *WRITING)}.values())
"""All options of this release, in the order of the documentation."""


def options_of(mapping: Mapping[str, str], *sides: Side) -> dict[str, str]:
    """Return the options of a table without those that only other sides apply; unknown ones stay, to be refused."""
    others = [side for side in (READING, STREAMING, WRITING) if side not in sides]
    return {
        key: string
        for key, string in mapping.items()
        if any(side.option(key) for side in sides) or not any(other.option(key) for other in others)
    }


def parse_read(mapping: Mapping[str, str]) -> ReadOptions:
    """Parse the options of a read."""
    return _read_options(mapping, _parse(mapping, READING, WRITING, STREAMING))


def parse_stream(mapping: Mapping[str, str]) -> tuple[ReadOptions, StreamOptions]:
    """Parse the options of reading a stream, which include the options of a read."""
    values = _parse(mapping, STREAM_READING, WRITING)
    of_read = {name: value for name, value in values.items() if name in READING.attributes}
    options = _read_options(mapping, of_read)
    if options.reads_servers:
        raise OptionError("the table of a server is read once, and not as a stream; use spark.read")
    for option in find_misapplied(options, READING, Use.STREAMS):
        value = "=true" if option.kind is d.FLAG else ""
        raise OptionError(f"{option.name}{value} is for batch reads: a stream is read for its rows; remove it")
    stream = StreamOptions(**{name: value for name, value in values.items() if name not in of_read})
    stream.check()
    if stream.on_bad_file is not OnBadFile.FAIL and options.recover:
        raise OptionError(
            f"recover=true reads the complete record batches of a truncated file, and onBadFile={stream.on_bad_file.value} passes over the "
            "file; remove one"
        )
    return options, stream


def parse_write(mapping: Mapping[str, str]) -> SparkWriteOptions:
    """Parse the options of a write."""
    options = SparkWriteOptions(**_parse(mapping, WRITING, READING, STREAMING))
    options.check()
    return options.with_defaults({key.lower() for key in mapping})


_OF_JOBS: Final = {
    "commitToken": (
        "commitToken is for single jobs: a stream commits each batch once by itself, and foreachBatch gives the number "
        "of the batch for a token; remove it"
    ),
    "ifExists": "ifExists is for single jobs, and a stream goes on where it was; remove it",
    "partitionOverwriteMode": (
        "partitionOverwriteMode=dynamic is for single jobs; to replace partitions batch by batch use foreachBatch"
    ),
}
"""By name: sentences for options of jobs that are set for a stream, whose batches are jobs."""


def check_streamed(options: SparkWriteOptions) -> None:
    """Refuse options that have no meaning for a stream."""
    for option in find_misapplied(options, WRITING, Use.QUERY):
        raise OptionError(_OF_JOBS.get(option.name, f"the option {option.name} is for single jobs; remove it"))


def find_misapplied(
    options: ReadOptions | StreamOptions | SparkWriteOptions, side: Side, uses: Use
) -> Iterator[Option]:
    """Yield the options that differ from their defaults and apply to none of some uses."""
    default = type(options)()
    for attribute, declared in side.attributes.items():
        if getattr(options, attribute) != getattr(default, attribute):
            # Of `path` and `paths`, which share an attribute, one is enough for an error.
            yield from [option for option in declared if not option.applies & uses][:1]


def of_compactions() -> list[Option]:
    """Return the options of a compaction, for its read and its write, each once."""
    return _of_both_sides(Use.COMPACTION)


def _of_both_sides(use: Use) -> list[Option]:
    both = (option for side in (READING, WRITING) for option in side if use in option.applies)
    return list({option.name: option for option in both}.values())


_IN_PLACE: Final = {
    Use.COMPACTION: "could change rows, types or partitions, and a compaction keeps them; remove it, or use rewrite",
    Use.CHANGE: (
        "leaves out rows or columns, or reads or writes them in another way, and DELETE, UPDATE and MERGE replace complete "
        "files; remove it from the options of the table. Nothing is changed"
    ),
}
"""By a use that replaces files in place: why it refuses other options."""


def check_in_place(keys: Iterable[str], use: Use) -> None:
    """Refuse options that could change rows which are to stay as they are."""
    names = {option.name for option in _of_both_sides(use)}
    for key in keys:
        options = list(filter(None, (side.option(key) for side in (READING, WRITING))))
        if not any(option.name in names for option in options):
            name = options[0].name if options else cut_repr(key, _SHOWN)[1:-1]  # a catalog has names in lower case
            raise OptionError(f"the option {name} {_IN_PLACE[use]}")


def is_for_streams(mapping: Mapping[str, str]) -> bool:
    """Return whether an option is set that only streams have."""
    return any(STREAMING.option(key) is not None for key in mapping)


def _read_options(mapping: Mapping[str, str], values: Mapping[str, Any]) -> ReadOptions:
    options = ReadOptions(**values)
    if {"path", "paths"} <= {key.lower() for key in mapping}:
        raise OptionError("the options path and paths exclude each other: give all paths to load([...])")
    _check_paths(options.paths, mapping)
    if options.metadata_only:
        for option in find_misapplied(options, READING, Use.HEADERS):
            raise OptionError(
                f"metadataOnly=true reads no rows, so that the option {option.name} has no meaning; remove one"
            )
    options.check()
    return options


def _check_paths(paths: Sequence[str], mapping: Mapping[str, str]) -> None:
    """Refuse options that have no meaning for the paths of a read, which are tables of servers or files."""
    served = sum(map(is_served, paths))
    if 0 < served < len(paths):
        raise OptionError("some paths are tables of servers and some are files; read them apart and unite them")
    for option in filter(None, map(READING.option, mapping if paths else ())):
        if served and Use.SERVER not in option.applies:
            raise OptionError(f"the option {option.name} is for files, and the path is a server's table; remove it")
        if not served and not option.applies & Use.FILES:
            raise OptionError(f"the option {option.name} is for tables of servers, and the path is none; remove it")


def _parse(mapping: Mapping[str, str], side: Side, *others: Side) -> dict[str, Any]:
    """Parse options into values by attribute."""
    check_known(mapping, side, *others)
    by_name = {key.lower(): string for key, string in mapping.items()}
    values: dict[str, Any] = {}
    for attribute, options in side.attributes.items():
        for option in options:
            if option.name.endswith(_ANY):
                values[attribute] = _pairs(option, mapping)
            elif option.name.lower() in by_name:
                values[attribute] = _value(option, by_name[option.name.lower()])
    return values


def check_known(mapping: Mapping[str, str], side: Side, *others: Side) -> None:
    """Raise if an option is unknown or belongs to another side."""
    for key, string in mapping.items():
        _check_text(key, string)
        _check_known(key, string, side, others)


def _pairs(option: Option, mapping: Mapping[str, str]) -> tuple[tuple[str, Any], ...]:
    """Return the pairs of an option with keys, sorted by key."""
    start = len(option.name) - 1
    by_suffix = {key[start:]: string for key, string in mapping.items() if _stands_for(option, key.lower())}
    return tuple((key, _value(option, by_suffix[key])) for key in sorted(by_suffix))


def _stands_for(option: Option, key: str) -> bool:
    """Return True if an option with keys covers `key`, which is in lower case."""
    return option.name.endswith(_ANY) and len(key) >= len(option.name) and key.startswith(option.name[:-1].lower())


def _value(option: Option, string: str) -> Any:
    try:
        return option.parse(string)
    except ValueError:  # not chained: its text repeats the value, which may be a secret
        value_text = "" if option.is_secret else f", and is {cut_repr(without_url_secrets(string), _SHOWN)}"
        # Spark's `options` turns a list into Python's text for it, for which the example is the same list in JSON.
        is_list = re.fullmatch(r"\[\s*'[^'\\\"]*'(\s*,\s*'[^'\\\"]*')*\s*\]", string[:_SHOWN]) is not None
        example = string.replace("'", '"') if is_list else option.example
        raise OptionError(
            f"the option {option.name} must be {option.expected}{value_text}; for example: {example}"
        ) from None


def _check_text(key: str, string: str) -> None:
    """Refuse text that UTF-8 cannot encode."""
    # Java's strings may have half of a surrogate pair.
    for what, text in (("name", key), ("value", string)):
        try:
            text.encode()
        except UnicodeEncodeError as error:
            raise OptionError(
                f"the {what} of the option {cut_repr(key)} is not Unicode: it has the lone surrogate "
                f"{text[error.start]!r} at character {error.start:,}"
            ) from None


def _check_known(key: str, string: str, side: Side, others: Sequence[Side]) -> None:
    if side.option(key) is not None or (side.takes_query and key.lower() in _OF_QUERIES):
        return
    if key.lower() in _OF_QUERIES:
        raise OptionError(
            f"the option {_OF_QUERIES[key.lower()]} is for writeStream, and here data is {side.done}; remove it"
        )
    meant = _MEANT.get(re.sub("[_-]", "", key.lower()), {}).get(side.done.split()[0])
    if meant is not None:
        raise OptionError(f"there is no option {key[:_SHOWN]} for {side.doing}; {meant}")
    for other in others:
        option = other.option(key)
        if option is not None:
            assignment = "" if option.is_secret else f" ({key}={without_url_secrets(string)[:_SHOWN]})"
            raise OptionError(
                f"the option {option.name} is for {other.doing}, and here data is {side.done}; remove it{assignment}"
            )
    hint = did_you_mean(key, (option.name for one in (side, *others) for option in one), show=str, most=1)
    if hint:
        raise OptionError(f"there is no option {key[:_SHOWN]}; {hint}")
    raise OptionError(
        f"there is no option {key[:_SHOWN]} for {side.doing}; 'python -m spark_arrow_ipc.spark.options' prints all of "
        "them"
    )
