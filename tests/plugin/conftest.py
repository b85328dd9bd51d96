"""A project with the plugin installed, for every test in this folder."""

from collections.abc import Iterator
from importlib.metadata import entry_points

import pytest
from projects import Project

import pytest_r1perf.session  # noqa: F401 - see below
from r1perf.sla import require

# Loaded here, so that no pytest within this one loads numpy and scipy a second time, which they refuse.
require()


@pytest.fixture(scope="session", autouse=True)
def installed() -> None:
    """Require the plugin to be installed as users have it."""
    if not entry_points(group="pytest11", name="r1perf"):
        pytest.fail("the plugin's entry point is not installed: install the project anew (make test does)", pytrace=False)


@pytest.fixture
def project(pytester: pytest.Pytester, monkeypatch: pytest.MonkeyPatch) -> Iterator[Project]:
    """Give an empty project."""
    monkeypatch.delenv("GITHUB_STEP_SUMMARY", raising=False)
    made = Project(pytester)
    yield made
    made.end()
