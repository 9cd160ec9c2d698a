"""Print the declarations of `tables` as Flatbuffers IDL.

Strategy
--------
``python tests/programs/print_fbs.py format/`` writes the files of `tables.FILES` into a directory; the
repository has them, so that people, ``flatc`` and other languages can read the declarations of the codec. Each file
is a function of the declarations alone.
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

sys.path[:0] = [str(Path(__file__).parents[2] / name) for name in ("", "tests", "tests/oracles", "tests/builders", "tests/fakes", "tests/programs")]  # fmt: skip

from spark_arrow_ipc.ipc.flatbuf import idl, tables

HEADER = "// Printed from spark_arrow_ipc/ipc/flatbuf/tables.py; change that, then print again."


def render(file: idl.SchemaFile) -> str:
    """Return the content of one IDL file."""
    lines = [HEADER, "", f"// {file.doc}"]
    lines += [f'include "{name}";' for name in file.includes]
    lines += ["", f"namespace {tables.NAMESPACE};"]
    for definition in file.definitions:
        lines += ["", *_doc(definition.doc, ""), *_RENDER[type(definition)](definition)]
    lines += ["", f"root_type {file.root.name};", ""]
    return "\n".join(lines)


def _doc(sentence: str, indent: str) -> list[str]:
    return [f"{indent}/// {sentence}"] if sentence else []


def _enum(enum: idl.EnumDefinition) -> Iterator[str]:
    yield f"enum {enum.name} : {enum.storage.name} {{"
    # __members__ and not iteration: a flag enum does not iterate over its zero.
    for name, member in enum.members.__members__.items():
        yield f"  {enum.spelling(name)} = {int(member)},"
    yield "}"


def _struct(struct: idl.StructDefinition) -> Iterator[str]:
    yield f"struct {struct.name} {{"
    for field in struct.fields:
        yield f"  {field.name}: {field.type.name};"
    yield "}"


def _union(union: idl.UnionDefinition) -> Iterator[str]:
    yield f"union {union.name} {{"
    # The IDL numbers members by their order, from 1; NONE is implied.
    for discriminant, member in enumerate(union.members):
        assert member == discriminant
        if discriminant:
            yield f"  {member.name},"
    yield "}"


def _table(table: idl.TableDefinition) -> Iterator[str]:
    if not table.slots:
        yield f"table {table.name} {{}}"
        return
    yield f"table {table.name} {{"
    for slot in table.slots:
        yield from _doc(slot.doc, "  ")
        required = " (required)" if slot.required else ""
        yield f"  {slot.name}: {_type_name(slot.type)}{_default(slot)}{required};"
    yield "}"


def _type_name(type_: idl.SlotType) -> str:
    match type_:
        case idl.String():
            return "string"
        case idl.Vector(element):
            return f"[{element.name}]"
        case _:
            return type_.name


def _default(slot: idl.Slot) -> str:
    if not slot.default:
        return ""
    if isinstance(slot.type, idl.EnumDefinition):
        name = slot.type.members(slot.default).name
        assert name is not None, "no default is a combination of flags"
        return f" = {slot.type.spelling(name)}"
    return f" = {slot.default}"


_RENDER: Mapping[type, Callable[[Any], Iterator[str]]] = {
    idl.EnumDefinition: _enum,
    idl.StructDefinition: _struct,
    idl.UnionDefinition: _union,
    idl.TableDefinition: _table,
}


def main(arguments: Sequence[str] | None = None) -> None:
    """Write every IDL file into the directory, the only argument."""
    parser = argparse.ArgumentParser(prog="fbs", description="Write Arrow's Flatbuffers IDL files into a directory.")
    parser.add_argument("directory", type=Path)
    directory: Path = parser.parse_args(arguments).directory
    for file in tables.FILES:
        (directory / file.name).write_text(render(file), encoding="utf-8")


if __name__ == "__main__":
    main()
