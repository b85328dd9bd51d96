"""Ask a target what a probe needs to know: its pages, then the same small question twice."""

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from urllib.parse import urlsplit

import msgspec

from r1perf.client import Ticket
from r1perf.client.fast import FastClient
from r1perf.errors import TargetError, TransportError
from r1perf.loop import Loop
from r1perf.preflight import Page, models_path, preflight
from r1perf.probe.analyse import Answer, Pages, analyse
from r1perf.probe.report import ProbeReport
from r1perf.providers import Dialect
from r1perf.providers.registry import choose
from r1perf.result import Outcome, Stream
from r1perf.target import Call, Message, Sampling, Target
from r1perf.transport import Exchange, HttpRequest, Receiver, Transport
from r1perf.transport.pool import REST_NS
from r1perf.units import Tokens

LENGTHS = (256, 16)
"""Output tokens of the two requests at most: the first may think to the end, the second only shows what is cached."""

_PAGE_NS = 10_000_000_000
_PATIENCE_NS = 5_000_000_000

# Long enough (about 250 tokens) for every prefix cache that works in blocks of 16 to 128 tokens.
_QUESTION = (
    "Below are ten plain statements. Read them, then reply with the single word: ready.\n"
    + "\n".join(
        f"{n}. The {what} is listed in the register under its number, with the date on which it was last seen and by whom."
        for n, what in enumerate(("lamp", "bridge", "river", "garden", "engine", "letter", "window", "ladder", "mirror", "anchor"), 1)
    )
    + "\nReply with the single word: ready."
)  # fmt: skip


Tell = Callable[[str], None]
"""Told, in a few words, what a probe still waits for."""


def probe(
    target: Target, loop: Loop, transport: Transport, key: str | None = None, tell: Tell = lambda what: None
) -> ProbeReport:
    """Probe a target; an empty `target.model` takes the first one that it lists. Raises TargetError where it cannot be used.

    No request takes longer than `target.timeouts.total`; `tell` hears of one that takes longer than 5 s.
    """
    target = msgspec.structs.replace(target, stream=True, engine="fast", endpoint="chat/completions")
    dialect, pages = choose(target), Pages()
    with _patience(loop, tell, f"{target.url}/models"):
        served = preflight(loop, target, dialect, transport, key)
    if not target.model:
        if not served.models:
            raise TargetError(f"{served.unlisted or f'{target.url} lists no models'}: name one with --model")
        target = msgspec.structs.replace(target, model=served.models[0])
    if served.models:  # a target that does not even list them has no other page
        with _patience(loop, tell, "the target's other pages"):
            pages = Pages(served.models, _owners(loop, target, dialect, transport, key), _version(loop, target, transport))
    tap = _Tap(transport)
    client = FastClient(loop, target, dialect, tap, key)
    answers = []
    for turn, tokens in enumerate(LENGTHS):
        question = (Message("user", _QUESTION),)
        call = Call(model=target.model, messages=question, max_tokens=Tokens(tokens), sampling=Sampling(temperature=0.6))
        now_ns = loop.now_ns()
        ticket = Ticket(id=f"probe.{turn}", arrival=0, turn=turn, workload="probe", stage=0, item=0, scheduled_ns=now_ns)
        with _patience(loop, tell, f"{'the second' if turn else 'an'} answer of the model {target.model}"):
            result = client.send(ticket, client.prepare(call), Stream("probe", 0, now_ns)).result
        answers.append(Answer(result, tap.reads, tap.headers))
        if not turn:
            _check_answered(target, answers[0])
            loop.sleep_until(loop.now_ns() + REST_NS)  # so that the second shows whether the connection was kept
    return analyse(target, pages, answers)


def _check_answered(target: Target, answer: Answer) -> None:
    """Raise TargetError where the first question got no answer, or not the whole of one."""
    result, within = answer.result, f"within {min(target.timeouts.first_chunk, target.timeouts.total) / 1e9:g} s"
    if result.status not in (None, 200):
        why = f"HTTP {result.status}" + (f": {result.message}" if result.message else "")
    elif result.outcome is Outcome.TIMEOUT:
        why = f"the answer had not ended {within}: raise --timeout" if answer.reads else f"nothing came {within}"
    elif result.outcome is Outcome.CONNECT_ERROR:
        why = str(result.reason) + (f": {result.message}" if result.message else "")
    else:
        return
    raise TargetError(f"{target.url} does not answer a chat with the model {target.model}: {why}")


@contextmanager
def _patience(loop: Loop, tell: Tell, what: str) -> Iterator[None]:
    """Say what is waited for where it takes long."""

    def say(at_ns: int) -> None:
        loop.sleep_until(at_ns)
        tell(f"waiting for {what}")

    beside = loop.spawn(say, loop.now_ns() + _PATIENCE_NS)
    try:
        yield
    finally:
        beside.cancel()


class _Tap:
    """A transport that keeps what another one reads."""

    def __init__(self, transport: Transport) -> None:
        self._transport = transport
        self.reads: list[tuple[int, bytes]] = []
        self.headers: dict[str, str] = {}

    def exchange(self, request: HttpRequest, receiver: Receiver) -> Exchange:
        self.reads, self.headers = [], {}
        return self._transport.exchange(request, _Tapped(self, receiver))

    def close(self) -> None:
        self._transport.close()


class _Tapped:
    """A receiver that keeps each read on its way to another one."""

    def __init__(self, tap: _Tap, receiver: Receiver) -> None:
        self._tap = tap
        self._receiver = receiver
        self.on_connection = receiver.on_connection
        self.deadline_ns = receiver.deadline_ns

    def on_head(self, now_ns: int, status: int, headers: dict[str, str]) -> None:
        self._tap.headers = headers
        self._receiver.on_head(now_ns, status, headers)

    def on_body(self, now_ns: int, data: bytes) -> bool:
        self._tap.reads.append((now_ns, data))
        return self._receiver.on_body(now_ns, data)


def _get(loop: Loop, transport: Transport, path: str, headers: dict[str, str]) -> bytes | None:
    """Return the body of a page, None where there is none."""
    page = Page(loop.now_ns() + _PAGE_NS)
    try:
        transport.exchange(HttpRequest("GET", path, tuple(headers.items())), page)
    except TransportError:
        return None
    return page.body if page.status == 200 else None


class _Owned(msgspec.Struct):
    owned_by: str | None = None


class _Models(msgspec.Struct):
    data: list[_Owned]


class _VersionPage(msgspec.Struct):
    version: str


def _owners(loop: Loop, target: Target, dialect: Dialect, transport: Transport, key: str | None) -> tuple[str, ...]:
    headers = {name: value for name, value in dialect.headers(target, key).items() if name.lower() != "content-type"}
    body = _get(loop, transport, models_path(target.url), headers)
    try:
        models = msgspec.json.decode(body or b"", type=_Models).data
    except (msgspec.MsgspecError, RecursionError):
        return ()
    return tuple(sorted({model.owned_by for model in models if model.owned_by}))


def _version(loop: Loop, target: Target, transport: Transport) -> str | None:
    """Read the page that vLLM has at its root, without the key: it is nobody's API."""
    if not urlsplit(target.url).path.rstrip("/").endswith("/v1"):
        return None
    path = urlsplit(target.url).path.rstrip("/").removesuffix("/v1") + "/version"
    try:
        return msgspec.json.decode(_get(loop, transport, path, {"Accept": "application/json"}) or b"", type=_VersionPage).version
    except (msgspec.MsgspecError, RecursionError):
        return None
