"""Read line protocol in tests, with a parser of their own; and stand in for a bucket: points of one series and time are one."""

import re
from typing import Any

import msgspec

from r1perf.sinks.influxdb.server import Row
from r1perf.summary import Document

_TAG = re.compile(r"((?:[^,= \\]|\\.)+)=((?:[^,= \\]|\\.)+)")
_FIELD = re.compile(r'((?:[^,= \\]|\\.)+)=("(?:[^"\\]|\\.)*"|[^, ]+)(,?)', re.DOTALL)


class Point(msgspec.Struct):
    measurement: str
    tags: dict[str, str]
    fields: dict[str, Any]
    time_ms: int


def parse(text: str) -> list[Point]:
    """Parse lines; raises ValueError for what is not line protocol."""
    points, at = [], 0
    while at < len(text):
        head = re.compile(r"((?:[^, \\]|\\.)+)((?:,(?:[^,= \\]|\\.)+=(?:[^,= \\]|\\.)+)*) ").match(text, at)
        if head is None:
            raise ValueError(text[at : at + 80])
        at, fields, more = head.end(), {}, ","
        while more:
            field = _FIELD.match(text, at)
            if field is None:
                raise ValueError(text[at : at + 80])
            fields[_plain(field[1])] = _value(field[2])
            at, more = field.end(), field[3]
        end = re.compile(r" (-?\d+)\n").match(text, at)
        if end is None:
            raise ValueError(text[at : at + 80])
        at = end.end()
        points.append(Point(_plain(head[1]), {_plain(k): _plain(v) for k, v in _TAG.findall(head[2])}, fields, int(end[1])))
    return points


def _plain(text: str) -> str:
    return re.sub(r"\\([,= ])", r"\1", text)


def _value(text: str) -> Any:
    if text.startswith('"'):
        return re.sub(r'\\(["\\])', r"\1", text[1:-1])
    if text in ("true", "false"):
        return text == "true"
    return int(text[:-1]) if text.endswith("i") else float(text)


class FakeBucket:
    """A bucket in memory: writing a point again changes nothing, other fields of it are added."""

    def __init__(self) -> None:
        self.points_by_key: dict[tuple[Any, ...], Point] = {}

    def write(self, lines: bytes) -> None:
        """Take line protocol, as a server does."""
        for point in parse(lines.decode()):
            key = (point.measurement, *sorted(point.tags.items()), point.time_ms)
            self.points_by_key.setdefault(key, Point(point.measurement, point.tags, {}, point.time_ms)).fields |= point.fields

    def points(
        self, measurement: str, run_id: str | None = None, begin_ms: int = 0, end_ms: int = 1 << 62, fields: str | None = None
    ) -> list[Row]:
        """Answer as `r1perf.sinks.influxdb.query.Bucket` does."""
        return sorted(
            (
                Row(point.time_ms, point.tags, _some(point.fields, fields))
                for point in self.points_by_key.values()
                if point.measurement == measurement
                and run_id in (None, point.tags.get("run_id"))
                and begin_ms <= point.time_ms < end_ms
            ),
            key=lambda row: row.time_ms,
        )


def _some(fields: dict[str, Any], wanted: str | None) -> dict[str, Any]:
    return fields if wanted is None else {name: value for name, value in fields.items() if re.search(wanted, name)}


def differences(got: Document, wanted: Document) -> list[str]:
    """Say where two documents differ, in few words: comparing them whole makes pytest lay out a megabyte."""
    if got == wanted:
        return []
    found = []
    for name in Document.__struct_fields__:
        left, right = getattr(got, name), getattr(wanted, name)
        if left == right:
            continue
        if isinstance(left, list) and len(left) == len(right):
            left, right = next((a, b) for a, b in zip(left, right, strict=True) if a != b)
        found.append(f"{name}: {str(left)[:400]} instead of {str(right)[:400]}")
    return found
