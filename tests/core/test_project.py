"""The project holds together: what exists is documented, what is documented exists, and nothing of one machine is in it."""

import importlib
import pkgutil
import re
import subprocess
import sys
import tarfile
import tomllib
import zipfile
from pathlib import Path
from typing import Any, get_args

import click
import pytest
import unpatched  # noqa: F401  (walking the packages imports the swarm's)
from services import ROOT

import r1perf
from r1perf.arrivals import AnyArrivals
from r1perf.cli import command
from r1perf.datasets.registry import AnyDataset
from r1perf.metrics import COUNTERS, METRICS
from r1perf.providers.registry import names
from r1perf.scenario import load

DOCS = ROOT / "docs"
PAGES = sorted(DOCS.rglob("*.md"))
MAKEFILE = (ROOT / "Makefile").read_text()
PROJECT: dict[str, Any] = tomllib.loads((ROOT / "pyproject.toml").read_text())


def tags(union: object) -> list[str]:
    """Return the names by which a scenario calls the members of a tagged union."""
    return [member.__struct_config__.tag for member in get_args(union)]


def headings(page: str) -> set[str]:
    """Return every word of a page's headings; none where there is no such page."""
    text = (DOCS / page).read_text() if (DOCS / page).exists() else ""
    lines = re.findall(r"^#+ +(.*)$", text, re.MULTILINE)
    return {word for line in lines for word in re.findall(r"[a-z0-9_-]+", line)}


CONTEXT = click.Context(command)

DOCUMENTED = [
    *(("arrivals.md", tag) for tag in tags(AnyArrivals)),
    *(("datasets.md", tag) for tag in tags(AnyDataset)),
    *(("providers.md", name) for name in names()),
    *(("metrics.md", name) for name in METRICS),
    *(("cli.md", name) for name in command.list_commands(CONTEXT)),
]


@pytest.mark.parametrize(("page", "name"), DOCUMENTED, ids=[f"{page[:-3]}-{name}" for page, name in DOCUMENTED])
def test_every_kind_has_a_heading(page, name):
    assert name in headings(page)


@pytest.mark.parametrize("name", command.list_commands(CONTEXT))
def test_every_option_of_a_command_is_in_the_docs(name):
    found = command.get_command(CONTEXT, name)
    options = [each for option in found.params if isinstance(option, click.Option) for each in option.opts]
    text = (DOCS / ("simulator.md" if name == "simulate" else "cli.md")).read_text()
    assert [option for option in options if f"`{option}" not in text] == []


def test_every_counter_is_in_the_docs():
    assert [name for name in COUNTERS if f"`{name}`" not in (DOCS / "metrics.md").read_text()] == []


PACKAGES = [
    name for _, name, is_package in pkgutil.walk_packages(r1perf.__path__, "r1perf.", onerror=lambda name: None) if is_package
]


@pytest.mark.parametrize("name", ["r1perf", *PACKAGES])
def test_public_names_are_sorted_and_there(name):
    package = importlib.import_module(name)
    public = getattr(package, "__all__", [])
    constants_classes_rest = sorted(public, key=lambda each: (not each.isupper(), not each[0].isupper(), each))
    assert list(public) == constants_classes_rest
    assert [each for each in public if not hasattr(package, each)] == []


def test_tracked_files_name_no_machine_and_no_registry():
    if not (ROOT / ".git").exists():
        pytest.skip("not a git clone")
    found = subprocess.run([ROOT / ".ci" / "leftovers"], capture_output=True, text=True, check=False)
    assert found.returncode == 0, found.stdout


def test_leftovers_are_found(tmp_path):
    script = tmp_path / ".ci" / "leftovers"
    script.parent.mkdir()
    script.write_text((ROOT / ".ci" / "leftovers").read_text())
    script.chmod(0o755)
    slash = "/"
    (tmp_path / "clean.md").write_text(f"http:{slash}{slash}127.0.0.1:8000{slash}v1 and net{slash}work{slash}load are fine\n")
    (tmp_path / "a.md").write_text(f"see {slash}root{slash}notes\n")
    (tmp_path / "b.md").write_text("https://py" + "pi.org/simple\n")
    git = ["git", "-C", tmp_path, "-c", "init.defaultBranch=main"]
    subprocess.run([*git, "init", "-q"], check=True)
    subprocess.run([*git, "add", "."], check=True)
    found = subprocess.run([script], capture_output=True, text=True, check=False)
    assert found.returncode == 1
    assert [line.partition(":")[0] for line in found.stdout.splitlines()] == ["a.md", "b.md"]


def test_constraints_pin_every_dependency_and_name_no_address():
    lines = [line for line in (ROOT / "constraints.txt").read_text().splitlines() if not line.startswith("#")]
    assert [line for line in lines if not re.fullmatch(r"[A-Za-z0-9._-]+==[0-9][0-9a-z.]*", line)] == []
    pinned = {re.sub(r"[-_.]+", "-", line.partition("==")[0]).lower() for line in lines}
    project = PROJECT["project"]
    asked = [*project["dependencies"], *(each for extra in project["optional-dependencies"].values() for each in extra)]
    asked += PROJECT["build-system"]["requires"]
    wanted = {re.split(r"[\[<>=~! ]", each)[0].lower() for each in asked} - {"r1perf"}
    assert wanted - pinned == set()


def test_architecture_draws_the_layers_that_are_checked():
    checked = [re.findall(r"\w+", line) for line in PROJECT["tool"]["importlinter"]["contracts"][0]["layers"]]
    rows = re.findall(r"^\| (`.*?) \|", (DOCS / "architecture.md").read_text(), re.MULTILINE)
    drawn = [re.findall(r"`(\w+)`", row) for row in rows]
    later, beside = {"capacity"}, [["simulator"]]  # what a later version brings; what is no layer
    assert [sorted(row) for row in drawn] == [sorted(set(row) - later) for row in checked if row not in beside]


def test_every_dependency_has_its_reason():
    text = (DOCS / "dependencies.md").read_text()
    for extra, packages in PROJECT["project"]["optional-dependencies"].items():
        assert f"`{extra}`" in text
        for each in packages:
            assert f" {re.split(r'[<>=]', each)[0]} |" in text or each.startswith("r1perf["), each
    for each in PROJECT["project"]["dependencies"]:
        assert f"| {re.split(r'[<>=]', each)[0]} |" in text, each


def built(kind: str, folder: Path) -> Path:
    """Build a wheel or an sdist of the work tree."""
    words = [sys.executable, "-m", "hatchling", "build", "-t", kind, "-d", folder]
    subprocess.run(words, cwd=ROOT, check=True, capture_output=True)
    return next(folder.iterdir())


def test_wheel_brings_two_packages_with_the_scenarios(tmp_path):
    with zipfile.ZipFile(built("wheel", tmp_path)) as wheel:
        names = wheel.namelist()
    assert {name.split("/")[0] for name in names} == {"r1perf", "pytest_r1perf", f"r1perf-{r1perf.__version__}.dist-info"}
    shipped = {f"r1perf/_scenarios/{path.name}" for path in (ROOT / "scenarios").glob("*.toml")}
    assert shipped <= set(names)
    assert "r1perf/_scenarios/smoke.toml" in names
    assert "r1perf/simulator/__main__.py" in names
    page = ROOT / "r1perf" / "swarm" / "page"
    files = [path for folder in ("static", "templates") for path in (page / folder).rglob("*") if path.is_file()]
    assert {str(path.relative_to(ROOT)) for path in files} <= set(names)
    assert "r1perf/swarm/page/static/uplot/LICENSE" in names


def test_sdist_is_complete(tmp_path):
    with tarfile.open(built("sdist", tmp_path)) as sdist:
        names = {name.partition("/")[2] for name in sdist.getnames()}
    assert {"Makefile", "constraints.txt", "LICENSE", "docs/index.md", "tests/conftest.py", "scenarios/smoke.toml"} <= names
    assert not [name for name in names if name.startswith((".cache", ".venv", "runs", "site"))]


def test_changelog_has_the_version():
    assert re.search(rf"^## {re.escape(r1perf.__version__)}$", (ROOT / "CHANGELOG.md").read_text(), re.MULTILINE)


@pytest.mark.parametrize(
    "page", [ROOT / "README.md", ROOT / "CONTRIBUTING.md", *PAGES], ids=lambda page: str(page.relative_to(ROOT))
)
def test_make_words_in_the_docs_are_those_of_the_makefile(page):
    words = re.findall(r"(?:`|\$ )make ((?:[A-Z]+=\S+ )*)([a-z]+)", page.read_text())
    assert [word for _, word in words if not re.search(rf"^{word}:", MAKEFILE, re.MULTILINE)] == []


WHOLE_SCENARIOS = [
    pytest.param(block, id=f"{page.stem}-{n}")
    for page in [ROOT / "README.md", *PAGES]
    for n, block in enumerate(re.findall(r"^```toml\n(name = .*?)^```$", page.read_text(), re.MULTILINE | re.DOTALL))
]


@pytest.mark.parametrize("text", WHOLE_SCENARIOS)
def test_scenarios_in_the_docs_can_be_run(text):
    assert load(tomllib.loads(text)).name


def test_every_page_is_in_the_menu_and_every_entry_is_a_page():
    menu = re.findall(r"[\w/-]+\.md", (ROOT / "mkdocs.yml").read_text())
    assert sorted(menu) == sorted(page.relative_to(DOCS).as_posix() for page in PAGES)


@pytest.mark.parametrize("page", [ROOT / "README.md", ROOT / "CONTRIBUTING.md"], ids=lambda page: str(page.relative_to(ROOT)))
def test_links_of_the_front_pages_lead_somewhere(page):
    links = re.findall(r"\]\(([^)#]+)[^)]*\)", page.read_text())
    assert links
    assert [link for link in links if not link.startswith("https:") and not (page.parent / link).exists()] == []
