"""The compose files keep to the specification and to the house's rules, and what they start, starts: here, without containers."""

import importlib.util
import json
import os
import re
import shutil
import signal
import subprocess
import sys
import tomllib
import urllib.request
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
import yaml
from influx import InfluxDb
from services import ROOT, Service, free_port, missing

from r1perf import clock

INFRA = ROOT / "infra"
COMPOSE = INFRA / "compose"
FILES = (COMPOSE / "services.yaml", COMPOSE / "compose.yaml")
ENV = COMPOSE / "env"
SERVICES = {name: service for path in FILES for name, service in yaml.safe_load(path.read_text())["services"].items()}
KEPT = ("influxdb", "grafana")
LOAD = ("simulator", "master", "worker", "r1perf")


@pytest.fixture
def generated(tmp_path: Path) -> dict[str, str]:
    """Give what the generator writes into a copy of the folder."""
    return generate(tmp_path)


def generate(folder: Path) -> dict[str, str]:
    copy = shutil.copy(ENV, folder / "env")
    subprocess.run([copy], check=True, capture_output=True)
    lines = [line for line in (folder / ".env").read_text().splitlines() if not line.startswith("#")]
    return dict(line.split("=", 1) for line in lines)


# --- Rules ---


def test_files_keep_to_the_compose_specification():
    words = [sys.executable, "-m", "check_jsonschema", "--builtin-schema", "vendor.compose-spec", *FILES]
    checked = subprocess.run(words, capture_output=True, text=True, check=False)
    assert checked.returncode == 0, checked.stdout


def test_what_breaks_the_specification_is_found(tmp_path):
    broken = tmp_path / "compose.yaml"
    broken.write_text(FILES[1].read_text().replace("healthcheck:", "health_check:"))
    words = [sys.executable, "-m", "check_jsonschema", "--builtin-schema", "vendor.compose-spec", broken]
    assert subprocess.run(words, capture_output=True, check=False).returncode == 1


def test_all_services_are_there():
    assert set(SERVICES) == {*KEPT, *LOAD}
    assert yaml.safe_load(FILES[1].read_text())["include"] == ["services.yaml"]


@pytest.mark.parametrize("name", SERVICES)
def test_ports_are_published_on_this_machine_alone(name):
    assert [port for port in SERVICES[name].get("ports", ()) if not port.startswith("127.0.0.1:")] == []


@pytest.mark.parametrize("name", SERVICES)
def test_images_are_pinned_or_built_here(name):
    image = SERVICES[name]["image"]
    assert re.fullmatch(r"[a-z/]+:\d+\.\d+\.\d+(-[a-z]+)?(@sha256:[0-9a-f]{64})?", image) or (
        image == "r1perf:local" and SERVICES[name]["build"] == {"context": "../..", "dockerfile": "infra/Dockerfile"}
    )


@pytest.mark.parametrize("name", SERVICES)
def test_every_service_has_a_limit_and_no_new_privileges(name):
    service = SERVICES[name]
    assert set(service["deploy"]["resources"]["limits"]) == {"cpus", "memory"}
    assert service["security_opt"] == ["no-new-privileges:true"]


@pytest.mark.parametrize("name", SERVICES)
def test_every_service_says_whether_it_is_well(name):
    check = SERVICES[name]["healthcheck"]
    assert check.get("disable") if name == "r1perf" else check["test"][0] == "CMD"


def test_load_never_starts_again_by_itself():
    assert {name: SERVICES[name]["restart"] for name in LOAD} == dict.fromkeys(LOAD, "no")
    assert {name: SERVICES[name]["restart"] for name in KEPT} == dict.fromkeys(KEPT, "unless-stopped")


def test_secrets_come_from_the_environment_and_are_asked_for():
    secrets = {
        (name, key, value)
        for name, service in SERVICES.items()
        for key, value in service.get("environment", {}).items()
        if re.search(r"TOKEN|PASSWORD|KEY", key)
    }
    assert len(secrets) == 10
    assert [each for each in secrets if not re.fullmatch(r"\$\{\w+:(\?run infra/compose/env first|-)\}", each[2])] == []


def test_every_variable_is_generated_or_has_a_default(generated):
    used = {found for path in FILES for found in re.findall(r"\$\{(\w+)(:?[-?])?", path.read_text())}
    assert {name for name, default in used if default != ":-"} <= set(generated)
    assert {"INFLUXDB_V2_TOKEN", "GRAFANA_ADMIN_PASSWORD"} <= {name for name, _ in used}


# --- The generator ---


def test_env_is_written_once_for_its_owner_alone(tmp_path):
    first = generate(tmp_path)
    assert (tmp_path / ".env").stat().st_mode & 0o777 == 0o600
    assert sorted(path.name for path in tmp_path.iterdir()) == [".env", "env"]
    again = subprocess.run([tmp_path / "env"], capture_output=True, text=True, check=True)
    assert "was left as it is" in again.stdout
    assert generate(tmp_path) == first
    assert not [value for key, value in first.items() if len(value) == 48 and value in again.stdout + again.stderr]


@pytest.mark.parametrize("port", [None, "18086"])
def test_runs_go_to_the_port_that_influxdb_has(tmp_path, port):
    """What a shell reads of the file is what compose publishes: a token goes nowhere else."""
    generate(tmp_path)
    file = tmp_path / ".env"
    if port is not None:
        file.write_text(file.read_text().replace("#INFLUXDB_PORT=8086\n", f"INFLUXDB_PORT={port}\n"))
    words = ["sh", "-c", 'set -a; . "$1"; set +a; echo "$INFLUXDB_V2_URL"', "sh", file]
    clean = {name: value for name, value in os.environ.items() if not name.startswith("INFLUXDB_")}
    read = subprocess.run(words, capture_output=True, text=True, check=True, env=clean).stdout
    assert read == f"http://127.0.0.1:{port or 8086}\n"
    published = SERVICES["influxdb"]["ports"]
    assert published == ["127.0.0.1:${INFLUXDB_PORT:-8086}:8086"]


def test_secrets_are_random_and_differ(tmp_path):
    both = []
    for name in ("a", "b"):
        (tmp_path / name).mkdir()
        both.append(generate(tmp_path / name))
    secrets = [values[key] for values in both for key in values if re.search(r"TOKEN|PASSWORD", key)]
    assert len(secrets) == len(set(secrets)) == 6
    assert [secret for secret in secrets if not re.fullmatch("[0-9a-f]{48}", secret)] == []


def test_env_is_never_committed():
    ignored = subprocess.run(["git", "check-ignore", "-q", COMPOSE / ".env"], cwd=ROOT, check=False)
    if ignored.returncode == 128:
        pytest.skip("not a git clone")
    assert ignored.returncode == 0


# --- The files as the engine's own client reads them ---


def client() -> list[str]:
    """Return how Docker's compose client is called; it needs no engine to read files."""
    named = os.environ.get("R1PERF_COMPOSE")
    for words in ([named] if named else [], ["docker", "compose"], ["docker-compose"]):
        if words and shutil.which(words[0]):
            says = subprocess.run([*words, "version", "--short"], capture_output=True, text=True, check=False)
            if says.returncode == 0 and new_enough(says.stdout):
                return words
    missing("compose")


def new_enough(says: str) -> bool:
    """Tell whether a client is of version 2 or later; one built from plain sources calls itself "dev", and 1 was never built so."""
    number = re.match(r"v?(\d+)\.", says)
    return says.strip() == "dev" if number is None else int(number[1]) >= 2


@pytest.mark.parametrize(
    ("says", "enough"),
    [("2.20.3\n", True), ("v5.0.1\n", True), ("1.29.2\n", False), ("dev\n", True), ("what?\n", False), ("", False)],
)
def test_a_compose_client_is_used_from_version_2_on(says, enough):
    assert new_enough(says) is enough


@pytest.fixture
def tree(tmp_path):
    """Give a copy of infra/ that has its .env."""
    shutil.copytree(INFRA, tmp_path / "infra", ignore=shutil.ignore_patterns(".env", "__pycache__"))
    generate(tmp_path / "infra" / "compose")
    return tmp_path / "infra" / "compose"


def test_compose_itself_reads_the_files(tree):
    words = [*client(), "-f", tree / "compose.yaml", "--profile", "command", "config", "--format", "json"]
    read = json.loads(subprocess.run(words, capture_output=True, check=True).stdout)
    assert set(read["services"]) == {*KEPT, *LOAD}
    assert {port["host_ip"] for service in read["services"].values() for port in service.get("ports", ())} == {"127.0.0.1"}
    assert set(read["volumes"]) == {"influxdb-data", "influxdb-config", "grafana-data", "runs"}


def test_without_its_env_compose_says_what_to_do(tree):
    (tree / ".env").unlink()
    words = [*client(), "-f", tree / "compose.yaml", "config"]
    refused = subprocess.run(words, capture_output=True, text=True, check=False)
    assert refused.returncode != 0
    assert "run infra/compose/env first" in refused.stderr


# --- What the containers run, run here ---


def here(name: str, places: dict[str, str]) -> list[str]:
    """Return a service's command line with the container's paths, hosts and ports replaced by this machine's."""
    service = SERVICES[name]
    entrypoint = service.get("entrypoint") or json.loads(
        re.search(r"^ENTRYPOINT (.*)$", (INFRA / "Dockerfile").read_text(), re.MULTILINE)[1]
    )
    words = [places.get(word, word) for word in [*entrypoint[1:], *service["command"]]]
    return [sys.executable, "-u", "-m", entrypoint[0], *words]


def well(name: str, places: dict[str, str]) -> bool:
    """Carry out a service's health check."""
    words = SERVICES[name]["healthcheck"]["test"][1:]
    for word, instead in places.items():
        words = [re.sub(rf"\b{re.escape(word)}\b", instead, each) for each in words]
    return (
        subprocess.run(
            [sys.executable if words[0] == "python" else words[0], *words[1:]], capture_output=True, check=False
        ).returncode
        == 0
    )


@pytest.fixture
def started(tmp_path) -> Iterator[Callable[..., Service]]:
    """Give a function that starts a service's command and waits until its health check is green."""
    running: list[Service] = []

    def start(name, places, checked, extra=(), environ=None) -> Service:
        assert not well(name, checked)  # green without the service would say nothing
        running.append(Service([*here(name, places), *extra], tmp_path / f"{name}.log", environ))
        return running[-1].wait(lambda: "well" if well(name, checked) else None, 30)

    yield start
    for service in reversed(running):
        service.stop()


def test_the_simulated_endpoint_gets_well(started):
    port = str(free_port())
    simulator = started("simulator", {"0.0.0.0": "127.0.0.1", "8000": port}, {"8000": port})
    assert simulator.process.poll() is None


LOCUSTS_PORT = """
from locust.argument_parser import get_empty_argument_parser, setup_parser_arguments
parser = get_empty_argument_parser(add_help=False)
setup_parser_arguments(parser)
print(parser.get_default("master_port"))
"""


def test_the_port_of_the_workers_check_is_locusts():
    words = [sys.executable, "-c", LOCUSTS_PORT]  # elsewhere, for Locust patches the process that imports it
    port = subprocess.run(words, capture_output=True, text=True, check=True).stdout
    assert f":{int(port):04X} 01 " in SERVICES["worker"]["healthcheck"]["test"]


def test_the_scenario_of_the_swarm_is_one():
    words = [sys.executable, "-m", "r1perf", "check", COMPOSE / "scenario.toml"]
    checked = subprocess.run(words, capture_output=True, text=True, check=False)
    assert checked.returncode == 0, checked.stderr
    url = tomllib.loads((COMPOSE / "scenario.toml").read_text())["target"]["url"]
    assert url == f"http://simulator:{SERVICES['simulator']['ports'][0].rpartition(':')[2]}/v1"


class Fresh(InfluxDb):
    """An InfluxDB 2 that nobody has set up."""

    def _first_user(self) -> None:
        pass


def test_what_is_generated_sets_influxdb_up(generated, tmp_path):
    def value(key: str) -> str:
        return re.sub(r"\$\{(\w+):[^}]*\}", lambda found: generated.get(found[1], ""), SERVICES["influxdb"]["environment"][key])

    server = Fresh(2, tmp_path / "influxdb")
    if not server.own:
        pytest.skip("the server that the environment names is set up")
    try:
        assert well("influxdb", {"8086": str(server.port)})
        asked = {"username": "USERNAME", "password": "PASSWORD", "org": "ORG", "bucket": "BUCKET", "token": "ADMIN_TOKEN"}
        server.api("POST", "/api/v2/setup", {key: value(f"DOCKER_INFLUXDB_INIT_{name}") for key, name in asked.items()})
        server.org, server.token = generated["INFLUXDB_V2_ORG"], generated["INFLUXDB_V2_TOKEN"]
        names = [bucket["name"] for bucket in server.api("GET", "/api/v2/buckets")["buckets"]]
        assert generated["INFLUXDB_V2_BUCKET"] in names
    finally:
        server.stop()
    assert not well("influxdb", {"8086": str(server.port)})


def test_all_of_it_together_gets_well_leaves_a_run_in_influxdb_and_ends_when_told(started, tmp_path):
    if importlib.util.find_spec("locust") is None:  # importing it here would patch this process
        pytest.skip("locust is not installed: pip install 'r1perf[swarm]'")
    database = InfluxDb(2, tmp_path / "influxdb")
    bucket = database.bucket()
    port, web, bind = (str(free_port()) for _ in range(3))
    scenario = tmp_path / "scenario.toml"
    text = (COMPOSE / "scenario.toml").read_text().replace("simulator:8000", f"127.0.0.1:{port}").replace("20s", "1s")
    scenario.write_text(re.sub(r'duration = "\d+m"', 'duration = "2s"', text) + '[drain]\nmode = "1s"\n')
    places = {
        "0.0.0.0": "127.0.0.1", "8000": port, "8089": web, "/etc/r1perf/scenario.toml": str(scenario), "master": "127.0.0.1",
        "/opt/r1perf/locustfiles/r1_mixed.py": str(ROOT / "locustfiles" / "r1_mixed.py"),
    }  # fmt: skip
    folder = ["--r1-runs", str(tmp_path / "runs")]
    environ = database.environ(bucket)
    assert set(environ) <= set(SERVICES["master"]["environment"])
    try:
        started("simulator", places, {"8000": port})
        master = started("master", places, {"8089": web}, ["--master-bind-port", bind, *folder], environ)
        worker = started("worker", places, {"15B5": f"{int(bind):04X}"}, ["--master-port", bind, *folder])
        swarm = urllib.request.Request(f"http://127.0.0.1:{web}/swarm", b"user_count=1&spawn_rate=1&host=")
        with urllib.request.urlopen(swarm, timeout=10) as response:
            assert json.load(response)["success"] is True
        (run,) = awaited(60, lambda: [path for path in (tmp_path / "runs").glob("*/run.json") if finished(path)])
        document = json.loads(run.read_text())
        assert document["counts"]["scheduled"] > 0
        assert awaited(10, lambda: database.points(bucket, "r1_run") == 1 + len(document["workloads"]))
        assert database.points(bucket, "r1_interval") > 0
        for service in (worker, master):
            service.process.send_signal(signal.SIGTERM)
            assert service.process.wait(20) is not None
            assert "Traceback" not in service.text()
        assert not well("worker", {"15B5": f"{int(bind):04X}"})
    finally:
        database.stop()


def finished(path: Path) -> bool:
    return json.loads(path.read_text())["status"] == "finished"


def awaited(seconds: float, ask: Callable[[], Any]) -> Any:
    """Ask until there is an answer."""
    until_ns = clock.monotonic_ns() + int(seconds * 1e9)
    while not (answer := ask()):
        assert clock.monotonic_ns() < until_ns
        clock.sleep(0.1)
    return answer


# --- Grafana's provisioning ---

PROVISIONING = INFRA / "grafana" / "provisioning"


def test_grafana_finds_its_files_where_they_are_mounted():
    mounts = dict(volume.split(":")[:2] for volume in SERVICES["grafana"]["volumes"])
    folders = {where: (COMPOSE / here_).resolve() for here_, where in mounts.items() if here_.startswith(".")}
    assert folders == {"/etc/grafana/provisioning": PROVISIONING, "/etc/grafana/dashboards": INFRA / "grafana" / "dashboards"}
    (provider,) = yaml.safe_load((PROVISIONING / "dashboards" / "r1perf.yaml").read_text())["providers"]
    assert provider["options"]["path"] in folders
    home = Path(SERVICES["grafana"]["environment"]["GF_DASHBOARDS_DEFAULT_HOME_DASHBOARD_PATH"])
    assert (folders[str(home.parent)] / home.name).exists()


def test_the_data_source_gets_every_variable_that_it_reads():
    text = (PROVISIONING / "datasources" / "influxdb.yaml").read_text()
    assert set(re.findall(r"\$\{(\w+)\}", text)) <= set(SERVICES["grafana"]["environment"])
    (source,) = yaml.safe_load(text)["datasources"]
    assert source["jsonData"]["version"] == "Flux"
    assert "token" in source["secureJsonData"]
    assert SERVICES["grafana"]["environment"]["R1PERF_INFLUXDB_URL"] == "http://influxdb:8086"


# --- The image ---

DOCKERFILE = (INFRA / "Dockerfile").read_text()
FINAL = DOCKERFILE.rpartition("\nFROM ")[2]
PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text())


def copied() -> list[str]:
    """Return what the image takes from the repository."""
    return [word for line in re.findall(r"^COPY (?!--from)(.*)$", DOCKERFILE, re.MULTILINE) for word in line.split()[:-1]]


def test_the_image_takes_what_is_there_and_what_the_wheel_needs():
    assert [each for each in copied() if not (ROOT / each).exists()] == []
    wheel = PROJECT["tool"]["hatch"]["build"]["targets"]["wheel"]
    assert {
        *wheel["packages"],
        *wheel["force-include"],
        PROJECT["project"]["readme"],
        *PROJECT["project"]["license-files"],
    } <= set(copied())


def test_the_build_sees_nothing_else():
    lines = [line for line in (INFRA / "Dockerfile.dockerignore").read_text().splitlines() if not line.startswith("#")]
    assert lines[0] == "*"
    assert {line[1:] for line in lines if line.startswith("!")} == set(copied())


def test_the_image_has_only_extras_that_exist():
    (extras,) = re.findall(r"'\.\[([\w,]+)\]'", DOCKERFILE)
    assert set(extras.split(",")) <= set(PROJECT["project"]["optional-dependencies"])
    assert {"influxdb", "simulator", "swarm"} <= set(extras.split(","))


def test_the_image_is_pinned_runs_as_nobody_and_builds_nothing():
    assert len(set(re.findall(r"^FROM (\S+)", DOCKERFILE, re.MULTILINE))) == 1
    assert re.match(r"python:3\.11\.\d+-slim-bookworm\n", FINAL)
    (user,) = re.findall(r"^USER (\d+)$", FINAL, re.MULTILINE)
    assert int(user) >= 10000
    assert f"--uid {user} " in FINAL
    assert "pip install" not in FINAL
    assert "apt-get" not in FINAL
    assert "rm -rf /usr/local/lib/python3.11/site-packages/* /usr/local/bin/pip*" in FINAL


def test_a_volume_holds_the_archives():
    (folder,) = re.findall(r"^WORKDIR (/data)$", FINAL, re.MULTILINE)
    for name in ("master", "worker", "r1perf"):
        assert f"runs:{folder}/runs" in SERVICES[name]["volumes"]
