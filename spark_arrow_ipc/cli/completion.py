"""``arrowipc completion``: print a script by which a shell completes commands, options and their words.

The script is made from the parsers of all commands, and needs nothing when it runs. Where a path is expected, the shell
completes files as it does elsewhere.
"""

from __future__ import annotations

import argparse
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Final

from spark_arrow_ipc.cli.main import COMMANDS, parsers


@dataclass(frozen=True, slots=True)
class _Option:
    """An option: its names, the line of help, whether a value follows, and the words that it may be."""

    names: tuple[str, ...]
    about: str
    takes_value: bool
    words: tuple[str, ...]


_Options = Mapping[str, Sequence[_Option]]


def completion_arguments(parser: argparse.ArgumentParser) -> None:
    """Declare the arguments of ``arrowipc completion``."""
    parser.add_argument(
        "shell", choices=tuple(_SCRIPTS), help='bash: eval "$(arrowipc completion bash)"; docs/cli.md has the others'
    )


def run_completion(arguments: argparse.Namespace) -> int:
    """Print the script."""
    print(script(arguments.shell))
    return 0


def script(shell: str) -> str:
    """Return the script for a shell: ``bash``, ``zsh`` or ``fish``."""
    options = {name: list(_options(parser)) for name, parser in parsers().items()}
    return "\n".join(_SCRIPTS[shell](options))


def _options(parser: argparse.ArgumentParser) -> Iterator[_Option]:
    for action in parser._actions:  # noqa: SLF001 - argparse has no other way to list them
        words = tuple(map(str, action.choices or ()))
        if action.option_strings or words:
            about = "" if action.help is None else action.help.partition(";")[0]
            yield _Option(tuple(action.option_strings), about, action.nargs != 0, words)


def _quoted(text: str) -> str:
    return "'" + text.replace("'", "'\\''") + "'"


def _bash(options: _Options) -> Iterator[str]:
    yield "_arrowipc() {"
    yield '    local word="${COMP_WORDS[COMP_CWORD]}" before="${COMP_WORDS[COMP_CWORD-1]}" words=""'
    yield '    if [ "$COMP_CWORD" -eq 1 ]; then'
    yield f"        words={_quoted(' '.join((*options, '--help', '--version')))}"
    yield "    else"
    yield '        case "${COMP_WORDS[1]} $before" in'
    for command, of_command in options.items():
        for option in of_command:
            if option.takes_value and option.names:
                patterns = "|".join(_quoted(f"{command} {name}") for name in option.names)
                if option.words:
                    yield f'            {patterns}) COMPREPLY=($(compgen -W {_quoted(" ".join(option.words))} -- "$word")); return;;'
                else:
                    yield f"            {patterns}) return;;"
    yield "        esac"
    yield '        case "${COMP_WORDS[1]}" in'
    for command, of_command in options.items():
        names = [name for option in of_command for name in (option.names or option.words)]
        yield f"            {command}) words={_quoted(' '.join(names))};;"
    yield "        esac"
    yield '        case "$word" in'
    yield "            -?*) ;;"
    yield '            *) case "${COMP_WORDS[1]}" in completion) ;; *) words="";; esac;;'
    yield "        esac"
    yield "    fi"
    yield '    COMPREPLY=($(compgen -W "$words" -- "$word"))'
    yield "}"
    yield "complete -o default -F _arrowipc arrowipc"


def _zsh(options: _Options) -> Iterator[str]:
    yield "#compdef arrowipc"
    yield "_arrowipc() {"
    yield "    local -a commands"
    yield "    commands=("
    yield from (f"        {_quoted(f'{name}:{command.summary}')}" for name, command in COMMANDS.items())
    yield "    )"
    yield "    if (( CURRENT == 2 )); then _describe command commands; return; fi"
    yield "    local command=$words[2]"
    yield "    shift words; (( CURRENT-- ))"
    yield "    case $command in"
    for command, of_command in options.items():
        specs = [_zsh_spec(option, name) for option in of_command for name in option.names]
        words = next((option.words for option in of_command if not option.names), None)
        specs.append(_quoted("*: :_files" if words is None else f"1: :({' '.join(words)})"))
        yield f"        {command}) _arguments {' '.join(specs)};;"
    yield "    esac"
    yield "}"
    # The file lies in $fpath, or is evaluated.
    yield 'if [ "$funcstack[1]" = "_arrowipc" ]; then _arrowipc "$@"; else compdef _arrowipc arrowipc; fi'


def _zsh_spec(option: _Option, name: str) -> str:
    about = "".join(f"\\{letter}" if letter in "[]:\\" else letter for letter in option.about)
    value = "" if not option.takes_value else f": :({' '.join(option.words)})" if option.words else ": : "
    return _quoted(f"*{name}[{about}]{value}")


def _fish(options: _Options) -> Iterator[str]:
    for name, command in COMMANDS.items():
        yield f"complete -c arrowipc -n __fish_use_subcommand -f -a {name} -d {_fish_quoted(command.summary)}"
    for command_name, of_command in options.items():
        seen = _fish_quoted(f"__fish_seen_subcommand_from {command_name}")
        for option in of_command:
            names = " ".join(f"-l {name[2:]}" if name.startswith("--") else f"-s {name[1:]}" for name in option.names)
            words = f" -f -a {_fish_quoted(' '.join(option.words))}" if option.words else ""
            needs = " -r" if option.takes_value and option.names else ""
            yield f"complete -c arrowipc -n {seen} {names}{needs}{words} -d {_fish_quoted(option.about)}".replace(
                "  ", " "
            )


def _fish_quoted(text: str) -> str:
    return "'" + text.replace("\\", "\\\\").replace("'", "\\'") + "'"


_SCRIPTS: Final[Mapping[str, Callable[[_Options], Iterator[str]]]] = {"bash": _bash, "zsh": _zsh, "fish": _fish}
"""By shell: the lines of its script."""
