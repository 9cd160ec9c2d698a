"""What `inspect` shows of a server's table."""

import json

import pyarrow as pa
import pytest
from dissociated_peers import ToyServer, messages_of, packed_frames

from spark_arrow_ipc import ipc
from spark_arrow_ipc.cli.main import main

BODIES = [(None, "through the socket"), ("named", "in shared memory (named)")]


@pytest.mark.parametrize(("memory", "bodies"), BODIES)
def test_inspect_shows_a_table_without_its_values(capsys, tmp_path, memory, bodies):
    schema = pa.schema([pa.field("a", pa.int64(), metadata={"unit": "m"}), ("b", pa.string())], metadata={"k": "v"})
    with pa.ipc.new_file(str(tmp_path / "x.arrow"), schema) as writer:
        for rows, more in ((3, None), (1_200, {"n": "1"})):
            writer.write_batch(pa.record_batch([range(rows), ["geheim"] * rows], schema=schema), custom_metadata=more)
    with ipc.serve({"a/t": tmp_path / "x.arrow"}, shared_memory=memory, parts=2) as server:
        uri = server.uri_of("a/t")
        assert 0 == main(["inspect", uri])
        text = capsys.readouterr().out
        assert 0 == main(["inspect", uri, "--json"])
        found = json.loads(capsys.readouterr().out)
    assert uri.partition("?")[0] + "?ticket=a/t" == found.pop("path") == text.splitlines()[0]
    for part in (f"bodies {bodies}", "1,203 rows in 2 record batches", "of=2", "utf8", "unit", "1,200", "k", "v", "n"):
        assert part in text
    for secret in ("want_", "geheim"):
        assert secret not in text
    assert {"format": "dissociated", "bodies": bodies, "num_rows": 1203, "custom_metadata": []} == {
        key: found[key] for key in ("format", "bodies", "num_rows", "custom_metadata")
    }
    assert ["a", "b"] == [field["name"] for field in found["schema"]["fields"]]
    assert [(3, []), (1200, [{"key": "n", "value": "1"}])] == [
        (batch["length"], batch["custom_metadata"]) for batch in found["record_batches"]
    ]


def test_a_server_that_knows_no_parts_is_shown(capsys):
    """It is asked twice: for the schema, and for the rows."""
    frames = packed_frames(messages_of(pa.record_batch([pa.array([1, 2])], ["a"])))
    with ToyServer(frames, connections=2) as server:
        assert 0 == main(["inspect", server.uri + "&ticket=t"])
    text = capsys.readouterr().out
    assert "the server reads it out whole only" in text
    assert "2 rows in 1 record batch" in text
