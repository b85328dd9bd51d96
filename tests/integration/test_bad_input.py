"""What people get wrong and what targets do wrong: one sentence and the right exit code, never a traceback.

`test_run.py` has the mistakes that are met first; here are those of files, of the environment and of servers that are none.
"""

import subprocess

import pytest
import runs
from loopback import Loopback

SMOKE = ("--url", "simulate:tiny", "--requests", "4", "--rate", "20/s", "--quiet")

FILES = [
    pytest.param("set.jsonl", b'{"problem": "1+1", "answer": "2"}\n{"problem": "x" "answer": 3}\n', " line 2: JSON is malformed", id="JSON"),
    pytest.param("set.jsonl", b'{"question": "1+1"}\n', r" line 1: has no `problem` or `Problem` \(it has question\)", id="column"),
    pytest.param("set.csv", b"problem,answer\n\xff\xfe,1\n", r" line 2: is not UTF-8 text \(byte 0xff\)", id="bytes"),
    pytest.param("set.jsonl", None, ": no such file", id="missing"),
]  # fmt: skip


@pytest.mark.parametrize(("name", "content", "says"), FILES)
def test_a_data_file_that_cannot_be_read_names_file_and_line(tmp_path, name, content, says):
    if content is not None:
        (tmp_path / name).write_bytes(content)
    ran = runs.run(tmp_path / "runs", "aime", *SMOKE, "--set", f'workload.aime.dataset.file="{tmp_path / name}"')
    runs.refused(ran, f"^r1perf: `workload.aime.dataset`: {tmp_path / name}{says}")


def test_a_folder_in_place_of_a_data_file(tmp_path):
    (tmp_path / "set.jsonl").mkdir()
    ran = runs.run(tmp_path / "runs", "aime", *SMOKE, "--set", f'workload.aime.dataset.file="{tmp_path}/set.jsonl"')
    runs.refused(ran, r"set\.jsonl: not a file")


ARGUMENTS = [
    pytest.param(["--rate", "1000000/s", "--duration", "10h"], r"makes about 36,000,000,000 arrivals; at most 20,000,000 fit in a plan", id="huge plan"),
    pytest.param(["--sessions", "100000000"], "`arrivals.sessions`: must be at most 100000, not 100000000", id="sessions"),
    pytest.param(["--rate", "2/s", "--sessions", "3"], "--rate and --sessions exclude each other", id="rate and sessions"),
    pytest.param(["--set", "target.headers.X-Team=höhö"], "`target.headers.X-Team`: has a line break or a character that is not ASCII", id="header"),
    pytest.param(["--url", "http://[::1/v1"], r'`target.url`: "http://\[::1/v1" is not a url', id="brackets"),
    pytest.param(["--url", "http://no-such-host.invalid/v1"], "the name no-such-host.invalid cannot be resolved", id="unknown host"),
    pytest.param(["--url", "simulate:tiny?sped=3"], "the simulated endpoint cannot start: No such option", id="simulator's option"),
]  # fmt: skip


@pytest.mark.parametrize(("arguments", "says"), ARGUMENTS)
def test_arguments_that_make_no_run(tmp_path, arguments, says):
    runs.refused(runs.run(tmp_path / "runs", "smoke", "--model", "m", *arguments), says)


@pytest.mark.parametrize("key", ["sk-se\ncret", "sk-sécret"])
def test_a_key_that_cannot_be_sent_is_not_shown(tmp_path, key):
    ran = runs.run(tmp_path / "runs", "smoke", *SMOKE, "--set", "target.api_key_env=TEST_KEY", env={"TEST_KEY": key})
    runs.refused(ran, "the key in the environment variable TEST_KEY holds a line break or a character that is not ASCII")
    assert "cret" not in ran.stderr


@pytest.mark.parametrize(
    ("proxy", "says"),
    [
        ("nonsense::[", "the proxy that the environment names for http is not a URL"),
        (
            "socks5://127.0.0.1:9",
            "the environment names a socks5 proxy at 127.0.0.1 for http: only http:// proxies are supported",
        ),
        ("http://no-such-proxy.invalid:3128", r"the name no-such-proxy\.invalid of the proxy cannot be resolved"),
        ("http://user:hidden@127.0.0.1:1", r"no connection to the proxy at 127\.0\.0\.1:1: connection refused"),
    ],
)
def test_a_proxy_that_cannot_be_used(tmp_path, proxy, says):
    env = {"http_proxy": proxy, "HTTP_PROXY": proxy, "no_proxy": "", "NO_PROXY": ""}
    ran = runs.run(tmp_path / "runs", "smoke", "--url", "http://192.0.2.1/v1", "--model", "m", env=env)
    runs.refused(ran, says)
    assert "hidden" not in ran.stderr


def test_the_sdk_that_is_not_there(tmp_path):
    (tmp_path / "openai.py").write_text('raise ImportError("there is none")')
    ran = runs.run(tmp_path / "runs", "smoke", *SMOKE, "--set", "target.engine=openai", env={"PYTHONPATH": str(tmp_path)})
    runs.refused(ran, r'`target\.engine = "openai"` needs the openai package, version 3 or later: pip install "r1perf\[openai\]"')


@pytest.mark.parametrize("below", ["", "/below"])
def test_a_file_where_the_runs_should_go(tmp_path, below):
    (tmp_path / "file").write_text("mine")
    ran = runs.run(tmp_path / f"file{below}", "smoke", *SMOKE)
    assert (ran.code, ran.stdout) == (2, "")
    assert ran.stderr.startswith(f"r1perf: no run archive can be made in {tmp_path}/file{below}: ")
    assert len(ran.stderr.splitlines()) == 1
    assert (tmp_path / "file").read_text() == "mine"


@pytest.mark.parametrize(
    ("content", "says"),
    [(b'name = "\xff"', "cannot be read: 'utf-8' codec can't decode byte 0xff"), (b"name = 'x'\n[targ", "is not TOML")],
)
def test_a_scenario_that_cannot_be_read(tmp_path, content, says):
    (tmp_path / "odd.toml").write_bytes(content)
    runs.refused(runs.run(tmp_path / "runs", tmp_path / "odd.toml"), says)


# --- Servers that are none ---


def silent(peer):
    peer.closed()


def closes(peer):
    peer.request()


def resets(peer):
    peer.request()
    peer.reset()


def garbles(peer):
    peer.request()
    peer.send(b"SSH-2.0-OpenSSH_9.2p1 Debian\r\n")
    peer.closed()


@pytest.mark.parametrize(
    ("serve", "says"),
    [
        (closes, "cannot be reached: the new connection was closed before any response$"),
        (resets, "cannot be reached: the new connection was reset before any response$"),
        (garbles, "cannot be reached: the response is not HTTP/1.1: "),
    ],
)
@pytest.mark.parametrize("command", ["run", "probe"])
def test_a_port_that_serves_something_else(tmp_path, serve, says, command):
    with Loopback(serve) as server:
        url = f"http://127.0.0.1:{server.port}/v1"
        if command == "run":
            runs.refused(runs.run(tmp_path / "runs", "smoke", "--url", url, "--model", "m"), says)
        else:
            done = subprocess.run([*runs.R1PERF, "probe", url], capture_output=True, text=True, timeout=30, check=False)
            assert (done.returncode, done.stdout) == (2, "")
            assert len(done.stderr.splitlines()) == 1
            assert server.connections == 1


TIMEOUTS = ("--set", 'target.timeouts={first_chunk="500ms", between_chunks="500ms", total="2s"}')


@pytest.mark.parametrize("engine", ["fast", "openai"])
def test_a_port_that_accepts_and_never_answers_is_a_timeout_for_every_request(tmp_path, engine):
    with Loopback(silent) as server:
        url = f"http://127.0.0.1:{server.port}/v1"
        ran = runs.run(
            tmp_path / "runs", "smoke", "--url", url, "--model", "m", "--requests", "4", "--rate", "20/s", "--quiet",
            "--set", f"target.engine={engine}", *TIMEOUTS,
        )  # fmt: skip
    runs.ended(ran)
    assert {(result.outcome, result.reason) for result in ran.results} == {("timeout", "first_chunk")}
    assert "/v1/models does not answer within 2 s: the models served are not known beforehand" in ran.stderr


def page(peer):
    """Be some web server, whatever is asked for."""
    while peer.request() is not None:
        body = b"<html><head><title>Hi</title></head><body>Welcome to nginx!</body></html>"
        peer.send(b"HTTP/1.1 200 OK\r\nContent-Type: text/html\r\nContent-Length: %d\r\n\r\n%b" % (len(body), body))


def moved(peer):
    while peer.request() is not None:
        peer.send(b"HTTP/1.1 301 Moved\r\nLocation: https://elsewhere.example/v1\r\nContent-Length: 0\r\n\r\n")


def nothing(peer):
    """Answer with an empty stream."""
    while peer.request() is not None:
        peer.send(b"HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\nContent-Length: 0\r\n\r\n")


@pytest.mark.parametrize(
    ("serve", "outcome", "message"),
    [
        (page, ("stream_error", "not_json"), "the answer is not JSON: Hi Welcome to nginx!"),
        (moved, ("client_error", "http_301"), "redirected to https://elsewhere.example/v1, which is not followed"),
        (nothing, ("stream_broken", "no_finish_reason"), "the response (text/event-stream) ended without a finish_reason"),
    ],
)
def test_a_server_that_is_no_endpoint_fails_every_request_and_says_why(tmp_path, serve, outcome, message):
    with Loopback(serve) as server:
        url = f"http://127.0.0.1:{server.port}/v1"
        ran = runs.run(
            tmp_path / "runs", "smoke", "--url", url, "--model", "m", "--requests", "4", "--rate", "20/s", "--quiet", *TIMEOUTS
        )
    runs.ended(ran)
    assert {((result.outcome, result.reason), result.message) for result in ran.results} == {(outcome, message)}
    assert "the models served are not known beforehand" in ran.stderr
