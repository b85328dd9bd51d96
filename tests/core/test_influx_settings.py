"""Which InfluxDB is meant, and every way of not saying it; addresses; the token shows itself nowhere."""

import pytest
from virtual_run import a_run

from r1perf.errors import UsageError
from r1perf.scenario import InfluxDb
from r1perf.sinks.archive import write_document
from r1perf.sinks.influxdb import address, server, settings
from r1perf.sinks.influxdb import settings as settings_of
from r1perf.sinks.influxdb.replay import Elsewhere, replay
from r1perf.summary import Summary, document
from r1perf.units import Duration

ENV = {
    "INFLUXDB_V2_URL": "http://env:8086/", "INFLUXDB_V2_ORG": "env-org", "INFLUXDB_V2_BUCKET": "env-bucket", "INFLUXDB_V2_TOKEN": "s3cret",
}  # fmt: skip


def test_nothing_said_is_no_sink():
    assert settings(None, {}) is None
    assert settings(None, {"INFLUXDB_V2_TOKEN": "x"}) is None


def test_the_environment_alone_is_enough():
    made = settings(None, ENV)
    assert (made.url, made.org, made.bucket, str(made.access.token)) == ("http://env:8086", "env-org", "env-bucket", "s3cret")
    assert (made.interval_ns, made.timeout_ns, made.deadline_ns, made.spool_bytes) == (10**10, 5 * 10**9, 10**10, 1 << 30)


def test_the_scenario_wins_and_the_environment_fills_in():
    table = InfluxDb(url="http://mine:1", token_env="MY_TOKEN", interval=Duration.parse("30s"), spool_mb=2)
    made = settings(table, ENV | {"MY_TOKEN": " other "})
    assert (made.url, made.org, made.bucket, str(made.access.token)) == ("http://mine:1", "env-org", "env-bucket", "other")
    assert (made.interval_ns, made.spool_bytes) == (30 * 10**9, 2 << 20)


def test_influxdb_1_needs_no_organization():
    assert settings(InfluxDb(url="http://h:1", bucket="db/rp"), {"INFLUXDB_V2_TOKEN": "user:password"}).org == "-"


MISSING = {
    "url": (InfluxDb(bucket="b"), {}, "`sinks.influxdb.url`: is missing, and INFLUXDB_V2_URL is not set in the environment"),
    "bucket": (
        InfluxDb(url="http://h"),
        {},
        "`sinks.influxdb.bucket`: is missing, and INFLUXDB_V2_BUCKET is not set in the environment",
    ),
    "bucket by environment": (
        None,
        {"INFLUXDB_V2_URL": "http://h"},
        "`sinks.influxdb.bucket`: is missing, and INFLUXDB_V2_BUCKET is not",
    ),
    "url by environment": (
        None,
        {"INFLUXDB_V2_URL": "h:8086"},
        'INFLUXDB_V2_URL: "h:8086" is not a url such as "http://127.0.0.1:8086"',
    ),
    "token": (
        InfluxDb(url="http://h", bucket="b"),
        {},
        "the environment variable INFLUXDB_V2_TOKEN is not set; it is to hold the token",
    ),
    "own token": (InfluxDb(url="http://h", bucket="b", token_env="MINE"), ENV, "the environment variable MINE is not set"),
}


URLS = {
    "user and password": ("http://u:s3cret@h:8086", "must not carry a user or password"),
    "no scheme": ("u:s3cret@h:8086", "must not carry a user or password"),
    "query": ("http://h:8086?token=s3cret", "must not carry a query or a fragment"),
    "fragment": ("http://h:8086/#s3cret", "must not carry a query or a fragment"),
    "line break": ("http://h:80\n86", "is not a url such as"),
    "no port": ("http://h:port", "is not a url such as"),
}


@pytest.mark.parametrize(("url", "says"), URLS.values(), ids=URLS.keys())
def test_a_url_is_an_address_alone_wherever_it_comes_from(url, says, tmp_path):
    ways = {
        "INFLUXDB_V2_URL: ": lambda: settings(None, ENV | {"INFLUXDB_V2_URL": url}),
        "`sinks.influxdb.url`: ": lambda: settings(InfluxDb(url=url), ENV),
        "--url: ": lambda: replay(written(tmp_path), ENV, print, elsewhere=Elsewhere(url=url)),
    }
    for where, ask in ways.items():
        with pytest.raises(UsageError) as error:
            ask()
        assert str(error.value).startswith(where)
        assert says in str(error.value)
        assert "s3cret" not in str(error.value)


def written(folder):
    """Make a folder with nothing but a run.json."""
    write_document(folder, document(Summary(a_run())))
    return folder


@pytest.mark.parametrize("token", ["bad\ns3cret", "s3cret€", "s3\x00cret", "s3\x7fcret"])
def test_a_token_that_no_header_can_carry_is_refused_without_being_shown(token):
    table = InfluxDb(url="http://h", bucket="b", token_env="MINE")
    for ask in (lambda: settings(table, {"MINE": token}), lambda: server(ENV | {"INFLUXDB_V2_TOKEN": token}, "b")):
        with pytest.raises(
            UsageError, match=r"variable (MINE|INFLUXDB_V2_TOKEN) holds a line break or a character that is not ASCII"
        ) as e:
            ask()
        assert "cret" not in str(e.value)


def test_a_file_of_certificates_is_looked_at_before_the_run(tmp_path):
    path = tmp_path / "ca.pem"
    for makes, says in (
        (lambda: None, "cannot be read: No such file"),
        (lambda: path.write_text("no"), "holds no certificate in PEM"),
    ):
        makes()
        with pytest.raises(UsageError, match=rf'^INFLUXDB_V2_SSL_CA_CERT: ".*ca.pem" {says}'):
            settings(None, ENV | {"INFLUXDB_V2_SSL_CA_CERT": str(path)})


@pytest.mark.parametrize(
    ("url", "verify", "said"), [("https://h", "false", True), ("https://h", "", False), ("http://h", "false", False)]
)
def test_what_is_not_verified_is_said(url, verify, said):
    made = settings(None, ENV | {"INFLUXDB_V2_URL": url, "INFLUXDB_V2_VERIFY_SSL": verify})
    assert (made.caution is not None) is said


@pytest.mark.parametrize(("table", "environ", "says"), MISSING.values(), ids=MISSING.keys())
def test_what_is_missing_is_one_sentence(table, environ, says):
    with pytest.raises(UsageError) as error:
        settings(table, environ)
    assert str(error.value).startswith(says)
    assert "s3cret" not in str(error.value)


def test_without_the_client_the_sentence_says_how_to_get_it(monkeypatch):
    monkeypatch.setitem(settings_of.__globals__, "find_spec", lambda name: None)
    with pytest.raises(UsageError, match=r"pip install 'r1perf\[influxdb\]'"):
        settings(None, ENV)


@pytest.mark.parametrize(("text", "verify"), [("false", False), ("0", False), ("No", False), ("true", True), ("", True)])
def test_tls_is_verified_unless_the_environment_says_no(text, verify):
    assert server(ENV | {"INFLUXDB_V2_VERIFY_SSL": text}, "b").access.verify_tls is verify


def test_the_token_shows_itself_nowhere():
    assert "s3cret" not in repr(settings(None, ENV))


def test_reading_needs_a_server_and_a_token():
    assert server(ENV, "b").bucket == "b"
    with pytest.raises(UsageError, match=r"^INFLUXDB_V2_URL is not set in the environment$"):
        server({}, "b")


@pytest.mark.parametrize(
    ("text", "bucket", "run_id"),
    [("influx://b/r-1", "b", "r-1"), ("influx://db/rp/20261130T155805Z-smoke-8853e5", "db/rp", "20261130T155805Z-smoke-8853e5")],
)
def test_addresses_of_runs(text, bucket, run_id):
    assert address.run(text) == address.Address(bucket, run_id)


def test_addresses_of_buckets():
    assert [address.bucket(f"influx://{name}") for name in ("b", "db/rp", "b/")] == ["b", "db/rp", "b"]
    assert not address.is_address("runs/x")


@pytest.mark.parametrize("text", ["influx://b", "influx://", "influx:///r", 'influx://b"/r', "influx://b/r'x", "b/r"])
def test_bad_addresses_of_runs_are_one_sentence(text):
    with pytest.raises(UsageError, match="is not the address of a run: influx://BUCKET/RUN_ID"):
        address.run(text)


@pytest.mark.parametrize("text", ["influx://", 'influx://b"c', "influx://a\\b", "runs"])
def test_bad_addresses_of_buckets_are_one_sentence(text):
    with pytest.raises(UsageError, match="is not the address of a bucket"):
        address.bucket(text)
