"""The exit code of what nobody foresaw."""

import pytest

from r1perf import cli


def test_a_fault_of_r1perf_itself_is_not_taken_for_a_clause_that_failed(monkeypatch, capsys):
    def invoke(context):
        raise KeyError(33)

    monkeypatch.setattr(cli.command, "invoke", invoke)
    monkeypatch.setattr("sys.argv", ["r1perf", "runs"])
    with pytest.raises(SystemExit) as ended:
        cli.main()
    said = capsys.readouterr().err.splitlines()
    assert ended.value.code == 3
    assert said[0] == "Traceback (most recent call last):"
    assert said[-1] == "r1perf: this is a fault of r1perf itself, not of the target: KeyError: 33"
