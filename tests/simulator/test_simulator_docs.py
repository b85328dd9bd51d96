"""Whatever can be chosen is in the reference."""

from pathlib import Path

import pytest

from r1perf.simulator import command
from r1perf.simulator.dialects import DIALECTS
from r1perf.simulator.faults import KINDS
from r1perf.simulator.profiles import PROFILES
from r1perf.simulator.truth import Truth

PAGE = (Path(__file__).parents[2] / "docs" / "simulator.md").read_text()


@pytest.mark.parametrize("name", PROFILES)
def test_every_profile_has_a_heading(name: str) -> None:
    assert f"\n### `{name}`\n" in PAGE


@pytest.mark.parametrize("name", DIALECTS)
def test_every_dialect_has_a_row(name: str) -> None:
    assert f"\n| `{name}` |" in PAGE


@pytest.mark.parametrize("name", [*KINDS, *Truth.__struct_fields__])
def test_every_fault_and_every_field_of_the_truth_is_named(name: str) -> None:
    assert f"`{name}`" in PAGE or name in ("endpoint", "stream")


def test_every_option_is_named() -> None:
    options = [option for parameter in command.params for option in parameter.opts]
    assert [option for option in options if f"`{option}" not in PAGE] == []
