"""Swarms of real processes, and what their ends leave: every request once in the master's counts, or said to be lost."""

import contextlib
import itertools
import json
import os
import re
import shutil
import signal
import subprocess
import urllib.parse
import urllib.request
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest
from services import free_port, simulator
from swarms import LOCUST, LOCUSTFILES, LONG, MIX, POISSON, R1PERF, Swarm, ended_well, whole

from r1perf import clock

USERS = 7


class Beside:
    """A swarm that takes its time, beside the other tests: `play` starts it, meddles with it, and returns its master's exit code."""

    def __init__(self, pool, folder, play):
        truth = folder / "truth.jsonl"
        self.service = simulator(folder / "simulator.log", "--profile", "tiny", "--truth", str(truth))
        self.swarm = Swarm(folder, self.service, truth)
        self.future = pool.submit(play, self.swarm)

    def end(self):
        """Wait for its end; return the swarm and the exit code."""
        return self.swarm, self.future.result()

    def close(self):
        self.swarm.close()
        self.service.stop()


def kill_one(arrivals):
    def play(swarm):
        master = swarm.locust("--processes", "3", "--r1-scenario", swarm.scenario(duration="76s", arrivals=arrivals))
        swarm.until(8)
        os.kill(swarm.pid("1"), signal.SIGKILL)
        swarm.killed_ns = clock.wall_ns()
        return swarm.wait(master, 150)

    return play


def stop_one(swarm):
    master = locust(swarm, duration="14s")
    swarm.until(20)
    pause(swarm.pid("0"), 10)
    return swarm.wait(master)


def stop_the_only_one(swarm):
    master = swarm.locust("--processes", "1", "--r1-scenario", swarm.scenario(duration="60s"))
    swarm.until(20)
    worker = swarm.pid("0")
    os.kill(worker, signal.SIGSTOP)
    swarm.until_said(master, "The last worker went missing")
    os.kill(worker, signal.SIGCONT)
    return swarm.wait(master)


def stop_the_master(swarm):
    master = locust(swarm, duration="9s")
    swarm.until(20)
    pause(master.pid, 5)
    return swarm.wait(master)


def stream_past_the_end(swarm):
    return swarm.wait(locust(swarm, "-t", "3s", "--stop-timeout", "1", workloads=LONG, duration="60s"))


def hold_sessions(swarm):
    scenario = swarm.scenario(duration="4s", arrivals='kind = "closed"\nsessions = 32')
    return swarm.wait(swarm.locust("--processes", "2", "--r1-scenario", scenario, "-u", USERS, "-r", "50"))


def join_late(swarm):
    scenario = swarm.scenario(duration="7s", arrivals='kind = "closed"\nsessions = 6')
    master = swarm.locust("--master", "--expect-workers", "2", "--r1-scenario", scenario)
    workers = [swarm.locust("--worker"), swarm.locust("--worker")]
    swarm.until(10)
    late = [swarm.worker(), swarm.worker()]
    code = swarm.wait(master)
    assert [swarm.wait(process) for process in (*workers, *late)] == [0, 0, 0, 0]
    return code


def run_twice(swarm):
    master = swarm.master(swarm.scenario(duration="2s"), 2, "--repeat", "2")
    workers = [swarm.worker(), swarm.worker()]
    code = swarm.wait(master)
    assert [swarm.wait(worker) for worker in workers] == [0, 0]
    return code


def pause(pid, seconds):
    os.kill(pid, signal.SIGSTOP)
    clock.sleep(seconds)
    os.kill(pid, signal.SIGCONT)


@pytest.fixture(scope="module", autouse=True)
def beside(tmp_path_factory):
    """Give the swarms that mostly wait, by name; they go on beside the other tests, five at a time."""
    plays = {
        "open": kill_one(POISSON.replace("20/s", "4/s")),
        "closed": kill_one('kind = "closed"\nsessions = 6\nthink_time = "1s"'),
        "stopped": stop_one, "only": stop_the_only_one, "paused": stop_the_master,
        "streams": stream_past_the_end, "sessions": hold_sessions, "late": join_late, "twice": run_twice,
    }  # fmt: skip
    with ThreadPoolExecutor(5) as pool:
        started = {name: Beside(pool, tmp_path_factory.mktemp(name), play) for name, play in plays.items()}
        yield started
        for one in started.values():
            one.future.cancel()  # where no test has waited for it
        for one in started.values():
            one.close()


@pytest.fixture
def swarm(tmp_path, start_simulator):
    truth = tmp_path / "truth.jsonl"
    made = Swarm(tmp_path, start_simulator("--profile", "tiny", "--truth", str(truth)), truth)
    yield made
    made.close()


def locust(swarm, *arguments, **scenario):
    """Start `locust --processes 2`."""
    return swarm.locust("--processes", "2", "--r1-scenario", swarm.scenario(**scenario), *arguments)


def reasons(swarm):
    return " | ".join(swarm.document["validity"]["reasons"])


# --- Ends in order ---


@pytest.mark.parametrize("processes", [1, 3])
def test_plain_locust_ends_well(swarm, processes):
    arguments = ["--processes", processes] if processes > 1 else []
    master = swarm.locust(*arguments, "--r1-scenario", swarm.scenario(duration="3s"))
    code = swarm.wait(master)
    ended_well(swarm, code)
    assert len(swarm.document["workers"]) == processes
    assert swarm.output(master).splitlines()[-1] == f"runs/{swarm.archive.name}"
    whole(swarm)


def test_locusts_own_tables_show_our_requests(swarm):
    master = swarm.locust("--processes", "2", "--r1-scenario", swarm.scenario(duration="3s"), "--json-file", "stats")
    swarm.wait(master)
    counts = swarm.document["counts"]
    stats = {row["method"]: row for row in json.loads((swarm.folder / "stats.json").read_text())}
    assert set(stats) == {"chat", "aime"}
    assert sum(row["num_requests"] for row in stats.values()) == counts["scheduled"]
    document = {row["name"]: row["counts"]["scheduled"] for row in swarm.document["workloads"]}
    assert {name: row["num_requests"] for name, row in stats.items()} == document
    assert {row["name"] for row in stats.values()} == {
        f"{swarm.simulator.url.removeprefix('http://')}/deepseek-r1".replace("/v1", "")
    }


MIXED = """
from locust import HttpUser, constant, task

from r1perf.swarm import R1User, swarm

swarm("smoke")


class Pages(HttpUser):
    host = "{url}"
    wait_time = constant(0.1)

    @task
    def models(self):
        self.client.get("/models", name="models")
"""


def test_a_locustfile_can_mix_our_users_with_its_own(swarm):
    locustfile = swarm.folder / "mixed.py"
    locustfile.write_text(MIXED.format(url=swarm.simulator.url))
    master = swarm.locust(
        "--processes",
        "2",
        "--r1-scenario",
        swarm.scenario(duration="3s"),
        "-u",
        "4",
        "-r",
        "4",
        "--json-file",
        "stats",
        locustfile=locustfile,
    )
    ended_well(swarm, swarm.wait(master))
    stats = {(row["method"], row["name"]): row for row in json.loads((swarm.folder / "stats.json").read_text())}
    assert stats["GET", "models"]["num_requests"] > 10
    ours = sum(row["num_requests"] for (method, _), row in stats.items() if method in ("chat", "aime"))
    assert ours == swarm.document["counts"]["scheduled"] == len(swarm.lines())


# --- Signals ---


def test_ctrl_c_to_the_process_group_drains_and_completes_the_archive(swarm):
    master = locust(swarm, duration="60s")
    swarm.until(20)
    swarm.interrupt_group(master)
    assert swarm.wait(master) == 130
    assert (swarm.document["status"], swarm.document["reason"]) == ("interrupted", "by Ctrl-C or a signal")
    assert "cancelled" not in swarm.document["counts"]
    whole(swarm)


def test_ctrl_c_ends_a_waiting_run_and_one_that_goes_on(swarm):
    waiting = swarm.master(swarm.scenario(duration="60s"), 2)
    swarm.until_said(waiting, "0 of 2")
    waiting.send_signal(signal.SIGINT)
    assert swarm.wait(waiting) == 130
    assert not swarm.runs.exists()
    master = swarm.master(swarm.scenario(duration="60s"), 2)
    workers = [swarm.worker(), swarm.worker()]
    swarm.until(20)
    master.send_signal(signal.SIGINT)
    assert swarm.wait(master) == 130
    assert [swarm.wait(worker) for worker in workers] == [0, 0]
    assert swarm.document["status"] == "interrupted"
    whole(swarm)


def test_a_second_ctrl_c_cuts_and_loses_nothing(swarm):
    master = locust(swarm, workloads=MIX + LONG, duration="60s")
    swarm.until(10)
    swarm.interrupt_group(master)
    clock.sleep(1)
    swarm.interrupt_group(master)
    assert swarm.wait(master, 15) == 130
    assert min(swarm.document["counts"][outcome] for outcome in ("ok", "cancelled")) > 0
    assert "Traceback" not in swarm.output(master)
    whole(swarm)


def test_a_terminated_worker_drains_says_so_and_ends_the_run(swarm):
    master = locust(swarm, duration="60s")
    swarm.until(20)
    os.kill(swarm.pid("1"), signal.SIGTERM)
    assert swarm.wait(master) == 3
    assert swarm.document["reason"] == "worker 1: the worker was asked to end by SIGTERM"
    assert "lost" not in swarm.document["counts"]
    whole(swarm)


def test_a_terminated_master_drains_and_completes_the_archive(swarm):
    master = locust(swarm, duration="60s")
    swarm.until(20)
    master.terminate()
    assert swarm.wait(master) == 130
    assert swarm.document["status"] == "interrupted"
    assert not {"cancelled", "lost"} & swarm.document["counts"].keys()
    whole(swarm)


def test_a_killed_master_leaves_files_from_which_the_run_is_rebuilt(swarm):
    master = swarm.master(swarm.scenario(duration="60s"), 2)
    workers = [swarm.worker(), swarm.worker()]
    swarm.until(30)
    master.kill()
    assert [swarm.wait(worker, 20) for worker in workers] == [3, 3]
    assert swarm.document["status"] == "running"
    recovered = subprocess.run([*R1PERF, "recover", str(swarm.archive), "--write"], capture_output=True, text=True, check=False)
    assert recovered.returncode == 3
    assert "rebuilt from what its workers had" in recovered.stdout
    assert swarm.document["counts"]["ok"] >= 30
    whole(swarm)


def test_a_worker_without_its_key_says_so_before_the_run(swarm):
    scenario = swarm.scenario()
    scenario.write_text(scenario.read_text().replace('model = "deepseek-r1"', 'model = "deepseek-r1"\napi_key_env = "SWARM_KEY"'))
    with_key = {"env": {**os.environ, "SWARM_KEY": "very-secret"}}
    master = swarm.locust("--master", "--expect-workers", "2", "--r1-scenario", scenario, **with_key)
    ready = swarm.locust("--worker", **with_key)
    lacking = swarm.worker()
    assert [swarm.wait(process) for process in (master, lacking, ready)] == [2, 2, 0]
    says = "the environment variable SWARM_KEY is not set"
    assert re.search(rf"worker [01] \(\S+\): {says}", swarm.output(master))
    assert f"r1perf: {says}" in swarm.output(lacking)
    assert says not in swarm.output(ready)
    assert not list(swarm.runs.iterdir())
    assert not swarm.truths()


def test_a_wrong_scenario_leaves_no_process_behind(swarm):
    master = swarm.locust("--processes", "2", "--r1-rate", "0/s")
    assert swarm.wait(master, 20) == 2
    assert "`arrivals.rate`: must be greater than 0" in swarm.output(master)
    with pytest.raises(ProcessLookupError):  # nobody is left in its group
        os.killpg(master.pid, 0)


def test_a_worker_without_the_masters_users_is_refused_before_anything_is_spawned(swarm):
    locustfile = swarm.folder / "mixed.py"
    locustfile.write_text(MIXED.format(url=swarm.simulator.url))
    master = swarm.locust("--master", "--expect-workers", "1", "--r1-scenario", swarm.scenario(), locustfile=locustfile)
    worker = swarm.worker()
    assert swarm.wait(master) == 2
    assert swarm.wait(worker) == 0
    assert "does not know the master's user Pages" in swarm.output(master)
    assert "Traceback" not in swarm.output(worker)
    assert not (swarm.folder / "runs").exists()


# --- In the web UI ---


def post(port, path, **form):
    data = urllib.parse.urlencode(form).encode()
    with urllib.request.urlopen(f"http://127.0.0.1:{port}{path}", data, timeout=60) as response:
        return json.loads(response.read())


def answers(port, wanted):
    """Wait until the web UI says this of its workers."""
    for _ in range(200):
        with contextlib.suppress(OSError), urllib.request.urlopen(f"http://127.0.0.1:{port}/worker-count", timeout=5) as response:
            if wanted(json.loads(response.read())):
                return
        clock.sleep(0.1)
    raise AssertionError("the web UI never came to it")


def test_runs_are_started_changed_and_stopped_in_the_web_ui(swarm):
    port = free_port()
    master = swarm.start(
        *LOCUST[:3], "-f", LOCUSTFILES / "smoke.py", "--master", "--web-port", port, "--master-bind-port", swarm.port
    )
    scenario = swarm.scenario(duration="60s")
    answers(port, lambda ui: ui["worker_count"] == 0)
    early = post(port, "/swarm", r1_scenario=scenario, r1_rate="10/s")
    assert (early["success"], early["message"][:18]) == (False, "no worker is there")
    workers = [swarm.worker(), swarm.worker()]
    answers(port, lambda ui: ui["worker_count"] == 2)
    for number in (1, 2):
        said = post(port, "/swarm", r1_scenario=scenario, r1_rate="10/s")
        assert said["success"], said
        swarm.until(10, run=number)
        post(port, "/swarm", r1_rate="40/s")
        swarm.until(50, run=number)
        post(port, "/stop")  # waits until everything in flight has ended
        folders = sorted(swarm.runs.iterdir())
        assert len(folders) == number
        document = json.loads((folders[-1] / "run.json").read_text())
        assert (document["status"], document["reason"]) == ("finished", "Locust was asked to stop the test")
        assert [row["plan"]["name"] for row in document["stages"]] == ["poisson", "drain", "live-1"]
        assert document["stages"][2]["counts"]["ok"] > 10
        assert document["counts"]["scheduled"] == sum(document["counts"].get(outcome, 0) for outcome in ("ok", "truncated"))
        assert document["counts"]["scheduled"] == sum(row["counts"]["scheduled"] for row in document["stages"])
    master.kill()  # between runs: workers do not wait for it either
    assert [swarm.wait(worker, 20) for worker in workers] == [0, 0]
    assert all("the master is gone" in swarm.output(worker) for worker in workers)


def test_a_run_that_ends_while_its_sessions_still_come_says_so_and_lets_the_next_one_begin(swarm):
    port = free_port()
    swarm.start(
        *LOCUST[:3], "-f", LOCUSTFILES / "closed_32.py", "--processes", 1, "--web-port", port, "--master-bind-port", swarm.port,
        "--master-port", swarm.port,
    )  # fmt: skip
    scenario = swarm.scenario(duration="60s", arrivals='kind = "closed"\nsessions = 32')
    answers(port, lambda ui: ui["worker_count"] == 1)
    post(port, "/swarm", r1_scenario=scenario, user_count=4, spawn_rate=1)
    swarm.until(1)
    with urllib.request.urlopen(f"http://127.0.0.1:{port}/r1perf/act", b"act=stop", timeout=60):
        clock.sleep(3.5)  # the last of the users would have come, and Locust would call the test a running one
    post(port, "/swarm", r1_scenario=scenario, user_count=2, spawn_rate=2)
    swarm.until(1, seconds=10, run=2)
    documents = [json.loads((folder / "run.json").read_text()) for folder in sorted(swarm.runs.iterdir())]
    assert [(document["status"], document.get("reason")) for document in documents] == [
        ("finished", "somebody stopped it on the page"), ("running", None),
    ]  # fmt: skip
    first = documents[0]["stages"][0]["plan"]["says"]
    assert re.fullmatch(r"closed, sessions by Locust's users \(1( to [23])?, 4 asked for at 1/s\)", first)


# --- Elsewhere ---


@pytest.mark.skipif(os.geteuid() != 0 or not shutil.which("unshare"), reason="needs a process table of its own: root and unshare")
def test_the_files_of_a_worker_elsewhere_are_fetched(swarm, tmp_path):
    elsewhere = tmp_path / "elsewhere"
    elsewhere.mkdir()
    master = swarm.master(swarm.scenario(duration="3s"), 2)
    swarm.worker()
    swarm.worker("unshare", "--pid", "--fork", "--mount-proc", "--kill-child", cwd=elsewhere)
    code = swarm.wait(master)
    assert swarm.document["status"] == "finished", code
    facts = swarm.document["environment"]["workers"]
    (away,) = [name for name, fact in facts.items() if "folder" in fact]
    theirs = Path(facts[away]["folder"])
    assert theirs == elsewhere / "runs" / swarm.archive.name
    for name in (f"requests.{away}.jsonl", f"snapshots.{away}"):
        assert (theirs / name).read_bytes() == (swarm.archive / name).read_bytes()
    whole(swarm)


# --- Those beside ---


def test_a_paused_master_loses_nothing(beside):
    swarm, code = beside["paused"].end()
    ended_well(swarm, code)
    whole(swarm)


def test_a_worker_that_is_stopped_for_a_while_loses_nothing(beside):
    swarm, code = beside["stopped"].end()
    assert code == 3
    assert "late" in reasons(swarm)
    assert "lost" not in swarm.document["counts"]
    whole(swarm)


def test_the_only_worker_that_is_stopped_for_a_while_ends_the_test_and_loses_nothing(beside):
    swarm, code = beside["only"].end()
    assert code == 3
    assert swarm.document["reason"] == "the last worker went missing"
    assert "lost" not in swarm.document["counts"]
    whole(swarm)


def test_streams_longer_than_the_run_and_any_stop_timeout_are_waited_for(beside):
    swarm, code = beside["streams"].end()
    ended_well(swarm, code)
    assert swarm.document["elapsed_s"] > 6
    assert swarm.document["reason"] == "Locust was asked to stop the test"
    assert "cancelled" not in swarm.document["counts"]
    whole(swarm)


def test_a_locust_user_is_one_session(beside):
    swarm, code = beside["sessions"].end()
    ended_well(swarm, code)
    lines = swarm.lines()
    sessions = {line.arrival % USERS for line in lines}
    assert sessions == set(range(USERS))
    # A session sends one request at a time.
    for session in sessions:
        mine = sorted((line.scheduled_ns, line.done_ns) for line in lines if line.arrival % USERS == session)
        assert all(done <= scheduled for (_, done), (scheduled, _) in itertools.pairwise(mine))
    # Locust's first users are worker 0's, and so are the first sessions: shards by users, as the plan has them.
    assert {line.arrival % USERS for line in swarm.lines("0")} == set(range(0, USERS, 2))


def test_a_worker_that_joins_has_no_part_in_the_run(beside):
    swarm, code = beside["late"].end()
    ended_well(swarm, code)
    assert swarm.document["workers"] == ["0", "1"]
    assert swarm.output(swarm.processes[0]).count("has joined: it waits for the next run") == 2
    assert {line.arrival % 6 for line in swarm.lines()} == set(range(6)), "no session was begun on another worker"
    whole(swarm)


def test_r1perf_run_waits_for_its_workers_and_ends_well(beside):
    swarm, code = beside["twice"].end()
    (swarm.runs,) = swarm.runs.iterdir()
    first, second = sorted(swarm.runs.iterdir())
    for folder in (first, second):
        swarm.runs = folder.parent / f"only-{folder.name}"
        swarm.runs.mkdir()
        folder.rename(swarm.runs / folder.name)
        assert swarm.document["status"] == "finished"
        assert len(swarm.document["workers"]) == 2
        assert code in (0, 3)
        counts = swarm.document["counts"]
        assert counts["scheduled"] == len(swarm.lines())


@pytest.mark.parametrize("loop", ["open", "closed"])
def test_nothing_is_sent_twice_in_the_70_seconds_after_a_worker_was_killed(beside, loop):
    swarm, code = beside[loop].end()
    assert code == 3
    document = swarm.document
    assert document["reason"] == "worker 1 was lost: its process has ended"
    assert document["status"] == "finished"
    assert document["validity"]["valid"] is False
    assert document["counts"]["ok"] > 20
    assert max(line.done_ns for line in swarm.lines("0")) - max(line.done_ns for line in swarm.lines("1")) > 65e9
    whole(swarm, swarm.killed_ns)
    survivors = [line for worker in "02" for line in swarm.lines(worker)]
    assert "Ramping" not in swarm.output(swarm.processes[0])
    assert swarm.output(swarm.processes[0]).count("Sending spawn jobs") == 1
    if loop == "closed":  # nobody else takes over the sessions of the lost worker
        assert {line.arrival % 6 for line in survivors} == {0, 2, 3, 5}
