"""What the tests of the simulator share: one exchange on virtual time without a socket, and a small client with one."""

import asyncio
import json
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager, suppress
from dataclasses import dataclass, field
from typing import Any

from r1perf.simulator import Options
from r1perf.simulator.calls import read_call
from r1perf.simulator.dialects import DIALECTS, Dialect
from r1perf.simulator.engine import Stream
from r1perf.simulator.exchange import Exchange
from r1perf.simulator.faults import parse_fault
from r1perf.simulator.profiles import Length, Lengths, Profile, Timetable
from r1perf.simulator.protocol import Request
from r1perf.simulator.server import Simulator, open_server
from r1perf.simulator.stats import Stats
from r1perf.simulator.timetable import TimetableEngine
from r1perf.simulator.truth import Truth

FIXED = Length(3, 0)
SMALL = Profile(
    name="small",
    note="three tokens of thinking, three of answer",
    engine=Timetable(ttft_ns=100, itl_ns=20),
    lengths=Lengths(FIXED, FIXED, FIXED, FIXED, accuracy=1.0),
    context=1_000,
)
ASK = {"model": "deepseek-r1", "messages": [{"role": "user", "content": "Hello, who are you?"}], "stream": True}


class Paper:
    """Stand in for a connection: keep what is written, unframed."""

    chunked = False
    closed = False

    def __init__(self) -> None:
        self.head: list[tuple[str, str]] = []
        self.body = b""
        self.writes: list[bytes] = []
        self.end = ""
        self.status = 0

    def begin_stream(self, headers: list[tuple[str, str]]) -> bytes:
        self.head = list(headers)
        self.status = 200
        return b""

    def frame(self, body: bytes) -> bytes:
        return body

    def write(self, data: bytes) -> None:
        self.body += data
        self.writes.append(data)

    def respond(self, status: int, headers: list[tuple[str, str]], body: bytes, *, keep: bool = True) -> None:
        self.status, self.head, self.body, self.end = status, list(headers), body, "complete" if keep else "closed"

    def end_stream(self) -> None:
        self.end = "complete"

    def close(self) -> None:
        self.end = "eof"

    def reset(self) -> None:
        self.end = "reset"


class Stage:
    """Stand in for a simulator: the engine is stepped by hand, time-outs are called by hand."""

    def __init__(self, dialect: Dialect, profile: Profile) -> None:
        self.dialect, self.profile, self.options, self.stats = dialect, profile, Options(), Stats()
        self.driver = self
        self.engine = TimetableEngine(profile.engine)  # type: ignore[arg-type]
        self.timeouts: list[tuple[float, Callable[[], None]]] = []
        self.ending = ""

    def later(self, seconds: float, callback: Callable[[], None]) -> Any:
        self.timeouts.append((seconds, callback))
        return type("Handle", (), {"cancel": lambda _: None})()

    def created(self) -> int:
        return 1_764_500_000

    def headers(self) -> list[tuple[str, str]]:
        return []

    def submit(self, stream: Stream, now_ns: int) -> None:
        self.engine.submit(stream, now_ns)

    def abort(self, stream: Stream) -> None:
        self.engine.abort(stream)

    def ended(self, exchange: Exchange, ending: str) -> None:
        exchange.truth.ending = self.ending = ending

    def run(self) -> None:
        """End every step there is."""
        while self.engine.due_ns is not None:
            for stream, count in self.engine.step():
                stream.tag.emit(count)


def exchange(
    dialect: str = "vllm", fault: str = "", *, chat: bool = True, profile: Profile = SMALL, headers: dict[str, str] | None = None,
    **body: Any,
) -> tuple[Stage, Paper, Exchange]:  # fmt: skip
    """Play one request to its end on virtual time."""
    stage, paper = Stage(DIALECTS[dialect], profile), Paper()
    asked = {**ASK, **body}
    if not chat:
        asked["prompt"] = asked.pop("messages")[0]["content"]
    raw = json.dumps({key: value for key, value in asked.items() if value is not None}).encode()
    call = read_call(raw, chat=chat, models=("deepseek-r1",), context=profile.context, dialect=stage.dialect)
    truth = Truth(id="chatcmpl-1" if chat else "cmpl-1", endpoint="", received_ns=0)
    request = Request("POST", "/v1/chat/completions", "1.1", headers or {}, raw, keep_alive=True)
    made = Exchange(stage, paper, request, call, parse_fault(fault) if fault else None, truth)  # type: ignore[arg-type]
    made.start()
    stage.run()
    return stage, paper, made


@dataclass
class Reply:
    """What a client saw: `end` is complete, closed (the connection ended inside the body) or reset."""

    status: int = 0
    headers: dict[str, str] = field(default_factory=dict)
    body: bytes = b""
    end: str = "complete"

    @property
    def events(self) -> list[Any]:
        """Return the data of each event, decoded where it is JSON."""
        lines = [line[6:].strip() for line in self.body.decode().split("\n") if line.startswith("data: ")]
        return [json.loads(line) if line.startswith("{") and line.endswith("}") else line for line in lines]

    @property
    def comments(self) -> list[str]:
        """Return the comments."""
        return [line for line in self.body.decode().split("\n") if line.startswith(":")]

    @property
    def finishes(self) -> list[str]:
        """Return every finish_reason but null."""
        choices = [choice for event in self.events if isinstance(event, dict) for choice in event.get("choices", [])]
        return [choice["finish_reason"] for choice in choices if choice.get("finish_reason")]

    @property
    def texts(self) -> list[str]:
        """Return the text of every chunk that has any."""
        choices = [choice for event in self.events if isinstance(event, dict) for choice in event.get("choices", [])]
        deltas = [choice.get("delta", {}) for choice in choices]
        texts = [delta.get("reasoning") or delta.get("reasoning_content") or delta.get("content") for delta in deltas]
        return [text for text in texts if text]

    @property
    def json(self) -> Any:
        """Return the body as JSON."""
        return json.loads(self.body)


class Client:
    """One connection to a simulator under test."""

    def __init__(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self.reader, self.writer = reader, writer

    async def ask(self, body: Any = None, path: str = "/v1/chat/completions", method: str = "POST", **headers: str) -> Reply:
        """Send a request and read its answer."""
        self.send(body, path, method, **headers)
        return await self.read()

    def send(self, body: Any = None, path: str = "/v1/chat/completions", method: str = "POST", **headers: str) -> None:
        """Send a request."""
        raw = body if isinstance(body, bytes) else b"" if body is None else json.dumps(body).encode()
        lines = [f"{method} {path} HTTP/1.1", "host: x", f"content-length: {len(raw)}"]
        lines += [f"{name.replace('_', '-')}: {value}" for name, value in headers.items()]
        self.writer.write("\r\n".join([*lines, "", ""]).encode() + raw)

    async def read(self) -> Reply:
        """Read one answer."""
        reply = Reply()
        try:
            await self._read(reply)
        except ConnectionResetError:
            reply.end = "reset"
        except asyncio.IncompleteReadError as error:
            reply.body += error.partial
            reply.end = "closed"
        return reply

    async def _read(self, reply: Reply) -> None:
        head = (await self.reader.readuntil(b"\r\n\r\n")).decode()
        first, *lines = head.strip().split("\r\n")
        reply.status = int(first.split()[1])
        reply.headers = dict(line.lower().split(": ", 1) for line in lines)
        if reply.status == 100:
            return await self._read(reply)
        if "content-length" in reply.headers:
            reply.body = await self.reader.readexactly(int(reply.headers["content-length"]))
            return None
        parts: list[bytes] = []
        try:
            while size := int(await self.reader.readuntil(b"\r\n"), 16):
                parts.append((await self.reader.readexactly(size + 2))[:-2])
        finally:
            reply.body = b"".join(parts)
        await self.reader.readexactly(2)
        return None

    async def close(self) -> None:
        """Close the connection."""
        self.writer.close()
        with suppress(ConnectionError):
            await self.writer.wait_closed()


class Site:
    """A simulator that listens, in this process."""

    def __init__(self, sim: Simulator, url: str) -> None:
        self.sim, self.url = sim, url
        self.port = int(url.rsplit(":", 1)[1].split("/")[0])
        self._clients: list[Client] = []

    async def client(self, **how: Any) -> Client:
        """Open a connection, or take the socket that is given."""
        where = () if "sock" in how else ("127.0.0.1", self.port)
        self._clients.append(Client(*await asyncio.open_connection(*where, **how)))
        return self._clients[-1]

    async def ask(self, body: Any = None, path: str = "/v1/chat/completions", method: str = "POST", **headers: str) -> Reply:
        """Send one request on a connection of its own."""
        return await (await self.client()).ask(body, path, method, **headers)

    async def close(self) -> None:
        """Close every connection."""
        for client in self._clients:
            await client.close()


@asynccontextmanager
async def site(**options: Any) -> AsyncIterator[Site]:
    """Run a simulator on a free port: profile tiny, twenty times as fast, unless told otherwise."""
    loop = asyncio.get_running_loop()
    sim = Simulator(Options(**{"port": 0, "speed": 20.0, **options}).checked(), loop)
    server, url = await open_server(sim, loop)
    made = Site(sim, url)
    try:
        yield made
    finally:
        await made.close()
        server.close()
        sim.stop()
        await asyncio.sleep(0)
        await asyncio.sleep(0)
