"""Read what people write for a bucket or a run in one: `influx://BUCKET` and `influx://BUCKET/RUN_ID`."""

import re

import msgspec

from r1perf.errors import UsageError

SCHEME = "influx://"

_BUCKET = re.compile(r"[^\"'\\$\x00-\x1f]+")
_RUN_ID = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]*")


class Address(msgspec.Struct, frozen=True):
    """A run in a bucket. A bucket of InfluxDB 1 is "database/retention policy"."""

    bucket: str
    run_id: str


def is_address(text: str) -> bool:
    """Tell an address from a folder."""
    return text.startswith(SCHEME)


def bucket(text: str) -> str:
    """Read the address of a bucket; raises UsageError."""
    found = text.removeprefix(SCHEME).strip("/")
    if not is_address(text) or _BUCKET.fullmatch(found) is None:
        raise UsageError(f'"{text}" is not the address of a bucket: influx://BUCKET, or influx://DATABASE/POLICY of InfluxDB 1')
    return found


def run(text: str) -> Address:
    """Read the address of a run; raises UsageError."""
    found, _, run_id = text.removeprefix(SCHEME).strip("/").rpartition("/")
    if not is_address(text) or _BUCKET.fullmatch(found) is None or _RUN_ID.fullmatch(run_id) is None:
        raise UsageError(
            f'"{text}" is not the address of a run: influx://BUCKET/RUN_ID, or influx://DATABASE/POLICY/RUN_ID of InfluxDB 1'
        )
    return Address(found, run_id)
