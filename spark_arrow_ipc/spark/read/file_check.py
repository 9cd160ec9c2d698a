"""`FileCheck`: check by footer and headers if the tasks of a stream could open a file and read its columns."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Final

from pyspark.sql import types as s

from spark_arrow_ipc import ipc
from spark_arrow_ipc.arrow.schema import Schema
from spark_arrow_ipc.dataset.listing.data_file import DataFile
from spark_arrow_ipc.dataset.listing.hive import Partitioning, partition_by_directory
from spark_arrow_ipc.dataset.scan.file_metadata import MetadataOptions, read_metadata
from spark_arrow_ipc.dataset.scan.file_range import PartitionColumns
from spark_arrow_ipc.dataset.scan.schemas import project
from spark_arrow_ipc.dataset.stream.bad_files import BadFiles
from spark_arrow_ipc.dataset.stream.mode import OnBadFile
from spark_arrow_ipc.dataset.stream.source_log import SourceLog
from spark_arrow_ipc.errors import OptionError, SchemaMismatchError, error_context
from spark_arrow_ipc.spark.convert import compile_converter
from spark_arrow_ipc.spark.options.read_options import ReadOptions, StreamOptions
from spark_arrow_ipc.spark.read.columns import select_needed
from spark_arrow_ipc.spark.read.dataset_schema import cast_partition_columns

_SENSITIVE: Final = (False, True)
"""Case sensitivity of names: a planner does not know the session's, and accepts files that fit with either."""


@dataclass(frozen=True, slots=True)
class FileCheck:
    """Raises the errors that tasks would raise for a file, except for damage in the bodies of its record batches."""

    columns: s.StructType  # of the files and their partitions
    options: ReadOptions

    def __call__(self, file: DataFile, root: str) -> None:
        """Raise if the file could not be read."""
        with error_context(path=file.path):
            schema = self._schema(file)
            partitioning = self._partitioning(file, root)
            for is_sensitive in _SENSITIVE:
                try:
                    self._check_conversion(schema, partitioning, is_sensitive=is_sensitive)
                except SchemaMismatchError:
                    # Only if neither fits.
                    if is_sensitive is _SENSITIVE[-1]:
                        raise
                else:
                    return

    def _schema(self, file: DataFile) -> Schema:
        options = self.options
        # With this limit all headers of a stream are read, and no record batch is cut into parts.
        headers = MetadataOptions(
            ipc.ReadOptions(limits=options.limits, concatenated_streams=options.concatenated_streams),
            tensors=options.tensors,
            cut_above=file.nbytes - 1,
            storage=options.path_storage,
        )
        metadata = read_metadata(file, headers)
        if metadata.error is not None:
            raise metadata.error
        assert metadata.schema is not None
        return metadata.schema

    def _partitioning(self, file: DataFile, root: str) -> Partitioning:
        if self.options.recursive_file_lookup:
            return Partitioning((), (file,))
        partitioning = partition_by_directory([file], [root], infer=False, time_zone=self.options.time_zone)
        return cast_partition_columns(partitioning, self.columns)

    def _check_conversion(self, schema: Schema, partitioning: Partitioning, *, is_sensitive: bool) -> None:
        options, fields = self.options, partitioning.fields
        select = select_needed(
            options.column_paths,
            self.columns,
            (),
            fields,
            skips_absent=options.fills_missing,
            is_case_sensitive=lambda: is_sensitive,
        )
        projected = project(schema, select)
        if fields:
            projected = PartitionColumns(projected, fields, partitioning.files[0].partition).schema
        # Compiling raises for types that cannot be converted; no record batch is read.
        compile_converter(projected, self.columns, replace(options, where=None))


def bad_files_of(
    options: ReadOptions, stream: StreamOptions, columns: s.StructType | None, log: SourceLog | None
) -> BadFiles | None:
    """Return the policy by which a stream skips bad files; None if tasks raise their errors."""
    policy = stream.on_bad_file
    notes = None
    if policy is OnBadFile.QUARANTINE:
        if log is None:
            raise OptionError(
                "onBadFile=quarantine notes files in the sourceLog, and there is none; give sourceLog, or skip"
            )
        notes = log.bad_files
    if policy is OnBadFile.FAIL or columns is None:
        return None
    return BadFiles(policy.value, FileCheck(columns, options), notes)
