"""Which options of a write a stream has not."""

from __future__ import annotations

from typing import Final

from spark_arrow_ipc.dataset.write.modes import IfExists
from spark_arrow_ipc.errors import OptionError
from spark_arrow_ipc.spark.options.options import SparkWriteOptions
from spark_arrow_ipc.spark.options.values import PartitionOverwriteMode

FOR_JOBS: Final = frozenset({"commitToken", "ifExists", "partitionOverwriteMode"})
"""They decide about a single job."""


def check_streamed(options: SparkWriteOptions) -> None:
    """Refuse what has no meaning where every batch is a job.

    Raises
    ------
    OptionError
        An option is only for single jobs.
    """
    if options.commit_token is not None:
        raise OptionError(
            "commitToken is for single jobs: a stream commits each batch once by itself, and foreachBatch gives the number "
            "of the batch for a token; remove it"
        )
    if options.if_exists is not IfExists.APPEND:
        raise OptionError("ifExists is for single jobs, and a stream goes on where it was; remove it")
    if options.partition_overwrite_mode is PartitionOverwriteMode.DYNAMIC:
        raise OptionError(
            "partitionOverwriteMode=dynamic is for single jobs; to replace partitions batch by batch use foreachBatch"
        )
