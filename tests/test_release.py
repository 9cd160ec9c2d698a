"""What is released: two builds are equal, the wheel has its bill of materials, and the papers' programs run from a package index."""

import io
import json
import os
import re
import shlex
import subprocess
import sys
import tarfile
import tomllib
import venv
import zipfile
from email import message_from_string
from functools import partial
from http.server import SimpleHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from threading import Thread

import built_twice
import page_programs
import pytest

import spark_arrow_ipc

ROOT = Path(__file__).parents[1]
README = (ROOT / "README.md").read_text()
PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text())
EXTRAS = PROJECT["project"]["optional-dependencies"]
NOT_SHIPPED = PROJECT["tool"]["hatch"]["build"]["targets"]["wheel"]["hooks"]["custom"]["not-shipped"]


@pytest.fixture(scope="module")
def builds(tmp_path_factory):
    pytest.importorskip("hatchling")
    return built_twice.builds(tmp_path_factory.mktemp("builds"))


@pytest.fixture(scope="module")
def wheel(builds):
    (path,) = builds[0].glob("*.whl")
    return path


# ---- two builds


@pytest.mark.exhaustive
def test_two_builds_are_equal_byte_for_byte(builds):
    first, second = builds
    assert [".gz", ".whl"] == sorted(path.suffix for path in first.iterdir())
    assert [] == built_twice.differences(first, second)


def wheel_of(path, *members, mode=0o100644):
    with zipfile.ZipFile(path, "w") as archive:
        for name, content in members:
            info = zipfile.ZipInfo(name)
            info.external_attr = mode << 16
            archive.writestr(info, content)


def source_of(path, *members, mode=0o644):
    with tarfile.open(path, "w:gz") as archive:
        for name, content in members:
            info = tarfile.TarInfo(name)
            info.size, info.mode = len(content), mode
            archive.addfile(info, io.BytesIO(content))


A, B = ("a", b"1"), ("b", b"2")
DIFFERENT = [
    ("other bytes", [("a", b"2"), B], {}, ["a"]),
    ("another mode", [A, B], {"mode": 0o600}, ["a", "b"]),
    ("another order", [B, A], {}, ["a", "b"]),
    ("one more", [A, B, ("c", b"3")], {}, ["c"]),
    ("one less", [A], {}, ["b"]),
]


@pytest.mark.parametrize(("name", "make"), [("x.whl", wheel_of), ("x.tar.gz", source_of)])
@pytest.mark.parametrize(("members", "how", "expected"), [c[1:] for c in DIFFERENT], ids=[c[0] for c in DIFFERENT])
def test_what_differs_is_named(tmp_path, name, make, members, how, expected):
    one, two = tmp_path / "one", tmp_path / "two"
    one.mkdir()
    two.mkdir()
    make(one / name, A, B)
    make(two / name, *members, **how)
    assert [f"{name}: {member}" for member in expected] == built_twice.differences(one, two)


def test_a_build_that_is_in_one_place_alone_is_named(tmp_path):
    one, two = tmp_path / "one", tmp_path / "two"
    one.mkdir()
    two.mkdir()
    wheel_of(two / "x.whl", A)
    assert [f"x.whl: only in {two}"] == built_twice.differences(one, two)


# ---- addresses, which only the host that builds a release knows

URL = "https://code.example/them/spark-arrow-ipc"
FILES = f"{URL}/blob/v{spark_arrow_ipc.__version__}"


def metadata_of(folder, **environment):
    """What an installer, and a package index, learn of the checkout."""
    pytest.importorskip("hatchling")
    program = "import sys, hatchling.build; print(hatchling.build.prepare_metadata_for_build_wheel(sys.argv[1]))"
    answer = subprocess.run(
        [sys.executable, "-c", program, folder], cwd=ROOT, env=os.environ | environment, capture_output=True, text=True
    )
    assert 0 == answer.returncode, answer.stderr
    return message_from_string((folder / answer.stdout.split()[-1] / "METADATA").read_text())


@pytest.mark.slow
def test_a_release_names_its_addresses_and_the_links_of_its_readme_lead_to_the_tag(tmp_path):
    metadata = metadata_of(tmp_path, PROJECT_URL=f"{URL}/")
    addresses = dict(line.split(", ") for line in metadata.get_all("Project-URL"))
    assert {"Source", "Documentation", "Changelog", "Issues", "Security"} == set(addresses)
    assert (URL, f"{FILES}/CHANGELOG.md") == (addresses["Source"], addresses["Changelog"])
    links = re.findall(r"\]\(([^)\s]+)", metadata.get_payload())
    assert links
    assert [] == [link for link in links if not link.startswith("https://")]
    local = [link.removeprefix(f"{FILES}/").partition("#")[0] for link in links if link.startswith(FILES)]
    assert local
    assert [] == [name for name in local if not (ROOT / name).is_file()]


@pytest.mark.slow
def test_another_build_has_the_readme_as_it_stands_and_no_address(tmp_path):
    metadata = metadata_of(tmp_path, PROJECT_URL="")
    assert None is metadata.get_all("Project-URL")
    assert README.strip() == metadata.get_payload().strip()


def test_the_workflow_gives_the_address():
    workflow = (ROOT / ".github" / "workflows" / "release.yml").read_text()
    assert 'echo "PROJECT_URL=$GITHUB_SERVER_URL/$GITHUB_REPOSITORY" >> "$GITHUB_ENV"' in workflow


# ---- the bill of materials


@pytest.fixture(scope="module")
def bill(wheel):
    name = f"spark_arrow_ipc-{spark_arrow_ipc.__version__}.dist-info/sboms/spark-arrow-ipc.cdx.json"
    with zipfile.ZipFile(wheel) as archive:
        assert [name] == [member for member in archive.namelist() if "/sboms/" in member]
        text = archive.read(name).decode()
    print(text)
    return json.loads(text)


@pytest.mark.slow
def test_the_bill_is_of_this_version(bill):
    assert ("CycloneDX", "1.6", 1) == (bill["bomFormat"], bill["specVersion"], bill["version"])
    assert re.fullmatch(r"urn:uuid:[0-9a-f]{8}-([0-9a-f]{4}-){3}[0-9a-f]{12}", bill["serialNumber"])
    assert re.fullmatch(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\dZ", bill["metadata"]["timestamp"])
    itself = bill["metadata"]["component"]
    assert f"pkg:pypi/spark-arrow-ipc@{spark_arrow_ipc.__version__}" == itself["purl"]
    assert [{"license": {"id": PROJECT["project"]["license"]}}] == itself["licenses"]


def name_in(requirement):
    return re.match(r"[\w.-]+", requirement)[0].lower()


@pytest.mark.slow
def test_the_bill_names_what_an_installer_brings_and_nothing_else(bill):
    required = {name_in(requirement): ("required", set()) for requirement in PROJECT["project"]["dependencies"]}
    optional = {}
    for extra in EXTRAS.keys() - set(NOT_SHIPPED):
        for requirement in EXTRAS[extra]:
            optional.setdefault(name_in(requirement), ("optional", set()))[1].add(extra)
    found = {
        each["name"]: (
            each["scope"],
            {each["value"] for each in each["properties"] if each["name"] == "python:extra"},
        )
        for each in bill["components"]
    }
    assert optional | required == found
    assert [f"pkg:pypi/{name}" for name in sorted(found)] == [each["purl"] for each in bill["components"]]


@pytest.mark.slow
def test_what_the_bill_refers_to_is_in_it_once(bill):
    known = [bill["metadata"]["component"]["bom-ref"], *(each["bom-ref"] for each in bill["components"])]
    assert len(known) == len(set(known))
    assert known == [each["ref"] for each in bill["dependencies"]]
    assert known[1:] == bill["dependencies"][0]["dependsOn"]
    named = [
        name for each in bill["compositions"] for key in ("assemblies", "dependencies") for name in each.get(key, ())
    ]
    assert set(known) == set(named)


@pytest.mark.slow
def test_the_bill_keeps_the_schema_of_cyclonedx(bill):
    schema = pytest.importorskip("cyclonedx.schema")
    validator = pytest.importorskip("cyclonedx.validation.json").JsonStrictValidator(schema.SchemaVersion.V1_6)
    assert None is validator.validate_str(json.dumps(bill))


def test_extras_that_are_not_shipped_exist():
    assert set(NOT_SHIPPED) < set(EXTRAS)


# ---- the recipe for conda

RECIPE = (ROOT / "packaging" / "conda" / "recipe.yaml").read_text()
CONDA_NAMES = {"flatbuffers": "python-flatbuffers", "xxhash": "python-xxhash"}
"""Packages that have another name there: theirs without `python-` is the library in C++ or C."""


def listed(key):
    """The list below a key of the recipe, which has each key once."""
    (block,) = re.findall(rf"^( *){key}:\n((?:\1 +- .*\n|\1 *#.*\n)+)", RECIPE, re.MULTILINE)
    return re.findall(r"^ *- (.*)$", block[1], re.MULTILINE)


def conda(requirement):
    """A requirement of pip's as conda writes it."""
    name, versions = re.fullmatch(r"([\w-]+)(?:\[[\w,]+\])?(.*)", requirement).groups()
    return f"{CONDA_NAMES.get(name, name)} {versions}".strip()


PYTHON = PROJECT["project"]["requires-python"]


def test_the_recipe_requires_what_the_project_requires():
    least = re.search(r'python_min: "([\d.]+)"', RECIPE)[1]
    python = f"python {PYTHON.replace(least, '${{ python_min }}')}"
    assert [python, *map(conda, PROJECT["project"]["dependencies"])] == listed("run")
    assert ["python ${{ python_min }}.*", "pip", *map(conda, PROJECT["build-system"]["requires"])] == listed("host")


def test_the_recipe_holds_optional_packages_to_the_versions_of_the_extras():
    optional = [conda(each) for extra in EXTRAS if extra not in NOT_SHIPPED for each in EXTRAS[extra]]
    assert sorted(set(optional)) == sorted(listed("run_constraints"))


def test_the_recipe_says_what_the_project_says_of_itself():
    project = PROJECT["project"]
    assert [f"{name} = {target}" for name, target in project["scripts"].items()] == listed("entry_points")
    for line in (
        f'  version: "{spark_arrow_ipc.__version__}"',
        f"  name: {project['name']}",
        f"  summary: {project['description']}",
        f"  license: {project['license']}",
        f"  license_file: {project['license-files'][0]}",
    ):
        assert line in RECIPE.splitlines()


@pytest.mark.slow
def test_rattler_build_renders_the_recipe():
    rattler_build = pytest.importorskip("rattler_build")
    (variant,) = rattler_build.Stage0Recipe.from_yaml(RECIPE).render(rattler_build.VariantConfig())
    rendered = variant.recipe.to_dict()
    assert spark_arrow_ipc.__version__ == rendered["package"]["version"]
    assert f"python {','.join(sorted(PYTHON.split(','), reverse=True))}" == rendered["requirements"]["run"][0]
    assert "noarch" in rendered["build"]


# ---- the papers' programs, from the wheel

PROGRAM = """
import contextlib, io, json, sys
answers = []
namespace = {}
for name, code in json.load(open(sys.argv[1])):
    out = io.StringIO()
    with contextlib.redirect_stdout(out):
        exec(compile(code, name, "exec"), namespace)
    answers.append(out.getvalue())
import spark_arrow_ipc
print(json.dumps([spark_arrow_ipc.__file__, answers]))
"""


def distribution_of(wheel):
    """The name by which a package index has a wheel."""
    return re.sub(r"[-_.]+", "-", wheel.name.partition("-")[0]).lower()


class Index(SimpleHTTPRequestHandler):
    """A folder for each distribution, whose list of files is what an installer reads; it prints nothing."""

    def log_message(self, *_):
        pass


@pytest.fixture(scope="module")
def index(wheel, tmp_path_factory):
    """The address of a package index on this machine that has the wheel and what it needs with `[spark]`, and nothing else."""
    wheels, folder = tmp_path_factory.mktemp("wheels"), tmp_path_factory.mktemp("index")
    collected = subprocess.run(
        [sys.executable, "-m", "pip", "wheel", "-q", "-w", wheels, f"{wheel}[spark]"], capture_output=True, text=True
    )
    if "NewConnectionError" in collected.stderr:
        pytest.skip("no package index is reached")
    assert 0 == collected.returncode, collected.stderr
    for path in wheels.glob("*.whl"):
        (folder / distribution_of(path)).mkdir(exist_ok=True)
        path.rename(folder / distribution_of(path) / path.name)
    assert (folder / "spark-arrow-ipc" / wheel.name).read_bytes() == wheel.read_bytes()
    with ThreadingHTTPServer(("127.0.0.1", 0), partial(Index, directory=folder)) as server:
        Thread(target=server.serve_forever, daemon=True).start()
        yield f"http://127.0.0.1:{server.server_port}/"
        server.shutdown()


@pytest.fixture(scope="module")
def clean(index, tmp_path_factory):
    """The programs' folder of an environment in which the README's command has installed the wheel, from the index alone."""
    folder = tmp_path_factory.mktemp("clean")
    venv.create(folder, with_pip=True)
    (command,) = re.findall(r"^\$ pip (install .*?)(?: +#.*)?$", README, re.MULTILINE)
    installed = subprocess.run(
        [folder / "bin" / "python", "-m", "pip", *shlex.split(command)],
        env={name: value for name, value in os.environ.items() if not name.startswith(("PIP_", "PYTHON"))}
        | {"PIP_CONFIG_FILE": os.devnull, "PIP_INDEX_URL": index, "NO_PROXY": "127.0.0.1"},
        capture_output=True,
        text=True,
    )
    assert 0 == installed.returncode, installed.stderr
    return folder / "bin"


def run_in(clean, folder, *command):
    environment = {
        name: value for name, value in os.environ.items() if not name.startswith(("PYTHON", "PYSPARK", "SPARK"))
    }
    environment |= {"PATH": f"{clean}{os.pathsep}{environment['PATH']}"}
    answer = subprocess.run(
        [clean / command[0], *command[1:]], cwd=folder, env=environment, capture_output=True, text=True
    )
    assert 0 == answer.returncode, f"{command}\n{answer.stdout[-2000:]}\n{answer.stderr[-4000:]}"
    return answer.stdout


def printed_in(clean, folder, programs):
    run_in(clean, folder, "python", "-m", "spark_arrow_ipc.examples")
    (folder / "programs.json").write_text(json.dumps(programs))
    place, answers = json.loads(run_in(clean, folder, "python", "-c", PROGRAM, "programs.json").splitlines()[-1])
    assert Path(place).is_relative_to(clean.parent), "the package is that of the wheel"
    return answers


@pytest.mark.nightly
def test_the_readmes_programs_and_commands_run_from_the_wheel(clean, tmp_path):
    blocks = re.findall(r"```(?:python)\n(.*?)```", README, re.DOTALL)
    sql = [
        f"spark.sql({line!r}).collect()" for line in re.findall(r"```sql\n(.*?)```", README, re.DOTALL)[0].split(";")
    ]
    # The README says that its tables need `register`.
    registers = "import spark_arrow_ipc; spark_arrow_ipc.register(spark)"
    programs = [*blocks, registers, *(line for line in sql if line != "spark.sql('\\n').collect()")]
    printed = printed_in(clean, tmp_path, [(f"README.md, {number}", code) for number, code in enumerate(programs)])
    shown = re.findall(r"```python\n([^`]*)```\n\n```text\n(.*?)```", README, re.DOTALL)
    assert shown
    assert dict(shown) == {code: printed[programs.index(code)] for code, _ in shown}
    told = [(code, text) for code, text in zip(programs, printed, strict=True) if page_programs.PRINTS.search(code)]
    assert told
    for code, text in told:
        assert page_programs.PRINTS.findall(code) == text.splitlines()
    commands = re.findall(r"^\$ (arrowipc .*?)(?: +#.*)?$", README, re.MULTILINE)
    assert len(commands) >= 8
    for command in commands:
        assert run_in(clean, tmp_path, *command.split()) or "convert" in command, command


@pytest.mark.nightly
def test_the_tutorial_prints_what_it_shows_from_the_wheel(clean, tmp_path):
    cells = page_programs.cells_of(json.loads(page_programs.NOTEBOOK.read_text()))
    programs = [(f"cell {number}", page_programs.source_of(cell)) for number, cell in enumerate(cells, 1)]
    assert [page_programs.output_of(cell) for cell in cells] == printed_in(clean, tmp_path, programs)
