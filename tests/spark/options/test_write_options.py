"""Options that decide about a single job are refused where every batch is one."""

import pytest

from spark_arrow_ipc.errors import OptionError
from spark_arrow_ipc.spark.options.declare import Use
from spark_arrow_ipc.spark.options.options import WRITING, check_streamed, parse_write


@pytest.mark.parametrize("option", list(WRITING), ids=lambda option: option.name)
def test_options_of_jobs_are_refused_and_all_others_taken(option):
    options = parse_write({option.name.replace("*", "key"): option.example})
    if Use.QUERY not in option.applies:
        with pytest.raises(OptionError, match=f"{option.name}.* is for single jobs"):
            check_streamed(options)
    else:
        check_streamed(options)
