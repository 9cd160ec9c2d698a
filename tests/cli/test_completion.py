"""Completion in bash, zsh and fish: each command, each option and each word of one."""

import shutil
import subprocess

import pytest

from spark_arrow_ipc.cli.main import COMMANDS, main, parsers, script

CASES = [
    ("commands", "he", ["head"]),
    ("several commands", "co", ["completion", "concat", "convert", "copy", "count"]),
    ("an option", "head --wh", ["--where"]),
    ("options after a path", "stats lake/ --s", ["--scan", "--storage"]),
    ("the words of an option", "rewrite --compression z", ["zstd"]),
    ("the words of an argument", "completion z", ["zsh"]),
    ("no words of an option that takes any", "head --columns ", []),
    ("paths are the shell's", "head ", []),
]


@pytest.mark.parametrize(("line", "expected"), [c[1:] for c in CASES], ids=[c[0] for c in CASES])
def test_bash(line, expected):
    words = ["arrowipc", *line.split(" ")]
    ask = f"COMP_WORDS=({' '.join(map(repr, words))}); COMP_CWORD={len(words) - 1}; _arrowipc; printf '%s\\n' \"${{COMPREPLY[@]}}\""
    answer = subprocess.run(["bash", "--norc", "-c", f"{script('bash')}\n{ask}"], capture_output=True, text=True)
    assert ("", sorted(expected)) == (answer.stderr, sorted(answer.stdout.split()))


@pytest.mark.parametrize("shell", ["bash", "zsh", "fish"])
def test_every_command_and_option_is_in_the_script(capsys, shell):
    assert 0 == main(["completion", shell])
    text = capsys.readouterr().out
    for name, parser in parsers().items():
        own = "\n".join(line for line in text.splitlines() if name in line)
        for option in (option for action in parser._actions for option in action.option_strings):
            shown = f"-{'l' if option.startswith('--') else 's'} {option.lstrip('-')} " if shell == "fish" else option
            assert shown in own, (name, option)
    assert not set(COMMANDS) - {name for name in COMMANDS if name in text}


@pytest.mark.parametrize("shell", ["bash", "zsh", "fish"])
def test_the_shell_parses_its_script(shell):
    program = shutil.which(shell)
    if program is None:
        pytest.skip(f"{shell} is not installed; the table above reads its script")
    answer = subprocess.run(
        [program, "--no-execute" if shell == "fish" else "-n"], input=script(shell), capture_output=True, text=True
    )
    assert (0, "") == (answer.returncode, answer.stderr)
