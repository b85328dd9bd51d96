"""Rows of a data set on the Hugging Face hub, through its own library, which also honours its offline cache and variables."""

import hashlib
from typing import Any

import msgspec

from r1perf.errors import DatasetError


class HubRows:
    """The rows of one split; reads from the local cache where there is one."""

    def __init__(self, name: str, split: str, revision: str | None) -> None:
        try:
            from datasets import load_dataset
        except ImportError as error:
            raise DatasetError(f"{name}: the hub needs its library: pip install 'r1perf[hub]'") from error
        self._name, self._split = name, split
        try:
            self._rows = load_dataset(name, split=split, revision=revision)
        except Exception as error:  # the library raises its own, requests', OSError and ValueError for the same reasons
            reason = str(error).strip().splitlines() or [type(error).__name__]
            raise DatasetError(
                f"{name} (split {split}): cannot be loaded from the hub or its cache: {reason[0]}; "
                f"allowed: a public set's name, with network or after it was loaded once on this machine"
            ) from error
        if not len(self._rows):
            raise DatasetError(f"{name} (split {split}): has no rows")
        content = hashlib.sha256()
        for row in self._rows:
            content.update(msgspec.json.encode(row, enc_hook=str, order="sorted"))
        self.digest = content.hexdigest()

    def __len__(self) -> int:
        return len(self._rows)

    def row(self, index: int) -> dict[str, Any]:
        row: dict[str, Any] = self._rows[index]
        return row

    def where(self, index: int) -> str:
        return f"{self._name} (split {self._split}) row {index + 1}"
