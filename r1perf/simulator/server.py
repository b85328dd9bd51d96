"""Serve: the routes, the checks before an answer, the life of the process."""

import asyncio
import os
import ssl
import uuid
from collections.abc import Callable
from typing import Any

import msgspec

from r1perf.errors import UsageError
from r1perf.simulator.calls import Refused, read_call
from r1perf.simulator.dialects import DIALECTS
from r1perf.simulator.driver import Driver, engine_for
from r1perf.simulator.exchange import Exchange
from r1perf.simulator.faults import Fault, FaultDraw, parse_fault
from r1perf.simulator.limits import RateLimit
from r1perf.simulator.options import Options
from r1perf.simulator.profiles import PROFILES
from r1perf.simulator.prometheus import exposition
from r1perf.simulator.protocol import Answering, Connection, Request
from r1perf.simulator.stats import Stats
from r1perf.simulator.timer import monotonic_ns, wall_ns
from r1perf.simulator.truth import Truth, TruthLog

_encode = msgspec.json.encode

_MESSAGES = {
    400: ("the request is not acceptable", "BadRequestError"),
    401: ("Unauthorized", "AuthenticationError"),
    403: ("this key may not use this model", "PermissionDeniedError"),
    429: ("Rate limit reached for requests", "RateLimitError"),
    500: ("Internal server error", "InternalServerError"),
    503: ("the service is overloaded", "ServiceUnavailableError"),
    529: ("Overloaded", "OverloadedError"),
}


class Simulator:
    """Hold one simulated endpoint: engine, dialect, faults, limits, truth."""

    def __init__(self, options: Options, loop: asyncio.AbstractEventLoop) -> None:
        self.options = options
        self.profile = PROFILES[options.profile].faster(options.speed)
        if options.tokens_per_chunk is not None:
            engine = msgspec.structs.replace(self.profile.engine, tokens_per_chunk=options.tokens_per_chunk)
            self.profile = msgspec.structs.replace(self.profile, engine=engine)
        if options.accuracy is not None:
            lengths = msgspec.structs.replace(self.profile.lengths, accuracy=options.accuracy)
            self.profile = msgspec.structs.replace(self.profile, lengths=lengths)
        self.dialect = DIALECTS[options.dialect]
        self.stats = Stats()
        self._links: set[Connection] = set()
        self._faults = FaultDraw(list(options.faults), options.seed)
        self._limits = RateLimit(options.requests_per_minute, options.max_concurrency)
        self._truth = TruthLog(options.truth)
        self._exchanges: set[Exchange] = set()
        self._loop = loop
        self._key = os.environ.get("R1SIM_API_KEY")
        self.driver = Driver(loop, engine_for(self.profile.engine, options.seed), self.stats)

    # What answers ask for.

    def later(self, seconds: float, callback: Callable[[], None]) -> asyncio.TimerHandle:
        """Call back after so many seconds."""
        return self._loop.call_later(seconds, callback)

    def created(self) -> int:
        """Return the wall clock in whole seconds."""
        return wall_ns() // 1_000_000_000

    def headers(self) -> list[tuple[str, str]]:
        """Return the headers of every answer."""
        return self._limits.headers(monotonic_ns())

    def ended(self, exchange: Exchange, ending: str) -> None:
        """Take an exchange out of the books."""
        self._exchanges.discard(exchange)
        self._log(exchange.truth, ending)

    def connect(self, link: Connection) -> None:
        """Take a connection in."""
        self._links.add(link)
        self.stats.connections += 1

    def disconnect(self, link: Connection) -> None:
        """Let a connection go."""
        self._links.discard(link)

    # Routes.

    def handle(self, request: Request, link: Connection) -> Answering | None:
        """Begin to answer a request."""
        path, method = request.path.removeprefix("/v1"), request.method
        if path.endswith("/completions"):
            if method != "POST":
                link.respond(405, [("allow", "POST")], b'{"detail":"Method Not Allowed"}')
                return None
            return self._completions(request, link, chat=path.endswith("/chat/completions"))
        if method == "POST" and path == "/r1sim/reset":
            self.stats.reset()
            link.respond(200, [], b"{}")
        elif method not in ("GET", "HEAD"):
            link.respond(404, [], b'{"detail":"Not Found"}')
        elif path == "/r1sim/stats":
            link.respond(200, [], _encode(self.summary()))
        elif path == "/health":
            link.respond(200, [], b"")
        elif path == "/metrics":
            text = exposition(self.stats, self.driver.engine, self.options.models[0])
            link.respond(200, [], text.encode(), kind="text/plain; version=0.0.4; charset=utf-8")
        elif path.endswith("/models"):
            if self._authorized(request):
                link.respond(200, [], _encode(self._models()))
            else:
                link.respond(401, [], _encode(self.dialect.error(401, *_MESSAGES[401])))
        else:
            link.respond(404, [], b'{"detail":"Not Found"}')
        return None

    def summary(self) -> dict[str, Any]:
        """Return the ground truth so far."""
        engine = self.driver.engine
        state = {
            "profile": self.profile.name,
            "dialect": self.dialect.name,
            "running": engine.running,
            "waiting": engine.waiting,
            "kv_usage": engine.kv_usage,
            "preemptions": engine.preemptions,
        }
        return {**state, **self.stats.as_json()}

    def stop(self) -> None:
        """End everything: answers under way are cut, the truth log is complete."""
        for exchange in list(self._exchanges):
            exchange.stop()
        for connection in list(self._links):
            connection.reset()
        self.driver.close()
        self._truth.close()

    def _models(self) -> dict[str, Any]:
        common = {"object": "model", "created": self.created(), "owned_by": "r1sim", "max_model_len": self.profile.context}
        return {"object": "list", "data": [{"id": model, **common} for model in self.options.models]}

    def _authorized(self, request: Request) -> bool:
        if not self._key:
            return True
        given = request.headers.get("api-key") or request.headers.get("authorization", "").removeprefix("Bearer ")
        return given == self._key

    # Completions.

    def _completions(self, request: Request, link: Connection, *, chat: bool) -> Answering | None:
        """Check a request, and refuse or begin it."""
        self.stats.begin()
        truth = Truth(
            id=f"{'chatcmpl' if chat else 'cmpl'}-{uuid.uuid4().hex}",
            endpoint="chat/completions" if chat else "completions",
            received_ns=request.received_ns,
            client_port=link.client_port,
            client_id=request.headers.get("x-request-id"),
        )
        fault: Fault | None = None
        try:
            if not self._authorized(request):
                raise Refused(401, *_MESSAGES[401])
            fault = self._fault(request)
            truth.fault = None if fault is None else fault.name
            wait = self._limits.refuse(request.received_ns, self.stats.active)
            if wait is not None:
                self._refuse(link, truth, Refused(429, *_MESSAGES[429]), wait)
                return None
            if fault is not None and fault.kind.status is not None:
                self._refuse(link, truth, self._refusal(fault), fault.seconds if fault.argument else None)
                return None
            if fault is not None and fault.name == "close":
                self._log(truth, "cut")
                link.close()
                return None
            models = self.options.models
            call = read_call(request.body, chat=chat, models=models, context=self.profile.context, dialect=self.dialect)
        except Refused as refused:
            self._refuse(link, truth, refused, None)
            return None
        truth.stream = call.stream
        exchange = Exchange(self, link, request, call, fault, truth)
        self._exchanges.add(exchange)
        exchange.start()
        return exchange

    def _fault(self, request: Request) -> Fault | None:
        """Take the fault that the request orders, else draw one."""
        ordered = request.headers.get("x-r1sim-fault")
        if ordered is None:
            return self._faults.draw()
        if ordered in ("", "none"):
            return None
        try:
            return parse_fault(ordered)
        except UsageError as error:
            raise Refused(400, f"x-r1sim-fault: {error}", "BadRequestError") from error

    def _refusal(self, fault: Fault) -> Refused:
        """Turn a fault into the refusal that it orders."""
        status = fault.kind.status
        assert status is not None, "this fault is no refusal"
        if status == 404:
            return Refused(404, f"The model `{self.options.models[0]}` does not exist.", "NotFoundError", "model")
        return Refused(status, *_MESSAGES[status])

    def _refuse(self, link: Connection, truth: Truth, refused: Refused, retry_after_s: float | None) -> None:
        """Answer with an error status."""
        truth.status = refused.status
        truth.head_ns = monotonic_ns()
        headers = self.headers()
        if retry_after_s is not None:
            headers.append(("retry-after", f"{retry_after_s:.3f}".rstrip("0").rstrip(".") or "0"))
        self._log(truth, "refused")
        link.respond(
            refused.status, headers, _encode(self.dialect.error(refused.status, refused.message, refused.kind, refused.param))
        )

    def _log(self, truth: Truth, ending: str) -> None:
        """Write down how a request ended."""
        stats = self.stats
        truth.ending = ending
        truth.ended_ns = monotonic_ns()
        stats.end(ending, truth.fault, truth.status, truth.finish_reason)
        stats.prompt_tokens += truth.prompt_tokens
        stats.cached_tokens += truth.cached_tokens
        stats.output_tokens += truth.output_tokens
        stats.reasoning_tokens += truth.reasoning_tokens
        if truth.last_ns is not None:
            stats.e2e.add(truth.last_ns - truth.received_ns)
        self._truth.write(truth)


async def open_server(sim: Simulator, loop: asyncio.AbstractEventLoop) -> tuple[asyncio.Server, str]:
    """Begin to listen; return the server and its base URL. Raises UsageError where that can't be."""
    options = sim.options
    context = None
    if options.tls_cert is not None and options.tls_key is not None:
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        try:
            context.load_cert_chain(options.tls_cert, options.tls_key)
        except (OSError, ssl.SSLError) as error:
            raise UsageError(f"the certificate {options.tls_cert} or key {options.tls_key} cannot be used: {error}") from error
    try:
        server = await loop.create_server(
            lambda: Connection(sim, tls=context is not None), options.host, options.port, ssl=context, backlog=4096
        )
    except OSError as error:
        reason = os.strerror(error.errno).lower() if error.errno and error.errno > 0 else str(error)
        raise UsageError(f"cannot listen on {options.host}:{options.port}: {reason}") from error
    port = server.sockets[0].getsockname()[1]
    host = f"[{options.host}]" if ":" in options.host else options.host
    return server, f"{'https' if context else 'http'}://{host}:{port}/v1"
