"""Real InfluxDB servers for the tests: started on a free port with their data in a folder, killed and started again at will.

`make influxd` builds them. A server that the environment names (R1PERF_INFLUXDB2_URL, _ORG, _TOKEN, and the same with
INFLUXDB1; of 1 the token is "user:password") is used as it is, for the tests that do not stop it.
"""

import json
import os
import urllib.parse
import urllib.request
from pathlib import Path

from services import CACHE, Service, free_port, missing

TOKEN = "token-of-the-tests"
USER = "admin:password-of-the-tests"
BUILT = {2: CACHE / "influxd" / "2.8.0" / "influxd", 1: CACHE / "influxd" / "1.8.3" / "influxd"}


class InfluxDb:
    """One server. `major` is 1 or 2; `url`, `org` and `token` are what the client needs."""

    def __init__(self, major: int, folder: Path, *, flux: bool = True) -> None:
        """Start a server; of InfluxDB 1 Flux can be off."""
        self.major, self._folder, self._flux = major, folder, flux
        self.org, self.token = ("tests", TOKEN) if major == 2 else ("-", USER)
        self._service: Service | None = None
        self._buckets = 0
        named = os.environ.get(f"R1PERF_INFLUXDB{major}_URL")
        if named:
            self.url, self.own = named.rstrip("/"), False
            self.org = os.environ.get(f"R1PERF_INFLUXDB{major}_ORG", self.org)
            self.token = os.environ.get(f"R1PERF_INFLUXDB{major}_TOKEN", self.token)
            return
        if not BUILT[major].exists():
            missing("influxd")
        self.own = True
        self.port = free_port()
        self.url = f"http://127.0.0.1:{self.port}"
        folder.mkdir(parents=True, exist_ok=True)
        self.start()
        self._first_user()

    def start(self) -> None:
        """Start the server, or start it again: on the same port, with the data that it had."""
        program, log = BUILT[self.major], self._folder / "log"
        if self.major == 2:
            words = ["run", "--bolt-path", self._folder / "bolt", "--engine-path", self._folder / "engine",
                     "--sqlite-path", self._folder / "sqlite", "--http-bind-address", f"127.0.0.1:{self.port}",
                     "--reporting-disabled", "--log-level", "error"]  # fmt: skip
        else:
            config = self._folder / "influxdb.conf"
            config.write_text(f"""
                bind-address = "127.0.0.1:{free_port()}"
                [meta]
                dir = "{self._folder}/meta"
                [data]
                dir = "{self._folder}/data"
                wal-dir = "{self._folder}/wal"
                [http]
                bind-address = "127.0.0.1:{self.port}"
                flux-enabled = {str(self._flux).lower()}
                auth-enabled = true
                [monitor]
                store-enabled = false
            """)
            words = ["-config", config]
        self._service = Service([program, *words], log, {"INFLUXDB_REPORTING_DISABLED": "true"})
        self._service.wait(lambda: self.url if self._up() else None, 30)

    def kill(self) -> None:
        """Kill it, as `kill -9` does."""
        assert self._service is not None
        self._service.process.kill()
        self._service.process.wait()

    def stop(self) -> None:
        """End it."""
        if self._service is not None:
            self._service.stop()

    def bucket(self, name: str = "") -> str:
        """Make a bucket and return its name; left out, it is one that no other test has."""
        self._buckets += 1
        name = name or f"tests-{os.getpid()}-{self._buckets}"
        if self.major == 1:
            self.influxql(f'CREATE DATABASE "{name}"', post=True)
            return f"{name}/autogen"
        org = self.api("GET", f"/api/v2/orgs?org={self.org}")["orgs"][0]["id"]
        self.api("POST", "/api/v2/buckets", {"orgID": org, "name": name, "retentionRules": []})
        return name

    def environ(self, bucket: str) -> dict[str, str]:
        """Return the client's own environment variables for a bucket."""
        return {
            "INFLUXDB_V2_URL": self.url, "INFLUXDB_V2_ORG": self.org, "INFLUXDB_V2_BUCKET": bucket, "INFLUXDB_V2_TOKEN": self.token,
        }  # fmt: skip

    def points(self, bucket: str, measurement: str) -> int:
        """Count the points of a measurement by InfluxQL, without the code under test."""
        database, _, policy = bucket.partition("/")
        found = self.influxql(f'SELECT * FROM "{measurement}"', db=database, **({"rp": policy} if policy else {}))
        return sum(len(series["values"]) for result in found["results"] for series in result.get("series", ()))

    def influxql(self, query: str, *, post: bool = False, **parameters: str) -> dict:
        """Ask in InfluxQL."""
        text = urllib.parse.urlencode({"q": query, **parameters})
        return self.api("POST" if post else "GET", f"/query?{text}")

    def api(self, method: str, path: str, body: object = None) -> dict:
        """Ask the server's HTTP API."""
        request = urllib.request.Request(self.url + path, json.dumps(body).encode() if body is not None else None, method=method)
        request.add_header("Authorization", f"Token {self.token}")
        request.add_header("Content-Type", "application/json")
        with urllib.request.urlopen(request, timeout=30) as response:
            return json.loads(response.read() or b"{}")

    def _up(self) -> bool:
        try:
            with urllib.request.urlopen(f"{self.url}/health", timeout=2) as response:
                return response.status == 200
        except OSError:
            return False

    def _first_user(self) -> None:
        user, password = USER.split(":")
        if self.major == 1:
            self.influxql(f"CREATE USER {user} WITH PASSWORD '{password}' WITH ALL PRIVILEGES", post=True)
            return
        self.api(
            "POST",
            "/api/v2/setup",
            {"username": user, "password": password, "org": self.org, "bucket": "first", "token": self.token},
        )
