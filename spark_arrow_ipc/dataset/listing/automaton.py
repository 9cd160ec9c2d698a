"""Match names against a pattern in one pass: a nondeterministic automaton, made deterministic as names need it.

Strategy
--------
A `Graph` has an edge for each part of a pattern. While a name is read, the automaton is in all nodes that a choice of
``*`` or of braces can reach, so that no choice is tried and taken back. Such a set of nodes is one `_State`, which
remembers the state that follows for each character it has seen: after the first names a character costs one look-up,
as in a regular expression. At worst a name costs the product of its length and the length of the pattern.
"""

from __future__ import annotations

from collections.abc import Container, Iterable
from dataclasses import dataclass, field
from typing import Final

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
    """Tells which strings are those of a graph."""

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
