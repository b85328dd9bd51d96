"""Read a bucket of InfluxDB that a command names; the server is the environment's."""

import os
from collections.abc import Iterator
from contextlib import closing, contextmanager

from r1perf.cli.output import note
from r1perf.sinks.influxdb import Server, server
from r1perf.sinks.influxdb.query import Bucket


@contextmanager
def opened(name: str) -> Iterator[Bucket]:
    """Give a bucket to be read from."""
    settings = server(os.environ, name)
    if settings.caution is not None:
        note(settings.caution)
    with closing(Server(settings)) as asked:
        yield Bucket(asked, name)
