"""How a request ended, and which outcome that is: design.md's table as one pure function."""

import math
from collections.abc import Mapping
from datetime import datetime
from email.utils import parsedate_to_datetime

import msgspec

from r1perf import clock
from r1perf.errors import TransportError
from r1perf.providers import Facts
from r1perf.providers.says import printable
from r1perf.result import Outcome

MESSAGE_CHARACTERS = 500
"""How much of a server's error text a result keeps."""

_OVERRULED = frozenset({Outcome.STREAM_BROKEN, Outcome.TIMEOUT, Outcome.CANCELLED})


class Ending(msgspec.Struct, frozen=True, kw_only=True):
    """What an engine saw of an exchange beside chunks and facts.

    `outcome`, `reason` and `message` are set where the exchange itself decided (a refusing status, a failed transport, a
    timeout, a cancel); they stay None where a body of a 2xx came to its end, and then the facts decide.
    """

    done_ns: int
    outcome: Outcome | None = None
    reason: str | None = None
    message: str | None = None
    status: int | None = None
    headers: Mapping[str, str] = {}  # of the response; names in lower case
    connect_ns: int | None = None
    head_ns: int | None = None
    local_port: int | None = None


def failed(error: TransportError) -> tuple[Outcome, str, str]:
    """Return outcome, reason and message of a failed exchange, as `Ending` takes them."""
    return Outcome(error.outcome), error.reason, str(error)


def unreadable(error: Exception) -> tuple[Outcome, str, str]:
    """Return outcome, reason and message of a response that made its reader fail, whatever with: the last resort."""
    kind = "" if isinstance(error, msgspec.MsgspecError | ValueError) else f"{type(error).__name__}: "
    return Outcome.STREAM_BROKEN, "malformed", f"the response cannot be read: {kind}{error}"


def judge(
    ending: Ending, facts: Facts, length_ordered: int | None = None, rerouted: str | None = None
) -> tuple[Outcome, str | None, str | None]:
    """Decide outcome, reason word and message.

    Success is a finish_reason and no error. An answer that had its finish_reason is whole, so a connection that broke,
    timed out or was cancelled behind it changes nothing. An error inside a 200 counts wherever it came. `rerouted` is what
    the dialect says of a response that did not come from where it was pinned to.
    """
    decided = ending.outcome
    if decided in _OVERRULED and facts.finish_reason is not None:
        decided = None
    if decided is Outcome.STREAM_BROKEN and facts.error is not None:  # the error says why it broke
        decided = None
    if decided is not None:
        return decided, ending.reason, _short(ending.message)
    finish = facts.finish_reason
    if facts.error is not None:
        return Outcome.STREAM_ERROR, facts.error_code or finish or "error", _short(facts.error)
    if finish is None:
        return Outcome.STREAM_BROKEN, "no_finish_reason", _unfinished(ending, facts)
    if finish == "content_filter":
        return Outcome.FILTERED, finish, None
    if rerouted is not None:
        return Outcome.REROUTED, "not_pinned", _short(rerouted)
    if finish == "length" and length_ordered is None:
        return Outcome.TRUNCATED, None, None
    return Outcome.OK, None, None


RETRY_AFTER_MOST_NS = 86_400e9
"""A server may ask for any number, and sums of it must stay numbers that can be written."""


def retry_after_ns(headers: Mapping[str, str]) -> int | None:
    """Read `retry-after-ms`, or `Retry-After` in seconds or as an HTTP date, counted from the response's own Date (RFC 9110, 10.2.3).

    None where there is none that can be read; never negative, and never more than a day.
    """
    for name, factor in (("retry-after-ms", 1e6), ("retry-after", 1e9)):
        try:
            value = float(headers[name])
        except (KeyError, ValueError):
            continue
        if math.isfinite(value):
            return round(max(0.0, min(value * factor, RETRY_AFTER_MOST_NS)))
    until = _date(headers.get("retry-after"))
    if until is None:
        return None
    said = _date(headers.get("date")) or clock.utc(clock.wall_ns())
    return round(max(0.0, min((until - said).total_seconds() * 1e9, RETRY_AFTER_MOST_NS)))


def _date(text: str | None) -> datetime | None:
    try:
        date = parsedate_to_datetime(text) if text else None
    except (ValueError, OverflowError):
        return None
    return date if date is not None and date.tzinfo is not None else None


def _unfinished(ending: Ending, facts: Facts) -> str:
    kind = ending.headers.get("content-type", "no content type").partition(";")[0]
    stray = f'; it held "{facts.stray_text}"' if facts.stray_text else ""
    return f"the response ({kind}) ended without a finish_reason{stray}"


def _short(text: str | None) -> str | None:
    if text is None:
        return None
    text = printable(text)  # it may quote a header or the name of a model
    return text if len(text) <= MESSAGE_CHARACTERS else text[: MESSAGE_CHARACTERS - 1] + "…"
