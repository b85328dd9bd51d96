"""Write a run to InfluxDB while it goes on, losing nothing where the server is away; and read runs back from it."""

from r1perf.sinks.influxdb.server import Server
from r1perf.sinks.influxdb.settings import Settings, server, settings
from r1perf.sinks.influxdb.sink import InfluxSink

__all__ = ["InfluxSink", "Server", "Settings", "server", "settings"]
