"""Read what a server says when something went wrong, in any of the shapes in which servers say it."""

import json
import re
from collections.abc import Iterable
from typing import Any

from r1perf.result import Outcome

SHORT = 300
"""Characters of a server's message that are kept."""

_KEY = re.compile(
    r"(?i:\bbearer\s+)[^\s\"',;]+"
    r"|\b(?:sk|pk|rk|r8|fw|gsk|hf|tgp|nvapi|AIza)[-_][\w*.\-]{4,}"
    r"|(?i:(?<=api key: )|(?<=api_key: )|(?<=api-key: )|(?<=api key provided: ))[^\s\"',;]+"
)
"""What looks like a key: servers quote the one that they refuse."""


_UNSHOWN = re.compile(r"[\x00-\x1f\x7f-\x9f\u202a-\u202e\u2066-\u2069]")
"""What a terminal obeys instead of showing it: control characters (C0 and C1, such as ESC), and what turns the text around it."""


_OURS: set[str] = set()


def conceal(key: str) -> None:
    """Have a key of this process shown nowhere, whatever it looks like: servers, and proxies on the way, quote what they were sent."""
    _OURS.add(key)


def concealed(text: str, secrets: Iterable[str]) -> str:
    """Put "[key]" in place of secrets; one of under 6 characters is hidden as a word alone, for it may be a part of any."""
    for secret in secrets:
        if secret:
            exact = re.escape(secret)
            text = re.sub(exact if len(secret) >= 6 else rf"(?<!\w){exact}(?!\w)", "[key]", text)
    return text


def printable(text: str) -> str:
    """Put U+FFFD in place of what a terminal would obey instead of showing it, and "[key]" in that of keys that are concealed."""
    return _UNSHOWN.sub("\ufffd", concealed(text, _OURS))


def shorten(text: str, limit: int = SHORT) -> str:
    """Make one line of a server's text, without markup, control characters or anything that looks like a key."""
    if re.match(r"\s*<(!doctype|html|\?xml|head|body)", text, re.IGNORECASE):
        text = re.sub(r"(?is)<(script|style)\b.*?</\1>|<!--.*?-->|<[^>]*>", " ", text[:20_000])
    text = _KEY.sub("[key]", printable(" ".join(text[:20_000].split()))[: 10 * limit])
    return text if len(text) <= limit else text[: limit - 1] + "…"


def unread(data: bytes | str) -> str:
    """Show what could not be read, shortened; of what began as JSON only the size, since it may hold an answer's text."""
    text = data if isinstance(data, str) else data[:20_000].decode("utf-8", "replace")
    return f"broken JSON, {len(data)} bytes" if text.lstrip("\ufeff \t\r\n").startswith(("{", "[")) else shorten(text)


def error_of(error: Any) -> tuple[str, str | None]:
    """Read the value of an `error` key: the message, shortened, and the code (or else the type), as text.

    Known shapes: {"message", "code", "type", "metadata": {"raw"}}, "text", {"object": "error", "message"}, FastAPI's
    {"detail": "text"} and {"detail": [{"loc", "msg"}]}, and nests of them.
    """
    if isinstance(error, list):
        return shorten("; ".join(_sentence(part) for part in error)), None
    if not isinstance(error, dict):
        return shorten(str(error)), None
    code = next((error[key] for key in ("code", "type", "status") if isinstance(error.get(key), str | int)), None)
    inner = next((error[key] for key in ("message", "error", "detail", "errors", "msg") if error.get(key)), None)
    if inner is None:
        text = json.dumps(error, ensure_ascii=False)
    elif isinstance(inner, str):
        metadata = error.get("metadata")
        raw = metadata.get("raw") if isinstance(metadata, dict) else None  # OpenRouter: the upstream's own words
        text = f"{inner}: {raw}" if isinstance(raw, str) and raw else inner
    else:
        text, nested = error_of(inner)
        code = code if nested is None else nested
    return shorten(text), None if code is None else printable(str(code))[:60]


def _sentence(part: Any) -> str:
    """Turn one entry of FastAPI's list into words."""
    if not isinstance(part, dict):
        return str(part)
    place = part.get("loc")
    words = str(part.get("msg") or part.get("message") or json.dumps(part, ensure_ascii=False))
    return f"{'.'.join(map(str, place))}: {words}" if isinstance(place, list) and place else words


def bare_error(raw: dict[str, Any]) -> Any:
    """Return an object without `choices` if it is an error that is not wrapped in `error`, else None.

    Older vLLM: {"object": "error", "message", "code"}. Gateways: {"message", "code"}, {"detail"}.
    """
    if raw.get("object") == "error" or raw.get("type") == "error":
        return raw
    named = isinstance(raw.get("message"), str) and any(key in raw for key in ("code", "status", "type"))
    return raw if named or raw.get("detail") else None


def message_of(body: bytes) -> str | None:
    """Return the message of an error response, whatever its type; None where it says nothing."""
    text = body[:100_000].decode("utf-8", "replace")
    try:
        parsed = json.loads(text)
    except (ValueError, RecursionError):
        return shorten(text) or None
    return (error_of(parsed)[0] or None) if parsed else None


def refusal(status: int, headers: dict[str, str], body: bytes) -> tuple[Outcome, str, str | None]:
    """Read an HTTP status other than 200 into outcome, reason word (`http_429`) and message.

    408 is a `client_error` as every other 4xx: the server gave up on the request, our own clock did not run out. Redirects
    are not followed, since a load test must not move to another host: they are the client's error too.
    """
    if status == 429:
        outcome = Outcome.RATE_LIMITED
    elif status in (503, 529):
        outcome = Outcome.OVERLOADED
    elif status >= 500 or status < 300:
        outcome = Outcome.SERVER_ERROR
    else:
        outcome = Outcome.CLIENT_ERROR
    message = message_of(body)
    if 300 <= status < 400:
        message = shorten(f"redirected to {headers.get('location', 'nowhere')}, which is not followed")
    return outcome, f"http_{status}", message
