"""Options that decide about a single job are refused where every batch is one."""

import pytest

from spark_arrow_ipc.errors import OptionError
from spark_arrow_ipc.spark.options.options import WRITING, SparkWriteOptions
from spark_arrow_ipc.spark.options.streamed_writes import FOR_JOBS, check_streamed


@pytest.mark.parametrize("option", list(WRITING), ids=lambda option: option.name)
def test_options_of_jobs_are_refused_and_all_others_taken(option):
    options = SparkWriteOptions.parse({option.name.replace("*", "key"): option.example})
    if option.name in FOR_JOBS:
        with pytest.raises(OptionError, match=f"{option.name}.* is for single jobs"):
            check_streamed(options)
    else:
        check_streamed(options)
