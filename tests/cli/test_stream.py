"""``arrowipc stream``: its words, its statuses, and its JSON."""

import json

import pytest
from stream_checkpoints import ID, Checkpoint, drop

from spark_arrow_ipc.cli.main import main
from spark_arrow_ipc.dataset.stream.bad_files import BadFile


def ran(capsys, *arguments):
    status = main([*map(str, arguments)])
    return status, *capsys.readouterr()


@pytest.fixture
def query(tmp_path):
    query = Checkpoint(tmp_path, tmp_path / "log")
    drop(query.source / "0.arrow", 0)
    query.plan()
    query.commit()
    drop(query.source / "1.arrow", 1)
    query.plan()
    return query


def test_batches_of_a_query_that_goes_on(capsys, query):
    status, out, err = ran(capsys, "stream", query.root, "--source-log", query.log)
    lines = out.splitlines()
    nbytes = (query.source / "1.arrow").stat().st_size
    assert (0, "") == (status, err)
    assert f"{query.root}: the checkpoint of query {ID}" == lines[0]
    assert ["batch", "planned", "committed", "mode", "files", "bytes", "position"] == lines[1].split()
    assert ["0", "2023-11-14", "22:13:20"] == lines[-3].split()[:3]
    assert ["log", "1", str(nbytes), "entry", "0"] == lines[-3].split()[-5:]
    assert ["1", "2023-11-14", "22:13:20", "log", "1", str(nbytes), "entry", "1"] == lines[-2].split()
    assert (
        f"batch 1, 1 file of {nbytes} bytes, is not committed: the running query is at it, or the next start runs it again"
        == lines[-1]
    )
    query.commit()
    assert (0, "batch 1 is committed; the next start looks for what is new") == (
        (answer := ran(capsys, "stream", "-n", 1, query.root))[0],
        answer[1].splitlines()[-1],
    )


def test_what_keeps_a_query_from_going_on(capsys, query):
    (query.source / "1.arrow").unlink()
    status, out, _ = ran(capsys, "stream", query.root, "--source-log", query.log)
    assert 1 == status
    assert f"\nstuck: {query.source}/1.arrow: it is gone. put it back" in out
    assert "start the query once with ignoreMissingFiles=true" in out
    assert out.endswith("the next start runs it again, and ends with an error until the above is mended\n")


def test_a_query_of_a_table_may_end_at_an_entry_that_removed_rows(capsys, tmp_path):
    query = Checkpoint(tmp_path)
    query.plan('{"v":1,"mode":"table","table":"01234567","entry":5,"id":"","after":"/"}')
    query.commit()
    status, out, _ = ran(capsys, "stream", query.root)
    assert 0 == status
    assert out.endswith(
        "batch 0 is committed; the next start looks for what is new, and ends with SourceOverwrittenError if a later entry of "
        "the table's log removed rows ('arrowipc history TABLE' shows them) and the query has neither onOverwrite nor "
        "readChangeFeed\n"
    )


def test_a_log_and_its_bad_files(capsys, query):
    query.mode._log.bad_files.write(BadFile("/in/\x1bx.arrow", 3, 1_700_000_000_000_000_000, "expected y, found z"))
    status, out, _ = ran(capsys, "stream", query.log)
    assert 0 == status
    assert "passed over: /in/\\x1bx.arrow: 3 bytes, of 2023-11-14 22:13:20.000000000Z: expected y, found z\n" in out
    assert out.endswith(
        f"2 entries shown; give the checkpoint, with --source-log {query.log}, to see what is committed\n"
    )


def test_json_has_the_same(capsys, query):
    (query.source / "1.arrow").unlink()
    status, out, _ = ran(capsys, "stream", "--json", query.root, "--source-log", query.log)
    value = json.loads(out)
    assert (1, "checkpoint", ID, 1) == (status, value["kind"], value["query"], value["waiting_files"])
    assert [0, 1] == [batch["number"] for batch in value["batches"]]
    assert [f"{query.source}/1.arrow: it is gone"] == [each["what"] for each in value["stuck"]]


def test_a_query_that_has_planned_nothing(capsys, tmp_path):
    query = Checkpoint(tmp_path)
    assert (0, f"{query.root}: the checkpoint of query {ID}\nno batch was planned yet\n", "") == ran(
        capsys, "stream", query.root
    )


@pytest.mark.parametrize("given", ["0", "-1", "x", "1001"])
def test_a_number_of_batches_is_one(capsys, tmp_path, given):
    with pytest.raises(SystemExit, match="2"):
        main(["stream", "-n", given, str(tmp_path)])
    assert "expected a number of 1 to 1,000" in capsys.readouterr().err


def test_what_is_neither_is_one_line(capsys, tmp_path):
    status, out, err = ran(capsys, "stream", tmp_path / "nothing")
    assert (1, "") == (status, out)
    assert err.startswith("arrowipc: ")
    assert 1 == err.count("\n")
