"""The server over real sockets: routes, HTTP, keys, limits, truth."""

import asyncio
import json
import shutil
import socket
import ssl
import subprocess
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any

import pytest
from onwire import ASK, Reply, Site, site

from r1perf.errors import UsageError
from r1perf.simulator import Options
from r1perf.simulator.driver import Driver, engine_for
from r1perf.simulator.limits import MINUTE_NS, RateLimit
from r1perf.simulator.profiles import PROFILES
from r1perf.simulator.prometheus import exposition
from r1perf.simulator.stats import Stats, Times

USAGE = {"stream_options": {"include_usage": True}}
WHOLE = {**ASK, "stream": False}


def play(scene: Callable[[Site], Awaitable[Any]], **options: Any) -> Any:
    """Run a scene against a simulator of its own, bounded in time."""

    async def run() -> Any:
        async with site(**options) as made:
            return await asyncio.wait_for(scene(made), 20)

    return asyncio.run(run())


def get(path: str, method: str = "GET", **options: Any) -> Reply:
    """Fetch one path."""
    return play(lambda made: made.ask(None, path, method), **options)


class TestRoutes:
    """What stands beside completions."""

    @pytest.mark.parametrize("path", ["/v1/models", "/models", "/openai/v1/models"])
    def test_models(self, path: str) -> None:
        reply = get(path, models=("deepseek-r1", "r1-alias"))
        assert [model["id"] for model in reply.json["data"]] == ["deepseek-r1", "r1-alias"]
        assert reply.json["data"][0]["max_model_len"] == 65_536

    @pytest.mark.parametrize(
        ("method", "path", "status"),
        [
            ("GET", "/health", 200),
            ("GET", "/r1sim/stats", 200),
            ("GET", "/v1/r1sim/stats", 200),
            ("POST", "/r1sim/reset", 200),
            ("GET", "/metrics", 200),
            ("GET", "/nothing", 404),
            ("POST", "/v1/embeddings", 404),
            ("GET", "/v1/chat/completions", 405),
        ],
    )
    def test_status(self, method: str, path: str, status: int) -> None:
        assert get(path, method).status == status

    def test_head_has_no_body(self) -> None:
        async def scene(made: Site) -> bytes:
            client = await made.client()
            client.send(None, "/v1/models", "HEAD", connection="close")
            return await client.reader.read()

        answer: bytes = play(scene)
        assert answer.startswith(b"HTTP/1.1 200 OK\r\n")
        assert answer.endswith(b"\r\n\r\n")
        assert b"content-length: 0" not in answer

    def test_reset_forgets(self) -> None:
        async def scene(made: Site) -> tuple[int, int]:
            await made.ask(WHOLE)
            before = (await made.ask(None, "/r1sim/stats", "GET")).json["requests"]
            await made.ask(None, "/r1sim/reset")
            return before, (await made.ask(None, "/r1sim/stats", "GET")).json["requests"]

        assert play(scene) == (1, 0)

    def test_metrics_agree_with_the_truth(self) -> None:
        async def scene(made: Site) -> tuple[str, dict[str, Any]]:
            for _ in range(3):
                await made.ask({**ASK, "max_tokens": 9, "ignore_eos": True})
            return (await made.ask(None, "/metrics", "GET")).body.decode(), made.sim.stats.as_json()

        text, stats = play(scene)
        values = dict(line.rsplit(" ", 1) for line in text.splitlines() if not line.startswith("#"))
        label = '{model_name="deepseek-r1",engine="0"}'
        assert values[f"vllm:generation_tokens_total{label}"] == "27.0"
        assert values[f"vllm:time_to_first_token_seconds_count{label}"] == "3.0"
        assert values[f"vllm:inter_token_latency_seconds_count{label}"] == "24.0"
        assert values['vllm:request_success_total{model_name="deepseek-r1",engine="0",finished_reason="length"}'] == "3.0"
        buckets = [float(value) for name, value in values.items() if name.startswith("vllm:inter_token_latency_seconds_bucket")]
        assert buckets == sorted(buckets)
        assert buckets[-1] == stats["itl_ms"]["count"] == 24
        sum_s = float(values[f"vllm:inter_token_latency_seconds_sum{label}"])
        assert sum_s == pytest.approx(stats["itl_ms"]["mean"] * 24 / 1e3)


class TestHttp:
    """HTTP/1.1 as clients speak it."""

    def test_a_connection_is_used_again(self) -> None:
        async def scene(made: Site) -> tuple[list[Reply], int]:
            client = await made.client()
            return [await client.ask(body) for body in (WHOLE, ASK, WHOLE, {**ASK, "model": "no"})], made.sim.stats.connections

        replies, connections = play(scene)
        assert [reply.status for reply in replies] == [200, 200, 200, 404]
        assert connections == 1

    def test_pipelined_requests_are_answered_in_order(self) -> None:
        async def scene(made: Site) -> list[Reply]:
            client = await made.client()
            for tokens in (30, 1, 2):
                client.send({**ASK, "max_tokens": tokens, "ignore_eos": True})
            client.send(None, "/health", "GET")
            return [await client.read() for _ in range(4)]

        replies = play(scene)
        assert [len(reply.texts) for reply in replies] == [30, 1, 2, 0]
        assert replies[3].status == 200

    def test_more_pipelined_requests_than_are_read_at_a_time(self) -> None:
        async def scene(made: Site) -> list[int]:
            client = await made.client()
            for _ in range(200):
                client.send({**ASK, "max_tokens": 1})
            return [len((await client.read()).texts) for _ in range(200)]

        assert play(scene, speed=1_000.0) == [1] * 200

    def test_a_chunked_body_that_comes_in_pieces(self) -> None:
        async def scene(made: Site) -> Reply:
            client = await made.client()
            raw = json.dumps({**ASK, "max_tokens": 3}).encode()
            data = b"POST /v1/chat/completions HTTP/1.1\r\nhost: x\r\ntransfer-encoding: chunked\r\n\r\n"
            data += b"".join(b"%x\r\n%b\r\n" % (len(part), part) for part in (raw[:7], raw[7:50], raw[50:])) + b"0\r\n\r\n"
            for at in range(0, len(data), 13):
                client.writer.write(data[at : at + 13])
                await client.writer.drain()
                await asyncio.sleep(0)
            return await client.read()

        assert len(play(scene).texts) == 3

    def test_a_client_that_waits_to_be_asked_for_its_body(self) -> None:
        async def scene(made: Site) -> Reply:
            client = await made.client()
            raw = json.dumps(WHOLE).encode()
            head = f"POST /v1/chat/completions HTTP/1.1\r\nhost: x\r\nexpect: 100-continue\r\ncontent-length: {len(raw)}\r\n\r\n"
            client.writer.write(head.encode())
            assert await client.reader.readuntil(b"\r\n\r\n") == b"HTTP/1.1 100 Continue\r\n\r\n"
            client.writer.write(raw)
            return await client.read()

        assert play(scene).status == 200

    @pytest.mark.parametrize(("version", "close"), [("1.1", True), ("1.0", False)], ids=["asked-to-close", "http-1.0"])
    def test_connections_that_end_with_the_answer(self, version: str, close: bool) -> None:
        async def scene(made: Site) -> bytes:
            client = await made.client()
            raw = json.dumps({**ASK, "max_tokens": 3}).encode()
            lines = f"POST /v1/chat/completions HTTP/{version}\r\nhost: x\r\ncontent-length: {len(raw)}\r\n"
            client.writer.write((lines + ("connection: close\r\n" if close else "") + "\r\n").encode() + raw)
            return await client.reader.read()

        answer: bytes = play(scene)
        assert b"connection: close\r\n" in answer
        assert (b"transfer-encoding: chunked" in answer) == (version == "1.1")
        assert answer.endswith(b"data: [DONE]\n\n" + (b"\r\n0\r\n\r\n" if version == "1.1" else b""))

    def test_a_client_that_does_not_read_gets_everything_later(self) -> None:
        async def scene(made: Site) -> Reply:
            narrow = socket.socket()
            narrow.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 65_536)
            narrow.setblocking(False)
            await asyncio.get_running_loop().sock_connect(narrow, ("127.0.0.1", made.port))
            client = await made.client(sock=narrow)
            client.send({**ASK, "max_tokens": 20_000, "ignore_eos": True})
            while not made.sim.stats.endings["complete"]:
                await asyncio.sleep(0.001)
            return await client.read()

        reply = play(scene, speed=1e6)
        assert (len(reply.texts), reply.end, reply.events[-1]) == (20_000, "complete", "[DONE]")

    def test_what_is_not_http(self) -> None:
        async def scene(made: Site) -> bytes:
            client = await made.client()
            client.writer.write(b"\x16\x03\x01 hello\r\n\r\n")
            return await client.reader.read()

        assert play(scene).startswith(b"HTTP/1.1 400 Bad Request\r\n")

    def test_tls(self, tmp_path: Path) -> None:
        if shutil.which("openssl") is None:
            pytest.skip("openssl makes the certificate, and is not installed")
        cert, key = tmp_path / "cert.pem", tmp_path / "key.pem"
        command = ["openssl", "req", "-x509", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:prime256v1", "-nodes", "-days", "2"]
        command += ["-subj", "/CN=localhost", "-addext", "subjectAltName=IP:127.0.0.1", "-out", str(cert), "-keyout", str(key)]
        subprocess.run(command, check=True, capture_output=True)

        async def scene(made: Site) -> tuple[str, Reply, Reply]:
            context = ssl.create_default_context(cafile=str(cert))
            client = await made.client(ssl=context)
            return made.url, await client.ask({**ASK, "max_tokens": 5}), await client.ask(ASK, x_r1sim_fault="cut:reset@2")

        url, good, cut = play(scene, tls_cert=str(cert), tls_key=str(key))
        assert url.startswith("https://127.0.0.1:")
        assert (len(good.texts), good.end) == (5, "complete")
        assert cut.end in ("reset", "closed")


class TestKey:
    """A key that is asked for."""

    @pytest.mark.parametrize(
        ("headers", "status"),
        [
            ({}, 401),
            ({"authorization": "Bearer wrong"}, 401),
            ({"authorization": "Bearer right"}, 200),
            ({"api-key": "right"}, 200),
        ],
        ids=["none", "wrong", "bearer", "azure"],
    )
    def test_it_is_checked(self, headers: dict[str, str], status: int, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setenv("R1SIM_API_KEY", "right")

        async def scene(made: Site) -> list[int]:
            asked = [await made.ask(WHOLE, **headers), await made.ask(None, "/v1/models", "GET", **headers)]
            return [reply.status for reply in asked]

        assert play(scene) == [status, status]


class TestLimits:
    """Requests a minute and at a time."""

    def test_requests_a_minute_on_virtual_time(self) -> None:
        limit = RateLimit(2, None)
        assert [limit.refuse(at, 1) for at in (0, MINUTE_NS // 2, MINUTE_NS - 10**9)] == [None, None, 1.0]
        assert limit.headers(MINUTE_NS - 10**9) == [
            ("x-ratelimit-limit-requests", "2"),
            ("x-ratelimit-remaining-requests", "0"),
            ("x-ratelimit-reset-requests", "1.000s"),
        ]
        assert [limit.refuse(at, 1) for at in (MINUTE_NS, MINUTE_NS + 1)] == [None, pytest.approx(30, abs=1e-6)]

    def test_requests_a_minute_on_the_wire(self) -> None:
        async def scene(made: Site) -> list[Reply]:
            return [await made.ask({**ASK, "max_tokens": 1}) for _ in range(3)]

        replies = play(scene, requests_per_minute=2)
        assert [reply.status for reply in replies] == [200, 200, 429]
        assert [reply.headers["x-ratelimit-remaining-requests"] for reply in replies] == ["1", "0", "0"]
        assert 0 < float(replies[2].headers["retry-after"]) <= 60
        assert replies[2].json["error"]["type"] == "RateLimitError"

    def test_requests_at_a_time(self) -> None:
        async def scene(made: Site) -> list[int]:
            return sorted(reply.status for reply in await asyncio.gather(*(made.ask(ASK) for _ in range(5))))

        assert play(scene, max_concurrency=3, speed=1.0) == [200, 200, 200, 429, 429]


class TestTruth:
    """The log and the summary."""

    def test_a_line_a_request(self, tmp_path: Path) -> None:
        log = tmp_path / "truth.jsonl"

        async def scene(made: Site) -> None:
            await made.ask({**ASK, **USAGE, "max_tokens": 7, "ignore_eos": True}, x_request_id="mine")
            await made.ask(WHOLE)
            await made.ask({**ASK, "model": "no"})
            await made.ask(ASK, x_r1sim_fault="cut:eof@3")
            leaver = await made.client()
            leaver.send(ASK, x_r1sim_fault="stall:forever@2")
            for _ in range(2):
                await leaver.reader.readuntil(b'"reasoning":')
            await leaver.close()
            while not made.sim.stats.endings["aborted"]:
                await asyncio.sleep(0.001)
            stays = await made.client()
            stays.send(ASK, x_r1sim_fault="stall:forever@2")
            for _ in range(2):
                await stays.reader.readuntil(b'"reasoning":')

        play(scene, truth=str(log), truth_tokens=True)
        first, whole, refused, cut, aborted, stopped = lines = [json.loads(line) for line in log.read_text().splitlines()]
        assert [line["ending"] for line in lines] == ["complete", "complete", "refused", "cut", "aborted", "stopped"]
        assert (first["output_tokens"], first["chunks"], first["client_id"], first["finish_reason"]) == (7, 7, "mine", "length")
        assert len(first["tokens_ns"]) == 7
        assert first["tokens_ns"] == sorted(first["tokens_ns"])
        assert first["received_ns"] < first["head_ns"] < first["first_ns"] == first["tokens_ns"][0]
        assert first["tokens_ns"][-1] == first["last_ns"] <= first["ended_ns"]
        assert whole["stream"] is False
        assert len(whole["tokens_ns"]) == whole["output_tokens"] == whole["planned_tokens"]
        assert (refused["status"], "fault" in refused, "output_tokens" in refused) == (404, False, False)
        assert (cut["fault"], cut["output_tokens"], len(cut["tokens_ns"])) == ("cut", 3, 3)
        assert len(aborted["tokens_ns"]) == 2
        assert stopped["wall_offset_ns"] == first["wall_offset_ns"] > 1e18

    def test_usage_and_stats_say_the_same(self) -> None:
        async def scene(made: Site) -> tuple[list[dict[str, int]], dict[str, Any]]:
            prompt = [{"role": "user", "content": "What is new? " * 40}]
            usages = []
            for _ in range(3):
                reply = await made.ask({**ASK, **USAGE, "messages": prompt})
                usages.append(reply.events[-2]["usage"])
            return usages, made.sim.summary()

        usages, stats = play(scene)
        # 8 + 520 + 13 bytes are 136 tokens: eight full blocks of 16 and a part; the first request fills the cache.
        assert [usage["prompt_tokens"] for usage in usages] == [136] * 3
        assert [usage["prompt_tokens_details"]["cached_tokens"] for usage in usages] == [0, 128, 128]
        assert stats["prompt_tokens"] == 408
        assert stats["cached_tokens"] == 256
        assert stats["output_tokens"] == sum(usage["completion_tokens"] for usage in usages)
        assert stats["reasoning_tokens"] == sum(usage["completion_tokens_details"]["reasoning_tokens"] for usage in usages)
        assert (stats["done"], stats["running"], stats["waiting"], stats["kv_usage"]) == (3, 0, 0, 0)

    def test_hits_and_misses_are_told_apart(self) -> None:
        async def scene(made: Site) -> list[dict[str, int]]:
            ask = {**ASK, "messages": [{"role": "user", "content": "What is new? " * 40}]}
            return [(await made.ask(ask)).events[-2]["usage"] for _ in range(2)]

        hits = [
            (usage["prompt_cache_hit_tokens"], usage["prompt_cache_miss_tokens"]) for usage in play(scene, dialect="deepseek")
        ]
        assert hits == [(0, 136), (128, 8)]

    def test_a_client_that_leaves_frees_its_place(self) -> None:
        async def scene(made: Site) -> dict[str, Any]:
            client = await made.client()
            client.send({**ASK, "max_tokens": 20_000, "ignore_eos": True})
            await client.reader.readuntil(b"reasoning")
            assert made.sim.summary()["running"] == 1
            await client.close()
            while made.sim.stats.active:
                await asyncio.sleep(0.001)
            return made.sim.summary()

        stats = play(scene)
        assert (stats["aborted"], stats["running"], stats["kv_usage"]) == (1, 0, 0)

    def test_the_exact_profile_keeps_its_timetable(self, tmp_path: Path) -> None:
        log = tmp_path / "truth.jsonl"

        async def scene(made: Site) -> None:
            asks = [made.ask({**ASK, "max_tokens": 12, "ignore_eos": True}) for _ in range(8)]
            await asyncio.gather(*asks)

        play(scene, profile="exact", speed=4.0, truth=str(log), truth_tokens=True)
        for line in map(json.loads, log.read_text().splitlines()):
            due = [line["received_ns"] + 25_000_000 + 5_000_000 * k for k in range(12)]
            late = [at - when for at, when in zip(line["tokens_ns"], due, strict=True)]
            assert min(late) >= 0  # never early; how late depends on the machine


def test_a_bucket_of_the_metrics_holds_what_is_at_most_its_bound() -> None:
    stats = Stats()
    for us in (24_985, 24_995, 25_005, 90_000_000):
        stats.itl.add(us * 1_000)
    engine = engine_for(PROFILES["exact"].engine)
    lines = exposition(stats, engine, "m").splitlines()
    label = 'vllm:inter_token_latency_seconds_bucket{model_name="m",engine="0"'
    found = [line for line in lines if line.startswith(label)]
    assert found[:3] == [f'{label},le="0.01"}} 0.0', f'{label},le="0.025"}} 2.0', f'{label},le="0.05"}} 3.0']
    assert found[-2:] == [f'{label},le="80.0"}} 3.0', f'{label},le="+Inf"}} 4.0']


def test_a_request_that_begins_while_another_ends_does_not_begin_a_step_in_a_step() -> None:
    class Nested:
        """Two steps are due; what the first emits lets another request in."""

        due_ns: int | None = 1
        depth = deepest = 0

        def __init__(self) -> None:
            self.tag = self

        def step(self) -> list[Any]:
            self.due_ns = None if self.due_ns == 2 else 2
            return [(self, 1)]

        def emit(self, count: int) -> None:
            self.depth += 1
            self.deepest = max(self.deepest, self.depth)
            if self.deepest == 1:
                driver.submit(self, 10)  # type: ignore[arg-type]
            self.depth -= 1

        def submit(self, stream: Any, now_ns: int) -> None:
            pass

    loop = asyncio.new_event_loop()
    engine = Nested()
    driver = Driver(loop, engine, Stats())  # type: ignore[arg-type]
    driver.submit(engine, 10)  # type: ignore[arg-type]
    driver.close()
    loop.close()
    assert (engine.deepest, engine.due_ns) == (1, None)


def test_ranks_are_exact() -> None:
    times = Times()
    for value_us in range(1, 201):
        times.add(value_us * 100_000)
    assert [times.percentile(mille) for mille in (500, 950, 990, 1000)] == [10.01, 19.01, 19.81, 20.01]
    assert (times.summary()["count"], times.summary()["mean"], times.summary()["max"]) == (200, 10.05, 20.0)
    assert Times().summary() == {"count": 0}


@pytest.mark.parametrize(
    ("options", "sentence"),
    [
        ({"profile": "huge"}, '"huge" is not a profile; allowed are r1-16xh100, tiny, exact, slow'),
        ({"dialect": "grpc"}, '"grpc" is not a dialect; allowed are vllm, '),
        ({"port": 70_000}, "70000 is not a port"),
        ({"speed": 0.0}, "speed 0 is not allowed"),
        ({"accuracy": 1.5}, "accuracy 1.5 is not allowed"),
        ({"models": ("",)}, "a model needs a name"),
        ({"max_concurrency": 0}, "max_concurrency 0 is not allowed"),
        ({"truth_tokens": True}, "--truth-tokens needs --truth FILE"),
        ({"tls_cert": "x"}, "TLS needs both"),
    ],
    ids=lambda value: next(iter(value)) if isinstance(value, dict) else None,
)
def test_options_that_are_wrong(options: dict[str, Any], sentence: str) -> None:
    with pytest.raises(UsageError) as error:
        Options(**options).checked()
    assert sentence in str(error.value)


def test_options_change_the_engine() -> None:
    async def scene(made: Site) -> Reply:
        return await made.ask({**ASK, "max_tokens": 10, "ignore_eos": True})

    reply = play(scene, tokens_per_chunk=4, dialect="none")
    assert len(reply.texts) == 4  # 1 + 4 + 4 + 1


def test_what_cannot_be_opened(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match=r"the truth log .* cannot be written: No such file or directory"):
        get("/health", truth=str(tmp_path / "none" / "log"))
    with pytest.raises(UsageError, match="cannot be used"):
        get("/health", tls_cert=str(tmp_path / "none"), tls_key=str(tmp_path / "none"))

    async def scene(made: Site) -> None:
        async with site(port=made.port):
            raise AssertionError("two listen on one port")

    with pytest.raises(UsageError, match=r"cannot listen on 127\.0\.0\.1:\d+: address already in use"):
        play(scene)
