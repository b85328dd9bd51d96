"""Every fault of the simulated endpoint ends in exactly its outcome, and the client's account agrees with the server's own.

Client and server read the same monotonic clock, and the server stamps right before a write, the client right after a read. So
what the client says lies never before what the server says; how far behind depends on the machine, and is only bounded by sanity.
"""

import random
import subprocess
from collections import Counter, defaultdict
from collections.abc import Iterator
from pathlib import Path
from typing import Any, NamedTuple

import pytest
import runs
import services
from runs import Ran

from r1perf.clock import monotonic_ns, sleep
from r1perf.result import Result
from r1perf.simulator.faults import KINDS, parse_fault
from r1perf.simulator.truth import Truth

SANE_NS = 5_000_000_000
"""How far a busy machine may part two processes' stamps of one thing."""

TOKENS = 16
STRUCK = TOKENS // 2
"""After how many tokens a fault in the middle strikes."""

# What the server says of it, and the outcome and reason on each way to ask; "=" is that to its left.
TABLE = """
fault             ending    fast                            openai                      fast, whole                     openai, whole
none              complete  ok                              =                           =                               =
rate_limit:2      refused   rate_limited/http_429           =                           =                               =
unavailable       refused   overloaded/http_503             =                           =                               =
overloaded        refused   overloaded/http_529             =                           =                               =
server_error      refused   server_error/http_500           =                           =                               =
unauthorized      refused   client_error/http_401           =                           =                               =
forbidden         refused   client_error/http_403           =                           =                               =
model_not_found   refused   client_error/http_404           =                           =                               =
bad_request       refused   client_error/http_400           =                           =                               =
close             cut       connect_error/*                 =                           =                               =
slow_head:0.2     complete  ok                              =                           =                               =
slow_head:60      aborted   timeout/first_chunk             =                           timeout/total                   =
keep_alive:0.01   complete  ok                              =                           =                               =
stall:0.2         complete  ok                              =                           =                               =
stall:forever     aborted   timeout/between_chunks          =                           timeout/total                   =
cut:reset         cut       stream_broken/reset             =                           =                               =
cut:eof           cut       stream_broken/eof               =                           =                               =
cut:end           cut       stream_broken/no_finish_reason  =                           =                               stream_broken/malformed
error_object      error     stream_error/500                =                           server_error/http_500           =
error_event       error     stream_error/error              stream_broken/malformed     server_error/http_500           =
bad_json          complete  ok                              stream_broken/malformed     stream_broken/no_finish_reason  stream_broken/malformed
content_filter    complete  filtered/content_filter         =                           =                               =
no_finish         complete  stream_broken/no_finish_reason  =                           =                               =
no_usage          complete  ok                              =                           =                               =
multi_token       complete  ok                              =                           =                               =
burst             complete  ok                              =                           =                               =
rerouted:other    complete  ok                              =                           =                               =
"""
WAYS = ("fast", "openai", "fast, whole", "openai, whole")


class Row(NamedTuple):
    """What a fault ends in."""

    ending: str
    by_way: dict[str, tuple[str, str | None]]


def read_table(text: str) -> dict[str, Row]:
    """Read the table above."""
    head, *lines = text.strip().splitlines()
    columns = [head.index(f" {name}" + ("  " if name != WAYS[-1] else "")) + 1 for name in ("ending", *WAYS)]
    rows = {}
    for line in lines:
        fault, ending, *cells = (line[a:b].strip() for a, b in zip([0, *columns], [*columns, None], strict=True))
        by_way = {}
        for at, way in enumerate(WAYS):
            cells[at] = cells[at - 1] if cells[at] == "=" else cells[at]
            outcome, _, reason = cells[at].partition("/")
            by_way[way] = outcome, reason or None
        rows[fault] = Row(ending, by_way)
    return rows


FAULTS = read_table(TABLE)


def endings(fault: str, way: str) -> set[str]:
    """Say how the server may see a request end: the SDK leaves at what is not JSON, before or after the server is done."""
    return {FAULTS[fault].ending} | ({"aborted"} if (fault, way) == ("bad_json", "openai") else set())


ENDLESS = ("timeout", "total")
"""What becomes of an answer of which chunk after chunk comes, for longer than it may take."""

TARGET = """
record_chunks = true
[target]
model = "deepseek-r1"
provider = "{provider}"
stream = {stream}
engine = "{engine}"
timeouts = {{ first_chunk = "3s", between_chunks = "2s", total = "4s" }}
{more}
"""

# A ramp from nothing: nothing comes in the warmup, at whose end the target is known to answer. Else its 401 would end the run.
WORKLOAD = """
[workload.{name}]
dataset = {{ kind = "synthetic", calibrate = false, input_tokens = 20, output_tokens = {tokens} }}
headers = {{ x-r1sim-fault = "{fault}", x-request-id = "{name}" }}
arrivals = {{ kind = "ramp", start = "0/s", end = "3/s", duration = "1200ms", gaps = "constant" }}
"""

PLAIN = """
[workload.plain]
dataset = { kind = "synthetic", calibrate = false, input_tokens = 20, output_tokens = 16 }
headers = { x-r1sim-fault = "none", x-request-id = "plain" }
arrivals = { kind = "constant", rate = "5/s" }
"""


def named(fault: str) -> str:
    """Name a workload after its fault."""
    return fault.replace(":", "-").replace("_", "-").replace(".", "-")


def scenario(
    path: Path, workloads: list[str], *, engine: str = "fast", stream: bool = True, more: str = "", **target: str
) -> Path:
    """Write a scenario."""
    provider = target.get("provider", "vllm")
    head = TARGET.format(engine=engine, stream=str(stream).lower(), provider=provider, more=more)
    path.write_text('name = "faults"\nwarmup = "1500ms"\nduration = "1200ms"\n' + head + "".join(workloads))
    return path


MIXED = """
[workload.mixed]
dataset = { kind = "synthetic", calibrate = false, input_tokens = 20, output_tokens = 16 }
arrivals = { kind = "ramp", start = "0/s", end = "80/s", duration = "1200ms" }
"""

MIXABLE = [fault for fault in FAULTS if fault not in ("none", "slow_head:60", "stall:forever", "rerouted:other")]
SEEDS = [("fast", 0), ("fast", 1), ("fast", 2), ("openai", 3)]


def mix(seed: int) -> dict[str, float]:
    """Draw faults and the shares of the requests that get them; one fault a name, since the log holds no more."""
    drawn = random.Random(seed)
    chosen = {parse_fault(fault).name: fault for fault in drawn.sample(MIXABLE, drawn.randrange(4, 11))}
    shares = [drawn.uniform(0.05, 0.25) for _ in chosen]
    return {fault: share * min(1.0, 0.85 / sum(shares)) for fault, share in zip(chosen.values(), shares, strict=True)}


class Told:
    """A run and what the server says of it."""

    def __init__(self, ran: Ran, truth: Path, server: services.Service) -> None:
        self.ran = ran
        until_ns = monotonic_ns() + SANE_NS
        while (stats := server.json("/r1sim/stats"))["active"] and monotonic_ns() < until_ns:
            sleep(0.05)  # it notices a client that has left when its kernel tells
        self.stats = stats
        server.stop()
        self.truths = runs.truths(truth)

    def by_workload(self) -> dict[str, list[tuple[Result, Truth]]]:
        """Pair each request with its truth: by workload, there in order."""
        results, truths = defaultdict(list), defaultdict(list)
        for result in sorted(self.ran.results, key=lambda result: result.sent_ns):
            results[result.workload].append(result)
        for truth in sorted(self.truths, key=lambda truth: truth.received_ns):
            truths[truth.client_id].append(truth)
        assert {name: len(some) for name, some in results.items()} == {name: len(some) for name, some in truths.items()}
        return {name: list(zip(results[name], truths[name], strict=True)) for name in results}


class Begun:
    """Runs that go on at once, each against a server of its own."""

    def __init__(self, factory: pytest.TempPathFactory) -> None:
        self._factory = factory
        self._begun: dict[Any, tuple[subprocess.Popen[str], Path, services.Service]] = {}

    def begin(self, key: Any, workloads: list[str], *flags: str, sets: tuple[str, ...] = (), **ways: Any) -> None:
        folder = self._factory.mktemp("faults")
        file = scenario(folder / "faults.toml", workloads, **ways)
        server = services.simulator(folder / "log", "--truth", str(folder / "truth"), *flags)
        words = [word for text in sets for word in ("--set", text)]
        self._begun[key] = runs.start(folder / "runs", file, "--url", server.url, "--quiet", *words), folder, server

    def ended(self) -> dict[Any, Told]:
        return {
            key: Told(Ran(process, folder / "runs", 90), folder / "truth", server)
            for key, (process, folder, server) in self._begun.items()
        }

    def stop(self) -> None:
        for process, _, server in self._begun.values():
            if process.poll() is None:
                process.kill()
                process.communicate()
            server.stop()


@pytest.fixture(scope="module")
def begun(tmp_path_factory) -> Iterator[Begun]:
    begun = Begun(tmp_path_factory)
    yield begun
    begun.stop()


@pytest.fixture(scope="module")
def told(begun) -> dict[Any, Told]:
    """Give what came of every way to ask and of every mix, all at once: they mostly wait."""
    for way in WAYS:
        engine, _, whole = way.partition(", ")
        workloads = [WORKLOAD.format(name=named(fault), fault=fault, tokens=TOKENS) for fault in FAULTS]
        workloads.append(WORKLOAD.format(name="endless", fault="none", tokens=20_000))
        begun.begin(way, [*workloads, PLAIN], "--truth-tokens", engine=engine, stream=not whole)
    for engine, seed in SEEDS:
        flags = [word for fault, share in mix(seed).items() for word in ("--fault", f"{fault}={share:.4f}")]
        begun.begin(seed, [MIXED, PLAIN], "--seed", str(seed), *flags, engine=engine, sets=(f"seed={seed}",))
    return begun.ended()


@pytest.fixture(params=WAYS)
def way(request) -> str:
    return request.param


def test_the_table_has_every_fault():
    assert {parse_fault(fault).name for fault in FAULTS if fault != "none"} == set(KINDS)


def test_each_fault_ends_in_its_outcome_and_reason(told, way):
    runs.ended(told[way].ran)
    pairs = told[way].by_workload()
    assert set(pairs) == {"plain", "endless", *map(named, FAULTS)}
    for fault, row in FAULTS.items():
        assert len(pairs[named(fault)]) >= 2
        for result, truth in pairs[named(fault)]:
            outcome, reason = row.by_way[way]
            if fault == "close":  # on a connection that was used before, no one can tell it from one that was closed meanwhile
                assert result.reason in (("eof", "stale_connection") if "fast" in way else ("eof", "reset"))
                reason = result.reason
            assert (result.outcome, result.reason) == (outcome, reason), (fault, result)
            assert truth.ending in endings(fault, way), (fault, truth)
            assert truth.fault == (None if fault == "none" else parse_fault(fault).name)
    assert {(result.outcome, result.reason) for result, _ in pairs["endless"]} == {ENDLESS}
    assert {result.outcome for result, _ in pairs["plain"]} == {"ok"}


def test_what_the_server_said_is_kept(told, way):
    pairs = told[way].by_workload()
    assert {result.retry_after_ns for result, _ in pairs["rate-limit-2"]} == {2_000_000_000}
    assert {result.retry_after_ns for result, _ in pairs["unavailable"]} == {1_000_000_000}
    assert {result.model for result, _ in pairs["rerouted-other"]} == {"other"}
    assert {result.message for result, _ in pairs["model-not-found"]} == {"The model `deepseek-r1` does not exist."}
    for result, truth in (pair for some in pairs.values() for pair in some):
        assert result.status == truth.status
        assert result.finish_reason in (truth.finish_reason, None)
        assert result.request_id == truth.id or (result.request_id is None and not result.chunks and result.outcome != "ok")


def test_run_json_counts_what_the_lines_say(told, way):
    ran = told[way].ran
    document, results = ran.document, ran.results
    reasons = defaultdict(Counter)
    for result in results:
        if result.reason is not None:
            reasons[str(result.outcome)][result.reason] += 1
    assert document["reasons"] == reasons
    for row in document["workloads"]:
        mine = [result for result in results if result.workload == row["name"]]
        counts = Counter(str(result.outcome) for result in mine)
        assert {key: n for key, n in row["counts"].items() if key != "in_flight"} == {**counts, "scheduled": len(mine)}
    (judged,) = [row["plan"]["index"] for row in document["stages"] if row["plan"]["judged"]]
    for row in document["series"]:
        if row["metric"] == "ttft" and "workload" in row and "stage" not in row:
            ttft = [
                (result.first_ns - result.scheduled_ns) / 1e6
                for result in results
                if result.workload == row["workload"] and result.stage == judged and result.first_ns is not None
            ]
            assert (row["count"], row["min"], row["max"]) == (
                len(ttft),
                pytest.approx(min(ttft), abs=0.002),
                pytest.approx(max(ttft), abs=0.002),
            )


def test_the_server_counts_the_same_requests(told, way):
    stats, truths, results = told[way].stats, told[way].truths, told[way].ran.results
    assert (stats["requests"], stats["active"]) == (len(results), 0)
    assert stats["endings"] == Counter(truth.ending for truth in truths)
    assert stats["faults"] == Counter(truth.fault for truth in truths if truth.fault is not None)
    if way.startswith("fast"):
        assert {result.local_port for result in results} == {truth.client_port for truth in truths}
        opened = [result.local_port for result in results if result.connect_ns is not None]
        assert len(opened) == len(set(opened))
        assert len({result.local_port for result in results} - set(opened)) <= 1  # what asked for the models may be used again


def test_tokens_are_the_servers(told, way):
    for result, truth in (pair for some in told[way].by_workload().values() for pair in some):
        usage = result.usage
        if result.token_source == "server":
            assert (usage.input_tokens, usage.output_tokens) == (truth.prompt_tokens, truth.output_tokens)
            assert (usage.reasoning_tokens, usage.cached_tokens or 0) == (truth.reasoning_tokens, truth.cached_tokens)
            assert not result.length_mismatch or truth.fault == "content_filter"
        elif result.token_source == "chunks":
            assert usage.output_tokens == result.chunks
        else:
            assert usage.output_tokens is None


def test_no_stamp_lies_before_the_servers_own(told, way):
    for result, truth in (pair for some in told[way].by_workload().values() for pair in some):
        stamps = [
            (result.scheduled_ns, result.sent_ns), (result.sent_ns, truth.received_ns), (truth.head_ns, result.head_ns),
            (truth.first_ns, result.first_ns), (result.sent_ns, result.done_ns),
        ]  # fmt: skip
        stamps += [(truth.last_ns, result.last_ns)] if result.outcome == "ok" else []
        for before, after in stamps:
            assert None in (before, after) or 0 <= after - before < SANE_NS, (result, truth)


@pytest.mark.parametrize("way", WAYS[:2])
def test_every_chunk_is_stamped_at_or_after_it_was_written(told, way):
    for name, pairs in told[way].by_workload().items():
        for result, truth in pairs:
            assert len(result.stamps_ns or []) == result.chunks
            # Less is read where a client leaves, where the SDK gives up, and where a reset overtakes what was sent before it.
            less = truth.ending == "aborted" or name == "cut-reset" or (way == "openai" and name == "bad-json")
            assert result.chunks == truth.chunks or (less and result.chunks < truth.chunks)
            if truth.chunks == len(truth.tokens_ns or []):  # a token a chunk
                late = [stamp - written for stamp, written in zip(result.stamps_ns or [], truth.tokens_ns or [], strict=False)]
                assert all(0 <= ns < SANE_NS for ns in late), (name, late)
            # TTFT as the server has it, and as both ends of the wire can tell it
            if result.first_ns is not None:
                more_ns = (result.first_ns - result.sent_ns) - (truth.first_ns - truth.received_ns)
                assert 0 <= more_ns < SANE_NS


@pytest.mark.parametrize("way", WAYS[:2])
def test_what_came_before_a_fault_in_the_middle_counts(told, way):
    pairs = told[way].by_workload()
    for fault in ("cut:eof", "cut:end", "error_object", "error_event", "content_filter", "stall:forever"):
        assert {result.chunks for result, _ in pairs[named(fault)]} == {STRUCK}, fault
    for fault in ("none", "no_finish", "no_usage", "stall:0.2", "burst", "slow_head:0.2"):
        assert {result.chunks for result, _ in pairs[named(fault)]} == {TOKENS}, fault
    assert all(result.itl_max_ns >= 2_000_000_000 for result, _ in pairs["stall-forever"])  # its open gap


def test_no_answer_text_is_kept(told, way):
    written = told[way].ran.written()
    for words in ("Let me", "check", "This follows", "Okay", "step first"):
        assert words not in written


# --- At random ---


@pytest.mark.parametrize(("engine", "seed"), SEEDS)
def test_any_mix_adds_up_and_is_told_request_by_request(told, engine, seed):
    runs.ended(told[seed].ran)
    results, truths, stats = told[seed].ran.results, told[seed].truths, told[seed].stats
    assert (stats["requests"], stats["active"]) == (len(results), 0)
    assert len(results) > 30
    spec = {None: "none"} | {parse_fault(fault).name: fault for fault in mix(seed)}
    expected = {name: FAULTS[fault].by_way[engine] for name, fault in spec.items()}
    closed = ("connect_error", "*")
    for result, truth in paired(results, truths):
        assert truth.ending in endings(spec[truth.fault], engine)
        assert (result.outcome, "*" if expected[truth.fault] == closed else result.reason) == expected[truth.fault]
        assert result.status == truth.status
        assert result.first_ns is None or 0 <= result.first_ns - truth.first_ns < SANE_NS
    for fault, n in Counter(truth.fault for truth in truths).items():
        assert fault is None or n == stats["faults"][fault]
    assert Counter((result.outcome, "*" if (result.outcome, "*") == closed else result.reason) for result in results) == Counter(
        expected[truth.fault] for truth in truths
    )


def paired(results: list[Result], truths: list[Truth]) -> Iterator[tuple[Result, Truth]]:
    """Pair by the id that the answer had; what had none by its connection, where the engine knows it, in order."""
    by_id = {truth.id: truth for truth in truths}
    by_port = defaultdict(list)
    for truth in sorted(truths, key=lambda truth: truth.received_ns):
        by_port[truth.client_port].append(truth)
    for result in sorted(results, key=lambda result: result.sent_ns):
        in_order = by_port[result.local_port].pop(0) if result.local_port is not None else None
        by_its_id = by_id.get(result.request_id)
        assert in_order is None or by_its_id in (in_order, None)
        if (truth := in_order or by_its_id) is not None:
            yield result, truth


PINNED = """
[workload.plain]
dataset = { kind = "chat", turns = 1 }
arrivals = { kind = "constant", rate = "12/s" }
"""


def test_what_another_upstream_answers_than_the_pinned_one_is_rerouted(tmp_path, start_simulator):
    truth = tmp_path / "truth"
    server = start_simulator("--dialect", "openrouter", "--fault", "rerouted:elsewhere=0.3", "--truth", str(truth))
    pin = 'extra_body = { provider = { order = ["r1sim"], allow_fallbacks = false } }'
    file = scenario(tmp_path / "pinned.toml", [PINNED], provider="openrouter", more=pin)
    told = Told(runs.run(tmp_path / "runs", file, "--url", server.url), truth, server)
    runs.ended(told.ran)
    seen = {(truth.fault, result.outcome, result.reason) for result, truth in paired(told.ran.results, told.truths)}
    assert seen == {(None, "ok", None), ("rerouted", "rerouted", "not_pinned")}
