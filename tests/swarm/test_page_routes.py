"""The page's routes in Locust's own web UI: what they answer, who is let in, and what other sites' pages may not do."""

import json
import re
from html.parser import HTMLParser
from pathlib import Path
from types import SimpleNamespace

import gevent
import msgspec
import pytest
import unpatched  # noqa: F401
from flask_login import UserMixin, login_user
from played import Stand, mixed
from virtual_run import S, a_run

from r1perf.arrivals import Closed, Poisson, Ramp, Stages
from r1perf.schedule import Stage
from r1perf.swarm.page import guard
from r1perf.swarm.page.form import sent
from r1perf.swarm.page.link import rate
from r1perf.units import Duration, Rate

RUN, SNAPSHOTS = mixed()
STATIC = Path(guard.__file__).parent / "static"


@pytest.fixture
def stands():
    made = []

    def one(**options):
        made.append(Stand(**options))
        return made[-1]

    yield one
    for stand in made:
        stand.stop()


@pytest.fixture
def stand(stands):
    return stands()


@pytest.fixture
def running(stand):
    stand.begin(RUN)
    for snapshot in SNAPSHOTS[:20]:
        stand.add(snapshot)
    return stand


def client(stand):
    return stand.app.test_client()


def data(stand, **asked):
    response = client(stand).get("/r1perf/data", query_string=asked)
    assert response.status_code == 200, response.text
    return json.loads(response.data)


# --- The endpoint ---


def test_no_run(stand):
    answer = data(stand)
    assert answer["state"] == {"phase": "idle"}
    assert answer["points"]["number"] == []


def test_points_since_a_revision(running):
    first = data(running)
    run = first["state"]["run"]["id"]
    assert first["points"]["number"] == list(range(20))
    assert data(running, run=run, since=first["points"]["revision"])["points"]["number"] == []
    running.add(SNAPSHOTS[20])
    assert data(running, run=run, since=first["points"]["revision"])["points"]["number"] == [20]


def test_another_run_is_given_whole(running):
    since = data(running)["points"]["revision"]
    running.end()
    running.begin(a_run(run_id="another"))
    running.add(SNAPSHOTS[0])
    answer = data(running, run=RUN.run_id, since=since, workload="aime", stage="gone", width=10)
    assert (answer["state"]["run"]["id"], answer["points"]["number"], answer["points"]["width"]) == ("another", [0], 10)


def test_selections(running):
    run = RUN.run_id
    whole, chat = (data(running, run=run, workload=workload)["points"] for workload in ("", "chat"))
    assert sum(chat["counters"]["sent"]) < sum(whole["counters"]["sent"])
    assert {row["stage"] for row in data(running, run=run, stage="ramp")["state"]["table"]} == {"ramp"}
    assert data(running, run=run, width=10)["points"]["number"] == [0, 1]


def test_a_stage_that_was_added_can_be_chosen(running):
    running.played.summary.add_stage(Stage(4, "live-1", 20 * S, None, judged=True, says="poisson 9/s"))
    answer = data(running, run=RUN.run_id, stage="live-1")
    assert answer["state"]["stages"][-2]["says"] == "poisson 9/s"
    assert "window_s" not in answer["state"]["run"]  # it goes on until somebody stops it


@pytest.mark.parametrize(
    ("asked", "says"),
    [
        ({"width": "7"}, "width is one of 1, 10, 100, 1000"),
        ({"width": "x"}, "width"),
        ({"since": "1.5"}, "since"),
        ({"run": RUN.run_id, "stage": "nowhere"}, "no such stage"),
    ],
)
def test_wrong_questions(running, asked, says):
    response = client(running).get("/r1perf/data", query_string=asked)
    assert response.status_code == 400
    assert says in response.text
    assert "Traceback" not in response.text


def test_it_stays_small(running):
    whole = client(running).get("/r1perf/data")
    revision = json.loads(whole.data)["points"]["revision"]
    running.add(SNAPSHOTS[20])
    step = client(running).get("/r1perf/data", query_string={"run": RUN.run_id, "since": revision})
    state = len(msgspec.json.encode(json.loads(step.data)["state"]))
    assert len(step.data) - state < 1_200  # what one second adds
    assert state < 10_000
    assert step.headers["Cache-Control"] == "no-store"


def test_stop_and_rate(running):
    def act(**form):
        response = client(running).post("/r1perf/act", data=form)
        return response.status_code, response.text

    assert act(act="stop") == (202, "ok\n")
    assert act(act="stop", value="now") == (202, "ok\n")
    assert running.played.asked == ["somebody stopped it on the page", "interrupt"]
    assert act(act="rate", value="120/min") == (202, "ok\n")
    assert running.played.asked[2:] == ["rate 2/s"]
    assert act(act="rate", value="fast") == (409, '"fast" is not a rate such as "10/s", "120/min" or "30/h"\n')
    assert act(act="fly")[0] == 400
    running.end()
    assert act(act="stop") == (409, "no run goes on\n")
    assert act(act="rate", value="2/s") == (409, "no run goes on whose rate could be changed\n")
    assert client(running).get("/r1perf/act").status_code == 405


# --- The page and its files ---


class Links(HTMLParser):
    """What a page loads and leads to, and whether it has scripts or styles of its own."""

    def __init__(self, text):
        super().__init__()
        self.loads, self.leads, self.inline, self._in = [], [], [], ""
        self.feed(text)

    def handle_starttag(self, tag, attributes):
        found = dict(attributes)
        self._in = tag if tag in ("script", "style") and "src" not in found else ""
        self.loads += [found[key] for key in ("src", "href") if key in found and tag in ("script", "link", "img")]
        self.leads += [found["href"]] if tag == "a" else []
        self.inline += [key for key in found if key.startswith("on") or key == "style"]

    def handle_data(self, text):
        if self._in and text.strip():
            self.inline.append(text)

    def handle_endtag(self, tag):
        self._in = ""


@pytest.mark.parametrize("base", ["", "/lab"])
def test_page_loads_everything_from_here(stands, base):
    stand = stands(base=base)
    response = client(stand).get(f"{base}/r1perf")
    links = Links(response.text)
    assert response.status_code == 200
    assert links.inline == []
    assert all(url.startswith(f"{base}/r1perf/static/") for url in links.loads)
    assert set(links.leads) == {f"{base}/"}
    for url in links.loads:
        with client(stand).get(url) as file:
            assert file.status_code == 200
            assert file.data
    policy = response.headers["Content-Security-Policy"]
    assert policy.startswith("default-src 'self';")
    assert "unsafe" not in policy
    assert client(stand).get(f"{base}/r1perf/data").status_code == 200


def test_modules_import_only_files_that_are_there():
    for script in STATIC.glob("*.js"):
        for name in re.findall(r'from "\./([^"]+)"', script.read_text()):
            assert (STATIC / name).exists(), f"{script.name} imports {name}"


def test_texts_never_become_markup():
    for script in STATIC.glob("*.js"):
        assert not re.search(r"innerHTML|outerHTML|insertAdjacentHTML|document\.write|\beval\(", script.read_text()), script.name


def test_library_is_whole_and_has_its_licence():
    script = (STATIC / "uplot" / "uPlot.iife.min.js").read_text()
    assert script.startswith("/*! https://github.com/leeoniya/uPlot (v1.6.32) */")
    assert "The MIT License" in (STATIC / "uplot" / "LICENSE").read_text()
    assert (STATIC / "uplot" / "uPlot.min.css").exists()


def test_locusts_page_leads_here(stands):
    stand = stands(arrivals=Poisson(rate=Rate.parse("8/s")))
    body = client(stand).get("/").text
    script = re.search(r"<script src=\"/r1perf/static/link\.js\" ([^>]*)></script></body>", body)
    assert script is not None
    assert 'data-arrivals="poisson 8/s"' in script[1]
    assert body.index("window.templateArgs") < body.index("link.js")
    args = json.loads(re.search(r"window\.templateArgs = (\{.*\})", body)[1])
    assert args["extended_tabs"] == [{"title": "R1 metrics", "key": "r1perf"}]
    assert "link.js" not in client(stand).get("/tasks").text


@pytest.mark.parametrize(
    ("arrivals", "says"),
    [
        (None, ""),
        (Closed(sessions=3), ""),
        (Poisson(rate=Rate.parse("8/s")), "poisson 8/s"),
        (
            Stages(
                stages=(
                    Ramp(start=Rate.parse("1/s"), end=Rate.parse("2/s"), duration=Duration.parse("4m")),
                    Poisson(rate=Rate.parse("2/s"), duration=Duration.parse("6m")),
                )
            ),
            "ramp 1/s to 2/s, linear by time, poisson gaps, poisson 2/s",
        ),
    ],
    ids=["none", "closed", "poisson", "stages"],
)
def test_arrivals_that_the_form_tells(arrivals, says):
    assert rate(arrivals) == says


def test_a_name_cannot_break_out_of_the_page(stands):
    stand = stands()
    stand.begin(a_run(name='"><script>boom(1)</script>', target="</script><img src=x onerror=boom(1)>"))
    stand.add(SNAPSHOTS[0])
    assert "boom" not in client(stand).get("/r1perf").text
    response = client(stand).get("/r1perf/data")
    assert response.mimetype == "application/json"
    assert response.headers["X-Content-Type-Options"] == "nosniff"


# --- Locust's form ---


@pytest.fixture
def started(stand):
    """Give a stand whose runner notes what it is started with, and a way to send the form."""
    stand.begun = []
    stand.environment.runner.start = lambda users, spawn_rate: stand.begun.append((users, spawn_rate))

    def send(**fields):
        response = client(stand).post("/swarm", data={"user_count": "1", "spawn_rate": "1", "host": "", **fields})
        gevent.sleep(0)
        return response.get_json()

    stand.send = send
    return stand


@pytest.mark.parametrize(
    ("fields", "options"),
    [
        # As Locust's script sends them, and as it should.
        (
            {"r_1scenario": "r1-mixed", "r_1rate": " 4/s ", "r_1model": "m"},
            {"r1_scenario": "r1-mixed", "r1_rate": "4/s", "r1_model": "m"},
        ),
        ({"r1_scenario": "r1-mixed", "r1_rate": "4/s"}, {"r1_scenario": "r1-mixed", "r1_rate": "4/s"}),
        ({"r_1set": "workload.chat.weight=2, seed=3"}, {"r1_set": ["workload.chat.weight=2", "seed=3"]}),
        ({"r_1set": ""}, {"r1_set": []}),
        ({"r_1runs": "/etc", "r1_runs": "/etc", "r1_web_origin": "https://evil.example"}, {}),  # the form does not have them
        ({"r_1duration": "90s"}, {"r1_duration": "90s"}),
    ],
)
def test_the_form_sets_our_options(started, fields, options):
    before = dict(vars(started.environment.parsed_options))
    assert started.send(**fields)["success"] is True
    after = vars(started.environment.parsed_options)
    assert {name: value for name, value in after.items() if name.startswith("r1_")} == {
        **{name: value for name, value in before.items() if name.startswith("r1_")},
        **options,
    }
    assert started.begun == [(1, 1.0)]


def test_a_wrong_scenario_is_said_in_the_form(started):
    answer = started.send(r_1scenario="wrong", host="http://127.0.0.1:8000/v1")
    assert answer == {"success": False, "message": "there is no scenario wrong", "host": "http://127.0.0.1:8000/v1"}
    assert started.begun == []
    assert started.environment.parsed_options.r1_scenario == "smoke"
    assert [(options.r1_scenario, host) for options, host in started.checked] == [("wrong", "http://127.0.0.1:8000/v1")]


@pytest.mark.parametrize(("dest", "name"), [("r1_rate", "r_1rate"), ("r1_web_origin", "r_1web_origin"), ("run_time", "run_time")])
def test_names_as_locusts_script_sends_them(dest, name):
    assert sent(dest) == name


# --- Who is let in ---


class Person(UserMixin):
    id = "me"


def test_login_covers_page_and_endpoint(stands):
    stand = stands(login=True)
    stand.web_ui.login_manager.user_loader(lambda key: Person() if key == "me" else None)
    stand.app.add_url_rule("/in", "in", lambda: str(login_user(Person())))
    stand.begin(RUN)
    browser = client(stand)
    answers = [browser.get("/r1perf"), browser.get("/r1perf/data"), browser.post("/r1perf/act", data={"act": "stop"})]
    answers.append(browser.post("/swarm", data={"r1_scenario": "r1-mixed"}))
    assert [answer.status_code for answer in answers] == [302] * 4
    assert stand.environment.parsed_options.r1_scenario == "smoke"
    assert all("/login" in answer.headers["Location"] for answer in answers)
    assert stand.played.asked == []
    browser.get("/in")
    assert browser.get("/r1perf").status_code == 200
    assert browser.get("/r1perf/data").get_json()["state"]["run"]["id"] == RUN.run_id
    assert browser.post("/r1perf/act", data={"act": "stop"}).status_code == 202


OWN = "http://localhost"
EVIL = "https://evil.example"

CALLS = [
    # method, path, headers, allowed
    ("GET", "/r1perf/data", {"Origin": EVIL, "Sec-Fetch-Site": "cross-site"}, True),  # read by nobody: no header allows it
    ("POST", "/r1perf/act", {}, True),  # not a browser
    ("POST", "/r1perf/act", {"Origin": OWN}, True),
    ("POST", "/r1perf/act", {"Origin": OWN, "Sec-Fetch-Site": "same-origin"}, True),
    ("POST", "/r1perf/act", {"Origin": EVIL}, False),
    ("POST", "/r1perf/act", {"Origin": "null"}, False),  # a sandboxed frame
    ("POST", "/r1perf/act", {"Sec-Fetch-Site": "cross-site"}, False),
    (
        "POST",
        "/r1perf/act",
        {"Origin": "http://localhost:1234", "Sec-Fetch-Site": "same-site"},
        False,
    ),  # another port is another site
    ("POST", "/swarm", {"Origin": EVIL}, False),
    ("POST", "/swarm/", {"Origin": EVIL}, False),
    ("POST", "/swarm", {"Origin": EVIL, "Sec-Fetch-Site": "none"}, False),
    ("GET", "/stop", {"Sec-Fetch-Site": "cross-site"}, False),  # acts in some versions of Locust
    ("GET", "/stop/", {"Sec-Fetch-Site": "cross-site"}, False),
    ("GET", "/stop", {"Sec-Fetch-Site": "same-origin"}, True),
    ("POST", "/swarm", {"Origin": "https://localhost", "Sec-Fetch-Site": "cross-site"}, False),  # another scheme
    ("GET", "/stats/reset", {"Origin": EVIL}, False),
    ("POST", "/user", {"Origin": EVIL}, False),
    ("GET", "/stats/requests", {"Origin": EVIL}, True),
]


@pytest.mark.parametrize(
    ("method", "path", "headers", "allowed"), CALLS, ids=[" ".join([c[0], c[1], *c[2].values()]) for c in CALLS]
)
def test_pages_of_other_sites(stand, method, path, headers, allowed):
    response = client(stand).open(path, method=method, headers=headers)
    assert (response.status_code != 403) == allowed
    assert not [name for name, _ in response.headers if name.lower().startswith("access-control-")]
    if not allowed:
        assert response.text.startswith("Refused: the page of another site")


def test_an_origin_can_be_allowed(stands):
    stand = stands(origins=("https://lab.example:8443/",))
    for origin, allowed in (("https://lab.example:8443", True), ("https://lab.example", False), (EVIL, False)):
        response = client(stand).post("/r1perf/act", headers={"Origin": origin, "Sec-Fetch-Site": "cross-site"})
        assert (response.status_code != 403) == allowed
        assert (response.headers.get("Access-Control-Allow-Origin") == origin) == allowed
        assert (response.headers.get("Access-Control-Allow-Methods") == "GET, POST") == allowed


@pytest.mark.parametrize(
    ("bound", "host", "allowed"),
    [
        ("127.0.0.1", "127.0.0.1:8089", True),
        ("127.0.0.1", "localhost:9000", True),
        ("127.0.0.1", "[::1]:8089", True),
        ("127.0.0.1", "r1perf.localhost", True),
        ("127.0.0.1", "evil.example", False),  # a name that has come to point here
        ("127.0.0.1", "127.0.0.1.evil.example", False),
        ("127.0.0.1", "192.168.1.5:8089", False),
        ("127.0.0.1", "lab.example:8443", True),  # allowed
        ("0.0.0.0", "evil.example", True),  # it was opened to others
    ],
)
def test_names_that_point_here(stands, bound, host, allowed):
    stand = stands(host=bound, origins=("https://lab.example:8443",))
    response = client(stand).get("/r1perf/data", headers={"Host": host})
    assert (response.status_code == 200) == allowed
    if not allowed:
        assert "--r1-web-origin" in response.text


def test_frames_of_other_sites(stand):
    for path in ("/", "/r1perf", "/r1perf/data"):
        assert client(stand).get(path).headers["X-Frame-Options"] == "SAMEORIGIN"


# --- Secrets ---


def test_no_secret_is_shown(stands, monkeypatch):
    monkeypatch.setenv("DEEPSEEK_API_KEY", "sk-very-secret")
    stand = stands()
    run = a_run(url="https://user:sk-very-secret@api.example.com/v1", scenario={"target": {"headers": {"X": "sk-very-secret"}}})
    stand.begin(run, SimpleNamespace(arrivals=None, sla=SimpleNamespace(clauses=())))
    stand.add(SNAPSHOTS[0])
    stand.end()
    for path in ("/", "/r1perf", "/r1perf/data", "/logs"):
        assert "sk-very-secret" not in client(stand).get(path).text
