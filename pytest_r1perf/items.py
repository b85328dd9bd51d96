"""Say what a test item is: whether it has a marker of ours, which clause it stands for, which test made it, and whether its
markers came too late to be judged."""

import pytest

from pytest_r1perf.markers import NAMES, PROMISE, Declared, MarkerError, Promise, declared


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


def unjudged(item: pytest.Item, made_of: Declared | None) -> str | None:
    """Say which of an item's markers nobody judges: its clauses were made of those that its test had when it was collected.

    `made_of` is None where none was read: the test is no function of pytest's, or had no marker of ours.
    """
    try:
        now = declared(item)
    except MarkerError as error:
        return str(error)
    before = made_of or Declared(None, None, ())
    names = [name for name in NAMES if getattr(now, name.removeprefix("r1_")) != getattr(before, name.removeprefix("r1_"))]
    if not names:
        return None
    return (
        f"{names[0]} would not be judged: it has to stand on a test function, a class or a module; "
        "not in pytest.param, not added by a hook or a fixture, not on unittest's methods"
    )
