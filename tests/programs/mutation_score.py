"""Break lines of the package one by one, and count the breakages that its tests catch.

    python tests/programs/mutation_score.py --count 200                   the work tree
    python tests/programs/mutation_score.py --count 200 --commit 94f2e82  a commit, by its own tests
    python tests/programs/mutation_score.py --show 17                     one breakage

A breakage is its number: it chooses a place in the package and what becomes of it, by a fixed seed. A comparison, `and`,
`not`, a number, True or an operator of arithmetic is turned into its neighbour, a result into None, an error or a call for its
effect into nothing. Each is made in a copy of the tree. Its tests are those of the module's name, then those of its
folder and those that name it, slow ones only in the first; the first that fails catches it. What no test catches is
printed with its line: some of these change nothing that can be seen.
"""

import argparse
import ast
import os
import random
import shutil
import subprocess
import sys
import tempfile
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

ROOT = Path(__file__).parents[2]
PACKAGE = "spark_arrow_ipc"
SEED = 20261126
MOST_SECONDS = 300
COPIED = (PACKAGE, "tests", "docs", "examples", "benchmarks", "conf", "format")
SWAPPED = {
    ast.Lt: ast.LtE, ast.LtE: ast.Lt, ast.Gt: ast.GtE, ast.GtE: ast.Gt, ast.Eq: ast.NotEq, ast.NotEq: ast.Eq,
    ast.Is: ast.IsNot, ast.IsNot: ast.Is, ast.In: ast.NotIn, ast.NotIn: ast.In,
    ast.Add: ast.Sub, ast.Sub: ast.Add, ast.Mult: ast.Add, ast.FloorDiv: ast.Mult, ast.LShift: ast.RShift,
    ast.RShift: ast.LShift, ast.BitAnd: ast.BitOr, ast.BitOr: ast.BitAnd, ast.And: ast.Or, ast.Or: ast.And,
}  # fmt: skip


def broken(node):
    """Return what becomes of a node, as text, or None if it is left alone."""
    if isinstance(node, ast.Compare) and type(node.ops[0]) in SWAPPED:
        return ast.unparse(ast.Compare(node.left, [SWAPPED[type(node.ops[0])](), *node.ops[1:]], node.comparators))
    if isinstance(node, ast.BoolOp):
        return f"({ast.unparse(ast.BoolOp(SWAPPED[type(node.op)](), node.values))})"
    if isinstance(node, ast.BinOp) and type(node.op) in SWAPPED:
        return f"({ast.unparse(ast.BinOp(node.left, SWAPPED[type(node.op)](), node.right))})"
    if isinstance(node, ast.UnaryOp) and isinstance(node.op, ast.Not):
        return f"bool({ast.unparse(node.operand)})"
    if isinstance(node, ast.Constant) and isinstance(node.value, bool):
        return str(not node.value)
    if isinstance(node, ast.Constant) and isinstance(node.value, int):
        return str(node.value + 1)
    if isinstance(node, ast.Return) and node.value is not None and not isinstance(node.value, ast.Constant):
        return "return None"
    if isinstance(node, ast.Raise) or (isinstance(node, ast.Expr) and isinstance(node.value, ast.Call)):
        return "pass"
    return None


def places(root):
    """Return the nodes that can be broken in functions of the package: path, node and what becomes of it."""
    chosen = []
    for path in sorted((root / PACKAGE).rglob("*.py")):
        tree = ast.parse(path.read_text())
        inner = {
            id(node)
            for function in ast.walk(tree)
            if isinstance(function, ast.FunctionDef)
            for node in within(function)
        }
        nodes = [node for node in ast.walk(tree) if id(node) in inner]
        chosen += [(path.relative_to(root), node, text) for node in nodes if (text := broken(node)) is not None]
    return chosen


def within(function):
    """Yield the nodes of a function's body; annotations and defaults are no part of it."""
    for statement in function.body:
        yield from ast.walk(statement)


def replaced(source, node, text):
    """Return a source with another text in the place of a node."""
    lines = source.splitlines(keepends=True)
    before = [*lines[: node.lineno - 1], lines[node.lineno - 1].encode()[: node.col_offset].decode()]
    after = [lines[node.end_lineno - 1].encode()[node.end_col_offset :].decode(), *lines[node.end_lineno :]]
    return "".join([*before, text, *after])


def stages(root, path):
    """Return the arguments of pytest that try a module, nearest tests first."""
    folder = root / "tests" / path.parent.relative_to(PACKAGE)
    named = folder / f"test_{path.name}"
    module = ".".join(path.with_suffix("").parts)
    naming = [test for test in sorted((root / "tests").rglob("test_*.py")) if module in test.read_text()]
    quick = ["-m", "quick"]
    if named.is_file():
        yield [str(named)]
    if naming:
        yield [*map(str, naming[:20]), *quick]
    if folder.is_dir():
        yield [str(folder), *quick]


def outcome(root, path):
    """Return `caught` if a test of a module fails, `hangs` if they take too long, or `NOT CAUGHT`."""
    environment = os.environ | {"PYTHONPATH": str(root)}
    for arguments in stages(root, path):
        command = [sys.executable, "-m", "pytest", "-q", "-x", "-n", "0", "-p", "no:cacheprovider", *arguments]
        try:
            answer = subprocess.run(command, cwd=root, env=environment, capture_output=True, timeout=MOST_SECONDS)
        except subprocess.TimeoutExpired:
            return "hangs"  # the suite would not pass; on a busy machine the tests may only be slow
        if answer.returncode not in {0, 5}:
            return "caught"
    return "NOT CAUGHT"


def tree_of(commit, folder):
    """Put a commit, or the work tree if it is None, into a folder."""
    if commit is None:
        for name in COPIED:
            shutil.copytree(ROOT / name, folder / name, ignore=shutil.ignore_patterns("__pycache__"))
        for file in (*ROOT.glob("*.*"), ROOT / "LICENSE"):
            if file.is_file():
                shutil.copy(file, folder)
        return
    archive = subprocess.run(["git", "archive", commit], cwd=ROOT, capture_output=True, check=True).stdout
    subprocess.run(["tar", "x", "-C", str(folder)], input=archive, check=True)


def run(number, chosen):
    """Make one breakage and try it; return its line, and its outcome."""
    with tempfile.TemporaryDirectory() as temporary:
        root = Path(temporary)
        tree_of(chosen.commit, root)
        every = places(root)
        path, node, text = every[int(random.Random(f"{SEED}.{number}").random() * len(every))]
        source = (root / path).read_text()
        what = f"{number}: {path}:{node.lineno}: {ast.get_source_segment(source, node).splitlines()[0]} -> {text}"
        (root / path).write_text(replaced(source, node, text))
        return what, "not run" if chosen.show is not None else outcome(root, path)


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--count", type=int, default=200)
    parser.add_argument("--first", type=int, default=0)
    parser.add_argument("--commit")
    parser.add_argument("--show", type=int, help="say what one breakage is, and run nothing")
    parser.add_argument("--processes", type=int, default=2)
    chosen = parser.parse_args()
    if chosen.show is not None:
        print(run(chosen.show, chosen)[0])
        return
    n_caught = n_hanging = 0
    with ThreadPoolExecutor(chosen.processes) as pool:
        numbers = range(chosen.first, chosen.first + chosen.count)
        for what, answer in pool.map(lambda number: run(number, chosen), numbers):
            n_caught += answer != "NOT CAUGHT"
            n_hanging += answer == "hangs"
            print(f"{answer} {what}", flush=True)
    print(f"{n_caught} of {chosen.count} breakages are caught, {n_hanging} of them because the tests hang")


if __name__ == "__main__":
    main()
