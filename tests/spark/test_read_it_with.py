"""The program at the end of docs/read_it_with.md writes what the others read (tests/test_read_it_with.py)."""

import pyarrow as pa
from read_it_with import FILES, blocks, flights


def test_the_program_in_spark_writes_what_the_others_read(spark, tmp_path):
    (program,) = blocks(FILES, "python")
    program = program.replace("save(name)", f"save(f'{tmp_path}/{{name}}')")
    exec(compile(program, "docs/read_it_with.md", "exec"), {"spark": spark})
    found = pa.concat_tables(
        pa.ipc.open_file(str(path)).read_all() for path in (tmp_path / "uncompressed").glob("part-*")
    )
    assert flights().sort_by("at").to_pylist() == found.sort_by("at").to_pylist()
    assert flights().schema.types == found.schema.types
    streams = list((tmp_path / "streams").glob("part-*.arrows"))
    assert 1000 == sum(pa.ipc.open_stream(str(path)).read_all().num_rows for path in streams)
    lake = list((tmp_path / "lake").glob("day=*/part-*.arrow"))
    assert {"day=1", "day=2"} == {path.parent.name for path in lake}
