"""Options of a read of a server's table: which there are, and that the token stays secret."""

import pytest

from spark_arrow_ipc.errors import OptionError
from spark_arrow_ipc.spark.options.options import READING, ReadOptions, SparkWriteOptions
from spark_arrow_ipc.spark.options.served import FOR_SERVERS

URI = "dissociated+tcp://127.0.0.1:1/t?want_data=1"
FILES_ONLY = {option.name: option.example for option in READING if option.name not in FOR_SERVERS}


def test_options_of_servers_are_options():
    assert {option.name for option in READING} >= FOR_SERVERS


@pytest.mark.parametrize("name", FILES_ONLY)
def test_options_of_files_are_refused_by_name(name):
    with pytest.raises(OptionError, match=rf"the option {name.replace('*', '.*')} is for files"):
        ReadOptions.parse({"path": URI, name.replace("*", "region"): FILES_ONLY[name]})


@pytest.mark.parametrize("name", sorted(FOR_SERVERS - {"path", "paths"}))
def test_other_options_are_taken(name):
    assert ReadOptions.parse({"path": URI, name: READING.option(name).example}).reads_servers


def test_tables_and_files_are_not_mixed():
    with pytest.raises(OptionError, match="some are files"):
        ReadOptions.parse({"paths": f'["{URI}", "/data"]'})


def test_a_token_is_for_servers_and_no_error_or_repr_has_it():
    options = ReadOptions.parse({"path": URI, "token": "geheim"})
    assert "geheim" == options.token
    assert "geheim" not in repr(options)
    for parse in (ReadOptions.parse, SparkWriteOptions.parse):
        with pytest.raises(OptionError, match="token") as raised:
            parse({"path": "/data", "token": "geheim"})
        assert "geheim" not in str(raised.value)
