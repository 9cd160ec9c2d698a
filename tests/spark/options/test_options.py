"""Options come as text and become values, or an error that says what would be right."""

import dataclasses

import pytest
from pyspark.sql.datasource import CaseInsensitiveDict

from spark_arrow_ipc.dataset.statistics import Statistics
from spark_arrow_ipc.dataset.write import IfExists
from spark_arrow_ipc.ipc.constants import Format, TensorRows, Validation
from spark_arrow_ipc.ipc.flatbuf.tables import CompressionType
from spark_arrow_ipc.spark.options.options import parse_read, parse_write
from spark_arrow_ipc.spark.options.read_options import ReadOptions
from spark_arrow_ipc.spark.options.values import (
    DictionaryColumns,
    ExtensionTypes,
    Nanoseconds,
    PartitionOverwriteMode,
    SchemaCheck,
    Times,
)
from spark_arrow_ipc.spark.options.write_options import SparkWriteOptions

READS = {
    "nothing": ({}, {}),
    "a path": ({"path": "/a b"}, {"paths": ("/a b",)}),
    "paths of load([...])": ({"paths": '["/a", "/b"]'}, {"paths": ("/a", "/b")}),
    "names in any case": ({"MAXPARTITIONBYTES": "1k"}, {"max_partition_bytes": 1024}),
    "words in any case": ({"times": "LONG"}, {"times": Times.LONG}),
    "columns": ({"columns": "a, #2"}, {"columns": ("a", 2)}),
    "all columns": ({"columns": "all"}, {"columns": None}),
    "verifyChecksums": ({"verifyChecksums": "false"}, {"verify_checksums": False}),
    "maxBatchBytes": ({"maxBatchBytes": "3g"}, {"max_batch_bytes": 3 << 30}),
    "validation": ({"validation": "structural"}, {"validation": Validation.STRUCTURAL}),
    "nanoseconds": ({"nanoseconds": "long"}, {"nanoseconds": Nanoseconds.LONG}),
    "times": ({"times": " time "}, {"times": Times.TIME}),
    "where": ({"where": "a = 1"}, {"where": "a = 1"}),
    "metadataColumns": ({"metadataColumns": "true"}, {"metadata_columns": True}),
    "metadataOnly": ({"metadataOnly": "true"}, {"metadata_only": True}),
    "minPartitionNum": ({"minPartitionNum": "7"}, {"min_partition_num": 7}),
    "recursiveFileLookup": ({"recursiveFileLookup": "TRUE"}, {"recursive_file_lookup": True}),
    "pathGlobFilter": ({"pathGlobFilter": "*.arrow"}, {"path_glob_filter": "*.arrow"}),
    "modifiedBefore": ({"modifiedBefore": "2026-06-01T13:00:00"}, {"modified_before": "2026-06-01T13:00:00"}),
    "modifiedAfter": ({"modifiedAfter": "2026-06-01T13:00:00"}, {"modified_after": "2026-06-01T13:00:00"}),
    "basePath": ({"basePath": "/a"}, {"base_path": "/a"}),
    "partitionTypeInference": ({"partitionTypeInference": "false"}, {"partition_type_inference": False}),
    "timeZone": ({"timeZone": "Europe/Berlin"}, {"time_zone": "Europe/Berlin"}),
    "mergeSchema": ({"mergeSchema": "true"}, {"merge_schema": True}),
    "ignoreCorruptFiles": ({"ignoreCorruptFiles": "true"}, {"ignore_corrupt_files": True}),
    "ignoreMissingFiles": ({"ignoreMissingFiles": "true"}, {"ignore_missing_files": True}),
    "recover": ({"recover": "true"}, {"recover": True}),
    "memoryMap": ({"memoryMap": "true"}, {"memory_map": True}),
    "extensionTypes, tensors": ({"extensionTypes": "tensor"}, {"extension_types": ExtensionTypes.TENSOR}),
    "tensors": ({"tensors": "Values"}, {"tensors": TensorRows.VALUES}),
    "extensionTypes": ({"extensionTypes": "storage"}, {"extension_types": ExtensionTypes.STORAGE}),
}


@pytest.mark.parametrize("case", READS)
def test_options_of_a_read(case):
    """What is not given is the default of the table, which is that of the dataclass."""
    given, expected = READS[case]
    assert dataclasses.replace(ReadOptions(), **expected) == parse_read(CaseInsensitiveDict(given))


WRITES = {
    "what Spark adds": ({"checkpointLocation": "/c", "queryName": "q"}, {}),
    "what Spark adds, as it does": ({"checkpointlocation": "/c", "queryname": "q"}, {}),
    "nothing": ({}, {}),
    "a path": ({"path": "/a"}, {"path": "/a"}),
    "compression": ({"compression": "ZSTD", "compressionLevel": "-3"}, {"compression": CompressionType.ZSTD, "compression_level": -3}),
    "no compression": ({"compression": "none"}, {"compression": None}),
    "recordBatchRows": ({"recordBatchRows": "10"}, {"record_batch_rows": 10}),
    "statistics": ({"statistics": "all"}, {"statistics": Statistics.ALL}),
    "statistics of some": ({"statistics": "a, b.c"}, {"statistics": ("a", ("b", "c"))}),
    "partitionOverwriteMode": ({"partitionOverwriteMode": "DYNAMIC"}, {"partition_overwrite_mode": PartitionOverwriteMode.DYNAMIC}),
    "ifExists": ({"ifExists": "ignore"}, {"if_exists": IfExists.IGNORE}),
    "retention": ({"retention": "7d"}, {"retention": 7 * 86400}),
    "retention in seconds": ({"retention": "90"}, {"retention": 90}),
    "no retention": ({"retention": "0"}, {"retention": 0}),
    "schemaCheck": ({"schemaCheck": "EXACT"}, {"schema_check": SchemaCheck.EXACT}),
    "caseSensitive": ({"caseSensitive": "true"}, {"case_sensitive": True}),
    "commitToken": ({"commitToken": "t 1"}, {"commit_token": "t 1"}),
    "commitToken of 1,000 characters": ({"commitToken": "t" * 1000}, {"commit_token": "t" * 1000}),
    "ipcFormat": ({"ipcFormat": "stream"}, {"ipc_format": Format.STREAM, "compression": CompressionType.LZ4_FRAME}),
    "ipcFormat and a codec": ({"ipcFormat": "stream", "Compression": "zstd"}, {"ipc_format": Format.STREAM}),
    "the codec of files": ({}, {"compression": CompressionType.ZSTD}),
    "partitionBy": ({"partitionBy": "a, `b c`, #0"}, {"partition_by": ("a", "b c", 0)}),
    "maxRecordsPerFile": ({"maxRecordsPerFile": "7"}, {"max_records_per_file": 7}),
    "maxFileBytes": ({"maxFileBytes": "1k"}, {"max_file_bytes": 1024}),
    "dictionaryColumns": ({"dictionaryColumns": "a, b"}, {"dictionary_columns": ("a", "b")}),
    "dictionaryColumns, a word": ({"dictionaryColumns": "AUTO"}, {"dictionary_columns": DictionaryColumns.AUTO}),
    "dictionaryColumns, a column of that name": ({"dictionaryColumns": "`auto`"}, {"dictionary_columns": ("auto",)}),
    "tensorColumns": ({"tensorColumns": "a:2x?, `b:c`:3, #1:10 x 2"}, {"tensor_columns": (("a", (2, None)), ("b:c", (3,)), (1, (10, 2)))}),
    "fixedSizeLists": ({"fixedSizeLists": "a:768, `b:c`:3, #1:10, d.`e.f`:4"}, {"fixed_size_lists": (("a", 768), ("b:c", 3), (1, 10), (("d", "e.f"), 4))}),
    "metadata.*": ({"metadata.b": "2", "Metadata.a.c": "1"}, {"metadata": (("a.c", "1"), ("b", "2"))}),
    "restoreTypes": ({"restoreTypes": "true"}, {"restore_types": True}),
}  # fmt: skip


@pytest.mark.parametrize("case", WRITES)
def test_options_of_a_write(case):
    given, expected = WRITES[case]
    assert dataclasses.replace(SparkWriteOptions(), **expected) == parse_write(given)
