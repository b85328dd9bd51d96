"""Write InfluxDB's line protocol (docs.influxdata.com/influxdb/v2/reference/syntax/line-protocol); times are ms."""

import math
from collections.abc import Iterator, Mapping

Field = int | float | str | bool

TEXT_LIMIT = 60_000
"""A string field stays below the 64 KB that all servers keep, in bytes."""

_TAG = str.maketrans({",": "\\,", "=": "\\=", " ": "\\ ", "\n": "\\ ", "\r": "\\ ", "\\": "/"})
_MEASUREMENT = str.maketrans({",": "\\,", " ": "\\ "})
_TEXT = str.maketrans({'"': '\\"', "\\": "\\\\"})


def line(measurement: str, tags: Mapping[str, str], fields: Mapping[str, Field], time_ms: int) -> str:
    """Write one point, with its line end; nothing where no field is left.

    Tags are sorted, as servers want them, and empty ones left out. A backslash in a tag becomes a slash and a line end a
    space: the protocol cannot say them (one at the end would escape what follows). Floats that are no number are left out.
    """
    written = ",".join(f"{key.translate(_TAG)}={text}" for key, value in fields.items() if (text := _value(value)) is not None)
    if not written:
        return ""
    head = "".join(f",{key.translate(_TAG)}={value.translate(_TAG)}" for key, value in sorted(tags.items()) if value)
    return f"{measurement.translate(_MEASUREMENT)}{head} {written} {time_ms}\n"


def texts(name: str, text: str) -> Iterator[tuple[str, str]]:
    """Cut a text into fields `name`, `name_2`, `name_3` .. that are each short enough; `joined` puts them together."""
    length = TEXT_LIMIT // 4  # the longest character in UTF-8 has 4 bytes
    for number, begin in enumerate(range(0, max(len(text), 1), length), 1):
        yield (name if number == 1 else f"{name}_{number}"), text[begin : begin + length]


def joined(name: str, fields: Mapping[str, object]) -> str | None:
    """Put together what `texts` cut; None where there is none."""
    if name not in fields:
        return None
    parts, number = [str(fields[name])], 2
    while (key := f"{name}_{number}") in fields:
        parts.append(str(fields[key]))
        number += 1
    return "".join(parts)


def _value(value: Field) -> str | None:
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, int):
        return f"{value}i"
    if isinstance(value, float):
        return repr(value) if math.isfinite(value) else None
    return f'"{value.translate(_TEXT)}"'
