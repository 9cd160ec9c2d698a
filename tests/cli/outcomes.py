"""What each command answers to a file, a directory, a pattern and so on: status and first line.

::

    python tests/cli/outcomes.py > tests/cli/outcomes.md

The files are written by pyarrow; commands that write anything write it beside them. `doctor`, `completion`, `jar` and `serve` take
no such input, or do not end.
"""

import contextlib
import io
import os
import re
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path

import pyarrow as pa

from spark_arrow_ipc.cli.main import main

ROOT = Path(__file__).parents[2]
FILES = 10_000
LONGEST = 72

# Command: its arguments, where {} is the input.
COMMANDS = {
    "inspect": "{}", "validate": "{}", "schema": "{}", "count": "{}", "cat": "{}", "head": "-n 2 {}", "tail": "-n 2 {}",
    "sample": "-n 2 --seed 1 {}", "concat": "{} target", "rewrite": "--sort-by id {} target", "split": "--rows 4000 {} target",
    "convert": "{} target.jsonl", "repair": "{} target", "layout": "{} target.svg", "diff": "{} one.arrow",
    "copy": "{} target", "fsck": "{}", "history": "{}", "stream": "{}", "vacuum": "{}",
}  # fmt: skip

# Situation: the input.
INPUTS = {
    "a file": "one.arrow",
    "a directory with partitions": "lake",
    "a pattern": "lake/k=*/*.arrow",
    "stdin": "-",
    "a broken file": "broken.arrow",
}
OUTSIDE = {"a terminal of 40 columns": "one.arrow", "a pipe that is closed early": "one.arrow", "10,000 files": "many"}
"""Those that need a process of their own."""


def table(first, rows):
    return pa.table({"id": range(first, first + rows), "name": [f"the name of number {i}" for i in range(rows)]})


def write(path, contents, rows=30):
    path.parent.mkdir(parents=True, exist_ok=True)
    with pa.ipc.new_file(str(path), contents.schema) as writer:
        writer.write_table(contents, max_chunksize=rows)


def write_inputs(folder):
    write(folder / "one.arrow", table(0, 100))
    write(folder / "lake" / "k=1" / "a.arrow", table(0, 60))
    write(folder / "lake" / "k=2" / "a.arrow", table(60, 40))
    whole = (folder / "one.arrow").read_bytes()
    (folder / "broken.arrow").write_bytes(whole[: len(whole) * 3 // 4])


def write_many(folder):
    for i in range(FILES):
        write(folder / "many" / f"k={i % 10}" / f"{i:05d}.arrow", table(i, 1))


def arguments_of(command, given):
    return [command, *(given if word == "{}" else word for word in COMMANDS[command].split())]


def clean(folder):
    for path in folder.glob("target*"):
        shutil.rmtree(path, ignore_errors=True)
        path.unlink(missing_ok=True)


def answer_inside(folder, command, given):
    """Return the status and the first line of a command that runs in this process."""
    out, err = io.StringIO(), io.StringIO()
    stdin = io.TextIOWrapper(io.BytesIO((folder / "one.arrow").read_bytes()))
    before, sys.stdin = sys.stdin, stdin
    try:
        with contextlib.chdir(folder), contextlib.redirect_stdout(out), contextlib.redirect_stderr(err):
            status = main(arguments_of(command, given))
    except SystemExit as ended:  # argparse
        status = ended.code
    finally:
        sys.stdin = before
        clean(folder)
    with contextlib.chdir(folder):
        return status, first_line(out.getvalue(), err.getvalue())


def answer_outside(folder, command, situation):
    """Return the status and the first line of a command that has a process, and perhaps a terminal, of its own."""
    from test_terminal import at_a_terminal  # beside this module

    arguments = [sys.executable, "-m", "spark_arrow_ipc.cli.main", *arguments_of(command, OUTSIDE[situation])]
    environment = {**os.environ, "PYTHONPATH": str(ROOT)}
    with contextlib.chdir(folder):
        if "terminal" in situation:
            status, lines = at_a_terminal(arguments, 40)
            found = status, first_line("\n".join(lines), "")
        elif "pipe" in situation:
            with subprocess.Popen(
                arguments, stdout=subprocess.PIPE, stderr=subprocess.PIPE, env=environment, text=True
            ) as process:
                line = process.stdout.readline()
                process.stdout.close()
                err = process.stderr.read()
            found = process.returncode, first_line(line, err)
        else:
            done = subprocess.run(arguments, capture_output=True, text=True, env=environment, check=False)
            found = done.returncode, first_line(done.stdout, done.stderr)
    clean(folder)
    return found


def first_line(out, err):
    """The first line of what was printed, with the folder and the sizes of pictures as they are everywhere."""
    line = out.splitlines()[0] if out else f"stderr: {err.splitlines()[0]}" if err else ""
    line = re.sub(r"(target\.svg: )[\d,]+ bytes", r"\1N bytes", line.replace(str(Path.cwd()), "/data"))
    return line if len(line) <= LONGEST else line[: LONGEST - 3] + "..."


def row(situation, status, line):
    shown = line.replace("|", "\\|").replace("\t", "  ")
    return f"| {situation} | {status} | {f'`` {shown} ``' if shown.strip() else 'nothing'} |"


def inside(folder, command):
    """Return the rows of a command that need no other process."""
    return [row(name, *answer_inside(folder, command, given)) for name, given in INPUTS.items()]


def outside(folder, command):
    """Return the other rows of a command."""
    return [row(name, *answer_outside(folder, command, name)) for name in OUTSIDE]


def page(folder):
    """Return the text of outcomes.md."""
    write_inputs(folder)
    write_many(folder)
    parts = [HEAD]
    for command, arguments in COMMANDS.items():
        rows = inside(folder, command) + outside(folder, command)
        given = arguments.replace("{}", "INPUT").replace("target", "TARGET")
        parts.append(
            "\n".join(
                [
                    f"## {command}\n",
                    f"`arrowipc {command} {given}`\n",
                    "| INPUT | status | first line |",
                    "|---|--:|---|",
                    *rows,
                ]
            )
        )
    return "\n\n".join(parts) + "\n"


HEAD = """# What each command answers

The status and the first line of each command for each kind of input; long lines are cut.
The lake has two partitions of 60 and 40 rows, the file has all of them in record batches of 30, and the broken file is the file without its last quarter.
`doctor` and `completion` read no files, and `serve` does not end.

`tests/cli/outcomes.py` prints this file, and `test_outcomes.py` compares it."""

if __name__ == "__main__":
    sys.path[:0] = [str(ROOT), str(Path(__file__).parent)]
    with tempfile.TemporaryDirectory() as folder:
        sys.stdout.write(page(Path(folder)))
