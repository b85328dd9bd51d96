"""Runs in real InfluxDB servers, 2 and 1.8: all of it is there, whatever happens to the server, and a run never waits for it."""

import contextlib
import io
import json
import os
import re
import shutil
import socket
import subprocess
import sys
import threading
import time
from itertools import takewhile
from pathlib import Path

import msgspec
import pytest
from influx import InfluxDb
from lineprotocol import FakeBucket, differences
from services import free_port
from virtual_run import S, a_run, play, traffic

from r1perf.cli import main
from r1perf.errors import DatabaseError, UsageError
from r1perf.journal import read_snapshots
from r1perf.sinks.influxdb import Server, server
from r1perf.sinks.influxdb.query import Bucket
from r1perf.sinks.influxdb.reading import Part, read
from r1perf.sinks.influxdb.runs import find, runs
from r1perf.sinks.influxdb.story import Story
from r1perf.summary import Document, Interval, Summary, document, read_document
from r1perf.summary.rates import per_chunk

R1PERF = [sys.executable, "-m", "r1perf"]
BUSY = re.compile(r"requests were sent late|stood still|of a core|the wall clock of worker")
"""What a busy machine does to a run, and no server."""

SMALL = 2_000
"""Bytes that a small server takes: less than some points have."""

MEASUREMENTS = ("r1_run", "r1_interval", "r1_counters", "events")

SCENARIO = """
name = "recorded"
seed = 7
duration = "4s"
warmup = "1s"
[target]
url = "simulate:tiny"
[workload.chat]
dataset = { kind = "chat" }
max_tokens = 60
[workload.short]
dataset = { kind = "chat" }
max_tokens = 10
[arrivals]
kind = "poisson"
rate = "8/s"
[sinks.influxdb]
interval = "1s"
timeout = "1s"
deadline = "5s"
[labels]
commit = "4f2a"
"""


@contextlib.contextmanager
def bucket_of(db: InfluxDb, name: str, *, flux: bool = True):
    """Give what reads a bucket; without Flux where that is wanted."""
    with contextlib.closing(Server(server(db.environ(name), name))) as asked:
        made = Bucket(asked, name)
        made._flux = flux
        yield made


def told(snapshots, group_ns=10 * S):
    """Write a virtual run as the sink does; return its lines and its document."""
    story, summary = Story(a_run(), group_ns), Summary(a_run())
    lines = [story.begin()]
    for snapshot in snapshots:
        summary.merge(snapshot)
        lines.append(story.interval(Interval.of(snapshot), 0))
    built = document(summary)
    lines.append(story.end(built, 0))
    return b"".join(lines), built


@pytest.fixture(scope="module")
def virtual():
    return told(play(traffic(), seconds=50))


@pytest.fixture(params=["flux", "influxql"])
def reading(request, influxdb, virtual):
    """Give a bucket that holds a virtual run, read in Flux and in InfluxQL."""
    name = influxdb.bucket()
    with contextlib.closing(Server(server(influxdb.environ(name), name))) as asked:
        asked.write(virtual[0])
    with bucket_of(influxdb, name, flux=request.param == "flux") as made:
        yield made


def test_every_field_that_is_read_back_comes_back_as_it_was_written(reading, virtual):
    wanted = FakeBucket()
    wanted.write(virtual[0])
    for measurement in MEASUREMENTS:
        written = wanted.points(measurement)
        found = reading.points(measurement)
        assert len(found) == len(written) > 0
        by_key = {(row.time_ms, *sorted(row.tags.items())): row.fields for row in written}
        for row in found:
            expected = by_key.pop((row.time_ms, *sorted(row.tags.items())))
            assert set(row.fields) <= set(expected)
            charted = set(expected) - set(row.fields)
            assert all("_p" in key or "_le_" in key for key in charted), charted
            for key, value in row.fields.items():
                assert value == expected[key], key


def test_every_field_reaches_the_server(influxdb, virtual):
    """Without the code that reads: those for charts too."""
    name = influxdb.bucket()
    with contextlib.closing(Server(server(influxdb.environ(name), name))) as asked:
        asked.write(virtual[0])
    database, _, policy = name.partition("/")
    seen = 0
    wanted = FakeBucket()
    wanted.write(virtual[0])
    for point in wanted.points_by_key.values():
        where = " AND ".join(f"\"{key}\" = '{value}'" for key, value in point.tags.items())
        if "workload" not in point.tags:
            where += " AND \"workload\" = ''"
        if "stage" not in point.tags:
            where += " AND \"stage\" = ''"
        answer = influxdb.influxql(
            f'SELECT * FROM "{point.measurement}" WHERE {where} AND time = {point.time_ms}ms', db=database, epoch="ms",
            **({"rp": policy} if policy else {}),
        )  # fmt: skip
        (series,) = answer["results"][0]["series"]
        (values,) = series["values"]
        got = dict(zip(series["columns"], values, strict=True))
        assert {key: got[key] for key in point.fields} == point.fields
        seen += len(point.fields)
    assert seen > 1000


def FakeBucketOf(lines: bytes) -> FakeBucket:
    made = FakeBucket()
    made.write(lines)
    return made


def test_the_whole_run_comes_back(reading, virtual):
    assert differences(read(reading, find(reading, virtual[1].run_id), Part()), virtual[1]) == []
    assert [each.run_id for each in runs(reading)] == [virtual[1].run_id]


@pytest.mark.parametrize("seconds", [(0, 10), (10, 40), (5, 35), (40, 1000), (20, 21)], ids=lambda each: f"{each[0]}-{each[1]}")
def test_any_range_merges_exactly(reading, virtual, seconds):
    first, last = (-(-second // 10) * 10 for second in seconds)
    summary, played = Summary(a_run(), first * S), play(traffic(), seconds=50)
    summary.per_chunk = per_chunk((each.name, each.workload, each.n) for snapshot in played for each in snapshot.counters)
    for snapshot in played:
        if first <= snapshot.k < last:
            summary.merge(snapshot)
    found = find(reading, a_run().run_id)
    part = Part(seconds[0] * S, seconds[1] * S)
    if not summary.readings:
        with pytest.raises(UsageError, match="no point of run"):
            read(reading, found, part)
        return
    got, expected = read(reading, found, part), document(summary)
    assert (got.series, got.counters, got.throughput, got.stages) == (
        expected.series, expected.counters, expected.throughput, expected.stages,
    )  # fmt: skip
    assert got.validity == virtual[1].validity, "no point of the whole run is missing"


# --- Wrong token, organization, bucket ---


def refused(db: InfluxDb, name: str, **wrong: str) -> DatabaseError:
    with (
        contextlib.closing(Server(server(db.environ(name) | wrong, wrong.get("bucket", name)))) as asked,
        pytest.raises(DatabaseError) as error,
    ):
        asked.write(b"m f=1i 1\n")
    assert db.token not in str(error.value)
    assert str(error.value).startswith(f"InfluxDB at {db.url} ")
    return error.value


def test_a_wrong_token_is_401(influxdb):
    error = refused(influxdb, influxdb.bucket(), INFLUXDB_V2_TOKEN="admin:wrong")
    assert error.status == 401
    assert "HTTP 401" in str(error)


def test_a_bucket_that_does_not_exist_is_404(influxdb):
    error = refused(influxdb, influxdb.bucket(), bucket="no-such-bucket/autogen" if influxdb.major == 1 else "no-such-bucket")
    assert error.status == 404
    assert "not found" in error.says


def test_a_wrong_organization_is_404(influxdb2):
    assert refused(influxdb2, influxdb2.bucket(), INFLUXDB_V2_ORG="no-such-org").status == 404


def test_a_field_of_another_type_is_400(influxdb):
    name = influxdb.bucket()
    with contextlib.closing(Server(server(influxdb.environ(name), name))) as asked:
        asked.write(b"m f=1i 1\n")
        with pytest.raises(DatabaseError) as error:
            asked.write(b'm f="text" 2\n')
    assert error.value.status in (400, 422)


def test_a_server_that_is_no_influxdb_is_said(start_simulator):
    other = start_simulator("--profile", "tiny")
    environ = {"INFLUXDB_V2_URL": other.url, "INFLUXDB_V2_TOKEN": "t"}
    with contextlib.closing(Server(server(environ, "b"))) as asked, pytest.raises(DatabaseError, match="HTTP 404"):
        asked.write(b"m f=1i 1\n")


def test_nobody_there_is_said():
    environ = {"INFLUXDB_V2_URL": f"http://127.0.0.1:{free_port()}", "INFLUXDB_V2_TOKEN": "t"}
    with (
        contextlib.closing(Server(server(environ, "b"))) as asked,
        pytest.raises(DatabaseError, match=r"cannot be reached: .*refused"),
    ):
        asked.write(b"m f=1i 1\n")


@pytest.mark.parametrize("what", ["runs", "report"])
def test_reading_what_is_not_there_is_one_sentence(influxdb, what):
    missing = "no-such-bucket/autogen" if influxdb.major == 1 else "no-such-bucket"
    argument = f"influx://{missing}" + ("/some-run" if what == "report" else "")
    done = r1perf(influxdb, "x", what, argument)
    assert done.returncode == 2
    assert len(done.stderr.splitlines()) == 1
    assert done.stderr.startswith(f"r1perf: InfluxDB at {influxdb.url} ")


# --- Real runs ---


def r1perf(db: InfluxDb, bucket: str, *words: object, **environ: str) -> subprocess.CompletedProcess:
    """Carry a command out to its end, in this process: a new one takes longer to start than most commands."""
    out, err = io.StringIO(), io.StringIO()
    with pytest.MonkeyPatch.context() as patch, contextlib.redirect_stdout(out), contextlib.redirect_stderr(err):
        patch.setattr(sys, "argv", ["r1perf", *map(str, words)])
        for name, value in (db.environ(bucket) | environ).items():
            patch.setenv(name, value)
        with pytest.raises(SystemExit) as ended:
            main()
    return subprocess.CompletedProcess(words, int(ended.value.code or 0), out.getvalue(), err.getvalue())


class Recorded:
    """A real run in the background that writes to a server."""

    def __init__(self, place: Path, db: InfluxDb, bucket: str, *sets: str, **environ: str) -> None:
        place.mkdir()
        scenario = place / "recorded.toml"
        scenario.write_text(SCENARIO)
        self.db, self.bucket, self.runs = db, bucket, place / "runs"
        self._began = time.monotonic()
        self.process = subprocess.Popen(
            [*R1PERF, "run", str(scenario), "--runs", str(self.runs), "--quiet", *(word for each in sets for word in ("--set", each))],
            env={**os.environ, **db.environ(bucket), **environ}, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True,
        )  # fmt: skip

    def wait(self) -> "Recorded":
        """Wait for its end, and check that its archive is as that of any other run."""
        self.stdout, self.stderr = self.process.communicate(timeout=90)
        self.seconds = time.monotonic() - self._began
        assert self.process.returncode in (0, 3), self.stderr  # 3: a busy machine
        assert "Traceback" not in self.stderr
        self.document = read_document(self.folder)
        assert self.document.status == "finished", self.stderr
        assert self.document.reason is None
        return self

    def until(self, seconds: int) -> None:
        """Wait until its worker has measured for so long."""
        deadline = time.monotonic() + 60
        while time.monotonic() < deadline:
            if any(len(list(read_snapshots(path))) >= seconds for path in self.runs.glob("*/snapshots.0")):
                return
            if self.process.poll() is not None:
                break
            time.sleep(0.05)
        raise AssertionError(f"the run does not go on: {self.process.poll()}")

    def end(self) -> None:
        """Let nothing of it live on."""
        if self.process.poll() is None:
            self.process.kill()
        self.process.communicate()

    @property
    def folder(self) -> Path:
        (folder,) = self.runs.iterdir()
        return folder

    @property
    def files(self) -> set[str]:
        return {path.name for path in self.folder.iterdir()}

    @property
    def notes(self) -> list[str]:
        """Return what was said about the database."""
        return [line for line in self.stderr.splitlines() if line.startswith("note: ") and "influx" in line.lower()]

    @property
    def in_database(self) -> Document:
        """Read it back from the server alone."""
        with bucket_of(self.db, self.bucket) as reader:
            return read(reader, find(reader, self.document.run_id), Part())

    @property
    def points(self) -> list[int]:
        return [self.db.points(self.bucket, measurement) for measurement in MEASUREMENTS]

    def replay(self, *words: str, **environ: str) -> subprocess.CompletedProcess:
        return r1perf(self.db, self.bucket, "influx", "replay", self.folder, *words, **environ)


class Proxy:
    """Stands before a server, in one of these ways: "closed" (refuses connections), "stalls" (takes them, and nothing comes
    back), "small" (answers 413 to more than `most` bytes), "open".
    """

    def __init__(self, url: str, way: str, most: int = 0) -> None:
        self._server, self._way, self._most = int(url.rpartition(":")[2]), way, most
        self.port, self._sockets, self.taken = free_port(), [], 0
        if way != "closed":
            self._listen()

    @property
    def environ(self) -> dict[str, str]:
        return {"INFLUXDB_V2_URL": f"http://127.0.0.1:{self.port}"}

    def open(self) -> None:
        """Pass everything on from now on."""
        closed, self._way = self._way == "closed", "open"
        if closed:
            self._listen()

    def close(self) -> None:
        for each in self._sockets:
            with contextlib.suppress(OSError):
                each.shutdown(socket.SHUT_RDWR)
            each.close()

    def _listen(self) -> None:
        self._sockets.append(socket.create_server(("127.0.0.1", self.port)))
        threading.Thread(target=self._accept, args=(self._sockets[-1],), daemon=True).start()

    def _accept(self, listener: socket.socket) -> None:
        with contextlib.suppress(OSError):
            while True:
                near, _ = listener.accept()
                self.taken += 1
                self._sockets.append(near)
                if self._way != "stalls":
                    threading.Thread(target=self._serve, args=(near,), daemon=True).start()

    def _serve(self, near: socket.socket) -> None:
        """Pass one connection's requests on, one after the other."""
        with contextlib.suppress(OSError), near, socket.create_connection(("127.0.0.1", self._server)) as far:
            threading.Thread(target=self._back, args=(far, near), daemon=True).start()
            reader = near.makefile("rb")
            while head := b"".join(takewhile(lambda line: line != b"\r\n", iter(reader.readline, b""))):
                found = re.search(rb"content-length: (\d+)", head, re.IGNORECASE)
                body = reader.read(int(found[1])) if found else b""
                if self._way == "small" and len(body) > self._most:
                    near.sendall(b"HTTP/1.1 413 Too Large\r\nContent-Length: 11\r\n\r\nbody > most")
                else:
                    far.sendall(head + b"\r\n" + body)

    def _back(self, far: socket.socket, near: socket.socket) -> None:
        with contextlib.suppress(OSError):
            while data := far.recv(65536):
                near.sendall(data)


@pytest.fixture(scope="module", params=[2, 1], ids=["influxdb2", "influxdb1"])
def db(request):
    """Give a server that all tests share."""
    return request.getfixturevalue(f"influxdb{request.param}")


@pytest.fixture(scope="module")
def calm(db, tmp_path_factory):
    """Give runs, all at once, whose server is in one state from their beginning to their end."""
    place, proxies = tmp_path_factory.mktemp("calm"), {}
    ways = {"away": ("closed", 0), "stalls": ("stalls", 0), "small": ("small", SMALL)}
    cases = {
        "well": ([], {}),
        "wrong token": ([], {"INFLUXDB_V2_TOKEN": "admin:wrong"}),
        "away": (["sinks.influxdb.deadline=1s"], {}),
    }
    if db.major == 2:
        nowhere = dict.fromkeys(db.environ("b"), "")
        cases |= {"stalls": (["sinks.influxdb.deadline=1s"], {}), "small": ([], {}), "none": (["sinks={}"], nowhere)}
    runs = {}
    try:
        for name, (sets, environ) in cases.items():
            if name in ways:
                proxies[name] = Proxy(db.url, *ways[name])
                environ = proxies[name].environ
            runs[name] = Recorded(place / name, db, db.bucket(), *sets, **environ)
            runs[name].proxy = proxies.get(name)
        for run in runs.values():
            run.wait()
        yield runs
    finally:
        for run in runs.values():
            run.end()
        for proxy in proxies.values():
            proxy.close()


def test_a_run_is_in_the_database_as_it_is_in_its_archive(calm, db):
    run = calm["well"]
    assert differences(run.in_database, run.document) == []
    assert run.files == {"run.json", "intervals.hlog", "requests.0.jsonl", "snapshots.0", "influxdb.json"}
    assert run.notes == []
    address = f"influx://{run.bucket}/{run.document.run_id}"
    from_database, from_archive = (r1perf(db, run.bucket, "report", where) for where in (address, run.folder))
    assert from_database.stdout == from_archive.stdout != ""
    as_json = r1perf(db, run.bucket, "report", address, "--json")
    assert as_json.stdout == (run.folder / "run.json").read_text()
    part = json.loads(r1perf(db, run.bucket, "report", address, "--json", "--from", "1s", "--to", "3s").stdout)
    assert part["elapsed_s"] == pytest.approx(2, abs=0.1)
    with bucket_of(db, run.bucket) as reader:
        assert differences(read(reader, find(reader, run.document.run_id), Part(S, 3 * S)), msgspec.convert(part, Document)) == []


def test_runs_are_listed_from_the_database_as_from_the_folder(calm, db):
    run = calm["well"]
    listed, in_folder = (
        json.loads(r1perf(db, run.bucket, "runs", where, "--json").stdout)[0] for where in (f"influx://{run.bucket}", run.runs)
    )
    assert in_folder.pop("where") == str(run.folder)
    assert abs(listed.pop("started_ns") - in_folder.pop("started_ns")) < 1_000_000
    assert {key: value for key, value in listed.items() if value is not None} == in_folder | {}
    table = r1perf(db, run.bucket, "runs", f"influx://{run.bucket}").stdout
    assert run.document.run_id in table


def test_the_runs_own_figures_are_those_of_any_run_whatever_becomes_of_the_server(calm):
    """They come from the archive; the schedule is the same, and so is what was measured."""

    def shape(document: Document) -> object:
        places = {(row.metric, row.workload, row.stage) for row in document.series if row.stage != "drain"}
        return document.counts["scheduled"], tuple(row.counts["scheduled"] for row in document.stages), frozenset(places)

    assert len({shape(run.document) for run in calm.values()}) == 1
    for run in calm.values():
        assert all(BUSY.search(reason) for reason in run.document.validity.reasons)


def test_the_token_is_nowhere(calm, db):
    for run in calm.values():
        written = "".join(path.read_text("utf-8", "replace") for path in run.runs.rglob("*") if path.is_file())
        assert db.token not in written + run.stdout + run.stderr
        assert "admin:wrong" not in written + run.stdout + run.stderr


def test_away_for_the_whole_run_it_gets_all_by_a_replay_and_nothing_by_a_second(calm, tmp_path):
    run = calm["away"]
    assert "cannot be reached: Connection refused" in run.notes[0]
    assert re.search(r"\d+ kB of points are not in InfluxDB yet; once that is put right, `r1perf influx replay ", run.notes[-1])
    assert (run.folder / "influxdb.spool").stat().st_size > 10_000
    still = r1perf(run.db, run.bucket, "influx", "replay", run.folder)
    assert still.returncode == 2
    assert "of points could not be sent; once that is put right, `r1perf influx replay " in still.stderr
    run.proxy.open()
    shutil.copytree(run.folder, tmp_path / "kept")
    first = run.replay()
    assert (first.returncode, first.stderr) == (0, "")
    assert first.stdout.endswith("points sent\n")
    assert "influxdb.spool" not in run.files
    before, points = run.in_database, run.points
    assert differences(before, run.document) == []
    second = run.replay()
    assert (second.returncode, second.stdout) == (0, "nothing was left to send\n")
    again = r1perf(run.db, run.bucket, "influx", "replay", tmp_path / "kept")
    assert again.stdout == first.stdout  # the same points once more
    assert run.replay("--all").returncode == 0  # and made from the archive
    assert differences(run.in_database, before) == []
    assert run.points == points


def test_a_wrong_token_pauses_and_the_right_one_replays(calm):
    run = calm["wrong token"]
    first, last = run.notes
    assert "HTTP 401" in first
    assert "no more is sent until that is put right" in first
    assert "not in InfluxDB yet" in last
    assert run.points[0] == 0
    assert run.replay(INFLUXDB_V2_TOKEN="admin:wrong").returncode == 2
    assert run.replay().returncode == 0
    assert differences(run.in_database, run.document) == []


@pytest.mark.parametrize("db", [2], indirect=True, ids=["influxdb2"])
def test_a_server_that_stalls_to_the_end_does_not_hold_the_run(calm):
    run = calm["stalls"]
    assert run.proxy.taken > 1
    assert "did not answer in time" in run.notes[0]
    assert "not in InfluxDB yet" in run.notes[-1]
    assert run.seconds < calm["well"].seconds + 20
    run.proxy.open()
    assert run.replay().returncode == 0
    assert differences(run.in_database, run.document) == []


@pytest.mark.parametrize("db", [2], indirect=True, ids=["influxdb2"])
def test_bodies_that_are_too_large_are_cut_and_a_line_that_is_too_large_is_put_aside(calm):
    """As behind a proxy that takes little (nginx: client_max_body_size)."""
    run = calm["small"]
    assert "HTTP 413" in run.notes[0]
    assert "points were refused and are in influxdb.rejected" in run.notes[-1]
    lines = [line for line in (run.folder / "influxdb.rejected").read_bytes().splitlines(keepends=True) if line[:1] != b"#"]
    assert lines
    assert all(len(line) > SMALL for line in lines)
    assert run.points[2] > 0, "those that were small enough are there"
    run.proxy.open()
    sent = run.replay()
    assert (sent.returncode, sent.stdout) == (0, f"{len(lines)} points sent\n")
    assert differences(run.in_database, run.document) == []
    assert "influxdb.rejected" not in run.files


@pytest.mark.parametrize("db", [2], indirect=True, ids=["influxdb2"])
def test_a_run_without_a_database_can_be_sent_afterwards(calm, db):
    run = calm["none"]
    assert not [name for name in run.files if name.startswith("influxdb")]
    nowhere = run.replay(**dict.fromkeys(db.environ("b"), ""))
    assert nowhere.returncode == 2
    assert "INFLUXDB_V2_URL is not set" in nowhere.stderr
    assert run.replay().returncode == 0
    assert differences(run.in_database, run.document) == []
    assert run.replay().stdout == "nothing was left to send\n"


@pytest.fixture(scope="module", params=[2, 1], ids=["influxdb2", "influxdb1"])
def own(request, tmp_path_factory):
    """Give a server that tests may kill; InfluxDB 1 without Flux."""
    if os.environ.get(f"R1PERF_INFLUXDB{request.param}_URL"):
        pytest.skip("a server that the environment names is not killed")
    made = InfluxDb(request.param, tmp_path_factory.mktemp("own"), flux=False)
    yield made
    made.stop()


@pytest.fixture(scope="module")
def eventful(own, request, tmp_path_factory):
    """Give runs, all at once, in the middle of which something happens to their server."""
    place, proxy, runs = tmp_path_factory.mktemp("eventful"), Proxy(own.url, "stalls"), {}
    patient = "sinks.influxdb.deadline=30s"
    try:
        runs["killed"] = Recorded(place / "killed", own, own.bucket(), patient)
        runs["stalls"] = Recorded(place / "stalls", own, own.bucket(), patient, **proxy.environ)
        runs["full"] = full = Recorded(place / "full", own, own.bucket(), patient)
        if own.major == 2:
            other = request.getfixturevalue("influxdb2")
            runs["made later"] = Recorded(place / "later", other, f"made-later-{os.getpid()}")
        deadline = time.monotonic() + 30
        while not (folders := list(full.runs.glob("*"))) and time.monotonic() < deadline:
            time.sleep(0.005)
        (folders[0] / "influxdb.spool").symlink_to("/dev/full")  # every write to it fails as on a full disk
        for run in runs.values():
            run.until(2)
        own.kill()
        if own.major == 2:
            other.bucket(runs["made later"].bucket)
        for run in runs.values():
            run.until(4)
        own.start()
        proxy.open()
        for run in runs.values():
            run.wait()
        yield runs
    finally:
        for run in runs.values():
            run.end()
        proxy.close()


def test_killed_for_half_of_a_run_and_started_again_it_has_every_point(eventful):
    run = eventful["killed"]
    assert any("cannot be reached" in note for note in run.notes)
    assert any("takes points again" in note for note in run.notes)
    assert "influxdb.spool" not in run.files
    assert differences(run.in_database, run.document) == []


def test_a_server_that_stalls_gets_everything_once_it_answers(eventful):
    run = eventful["stalls"]
    assert "did not answer in time" in run.notes[0]
    assert "takes points again" in run.notes[-1]
    assert differences(run.in_database, run.document) == []


def test_a_full_disk_for_the_spool_ends_no_run_and_points_go_through_memory(eventful):
    run = eventful["full"]
    assert "influxdb.spool cannot be written: No space left on device; points for InfluxDB wait in memory" in run.notes[0]
    assert differences(run.in_database, run.document) == []


@pytest.mark.parametrize("own", [2], indirect=True, ids=["influxdb2"])
def test_a_bucket_that_is_made_during_the_run_gets_it(eventful):
    run = eventful["made later"]
    assert any("HTTP 404" in note for note in run.notes)
    assert differences(run.in_database, run.document) == []


def test_data_outlives_a_restart_and_where_flux_is_off_influxql_is_used(own, virtual):
    name = own.bucket()
    with contextlib.closing(Server(server(own.environ(name), name))) as asked:
        asked.write(virtual[0])
    own.stop()
    own.start()
    with bucket_of(own, name) as reader:
        assert differences(read(reader, find(reader, virtual[1].run_id), Part()), virtual[1]) == []
        assert reader._flux is (own.major == 2)


@pytest.mark.parametrize(
    ("sets", "environ", "says"),
    [
        pytest.param(["sinks.influxdb.bucket=b"], {"INFLUXDB_V2_TOKEN": ""}, "INFLUXDB_V2_TOKEN is not set", id="no token"),
        pytest.param([], {"INFLUXDB_V2_BUCKET": ""}, "`sinks.influxdb.bucket`: is missing", id="no bucket"),
        pytest.param(["sinks.influxdb.tokn_env=X"], {}, "did you mean `token_env`", id="unknown key"),
    ],
)
def test_wrong_settings_are_said_before_the_run(influxdb2, tmp_path, sets, environ, says):
    words = [word for each in sets for word in ("--set", each)]
    for command in (["run", "smoke", "--runs", tmp_path / "runs"], ["check", "smoke"]):
        done = r1perf(influxdb2, "b", *command, *words, **environ)
        assert done.returncode == 2
        assert says in done.stderr
        assert len(done.stderr.splitlines()) == 1
    assert not (tmp_path / "runs").exists()


PATCHED = """
from gevent import monkey
monkey.patch_all()
import sys, threading
from pathlib import Path
sys.path.insert(0, "tests")
import gevent
from virtual_run import a_run, play, traffic
from r1perf.sinks.influxdb import InfluxSink, settings
from r1perf.summary import Interval, Summary, document
import os
told, summary = [], Summary(a_run())
sink = InfluxSink(settings(None, os.environ), Path(sys.argv[1]), told.append)
sink.open(summary.run)
beats = []
def beat():
    while True:
        gevent.sleep(0.01)
        beats.append(1)
gevent.spawn(beat)
for snapshot in play(traffic(), seconds=50):
    summary.merge(snapshot)
    sink.write(Interval.of(snapshot))
    gevent.sleep(0)
sink.close(document(summary))
assert told == [], told
assert beats, "others ran meanwhile"
"""


def test_in_a_process_that_gevent_has_patched_it_is_a_greenlet_that_loses_nothing(influxdb2, tmp_path):
    """As in a Locust master."""
    bucket = influxdb2.bucket()
    env = {**os.environ, **influxdb2.environ(bucket), "PYTHONPATH": "tests"}
    done = subprocess.run(
        [sys.executable, "-c", PATCHED, str(tmp_path)], env=env, capture_output=True, text=True, timeout=60, check=False,
        cwd=Path(__file__).parents[2],
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    _, built = told(play(traffic(), seconds=50))
    with bucket_of(influxdb2, bucket) as reader:
        assert differences(read(reader, find(reader, built.run_id), Part()), built) == []
