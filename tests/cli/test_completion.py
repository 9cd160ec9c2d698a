"""Completion in bash, zsh and fish: each command, each option and each word of one."""

import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

pytest.importorskip("shtab")

from spark_arrow_ipc.cli.main import COMMANDS, main, parsers, script

ROOT = Path(__file__).parents[2]

CASES = [
    ("commands", "he", ["head"]),
    ("several commands", "co", ["completion", "concat", "convert", "copy", "count"]),
    ("an option", "head --wh", ["--where"]),
    ("options after a path", "inspect lake/ --s", ["--scan", "--stats", "--storage"]),
    ("the words of an option", "rewrite --compression z", ["zstd"]),
    ("the words of an argument", "completion z", ["zsh"]),
    ("no words of an option that takes any", "head --columns ", []),
    ("paths", "head --where a>1 pypro", ["pyproject.toml"]),
    ("paths of an option", "stream --source-log pypro", ["pyproject.toml"]),
]


def completed(*lines):
    """What bash offers for the last word of each line."""
    asks = []
    for line in lines:
        words = ["arrowipc", *line.split(" ")]
        asks += [
            f"COMP_WORDS=({' '.join(map(repr, words))}); COMP_CWORD={len(words) - 1}; COMPREPLY=()",
            f'_shtab_arrowipc arrowipc {words[-1]!r} {words[-2]!r} 2>/dev/null; echo "${{COMPREPLY[*]}}"',
        ]
    program = "\n".join([script("bash"), "complete -p arrowipc", *asks])
    answer = subprocess.run(["bash", "--norc", "-c", program], capture_output=True, text=True, cwd=ROOT)
    first, *rest = answer.stdout.splitlines()
    assert "_shtab_arrowipc" in first
    assert not answer.stderr
    return [sorted(each.split()) for each in rest]


@pytest.mark.parametrize(("line", "expected"), [c[1:] for c in CASES], ids=[c[0] for c in CASES])
def test_bash(line, expected):
    assert [sorted(expected)] == completed(line)


def test_bash_offers_every_option_of_every_command():
    _, commands = parsers()
    offered = completed(*(f"{name} -" for name in commands))
    assert [sorted(options(parser)) for parser in commands.values()] == offered


def options(parser):
    return [option for action in parser._actions for option in action.option_strings]


@pytest.mark.parametrize("shell", ["zsh", "fish"])
def test_every_command_and_option_is_in_the_script(capsys, shell):
    assert 0 == main(["completion", shell])
    text = capsys.readouterr().out
    for name, parser in parsers()[1].items():
        own = OF_COMMAND[shell](text, name)
        for option in options(parser):
            shown = f"-{'l' if option.startswith('--') else 's'} {option.lstrip('-')}" if shell == "fish" else option
            assert shown in own, (name, option)
    assert not set(COMMANDS) - {name for name in COMMANDS if name in text}


OF_COMMAND = {
    "zsh": lambda text, name: re.search(
        rf"^_shtab_arrowipc_{name}_options=\(\n(.*?)^\)$", text, re.DOTALL | re.MULTILINE
    )[1],
    "fish": lambda text, name: "\n".join(line for line in text.splitlines() if name in line),
}
"""By shell: the part of a script that has the options of a command."""


@pytest.mark.parametrize("shell", ["bash", "zsh", "fish"])
def test_the_shell_parses_its_script(shell):
    program = shutil.which(shell)
    if program is None:
        pytest.skip(f"{shell} is not installed; the table above reads its script")
    answer = subprocess.run(
        [program, "--no-execute" if shell == "fish" else "-n"], input=script(shell), capture_output=True, text=True
    )
    assert (0, "") == (answer.returncode, answer.stderr)


def test_without_shtab_one_sentence_says_what_to_install(monkeypatch, capsys):
    monkeypatch.setitem(sys.modules, "shtab", None)
    assert 1 == main(["completion", "bash"])
    assert "pip install 'spark-arrow-ipc[completion]'" in capsys.readouterr().err
