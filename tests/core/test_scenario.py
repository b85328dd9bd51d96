"""Scenarios: what is right loads to the same again; overrides and shorthands do what people expect."""

import os
import re
import threading
import tomllib
from pathlib import Path
from typing import get_args

import msgspec
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from services import ROOT

from r1perf.arrivals import AnyArrivals, Closed, Constant, GammaGaps, Poisson, Ramp, Stages
from r1perf.datasets.chat import Chat
from r1perf.datasets.prompts import Prompts
from r1perf.datasets.synthetic import Synthetic
from r1perf.errors import UsageError
from r1perf.scenario import (
    Drain,
    ErrorRate,
    InfluxDb,
    Scenario,
    Shorthands,
    Sinks,
    Sla,
    Stop,
    folder,
    kinds,
    load,
    resolved,
    schema,
    shipped,
    simulated,
)
from r1perf.scenario.decode import decode
from r1perf.target import Price, Sampling, System, Target, Timeouts
from r1perf.units import Duration, Rate, Tokens
from r1perf.workload import Workload

D = Duration.parse

EVERYTHING = """
name = "r1-mixed"
seed = 42
warmup = "30s"
cooldown = "1m"
interval = "2s"
record_chunks = true

[target]
name = "staging"
url = "http://127.0.0.1:8000/v1"
model = "deepseek-r1"
provider = "auto"
reasoning = "auto"
api_key_env = "DEEPSEEK_API_KEY"
headers = { X-Team = "serving" }
extra_body = { chat_template_kwargs = { thinking = true } }
timeouts = { connect = "5s", first_chunk = "5m", between_chunks = "60s", total = "10m" }
wait_ready = "30m"
max_in_flight = 2000
price = { input_per_1m = 0.55, cached_per_1m = 0.14, output_per_1m = 2.19 }
system = { gpu = "H100", gpus = 16, nodes = 2, engine = "vllm", precision = "fp8" }

[workload.aime]
weight = 3
dataset = { kind = "aime" }
max_tokens = "32k"
sampling = { temperature = 0.6, top_p = 0.95 }
extra_body = { chat_template_kwargs = { thinking = true } }

[workload.chat]
weight = 7
dataset = { kind = "chat" }
max_tokens = 2048

[workload.side]
dataset = { kind = "prompts", prompts = ["Hello"] }
max_tokens = 10
[workload.side.arrivals]
kind = "constant"
rate = "30/min"

[arrivals]
kind = "stages"
stages = [
  { name = "ramp",   kind = "ramp", start = "0.2/s", end = "1/s", duration = "4m" },
  { name = "steady", kind = "poisson", rate = "1/s", duration = "6m" },
]

[stop]
errors = 100
error_rate = { above = 0.5, window = "10s" }
cost = 5
output_tokens = "1M"
[drain]
mode = "90s"
[sla]
clauses = ["p95(ttft) < 800ms", "p99(itl){workload=chat} < 60ms during steady", "error_rate < 1%"]
[labels]
commit = "4f2a"
[sinks.influxdb]
url = "http://localhost:8086"
"""


@pytest.fixture
def path(tmp_path: Path) -> Path:
    """Give a file with every key in it."""
    file = tmp_path / "all.toml"
    file.write_text(EVERYTHING)
    return file


def test_every_key_is_read(path):
    made = load(path)
    assert made == Scenario(
        name="r1-mixed", seed=42, warmup=D("30s"), cooldown=D("1m"), interval=D("2s"), record_chunks=True,
        target=Target(
            url="http://127.0.0.1:8000/v1", model="deepseek-r1", name="staging", api_key_env="DEEPSEEK_API_KEY",
            headers={"X-Team": "serving"}, extra_body={"chat_template_kwargs": {"thinking": True}}, wait_ready=D("30m"),
            timeouts=Timeouts(D("5s"), D("5m"), D("60s"), D("10m")), price=Price(0.55, 0.14, 2.19),
            system=System(gpu="H100", gpus=16, nodes=2, engine="vllm", precision="fp8"),
        ),
        workload={
            "aime": Workload(
                weight=3, dataset=made.workload["aime"].dataset, max_tokens=Tokens(32768), sampling=Sampling(0.6, 0.95),
                extra_body={"chat_template_kwargs": {"thinking": True}},
            ),
            "chat": Workload(weight=7, dataset=Chat(), max_tokens=Tokens(2048)),
            "side": Workload(dataset=Prompts(prompts=("Hello",)), max_tokens=Tokens(10), arrivals=Constant(rate=Rate(0.5))),
        },
        arrivals=Stages(stages=(
            Ramp(name="ramp", start=Rate(0.2), end=Rate(1), duration=D("4m")), Poisson(name="steady", rate=Rate(1), duration=D("6m")),
        )),
        stop=Stop(100, ErrorRate(0.5, D("10s")), 5.0, Tokens(1 << 20)), drain=Drain("90s"),
        sla=Sla(("p95(ttft) < 800ms", "p99(itl){workload=chat} < 60ms during steady", "error_rate < 1%")),
        labels={"commit": "4f2a"}, sinks=Sinks(influxdb=InfluxDb(url="http://localhost:8086")),
    )  # fmt: skip
    assert (made.drain.limit_ns, Drain().limit_ns) == (90 * 10**9, None)


def test_a_resolved_scenario_survives_json_and_loads_to_the_same(path):
    made = load(path)
    assert load(msgspec.json.decode(msgspec.json.encode(resolved(made)))) == made
    assert load(msgspec.msgpack.decode(msgspec.msgpack.encode(resolved(made)))) == made


whole = st.integers(-(2**53) + 1, 2**53 - 1)  # what JSON readers keep exact
durations = st.integers(1, 10**15).map(Duration)
rates = st.floats(1e-6, 1e6).map(Rate)
names = st.from_regex(r"[a-z0-9][a-z0-9_-]{0,8}", fullmatch=True)
json = st.recursive(st.booleans() | whole | st.text(max_size=5), lambda inner: st.lists(inner, max_size=2), max_leaves=4)
bodies = st.dictionaries(st.text(max_size=5), json, max_size=2)


def maybe(strategy):
    return st.none() | strategy


open_processes = st.one_of(
    st.builds(Poisson, rate=rates, duration=durations, per=st.sampled_from(["conversation", "request"])),
    st.builds(Constant, rate=rates, duration=durations, requests=maybe(st.integers(1, 10**9))),
    st.builds(
        Ramp, start=rates, end=rates, duration=durations, hold=maybe(durations), curve=st.sampled_from(["linear", "exponential"]),
        gaps=st.sampled_from(["poisson", "constant"]) | st.builds(GammaGaps, gamma=st.floats(0.01, 100)),
    ),
)  # fmt: skip
workloads = st.builds(
    Workload, weight=st.floats(0.1, 1e9),
    dataset=st.builds(Chat, history=st.sampled_from(["server", "dataset"]))
    | st.builds(Synthetic, input_tokens=st.integers(1, 10**6), output_tokens=st.just("2k")),
    max_tokens=maybe(st.integers(1, 10**7).map(Tokens)), headers=st.dictionaries(st.text(max_size=5), st.text(max_size=5), max_size=2),
    extra_body=bodies, sampling=st.builds(Sampling, temperature=maybe(st.floats(0, 2)), top_k=maybe(whole)),
)  # fmt: skip
scenarios = st.builds(
    Scenario, name=names, seed=st.integers(0, 2**53 - 1), warmup=maybe(durations), cooldown=maybe(durations), interval=durations,
    target=st.builds(Target, url=st.just("https://h/v1"), model=st.text(min_size=1), extra_body=bodies, wait_ready=maybe(durations),
                     timeouts=st.builds(Timeouts, durations, durations, durations, durations)),
    workload=st.dictionaries(names, workloads, min_size=1, max_size=3),
    arrivals=open_processes | st.lists(open_processes | st.builds(Closed, sessions=st.integers(1, 99), think_time=durations, duration=durations), min_size=1, max_size=3).map(lambda s: Stages(stages=tuple(s))),
    stop=st.builds(Stop, errors=maybe(st.integers(1, 10**9)), error_rate=maybe(st.builds(ErrorRate, st.floats(0.01, 0.99), durations))),
    drain=st.builds(Drain, mode=durations.map(str) | st.just("finish")),
    labels=st.dictionaries(st.text(max_size=5), st.text(max_size=5), max_size=2), sinks=st.builds(Sinks, influxdb=maybe(st.builds(
        InfluxDb, url=maybe(st.text()), org=maybe(st.text()), bucket=maybe(st.text()), token_env=st.text(), interval=durations,
        timeout=durations, deadline=durations, spool_mb=st.integers(1, 10**6)))),
)  # fmt: skip


@pytest.mark.parametrize(
    ("more", "asked"),
    [
        pytest.param({}, (0.6, 0.95, 32_768), id="nothing said"),
        pytest.param({"max_tokens": "4k"}, (0.6, 0.95, 4096), id="room"),
        pytest.param({"sampling": {"temperature": 0}}, (0.0, 0.95, 32_768), id="temperature"),
        pytest.param({"sampling": {"top_p": 1, "temperature": 1}, "max_tokens": 5}, (1.0, 1.0, 5), id="all"),
        pytest.param({"dataset": {"kind": "aime", "raw": True}}, (None, None, None), id="as vLLM's benchmark"),
        pytest.param({"dataset": {"kind": "chat"}}, (None, None, None), id="another kind"),
    ],
)
def test_aime_is_asked_as_its_model_s_card_says_where_nothing_else_is_said(more, asked):
    raw = {
        "name": "x",
        "duration": "1s",
        "arrivals": {"kind": "constant", "rate": "1/s"},
        "target": {"url": "http://h/v1", "model": "m"},
    }
    made = load(raw | {"workload": {"w": {"dataset": {"kind": "aime"}} | more}})
    workload = made.workload["w"]
    assert (workload.sampling.temperature, workload.sampling.top_p, workload.max_tokens) == asked
    written = resolved(made)
    assert (written["workload"]["w"]["sampling"].get("temperature"), written["workload"]["w"].get("max_tokens")) == (
        asked[0],
        asked[2],
    )
    assert load(written) == made


@given(made=scenarios)
@settings(max_examples=80)
def test_every_scenario_survives_being_written_down(made):
    assert decode(msgspec.json.decode(msgspec.json.encode(resolved(made)))) == made


# --- --set ---


@pytest.mark.parametrize(
    ("text", "at", "value"),
    [
        ("workload.aime.max_tokens=4096", "workload.aime.max_tokens", 4096),
        ("workload.aime.max_tokens = 8k", "workload.aime.max_tokens", 8192),
        ("arrivals.stages.1.rate=3/s", "arrivals.stages.1.rate", 3.0),
        ("arrivals.stages[1].rate=3/s", "arrivals.stages.1.rate", 3.0),
        ("arrivals.stages.steady.rate=180/min", "arrivals.stages.1.rate", 3.0),
        ("target.headers.X-A=1=2", "target.headers", {"X-Team": "serving", "X-A": "1=2"}),
        ("target.verify_tls=false", "target.verify_tls", False),
        ("labels.day=2026-11-30", "labels", {"commit": "4f2a", "day": "2026-11-30"}),
        ('sla.clauses=["error_rate < 2%"]', "sla.clauses", ("error_rate < 2%",)),
        ("target.extra_body={top=1}", "target.extra_body", {"top": 1}),
        ("target.system.region=eu\nwest", "target.system.region", "eu\nwest"),
        ('labels.x=1\ny = "2"', "labels", {"commit": "4f2a", "x": '1\ny = "2"'}),
    ],
)
def test_a_set_lays_a_value_over_the_file(path, text, at, value):
    found = load(path, [text])
    for step in at.split("."):
        found = found[int(step)] if isinstance(found, tuple) else found[step] if isinstance(found, dict) else getattr(found, step)
    assert found == value


def test_sets_may_make_whole_tables():
    made = load("chat", ["duration=5s", "arrivals.kind=poisson", "arrivals.rate=2/s", "stop.error_rate.above=0.5"])
    assert (made.arrivals, made.stop.error_rate) == (Poisson(rate=Rate(2)), ErrorRate(0.5))


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("workload.aime", '"workload.aime": a setting is written path=value, as workload.aime.max_tokens=4096'),
        ("workload..x=1", '"workload..x=1": a setting is written path=value, as workload.aime.max_tokens=4096'),
        ("seed.x=1", "`seed`: is not a table, so it has no `x`"),
        ("arrivals.stages.2.rate=3/s", "`arrivals.stages`: has no element `2`; allowed: 0 to 1, ramp, steady"),
        ("workload.aime.max_token=3", "`workload.aime.max_token`: unknown; did you mean `max_tokens`?"),
        ("workload.aim.max_tokens=3", "`workload.aim.dataset`: is missing"),
    ],
)
def test_a_wrong_set_is_one_sentence(path, text, message):
    with pytest.raises(UsageError) as caught:
        load(path, [text])
    assert str(caught.value) == message


# --- Shorthands ---


def short(source="chat", **given):
    return load(source, (), Shorthands(**given))


def test_no_file_is_needed():
    made = short("aime", url="http://h/v1", model="m", rate="2/s", requests=100)
    assert (made.name, made.target.url, made.target.model, made.requests) == ("aime", "http://h/v1", "m", 100)
    assert made.arrivals == Poisson(rate=Rate(2))
    assert list(made.workload) == ["aime"]
    assert len(made.plan(made.items())) == 100


def test_without_a_url_the_simulated_endpoint_stands_in():
    made = short(rate="2/s", duration="10s")
    assert (made.target.url, made.target.model) == ("simulate:r1-16xh100", "deepseek-r1")
    assert simulated(made.target.url) == ("r1-16xh100", {})
    assert simulated("simulate:tiny?speed=10&seed=1") == ("tiny", {"speed": "10", "seed": "1"})
    assert simulated("http://h/v1") is None


STAGED = {"name": "x", "workload": {"chat": {"dataset": {"kind": "chat"}}}}
OPEN = STAGED | {"arrivals": {"kind": "stages", "stages": [
    {"kind": "ramp", "start": "1/s", "end": "4/s", "duration": "1m", "hold": "30s"}, {"kind": "poisson", "rate": "240/min", "duration": "90s"},
]}}  # fmt: skip
CLOSED = STAGED | {"duration": "5m", "arrivals": {"kind": "closed", "sessions": 8, "think_time": "1s"}}
PROBE = STAGED | {"arrivals": {"kind": "stages", "stages": [{"kind": "closed", "sessions": n, "requests": 50} for n in (1, 8)]}}


@pytest.mark.parametrize(
    ("source", "given_", "arrivals", "duration", "requests"),
    [
        pytest.param(OPEN, {"rate": "8/s"}, Stages(stages=(
            Ramp(start=Rate(2), end=Rate(8), duration=D("1m"), hold=D("30s")), Poisson(rate=Rate(8), duration=D("90s")))), None, None, id="rate-scales-stages"),
        pytest.param(OPEN, {"sessions": 4}, Closed(sessions=4), "3m", None, id="sessions-for-as-long"),
        pytest.param(OPEN, {"duration": "1m"}, decode(OPEN).arrivals, "1m", None, id="duration-stretches"),
        pytest.param(CLOSED, {"sessions": 4}, Closed(sessions=4, think_time=D("1s")), "5m", None, id="sessions"),
        pytest.param(CLOSED, {"rate": "4/s"}, Poisson(rate=Rate(4)), "5m", None, id="rate-for-as-long"),
        pytest.param(CLOSED, {"requests": 40}, Closed(sessions=8, think_time=D("1s")), None, 40, id="requests-instead"),
        pytest.param(PROBE, {"rate": "4/s"}, Poisson(rate=Rate(4)), None, 100, id="rate-for-as-many"),
        pytest.param(STAGED | {"arrivals": {"kind": "poisson", "rate": "1/s", "duration": "5m"}}, {"duration": "1m", "rate": "2/s"},
                     Poisson(rate=Rate(2)), "1m", None, id="own-duration-replaced"),
        pytest.param(STAGED | {"arrivals": {"kind": "ramp", "start": "1/s", "end": "2/s", "duration": "1m"}}, {"requests": 9},
                     Ramp(start=Rate(1), end=Rate(2), duration=D("1m")), None, 9, id="a-ramp-keeps-its-length"),
    ],
)  # fmt: skip
def test_shorthands(source, given_, arrivals, duration, requests):
    before = msgspec.json.encode(source)
    made = short(source, **given_)
    assert (made.arrivals, made.duration, made.requests) == (arrivals, duration and D(duration), requests)
    assert msgspec.json.encode(source) == before


@pytest.mark.parametrize(
    ("given_", "message"),
    [
        ({"rate": "2"}, '--rate: "2" is not a rate such as "10/s", "120/min" or "30/h"'),
        ({"rate": "0.0000009/s"}, '--rate: "0.0000009/s" is out of range: a rate is from 0.000001/s to 1,000,000/s'),
        ({"rate": "1000000000/s"}, '--rate: "1000000000/s" is out of range: a rate is from 0.000001/s to 1,000,000/s'),
        ({"rate": "2/s", "sessions": 3}, "--rate and --sessions exclude each other: arrivals come by rate, or when a session is ready"),
        ({"rate": "2/s", "duration": "5"}, '`duration`: "5" is not a duration such as "500ms", "90s", "1m30s" or "2h"'),
        ({"rate": "2/s", "requests": 0}, "`requests`: must be at least 1, not 0"),
        ({"url": "http://h/v1", "rate": "2/s", "requests": 5}, "`target.model`: is missing"),
        ({"rate": "2/s"}, "`duration`: is missing, and so is `requests`: one of the two ends the run (--duration 5m, --requests 400)"),
        ({"requests": 5}, '`arrivals`: is missing: say when conversations start, as kind = "poisson", rate = "2/s" (--rate) or --sessions'),
    ],
)  # fmt: skip
def test_wrong_shorthands_are_one_sentence(given_, message):
    with pytest.raises(UsageError) as caught:
        short(**given_)
    assert str(caught.value) == message


# --- Files ---


@pytest.mark.parametrize(
    ("name", "text", "message"),
    [
        ("nothere.toml", None, "nothere.toml: no such file, shipped scenario or dataset; allowed: {all}"),
        ("r1-mixt", None, "r1-mixt: no such file, shipped scenario or dataset; did you mean `r1-mixed`?"),
        ("x.toml", 'name = "x"\nseed = \n', "x.toml: is not TOML: Invalid value (at line 2, column 8)"),
        ("x.toml", b"\xff", "x.toml: cannot be read: 'utf-8' codec can't decode byte 0xff in position 0: invalid start byte"),
        (".", None, ".: is a folder; give a scenario file"),
        ("", None, "no scenario is named: give a file, a shipped scenario ({shipped}) or a dataset"),
    ],
)
def test_a_file_that_cannot_be_read_is_one_sentence(tmp_path, monkeypatch, name, text, message):
    monkeypatch.chdir(tmp_path)
    if text is not None:
        Path(name).write_bytes(text if isinstance(text, bytes) else text.encode())
    with pytest.raises(UsageError) as caught:
        load(name)
    assert str(caught.value) == message.replace("{all}", ", ".join([*shipped(), *kinds()])).replace(
        "{shipped}", ", ".join(shipped())
    )


def test_a_pipe_is_read_as_a_file_is(path, tmp_path):
    pipe, text = tmp_path / "pipe", path.read_text()
    os.mkfifo(pipe)
    writer = threading.Thread(target=pipe.write_text, args=(text,))
    writer.start()
    assert load(pipe) == load(path)
    writer.join()


def test_relative_names_start_from_the_scenarios_folder(path, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    assert folder(path) == tmp_path.resolve()
    assert folder("r1-mixed") == tmp_path.resolve()


def test_workloads_over_one_dataset_ask_different_things():
    raw = {"name": "x", "duration": "5s", "arrivals": {"kind": "poisson", "rate": "1/s"},
           "workload": {name: {"dataset": {"kind": "aime"}} for name in ("a", "b")}}  # fmt: skip
    items = load(raw).items()
    again = load(raw | {"seed": 1}).items()
    texts = {each.conversation(0).turns[0].text for each in (items["a"], items["b"], again["a"])}
    assert len(texts) == 3
    assert load(raw).items()["a"].conversation(0) == items["a"].conversation(0)


# --- Schema ---


def resolve(schema_, defs):
    return defs[schema_["$ref"].rpartition("/")[2]] if "$ref" in schema_ else schema_


def test_the_schema_knows_every_key_and_unit():
    made = schema()
    defs = made["$defs"]
    assert made["$schema"] == "https://json-schema.org/draft/2020-12/schema"
    top = resolve(made, defs)
    assert list(top["properties"]) == list(Scenario.__struct_fields__)
    assert (top["required"], "required" in defs["Target"]) == (["name", "workload"], False)
    assert top["properties"]["workload"]["additionalProperties"] == {"$ref": "#/$defs/Workload"}
    assert top["properties"]["workload"]["propertyNames"]["pattern"] == "^[a-z0-9][a-z0-9_-]*$"
    assert defs["Timeouts"]["properties"]["total"] == {
        "type": "string", "pattern": r"^(\d+(\.\d+)?(ns|us|ms|s|m|h|d))+$", "examples": ["90s", "1m30s"], "default": "10m",
    }  # fmt: skip
    kinds = [resolve(each, defs)["properties"]["kind"]["const"] for each in top["properties"]["arrivals"]["anyOf"]]
    assert kinds == ["constant", "poisson", "gamma", "ramp", "trace", "closed", "stages"]
    assert msgspec.json.decode(msgspec.json.encode(made)) == made


def fits(value, shape, defs):
    """Check a value against the parts of JSON schema that ours uses."""
    shape = resolve(shape, defs) | {k: v for k, v in shape.items() if k != "$ref"}
    if "anyOf" in shape:
        return any(fits(value, each, defs) for each in shape["anyOf"])
    if "const" in shape or "enum" in shape:
        return value in shape.get("enum", [shape.get("const")])
    match shape.get("type"):
        case "object":
            known = shape.get("properties", {})
            rest = shape.get("additionalProperties", {})
            return isinstance(value, dict) and set(shape.get("required", [])) <= set(value) and all(
                fits(v, known[k], defs) if k in known else rest is not False and fits(v, rest, defs) for k, v in value.items()
            )  # fmt: skip
        case "array":
            return isinstance(value, list) and all(fits(each, shape["items"], defs) for each in value)
        case "string":
            return isinstance(value, str) and re.search(shape.get("pattern", ""), value) is not None
        case "integer":
            return isinstance(value, int) and not isinstance(value, bool) and value >= shape.get("minimum", value)
        case "number":
            return isinstance(value, int | float) and not isinstance(value, bool)
        case "boolean":
            return isinstance(value, bool)
    return True


def test_the_schema_accepts_what_loads_and_refuses_what_does_not():
    made = schema()
    raw = tomllib.loads(EVERYTHING)
    assert fits(raw, made, made["$defs"])
    assert fits(resolved(load(raw)), made, made["$defs"])
    for path in shipped().values():
        assert fits(tomllib.loads(path.read_text()), made, made["$defs"]), path.name
    assert not fits(raw | {"seed": "x"}, made, made["$defs"])
    assert not fits(raw | {"sed": 1}, made, made["$defs"])
    assert not fits(raw | {"warmup": 30}, made, made["$defs"])


def test_every_key_is_in_the_docs():
    page = (ROOT / "docs" / "scenarios.md").read_text() + (ROOT / "docs" / "arrivals.md").read_text()
    structs = (
        Scenario,
        Target,
        Timeouts,
        Price,
        System,
        Sampling,
        Workload,
        Stop,
        ErrorRate,
        Drain,
        Sla,
        Sinks,
        InfluxDb,
        *get_args(AnyArrivals),
    )
    keys = {key for struct in structs for key in struct.__struct_fields__}
    assert sorted(key for key in keys if not re.search(rf"`[^`\n]*\b{key}\b[^`\n]*`", page)) == []


def test_every_shipped_scenario_is_in_the_docs():
    page = (ROOT / "docs" / "scenarios.md").read_text()
    assert [name for name in shipped() if f"`{name}`" not in page] == []


@pytest.mark.parametrize("page", ["scenarios", "arrivals"])
def test_examples_in_the_docs_are_right(page):
    text = (ROOT / "docs" / f"{page}.md").read_text()
    examples = re.findall(r"^```toml\n(.*?)^```", text, re.MULTILINE | re.DOTALL)
    assert examples
    for example in examples:
        for each in [example] if "[" in example else example.splitlines():
            raw = tomllib.loads(each)
            load(
                {"name": "x", "workload": {"chat": {"dataset": {"kind": "chat"}}}}
                | ({} if "stages" in each or "requests" in raw else {"duration": "1h"})
                | raw
            )


def test_overrides_in_the_docs_are_right(path):
    text = (ROOT / "docs" / "scenarios.md").read_text()
    sets = re.findall(r"^--set '?(.*?)'?$", text, re.MULTILINE)
    assert len(sets) == 3
    load(path, sets)
