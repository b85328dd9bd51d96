"""Tests as any project has them: they run with and without `--r1-sla`."""


def test_arithmetic():
    assert 2 + 2 == 4
