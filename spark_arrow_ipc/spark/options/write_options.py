"""`SparkWriteOptions`: every option of a write, declared once (see ``read_options.py``)."""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass, replace
from typing import Self

from spark_arrow_ipc.arrow.column_path import ColumnPath
from spark_arrow_ipc.dataset.statistics import Statistics
from spark_arrow_ipc.dataset.write import IfExists
from spark_arrow_ipc.errors import OptionError
from spark_arrow_ipc.ipc.constants import Format
from spark_arrow_ipc.ipc.dissociated import is_served
from spark_arrow_ipc.ipc.flatbuf.tables import CompressionType
from spark_arrow_ipc.spark.options import declare as d
from spark_arrow_ipc.spark.options import values
from spark_arrow_ipc.spark.options.declare import Use
from spark_arrow_ipc.spark.options.read_options import PATH, STORAGE
from spark_arrow_ipc.spark.options.values import (
    DictionaryColumns,
    Layout,
    PartitionOverwriteMode,
    SchemaCheck,
    Vectors,
)


@dataclass(frozen=True, slots=True)
class SparkWriteOptions:
    """Options of a write; `parse_write` makes them from Spark's dict."""

    path: str | None = d.one_of(PATH, absent=None)
    compression: CompressionType | None = d.option(
        values.compression,
        "zstd",
        "one of lz4, zstd, none",
        "lz4",
        "The compression of buffers ([when `lz4` is better](writing.md#compression)). `ipcFormat=stream` defaults to `lz4`.",
        kind=d.one_of_words(values.CODECS),
        applies=Use.WRITES | Use.COMPACTION | Use.CHANGE,
    )
    compression_level: int | None = d.optional(
        values.integer,
        "a whole number",
        "9",
        "The level of `compression`; by default 1 for `zstd`, 0 for `lz4`.",
        kind=d.INTEGER,
        applies=Use.WRITES | Use.COMPACTION | Use.CHANGE,
    )
    record_batch_rows: int = d.count(
        "65536",
        "The most rows in a record batch, which has about 64 MiB at most.",
        applies=Use.WRITES | Use.COMPACTION | Use.CHANGE,
    )
    ipc_format: Format = d.word(
        Format.FILE,
        "`file` (random access, `.arrow`) or `stream` (`.arrows`).",
        applies=Use.WRITES | Use.COMPACTION | Use.CHANGE,
    )
    partition_by: tuple[ColumnPath, ...] | None = d.column_list(
        "year, month",
        "Columns that become directories `year=2024/month=1` instead of columns of files. Rows may come in any order.",
        applies=Use.WRITES | Use.CHANGE,
    )
    max_records_per_file: int | None = d.limit(
        "1000000",
        "The most rows in a file; by default, or with 0, any number.",
        applies=Use.WRITES | Use.COMPACTION | Use.CHANGE,
    )
    max_file_bytes: int | None = d.optional_byte_size(
        "512m",
        "The most bytes in a file, which has at least one record batch. In an object store the default and "
        "limit are 5,000,000,000.",
        applies=Use.WRITES | Use.COMPACTION | Use.CHANGE,
    )
    dictionary_columns: DictionaryColumns | tuple[ColumnPath, ...] = d.column_list_or(
        DictionaryColumns.NONE,
        "country, `unit name`",
        "Columns that a table's first job writes as [dictionaries](writing.md#dictionaries): `auto` takes strings and binaries that repeat, `all` numbers, dates and times too.",
        applies=Use.WRITES,
    )
    tensor_columns: tuple[tuple[ColumnPath, tuple[int | None, ...]], ...] | None = d.optional(
        values.tensor_columns,
        "columns with shapes, as name:2x3, separated by commas; ? is a size that differs from row to row",
        "image:224x224x3, text:?x768",
        "Writes arrays or structs as [tensors](tensors.md#columns-writing) of these shapes; `?` is any size. A row of "
        "another shape is an error.",
        kind=d.TENSORS,
        applies=Use.WRITES,
    )
    fixed_size_lists: tuple[tuple[ColumnPath, int], ...] | None = d.optional(
        values.list_sizes,
        "columns or fields of structs with lengths, as name:768, separated by commas",
        "embedding:768, page.embedding:384",
        "Writes arrays as fixed-size lists; so does `arrow.fixed-size-list.size` in a column's metadata. A row of another length is an error.",
        kind=d.SIZES,
        applies=Use.WRITES,
    )
    metadata: tuple[tuple[str, str], ...] = d.pairs(
        "metadata.*",
        "a string",
        "flights of 2023",
        "`metadata.owner=me` adds owner=me to the metadata of each file. Spark passes the key in lower case.",
        applies=Use.WRITES | Use.COMPACTION | Use.CHANGE,
    )
    statistics: Statistics | tuple[ColumnPath, ...] = d.column_list_or(
        Statistics.AUTO,
        "id, at",
        "Columns that get [statistics](statistics.md) in the footer, for `where`. `auto` takes the first 64, up to 1 % of the file or 1 MiB, whichever is more. `.arrows` files have none.",
        applies=Use.WRITES | Use.COMPACTION | Use.CHANGE,
    )
    partition_overwrite_mode: PartitionOverwriteMode = d.word(
        PartitionOverwriteMode.STATIC,
        "Mode overwrite replaces everything (`static`), or only the partitions that the job writes to.",
        applies=Use.JOB,
    )
    if_exists: IfExists = d.word(
        IfExists.APPEND,
        "If the directory holds data, mode append appends, fails (`error`) or writes nothing (`ignore`).",
        applies=Use.JOB,
    )
    schema_check: SchemaCheck = d.word(
        SchemaCheck.MERGE,
        "The columns that an append or a dynamic overwrite [may have](writing.md#columns-and-types).",
        applies=Use.WRITES | Use.CHANGE,
    )
    case_sensitive: bool = d.flag(
        "false",
        "Allows column names that differ only in case; Spark reads such columns only with `spark.sql.caseSensitive=true`.",
        applies=Use.WRITES | Use.COMPACTION | Use.CHANGE,
    )
    retention: int | None = d.optional_duration(
        "7d",
        "How long the table [retains](history.md#retention) log entries and removed files.",
        applies=Use.WRITES | Use.COMPACTION | Use.CHANGE,
    )
    commit_token: str | None = d.optional(
        values.token,
        "a string of your own of at most 1,000 characters",
        "load-2026-06-01",
        "Identifies the job: if the token is among the newest 1,000 of the table, the job writes nothing and succeeds.",
        applies=Use.JOB | Use.COMPACTION,
    )
    restore_types: bool = d.flag(
        "false",
        "Writes columns with [the Arrow types that they were read from](types.md#back-to-the-types-that-were-read), or fails.",
        applies=Use.WRITES | Use.CHANGE,
    )
    vectors: Vectors = d.word(
        Vectors.ARRAY,
        "`binary` writes a binary column whose metadata describes lists of numbers as lists.",
        applies=Use.WRITES | Use.CHANGE,
    )
    layout: Layout = d.word(
        Layout.PLAIN,
        "`huggingface` writes [a directory that `datasets.load_from_disk` opens](howto/huggingface.md).",
        applies=Use.JOB,
    )
    storage: tuple[tuple[str, str], ...] = d.secret_pairs(*STORAGE, applies=Use.WRITES | Use.COMPACTION | Use.CHANGE)

    def check(self) -> None:
        """Refuse options that contradict each other or the path."""
        if self.path is not None and is_served(self.path):
            raise OptionError("tables of servers are read and not written: write files, and serve them")
        if self.compression is None and self.compression_level is not None:
            raise OptionError("the option compressionLevel has no meaning with compression=none: remove one")

    def with_defaults(self, names: Collection[str]) -> Self:
        """Return the options with the defaults of their format and layout; `names` of given options are in lower case."""
        if self.layout is Layout.PLAIN:
            is_default = self.ipc_format is Format.STREAM and "compression" not in names
            return replace(self, compression=CompressionType.LZ4_FRAME) if is_default else self
        # `datasets` opens plain streams in one directory, without dictionaries.
        for name, value, only in (
            ("ipcFormat", self.ipc_format is Format.STREAM or "ipcformat" not in names, "streams"),
            ("partitionBy", self.partition_by is None, "one directory"),
            ("dictionaryColumns", self.dictionary_columns is DictionaryColumns.NONE, "columns without dictionaries"),
            ("tensorColumns", self.tensor_columns is None, "columns that are no tensors of Arrow"),
        ):
            if not value:
                raise OptionError(f"layout=huggingface is for {only}: remove the option {name}")
        return replace(
            self,
            ipc_format=Format.STREAM,
            compression=self.compression if "compression" in names else None,
            restore_types=self.restore_types or "restoretypes" not in names,
        )
