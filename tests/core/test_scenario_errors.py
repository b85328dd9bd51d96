"""Every mistake in a scenario is one sentence with its real path and what is allowed."""

import tomllib

import pytest

from r1perf.errors import ScenarioError
from r1perf.scenario import load

BASE = """
name = "x"
duration = "5m"
[target]
url = "http://h/v1"
model = "m"
[workload.chat]
dataset = { kind = "chat" }
[arrivals]
kind = "poisson"
rate = "1/s"
"""
POISSON = 'kind = "poisson"\nrate = "1/s"'


def error(*changes, add=""):
    """Return the sentence that a changed scenario is refused with."""
    text = BASE
    for old, new in changes:
        assert old in text
        text = text.replace(old, new)
    with pytest.raises(ScenarioError) as caught:
        load(tomllib.loads(text + add))
    return str(caught.value)


def test_the_base_is_right():
    assert load(tomllib.loads(BASE)).name == "x"


RATE = 'a rate such as "10/s", "120/min" or "30/h"'
TIME = 'a duration such as "500ms", "90s", "1m30s" or "2h"'

TYPES = [
    ("unknown-key", ("dataset =", "weigth = 3\ndataset ="), "`workload.chat.weigth`: unknown; did you mean `weight`?"),
    ("unknown-top", ('name = "x"', 'name = "x"\ntarge = 3'), "`targe`: unknown; did you mean `target`?"),
    ("unknown-far", ('model = "m"', 'model = "m"\nzzz = 1'),
     ("`target.zzz`: unknown; allowed: url, model, name, provider, reasoning, endpoint, stream, engine, api_key_env, headers, extra_body, "
     "verify_tls, timeouts, wait_ready, max_in_flight, price, system")),
    ("unknown-in-table", ('model = "m"', 'model = "m"\ntimeouts = { totl = "5s" }'), "`target.timeouts.totl`: unknown; did you mean `total`?"),
    ("dataset-kind", ('"chat" }', '"chatt" }'), '`workload.chat.dataset.kind`: unknown kind "chatt"; did you mean `chat`?'),
    ("dataset-no-kind", ('kind = "chat"', ""), "`workload.chat.dataset.kind`: is missing; allowed: aime, chat, openai, prompts, synthetic, trace"),
    ("dataset-key", ('"chat" }', '"chat", tunrs = 3 }'), "`workload.chat.dataset.tunrs`: unknown; did you mean `turns`?"),
    ("dataset-missing", ('dataset = { kind = "chat" }', "weight = 1"), "`workload.chat.dataset`: is missing"),
    ("dist-kind", ('"chat" }', '"chat", message_tokens = { dist = "nrmal" } }'),
     '`workload.chat.dataset.message_tokens.dist`: unknown dist "nrmal"; did you mean `normal`?'),
    ("arrival-kind", ('"poisson"', '"zipf"'), '`arrivals.kind`: unknown kind "zipf"; allowed: constant, poisson, gamma, ramp, trace, closed, stages'),
    ("arrival-no-kind", ('kind = "poisson"', ""), "`arrivals.kind`: is missing; allowed: constant, poisson, gamma, ramp, trace, closed, stages"),
    ("stage", (POISSON, 'kind = "stages"\nstages = [{ kind = "ramp", start = "1/s", edn = "2/s" }]'),
     "`arrivals.stages[0].edn`: unknown; did you mean `end`?"),
    ("stage-kind", (POISSON, 'kind = "stages"\nstages = [{ kind = "stages" }]'),
     '`arrivals.stages[0].kind`: unknown kind "stages"; allowed: constant, poisson, gamma, ramp, trace, closed'),
    ("stage-table", (POISSON, 'kind = "stages"\nstages = [3]'), "`arrivals.stages[0]`: must be a table, not 3"),
    ("no-stages", (POISSON, 'kind = "stages"\nstages = []'), "`arrivals.stages`: must not be empty"),
    ("rate-number", ('"1/s"', "5"), f"`arrivals.rate`: 5 is not {RATE}"),
    ("rate-unit", ('"1/s"', '"5s"'), f'`arrivals.rate`: "5s" is not {RATE}'),
    ("rate-negative", ('"1/s"', '"-1/s"'), '`arrivals.rate`: must not be negative: "-1/s"'),
    ("rate-bool", ('"1/s"', "true"), f"`arrivals.rate`: true is not {RATE}"),
    ("duration-number", ('"5m"', "300"), f"`duration`: 300 is not {TIME}"),
    ("duration-rate", ('"5m"', '"5/s"'), f'`duration`: "5/s" is not {TIME}'),
    ("gaps", (POISSON, 'kind = "ramp"\nstart = "1/s"\nend = "2/s"\ngaps = "foo"'), '`arrivals.gaps`: unknown gaps "foo"; allowed: constant, poisson'),
    ("gaps-key", (POISSON, 'kind = "ramp"\nstart = "1/s"\nend = "2/s"\ngaps = { gama = 1 }'), "`arrivals.gaps.gama`: unknown; did you mean `gamma`?"),
    ("gaps-value", (POISSON, 'kind = "ramp"\nstart = "1/s"\nend = "2/s"\ngaps = { gamma = -1 }'), "`arrivals.gaps.gamma`: must be greater than 0, not -1"),
    ("sessions", (POISSON, 'kind = "closed"\nsessions = 0'), "`arrivals.sessions`: must be at least 1, not 0"),
    ("sessions-text", (POISSON, 'kind = "closed"\nsessions = "3"'), '`arrivals.sessions`: must be a whole number, not "3"'),
    ("literal", ('model = "m"', 'model = "m"\nreasoning = "tag"'), '`target.reasoning`: unknown reasoning "tag"; did you mean `tags`?'),
    ("header", ('model = "m"', 'model = "m"\nheaders = { A = "1", B = 2 }'), "`target.headers.B`: must be a text, not 2"),
    ("table", ('model = "m"', 'model = "m"\nheaders = 1'), "`target.headers`: must be a table, not 1"),
    ("bool", ('name = "x"', 'name = "x"\nrecord_chunks = 1'), "`record_chunks`: must be true or false, not 1"),
    ("float", ('name = "x"', 'name = "x"\nrequests = 3.5'), "`requests`: must be a whole number, not 3.5"),
    ("bound", ('name = "x"', 'name = "x"\nrequests = -3'), "`requests`: must be at least 1, not -3"),
    ("name", ('"x"', '"X y"'), '`name`: "X y" is not a name: names match [a-z0-9][a-z0-9_-]*'),
    ("no-name", ('name = "x"', ""), "`name`: is missing"),
    ("workload-name", ("[workload.chat]", "[workload.Chat]"), "`workload.Chat`: is not a name: names match [a-z0-9][a-z0-9_-]*"),
    ("tokens", ("dataset =", 'max_tokens = "8kb"\ndataset ='), '`workload.chat.max_tokens`: "8kb" is not a count of tokens such as 2048 or "8k" (8192)'),
    ("tokens-0", ("dataset =", "max_tokens = 0\ndataset ="), "`workload.chat.max_tokens`: must be at least 1, not 0"),
    ("tokens-0k", ("dataset =", 'max_tokens = "0k"\ndataset ='), '`workload.chat.max_tokens`: must be at least 1, not "0k"'),
    ("weight", ("dataset =", "weight = -1\ndataset ="), "`workload.chat.weight`: must be at least 0, not -1"),
    ("weight-inf", ("dataset =", "weight = inf\ndataset ="), "`workload.chat.weight`: must be a finite number, not inf"),
    ("date", ('model = "m"', 'model = "m"\nextra_body = { a = [2026-11-30] }'),
     '`target.extra_body.a[0]`: dates cannot be sent as JSON; write it as a text: "2026-11-30"'),
    ("date-for-number", ('name = "x"', 'name = "x"\nrequests = 2024-01-01'), "`requests`: must be a whole number, not a date"),
    ("date-for-text", ('"x"', "2024-01-01"), "`name`: must be a text, not a date"),
    ("date-for-duration", ('"5m"', "2024-01-01"), f"`duration`: 2024-01-01 is not {TIME}"),
    ("tokens-large", ("dataset =", "max_tokens = 99999999999999999999\ndataset ="),
     "`workload.chat.max_tokens`: must be a whole number from -9007199254740991 to 9007199254740991, not 99999999999999999999"),
    ("tokens-large-text", ("dataset =", 'max_tokens = "9999999999999M"\ndataset ='),
     '`workload.chat.max_tokens`: must be at most 9007199254740991, not "9999999999999M"'),
    ("seed-large", ('name = "x"', 'name = "x"\nseed = 9007199254740992'),
     "`seed`: must be a whole number from -9007199254740991 to 9007199254740991, not 9007199254740992"),
    ("extra-body-large", ('model = "m"', 'model = "m"\nextra_body = { a = [-9007199254740992] }'),
     "`target.extra_body.a[0]`: must be a whole number from -9007199254740991 to 9007199254740991, not -9007199254740992"),
    ("extra-bound", ('model = "m"', 'model = "m"\nextra_body = { max_completion_tokens = 9 }'),
     "`target.extra_body.max_completion_tokens`: would win over every other bound; say `workload.NAME.max_tokens`"),
    ("extra-bound-workload", ("dataset =", "extra_body = { max_tokens = 9 }\ndataset ="),
     "`workload.chat.extra_body.max_tokens`: would win over every other bound; say `workload.chat.max_tokens`"),
    ("no-model", ('model = "m"', ""), "`target.model`: is missing"),
]  # fmt: skip


@pytest.mark.parametrize(("change", "sentence"), [case[1:] for case in TYPES], ids=[case[0] for case in TYPES])
def test_types_and_names(change, sentence):
    assert error(change) == sentence


ADDED = [
    ("labels", "[labels]\na = 3", "`labels.a`: must be a text, not 3"),
    ("sink", "[sinks]\ninfluxdb = 3", "`sinks.influxdb`: must be a table, not 3"),
    ("sink-name", "[sinks.influxdbs]", "`sinks.influxdbs`: unknown; did you mean `influxdb`?"),
    ("sink-key", '[sinks.influxdb]\ntoken = "secret"', "`sinks.influxdb.token`: unknown; did you mean `token_env`?"),
    ("sink-url", '[sinks.influxdb]\nurl = "localhost:8086"',
     '`sinks.influxdb.url`: "localhost:8086" is not a url such as "http://127.0.0.1:8086"'),
    ("sink-url-brackets", '[sinks.influxdb]\nurl = "http://[h"', '`sinks.influxdb.url`: "http://[h" is not a url: Invalid IPv6 URL'),
    ("sink-url-password", '[sinks.influxdb]\nurl = "http://me:secret@h:8086"',
     "`sinks.influxdb.url`: must not carry a user or password; name the token's variable in `sinks.influxdb.token_env`"),
    ("sink-token", '[sinks.influxdb]\ntoken_env = "s3cret-token=="',
     "`sinks.influxdb.token_env`: must be the name of an environment variable, never the token itself"),
    ("sink-interval", '[sinks.influxdb]\ninterval = "0s"', "`sinks.influxdb.interval`: must be greater than 0"),
    ("sink-interval-short", '[sinks.influxdb]\ninterval = "500ms"',
     "`sinks.influxdb.interval`: must not be shorter than the run's `interval`, 1s"),
    ("sink-spool", "[sinks.influxdb]\nspool_mb = 0", "`sinks.influxdb.spool_mb`: must be at least 1, not 0"),
    ("clauses", '[sla]\nclauses = "x"', '`sla.clauses`: must be a list, not "x"'),
    ("clause", '[sla]\nclauses = ["a < 1", " "]', "`sla.clauses[1]`: must not be empty"),
    ("error-rate", "[stop]\nerror_rate = 0.5", "`stop.error_rate`: must be a table, not 0.5"),
    ("error-rate-window", '[stop]\nerror_rate = { above = 0.5, window = "0s" }', "`stop.error_rate.window`: must be greater than 0"),
    ("cost", "[stop]\ncost = -1", "`stop.cost`: must be greater than 0, not -1"),
    ("cost-without-price", "[stop]\ncost = 1",
     "`stop.cost`: cannot be kept without `target.price.input_per_1m` and `target.price.output_per_1m`"),
    ("tokens-without-bound", "[stop]\noutput_tokens = 1000",
     "`workload.chat.max_tokens`: is missing: `stop.output_tokens` reserves every request at it"),
    ("trace-is-ordered", '[workload.t]\ndataset = { kind = "trace", file = "t.csv" }\n[stop]\noutput_tokens = 1000',
     "`workload.chat.max_tokens`: is missing: `stop.output_tokens` reserves every request at it"),
    ("several-answers", '[target.extra_body]\nn = 3\n[stop]\nrequests = 9\noutput_tokens = 1000',
     "`target.extra_body.n`: must be 1 or left out: `stop.output_tokens` reserves one answer a request"),
    ("drain", '[drain]\nmode = "never"', f'`drain.mode`: "never" is not {TIME}, or "finish"'),
    ("weight-and-arrivals", '[workload.b]\nweight = 1\ndataset = { kind = "chat" }\narrivals = { kind = "poisson", rate = "1/s" }',
     "`workload.b.weight`: cannot stand beside arrivals of the workload's own; leave one of the two out"),
    ("own-name", '[workload.b]\ndataset = { kind = "chat" }\narrivals = { kind = "poisson", rate = "1/s", name = "a" }',
     "`workload.b.arrivals.name`: belongs to the run's own stages, not to a workload's arrivals"),
    ("own-rate", '[workload.b]\ndataset = { kind = "chat" }\narrivals = { kind = "poisson", rate = "0/s" }',
     "`workload.b.arrivals.rate`: must be greater than 0"),
]  # fmt: skip


@pytest.mark.parametrize(("add", "sentence"), [case[1:] for case in ADDED], ids=[case[0] for case in ADDED])
def test_other_tables(add, sentence):
    assert error(add=add) == sentence


def ramp(**keys):
    return (
        POISSON,
        "\n".join(f'{key} = "{value}"' for key, value in ({"kind": "ramp", "start": "1/s", "end": "2/s"} | keys).items()),
    )


def staged(*parts):
    return (POISSON, 'kind = "stages"\nstages = [' + ", ".join(f"{{ {part} }}" for part in parts) + "]")


STEADY = 'kind = "poisson", rate = "1/s", duration = "1m"'
NO_DURATION = ('duration = "5m"', "")

RULES = [
    ("zero-weights", [("dataset =", "weight = 0\ndataset =")], "`workload`: the weights add up to 0; give at least one workload a weight above 0"),
    ("no-workload", [('[workload.chat]\ndataset = { kind = "chat" }', "")], "`workload`: is missing: a scenario needs at least one table [workload.NAME]"),
    ("url", [("http://h/v1", "h:8000/v1")], '`target.url`: "h:8000/v1" is not a url such as "http://127.0.0.1:8000/v1" or "simulate:tiny"'),
    ("url-brackets", [("http://h/v1", "http://[::1/v1")], '`target.url`: "http://[::1/v1" is not a url: Invalid IPv6 URL'),
    ("url-port", [("http://h/v1", "http://h:99999/v1")], '`target.url`: "http://h:99999/v1" is not a url: Port out of range 0-65535'),
    ("url-blank", [("h/v1", "h/v 1")], '`target.url`: "http://h/v 1" holds a character that must be percent-encoded'),
    ("model", [('model = "m"', 'model = ""')], "`target.model`: must not be empty"),
    ("header-value", [('model = "m"', 'model = "m"\nheaders = { X-Team = "höhö" }')],
     "`target.headers.X-Team`: has a line break or a character that is not ASCII in its value"),
    ("header-line", [("dataset =", 'headers = { X-Team = "a\\nb" }\ndataset =')],
     "`workload.chat.headers.X-Team`: has a line break or a character that is not ASCII in its value"),
    ("header-name", [('model = "m"', 'model = "m"\nheaders = { "X Team" = "a" }')],
     "`target.headers.X Team`: has a character in its name that no header's name may have"),
    ("header-ours", [('model = "m"', 'model = "m"\nheaders = { content-length = "5" }')],
     "`target.headers.content-length`: cannot be set: it follows from the body"),
    ("url-password", [("http://h", "http://u:p@h")],
     "`target.url`: must not carry a user or password; name the key's variable in `target.api_key_env`"),
    ("simulate", [("http://h/v1", "simulate:tiny?x")], '`target.url`: "simulate:tiny?x" is not simulate:PROFILE or simulate:PROFILE?option=value'),
    ("key", [('model = "m"', 'model = "m"\napi_key_env = "sk-123"')],
     "`target.api_key_env`: must be the name of an environment variable, never the key itself"),
    ("provider", [('model = "m"', 'model = "m"\nprovider = "vlm"')], '`target.provider`: unknown provider "vlm"; did you mean `vllm`?'),
    ("timeout-0", [('model = "m"', 'model = "m"\ntimeouts = { total = "0s" }')], "`target.timeouts.total`: must be greater than 0"),
    ("gpu-hour", [('model = "m"', 'model = "m"\nprice = { gpu_hour = 1.17 }')],
     "`target.price.gpu_hour`: needs `target.system.gpus`, the number of GPUs that cost this an hour"),
    ("price", [('model = "m"', 'model = "m"\nprice = { input_per_1m = -1 }')], "`target.price.input_per_1m`: must be at least 0, not -1"),
    ("sessions", [(POISSON, 'kind = "closed"\nsessions = 100_001')], "`arrivals.sessions`: must be at most 100000, not 100001"),
    ("rate-0", [('"1/s"', '"0/s"')], "`arrivals.rate`: must be greater than 0"),
    ("duration-0", [('"5m"', '"0s"')], "`duration`: must be greater than 0"),
    ("interval", [('name = "x"', 'name = "x"\ninterval = "70s"')], "`interval`: must be at most 1m, not 1m10s"),
    ("stage-duration-0", [NO_DURATION, ('"1/s"', '"1/s"\nduration = "0s"')], "`arrivals.duration`: must be greater than 0"),
    ("two-durations", [('"1/s"', '"1/s"\nduration = "1m"')], "`arrivals.duration`: says the same as `duration`; give one of the two"),
    ("no-end", [NO_DURATION],
     "`duration`: is missing, and so is `requests`: one of the two ends the run (--duration 5m, --requests 400)"),
    ("ramp-0-0", [ramp(start="0/s", end="0/s", duration="1m")], "`arrivals.end`: must be greater than 0, where `start` is 0"),
    ("ramp-exponential-0", [ramp(start="0/s", curve="exponential", duration="1m")], '`arrivals.start`: must be greater than 0 with curve = "exponential"'),
    ("ramp-request-0", [ramp(end="0/s", by="request")], '`arrivals.end`: must be greater than 0 with by = "request"'),
    ("ramp-no-length", [ramp()], "`arrivals.duration`: is missing: a ramp in time needs the length of the ramp"),
    ("ramp-request-length", [ramp(by="request", duration="1m")], '`arrivals.duration`: does not go with by = "request": the number of requests ends it'),
    ("ramp-request-hold", [ramp(by="request", hold="1m")], '`arrivals.hold`: does not go with by = "request": the number of requests ends it'),
    ("ramp-request-endless", [ramp(by="request")], '`arrivals.requests`: is missing: a ramp with by = "request" needs their number'),
    ("ramp-too-long", [ramp(duration="10m")], "`duration`: must not be shorter than the ramp, 10m"),
    ("reserved", [NO_DURATION, staged(f'name = "warmup", {STEADY}')], '`arrivals.stages[0].name`: "warmup" is reserved: so are warmup, cooldown, drain and live-...'),
    ("live", [NO_DURATION, staged(f'name = "live-2", {STEADY}')], '`arrivals.stages[0].name`: "live-2" is reserved: so are warmup, cooldown, drain and live-...'),
    ("twice", [NO_DURATION, staged(f'name = "a", {STEADY}', f'name = "a", {STEADY}')], '`arrivals.stages[1].name`: "a" is the name of an earlier stage'),
    ("unjudged", [NO_DURATION, staged(f"judged = false, {STEADY}")],
     "`arrivals`: no stage is judged, so there would be nothing to report; leave `judged` out of one"),
    ("closed-requests", [('duration = "5m"', "requests = 5"), staged('kind = "closed", sessions = 2, requests = 3')],
     "`requests`: does not go with closed-loop stages; give each stage its own, as `arrivals.stages[0].requests`"),
    ("unused-arrivals", [("dataset =", 'arrivals = { kind = "poisson", rate = "1/s" }\ndataset =')],
     "`arrivals`: would not be used: every workload has arrivals of its own"),
    ("no-arrivals", [(f"[arrivals]\n{POISSON}", "")],
     '`arrivals`: is missing: say when conversations start, as kind = "poisson", rate = "2/s" (--rate) or --sessions'),
]  # fmt: skip


@pytest.mark.parametrize(("changes", "sentence"), [case[1:] for case in RULES], ids=[case[0] for case in RULES])
def test_rules_between_keys(changes, sentence):
    assert error(*changes) == sentence
