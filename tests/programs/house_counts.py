"""Count what there is to read in the package: lines by kind, modules, imports, long signatures, and words that stop a reader.

    python tests/programs/house_counts.py                    the work tree
    python tests/programs/house_counts.py 7c2a5b5 HEAD       commits beside each other
    python tests/programs/house_counts.py --parts            code lines of each part of the work tree as well
    python tests/programs/house_counts.py --sample 20 --seed 20261128   functions by a fixed seed, with their docstrings

A line of code is one that has a token that is neither a comment nor a docstring; a docstring's lines are all from its
first quotes to its last; a comment at the line is any comment but `type:`, `noqa`, `fmt:` and section rules (`# ----`).

A participle names a function if it is the first word of its name (`written_files`). A vague name is one of `VAGUE` that
is bound as a variable or parameter; its share is of all bindings. A private function of at most three lines is used
once if its name stands in its module once outside its definition. Sentences are counted in docstrings, comments, README
and the pages of docs/ without its decisions (docs/adr).
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

ROOT = Path(__file__).parents[2]
PACKAGE = "spark_arrow_ipc"
READERS = r"\b(?:FileReader|StreamReader|ServedReader|DissociatedReader|FollowReader|ConcatenatedStreams|BatchReader|BlockReader)\b"
MOST_PARAMETERS = 6

WORDS = {
    "docstrings that begin with What, Who, Which, Whether, Where, How": r"^(?:What|Who|Which|Whether|Where|How)\b",
    "'is no X', 'are no X'": r"\b(?:is|are) no \w",
    "a genitive as a parameter's text": r"(?m)^ +(?:Of the|Of a|As) \w+\.$",
    "human verbs": r"\b(?:minds? (?:any|a|the|that)|counts? for nothing|believes?|trusts?)\b",
}
VAGUE = (
    "found",
    "own",
    "place",
    "noted",
    "known",
    "made",
    "wanted",
    "kept",
    "whole",
    "there",
    "taken",
    "asked",
    "given",
)
"""Names of variables that a newcomer cannot guess."""

IRREGULAR = frozenset(
    [
        "begun",
        "bound",
        "brought",
        "built",
        "chosen",
        "done",
        "drawn",
        "driven",
        "fallen",
        "found",
        "given",
        "gone",
        "grown",
        "hidden",
        "kept",
        "known",
        "laid",
        "left",
        "lent",
        "made",
        "meant",
        "met",
        "put",
        "read",
        "said",
        "seen",
        "sent",
        "shown",
        "spent",
        "split",
        "stood",
        "taken",
        "thrown",
        "told",
        "torn",
        "understood",
        "won",
        "written",
    ]
)
"""Participles that do not end in -ed. `read`, `put`, `split` and `bound` are verbs or nouns as well: see `VERBS`."""
VERBS = frozenset(["read", "put", "split", "bound", "left", "need", "feed", "seed", "speed", "embed", "shed"])

SENTENCES = {
    "whole": r"\bwhole\b",
    "that of / those of": r"\b(?:that|those) of\b",
    "alone": r"\balone\b",
    "lies": r"\blies?\b",
    "beside": r"\bbeside\b",
    "mend": r"\bmend(?:s|ed|ing)?\b",
    "; else": r"; else\b",
    "begun, brought": r"\b(?:begun|brought)\b",
    "is no X": r"\b(?:is|are) no \w",
    "of it / of them": r"\bof (?:it|them)\b",
    "what is": r"\bwhat (?:is|are)\b",
}
"""Turns of phrase that a native reader may read twice, and their patterns."""


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
    defined = [function.name for module in modules for function in functions(module)]
    private, once = private_functions(modules)
    rows = {
        "modules": len(modules),
        "code lines": code,
        "code lines a module": round(code / len(modules)),
        "docstring lines": docs,
        "comments at the line": comments,
        "comments at the line, % of code": round(100 * comments / code, 1),
        "lines of Python": sum(module.text.count("\n") for module in modules),
        "functions": len(defined),
        "functions named by participles, %": percent(sum(map(is_participle, defined)), len(defined)),
        "vague names, % of bindings": percent(sum(names[name] for name in VAGUE), names.total()),
        "private functions of 3 lines, used once, %": percent(once, private),
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
    rows |= {f"`{name}` as a name": names[name] for name in VAGUE}
    rows["options"] = sum(map(n_options, modules))
    rows["lines of Python in tests/"] = sum(text.count("\n") for text in texts_below(commit, "tests", ".py"))
    adrs, pages = texts_below(commit, "docs/adr", ".md"), texts_below(commit, "docs", ".md")
    rows["words of docs/adr"] = n_words(adrs)
    rows["words of CHANGELOG.md"] = n_words(texts_below(commit, "CHANGELOG.md", ".md"))
    rows["words of docs/ without adr"] = n_words(pages) - rows["words of docs/adr"]
    prose = [*texts, *map(comments_of, modules), *texts_below(commit, "README.md", ".md"), *(set(pages) - set(adrs))]
    for what, pattern in SENTENCES.items():
        rows[f"'{what}' in sentences"] = sum(len(re.findall(pattern, text)) for text in prose)
    return rows


def percent(part, total):
    return round(100 * part / total, 2)


def is_participle(name):
    """Return True if the first word of a function's name is a past participle."""
    first = name.strip("_").partition("_")[0]
    return first not in VERBS and (first in IRREGULAR or (first.endswith("ed") and len(first) > 3))


def private_functions(modules):
    """Return the number of private functions, and how many of them have at most three lines and one use."""
    total = once = 0
    for module in modules:
        words = Counter(re.findall(r"\w+", module.text))
        for function in functions(module):
            if function.name.startswith("_") and not function.name.startswith("__"):
                body = function.body[1:] if ast.get_docstring(function) and function.body[1:] else function.body
                total += 1
                # Its definition, and one use.
                once += words[function.name] == 2 and function.end_lineno - body[0].lineno < 3
    return total, once


def n_options(module):
    """Return how many options a module declares: calls of `option` in the bodies of option classes."""
    if not re.search(r"spark/options/(?:read|write)_options\.py$", module.path):
        return 0
    statements = [s for node in module.nodes if isinstance(node, ast.ClassDef) for s in node.body]
    return sum(isinstance(s, ast.AnnAssign) and isinstance(s.value, ast.Call) for s in statements)


def comments_of(module):
    """Return the comments of a module as one text."""
    tokens = tokenize.generate_tokens(io.StringIO(module.text).readline)
    return "\n".join(token.string for token in tokens if token.type == tokenize.COMMENT)


def texts_below(commit, path, suffix):
    """Return the texts of the files at or below a path in a commit, or in the work tree if it is None."""
    if commit is None:
        top = ROOT / path
        return [each.read_text() for each in ([top] if top.is_file() else sorted(top.rglob(f"*{suffix}")))]
    listing = subprocess.run(
        ["git", "ls-tree", "-r", "--name-only", commit, path], cwd=ROOT, capture_output=True, text=True, check=True
    ).stdout.split()
    return [
        subprocess.run(["git", "show", f"{commit}:{name}"], cwd=ROOT, capture_output=True, text=True, check=True).stdout
        for name in listing
        if name.endswith(suffix)
    ]


def n_words(texts):
    return sum(len(text.split()) for text in texts)


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


def print_sample(commits, n_functions, seed):
    """Print functions drawn by a fixed seed, from each commit by the same numbers between 0 and 1."""
    for commit in commits:
        everything = [
            (module.path, ast.get_source_segment(module.text, function))
            for module in modules_of(commit)
            for function in functions(module)
        ]
        draw = random.Random(seed)
        print(f"==== {commit or 'work tree'}")
        for _ in range(n_functions):
            path, text = everything[int(draw.random() * len(everything))]
            print(f"-- {path}\n{text}\n")


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("commits", nargs="*", help="commits to count instead of the work tree")
    parser.add_argument("--parts", action="store_true")
    parser.add_argument("--sample", type=int, default=0)
    parser.add_argument("--seed", type=int, default=3)
    chosen = parser.parse_args()
    commits = chosen.commits or [None]
    if chosen.sample:
        print_sample(commits, chosen.sample, chosen.seed)
        return
    print_table(commits)
    if chosen.parts:
        print_parts()


if __name__ == "__main__":
    sys.exit(main())
