"""The page in a real browser: over played runs, and with a real swarm from its form to run.json."""

import json
import signal
import sys
from collections.abc import Iterator
from pathlib import Path
from types import SimpleNamespace

import msgspec
import pytest
import unpatched  # noqa: F401
from chromium import Browser, chromium
from played import Served, Stand, mixed
from selenium.webdriver.common.action_chains import ActionChains
from selenium.webdriver.support.ui import Select
from services import ROOT, Service, free_port
from virtual_run import a_run

from r1perf.sla import Verdict
from r1perf.snapshot import Counter
from r1perf.summary import Interval
from r1perf.swarm.page.state import TABLE

RUN, SNAPSHOTS = mixed()


@pytest.fixture(scope="module")
def browser(tmp_path_factory) -> Iterator[Browser]:
    with chromium(tmp_path_factory.mktemp("chromium")) as window:
        yield window


@pytest.fixture
def stand():
    made = Stand()
    served = Served(made)
    made.url = served.url
    yield made
    served.close()
    made.stop()


def begun(stand, seconds=20):
    stand.begin(RUN, SimpleNamespace(arrivals=None, sla=SimpleNamespace(clauses=("p95(ttft) < 800ms",))))
    for snapshot in SNAPSHOTS[:seconds]:
        stand.add(snapshot)


def phase(browser, wanted):
    browser.until(lambda: browser.one("body").get_attribute("data-phase") == wanted, f"phase {wanted}")


def figures(browser):
    """Return the table as the page holds it: by (metric, workload), every figure exactly."""
    script = """
      return [...document.querySelectorAll("#figures tr[data-metric]")].map((row) => [row.dataset.metric, row.dataset.workload,
        Object.fromEntries([...row.querySelectorAll("td[data-figure]")].map((cell) => [cell.dataset.figure, Number(cell.dataset.value)]))])
    """
    return {(metric, workload or None): values for metric, workload, values in browser.run(script)}


def wanted_figures(document, stage=None):
    names = ("count", "mean", "p50", "p90", "p95", "p99", "max")
    several = len(document["workloads"]) > 1
    return {
        (row["metric"], row.get("workload")): {name: row[name] for name in names}
        for row in document["series"]
        if row["metric"] in TABLE and row.get("stage") == stage and (several or row.get("workload") is None)
    }


def counts(browser):
    script = """
      return Object.fromEntries([...document.querySelectorAll("#counts tr[data-outcome]")].map((row) =>
        [row.dataset.outcome, Number(row.querySelector("td[data-value]").dataset.value)]))
    """
    return browser.run(script)


def drawn(browser, chart):
    """Return what a chart draws: x, then its series."""
    return browser.run(
        "return document.querySelector(`#chart-${arguments[0]} .plot`).uplot.data.map((column) => [...column])", chart
    )


# --- Played runs ---


def test_it_moves_from_nothing_to_the_end_by_itself(browser, stand):
    browser.open(f"{stand.url}/r1perf")
    phase(browser, "idle")
    assert browser.text("#empty h2") == "No run yet"
    stand.prepare()
    stand.page.note("loading 3 of 12 MB")
    phase(browser, "preparing")
    browser.until(lambda: browser.text("#message") == "loading 3 of 12 MB", "what is told")
    begun(stand)
    phase(browser, "running")
    browser.until(lambda: len(drawn(browser, "itl")[0]) == 20, "20 points")
    assert browser.text("#title") == "mixed"
    assert browser.text("#about") == "staging · deepseek-r1 · 1 worker · open loop"
    assert browser.text("#clock") == "20 s of 40 s · stage steady"
    assert browser.text("#validity") == "valid so far the generator kept up"
    assert browser.text("#sla .verdict") == "pending"
    for snapshot in SNAPSHOTS[20:]:
        stand.add(snapshot)
    clause = Verdict(clause="p95(ttft) < 800ms", kind="share", verdict="pass", says="0 of 171 missed", confidence=0.95)
    built = json.loads(msgspec.json.encode(stand.end(sla=[msgspec.to_builtins(clause)])))
    phase(browser, "ended")
    assert figures(browser) == wanted_figures(built)
    assert counts(browser) == {name: n for name, n in built["counts"].items()}
    assert browser.text("#sla .pass .verdict") == "pass"
    assert browser.text("#validity") == "valid the generator kept up"
    assert browser.complaints() == []


def test_charts_draw_the_points(browser, stand):
    begun(stand)
    browser.open(f"{stand.url}/r1perf")
    phase(browser, "running")
    points = stand.page.history.points(1, None, 0)
    browser.until(lambda: len(drawn(browser, "itl")[0]) == 20, "20 points")
    for metric in ("ttft", "itl", "ttfo", "tpot", "e2e", "thinking"):
        x, *ranks = drawn(browser, metric)
        assert x == [k + 0.5 for k in range(20)]
        assert ranks == points.percentiles[metric]
    assert drawn(browser, "rates")[1:] == [points.counters[name] for name in ("scheduled", "sent", "completed")]
    assert drawn(browser, "tokens")[1] == [sum(column[k] for column in points.chunks.values()) for k in range(20)]
    top, bottom = drawn(browser, "in_flight")[1:]  # stacked: the sum is drawn first
    assert bottom == points.in_flight["aime"]
    assert top == [aime + chat for aime, chat in zip(points.in_flight["aime"], points.in_flight["chat"], strict=True)]
    assert drawn(browser, "outcomes")[1] == [sum(column[k] for column in points.outcomes.values()) for k in range(20)]
    assert drawn(browser, "cpu")[1] == points.cpu
    assert drawn(browser, "delay")[2:] == [points.delay_ms, points.lag_ms]
    assert browser.complaints() == []


def test_selections(browser, stand):
    begun(stand)
    browser.open(f"{stand.url}/r1perf")
    phase(browser, "running")
    browser.until(lambda: browser.all("#workload option"), "choices")
    Select(browser.one("#workload")).select_by_value("chat")
    chat = stand.page.history.points(1, "chat", 0)
    browser.until(lambda: drawn(browser, "ttft")[1:] == chat.percentiles["ttft"], "the points of chat")
    assert len(drawn(browser, "in_flight")) == 2
    Select(browser.one("#stage")).select_by_value("warmup")
    built = json.loads(msgspec.json.encode(stand.document("running")))
    browser.until(lambda: figures(browser) == wanted_figures(built, "warmup"), "the figures of the warmup")
    Select(browser.one("#width")).select_by_visible_text("1 s")
    browser.one("#log").click()
    browser.until(lambda: len(drawn(browser, "ttft")) == 4, "a logarithmic chart")
    assert browser.complaints() == []


def test_zoom_goes_for_all_charts(browser, stand):
    begun(stand)
    browser.open(f"{stand.url}/r1perf")
    phase(browser, "running")
    browser.until(lambda: len(drawn(browser, "itl")[0]) == 20, "20 points")

    def range_of(chart):
        script = "const {min, max} = document.querySelector(`#chart-${arguments[0]} .plot`).uplot.scales.x; return [min, max]"
        return browser.run(script, chart)

    assert range_of("e2e") == [0, 40]
    over = browser.one("#chart-ttft .u-over")
    width = over.size["width"]
    ActionChains(browser.driver).move_to_element_with_offset(over, -width // 4, 0).click_and_hold().move_by_offset(
        width // 4, 0
    ).release().perform()
    browser.until(lambda: range_of("e2e") != [0, 40], "a zoom")
    low, high = range_of("e2e")
    assert low == pytest.approx(10, abs=1)
    assert high == pytest.approx(20, abs=1)
    stand.add(SNAPSHOTS[20])
    browser.until(lambda: len(drawn(browser, "itl")[0]) == 21, "another point")
    assert range_of("ttft") == [low, high]
    browser.one("#unzoom").click()
    browser.until(lambda: range_of("e2e") == [0, 40], "the whole range")
    assert browser.complaints() == []


EVIL = "<img src=x onerror='window.boom=1'>\"'><script>window.boom=1</script>"


def test_texts_from_elsewhere_are_texts(browser, stand):
    stages = tuple(msgspec.structs.replace(stage, name=EVIL + stage.name, says=EVIL) for stage in RUN.stages)
    run = a_run(name=EVIL, target=EVIL, model=EVIL, workloads=(EVIL, "chat"), stages=stages)
    stand.begin(run, SimpleNamespace(arrivals=None, sla=SimpleNamespace(clauses=(EVIL,))))
    evil = msgspec.structs.replace(
        SNAPSHOTS[0], counters=[*SNAPSHOTS[0].counters, Counter("scheduled", EVIL, 0, 2), Counter("outcome.server_error", EVIL, 0, 1),
                                Counter(f"reason.server_error.{EVIL}", EVIL, 0, 1)],
    )  # fmt: skip
    stand.add(evil)
    stand.page.history.note(EVIL)
    browser.open(f"{stand.url}/r1perf")
    phase(browser, "running")
    browser.until(lambda: browser.all("#notes li"), "the note")
    shown = browser.run("return document.body.textContent")
    assert shown.count(EVIL) > 8
    assert browser.text("#title") == EVIL
    clause = Verdict(clause=EVIL, kind="share", verdict="fail", says=EVIL, confidence=0.95, notes=(EVIL,))
    stand.end("failed", EVIL, sla=[msgspec.to_builtins(clause)])
    phase(browser, "ended")
    assert browser.text("#message") == EVIL
    stand.prepare()
    stand.page.refuse(EVIL)
    phase(browser, "refused")
    assert browser.text("#message") == EVIL
    assert browser.run("return [window.boom ?? null, document.images.length, document.scripts.length]") == [None, 0, 2]
    assert browser.complaints() == []


@pytest.mark.parametrize(("width", "columns"), [(1280, 3), (800, 2), (390, 1)])
def test_it_fits(browser, stand, width, columns):
    begun(stand, 43)
    stand.end()
    browser.open(f"{stand.url}/r1perf", width, 900)
    phase(browser, "ended")
    assert browser.run("return document.documentElement.scrollWidth") <= width
    tops = browser.run("return [...document.querySelectorAll('#charts figure')].map((one) => one.getBoundingClientRect().top)")
    assert tops.count(tops[0]) == columns
    assert browser.run(
        "return [...document.querySelectorAll('.uplot')].every((one) => one.offsetWidth <= one.parentNode.offsetWidth)"
    )


def test_a_phone_shows_the_percentiles_beside_their_names(browser, stand):
    begun(stand)
    browser.open(f"{stand.url}/r1perf", 400, 800)
    browser.until(lambda: browser.all("#figures tr[data-metric]"), "the table")
    rights = """
      const box = document.querySelector("#figures").parentElement, end = box.getBoundingClientRect().right;
      box.scrollLeft = arguments[0];
      return [...document.querySelectorAll("#figures thead th")]
        .filter((one) => one.getBoundingClientRect().right <= end + 1).map((one) => one.textContent);
    """
    assert browser.run(rights, 0) == ["", "count", "mean", "p50", "p90", "p95"]
    assert browser.run(rights, 1000)[-2:] == ["p99", "max"]
    left = "return document.querySelector('#figures tbody tr[data-metric] th').getBoundingClientRect().left"
    assert browser.run(left) > 0, "a row's name stays where it is"


def test_it_follows_the_light(browser, stand):
    begun(stand)
    browser.open(f"{stand.url}/r1perf")
    phase(browser, "running")

    def colors():
        return browser.run("""
          const canvas = document.querySelector("#chart-cpu canvas");
          const seen = new Set();
          const pixels = canvas.getContext("2d").getImageData(0, 0, canvas.width, canvas.height).data;
          for (let i = 0; i < pixels.length; i += 4) if (pixels[i + 3] === 255) seen.add(`${pixels[i]},${pixels[i + 1]},${pixels[i + 2]}`);
          return [getComputedStyle(document.body).backgroundColor, seen.has("11,107,203"), seen.has("98,168,245")]
        """)

    browser.until(lambda: colors()[1], "a line")
    assert colors() == ["rgb(244, 246, 248)", True, False]
    browser.look(1280, 900, dark=True)
    browser.until(lambda: colors()[2], "a line for the dark")
    assert colors() == ["rgb(14, 19, 24)", False, True]


def test_a_long_run_is_drawn_from_wider_points(browser, stand):
    begun(stand, 10)
    for k in range(10, 700):
        stand.page.history.write(Interval(k))
        stand.played.summary.merge(msgspec.structs.replace(SNAPSHOTS[0], k=k, series=[], counters=[], in_flight=[], ended=[]))
    browser.open(f"{stand.url}/r1perf")
    phase(browser, "draining")
    browser.until(lambda: len(drawn(browser, "cpu")[0]) == 70, "70 points of 10 s")
    assert drawn(browser, "cpu")[0][:2] == [5, 15]
    sent = stand.page.history.points(10, None, 0).counters["sent"]
    assert drawn(browser, "rates")[2] == [n / 10 for n in sent]
    assert [option.text for option in browser.all("#width option")] == ["automatic", "1 s", "10 s", "100 s"]
    Select(browser.one("#range")).select_by_value("120")
    browser.until(lambda: len(drawn(browser, "cpu")[0]) == 600, "600 points of 1 s")


def test_it_says_when_the_master_is_gone(browser):
    stand = Stand()
    served = Served(stand)
    begun(stand)
    browser.open(f"{served.url}/r1perf")
    phase(browser, "running")
    served.close()
    stand.stop()
    browser.until(lambda: browser.text("#phase") == "no answer from the master", "the end of the master")
    assert figures(browser)


# --- A real swarm ---

SCENARIO = """
name = "watched"
duration = "60s"
[target]
url = "simulate:tiny"
[workload.chat]
dataset = { kind = "chat" }
max_tokens = 200
weight = 3
[workload.aime]
dataset = { kind = "aime" }
max_tokens = 200
[arrivals]
kind = "poisson"
rate = "2/s"
[sla]
clauses = ["p95(ttft) < 10s", "error_rate < 50%"]
"""


class RealSwarm:
    """A master and two workers with the web UI, as people start them."""

    def __init__(self, folder: Path) -> None:
        self.runs = folder / "runs"
        (folder / "watched.toml").write_text(SCENARIO)
        web, port = free_port(), free_port()
        words = ["--processes", "2", "--web-port", web, "--master-port", port, "--master-bind-port", port, "--r1-runs", self.runs]
        scenario = ["--r1-scenario", folder / "watched.toml"]
        command = [sys.executable, "-m", "locust", "-f", ROOT / "locustfiles" / "smoke.py", *words, *scenario]
        self.service = Service(command, folder / "locust.log", {"DEEPSEEK_API_KEY": "sk-very-secret"})
        self.url = f"http://127.0.0.1:{web}"
        self.service.wait(self._ready, 30)

    def _ready(self) -> str | None:
        """Return the URL once both workers are there."""
        self.service.url = self.url
        try:
            return self.url if self.service.json("/worker-count") == {"worker_count": 2} else None
        except OSError:
            return None

    @property
    def document(self) -> dict:
        (folder,) = self.runs.iterdir()
        return json.loads((folder / "run.json").read_text())


@pytest.fixture
def real(tmp_path):
    swarm = RealSwarm(tmp_path)
    yield swarm
    swarm.service.process.send_signal(signal.SIGTERM)
    swarm.service.process.wait(20)
    swarm.service.stop()


def test_a_real_swarm_from_its_form_to_run_json(browser, real):
    browser.open(real.url)
    browser.until(lambda: browser.all("input[name=r1Rate]"), "the form")
    label = browser.run("return document.querySelector('input[name=r1Rate]').closest('.MuiFormControl-root').textContent")
    assert "the scenario's own: poisson 2/s" in label
    assert not [field for field in browser.all("input[name=userCount], input[name=spawnRate]") if field.is_displayed()]
    rate = browser.until(lambda: next((one for one in browser.all("input[name=r1Rate]") if one.is_displayed()), None), "the rate")
    rate.send_keys("20/s")
    browser.one("form button[type=submit]").click()
    tab = browser.until(lambda: next((one for one in browser.all("[role=tab]") if one.text == "R1 METRICS"), None), "our tab")
    tab.click()

    phase(browser, "running")
    assert browser.driver.current_url == f"{real.url}/r1perf"
    early = browser.until(lambda: counts(browser).get("ok"), "requests")
    browser.until(lambda: counts(browser)["ok"] > early + 20, "more requests")
    browser.until(lambda: browser.text("#chart-ttft .legend b").endswith("ms"), "a TTFT")
    browser.until(lambda: len([value for value in drawn(browser, "tokens")[1] if value]) > 2, "tokens over time")
    assert browser.text("#about") == "simulated tiny · deepseek-r1 · 2 workers · open loop"

    field = browser.one("#rate input")
    field.send_keys("fast\n")
    browser.until(lambda: "is not a rate" in field.get_property("validationMessage"), "what is wrong with the rate")
    field.clear()
    field.send_keys("40/s\n")
    browser.until(lambda: "stage live-1" in browser.text("#clock"), "a stage with the new rate")
    browser.until(lambda: browser.all("#notes li"), "a note of it")
    browser.until(lambda: max(drawn(browser, "rates")[1]) > 30, "more arrivals")
    assert "poisson 40/s" in browser.text("#stages")

    browser.one("#stop").click()
    phase(browser, "ended")
    document = real.document
    assert document["status"] == "finished"
    assert document["scenario"]["arrivals"]["rate"] == "20.0/s"
    assert figures(browser) == wanted_figures(document)
    assert counts(browser) == document["counts"]
    shown = browser.run(
        "return Object.fromEntries([...document.querySelectorAll('#throughput dl div')].map((one) => [one.firstChild.textContent, Number(one.lastChild.title)]))"
    )
    assert shown["output tok/s"] == document["throughput"]["output_tokens_per_s"]
    assert shown["requests/s"] == document["throughput"]["requests_per_s"]
    assert [one.text for one in browser.all("#sla .verdict")] == [one["verdict"] for one in document["sla"]]
    assert browser.text("#validity b") == ("valid" if document["validity"]["valid"] else "invalid")
    assert sum(drawn(browser, "outcomes")[1]) == sum(document["counts"].values()) - document["counts"]["scheduled"]
    assert [text for text in browser.complaints() if "409 (CONFLICT)" not in text] == []  # that was the rate "fast"
    loaded = browser.run("return performance.getEntriesByType('resource').map((one) => one.name)")
    assert all(url.startswith(real.url) for url in loaded)
    assert "sk-very-secret" not in browser.run("return document.documentElement.outerHTML") + real.service.text()
