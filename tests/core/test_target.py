"""What people see of a target."""

import pytest

from r1perf.target import Target


@pytest.mark.parametrize(
    ("url", "name", "title"),
    [
        ("http://127.0.0.1:8000/v1", None, "127.0.0.1:8000/m"),
        ("simulate:tiny", None, "simulated tiny"),
        ("simulate:r1-16xh100?speed=30", None, "simulated r1-16xh100"),
        ("http://127.0.0.1:8000/v1", "mine", "mine"),
        ("simulate:tiny", "mine", "mine"),
    ],
)
def test_title(url, name, title):
    assert Target(url=url, model="m", name=name).title == title
