r"""Hadoop's glob patterns: compile them to predicates on names, and expand braces.

As in ``org.apache.hadoop.fs.GlobPattern`` and ``GlobExpander``: ``*`` and ``?`` within one part of a path, ``[abc]``,
``[a-z]``, ``[^a]`` (or ``[!a]``), nested ``{a,b}`` that may contain slashes, and ``\`` to escape a character. A part
``**``, which Hadoop does not have, stands for any number of directories. Nothing here accesses a file system.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Container, Iterable
from dataclasses import dataclass, field
from itertools import pairwise
from typing import Final, TypeAlias

from spark_arrow_ipc.errors import OptionError, cut_repr

_MOST_REMEMBERED: Final = 1_000_000
"""Characters and nodes that all states hold together; then they are forgotten, so that no pattern fills the memory."""


@dataclass(frozen=True, slots=True)
class CharacterSet:
    """The characters of ranges, both ends included, or all others."""

    ranges: tuple[tuple[str, str], ...]
    negated: bool = False

    def __contains__(self, character: object) -> bool:
        return any(low <= str(character) <= high for low, high in self.ranges) is not self.negated


ANY: Final = CharacterSet((), negated=True)
"""Every character."""


@dataclass(slots=True)
class Graph:
    """Nodes from 0, edges that read a character, and edges that read nothing."""

    reads: list[list[tuple[Container[str], int]]] = field(default_factory=list)
    skips: list[list[int]] = field(default_factory=list)
    end: int = 0

    def add_node(self) -> int:
        """Return a new node without edges."""
        self.reads.append([])
        self.skips.append([])
        return len(self.reads) - 1

    def step(self, node: int, characters: Container[str]) -> int:
        """Return a new node that one of `characters` leads to."""
        self.reads[node].append((characters, self.add_node()))
        return self.reads[node][-1][1]

    def skip(self, node: int, target: int | None = None) -> int:
        """Add an edge that reads nothing, to a new node unless there is a `target`; return its end."""
        target = self.add_node() if target is None else target
        self.skips[node].append(target)
        return target

    def repeat(self, node: int, characters: Container[str]) -> int:
        """Return a new node that any number of `characters` leads to."""
        after = self.skip(node)
        self.reads[after].append((characters, after))
        return after

    def reach(self, nodes: Iterable[int]) -> frozenset[int]:
        """Return the nodes that can be reached without reading. O(edges)."""
        waiting = list(nodes)
        reached = set(waiting)
        while waiting:
            new = [node for node in self.skips[waiting.pop()] if node not in reached]
            reached.update(new)
            waiting.extend(new)
        return frozenset(reached)


class _State(dict[str, "_State"]):
    """A set of nodes: by character, the state that follows."""

    __slots__ = ("automaton", "is_end", "nodes")

    def __init__(self, automaton: Automaton, nodes: frozenset[int]) -> None:
        super().__init__()
        self.automaton = automaton
        self.nodes = nodes
        self.is_end = automaton.graph.end in nodes

    def __missing__(self, character: str) -> _State:
        return self.automaton.follow(self, character)


class Automaton:
    """Tells which strings are those of a graph, in one pass.

    At worst a name costs the product of its length and the length of the pattern.
    """

    # Not a regular expression: that tries choices one after the other, and `*a*a*a*ab` takes seconds for one name. Here a set
    # of nodes, reached by all choices, is one state, which remembers the state that follows for each character: after the first
    # names a character costs one look-up.

    def __init__(self, graph: Graph) -> None:
        self.graph = graph
        self._forget()

    def _forget(self) -> None:
        self._states: dict[frozenset[int], _State] = {}
        self._remembered = 0
        self._first = self._state(self.graph.reach([0]))

    def _state(self, nodes: frozenset[int]) -> _State:
        state = self._states.get(nodes)
        if state is None:
            state = self._states[nodes] = _State(self, nodes)
            self._remembered += len(nodes)
        return state

    def follow(self, state: _State, character: str) -> _State:
        """Return the state after a character, and remember it."""
        reads = self.graph.reads
        following = {target for node in state.nodes for characters, target in reads[node] if character in characters}
        if self._remembered > _MOST_REMEMBERED:
            self._forget()
        after = state[character] = self._state(self.graph.reach(following))
        self._remembered += 1
        return after

    def matches(self, string: str) -> bool:
        """Return whether the automaton reads the whole string."""
        state = self._first
        for character in string:
            state = state[character]
        return state.is_end


Matches: TypeAlias = Callable[[str], object]
"""A predicate on names: the result is true if the name matches."""

ANY_DIRECTORIES: Final = "**"
"""A part of a path that stands for any number of directories, including none."""

MOST_CHARACTERS: Final = 1 << 16
"""Length of a pattern."""

MOST_PATHS: Final = 10_000
"""Patterns that braces with a slash expand to."""

_MOST_EXPANDED_CHARACTERS: Final = 2_000_000
"""Characters of all patterns that one is expanded to, and of all steps between."""

_MAGIC: Final = re.compile(r"[*?\[\]{}\\]")
_ESCAPED: Final = re.compile(r"\\(.)", re.DOTALL)


def is_pattern(path: str) -> bool:
    """Return whether a path contains a special character of patterns."""
    return _MAGIC.search(path) is not None


def escaped(path: str) -> str:
    """Return the pattern that matches a path alone."""
    return _MAGIC.sub(r"\\\g<0>", path)


def literal(part: str) -> str | None:
    r"""Return the only name that a part can match, or None: ``a\*b`` is ``a*b``."""
    name = _ESCAPED.sub(r"\1", part)
    return name if not is_pattern(_ESCAPED.sub("", part)) else None


def compile_name(pattern: str) -> Matches:
    """Compile a pattern into a predicate on names (without slashes).

    A name is matched in one pass, without going back; the first names cost up to the pattern's length a character.
    """
    if len(pattern) > MOST_CHARACTERS:
        raise OptionError(expected=f"a pattern of at most {MOST_CHARACTERS:,} characters", found=f"{len(pattern):,}")
    first, *others = pattern.split("*")
    if len(others) == 1 and not is_pattern(first + others[0]):
        return _between(first, others[0])
    return Automaton(_Parser(pattern).graph()).matches


def _between(first: str, last: str) -> Matches:
    """Match the commonest patterns, such as ``part-*.arrow``, in a tenth of the automaton's time."""
    shortest = len(first) + len(last)
    return lambda name: len(name) >= shortest and name.startswith(first) and name.endswith(last)


class _Parser:
    """Parses a pattern into the graph of an automaton, character by character."""

    def __init__(self, pattern: str) -> None:
        self._pattern = pattern
        self._at = 0

    def graph(self) -> Graph:
        graph = Graph()
        node = graph.add_node()
        open_braces: list[tuple[int, int]] = []  # the nodes before and after each brace
        while self._at < len(self._pattern):
            letter = self._next()
            if letter == "\\":
                node = graph.step(node, self._escaped())
            elif letter == "*":
                node = graph.repeat(node, ANY)
            elif letter == "?":
                node = graph.step(node, ANY)
            elif letter == "[":
                node = graph.step(node, self._set())
            elif letter == "{":
                open_braces.append((node, graph.add_node()))
                node = graph.skip(node)
            elif letter == "}" and open_braces:
                _, after = open_braces.pop()
                graph.skip(node, after)
                node = after
            elif letter == "," and open_braces:
                before, after = open_braces[-1]
                graph.skip(node, after)
                node = graph.skip(before)
            else:
                node = graph.step(node, letter)
        if open_braces:
            raise self._wrong("a } for each {")
        graph.end = node
        return graph

    def _next(self) -> str:
        letter = self._pattern[self._at]
        self._at += 1
        return letter

    def _escaped(self) -> str:
        if self._at == len(self._pattern):
            raise self._wrong("a character after the backslash")
        return self._next()

    def _set(self) -> CharacterSet:
        r"""Parse a set; ``\``, ``-``, ``]`` leading ``^`` and ``!`` are special."""
        negated = self._pattern[self._at : self._at + 1] in ("^", "!")
        self._at += negated
        ranges: list[tuple[str, str]] = []
        first = self._at
        while True:
            if self._at == len(self._pattern):
                raise self._wrong("a ] for each [")
            letter = self._next()
            if letter == "]" and self._at > first + 1:
                return CharacterSet(tuple(ranges), negated)
            low = high = self._escaped() if letter == "\\" else letter
            following = self._pattern[self._at : self._at + 2]
            if len(following) == 2 and following[0] == "-" and following[1] != "]":
                self._at += 1
                letter = self._next()
                high = self._escaped() if letter == "\\" else letter
                if high < low:
                    raise self._wrong(f"a range from the lower to the higher character, not {low}-{high}")
            ranges.append((low, high))

    def _wrong(self, expected: str) -> OptionError:
        return OptionError(expected=f"{expected} in the pattern", found=cut_repr(self._pattern))


def expand_braces(pattern: str) -> list[str]:
    r"""Expand braces that contain a slash: ``p{a/b,c}`` becomes ``pa/b`` and ``pc``.

    Braces without a slash stay, and so does a pattern with unclosed braces.
    """
    waiting = [pattern]
    expanded: list[str] = []
    characters = 0
    while waiting:
        current = waiting.pop()
        characters += len(current)
        if len(expanded) + len(waiting) >= MOST_PATHS or characters > _MOST_EXPANDED_CHARACTERS:
            raise OptionError(expected=f"braces that stand for at most {MOST_PATHS:,} paths", found=cut_repr(pattern))
        braces = _braces_with_slash(current)
        if braces is None:
            expanded.append(current)
            continue
        first, commas, end = braces
        edges = [first, *commas, end]
        choices = [current[a + 1 : b] for a, b in pairwise(edges)]
        waiting.extend(current[:first] + choice + current[end + 1 :] for choice in reversed(choices))
    return expanded


def _braces_with_slash(pattern: str) -> tuple[int, list[int], int] | None:
    """Return the positions of the first outer braces with a slash, and their commas."""
    depth = first = 0
    commas: list[int] = []
    slash = False
    i = 0
    while i < len(pattern):
        letter = pattern[i]
        if letter == "\\":
            i += 1
        elif letter == "{":
            depth += 1
            if depth == 1:
                first, commas, slash = i, [], False
        elif letter == "}" and depth:
            depth -= 1
            if depth == 0 and slash:
                return first, commas, i
        elif letter == "," and depth == 1:
            commas.append(i)
        elif letter == "/" and depth:
            slash = True
        i += 1
    return None
