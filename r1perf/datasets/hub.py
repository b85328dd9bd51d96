"""Rows of a data set on the Hugging Face hub, through its own library, which also honours its offline cache and variables.

The library runs in a process of its own (`python -m r1perf.datasets.hub NAME SPLIT REVISION`): a worker's standard library is patched for its
loop, and a library with threads, locks and child processes inside does not work on top of that.
"""

import os
import posix
import re
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any, BinaryIO

import msgspec

from r1perf.datasets import Told, silent
from r1perf.datasets.files import shown
from r1perf.datasets.mapped import JsonLines
from r1perf.errors import DatasetError

NO_LIBRARY, NOT_LOADED = 3, 4

_NAME = re.compile(r"\w[\w.-]*/\w[\w.-]*", re.ASCII)
"""What the hub gives as a name; the library would take any other for a folder of this machine."""


class HubRows:
    """The rows of one split; read from the local cache where they are there."""

    size = 0

    def __init__(self, name: str, split: str, revision: str | None, told: Told = silent) -> None:
        if _NAME.fullmatch(name) is None or ".." in name:
            raise DatasetError(
                f"{shown(name)} is no name of a set on the hub; allowed: owner/name, such as Maxwell-Jia/AIME_2024"
            )
        self._name, self._split = name, split
        told(f"asking the Hugging Face hub, or its cache, for {name}")
        with tempfile.TemporaryDirectory(prefix="r1perf-hub-") as folder:
            rows, said = Path(folder) / "rows.jsonl", Path(folder) / "said"
            code = _run([name, split, revision or ""], rows, said)
            reason = said.read_text("utf-8", "replace").strip().splitlines()
            if code == NO_LIBRARY:
                raise DatasetError(f"{name}: the hub needs its library: pip install 'r1perf[hub]'")
            if code:
                why = reason[-1] if reason else f"its process ended with {code}"
                raise DatasetError(
                    f"{name} (split {split}): cannot be loaded from the hub or its cache: {why}; "
                    f"allowed: a public set's name, with network or after it was loaded once on this machine"
                )
            if not rows.stat().st_size:
                raise DatasetError(f"{name} (split {split}): has no rows")
            self._rows = JsonLines(rows)  # mapped: the file may go
        self.digest = self._rows.digest

    def __len__(self) -> int:
        return len(self._rows)

    def row(self, index: int) -> dict[str, Any]:
        return self._rows.row(index)

    def where(self, index: int) -> str:
        return f"{self._name} (split {self._split}) row {index + 1}"


def _run(words: list[str], out: Path, said: Path) -> int:
    """Run this module. By `posix`, the C module under `os`: this may be a thread beside a loop that has patched `os`."""
    command = [sys.executable, "-P", "-m", "r1perf.datasets.hub", *words]  # -P: a folder `datasets` here is no library
    made = os.O_WRONLY | os.O_CREAT | os.O_TRUNC
    files = [(os.POSIX_SPAWN_OPEN, 1, str(out), made, 0o600), (os.POSIX_SPAWN_OPEN, 2, str(said), made, 0o600)]
    child = posix.posix_spawn(sys.executable, command, os.environ, file_actions=files)
    return os.waitstatus_to_exitcode(posix.waitpid(child, 0)[1])


def rows_of(name: str, split: str, revision: str | None) -> Iterator[dict[str, Any]]:
    """Go through a split by the library; raises ImportError without it, and whatever it raises itself."""
    from datasets import load_dataset

    yield from load_dataset(name, split=split, revision=revision)


def write_rows(name: str, split: str, revision: str | None, out: BinaryIO) -> int:
    """Write a split as JSON Lines; return an exit code, with the reason as the last line of standard error."""
    try:
        out.writelines(msgspec.json.encode(row, enc_hook=str, order="sorted") + b"\n" for row in rows_of(name, split, revision))
    except ImportError as error:
        if error.name != "datasets":
            sys.stderr.write(f"\n{error}\n")
            return NOT_LOADED
        return NO_LIBRARY
    except Exception as error:  # noqa: BLE001 - the library raises its own, httpx's, OSError and ValueError for the same reasons
        first = str(error).strip().splitlines() or [type(error).__name__]
        sys.stderr.write(f"\n{first[0]}\n")
        return NOT_LOADED
    return 0


if __name__ == "__main__":
    raise SystemExit(write_rows(sys.argv[1], sys.argv[2], sys.argv[3] or None, sys.stdout.buffer))
