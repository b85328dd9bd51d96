"""Find out before any scheduled request whether the target can be used: connect and TLS, then `GET {url}/models`."""

import os
from urllib.parse import urlsplit, urlunsplit

import msgspec

from r1perf.errors import TargetError, TransportError, UsageError
from r1perf.loop import Loop
from r1perf.providers import Dialect
from r1perf.providers.says import conceal, printable
from r1perf.target import Target
from r1perf.transport import HttpRequest, Transport
from r1perf.transport.request import header_fault

POLL_NS = 2_000_000_000
"""How often a target that is not ready is asked again (`wait_ready`)."""

ANSWER_NS = 30_000_000_000
"""How long `GET /models` may take (less where `timeouts.total` is); a server that needs longer for a list of names is not ready."""


class Served(msgspec.Struct, frozen=True):
    """What the target said of itself; `unlisted` says why its models are not known, where they are not."""

    models: tuple[str, ...] = ()
    notes: tuple[str, ...] = ()  # warnings, one sentence each
    unlisted: str | None = None


class _Model(msgspec.Struct):
    id: str


class _Models(msgspec.Struct):
    data: list[_Model]


def api_key(target: Target) -> str | None:
    """Read the key from the environment, and conceal it from now on; raises UsageError where the named variable is not set or no key."""
    if target.api_key_env is None:
        return None
    key = os.environ.get(target.api_key_env, "").strip()
    if not key:
        raise UsageError(
            f"the environment variable {target.api_key_env} is not set; `target.api_key_env` says that it holds the key"
        )
    if header_fault("Authorization", key) is not None:
        raise UsageError(
            f"the key in the environment variable {target.api_key_env} holds a line break or a character that is not ASCII"
        )
    conceal(key)
    return key


def preflight(loop: Loop, target: Target, dialect: Dialect, transport: Transport, key: str | None) -> Served:
    """Reach the target, waiting for it as long as `wait_ready` says; raises TargetError where it cannot be used."""
    until_ns = loop.now_ns() + int(target.wait_ready or 0)
    while True:
        try:
            return _ask(loop, target, dialect, transport, key)
        except _NotReadyError as error:
            if loop.now_ns() + POLL_NS > until_ns:
                raise TargetError(str(error)) from error
            loop.sleep_until(loop.now_ns() + POLL_NS)


class _NotReadyError(Exception):
    """The target may become usable: refused, timed out, 503."""


class Page:
    """Takes a page whole, status and body (4 MB at most), until a time."""

    def __init__(self, until_ns: int) -> None:
        self._until_ns = until_ns
        self.status = 0
        self.body = b""

    def on_connection(self, connect_ns: int | None, local_port: int) -> None:
        """Take no note of it."""

    def on_head(self, now_ns: int, status: int, headers: dict[str, str]) -> None:
        """Keep the status."""
        self.status = status

    def on_body(self, now_ns: int, data: bytes) -> bool:
        """Keep the body, within reason."""
        self.body += data[: (1 << 22) - len(self.body)]
        return False

    def deadline_ns(self) -> tuple[int, str]:
        """Bound the whole answer."""
        return self._until_ns, "total"


def models_path(url: str) -> str:
    """Return the path of the list of models under the target's URL, with its query."""
    parts = urlsplit(url)
    return urlunsplit(("", "", parts.path.rstrip("/") + "/models", parts.query, ""))


def _ask(loop: Loop, target: Target, dialect: Dialect, transport: Transport, key: str | None) -> Served:
    where = target.url
    most_ns = min(ANSWER_NS, target.timeouts.total)
    answer = Page(loop.now_ns() + most_ns)
    headers = {name: value for name, value in dialect.headers(target, key).items() if name.lower() != "content-type"}
    try:
        transport.exchange(HttpRequest("GET", models_path(target.url), tuple(headers.items())), answer)
    except TransportError as error:
        if not answer.status:  # else it is connected, and what its path answers is only a warning
            return _unanswered(error, target, most_ns / 1e9)
    if answer.status in (401, 403):
        had = (
            f"the key in {target.api_key_env}"
            if target.api_key_env
            else "a request without a key (`target.api_key_env` names none)"
        )
        raise TargetError(f"{where} refuses {had}: HTTP {answer.status}{_said(dialect, answer)}")
    if answer.status == 503:
        raise _NotReadyError(f"{where} is not ready: HTTP 503{_said(dialect, answer)}")
    if answer.status != 200:
        return _unknown(f"{where}/models answers HTTP {answer.status}")
    try:
        models = tuple(model.id for model in msgspec.json.decode(answer.body, type=_Models).data)
    except (msgspec.MsgspecError, RecursionError):
        return _unknown(f"{where}/models is not a list of models")
    if models and target.model not in models:
        shown = printable(", ".join(models[:8])) + (", ..." if len(models) > 8 else "")
        return Served(models, (f"{where} does not list the model `{target.model}`; it lists {shown}",))
    return Served(models)


def _unanswered(error: TransportError, target: Target, seconds: float) -> Served:
    """Tell a target that cannot be used, now or ever, from one whose list of models alone may be slow."""
    if error.reason == "total":
        says = f"{target.url}/models does not answer within {seconds:g} s"
        if target.wait_ready:
            raise _NotReadyError(says) from error
        return _unknown(says)
    sentence = f"{target.url} cannot be reached: {error}"
    if error.reason.startswith("tls") or error.reason == "dns":
        raise TargetError(sentence) from error
    # Closed without a word, too: so does a container's proxy while nothing listens behind it.
    raise _NotReadyError(sentence) from error


def _unknown(says: str) -> Served:
    return Served(notes=(f"{says}: the models served are not known beforehand",), unlisted=says)


def _said(dialect: Dialect, answer: Page) -> str:
    message = dialect.refusal(answer.status, {}, answer.body)[2]
    return f" ({message})" if message else ""
