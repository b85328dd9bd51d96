"""Say what a test item is: whether it has a marker of ours, which clause it stands for, and which test made it."""

import pytest

from pytest_r1perf.markers import NAMES, PROMISE, Promise


def test_of(item: pytest.Item) -> str:
    """Return the id of a test without what its parameters add."""
    parent = item.parent.nodeid if item.parent is not None else ""
    return f"{parent}::{getattr(item, 'originalname', item.name)}"


def marked(item: pytest.Item) -> bool:
    """Say whether a test has a marker of ours."""
    return any(item.get_closest_marker(name) for name in NAMES)


def promise_of(item: pytest.Item) -> Promise | None:
    """Return the clause that an item stands for."""
    callspec = getattr(item, "callspec", None)
    found = None if callspec is None else callspec.params.get(PROMISE)
    return found if isinstance(found, Promise) else None
