"""Count what there is to read in the package: lines by kind, modules, imports, long signatures, and words that stop a reader.

    python tests/house_counts.py                    the work tree
    python tests/house_counts.py 7c2a5b5 HEAD       commits beside each other
    python tests/house_counts.py --parts            code lines of each part of the work tree as well
    python tests/house_counts.py --sample 10        ten functions by a fixed seed, with their docstrings

A line of code is one that has a token that is neither a comment nor a docstring; a docstring's lines are all from its
first quotes to its last; a comment at the line is any comment but `type:`, `noqa`, `fmt:` and section rules (`# ----`).
"""

import argparse
import ast
import io
import random
import re
import subprocess
import sys
import tokenize
from collections import Counter
from dataclasses import dataclass
from pathlib import Path

ROOT = Path(__file__).parents[1]
PACKAGE = "spark_arrow_ipc"
READERS = r"\b(?:FileReader|StreamReader|ServedReader|DissociatedReader|FollowReader|ConcatenatedStreams|BatchReader|BlockReader)\b"
MOST_PARAMETERS = 6

WORDS = {
    "docstrings that begin with What, Who, Which, Whether, Where, How": r"^(?:What|Who|Which|Whether|Where|How)\b",
    "'is no X', 'are no X'": r"\b(?:is|are) no \w",
    "a genitive as a parameter's text": r"(?m)^ +(?:Of the|Of a|As) \w+\.$",
    "human verbs": r"\b(?:minds? (?:any|a|the|that)|counts? for nothing|believes?|trusts?)\b",
}
NAMES = ("found", "first", "known", "own", "given", "made")


@dataclass
class Module:
    """One module's text and tree."""

    path: str
    text: str

    def __post_init__(self):
        self.tree = ast.parse(self.text)
        self.nodes = list(ast.walk(self.tree))


def modules_of(commit):
    """Return the package's modules in a commit, or in the work tree if it is None."""
    if commit is None:
        return [
            Module(path.relative_to(ROOT).as_posix(), path.read_text())
            for path in sorted((ROOT / PACKAGE).rglob("*.py"))
        ]
    listed = subprocess.run(
        ["git", "ls-tree", "-r", "--name-only", commit, PACKAGE], cwd=ROOT, capture_output=True, text=True, check=True
    ).stdout.split()
    paths = [path for path in listed if path.endswith(".py")]
    batch = subprocess.run(
        ["git", "cat-file", "--batch"],
        cwd=ROOT,
        input="".join(f"{commit}:{path}\n" for path in paths).encode(),
        capture_output=True,
        check=True,
    ).stdout
    modules = []
    for path in paths:
        head, _, batch = batch.partition(b"\n")
        nbytes = int(head.split()[-1])
        modules.append(Module(path, batch[:nbytes].decode()))
        batch = batch[nbytes + 1 :]
    return modules


def docstrings(module):
    """Return the string nodes that are documentation: of modules, classes and functions, and after an attribute."""
    nodes = []
    for node in module.nodes:
        body = getattr(node, "body", None)
        if not isinstance(body, list):
            continue
        for statement in body:
            value = getattr(statement, "value", None)
            if isinstance(statement, ast.Expr) and isinstance(value, ast.Constant) and isinstance(value.value, str):
                nodes.append(value)
    return nodes


def lines(module):
    """Return a module's numbers of code, docstring, comment and import lines."""
    in_docstrings = {line for node in docstrings(module) for line in range(node.lineno, node.end_lineno + 1)}
    comments, code = set(), set()
    for token in tokenize.generate_tokens(io.StringIO(module.text).readline):
        if token.type == tokenize.COMMENT:
            if not re.match(r"#\s*(?:type:|noqa|fmt:|pragma|-{3})", token.string):
                comments.add(token.start[0])
        elif token.type not in {tokenize.NL, tokenize.NEWLINE, tokenize.INDENT, tokenize.DEDENT, tokenize.ENDMARKER}:
            code |= set(range(token.start[0], token.end[0] + 1)) - in_docstrings
    imports = {
        line
        for node in module.nodes
        if isinstance(node, ast.Import | ast.ImportFrom)
        or (isinstance(node, ast.Assign) and any(getattr(target, "id", None) == "__all__" for target in node.targets))
        for line in range(node.lineno, node.end_lineno + 1)
    }
    return len(code), len(in_docstrings), len(comments), len(imports)


def arrows(modules):
    """Return the pairs of modules of which the first imports the second."""
    names = {module.path.removesuffix(".py").removesuffix("/__init__").replace("/", "."): module for module in modules}
    pairs = set()
    for name, module in names.items():
        for node in module.nodes:
            if isinstance(node, ast.ImportFrom) and node.module:
                targets = [f"{node.module}.{alias.name}" for alias in node.names]
                targets = {target if target in names else node.module for target in targets}
            elif isinstance(node, ast.Import):
                targets = {alias.name for alias in node.names}
            else:
                continue
            pairs |= {(name, target) for target in targets if target in names and target != name}
    return pairs


def functions(module):
    return [node for node in module.nodes if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef)]


def n_parameters(function):
    """Return how many parameters a function has, without self and cls."""
    arguments = function.args
    names = [argument.arg for argument in arguments.posonlyargs + arguments.args + arguments.kwonlyargs]
    return len(names) - (names[:1] in (["self"], ["cls"]))


def bound_names(module):
    """Count the names that a module binds: variables, parameters, attributes of classes."""
    counts = Counter(node.id for node in module.nodes if isinstance(node, ast.Name) and isinstance(node.ctx, ast.Store))
    counts.update(node.arg for node in module.nodes if isinstance(node, ast.arg))
    return counts


def count(commit):
    """Return the rows of one commit: name -> figure."""
    modules = modules_of(commit)
    code, docs, comments, imports = (sum(column) for column in zip(*map(lines, modules), strict=True))
    pairs = arrows(modules)
    within_ipc = {pair for pair in pairs if all(name.startswith(f"{PACKAGE}.ipc") for name in pair)}
    texts = [node.value for module in modules for node in docstrings(module)]
    names = sum(map(bound_names, modules), Counter())
    rows = {
        "modules": len(modules),
        "code lines": code,
        "code lines a module": round(code / len(modules)),
        "docstring lines": docs,
        "comments at the line": comments,
        "imports and __all__, % of code": round(100 * imports / code, 1),
        "arrows of the whole": len(pairs),
        "arrows within ipc/": len(within_ipc),
        "isinstance on readers": sum(
            len(re.findall(rf"isinstance\([^()]*(?:\([^()]*\))?[^()]*{READERS}", module.text)) for module in modules
        ),
        f"functions with more than {MOST_PARAMETERS} parameters": sum(
            n_parameters(function) > MOST_PARAMETERS for module in modules for function in functions(module)
        ),
        "branches on traits outside storage/": sum(
            len(re.findall(r"\btraits\.(?:renames|directories)\b", module.text))
            for module in modules
            if not module.path.startswith(f"{PACKAGE}/storage/")
        ),
    }
    for what, pattern in WORDS.items():
        rows[what] = sum(len(re.findall(pattern, text)) for text in texts)
    rows |= {f"`{name}` as a name": names[name] for name in NAMES}
    return rows


def print_table(commits):
    """Print the rows of each commit as a column."""
    columns = [count(commit) for commit in commits]
    heads = [commit or "work tree" for commit in commits]
    print(f"{'':66}" + "".join(f"{head:>12}" for head in heads))
    for name in columns[0]:
        print(f"{name:66}" + "".join(f"{column[name]:>12,}" for column in columns))


def print_parts():
    """Print modules, code and docstring lines of each folder of the work tree."""
    parts = {}
    for module in modules_of(None):
        folder = "/".join(module.path.split("/")[1:-1]) or "."
        figures = (1, *lines(module))
        parts[folder] = [sum(pair) for pair in zip(parts.get(folder, (0,) * 5), figures, strict=True)]
    print(f"\n{'folder':32}{'modules':>9}{'code':>9}{'docs':>9}{'comments':>10}{'imports':>9}")
    for folder, figures in sorted(parts.items()):
        print(
            f"{folder:32}" + "".join(f"{figure:>9,}" for figure in figures[:3]) + f"{figures[3]:>10,}{figures[4]:>9,}"
        )


def print_sample(commits, n_functions):
    """Print functions drawn by a fixed seed, from each commit by the same numbers between 0 and 1."""
    for commit in commits:
        everything = [
            (module.path, ast.get_source_segment(module.text, function))
            for module in modules_of(commit)
            for function in functions(module)
        ]
        draw = random.Random(3)
        print(f"==== {commit or 'work tree'}")
        for _ in range(n_functions):
            path, text = everything[int(draw.random() * len(everything))]
            print(f"-- {path}\n{text}\n")


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("commits", nargs="*", help="commits to count instead of the work tree")
    parser.add_argument("--parts", action="store_true")
    parser.add_argument("--sample", type=int, default=0)
    chosen = parser.parse_args()
    commits = chosen.commits or [None]
    if chosen.sample:
        print_sample(commits, chosen.sample)
        return
    print_table(commits)
    if chosen.parts:
        print_parts()


if __name__ == "__main__":
    sys.exit(main())
