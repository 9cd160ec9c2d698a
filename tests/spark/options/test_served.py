"""Options of a read of a server's table: which there are, and that the token stays secret."""

import pytest

from spark_arrow_ipc.errors import OptionError
from spark_arrow_ipc.spark.options.declare import Use
from spark_arrow_ipc.spark.options.options import READING, parse_read, parse_write
from spark_arrow_ipc.spark.options.read_options import PATHS

URI = "dissociated+tcp://127.0.0.1:1/t?want_data=1"
FILES_ONLY = {option.name: option.example for option in READING if Use.SERVER not in option.applies}
OTHERS = [option for option in READING if Use.SERVER in option.applies and option.name not in PATHS]


@pytest.mark.parametrize("name", FILES_ONLY)
def test_options_of_files_are_refused_by_name(name):
    with pytest.raises(OptionError, match=rf"the option {name.replace('*', '.*')} is for files"):
        parse_read({"path": URI, name.replace("*", "region"): FILES_ONLY[name]})


@pytest.mark.parametrize("option", OTHERS, ids=lambda option: option.name)
def test_other_options_are_taken(option):
    assert parse_read({"path": URI, option.name: option.example}).reads_servers


def test_tables_and_files_are_not_mixed():
    with pytest.raises(OptionError, match="some are files"):
        parse_read({"paths": f'["{URI}", "/data"]'})


def test_a_token_is_for_servers_and_no_error_or_repr_has_it():
    options = parse_read({"path": URI, "token": "geheim"})
    assert "geheim" == options.token
    assert "geheim" not in repr(options)
    for parse in (parse_read, parse_write):
        with pytest.raises(OptionError, match="token") as raised:
            parse({"path": "/data", "token": "geheim"})
        assert "geheim" not in str(raised.value)
